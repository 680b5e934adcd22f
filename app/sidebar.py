"""The sidebar of every page: the list of pages, examples, settings, and the model's note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st

from app import controls
from app.components.navigation import navigation
from app.examples import Example, examples
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.markdown import plain
from app.look.numbers import weights_count
from app.state import address, models, plans, session
from app.views import VIEWS, View
from core.checkpoint.folder import Card
from core.checkpoint.imported import Imported
from core.data.corpora import about
from core.kinds import KINDS
from core.text.vocabulary import MAX_PREFIX


def sidebar(page: str) -> None:
    """Draw the list of pages, examples where they do something, and the settings of the page.

    `page` is its URL path. A setting that does nothing on the page keeps its value.
    """
    view = VIEWS[page]
    with st.sidebar:
        navigation(page)
        if not controls.directions():
            return
        offered = st.container(key="examples", gap=None) if view.own_sentence else None
        with st.container(key="settings", gap=None):
            direction = _settings(view)
        languages = controls.selection().languages
        if offered and (known := examples(languages)):
            with offered:
                _examples(known, languages)
    _note_unknown(page)
    controls.note_target()
    session.put(controls.SHOWN_DIRECTION, direction)
    chosen = controls.selection()
    # Each sentence is a history entry, and drops the cell pinned before.
    entry = address.CELL if view.own_sentence else None
    link = dict.fromkeys(controls.SPOKEN) | chosen.link
    address.write({"source": chosen.source, "target": chosen.target, **link}, "page", entry)


def _note_unknown(page: str) -> None:
    """Say in one line what is shown instead of what the page's link names and is not here."""
    arrival = session.get("arrival")
    if session.saved_result("noted arrival") != arrival:  # the page's widgets forget the link
        session.save_result("noted arrival", arrival)
        session.save_result("link note", _unknown(page))
    if note := session.saved_result("link note"):
        with st.container(key="link_note"):
            st.caption(plain(note))


def _unknown(page: str) -> str:
    chosen = controls.selection()
    if chosen.card is None:
        return ""
    here = {
        "direction": models.languages(chosen.direction),
        "model": models.model_label(chosen.card),
        "search": chosen.decode.label,
        "from_language": _spoken(chosen.source_language, 0),
        "to_language": _spoken(chosen.target_language, 1),
        "prefix": "none",
    }
    unknown = address.unknown()
    found = [(key.replace("_", " "), text, here[key]) for key, text in unknown if key in here]
    if plans.running() is not None:  # a plan has its own line about direction and model
        found = []
    view = {name: address.requested(name) for name in ("kind", "layer", "head")}
    given = {name: text for name, text in view.items() if text is not None}
    if page in ("", "head", "together") or (page == "tour" and "kind" in given):
        shape = chosen.card.model
        layers = {"encoder": shape.num_encoder_layers}
        sizes = {
            str(kind): (layers.get(kind, shape.num_decoder_layers), shape.heads(kind))
            for kind in reversed(KINDS)
        }
        shown = address.closest_view(given, sizes)
        found += [
            (name, address.from_one(text), address.from_one(str(shown[name])))
            for name, text in given.items()
            if text != str(shown[name])
        ]
    return " ".join(address.unavailable(*one) for one in found)


def _spoken(name: str, side: int) -> str:
    code = session.get(controls.SPOKEN[side])
    return models.language_label(code) if code else name


def _languages(card: Card, is_shown: bool) -> None:
    """Draw the lists of languages of a network with language codes; take its prefix from a link."""
    sides = zip(("From", "To"), models.frames(card), models.own_codes(card), strict=True)
    for key, (label, frame, own) in zip(controls.SPOKEN, sides, strict=False):
        codes = sorted(frame.languages, key=models.language_label)
        if not codes:
            if text := address.pop(key):
                address.note_unknown(key, text)
            session.put(key, None)
            continue
        address.initialise(key, codes, own or codes[0])
        if is_shown:
            st.selectbox(
                label,
                codes,
                format_func=models.language_label,
                key=key,
                persist_state="session",
            )
    here, text = models.selected(), address.pop("prefix")
    if not models.takes_prefix(card):
        if text:
            address.note_unknown("prefix", text)
        session.put("prefix", None)
    elif text is not None or session.saved_result("prefix of") != here:
        own = models.frames(card)[0].prefix
        session.put("prefix", own if text is None else text.lstrip()[:MAX_PREFIX])
    session.save_result("prefix of", here)


