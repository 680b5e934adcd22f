"""Text as people type it: what is changed, what never is, and how much of it there is."""

import random
import re
from collections import Counter

from core.data.source_noise import concatenated, noisy, with_noise

PAIRS = [(f"Der Hund Nummer {i} schläft.", f"Dog number {i} sleeps.") for i in range(4000)]


def outcomes(source, target):
    drawn = random.Random(3)
    return {with_noise(source, target, drawn) for _ in range(200)}


def test_one_sentence_gets_noise_in_every_way_and_its_translation_keeps_its_letters():
    assert outcomes("Wo ist der Bahnhof?", "Where is the station?") == {
        (source + mark, "Where is the station" + mark)
        for source in ("Wo ist der Bahnhof", "wo ist der Bahnhof", "wo ist der bahnhof")
        for mark in ("?", "")
    }


def test_a_full_stop_between_sentences_becomes_a_comma_and_a_question_mark_stays():
    found = {source for source, _ in outcomes("Guten Morgen! Wie geht es dir?", "Hi. Hello?")}
    assert "Guten Morgen, wie geht es dir?" in found and "guten morgen, wie geht es dir" in found
    assert "Guten Morgen! Wie geht es dir" in found and len(found) == 12
    assert not any("," in source for source, _ in outcomes("Wie? Gut.", "How? Well."))
    assert not any("," in source for source, _ in outcomes("Am 5. Mai um 3. Uhr", "On 5 May"))


def test_a_mark_goes_from_both_sides_or_from_none():
    assert {target for _, target in outcomes("Komm!", 'He said: "Come!"')} == {'He said: "Come!"'}
    assert {source for source, _ in outcomes("Ja", "Yes.")} == {"Ja", "ja"}


def test_what_is_noisy_is_a_share_of_the_text_and_never_as_it_was():
    found = list(noisy(PAIRS, 0.3))
    assert 0.2 < len(found) / len(PAIRS) < 0.3
    assert not set(found) & set(PAIRS)
    double = [pair for pair in found if pair[0].lower().count("schläft") == 2]
    assert 0.25 < len(double) / len(found) < 0.5
    for source, target in found:
        assert re.findall(r"\d+", source) == re.findall(r"\d+", target)
    assert list(noisy(PAIRS, 0.3)) == found
    assert not list(noisy(PAIRS, 0.0))


def test_concatenated_pairs_are_of_this_text_in_both_orders():
    found = list(concatenated(PAIRS, 0.5))
    assert 0.45 < len(found) / len(PAIRS) < 0.55
    translations = dict(PAIRS)
    order = []
    for source, target in found:
        first, second = (f"{half.strip()}." for half in source.split(".")[:2])
        assert target == f"{translations[first]} {translations[second]}"
        order.append(first < second)
    assert 0.2 < sum(order) / len(order) < 0.8
    assert list(concatenated(PAIRS, 0.5)) == found
    assert not list(concatenated(PAIRS, 0.0)) and not list(concatenated(PAIRS[:1], 1.0))


def test_concatenated_pairs_are_of_as_many_as_was_asked_for_each_number_as_likely():
    found = list(concatenated(PAIRS, 0.5, up_to=5))
    translations = dict(PAIRS)
    counts = Counter()
    for source, target in found:
        parts = [f"{part.strip()}." for part in source.split(".")[:-1]]
        assert target == " ".join(translations[part] for part in parts)
        counts[len(parts)] += 1
    assert sorted(counts) == [2, 3, 4, 5]
    assert max(counts.values()) < 1.25 * min(counts.values())
