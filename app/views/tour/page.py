"""The guided tour: stops that each show one effect in the selected model."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256

import streamlit as st

from app import controls
from app.components.map_row import map_row
from app.components.map_row.payload import Map, MapRow, Opened
from app.components.question import Asked, Place
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.labels import ATTENTION
from app.look.markdown import plain
from app.state import address, models, plans, results, session
from app.stops import PAGES, TOURS, Stop
from app.views import VIEWS
from app.views.shared import asked
from app.views.shared.answers import offer_answers
from app.views.shared.axes import map_sides, source_of
from app.views.shared.explorer import show_explorer
from app.views.shared.glance import show_glance
from app.views.shared.plan_bar import leave_button, present_button
from app.views.shared.presented import show_still
from app.views.shared.quality_warnings import show_certainty
from app.views.shared.question import ask, first_askable, turn_if_right
from app.views.tour.finders import Highlight, find, measured, taught, tokens_in_words
from app.views.tour.trials import Bench, show_trial, vectors_of
from core.checkpoint.folder import Card
from core.kinds import KINDS
from core.record.edits import OFF, Edits
from core.record.record import TranslationRecord
from core.text.tokenizer import normalise

NEXT_LESSONS = ("tokens", "steps", "head", "why", "masks", "positions")
"""Lessons that the last stop links to, by their name in a plan."""
_AFTER = {"order": "no-positions", "leak": "no-mask"}  # by what a stop asks: its second map
_EDITS = {
    "order": Edits(source_positions=OFF, target_positions=OFF),
    "leak": Edits(causal_mask=False),
}
_BEFORE = {"no-positions": "positions", "no-mask": "mask"}
_STRONG = ("read", "written", "share")


def go_to(number: int) -> None:
    """Go to a stop, with its own view instead of the current link's."""
    session.put("stop", number + 1)
    for name in address.VIEW:
        address.pop(name)


def other_half(direction: str) -> None:
    """Start the tour in another direction."""
    controls.choose_direction(direction)
    go_to(0)


def asked_row(question: Asked | None) -> int | None:
    """Return the row of a stop's map that its question is about, or None."""
    if question is None or question.place is None or question.question.name != "attends":
        return None
    return question.place.query


def row_of(
    record: TranslationRecord,
    shown: Highlight,
    question: Asked | None,
    settled: bool,
    after: tuple[str, TranslationRecord] | None = None,
) -> MapRow:
    """Return the map that a stop shows; other heads can be chosen.

    The row that a question is about is covered until it is settled, with all that answer it, and
    then outlined. Until a question about the mask is settled, the encoder's map is shown: it has no
    masked cells, whose zeros would answer the question even without hatching. `after` names a
    change and is its pass of the same translation, shown beside the map once it is settled.
    """
    query = asked_row(question)
    asks = "" if question is None or settled else question.question.name
    kind = "encoder" if asks == "masked" else shown.kind
    name = "The map" if after is None else text("tour", f"page.{_BEFORE[after[0]]}")
    if asks == "masked":
        name = text("questions", "page.masked")
    note = text("tour", "page.outlined") if settled and query is not None else ""
    maps = [Map(name, "weight", note, record.maps(kind))]
    if after is not None and settled:
        changed = after[1]
        name = text("tour", f"page.{after[0]}")
        maps.append(Map(name, "after", "", changed.maps(kind), mask=changed.mask(kind)))
    turn = int(sha256(f"{record.id} {kind} {shown.head}".encode()).hexdigest()[:8], 16)
    return MapRow(
        kind.capitalize(),
        range(len(record.maps(kind))),
        *map_sides(record, kind),
        maps,
        record.mask(kind),
        Opened(shown.head.layer, shown.head.head, turn, None),
        outlined=query if settled else None,
        covered=() if settled or query is None else shown.covered(query),
        about=source_of(record),
    )


def changed_pass(stop: Stop, card: Card, record: TranslationRecord) -> TranslationRecord | None:
    """Return the pass of the same translation under the stop's change, if it has one."""
    if (edits := _EDITS.get(stop.asks)) is None:
        return None
    try:
        ids = results.token_ids(record.target_out)
        return results.inspect(card, record.source_text, edits=edits, target_ids=ids)
    except ValueError:  # the stop's trial says why
        return None


def show_taught(record: TranslationRecord, shown: Highlight) -> None:
    """Teach what a map is with one sentence, one map and one cell."""
    said = taught(shown, record)
    strong = {name: f"**{plain(word)}**" for name, word in said.items() if name in _STRONG}
    where = {"layer": shown.head.layer + 1, "head": shown.head.head + 1}
    with st.container(key="tour_taught", gap="small"):
        st.markdown(text("tour", "page.teaches", **(said | strong)))
    st.caption(text("tour", "page.legend", **said))
    st.caption(
        text(
            "tour",
            "page.one_of",
            heads=sum(record.maps(kind)[..., 0, 0].size for kind in KINDS if record.has(kind)),
            attention=ATTENTION[shown.kind],
            **where,
        )
    )


