"""A small network with all features that only converted networks have."""

import json
from pathlib import Path

import tokenizers
import torch
from tokenizers import models, pre_tokenizers, trainers

from core.checkpoint.folder import save
from core.model.build import build
from core.text.pieces import PieceTokenizer
from core.text.tokenizer import BOS, EOS, Frame
from tests import small

NEVER = 44  # an id that the network cannot write, like Marian's <pad>


def pieces(sentences: list[str], first: list[int]) -> PieceTokenizer:
    """Learn a tokenizer of about 120 pieces (Kudo 2018); the ids `first` precede every source."""
    learner = tokenizers.Tokenizer(models.Unigram())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    learner.train_from_iterator(
        sentences, trainers.UnigramTrainer(vocab_size=120, show_progress=False)
    )
    vocabulary, scores = zip(*json.loads(learner.to_str())["model"]["vocab"], strict=True)
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
    torch.manual_seed(2)
    model = build("scratch", config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
        model.embeddings.projection.bias[NEVER] = -10_000.0
        model.embeddings.projection.bias[EOS] += 2.0
    save(folder, model, "scratch", ("de", "en"), (both[0], both[1]), {}, {})
    return folder
