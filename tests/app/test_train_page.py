"""Train one here: settings, live sentences and pictures, two networks, models of the visit."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.lessons.texts import text
from app.look.markdown import plain
from app.state import small_runs
from app.state.small_runs import Training
from app.views.teacher import training_lesson
from app.views.train.settings import EXPERIMENTS
from core.checkpoint import folder as checkpoint
from core.kinds import KINDS
from core.small.examples import Examples
from core.small.history import History
from core.small.run import SmallConfig, SmallRun
from tests.app.page_checks import percent
from tests.app.rendered import Rendered, read, render, unpacked

QUICK = {"train_width": "32", "train_layers": "1", "train_heads": "2", "train_warmup": "1"}


def press(app: AppTest, key: str) -> Rendered:
    app.button(key=key).click().run(timeout=60)
    return read(app)


def training_of(app: AppTest) -> Training:
    return app.session_state["saved training"][1]


def blob(header: dict[str, Any], raw: bytes, name: str, kind: str) -> np.ndarray:
    """Return an array of the component's payload."""
    at, length = header[name]["at"], header[name]["length"]
    return np.frombuffer(raw[at : at + length], kind)


def step(app: AppTest, count: int) -> Rendered:
    page = read(app)
    for _ in range(count):
        page = press(app, "train_step")
    return page


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(small_runs, "_active", {})


def test_each_step_is_the_one_that_python_takes():
    page = render("train", **QUICK, train_seed="7")
    page = step(page.app, 2)
    config = SmallConfig(layers=1, heads=2, d_model=32, warmup=1, seed=7)
    history = History(SmallRun(Examples("dates"), config))
    for _ in range(2):
        history.run.step()
        history.add()
    header, raw = unpacked(page.payload("trained"))
    assert header["steps"] == [one.step for one in history.points] == [0, 2]
    assert header["loss"] == pytest.approx([one.loss for one in history.points], abs=1e-3)
    assert header["quality"]["values"] == [one.exact for one in history.points]
    for n, measure in enumerate(history.measures(), start=1):
        found = blob(header, raw, f"measure_cross_{n}", "<f4")
        np.testing.assert_allclose(found, measure.values.ravel(), atol=1e-5)
        assert header["measures"]["cross"][n]["short"] == measure.name
    snapshots = history.snapshots()
    for kind in KINDS:
        cells = snapshots.maps[kind][0][..., snapshots.mask(kind, 0)]
        np.testing.assert_allclose(
            blob(header, raw, f"maps_{kind}_0", "<f2"), cells.ravel(), atol=1e-3
        )
    shown = history.shown()
    said = f"**{percent(history.points[-1].exact)} of the unseen"
    assert any(" ".join(text.split()).startswith(" ".join(said.split())) for text in page.texts())
    assert any(plain(shown.source) in text and shown.target in text for text in page.texts())


def test_running_trains_until_the_last_step_and_pauses(monkeypatch):
    defaults = dict(SmallConfig.__init__.__kwdefaults__, steps=30)
    monkeypatch.setattr(SmallConfig.__init__, "__kwdefaults__", defaults)
    advance = Training.advance
    monkeypatch.setattr(
        Training, "advance", lambda self, _, stop: [advance(self, 60, stop) for _ in range(3)]
    )
    page = render("train", **QUICK)
    training = training_of(page.app)
    page = press(page.app, "train_run")
    assert training.is_over and not training.running
    assert [one.step for one in training.histories[0].points] == [0, 10, 20, 30]
    page = read(page.app)
    assert any(text.startswith("**Done after 30 steps") for text in page.texts())
    page = press(page.app, "train_again")
    assert training_of(page.app).step == 0
    assert training_of(page.app) is not training


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_trains_two_networks_that_differ_in_one_setting(name):
    page = render("train")
    page = press(page.app, f"train_experiment_{name}")
    one, other = (history.run.config for history in training_of(page.app).histories)
    different = {n for n, value in vars(one).items() if value != getattr(other, n)}
    assert different == {{"positions": "positions", "causal": "bug", "heads": "heads"}[name]}
    page = step(page.app, 1)
    header, _ = unpacked(page.payload("trained"))
    second = training_of(page.app).histories[1]
    assert header["compared"]["loss"] == [point.loss for point in second.points]
    assert len(second.points) == 2


