"""The offline page's worker answers as Python does, in a page opened from disk, offline."""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import core
from app.components.assets import joined
from app.components.edits import listed
from app.components.explorer.answers import again_answer
from app.components.explorer.payload import lens_facts, payload
from app.export.weights import dequantised, pack, quantised
from app.views.states.pushing import _opening, _suggested
from core.analysis.rollout import rollout
from core.checkpoint.lens import load_lens
from core.experiments.jacobian_lens import readings
from core.experiments.patching import paired
from core.experiments.push_curve import curve
from core.kinds import KINDS, SIDES
from core.record.edits import Donor, Edits
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.conftest import ROOT
from tests.app.test_offline_payload import by_kind, is_sent, unpacked
from tests.core import strange_folders

POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:"
DRIVER = """
const blob = new Blob([document.querySelector("#worker").textContent]);
const worker = new Worker(URL.createObjectURL(blob));
const waiting = [];
worker.addEventListener("message", ({ data: { id, ...answer } }) => waiting[id](answer));
window.asked = (ask, fields, moved = []) =>
  new Promise((resolve) => worker.postMessage({ ...fields, ask, id: waiting.push(resolve) - 1 }, moved));
window.weights = () => Uint8Array.fromBase64(document.querySelector("#weights").textContent);
/* An answer as JSON, with its byte arrays as base64 text. */
window.readable = (answer) =>
  JSON.stringify(answer, (_, value) => (ArrayBuffer.isView(value) ? { bytes: new Uint8Array(value.buffer, value.byteOffset, value.byteLength).toBase64() } : value));
"""
SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Hund ."
EDITS = (
    "off.cross.2.0~uniform.encoder.0.1~cut.cross.all.all.1.2~times.decoder.1.3.4.2.0.5"
    "~row.cross.1.1.2.0.25-0.75~temp.encoder.1.2.0.5~hide.3~positions.source.scale-0.5_shift-2"
    "~pass.900-17-44-2.1-55-60-9~copy.encoder.2.1.0~copyhead.cross.1.0.2.1"
    "~pushrandom.decoder.1.2.3.-8.5"
)
VIEW = {"kind": "cross", "layer": 1, "head": "mean", "q": 2}
ASKED = {"direction": "de-en", "text": SENTENCE, "target": None, "beam": 5, "edits": ""}


