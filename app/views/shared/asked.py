"""Writes the texts of questions about a sentence: prompt, options and explanation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from app.components.question import Asked, Grid, Hint, Option, Place, Sentence, Texts
from app.components.question.payload import WORDS
from app.lessons.texts import text
from app.look.labels import ATTENTION, label, labels, word_labels
from app.look.numbers import number, percent, significant
from app.views.shared.axes import axes, axis_words
from core.analysis import questions, roles
from core.analysis.first_cell import first_cell
from core.analysis.questions import Unsettled
from core.record.record import TranslationRecord
from core.record.words import group_words
from core.text.tokenizer import normalise

if TYPE_CHECKING:  # imports torch
    from core.analysis.head_effects import HeadEffects
    from core.experiments.batch_masks import BatchMasks
    from core.frozen import Doubles
    from core.kinds import Kind
    from core.search.tree import WrittenTree

Candidate = Callable[[], Asked]


class NotAskable(Exception):  # noqa: N818 (no error: another question is asked)
    """Raised when a question cannot be asked about this sentence; the message is one line.

    With `later`, the question's numbers are still being computed: it is asked later, and no other
    question takes its place.
    """

    def __init__(self, message: str, *, later: bool = False) -> None:
        super().__init__(message)
        self.later = later


def attends(record: TranslationRecord, kind: str, layer: int, head: int, query: int) -> Asked:
    """Ask which word a row of a head attends to most. Raises NotAskable."""
    say = partial(text, "head")
    row = axis_words(record, kind)[0][query]
    try:
        found = questions.attends(record, kind, layer, head, query)
    except Unsettled as unsettled:
        raise NotAskable(_reason("head", "attends", unsettled, percent, query=row)) from None
    tokens, first = axes(record, kind)[1]
    words = cast("tuple[tuple[int, ...], ...]", found.options)
    whole = group_words(tokens)
    labelled = dict(zip(whole, word_labels(tokens, whole, first), strict=True))
    # In the decoder, the last word may be unfinished.
    names = [labelled.get(word) or "".join(label(tokens[i]) for i in word) for word in words]
    options = [
        Option(
            label=name,
            name=f"“{name}”",
            said=say("attends.option", word=name, share=percent(share)),
            value=percent(share),
            shade=share,
            special=tokens[word[0]].special,
            unknown=any(tokens[i].unknown for i in word),
            close=word[0] > 0 and not tokens[word[0]].starts_word and not tokens[word[0]].special,
        )
        for name, word, share in zip(names, words, found.evidence, strict=True)
    ]
    second = _second(found)
    place: dict[str, Any] = {"layer": layer + 1, "head": head + 1}
    best, even = percent(found.evidence[found.best]), percent(1 / len(words))
    around = _around(found)
    ends = {"first": names[around[0]], "last": names[around[-1]]}
    together = percent(sum(found.evidence[i] for i in around))
    return asked_about(
        "head",
        id=f"{record.id} attends {kind}.{layer}.{head}.{query}",
        question=found,
        prompt=say(f"attends.{kind}", query=row, **place),
        layout=Sentence(),
        options=options,
        explanation=[
            say(
                "attends.why",
                best=names[found.best],
                share=best,
                second=names[second],
                second_share=percent(found.evidence[second]),
                **place,
            ),
            *(
                [say("attends.tokens", tokens=count)]
                if (count := sum(map(len, words))) > len(words)
                else []
            ),
            say("attends.even", words=len(words), even=even),
        ],
        hints=[
            Hint(say("attends.hint", share=best, words=len(words), even=even)),
            Hint(say("attends.hint-near", share=together, **ends), around),
        ],
        uncertain=_uncertain("head", "attends", found, names, f"{100 * questions.NEAR_SHARE:.0f}"),
        place=Place(record, cast("Kind", kind), layer, head, query),
    )


def weighs(
    record: TranslationRecord, kind: str, layer: int, head: int, query: int, scores_K: Doubles
) -> Asked:
    """Ask how the softmax turns a difference of scores into weights. Raises NotAskable.

    `scores_K` are the scores of the row's keys, −∞ where they are masked.
    """
    say = partial(text, "head")
    queries, keys = axis_words(record, kind)
    try:
        found = questions.weighs(scores_K)
    except Unsettled as unsettled:
        values = {"query": queries[query]}
        raise NotAskable(_reason("head", "weighs", unsettled, _points, **values)) from None
    first, second = np.argsort(-scores_K, kind="stable")[:2].tolist()
    row = record.maps(kind)[layer, head, query]
    difference = {"points": _two_places(float(scores_K[first] - scores_K[second]))}
    factors = [significant(factor) for factor in found.evidence]
    words = {"best": keys[first], "second": keys[second]}
    share, second_share = percent(float(row[first])), percent(float(row[second]))
    return asked_about(
        "head",
        id=f"{record.id} weighs {kind}.{layer}.{head}.{query}",
        question=found,
        prompt=say("weighs.prompt", **words, **difference),
        layout=Texts(),
        options=listed([say("weighs.option", factor=factor) for factor in factors]),
        explanation=[
            say(
                "weighs.why",
                **words,
                **difference,
                factor=factors[found.best],
                share=share,
                second_share=second_share,
            ),
            say("weighs.rule"),
        ],
        hints=[
            Hint(say("weighs.hint", word=words["best"], share=share)),
            Hint(say("weighs.hint", word=words["second"], share=second_share)),
        ],
        uncertain=say("weighs.certain"),
        place=Place(record, cast("Kind", kind), layer, head, query),
    )


def contributes(
    record: TranslationRecord, place: tuple[str, int, int, int], q_E: Doubles, k_E: Doubles
) -> Asked:
    """Ask which dimension adds most to the score of a row and the key with most of its weight.

    `place` is a kind, layer, head and query; `q_E` and `k_E` are the vectors of query and key.
    Raises NotAskable.
    """
    say = partial(text, "tour")
    kind, layer, head, query = place
    queries, keys = axis_words(record, kind)
    products_E = q_E * k_E
    try:
        found = questions.contributes(products_E)
    except Unsettled as unsettled:
        reason = _reason("tour", "contributes", unsettled, _two_places, query=queries[query])
        raise NotAskable(reason) from None
    names = [
        say("contributes.option", q=_two_places(float(q_E[i])), k=_two_places(float(k_E[i])))
        for i in cast("tuple[int, ...]", found.options)
    ]
    terms = [_signed(term) for term in found.evidence]
    raising = [i for i, term in enumerate(found.evidence) if term > 0]
    return asked_about(
        "tour",
        id=f"{record.id} contributes {kind}.{layer}.{head}.{query}",
        question=found,
        prompt=say(
            "contributes.prompt",
            query=queries[query],
            key=keys[int(record.maps(kind)[layer, head, query].argmax())],
            size=len(products_E),
            shown=len(names),
        ),
        layout=Texts(),
        options=[
            Option(label=name, name=name, said=f"{name} = {term}", value=f"= {term}")
            for name, term in zip(names, terms, strict=True)
        ],
        explanation=[
            say("contributes.why"),
            say(
                "contributes.sum",
                size=len(products_E),
                sum=_signed(float(products_E.sum())),
                best=terms[found.best],
                raising=int((products_E > 0).sum()),
            ),
        ],
        hints=[
            Hint(say("contributes.hint", best=terms[found.best])),
            Hint(say("contributes.hint-sign", raising=len(raising), shown=len(names)), raising),
        ],
        uncertain=_uncertain(
            "tour", "contributes", found, names, f"{100 * questions.NEAR_PRODUCT:.0f}"
        ),
        place=Place(record, cast("Kind", kind), layer, head, query),
    )


def other_rows(
    record: TranslationRecord, kind: str, layer: int, head: int, first: int = 0
) -> Iterator[Candidate]:
    """Yield the questions about the rows of a head from `first` on, clearest first.

    The clearest row is the one whose largest share most exceeds an even share of the words that the
    row may attend to.
    """
    words = [list(word) for word in group_words(axes(record, kind)[1][0])]
    map_QK, mask_QK = record.maps(kind)[layer, head], record.mask(kind)
    shares_QW = np.stack([map_QK[:, word].sum(-1, dtype=np.float64) for word in words], axis=-1)
    words_Q = np.sum([mask_QK[:, word].any(-1) for word in words], axis=0)
    for query in np.argsort(1 / words_Q - shares_QW.max(-1), kind="stable"):
        if query >= first:
            yield partial(attends, record, kind, layer, head, int(query))


def cross_attention(record: TranslationRecord) -> Iterator[Candidate]:
    """Yield a question about the explorer's first row, then questions about rows of its head."""
    first = _first_place(record)
    if first.query is not None:
        yield partial(attends, record, "cross", first.layer, first.head, first.query)
    yield from other_rows(record, "cross", first.layer, first.head)


