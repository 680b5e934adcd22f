"""Step by step: the search tree, every score as a sum, and searches with a forced prefix."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app import controls
from app.components.beam_tree import beam_tree
from app.figures.steps import heads_figure
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.labels import isolated, label
from app.look.markdown import plain
from app.look.numbers import number
from app.state import address, plans, results, session, waiting
from app.views.shared import asked
from app.views.shared.explorer import show_explorer
from app.views.shared.figure import show
from app.views.shared.glance import show_glance
from app.views.shared.notebook import offer_notebook
from app.views.shared.quality_warnings import show_quality_warnings
from app.views.shared.question import Outcome, in_lesson, open_with
from app.views.shared.what_if import current_edits, show_edits
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord
from core.serving.queue import UnansweredError

if TYPE_CHECKING:  # `core` imports torch, which takes seconds
    from collections.abc import Callable

    from core.record.edits import Edits
    from core.search.tree import SearchTree, WrittenTree


_READ = 4  # preceding tokens named for a step


def forced_prefix(record: TranslationRecord) -> tuple[int, ...]:
    """Return this sentence's forced prefix: that of a link, else the last one forced, else ()."""
    linked = (address.pop("forced") or "").split(".")
    if all(re.fullmatch("[0-9]{1,6}", id) for id in linked):
        session.save_result("forced", ((record.model, record.source_text), tuple(map(int, linked))))
    sentence, prefix = session.saved_result("forced") or (None, ())
    return prefix if sentence == (record.model, record.source_text) else ()


def force(record: TranslationRecord, prefix: tuple[int, ...]) -> None:
    """Force a prefix on the search of this sentence; an empty one removes it."""
    session.save_result("forced", ((record.model, record.source_text), prefix))
    session.put("tree_shown", "forced")


def score_line(tree: SearchTree) -> str:
    best = tree.hypotheses[0]
    return (
        f"log-probability {number(best.log_prob, 3)}, {len(best.ids)} tokens, "
        f"score {number(best.score, 3)}"
    )


def show_comparison(record: TranslationRecord, free: WrittenTree, forced: WrittenTree) -> None:
    """Show the free and the forced translation side by side, with the difference of scores."""
    prefix = [forced.tokens[n.id] for n in forced.tree.nodes if n.forced]
    change = forced.tree.hypotheses[0].score - free.tree.hypotheses[0].score
    left, right = st.columns(2, gap="large")
    with left, st.container(key="free_result", gap="small"):
        st.caption("Free search")
        st.text(free.texts[0])
        st.caption(score_line(free.tree))
    with right, st.container(key="forced_result", gap="small"):
        st.caption("Forced to begin with")
        st.text(" · ".join(isolated(label(token)) for token in prefix))
        st.text(forced.texts[0])
        words = (
            "the same score as the free translation"
            if abs(change) < 5e-4
            else f"{number(abs(change), 3)} "
            + ("worse" if change < 0 else "better: the free search had missed this translation")
        )
        st.caption(f"{score_line(forced.tree)}: {words}")
    address.initialise("tree_shown", ("forced", "free"), "forced")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.segmented_control(
            "Tree",
            ("free", "forced"),
            format_func={"free": "Free search", "forced": "Forced search"}.__getitem__,
            required=True,
            key="tree_shown",
            label_visibility="collapsed",
        )
        st.button("Remove the forced prefix", key="free", on_click=force, args=(record, ()))


@waiting.fragment
def show_tree(
    card: Card,
    record: TranslationRecord,
    written: WrittenTree,
    edits: Edits | None,
    ask: Callable[[], Outcome],
    compares: bool,
) -> None:
    """Draw the tree; below it ask the page's question, and show the pinned node's cross-attention.

    Until the question is settled, the tree does not show which translation wins, except if it
    `compares` with another that does.
    """
    tree = written.tree
    above = st.container()
    hidden = ask().hides("wins") and not compares
    with above:
        chosen = beam_tree(written, session.get("beam_tree"), hides_winner=hidden, key="beam_tree")
    with st.container(key="steps_problem"):
        if chosen.force is not None:
            try:
                force(record, (*chosen.force, *results.continuation(card, chosen.text)))
                st.rerun()
            except ValueError as error:
                st.error(plain(error))
    node = tree.nodes[chosen.node]
    here = chosen.node if node.parent is not None else tree.path(tree.ends[0])[0]
    try:
        path = results.inspect(card, record.source_text, edits=edits, target_ids=tree.ids(here))
    except UnansweredError as error:
        st.error(plain(error))
        return
    st.subheader(
        "Where the heads looked at this step",
        anchor=False,
        help=meaning("cross-attention", "head", "weight"),
    )
    with st.container(key="step_words"):
        st.text(
            f"While producing “{isolated(label(path.target_out[-1]))}” after "
            f"“{'… ' if len(path.target_in) > _READ else ''}"
            f"{' · '.join(isolated(label(token)) for token in path.target_in[-_READ:])}”"
        )
    show(
        heads_figure(path),
        "step_heads",
        f"Each row shows how one head spreads its attention over the {record.source_language} "
        "tokens at this step. A head attends before the next token is chosen, so all continuations "
        "of the same path share these rows.",
    )
    address.initialise("path_maps", (False, True), False)
    shown = st.toggle("All maps of this path", key="path_maps")
    address.write_choice("path_maps", shown, False)
    if shown:
        show_explorer(path, address.initial_view(path), card, key="path_explorer")
    offer_notebook(
        "steps",
        card,
        record,
        EDITS="" if edits is None else edits.to_text(),
        PREFIX=tree.ids(tree.ends[0])[: tree.forced],
        PATH=tree.ids(here),
    )


st.title("Step by step")
card, record = controls.ask_for_record()
chosen = controls.selection()
show_quality_warnings(record, controls.training_domain(card), chosen.source)
beam = chosen.decode.beam
kept = "the most probable token" if beam == 1 else f"the best {beam} unfinished translations"
with st.container(horizontal=True, vertical_alignment="center"):
    st.caption(
        f"At each step, {'greedy' if beam == 1 else 'beam'} search keeps {kept}.",
        help=meaning("token", "<bos>", "beam search", "length penalty", "score", "forced prefix"),
        width="content",
    )
    show_glance("softmax", "outputs", in_view=text("figure_one", "steps"))
# Always present, so that the elements below keep their position.
above = st.container(key="steps_above")
edits, problems = current_edits(card, record)
with above:
    show_edits(edits, problems, record)
try:
    free = results.search_tree(card, record.source_text, chosen.decode, edits=edits)
except ValueError as error:
    above.error(plain(error))
    st.stop()
questions: list[asked.Candidate] = [partial(asked.wins, record, free)]
if edits is None:
    questions += asked.cross_attention(record)
linked = address.requested("forced") is not None
ask = partial(open_with, "steps", record, questions, linked=linked)
if in_lesson() or plans.presenting():  # the question comes first, and may end the page
    asked_first = ask()
    ask = lambda: asked_first  # noqa: E731
prefix = forced_prefix(record)
try:
    forced = results.search_tree(card, record.source_text, chosen.decode, prefix, edits)
except ValueError as error:
    above.error(plain(error))
    prefix, forced = (), free
if prefix:
    with above:
        show_comparison(record, free, forced)
is_free = not prefix or session.get("tree_shown") == "free"
address.write(
    {
        "forced": ".".join(map(str, prefix)),
        "tree_shown": "free" if prefix and is_free else None,
    },
    "steps",
)
show_tree(card, record, free if is_free else forced, edits, ask, bool(prefix))
