"""The import rules of the house, read from the imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(f.relative_to(ROOT) for part in ("app", "core") for f in (ROOT / part).rglob("*.py"))


def imported(source: str, deep: bool = True, where: object = "") -> set[str]:
    """Every module a source imports by name; with deep=False only at its top level."""
    tree = ast.parse(source)
    found = set()
    for node in ast.walk(tree) if deep else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where}: relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imports(file: Path, deep: bool = True) -> set[str]:
    return imported((ROOT / file).read_text(encoding="utf-8"), deep, file)


def within(file: Path, *parts: str) -> bool:
    return file.is_relative_to(Path(*parts))


def roots(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(file)}


def test_there_is_something_to_check():
    assert len(FILES) > 30
    assert {room_of(module) for module in MODULES} == {room for level in ROOMS for room in level}


# The rooms of core, from the ground up: a module imports its own room and those below it. Rooms of
# one level do not know each other.
ROOMS = (
    ("core.config", "core.kinds", "core.files", "core.frozen", "core.fair_lock"),
    ("core.device",),
    ("core.command", "core.text"),
    ("core.data",),
    ("core.model",),
    ("core.accelerate", "core.search"),
    ("core.checkpoint",),
    ("core.record",),
    ("core.analysis",),
    ("core.training", "core.parity", "core.experiments"),
    ("core.translator",),
    ("core.serving",),
    ("core.benchmarks",),
    tuple(
        f"core.{name}"
        for name in ("train", "evaluate", "translate", "verify", "analyse", "benchmark")
    ),
)
MODULES = {
    ".".join(f.with_suffix("").parts).removesuffix(".__init__"): f
    for f in FILES
    if within(f, "core")
}
del MODULES["core"]
NUMBERS = {"numpy", "scipy"}  # what records and the questions asked of them are made with
# What a record is made of; pandas is imported only when a table is asked for.
PLAIN = {
    *("core.config", "core.kinds", "core.files", "core.frozen"),
    "core.checkpoint.strict_json",
    *(
        f"core.record.{name}"
        for name in ("archive", "card", "edits", "hidden_states", "record", "softmax", "words")
    ),
}


def room_of(module: str) -> str | None:
    """The room that a module stands in, or None."""
    rooms = (room for level in ROOMS for room in level)
    return next((r for r in rooms if module == r or module.startswith(f"{r}.")), None)


def level_of(room: str) -> int:
    return next(i for i, level in enumerate(ROOMS) if room in level)


def broken(module: str, source: str) -> list[str]:
    """What a module of core imports or names against the rules."""
    found = []
    names, own = imported(source), room_of(module)
    roots = {name.split(".")[0] for name in names}
    if bad := roots & {"app", "tests", "streamlit", "plotly", "playwright"}:
        found.append(f"imports {', '.join(bad)}")
    for name in names:
        room = room_of(name)
        if room not in (None, own) and level_of(room) >= level_of(own):
            found.append(f"imports {name}, which stands above or beside it")
    if module in PLAIN or own == "core.analysis":
        outside = roots - set(sys.stdlib_module_names) - NUMBERS - {"core"}
        at_once = {name.split(".")[0] for name in imported(source, deep=False)}
        ours = {name for name in names if module in PLAIN and name.startswith("core")}
        above = {
            name for name in ours if name not in PLAIN and name.rpartition(".")[0] not in PLAIN
        }
        if outside - ({"pandas"} - at_once) or above:
            found.append("imports more than numpy")
    if module != "core.benchmark" and {"importlib", "runpy"} & roots | set(
        re.findall(r"\b__import__\b", source)
    ):
        found.append("imports by a name that nobody can read here")
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.search(r"(?<![\w./-])(app|tests)([./]\w|/?$)", text):
            found.append(f"names {text[:60]!r}")
    return found


@pytest.mark.parametrize("module", MODULES)
def test_the_rooms_of_core(module):
    assert broken(module, (ROOT / MODULES[module]).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.record.record", "import app.export"),
        ("core.benchmark", "from tests.app import explorer_harness"),
        ("core.parity.checklist", "def run():\n    import streamlit as st"),
        ("core.record.record", "name = 'app.export.page'"),
        ("core.benchmark", "HARNESS = ROOT / 'tests/app/explorer_harness.py'"),
        ("core.benchmark", "HARNESS = ROOT / 'tests' / 'app'"),
        ("core.record.record", "import importlib\nimportlib.import_module(''.join(parts))"),
        ("core.record.record", "__import__(name)"),
        ("core.record.record", "import torch"),
        ("core.record.record", "from core.device import pick_device"),
        ("core.record.record", "from core.record.capture import capture"),
        ("core.record.record", "import pandas"),
        ("core.record.card", "import torch"),
        ("core.record.edits", "from core.record.editing import edited"),
        ("core.record.hidden_states", "def f():\n    from core.record.evidence import Evidence"),
        ("core.analysis.roles", "import torch"),
        ("core.analysis.roles", "from core.experiments.values import value_norms"),
        ("core.search.tree", "from core.record.record import RecordToken"),
        ("core.search.beam", "from core import record"),
        ("core.search.beam", "from core.checkpoint.folder import load"),
        ("core.training.data", "from core.translator import Translator"),
        ("core.training.job", "def run():\n    from core.evaluate import evaluate"),
        ("core.training.snapshots", "from core.experiments.values import value_norms"),
        ("core.model.transformer", "import core.search.beam"),
        ("core.text.words", "from core.data.corpora import LANGUAGES"),
        ("core.translate", "from core import evaluate"),
        ("core.translator", "from core.serving.backend import InspectRequest"),
    ],
)
def test_a_broken_rule_is_seen(module, source):
    assert broken(module, "import math") == []
    assert broken(module, source)


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, or none."""
    done: set[str] = set()

    def walk(path: list[str]) -> list[str]:
        for name in sorted(edges.get(path[-1], ())):
            if name in path:
                return path[path.index(name) :]
            if name not in done and (ring := walk([*path, name])):
                return ring
        done.add(path[-1])
        return []

    rings = (walk([name]) for name in edges if name not in done)
    return next((ring for ring in rings if ring), [])