def test_what_came_of_the_change_is_computed():
    page = render("train", train_positions="none", **QUICK)
    training = training_of(page.app)
    page.app.session_state["train_predicted"] = "fails"
    for history, exact, loss in zip(training.histories, (0.1, 0.9), (0.05, 0.3), strict=True):
        point = history._points[-1]
        measured = point.measured.__class__(**vars(point.measured) | {"exact": exact, "loss": loss})
        history._points[-1] = point._replace(measured=measured)
        history.run.step_number = history.run.config.steps
        history._points[-1].measured.__dict__["step"] = history.run.config.steps
    page = read(page.app.run(timeout=60))
    (said,) = [text for text in page.texts() if text.startswith("With the change: 10 %")]
    assert "Without it: 90 %" in said and "does not learn" in said
    assert "Its loss is 0.050, near zero, yet 10 %" in said
    assert said.endswith("You predicted this.")


def test_a_trained_network_is_a_model_of_this_visit_alone(monkeypatch):
    page = render("train", **QUICK)
    page = step(page.app, 1)
    monkeypatch.setattr(small_runs, "session_id", lambda: "me")
    page = press(page.app, "train_open")
    (card,) = page.app.session_state["saved trained"].cards.values()
    assert card.direction == "de-digits"
    loaded = checkpoint.load(card.folder).model
    run = training_of(page.app).histories[0].run
    for name, parameter in loaded.named_parameters():
        np.testing.assert_allclose(
            parameter.detach(), dict(run.model.named_parameters())[name].detach(), atol=1e-3
        )
    folder = card.folder
    page.app.session_state["saved trained"].folder.cleanup()
    assert not folder.exists()


def test_a_saved_network_is_loaded_again_and_other_files_are_refused(tmp_path, monkeypatch):
    kept: dict[str, Any] = {}
    monkeypatch.setattr(small_runs.session, "saved_result", kept.get)
    monkeypatch.setattr(small_runs.session, "save_result", kept.__setitem__)
    from core.small.checkpoint import save

    history = History(SmallRun(Examples("sorting"), SmallConfig(layers=1, heads=2, d_model=32)))
    save(history, tmp_path / "one", "CPU")
    content = small_runs.as_zip(tmp_path / "one")
    card = small_runs.from_zip(content)
    assert card.weights_sha256 == small_runs.read_card(tmp_path / "one").weights_sha256
    assert card.direction == "letters-sorted" and card.folder.parent != tmp_path
    damaged = bytearray((tmp_path / "one/model.safetensors").read_bytes())
    damaged[-3] ^= 1
    (tmp_path / "one/model.safetensors").write_bytes(damaged)
    for wrong, said in (
        (b"no zip", "not a ZIP file"),
        (bytes(small_runs._LARGEST_ZIP + 1), "the limit is"),
        (small_runs.as_zip(tmp_path / "one"), "model"),
    ):
        with pytest.raises(ValueError, match=said) as caught:
            small_runs.from_zip(wrong)
        assert "\n" not in str(caught.value)


