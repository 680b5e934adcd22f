"""Pages of networks with many layers and heads: partial results, interruptions, memory limits.

The network has 12 + 12 layers of 16 heads, as large ones do, but tiny vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.runtime.scriptrunner import RerunData, StopException
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests, ScriptRequestType
from streamlit.testing.v1 import AppTest

import core.experiments.head_effects as module
from app import streamlit_internals
from app.state import models, results, waiting
from app.state.models import Implementation
from app.views.why import heads as page_of_heads
from core.checkpoint.errors import CheckpointError
from core.kinds import KINDS
from core.record.edits import Edits, Head
from core.translator import Translator
from tests.app.page_checks import ROOT
from tests.app.rendered import Rendered, array, read, render
from tests.app.test_masks_positions import save_small_model

SOURCE = "Ein Mann in einem roten Hemd spricht mit einem Hund im Park."
LAYERS, HEADS = 12, 16
ALL = 3 * LAYERS * HEADS
FOLDS = ("open_pairs", "open_choice", "open_lens", "open_decoder_lens", "open_sources")


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Iterator[Translator]:
    """The app's only model: 12 + 12 layers, 16 heads, d_model 32."""
    root = tmp_path_factory.mktemp("large")
    save_small_model(
        root / "large-de-en",
        d_model=32,
        num_heads=HEADS,
        num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
        dim_feedforward=32,
        max_length=20,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "CHECKPOINTS", root)
        models._listed.clear()
        yield Translator.load(root / "large-de-en", "cpu")
    models._listed.clear()
    models._loaded.clear()


@pytest.fixture(autouse=True)
def nothing_is_known():
    results._store.clear()
    results._UNFINISHED.clear()
    yield
    results._store.clear()


@pytest.fixture
def ablated(monkeypatch) -> list:
    """Every set of heads that head effects switch off, in order."""
    found: list = []
    original = module.log_probs_without

    def counted(model, source, target, choices, means=None):
        found.extend(choices)
        return original(model, source, target, choices, means)

    monkeypatch.setattr(module, "log_probs_without", counted)
    return found


def hurried(monkeypatch) -> list[float | None]:
    """Let the page run one batch at a time; return the timers that it sets."""
    monkeypatch.setattr(page_of_heads, "FIRST_S", 1e-9)
    monkeypatch.setattr(page_of_heads, "EACH_S", 1e-9)
    timers: list[float | None] = []
    fragment = waiting.st.fragment

    def noted(body, run_every=None, **options):
        timers.append(run_every)
        return fragment(body, run_every=run_every, **options)

    monkeypatch.setattr(waiting.st, "fragment", noted)
    return timers


def bars(page: Rendered) -> dict[str, float]:
    """Return the lengths of the figure's bars by head, from the top."""
    (figure,) = page.figures["why_heads"]
    (trace,) = figure["data"][:1]
    rows = dict(zip(figure["layout"]["yaxis"]["ticktext"], array(trace["x"]), strict=True))
    return rows


def true_changes(large: Translator, heads: list[Head]) -> dict[str, float]:
    """Return, by head, the change of the translation's log-probability with that head off."""
    whole = large.inspect(SOURCE)
    ids = [token.id for token in whole.target_out]
    before = large.inspect(SOURCE, target_ids=ids).log_probs.astype(float).sum()
    return {
        f"{kind} {layer + 1}.{head + 1}": large.inspect(
            SOURCE, target_ids=ids, edits=Edits(heads_off=frozenset({(kind, layer, head)}))
        )
        .log_probs.astype(float)
        .sum()
        - before
        for kind, layer, head in heads
    }


