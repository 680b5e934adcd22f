"""Modules are joined by what they import, and what cannot be joined is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from app.components.assets import ScriptError, as_module, joined

COMPONENTS = Path(__file__).parents[2] / "app/components"
ENTRIES = (
    "explorer/main.js",
    "map_row/main.js",
    "beam_tree/main.js",
    "token_table/table.js",
    "one_line/one_line.js",
    "address/address.js",
)


def written(folder: Path, **scripts: str) -> Path:
    """Modules in a folder `place`; the path of the one named `main`."""
    (folder / "place").mkdir()
    for name, script in scripts.items():
        (folder / "place" / f"{name}.js").write_text(script, encoding="utf-8")
    return folder / "place/main.js"


def test_each_module_stands_once_and_behind_what_it_imports(tmp_path: Path) -> None:
    main = written(
        tmp_path,
        main="""// What it is.

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
    assert joined(main) == script
    assert joined(main.with_name("a.js"), main) == script
    assert as_module(script) == f"{script}\nexport default render;"


@pytest.mark.parametrize(
    ("scripts", "line"),
    [
        (
            {"a": "const one = 1;\nexport const two = 2;\n", "b": "function one() {}\n"},
            "place/a.js and place/b.js both declare one: in one scope a name is one thing",
        ),
        (
            {"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'},
            "place/a.js → place/b.js → place/a.js: these modules import each other",
        ),
        (
            {"a": 'import { gone } from "./b.js";\n', "b": "const gone = 1;\n"},
            "place/a.js imports gone from place/b.js, which does not export it",
        ),
        ({"a": 'import { x } from "./c.js";\n', "b": ""}, "place/c.js, which is not there"),
        ({"a": 'import x from "./b.js";\n', "b": ""}, "place/a.js: cannot join 'import x from"),
        ({"a": "export { x };\n", "b": ""}, "place/a.js: cannot join 'export { x };'"),
    ],
)
def test_what_cannot_be_joined_is_said_in_one_line(tmp_path: Path, scripts, line: str) -> None:
    of_main = 'import {} from "./a.js";\nimport {} from "./b.js";\n'
    main = written(tmp_path, main=of_main, **scripts)
    with pytest.raises(ScriptError) as error:
        joined(main)
    assert line in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_browser_takes_every_component_as_one_module(page: Page, entry: str) -> None:
    script = as_module(joined(COMPONENTS / entry))
    assert "import " not in [line[:7] for line in script.splitlines()]
    load = """async (script) => {
      const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      return Object.entries(await import(url)).map(([name, value]) => [name, value.name]);
    }"""
    assert page.evaluate(load, script) == [["default", "render"]]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_browser_takes_the_modules_as_they_are(page: Page, entry: str) -> None:
    """The joined script and the files themselves are the same program: the browser joins too."""

    def served(route) -> None:
        file = COMPONENTS / route.request.url.removeprefix("http://modules/")
        if file.suffix == ".js":
            route.fulfill(body=file.read_text(encoding="utf-8"), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    page.route("http://modules/**", served)
    page.goto("http://modules/")
    load = "async (entry) => Object.keys(await import(`/${entry}`))"
    assert page.evaluate(load, entry) == ["default"]
