"""Stops of the tour that run the network again: their texts agree with the network."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

import core
from app.lessons import texts
from app.lessons.texts import text
from app.look.markdown import plain
from app.stops import TOURS, Stop
from app.views.tour import trials
from core.analysis.inside_head import inside_head
from core.config import DecodeConfig
from core.experiments.site import site as site_of
from core.record.edits import Edits, PositionEdit
from core.record.record import RecordToken, TranslationRecord
from tests.app.page_checks import names, nothing_else, number, percent, translator
from tests.app.rendered import Rendered, render
from tests.app.test_tour_page import places

MODELS = [f"{model}-{d}" for d in ("de-en", "en-de") for model in ("scratch", "captions")]
MODELS += ["baseline-de-en"]
TRIALS = ("no-positions", "no-mask", "q-k", "search", "word", "where-what")
"""The last stops of a tour, in order."""


pytestmark = pytest.mark.usefixtures("without_questions")


def opened(name: str, trial: str) -> tuple[Stop, TranslationRecord, Rendered]:
    """Open the stop of a trial; return it, the record of its sentence, and its page."""
    model, direction = name.split("-", 1)
    stops = TOURS[direction]
    number = len(stops) - len(TRIALS) + TRIALS.index(trial)
    page = render("tour", direction=direction, model=model, stop=str(number + 1))
    found = page.texts("tour_links", "caption")[0]
    assert found.startswith(f"Stop {number + 1} of {len(stops)}")
    return stops[number], translator(name).inspect(stops[number].source), page


def claim_lines(page: Rendered, *lines: tuple[str, dict]) -> None:
    """Check a stop's lines about its measurements."""
    expected = [plain(text("tour", key, **values)) for key, values in lines]
    assert page.texts("tour_trial") == expected