def test_ask_why_ranks_the_heads_it_has_and_says_what_is_missing(large, ablated, monkeypatch):
    timers = hurried(monkeypatch)
    page = render("why", source=SOURCE, state=dict.fromkeys(FOLDS, False))
    done = len(ablated) - 1  # the first choice is the pass with all heads
    assert 16 < done < ALL / 3 and ablated[0] == frozenset()
    said = re.fullmatch(
        r"(\d+) of 576 heads have been switched off, the last layers first\."
        r" Still to come(?:, in about \d+ \w+)?: layers "
        r"1–(\d+) of the cross-attention; layers 1–12 of the decoder’s self-attention; layers 1–12 "
        r"of the encoder’s self-attention\.",
        page.texts("why_unfinished")[0].replace("'", "’"),
    )
    assert said and int(said[1]) == done and int(said[2]) == LAYERS - done // HEADS
    assert page.texts("question_why") == [
        f"The question of which head matters most is asked once all heads have been ablated: "
        f"{done} of 576 so far."
    ]
    assert "asked_why" not in page.payloads
    last: list[Head] = [
        ("cross", LAYERS - 1 - i // HEADS, HEADS - 1 - i % HEADS) for i in range(done)
    ]
    expected = true_changes(large, last)
    ranked = sorted(expected, key=lambda name: -abs(expected[name]))
    shown = bars(page)
    assert set(shown) <= set(expected) and len(shown) == 12
    for name, value in shown.items():
        assert value == pytest.approx(expected[name], abs=2e-5)
    largest = max(abs(value) for value in shown.values())
    assert largest == pytest.approx(abs(expected[ranked[0]]), abs=2e-5)
    assert "matters most so far: without it" in page.texts("why_matters")[0]
    assert page_of_heads.PAUSE_S in timers, "the browser asks for the rest"


def test_the_time_left_is_told_from_the_heads_that_were_measured(large, ablated, monkeypatch):
    """As if each weight of a layer took equally long, for each token that is computed again."""
    hurried(monkeypatch)
    monkeypatch.setattr(results, "seconds_so_far", lambda *_: 60.0)
    page = render("why", source=SOURCE, state=dict.fromkeys(FOLDS, False))
    done, record = len(ablated) - 1, large.inspect(SOURCE)
    assert done < ALL / 3
    sides = {s: large._model.stack(s).layers for s in ("encoder", "decoder")}
    weights = {
        side: [sum(p.numel() for p in layer.parameters() if p.dim() > 1) for layer in of]
        for side, of in sides.items()
    }
    sizes = len(record.source), len(record.target_out)
    output = large.card.model.target_vocab_size * large.card.model.d_model

    def cost(kind: str, layer: int) -> int:
        after = weights["decoder"][0 if kind == "encoder" else layer :]
        before = weights["encoder"][layer:] if kind == "encoder" else []
        return sizes[0] * sum(before) + sizes[1] * (sum(after) + output)

    each = [cost(k, la) for k in KINDS[::-1] for la in range(LAYERS)[::-1] for _ in range(HEADS)]
    left = 60 * sum(each[done:]) / sum(each[:done])
    assert left > 100
    assert f", in about {round(left / 60)} minutes: layers" in page.texts("why_unfinished")[0]


def test_a_ranking_that_grows_is_covered_before_its_question(large, ablated, monkeypatch):
    hurried(monkeypatch)
    page = render("why", source=SOURCE, state=dict.fromkeys(FOLDS, False), lesson="")
    assert page.found("cover_why") and not page.found("why_matters")
    before = len(ablated)
    page = read(page.app.run())
    assert len(ablated) > before and "why_heads" not in page.figures


def test_ask_why_continues_and_switches_no_head_off_twice(large, ablated, monkeypatch):
    timers = hurried(monkeypatch)
    page = render("why", source=SOURCE, state=dict.fromkeys(FOLDS, False))
    counts = [len(ablated)]
    while page.found("why_unfinished"):
        timers.clear()
        page = read(page.app.run())
        assert len(ablated) > counts[-1] or not page.found("why_unfinished")
        counts.append(len(ablated))
        assert len(counts) < 200
    assert not page.app.exception
    assert len(counts) > 5
    assert len(ablated) == len(set(ablated)) == 1 + ALL
    assert page_of_heads.PAUSE_S not in timers, "a finished answer has no timer"
    (line,) = page.texts("question_why")
    assert "have been ablated" not in line  # the network is random: no head matters much
    heads = sorted(bars(page))
    assert "so far" not in page.texts("why_matters")[0] and len(heads) == 12
    every = ((k, la, h) for k in KINDS for la in range(LAYERS) for h in range(HEADS))
    drawn = [(k, la, h) for k, la, h in every if f"{k} {la + 1}.{h + 1}" in heads]
    assert bars(page) == pytest.approx(true_changes(large, drawn), abs=2e-5)


def test_another_sentence_stops_the_rest_and_coming_back_goes_on(large, ablated, monkeypatch):
    hurried(monkeypatch)
    page = render("why", source=SOURCE, state=dict.fromkeys(FOLDS, False))
    first = len(ablated)
    app: AppTest = page.app
    app.text_area(key="source").set_value("Eine Frau liest.").run()
    other = ablated[first:]
    assert other and other[0] == frozenset(), "the other sentence begins with its own first batch"
    app.text_area(key="source").set_value(SOURCE).run()
    again = ablated[first + len(other) :]
    assert again and not set(again) & set(ablated[:first]), "no head of the first run is repeated"


def test_a_fast_network_answers_at_once(ablated, monkeypatch):
    """With a small network the whole ranking takes one batch: no timer, no word on progress."""
    timers = hurried(monkeypatch)
    monkeypatch.setattr(models, "CHECKPOINTS", ROOT / "checkpoints")
    models._listed.clear()
    page = render("why", source="Ein Hund läuft.", state=dict.fromkeys(FOLDS, False))
    assert not page.found("why_unfinished") and page_of_heads.PAUSE_S not in timers
    assert len(ablated) == 49
    models._listed.clear()


@pytest.fixture
def run(monkeypatch) -> SimpleNamespace:
    """A running fragment called "mine", and the requests that arrive meanwhile."""
    context = SimpleNamespace(
        session_id="visitor", fragment_ids_this_run=["mine"], script_requests=ScriptRequests()
    )
    monkeypatch.setattr(streamlit_internals, "get_script_run_ctx", lambda **options: context)
    return context


def queue_of(run: SimpleNamespace) -> list[str]:
    return run.script_requests._rerun_data.fragment_id_queue


def test_a_click_in_another_section_comes_before_a_long_one(run):
    streamlit_internals.yield_to_waiting_fragment(())  # no request waits
    run.script_requests.request_rerun(RerunData(fragment_id="other"))
    with pytest.raises(StopException):
        streamlit_internals.yield_to_waiting_fragment(())
    assert queue_of(run) == ["other", "mine"], "the interrupted one runs again"
    assert run.script_requests.on_scriptrunner_ready().type is ScriptRequestType.RERUN


def test_a_timer_does_not_interrupt_a_section(run):
    run.script_requests.request_rerun(RerunData(fragment_id="timed"))
    streamlit_internals.yield_to_waiting_fragment({"timed"})
    assert queue_of(run) == ["timed"]
    run.script_requests.request_rerun(RerunData(fragment_id="other"))
    with pytest.raises(StopException):
        streamlit_internals.yield_to_waiting_fragment({"timed"})
    assert queue_of(run) == ["timed", "other", "mine"]


def test_a_choice_in_the_section_itself_starts_it_again_once(run):
    run.script_requests.request_rerun(RerunData(fragment_id="mine"))
    with pytest.raises(StopException):
        streamlit_internals.yield_to_waiting_fragment(())
    assert queue_of(run) == ["mine"]


def test_a_run_of_the_whole_page_is_not_interrupted(run):
    run.fragment_ids_this_run = None
    run.script_requests.request_rerun(RerunData(fragment_id="other"))
    streamlit_internals.yield_to_waiting_fragment(())
    assert queue_of(run) == ["other"]


def test_a_model_above_the_limit_is_refused_in_one_line(large, monkeypatch):
    card = large.card
    models._networks.clear()
    count = card.parameters
    for share, model, what in (
        (8, card, "large-de-en needs"),
        (12, Implementation(card, other=True), "large-de-en in both implementations needs"),
    ):
        needed = share * count
        monkeypatch.setattr(models, "LIMIT", needed - 1)
        with pytest.raises(CheckpointError) as refused:
            models.translator(model)
        mib = -(-needed // 2**20)
        assert str(refused.value) == (
            f"{what} {mib:,} MiB of memory for {count:,} parameters: the limit of all loaded "
            f"models is {-(-(needed - 1) // 2**20):,} MiB, choose a smaller model or start the app "
            f"with HEADLIGHT_MODELS_MB={mib}"
        )
        monkeypatch.setattr(models, "LIMIT", needed)
        models._networks.clear()
        assert models.translator(model).card.parameters == count
    assert models._networks().size == 12 * count
    monkeypatch.setattr(models, "LIMIT", 8 * count - 1)
    models._networks.clear()
    page = render("", source="Ein Hund.")
    assert [e.value for e in page.app.error if "HEADLIGHT" in e.value] and not page.app.exception
    models._networks.clear()


def test_room_is_made_before_a_model_is_loaded(large, monkeypatch):
    """Otherwise the old and the new model are in memory together, above the limit."""
    models._networks.clear()
    monkeypatch.setattr(models, "LIMIT", 12 * large.card.parameters)
    first = models.translator(large.card)
    sizes: list[int] = []
    original = models._load

    def load(folder: str):
        sizes.append(models._networks().size)
        return original(folder)

    monkeypatch.setattr(models, "_load", load)
    key = models.key_of
    monkeypatch.setattr(models, "key_of", lambda model: (*key(model), "another"))
    assert models.translator(large.card) is not first
    assert sizes == [0]
    models._networks.clear()


def test_the_maps_of_a_long_sentence_are_sent_in_few_bytes(large):
    """Each unmasked cell is one byte: 1.7 MB for 60 tokens and 192 heads of each kind."""
    from app.components.explorer.payload import MESSAGE_LIMIT, pack, payload
    from tests.app.explorer_harness import synthetic_record

    record = synthetic_record("60", LAYERS, HEADS)
    data = payload(record, {"kind": "cross", "layer": 0, "head": 0})
    cells = LAYERS * HEADS * (2 * 60 * 60 + 60 * 61 // 2)
    assert sum(len(data[kind]) for kind in ("encoder", "decoder", "cross")) == cells
    assert len(pack(data)) < cells + 200_000 < MESSAGE_LIMIT / 8
    assert all(np.frombuffer(data[kind], "u1").max() > 0 for kind in ("encoder", "cross"))
