"""Align the words of a corpus, in one direction or both, and export the heads for other programs.

Two export forms exist. OpenNMT-py, fairseq and CTranslate2's translation models average the first
`alignment_heads` heads of layer `alignment_layer`. Whisper takes a list [[layer, head], …], in
Hugging Face Transformers (generation_config.json) and in CTranslate2 (config.json).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.analysis.alignment import Gold, Link, links
from core.atlas.aligners import alignment_error, mean_map
from core.atlas.atlas import AlignmentHeads
from core.atlas.intervals import interval
from core.atlas.sums import bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.aligning import word_maps

Links = frozenset[Link]
"""Links (source word, target word), counted from 0."""

# Steps (target word, source word) from a link to its neighbours.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class Aligner:
    """A network and the heads that align words in it."""

    checkpoint: Checkpoint
    found: AlignmentHeads

    def links(self, pair: tuple[str, str]) -> Links:
        """Link each target word to the source word with the largest mean value of the heads.

        Words are those of the given lines, see `core.text.line`. Raises ValueError for a side that
        is empty or too long.
        """
        maps = word_maps(self.checkpoint, pair)
        of_reading = maps[self.found.reading, self.found.quantity]
        return links(mean_map(of_reading, self.found.heads))


def aligned(
    pairs: Iterable[tuple[str, str]],
    forward: Aligner,
    reverse: Aligner | None = None,
) -> Iterator[tuple[Links, str]]:
    """Yield each pair's links and "", or no links and the reason why the pair has none.

    With `reverse`, the aligner of a network for the other direction, the links of both are combined
    by `grow_diag_final`.
    """
    for source, target in pairs:
        try:
            found = forward.links((source, target))
            if reverse is not None:
                turned = reverse.links((target, source))
                found = grow_diag_final(found, frozenset((i, j) for j, i in turned))
        except ValueError as error:
            yield frozenset(), str(error)
        else:
            yield found, ""


def grow_diag_final(first: Links, second: Links) -> Links:
    """Combine the links of both directions by grow-diag-final (Koehn, Och & Marcu 2003).

    Start from the intersection. Add neighbours, including diagonal ones, that are in the union and
    have at least one word that is not linked yet, until there are no more. Finally, add the links
    of `first` and then of `second` that have at least one word not linked yet. As in the
    pseudocode of Moses, links are visited by target word, then by source word. The order matters,
    because each new link changes which words are not linked yet.
    """
    union = sorted(first | second, key=_by_target)
    found = set(first & second)
    sources, targets = {i for i, _ in found}, {j for _, j in found}

    def add(link: Link) -> bool:
        if link[0] in sources and link[1] in targets:
            return False
        found.add(link)
        sources.add(link[0])
        targets.add(link[1])
        return True

    growing = True
    while growing:
        growing = False
        for i, j in union:
            for down, right in _NEIGHBOURS if (i, j) in found else ():
                near = i + right, j + down
                growing |= (near in first or near in second) and add(near)
    for side in (first, second):
        for link in sorted(side, key=_by_target):
            add(link)
    return frozenset(found)


def score_with_interval(
    predicted: Sequence[Links], gold: Sequence[Gold], indices: Sequence[int]
) -> dict[str, float]:
    """Return AER, its 95 % bootstrap interval (`low`, `high`), precision and recall.

    `indices` are the sentences' positions in the corpus, on which their bootstrap weights depend.
    Raises ValueError without predicted links or without sure gold links.
    """
    both = list(zip(predicted, gold, strict=True))
    in_sure, in_possible, made, sure = (
        bootstrap_weights(indices).T @ np.array(counts, float)
        for counts in (
            [len(links & right.sure) for links, right in both],
            [len(links & right.possible) for links, right in both],
            [len(links) for links, _ in both],
            [len(right.sure) for _, right in both],
        )
    )
    if not (made[0] and sure[0]):
        raise ValueError("nothing to score: at least 1 link and 1 sure gold link are needed")
    aer = interval(alignment_error(in_sure, in_possible, made, sure), len(both))
    rates = float(in_possible[0] / made[0]), float(in_sure[0] / sure[0])
    names = "aer", "low", "high", "precision", "recall"
    return dict(zip(names, (*aer.tolist(), *rates), strict=True))


def exports(found: AlignmentHeads, num_heads: int) -> dict[str, Any]:
    """Return the heads in the forms of other programs, and notes on what these programs read.

    `head_order` reorders a layer's heads so that those chosen come first; the network's output does
    not depend on the order. A form that cannot express the heads is None.
    """
    layers = {layer for layer, _ in found.heads}
    pairs = [list(head) for head in sorted(found.heads)]
    first: dict[str, Any] | None = None
    notes = []
    if len(layers) == 1:
        chosen = sorted(head for _, head in found.heads)
        rest = [head for head in range(num_heads) if head not in chosen]
        first = {"alignment_layer": found.heads[0][0], "alignment_heads": len(chosen)}
        if [*chosen, *rest] != list(range(num_heads)):
            first["head_order"] = [*chosen, *rest]
            notes.append(
                "OpenNMT, fairseq and CTranslate2's translators average the first alignment_heads "
                "heads of the layer: before exporting, reorder the layer's heads as in head_order"
            )
    else:
        notes.append(
            f"the heads are in {len(layers)} layers, which alignment_layer cannot express: "
            "find the best heads of one layer with --one-layer"
        )
    if found.quantity != "weights":
        notes.append("the heads were chosen by norms, but these programs read attention weights")
    if found.reading == "input":
        notes.append(
            "the heads align a word in the row that takes it as input, but OpenNMT, fairseq and "
            "CTranslate2 read the row before, which produces it: take the weights one row later"
        )
    else:
        notes.append(
            "the heads align a word in the row that produces it, but Whisper in Hugging Face "
            "Transformers reads the row after, which takes it as input"
        )
    return {
        "ctranslate2": first,
        "ctranslate2_whisper": {"alignment_heads": pairs},
        "opennmt": first,
        "hugging_face": {"alignment_heads": pairs},
        "notes": notes,
    }


def _by_target(link: Link) -> tuple[int, int]:
    return link[1], link[0]
