"""The page Heads, rendered in-process: a network's atlas, links, own text, and bad input."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from app.components.atlas.measures import measures
from app.components.atlas.story import KIND_WORDS
from app.state import atlases, models, results
from core.atlas.atlas import Atlas
from core.atlas.labels import labels
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.experiments import head_effects
from core.kinds import KINDS
from core.record.edits import Edits
from tests.app.atlases import atlas, origin, told, with_arrays
from tests.app.rendered import Rendered, read, render, unpacked

ROOT = Path(__file__).resolve().parents[2]
LINES = ("Ein Hund läuft über die Wiese.", "Eine Frau liest ein Buch.", "Kinder spielen am Strand.")


def weights_of(name: str = "scratch-de-en") -> str:
    config = json.loads((ROOT / "checkpoints" / name / "config.json").read_text("utf-8"))
    return config["files"]["model.safetensors"]["sha256"]


def own(seed: int = 5, **changes: Any) -> Atlas:
    """Return an atlas that belongs to the shipped network."""
    return atlas(seed, origin=origin(weights_sha256=weights_of()), **changes)


@pytest.fixture
def beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Atlas | bytes | None], Path]:
    """Return `beside(content)`, which makes every network use this atlas file, or none."""

    def put(content: Atlas | bytes | None) -> Path:
        file = tmp_path / "atlas.npz"
        if isinstance(content, Atlas):
            content.save(file)
        elif content is not None:
            file.write_bytes(content)
        monkeypatch.setattr(atlases, "FILE", str(file))  # an absolute path replaces the folder
        return file

    return put


def shown(page: Rendered, key: str = "heads_atlas") -> dict[str, Any]:
    return unpacked(page.payload(key))[0]


def test_the_atlas_of_the_selected_network_is_shown(beside: Callable, monkeypatch) -> None:
    whole = own()
    beside(whole)
    page = render("heads", head="decoder.2.1", measure="entropy", x="mean", y="bleu", turn="7")
    data = shown(page)
    assert data["network"] == "scratch-de-en"
    assert data["origin"]["weights_sha256"] == weights_of()
    assert data["opened"]["head"] == 16 + 2 * 4 + 1
    assert [data["opened"][name] for name in ("measure", "x", "y")] == ["entropy", "mean", "bleu"]
    assert data["link"] == {"direction": "de-en", "model": "scratch", "search": "beam"}
    assert data["counterpart"] == data["link"] | {"model": "baseline"}
    blob = unpacked(page.payload("heads_atlas"))[1]
    at = data["distance"]["at"]
    sent = np.frombuffer(blob[at : at + data["distance"]["length"]], "<f4").reshape(48, -1)
    assert np.array_equal(sent, whole.arrays["distance"])
    assert data["definitions"]["previous token"].startswith("Attends to the token just before")
    losses, bleu = whole.arrays["zero"], whole.arrays["bleu_zero"]
    most = int(losses[:, 0].argmax())
    first = losses[most, 1] > np.delete(losses[:, 2], most).max()
    kind, layer, head = whole.heads[most]
    one = f"ead {layer + 1}.{head + 1} of the {KIND_WORDS[kind]} "
    matters = f"H{one}matters most of 48: without it"
    start = matters if first else f"Of 48 heads, without h{one}the loss rises most"
    falls = "falls" if bleu[most, 0] < 0 else "rises"
    assert data["headline"].startswith(f"{start}, BLEU {falls} by ")
    half = [(values[most, 2] - values[most, 1]) / 2 for values in (losses, bleu)]
    before = whole.arrays["bleu"][0]
    expected = [abs(bleu[most, 0]), half[1], before, losses[most, 0], half[0]]
    expected.append(100 * np.exp(-losses[most, 0]))
    assert told(data["headline"])[-6:] == pytest.approx(expected, rel=0.06)
    monkeypatch.setattr(Card, "credit", "imported, by A. Author, licence MIT")
    assert shown(render("heads"))["network"] == f"scratch-de-en ({Card.credit})"


def test_the_way_back_from_the_explorer_opens_the_same_head(beside: Callable) -> None:
    beside(own())
    opened = shown(render("heads", kind="cross", layer="1", head="2", q="3"))["opened"]
    assert (opened["head"], opened["asked"]) == (32 + 4 + 2, ["head"])
    opened = shown(render("heads", kind="cross", layer="1", head="mean"))["opened"]
    assert opened["head"] == own().arrays["zero"][:, 0].argmax()


@pytest.mark.parametrize(
    ("query", "option", "link"),
    [
        (
            {"direction": "en-de", "model": "baseline"},
            " --other captions-en-de --out atlas.npz",
            {"direction": "en-de", "model": "captions"},
        ),
        ({"direction": "en-de", "model": "captions"}, "", None),
        ({"direction": "en-de", "model": "captions"}, " --other removed-en-de", None),
    ],
)
def test_the_counterpart_is_the_network_that_the_atlas_was_matched_with(
    beside: Callable, query: dict[str, str], option: str, link: dict[str, str] | None
) -> None:
    weights = weights_of(f"{query['model']}-{query['direction']}")
    command = f"python -m core.analyse atlas --checkpoint DIR{option}"
    beside(atlas(origin=origin(weights_sha256=weights, command=command)))
    data = shown(render("heads", direction=query["direction"], model=query["model"]))
    assert data["link"] == query | {"search": "beam"}
    assert data["counterpart"] == (link and link | {"search": "beam"})


def follow(page: str, query: str) -> Rendered:
    """Click a link of the component that leads to another page."""

    def click(app: AppTest) -> None:
        app.session_state["heads_atlas"] = {"link": {"page": page, "query": query}}
        app.run()

    return render("heads", act=click)


def test_a_quoted_sentence_opens_the_first_page(beside: Callable) -> None:
    beside(own())
    query = "source=Ein+Hund%21&target=A+dog%21&kind=cross&layer=1&head=2&q=3&k=4&model=scratch"
    header, _ = unpacked(follow("", query).payload("explorer"))
    assert header["source_text"] == "Ein Hund!" and header["translation"] == "A dog!"
    view = {name: header["view"][name] for name in ("kind", "layer", "head")}
    assert view == {"kind": "cross", "layer": 1, "head": 2}


def test_a_head_leads_to_its_training(beside: Callable) -> None:
    beside(own())
    assert shown(render("heads"))["training"] is True
    page = follow("training", "direction=de-en&model=scratch&kind=decoder&layer=2&head=1")
    opened = unpacked(page.payload("training"))[0]["opened"]
    assert (opened["kind"], opened["layer"], opened["head"]) == ("decoder", 2, 1)


def test_the_head_of_a_link_is_not_a_view_of_the_explorer(beside: Callable) -> None:
    """Otherwise *Translate* would open without the cell that it shows first."""
    beside(own())

    def go_on(app: AppTest) -> None:
        del app.query_params["head"]  # as a browser does
        app.switch_page("views/translate.py").run()

    header, _ = unpacked(render("heads", head="cross.2.0", act=go_on).payload("explorer"))
    assert header["view"] == unpacked(render("").payload("explorer"))[0]["view"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"head": "cross.9.9"}, "no head cross.9.9 .* decoder 2.4 .*decoder.1.3"),
        ({"measure": "losses"}, "no measure losses .* colour shows {zero} .zero in"),
        ({"x": "nonsense", "head": "cross.0.0"}, "no measure .* x axis shows {entropy} .entropy"),
        ({"y": "nonsense"}, "no measure nonsense .* y axis shows {zero} .zero in"),
        ({"curve": "nonsense"}, "no curve nonsense: choose loss or bleu"),
        ({}, ""),
        ({"head": "cross.3.3", "measure": "mean", "x": "bleu", "y": "zero", "curve": "bleu"}, ""),
        ({"kind": "cross", "layer": "1", "head": "mean"}, ""),
        ({"kind": "cross", "layer": "1", "head": "2"}, ""),
    ],
)
def test_what_an_address_asks_for_and_is_not_there_is_said(
    beside: Callable, query: dict[str, str], said: str
) -> None:
    zero = own().arrays["zero"].copy()
    zero[16 + 4 + 3, 0] = 8.0  # decoder 2.4
    whole = with_arrays(own(), zero=zero)
    beside(whole)
    lines = texts_of(render("heads", **query), "warning")
    assert len(lines) == bool(said)
    labels = {measure.key: measure.label for measure in measures(whole)}
    assert all(re.search(said.format(**labels), line) for line in lines)


def texts_of(page: Rendered, kind: str) -> list[str]:
    return [text.replace("\\", "").replace("\u2060", "") for text in page.texts(kind=kind)]


def errors(page: Rendered) -> list[str]:
    return texts_of(page, "error") + texts_of(page, "info")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "so what its heads do over a corpus is not known here"),
        (atlas(), "belongs to other weights (33333333, not "),
        (b"PK\x03\x04 nonsense", "is not an atlas of heads"),
        (b"", "is not an atlas of heads"),
    ],
)
def test_without_a_fitting_file_one_line_says_how_to_make_one(
    beside: Callable, content: Atlas | bytes | None, words: str
) -> None:
    beside(content)
    page = render("heads")
    (line,) = errors(page)
    assert words in line and "\n" not in line
    command = "python -m core.analyse atlas"
    if content is None:
        (code,) = page.app.code  # as copied, without word joiners
        command += " --checkpoint checkpoints/scratch-de-en --src FILE --ref FILE --out "
        assert code.value.startswith(command) and code.value.endswith("atlas.npz")
    else:
        assert command in line
    assert "heads_atlas" not in page.payloads
    assert page.app.text_area(key="own_text_lines") is not None


def measured(app: AppTest, text: str) -> None:
    app.text_area(key="own_text_lines").set_value(text)
    app.button(key="own_text_measure").click().run()


def test_own_text_is_measured_on_its_own_translations(beside: Callable) -> None:
    beside(None)
    text = "\n\n".join(LINES)
    page = render("heads", act=lambda app: measured(app, text))
    data = shown(page, "own_atlas")
    assert (data["origin"]["sentences"], data["origin"]["corpus"]) == (3, "your text")
    assert data["opened"]["in_url"] is False
    first, second = data["origin"]["command"].split(" > greedy.txt && ")
    checkpoint = "--checkpoint checkpoints/scratch-de-en"
    assert first == f"python -m core.translate {checkpoint} --beam 1 < text.txt"
    assert second.startswith(f"python -m core.analyse atlas {checkpoint} --src text.txt --ref gre")
    translator = models.translator(models.cards()["de-en", "scratch"])
    greedy = [translator.translate(line, beam=1).text for line in LINES]
    assert [tuple(pair) for pair in data["quoted"]] == list(zip(LINES, greedy, strict=True))
    # Whole passes with the head switched off give the expected change of the loss.
    off = Edits(heads_off=frozenset({("cross", 1, 2)}))
    passes = [
        [translator.inspect(*pair, edits=edits).log_probs for edits in (Edits(), off)]
        for pair in zip(LINES, greedy, strict=True)
    ]
    before, after = (np.concatenate(each) for each in zip(*passes, strict=True))
    keys = [measure["key"] for measure in data["measures"]]
    blob = unpacked(page.payload("own_atlas"))[1]
    values = np.frombuffer(blob, "<f4", 3 * 48 * len(keys), data["values"]["at"])
    value = values.reshape(len(keys), 48, 3)[keys.index("zero"), 32 + 4 + 2, 0]
    assert value == pytest.approx((before - after).mean(), abs=2e-4)


def test_own_text_is_translated_in_batches_that_others_can_wait_for(
    beside: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is free between two batches, and one bar covers both parts of the work."""
    beside(None)
    monkeypatch.setattr(atlases, "_TRANSLATED_AT_ONCE", 60)
    card = models.cards()["de-en", "scratch"]
    translator, batches = models.translator(card), []
    translate = translator.translate

    def noted(texts: list[str], *rest: object) -> object:
        batches.append(list(texts))
        return translate(texts, *rest)

    monkeypatch.setattr(translator, "translate", noted)
    lines, progress = (*LINES, *LINES, LINES[0]), []
    own = atlases.own_atlas(card, lines, lambda *done: progress.append(done), lambda ahead: None)
    trial, *batches = batches
    assert trial == [min(lines, key=len)] and progress[0][1] > 0
    assert [line for batch in batches for line in batch] == [*lines]
    assert all(len(batch) == 1 or sum(map(len, batch)) <= 60 for batch in batches)
    assert len(own.atlas.quoted) > 1 and len(batches) > 2
    shares, seconds = zip(*progress, strict=True)
    assert list(shares) == sorted(shares) and shares[1] == len(batches[0]) / len(lines) / 2
    assert shares[-1] == 1.0 and seconds[-1] == 0.0 and max(seconds) > 0


