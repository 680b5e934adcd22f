"""Packages are pinned and locked by hash, and each guarantee in SECURITY.md names a test."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

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
    """Return the pinned version of each package in a file; every line must pin one."""
    found = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", " ")):
            name, version = re.fullmatch(r"([\w.-]+)==([\w.+]+)(?: ;.*?)?(?: \\)?", line).groups()
            assert canonicalize_name(name) not in found, f"{name} is pinned twice"
            found[canonicalize_name(name)] = version
    return found


def needed(names: set[str]) -> set[str]:
    """Return these packages and their transitive dependencies, from the installed metadata."""
    found, pending = set(), set(names)
    while pending:
        name = pending.pop()
        found.add(name)
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or marker.evaluate(default_environment() | {"extra": ""}):
                pending.add(canonicalize_name(requirement.name))
        pending -= found
    return found


def test_locks_match_their_requirements():
    assert {lock: pins(lock) for lock in LOCKS.values()} == {
        lock: pins(file) for file, lock in LOCKS.items()
    }


def test_every_locked_package_has_hashes_and_no_url():
    for lock in ALL_LOCKS:
        text = (ROOT / lock).read_text(encoding="utf-8")
        assert "://" not in text and " @ " not in text, lock
        entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
        assert len(entries) == len(pins(lock)) > 0, lock
        for entry in entries:
            head, *hashes = re.sub(r" \\\n", "\n", entry).splitlines()
            valid = [re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line) for line in hashes]
            assert valid and all(valid), (lock, head)


def test_all_transitive_dependencies_are_pinned():
    run, tests = pins("requirements.txt"), pins("tests/requirements.txt")
    assert not set(run) & set(tests)
    assert not {"pytest", "playwright", "hypothesis", "ruff", "ty", "execnet"} & set(run)
    cuda = set(pins("requirements-cuda.lock"))
    assert needed(set(run)) - cuda <= set(run)
    found = needed(set(run) | set(tests)) - cuda
    assert found <= set(run) | set(tests)
    if sys.platform == "linux":  # some are not needed on other platforms
        assert found == set(run) | set(tests)
    for name, version in (run | tests).items():
        assert metadata.version(name).split("+")[0] == version, name


def test_make_installs_by_hash_only():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in recipe.splitlines() if "pip install" in line]
    assert len(installs) == 2  # the wheels, and the project itself
    assert "--require-hashes --no-deps --only-binary :all:" in installs[0]
    assert "--no-deps --no-build-isolation --editable ." in installs[1]
    for lock in ALL_LOCKS:
        assert f"$(WHEELS) --requirement {lock}" in recipe


def test_every_guarantee_names_an_existing_test():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    guarantees = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(guarantees) >= 10
    for line in guarantees:
        tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", line)
        assert tests, line
        for file, name in tests:
            assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), (file, name)


def test_the_changelog_names_the_version():
    released = core.__version__.removesuffix(".dev0")
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(released)}\b", text, re.M)


def test_the_citation_has_the_version_and_licence_of_the_package() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([a-z-]+): \"?([^\"#\n]+?)\"?(?: #.*)?$", cited, re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert fields["cff-version"] == "1.2.0" and fields["type"] == "software"
    assert {"title", "message"} < set(fields) and "authors:\n  - name: " in cited
    assert fields["version"] == core.__version__
    assert fields["license"] == project["license"].split(" AND ")[0]