def words(translation: str) -> list[str]:
    return re.findall(r"\w+", translation.lower())


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_without_positions_compares_both_translations(name):
    stop, record, page = opened(name, "no-positions")
    off = PositionEdit(scale=0.0)
    edits = Edits(source_positions=off, target_positions=off)
    own, other = record.translation, translator(name).inspect(stop.source, edits=edits).translation
    first, second = {"de-en": ("red", "blue"), "en-de": ("roten", "blauen")}[name[-5:]]
    before, after = words(own), words(other)
    assert before.index(first) < before.index(second), "every bundled model orders them so"
    kept = {first, second} <= set(after)
    assert not kept or after.index(first) > after.index(second), "no bundled model keeps the order"
    assert kept or name != "scratch-de-en", "the tour's default shows the effect"
    claim_lines(
        page,
        ("no-positions.with", {"translation": own}),
        ("no-positions.without", {"translation": other}),
        (f"no-positions.{'swapped' if kept else 'lost'}", {"first": first, "second": second}),
    )
    drawn = page.payload("figure_one")
    assert (drawn["current"], drawn["follow"]) == (stop.blocks, "")


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_without_the_causal_mask_compares_probabilities(name):
    _, record, page = opened(name, "no-mask")
    ids = tuple(token.id for token in record.target_out)
    edits = Edits(causal_mask=False)
    unmasked = translator(name).inspect(record.source_text, target_ids=ids, edits=edits)
    before, after = (np.exp(np.float64(r.log_probs)) for r in (record, unmasked))
    most = max(range(len(before)), key=lambda i: abs(after[i] - before[i]))
    change = float(unmasked.log_probs[most]) - float(record.log_probs[most])
    assert after.mean() < before.mean() - 0.1, "the tour's sentence shows the effect"
    means = {"before": percent(before.mean()), "after": percent(after.mean())}
    ends = {"before": percent(before[most]), "after": percent(after[most])}
    token = {"token": names(record.target_out, 1)[most], "nats": number(change, 1, "+")}
    claim_lines(page, ("no-mask.fall", {"count": len(ids)} | means), ("no-mask.most", token | ends))


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_of_two_vectors_computes_one_score(name):
    stop, record, page = opened(name, "q-k")
    (_, (target, source)) = stop.find
    produced, read = ([t.text for t in side] for side in (record.target_out, record.source))
    if target not in produced:
        assert name == "captions-en-de"
        claim_lines(page)
        return
    query, key = produced.index(target), read.index(source)
    layer, head = divmod(int(record.cross[:, :, query, key].argmax()), record.cross.shape[1])
    ids = [[token.id for token in side] for side in (record.source, record.target_out)]
    with translator(name).exclusive_model() as network:
        site = site_of(network, *ids, "cross", layer)
    inside = inside_head(site, head, query)
    size, sums, scores = len(inside.q_E), inside.scores_K, inside.scaled_K
    weights = record.cross[layer, head, query].astype(float)
    best, second = np.argsort(-weights)[:2]
    assert best == key and sums[key] == pytest.approx(scores[key] * math.sqrt(size))
    score = {"layer": layer + 1, "head": head + 1, "query": target, "key": source, "size": size}
    score |= {"sum": number(sums[key], 2), "score": number(scores[key], 2)}
    softmax = {"count": len(scores), "weight": percent(weights[key])}
    softmax |= {"other": names(record.source, 1)[second], "other_score": number(scores[second], 2)}
    softmax |= {"other_weight": percent(weights[second])}
    claim_lines(page, ("q-k.score", score), ("q-k.softmax", softmax))


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_where_and_what_compares_two_heads(name):
    stop, record, page = opened(name, "where-what")
    net, (_, source, read) = translator(name), stop.trial
    clean = net.inspect(source)
    both = zip(clean.target_out, record.target_out, strict=False)
    step = [one.id == other.id for one, other in both].index(False)
    (written,), (columns,) = places(record.target_out, stop.find[1]), places(record.source, read)
    on_word = record.cross[..., columns].sum(-1)
    shares = core.patch_all(net, clean, record).heads["cross"]
    ids = [token.id for token in record.target_out]
    word, own = (names(one.target_out, 1)[step] for one in (clean, record))
    heads, lines = [], []
    for key, of, row in (
        ("marks", on_word[..., written[-1] + 1], written[-1] + 1),
        ("fetches", shares, step),
    ):
        layer, head = np.argwhere(of == of.max())[0].tolist()
        off = Edits(heads_off=frozenset({("cross", layer, head)}))
        after = net.inspect(stop.source, edits=off, target_ids=ids)
        change = float(after.log_probs.sum(dtype=float)) - float(record.log_probs.sum(dtype=float))
        values = {"layer": layer + 1, "head": head + 1, "word": word, "own": own, "read": read}
        values |= {"weight": percent(float(on_word[layer, head, row]))}
        values |= {"off": number(change, 2, "+"), "restored": number(shares[layer, head], 2)}
        lines.append((f"where-what.{key}", values))
        heads.append((layer, head))
    assert shares[heads[0]] < shares[heads[1]] / 2, "each bundled model has a head for each"
    claim_lines(page, *lines, ("where-what.apart", {}))
    page.claim_matching(rf".* layer {heads[0][0] + 1} head {heads[0][1] + 1} comes first: .*")


