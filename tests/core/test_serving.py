"""Batched requests get the same answers as single ones; an invalid one affects only itself."""

import numpy as np
import pytest

from core.config import DecodeConfig
from core.record.edits import Edits
from core.serving.backend import MAX_BATCH, InspectRequest, TranslateRequest
from core.serving.local import LocalBackend
from core.translator import InputError, Translator

TEXTS = (
    "Ein Hund läuft.",
    "Zwei junge Männer spielen im Park Fußball.",
    "Hallo",
    "Eine Frau liest.",
)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load("checkpoints/scratch-de-en", device="cpu")


class Counted(Translator):
    """A translator that records the batch sizes of its calls."""

    def inspect(self, *given, **named):
        self.batches.append(1)
        return super().inspect(*given, **named)

    def inspect_many(self, sources, *given, **named):
        self.batches.append(len(sources))
        return super().inspect_many(sources, *given, **named)


@pytest.fixture
def counted() -> Counted:
    found = Counted.load("checkpoints/scratch-de-en", device="cpu")
    found.batches = []
    return found


MIXED = [
    *(InspectRequest(text) for text in TEXTS),
    InspectRequest(TEXTS[0], decode=DecodeConfig(beam=1)),
    InspectRequest(TEXTS[1], decode=DecodeConfig(beam=1)),
    InspectRequest(TEXTS[0], target="A dog walks."),
    InspectRequest(TEXTS[1], target=""),
    InspectRequest(TEXTS[0], edits=Edits(heads_off=frozenset({("cross", 0, 1)}))),
    InspectRequest(TEXTS[0], target_ids=(5, 6)),
]


def test_an_answer_in_a_batch_is_the_answer_alone(translator, counted):
    answers = LocalBackend(counted).inspect(MIXED)
    assert counted.batches == [4, 2, 2, 1, 1]
    for request, record in zip(MIXED, answers, strict=True):
        alone = translator.inspect(
            request.source,
            request.target,
            request.edits,
            decode=request.decode,
            target_ids=request.target_ids,
        )
        assert (record.source, record.target_out) == (alone.source, alone.target_out)
        assert (record.search, record.edits) == (alone.search, alone.edits)
        assert [h.ids for h in record.hypotheses] == [h.ids for h in alone.hypotheses]
        assert all(check.passed for check in record.checks)
        assert np.allclose(record.cross, alone.cross, atol=1e-5)
        assert np.allclose(record.log_probs, alone.log_probs, atol=1e-4)


def test_an_invalid_request_affects_only_itself(counted):
    wrong = {1: "word " * 200, 3: "", 5: "half \ud800"}
    requests = [InspectRequest(wrong.get(i, TEXTS[i % 4])) for i in range(MAX_BATCH)]
    answers = LocalBackend(counted).inspect(requests)
    for i, answer in enumerate(answers):
        if i in wrong:
            assert isinstance(answer, InputError) and not str(answer).startswith("sentence")
        else:
            assert answer.source_text == requests[i].source


def test_texts_are_translated_together(translator):
    requests = [TranslateRequest(text) for text in TEXTS]
    requests += [TranslateRequest(TEXTS[0], DecodeConfig(beam=1)), TranslateRequest("a" * 10_000)]
    *answers, refused = LocalBackend(translator).translate(requests)
    for request, answer in zip(requests, answers, strict=False):
        (alone,) = translator.translate([request.source], request.decode)
        assert [h.ids for h in answer.hypotheses] == [h.ids for h in alone.hypotheses]
    assert isinstance(refused, InputError)