def test_the_time_left_counts_what_each_batch_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each weight of a layer took equally long, for each token that is computed again."""
    card = models.cards()["de-en", "scratch"]
    record = models.translator(card).inspect(LINES[0], decode=DecodeConfig(beam=1))
    tokens = len(record.source), len(record.target_out)
    monkeypatch.setattr(head_effects, "_TOKENS", 16 * max(tokens))
    clock = itertools.count(1)
    monkeypatch.setattr(atlases, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    progress: list[tuple[float, float]] = []
    atlases.own_atlas(card, LINES[:1], lambda *done: progress.append(done), lambda ahead: None)
    sides = [
        [sum(p.numel() for p in layer.parameters() if p.dim() > 1) for layer in stack.layers]
        for stack in map(models.translator(card)._model.stack, ("encoder", "decoder"))
    ]
    output = tokens[1] * card.model.target_vocab_size * card.model.d_model
    each = [
        tokens[0] * sum(sides[0][layer:]) * (kind == "encoder")
        + tokens[1] * sum(sides[1][0 if kind == "encoder" else layer :])
        + output
        for kind in KINDS
        for layer in range(4)
        for _ in range(4)
    ]
    each.insert(0, each[0])  # the pass with all heads
    ends = [16, 32, 48, 49]
    shares = [sum(each[:end]) / sum(each) for end in ends]
    assert [share for share, _ in progress[3:]] == pytest.approx([(1 + s) / 2 for s in shares])
    # The trial takes a second for the translation and one for the first batch.
    trial = [1 + 1 / shares[0], 1 / shares[0]]
    # One call of the clock at the start, and then one for each step, the first one included.
    expected = [(2 + n) * (1 - s) / s for n, s in enumerate(shares)]
    assert [seconds for _, seconds in progress] == pytest.approx([*trial, 0, *expected])


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "37\u00a0%"), (190.0, "37\u00a0%, about 3 minutes left")]
)
def test_the_bar_tells_the_time_left(monkeypatch, beside: Callable, seconds, said) -> None:
    beside(None)
    told: list[str] = []
    monkeypatch.setattr(DeltaGenerator, "progress", lambda self, value, text: told.append(text))

    def made(card: Any, lines: Any, on_progress: Any, on_wait: Any) -> Any:
        on_progress(0.37, seconds)
        return atlases.OwnAtlas(own(), ())

    monkeypatch.setattr(atlases, "own_atlas", made)
    render("heads", act=lambda app: measured(app, LINES[0]))
    assert told == [said]


def test_a_long_line_and_large_random_networks_are_left_out(beside: Callable, monkeypatch) -> None:
    beside(None)
    parameters = models.cards()["de-en", "scratch"].parameters
    monkeypatch.setattr("core.atlas.own_text.MAX_RANDOM", parameters - 1)
    text = f"{LINES[0]}\n{'§ß' * 250}\n{LINES[1]}\n{LINES[0]}\n\u200b"
    page = render("heads", act=lambda app: measured(app, text))
    assert [pair[0] for pair in shown(page, "own_atlas")["quoted"]] == [*LINES[:2], LINES[0]]
    page.claim_matching(r"Left out: line 2 has \d+ tokens with \S+: the limit is 256\.")
    page.claim_matching(rf"Left out: random networks of {parameters:,} weights, so no head is .*")
    # What is left out is not computed, and no role exceeds a null that was not measured.
    own = page.app.session_state["saved own atlas"][1].atlas
    assert all(np.isnan(own.arrays[f"role_{kind}_random"]).all() for kind in KINDS)
    assert not any(labels(own))


def test_nothing_of_own_text_is_stored(beside: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the session keeps the atlas, not the shared cache; choosing another network hides it."""
    beside(None)
    kept: list[object] = []
    store = results._store()
    before = set(store._values)
    whole = dataclasses.replace(own(), origin=origin(corpus="your text", command=""))

    def made(card: Any, lines: tuple[str, ...], on_progress: Any, on_wait: Any) -> Any:
        kept.append(lines)
        on_progress(1, 2)
        return atlases.OwnAtlas(whole, ("line 2 has an empty side",) * 5)

    monkeypatch.setattr(atlases, "own_atlas", made)
    page = render("heads", act=lambda app: measured(app, f"  {LINES[0]} \r\n\n{LINES[1]}"))
    assert kept == [LINES[:2]]
    assert not [key for key in set(store._values) - before if LINES[0] in str(key)]
    assert "own_atlas" in page.payloads
    texts = page.texts(kind="caption")
    assert texts.count("Left out: line 2 has an empty side.") == 3
    assert "Left out: 2 more lines." in texts
    other = page.app
    other.selectbox(key="model").set_value("captions").run()
    assert "own_atlas" not in read(other).payloads
    assert "own_atlas" not in render("heads").payloads, "another session"