def test_the_head_that_marks_and_the_one_that_fetches_are_found():
    weights = np.array([[0.1, 0.2, 0.9], [0.3, 0.0, 0.1]])
    for share, scale, verdict in (
        (0.19, 1, "apart"),
        (0.21, 1, "both"),
        (0.5, 1, "same"),
        (0.19, 0.5, "unmarked"),
    ):
        shares = np.array([[-0.5, 0.0, share], [0.4, 0.1, 0.0]])
        fetches = (0, 2) if verdict == "same" else (1, 0)
        found = trials.marks_and_fetches(scale * weights, shares)
        assert found == ((0, 2), fetches, verdict)


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_of_two_searches_compares_their_translations(name):
    stop, beam, page = opened(name, "search")
    greedy = translator(name).inspect(stop.source, decode=DecodeConfig(beam=1))
    totals = [sum(map(float, r.log_probs)) for r in (greedy, beam)]
    expected = [
        (
            f"beam.{search}",
            {
                "translation": found.translation,
                "probability": percent(math.exp(total)),
                "log_prob": number(total, 2),
            },
        )
        for search, found, total in zip(("greedy", "five"), (greedy, beam), totals, strict=True)
    ]
    ids = [[token.id for token in r.target_out] for r in (greedy, beam)]
    if ids[0] == ids[1]:
        assert name.startswith(("baseline", "captions"))
        expected.append(("beam.same", {}))
    else:
        at = next(i for i in range(len(ids[0])) if ids[0][i] != ids[1][i])
        differ: dict = {"number": at + 1}
        for which, found in (("greedy", greedy), ("beam", beam)):
            differ[which] = names(found.target_out, 1)[at]
            differ[f"{which}_probability"] = percent(math.exp(found.log_probs[at]))
        assert totals[1] > totals[0]
        expected += [("beam.differ", differ), ("beam.higher", {})]
    claim_lines(page, *expected)
    assert page.payload("figure_one")["current"] == stop.blocks
    claim_cell(page, beam, stop)


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_of_a_wrong_translation_quotes_it(name):
    stop, record, page = opened(name, "word")
    _, word, *right = stop.trial
    assert not {*words(record.translation)} & {*right}, "no bundled model gets it right"
    wrong = {"word": word, "right": " / ".join(right)}
    claim_lines(page, ("wrong.wrote", {"translation": record.translation}), ("wrong.wrong", wrong))
    claim_cell(page, record, stop)
    # The only other numbers are the stop's number and the count of tokens.
    nothing_else(page, fixed=("Stop ", "The model reads "), but=lambda i: i.where == "tour_trial")


def fake(translation: str, log_prob: float = 0.0) -> SimpleNamespace:
    """Return what trials read of a record."""
    return SimpleNamespace(
        translation=translation,
        log_probs=np.array([log_prob]),
        target_out=[
            RecordToken(sum(map(ord, translation)), translation, translation, True, False, False)
        ],
        source_text="",
    )


@pytest.mark.parametrize(
    ("trial", "own", "other", "key"),
    [
        (
            ("translates_word", "Igel", "hedgehog"),
            fake("A Hedgehog, running."),
            None,
            "wrong.right",
        ),
        (("translates_word", "Igel", "hedgehog"), fake("hedgehogs"), None, "wrong.wrong"),
        (("without_positions", "a", "b"), fake("a b"), fake("A, x b"), "no-positions.same"),
        (("without_positions", "a", "b"), fake("a b"), fake("a b"), "no-positions.unchanged"),
        (("without_positions", "a", "b"), fake("a"), fake("b a"), "no-positions.missing"),
        (("without_mask",), fake("x", -2), fake("x", -1), "no-mask.rise"),
        (("without_mask",), fake("x", -2), fake("x", -2), "no-mask.same"),
        (("two_searches",), fake("x", -1), fake("y", -2), "beam.lower"),
        (("two_searches",), fake("x", -2), fake("y", -2.0004), "beam.equal"),
    ],
)
def test_other_networks_get_the_other_verdicts(trial, own, other, key):
    answers = iter([own, other])
    bench = SimpleNamespace(translate=lambda *_: next(answers), rerun=lambda *_: other)
    said = trials._TRIALS[trial[0]](bench, own, None, *trial[1:])
    template = re.escape(texts.template("tour", key))
    pattern = re.sub(r"\\{\w+\\}", ".+", template)
    assert any(re.fullmatch(pattern, line) for line in said), said


def claim_cell(page: Rendered, record: TranslationRecord, stop: Stop) -> None:
    """Claim the sentence on the row with most weight on a source word, and on that row's head."""
    word = stop.find[1]
    on_word = record.cross[..., places(record.source, word)[0]].sum(-1).copy()
    for row, token in enumerate(record.target_out):
        if token.special or token.text in (".", ","):
            on_word[:, :, row] = -1
    row = int(on_word.sum((0, 1)).argmax())
    layer, head = np.unravel_index(on_word[:, :, row].argmax(), on_word.shape[:2])
    share = percent(on_word[layer, head, row])
    where = {"word": word, "layer": layer + 1, "head": head + 1, "share": f"**{share}**"}
    said = text("tour", "page.most_on", attention="cross-attention", **where)
    produced = names(record.target_out, 1)
    page.claim(
        f"{said} The row produces “{produced[row]}”, token {row + 1} of {len(produced)}.",
        "tour_text",
    )
