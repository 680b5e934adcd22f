"""Small networks of the families that transformers makes, saved in its folder format."""

import json
from pathlib import Path
from typing import Any

import torch

from tests import tokenizer_folders
from tests.generated_language import language

_BART = {
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 2,
    "pad_token_id": 1,
    "eos_token_id": 2,
}
_T5 = {
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
_UNTIED = {"tie_word_embeddings": False}
NETWORKS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "bart": ("bart", "bart", "Bart", _BART | {"forced_bos_token_id": 0}),
    "bart, scaled and untied": (
        *("bart", "bart", "Bart"),
        _BART | _UNTIED | {"scale_embedding": True, "activation_function": "gelu_new"},
    ),
    "mbart": ("mbart", "mbart", "MBart", _BART | {"scale_embedding": True}),
    "m2m100": ("m2m100", "m2m100", "M2M100", _BART | {"scale_embedding": True}),
    "fsmt": ("fsmt", "fsmt", "FSMT", _BART | {"langs": ["de", "en"]}),
    "t5": ("t5", "t5", "T5", _T5),
    "t5 1.1": ("t5", "t5", "T5", _T5 | _UNTIED | {"feed_forward_proj": "gated-gelu"}),
    "mt5": ("t5", "t5", "MT5", _T5 | {"feed_forward_proj": "gated-gelu"}),
}
"""The family, that of the tokenizer, the prefix of the library's class, settings of config.json."""


def network(name: str, sizes: tuple[int, int], **more: Any) -> Any:
    """Return the library's network with vocabularies of these sizes, and its initial weights."""
    import transformers

    _, _, prefix, settings = NETWORKS[name]
    own = {"src_vocab_size": sizes[0], "tgt_vocab_size": sizes[1]}
    own = own if prefix == "FSMT" else {"vocab_size": sizes[0]}
    torch.manual_seed(11)
    config = getattr(transformers, f"{prefix}Config")(**settings | own | more)
    return getattr(transformers, f"{prefix}ForConditionalGeneration")(config)


def move(made: Any, name: str) -> Any:
    """Move every parameter away from 0 and 1; T5 1.1 and mT5 get a classifier of their own."""
    with torch.no_grad():
        for parameter_name, parameter in made.named_parameters():
            if name != "fsmt" or "embed_positions" not in parameter_name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if hasattr(made, "final_logits_bias"):
            made.final_logits_bias.normal_()
        if name in ("t5 1.1", "mt5"):
            made.lm_head.weight = torch.nn.Parameter(torch.randn_like(made.shared.weight) * 0.2)
    return made.eval()


def sizes_of(folder: Path, name: str) -> tuple[int, int]:
    tokenizer = NETWORKS[name][1]
    if tokenizer == "fsmt":
        files = (folder / f"vocab-{side}.json" for side in ("src", "tgt"))
        first, second = (len(json.loads(file.read_bytes())) for file in files)
        return first, second
    return (tokenizer_folders.size(folder, tokenizer),) * 2


def saved(folder: Path, name: str) -> Path:
    """Write a random network and its tokenizer."""
    tokenizer_folders.write(folder, NETWORKS[name][1])
    if name == "fsmt":
        tokenizer_folders.put(folder, "tokenizer_config.json", {"langs": ["de", "en"]})
    move(network(name, sizes_of(folder, name)), name).save_pretrained(folder)
    return folder


def codes(name: str) -> dict[str, Any]:
    """Return the options that choose a pair of languages, if the family needs them."""
    found = {"mbart": ("de_DE", "en_XX"), "m2m100": ("de", "en")}
    return {"codes": found[name]} if name in found else {}


def trained(folder: Path, name: str, steps: int, **more: Any) -> tuple[Any, list[str]]:
    """Write a network that the library trained on generated sentences, and its tokenizer.

    Return the network and 200 sentences that it was not trained on.
    """
    from transformers import AutoTokenizer

    tokenizer_folders.write(folder, NETWORKS[name][1])
    more["dropout_rate" if NETWORKS[name][2].endswith("T5") else "dropout"] = 0.0
    made = network(name, sizes_of(folder, name), **more)
    made.save_pretrained(folder)  # for the tokenizer, which reads the settings
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = [texts for texts, _ in language().pairs(2_000 + 200)]
    optimiser = torch.optim.AdamW(made.parameters(), lr=3e-3)
    draw = torch.Generator().manual_seed(5)
    made.train()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1, step / 50, (steps - step) / 50)
        chosen = torch.randint(0, 2_000, (32,), generator=draw).tolist()
        sources, targets = zip(*(pairs[i] for i in chosen), strict=True)
        batch = tokenizer(list(sources), padding=True, return_tensors="pt")
        labels = tokenizer(list(targets), padding=True, return_tensors="pt").input_ids
        labels = labels.masked_fill(labels == tokenizer.pad_token_id, -100)
        loss = made(**batch, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimiser.step()
    made.eval().save_pretrained(folder)
    return made, [source for source, _ in pairs[2_000:]]
