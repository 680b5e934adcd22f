"""Describes a token for the components: its label, with invisible characters shown, and kind."""

from __future__ import annotations

from typing import Any

from app.look.labels import label, segments
from core.record.words import is_punctuation


def described(token: Any) -> dict[str, Any]:
    """Return a `RecordToken` in the form that `shared/tokens.js` reads.

    `parts` splits the label into [text, whether it names an invisible character]; it is omitted if
    no character is invisible.
    """
    parts = [[text, hidden] for text, hidden in segments(token.text)]
    shown = {
        "label": label(token),
        "start": bool(token.starts_word),
        "special": bool(token.special),
        "unknown": bool(token.unknown),
        "punctuation": not token.special and is_punctuation(token.text),
    }
    return shown | ({"parts": parts} if any(hidden for _, hidden in parts) else {})


def short(token: Any) -> str:
    """Return the label, with a hyphen in front if the token continues a word."""
    inside = not (token.starts_word or token.special or is_punctuation(token.text))
    return f"\u2010{label(token)}" if inside else label(token)
