"""Each example of the board shows on the shipped networks what its claim is about."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np

from core.atlas.claims.hallucinations import is_made_up
from core.atlas.claims.literature import EXAMPLES, LITERATURE, SINK
from core.experiments.relevance import relevances
from core.record.attention_snapshots import FILE, ROLES, AttentionSnapshots
from core.record.edits import Edits
from core.record.record import TranslationRecord
from core.translator import Translator

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


def view(id: str) -> dict[str, str]:
    return dict(parse_qsl(EXAMPLES[id].partition("?")[2]))


@cache
def translator(id: str) -> Translator:
    chosen = view(id)
    return Translator.load(CHECKPOINTS / f"{chosen['model']}-{chosen['direction']}", "cpu")


def inspected(id: str, edited: bool = True) -> TranslationRecord:
    chosen = view(id)
    edits, problems = Edits.parse(chosen.get("edits", "") if edited else "")
    assert not problems
    return translator(id).inspect(chosen["source"], edits=edits)


def shown(id: str, record: TranslationRecord) -> np.ndarray:
    """Return the map that a link opens."""
    chosen = view(id)
    return record.maps(chosen["kind"])[int(chosen["layer"]), int(chosen["head"])]


def words(record: TranslationRecord, side: str) -> list[str]:
    return [token.text.strip("▁ ") for token in getattr(record, side)]


def test_examples_belong_to_claims():
    assert EXAMPLES.keys() <= {claim.id for claim in LITERATURE}


def test_the_positional_head_looks_back():
    map_QK = shown("positional-heads", inspected("positional-heads"))[:-1, :-1]
    before = map_QK.argmax(1)[1:] == np.arange(len(map_QK) - 1)
    assert before.mean() > 0.9


def test_the_aligning_head_finds_the_word_that_is_read():
    for id in ("aligning-heads-exist", "aligning-heads-sparse"):
        record = inspected(id)
        map_TS, source = shown(id, record), words(record, "source")
        pairs = {"man": "Mann", "red": "roten", "shirt": "Hemd", "blue": "blauen"}
        read = words(record, "target_in")
        for english, german in pairs.items():
            for row in (t for t, word in enumerate(read) if word == english):
                assert map_TS[row].max() > 0.5 and source[map_TS[row].argmax()] == german


def test_only_without_the_aligning_head_a_colour_is_wrong():
    for id, changes in (("aligning-heads-causal", True), ("other-heads-idle", False)):
        without, healthy = inspected(id).translation, inspected(id, edited=False).translation
        assert "blue" in healthy and ("blue" not in without) == changes
        assert (without == healthy) != changes


def test_the_source_share_falls_and_the_links_name_tokens():
    id = "source-share-falls"
    record, network = inspected(id), translator(id)
    ids = [[token.id for token in getattr(record, side)] for side in ("source", "target_out")]
    with network.exclusive_model() as model:
        found = relevances(model, *ids, range(len(ids[1])))
    own, prefix = (np.abs(part).sum(1) for part in (found.source, found.prefix))
    share = own / (own + prefix)
    third = (len(share) - 1) // 3
    assert share[-1 - third : -1].mean() < share[:third].mean()
    target = words(record, "target_out")
    assert target[int(view("source-share-at-eos")["why_token"])] == "<eos>"
    for id in ("value-zeroing-faithful", "attention-faithful"):
        assert target[int(view(id)["why_token"])] == "mother"
    for id in ("translated-in-embeddings", "translated-layer-by-layer"):
        assert record.translation.split()[int(view(id)["why_knew"])] == "snow"
    article = int(view("gender-by-few-words")["why_token"])
    assert words(inspected("gender-by-few-words"), "target_out")[article] == "Eine"


def test_the_sink_is_one():
    for id in ("sinks-exist", "sinks-are-empty"):
        assert shown(id, inspected(id))[1:, 0].mean() > SINK


def test_wrong_words_are_improbable_and_get_less_attention():
    id = "errors-previous-token"
    assert EXAMPLES[id] == EXAMPLES["attention-adds-to-probability"]
    record = inspected(id)
    target = words(record, "target_out")
    wrong = [target.index(word) for word in ("conf", "matter", "juice")]
    right = [target.index(word) for word in ("court", "three", "years")]
    before = shown(id, record).diagonal(-1)  # at t: the row that reads token t
    assert before[wrong].mean() < before[right].mean()
    assert record.log_probs[wrong].mean() < record.log_probs[right].mean()
    pinned = int(view("probability-tells-quality")["q"])
    assert pinned == record.log_probs.argmin() == wrong[0]


def test_a_foreign_sentence_gets_a_made_up_translation():
    record = inspected("few-heads-hallucinate")
    assert is_made_up(record.source_text, record.translation)


def test_the_role_rises_during_training():
    chosen = view("role-by-a-jump")
    folder = CHECKPOINTS / f"{chosen['model']}-{chosen['direction']}"
    weight_PLH = AttentionSnapshots.load(folder / FILE).roles["decoder"][:, 0]
    assert ROLES["decoder"][0] == "previous token"
    at = int(chosen["layer"]), int(chosen["head"])
    assert at == np.unravel_index(weight_PLH[-1].argmax(), weight_PLH[-1].shape)
    assert weight_PLH[-1][at] > 1.5 * weight_PLH[0][at]
