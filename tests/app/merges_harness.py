"""Mounts the merges component twice: with a unigram tokenizer and with a word list."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.components.merges import merges
from core.text import load
from core.text.pieces import PieceTokenizer
from core.text.splitting import split

SCORES = {"▁": -4.0, "▁ab": -2.0, "c": -6.0, "▁a": -3.0, "bc": -4.5}
ALL = {"unit": None, "step": None}
pieces = PieceTokenizer(list(SCORES), list(SCORES.values()))
merges(split(pieces, "abc abx"), key="pieces", view=ALL)
words = {"kind": "words", "language": "en", "lower": False, "vocabulary": ["dog"]}
merges(split(load(words), "dog cat"), key="words", view={"unit": 1, "step": 3}, in_url=False)
