"""Rendering of pages for tests: all texts, tables and figures are listed."""

import numpy as np
import pytest

from tests.app.rendered import Item, Rendered, array, figure_texts


def test_unclaimed_numbers_are_reported():
    page = Rendered(None, [Item("a", "text", "−0.12 nats"), Item("b", "text", "in₃, no number")])
    with pytest.raises(AssertionError, match=r"−0\.12 nats"):
        page.everything_was_claimed()
    page.claim_all("a", ["−0.12 nats"])
    page.everything_was_claimed()


def test_figure_texts_lists_the_visible_texts():
    figure = {
        "data": [{"name": "one", "marker": {"color": "red"}, "y": ["a"], "text": ["0.5"]}],
        "layout": {"xaxis": {"title": {"text": "key"}}, "template": {"title": "no"}},
    }
    assert sorted(figure_texts(figure)) == ["0.5", "a", "key", "one"]
    packed = {"dtype": "f8", "bdata": "AAAAAAAA8D8AAAAAAAAAQA==", "shape": "1, 2"}
    np.testing.assert_array_equal(array(packed), [[1.0, 2.0]])
