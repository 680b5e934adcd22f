"""What is sent of a token to a canvas: its words, made visible, and what kind of token it is."""

from __future__ import annotations

from typing import Any

from app.look.labels import label, segments
from core.record.words import is_punctuation


def described(token: Any) -> dict[str, Any]:
    """A `RecordToken` in the form that `tokens.js` reads.

    `parts` splits the label where a hidden character's name stands, as [text, is a name]; without
    one it is left out.
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
    """Its label, with a hyphen before what goes on inside a word."""
    inside = not (token.starts_word or token.special or is_punctuation(token.text))
    return f"\u2010{label(token)}" if inside else label(token)
