"""Verify a record independently of the model: recompute everything it shows in float64 NumPy.

Nothing here runs the model or its attention. The evidence holds the observed inputs of the pass;
masks are rebuilt from the token ids, and the paper's formulas are implemented again below.
Axes: L layer, H head, Q query, K key, D d_model, E size of one head, T target token, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from core.config import ModelConfig
from core.frozen import Bools, Doubles
from core.kinds import KINDS, Kind
from core.record.edits import Edits, PositionEdit
from core.record.evidence import Evidence, SiteEvidence
from core.record.record import RecordCheck, RecordToken, TranslationRecord
from core.record.softmax import LEAST_LIMIT, error_limits, unmasked_cells, weights_of
from core.text.line import encode_source_line
from core.text.tokenizer import EOS, PAD, UNK, Token, Tokenizer, special

WEIGHT_LIMIT = LEAST_LIMIT
"""For row sums and positions: rounding errors are about 1e-6 at most, real errors far larger."""
LOGIT_LIMIT = 1e-4
"""Attention without hooks uses a fused kernel that sums in another order, so last digits differ."""
_BARRED = 200.0  # distance to the largest logit; e^−200 is 0 in float32


def check(
    record: TranslationRecord,
    evidence: Evidence,
    tokenizers: tuple[Tokenizer, Tokenizer],
    edits: Edits = Edits(),
) -> tuple[RecordCheck, ...]:
    """Return the eight checks of a record made under `edits`, in display order.

    `tokenizers` are those of the source and the target.
    """
    masks = masks_of(evidence.source_ids, evidence.target_ids, edits)
    return (
        _recomputed(record, evidence, masks, edits),
        _rows(record, masks, edits),
        _masked(record, masks, edits),
        _labels(record, evidence),
        _text(record, tokenizers),
        _probabilities(record, evidence),
        _positions(record, evidence, edits),
        _unchanged(evidence),
    )


def masks_of(
    source_ids: tuple[int, ...], target_ids: tuple[int, ...], edits: Edits = Edits()
) -> dict[Kind, Bools]:
    """Return the masks [Q, K] by kind, True = may attend: no padding, and no future in the decoder.

    Edits can remove either mask and can hide source positions.
    """
    source, target = np.array(source_ids) != PAD, np.array(target_ids) != PAD
    S, T = len(source), len(target)
    past = np.arange(T)[None, :] <= np.arange(T)[:, None]
    if not edits.padding_mask:
        source, target = np.ones(S, bool), np.ones(T, bool)
    if not edits.causal_mask:
        past = np.ones((T, T), bool)
    source = source & ~np.isin(np.arange(S), edits.hidden_source)
    return {
        "encoder": np.broadcast_to(source, (S, S)),
        "decoder": past & target,
        "cross": np.broadcast_to(source, (T, S)),
    }


def scores_of(sites: list[SiteEvidence], config: ModelConfig | None = None) -> Doubles:
    """Return QKᵀ/√d_k of all layers of one kind, before any mask: [L, H, Q, K].

    `config` says whether the network has the factor 1/√d_k and a bias by distance. Used by the
    checks only: displayed scores come from core.record.teacher_forced.
    """

    def project(inputs: list[Tensor], maps: list[tuple[Tensor, Tensor | None]]) -> Doubles:
        pairs = zip(inputs, maps, strict=True)  # one layer at a time: a large network's are 100 MB
        x_LND = np.stack([_double([x])[0] @ _double([weight])[0].T for x, (weight, _) in pairs])
        if biases := [bias for _, bias in maps if bias is not None]:
            x_LND += _double(biases)[:, None]
        L, N, _ = x_LND.shape
        return x_LND.reshape(L, N, sites[0].num_heads, -1).swapaxes(1, 2)

    q_LHQE = project([s.query_QD for s in sites], [s.to_query for s in sites])
    k_LHKE = project([s.memory_KD for s in sites], [s.to_key for s in sites])
    scores_LHQK = q_LHQE @ k_LHKE.swapaxes(2, 3)
    if config is None or config.scale_scores:
        scores_LHQK /= math.sqrt(q_LHQE.shape[-1])
    if config and config.relative_buckets and sites[0].kind != "cross":
        tables_LNH = _double([s.distances for s in sites if s.distances is not None])
        buckets_QK = _buckets(scores_LHQK.shape[-1], config, sites[0].kind == "decoder")
        scores_LHQK += np.moveaxis(tables_LNH[:, buckets_QK], -1, 1)
    return scores_LHQK


def _buckets(length: int, config: ModelConfig, causal: bool) -> NDArray[np.int64]:
    """Return the bucket of each query and key by their distance (Raffel et al. 2020, §2.1)."""
    ahead_QK = np.subtract.outer(np.arange(length), np.arange(length)).T  # key minus query
    count, most = config.relative_buckets or 0, config.relative_distance
    if causal:
        steps_QK, first_QK = np.maximum(-ahead_QK, 0), 0
    else:
        count //= 2
        steps_QK, first_QK = np.abs(ahead_QK), np.where(ahead_QK > 0, count, 0)
    near = count // 2
    wide_QK = np.log(np.maximum(steps_QK, 1).astype(np.float32) / np.float32(near))
    wide_QK = wide_QK / np.float32(math.log(most / near)) * np.float32(count - near)
    far_QK = np.minimum(near + wide_QK.astype(np.int64), count - 1)
    return first_QK + np.where(steps_QK < near, steps_QK, far_QK)


def _double(tensors: list[Tensor]) -> Doubles:
    return np.stack([t.detach().cpu().numpy() for t in tensors]).astype(np.float64)


def _largest(differences: ArrayLike) -> float:
    """Return the largest absolute difference, or 0 if empty; NaN propagates and fails any limit."""
    return float(np.abs(differences).max(initial=0.0))


def _line(name: str, figure: float, limit: float, words: str) -> RecordCheck:
    return RecordCheck(name, figure <= limit, figure, limit, words)


def _recomputed(
    record: TranslationRecord, evidence: Evidence, masks: dict[Kind, Bools], edits: Edits
) -> RecordCheck:
    """Compare all weights with the recomputed ones; report the head closest to its limit."""
    heads = [(0.0, LEAST_LIMIT)]  # largest difference and limit
    head_size, largest_score = 0, 0.0
    for kind in KINDS:
        sites = evidence.sites_of(kind)
        scores = scores_of(sites, evidence.config)
        mask, shown = masks[kind], record.maps(kind)
        if scores.shape == shown.shape:
            differences = np.abs(weights_of(scores, mask, kind, edits) - shown).max((-1, -2))
            limits = error_limits(scores, mask, kind, edits)
            heads += zip(differences.ravel().tolist(), limits.ravel().tolist(), strict=True)
            largest_score = max(largest_score, _largest(np.where(mask, scores, 0)))
        else:
            heads.append((math.inf, LEAST_LIMIT))
        head_size = len(sites[0].to_query[0]) // sites[0].num_heads
    ratios = [difference / limit for difference, limit in heads]
    figure, limit = heads[int(np.argmax(ratios))]  # NaN counts as the largest
    cells = sum(record.maps(kind).size for kind in KINDS)
    scaled = f"QKᵀ/√{head_size}" if evidence.config.scale_scores else "QKᵀ"
    bias = " + bias by distance" * bool(evidence.config.relative_buckets)
    formula = f"softmax({scaled}{bias} + mask)"
    if edits.changes_weights:
        formula += ", under the edits"
    words = "the largest difference"
    if any(limit > LEAST_LIMIT for _, limit in heads):
        words += (
            ", relative to its head's limit. Float32 rounds large scores more coarsely: the limit "
            "is 8 · 2⁻²⁴ times the head's largest absolute score (here up to "
            f"{largest_score:,.0f}), but at least 10⁻⁵, and is divided by a temperature below 1"
        )
    return _line(
        "Recomputed outside the model",
        figure,
        limit,
        f"All {cells:,} weights, recomputed in float64 from the inputs of each layer: "
        f"{formula}. Shown: {words}.",
    )


def _rows(record: TranslationRecord, masks: dict[Kind, Bools], edits: Edits) -> RecordCheck:
    sums_by_kind = []
    for kind, mask in masks.items():
        weights = record.maps(kind)
        cells = unmasked_cells(weights.shape, mask, kind, edits)
        sums_by_kind.append(weights.sum(-1, dtype=np.float64)[cells.any(-1)])
    sums = np.concatenate(sums_by_kind)
    return _line(
        "Every row sums to 1",
        _largest(sums - 1),
        WEIGHT_LIMIT,
        f"The sum of each of {len(sums):,} rows with an unmasked cell. Shown: the largest "
        "deviation from 1.",
    )


def _masked(record: TranslationRecord, masks: dict[Kind, Bools], edits: Edits) -> RecordCheck:
    what = "padding and later target tokens"
    if edits != Edits():
        what += ", as changed by the edits"
    masked = wrong = 0
    for kind, mask in masks.items():
        weights = record.maps(kind)
        masked_weights = weights[~unmasked_cells(weights.shape, mask, kind, edits)]
        masked += masked_weights.size
        wrong += np.count_nonzero(masked_weights) + np.count_nonzero(record.mask(kind) != mask)
    return _line(
        "A masked cell is exactly 0",
        float(wrong),
        0.0,
        f"{masked:,} cells are masked, as derived from the token ids: {what}. Shown: the number of "
        "violations.",
    )


def _labels(record: TranslationRecord, evidence: Evidence) -> RecordCheck:
    shown = [
        ([t.id for t in record.source], evidence.source_ids),
        ([t.id for t in record.target_in], evidence.target_ids),
    ]
    if record.hypotheses:
        shown.append(([t.id for t in record.target_out], record.hypotheses[0].ids))
    decoder = range(len(record.decoder))
    layers = [("encoder", layer) for layer in range(len(record.encoder))]
    layers += [(kind, layer) for layer in decoder for kind in ("decoder", "cross")]
    shown.append((layers, [(site.kind, site.layer) for site in evidence.sites]))
    wrong = sum(_unequal(labels, truth) for labels, truth in shown)
    tokens = len(evidence.source_ids) + len(evidence.target_ids)
    return _line(
        "Labels match the model's inputs",
        float(wrong),
        0.0,
        f"Compared with the {tokens:,} tokens that entered the model, their side and order, and "
        "the order in which its layers ran. Shown: the number of labels that differ.",
    )


def _unequal(labels: list, truth: tuple | list) -> int:
    return sum(a != b for a, b in zip(labels, truth, strict=False)) + abs(len(labels) - len(truth))


def _text(record: TranslationRecord, tokenizers: tuple[Tokenizer, Tokenizer]) -> RecordCheck:
    """Compare texts with token ids, and the source tokens with the typed text."""
    source, target = tokenizers
    typed = [_fields(t) for t in (*encode_source_line(source, record.source_text), special(EOS))]
    wrong = _unequal([_fields(t) for t in record.source], typed)
    produced = [*record.target_in, *record.target_out]
    alternatives = [token for row in record.alternatives for token in row]
    by_id = {id: target.token(id) for id in {t.id for t in (*produced, *alternatives)}}
    for tokens in (record.target_in, record.target_out):
        begun = False  # a text's first visible token starts a word, whatever its id
        for token in tokens:
            wrong += not _matches(token, by_id[token.id], begun)
            begun = begun or not (token.special or token.text == "")
    wrong += sum(_fields(token) != _fields(by_id[token.id]) for token in alternatives)
    texts = [(record.translation, [t.id for t in record.target_out])]
    texts += [(h.text, list(h.ids)) for h in record.hypotheses]
    wrong += sum(text != target.decode(ids) for text, ids in texts)
    tokens = len(record.source) + len(produced) + len(alternatives)
    return _line(
        "Texts match the token ids",
        float(wrong),
        0.0,
        f"{tokens:,} tokens compared with the tokenizers' vocabularies and the typed text, and "
        f"{len(texts)} translated texts with their ids. Shown: the number that differ.",
    )


def _fields(token: Token | RecordToken) -> tuple:
    return (token.id, token.piece, token.text, token.starts_word, token.special, token.unknown)


def _matches(shown: RecordToken, own: Token, begun: bool) -> bool:
    """Return whether a target token shows the text of its id; an unknown word shows what was typed.

    `own` is the vocabulary's token, `begun` whether a visible token comes before this one.
    """
    if shown.id == UNK and shown.unknown:
        return shown.piece == own.piece
    if shown.text == own.piece != own.text:  # a typed "▁" is shown as typed but read as a space
        own = replace(own, text=own.piece, starts_word=shown.starts_word)
    starts_word = own.starts_word if begun else shown.starts_word
    return _fields(shown) == (own.id, own.piece, own.text, starts_word, own.special, own.unknown)


def _probabilities(record: TranslationRecord, evidence: Evidence) -> RecordCheck:
    """Recompute the log-probabilities of tokens, alternatives and hypotheses."""
    logits_TV = _double([evidence.logits_TV])[0]
    peak = logits_TV.max(-1, keepdims=True)
    total = np.log(np.exp(logits_TV - peak).sum(-1, keepdims=True)) + peak
    K = record.alternative_log_probs.shape[1]
    V = logits_TV.shape[1]  # slice from V − K: -0 would take all when K is 0
    best = np.sort(np.partition(logits_TV, -K)[:, V - K :])[:, ::-1] - total
    ids = np.array([[token.id for token in row] for row in record.alternatives], np.int64)
    own = np.array([[token.id] for token in record.target_out])
    own_log_probs, of_ids = (np.take_along_axis(logits_TV, x, 1) - total for x in (own, ids))
    differences = [
        _largest(own_log_probs[:, 0] - record.log_probs),
        _largest(best - record.alternative_log_probs),
        _largest(of_ids - record.alternative_log_probs),
    ]
    words = (
        f"Log-probabilities of {len(own):,} tokens and of the top {K} at each step, recomputed in "
        "float64 from the logits"
    )
    if record.hypotheses or record.decode is not None:
        differences += _hypotheses(record, evidence)
        words += (
            f"; and the sums and scores of {len(record.hypotheses)} hypotheses, compared with a "
            "teacher-forced pass over each (differences of sums are per token)"
        )
    return _line(
        "Log-probabilities recomputed",
        _largest(differences),
        LOGIT_LIMIT,
        f"{words}. Shown: the largest difference, in nats.",
    )


def _hypotheses(record: TranslationRecord, evidence: Evidence) -> list[float]:
    """Return the errors of the hypotheses' sums and scores, and of their order, best first."""
    if record.decode is None or not record.hypotheses:
        return [math.inf]
    alpha = 0.0 if record.decode.beam == 1 else record.decode.length_penalty
    differences = []
    for h in record.hypotheses:
        score = h.log_prob / ((5 + len(h.ids)) / 6) ** alpha  # Wu et al. 2016, eq. 14
        # Rounding errors add up over the tokens, and the limit is per token.
        off = (h.log_prob - evidence.log_probs.get(h.ids, math.inf)) / len(h.ids)
        differences += [off, h.score - score]
    ranked = pairwise(h.score for h in record.hypotheses)
    return differences + [max(0.0, worse - better) for better, worse in ranked]


