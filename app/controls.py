"""The widgets that pages share and the frozen `Selection` they produce.

Keys of widgets and result containers (each becomes the CSS class st-key-<key>):
source, prefix, one_line, translate, reverse, target, use_reference, direction, model, search,
translation,
own_translation, another_translation, page_title, above_explorer, doubts, gloss, gloss_words,
from_language, to_language, explorer, beam_tree, tree_shown, free, free_result, forced_result,
steps_above, steps_problem, step_words, step_heads, path_maps, path_explorer,
head_kind, head_layer, head_head, head_q, head_k, head_sentence, head_row,
numbers_project …, table_project …,
head_stages, stage_project … stage_output, inside_project … inside_output, example_0…,
lesson_sentence, mask_input, mask_batch_…, mask_source_ids, mask_target_ids, source_batch,
target_batch, mask_kind, mask_sentence, mask_ids_sentence, mask_grids, mask_padding, mask_causal,
mask_combined, closing_layer, closing_head, closing_row, closing_fill, closing_precision,
closing_strip, closing_table, leak, train_cheating, cheating, padding_sentence, padding_effect,
hidden_word, hidden_translation, hidden_probabilities, position_side, position_table,
wave_dimensions,
position_waves, position_products, rotation_k, rotation_p, rotation_matrix, rotation_circles,
sum_side, sum_lengths, sum_plane, learned_model, table_waves, table_learned, products_waves,
products_learned, extrapolation, order_positions, order_maps, position_change,
position_change_side, position_seed, position_shift, position_translation, position_probabilities,
position_maps, parts_kind, score_parts,
bug, bug_translations, bug_kind, bug_maps, bug_numbers, bug_measures, question_bug, asked_bug,
bug_answer, bug_other_sentence, bug_steps, bug_previous, bug_next,
what_if_result, edits_line, remove_edits, word_alignment, alignment_figure,
why_for, why_matters, why_unfinished, why_heads, why_pairs, why_pairs_map,
why_pairs_most, why_step, why_other, why_rank, why_difference, why_terms, why_disagree, why_ribbons,
why_tried, why_lens, why_decoder_lens, why_token, why_seen, why_shapley, why_sources, why_agreement,
why_agreement_note, why_score, why_removals, open_pairs, open_choice, open_lens,
open_decoder_lens, open_sources, open_score, open_terms, open_knew, why_knew, why_knew_other,
why_knew_verdict, why_knew_encoder, why_knew_decoder, beside, offer_edit, minimal_pairs,
minimal_pair_0 …, second_source, second_line, second_of_two, two_at_once, first_of_two,
second_explorer, two,
full_passes, two_translations, two_title, copied_states, copy_way, copied, pushed_state, pushed,
heads_atlas, own_text, own_text_lines, own_text_file, own_text_measure, own_atlas,
literature_claim, claim_…, literature_…,
question_tour_0 …, question_masks, question_batch, question_positions, question_head, question_why,
question_steps, asked_<place> for the component in each, pictured_<place> and predict_<place> below
it, cover_<place> and show_<place> where its answer is covered, presented, presented_line,
presented_text,
train_task, train_pairs, train_layers, train_heads, train_width, train_positions, train_norm,
train_smoothing, train_warmup, train_seed, train_bug, train_experiment_…, train_predicted,
train_prediction, train_controls, train_run, train_step, train_fast, train_again, train_shown,
train_example_…, trained, train_after, train_open, train_save, train_load,
tour_links, tour_taught, tour_all_0 …, tour_text, tour_trial, tour_back, tour_next,
tour_end, tour_other, tour_0 …,
tour_map_0 …, purpose, glance, figure_one, figure_beside, lesson_columns, lesson_top,
token_counts, tokens_sentence, tokens_how, token_notes, tokens_word, tokens_side, tokens_own,
own_notes, examples, navigation, settings, link_note, cell_note, take_away, save_record,
save_tables, save_app, open_record,
opened_explorer, save_notebook, save_script, notebook_fold, notebook_choices,
notebook_choices_other, notebook_choices_knew, model_note, first_model, second_model, run_checks,
checks,
open_batch, open_row, open_causal, open_padding, open_word, open_waves, open_distance,
open_rotation, open_sums, open_learned, open_beyond, open_order, open_what_if, open_scores,
compare_kind, compare_scale, show_largest, largest, compared_maps, compare_matched,
matched_heads, matched_pairs, first_scores, second_scores, curves, measure_speed, speed,
code_answer, training_answer, checks_head, checks_worst, checks_after_1 …, all_checks,
bleu_of_both,
heads_of_both, open_details,
side_by_side, state_dict_map, training, training_notes,
plan_bar, plan_back, plan_next, plan_return, plan_leave, presenting, present_keys, present_start,
present_leave, present_map, tour_more, class_stop, class_add, class_add_stop, class_add_tour,
class_sentence_1 …, class_row_1 …, class_up_1 …, class_down_1 …, class_remove_1 …,
class_preview_1 …, class_link, class_page, class_worksheet, class_ready_ten,
class_training, class_train_…, class_train_link_…, class_train_worksheet,
class_ready_forty-five, class_start_ten …, class_link_ten …, class_page_ten …,
class_worksheet_ten …, class_change_ten …, class_files, class_answers, quiz, quiz_answers,
tour_answers, plan_answers, find,
address_page, and address_<key> for each choice that a page keeps in its URL.

For a network with language codes, from_language and to_language are codes such as deu_Latn; for a
network that reads its task in words, prefix is the text in front of every source. A link without
them means the network's own.

Other query parameters: while a plan runs, every page's URL keeps plan (its text, see app/plan.py)
and at (the stop, from 1); present=1 is presentation mode. On the page For teachers, plan is the
draft. The page Test yourself reads form (A or B).

lesson=1 stops a page at its question until the question is answered or skipped. Without it, a cover
hides only the parts of the page that answer the question. With lesson=0, nothing is covered.

The explorer keeps kind, layer, head, q, k, view, words, hide, sort, effect, combine, quantity,
mass and states in the URL; the atlas on the page Heads keeps head (cross.0.0), measure, x, y,
curve; the page Training also keeps sentence (counted from 0) and step; the page Find the bug keeps
bug (1 to 8), bug_kind, bug_layer and bug_head. The page Tokens keeps word (the visitor's own word),
tokens_side, unit (the chosen part of the sentence, counted from 0) and step (the number of merges
shown).
Translate keeps gloss (1 if it is shown). Two at once keeps copied (copy.SIDE.LAYER.TO.FROM, or
copyhead.KIND.LAYER.HEAD), copy_way (restore or damage) and pushed (an edit's text form).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import streamlit as st

from app.components.one_line import one_line
from app.examples import EXAMPLES, examples
from app.look.markdown import plain
from app.state import address, models, results, session
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.data.corpora import LANGUAGES, about
from core.text.vocabulary import MAX_PREFIX

if TYPE_CHECKING:
    from core.record.record import TranslationRecord

SEARCHES = {"greedy": DecodeConfig(beam=1), "beam": DecodeConfig(beam=5)}
SPOKEN = ("from_language", "to_language", "prefix")
"""The widgets and URL parameters of what a card's `between` takes; None without codes or prefix."""
_SWAPPED = "swapped"  # a translation that was put into the source box, and the sentence before it
SHOWN_DIRECTION = "shown_direction"  # the last run's direction: the list already holds the new one
_TARGET_OF = "target_of"  # a target text, with the direction and source it was entered for


