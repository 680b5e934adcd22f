"""JSON as strangers may have written it: read strictly, and refused before it costs anything."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from core.files import MAX_CONFIG_BYTES, safe_read

_DEEPEST = 8


def read_small(file: Path) -> Any:
    """The value of a small JSON file. Raises ValueError and OSError."""
    return parse(safe_read(file, MAX_CONFIG_BYTES), MAX_CONFIG_BYTES)


def parse(content: bytes, most_items: int, finite: bool = True) -> Any:
    """The value of a JSON text, at most so many items long and 8 levels deep.

    Raises ValueError, in one line, for more, and for what JSON does not allow or leaves open:
    names twice in one object, text that is not UTF-8, and unless `finite` is off NaN and infinity.
    """
    items = content.count(b",") + content.count(b":")
    if items > most_items:
        raise ValueError(f"{items:,} items, the limit is {most_items:,}")
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse if finite else float,
        )
    except RecursionError:
        deep = True
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start:,}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos:,}") from None
    else:
        deep = _deeper(value)
    if deep:
        raise ValueError(f"nested deeper than {_DEEPEST} levels")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{twice[:80]!r} stands twice in one object")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _deeper(value: Any) -> bool:
    """Whether a value has more levels than it may."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(value, list | dict) for value in level)
