"""A small network with all features that only converted networks have."""

import re
from collections import Counter
from math import log
from pathlib import Path

import torch

from core.checkpoint.folder import save
from core.model.build import build
from core.text.pieces import PieceTokenizer
from core.text.tokenizer import BOS, EOS, Frame
from tests import small

NEVER = 44  # an id that the network cannot write, like Marian's <pad>


def pieces(sentences: list[str], first: list[int]) -> PieceTokenizer:
    """Return a tokenizer of 120 pieces: all letters, then the most frequent words.

    Its scores are log frequencies (Kudo 2018). The ids `first` precede every source.
    """
    text = "".join(f"▁{sentence.replace(' ', '▁')}" for sentence in sentences)
    words, letters = Counter(re.findall(r"▁\w+", text)), Counter(text)
    counts = [*letters.most_common(), *(words - letters).most_common()][:120]
    total = sum(count for _, count in counts)
    vocabulary, scores = zip(*((piece, log(n / total)) for piece, n in counts), strict=True)
    return PieceTokenizer(vocabulary, scores, frame=Frame(first=tuple(first)))


def write(folder: Path, **changes: object) -> Path:
    """Save an untrained network: SiLU, a tied classifier with a bias, <bos> before the source."""
    both = [pieces([pair[side] for pair in small.SENTENCES], [BOS][side:]) for side in (0, 1)]
    config = small.config(
        **{
            "source_vocab_size": both[0].size,
            "target_vocab_size": both[1].size,
            "activation": "silu",
            "tie_classifier": True,
            "tied_bias": True,
            "final_norm": False,
            "max_length": 200,
            **changes,
        }
    )
    torch.manual_seed(4)
    model = build("scratch", config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
        model.embeddings.projection.bias[NEVER] = -10_000.0
        model.embeddings.projection.bias[EOS] += 2.0
    save(folder, model, "scratch", ("de", "en"), (both[0], both[1]), {}, {})
    return folder
