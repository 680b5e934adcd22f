"""Architecture tests: allowed dependencies, read from the imports."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(f.relative_to(ROOT) for top in ("app", "core") for f in (ROOT / top).rglob("*.py"))


def imported(source: str, deep: bool = True, where: object = "") -> set[str]:
    """Return every module that a source imports; with deep=False only those at its top level."""
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


# The layers of core, from the bottom up: a package imports itself and packages in lower layers.
# Packages of the same layer do not import each other.
LAYERS = (
    ("core.typed", "core.kinds", "core.micro"),
    ("core.config", "core.files", "core.frozen", "core.fair_lock"),
    ("core.device", "core.cluster"),
    ("core.command", "core.text"),
    ("core.data",),
    ("core.model",),
    ("core.accelerate", "core.search"),
    ("core.checkpoint",),
    ("core.record",),
    ("core.analysis",),
    ("core.training", "core.parity", "core.experiments", "core.foreign"),
    ("core.atlas", "core.small"),
    ("core.translator",),
    ("core.serving",),
    ("core.benchmarks",),
    tuple(
        f"core.{name}"
        for name in ("train", "evaluate", "translate", "verify", "analyse", "convert", "benchmark")
    ),
)
MODULES = {
    ".".join(f.with_suffix("").parts).removesuffix(".__init__"): f
    for f in FILES
    if within(f, "core")
}
del MODULES["core"]
NUMERIC = {"numpy", "scipy"}
# The modules behind a record, which need only numpy (and pandas, imported on demand for tables).
PLAIN = {
    *("core.config", "core.kinds", "core.files", "core.frozen", "core.typed"),
    "core.checkpoint.strict_json",
    *(
        f"core.record.{name}"
        for name in (
            "archive",
            "canonical",
            "card",
            "edits",
            "hidden_states",
            "limits",
            "parts",
            "placed",
            "record",
            "softmax",
            "state_edits",
            "words",
        )
    ),
    *(
        f"core.record.adapters.{name}"
        for name in (
            *("arrays", "ends", "fields", "generate", "map_checks", "steps", "tokens"),
            *("transformer_lens", "values", "vocabulary"),
        )
    ),
}


def package_of(module: str) -> str | None:
    """Return the entry of LAYERS that a module belongs to, or None."""
    packages = (package for layer in LAYERS for package in layer)
    return next((p for p in packages if module == p or module.startswith(f"{p}.")), None)


def layer_of(package: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if package in layer)


def violations(module: str, source: str) -> list[str]:
    """Return a core module's violations of the rules: forbidden imports and names."""
    found = []
    names, own = imported(source), package_of(module)
    roots = {name.split(".")[0] for name in names}
    if bad := roots & {"app", "tests", "streamlit", "plotly", "playwright"}:
        found.append(f"imports {', '.join(bad)}")
    for name in names:
        package = package_of(name)
        if package not in (None, own) and layer_of(package) >= layer_of(own):
            found.append(f"imports {name}, which is not in a lower layer")
    if module in PLAIN or own == "core.analysis":
        outside = roots - set(sys.stdlib_module_names) - NUMERIC - {"core"}
        top_level = {name.split(".")[0] for name in imported(source, deep=False)}
        ours = {name for name in names if module in PLAIN and name.startswith("core")}
        above = {
            name for name in ours if name not in PLAIN and name.rpartition(".")[0] not in PLAIN
        }
        if outside - ({"pandas"} - top_level) or above:
            found.append("imports more than numpy")
    if module != "core.benchmark" and {"importlib", "runpy"} & roots | set(
        re.findall(r"\b__import__\b", source)
    ):
        found.append("imports by a computed name")
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.search(r"(?<![\w./-])(app|tests)([./]\w|/?$)", text):
            found.append(f"names {text[:60]!r}")
    return found


def test_core_modules_import_only_lower_layers():
    packages = {package for layer in LAYERS for package in layer}
    assert {package_of(module) for module in MODULES} == packages
    assert {
        module: found
        for module, file in MODULES.items()
        if (found := violations(module, (ROOT / file).read_text(encoding="utf-8")))
    } == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.benchmark", "from tests.app import explorer_harness"),
        ("core.parity.checklist", "def run():\n    import streamlit as st"),
        ("core.benchmark", "HARNESS = ROOT / 'tests' / 'app'"),
        ("core.record.record", "name = 'app.export.page'"),
        ("core.record.record", "import importlib\nimportlib.import_module(''.join(parts))"),
        ("core.record.record", "__import__(name)"),
        ("core.record.record", "import torch"),
        ("core.record.record", "import pandas"),
        ("core.record.record", "from core.record.capture import capture"),
        ("core.analysis.roles", "import torch"),
        ("core.search.beam", "from core import record"),
        ("core.training.job", "def run():\n    from core.evaluate import evaluate"),
        ("core.translate", "from core import evaluate"),
    ],
)
def test_violations_are_detected(module, source):
    assert violations(module, "import math") == []
    assert violations(module, source)