def test_no_more_visits_train_at_once_than_the_operator_allows(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(small_runs.time, "monotonic", lambda: now[0])
    for visit in range(small_runs.TRAININGS):
        monkeypatch.setattr(small_runs, "session_id", lambda visit=visit: f"visit {visit}")
        with small_runs.place():
            pass
    monkeypatch.setattr(small_runs, "session_id", lambda: "one more")
    with pytest.raises(ValueError, match="4 other visitors are training"), small_runs.place():
        pass
    now[0] += 11  # they have stopped, or closed their tabs
    with small_runs.place():
        pass
    monkeypatch.setattr(small_runs, "TRAININGS", 0)
    with pytest.raises(ValueError, match="switched off"), small_runs.place():
        pass


def test_hostile_choices_give_one_line():
    for query in ({"train_task": "chess"}, {"train_seed": "-1"}, {"train_heads": "9"}):
        page = render("train", **query)
        assert unpacked(page.payload("trained"))[0]["steps"] == [0]
    page = render("train", train_task="pasted")
    assert "Paste some pairs." in page.texts()
    page.app.text_area(key="train_pairs").set_value("a = b\nnothing").run(timeout=60)
    assert any("line 2 is not a pair" in text for text in read(page.app).texts())
    page.app.text_area(key="train_pairs").set_value("a = b\nc = d").run(timeout=60)
    header, _ = unpacked(read(page.app).payload("trained"))
    assert header["sentences"][0]["source_text"] == "a"


def test_captions_are_offered_where_the_operator_has_them(tmp_path, monkeypatch):
    def tasks(page: Rendered) -> list[str]:
        return page.app.get("button_group")[0].options

    assert "Captions" not in tasks(render("train"))
    (tmp_path / "multi30k").mkdir()
    for side in ("de", "en"):
        lines = "".join(f"{side} Hund {n}.\n" for n in range(40))
        (tmp_path / f"multi30k/train.{side}").write_text(lines)
    monkeypatch.setenv("HEADLIGHT_DATA", str(tmp_path))
    page = render("train", train_task="captions", **QUICK)
    assert "Captions" in tasks(page)
    header, _ = unpacked(page.payload("trained"))
    assert header["languages"] == ["German", "English"]
    assert header["sentences"][0]["source_text"] == "de Hund 36."
    assert [one["short"] for one in header["measures"]["cross"]][1:] == []
    assert any("only the answers are measured" in text for text in page.texts())
    monkeypatch.setenv("HEADLIGHT_DATA", str(tmp_path / "nowhere"))
    assert "Captions" not in tasks(render("train"))


def test_a_click_without_a_free_place_says_so(monkeypatch):
    page = render("train", **QUICK)
    monkeypatch.setattr(small_runs, "TRAININGS", 0)
    for key in ("train_step", "train_run"):
        page = press(page.app, key)
        assert "training is switched off here" in page.texts()
        assert not training_of(page.app).running and training_of(page.app).step == 0


def test_a_teachers_key_holds_what_this_visit_has_trained(monkeypatch):
    defaults = dict(SmallConfig.__init__.__kwdefaults__, steps=10)
    monkeypatch.setattr(SmallConfig.__init__, "__kwdefaults__", defaults)
    page = render("train", **EXPERIMENTS["causal"])
    while not training_of(page.app).is_over:
        page = press(page.app, "train_step")
    page = read(page.app.run(timeout=60))
    (said,) = [text for text in page.texts() if text.startswith("With the change: ")]
    kept = page.app.session_state["saved training outcomes"]
    assert list(kept) == ["causal"] and plain(kept["causal"]) in said
    monkeypatch.setattr(training_lesson.session, "saved_result", {"training outcomes": kept}.get)
    sheet = training_lesson.worksheet()
    assert sheet.count("<section>") == 4 == sheet.count("<li>")
    assert html.escape(kept["causal"]) in sheet.split("class=key")[1]
    assert sheet.count(html.escape(text("train", "lesson.untrained"))) == 3


@pytest.mark.parametrize("stop", ["plain", "causal"])
def test_a_teacher_starts_a_training_with_its_settings(stop):
    page = render("class", state={"train_seed": 5})
    (shown,) = [at for at in page.app.expander if "Train a network" in at.label]
    assert len([one for one in shown.button if one.label == "Start"]) == 4
    page.app.button(key=f"class_train_{stop}").click().run(timeout=60)
    for key, value in {"train_seed": 1, **EXPERIMENTS.get(stop, {})}.items():
        assert page.app.session_state[key] == value
