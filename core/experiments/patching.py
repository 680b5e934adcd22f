"""Copy every state and every head's output from one sentence's pass into another's.

Axes: R batch row, S source token, T fed target token, L layer, H head, D d_model.

Source: activation patching (Vig et al. 2020, Meng et al. 2022), here in an encoder-decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch

from core.experiments.experiment import Ids, Owner, model_inputs, row_batches
from core.experiments.head_effects import heads_of
from core.frozen import Doubles, Frozen
from core.kinds import KINDS, SIDES, Kind, side_of
from core.model.interface import Seq2Seq
from core.record.record import TranslationRecord
from core.record.state_edits import Donor, HeadPatch, Patch
from core.record.states import StateEdits, States, at_heads, at_states, donor_states
from core.record.words import Token, group_words
from core.text.tokenizer import BOS

if TYPE_CHECKING:
    from pandas import DataFrame

MIN_DIFFERENCE = 0.5
"""Nats below which a share of the logit difference is not defined."""
_TOKENS = 1024  # of a batch, counted on the longer side

Direction = Literal["restore", "damage"]
"""Clean states into the corrupted pass, or corrupted states into the clean pass."""
Pairs = tuple[tuple[int, int], ...]
"""Positions of a source, each with its position in the other source."""
Copies = Sequence[Patch | HeadPatch]


class Contrast(NamedTuple):
    """Two sentences, and the words that tell their translations apart.

    `clean` and `corrupted` are source ids with <eos>. `prefix` are the ids that both translations
    begin with, and `words` the ids that follow in the clean and the corrupted one.
    """

    clean: Ids
    corrupted: Ids
    prefix: tuple[int, ...]
    words: tuple[int, int]

    @property
    def fed(self) -> tuple[int, ...]:
        """The fed target ids: <bos> and the prefix."""
        return BOS, *self.prefix


@dataclass(frozen=True, eq=False)
class Patched(Frozen):
    """How much of the logit difference each copy from the other sentence's pass brings.

    After the translations' common prefix of T − 1 tokens, the clean one has `words[0]` and the
    corrupted one `words[1]`. With both sources, the prefix is fed; `clean` and `corrupted` are the
    logit of words[0] minus that of words[1] that follows it. A share is the change of this
    difference by one copy: in `restore`, a clean state in the corrupted pass, (patched − corrupted)
    / (clean − corrupted); in `damage`, a corrupted state in the clean pass, (clean − patched) /
    (clean − corrupted). It may be negative or above 1.

    Shares: `encoder` [L + 1, S] and `decoder` [L + 1, T], layer (0: the embeddings) and token of
    the sentence that is copied into, NaN for a token that `pairs` (its position, the other's) do
    not have; `heads` by kind [L, H], the outputs at all of these tokens. If clean and corrupted
    differ by less than 0.5 nats, every share is NaN and `reason` says so in one line.
    """

    direction: Direction
    pairs: Pairs
    words: tuple[int, int]
    clean: float
    corrupted: float
    encoder: Doubles
    decoder: Doubles
    heads: dict[Kind, Doubles]
    reason: str = ""

    def to_dataframe(self) -> DataFrame:
        """Return a row per state (`part` is its side) and per head (its kind), counted from 0."""
        from pandas import DataFrame, concat

        frames = []
        for what, arrays in (
            ("position", {side: getattr(self, side) for side in SIDES}),
            ("head", self.heads),
        ):
            for part, shares in arrays.items():
                layers, places = np.indices(shares.shape).reshape(2, -1)
                columns = {"of": what, "part": part, "layer": layers, "index": places}
                frames.append(DataFrame(columns | {"share": shares.ravel()}))
        return concat(frames, ignore_index=True)


def patch_all(
    translator: Owner,
    clean: TranslationRecord,
    corrupted: TranslationRecord,
    direction: Direction = "restore",
) -> Patched:
    """Copy each state and each head's output from one record's pass into the other's.

    Source tokens are paired by position in sentences with equal numbers of tokens, otherwise by a
    diff of words. Raises ValueError, in one line, for edited records, for records of another
    network, for equal translations, and for sentences without a common word.
    """
    if clean.edited or corrupted.edited:
        raise ValueError("edited passes cannot be compared: inspect both sentences without edits")
    contrast = contrast_of(
        *(tuple(t.id for t in r.source) for r in (clean, corrupted)),
        *(tuple(t.id for t in r.target_out) for r in (clean, corrupted)),
    )
    into, other = (corrupted, clean) if direction == "restore" else (clean, corrupted)
    pairs = paired(into.source, other.source)
    with translator.model_for(clean):
        pass  # checks that the record belongs to this model
    with translator.model_for(corrupted) as model:
        return patched(model, contrast, pairs, direction)


def contrast_of(clean: Ids, corrupted: Ids, of_clean: Ids, of_corrupted: Ids) -> Contrast:
    """Return the contrast of two sources with their translations, all ids with <eos>.

    Raises ValueError if the translations are equal.
    """
    for step, words in enumerate(zip(of_clean, of_corrupted, strict=False)):
        if words[0] != words[1]:
            return Contrast(clean, corrupted, tuple(of_clean[:step]), words)
    raise ValueError("both sentences have the same translation: there is no difference to restore")


def paired(source: Sequence[Token], other: Sequence[Token]) -> Pairs:
    """Pair tokens by position if there are equally many, otherwise by a diff of words.

    Equal words, and words that are replaced by as many others, are paired token by token. Raises
    ValueError if no word has a partner.
    """
    if len(source) == len(other):
        return tuple((p, p) for p in range(len(source)))
    words = [group_words(tokens) for tokens in (source, other)]
    texts = [
        ["".join(tokens[p].text for p in word) for word in of]
        for tokens, of in zip((source, other), words, strict=True)
    ]
    pairs = []
    for change, a, b, c, d in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if change == "equal" or (change == "replace" and b - a == d - c):
            for word, partner in zip(words[0][a:b], words[1][c:d], strict=True):
                pairs += zip(word, partner, strict=False)
    if all(source[position].special for position, _ in pairs):
        raise ValueError(
            f"sentences of {len(source)} and {len(other)} tokens without a common word cannot be "
            "paired: choose two that differ in a word or two"
        )
    return tuple(pairs)


@torch.inference_mode()
def patched(
    model: Seq2Seq, contrast: Contrast, pairs: Pairs, direction: Direction = "restore"
) -> Patched:
    """Compute `patch_all` for a contrast; the caller must hold the model's lock."""
    into = contrast.corrupted if direction == "restore" else contrast.clean
    fed = len(contrast.fed)
    places = {"encoder": pairs, "decoder": tuple((p, p) for p in range(fed))}
    layers = {side: len(model.stack(side).layers) for side in SIDES}
    states = {
        side: np.full((layers[side] + 1, length), np.nan)
        for side, length in zip(SIDES, (len(into), fed), strict=True)
    }
    heads = {kind: np.empty((layers[side_of(kind)], model.config.heads(kind))) for kind in KINDS}
    rows: list[Copies] = []
    cells: list[tuple[Doubles, tuple[int, int]]] = []
    for side in SIDES:
        for layer in range(layers[side] + 1):
            for position, partner in places[side]:
                rows.append([Patch(side, layer, position, partner)])
                cells.append((states[side], (layer, position)))
    for kind, layer, head in heads_of(model):
        rows.append(head_copies(kind, layer, head, places[side_of(kind)]))
        cells.append((heads[kind], (layer, head)))
    shares_R, ends = shares(model, contrast, rows, direction)
    for (array, cell), share in zip(cells, shares_R, strict=True):
        array[cell] = share
    return Patched(
        direction, pairs, contrast.words, *ends, *states.values(), heads, undefined(*ends)
    )


def head_copies(kind: Kind, layer: int, head: int, pairs: Pairs) -> Copies:
    """Return the copies of one head's output at all paired queries."""
    return [HeadPatch(kind, layer, head, *pair) for pair in pairs]


def undefined(clean: float, corrupted: float) -> str:
    """Return why shares of this difference are not defined, or an empty text."""
    if (difference := abs(clean - corrupted)) >= MIN_DIFFERENCE:
        return ""
    return (
        f"both sentences differ by {difference:.2f} nats in these two words: below "
        f"{MIN_DIFFERENCE} nats, shares are not defined"
    )


@torch.inference_mode()
def shares(
    model: Seq2Seq, contrast: Contrast, rows: Sequence[Copies], direction: Direction = "restore"
) -> tuple[Doubles, tuple[float, float]]:
    """Return the share of each row, [R], and the logit differences, clean and corrupted.

    A row is a set of copies that are made at once. Shares are NaN where they are not defined.
    """
    into, other = contrast.clean, contrast.corrupted
    if direction == "restore":
        into, other = other, into
    donor = donor_states(model, Donor(tuple(other), contrast.fed), rows)
    start, end = (
        float(_differences(model, contrast, source, [[]], donor, True)[0])
        for source in (into, other)
    )
    ends = (end, start) if direction == "restore" else (start, end)
    found = np.full(len(rows), np.nan)
    if undefined(*ends):
        return found, ends
    of_encoder = [any(copy.where[0] == "encoder" for copy in row) for row in rows]
    for encoder in (True, False):
        chosen = [r for r, is_encoder in enumerate(of_encoder) if is_encoder == encoder]
        for batch in row_batches(chosen, into, contrast.fed, _TOKENS):
            copies = [rows[r] for r in batch]
            found[batch] = _differences(model, contrast, into, copies, donor, encoder)
    return (found - start) / (end - start), ends


def _differences(
    model: Seq2Seq,
    contrast: Contrast,
    source: Ids,
    rows: Sequence[Copies],
    donor: States,
    encoder: bool,
) -> Doubles:
    """Return the logit difference in each row of a pass of `source` under its copies, [R].

    Without copies in the `encoder`, all rows share one encoding.
    """
    source_1S, fed_1T = model_inputs(model, source, (*contrast.prefix, contrast.words[0]))
    R, edits = len(rows), StateEdits(model, rows, donor)
    with at_states(model, edits.state), at_heads(edits.sites, edits.heads):
        memory, mask = model.encode(source_1S.expand(R if encoder else 1, -1))
        hidden_RTD = model.decode(
            fed_1T.expand(R, -1), memory.expand(R, -1, -1), mask.expand(R, -1, -1, -1)
        )
    weight_VD, bias_V = model.embeddings.projection
    first, second = contrast.words
    difference_R = hidden_RTD[:, -1].double() @ (weight_VD[first] - weight_VD[second]).double()
    if bias_V is not None:
        difference_R = difference_R + (bias_V[first] - bias_V[second]).double()
    return difference_R.cpu().numpy()
