"""A shipped network in one file: from its bytes to a translation, in the standard library alone.

python -m core.micro FOLDER SENTENCE [KIND.LAYER.HEAD …]

FOLDER is a checkpoint such as checkpoints/scratch-de-en. The maps of the named heads, such as
cross.2.1, are printed below the translation; layers and heads count from 1. Read it from top to
bottom like Vaswani et al. 2017, whose sections are cited. `core.verify` uses it as a referee.

Left out: beam search, batches, damaged files, and the norms, positions and tokenizers that no
shipped network has; of these networks' text, what captions do without (soft hyphens, ligatures,
rare quotation marks, HTML escapes, marks of other tools, a typed ▁).
"""

import json
import math
import re
import struct
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import add, mul
from pathlib import Path
from typing import Any

Vector = Sequence[float]
Function = Callable[[Vector], Vector]
Tensors = dict[str, Any]  # a vector is a tuple of numbers, a matrix a tuple of rows
PAD, BOS, EOS, UNK = range(4)
EPS = 1e-5
PARTS = {  # what this file can read, beside networks of other sizes
    **{"norm_first": True, "final_norm": True, "layer_norm_eps": EPS, "learned_positions": False},
    **{"share_embeddings": True, "scale_embeddings": True, "tie_classifier": True},
    **{"qkv_bias": True, "mask_score": None},
}
SIZES = {
    *("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "dim_feedforward"),
    *("source_vocab_size", "target_vocab_size", "max_length", "dropout", "attention_dropout"),
}
RENAMED = {  # from the names of torch.nn.Transformer
    **{"transformer.": "", ".layers.": ".", "linear1": "feed_forward.inner"},
    **{"linear2": "feed_forward.outer", "self_attn": "self_attention", "out_proj": "output"},
    **{"multihead_attn": "cross_attention", "coder.norm": "coder_norm"},
}


def read_tensors(file: Path) -> Tensors:
    """Return the tensors of a safetensors file, under the names of core.model.transformer."""
    content = file.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    tensors: Tensors = {}
    for name, entry in json.loads(content[8:start]).items():
        code, shape = {"F16": "e", "F32": "f"}[entry["dtype"]], entry["shape"]
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensor: Any = struct.unpack(f"<{math.prod(shape)}{code}", content[begin:end])
        if len(shape) == 2:
            tensor = tuple(tensor[n : n + shape[1]] for n in range(0, len(tensor), shape[1]))
        for theirs, ours in RENAMED.items():
            name = name.replace(theirs, ours)
        parts = ["query.", "key.", "value."] if "in_proj_" in name else [""]
        rows = len(tensor) // len(parts)  # W^Q, W^K and W^V in one matrix, or all
        for n, part in enumerate(parts):
            tensors[name.replace("in_proj_", part)] = tensor[n * rows : (n + 1) * rows]
    return tensors


class Tokenizer:
    """Text ↔ ids by byte-pair encoding (§5.1; Sennrich et al. 2016); a space in front is a ▁."""

    def __init__(self, file: Path):
        values = json.loads(file.read_bytes())
        self.ids: dict[str, int] = values["vocabulary"]
        self.pieces = {id: piece for piece, id in self.ids.items()}
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(values["merges"])}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; punctuation and digits stand alone, as in training."""
        text = "".join(f"▁{word}" for word in unicodedata.normalize("NFC", text).split())
        for c in set(text):
            if unicodedata.category(c)[0] in ("PS" if c.isascii() else "P"):
                text = text.replace(c, f" {c} ")
        found: list[int] = []
        for part in re.findall("▁?[0-9]|▁?[^▁0-9 ]+|▁", text):
            ids = [self.ids.get(piece, UNK) for piece in self.merge(list(part))]
            found += [id for n, id in enumerate(ids) if n == 0 or {id, ids[n - 1]} != {UNK}]
        return found

    def merge(self, pieces: list[str]) -> list[str]:
        """Merge neighbours in the order in which training learned to merge them."""
        while pairs := [pair for pair in pairwise(pieces) if pair in self.ranks]:
            at = list(pairwise(pieces)).index(min(pairs, key=self.ranks.__getitem__))
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return pieces

    def decode(self, ids: list[int]) -> str:
        pieces = ("⁇" if id == UNK else self.pieces[id] for id in ids if id >= UNK)
        return "".join(pieces).replace("▁", " ").strip()


def plus(x: Vector, y: Vector) -> Vector:
    return list(map(add, x, y))


def dot(x: Vector, y: Vector) -> float:
    return sum(map(mul, x, y))


def linear(tensors: Tensors, name: str) -> Function:
    """Return x ↦ Wx + b."""
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    return lambda x: plus([dot(row, x) for row in weight], bias)


def layer_norm(tensors: Tensors, name: str) -> Function:
    """Return x ↦ (x − mean) / √(variance + ε) · weight + bias (Ba et al. 2016)."""
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    def norm(x: Vector) -> Vector:
        mean = sum(x) / len(x)
        centred = [number - mean for number in x]
        deviation = math.sqrt(dot(centred, centred) / len(x) + EPS)
        return plus([c / deviation * w for c, w in zip(centred, weight, strict=True)], bias)

    return norm


def embedding(table: Any, id: int, position: int) -> Vector:
    """Return an id's row times √d_model (§3.4), plus the sinusoids of its position (§3.5)."""
    d_model = len(table[id])
    angles = [position / 10_000 ** (i / d_model) for i in range(0, d_model, 2)]
    sinusoids = [wave(angle) for angle in angles for wave in (math.sin, math.cos)]
    return plus([number * math.sqrt(d_model) for number in table[id]], sinusoids)


