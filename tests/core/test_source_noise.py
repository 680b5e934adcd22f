"""Source noise: final marks, case and concatenation."""

import pytest

from core.data.source_noise import concatenated_groups, lower_cased, without_final_marks


@pytest.mark.parametrize(
    ("pair", "without"),
    [
        (("Wo ist er?", "Where is he?"), ("Wo ist er", "Where is he")),
        (("Halt !!", "Stop..."), ("Halt", "Stop")),
        (("Komm!", 'He said: "Come!"'), ("Komm!", 'He said: "Come!"')),
        (("Ja", "Yes."), ("Ja", "Yes.")),
    ],
)
def test_final_marks_are_removed_from_both_sides_or_none(pair, without):
    assert without_final_marks(*pair) == without


def test_each_case_lower_cases_nothing_all_or_the_first_letter():
    cases = {case: lower_cased("Der Hund", case) for case in ("kept", "lower", "lower first")}
    assert cases == {"kept": "Der Hund", "lower": "der hund", "lower first": "der Hund"}


def test_pairs_are_concatenated_in_groups():
    pairs = [(f"Satz {i}.", f"Sentence {i}.") for i in range(5)]
    assert concatenated_groups(pairs, 2) == [
        ("Satz 0. Satz 1.", "Sentence 0. Sentence 1."),
        ("Satz 2. Satz 3.", "Sentence 2. Sentence 3."),
        ("Satz 4.", "Sentence 4."),
    ]
