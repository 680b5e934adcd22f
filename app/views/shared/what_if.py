"""What if: the visitor's edits of a pass, and the translation under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from app.components.answers import send_answer
from app.components.edits import described, listed
from app.components.explorer.answers import again_answer
from app.components.explorer.payload import APP, pack
from app.look.markdown import plain
from app.state import address, results, session
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import KINDS
from core.record.edits import EditError, Edits, Push
from core.record.record import TranslationRecord

_EDITS = "edits"  # the text form of the edits, in the session and in the URL
_REFUSED = "edit_refused"  # a sentence, and why its last edit was rejected
_REQUEST = "edit_request"  # the number of the last edit request


@dataclass(frozen=True)
class WhatIf:
    """The edits of a sentence's pass, and one error line for each rejected edit."""

    edits: Edits
    problems: tuple[str, ...]
    before: TranslationRecord
    after: TranslationRecord
    """The same target under the edits; `before` if there are none."""
    means: Mapping[str, Any] | None = None
    """What the heads' average outputs are averaged over, if an edit uses them."""
    words: Mapping[int, str] = field(default_factory=dict)
    """Labels of the target ids that states are pushed towards or away from."""

    def map_changes(self) -> dict[str, Any]:
        """Return the change of each map, by kind: [layer, head, query, key]."""
        return {kind: self.after.maps(kind) - self.before.maps(kind) for kind in KINDS}

    def payload(self) -> dict[str, Any]:
        """Return the edits for the explorer: see `WhatIf` in types.js."""
        changed = bool(self.edits.listed())
        change = self.after.log_probs - self.before.log_probs
        return {
            "text": self.edits.to_text(),
            "edits": listed(self.edits, self.before, self.words),
            "problems": list(self.problems),
            "before": float(self.before.log_prob),
            "change": [round(float(nats), 6) for nats in change] if changed else None,
            "request": session.get(_REQUEST),
            "means": self.means,
        }


def current_edits(card: Card, record: TranslationRecord) -> tuple[Edits | None, list[str]]:
    """Return the visitor's edits that apply to this model and sentence, and the problems.

    The edits are None if there are none; problems are one line per rejected edit. Changing the
    model resets the edits.
    """
    address.initialise_text(_EDITS, "")
    network = (card.folder.name, card.weights_sha256)
    if session.get("edited_network") not in (None, network):
        session.put(_EDITS, "")
    session.put("edited_network", network)
    edits, problems = Edits.parse(session.get(_EDITS))
    edits, inapplicable = results.applicable_edits(card, edits, record.source_text)
    # On the first page, Back undoes an edit; edits dropped with their sentence return with it.
    is_same = session.saved_result("edited sentence") in (None, record.source_text)
    session.save_result("edited sentence", record.source_text)
    entry = () if is_same and not session.get("page") else None
    address.write({_EDITS: session.get(_EDITS)}, _EDITS, entry)
    sentence, refused = session.get(_REFUSED) or (None, "")
    if refused and sentence == session.get("source"):
        problems = [refused, *problems]
    return None if edits == Edits() else edits, [*problems, *inapplicable]


def show_edits(edits: Edits | None, problems: list[str], record: TranslationRecord) -> None:
    """Show the problems, the edits made on the first page, and a button to remove them."""
    for line in problems:
        st.caption(plain(line))
    if edits is None:
        return
    words = "; ".join(described(one, record) for one in edits.listed())
    with st.container(horizontal=True, vertical_alignment="center", key="edits_line"):
        st.markdown(
            plain(f"This pass includes the edits made on the page Translate: {words}."),
            width="content",
        )
        st.button("Remove all edits", key="remove_edits", on_click=edit, args=("",))


def note_unused_edits(why: str) -> None:
    """On a page that ignores the visitor's edits, say so if there are any, and `why`."""
    if session.get(_EDITS) or address.requested(_EDITS):
        st.caption(f"The edits made on the page Translate are not applied here: {why}")


def edit_by(request: Mapping[str, Any] | None) -> None:
    """Carry out an explorer's `edit` request, and remember the request's number."""
    if request is not None:
        session.put(_REQUEST, request["request"])
        edit(request["command"])


def edit(command: str) -> None:
    """Add an edit ("+off.cross.2.0"), remove one ("-off.cross.2.0"), or remove all ("")."""
    edits, _ = Edits.parse(session.get(_EDITS) or "")
    one, problems = Edits.parse(command[1:])
    if not command:
        edits = Edits()
    elif not problems:
        try:
            edits = edits.without(one) if command[0] == "-" else edits.plus(one)
        except EditError as error:  # such as too many edits
            problems = [str(error)]
    session.put(_EDITS, edits.to_text())
    session.put(_REFUSED, (session.get("source"), " ".join(problems)))


def apply_edits(card: Card, record: TranslationRecord) -> WhatIf:
    """Apply the visitor's edits to a record's pass over the same target."""
    edits, problems = current_edits(card, record)
    after = record
    if edits is not None:
        try:
            after = results.inspect(
                card,
                record.source_text,
                edits=edits,
                target_ids=results.token_ids(record.target_out),
            )
        except ValueError as error:
            edits, problems = None, [*problems, str(error)]
    means = results.head_means_origin(card) if edits is not None and edits.heads_mean else None
    pushes = [push for push in (edits or Edits()).pushes if isinstance(push, Push)]
    ids = {id for push in pushes for id in (push.old, push.new) if id is not None}
    words = results.target_labels(card, tuple(sorted(ids))) if ids else {}
    return WhatIf(edits or Edits(), tuple(problems), record, after, means, words)


def show_new_translation(card: Card, what_if: WhatIf, own: str, decode: DecodeConfig) -> None:
    """Translate again under the edits, and pass the result to the page's main explorer.

    Call it after the explorer was shown, so that the edited maps need not wait. `own` is what the
    model writes without the edits.
    """
    if what_if.edits == Edits():
        return
    again, problem = None, ""
    try:
        again = results.inspect(
            card, what_if.before.source_text, edits=what_if.edits, decode=decode
        )
    except ValueError as error:
        problem = str(error)
    key = APP.key
    answer = again_answer(what_if.after, again, decode.label, own, problem)
    with st.container(key=f"answers_again_{key}"):
        send_answer(key, "again", pack({"explorer": key, **answer}))
