"""Train one here: a small network learns a generated task while its maps and curves are drawn."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app.components.training import training as draw
from app.components.training.payload import SmallCurves, payload
from app.look.glossary import meaning
from app.look.markdown import plain
from app.state import address, folders, models, session, small_runs, waiting
from app.state.small_runs import Training
from app.views.shared.choices import choose
from app.views.train.settings import (
    EXPERIMENTS,
    OUTCOMES,
    ask_for_pairs,
    choose_config,
    choose_task,
    chosen_experiment,
    described,
    say,
    set_experiment,
    without,
)
from app.views.train.words import changed, is_decided, lead, outcome, written
from core.data.captions import CAPTIONS, MOST_WORDS
from core.data.corpora import LANGUAGES
from core.data.tasks import PASTED, Example, pasted

if TYPE_CHECKING:  # imports torch
    from core.small.history import History
    from core.small.run import SmallConfig

EVERY_S = 0.85
"""Seconds between two repaints."""
BUSY_S = 0.78
"""Seconds of them that are spent on drawing, training and measuring."""
_NAMES = ("with the change", "without it")


def make(task: str, pairs: str, config: SmallConfig) -> Training:
    """Return a new training of one network, or of two if the first differs from a plain one."""
    from core.small.examples import Examples
    from core.small.history import History
    from core.small.run import SmallRun

    of_task = {PASTED: lambda: pasted(pairs), CAPTIONS: folders.captions}
    examples = Examples(task, of_task.get(task, tuple)())
    both = [config, *([other] if (other := without(config)) else [])]
    histories = []
    for one in both:
        run = SmallRun(examples, one)
        weights = sum(parameter.numel() for parameter in run.model.parameters())
        if weights > small_runs.WEIGHTS:
            raise ValueError(
                f"this network has {weights:,} weights: the limit here is "
                f"{small_runs.WEIGHTS:,}, choose fewer layers or a smaller d_model"
            )
        histories.append(History(run))
    return Training(tuple(histories), _NAMES[: len(both)])


def current(task: str, pairs: str, config: SmallConfig) -> Training:
    """Return this visit's training of these settings, or a new one."""
    settings = (task, pairs, config)
    kept = session.saved_result("training")
    if kept is None or kept[0] != settings:
        kept = (settings, make(*settings))
        session.save_result("training", kept)
        session.put("train_predicted", None)
    return kept[1]


def restart() -> None:
    """Forget the training: the same seed gives the same curve."""
    session.save_result("training", None)


def start_or_pause(training: Training) -> None:
    training.running = not training.running
    if not training.running:
        with training.lock:
            training.measure()


def is_begun(training: Training) -> bool:
    """Whether it has taken a step, or takes its first one after these widgets are drawn."""
    return training.running or bool(training.step)


def one_step(training: Training) -> None:
    """Take one step, and measure it."""
    training.advance(0)


def control_row(training: Training) -> int:
    """Draw the buttons that start, pause and restart the training; return the network to show."""
    with st.container(key="train_controls", horizontal=True, vertical_alignment="center"):
        st.button(
            "Pause" if training.running else "Train" if not training.step else "Go on",
            icon=":material/pause:" if training.running else ":material/play_arrow:",
            type="primary",
            key="train_run",
            on_click=start_or_pause,
            args=(training,),
            disabled=training.is_over,
        )
        st.button(
            "One step",
            key="train_step",
            on_click=one_step,
            args=(training,),
            disabled=training.running or training.is_over,
        )
        training.fast = st.toggle("Faster", key="train_fast", help="Fewer points are measured.")
        st.button(
            "Start again", key="train_again", on_click=restart, disabled=not is_begun(training)
        )
        if len(training.histories) > 1 and is_begun(training):  # in place of the offers
            names = dict(enumerate(training.names))
            return choose("Shown", names, 0, "train_shown", show_label=False)
        st.space("stretch")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.caption(say("experiments.offer"), width="content")
            for name in EXPERIMENTS:
                st.button(
                    say(f"experiments.{name}.name"),
                    key=f"train_experiment_{name}",
                    on_click=set_experiment,
                    args=(name,),
                    disabled=chosen_experiment() == name,
                )
    return 0


def predict(training: Training) -> None:
    """Ask for a prediction before a training with a change; compare it with what came of it."""
    if training.is_over:
        note_outcome(training)
    if len(training.histories) < 2:
        return
    options = {"copes": "yes", "worse": "partly", "fails": "no"}
    with st.container(horizontal=True, vertical_alignment="center", key="train_prediction"):
        st.markdown(say("predict.prompt"), width="content")
        predicted = st.segmented_control(
            "Prediction",
            list(options),
            format_func=lambda one: say(f"predict.{options[one]}"),
            key="train_predicted",
            persist_state="session",
            disabled=is_begun(training),
            label_visibility="collapsed",
        )
    if is_decided(training):
        said = changed(training)
        if predicted:
            said += " " + say(f"verdict.{'right' if predicted == outcome(training) else 'wrong'}")
        st.markdown(plain(said))


def note_outcome(training: Training) -> None:
    """Keep what came of a ready experiment, or of the default network, for a teacher's key."""
    run = training.histories[0].run
    is_plain = run.examples.task == "dates" and not described(run.config)
    stop = chosen_experiment() or ("plain" if is_plain else None)
    if stop:
        said = (
            changed(training)
            if len(training.histories) > 1
            else lead(training, training.histories[0])
        )
        kept = session.saved_result(OUTCOMES) or {}
        session.save_result(OUTCOMES, kept | {stop: said.replace("**", "")})