@dataclass(frozen=True)
class Selection:
    """What a page should show; `card` is None if there is no usable checkpoint."""

    source: str
    direction: str
    card: Card | None
    search: str
    target: str = ""

    @property
    def decode(self) -> DecodeConfig:
        return SEARCHES[self.search]

    @property
    def link(self) -> dict[str, str]:
        """The query parameters of a link, without the sentence."""
        model = models.model_name(self.card) if self.card else ""
        link = {"direction": self.direction, "model": model, "search": self.search}
        spoken = {name: session.get(name) for name in SPOKEN}
        return link | {name: text or " " for name, text in spoken.items() if text is not None}

    @property
    def languages(self) -> str:
        """The chosen languages, in the form of a direction; `direction` is that of the folder."""
        if self.card is None:
            return self.direction
        return f"{self.card.source_language}-{self.card.target_language}"

    @property
    def source_language(self) -> str:
        return LANGUAGES[self.languages.split("-")[0]]

    @property
    def target_code(self) -> str:
        return self.languages.split("-")[1]

    @property
    def target_language(self) -> str:
        return LANGUAGES[self.target_code]


def selection() -> Selection:
    """Return the current values of the widgets."""
    direction = session.get("direction") or next(iter(directions()), "de-en")
    source = session.get("source")
    card = models.cards().get((direction, session.get("model")))
    empty = Selection("", direction, card, session.get("search") or "beam")
    source = EXAMPLES[0].text(empty.languages) if source is None else address.one_line(source)
    return replace(empty, source=source, target=_target(empty.languages, source))


