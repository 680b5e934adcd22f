"""BertViz's model view of so many maps, as a web page: what a browser draws in its place."""

import torch
from torch import Tensor


def page(layers: int, heads: int, tokens: int) -> str:
    """All three kinds of random maps in BertViz's own page. Raises ImportError where it is not."""
    from bertviz import model_view

    generator = torch.Generator().manual_seed(0)

    def maps(causal: bool = False) -> list[Tensor]:
        scores = torch.randn(layers, 1, heads, tokens, tokens, generator=generator)
        if causal:
            future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, -torch.inf)
        return list(scores.softmax(dim=-1))

    words = [f"word{i}" for i in range(tokens)]
    made = model_view(
        encoder_attention=maps(),
        decoder_attention=maps(causal=True),
        cross_attention=maps(),
        encoder_tokens=words,
        decoder_tokens=words,
        html_action="return",
    )
    return f"<!doctype html><meta charset=utf-8><body>{made.data}</body>"
