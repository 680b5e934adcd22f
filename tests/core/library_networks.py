"""Small networks of the families that transformers makes, saved in its folder format."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.foreign.family import Vocabulary, special_rows
from core.text.pieces import PieceTokenizer

SIZE = 61
BART = {
    "vocab_size": SIZE,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 2,
}
T5 = {
    "vocab_size": SIZE,
    "d_model": 24,
    "d_kv": 7,
    "d_ff": 36,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 9,
    "decoder_start_token_id": 0,
}
NETWORKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bart": ("bart", "Bart", BART),
    "bart, scaled and untied": (
        *("bart", "Bart"),
        BART
        | {"scale_embedding": True, "tie_word_embeddings": False, "activation_function": "relu"},
    ),
    "mbart": ("mbart", "MBart", BART | {"scale_embedding": True}),
    "m2m100": ("m2m100", "M2M100", BART | {"scale_embedding": True}),
    "fsmt": (
        *("fsmt", "FSMT"),
        {name: value for name, value in BART.items() if name != "vocab_size"}
        | {"src_vocab_size": SIZE, "tgt_vocab_size": SIZE + 6, "langs": ["de", "en"]},
    ),
    "t5": ("t5", "T5", T5),
    "t5 1.1": ("t5", "T5", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("t5", "MT5", T5 | {"feed_forward_proj": "gated-gelu"}),
}
"""The family, the prefix of the library's class, and settings of config.json."""


def network(name: str, prefix: str, settings: dict[str, Any]) -> Any:
    """Return the library's network; each of its parameters was moved, and all tables are untied."""
    import transformers

    torch.manual_seed(11)
    config = getattr(transformers, f"{prefix}Config")(**settings)
    made = getattr(transformers, f"{prefix}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for parameter_name, parameter in made.named_parameters():
            if not (prefix == "FSMT" and "embed_positions" in parameter_name):
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if hasattr(made, "final_logits_bias"):
            made.final_logits_bias.normal_()
        if name in ("t5 1.1", "mt5"):
            made.lm_head.weight = torch.nn.Parameter(torch.randn(SIZE, settings["d_model"]) * 0.2)
    return made


def vocabulary(size: int, ids: dict[str, int]) -> Vocabulary:
    """Return a vocabulary of invented pieces, with the ids of a folder's config.json."""
    unknown = next(id for id in range(size) if id not in ids.values())
    rows = special_rows(ids["pad"], ids["start"], ids["end"], unknown, size)
    pieces = [f"▁{id}" for id in rows[4:]]
    return Vocabulary(PieceTokenizer(pieces, [-1.0] * len(pieces)), np.array(rows))


def with_invented_words(monkeypatch) -> None:
    """Let the converter read `vocabulary` in place of a folder's tokenizer."""
    from core.foreign import library, t5, vocabularies

    def one(family: str, folder: Path, options: Any, size: int, ids: dict[str, int]) -> Vocabulary:
        return vocabulary(size, ids)

    monkeypatch.setattr(t5, "sentencepiece", one)
    monkeypatch.setattr(vocabularies, "sentencepiece", one)
    monkeypatch.setattr(
        vocabularies, "byte_level", lambda f, size, ids, forced: vocabulary(size, ids)
    )
    monkeypatch.setattr(
        vocabularies, "moses", lambda f, o, sizes, ids: tuple(vocabulary(n, ids) for n in sizes)
    )
    monkeypatch.setattr(library, "tokens_of", lambda folder, lines: [])