def _first_place(record: TranslationRecord) -> Place:
    """Return the cross-attention row that the explorer opens with, or a head without a row."""
    if cell := first_cell(record.cross, record.source, record.target_out):
        return Place(record, "cross", cell.layer, cell.head, cell.query)
    return Place(record, "cross", max(0, record.cross.shape[0] - 2), 0)


def masked(record: TranslationRecord, unmasked: TranslationRecord | None = None) -> Asked:
    """Ask which cells of the decoder's self-attention are masked. Raises NotAskable.

    `unmasked` is a pass of the same translation without the mask.
    """
    say = partial(text, "masks")
    length = record.decoder.shape[-1]
    part = range(min(length, questions.MOST_CELLS))
    try:
        found = questions.masked(record.mask("decoder"), part, part, record.decoder)
    except Unsettled as unsettled:
        raise NotAskable(_reason("masks", "masked", unsettled, str)) from None
    written, fed = (side[: len(part)] for side in axis_words(record, "decoder"))
    heads = record.decoder.shape[0] * record.decoder.shape[1]
    prompt = "masked.prompt" if len(part) < length else "masked.prompt-all"
    weights = np.array(found.evidence)
    is_masked = np.isin(range(len(weights)), sorted(found.correct))
    shades = [None if hidden else w for w, hidden in zip(weights, is_masked, strict=True)]
    return asked_about(
        "masks",
        id=f"{record.id} masked",
        question=found,
        prompt=say(prompt, rows=len(part)),
        layout=Grid(written, fed, say("masked.row_title"), say("masked.column_title"), filled=True),
        options=_cells(written, fed, shades),
        shaded_by=say("masked.shades", heads=heads),
        explanation=[
            say("masked.why", masked=len(found.correct), cells=len(found.options)),
            say(
                "masked.weights",
                heads=heads,
                most=percent(float(weights[~is_masked].max())),
                least=percent(float(weights[is_masked].max())),
            ),
        ],
        hints=_mask_hints(found, written),
        uncertain=say("masked.certain"),
        place=Place(record, "decoder", 0, 0, before=unmasked),
    )


