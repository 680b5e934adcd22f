"""The page names each reason for doubt and the least certain token."""

import numpy as np
import pytest

from tests.app.rendered import render

SOURCE = "EIN MANN HAT 17 😀 HUNDE."


@pytest.fixture(scope="module")
def record(translator):
    return translator.inspect(SOURCE)


def test_reasons_and_the_least_certain_token_are_those_of_the_record(record):
    page = render(source=SOURCE)
    (warning,) = page.texts("doubts", "warning") or page.texts("doubts", "alert")
    assert "in capitals" in warning and "no token for “😀”" in warning
    assert ("lacks “17”" in warning) == ("17" not in record.translation)
    mean = np.exp(np.mean(record.log_probs))
    assert (f"only {100 * mean:.0f}" in warning) == (mean < 0.4)
    place = int(np.argmin(record.log_probs))
    text = record.target_out[place].text
    (caption,) = (text for text in page.texts() if text.startswith("Least certain token"))
    assert text in caption.replace("\\", "")
    assert f"({100 * np.exp(record.log_probs[place]):.0f}\u00a0%)" in caption


@pytest.mark.parametrize("name", ["head", "steps", "tokens", "masks"])
def test_every_page_of_a_sentence_has_the_warning_of_translate(name):
    first, here = render(source=SOURCE), render(name, source=SOURCE)
    warning = first.texts("doubts", "warning")
    assert len(warning) == 1 and here.texts("doubts", "warning") == warning
    assert not render(name, source="Ein Hund läuft.").texts("doubts", "warning")


def test_a_plain_sentence_has_no_warning_and_removed_characters_are_named():
    page = render(source="Ein Hund\u00ad läuft.")
    assert not page.texts("doubts", "warning") + page.texts("doubts", "alert")
    assert any("(U+00AD)" in text for text in page.texts("doubts", "caption"))
    assert not any("U+" in text for text in render(source="Ein Hund.").texts("doubts", "caption"))
