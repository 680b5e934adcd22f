"""The measures of heads that the atlas offers: values with intervals, and how each is written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.look.numbers import digits, is_even, number, percent
from core.atlas.atlas import ALL, QUANTITIES, READINGS, Atlas, Origin
from core.atlas.intervals import ALPHA
from core.kinds import KINDS

READING_WORDS = {
    "output": "the row that produces the target word",
    "input": "the row that is fed the target word",
}
QUANTITY_WORDS = {"weights": "attention weights", "norms": "value norms"}
_SHORT_READINGS = {"output": "word being produced", "input": "word fed in"}


@dataclass(frozen=True, eq=False)
class Measure:
    """One number per head: `values` [N, 3] holds it with its interval's bounds; NaN: not measured.

    `unit` is "nats", "points", "share" or, for a share that may be negative or above 1, "part"; it
    is "place" for a rank, which has no interval. `places` is the number of decimals. `where` names
    the array in the atlas file and, if there is one, the key in the JSON report: {n} stands for the
    head's index on axis N, {kind}, {layer} and {head} for where it is in the network. `no_effect`
    [N] is True for changes that are not distinguishable from 0, by the p-value after Holm's
    correction or, without one, by the interval; None if nothing was tested. `lowest_first` is True
    if a low value means that the head is needed.
    """

    key: str
    label: str
    unit: str
    explanation: str
    values: NDArray[np.float32]
    where: str
    places: int = 0
    no_effect: NDArray[np.bool_] | None = None
    lowest_first: bool = False

    @property
    def signed(self) -> bool:
        """Whether values are changes, which may be negative."""
        return self.unit in ("nats", "points", "part")

    def places_of(self, n: int) -> int:
        """Return the decimals that show two digits of half a head's interval."""
        _, low, high = map(float, self.values[n])
        return digits(low, high) if high > low else self.places

    def text(self, value: float, n: int) -> str:
        """Write a head's value, or an end of its interval, without its unit."""
        if self.unit == "share":
            return percent(float(value))
        return number(float(value), self.places_of(n), "+" if self.signed else "")

    def interval_text(self, n: int) -> str:
        """Write a head's interval: ±0.021, or its ends if it is lopsided; "" without one."""
        value, low, high = map(float, self.values[n])
        if math.isnan(low) or math.isnan(high):
            return ""
        if self.signed and is_even(value, low, high):
            return f"±{number((high - low) / 2, self.places_of(n))}"
        return f"{self.text(low, n)} to {self.text(high, n)}"

    def full_text(self, n: int) -> str:
        """Write a head's value with unit and interval."""
        unit, interval = UNITS[self.unit], self.interval_text(n)
        text = f"{self.text(self.values[n, 0], n)}{f' {unit}' if unit else ''}"
        return f"{text} ({interval})" if interval else text


UNITS = {
    "nats": "nats per token",
    "points": "BLEU points",
    "share": "",
    "part": "of the difference",
    "place": "",
}


def measures(atlas: Atlas) -> tuple[Measure, ...]:
    """Return the measures that an atlas has; those without a single number are left out."""
    arrays = atlas.arrays
    found = [
        *_changes(atlas),
        Measure(
            "entropy",
            "Entropy",
            "share",
            "how evenly a row of the map is spread, on average: 100 % if all keys that it may see "
            "get the same weight, 0 % if one key gets all the weight",
            arrays["entropy"],
            "entropy[{n}], heads[{n}].entropy",
        ),
        Measure(
            "largest",
            "Largest weight",
            "share",
            "the largest weight of a row, on average",
            arrays["largest"],
            "largest[{n}]",
        ),
        *_roles(atlas),
        *_alignment(atlas),
    ]
    if (fetch := arrays.get("fetch")) is not None:
        found.append(
            Measure(
                "fetch",
                "Fetches the word",
                "part",
                "two sentences differ in one word: how much of the difference between their "
                "translations comes back when this head's output is copied from one to the other",
                fetch,
                "heads[{n}] of patch.json",
                3,
            )
        )
    if "similarity" in arrays:
        found.append(
            Measure(
                "similarity",
                "Similarity to its counterpart",
                "share",
                "the share of attention that the head puts on the same cells as its counterpart in "
                "the other network, whose heads were matched with those of this network",
                arrays["similarity"],
                "similarity[{n}]",
            )
        )
    if (order := arrays.get(f"prune_{ALL}_order")) is not None:
        places = np.full((atlas.count, 3), np.nan, np.float32)
        places[order, 0] = np.arange(1, atlas.count + 1)
        found.append(
            Measure(
                "removed",
                "Removal rank",
                "place",
                "the head's rank in the order of removal (at each step, the head whose removal "
                "leaves the lowest loss): 1 is removed first, as the least needed",
                places,
                f"prune_{ALL}_order",
            )
        )
    return tuple(measure for measure in found if np.isfinite(measure.values[:, 0]).any())


