"""What visitors share: functions of one name keep their results apart, and models stay loaded."""

from types import SimpleNamespace

from app import session
from app.session import CHECKPOINTS, MODELS_KEPT
from core.checkpoint import list_cards


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
