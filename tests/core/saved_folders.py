"""Marian and Pegasus networks in Hugging Face's folder format, written without transformers.

The network is torch.nn.Transformer with the family's settings, so that neither this project nor
transformers computes its logits, maps and greedy ids.
"""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import sentencepiece
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.foreign.comparison import DifferentError
from core.foreign.family import Options
from core.foreign.importing import Result, import_network

D, HEADS, INNER, ENCODERS, DECODERS, LENGTH = 16, 2, 24, 2, 3, 64
TEXTS = {
    "source": ["Ein Mann läuft über die Straße.", "Zwei Hunde spielen im Schnee, ein Kind sieht."],
    "target": ["A man walks across the street.", "Two dogs play in the snow, a child looks on."],
}
ACTIVATIONS = {"relu": F.relu, "swish": F.silu}


def unigram(texts: list[str], size: int) -> bytes:
    """Train a SentencePiece model with the settings that OPUS-MT uses."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 20),
        model_writer=written,
        vocab_size=size,
        character_coverage=1.0,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


def tokenizers(folder: Path) -> dict[str, int]:
    """Write source.spm, target.spm and vocab.json; return the pieces, </s> first and <pad> last."""
    pieces: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for side, texts in TEXTS.items():
        model = unigram(texts, 60)
        (folder / f"{side}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for id in range(processor.get_piece_size()):
            if not processor.is_control(id) and not processor.is_unknown(id):
                pieces.setdefault(processor.id_to_piece(id), len(pieces))
    pieces["<pad>"] = len(pieces)
    (folder / "vocab.json").write_text(json.dumps(pieces))
    return pieces


def settings(family: str, size: int, activation: str, **changes) -> dict:
    """Return config.json; the last id is both the padding and the decoder's first input."""
    return {
        "model_type": family,
        "architectures": ["MarianMTModel"],
        "activation_function": activation,
        "vocab_size": size,
        "d_model": D,
        "encoder_layers": ENCODERS,
        "decoder_layers": DECODERS,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": INNER,
        "decoder_ffn_dim": INNER,
        "max_position_embeddings": LENGTH,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "pad_token_id": size - 1,
        "eos_token_id": 0,
        "decoder_start_token_id": size - 1,
        "forced_eos_token_id": 0,
    } | changes


