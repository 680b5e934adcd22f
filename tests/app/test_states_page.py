"""Copying and pushing states on the page "Two at once": numbers, refusals and links."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import core
from app.look.labels import label
from app.views.states.copying import _opening
from app.views.states.pushing import _is_whole
from core.record.edits import Donor, Edits, HeadPatch, Patch, Push, RandomPush
from core.record.parts import RecordToken
from core.text.function_words import function_words
from tests.app.page_checks import record
from tests.app.rendered import Rendered, render, unpacked

BOY, DOG = (f"Ein {who} spielt mit einem Ball am Strand." for who in ("Junge", "Hund"))
PAIR = {"two": "copy", "source": BOY, "second_source": DOG}


def sent(page: Rendered) -> dict[str, Any]:
    return page.payload("copied_states")


def pictures(page: Rendered) -> dict[str, Any]:
    return unpacked(page.payload("answers_copied_states_pictures"))[0]


@pytest.mark.parametrize("way", ["restore", "damage"])
def test_the_page_opens_with_the_state_that_tells_both_apart(translator, way):
    page = render("together", copy_way=way, **PAIR)
    data, first, second = sent(page), translator.inspect(BOY), translator.inspect(DOG)
    donor, receiver = (first, second) if way == "restore" else (second, first)
    assert (data["donor"]["name"], data["receiver"]["name"]) == tuple(
        "AB" if way == "restore" else "BA"
    )
    assert data["copy"] == {"layer": 2, "from": 1, "to": 1}
    edits = Edits(donor=Donor.of(donor), patches=(Patch("encoder", 2, 1, 1),))
    after = translator.inspect(receiver.source_text, edits=edits)
    assert data["after_text"] == after.translation != receiver.translation
    readings = core.jacobian_lens(translator, after).encoder
    ids = readings.ids[..., 0]
    words = [[word for word, _ in row] for row in data["after"]]
    assert words == [[t.text for t in translator.target_tokens(row)] for row in ids.tolist()]
    assert data["donor"]["words"][4][1][0] == words[4][1] != data["receiver"]["words"][4][1][0]
    all_shares = core.patch_all(translator, first, second, way)
    # The page takes it from log-probabilities of two passes each, `patch_all` from the logits.
    assert data["measure"]["share"] == pytest.approx(all_shares.encoder[2, 1], abs=1e-3)
    ends = [all_shares.corrupted, all_shares.clean]
    if way == "damage":
        ends = [-end for end in reversed(ends)]
    found = [data["measure"][name] for name in ("before", "goal")]
    assert found == pytest.approx(ends, abs=1e-3)
    shown = pictures(page)
    np.testing.assert_allclose(shown["cells"], all_shares.encoder, atol=1e-6)
    assert set(shown["heads"]) == {"cross", "encoder"} and shown["about"] == data["about"]


@pytest.mark.parametrize("way", ["restore", "damage"])
def test_of_the_first_words_that_differ_the_state_that_brings_most_is_copied(translator, way):
    first, second = "Eine Frau spielt Gitarre.", "Ein Mann isst Reis."
    data = sent(render("together", two="copy", copy_way=way, source=first, second_source=second))
    A, B = translator.inspect(first), translator.inspect(second)
    assert [a.id == b.id for a, b in zip(A.source, B.source, strict=True)].index(True) == 4
    shares = core.patch_all(translator, A, B, way).encoder[2]
    best = int(shares[:4].argmax())
    assert best > 0 and data["copy"] == {"layer": 2, "from": best, "to": best}
    assert data["measure"]["share"] == pytest.approx(shares[best], abs=1e-3)
    linked = render("together", copied="copy.encoder.2.0.0", two="copy", copy_way=way,
                    source=first, second_source=second)  # fmt: skip
    assert sent(linked)["copy"] == {"layer": 2, "from": 0, "to": 0}


def test_the_first_four_pairs_that_differ_are_compared_in_the_layer_of_the_copy(translator):
    A, B = (translator.inspect(text) for text in ("Ein Hund isst Sand.", "Zwei Frauen essen Reis!"))
    pairs = [(n, n) for n in range(len(A.source))]
    assert [A.source[n].id != B.source[n].id for n, _ in pairs] == [True] * 5 + [False]
    rising = np.arange(6.0)
    shares = SimpleNamespace(encoder=np.array([-rising, -rising, rising, -rising, -rising]))
    opening = _opening(translator.card, A, B, "encoder", pairs, lambda: shares)
    assert opening == {"layer": 2, "from": 3, "to": 3}
    undefined = SimpleNamespace(encoder=np.full((5, 6), np.nan))
    opening = _opening(translator.card, A, B, "encoder", pairs, lambda: undefined)
    assert opening == {"layer": 2, "from": 0, "to": 0}


def test_a_link_opens_a_copied_head_and_search_is_the_pages_own(translator):
    page = render("together", copied="copyhead.cross.3.3", search="greedy", **PAIR)
    boy, dog = translator.inspect(BOY, beam=1), translator.inspect(DOG, beam=1)
    copies = tuple(HeadPatch("cross", 3, 3, t, t) for t in range(2))
    after = translator.inspect(DOG, edits=Edits(donor=Donor.of(boy), head_patches=copies), beam=1)
    data = sent(page)
    assert data["copy"] == {"kind": "cross", "layer": 3, "head": 3}
    assert data["after_text"] == after.translation
    share = core.patch_all(translator, boy, dog).heads["cross"][3, 3]
    assert data["measure"]["share"] == pytest.approx(share, abs=1e-3)
    of_encoder = core.patch_all(translator, boy, dog).heads["encoder"][0, 2]  # at all its tokens
    data = sent(render("together", copied="copyhead.encoder.0.2", search="greedy", **PAIR))
    assert data["measure"]["share"] == pytest.approx(of_encoder, abs=1e-3) and of_encoder > 0.01
    moved = Edits(donor=Donor.of(boy), patches=(Patch("encoder", 1, 1, 5),))
    ball = sent(render("together", copied="copy.encoder.1.1.5", search="greedy", **PAIR))
    assert ball["copy"] == {"layer": 1, "from": 5, "to": 1}
    assert ball["after_text"] == translator.inspect(DOG, edits=moved, beam=1).translation
    for wrong in ("copyhead.cross.9.3", "copy.encoder.2.1.77", "copy.encoder", "x"):
        assert sent(render("together", copied=wrong, **PAIR))["copy"] == {
            "layer": 2, "from": 1, "to": 1}  # fmt: skip


def test_the_decoders_states_are_paired_up_to_the_first_other_word():
    data = sent(page := render("together", copied="copy.decoder", **PAIR))
    assert data["side"] == "decoder" and data["pairs"] == [[0, 0], [1, 1]]
    for name, text in (("donor", BOY), ("receiver", DOG)):
        # Each state is named by the word that it writes, as on Translate: the last one reads the
        # most probable word there.
        states, seen = data[name], record(text)
        assert [token["text"] for token in states["tokens"]] == [t.text for t in seen.target_out]
        best = [label(likely[0]) for likely in seen.alternatives]
        assert [word for word, _ in states["words"][-1]] == best
    assert data["copy"] == {"layer": 3, "from": 1, "to": 1}
    cells = pictures(page)["cells"]
    assert [len(row) for row in cells] == [2] * data["layers"]  # as far as both begin alike
    assert set(pictures(page)["heads"]) == {"cross", "decoder"}


def test_sentences_of_other_lengths_are_paired_by_their_words():
    second = "Zwei Jungen und ein Hund spielen mit einem Ball am Strand."
    data = sent(render("together", two="copy", source=BOY, second_source=second))
    words = [[token["text"] for token in data[side]["tokens"]] for side in ("donor", "receiver")]
    assert len(words[0]) < len(words[1])
    both = {(words[0][at], words[1][to]) for at, to in data["pairs"]}
    assert {(word, word) for word in ("mit", "einem", "Ball", "am", "Strand", "<eos>")} <= both


def test_what_cannot_be_paired_or_does_not_differ_is_refused_in_one_line():
    apart = render("together", two="copy", source=BOY, second_source="Zwei Frauen")
    assert "cannot be paired" in sent(apart)["problem"] and sent(apart)["pairs"] == []
    assert "cannot be paired" in pictures(apart)["problem"]
    same = render("together", two="copy", source=BOY, second_source=BOY)
    assert sent(same)["copy"] is sent(same)["measure"] is None
    assert "same translation" in pictures(same)["problem"]


def test_a_push_and_a_random_one_are_translated_at_a_strength_of_the_curve(translator):
    (new, _) = (token.id for token in translator.tokens("cat", "target"))
    record = translator.inspect(DOG)
    old = record.target_out[1].id
    page = render("together", two="push", source=DOG, pushed=f"push.encoder.0.1.{old}.{new}.15.5")
    data = page.payload("pushed_state")
    assert data["push"] | {"length": 0} == {
        "position": 1, "layer": 0, "old": {"id": old, "text": "dog"},
        "new": {"id": new, "text": "cat"}, "strength": 16.0, "length": 0}  # fmt: skip
    for name, push in (
        ("after", Push("encoder", 0, 1, old, new, 16.0)),
        ("random", RandomPush("encoder", 0, 1, 0, 16.0)),
    ):
        assert data[name] == translator.inspect(DOG, edits=Edits(pushes=(push,))).translation
    assert "cat" in data["after"] and "cat" not in data["random"] + data["before"]


def test_a_push_opens_towards_the_known_other_sentence():
    data = render("together", two="push").payload("pushed_state")
    assert data["push"]["old"]["text"] == "red" and data["push"]["new"]["text"] == "blue"
    assert data["tokens"][data["push"]["position"]]["text"] == "roten"
    assert [new["text"] for new in data["news"]].count("blue") == 1
    flips = [new > old for old, new in zip(data["curve"]["old"], data["curve"]["new"], strict=True)]
    place = data["curve"]["strengths"].index(data["push"]["strength"])
    assert place == flips.index(True)
    assert "blue" in data["after"].split("shirt")[0], "it is seen at the first such strength"


@pytest.mark.parametrize(
    ("direction", "source"),
    [
        # Pieces, articles and pronouns are read well, too.
        ("de-en", "Ich kaufe einen Kühlschrank."),
        ("en-de", "A woman sits near the bank."),
        ("en-de", "The man sees the woman."),
        ("de-en", "Er spielt mit seinem Hund im Park."),
    ],
)
def test_a_push_opens_with_whole_content_words(direction, source):
    data = render("together", two="push", source=source, direction=direction).payload(
        "pushed_state"
    )
    old, *news = (data["push"]["old"]["text"], *(new["text"] for new in data["news"]))
    written = re.findall(r"\w+", data["before"])
    stopped = function_words(direction[3:])
    content = [word for word in written if word.lower() not in stopped and len(word) > 2]
    assert content, "the translation has a content word"
    assert old in content and data["push"]["new"]["text"] == news[0]
    assert all(new.isalpha() and new.lower() not in stopped for new in news)


def test_a_word_goes_on_in_pieces_but_not_in_punctuation():
    tokens = [
        RecordToken(0, text, text, starts, special=False, unknown=False)
        for text, starts in (("Exc", True), ("use", False), (".", False), ("dog", True))
    ]
    piece, rest, point, dog = tokens
    assert not _is_whole(piece, rest) and not _is_whole(rest, dog) and not _is_whole(point, dog)
    assert _is_whole(dog, point) and _is_whole(dog, piece)


def test_a_word_of_several_tokens_is_refused_in_one_line():
    def act(app: Any) -> None:
        chosen = {"position": 1, "layer": 1, "old": None, "new": "zebrafish", "strength": None}
        app.session_state["saved asked_push"] = chosen | {"sentence": record_id, "turn": 1}
        app.run()

    record_id = record(DOG).id
    page = render("together", two="push", source=DOG, act=act)
    data = page.payload("pushed_state")
    assert "tokens" in data["problem"] and data["typed"] == "zebrafish" and data["push"]