def give(given: str | bytes) -> Callable[[AppTest], None]:
    """Type a text, or upload a file beside another text, and measure it."""

    def act(app: AppTest) -> None:
        if isinstance(given, bytes):
            app.file_uploader(key="own_text_file").set_value(("text.txt", given, "text/plain"))
        measured(app, "typed" if isinstance(given, bytes) else given)

    return act


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (" \n\n ", "There is no text: enter at least one"),
        ("a\n" * 301, "301 lines: the limit is 300"),
        ("kurz\n\n" + "x" * 501, "Line 2 has 501 characters: the limit is 500"),
        ("§ß" * 250, "There is no sentence pair to measure (line 1 has 5"),
        ("Grüße".encode("latin-1"), "The file text.txt is not UTF-8 (byte 3): save it as UTF-8"),
        (b"x" * 600_001, "The file text.txt has 600,001 bytes: the limit is 600,000"),
    ],
)
def test_unusable_text_is_rejected_in_one_line(
    beside: Callable, given: str | bytes, words: str
) -> None:
    beside(None)
    page = render("heads", act=give(given))
    (line,) = [line for line in errors(page) if "atlas.npz" not in line]
    assert line.startswith(words) and line.endswith(".") and "\n" not in line
    assert "own_atlas" not in page.payloads
    box = page.app.text_area(key="own_text_lines").value
    assert box == ("typed" if isinstance(given, bytes) else given), "nothing is lost"


def test_an_uploaded_file_replaces_the_box(
    beside: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(None)
    kept: list[tuple[str, ...]] = []

    def made(card: Any, lines: tuple[str, ...], *callbacks: Any, **named: Any) -> Any:
        kept.append(lines)
        return atlases.OwnAtlas(own(), ())

    monkeypatch.setattr(atlases, "own_atlas", made)
    render("heads", act=give("\ufeffGrüße\r\nZwei".encode()))
    assert kept == [("Grüße", "Zwei")]
    assert len(atlases.lines_of("\n".join(["a", " "] * 300))) == 300, "as many as the limit"
