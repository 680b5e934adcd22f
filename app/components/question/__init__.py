"""Mounts a question that is answered by pointing: words, cells or heads of a grid, or texts."""

from app.components.question.mount import Answer, question
from app.components.question.payload import Asked, Grid, Option, Place, Sentence, Texts, payload

__all__ = [
    "Answer",
    "Asked",
    "Grid",
    "Option",
    "Place",
    "Sentence",
    "Texts",
    "payload",
    "question",
]
