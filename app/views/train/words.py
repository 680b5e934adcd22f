"""Sentences about a training, computed from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.lessons.texts import rules, verdict
from app.look.markdown import plain
from app.look.numbers import percent, significant
from app.views.train.settings import say

if TYPE_CHECKING:  # imports torch
    from app.state.small_runs import Training
    from core.small.history import History, Shown

FOUND = 0.5
"""The share of its weight on the right tokens with which a head finds them."""


def lead(training: Training, history: History) -> str:
    """Say how far the shown network is, and which head finds what."""
    last = history.points[-1]
    if not training.step:
        return say("lead.untrained")
    key = "over" if training.is_over else "running"
    said = [
        say(
            f"lead.{key}",
            step=f"{last.step:,}",
            seconds=f"{history.run.seconds:.0f}",
            exact=percent(last.exact),
        )
    ]
    parts = history.run.examples.parts
    found = [
        (head, name, share)
        for part, name in enumerate(parts)
        for layer, number, share in [last.best(part)]
        for head in [f"{layer + 1}.{number + 1}"]
        if share >= FOUND
    ]
    said += [
        say("lead.finds", head=f"Head {head}", part=name, share=percent(share))
        for head, name, share in found
    ]
    if parts and not found:
        said.append(say("lead.none"))
    if not history.run.examples.is_held_out:
        said.append(say("lead.same", few=history.run.examples.FEW))
    return " ".join(said)


def written(shown: Shown) -> str:
    """Say what the network writes for the example now."""
    key = "own" if not shown.target else "right" if shown.is_right else "wrong"
    fields = {"source": shown.source, "written": shown.written or "…", "target": shown.target}
    return say(f"written.{key}", **{name: plain(value) for name, value in fields.items()})


def outcome(training: Training) -> str:
    """Return the name of what came of the change: copes, worse or fails."""
    changed, healthy = (history.points[-1].exact for history in training.histories)
    return verdict("train", "verdict", changed - healthy)


def is_decided(training: Training) -> bool:
    """Whether the prediction is answered: at the end, and in a pause once the other has learned."""
    paused = bool(training.step) and not training.running
    learned = training.histories[-1].points[-1].exact >= rules("train")["learned"]
    return training.is_over or (paused and learned)


def changed(training: Training) -> str:
    """Say what the change did to the network, beside the one without it."""
    with_it, without_it = (history.points[-1] for history in training.histories)
    said = say(
        f"verdict.{outcome(training)}",
        exact=percent(with_it.exact),
        loss=significant(with_it.loss),
        other_exact=percent(without_it.exact),
        other_loss=significant(without_it.loss),
    )
    loss, exact = rules("train")["cheats"]
    if with_it.loss <= loss and with_it.exact <= exact:
        said += " " + say(
            "verdict.cheats", loss=significant(with_it.loss), exact=percent(with_it.exact)
        )
    return said
