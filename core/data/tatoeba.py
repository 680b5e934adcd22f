"""Everyday sentences from Tatoeba, with a held-out validation and test set."""

import hashlib
import re
import zipfile
import zlib
from pathlib import Path

HOLD_OUT = 1000
_MAX_BYTES = 512 << 20  # of unpacked text; the real file has about 50 MB
_BLANKS = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u00ad": None, "\u200b": None})

Pairs = list[tuple[str, str]]


def read(file: Path) -> Pairs:
    """Read (German, English) pairs from manythings.org's zip of `English<tab>German` lines.

    Special spaces become the plain spaces that users type; invisible characters are dropped. Raises
    ValueError for any other file.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            if (size := archive.getinfo("deu.txt").file_size) > _MAX_BYTES:
                raise ValueError(f"it unpacks to {size:,} bytes, the limit is {_MAX_BYTES:,}")
            text = archive.read("deu.txt").decode("utf-8").translate(_BLANKS)
    # zipfile raises RuntimeError for encryption and NotImplementedError for unknown compression.
    except (
        *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError, EOFError),
        *(RuntimeError, NotImplementedError),
    ) as error:
        raise ValueError(f"{file} is not Tatoeba's deu-eng.zip: {error}") from None
    columns = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return [(german, english) for english, german, *_ in columns]


def split(pairs: Pairs) -> dict[str, Pairs]:
    """Split into `test` and `val` with 1,000 pairs each, and `train` without their sentences.

    English sentences, each with its first German translation, are ordered by their SHA-256. The
    first thousand pairs with distinct sides are `test`, the next thousand `val`. Sentences that
    differ only in case, punctuation and spacing count as the same, on either side.
    """
    first: dict[str, str] = {}
    for german, english in pairs:
        first.setdefault(english, german)
    seen: set[tuple[int, str]] = set()
    held_out: Pairs = []
    for english in sorted(first, key=lambda e: hashlib.sha256(e.encode()).digest()):
        keys = {(0, _key(first[english])), (1, _key(english))}
        if not keys & seen:
            held_out.append((first[english], english))
            seen |= keys
        if len(held_out) == 2 * HOLD_OUT:
            break
    train = [p for p in pairs if not {(0, _key(p[0])), (1, _key(p[1]))} & seen]
    return {"test": held_out[:HOLD_OUT], "val": held_out[HOLD_OUT:], "train": train}


def _key(sentence: str) -> str:
    return re.sub(r"[\W_]+", " ", sentence.casefold()).strip()