def _settings(view: View) -> str:
    """Draw the settings that the page uses, as one short line each; return the direction."""
    fixed = plans.running() is not None  # a plan's stops are about one direction and model
    directions = controls.directions()
    address.initialise("direction", directions, directions[0])
    direction = str(session.get("direction"))
    card = models.cards().get(models.selected())
    spoken = card is not None and card.spoken[:2] != (None, None)
    if "direction" in view.settings:
        direction = st.selectbox(
            "Direction",
            directions,
            format_func=models.languages,
            key="direction",
            persist_state="session",
            on_change=controls.swap_languages,
            help="the network's own languages: From and To choose others" if spoken else None,
            disabled=fixed,
        )
    offered = {name: card for (d, name), card in models.cards().items() if d == direction}
    names = list(offered)
    address.initialise("model", names, "scratch" if "scratch" in names else names[0])
    if "model" in view.settings:
        st.selectbox(
            "Model",
            names,
            format_func=lambda name: models.model_label(offered[name]),
            key="model",
            persist_state="session",
            help="fixed by the plan" if fixed else _about(offered[session.get("model")], offered),
            disabled=fixed,
        )
    _languages(offered[session.get("model")], "model" in view.settings)
    address.initialise("search", controls.SEARCHES, "beam")
    if "search" in view.settings:
        st.selectbox(
            "Search",
            list(controls.SEARCHES),
            format_func=lambda name: controls.SEARCHES[name].label.capitalize(),
            key="search",
            persist_state="session",
            help=meaning("beam search"),
        )
    return direction


def _examples(known: Iterable[Example], direction: str) -> None:
    st.caption("Examples")
    for i, example in enumerate(known):
        st.button(
            example.title(direction),
            key=f"example_{i}",
            type="tertiary",
            help=example.hint(direction) or None,
            on_click=_choose,
            args=(example.text(direction),),
        )


def _choose(sentence: str) -> None:
    """Put an example into the box; it opens with its own head, without what was chosen before."""
    session.put("source", sentence)
    session.put("edits", "")
    address.forget_view()


def _about(card: Card, offered: Mapping[str, Card]) -> str:
    """Describe a model for the help of its list: its scores and its origin."""
    scores = ", ".join(
        f"{score['sacrebleu']:.1f} ({plain(about([corpus]))}"
        + (f", beam {score['beam']})" if "beam" in score else ")")
        for corpus, score in card.metrics.get("final", {}).items()
    )
    lines = []
    if scores:
        lines += [
            f"Validation BLEU, on sentences outside its training data: {scores}. "
            "Expect errors on other kinds of text.",
            meaning("BLEU"),
        ]
    if card.imported is not None:
        lines += _import_note(card.imported)
    if not {models.origin(one) for one in offered.values()} <= {"shipped"}:
        lines.append(
            "Models without a prefix ship with Headlight. *Own* ones were trained with this "
            "project. *Imported* ones were trained elsewhere: the comparisons made on import are "
            "listed beside the checks of each sentence."
        )
    return "\n\n".join(lines)


def _import_note(imported: Imported) -> tuple[str, str]:
    """Say where imported weights come from and how far the import was verified."""
    source = plain(imported.origin)
    count = len(imported.compared)
    passed = sum(one.passed for one in imported.compared)
    verdict = (
        f"Compared with the original on import: {passed} of {count} comparisons passed."
        if count
        else "Not compared with the original."
    )
    if open_points := len(imported.not_proven):
        verdict += (
            f" Not verified: {open_points} point{'s' * (open_points > 1)}, listed beside the "
            "checks of a sentence."
        )
    return source, verdict


def model_note(page: str) -> None:
    """Show device and size of the selected model at the bottom of the sidebar."""
    card = controls.selection().card
    if card is None or "model" not in VIEWS[page].settings:
        return
    shape = card.model
    with st.sidebar.container(key="model_note"):
        try:
            device = models.device_label(card)
        except ValueError as error:  # CheckpointError, on a page that did not need the model
            st.error(plain(error))
            return
        st.caption(
            f"{plain(device)}, {shape.num_encoder_layers} + {shape.num_decoder_layers} layers, "
            f"{shape.heads_label} heads, d_model {shape.d_model}, "
            f"{weights_count(card.parameters)}"
        )
        if models.is_trained_here(card):
            st.caption(plain(_training_note(card)))
        if card.note:
            st.caption(plain(card.note))


def _training_note(card: Card) -> str:
    """Say on what a network of this visit was trained, for how long, and with which mistake."""
    training = card.training
    (task,) = training["corpora"]
    settings = training["settings"]
    said = text(
        "train",
        "card.trained",
        task=task,
        steps=f"{training['steps_done']:,}",
        seconds=f"{training['seconds']:.0f}",
    )
    if settings["positions"] == "none":
        said += " " + text("train", "card.positions")
    if bug := settings["bug"]:
        said += " " + text("train", "card.mistake", mistake=text("train", f"mistake.{bug}"))
    return said
