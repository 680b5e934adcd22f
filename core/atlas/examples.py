"""Quote sentences as examples, with each head's strength and a telling cell in each of them.

Axes: N heads, P quoted sentences, Q queries, K keys, T target tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.atlas.atlas import Quoted
from core.atlas.attention import maps_of
from core.atlas.corpus import Line, Sentence, drawn
from core.atlas.losses import losses_without_each
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.kinds import Kind

QUOTED = 64
MAX_CHARACTERS = 200
"""The most characters of each side of a quoted sentence."""

_SEED = 64


def quoted_lines(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Draw up to QUOTED lines of at most MAX_CHARACTERS per side; keep their order."""
    short = [
        i
        for i, line in enumerate(lines)
        if max(len(line.source_text), len(line.reference)) <= MAX_CHARACTERS
    ]
    return tuple(lines[i] for i in drawn(short, QUOTED, _SEED))


@dataclass(frozen=True)
class Examples:
    """Measure each quoted sentence by itself. Sums:

    - example_INDEX_strength [N]: the change of the loss in nats per target token when a head is
      zero-ablated
    - example_INDEX_cell int64 [N, 2]: the query and key that stand for a head

    In the decoder and in cross-attention, the query predicts the target token whose loss rises
    most, and the key has that query's largest weight. In the encoder, where ablation acts on all
    target tokens at once, the cell has the head's largest weight off the diagonal.
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        return self.sums(checkpoint, chunk, [losses_without_each(checkpoint, s) for s in chunk])

    def sums(
        self, checkpoint: Checkpoint, chunk: Sequence[Sentence], losses_BCT: Sequence[Doubles]
    ) -> Sums:
        """Return the sums of a chunk from its sentences' losses; see `losses_without_each`."""
        arrays: dict[str, np.ndarray] = {}
        for sentence, losses_CT in zip(chunk, losses_BCT, strict=True):
            change_NT = losses_CT[1:] - losses_CT[0]
            maps = maps_of(checkpoint.model, sentence)
            cells = [
                _cell(kind, maps[kind][layer, head], change_T)
                for (kind, layer, head), change_T in zip(
                    heads_of(checkpoint.model), change_NT, strict=True
                )
            ]
            arrays[f"example_{sentence.index}_strength"] = change_NT.mean(-1)
            arrays[f"example_{sentence.index}_cell"] = np.array(cells, np.int64)
        return Sums(arrays)


def examples(lines: Sequence[Line], sums: Sums) -> tuple[tuple[Quoted, ...], dict[str, np.ndarray]]:
    """Return the lines as quotations, and the `Atlas` arrays strength and cell."""
    quoted = tuple(Quoted(line.source_text, line.reference) for line in lines)
    strength_PN, cell_PN2 = (
        [sums[f"example_{line.index}_{what}"] for line in lines] for what in ("strength", "cell")
    )
    if not quoted:
        return (), {}
    return quoted, {
        "strength": np.stack(strength_PN, axis=1).astype(np.float32),
        "cell": np.stack(cell_PN2, axis=1).astype(np.int16),
    }


def _cell(kind: Kind, map_QK: np.ndarray, change_T: Doubles) -> tuple[int, int]:
    """Return the query and the key that stand for a head in a sentence; see `Examples`."""
    if kind == "encoder":
        elsewhere_QK = np.where(np.eye(len(map_QK), dtype=bool), -1.0, map_QK)
        query, key = np.unravel_index(np.argmax(elsewhere_QK), map_QK.shape)
        return int(query), int(key)
    query = int(np.argmax(change_T))
    return query, int(np.argmax(map_QK[query]))