def curves(training: Training, at: int) -> SmallCurves:
    """Return the curves of one network, with the other's beside them."""
    history = training.histories[at]
    compared = None
    if len(training.histories) > 1:
        other = training.histories[1 - at]
        compared = {
            "name": training.names[1 - at],
            "loss": [one.loss for one in other.points],
            "quality": [one.exact for one in other.points],
        }
    quality = {
        "title": "right",
        "meaning": "Share of unseen examples that the network translates without a mistake.",
        "values": [one.exact for one in history.points],
        "share": True,
    }
    return SmallCurves(quality, history.measures(), history.found(), compared)


def show(training: Training, at: int) -> None:
    """Draw the sentences, the curves and the maps of one network."""
    history = training.histories[at]
    settings = plain(described(history.run.config))
    with st.container(gap="xxsmall"):
        st.markdown(lead(training, history), help=meaning("head", "weight", "cross-attention"))
        if said := training.problem or training.refused:
            st.error(plain(said))
        with st.container(horizontal=True, vertical_alignment="center"):
            choose_example(training)  # first, so that a longer output does not move it
            st.markdown(written(history.shown()))
        if settings:
            st.caption(settings)
    task = history.run.examples.task
    source, target = history.run.examples.sides
    data = payload(
        history.snapshots(),
        name=f"{task}, seed {history.run.config.seed}",
        languages=(LANGUAGES[source], LANGUAGES[target]),
        opened={"sentence": 0, "step": None, "kind": "cross", "layer": 0, "head": 0}
        | {name: address.requested(name) for name in address.VIEW if address.requested(name)},
        small=curves(training, at),
    )
    draw(data, key="trained")


def live(training: Training, at: int) -> None:
    """Draw the training, and train for a while if it runs; the browser repeats this."""
    end = time.monotonic() + BUSY_S
    with training.lock:
        show(training, at)
    if not training.running:
        return
    training.advance(end - time.monotonic(), waiting.give_way)
    if not training.running:
        st.rerun()


def choose_example(training: Training) -> None:
    """Draw the box for the example whose maps are shown."""
    examples = training.histories[0].run.examples
    held = {one.source: one for one in examples.held.examples}
    typed = st.selectbox(
        "Another example",
        list(held)[:20],
        key=f"train_example_{examples.task}",
        accept_new_options=True,
        label_visibility="collapsed",
        width=220,
    )
    wanted = held.get(typed) or Example(typed or training.histories[0].example.source, "")
    if wanted.source != training.histories[0].example.source:
        try:
            for history in training.histories:
                history.watch(wanted)
        except ValueError as error:
            st.error(plain(error))


def open_everywhere(training: Training, at: int) -> None:
    """Offer the trained network as a model of this visit, and as a file."""
    history = training.histories[at]
    with st.container(key="train_after", horizontal=True, vertical_alignment="center"):
        if st.button("Open in all pages", key="train_open", disabled=not training.step):
            with st.spinner("Measuring BLEU at each point …"):
                card = keep(history)
            session.put("direction", card.direction)
            session.put("model", models.model_name(card))
            session.put("source", history.example.source)
            st.switch_page("views/translate.py")
        if training.step and not training.running:
            st.download_button(
                "Save the network",
                partial(_zipped, history),
                f"headlight_{history.run.examples.task}.zip",
                "application/zip",
                key="train_save",
                on_click="ignore",
            )
        with st.popover("Load a network"):
            given = st.file_uploader("A saved network", "zip", key="train_load")
            if given is not None and session.saved_result("loaded file") != given.file_id:
                session.save_result("loaded file", given.file_id)
                try:
                    card = small_runs.from_zip(given.getvalue())
                except ValueError as error:
                    st.error(plain(error))
                else:
                    session.put("direction", card.direction)
                    session.put("model", models.model_name(card))
                    st.caption("It is now in the list of models on all pages.")


def keep(history: History) -> models.Card:
    """Offer a network to this visit as a model."""
    from core.device import device_label
    from core.small.checkpoint import save

    examples = history.run.examples
    direction = "-".join(examples.sides)
    return small_runs.keep(
        examples.task, direction, lambda folder: save(history, folder, device_label("cpu"))
    )


def _zipped(history: History) -> bytes:
    from core.device import device_label
    from core.small.checkpoint import save

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / history.run.examples.task
        save(history, folder, device_label("cpu"))
        return small_runs.as_zip(folder)


st.title("Train one here")
with st.container(horizontal=True, vertical_alignment="center"):
    task = choose_task()
    popover = st.popover("Change the network", icon=":material/tune:")
st.caption(plain(say(f"learns.{task}", words=MOST_WORDS)))
pairs = ask_for_pairs() if task == PASTED else ""
try:
    with popover:
        config = choose_config()
    training = current(task, pairs, config)
except ValueError as error:
    st.caption(plain(error) if pairs or task != PASTED else say("pairs.none"))
    st.stop()
predict(training)
at = control_row(training)
waiting.fragment(live, every_s=EVERY_S if training.running else None)(training, at)
open_everywhere(training, at)
