"""The decoding loop of common tutorials, over `torch.nn.Transformer` and without a KV cache.

The masks follow PyTorch's translation tutorial: a source mask of zeros and a causal target mask.
"""

import torch
from torch import Tensor, nn

from core.model.baseline import Baseline
from core.text.tokenizer import BOS, PAD


@torch.no_grad()
def translate(network: Baseline, source_NS: Tensor, beam: int, steps: int) -> list[tuple[int, ...]]:
    """Return the best of `beam` hypotheses of `steps` tokens for each row; beam 1 is greedy."""
    with torch.device(source_NS.device):
        return _translate(network, source_NS, beam, steps)


def _translate(
    network: Baseline, source_NS: Tensor, beam: int, steps: int
) -> list[tuple[int, ...]]:
    stacks, embeddings = network.transformer, network.embeddings
    N, S = source_NS.shape
    source_mask = torch.zeros(S, S, dtype=torch.bool)
    padding = source_NS == PAD
    memory = stacks.encoder(
        embeddings.source(source_NS), source_mask, src_key_padding_mask=padding
    ).repeat_interleave(beam, dim=0)
    padding = padding.repeat_interleave(beam, dim=0)
    written = torch.full((N * beam, 1), BOS)
    total_NK = torch.full((N, beam), -torch.inf)
    total_NK[:, 0] = 0.0
    for step in range(1, steps + 1):
        causal = nn.Transformer.generate_square_subsequent_mask(step, dtype=torch.bool)
        hidden = stacks.decoder(
            embeddings.target(written),
            memory,
            tgt_mask=causal,
            memory_key_padding_mask=padding if padding.any() else None,
        )
        logits = network.classify(hidden[:, -1])
        if beam == 1:
            written = torch.cat((written, logits.argmax(dim=-1, keepdim=True)), dim=1)
            continue
        sums = (total_NK.flatten()[:, None] + logits.log_softmax(dim=-1)).view(N, -1)
        total_NK, place = sums.topk(beam, dim=1)
        row = place // logits.shape[-1] + torch.arange(N)[:, None] * beam
        token = place % logits.shape[-1]
        written = torch.cat((written[row.flatten()], token.view(-1, 1)), dim=1)
    return [tuple(ids) for ids in written.view(N, beam, -1)[:, 0, 1:].tolist()]
