"""Push a state: a token's state moves away from one word of the translation, towards another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import core
from app.components.states import states
from app.components.tokens import sent
from app.controls import Selection
from app.look.labels import label
from app.state import address, results, session, waiting
from app.views.shared.notebook import offer_notebook
from app.views.states.readings import count_states, first_difference, show_link
from core.checkpoint.folder import Card
from core.checkpoint.lens import load_lens
from core.config import DecodeConfig
from core.record.edits import Edits, Push, RandomPush
from core.record.record import RecordToken, TranslationRecord

KEY = "pushed_state"
_LINES = ("strengths", "old", "new", "random_old", "random_new")


@waiting.fragment
def show_pushing(
    card: Card, record: TranslationRecord, other: TranslationRecord, chosen: Selection
) -> None:
    """Draw a sentence, the push of one of its states, its curve, and what is translated then.

    At first, the push is towards the translation of the `other` sentence. Raises CheckpointError,
    in one line, without a lens.
    """
    load_lens(card)
    address.initialise_text("pushed", "")
    asked = session.saved_result("asked_push")  # once: then it is in "pushed"
    session.save_result("asked_push", None)
    push, typed, problem = _linked(card, record), None, ""
    if asked and asked["sentence"] == record.id:
        typed = str(asked.get("new") or "")
        try:
            push = _chosen(card, record, other, asked, typed)
        except ValueError as error:  # the word is not one token, or something does not exist
            problem = str(error)
    is_chosen = push is not None
    push = push or _opening(card, record, other)
    data: dict[str, Any] = {
        "mode": "push",
        "key": KEY,
        "turn": session.get("push_turn") or 0,
        "source": record.source_text,
        "tokens": [sent(token) for token in record.source],
        "layers": count_states(card, "encoder"),
        "typed": typed if problem else None,
        "problem": problem,
        "push": None,
    }
    if push is None:
        data["problem"] = problem or "The translation has no word to push away from."
    else:
        push, shown = _pushed(card, record, other, push, chosen.decode)
        data |= shown
    session.put("pushed", data["edits"] if is_chosen else "")
    address.write({"pushed": session.get("pushed")}, KEY + "_link")
    states(data, key=KEY, on_chosen=lambda: _choose(record.id))
    if push is not None:
        show_link(record, data["edits"], chosen)
        names = ("layer", "position", "old", "new", "strength")
        values: dict[str, Any] = {name.upper(): getattr(push, name) for name in names}
        offer_notebook("push", card, record, **values)


def _choose(sentence: str) -> None:
    """Take over what the visitor chose in the component."""
    chosen = (session.get(KEY) or {}).get("chosen") or {}
    session.save_result("asked_push", {**chosen, "sentence": sentence})
    session.put("push_turn", chosen.get("turn"))


def _linked(card: Card, record: TranslationRecord) -> Push | None:
    """Return the push in the URL, or the last one, if this sentence can have it."""
    edits, _ = Edits.parse(session.get("pushed"))
    edits, _ = results.applicable_edits(card, edits, record.source_text)
    ids = results.token_ids(record.target_out)
    known = (one for one in edits.pushes if isinstance(one, Push) and one.side == "encoder")
    return next((one for one in known if one.old in ids), None)


def _ranks(card: Card, record: TranslationRecord) -> np.ndarray:
    """Return how far down the lens reads each target token in a source token's states.

    Ranks summed over the layers, [source, target]; special tokens are infinitely far down.
    """
    ranks = results.run_experiment(card, core.jacobian_lens, record).encoder.ranks
    found = ranks.sum(axis=0).astype(float)
    found[[token.special for token in record.source]] = np.inf
    found[:, [token.special or not token.starts_word for token in record.target_out]] = np.inf
    return found


def _opening(card: Card, record: TranslationRecord, other: TranslationRecord) -> Push | None:
    """Return a push that turns a word into that of the other sentence, or into its rival.

    Whole content words come first: that of the other sentence, then the best read ones.
    """
    ranks, target = _ranks(card, record), record.target_out
    least = ranks.min(axis=0)
    steps = [step for step in range(len(target) - 1) if np.isfinite(least[step])]
    functions, known = _function_words(card), first_difference(record, other)

    def order(step: int) -> tuple[bool, bool, bool, float]:
        word = target[step]
        return (
            not _is_whole(word, target[step + 1]),
            word.text.lower() in functions,
            step != known,
            float(least[step]),
        )

    for step in sorted(steps, key=order):
        if news := _suggested(card, record, other, step):
            position = int(ranks[:, step].argmin())
            return Push("encoder", 0, position, target[step].id, news[0].id, 0.0)
    return None


def _function_words(card: Card) -> frozenset[str]:
    """Return the function words of the target language, in lower case; none if there is no list."""
    from core.text.function_words import function_words  # loads spaCy

    try:
        return results.run(None, function_words, card.target_language)
    except ValueError:
        return frozenset()


def _is_whole(token: RecordToken, following: RecordToken) -> bool:
    """Return whether a token is a word of at least three letters that the next one does not go on.

    Punctuation may go on.
    """
    ends = following.special or following.starts_word or not following.text[:1].isalnum()
    is_word = token.starts_word and not token.special and token.text.isalpha()
    return is_word and len(token.text) > 2 and ends


def _suggested(
    card: Card, record: TranslationRecord, other: TranslationRecord, step: int
) -> list[RecordToken]:
    """Return words to push towards: that of the other sentence, and those used like the old one.

    They are whole words, and function words only for a function word. Other forms of the same word
    and words of the source are left out: both sides may share their vocabulary.
    """
    from core.experiments.push_curve import replacements  # loads torch

    old, functions = record.target_out[step], _function_words(card)
    found = results.run_experiment(card, replacements, record, step)
    words, after = (results.target_tokens(card, ids) for ids in zip(*found, strict=True))
    source = {token.text for token in record.source}
    pairs = [pair for pair in zip(words, after, strict=True) if pair[0].text not in source]
    if first_difference(record, other) == step:
        first = other.target_out[step : step + 2]
        pairs = [*([first] if len(first) == 2 else []), *pairs]
    whole = {word.id: word for word, following in pairs if _is_whole(word, following)}
    stem, is_function = old.text.casefold()[:3], old.text.lower() in functions
    return [
        word
        for word in whole.values()
        if not word.text.casefold().startswith(stem)
        and (word.text.lower() in functions) == is_function
    ][:8]


def _chosen(
    card: Card, record: TranslationRecord, other: TranslationRecord, asked: Any, word: str
) -> Push:
    """Return the push that the visitor chose. Raises ValueError, in one line."""
    position, layer = int(asked["position"]), int(asked["layer"])
    ids, old = results.token_ids(record.target_out), asked["old"]
    if old not in ids:
        old = ids[int(_ranks(card, record)[position].argmin())]
    news = _suggested(card, record, other, ids.index(old))
    new = results.target_word(card, word) if word or not news else news[0].id
    push = Push("encoder", layer, position, old, new, float(asked["strength"] or 0))
    _, problems = results.applicable_edits(
        card, Edits(pushes=(replace(push, strength=1),)), record.source_text
    )
    if problems:
        raise ValueError(problems[0])
    return push


def _pushed(
    card: Card,
    record: TranslationRecord,
    other: TranslationRecord,
    push: Push,
    decode: DecodeConfig,
) -> tuple[Push, dict[str, Any]]:
    """Return the push with a strength of the curve, and what the component shows of it."""
    step = results.token_ids(record.target_out).index(push.old)
    curve = results.run_experiment(card, core.push_curve, record, replace(push, strength=1), step)
    place = int(np.abs(curve.strengths - push.strength).argmin())
    if push.strength == 0:  # not chosen yet: the first at which the words have changed places
        flips = np.flatnonzero(curve.new > curve.old)
        place = max(1, int(flips[0])) if len(flips) else 8
    push = replace(push, strength=float(curve.strengths[place]))
    at = push.side, push.layer, push.position
    after, random = (
        results.inspect(card, record.source_text, edits=Edits(pushes=(one,)), decode=decode)
        for one in (push, RandomPush(*at, 0, push.strength))
    )
    words = {t.id: label(t) for t in record.target_out if not t.special}
    new = results.target_labels(card, (push.new,))[push.new]
    return push, {
        "edits": Edits(pushes=(push,)).to_text(),
        "push": {
            "position": push.position,
            "layer": push.layer,
            "old": {"id": push.old, "text": label(record.target_out[step])},
            "new": {"id": push.new, "text": new},
            "strength": push.strength,
            "length": curve.length,
        },
        "olds": [{"id": id, "text": text} for id, text in words.items()],
        "news": [{"text": label(token)} for token in _suggested(card, record, other, step)],
        "curve": {name: getattr(curve, name).tolist() for name in _LINES},
        "before": record.translation,
        "after": after.translation,
        "random": random.translation,
    }
