"""Folders of tiny random networks that look imported, with words of five languages."""

from pathlib import Path
from typing import Any

import torch

from core.checkpoint.folder import save
from core.config import ModelConfig
from core.model.build import build
from core.text.words import WordTokenizer

SENTENCES = {
    "ar": ["الرجل يقرأ كتابا في الحديقة .", "كلبان يركضان في الثلج .", "المرأة تشرب القهوة ."],
    "he": ["האיש קורא ספר בגן .", "שני כלבים רצים בשלג .", "האישה שותה קפה ."],
    "de": ["Der Mann liest ein Buch im Park .", "Zwei Hunde laufen .", "Eine Frau trinkt ."],
    "en": [
        "The man reads a book in the park .",
        "Two dogs run in snow .",
        "A woman drinks coffee .",
    ],
    "fr": ["Un homme lit un livre dans le parc .", "Deux chiens courent .", "Une femme boit ."],
}
IMPORTED: dict[str, Any] = {
    "family": "marian",
    "source": "opus-mt-ar-en",
    "sha256": "ab" * 32,
    "author": "Language Group <b>X</b>",
    "licence": "CC-BY-4.0",
    "compared": [
        {"what": "logits, float64", "max_abs_diff": 4.4e-15, "limit": 1e-9, "passed": True},
        {"what": "greedy ids", "max_abs_diff": 2.0, "limit": 0.0, "passed": False},
    ],
    "not_proven": ["The order of the vocabulary was not compared."],
}


def write(folder: Path, imported: dict[str, Any] | None = IMPORTED, seed: int = 0) -> Path:
    """Save a network for the two languages at the end of the folder's name, such as opus-ar-en."""
    source, target = folder.name.split("-")[-2:]
    tokenizers = tuple(WordTokenizer.train(SENTENCES[code], code, 1) for code in (source, target))
    config = ModelConfig(
        source_vocab_size=tokenizers[0].size,
        target_vocab_size=tokenizers[1].size,
        d_model=16,
        num_heads=2,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dim_feedforward=16,
        max_length=64,
    )
    torch.manual_seed(seed)
    network = build("scratch", config).eval()
    training = {} if imported is None else {"imported": imported}
    save(folder, network, "scratch", (source, target), tokenizers, training, {})
    return folder
