"""The page Heads, rendered in-process: a network's atlas, links, own text, and bad input."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.state import atlases, models
from core.atlas.atlas import Atlas
from core.checkpoint.folder import Card
from tests.app.atlases import atlas, origin
from tests.app.rendered import Rendered, render, unpacked

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


def test_an_imported_network_is_credited(beside: Callable, monkeypatch) -> None:
    beside(own())
    assert shown(render("heads"))["network"] == "scratch-de-en"
    monkeypatch.setattr(Card, "credit", "imported, by A. Author, licence MIT")
    assert (
        shown(render("heads"))["network"] == "scratch-de-en (imported, by A. Author, licence MIT)"
    )


def test_the_atlas_of_the_selected_network_is_shown(beside: Callable) -> None:
    whole = own()
    beside(whole)
    page = render("heads", head="decoder.2.1", measure="entropy", x="mean", y="bleu", turn="7")
    data = shown(page)
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


def test_a_quoted_sentence_opens_the_first_page(beside: Callable) -> None:
    beside(own())
    query = "source=Ein+Hund%21&target=A+dog%21&kind=cross&layer=1&head=2&q=3&k=4&model=scratch"

    def open_it(app: AppTest) -> None:
        app.session_state["heads_atlas"] = {"link": {"page": "", "query": query}}
        app.run()

    page = render("heads", act=open_it)
    header, _ = unpacked(page.payload("explorer"))
    assert header["source_text"] == "Ein Hund!" and header["translation"] == "A dog!"
    view = {name: header["view"][name] for name in ("kind", "layer", "head")}
    assert view == {"kind": "cross", "layer": 1, "head": 2}


def test_the_head_of_a_link_is_not_a_view_of_the_explorer(beside: Callable) -> None:
    """Otherwise *Translate* would open without the cell that it shows first."""
    beside(own())

    def go_on(app: AppTest) -> None:
        del app.query_params["head"]  # as a browser does
        app.switch_page("views/translate.py").run()

    header, _ = unpacked(render("heads", head="cross.2.0", act=go_on).payload("explorer"))
    assert header["view"] == unpacked(render("").payload("explorer"))[0]["view"]


def test_a_head_leads_to_its_training(beside: Callable) -> None:
    beside(own())
    assert shown(render("heads"))["training"] is True
    query = "direction=de-en&model=scratch&kind=decoder&layer=2&head=1"

    def open_it(app: AppTest) -> None:
        app.session_state["heads_atlas"] = {"link": {"page": "training", "query": query}}
        app.run()

    (text,) = render("heads", act=open_it).payloads["training"]
    opened = json.dumps(unpacked(text)[0]["opened"] if isinstance(text, bytes) else text)
    assert '"kind": "decoder"' in opened and '"layer": 2' in opened and '"head": 1' in opened


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            {"head": "cross.9.9"},
            "There is no head cross.9.9 in this network: the address opens the head needed most, "
            "decoder 2.4 (in an address it is decoder.1.3: layers and heads count from 0 there, "
            "from 1 on the page).",
        ),
        (
            {"measure": "losses"},
            "There is no measure losses in this atlas: the colour shows Loss change, zero ablation "
            "(zero in an address).",
        ),
        (
            {"x": "nonsense", "head": "cross.0.0"},
            "There is no measure nonsense in this atlas: the x axis shows Entropy (entropy in an "
            "address).",
        ),
        (
            {"y": "nonsense"},
            "There is no measure nonsense in this atlas: the y axis shows Loss change, zero "
            "ablation (zero in an address).",
        ),
        (
            {"curve": "nonsense"},
            "There is no curve nonsense: choose loss or bleu in the address.",
        ),
    ],
)
def test_what_an_address_asks_for_and_is_not_there_is_said(
    beside: Callable, query: dict[str, str], said: str
) -> None:
    whole = own()
    zero = whole.arrays["zero"].copy()
    zero[16 + 4 + 3, 0] = 8.0  # decoder 2.4
    beside(dataclasses.replace(whole, arrays={**whole.arrays, "zero": zero}))
    (line,) = texts_of(render("heads", **query), "warning")
    assert line == said


def test_an_address_that_is_right_or_asks_for_nothing_is_not_commented(beside: Callable) -> None:
    beside(own())
    for query in (
        {},
        {"head": "cross.3.3", "measure": "mean", "x": "bleu", "y": "entropy", "curve": "bleu"},
        {"kind": "cross", "layer": "1", "head": "mean"},
        {"kind": "cross", "layer": "1", "head": "2"},
    ):
        assert not texts_of(render("heads", **query), "warning")


def texts_of(page: Rendered, kind: str) -> list[str]:
    return [text.replace("\\", "").replace("\u2060", "") for text in page.texts(kind=kind)]


def test_the_page_claims_no_interval_or_comparison_for_every_number(beside: Callable) -> None:
    beside(own())
    (text,) = (t for t in texts_of(render("heads"), "caption") if t.startswith("What does each"))
    assert "most with a 95 % interval" in text and "Every number" not in text
    (help_text,) = (t for t in texts_of(render("heads"), "help") if "A head computes one" in t)
    assert "alignment error rate is 0 %" in help_text and "value norm is" in help_text


def errors(page: Rendered) -> list[str]:
    return texts_of(page, "error") + texts_of(page, "info")


def test_without_a_file_the_page_says_how_to_make_one(beside: Callable) -> None:
    beside(None)
    page = render("heads")
    (line,) = errors(page)
    assert "so what its heads do over a corpus is not known here" in line
    (command,) = (code.value for code in page.app.code)  # as copied, without word joiners
    assert re.fullmatch(
        "python -m core.analyse atlas --checkpoint checkpoints/scratch-de-en --src FILE --ref FILE "
        r"--out \S+atlas\.npz",
        command,
    )
    assert "heads_atlas" not in page.payloads
    assert page.app.text_area(key="own_text_lines") is not None


def test_files_that_do_not_belong_here_are_rejected_in_one_line(beside: Callable) -> None:
    for content, words in (
        (atlas(), "belongs to other weights (33333333, not "),
        (b"PK\x03\x04 nonsense", "is not an atlas of heads"),
        (b"", "is not an atlas of heads"),
    ):
        beside(content)
        page = render("heads")
        (line,) = errors(page)
        assert words in line and "python -m core.analyse atlas" in line and "\n" not in line
        assert "heads_atlas" not in page.payloads


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
    assert data["origin"]["command"] == (
        "python -m core.translate --checkpoint checkpoints/scratch-de-en --beam 1 < text.txt > "
        "greedy.txt && python -m core.analyse atlas --checkpoint checkpoints/scratch-de-en "
        "--src text.txt --ref greedy.txt --out atlas.npz"
    )
    translator = models.translator(models.cards()["de-en", "scratch"])
    greedy = [translator.translate(line, beam=1).text for line in LINES]
    assert [tuple(pair) for pair in data["quoted"]] == list(zip(LINES, greedy, strict=True))
    # Whole passes with the head switched off give the expected change of the loss.
    from core.record.edits import Edits

    place = ("cross", 1, 2)
    n = 32 + 4 + 2
    change = tokens = 0.0
    for line, translation in zip(LINES, greedy, strict=True):
        before = translator.inspect(line, translation)
        after = translator.inspect(line, translation, edits=Edits(heads_off=frozenset({place})))
        change += float((before.log_probs - after.log_probs).sum())
        tokens += len(before.log_probs)
    keys = [measure["key"] for measure in data["measures"]]
    blob = unpacked(page.payload("own_atlas"))[1]
    values = np.frombuffer(blob, "<f4", 3 * 48 * len(keys), data["values"]["at"])
    value = values.reshape(len(keys), 48, 3)[keys.index("zero"), n, 0]
    assert value == pytest.approx(change / tokens, abs=2e-4)


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
    assert [line for batch in batches for line in batch] == [*lines]
    assert all(len(batch) == 1 or sum(map(len, batch)) <= 60 for batch in batches)
    assert len(own.atlas.quoted) > 1 and len(batches) > 2
    assert progress == sorted(progress) and progress[0] == (len(batches[0]), 2 * len(lines))
    assert progress[-1] == (2 * len(lines), 2 * len(lines))


def test_a_line_that_is_too_long_is_left_out(beside: Callable) -> None:
    beside(None)
    text = f"{LINES[0]}\n{'§ß' * 250}\n{LINES[1]}\n{LINES[0]}"
    page = render("heads", act=lambda app: measured(app, text))
    assert [pair[0] for pair in shown(page, "own_atlas")["quoted"]] == [*LINES[:2], LINES[0]]
    page.claim_matching(r"Left out: line 2 has \d+ tokens with \S+: the limit is 256\.")


def test_nothing_of_own_text_is_stored(beside: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the session keeps the atlas, not the shared cache; choosing another network hides it."""
    from app.state import results

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
    from tests.app.rendered import read

    assert "own_atlas" not in read(other).payloads
    assert "own_atlas" not in render("heads").payloads, "another session"


