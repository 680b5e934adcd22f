"""Write the lock files: every pinned package with the SHA-256 of each of its wheels.

`make lock` runs this script, which needs `uv` on the path and access to the package index.
Packages that only torch's CUDA build needs get their own lock file, so that machines without a GPU
do not download them. requirements-cpu.lock is maintained by hand.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CUDA = re.compile(r"cuda-|nvidia-|triton==")
ELSEWHERE = re.compile(r"httpx2-jsfetch==")  # needed only by Python in a browser
HEADER = "# Made by `make lock` from {}: do not edit.\n"
COMPILE = """uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
    --no-annotate --no-emit-index-url --no-emit-find-links --only-binary :all:"""


def compiled(*files: str) -> dict[str, str]:
    """Return the lock entries of all packages that the files need, keyed by "name==version"."""
    text = subprocess.run([*COMPILE.split(), *files], cwd=ROOT, check=True, capture_output=True)
    entries = re.split(r"^(?=\w)", text.stdout.decode(), flags=re.MULTILINE)
    entries = [entry for entry in entries if "==" in entry and not ELSEWHERE.match(entry)]
    return {re.split(r"[ \\]", entry)[0]: entry for entry in entries}


def write(file: str, source: str, entries: dict[str, str]) -> None:
    """Write one lock file: the header, then the entries."""
    (ROOT / file).write_text(HEADER.format(source) + "".join(entries.values()), encoding="utf-8")


def main() -> None:
    run = compiled("requirements.txt")
    both = compiled("requirements.txt", "tests/requirements.txt")
    write(
        "requirements.lock",
        "requirements.txt",
        {pin: entry for pin, entry in run.items() if not CUDA.match(pin)},
    )
    write(
        "requirements-cuda.lock",
        "torch's CUDA build",
        {pin: entry for pin, entry in run.items() if CUDA.match(pin)},
    )
    write(
        "tests/requirements.lock",
        "tests/requirements.txt",
        {pin: entry for pin, entry in both.items() if pin not in run},
    )


if __name__ == "__main__":
    main()
