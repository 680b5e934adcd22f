"""Training: the attention maps of a few sentences at points of a training run, with its curves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import numpy as np
import streamlit as st

from app import controls
from app.components.training import training
from app.components.training.payload import payload
from app.look.glossary import meaning
from app.look.markdown import plain
from app.look.numbers import number, percent
from app.state import address, atlases, models, results
from core.analysis import appearance
from core.checkpoint.folder import Card
from core.kinds import KINDS
from core.record.attention_snapshots import FILE, SAMPLE, AttentionSnapshots

RECORDING = ("captions", "dates", "mixed")
"""The training recipes that record snapshots, except those for tests."""


def opened(snapshots: AttentionSnapshots) -> dict[str, str | int | None]:
    """Return what the page's link shows first: sentence, step (None: `start`) and a view.

    `start` is the step at which the shown head takes on its role, or None. Without a kind, the view
    is the cross-attention head with the most one-to-one rows at the end.
    """
    kind = address.requested("kind")
    layers, heads = snapshots.entropy[kind if kind in KINDS else "cross"].shape[1:]
    if kind in KINDS:
        view = {
            "kind": kind,
            "layer": address.index(address.requested("layer"), layers, 0),
            "head": address.index(address.requested("head"), heads, 0),
        }
    else:
        shares = appearance.one_to_one(snapshots)[-1]
        layer, head = divmod(int(shares.argmax()), heads)
        view = {"kind": "cross", "layer": layer, "head": head}
    step, sentence = address.requested("step") or "", address.requested("sentence") or ""
    return {
        "sentence": int(sentence) if re.fullmatch("[0-9]{1,3}", sentence) else 0,
        "step": int(step) if re.fullmatch("[0-9]{1,9}", step) else None,
        "start": role_step(snapshots, view),
        **view,
        **{name: address.requested(name) for name in ("q", "k") if address.requested(name)},
    }


def role_step(snapshots: AttentionSnapshots, view: Mapping[str, object]) -> int | None:
    """Return the step from which the head in view keeps a role, or None if it has none."""
    points = [
        mark.point
        for mark in appearance.marks(snapshots)
        if (mark.kind, mark.layer, mark.head) == (view["kind"], view["layer"], view["head"])
    ]
    return int(snapshots.steps[max(points)]) if points else None


def show(card: Card, snapshots: AttentionSnapshots) -> None:
    """Show the maps and curves of a run, and how its marks are defined."""
    view = opened(snapshots)
    try:
        data = payload(
            snapshots,
            name=f"{card.name}-{card.direction}",
            languages=(controls.selection().source_language, controls.selection().target_language),
            opened=view,
        )
    except ValueError as error:
        st.error(plain(error))
        return
    happened, numbers = what_happened(snapshots, view, sample(card))
    st.caption(
        happened,
        help=meaning("teacher-forced", "BLEU", "token", "head", "weight", "cross-attention"),
    )
    training(data, key="training")
    with (
        st.expander("What was measured, and what a mark means"),
        st.container(key="training_notes", gap="small"),
    ):
        st.caption(numbers)
        st.caption(sample_note(card, snapshots))
        st.caption(marks_note(snapshots, checked_by_heads(card)))


def sample(card: Card) -> str:
    """Name the sentences on which loss and BLEU were measured."""
    usual = f"up to {SAMPLE} validation sentences"
    here = card.training.get("recipe") == "small"  # trained on the page Train one here
    return next(iter(card.metrics.get("final", {})), usual) if here else usual


def what_happened(
    snapshots: AttentionSnapshots, view: Mapping[str, object], measured_on: str
) -> tuple[str, str]:
    """Say when heads of the cross-attention came to align tokens; give BLEU there and at the end.

    The second text holds BLEU, and says where the page opens, if that is not the end.

    BLEU of one point is noisy, so the two points alone would not describe its course.
    """
    found = [mark for mark in appearance.marks(snapshots) if mark.role == appearance.ALIGNING]
    end = len(snapshots.steps) - 1
    points = sorted({mark.point for mark in found}) or [0]
    at = sorted({points[0], points[-1], end})
    steps = [f"{int(step):,}" for step in snapshots.steps]
    bleu = [f"{number(float(snapshots.bleu[point]), 0)} at step {steps[point]}" for point in at]
    when = f"At step {steps[points[0]]}"
    if len(points) > 1:
        when = f"Between steps {steps[points[0]]} and {steps[points[-1]]}"
    many = f"{len(found)} heads" if len(found) > 1 else "one head"
    verb = "find their" if len(found) > 1 else "finds its"
    first = ""
    if view["step"] is None and view["start"] is not None:
        head = f"{cast('int', view['layer']) + 1}.{cast('int', view['head']) + 1}"
        first = f" Opened at step {view['start']:,}, where head {head} takes its role."
    return (
        "Press Replay" + f": {when.lower()}, {many} {verb} words" * bool(found) + ".",
        f"BLEU ({measured_on}): {', '.join(bleu)}, the last.{first}",
    )


def sample_note(card: Card, snapshots: AttentionSnapshots) -> str:
    """Say what the curves were measured on."""
    sizes = [s.map_sizes["cross"] for s in snapshots.sentences]
    kept = card.training.get("kept")
    uneven = len(set(np.diff(snapshots.steps).tolist())) > 1
    return (
        f"**What was measured.** Loss and BLEU (greedy): on {sample(card)}. Everything else: "
        f"averages over the {len(sizes)} sentence{'s' * (len(sizes) > 1)} in the list above, "
        f"{sum(queries for queries, _ in sizes)} target and {sum(keys for _, keys in sizes)} "
        "source tokens. The decoder is fed their given translations, so all points have the same "
        "rows and columns. These samples are too small for intervals: compare the course of a "
        "curve, not neighbouring points. Attention weights are stored as 16-bit floats. "
        + "The slider’s points are evenly spaced; their steps are not. " * uneven
        + (f"The weights on the other pages: {plain(kept)}." if kept else "")
    ).strip()


def checked_by_heads(card: Card) -> bool:
    """Whether *Heads* compares this network's cross-attention with manual alignments."""
    try:
        atlas = atlases.shipped_atlas(card)
    except ValueError:  # Heads says why
        return False
    return atlas is not None and "aer" in atlas.arrays


