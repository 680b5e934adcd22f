"""Find the bug: the broken network's maps, translation and numbers beside the healthy one's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import streamlit as st

from app.components.map_row import map_row
from app.components.map_row.payload import Map, MapRow, Opened, Side
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.markdown import plain
from app.state import address, plans, results, session
from app.views.bugs.mistakes import MISTAKES
from app.views.bugs.question import ask_which, is_solved, made_in, show_code
from app.views.bugs.symptoms import show_differences, show_symptoms
from app.views.shared.axes import map_sides, source_of
from app.views.shared.choices import choose
from app.views.shared.inspection import Inspection, ask_for_inspection
from app.views.shared.presented import show_line, show_rest
from core.text.tokenizer import EOS, PAD

_KINDS = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}


def show_translations(inspection: Inspection, bug: str) -> None:
    """Show what the healthy and the broken network write, and what both are fed if it differs."""
    from core.experiments.bugs import bug_translation

    healthy, broken = (
        inspection.run_experiment(bug_translation, one, inspection.record.forced)
        for one in (None, bug)
    )
    fed = inspection.record.translation
    both = [results.target_text(inspection.card, ids) for ids in (healthy, broken)]
    names = ("healthy", "broken") if both[0] != both[1] else ("alike",)
    written = dict(zip(names, both, strict=False))
    if both[0] != fed and not plans.presenting():  # by another search
        written["fed"] = fed
    with st.container(key="bug_translations"):
        st.text(
            "\n".join(
                f"{text('bugs', f'page.{name}')}:  {said or text('bugs', 'page.empty')}"
                for name, said in written.items()
            ),
            help=f"{text('bugs', 'page.translations')}\n\n{meaning('teacher-forced')}",
        )
    notes = []
    if broken[-1] != EOS:
        notes.append(text("bugs", "page.cut_off", tokens=len(broken)))
    if inspection.card.architecture == "baseline":
        notes.append(text("bugs", "page.baseline"))
    if notes and not plans.presenting():
        st.caption(plain(" ".join(notes)))


def numbered(inspection: Inspection) -> dict[int, str]:
    """Return the mistakes by their numbers, which are the same for every network."""
    here = made_in(inspection)
    return {i: bug for i, bug in enumerate(MISTAKES, start=1) if bug in here}


def choose_bug(inspection: Inspection) -> str:
    """Choose a bug by its number and return its name."""
    names = numbered(inspection)
    labels = {i: f"{i} ✓" if is_solved(inspection, bug) else str(i) for i, bug in names.items()}
    return names[choose(text("bugs", "page.choice"), labels, min(names), "bug")]


class Seen(NamedTuple):
    """Where a bug changes a map most: kind, layer and head; `of` names the record and the bug."""

    of: tuple[str, str]
    kind: str
    layer: int
    head: int


def where_seen(inspection: Inspection, bug: str) -> Seen:
    """Return the head that shows a bug: of all, it changes most, on average over the cells.

    It is taken from the first kind, in the order of computation, that has a head with at least half
    of the largest change: later kinds may change only because their inputs do.
    """
    from core.experiments.bugs import bug_pass

    healthy, broken = (inspection.run_experiment(bug_pass, one) for one in (None, bug))
    changes = {
        kind: np.abs(broken.maps[kind] - healthy.maps[kind])
        .mean((2, 3))
        .round(4)  # ties: the first
        for kind in _KINDS
    }
    most = max(change.max() for change in changes.values())
    kind = next(kind for kind, change in changes.items() if change.max() >= most / 2)
    layer, head = np.unravel_index(int(changes[kind].argmax()), changes[kind].shape)
    return Seen((inspection.record.id, bug), kind, int(layer), int(head))


def choose_kind(seen: Seen) -> str:
    """Choose a kind of attention; a new bug or sentence opens on what shows it."""
    if seen.of != session.saved_result("bug seen"):
        linked = address.requested("bug_kind")
        if session.saved_result("bug seen") is not None or linked not in _KINDS:
            session.put("bug_kind", seen.kind)
        session.save_result("bug seen", seen.of)
    return choose("Attention", _KINDS, seen.kind, "bug_kind")


def show_maps(inspection: Inspection, bug: str, kind: str, seen: Seen) -> bool:
    """Show the maps of both networks, padding included; return whether there is any."""
    from core.experiments.bugs import bug_pass

    healthy, broken = (inspection.run_experiment(bug_pass, one) for one in (None, bug))
    maps = [
        Map(
            text("bugs", f"page.{name}"),
            name,
            "",
            run.maps[kind],
            mask=run.masks[kind],
        )
        for name, run in (("healthy", healthy), ("broken", broken))
    ]
    layers, heads = healthy.maps[kind].shape[:2]
    queries, keys = padded_sides(inspection, kind, healthy.padding)
    either = healthy.masks[kind] | broken.masks[kind]
    opened = selected_head(layers, heads, seen)
    about = source_of(inspection.record)
    row = MapRow(_KINDS[kind], range(layers), queries, keys, maps, either, opened, about=about)
    map_row(row, key="bug_maps")
    shown = {
        "bug": str(list(MISTAKES).index(bug) + 1),
        "bug_kind": kind,
        "bug_layer": str(opened.layer),
        "bug_head": str(opened.head),
    }
    lines = [
        address.unavailable(key, asked, shown[key])
        for key, asked in address.unknown()
        if key in shown
    ]
    if lines:
        st.caption(plain(" ".join(lines)))
    return bool(healthy.padding)


def padded_sides(inspection: Inspection, kind: str, padding: int) -> list[Side]:
    """Return the queries and keys of a kind, each followed by its padding."""
    pads = results.target_tokens(inspection.card, (PAD,) * padding)
    return [
        Side(
            (*side.tokens, *pads),
            range(side.numbers[0], side.numbers[-1] + padding + 1),
            side.words,
        )
        for side in map_sides(inspection.record, kind)
    ]


def selected_head(layers: int, heads: int, seen: Seen) -> Opened:
    """Return the head that the link opens, else the one that shows the bug.

    The browser keeps later choices until the bug or the sentence changes.
    """
    names = {"layer": "bug_layer", "head": "bug_head"}
    linked = [address.pop(name) for name in names.values()]
    for name, asked, count in zip(names.values(), linked, (layers, heads), strict=True):
        if asked is not None and asked not in map(str, range(count)):
            address.note_unknown(name, asked)
    if any(linked):
        session.put("bug_turn", (session.get("bug_turn") or 0) + 1)
        session.put("bug_opened", linked)
    elif session.get("bug_opened_for") != seen.of:
        session.put("bug_turn", (session.get("bug_turn") or 0) + 1)
        session.put("bug_opened", None)
    session.put("bug_opened_for", seen.of)
    found = session.get("bug_opened") or (None, None)
    usual = seen.layer, seen.head
    layer, head = (
        at if isinstance(at := address.index(one, count, default), int) else default
        for one, count, default in zip(found, (layers, heads), usual, strict=True)
    )
    return Opened(layer, head, session.get("bug_turn") or 0, names)


def present_page(inspection: Inspection) -> None:
    """Show one screen: translations and maps, numbers that differ, the question, or the code."""
    from core.experiments.bugs import bug_symptoms

    turn = plans.screen()
    bug = choose_bug(inspection) if turn else ""
    with st.container(key="presented"):
        line = st.container()
        more = text("bugs", f"page.present_{turn}") if turn < 3 else ""
        if turn != 2:  # first, as the maps fill the height below it
            with line:
                show_line(inspection.record, more)
        if turn == 0:
            said, beside = st.columns([2, 5], gap="medium")
            with said, st.container(key="presented_text", gap="small"):
                bug = choose_bug(inspection)
                show_translations(inspection, bug)
            with beside, st.container(key="present_maps", gap="small"):
                seen = where_seen(inspection, bug)
                show_maps(inspection, bug, choose_kind(seen), seen)
        else:
            healthy, broken = (inspection.run_experiment(bug_symptoms, one) for one in (None, bug))
            if turn == 1:
                show_differences(healthy, broken)
            elif turn == 2:
                revealed = ask_which(inspection, bug, healthy, broken)
                with line:
                    show_line(inspection.record, more if revealed is not None else "")
            else:
                show_explanation(bug, ask_which(inspection, bug, healthy, broken, draw=False))
                show_rest()


def show_explanation(bug: str, compared: str | None) -> None:
    """Once the question is answered or skipped, show a comparison, if any, and the code."""
    if compared is None:
        return
    if compared:
        st.markdown(plain(compared))
    with st.container(key="bug_answer"):
        show_code(bug)


def show_bug(inspection: Inspection) -> None:
    """Show all evidence about the chosen bug, and ask which it is."""
    from core.experiments.bugs import PROBED, bug_symptoms

    with st.container(horizontal=True, gap="medium"):
        bug = choose_bug(inspection)
        seen = where_seen(inspection, bug)
        kind = choose_kind(seen)
    healthy, broken = (inspection.run_experiment(bug_symptoms, one) for one in (None, bug))
    shape = inspection.card.model
    with st.container(key="question_columns"):  # the style sheet stacks them on a narrow page
        maps, asked = st.columns([2, 1], gap="medium")
        with maps:
            padded = show_maps(inspection, bug, kind, seen)
        with asked:
            show_translations(inspection, bug)
            compared = ask_which(inspection, bug, healthy, broken)
    st.caption(
        plain(text("bugs", "page.maps" if padded else "page.no_padding")),
        help="\n\n".join([text("bugs", "page.batch")] * padded + [meaning("mask")]),
    )
    with st.container(key="bug_numbers"):
        title = text("bugs", "page.numbers")
        if compared is None:  # the numbers give the answer away
            fold = st.expander(text("bugs", "page.hint"))
        else:
            fold = st.container()
            fold.subheader(title, anchor=False)
        with fold:
            show_symptoms(healthy, broken, shape.size_of_head("encoder"), PROBED)
    show_explanation(bug, compared)


st.title(text("bugs", "title"))
st.caption(plain(text("bugs", "intro")))
inspection = ask_for_inspection(show_sentence=False)
if len(made_in(inspection)) < len(MISTAKES):
    st.caption(text("bugs", "fewer"))
try:
    if plans.presenting():
        present_page(inspection)
        st.stop()
    show_bug(inspection)
except ValueError as error:  # EditError, InputError, CheckpointError: one user-facing line
    st.error(plain(error))
numbers, number = list(numbered(inspection)), session.get("bug")
with st.container(horizontal=True, key="bug_steps"):
    for word, step in (("previous", -1), ("next", 1)):
        to = numbers.index(number) + step
        st.button(
            text("bugs", f"page.{word}"),
            key=f"bug_{word}",
            disabled=not 0 <= to < len(numbers),
            on_click=session.put,
            args=("bug", numbers[to % len(numbers)]),
        )