def test_no_two_modules_import_each_other():
    edges = {
        module: {name for name in imports(file) if name in MODULES and name != module}
        for module, file in MODULES.items()
    }
    assert sum(map(len, edges.values())) > 100
    assert circle(edges) == []
    edges["core.text.tokenizer"].add("core.translator")
    assert {"core.text.tokenizer", "core.translator"} <= set(circle(edges))


def test_records_and_analysis_are_loaded_without_torch():
    modules = [m for m in MODULES if room_of(m) == "core.analysis"] + sorted(PLAIN)
    code = (
        f"import sys, {', '.join(modules)}; "
        "sys.exit(bool({'torch', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("file", FILES, ids=str)
def test_import_rules(file):
    if within(file, "app", "look"):
        assert not roots(file) & {"streamlit", "torch", "plotly"}
        assert not any(name.startswith("app.") for name in imports(file))
    if within(file, "app", "figures"):
        assert not roots(file) & {"streamlit", "torch"}
    if within(file, "app"):
        assert "torch" not in roots(file)
        assert not imports(file, deep=False) & {"spacy", "core.translator", "core.text.words"}
        if not within(file, "app", "state"):
            text = (ROOT / file).read_text(encoding="utf-8")
            for forbidden in (
                "core.translator",
                "st.cache_",
                "st.session_state",
                "st.query_params",
            ):
                assert forbidden not in text, f"{forbidden} belongs in app/state"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_module_says_its_one_job(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), f"{file} opens without a sentence"


def test_no_pickle_is_read():
    for file in FILES:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "torch.load(" not in text and "import pickle" not in text, file


def test_no_html_is_built():
    for file in [*(ROOT / "app").rglob("*.py"), *(ROOT / "app").rglob("*.js")]:
        text = file.read_text(encoding="utf-8")
        assert "innerHTML" not in text and "unsafe_allow_html" not in text, file


@pytest.mark.parametrize("file", [f for f in FILES if within(f, "app")], ids=str)
def test_what_comes_from_outside_is_no_markdown(file):
    """An error's text may hold a file's name: it is said through app.look.markdown.plain."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if called and node.func.attr in ("error", "warning", "info") and node.args:
            said = node.args[0]
            is_plain = isinstance(said, ast.Call) and getattr(said.func, "id", "") == "plain"
            numbers = isinstance(said, ast.Constant | ast.JoinedStr)
            assert is_plain or numbers, f"{file}:{node.lineno}"


def test_no_module_of_the_app_hides_the_standard_library():
    """`streamlit run app/main.py` puts app/ first on the path."""
    names = {f.stem for f in (ROOT / "app").iterdir()}
    assert not names & set(sys.stdlib_module_names)


def test_the_entry_finds_the_project_from_anywhere(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "app/main.py")], cwd=tmp_path, capture_output=True, text=True
    )
    assert "ModuleNotFoundError" not in done.stderr
    assert done.returncode == 0, done.stderr[-2000:]
