"""Everyday sentences of Tatoeba, and the hold-out that is never trained on."""

import hashlib
import re
import zipfile
import zlib
from pathlib import Path

HOLD_OUT = 1000
_LARGEST = 512 << 20  # bytes of its text, which has some 50 MB
_BLANKS = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u00ad": None, "\u200b": None})

Pairs = list[tuple[str, str]]


def read(file: Path) -> Pairs:
    """(German, English) pairs of the zip that manythings.org gives out: `English<tab>German`.

    Special blanks become plain ones, for nobody types them. Raises ValueError for another file.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            if (size := archive.getinfo("deu.txt").file_size) > _LARGEST:
                raise ValueError(f"it unpacks to {size:,} bytes, the limit is {_LARGEST:,}")
            text = archive.read("deu.txt").decode("utf-8").translate(_BLANKS)
    # The last two are zipfile's own of an encrypted file, and of one that is packed otherwise.
    except (
        *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError, EOFError),
        *(RuntimeError, NotImplementedError),
    ) as error:
        raise ValueError(f"{file} is not Tatoeba's deu-eng.zip: {error}") from None
    columns = (line.split("\t") for line in text.removesuffix("\n").split("\n"))
    return [(german, english) for english, german, *_ in columns]


def split(pairs: Pairs) -> dict[str, Pairs]:
    """`test` and `val` of 1,000 pairs each, and `train` without any sentence of either.

    English sentences stand in the order of their SHA-256; each brings its first German translation;
    of these pairs, the first thousand whose sides are all different are `test`, the next `val`.
    Sentences count as the same if their letters and digits are, so no pair with a held-out
    sentence on either side, in any spelling of case and punctuation, is left in `train`.
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