def leak(with_mask: TranslationRecord, without: TranslationRecord) -> Asked:
    """Ask what removing the causal mask does to the probability of the same translation."""
    say = partial(text, "masks")
    before, after = (np.exp(record.log_probs) for record in (with_mask, without))
    found = questions.leak(before, after)
    margin = f"{100 * questions.NEAR_MEAN:g}"
    names = [say(f"leak.{name}", margin=margin) for name in found.options]
    return asked_about(
        "masks",
        id=f"{with_mask.id} leak",
        question=found,
        prompt=say("leak.prompt"),
        layout=Texts(),
        options=listed(names),
        explanation=[
            say(
                "leak.why",
                count=len(before),
                before=percent(float(before.mean())),
                after=percent(float(after.mean())),
            ),
            say("leak.future"),
        ],
        hints=[
            Hint(say("leak.hint", count=len(before), before=percent(float(before.mean())))),
            Hint(say("leak.hint-future", share=_ahead(without))),
        ],
        uncertain=say("leak.uncertain"),
    )


def padded(result: BatchMasks, words: Sequence[Sequence[str]] | None) -> Asked:
    """Ask which cells around the end of a batch's shortest target are masked.

    `words` are the labels of each sentence's target tokens, without padding; without them, tokens
    are named by their ids. Raises NotAskable.
    """
    say = partial(text, "masks")
    tokens_B = (result.target_in != 0).sum(1)
    row, length = int(tokens_B.argmin()), result.target_in.shape[1]
    tokens = int(tokens_B[row])
    if tokens in (0, length):
        raise NotAskable(say("padded.few"))
    end = min(length, tokens + 3)
    keys = range(max(0, end - questions.MOST_CELLS), end)
    queries = range(keys.start, tokens)
    mask, future, padding = (
        result.part("decoder", row, part) for part in ("combined", "causal", "padding")
    )
    try:
        found = questions.masked(mask, queries, keys)
    except Unsettled:
        raise NotAskable(say("padded.few")) from None
    ids = result.target_in[row]
    known = words[row] if words else [str(id) for id in ids[:tokens]]
    names = [*known, *["<pad>"] * (length - tokens)]
    part = np.ix_(queries, keys)
    ahead, behind = ~future[part].ravel(), ~padding[part].ravel()
    letters = ["p" * bool(b) + "f" * bool(a) for a, b in zip(ahead, behind, strict=True)]
    rows, columns = ([names[i] for i in span] for span in (queries, keys))
    fed = " ".join(map(str, result.target_in.ravel().tolist()))
    return asked_about(
        "masks",
        id=f"padded {row} {length} {fed}",
        question=found,
        prompt=say("padded.prompt", sentence=row + 1),
        layout=Grid(
            rows, columns, say("padded.row_title"), say("padded.column_title"), filled=True
        ),
        options=_cells(rows, columns, [None] * len(letters), letters),
        explanation=[
            say(
                "padded.why",
                future=int((ahead & ~behind).sum()),
                padding=int((behind & ~ahead).sum()),
                both=int((ahead & behind).sum()),
            ),
            say("padded.length", tokens=tokens, length=length),
        ],
        hints=_mask_hints(found, rows),
        uncertain=say("padded.certain"),
    )