def questions(
    chosen: controls.Selection, record: TranslationRecord, number: int, shown: Highlight | None
) -> Iterator[asked.Candidate]:
    """Yield a stop's questions: its own, then those about its head, the pinned row first.

    If the translation lacks the stop's word, there is no such head, and the questions are about
    cross-attention. Two stops may ask the same about the same sentence, so each question's id names
    the stop.
    """
    stop = TOURS[chosen.languages][number]

    def here(make: asked.Candidate) -> asked.Candidate:
        def made() -> Asked:
            question = make()
            return replace(question, id=f"{question.id} at stop {number}")

        return made

    if stop.asks != "attends":
        yield here(partial(_own_question, stop, chosen, record, shown))
    if shown is None:
        yield from map(here, asked.cross_attention(record))
        return
    kind, head = shown.kind, shown.head
    if (query := shown.query) is not None:
        yield here(partial(asked.attends, record, kind, head.layer, head.head, query))
    yield from map(here, asked.other_rows(record, kind, head.layer, head.head, stop.first_row))


def texts_of(stop: Stop, record: TranslationRecord) -> str:
    """Return the texts that the stop is about, unless the question's options or the map show them.

    On a presented question, no map shows them.
    """
    if stop.asks == "wins":
        return normalise(record.source_text)
    if stop.asks in ("order", "leak") or plans.presenting():
        return f"{normalise(record.source_text)} → {record.translation}"
    return ""


def _own_question(
    stop: Stop, chosen: controls.Selection, record: TranslationRecord, shown: Highlight | None
) -> Asked:
    """Return a stop's own question. Raises NotAskable."""
    name = stop.asks
    if name == "masked":
        return asked.masked(record)
    card, source = chosen.card, record.source_text
    assert card is not None
    try:
        if name == "wins":
            return asked.wins(record, results.search_tree(card, source, controls.SEARCHES["beam"]))
        if name == "contributes":
            if shown is None or shown.query is None:
                raise asked.NotAskable(text("tour", "contributes.missing"))
            inside, key = vectors_of(Bench(card), record, shown)
            at = shown.kind, shown.head.layer, shown.head.head, shown.query
            return asked.contributes(record, at, inside.q_E, inside.k_KE[key])
        if name == "fetches":
            clean = results.inspect(card, stop.trial[1], decode=chosen.decode)
            found = results.patched(card, clean, record)
            return asked.fetches(clean, record, found.heads["cross"], found.reason)
        edits = _EDITS[name]
        if name == "leak":
            ids = results.token_ids(record.target_out)
            return asked.leak(record, results.inspect(card, source, edits=edits, target_ids=ids))
        return asked.order(record, results.inspect(card, source, edits=edits, decode=chosen.decode))
    except ValueError as error:
        raise asked.NotAskable(str(error)) from None


def show_lessons(link: dict[str, str]) -> None:
    """Link to each lesson, with `link` as query parameters, and say what the lesson shows."""
    for lesson in (PAGES[name] for name in NEXT_LESSONS):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.page_link(
                VIEWS[lesson.url_path].file, label=lesson.title, query_params=link, width="content"
            )
            st.caption(lesson.note, width="content")


chosen = controls.selection()
stops = TOURS.get(chosen.languages, ())
st.title("Guided tour", anchor=False)
for line in models.problems():
    st.error(plain(line))
if chosen.card is None:
    st.stop()
if not stops:
    st.caption(
        f"There is no tour from {chosen.source_language} to {chosen.target_language}: the tour's "
        f"sentences are German and English. The lessons work with any {chosen.source_language} "
        "sentence:"
    )
    show_lessons({**chosen.link, **({"source": chosen.source} if chosen.source else {})})
    st.stop()

address.initialise("stop", range(1, len(stops) + 1), 1)
number = session.get("stop") - 1
stop = stops[number]
in_plan, presenting = plans.at_tour_stop(), plans.presenting()
# In a plan, `at` makes the entry of the browser's history.
address.write({"stop": number + 1}, "stop", entry=None if in_plan else address.VIEW)
try:
    record = results.inspect(chosen.card, stop.source, decode=chosen.decode)
except ValueError as error:  # InputError, CheckpointError: one user-facing line
    st.error(plain(error))
    st.stop()
link = {**chosen.link, "source": stop.source}
result: Highlight | None = None
try:
    result = find(stop.find, record)
    head = result.head
    at = {"kind": result.kind, "layer": head.layer, "head": head.head}
    row = {"q": result.query, "k": None}
    before, share, after = measured(stop, result)
    measure = f"{plain(before)} **{share}** {plain(after)}"
except LookupError as missing:
    measure = plain(f"{missing}, so there is nothing to measure here. Another model may show it.")
    at, row = address.initial_view(record), {"q": None, "k": None}

view = {name: str(value) for name, value in (link | at | row).items() if value is not None}
# In a plan the teacher teaches, and the class predicts.
teaches = stop.teaches and result is not None and result.query is not None and not in_plan
question = None
if presenting and not teaches:
    question = first_askable(questions(chosen, record, number, result))[0]
shows = ["all"]
if presenting:  # screens that are each complete without scrolling
    shows = ["question"] * bool(question) + ["trial"] * bool(stop.trial) + ["map"]
