"""Export the explorer of one record as a standalone HTML page."""

import base64
import html
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from app.components.edits import known_edits
from app.components.explorer.markup import markup
from app.components.explorer.payload import Arrays, pack, payload
from app.export.picture import picture
from core.analysis.rollout import can_roll_out, rollout
from core.kinds import KINDS
from core.record.record import TranslationRecord

_HERE = Path(__file__).parent
_TEMPLATE = _HERE / "standalone.html"
_ENTRY = _HERE.parent / "components/explorer/saved.js"
FIRST_VIEW = {"kind": "cross", "layer": 0, "head": 0}


INCOMPLETE = (
    "This page is loading. If this line stays, the file is incomplete or damaged, or its scripts "
    "are blocked: copy or download it again."
)
"""The line that a page's last script removes. The file ends with that script, without a newline."""


def checksum(text: str) -> int:
    """Return the checksum of a text in a page, which `damagedTexts` in checksum.js compares."""
    return zlib.crc32(text.encode())


def page(
    record: TranslationRecord,
    view: dict | None = None,
    quantities: Mapping[str, Arrays] | None = None,
) -> str:
    """Return a self-contained HTML page (scripts, styles, all maps) whose CSP blocks all requests.

    `view` is the initial view, as in `explorer.payload`. `quantities` can be selected in addition
    to the weights; the default is rollout, which needs no model. All numbers are the record's
    float32 values.
    """
    if quantities is None:
        quantities = {"rollout": rollout(record)} if can_roll_out(record) else {}
    parts = markup(_ENTRY)
    packed = pack(
        payload(
            record,
            view or first_view(record),
            quantities=quantities,
            checked="here" if record.origin else "elsewhere",
            what_if=known_edits(record),
            host=None,
        )
    )
    data = base64.b64encode(packed).decode()
    return Template(_TEMPLATE.read_text(encoding="utf-8").rstrip()).substitute(
        title=html.escape(f"Headlight: {record.source_text}"),
        css=parts.css,
        html=parts.html,
        script=parts.script,
        incomplete=INCOMPLETE,
        data=data,
        checksum=checksum(data),
        footer=html.escape(_footer(record)),
    )


def first_view(record: TranslationRecord) -> dict[str, Any]:
    """Return the view of the first cross-attention head, or of another kind if it has no maps."""
    return FIRST_VIEW | {"kind": next(kind for kind in reversed(KINDS) if record.has(kind))}


def _footer(record: TranslationRecord) -> str:
    languages = f"{record.source_language} to {record.target_language} ({record.search})"
    if record.origin:
        made = " ".join(filter(None, ("Shown with Headlight:", record.model_title, languages)))
        return f"{made}; record {record.id}. All numbers are 32-bit floats, as imported."
    return (
        f"Made with Headlight by {record.model_title}, {languages}; weights "
        f"{record.weights_sha256[:8]}, record {record.id}. All numbers are 32-bit floats as "
        "recorded."
    )


@dataclass(frozen=True, eq=False)
class Drawing:
    """The explorer of a record, displayed by notebooks in an iframe."""

    record: TranslationRecord
    height: int = 1000

    def save(self, file: Path | str) -> None:
        """Write the standalone page (.html), or a picture of the head that it opens with (.svg).

        Raises ValueError, in one line, for other file names.
        """
        file = Path(file)
        ending = file.suffix.lower()
        if ending not in (".html", ".htm", ".svg"):
            raise ValueError(
                f"{file.name!r} does not end with .html (the explorer) or .svg (a picture of one "
                "head), which can be saved: choose one of these"
            )
        if ending == ".svg":
            text = picture(self.record, **first_view(self.record), fit=(math.inf, math.inf))
        else:
            text = page(self.record)
        file.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(page(self.record))}" width="100%" '
            f'height="{self.height}" sandbox="allow-scripts allow-downloads" '
            'style="border: 0"></iframe>'
        )


def show(record: TranslationRecord) -> Drawing:
    """Show the explorer in a notebook; `.save(file)` writes the page.

    Raises TypeError, in one line, for anything but one record.
    """
    if not isinstance(record, TranslationRecord):
        raise TypeError(
            f"show takes one record, not {type(record).__name__}: for several, write "
            "display(show(a), show(b))"
        )
    return Drawing(record)