def test_no_circular_imports():
    """Modules never import each other, not even for types or within functions."""
    modules = {".".join(file.with_suffix("").parts): file for file in FILES}
    graph = {
        module: {name for name in imports(file) if name in modules and name != module}
        for module, file in modules.items()
    }
    assert sum(map(len, graph.values())) > 1000
    TopologicalSorter(graph).prepare()
    graph["core.text.tokenizer"].add("core.translator")
    with pytest.raises(CycleError, match=r"core\.text\.tokenizer"):
        TopologicalSorter(graph).prepare()


def test_records_and_analysis_are_loaded_without_torch():
    modules = [m for m in MODULES if package_of(m) == "core.analysis"] + sorted(PLAIN)
    code = (
        f"import sys, {', '.join(modules)}; "
        "sys.exit(bool({'torch', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_first_page_is_loaded_without_torch():
    """The page's shell is painted while torch is being loaded."""
    body = ast.parse((ROOT / "app/views/translate.py").read_text(encoding="utf-8")).body
    lines = [ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    code = "\n".join([*lines, "import sys", "sys.exit('torch' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_import_rules_of_app():
    broken = []
    for file in (f for f in FILES if within(f, "app")):
        forbidden, texts = {"torch"}, ()
        if within(file, "app", "look"):
            forbidden |= {"streamlit", "plotly"}
            others = {name for name in imports(file) if name.startswith("app.")}
            if any(not name.startswith("app.lessons") for name in others):
                broken.append(f"{file} imports app")
        if within(file, "app", "figures"):
            forbidden |= {"streamlit"}
        if not within(file, "app", "state"):
            texts = ("core.translator", "st.cache_", "st.session_state", "st.query_params")
        if bad := roots(file) & forbidden:
            broken.append(f"{file} imports {bad}")
        if bad := imports(file, deep=False) & {"spacy", "core.translator", "core.text.words"}:
            broken.append(f"{file} imports {bad} at its top level")
        text = (ROOT / file).read_text(encoding="utf-8")
        broken += [f"{file}: {name} belongs in app/state" for name in texts if name in text]
    assert broken == []


def test_private_streamlit_apis_are_used_in_one_file():
    """Streamlit promises stability only for `st` itself; `delta_generator` is needed for types."""
    private = re.compile(
        r"(from|import) streamlit\.(?!delta_generator)|from streamlit import|\bst\._[a-z]"
    )
    users = {
        str(file)
        for file in FILES
        if private.search((ROOT / file).read_text(encoding="utf-8")) and within(file, "app")
    }
    assert users == {"app/streamlit_internals.py"}


def test_every_module_has_a_docstring():
    sources = {file: ast.parse((ROOT / file).read_text(encoding="utf-8")) for file in FILES}
    assert [f for f, tree in sources.items() if tree.body and not ast.get_docstring(tree)] == []


def test_no_pickle_is_read():
    for file in FILES:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "torch.load(" not in text and "import pickle" not in text, file


def test_no_html_is_built():
    for file in [*(ROOT / "app").rglob("*.py"), *(ROOT / "app").rglob("*.js")]:
        text = file.read_text(encoding="utf-8")
        assert "innerHTML" not in text and "unsafe_allow_html" not in text, file


def test_external_text_is_never_markdown():
    """Error messages may contain file names: show them through app.look.markdown.plain."""
    unescaped = []
    for file in (f for f in FILES if within(f, "app")):
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if called and node.func.attr in ("error", "warning", "info") and node.args:
                text = node.args[0]
                is_plain = isinstance(text, ast.Call) and getattr(text.func, "id", "") == "plain"
                if not is_plain and not isinstance(text, ast.Constant | ast.JoinedStr):
                    unescaped.append(f"{file}:{node.lineno}")
    assert unescaped == []


def test_no_module_of_the_app_shadows_the_standard_library():
    """`streamlit run app/main.py` puts app/ first on the path."""
    names = {f.stem for f in (ROOT / "app").iterdir()}
    assert not names & set(sys.stdlib_module_names)


def test_the_entry_point_runs_from_any_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "app/main.py")], cwd=tmp_path, capture_output=True, text=True
    )
    assert "ModuleNotFoundError" not in done.stderr
    assert done.returncode == 0, done.stderr[-2000:]
