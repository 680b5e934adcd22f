"""Scores of core.evaluate equal sacreBLEU's and sums of log-probabilities."""

import math
import re
from pathlib import Path

import pytest
import sacrebleu
import torch

from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.text.tokenizer import BOS, EOS
from core.training.scoring import evaluate
from core.translator import Translator

FOLDER = Path(__file__).parents[2] / "checkpoints/captions-de-en"
# References differ from any translation in words, case and length, so that BLEU and chrF change if
# their arguments are swapped.
PAIRS = [
    ("Ein Hund läuft durch den Schnee.", "A Dog runs through deep snow today."),
    ("Zwei Kinder spielen am Strand.", "Two children play on a beach."),
    ("Eine Frau liest ein Buch.", "The woman is reading."),
    ("Ein Mann mit Hut steht vor einem Haus.", "In front of a house stands a man with a hat."),
]
SOURCES, REFERENCES = (list(side) for side in zip(*PAIRS, strict=True))


@pytest.fixture(scope="module")
def scores():
    return evaluate(load(FOLDER), PAIRS, DecodeConfig(beam=2), "cpu")


@pytest.fixture(scope="module")
def outputs():
    found = Translator.load(FOLDER, "cpu").translate(SOURCES, DecodeConfig(beam=2))
    return [translation.text for translation in found]


def test_bleu_and_chrf_are_sacrebleus(scores, outputs):
    for name, ours, exchanged in (
        ("sacrebleu", (outputs, [REFERENCES]), (REFERENCES, [outputs])),
        ("chrf", (outputs, [REFERENCES]), (REFERENCES, [outputs])),
    ):
        measure = {"sacrebleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf}[name]
        assert scores[name] == round(measure(*ours).score, 2)
        assert round(measure(*exchanged).score, 2) != scores[name]
    assert scores["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_the_lower_cased_bleu_is_of_words_and_marks(scores, outputs):
    def cut(lines: list[str]) -> list[str]:
        return [" ".join(re.findall(r"\w+|[^\w\s]", line.lower())) for line in lines]

    bleu = sacrebleu.BLEU(tokenize="none", force=True)
    expected = bleu.corpus_score(cut(outputs), [cut(REFERENCES)]).score
    assert scores["bleu_lc_tok"] == round(expected, 2)
    assert scores["sacrebleu"] != scores["bleu_lc_tok"] < 100


def test_loss_and_bits_are_sums_of_log_probabilities(scores):
    checkpoint = load(FOLDER)
    total = tokens = 0
    for source, target in PAIRS:
        source_ids, target_ids = (
            [token.id for token in tokenizer.encode(text)] + [EOS]
            for tokenizer, text in (
                (checkpoint.source_tokenizer, source),
                (checkpoint.target_tokenizer, target),
            )
        )
        fed = torch.tensor([source_ids]), torch.tensor([[BOS, *target_ids[:-1]]])
        with torch.inference_mode():
            rows = checkpoint.model(*fed)[0].double().log_softmax(-1)
        total -= sum(rows[t, id].item() for t, id in enumerate(target_ids))
        tokens += len(target_ids)
    assert scores["loss_per_token"] == pytest.approx(total / tokens, abs=6e-5)
    characters = len("".join(REFERENCES))
    assert scores["bits_per_char"] == pytest.approx(total / characters / math.log(2), abs=6e-5)
    assert scores["sentences"] == 4 and scores["beam"] == 2
