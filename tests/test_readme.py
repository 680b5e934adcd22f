"""The example in the README runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_example_runs(tmp_path):
    """In a folder of its own, for it saves a file, beside a link to the checkpoints that ship."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    assert 20 <= len(example.splitlines()) <= 32
    (tmp_path / "checkpoints").symlink_to(ROOT / "checkpoints")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "<eos> ←" in done.stdout and "Männer" in done.stdout
    assert (tmp_path / "record.npz").stat().st_size > 1000
