"""The bundler orders modules by their imports, or explains in one line why it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.components.assets import ScriptError, as_module, joined, palette
from app.export.offline import colours

COMPONENTS = Path(__file__).parents[2] / "app/components"


def written(folder: Path, **scripts: str) -> Path:
    """Write modules to the folder `place`; return the path of `main`."""
    (folder / "place").mkdir()
    for name, script in scripts.items():
        (folder / "place" / f"{name}.js").write_text(script, encoding="utf-8")
    return folder / "place/main.js"


def test_modules_are_bundled_once_and_after_their_imports(tmp_path):
    main = written(
        tmp_path,
        main="""// A header.

import { b } from "./b.js";
import { a } from "./a.js";

/* why
   so */
export default function render() {
  return a + b;  // kept
}
""",
        b='import { a } from "./a.js";\nexport const b = a + "import { x } of nothing";\n',
        a="let kept = 0;\nexport async function a() {}\nexport class C {}\n",
    )
    script = """let kept = 0;
async function a() {}
class C {}
const b = a + "import { x } of nothing";
function render() {
return a + b;  // kept
}"""
    assert joined(main) == joined(main.with_name("a.js"), main) == script
    assert as_module(script) == f"{script}\nexport default render;"


@pytest.mark.parametrize(
    ("a", "b", "line"),
    [
        (
            "const one = 1;\nexport const two = 2;\n",
            "function one() {}\n",
            "place/a.js and place/b.js both declare one: bundled modules share one scope",
        ),
        (
            'import { b } from "./b.js";\n',
            'import { a } from "./a.js";\n',
            "place/a.js → place/b.js → place/a.js: circular import",
        ),
        (
            'import { hidden } from "./b.js";\n',
            "const hidden = 1;\n",
            "place/a.js imports hidden from place/b.js, which does not export it",
        ),
        ('import { x } from "./c.js";\n', "", "place/c.js, which does not exist"),
        ('import x from "./b.js";\n', "", "place/a.js: cannot bundle 'import x from"),
        ("export { x };\n", "", "place/a.js: cannot bundle 'export { x };'"),
    ],
)
def test_what_cannot_be_bundled_is_one_line(tmp_path, a, b, line):
    main = written(tmp_path, main='import {} from "./a.js";\nimport {} from "./b.js";\n', a=a, b=b)
    with pytest.raises(ScriptError) as error:
        joined(main)
    assert line in str(error.value) and "\n" not in str(error.value)


HOSTS = {
    *("explorer/streamlit.js", "training/host.js", "question/main.js", "shared/url.js"),
    *("answers/answers.js", "address/address.js", "notebook/notebook.js"),
    # Only Streamlit mounts these components.
    *("map_row/main.js", "beam_tree/main.js", "atlas/main.js", "atlas/panel.js"),
    *("figure_one/main.js", "merges/main.js", "navigation/main.js", "states/main.js"),
}
ONLY_HOSTS = re.compile(
    r"setStateValue|setTriggerValue|\bhistory\b|\blocation\b|URLSearchParams|popstate|streamlit"
    r"|\b(?:alone|isAlone|inApp|offline|embedded)\b"
)


def test_only_hosts_know_the_page_around_a_component():
    """Other scripts use no Streamlit setter, no URL and no flag for the kind of page."""
    found = {}
    for file in COMPONENTS.rglob("*.js"):
        name = str(file.relative_to(COMPONENTS))
        script = re.sub(r"/\*.*?\*/|^ *//[^\n]*", "", file.read_text("utf-8"), flags=re.M | re.S)
        if name not in HOSTS and not name.startswith("offline/") and name != "types.js":
            found[name] = ONLY_HOSTS.findall(re.sub(r"^import .*$", "", script, flags=re.M))
    assert len(found) > 40
    assert {name: words for name, words in found.items() if words} == {}


def test_each_colour_that_a_style_names_is_defined():
    """A name that nothing defines leaves the inherited colour, without any error."""
    missing = []
    for style in COMPONENTS.rglob("*.css"):
        folder = style.parent
        texts = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.[cj]s*"))
        page = colours() if folder.name == "offline" else palette(".any")
        defined = set(re.findall(r"(--[\w-]+)(?=: )", page + texts))
        defined |= set(re.findall(r"""["'](--[\w-]+)["']""", texts))
        # A name with a fallback is Streamlit's.
        used = re.findall(r"var\((--[\w-]+)\)", style.read_text(encoding="utf-8"))
        missing += [f"{style.name}: {name}" for name in used if name not in defined]
    assert not missing
