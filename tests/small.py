"""Small networks and texts that many tests share."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import ModelConfig
from core.data.batches import collate, encode_pairs
from core.model.baseline import Baseline, copy_to_scratch
from core.model.build import build
from core.model.transformer import Transformer
from core.parity import networks
from core.text.tokenizer import BOS, EOS, PAD

SENTENCES = [
    ("Ein Hund läuft über die Wiese.", "A dog runs across the meadow."),
    ("Zwei junge Männer spielen im Park Fußball.", "Two young men play soccer in the park."),
    ("Eine Frau liest ein Buch.", "A woman reads a book."),
    ("Der Mann trägt ein rotes Hemd.", "The man wears a red shirt."),
    ("Kinder spielen am Strand, und ein Hund schaut zu.", "Children play at the beach."),
    ("Ein Mann fährt Fahrrad.", "A man rides a bicycle."),
]
SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True},
    "no final norm": {"norm_first": True, "final_norm": False},
    "post-norm, no final norm": {"final_norm": False},
    "no q/k/v bias": {"norm_first": True, "qkv_bias": False},
    "learned positions": {"learned_positions": True, "qkv_bias": False},
    "mask −10000": {"mask_score": -10_000.0},
    "tied with a bias, SiLU": {"activation": "silu", "tie_classifier": True, "tied_bias": True},
    "tied, learned positions": {
        "norm_first": True,
        "learned_positions": True,
        "share_embeddings": True,
        "tie_classifier": True,
    },
}


def config(**changes: object) -> ModelConfig:
    """Configure a small network whose stacks differ in depth, to expose a mix-up of the two."""
    return networks.small(**{"num_decoder_layers": 3, "dropout": 0.0, **changes})


def pair(**changes: object) -> tuple[Baseline, Transformer]:
    """Return the baseline and the scratch model with the same random weights, in float64."""
    torch.manual_seed(0)
    baseline = build("baseline", config(**changes)).double()
    with torch.no_grad():
        for parameter in baseline.parameters():  # no zeros or ones, to expose a swapped bias
            parameter.add_(0.1 * torch.randn_like(parameter))
    scratch = build("scratch", config(**changes)).double()
    copy_to_scratch(baseline, scratch)
    return baseline.eval(), scratch.eval()


def sharp(
    seed: int = 0, architecture: str = "scratch", **changes: object
) -> Baseline | Transformer:
    """Return a network in float64 with larger weights than fresh ones, for less even outputs."""
    torch.manual_seed(seed)
    network = build(architecture, config(**changes)).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    return network


def learn(model: Any, tokenizers: tuple[Any, Any], steps: int) -> None:
    """Train a network on `SENTENCES`."""
    batch = collate(list(encode_pairs(SENTENCES, *tokenizers)))
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        adam.zero_grad()
        logits = model(batch.source, batch.target_in).transpose(1, 2)
        F.cross_entropy(logits, batch.target_out, ignore_index=PAD).backward()
        adam.step()


def ids(
    rows: int, length: int, lengths: list[int] | None = None, first: int | None = None
) -> Tensor:
    """Return random ids [rows, length]; row i has lengths[i] tokens, then padding."""
    found = torch.randint(4, 40, (rows, length))
    if first is not None:
        found[:, 0] = first
    for row, n in enumerate(lengths or []):
        found[row, n:] = PAD
    return found


def batch(padding: bool) -> tuple[Tensor, Tensor]:
    """Return source [3, 9] and target-in [3, 7], with or without padding on both sides."""
    torch.manual_seed(1)
    source = ids(3, 9, [9, 5, 7] if padding else None)
    target = ids(3, 7, [4, 7, 2] if padding else None, first=BOS)
    return source, target


def source_row(length: int) -> list[int]:
    """Return random ids of one source sentence, ending with <eos>."""
    return [*torch.randint(4, 40, (length - 1,)).tolist(), EOS]


def models(*shapes: str, **changes: object) -> Any:
    """Return a fixture with the `pair` of each of these SHAPES, with these changes."""

    @pytest.fixture(scope="module", params=shapes)
    def models(request):
        return pair(**SHAPES[request.param], **changes)

    return models


@contextmanager
def refused(match: str, kind: type[Exception] = ValueError) -> Generator[None]:
    """Expect an error of this kind whose message is one short printable line."""
    with pytest.raises(kind, match=match) as caught:
        yield
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600
