"""Another version of the project, to compare with."""

import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def extracted(ref: str, folder: Path) -> Path:
    """Extract the files of a commit, tag or branch into a new folder inside `folder`; return it.

    Raises ValueError if the project's source folder has no such commit.
    """
    archive = subprocess.run(["git", "archive", ref], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise ValueError(f"no commit {ref!r} in {ROOT}: {archive.stderr.decode().strip()}")
    packed = folder / "archive.tar"
    packed.write_bytes(archive.stdout)
    with tarfile.open(packed) as tar:
        tar.extractall(folder / "tree", filter="data")
    packed.unlink()
    return folder / "tree"
