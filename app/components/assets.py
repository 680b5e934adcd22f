"""Reads the components' files and bundles their ES modules into one script."""

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
    """Raised when modules cannot be bundled; the message is one line."""


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Module:
    """One module: imported names per file, declared and exported names, and the body."""

    imports: dict[Path, tuple[str, ...]]
    declared: tuple[str, ...]
    exported: frozenset[str]
    body: str


def joined(*entries: Path) -> str:
    """Bundle modules and their imports into one scope, dependencies first.

    Supports `import { a, b } from "./file.js";` and `export` before a declaration. Removes
    import lines, the word `export`, indentation, blank lines and whole-line comments.

    Raises ScriptError for a missing file or export, circular imports, a name declared by two
    modules, and any other form of import or export.
    """
    modules: dict[Path, _Module] = {}
    for entry in entries:
        _collect(entry.resolve(), modules, ())
    owners: dict[str, Path] = {}
    for file, module in modules.items():
        for name in module.declared:
            if name in owners:
                both = f"{_name(owners[name])} and {_name(file)}"
                raise ScriptError(f"{both} both declare {name}: bundled modules share one scope")
            owners[name] = file
    return "\n".join(module.body for module in modules.values() if module.body)


def as_module(script: str, entry: str = "render") -> str:
    """Turn a bundled script into the module that Streamlit expects: it exports `entry`."""
    return f"{script}\nexport default {entry};"


def _collect(file: Path, modules: dict[Path, _Module], above: tuple[Path, ...]) -> None:
    """Add a module to `modules`, after its imports; `above` is the chain of importing modules."""
    if file in above:
        cycle = [*above[above.index(file) :], file]
        raise ScriptError(f"{' → '.join(map(_name, cycle))}: circular import")
    if file in modules:
        return
    parsed = _parsed(file)
    for other, names in parsed.imports.items():
        if not other.is_file():
            raise ScriptError(f"{_name(file)} imports {_name(other)}, which does not exist")
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
        raise ScriptError(f"{_name(file)}: cannot bundle {left[0]!r}")
    lines = (line.strip() for line in text.splitlines())
    return _Module(imports, tuple(declared), frozenset(exported), "\n".join(filter(None, lines)))


def _without_comments(script: str) -> str:
    """Remove comments that take up whole lines."""
    text = re.sub(r"^ */\*(?:(?!\*/).)*\*/\n", "", script, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^ *//.*\n", "", text, flags=re.MULTILINE)


def _name(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def palette(root: str) -> str:
    """Return the palette as CSS variables on the selector `root`, for light and dark.

    Background and text colour follow Streamlit's theme. `--sequential` and `--diverging` are the
    colour tables, six hexadecimal digits per step. `theme.js` sets `data-theme` and reads the
    variables.
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
            where = f"{root}, {where}"  # until theme.js has set data-theme
        lines = "".join(f" --{variable}: {value};" for variable, value in variables.items())
        rules.append(f"{where} {{{lines} }}")
    return "\n".join(rules)
