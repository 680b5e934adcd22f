"""The explorer of one record as a single HTML file that needs no server and no network."""

import base64
import html
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from app.components.edits import listed
from app.components.explorer.markup import markup
from app.components.explorer.payload import Arrays, pack, payload
from core.analysis.rollout import rollout
from core.record.edits import Edits
from core.record.record import TranslationRecord

_TEMPLATE = Path(__file__).parent / "standalone.html"
FIRST_VIEW = {"kind": "cross", "layer": 0, "head": 0}


def page(
    record: TranslationRecord,
    view: dict | None = None,
    quantities: Mapping[str, Arrays] | None = None,
) -> str:
    """HTML text with scripts, style and every map inside; its policy lets nothing be fetched.

    `view` is what is shown first, as in `explorer.payload`. `quantities` are what can be chosen in
    it beside the weights; without them it is rollout, which the record alone gives. Every number in
    the file is the record's own float32.
    """
    if quantities is None:
        quantities = {"rollout": rollout(record)}
    parts = markup()
    edits = record.edits
    what_if = None
    if edits != Edits():  # the pass without them is not in this record
        changes: dict[str, Any] = {"before": 0.0, "change": None, "problems": []}
        what_if = {**changes, "text": edits.to_text(), "edits": listed(edits, record)}
    shown = payload(
        record,
        view or FIRST_VIEW,
        quantities=quantities,
        verdict="saved",
        alone=True,
        what_if=what_if,
    )
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=html.escape(f"Headlight: {record.source_text}"),
        css=parts.css,
        html=parts.html,
        script=parts.script,
        data=base64.b64encode(pack(shown)).decode(),
        footer=html.escape(
            f"Made with Headlight by {record.model}, {record.source_language} to "
            f"{record.target_language} ({record.search}); weights {record.weights_sha256[:8]}, "
            f"record {record.id}. All numbers are 32-bit floats as recorded."
        ),
    )


@dataclass(frozen=True, eq=False)
class Drawing:
    """A record's page as a value that notebooks draw, in a frame of its own."""

    record: TranslationRecord
    height: int = 1000

    def save(self, file: Path | str) -> None:
        """Keep the page as one HTML file."""
        Path(file).write_text(page(self.record), encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(page(self.record))}" width="100%" '
            f'height="{self.height}" sandbox="allow-scripts allow-downloads" '
            'style="border: 0"></iframe>'
        )


def show(record: TranslationRecord) -> Drawing:
    """The explorer, drawn where a notebook shows the value; `.save(file)` keeps the page."""
    return Drawing(record)