def _changes(atlas: Atlas) -> list[Measure]:
    """Return the measures of what changes when a head is ablated."""
    described = (
        ("zero", "Loss change, zero ablation", "nats",
         "how much the loss rises when the head's output is replaced by zeros: above 0 the head "
         "helps, below 0 it harms", "zero[{n}], heads[{n}].loss_change"),
        ("mean", "Loss change, mean ablation", "nats",
         "how much the loss rises when the head's output is replaced by its mean over a corpus, "
         "so that only its variation is lost", "mean[{n}]"),
        ("bleu_zero", "BLEU change, zero ablation", "points",
         "how BLEU of greedy translations changes when the head's output is replaced by zeros: "
         "below 0 the head helps", "bleu_zero[{n}]"),
    )  # fmt: skip
    found = []
    for name, label, unit, explanation, where in described:
        if (values := atlas.arrays.get(name)) is None:
            continue
        no_effect = None
        if np.isfinite(values[:, 1:]).any():  # else a single sentence: nothing was tested
            no_effect = (values[:, 1] <= 0) & (values[:, 2] >= 0)  # False without an interval
            if (p := atlas.arrays.get(f"{name}_p")) is not None:
                no_effect = np.where(np.isnan(p), no_effect, p >= ALPHA)
        is_bleu = name == "bleu_zero"
        key = "bleu" if is_bleu else name
        places = _places(values, *((2, 4) if unit == "nats" else (1, 2)))
        found.append(
            Measure(key, label, unit, explanation, values, where, places, no_effect, is_bleu)
        )
    return found


def _roles(atlas: Atlas) -> list[Measure]:
    """Return one measure per role; heads of kinds without the role have NaN."""
    found = []
    for name in dict.fromkeys(name for kind in KINDS for name in atlas.roles[kind]):
        values = np.full((atlas.count, 3), np.nan, np.float32)
        for kind in KINDS:
            shares = atlas.arrays.get(f"role_{kind}")
            if shares is not None and name in atlas.roles[kind]:
                values[atlas.span(kind)] = shares[atlas.roles[kind].index(name)]
        found.append(
            Measure(
                f"role-{slug(name)}",
                f"Role: {name}",
                "share",
                f"the share of attention on the keys of the role “{name}”",
                values,
                f'role_{{kind}}, heads[{{n}}].roles["{name}"].score',
            )
        )
    return found


def _alignment(atlas: Atlas) -> list[Measure]:
    if (aer := atlas.arrays.get("aer")) is None:
        return []
    found = []
    for r, reading in enumerate(READINGS):
        for q, quantity in enumerate(QUANTITIES):
            values = np.full((atlas.count, 3), np.nan, np.float32)
            values[atlas.span("cross")] = aer[r, q, :-1, :-1].reshape(-1, 3)
            found.append(
                Measure(
                    f"aer-{reading}-{quantity}",
                    f"Alignment error by {quantity}: {_SHORT_READINGS[reading]}",
                    "share",
                    "the alignment error rate against manual word alignments if each target word "
                    f"is linked to the key with the largest "
                    f"{QUANTITY_WORDS[quantity].removesuffix('s')} in {READING_WORDS[reading]}: "
                    "lower is better",
                    values,
                    f"aer[{r}, {q}, {{layer}}, {{head}}]",
                )
            )
    return found


def _places(values: NDArray, least: int, most: int) -> int:
    """Return the decimals that show two digits of a typical half interval: `least` to `most`."""
    widths = (values[:, 2] - values[:, 1]) / 2
    width = float(np.median(widths[np.isfinite(widths)])) if np.isfinite(widths).any() else 0.0
    if not width > 0:
        return least
    return min(most, max(least, 1 - math.floor(math.log10(width))))


def gold_name(origin: Origin) -> str:
    """Return the manual alignments' name, such as europarl150 for "europarl150.align of …"."""
    return origin.gold.split(" of ")[0].split(".")[0]


def slug(name: str) -> str:
    """Return a name in the form used in URLs: previous-token."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
