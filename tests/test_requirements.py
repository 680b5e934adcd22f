"""Every package is pinned and locked by its hashes, and what SECURITY.md promises has its test."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import core

ROOT = Path(__file__).resolve().parents[1]
LOCKS = {
    "requirements.txt": "requirements.lock",
    "tests/requirements.txt": "tests/requirements.lock",
}
ALL_LOCKS = [*LOCKS.values(), "requirements-cpu.lock", "requirements-cuda.lock"]


def pins(file: str) -> dict[str, str]:
    """The version of each package that a file names; a line that pins nothing fails."""
    found = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", " ")):
            name, version = re.fullmatch(r"([\w.-]+)==([\w.+]+)(?: ;.*?)?(?: \\)?", line).groups()
            assert canonicalize_name(name) not in found, f"{name} is pinned twice"
            found[canonicalize_name(name)] = version
    return found


def needed(names: set[str]) -> set[str]:
    """These packages and all that they bring along here, as what is installed says."""
    found, open_names = set(), set(names)
    while open_names:
        name = open_names.pop()
        found.add(name)
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or marker.evaluate(default_environment() | {"extra": ""}):
                open_names.add(canonicalize_name(requirement.name))
        open_names -= found
    return found


@pytest.mark.parametrize("file", LOCKS)
def test_a_lock_holds_what_its_requirements_pin(file):
    assert pins(LOCKS[file]) == pins(file)


@pytest.mark.parametrize("lock", ALL_LOCKS)
def test_each_pin_has_hashes_and_no_address(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text and " @ " not in text
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pins(lock)) > 0
    for entry in entries:
        head, *hashes = re.sub(r" \\\n", "\n", entry).splitlines()
        assert hashes, f"{head} has no hash"
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line) for line in hashes), head


def test_nothing_comes_along_that_is_not_pinned():
    """The app's and the tests' own, against what the installed packages say that they need."""
    run, tests = pins("requirements.txt"), pins("tests/requirements.txt")
    assert not set(run) & set(tests)
    cuda = set(pins("requirements-cuda.lock"))
    assert needed(set(run)) - cuda <= set(run)
    found = needed(set(run) | set(tests)) - cuda
    assert found <= set(run) | set(tests)
    if sys.platform == "linux":  # elsewhere one or the other is not needed
        assert found == set(run) | set(tests)
    for name, version in (run | tests).items():
        assert metadata.version(name).split("+")[0] == version, name


def test_tests_are_no_part_of_what_the_app_needs():
    run = pins("requirements.txt")
    assert not {"pytest", "playwright", "hypothesis", "ruff", "ty", "execnet"} & set(run)


def test_make_installs_by_hash_alone():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in recipe.splitlines() if "pip install" in line]
    assert len(installs) == 2  # the wheels, and the project itself, which needs nothing more
    assert "--require-hashes --no-deps --only-binary :all:" in installs[0]
    assert "--no-deps --no-build-isolation --editable ." in installs[1]
    for lock in ALL_LOCKS:
        assert f"$(WHEELS) --requirement {lock}" in recipe


def test_every_promise_names_a_test_that_is_there():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promises = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(promises) >= 10
    for line in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", line)
        assert named, line
        for file, name in named:
            assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), (file, name)


def test_the_changelog_names_the_version():
    released = core.__version__.removesuffix(".dev0")
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(released)}\b", text, re.M)