def _target_text() -> str:
    return str(session.get("target") or "").strip()


def _target(languages: str, source: str) -> str:
    """Return the text of the target box if it was entered for this sentence, else "".

    Clearing the box is not enough: the browser resends its text until it receives the change, so
    two quick clicks would apply the old translation to the new sentence.
    """
    text = _target_text()
    return text if session.get(_TARGET_OF) == (text, languages, source) else ""


def note_target() -> None:
    """If the target box has a new text, note the sentence that it was entered for."""
    text, (entered, *_) = _target_text(), session.get(_TARGET_OF) or ("",)
    if text and text != entered:
        now = selection()
        session.put(_TARGET_OF, (text, now.languages, now.source))


def reset_target() -> None:
    """Forget which sentence the target was entered for, unless the page just used the target."""
    if not selection().target:
        session.put(_TARGET_OF, None)


def directions() -> list[str]:
    """Return all directions, known languages first: the first direction is the default."""
    directions = {direction for direction, _ in models.cards()}
    return sorted(directions, key=lambda d: (not LANGUAGES.keys() >= set(d.split("-")), d))


def swap_languages() -> None:
    """Replace the sentence by its translation after a change of direction.

    An example becomes its counterpart in the new source language. Without a counterpart, the box
    becomes empty, and switching back starts with the first example. Switching back after a
    translation restores the original sentence. If the translation fails, keep the sentence: the
    page then shows the error.
    """
    note_target()
    now = selection()
    before = "-".join(reversed(now.direction.split("-")))
    shown = session.get(SHOWN_DIRECTION) or before
    counterparts = {t: e.text(now.direction) for e in EXAMPLES for t in (e.de, e.en)}
    if now.source in counterparts:
        session.put("source", counterparts[now.source])
        return
    if not now.source and not examples(shown):
        session.put("source", None)  # back to a language with examples: start with the first
        return
    if shown != before:  # the sentence has no translation into the new source language
        return
    card = models.cards().get((before, session.get("model")))
    translated, original = session.saved_result(_SWAPPED) or (None, None)
    if now.source and now.source == translated:
        session.put("source", original)
    elif card is not None and now.source:
        try:
            record = results.inspect(
                card, now.source, _target(before, now.source) or None, decode=now.decode
            )
        except ValueError:
            return
        session.save_result(_SWAPPED, (record.translation, now.source))
        session.put("source", record.translation)


def choose_direction(direction: str) -> None:
    """Switch the direction as the sidebar does."""
    session.put("direction", direction)
    swap_languages()