def matters(
    record: TranslationRecord, effects: HeadEffects, kind: str, word: Sequence[int]
) -> Asked:
    """Ask which head of a kind matters most for a word, given as indices of target tokens.

    Raises NotAskable.
    """
    say = partial(text, "why")
    known = record.words("target")
    shown = word_labels(record.target_out, known, 1)[known.index(tuple(word))]
    try:
        found = questions.matters(effects, kind, word)
    except Unsettled as unsettled:
        raise NotAskable(_reason("why", "matters", unsettled, _two_places, word=shown)) from None
    heads = cast("tuple[tuple[str, int, int], ...]", found.options)
    names = [say("matters.name", layer=layer + 1, head=head + 1) for _, layer, head in heads]
    largest = max(map(abs, found.evidence))
    second = _second(found, abs)
    best = found.evidence[found.best]
    log_prob = float(effects.log_probs[list(word)].sum())
    ends = [percent(math.exp(value)) for value in (log_prob, log_prob + best)]
    key = "matters.why"
    if ends[0] == ends[1]:
        key, ends = "matters.why-log", [number(value, 2) for value in (log_prob, log_prob + best)]
    layers, columns = (1 + max(at) for at in zip(*[head[1:] for head in heads], strict=True))
    return asked_about(
        "why",
        id=f"{record.id} matters {kind} {word[0]}",
        question=found,
        paper=say("matters.paper"),
        prompt=say(
            "matters.needs" if best < 0 else "matters.changes", kind=ATTENTION[kind], word=shown
        ),
        layout=_heads_grid(layers, columns),
        options=[
            Option(
                label="",
                name=name,
                said=say("matters.option", head=name, change=_signed(change)),
                value=_signed(change),
                shade=change / largest,
            )
            for name, change in zip(names, found.evidence, strict=True)
        ],
        explanation=[
            say(
                key,
                head=names[found.best],
                word=shown,
                before=ends[0],
                after=ends[1],
                change=_signed(best),
            ),
            say(
                "matters.others",
                second=names[second],
                second_change=_signed(found.evidence[second]),
                little=sum(abs(change) < questions.LEAST_NATS for change in found.evidence),
                heads=len(names),
                least=_two_places(questions.LEAST_NATS),
            ),
        ],
        hints=[
            Hint(say("matters.hint", change=_signed(best))),
            _layer_hint("matters", found, list(map(abs, found.evidence)), columns),
        ],
        uncertain=_uncertain("why", "matters", found, names, _two_places(questions.NEAR_NATS)),
        scale="change",
        place=Place(record, cast("Kind", kind), *heads[found.best][1:], word[0]),
    )