def marks_note(snapshots: AttentionSnapshots, is_checked: bool) -> str:
    """Say by which rule a head gets a mark; `is_checked`: see `checked_by_heads`."""
    chance = appearance.random_one_to_one(snapshots)
    margin = f"{100 * appearance.MARGIN:.0f} percentage points"
    share, needed, at_random, agreement = map(
        percent,
        (
            appearance.SHARE,
            chance + appearance.ALIGNING_MARGIN,
            chance,
            appearance.AGREEMENT,
        ),
    )
    elsewhere = ": *Heads* checks it against manual alignments" if is_checked else ""
    return (
        "**What a mark means.** From this point to the end of the run, the head's weight on the "
        f"role's token is at least {share}. It also exceeds the head's weight in the untrained "
        f"network, and that of uniform attention, by at least {margin}. *Heads* uses another "
        "rule, over a corpus, so it may find other roles. *Aligning* (cross-attention): at least "
        f"{needed} of the rows look most at a source token at which no other row looks most "
        f"({at_random} would if rows looked at random tokens). That is at least {margin} "
        f"more than in the untrained network, and at least {agreement} of the rows look most at "
        "the same token as at the last point. No manual alignment is used: such a head links "
        "tokens one to one, but whether the links are right was not checked here"
        f"{elsewhere}. The links may belong to "
        "the token fed in (the label of the row above) rather than to the token being produced. "
        "*Near the diagonal*: rows whose largest weight is at most one token away from it at the "
        "last point. If most are, position alone could explain the head."
    )


st.title("Training")
for line in models.problems():
    st.error(plain(line))
chosen = controls.selection().card
if chosen is not None:
    try:
        found = results.snapshots(chosen)
    except ValueError as problem:
        st.error(plain(problem))
    else:
        if found is None:
            st.caption(
                f"{plain(chosen.name)} has no training snapshots ({FILE}). They are recorded "
                "during training, by the recipes "
                + ", ".join(f"`{name}`" for name in RECORDING[:-1])
                + f" and `{RECORDING[-1]}`."
            )
        else:
            show(chosen, found)
