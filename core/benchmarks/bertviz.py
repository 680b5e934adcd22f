"""Render attention maps with BertViz's model view, for comparison in a browser."""

import torch
from torch import Tensor


def page(layers: int, heads: int, tokens: int) -> str:
    """Return a BertViz page with random maps of all kinds. Raises ImportError without BertViz."""
    from bertviz import model_view

    generator = torch.Generator().manual_seed(0)

    def maps(causal: bool = False) -> list[Tensor]:
        scores = torch.randn(layers, 1, heads, tokens, tokens, generator=generator)
        if causal:
            future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, -torch.inf)
        return list(scores.softmax(dim=-1))

    words = [f"word{i}" for i in range(tokens)]
    view = model_view(
        encoder_attention=maps(),
        decoder_attention=maps(causal=True),
        cross_attention=maps(),
        encoder_tokens=words,
        decoder_tokens=words,
        html_action="return",
    )
    return f"<!doctype html><meta charset=utf-8><body>{view.data}</body>"