turn = min(plans.screen(), len(shows) - 1)
screen = shows[turn]
steps = () if in_plan else (("Back", number - 1), ("Next stop", number + 1))
with st.container(horizontal=True, vertical_alignment="center", key="tour_links"):
    if not in_plan:
        st.caption(f"Stop {number + 1} of {len(stops)}", width="content")
    for word, to in steps:
        turns = word == "Back" and turn > 0  # to the screen before
        st.button(
            word,
            key=f"tour_{word.split()[0].lower()}",
            disabled=not turns and not 0 <= to < len(stops),
            on_click=plans.show_screen if turns else go_to,
            args=(turn - 1 if turns else to,),
            type="primary" if word != "Back" and not presenting else "secondary",
        )
    if turn < len(shows) - 1:
        words = "Show the map" if shows[turn + 1] == "map" else "Show what was measured"
        st.button(words, key="tour_more", on_click=plans.show_screen, args=(turn + 1,))
    if presenting:
        if not in_plan:
            leave_button()
    else:
        if not in_plan:
            present_button()
        st.page_link("views/translate.py", label="Open on Translate", query_params=view)
        show_glance(
            *(stop.blocks or (str(at["kind"]),)),
            follow="" if stop.blocks else f"tour_{number}",
            source=stop.source,
        )
if screen in ("question", "trial"):
    with st.container(key="tour_text", gap="small"):
        if not in_plan:  # whose bar names the stop
            st.subheader(stop.title, anchor=False)
        if texts := texts_of(stop, record):
            st.text(texts)
        if screen == "question":
            if stop.before:  # what to look for is on the screen with the map
                st.write(stop.before)
            asks = questions(chosen, record, number, result)
            said, beside = st.container(), None
            if result and asked_row(question) is not None:
                said, beside = st.columns([3, 2], gap="medium")
            with said:
                found = ask(f"tour_{number}", asks, stop.id)
            if beside and result:
                with beside:  # its row is covered
                    map_row(row_of(record, result, question, False, None), key=f"tour_map_{number}")
            turn_if_right(found)
        elif stop.trial:
            st.write(stop.look_for)
            show_trial(stop, chosen.card, record, result)
    st.stop()
shown = True
said, beside = st.columns([3, 4], gap="medium") if result else (st.container(), None)
with said, st.container(key="tour_text", gap="small"):
    st.subheader(stop.title, anchor=False)
    if texts := texts_of(stop, record):
        st.text(texts)
    show_certainty(record)
    look_for = st.empty()
    if teaches and result:
        show_taught(record, result)
    elif not presenting:
        asks = questions(chosen, record, number, result)
        found = ask(f"tour_{number}", asks, stop.id)
        question, shown = found.asked, found.settled
    if "trial" not in shows and not teaches:
        look_for.write(stop.look_for if shown or not stop.before else stop.before)
    if not shown and result and asked_row(question) is not None:
        st.caption(text("tour", "page.covered"))
    if shown and not (teaches and presenting):
        if stop.trial and not presenting:
            show_trial(stop, chosen.card, record, result)
        fold = st.expander(text("tour", "page.measured")) if teaches else st.container(gap="small")
        with fold:
            st.markdown(measure, help=meaning("head", "layer", "weight", "cross-attention"))
            if not presenting:
                st.caption(plain(tokens_in_words(record)), help=meaning("token", "<eos>"))
if beside and result and (shown or stop.asks != "wins"):  # its rows spell the winner
    with beside:
        if presenting:
            query = asked_row(question)
            query = result.query if query is None else query
            show_still(Place(record, result.kind, result.head.layer, result.head.head, query))
        else:
            other = changed_pass(stop, chosen.card, record) if shown else None
            after = None if other is None else (_AFTER[stop.asks], other)
            maps = row_of(record, result, question, shown, after)
            tells = teaches or (stop.asks == "fetches" and asked_row(question) is None)
            if tells and result.query is not None:  # the cell that the text is about
                key = int(record.maps(result.kind)[head.layer, head.head, result.query].argmax())
                maps = replace(maps, pinned=(result.query, key))
            map_row(maps, key=f"tour_map_{number}")
if presenting:  # the screen is full
    st.stop()

if number == len(stops) - 1 and not in_plan:
    with st.container(border=True, gap="small", key="tour_end"):
        st.markdown("**The tour ends here. The lessons continue with the same sentence.**")
        show_lessons(view | {"lesson": "1"})
        offer_answers("tour_answers")
        for other in sorted(TOURS.keys() - {chosen.languages}):
            if (other, chosen.link["model"]) in models.cards():
                st.button(
                    "The same tour, " + models.languages(other),
                    key="tour_other",
                    on_click=other_half,
                    args=(other,),
                )

if shown:
    opened = address.requested_view(record)
    key = f"tour_all_{number}"
    if opened and session.get(key) is None:
        session.put(key, True)
    fold = st.expander(text("tour", "page.all"), key=key, on_change="rerun")
    if fold.open:
        with fold:
            show_explorer(record, opened or at | row, chosen.card, key=f"tour_{number}")
