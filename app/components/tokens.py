"""Serialises a token for the components; `shared/labels.js` makes its label."""

from __future__ import annotations

from typing import Any

_FLAGS = ("starts_word", "special", "unknown")


def sent(token: Any) -> dict[str, Any]:
    """Return the fields of a `RecordToken` that are shown; flags only if true."""
    return {"id": token.id, "text": token.text} | {
        flag: True for flag in _FLAGS if getattr(token, flag)
    }
