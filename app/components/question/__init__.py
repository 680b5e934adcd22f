"""Mounts a question that is answered by pointing at words, texts, or a grid's cells or heads."""

from app.components.question.mount import Answer, question
from app.components.question.payload import (
    Asked,
    Grid,
    Hint,
    Option,
    Place,
    Sentence,
    Texts,
    payload,
)

__all__ = [
    "Answer",
    "Asked",
    "Grid",
    "Hint",
    "Option",
    "Place",
    "Sentence",
    "Texts",
    "payload",
    "question",
]