def fetches(
    clean: TranslationRecord, corrupted: TranslationRecord, shares_LH: Doubles, reason: str
) -> Asked:
    """Ask which cross-attention head, copied from the `clean` pass, restores its word most.

    `shares_LH` [layer, head] are `Patched.heads["cross"]`, and `reason` says why they are not
    defined. Raises NotAskable.
    """
    say = partial(text, "why")
    if reason:
        raise NotAskable(say("fetches.undefined", reason=reason))
    try:
        found = questions.fetches(shares_LH)
    except Unsettled as unsettled:
        raise NotAskable(_reason("why", "fetches", unsettled, _two_places)) from None
    names = [
        say("matters.name", layer=layer + 1, head=head + 1)
        for layer, head in np.ndindex(shares_LH.shape)
    ]
    step = next(
        t
        for t, (a, b) in enumerate(zip(clean.target_out, corrupted.target_out, strict=False))
        if a.id != b.id
    )
    word, own = (labels(record.target_out, 1)[step] for record in (clean, corrupted))
    largest = float(np.abs(shares_LH).max())
    second = _second(found)
    layer, head = divmod(found.best, shares_LH.shape[1])
    return asked_about(
        "why",
        id=f"{corrupted.id} fetches {clean.id}",
        paper=say("fetches.paper"),
        question=found,
        prompt=say(
            "fetches.prompt",
            source=normalise(clean.source_text),
            other=normalise(corrupted.source_text),
            word=word,
            own=own,
        ),
        layout=_heads_grid(*shares_LH.shape),
        options=[
            Option(
                label="",
                name=name,
                said=say("fetches.option", head=name, share=_two_places(share)),
                value=_two_places(share),
                shade=share / largest,
            )
            for name, share in zip(names, found.evidence, strict=True)
        ],
        explanation=[
            say(
                "fetches.why",
                head=names[found.best],
                share=_two_places(found.evidence[found.best]),
                second=names[second],
                second_share=_two_places(found.evidence[second]),
            ),
            say("fetches.sum", heads=len(names), sum=_two_places(float(shares_LH.sum()))),
        ],
        hints=[
            Hint(say("fetches.hint", share=_two_places(found.evidence[found.best]))),
            _layer_hint("fetches", found, found.evidence, shares_LH.shape[1]),
        ],
        uncertain=_uncertain("why", "fetches", found, names, _two_places(questions.NEAR_RESTORED)),
        scale="change",
        place=Place(corrupted, "cross", layer, head, step),
    )


def _around(found: questions.Question) -> list[int]:
    """Return a third of a sentence's words in a row, at least two: those around the right one.

    Of all such parts of the sentence, it is the one with the largest share.
    """
    count = len(found.options)
    size = max(2, round(count / 3))
    starts = range(max(0, found.best - size + 1), min(found.best, count - size) + 1)
    start = max(starts, key=lambda at: sum(found.evidence[at : at + size]))
    return list(range(start, start + size))