def softmax(scores: Vector) -> Vector:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


class MultiHeadAttention:
    """Concat(head_1 … head_h)Wᴼ with head_i = softmax(qKᵀ/√d_k)V (§3.2).

    It attends to all that it has `read`, which is a KV cache and makes a causal mask needless.
    """

    def __init__(self, tensors: Tensors, name: str, num_heads: int):
        self.query, self.key = linear(tensors, f"{name}.query"), linear(tensors, f"{name}.key")
        self.value = linear(tensors, f"{name}.value")
        self.output = linear(tensors, f"{name}.output")
        self.keys: list[Vector] = []
        self.values: list[Vector] = []
        self.maps: list[list[Vector]] = [[] for head in range(num_heads)]

    def read(self, x: Vector) -> None:
        self.keys.append(self.key(x))
        self.values.append(self.value(x))

    def attend(self, x: Vector) -> Vector:
        query, heads = self.query(x), []
        d_k = len(query) // len(self.maps)
        for head, rows in enumerate(self.maps):
            own = slice(head * d_k, (head + 1) * d_k)
            rows.append(softmax([dot(query[own], key[own]) / math.sqrt(d_k) for key in self.keys]))
            columns = zip(*(value[own] for value in self.values), strict=True)
            heads += [dot(rows[-1], column) for column in columns]
        return self.output(heads)


def feed_forward(tensors: Tensors, name: str) -> Function:
    """Return x ↦ max(0, xW₁ + b₁)W₂ + b₂ (§3.3)."""
    inner, outer = linear(tensors, f"{name}.inner"), linear(tensors, f"{name}.outer")
    return lambda x: outer([max(0.0, number) for number in inner(x)])


class Layer:
    """Attention to the own side, in a decoder also to the other, then feed-forward (§3.1)."""

    def __init__(self, tensors: Tensors, name: str, num_heads: int, kinds: Iterable[str]):
        sites = [MultiHeadAttention(tensors, f"{name}.{kind}", num_heads) for kind in kinds]
        self.own, self.cross = sites[0], sites[-1]
        self.sublayers = [*(a.attend for a in sites), feed_forward(tensors, f"{name}.feed_forward")]
        self.norms = [layer_norm(tensors, f"{name}.norm{n + 1}") for n in range(len(sites) + 1)]

    def run(self, x: Vector) -> Vector:
        """Add to x what each sub-layer makes of it, once `own` has read it."""
        for norm, sublayer in zip(self.norms, self.sublayers, strict=True):
            x = plus(x, sublayer(norm(x)))
        return x


class Transformer:
    """The network of a folder (figure 1); it keeps the maps of the last sentence, by kind."""

    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_bytes())["model"]
        if not (PARTS.items() <= self.config.items() and self.config.keys() <= {*PARTS, *SIZES}):
            raise ValueError(f"{folder}: this network has parts that no shipped network has")
        self.tokenizer = Tokenizer(folder / "tokenizer.json")
        self.tensors = read_tensors(folder / "model.safetensors")
        self.table = self.tensors["embeddings.source_table.weight"]

    def layers(self, side: str, *kinds: str) -> list[Layer]:
        """Return the layers of a side, with empty KV caches."""
        names = [f"{side}.{n}" for n in range(self.config[f"num_{side}_layers"])]
        return [Layer(self.tensors, name, self.config["num_heads"], kinds) for name in names]

    def encode(self, source: list[int]) -> None:
        """Run the encoder; the decoder's cross-attentions read its output."""
        encoder = self.layers("encoder", "self_attention")
        self.decoder = self.layers("decoder", "self_attention", "cross_attention")
        states = [embedding(self.table, id, position) for position, id in enumerate(source)]
        for layer in encoder:
            for x in states:
                layer.own.read(layer.norms[0](x))
            states = [layer.run(x) for x in states]
        for x in map(layer_norm(self.tensors, "encoder_norm"), states):
            for layer in self.decoder:
                layer.cross.read(x)
        self.maps = {"encoder": [layer.own.maps for layer in encoder]}
        self.maps |= {"decoder": [layer.own.maps for layer in self.decoder]}
        self.maps |= {"cross": [layer.cross.maps for layer in self.decoder]}

    def decode(self, id: int, position: int) -> Vector:
        """Run the decoder on one more token; return the logits of the next (§3.4)."""
        x = embedding(self.table, id, position)
        for layer in self.decoder:
            layer.own.read(layer.norms[0](x))  # no later token has been read
            x = layer.run(x)
        x = layer_norm(self.tensors, "decoder_norm")(x)
        return [dot(row, x) for row in self.table]

    def greedy(self, source: list[int]) -> Iterator[int]:
        """Yield the most likely token at each step, until <eos> or the limit of length (§6.1)."""
        self.encode(source)
        id, limit = BOS, min(len(source) + 50, 2 * len(source) + 20, self.config["max_length"])
        for position in range(limit):
            logits = self.decode(id, position)
            yield (id := max(range(EOS, len(logits)), key=logits.__getitem__))
            if id == EOS:
                return


if __name__ == "__main__":
    folder, sentence, *heads = sys.argv[1:] if len(sys.argv) > 2 else sys.exit(__doc__)
    network = Transformer(Path(folder))
    ids = network.greedy([*network.tokenizer.encode(sentence), EOS])
    sys.stdout.write(network.tokenizer.decode(list(ids)) + "\n")
    for kind, layer, head in (name.split(".") for name in heads):
        for row in network.maps[kind][int(layer) - 1][int(head) - 1]:
            sys.stdout.write(" ".join(f"{weight:.3f}" for weight in row) + "\n")