def test_the_limit_holds_before_anything_waits() -> None:
    assert len(atlases.lines_of("\n".join(["a", " "] * 300))) == 300
    with pytest.raises(ValueError, match="^301 lines: the limit is 300"):
        atlases.lines_of("a\n" * 301)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n\n ", "There is no text: enter at least one sentence, one per line."),
        ("a\n" * 301, "301 lines: the limit is 300, leave some out."),
        ("kurz\n\n" + "x" * 501, "Line 2 has 501 characters: the limit is 500"),
        ("§ß" * 250, "There is no sentence pair to measure (line 1 has 5"),
    ],
)
def test_unusable_text_is_rejected_in_one_line(beside: Callable, text: str, words: str) -> None:
    beside(None)
    page = render("heads", act=lambda app: measured(app, text))
    (line,) = [line for line in errors(page) if "atlas.npz" not in line]
    assert line.startswith(words) and line.endswith(".") and "\n" not in line
    assert "own_atlas" not in page.payloads
    assert page.app.text_area(key="own_text_lines").value == text, "nothing is lost"


def test_an_uploaded_file_replaces_the_box(
    beside: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(None)
    kept: list[tuple[str, ...]] = []

    def made(card: Any, lines: tuple[str, ...], *callbacks: Any, **named: Any) -> Any:
        kept.append(lines)
        return atlases.OwnAtlas(own(), ())

    monkeypatch.setattr(atlases, "own_atlas", made)

    def upload(content: bytes) -> Callable[[AppTest], None]:
        def act(app: AppTest) -> None:
            app.file_uploader(key="own_text_file").set_value(("text.txt", content, "text/plain"))
            measured(app, "typed")

        return act

    render("heads", act=upload("\ufeffGrüße\r\nZwei".encode()))
    assert kept == [("Grüße", "Zwei")]
    for content, words in (
        ("Grüße".encode("latin-1"), "The file text.txt is not UTF-8 (byte 3): save it as UTF-8."),
        (b"x" * 600_001, "The file text.txt has 600,001 bytes: the limit is 600,000"),
    ):
        page = render("heads", act=upload(content))
        (line,) = [line for line in errors(page) if "atlas.npz" not in line]
        assert line.startswith(words)
    assert len(kept) == 1
