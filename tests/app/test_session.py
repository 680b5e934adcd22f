"""What visitors share: functions of one name keep their results apart, and models stay loaded."""

from types import SimpleNamespace

import pytest

from app import session
from app.session import CHECKPOINTS, MODELS_KEPT
from core.checkpoint.folder import list_cards, read_card
from core.config import DecodeConfig

LONG = "A group of young people sit at a long table in the garden of an old house"


def test_every_shipped_model_stays_loaded():
    cards, _ = list_cards(CHECKPOINTS)
    assert len(cards) <= MODELS_KEPT
    assert session._translator._info.max_entries == MODELS_KEPT


def test_two_functions_of_one_name_have_results_of_their_own(monkeypatch):
    def made(module: str, answer: str):
        def look(model):
            return answer

        look.__module__ = module
        return look

    class Held:
        def held(self):
            return self

        def __enter__(self):
            return None

        def __exit__(self, *failure):
            return None

    monkeypatch.setattr(session, "translator", lambda card: Held())
    card = SimpleNamespace(folder="nowhere", weights_sha256="0")
    assert session._look(card, made("one", "first")) == "first"
    assert session._look(card, made("two", "second")) == "second"
    assert session._look(card, made("one", "not asked again")) == "first"


class Echo:
    """A translator that answers with what it was asked."""

    def __init__(self, folder: str):
        self.folder = folder

    def inspect(self, source, target=None, *, decode=None, target_ids=None):
        return self.folder, source, target, decode, target_ids

    def search_tree(self, source, *, decode, prefix=()):
        return self.folder, source, decode, prefix


@pytest.fixture
def cards(monkeypatch):
    kept = (session._record, session._search_tree, session._path_record)
    monkeypatch.setattr(session, "translator", lambda card: Echo(card.folder.name))
    for function in kept:
        function.clear()
    yield [read_card(CHECKPOINTS / name) for name in ("scratch-en-de", "baseline-en-de")]
    for function in kept:
        function.clear()


def test_no_answer_is_another_questions(cards):
    """Asked twice, so that the second answer comes out of the cache."""
    searches = [DecodeConfig(beam=1), DecodeConfig(), DecodeConfig(length_penalty=0.6)]
    for _ in range(2):
        for card in cards:
            name = card.folder.name
            for text in (LONG, f"{LONG}.", f"{LONG} at night.", LONG.lower()):
                for decode in searches:
                    for target in (None, "Ein Haus.", "Ein Haus"):
                        found = session.record(card, text, decode, target)
                        assert found == (name, text, target, decode, None)
                    for prefix in ((), (5,), (5, 6)):
                        found = session.search_tree(card, text, decode, prefix)
                        assert found == (name, text, decode, prefix)
                for ids in ((5, 2), (5, 6, 2)):
                    found = session.path_record(card, text, ids)
                    assert (found[0], found[1], found[4]) == (name, text, ids)
