"""The lesson on tokens: each word of the sentence, built up as the tokenizer does it."""

from __future__ import annotations

import re

import streamlit as st

from app import controls
from app.components.merges import merges
from app.examples import examples
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.labels import label, segments
from app.look.markdown import plain
from app.state import address, plans, results, session
from app.views.shared.glance import lesson_top, show_glance
from app.views.shared.presented import show_rest
from app.views.shared.quality_warnings import show_quality_warnings
from core.analysis.attribution import source_words
from core.checkpoint.folder import Card
from core.kinds import Side
from core.record.record import TranslationRecord
from core.record.words import is_punctuation
from core.text.splitting import Splitting
from core.text.tokenizer import typography

MOST_CHARACTERS = 60
"""The longest text in the visitor's box."""


def show_counts(record: TranslationRecord) -> None:
    """Say how many of the sentence's words are split, and name the one with the most tokens."""
    tokens = record.source
    words = [
        word
        for word in source_words(tokens)
        if not is_punctuation("".join(tokens[i].text for i in word))
    ]
    if not words:
        return
    split = [word for word in words if len(word) > 1]
    name = {0: "none", 1: "one"}.get(len(split), "many")
    said = text(
        "tokens",
        f"count.{name}",
        split=len(split),
        words=len(words),
        tokens=sum(map(len, words)),
    )
    if split:
        longest = max(split, key=len)
        parts = [label(tokens[i]) for i in longest]
        said += " " + text(
            "tokens",
            "count.most",
            word="".join(parts),
            count=len(parts),
            parts=" | ".join(parts),
        )
    with st.container(key="token_counts"):
        st.markdown(plain(said), help=meaning("token"))


def show_unusual(splitting: Splitting, typed: str, key: str) -> None:
    """Explain unknown and invisible characters, where there are any."""
    symbols = [symbol for unit in splitting.units for symbol in unit.symbols]
    unknown = dict.fromkeys(_visible(s.text).lstrip("▁") for s in symbols if s.id is None)
    lines = []
    if unknown:
        named = ", ".join(f"“{one}”" for one in unknown)
        lines.append(text("tokens", "unknown.some", unknown=named))
    if changed := typography(typed):
        named = ", ".join(f"U+{ord(character):04X}" for character in changed)
        lines.append(text("tokens", "invisible.removed", characters=named))
    if any(hidden for symbol in symbols for _, hidden in segments(symbol.text)):
        lines.append(text("tokens", "invisible.kept"))
    with st.container(key=key):
        for line in lines:
            st.caption(plain(line), help=meaning("<unk>") if "<unk>" in line else None)


def _visible(written: str) -> str:
    return "".join(shown for shown, _ in segments(written))


def split_or_say(card: Card, written: str, side: Side) -> Splitting | None:
    """Return how a text is split; if that cannot be shown, say why in one line."""
    try:
        return results.splitting(card, written, side)
    except ValueError as error:
        st.error(plain(text("tokens", "failed.line", reason=error)))
        return None


def is_split(splitting: Splitting) -> bool:
    return any(len(unit.symbols) > 1 for unit in splitting.units)


def split_word(card: Card, direction: str) -> str:
    """Return the first word of an example that this network splits, or ""."""
    for example in examples(direction):
        for word in re.findall(r"\w+", example.text(direction)):
            try:
                if is_split(results.splitting(card, word, "encoder")):
                    return word
            except ValueError:  # the page says why
                return ""
    return ""


def show_own(card: Card, chosen: controls.Selection, default: str = "") -> None:
    """Draw the box for a word of the visitor's own, and show how the word is split."""
    address.initialise_text("tokens_word", default, "word")
    sides: dict[Side, str] = {"encoder": chosen.source_language, "decoder": chosen.target_language}
    side: Side = "encoder"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            text("tokens", "own.label"),
            key="tokens_word",
            placeholder=text("tokens", "own.hint"),
            persist_state="session",
            width=420,
        )
        if not results.shares_tokenizer(card):
            address.initialise("tokens_side", sides, "encoder")
            chosen_side = st.segmented_control(
                text("tokens", "sides.label"),
                list(sides),
                format_func=sides.__getitem__,
                required=True,
                key="tokens_side",
            )
            side = chosen_side or side
    word = address.one_line(session.get("tokens_word") or "")
    kept = None if word == default else word
    address.write({"word": kept, "tokens_side": None if side == "encoder" else side}, "tokens_word")
    if len(word) > MOST_CHARACTERS:
        long = text("tokens", "own.long", count=len(word), limit=MOST_CHARACTERS)
        st.error(plain(long))
    elif word and (own := split_or_say(card, word, side)):
        merges(own, key="tokens_own", view={"unit": None, "step": None}, in_url=False)
        show_unusual(own, word, "own_notes")


def number_of(name: str) -> int | None:
    """Return a whole number from this page's link, or None."""
    written = address.requested(name) or ""
    return int(written) if written in map(str, range(1000)) else None


page, beside = lesson_top()
with page:
    st.title(text("tokens", "title"))
    st.caption(text("tokens", "caption"), help=meaning("token", "embedding"))
    show_glance(
        *("inputs", "source_embedding", "target_embedding"),
        in_view=text("figure_one", "tokens"),
        beside=beside,
    )
    card, record = controls.ask_for_record(given_target=False)
    show_quality_warnings(record, controls.training_domain(card))
    chosen = controls.selection()
    sentence = split_or_say(card, results.prefixed(card, record.source_text), "encoder")
    if plans.presenting() and sentence is not None:
        with st.container(key="presented"):
            show_counts(record)
            merges(sentence, key="tokens_sentence", view={"unit": None, "step": None}, in_url=False)
            show_rest()
        st.stop()
    above = sentence is not None and not is_split(sentence)
    if above:  # open on a word that is split, beside the figure
        show_own(card, chosen, split_word(card, chosen.languages))
if sentence is not None:
    show_counts(record)
    merges(
        sentence,
        key="tokens_sentence",
        view={"unit": number_of("unit"), "step": number_of("step")},
    )
    counts = {"rules": f"{sentence.merges:,}", "entries": f"{sentence.entries:,}"}
    with st.container(key="tokens_how"):
        names = {"subwords": ("byte-pair encoding",), "pieces": ("log-probability",)}
        explained = names.get(sentence.kind, ("<unk>",))
        st.markdown(
            plain(text("tokens", f"{sentence.kind}.how", **counts)), help=meaning(*explained)
        )
        if sentence.kind != "words":
            st.caption(text("tokens", "subwords.boundary"))
    show_unusual(sentence, chosen.source, "token_notes")
if not above:
    show_own(card, chosen)
