"""Reads the files of the canvas components and joins their ES modules into one script."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from app.look.palette import PALETTES, diverging_table, sequential_table

_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (default )?(?=(?:async )?function |class |const |let )", re.MULTILINE
)
_DECLARATION = re.compile(
    r"^(export (?:default )?)?(?:async )?(?:function|class|const|let) +(\w+)", re.MULTILINE
)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class ScriptError(ValueError):
    """Modules that cannot be joined: what stands where, in one line."""


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Module:
    """One file: what it takes from which others, and what it declares, exports and does."""

    imports: dict[Path, tuple[str, ...]]
    declared: tuple[str, ...]
    exported: frozenset[str]
    body: str


def joined(*entries: Path) -> str:
    """Modules and all that they import in one scope, each after those that it imports.

    An import is `import { a, b } from "./file.js";`, an export stands before what it exports: what
    the joined script needs neither of is left out. So are indentation, blank lines, and comments on
    lines of their own: Streamlit sends all scripts along with every change of the data.

    Raises ScriptError for an import of a file that is not there, or of a name that the file does
    not export, for modules that import each other, for two that declare the same name, and for
    another form of import or export.
    """
    modules: dict[Path, _Module] = {}
    for entry in entries:
        _collect(entry.resolve(), modules, ())
    owners: dict[str, Path] = {}
    for file, module in modules.items():
        for name in module.declared:
            if name in owners:
                both = f"{_name(owners[name])} and {_name(file)}"
                raise ScriptError(f"{both} both declare {name}: in one scope a name is one thing")
            owners[name] = file
    return "\n".join(module.body for module in modules.values() if module.body)


def as_module(script: str) -> str:
    """A joined script as Streamlit takes it: one module whose default export is `render`."""
    return f"{script}\nexport default render;"


def _collect(file: Path, modules: dict[Path, _Module], above: tuple[Path, ...]) -> None:
    """Add a module to `modules`, behind all that it imports; `above` are those on the way to it."""
    if file in above:
        circle = [*above[above.index(file) :], file]
        raise ScriptError(f"{' → '.join(map(_name, circle))}: these modules import each other")
    if file in modules:
        return
    parsed = _parsed(file)
    for other, names in parsed.imports.items():
        if not other.is_file():
            raise ScriptError(f"{_name(file)} imports {_name(other)}, which is not there")
        _collect(other, modules, (*above, file))
        for name in names:
            if name not in modules[other].exported:
                missing = f"imports {name} from {_name(other)}, which does not export it"
                raise ScriptError(f"{_name(file)} {missing}")
    modules[file] = parsed


def _parsed(file: Path) -> _Module:
    text = _without_comments(read(file))
    imports = {}
    for names, where in _IMPORT.findall(text):
        imports[(file.parent / where).resolve()] = tuple(re.findall(r"[^\s,]+", names))
    text = _IMPORT.sub("", text)
    declared, exported = [], set()
    for export, name in _DECLARATION.findall(text):
        declared.append(name)
        if export:
            exported.add(name)
    text = _EXPORT.sub("", text)
    if left := _LEFT_OVER.search(text):
        raise ScriptError(f"{_name(file)}: cannot join {left[0]!r}")
    lines = (line.strip() for line in text.splitlines())
    return _Module(imports, tuple(declared), frozenset(exported), "\n".join(filter(None, lines)))


def _without_comments(script: str) -> str:
    """Without the comments that stand on lines of their own."""
    text = re.sub(r"^ */\*(?:(?!\*/).)*\*/\n", "", script, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^ *//.*\n", "", text, flags=re.MULTILINE)


def _name(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def palette(root: str) -> str:
    """The page's colours as CSS variables of the selector `root`, for light and dark.

    Page and first ink are the page's own. `--sequential` and `--diverging` are the two tables, a
    string of six hexadecimal digits a step. `theme.js` sets `data-theme` and reads them all.
    """
    rules = []
    for name, colours in PALETTES.items():
        variables = {field.name.replace("_", "-"): getattr(colours, field.name)
                     for field in fields(colours)}  # fmt: skip
        variables |= {
            "page": f"var(--st-background-color, {colours.page})",
            "ink": f"var(--st-text-color, {colours.ink})",
            "ink2": variables.pop("second"),
            "ink3": variables.pop("third"),
            "sequential": f'"{sequential_table(name).astype("u1").tobytes().hex()}"',
            "diverging": f'"{diverging_table(name).astype("u1").tobytes().hex()}"',
        }
        where = f'{root}[data-theme="{name}"]'
        if not rules:
            where = f"{root}, {where}"  # until a script has read the page
        lines = "".join(f" --{variable}: {value};" for variable, value in variables.items())
        rules.append(f"{where} {{{lines} }}")
    return "\n".join(rules)
