"""Parse untrusted JSON strictly, with limits on its size and depth."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from core.files import MAX_CONFIG_BYTES, safe_read

_MAX_DEPTH = 8


def read_small(file: Path) -> Any:
    """Read a small JSON file. Raises ValueError and OSError."""
    return parse(safe_read(file, MAX_CONFIG_BYTES), MAX_CONFIG_BYTES)


def parse(content: bytes, max_items: int, finite: bool = True) -> Any:
    """Parse a JSON text of at most `max_items` items (commas and colons) and 8 levels.

    Raises a one-line ValueError for a larger or deeper text, for invalid JSON, for a name that
    occurs twice in an object, for text that is not UTF-8, and, if `finite`, for NaN and infinity.
    """
    items = content.count(b",") + content.count(b":")
    if items > max_items:
        raise ValueError(f"{items:,} items, the limit is {max_items:,}")
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse if finite else float,
        )
    except RecursionError:
        too_deep = True
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start:,}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos:,}") from None
    else:
        too_deep = _too_deep(value)
    if too_deep:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{twice[:80]!r} occurs twice in one object")
    return values


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(value, list | dict) for value in level)
