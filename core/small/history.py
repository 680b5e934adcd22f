"""Points of a run: what was measured there, the weights, and the maps of one example.

Axes: P points, L layers, H heads, Q queries, K keys.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from core.analysis.appearance import Mark, Measure, marks_of
from core.data.batches import pad
from core.data.tasks import Example
from core.frozen import Bools, Floats, Frozen
from core.kinds import KINDS, Kind
from core.record.attention_snapshots import AttentionSnapshots, Sentence
from core.small.examples import MAX_LENGTH
from core.small.live_view import picture
from core.small.run import Measured, SmallRun
from core.text.tokenizer import BOS
from core.training.snapshots import entropy_of, shares_of

MOST_POINTS = 40
"""When there are more, every other one is forgotten, and further ones come half as often."""
EVERY = 10
"""Steps between the first points."""
FOUND = 0.5
"""The share of its weight with which a head finds a part of the target."""


class Snapshots(AttentionSnapshots):
    """Attention snapshots of a network that may be mistaken: no map is rejected."""

    def __post_init__(self) -> None:
        Frozen.__post_init__(self)

    def mask(self, kind: Kind, sentence: int) -> Bools:
        """Return the cells [Q, K] that some head gives weight, or that the mask allows."""
        seen = (self.maps[kind][sentence] > 0).any((0, 1, 2))
        return super().mask(kind, sentence) | seen


class _Point(NamedTuple):
    """Only the last point may be passing: the next one takes its place."""

    measured: Measured
    weights: dict[str, Tensor]
    passing: bool


@dataclass(frozen=True)
class Shown:
    """An example and what the network writes for it at the last point."""

    source: str
    target: str
    written: str

    @property
    def is_right(self) -> bool:
        return self.written == self.target


class History:
    """The points of a run so far; `watch` chooses the example whose maps are kept."""

    def __init__(self, run: SmallRun) -> None:
        self.run = run
        self.every = EVERY
        self._display: Any = None
        self._points: list[_Point] = []
        self._maps: list[dict[Kind, Floats]] = []
        first = run.examples.held.examples[0]
        self.watch(first)
        self.add()

    @property
    def points(self) -> list[Measured]:
        """The measurements of all points."""
        return [point.measured for point in self._points]

    def is_due(self) -> bool:
        """Whether a point is due after the steps that have been taken."""
        step = self.run.step_number
        return step % self.every == 0 and step > self._points[-1].measured.step

    def add(self) -> None:
        """Measure the network and keep a point, until the next one if none is due."""
        step = self.run.step_number
        if self._points and self._points[-1].measured.step == step:
            return
        if self._points and self._points[-1].passing:
            del self._points[-1], self._maps[-1]
        weights = {name: p.detach().clone() for name, p in self.run.model.named_parameters()}
        self._points.append(_Point(self.run.measure(), weights, step % self.every != 0))
        self._maps.append(self.run.maps(*self._ids))
        if len(self._points) > MOST_POINTS:
            self.every *= 2
            kept = [i for i, p in enumerate(self._points) if p.measured.step % self.every == 0]
            self._points = [self._points[i] for i in kept]
            self._maps = [self._maps[i] for i in kept]

    def watch(self, example: Example) -> None:
        """Show another example; its maps are computed from the weights of each point.

        A source without a target is fed what the network writes now. Raises ValueError for an
        example that is too long.
        """
        source, target = self.run.examples.encode(example.source, example.target)
        if not example.target:
            target = self.run.write(pad([source]), MAX_LENGTH)[0]
        self.example = example
        self._ids = source, target
        if not self._points:
            return
        self._maps = [run.maps(*self._ids) for run in self._replayed()]

    def _replayed(self) -> Iterator[SmallRun]:
        """Yield a run with the weights of each point."""
        replayed = copy.copy(self.run)
        replayed.model = copy.deepcopy(self.run.model)
        for point in self._points:
            with torch.no_grad():
                for name, parameter in replayed.model.named_parameters():
                    parameter.copy_(point.weights[name])
            yield replayed

    def bleu(self) -> list[float]:
        """Return the BLEU at each point; each takes as long as writing all answers."""
        return [run.bleu() for run in self._replayed()]

    def shown(self) -> Shown:
        """Return the example and what the network writes for it now."""
        source, target = self._ids
        limit = len(target) + 4 if self.example.target else MAX_LENGTH
        written = self.run.write(pad([source]), limit)[0]
        return Shown(
            self.example.source, self.example.target, self.run.examples.tokenizer.decode(written)
        )

    @property
    def last_maps(self) -> dict[Kind, Floats]:
        """The maps [L, H, Q, K] of the example at the last point, fed its right answer."""
        return self._maps[-1]

    def _repr_html_(self) -> str:
        shown = self.shown()
        return picture(self.points, f"{shown.source} → {shown.written}", self.last_maps)

    def show(self) -> None:
        """Draw the run in a notebook, in place of its last picture; elsewhere, print a line."""
        notebook = sys.modules.get("IPython.display")
        if notebook is None:
            last = self.points[-1]
            sys.stdout.write(f"step {last.step}: loss {last.loss:.3f}, right {last.exact:.0%}\n")
            return
        if self._display is None:
            self._display = notebook.display(self, display_id=True)
        else:
            self._display.update(self)

    def snapshots(self, bleu: Sequence[float] | None = None) -> AttentionSnapshots:
        """Return all points as attention snapshots of the example.

        Without the `bleu` of each point, theirs is NaN and nothing is rejected: they can be drawn,
        but not saved.
        """
        token = self.run.examples.tokenizer.token
        source, target = (tuple(token(id).piece for id in ids) for ids in self._ids)
        fed = tuple(token(id).piece for id in (BOS, *self._ids[1][:-1]))
        maps = {kind: np.stack([m[kind] for m in self._maps]) for kind in KINDS}
        return (AttentionSnapshots if bleu else Snapshots)(
            sentences=(Sentence(source, fed, target),),
            steps=np.array([one.step for one in self.points], np.int32),
            loss=np.array([one.loss for one in self.points], np.float32),
            bleu=np.array(bleu or [math.nan] * len(self.points), np.float32),
            maps={kind: (maps[kind].astype(np.float16),) for kind in KINDS},
            entropy={
                kind: np.stack([entropy_of(kind, [m[kind]]) for m in self._maps]) for kind in KINDS
            },
            roles={
                kind: np.stack([shares_of(kind, [m[kind]]) for m in self._maps]) for kind in KINDS
            },
        )

    def measures(self) -> tuple[Measure, ...]:
        """Return each part's share [P, L, H] of cross-attention weight on the right tokens."""
        shares = np.stack([one.shares for one in self.points], axis=1).astype(np.float64)
        chance = self.points[0].chance
        level = np.full(shares.shape[2:], FOUND)
        return tuple(
            Measure(f"finds the {name}", shares[part], float(chance[part]), level)
            for part, name in enumerate(self.run.examples.parts)
        )

    def found(self) -> tuple[Mark, ...]:
        """Return a mark for each head that finds a part and keeps it until the last point."""
        return tuple(mark for one in self.measures() for mark in marks_of("cross", one.name, one))
