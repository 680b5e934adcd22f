"""Tiny networks with the architecture and state-dict names of five word-based tutorials.

They were written from the projects' descriptions and contain none of the projects' code.
"""

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import spacy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.foreign.family import Options
from core.foreign.reference import script

UNKNOWN, PAD, START, END = range(4)
D, HEADS, INNER, ENCODERS, DECODERS = 16, 2, 24, 2, 3


def sines(length: int) -> Tensor:
    """Return the paper's positional encodings, float64 [length, D]."""
    table = torch.zeros(length, D, dtype=torch.float64)
    for position in range(length):
        for i in range(0, D, 2):
            angle = position / 10_000 ** (i / D)
            table[position, i], table[position, i + 1] = math.sin(angle), math.cos(angle)
    return table


class Attention(nn.Module):
    """Multi-head attention whose four linear layers have the given names."""

    def __init__(self, names: tuple[str, str, str, str], masked: float):
        super().__init__()
        self.names, self.masked = names, masked
        for name in names:
            self.add_module(name, nn.Linear(D, D))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            getattr(self, name)(y).view(*y.shape[:2], HEADS, D // HEADS).transpose(1, 2)
            for name, y in zip(self.names, (x, memory, memory), strict=False)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(D // HEADS)
        weights = scores.masked_fill(~mask, self.masked).softmax(dim=-1)
        return getattr(self, self.names[3])((weights @ v).transpose(1, 2).flatten(2))


class GammaNorm(nn.Module):
    """A layer norm whose parameters are called gamma and beta, with epsilon 1e-12."""

    def __init__(self):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        return self.gamma * x / (x.pow(2).mean(-1, keepdim=True) + 1e-12).sqrt() + self.beta


class Parts(nn.Module):
    """A module whose submodules are added by name; the annotations are for the type checker."""

    encoder: Any
    decoder: Any
    emb: Any
    ffn: Any
    layers: Any
    norm: Any
    tok_emb: Any
    src_tok_emb: Any
    tgt_tok_emb: Any
    embedding: Any
    positional_encoding: Any
    pos_embedding: Tensor


class Layer(Parts):
    """A layer of the paper's figure 1; `kinds` are the names of its attention modules."""

    def __init__(self, kinds: tuple[str, ...], attention, norm, ffn: tuple[str, str]):
        super().__init__()
        self.kinds, self.inner_names = kinds, ffn
        for i, kind in enumerate(kinds, start=1):
            self.add_module(kind, attention())
            self.add_module(f"norm{i}", norm())
        self.ffn = Parts()
        self.ffn.add_module(ffn[0], nn.Linear(D, INNER))
        self.ffn.add_module(ffn[1], nn.Linear(INNER, D))
        self.add_module(f"norm{len(kinds) + 1}", norm())

    def forward(self, x: Tensor, *keys: tuple[Tensor | None, Tensor]) -> Tensor:
        for i, (kind, (memory, mask)) in enumerate(zip(self.kinds, keys, strict=True), start=1):
            y = getattr(self, kind)(x, x if memory is None else memory, mask)
            x = getattr(self, f"norm{i}")(x + y)
        first, second = (getattr(self.ffn, name) for name in self.inner_names)
        return getattr(self, f"norm{len(keys) + 1}")(x + second(F.relu(first(x))))


def causal(target: Tensor) -> Tensor:
    return torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()


class Friendshipkim(Parts):
    """Like friendshipkim/transformer-from-scratch: final norms, scaling by √d, saved positions."""

    def __init__(self, source: int, target: int):
        super().__init__()
        names = ("fc_q", "fc_k", "fc_v", "fc_concat")

        def layers(count: int, *kinds: str) -> nn.ModuleList:
            return nn.ModuleList(
                Layer(kinds, lambda: Attention(names, -math.inf), lambda: nn.LayerNorm(D),
                      ("fc_1", "fc_2"))
                for _ in range(count)
            )  # fmt: skip

        for side, size in (("src", source), ("tgt", target)):
            table = Parts()
            table.embedding = nn.Embedding(size, D)
            self.add_module(f"{side}_tok_emb", table)
        self.positional_encoding = Parts()
        self.positional_encoding.register_buffer("encoding", sines(40)[None].float())
        self.encoder, self.decoder = Parts(), nn.Module()
        self.encoder.layers = layers(ENCODERS, "self_attn")
        self.decoder.layers = layers(DECODERS, "self_attn", "cross_attn")
        self.encoder.norm, self.decoder.norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.classifier = nn.Linear(D, target)

    def embed(self, table: Any, ids: Tensor) -> Tensor:
        positions = self.positional_encoding.encoding[:, : ids.shape[1]]
        return table.embedding(ids) * math.sqrt(D) + positions

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = (source != PAD)[:, None, None]
        x = self.embed(self.src_tok_emb, source)
        for layer in self.encoder.layers:
            x = layer(x, (None, hidden))
        memory = self.encoder.norm(x)
        y = self.embed(self.tgt_tok_emb, target)
        for layer in self.decoder.layers:
            y = layer(y, (None, causal(target)), (memory, hidden))
        return self.classifier(self.decoder.norm(y))


class Hyunwoongko(Parts):
    """Like hyunwoongko/transformer: masks with −10,000; no final norms, √d, or saved positions."""

    def __init__(self, source: int, target: int):
        super().__init__()
        names = ("w_q", "w_k", "w_v", "w_concat")

        def layers(count: int, *kinds: str) -> nn.ModuleList:
            return nn.ModuleList(
                Layer(kinds, lambda: Attention(names, -10_000), GammaNorm, ("linear1", "linear2"))
                for _ in range(count)
            )

        self.encoder, self.decoder = Parts(), nn.Module()
        for side, size in ((self.encoder, source), (self.decoder, target)):
            side.emb = Parts()
            side.emb.add_module("tok_emb", nn.Embedding(size, D, padding_idx=PAD))
        self.encoder.layers = layers(ENCODERS, "attention")
        self.decoder.layers = layers(DECODERS, "self_attention", "enc_dec_attention")
        self.decoder.linear = nn.Linear(D, target)
        self.encoding = sines(40).float()  # not a buffer, so not saved

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = (source != PAD)[:, None, None]
        x = self.encoder.emb.tok_emb(source) + self.encoding[: source.shape[1]]
        for layer in self.encoder.layers:
            x = layer(x, (None, hidden))
        y = self.decoder.emb.tok_emb(target) + self.encoding[: target.shape[1]]
        masked = (target != PAD)[:, None, :, None] & causal(target)  # masks padded queries, too
        for layer in self.decoder.layers:
            y = layer(y, (None, masked), (x, hidden))
        return self.decoder.linear(y)


class Tutorial(Parts):
    """Like PyTorch's translation tutorial: nn.Transformer, sequence first, saved positions."""

    def __init__(self, source: int, target: int):
        super().__init__()
        self.transformer = nn.Transformer(D, HEADS, ENCODERS, DECODERS, INNER, dropout=0.0)
        self.generator = nn.Linear(D, target)
        for side, size in (("src", source), ("tgt", target)):
            table = Parts()
            table.embedding = nn.Embedding(size, D)
            self.add_module(f"{side}_tok_emb", table)
        self.positional_encoding = Parts()
        self.positional_encoding.register_buffer("pos_embedding", sines(40)[:, None].float())

    def embed(self, table: Any, ids_TB: Tensor) -> Tensor:
        positions = self.positional_encoding.pos_embedding[: len(ids_TB)]
        return table.embedding(ids_TB) * math.sqrt(D) + positions

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padded = source == PAD
        states = self.transformer(
            self.embed(self.src_tok_emb, source.T),
            self.embed(self.tgt_tok_emb, target.T),
            tgt_mask=~causal(target),
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
        )
        return self.generator(states).transpose(0, 1)


class Bentrevett(Parts):
    """Like bentrevett/pytorch-seq2seq's sixth notebook: learned positions, √d, no final norms."""

    def __init__(self, source: int, target: int):
        super().__init__()
        names = ("fc_q", "fc_k", "fc_v", "fc_o")

        def layer(*kinds: str) -> nn.Module:
            made = nn.Module()
            for kind, norm in kinds:
                made.add_module(kind, Attention(names, -1e10))
                made.add_module(norm, nn.LayerNorm(D))
            made.add_module("positionwise_feedforward", nn.Module())
            made.positionwise_feedforward.add_module("fc_1", nn.Linear(D, INNER))
            made.positionwise_feedforward.add_module("fc_2", nn.Linear(INNER, D))
            made.add_module("ff_layer_norm", nn.LayerNorm(D))
            return made

        own = ("self_attention", "self_attn_layer_norm")
        cross = ("encoder_attention", "enc_attn_layer_norm")
        for name, size, kinds, count in (
            ("encoder", source, (own,), ENCODERS),
            ("decoder", target, (own, cross), DECODERS),
        ):
            side = Parts()
            side.tok_embedding, side.pos_embedding = nn.Embedding(size, D), nn.Embedding(40, D)
            side.layers = nn.ModuleList(layer(*kinds) for _ in range(count))
            self.add_module(name, side)
        self.decoder.fc_out = nn.Linear(D, target)

    def run(self, side: Any, ids: Tensor, mask: Tensor, memory: Any = None, seen: Any = None):
        x = side.tok_embedding(ids) * math.sqrt(D) + side.pos_embedding.weight[: ids.shape[1]]
        for layer in side.layers:
            x = layer.self_attn_layer_norm(x + layer.self_attention(x, x, mask))
            if memory is not None:
                x = layer.enc_attn_layer_norm(x + layer.encoder_attention(x, memory, seen))
            inner = layer.positionwise_feedforward
            x = layer.ff_layer_norm(x + inner.fc_2(F.relu(inner.fc_1(x))))
        return x

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen = (source != PAD)[:, None, None]
        memory = self.run(self.encoder, source, seen)
        masked = (target != PAD)[:, None, None] & causal(target)
        return self.decoder.fc_out(self.run(self.decoder, target, masked, memory, seen))


class DeviationNorm(nn.Module):
    """Divides by the standard deviation of n − 1 values, plus epsilon."""

    def __init__(self):
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.pow(2).sum(-1, keepdim=True) / (D - 1)).sqrt()
        return self.a_2 * centred / (deviation + 1e-6) + self.b_2


class Annotated(Parts):
    """Like the Annotated Transformer of 2022: norms first, other special ids, saved positions."""

    pad = 2

    def __init__(self, source: int, target: int):
        super().__init__()
        names = ("0", "1", "2", "3")

        def layer(*kinds: str) -> nn.Module:
            made = nn.Module()
            for kind in kinds:
                made.add_module(kind, nn.Module())
                getattr(made, kind).add_module("linears", Attention(names, -1e9))
            made.add_module("feed_forward", nn.Module())
            made.feed_forward.add_module("w_1", nn.Linear(D, INNER))
            made.feed_forward.add_module("w_2", nn.Linear(INNER, D))
            norms = [nn.Module() for _ in (*kinds, "feed_forward")]
            for one in norms:
                one.add_module("norm", DeviationNorm())
            made.add_module("sublayer", nn.ModuleList(norms))
            return made

        for name, kinds, count in (
            ("encoder", ("self_attn",), ENCODERS),
            ("decoder", ("self_attn", "src_attn"), DECODERS),
        ):
            side = Parts()
            side.layers = nn.ModuleList(layer(*kinds) for _ in range(count))
            side.norm = DeviationNorm()
            self.add_module(name, side)
        for name, size in (("src_embed", source), ("tgt_embed", target)):
            table, positions = nn.Module(), nn.Module()
            table.add_module("lut", nn.Embedding(size, D))
            positions.register_buffer("pe", sines(40)[None].float())
            self.add_module(name, nn.ModuleList((table, positions)))
        self.generator = nn.Module()
        self.generator.add_module("proj", nn.Linear(D, target))

    def run(self, side: Any, embed: Any, ids: Tensor, mask: Tensor, memory: Any = None, seen=None):
        x = embed[0].lut(ids) * math.sqrt(D) + embed[1].pe[:, : ids.shape[1]]
        for layer in side.layers:
            norms = [one.norm for one in layer.sublayer]
            y = norms[0](x)
            x = x + layer.self_attn.linears(y, y, mask)
            if memory is not None:
                x = x + layer.src_attn.linears(norms[1](x), memory, seen)
            y = norms[-1](x)
            x = x + layer.feed_forward.w_2(F.relu(layer.feed_forward.w_1(y)))
        return side.norm(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen = (source != self.pad)[:, None, None]
        memory = self.run(self.encoder, self.src_embed, source, seen)
        masked = (target != self.pad)[:, None, None] & causal(target)
        states = self.run(self.decoder, self.tgt_embed, target, masked, memory, seen)
        return self.generator.proj(states)


NETWORKS = {
    "friendshipkim": Friendshipkim,
    "hyunwoongko": Hyunwoongko,
    "tutorial": Tutorial,
    "bentrevett": Bentrevett,
    "annotated": Annotated,
}
SPECIAL = {name: (UNKNOWN, PAD, START, END) for name in NETWORKS} | {"annotated": (3, 2, 0, 1)}
"""The ids of unknown words, padding, start and end."""


def random_network(family: str, source: int, target: int, seed: int = 3) -> nn.Module:
    """Return a network whose parameters are all perturbed, so that swapping two would show."""
    torch.manual_seed(seed)
    network = NETWORKS[family](source, target)
    with torch.no_grad():
        for parameter in network.parameters():
            scale = 0.3 if parameter.dim() == 1 else 1.3 * parameter.shape[-1] ** -0.5
            parameter.add_(torch.randn_like(parameter) * scale)
    return network.eval()


def run_script(
    text: str,
    network: nn.Module,
    encode,
    lines: Path,
    folder: Path,
    special: tuple[int, ...] = (UNKNOWN, PAD, START, END),
) -> Path:
    """Fill in and run the reference script as a user would; return the path of reference.npz."""
    unknown, pad, start, end = special
    edits = {
        "UNKNOWN, PAD, START, END = range(4) ": (
            f"UNKNOWN, PAD, START, END = {unknown}, {pad}, {start}, {end} "
        ),
        "model = ...  ": "model = NETWORK  ",
        "N_ENCODER = 6 ": f"N_ENCODER = {ENCODERS} ",
        "return [...] ": "return ENCODE(text) ",
        '"lines.txt"': repr(str(lines)),
        '"reference.npz"': repr(str(folder / "reference.npz")),
    }
    if hasattr(network, "encoding"):
        edits["positions = None "] = "positions = model.encoding "
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    real = torch.Tensor.softmax
    try:
        exec(compile(text, "script", "exec"), {"NETWORK": network, "ENCODE": encode})
    finally:
        torch.Tensor.softmax = real
        torch.backends.mha.set_fastpath_enabled(True)
    return folder / "reference.npz"


GERMAN = """Ein Mann läuft  über die Straße.
Eine Frau\tliest ein Buch.
Zwei Hunde spielen im Schnee.
Das Kind sieht einen roten Ball.
Ein Mann und eine Frau tanzen.
Die Hunde laufen.
Ein Kind liest.
Der Ball liegt im Schnee und das Kind sieht ihn."""
ENGLISH = """A man walks across the street.
A woman reads a book.
Two dogs play in the snow.
The child sees a red ball.
A man and a woman dance.
The dogs run.
A child reads.
The ball lies in the snow and the child sees it."""


@dataclass
class Seed:
    """A tutorial's files: weights, texts, word lists by id, and what the network computes."""

    family: str
    network: nn.Module
    folder: Path
    words: tuple[list[str], list[str]]

    @property
    def special(self) -> tuple[int, ...]:
        return SPECIAL[self.family]

    @property
    def weights(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def reference(self) -> Path:
        return self.folder / "reference.npz"

    def options(self, **changes) -> Options:
        texts = self.folder / "train.de", self.folder / "train.en"
        given: dict[str, Any] = {"languages": ("de", "en"), "heads": HEADS, "words_from": texts}
        return Options(**given | changes)

    def save(self, state: dict, where: Path) -> Path:
        safetensors.torch.save_file({n: t.contiguous().clone() for n, t in state.items()}, where)
        return where


def listed(text: str, language: str, least: int, lower: bool) -> list[str]:
    """Return the words in torchtext's order: by falling count, then by code point."""
    split = spacy.blank(language).tokenizer
    words = [w.text.lower() if lower else w.text for line in text.split("\n") for w in split(line)]
    counts = {word: words.count(word) for word in words}
    return sorted((w for w in counts if counts[w] >= least), key=lambda w: (-counts[w], w))


def make_seed(family: str, folder: Path) -> Seed:
    """Write a random network's weights, texts and reference.npz into a folder."""
    least = 2 if family in ("hyunwoongko", "bentrevett", "annotated") else 1
    lower = family in ("hyunwoongko", "bentrevett")
    words = listed(GERMAN, "de", least, lower), listed(ENGLISH, "en", least, lower)
    (folder / "train.de").write_text(GERMAN + "\n")
    (folder / "train.en").write_text(ENGLISH + "\n")
    network = random_network(family, 4 + len(words[0]), 4 + len(words[1]))
    made = Seed(family, network, folder, words)
    made.save(network.state_dict(), made.weights)
    split = spacy.blank("de").tokenizer
    ids = {word: 4 + i for i, word in enumerate(words[0])}

    def encode(text: str) -> list[int]:
        tokens = [w.text.lower() if lower else w.text for w in split(" ".join(text.split()))]
        return [ids.get(word, made.special[0]) for word in tokens]

    lines = folder / "train.de"
    run_script(script(family), copy.deepcopy(network), encode, lines, folder, made.special)
    return made