def _positions(record: TranslationRecord, evidence: Evidence, edits: Edits) -> RecordCheck:
    width = evidence.sites[0].query_QD.shape[-1]
    tables = evidence.learned_positions or (None, None)
    moved = (edits.source_positions, edits.target_positions)
    shown = (record.source_positions, record.target_positions)
    differences = []
    for edit, table, rows in zip(moved, tables, shown, strict=True):
        expected = _position_rows(edit, len(rows), width, table, evidence.config)
        differences.append(_largest(expected - rows) if expected.shape == rows.shape else math.inf)
    against = {
        "paper": f"sin and cos of p/10000^(2i/{width})",
        "fairseq": f"sin and cos of (p + 2)/10000^(2i/{width - 2})",
        "none": "zeros: nothing is added to the embeddings",
    }[evidence.config.position_table]
    if evidence.learned_positions:
        against = "the learned tables"
    if moved != (PositionEdit(), PositionEdit()):
        against += ", under the edits"
    return _line(
        "Positions recomputed",
        _largest(differences),
        WEIGHT_LIMIT,
        f"{sum(map(len, shown)):,} rows compared with {against}. Shown: the largest difference.",
    )


def _position_rows(
    edit: PositionEdit, length: int, width: int, table: Tensor | None, config: ModelConfig
) -> Doubles:
    """Return the encodings of the first `length` positions, under an edit: [length, width].

    They are rows of `table` or, without one, of the fixed table of `config`. Row numbers are
    computed here, independently of the code that applies the edit.
    """
    rows = np.arange(length)
    reordered = min(length, len(edit.order))
    rows[:reordered] = edit.order[:reordered]
    rows = edit.stretch * rows + edit.shift
    if table is not None:
        return edit.scale * _double([table])[0][rows]
    if config.position_table == "none":
        return np.zeros((length, width))
    fairseq = config.position_table == "fairseq"
    exponents = np.arange(0, width, 2) / (width - 2 * fairseq)
    angles = (rows[:, None] + 2 * fairseq) / 10_000.0**exponents
    return edit.scale * np.stack((np.sin(angles), np.cos(angles)), -1).reshape(length, width)


def _unchanged(evidence: Evidence) -> RecordCheck:
    plain_TV = evidence.plain_logits_TV
    change_TV = evidence.logits_TV - plain_TV
    # A bias of −10,000 bars a token: its probability is 0, and its logit is rounded to 0.001.
    barred_TV = plain_TV < plain_TV.amax(-1, keepdim=True) - _BARRED
    change = change_TV.masked_fill(barred_TV, 0.0).detach().cpu().numpy()
    return _line(
        "Recording leaves the output unchanged",
        _largest(change),
        LOGIT_LIMIT,
        "All logits, compared with those of the same pass without recording. Shown: the largest "
        "difference; that pass sums in another order, so the last digits may differ.",
    )
