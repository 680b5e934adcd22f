"""The READMEs match the project: example, file trees, paths, commands and scores."""

import ast
import json
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("core", "app")
READMES = (
    "README.md",
    *(f"{folder}/README.md" for folder in (*PACKAGES, "checkpoints", "app/export")),
)
BUILT = {"headlight.html": "page", "site/index.html": "site"}
"""The `make` target that writes each file."""
_FILE = re.compile(r"[\w./-]*(?:/|\w\.(?:py|js|css|html|json|md|png|svg|toml|txt|safetensors))")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tree(folder: str, text: str) -> dict[str, str]:
    """Parse a README's file tree: descriptions by path; paths of folders end with /."""
    block = re.search(rf"^```\n({folder}/.*?)^```$", text, re.M | re.S)
    entries: dict[str, str] = {}
    path: list[str] = []
    for line in block[1].splitlines() if block else ():
        indent, name, description = re.fullmatch(r"((?: {4})*)(\S+) *(.*)", line).groups()
        path[len(indent) // 4 :] = [name]
        assert "".join(path) not in entries, f"{''.join(path)} is listed twice"
        entries["".join(path)] = description
    return entries


def listed(file: Path) -> bool:
    """Return whether a tree lists a file; pages are listed in `app/views/__init__.py` already."""
    return file.parent != ROOT / "app/views" or file.name == "__init__.py"


def opening(path: Path) -> str | None:
    """Return the first line of a module's docstring or opening comment, without a full stop.

    Return None for other files.
    """
    if path.is_dir():
        path /= "__init__.py"
    if path.suffix not in (".py", ".js") or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    return text.split("\n")[0].removeprefix("// ").removesuffix(".") or None


def tree_errors(folder: str, text: str) -> list[str]:
    """Return missing, extra and outdated entries of a file tree; `make format` fixes them."""
    entries = tree(folder, text)
    files = (f for f in (ROOT / folder).rglob("*") if f.suffix in (".py", ".js", ".css", ".html"))
    modules = {str(f.relative_to(ROOT)).removesuffix("__init__.py") for f in files if listed(f)}
    found = [f"{name} is not listed" for name in sorted(modules - entries.keys())]
    for name, description in entries.items():
        sentence = opening(ROOT / name)
        if not (ROOT / name).exists():
            found.append(f"{name} does not exist")
        elif not description or description != (sentence or description):
            found.append(f"{name}: listed as {description!r}, but its docstring is {sentence!r}")
    return found


def missing_paths(readme: str, text: str) -> list[str]:
    """Return paths in a README that exist neither from the root nor from the README's folder."""
    folders = [ROOT, (ROOT / readme).parent]
    if readme == "checkpoints/README.md":
        folders += [ROOT / name for name in tree("checkpoints", text)]  # each has the same files
    code = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    words = [word for span in code for word in span.split()]
    named = {word for word in words if _FILE.fullmatch(word)} | set(
        re.findall(r"\]\(([^)]+)\)", text)
    )
    assert named
    named -= BUILT.keys()
    return [name for name in sorted(named) if not any((f / name).exists() for f in folders)]


def invalid_commands(text: str) -> list[str]:
    """Return commands whose module, arguments or checkpoint do not exist."""
    found = []
    for module, rest in re.findall(r" -m ((?:core|tests)\.[\w.]+)([^`\n<]*)", text):
        try:
            if module.startswith("core."):
                options = import_module(module).parser().parse_args(shlex.split(rest))
                checkpoint = getattr(options, "checkpoint", None)
                assert checkpoint is None or (ROOT / checkpoint).is_dir()
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
        except (AssertionError, ImportError, SystemExit):
            found.append(f"{module}{rest}")
    return found


def numbers(row: str) -> list[str]:
    return re.findall(r"\d+\.\d+", row)


def wrong_scores(summary: str, details: str) -> list[str]:
    """Compare the scores in checkpoints/README.md with `metrics.json` and with the main README."""
    found = []
    tests: dict[str, list[str]] = {}
    for name, corpus, row in re.findall(
        r"^\| `([\w-]+)` \| (multi30k|tatoeba) \|(.*)", details, re.M
    ):
        val, test, *_ = numbers(row)
        tests.setdefault(name, []).append(test)
        metrics = json.loads(read(f"checkpoints/{name}/metrics.json"))
        if val != f"{metrics['final'][corpus]['sacrebleu']:.2f}":
            found.append(f"{name}, {corpus}: {val} on val")
    shown = {
        name: numbers(row) for name, row in re.findall(r"^\| `([\w-]+)` \|(.*)", summary, re.M)
    }
    return found + [name for name in tests.keys() | shown.keys() if tests[name] != shown.get(name)]


def test_file_trees_list_every_module_with_its_docstring():
    errors = []
    for package in PACKAGES:
        text = read(f"{package}/README.md")
        assert len(tree(package, text)) > 60
        errors += tree_errors(package, text)
    assert errors == []


def test_checkpoints_are_listed_and_scored():
    """Other folders may exist: networks that the user has trained."""
    text = read("checkpoints/README.md")
    assert tree_errors("checkpoints", text) == []
    scored = set(re.findall(r"^\| `([\w-]+)` \| (?:multi30k|tatoeba) \|", text, re.M))
    assert tree("checkpoints", text).keys() == {"checkpoints/"} | {
        f"checkpoints/{name}/" for name in scored
    }


def test_paths_and_commands_exist():
    texts = {readme: read(readme) for readme in READMES}
    assert {r: paths for r, text in texts.items() if (paths := missing_paths(r, text))} == {}
    assert {r: commands for r, text in texts.items() if (commands := invalid_commands(text))} == {}


def test_built_files_are_those_that_make_writes_and_git_ignores():
    ignored = read(".gitignore").splitlines()
    for file, target in BUILT.items():
        done = subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True
        )
        out = re.search(r"--out (\S+)", done.stdout)[1]
        assert file in (out, f"{out}/index.html")
        patterns = (f"{line}*" if line.endswith("/") else line for line in ignored)
        assert any(fnmatch(f"/{file}", pattern) for pattern in patterns)
    first = re.search(r"^```\n(make \w+)", read("README.md"), re.M)[1]
    assert first == "make page"
    assert re.search(r"\[!\[.*\]\(app/screenshot\.png\)\]\(headlight\.html\)", read("README.md"))


def test_scores_are_those_of_the_networks():
    assert wrong_scores(read("README.md"), read("checkpoints/README.md")) == []


def test_the_main_readme_is_short():
    assert len(read("README.md").split()) <= 1200


def test_speed_is_given_in_one_table_with_command_machine_and_commit():
    for package in PACKAGES:
        speed = read(f"{package}/README.md").partition("\n## Speed\n")[2].partition("\n## ")[0]
        measured = [p for p in speed.split("\n\n") if re.search(r"^\|.*\d\.?\d", p, re.M)]
        assert len(measured) == 1, measured
        before = speed[: speed.index(measured[0])]
        assert re.search(r"`python -m core\.benchmark \w+", before)
        assert re.search(r"commit `[0-9a-f]{7,}`", before) and re.search("Intel|AMD", before)


def test_the_example_runs(tmp_path):
    """The example saves a file, so run it in a temporary folder that links to the checkpoints."""
    (example,) = re.findall(r"^```python\n(.*?)^```$", read("README.md"), re.M | re.S)
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