def halves(length: int = LENGTH) -> Tensor:
    """Return sinusoids [length, D], all sines first, rounded to float32 but stored as float64."""
    rows = [[position / 10_000 ** (2 * i / D) for i in range(D // 2)] for position in range(length)]
    angles = np.array(rows)
    return torch.from_numpy(np.hstack((np.sin(angles), np.cos(angles)))).float().double()


class Network(nn.Module):
    """nn.Transformer with a bias on the logits, and positions from `halves`.

    Source, target and classifier share a table, or have one each if `untied`.
    """

    def __init__(self, family: str, size: int, activation: str, untied: bool = False):
        super().__init__()
        self.size, self.first = size, family == "pegasus"
        self.core = nn.Transformer(
            D,
            HEADS,
            ENCODERS,
            DECODERS,
            INNER,
            dropout=0.0,
            activation=ACTIVATIONS[activation],
            batch_first=True,
            norm_first=self.first,
        )
        if not self.first:
            self.core.encoder.norm = self.core.decoder.norm = None
        count = 3 if untied else 1
        self.tables = nn.ParameterList(torch.randn(size, D) * D**-0.5 for _ in range(count))
        self.bias = nn.Parameter(torch.randn(1, size))
        with torch.no_grad():
            for parameter in self.core.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)

    @property
    def pad(self) -> int:
        return self.size - 1

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        positions = halves().to(self.bias.dtype)
        first, second, classifier = [*self.tables, *self.tables, *self.tables][:3]
        x, y = (
            table[ids] * math.sqrt(D) + positions[: ids.shape[1]]
            for table, ids in ((first, source), (second, target))
        )
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = source == self.pad
        states = self.core(
            x, y, tgt_mask=future, src_key_padding_mask=hidden, memory_key_padding_mask=hidden
        )
        return states @ classifier.T + self.bias

    def saved(self) -> dict[str, Tensor]:
        """Return the tensors by the names that transformers gives them."""
        names = {
            "self_attn.in_proj": None,
            "linear1": "fc1",
            "linear2": "fc2",
            "norm1": "self_attn_layer_norm",
            "self_attn.out_proj": "self_attn.out_proj",
            "multihead_attn.out_proj": "encoder_attn.out_proj",
        }
        tables = ["model.shared"]
        if len(self.tables) == 3:
            tables = ["model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"]
        found = {f"{name}.weight": table for name, table in zip(tables, self.tables, strict=True)}
        found["final_logits_bias"] = self.bias
        for name, value in self.core.named_parameters():
            side, _, rest = name.partition(".")
            if not rest.startswith("layers"):
                found[f"model.{side}.layer_norm.{rest.rpartition('.')[2]}"] = value
                continue
            _, layer, part = rest.split(".", 2)
            place = f"model.{side}.layers.{layer}"
            attention, packed, leaf = part.partition(".in_proj_")
            if packed:
                theirs = {"self_attn": "self_attn", "multihead_attn": "encoder_attn"}[attention]
                for one, third in zip("qkv", value.chunk(3), strict=True):
                    found[f"{place}.{theirs}.{one}_proj.{leaf}"] = third
                continue
            part, _, leaf = part.rpartition(".")
            last = {"encoder": "norm2", "decoder": "norm3"}[side]
            middle = {"norm2": "encoder_attn_layer_norm", last: "final_layer_norm"}
            found[f"{place}.{(names | middle)[part]}.{leaf}"] = value
        return {name: value.detach().float().contiguous() for name, value in found.items()}


def maps_of(network: Network, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Return a forward pass's attention maps by kind, read by hooks on torch's modules."""
    found: dict[str, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}
    asked = {"need_weights": True, "average_attn_weights": False}
    hooks = []
    for name, module in network.core.named_modules():
        if not isinstance(module, nn.MultiheadAttention):
            continue
        kind = "cross" if "multihead" in name else name.partition(".")[0]
        hooks.append(
            module.register_forward_pre_hook(lambda m, a, k: (a, k | asked), with_kwargs=True)
        )
        hooks.append(
            module.register_forward_hook(lambda m, a, out, kind=kind: found[kind].append(out[1]))
        )
    network(source, target)
    for hook in hooks:
        hook.remove()
    return {kind: torch.stack(maps) for kind, maps in found.items()}


def reference(network: Network, lines: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Return the arrays of reference.npz for eight padded sentences of random ids."""
    pad, draw = network.pad, np.random.default_rng(5)
    source, target = np.full((8, 10), pad), np.full((8, 11), pad)
    for n in range(8):
        words = draw.integers(1, pad, (2, 10))
        source[n, : n + 2], source[n, n + 2] = words[0, : n + 2], 0
        target[n, 1 : n + 4] = words[1, : n + 3]
    arrays: dict[str, np.ndarray] = {"source": source, "target": target}
    torch.backends.mha.set_fastpath_enabled(False)
    for bits in (32, 64):
        network.to(getattr(torch, f"float{bits}")).eval()
        ids, fed = torch.from_numpy(source), torch.from_numpy(target)
        with torch.no_grad():
            arrays[f"logits_{bits}"] = network(ids, fed).numpy()
            for kind, maps in maps_of(network, ids, fed).items():
                arrays[f"{kind}_{bits}"] = maps.numpy()
            written, done = torch.full((8, 1), pad), torch.zeros(8, dtype=torch.bool)
            for _ in range(15):
                logits = network(ids, written)[:, -1]
                logits[:, pad] = -torch.inf
                best = logits.argmax(-1).masked_fill(done, pad)
                done |= best == 0
                written = torch.cat((written, best[:, None]), dim=1)
        arrays[f"greedy_{bits}"] = written[:, 1:].numpy()
    torch.backends.mha.set_fastpath_enabled(True)
    network.float()
    tokens = json.dumps({"lines": list(lines), "ids": list(lines.values())}).encode()
    arrays |= {"positions": halves().numpy(), "tokens": np.frombuffer(tokens, np.uint8)}
    return arrays


def write(folder: Path, family: str = "marian", untied: bool = False) -> Path:
    """Write a complete folder and its reference.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces, activation = tokenizers(folder), {"marian": "swish", "pegasus": "relu"}[family]
    torch.manual_seed(7)
    network = Network(family, len(pieces), activation, untied)
    safetensors.torch.save_file(network.saved(), folder / "model.safetensors", {"format": "pt"})
    config = settings(family, len(pieces), activation, tie_word_embeddings=not untied)
    (folder / "config.json").write_text(json.dumps(config))
    processor = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
    lines = {
        text: [pieces.get(piece, 1) for piece in processor.encode(text, out_type=str)]
        for text in [*TEXTS["source"], "Schnee ☃ läuft", "1,5 Hunde"]
    }
    arrays: dict[str, Any] = dict(reference(network, lines))
    np.savez(folder / "reference.npz", **arrays)
    return folder


def convert(folder: Path, family: str = "marian", reference: bool = True, **options) -> Result:
    """Convert a folder with its reference, into mine-de-en beside it."""
    given = folder / "reference.npz" if reference else None
    chosen = Options(languages=("de", "en"), **options)
    out = folder.parent / "mine-de-en"
    return import_network(family, folder, out, chosen, given, "A. Person", "CC-BY 4.0")


def refused(folder: Path, says: str, name: str = "theirs", **options) -> None:
    """Convert a folder, which must fail in one line that names the file or folder.

    A difference from the original names a layer instead. Nothing may be written.
    """
    with pytest.raises(ValueError, match=says) as error:
        convert(folder, **options)
    text = str(error.value)
    assert isinstance(error.value, DifferentError) or name in text
    assert len(text) < 1_500 and text.isprintable()
    assert not list(folder.parent.glob("*de-en*")) + list(folder.parent.glob(".*"))


# --- changes of a written folder

Change = Callable[[Path], object]


def config(**changes: Any) -> Change:
    """Change config.json; `...` removes a key."""

    def change(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text()) | changes
        kept = {name: value for name, value in values.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(kept))

    return change


def weights(edit: Callable[[dict[str, Tensor]], object]) -> Change:
    """Change the tensors in place."""

    def change(folder: Path) -> None:
        state = safetensors.torch.load_file(folder / "model.safetensors")
        edit(state)
        state = {name: tensor.clone().contiguous() for name, tensor in state.items()}
        safetensors.torch.save_file(state, folder / "model.safetensors")

    return change


def vocabulary(edit: Callable[[dict[str, int]], object]) -> Change:
    def change(folder: Path) -> None:
        ids = json.loads((folder / "vocab.json").read_text())
        edit(ids)
        (folder / "vocab.json").write_text(json.dumps(ids))

    return change


def _last_piece_is_a_language(ids: dict[str, int]) -> None:
    ids[">>fra<<"] = ids.pop(next(piece for piece in ids if ids[piece] == len(ids) - 2))


language = vocabulary(_last_piece_is_a_language)


def put(name: str, content: bytes = b"x") -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def drop(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def renamed(old: str, new: str) -> Change:
    return lambda folder: (folder / old).rename(folder / new)


def all_of(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


def every(edit: Callable[[Tensor], Tensor]) -> Change:
    return weights(lambda state: state.update({name: edit(t) for name, t in state.items()}))


def prefixed(prefix: str) -> Change:
    def edit(state) -> None:
        for name in list(state):
            state[prefix + name] = state.pop(name)

    return weights(edit)


def arrays(edit: Callable[[dict[str, np.ndarray]], object]) -> Change:
    """Change the arrays of reference.npz in place."""

    def change(folder: Path) -> None:
        values: dict[str, Any] = {n: a.copy() for n, a in np.load(folder / "reference.npz").items()}
        edit(values)
        np.savez(folder / "reference.npz", **values)

    return change


def tokens(edit: Callable[[dict[str, list]], object]) -> Change:
    """Change the lines and ids of reference.npz in place."""

    def change(values: dict[str, np.ndarray]) -> None:
        found = json.loads(values["tokens"].tobytes())
        edit(found)
        values["tokens"] = np.frombuffer(json.dumps(found).encode(), np.uint8)

    return arrays(change)
