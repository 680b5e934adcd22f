"""Short captions of Multi30k, on which a small network learns to translate within minutes."""

from __future__ import annotations

from pathlib import Path

from core.data.corpora import read_pairs

CAPTIONS = "captions"
"""The name of the task."""
SIDES = ("de", "en")
MOST_WORDS = 8
"""The most words of a caption, on either side."""
MOST_PAIRS = 5_000


def short_captions(data: Path | None = None) -> tuple[tuple[str, str], ...]:
    """Return the first short German captions of the training set with their translations.

    A caption that occurs more than once is read once, so that none is in training and test.
    Raises ValueError as `read_pairs` does.
    """
    found: dict[str, str] = {}
    for source, target in read_pairs("multi30k", "train", *SIDES, data):
        if max(len(side.split()) for side in (source, target)) <= MOST_WORDS:
            found.setdefault(source, target)
    return tuple(found.items())[:MOST_PAIRS]