def bytes_of(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if set(value) == {"bytes"} else value


class Worker:
    """A worker started by a page from disk."""

    def __init__(self, page: Page, folder: Path, weights: bytes) -> None:
        script = joined(ROOT / "app/components/offline/worker.js")
        file = folder / "worker.html"
        file.write_text(
            f'<!doctype html><meta charset=utf-8><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            f"<script type=text/plain id=weights>{base64.b64encode(weights).decode()}</script>"
            f"<script type=text/plain id=worker>{script}</script><script>{DRIVER}</script>",
            encoding="utf-8",
        )
        page.context.set_offline(True)
        page.goto(file.as_uri())
        self.page = page
        self.sha256 = hashlib.sha256(weights).hexdigest()

    def open(self, changed: int | None = None) -> dict[str, Any]:
        """Hand over the weights; if `changed` is given, flip one bit of that byte."""
        script = """async ([sha256, at]) => {
          const bytes = weights();
          if (at !== null) bytes[at] ^= 1;
          return readable(await asked("open", { direction: "de-en", weights: bytes.buffer, sha256 }, [bytes.buffer]));
        }"""
        return json.loads(self.page.evaluate(script, [self.sha256, changed]))

    def ask(self, what: str, **fields: Any) -> dict[str, Any]:
        script = "async ([what, fields]) => readable(await asked(what, fields))"
        return json.loads(self.page.evaluate(script, [what, fields]), object_hook=bytes_of)

    def translate(self, **changes: Any) -> dict[str, Any]:
        """Return the payload of a translation."""
        answer = self.ask("translate", **{**ASKED, "view": VIEW, **changes})
        assert "failed" not in answer, answer
        return unpacked(answer["payload"]) | {"answered": answer["translation"]}

    def answer(self, name: str, **value: Any) -> dict[str, Any]:
        return unpacked(self.ask("answer", name=name, value={"request": 7, **value})["answer"])


@pytest.fixture(scope="module")
def worker(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    weights = pack(ROOT / "checkpoints/scratch-de-en")
    worker = Worker(page, tmp_path_factory.mktemp("offline"), weights)
    assert "damaged" in worker.open(changed=len(weights) - 1)["failed"]
    assert worker.open()["about"]["name"] == "scratch-de-en"
    yield worker
    page.close()
    assert not problems


@pytest.fixture(scope="module")
def passes(translator: Translator) -> dict[str, TranslationRecord]:
    """Return Python's records: unedited; edited, same target; translated under edits; given target."""
    edits, problems = Edits.parse(EDITS)
    assert not problems
    plain = translator.inspect(SENTENCE)
    ids = [one.id for one in plain.target_out]
    return {
        "plain": plain,
        "edited": translator.inspect(SENTENCE, edits=edits, target_ids=ids),
        "again": translator.inspect(SENTENCE, edits=edits),
        "given": translator.inspect(SENTENCE, "A dog talks ."),
    }


def assert_close(found: Any, expected: Any, where: str) -> None:
    """Compare JSON values and float32 arrays of two implementations of one network."""
    if isinstance(expected, dict):
        assert set(found) == set(expected), where
        for name, value in expected.items():
            assert_close(found[name], value, f"{where}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for i, value in enumerate(expected):
            assert_close(found[i], value, f"{where}[{i}]")
    elif isinstance(expected, bytes) and not where.endswith("_mask"):
        numbers = [np.frombuffer(one, "<f4") for one in (found, expected)]
        error = 1e-4 if where.endswith("log_probs") else 1e-5
        np.testing.assert_allclose(*numbers, rtol=1e-5, atol=error, err_msg=where)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4), where
    else:
        assert found == expected, where


def test_a_translation_has_pythons_payload(worker, passes):
    found = worker.translate(request=3)
    record = passes["plain"]
    what_if = {
        "text": "",
        "edits": [],
        "problems": [],
        "before": record.log_prob,
        "change": None,
        "request": 3,
        "means": None,
    }
    quantities = dict.fromkeys(("scores", "norms", "rollout"))
    offer = {"unasked": True}
    expected = by_kind(
        payload(record, VIEW, quantities=quantities, what_if=what_if, lens=offer, host=None)
    )
    assert found.pop("answered") == record.translation
    # Rounding differs, so the hash does too. The checks come later.
    assert len(found.pop("sentence")) == len(expected.pop("sentence")) == 16
    assert (found.pop("checks"), found.pop("checked")) == ([], "pending")
    del expected["checks"], expected["checked"]
    for field in ("source", "target_in", "target_out", "alternatives"):
        assert is_sent(found.pop(field), expected.pop(field)), field
    assert_close(found, expected, "payload")


def test_checks_follow_the_payload_and_are_made_once(worker):
    shown = worker.translate(text="Zwei Hunde schlafen.")
    answers = [unpacked(worker.ask("checks")["answer"]) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0]["sentence"] == shown["sentence"] and answers[0]["checked"] == "here"
    assert len(answers[0]["checks"]) == 5 and all(one["passed"] for one in answers[0]["checks"])
    again = worker.translate(text="Zwei Hunde schlafen.")
    assert (again["checked"], again["checks"]) == ("here", answers[0]["checks"])


def test_an_edited_pass_keeps_its_target_and_is_searched_again(worker, passes):
    """The pass keeps its target, and then the network translates again under the edits."""
    found = worker.translate(edits=f"{EDITS}~off.cross.9.0~nonsense")
    record, before = passes["edited"], passes["plain"]
    assert found["answered"] == before.translation == found["translation"]
    what_if = found["what_if"]
    assert what_if["text"] == record.edits.to_text()
    assert what_if["edits"] == listed(record.edits, before)
    assert_close(what_if["change"], (record.log_probs - before.log_probs).tolist(), "change")
    assert what_if["before"] == pytest.approx(before.log_prob, abs=1e-4)
    assert [line.split(":")[0] for line in what_if["problems"]] == [
        "'nonsense' is ignored",
        "cross layer 9, head 0 cannot be switched off",
    ]
    assert found["search"] == "given target, edited"
    expected = payload(record, VIEW, host=None)
    for kind in KINDS:
        assert_close(found[kind], expected[kind], kind)
        assert found[f"{kind}_mask"] == expected[f"{kind}_mask"]
    answer, again = unpacked(worker.ask("again")["answer"]), passes["again"]
    expected = again_answer(record, again, "beam 5", before.translation)["again"]
    assert (answer["name"], answer["sentence"]) == ("again", found["sentence"])
    assert is_sent(answer["again"].pop("target"), expected.pop("target"))
    assert_close(answer["again"], expected, "again")


def test_quantities_are_pythons_under_the_edits(worker, passes, translator):
    """Quantities are computed under the edits; the chosen one comes with the next translation."""
    worker.translate(edits=EDITS)
    record, before = passes["edited"], passes["plain"]
    change = {kind: record.maps(kind) - before.maps(kind) for kind in KINDS}
    computed = {
        "change": change,
        "scores": core.scores(translator, record),
        "norms": core.value_norms(translator, record),
        "rollout": rollout(record),
    }
    for name, arrays in computed.items():
        found = worker.answer("quantity", quantity=name)
        sent = by_kind(payload(record, VIEW, quantities={name: arrays}, host=None))
        fields = {f"{name}_{kind}": sent[f"{name}_{kind}"] for kind in KINDS}
        assert_close(
            {field: found.pop(field) for field in fields}, fields, f"{name} under the edits"
        )
        assert_close(found.pop("quantities"), {name: sent["quantities"][name]}, name)
        assert found == {"sentence": found["sentence"], "name": "quantity", "request": 7}
    assert set(worker.translate()["quantities"]) == {"rollout"}
    assert set(worker.answer("quantity", quantity="weights")) == {"sentence", "name", "request"}
    assert not worker.translate()["quantities"]


def rounded(lens: Any) -> dict[str, np.ndarray]:
    """Return a lens's matrices as the page reads them, which rounds them to 8 bits."""
    return {
        side: np.stack([dequantised(*quantised(J_DD)) for J_DD in lens.jacobians[side]])
        for side in SIDES
    }


@pytest.mark.parametrize("name", ["plain", "edited"])
def test_the_states_say_what_they_say_in_python(worker, passes, translator, name):
    """The page rounds the matrices to 8 bits; with these, Python reads what the page reads."""
    sentence = worker.translate(edits=EDITS if name == "edited" else "")["sentence"]
    found, record = worker.answer("lens", sentence=sentence), passes[name]
    lens = load_lens(translator.card)
    read, exact = (
        readings(translator, record, rounded(lens)),
        core.jacobian_lens(translator, record),
    )
    texts = [token["text"] for token in found["lens"].pop("tokens")]
    assert_close(found["lens"], lens_facts(lens.about), "lens")
    for side in SIDES:
        own = getattr(read, side)

        def numbers(name: str, side: str = side) -> np.ndarray:
            return np.frombuffer(found[f"lens_{side}_{name}"], "<f4")

        for field, ids in (("ids", own.ids), ("logit_ids", own.logit_ids)):
            tokens = translator.target_tokens(ids.ravel().tolist())
            said = [texts[int(at)] for at in numbers(field)]
            same = np.mean([a == b.text for a, b in zip(said, tokens, strict=True)])
            assert same > 0.99, (side, field, same)  # two words may be equal but for rounding
        np.testing.assert_allclose(numbers("probabilities"), own.probabilities.ravel(), atol=1e-4)
        ranks = numbers("ranks")
        assert np.mean(ranks == own.ranks.ravel()) > 0.99
        np.testing.assert_allclose(ranks, own.ranks.ravel(), atol=2, rtol=0.01)
        best = getattr(exact, side).ids[..., 0]
        assert np.mean(own.ids[..., 0] == best) > 0.95, "rounding changes few best words"


COPIED = {"text": "Ein Mann liest einem Hund ein Buch vor.", "direction": "de-en", "beam": 5}


@pytest.mark.parametrize(
    ("other", "way", "copied"),
    [
        ("Eine Frau liest einem Hund ein Buch vor.", "restore", "copy.encoder.2.1.1"),
        ("Eine Frau liest einem Hund ein Buch vor.", "damage", "copy.decoder.1.1.1"),
        # Of another length, so that tokens are paired by words.
        ("Eine Frau liest ein Buch.", "restore", "copyhead.cross.2.1"),
        # The page chooses the state.
        ("Eine Frau liest einem Hund ein Buch vor.", "restore", ""),
        ("Eine Frau gibt der Katze ein Buch vor.", "damage", ""),
    ],
)
def test_copied_states_do_what_they_do_in_python(worker, translator, other, way, copied):
    question = COPIED | {"mode": "copy", "other": other, "way": way, "copied": copied, "turn": 3}
    data = worker.ask("states", **question)["data"]
    clean, corrupted = translator.inspect([COPIED["text"], other], beam=5)
    donor, receiver = (clean, corrupted) if way == "restore" else (corrupted, clean)
    side = "decoder" if copied.startswith("copy.decoder") else "encoder"
    if side == "encoder":
        assert data["pairs"] == [[a, b] for b, a in paired(receiver.source, donor.source)]
    named = [token["text"] for token in data["receiver"]["tokens"]]
    assert named == [
        t.text for t in (receiver.source if side == "encoder" else receiver.target_out)
    ]
    edits, problems = Edits.parse(data["edits"])
    assert not problems and edits.donor == Donor.of(donor)
    assert data["after_text"] == translator.inspect(receiver.source_text, edits=edits).translation
    pictures = worker.ask("pictures", **question, about=data["about"])["pictures"]
    found = core.patch_all(translator, clean, corrupted, way)
    shares = [[np.nan if one is None else one for one in row] for row in pictures["cells"]]
    np.testing.assert_allclose(shares, getattr(found, side), atol=2e-3)
    assert pictures["heads"].keys() == {"cross", side}
    for kind, heads in pictures["heads"].items():
        np.testing.assert_allclose(heads, found.heads[kind], atol=2e-3)
    cell = data["copy"]
    if not copied:  # of the first four that differ, in the middle layer
        differ = [a for a, b in zip(clean.source, corrupted.source, strict=True) if a.id != b.id]
        best = max(differ[:4], key=lambda token: found.encoder[2, clean.source.index(token)])
        at = clean.source.index(best)
        assert at > 0 and cell == {"layer": 2, "from": at, "to": at}
    array = found.heads["cross"] if "head" in cell else getattr(found, side)
    place = (cell["layer"], cell.get("head", cell.get("to")))
    measure = data["measure"]
    assert measure["share"] == pytest.approx(array[place], abs=2e-3)
    ends = [found.corrupted, found.clean] if way == "restore" else [-found.clean, -found.corrupted]
    assert [measure["before"], measure["goal"]] == pytest.approx(ends, abs=2e-2)


def test_a_pushed_state_does_what_it_does_in_python(worker, translator):
    other = "Eine Frau liest einem Hund ein Buch vor."
    question = COPIED | {"mode": "push", "other": other, "asked": None, "pushed": "", "turn": 1}
    data = worker.ask("states", **question)["data"]
    record, rival = translator.inspect([COPIED["text"], other], beam=5)
    ((push,),) = (edits.pushes for edits, _ in [Edits.parse(data["edits"])])
    step = [token.id for token in record.target_out].index(push.old)
    assert rival.target_out[step].id == push.new != push.old, "towards the other translation"
    assert data["push"]["position"] == push.position == 1 and push.layer == 0
    expected = curve(translator, record, rounded(load_lens(translator.card)), push, step, 20)
    found = data["curve"]
    assert found["strengths"] == expected.strengths.tolist()
    for name, array in (
        *(("old", expected.old), ("new", expected.new)),
        *(("random_old", expected.random_old), ("random_new", expected.random_new)),
    ):
        np.testing.assert_allclose(found[name], array, atol=2e-3, err_msg=name)
    first = np.flatnonzero(expected.new > expected.old)[0]
    assert push.strength == expected.strengths[max(1, first)]
    assert data["news"] == news_in_python(translator, COPIED["text"], other)
    asked = {"position": 1, "layer": 2, "old": push.old, "new": "Schachspieler", "strength": None}
    refused = worker.ask("states", **(question | {"asked": asked}))["data"]
    assert refused["typed"] == asked["new"] and "choose" in refused["problem"]
    asked |= {"new": "", "strength": expected.strengths[5]}
    chosen = worker.ask("states", **(question | {"asked": asked}))["data"]
    assert chosen["push"]["layer"] == 2 and chosen["problem"] == ""
    assert chosen["push"]["strength"] in chosen["curve"]["strengths"]


def news_in_python(translator: Translator, text: str, other: str | None) -> list[dict[str, str]]:
    records = [translator.inspect(one, beam=5) for one in (text, other or text)]
    push = _opening(translator.card, *records)
    assert push is not None
    step = [token.id for token in records[0].target_out].index(push.old)
    return [{"text": t.text} for t in _suggested(translator.card, *records, step)]


@pytest.mark.parametrize("text", ["Ich kaufe einen Kühlschrank.", "Die Frau liest es nicht vor."])
def test_a_push_opens_with_the_words_that_python_opens_with(worker, translator, text):
    question = COPIED | {"text": text, "mode": "push", "other": "", "asked": None, "pushed": ""}
    data = worker.ask("states", **question, turn=1)["data"]
    record = translator.inspect(text, beam=5)
    push = _opening(translator.card, record, record)
    assert push is not None
    found = [data["push"]["position"], *(data["push"][name]["id"] for name in ("old", "new"))]
    assert found == [push.position, push.old, push.new]
    assert data["news"] == news_in_python(translator, text, None)


@pytest.mark.parametrize("name", ["plain", "edited", "given"])
def test_python_reads_and_verifies_the_saved_record(worker, passes, translator, name):
    """Python reads the file, and repeats all checks of the record with its own network."""
    edits = EDITS if name == "edited" else ""
    target = passes["given"].translation if name == "given" else None
    sentence = worker.translate(edits=edits, target=target)["sentence"]
    saved = worker.ask("npz")
    record = TranslationRecord.load(io.BytesIO(saved["npz"]))
    assert record.id == sentence and saved["name"] == f"headlight-{sentence}.npz"
    assert record.checks and all(check.passed for check in record.checks)
    assert record.edits == passes[name].edits and record.search == passes[name].search
    checked = translator.recheck(record)
    failed = [check.name for check in checked.checks if not check.passed]
    assert not failed
    assert len(checked.checks) == 8


def test_edits_that_stop_the_search_leave_the_pass(worker, passes):
    """Without the causal mask only the search is refused; hiding the whole source is refused at once."""
    assert "decoder_mask" in worker.translate(edits="causal")
    problem = unpacked(worker.ask("again")["answer"])["again"]["problem"]
    assert problem.startswith("decoding requires the causal mask")
    hidden = "~".join(f"hide.{i}" for i in range(len(passes["plain"].source)))
    what_if = worker.translate(edits=hidden)["what_if"]
    assert what_if["text"] == "" and "all source tokens are hidden" in what_if["problems"][0]


def test_typing_never_queues(worker):
    """Of 30 translations requested in a row, the last is made and more than 20 are dropped."""
    script = """async (asked_) => {
      const texts = Array.from({ length: 30 }, (_, i) => asked_.text.slice(0, 12 + i));
      const questions = texts.map((text) => asked("translate", { ...asked_, text, view: null }));
      questions.push(asked("npz", {}));
      return (await Promise.all(questions)).map(({ failed }) => failed ?? null);
    }"""
    failed = worker.page.evaluate(script, ASKED)
    assert failed[-2:] == [None, None]
    # A busy machine may start a translation before the next one has been sent.
    replaced = [line for line in failed[:-2] if line is not None]
    assert set(replaced) == {"A newer translation was asked for."} and len(replaced) > 20


def test_a_translation_goes_before_head_effects(worker):
    """After the translation, the effects start again and fail: their sentence is no longer shown."""
    sentence = worker.translate()["sentence"]
    script = """async ([sentence, fields]) => {
      const done = [];
      const note = (name) => (answer) => { done.push(name); return answer; };
      const effects = asked("answer", { name: "effects", value: { request: 1, sentence } }).then(note("effects"));
      const again = asked("translate", { ...fields, view: null }).then(note("translate"));
      return readable([done, await again, await effects]);
    }"""
    text = worker.page.evaluate(script, [sentence, {**ASKED, "text": "Ein Hund ."}])
    done, translated, effects = json.loads(text, object_hook=bytes_of)
    assert done == ["translate", "effects"] and translated["translation"]
    assert "another sentence" in unpacked(effects["answer"])["failed"]


def test_records_of_rounded_weights_do_not_claim_the_checkpoints(worker, passes):
    """The worker holds both networks; a record names the hash of the weights that made it."""
    weights = pack(ROOT / "checkpoints/scratch-de-en", int8=True)
    sha256 = hashlib.sha256(weights).hexdigest()
    script = """async ([text, sha256]) => {
      const { buffer } = Uint8Array.fromBase64(text);
      return (await asked("open", { direction: "rounded", weights: buffer, sha256 }, [buffer])).failed;
    }"""
    assert not worker.page.evaluate(script, [base64.b64encode(weights).decode(), sha256])
    found = worker.translate(direction="rounded")
    exact = worker.translate()
    assert (found["model"], found["weights_sha256"]) == ("scratch-de-en (8-bit)", sha256)
    assert exact["weights_sha256"] == passes["plain"].weights_sha256
    weights_of = [np.frombuffer(one["cross"], "<f4") for one in (found, exact)]
    assert 1e-4 < np.abs(weights_of[0] - weights_of[1]).max() < 0.1


def test_bos_in_front_of_the_source_is_read_as_in_python(browser, tmp_path):
    """The target gets no <bos>, although both sides share the tokenizer; a blank text is refused."""
    folder = shutil.copytree(ROOT / "checkpoints/captions-de-en", tmp_path / "captions-de-en")
    strange_folders.tokens(lambda values: values.update(first=[1]))(folder)
    translator = Translator.load(folder, "cpu")
    page = browser.new_page()
    worker = Worker(page, tmp_path, pack(folder))
    assert "failed" not in worker.open()
    for target in (None, "A dog talks ."):
        record = translator.inspect(SENTENCE, target)
        assert [token.piece for token in record.source].count("<bos>") == 1
        assert "<bos>" not in [token.piece for token in record.target_out]
        found = worker.translate(target=target)
        expected = payload(record, VIEW)
        for name in ("source", "target_in", "target_out"):
            texts, wanted = ([t["text"] for t in side[name]] for side in (found, expected))
            assert texts == wanted
        np.testing.assert_allclose(
            np.frombuffer(found["log_probs"], "<f4"), record.log_probs, atol=1e-4
        )
        assert found["answered"] == record.translation
    answer = worker.ask("translate", **ASKED | {"text": " ", "view": VIEW})
    assert "nothing to translate" in answer["failed"]
    page.close()