def source_box() -> None:
    """Draw the Translate button and the source box, which grows with its text."""
    chosen = selection()
    if session.get("source") is None:
        session.put("source", chosen.source)
    language = chosen.source_language
    has_prefix = chosen.card is not None and models.takes_prefix(chosen.card)
    *front, box, button = st.columns(
        [2, 4, 1] if has_prefix else [6, 1], vertical_alignment="center"
    )
    if front:
        with front[0]:
            _prefix_box()
    box.text_area(
        f"{language} sentence",
        height="content",
        key="source",
        persist_state="session",
        placeholder=f"Type a sentence in {language}",
        label_visibility="collapsed",
    )
    button.button("Translate", key="translate", width="stretch")
    one_line("source")


def _prefix_box() -> None:
    """Draw the text that the network reads in front of the source."""
    session.put("prefix", session.get("prefix"))  # each page draws a new widget
    st.text_input(
        "Prefix, which the network reads in front of the sentence",
        key="prefix",
        max_chars=MAX_PREFIX,
        placeholder="No prefix",
        label_visibility="collapsed",
        persist_state="session",
    )


def target_box() -> None:
    """Draw the box for a user-supplied target, such as an example's reference."""
    chosen = selection()
    if session.get("target") and not chosen.target:
        session.put("target", "")
    language = chosen.target_language
    row = st.container(horizontal=True, wrap=False, vertical_alignment="center")
    row.text_input(
        f"{language} translation to look at",
        type="search",  # adds a button that clears it
        icon=":material/translate:",
        key="target",
        persist_state="session",
        placeholder=f"Another {language} translation (optional)",
        label_visibility="collapsed",
    )
    known = examples(chosen.languages)
    references = {e.text(chosen.languages): e.text(chosen.target_code) for e in known}
    reference = references.get(chosen.source)
    # A click on the button takes the focus from the box, which applies its text. So the button must
    # exist before the text arrives and keep its identity afterwards.
    row.button(
        "Use the reference" if reference else "Look at it",
        key="use_reference",
        on_click=_use_reference,
        args=(reference,),
    )


def _use_reference(reference: str | None) -> None:
    """Fill an empty target box with the reference, if there is one; keep typed text."""
    if reference and not session.get("target"):
        session.put("target", reference)


def ask_for_record(
    given_target: bool = True, ask_target: bool = False
) -> "tuple[Card, TranslationRecord]":
    """Draw the source box; return the chosen model's card and its record of the sentence.

    It is the record that the first page shows. If there is none, show one line that says why, and
    stop the page. With `given_target`, use the target entered on the first page. With `ask_target`,
    draw the target box below that line: the target may be what is wrong.
    """
    source_box()
    chosen = selection()
    for line in models.problems():
        st.error(plain(line))
    if chosen.card is None:
        st.stop()
    if not chosen.source:
        ask_and_stop(chosen)
    target = chosen.target if given_target else ""
    try:
        record = results.inspect(chosen.card, chosen.source, target or None, decode=chosen.decode)
    except ValueError as error:  # InputError, CheckpointError: one user-facing line
        st.error(plain(error))
        if ask_target:
            target_box()
        st.stop()
    _note_unknown_cell(record)
    return chosen.card, record


def _note_unknown_cell(record: "TranslationRecord") -> None:
    """Say in one line which row or column of a link the maps of its sentence lack."""
    arrival = session.get("arrival"), session.get("page")
    noted = session.saved_result("cell note")
    if noted is None or noted[0] != arrival:
        noted = arrival, record.id, address.unknown_cell(record)
        session.save_result("cell note", noted)
    if noted[2] and noted[1] == record.id:
        with st.container(key="cell_note"):
            st.caption(plain(noted[2]))


def ask_and_stop(chosen: Selection) -> NoReturn:
    """Ask for a sentence and stop the page."""
    or_choose = ", or choose an example" if examples(chosen.languages) else ""
    st.caption(f"Type a sentence in {chosen.source_language}{or_choose}.")
    st.stop()


def training_domain(card: Card) -> str:
    """Describe a model's training sentences by its validation corpora; "" if unknown."""
    return about(card.metrics.get("final", {}))
