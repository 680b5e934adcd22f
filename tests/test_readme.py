"""The READMEs: the example runs, modules, files, commands and scores are those that are there."""

import ast
import json
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "app")
READMES = ("README.md", *(f"{room}/README.md" for room in (*ROOMS, "checkpoints")))
_FILE = re.compile(r"[\w./-]*(?:/|\w\.(?:py|js|css|html|json|md|png|svg|toml|txt|safetensors))")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tree(room: str, text: str) -> dict[str, str]:
    """What a README's tree says of each file and folder, by its path; a folder's ends with /."""
    block = re.search(rf"^```\n({room}/.*?)^```$", text, re.M | re.S)
    entries: dict[str, str] = {}
    above: list[str] = []
    for line in block[1].splitlines() if block else ():
        indent, name, said = re.fullmatch(r"((?: {4})*)(\S+) *(.*)", line).groups()
        above[len(indent) // 4 :] = [name]
        assert "".join(above) not in entries, f"{''.join(above)} stands there twice"
        entries["".join(above)] = said
    return entries


def opening(path: Path) -> str | None:
    """The sentence that a module opens with; None where a file has none to repeat."""
    if path.is_dir():
        path /= "__init__.py"
    if path.suffix not in (".py", ".js") or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    return text.split("\n")[0].removeprefix("// ").removesuffix(".") or None


def wrong_in_tree(room: str, text: str) -> list[str]:
    """What a room's tree lacks, has too many, or says otherwise than the file itself."""
    entries = tree(room, text)
    files = (f for f in (ROOT / room).rglob("*") if f.suffix in (".py", ".js", ".css", ".html"))
    modules = {str(f.relative_to(ROOT)).removesuffix("__init__.py") for f in files}
    found = [f"{name} is missing" for name in sorted(modules - entries.keys())]
    for name, said in entries.items():
        sentence = opening(ROOT / name)
        if not (ROOT / name).exists():
            found.append(f"{name} is not there")
        elif not said or said != (sentence or said):
            found.append(f"of {name} it says {said!r}: the file says {sentence!r}")
    return found


def not_there(readme: str, text: str) -> list[str]:
    """Files and folders that a README names, by their path from the root or from its own folder."""
    folders = [ROOT, (ROOT / readme).parent]
    if readme == "checkpoints/README.md":
        folders += [ROOT / name for name in tree("checkpoints", text)]  # which hold the same files
    code = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    words = [word for span in code for word in span.split()]
    named = {word for word in words if _FILE.fullmatch(word)} | set(
        re.findall(r"\]\(([^)]+)\)", text)
    )
    assert named
    return [name for name in sorted(named) if not any((f / name).exists() for f in folders)]


def refused(text: str) -> list[str]:
    """Commands of a README whose module, arguments or checkpoint do not exist."""
    found = []
    for module, rest in re.findall(r" -m ((?:core|tests)\.[\w.]+)([^`\n<]*)", text):
        try:
            if module.startswith("core."):
                given = import_module(module).parser().parse_args(shlex.split(rest))
                checkpoint = getattr(given, "checkpoint", None)
                assert checkpoint is None or (ROOT / checkpoint).is_dir()
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
        except (AssertionError, ImportError, SystemExit):
            found.append(f"{module}{rest}")
    return found


def numbers(row: str) -> list[str]:
    return re.findall(r"\d+\.\d+", row)


def wrong_scores(first: str, all_of_them: str) -> list[str]:
    """Rows of scores that say otherwise than `metrics.json` or than the first README's table."""
    found = []
    tests: dict[str, list[str]] = {}
    for name, corpus, row in re.findall(
        r"^\| `([\w-]+)` \| (multi30k|tatoeba) \|(.*)", all_of_them, re.M
    ):
        val, test, *_ = numbers(row)
        tests.setdefault(name, []).append(test)
        metrics = json.loads(read(f"checkpoints/{name}/metrics.json"))
        if val != f"{metrics['final'][corpus]['sacrebleu']:.2f}":
            found.append(f"{name}, {corpus}: {val} on val")
    shown = {name: numbers(row) for name, row in re.findall(r"^\| `([\w-]+)` \|(.*)", first, re.M)}
    return found + [name for name in tests.keys() | shown.keys() if tests[name] != shown.get(name)]


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_readme_has_every_module_and_its_sentence(room):
    text = read(f"{room}/README.md")
    assert len(tree(room, text)) > 60
    assert wrong_in_tree(room, text) == []


def test_the_readme_of_checkpoints_has_every_network_that_it_scores():
    """Others may stand there too: whoever trains a network puts it there."""
    text = read("checkpoints/README.md")
    assert wrong_in_tree("checkpoints", text) == []
    scored = set(re.findall(r"^\| `([\w-]+)` \| (?:multi30k|tatoeba) \|", text, re.M))
    assert tree("checkpoints", text).keys() == {"checkpoints/"} | {
        f"checkpoints/{name}/" for name in scored
    }


@pytest.mark.parametrize("readme", READMES)
def test_the_files_and_commands_of_a_readme_are_there(readme):
    assert not_there(readme, read(readme)) == []
    assert refused(read(readme)) == []


def test_scores_are_those_of_the_networks():
    assert wrong_scores(read("README.md"), read("checkpoints/README.md")) == []


def test_the_first_readme_is_read_in_two_screens():
    assert len(read("README.md").split()) <= 1200


@pytest.mark.parametrize(
    ("wrong", "readme", "old", "new"),
    [
        (wrong_in_tree, "core", r"^ +beam\.py.*\n", ""),
        (wrong_in_tree, "core", r"^ +beam\.py( .*)", r"        bean.py\1"),
        (wrong_in_tree, "core", r"(beam\.py +)Greedy", r"\1Gready"),
        (wrong_in_tree, "core", r"(    search/ +)\w", r"\1X"),
        (wrong_in_tree, "app", r"^ +readout\.js.*\n", ""),
        (wrong_in_tree, "app", r"^ +map_row\.css.*\n", ""),
        (wrong_in_tree, "app", r"(readout\.js +)\w", r"\1X"),
        (wrong_in_tree, "checkpoints", r"    scratch-de-en/ ", "    scratch-de-fr/ "),
        (not_there, "core/README.md", r"`search/beam\.py`", "`search/bean.py`"),
        (not_there, "app/README.md", r"`app/`|`state/`", "`states/`"),
        (not_there, "checkpoints/README.md", r"`metrics\.json`", "`metric.json`"),
        (not_there, "README.md", r"\(core/README\.md\)", "(core/READ.md)"),
        (not_there, "README.md", r"run app/main\.py", "run app/start.py"),
        (refused, "README.md", r"-m core\.verify", "-m core.verified"),
        (refused, "README.md", r"--gold", "--golden"),
        (refused, "README.md", r"translate --checkpoint checkpoints/s", "translate --checkpoint s"),
        (refused, "checkpoints/README.md", r"--recipe tiny", "--recipe tinny"),
        (refused, "core/README.md", r"core\.bench_model", "core.bench_modal"),
    ],
)
def test_a_fault_in_a_readme_is_seen(wrong, readme, old, new):
    text = read(f"{readme}/README.md" if wrong is wrong_in_tree else readme)
    changed = re.sub(old, new, text, flags=re.M)
    assert changed != text
    given = () if wrong is refused else (readme,)
    assert wrong(*given, text) == []
    assert wrong(*given, changed)


@pytest.mark.parametrize(("old", "new"), [("44.01", "44.10"), ("45.50", "45.05")])
def test_a_wrong_score_is_seen(old, new):
    first, all_of_them = read("README.md"), read("checkpoints/README.md")
    assert wrong_scores(first, all_of_them.replace(old, new))
    assert old not in first or wrong_scores(first.replace(old, new), all_of_them)


def test_the_example_runs(tmp_path):
    """In a folder of its own, for it saves a file, beside a link to the checkpoints that ship."""
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