def _mask_hints(found: questions.Question, rows: Sequence[str]) -> list[Hint]:
    """Return how many cells are masked: in all, and in the middle row."""
    cells, middle = len(found.options), len(rows) // 2
    columns = cells // len(rows)
    of_row = sum(index // columns == middle for index in found.correct)
    row = {"masked": of_row, "cells": columns, "row": rows[middle]}
    return [
        Hint(text("masks", "masked.hint", masked=len(found.correct), cells=cells)),
        Hint(text("masks", "masked.hint-row", **row)),
    ]


def _ahead(record: TranslationRecord) -> str:
    """Return the share of the decoder's self-attention that goes to later tokens."""
    return percent(float(np.triu(record.decoder, 1).sum() / record.decoder.sum()))


def _layer_hint(name: str, found: questions.Question, sizes: Sequence[float], columns: int) -> Hint:
    """Return the layer of the right head, and the sum of its heads' sizes."""
    layer = found.best // columns
    heads = range(layer * columns, (layer + 1) * columns)
    total = _two_places(sum(sizes[head] for head in heads))
    return Hint(text("why", f"{name}.hint-layer", layer=layer + 1, sum=total), heads)


def _heads_grid(layers: int, heads: int) -> Grid:
    """Return the grid of a kind's heads, as options."""
    rows, columns = ([str(n + 1) for n in range(count)] for count in (layers, heads))
    return Grid(
        rows, columns, text("why", "matters.row_title"), text("why", "matters.column_title")
    )


def important_heads(
    record: TranslationRecord, effects: HeadEffects, token: int | None = None
) -> Iterator[Candidate]:
    """Yield a question about the cross-attention heads for each word of the translation.

    The word of `token`, if given, comes first, then the words by size of the largest effect. The
    word with the largest one comes last: the first page's next step has already answered it.
    """
    words = record.words("target")
    largest = [np.abs(effects.changes["cross"][..., list(w)].sum(-1)).max() for w in words]
    first, *order = np.argsort(-np.array(largest), kind="stable").tolist()
    order.append(first)
    if token is not None:
        order.sort(key=lambda index: token not in words[index])
    for index in order:
        yield partial(matters, record, effects, "cross", words[index])


def order(before: TranslationRecord, after: TranslationRecord) -> Asked:
    """Ask how the translation changes when positions are removed. Raises NotAskable.

    Its map is that of the encoder head with the most weight on the previous token.
    """
    say = partial(text, "positions")
    try:
        found = questions.order(before.target_out, after.target_out)
    except Unsettled as unsettled:
        raise NotAskable(_reason("positions", "order", unsettled, str)) from None
    outcome = cast(str, found.options[found.best])
    texts = {"before": before.translation, "after": after.translation}
    longer = max(len(questions.compared_words(record.target_out)) for record in (before, after))
    previous = roles.strongest(roles.on_previous(before.encoder))
    at = previous.layer, previous.head
    without = percent(float(roles.on_previous(after.encoder)[at]))
    looks = {"layer": at[0] + 1, "head": at[1] + 1, "with": percent(previous.share)}
    return asked_about(
        "positions",
        id=f"{before.id} order {after.id}",
        question=found,
        prompt=say("order.prompt"),
        layout=Texts(),
        options=listed([say(f"order.{name}") for name in questions.ORDERS]),
        explanation=[
            say(f"order.why-{outcome}", **texts),
            say("order.common", words=longer, common=round(found.evidence[1] * longer), **texts),
        ],
        hints=[Hint(say("order.hint", without=without, **looks))],
        uncertain=say("order.uncertain"),
        place=Place(after, "encoder", *at, before=before),
    )


def wins(record: TranslationRecord, written: WrittenTree) -> Asked:
    """Ask which finished hypothesis of a search wins. Raises NotAskable."""
    say = partial(text, "steps")
    finished = written.tree.hypotheses
    try:
        scores = [hypothesis.score for hypothesis in finished]
        found = questions.wins(written.texts, scores, record.id)
    except Unsettled as unsettled:
        raise NotAskable(
            _reason("steps", "wins", unsettled, lambda value: number(value, 3))
        ) from None
    texts = [written.texts[cast(int, i)] or say("wins.empty") for i in found.options]
    different = differing(texts)
    best, second = found.best, _second(found)
    winner = finished[cast(int, found.options[best])]
    shown = [number(score, 3) for score in found.evidence]
    summed = say("wins.sum", log_prob=number(winner.log_prob, 3), tokens=len(winner.ids))
    near = len(found.near)
    margin = number(questions.NEAR_SCORE, 2)
    return asked_about(
        "steps",
        id=f"{record.id} wins {' '.join(shown)} {len(texts)}",
        question=found,
        prompt=say("wins.prompt"),
        layout=Texts(),
        options=[
            Option(
                label=part,
                name=written_text,
                said=say("wins.option", text=written_text, score=score),
                value=say("wins.value", score=score),
            )
            for part, written_text, score in zip(different, texts, shown, strict=True)
        ],
        explanation=[
            say(
                "wins.why",
                best=texts[best],
                score=shown[best],
                second=texts[second],
                second_score=shown[second],
            ),
            summed,
        ],
        hints=[Hint(say("wins.hint", score=shown[best], second=shown[second])), Hint(summed)],
        uncertain=say("wins.near-one", margin=margin)
        if near == 1
        else say("wins.near-many", near=near, margin=margin)
        if near
        else say("wins.clear", margin=margin, beam=written.tree.decode.beam),
    )


def differing(texts: Sequence[str]) -> list[str]:
    """Return the part of each text in which they differ, with the word before and after it."""
    words = [text.split() for text in texts]
    least = min(map(len, words))

    def common(lines: list[list[str]], most: int) -> int:
        firsts = (len({line[at] for line in lines}) == 1 for at in range(most))
        return next((at for at, same in enumerate(firsts) if not same), most)

    before = common(words, least)
    after = common([line[::-1] for line in words], least - before)
    start, end = max(0, before - 1), max(0, after - 1)
    return [
        " ".join(["…"] * (start > 0) + line[start : len(line) - end] + ["…"] * (end > 0))
        for line in words
    ]


def _cells(
    rows: Sequence[str],
    columns: Sequence[str],
    shades: Sequence[float | None],
    values: Sequence[str] | None = None,
) -> list[Option]:
    """Return the cells of a mask, row by row; a shade is None where a cell has no colour."""
    names = [
        text("masks", "masked.cell", query=f"“{row}”", key=f"“{column}”")
        for row in rows
        for column in columns
    ]
    return [
        Option(label="", name=name, said=name, value=value, shade=None if w is None else float(w))
        for name, value, w in zip(names, values or [""] * len(names), shades, strict=True)
    ]


def asked_about(lesson: str, *, layout: Sentence | Texts | Grid, **fields: Any) -> Asked:
    """Return a question of a lesson with the component's own texts for its layout."""
    cells = isinstance(layout, Grid) and layout.filled
    hint = {"words": "word", "list": "text", "grid": "cells" if cells else "head"}[layout.layout]
    names = "option found masked extra one other".split()  # the script fills them
    blanks = {name: f"{{{name}}}" for name in names}
    keys = {
        name: f"{name}-cells" if cells and name in ("wrong", "pair") else name for name in WORDS
    }
    return Asked(
        paper=fields.pop("paper", "") or text(lesson, "paper"),
        hint=text("questions", f"hint.{hint}"),
        words={name: text("questions", f"words.{key}", **blanks) for name, key in keys.items()},
        layout=layout,
        **fields,
    )


def listed(names: Sequence[str]) -> list[Option]:
    """Return options that are named by their texts."""
    return [Option(label=name, name=name, said=name) for name in names]


def _second(found: questions.Question, size: Callable[[float], float] = lambda value: value) -> int:
    """Return the index of the option with the second largest number."""
    others = (i for i in range(len(found.options)) if i != found.best)
    return max(others, key=lambda i: size(found.evidence[i]))


def _uncertain(
    lesson: str, name: str, found: questions.Question, names: Sequence[str], margin: str
) -> str:
    """Say which near-ties count as well, or that there are none."""
    near = [names[i] for i in sorted(found.near)]
    if not near:
        return text(lesson, f"{name}.clear", margin=margin)
    key = "near-one" if len(near) == 1 else "near-many"
    return text(lesson, f"{name}.{key}", near=", ".join(near), margin=margin)


def _reason(
    lesson: str, name: str, unsettled: Unsettled, shown: Callable[[float], str], **values: Any
) -> str:
    """Say why a question is not asked, with the numbers that decided."""
    numbers = {
        key: str(value) if key in ("near", "options") else shown(value)
        for key, value in unsettled.numbers.items()
    }
    if lesson == "head" and "margin" in unsettled.numbers:  # in percentage points
        numbers["margin"] = f"{100 * unsettled.numbers['margin']:.0f}"
    return text(lesson, f"{name}.{unsettled.reason}", **numbers, **values)


def _points(value: float) -> str:
    return number(value, 1)


def _two_places(value: float) -> str:
    return number(value, 2)


def _signed(value: float) -> str:
    return number(value, 2, sign="+")
