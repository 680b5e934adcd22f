"""The import rules of the house, read from the imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(f.relative_to(ROOT) for part in ("app", "core") for f in (ROOT / part).rglob("*.py"))


def imports(file: Path, deep: bool = True) -> set[str]:
    """Every module a file imports by name; with deep=False only at its top level."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree) if deep else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(file: Path, *parts: str) -> bool:
    return file.is_relative_to(Path(*parts))


def roots(file: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(file)}


def test_there_is_something_to_check():
    assert len(FILES) > 30


@pytest.mark.parametrize("file", FILES, ids=str)
def test_import_rules(file):
    if within(file, "core"):
        assert not roots(file) & {"app", "streamlit", "plotly"}
    if file == Path("core/record/record.py"):
        outside = roots(file) - set(sys.stdlib_module_names)
        assert outside == {"numpy"}
    if within(file, "app", "figures"):
        assert not roots(file) & {"streamlit", "torch"}
    if within(file, "app"):
        assert "torch" not in roots(file)
        assert not imports(file, deep=False) & {"spacy", "core.translator", "core.text.words"}
        if file != Path("app/session.py"):
            assert "core.translator" not in imports(file)
            text = (ROOT / file).read_text(encoding="utf-8")
            for forbidden in ("st.cache_", "st.session_state", "st.query_params"):
                assert forbidden not in text, f"{forbidden} belongs in app/session.py"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_module_says_its_one_job(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), f"{file} opens without a sentence"


def test_the_readme_names_every_file():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    scripts = [*(ROOT / "app").rglob("*.js"), *(ROOT / "tests").rglob("test_*.py")]
    for file in [*FILES, *scripts]:
        assert file.name in readme, f"{file} is missing from the README's tree"


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
    """An error's text may hold a file's name: it is said through app.markdown.plain."""
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
