"""Convert a network to Hugging Face's transformers: Marian (post-norm) or Pegasus (pre-norm).

Marian normalises after each sub-layer and has no final norm; Pegasus normalises before each
sub-layer and after each stack. Both put all sines before all cosines, so our positions are copied.
"""

from typing import Any

import torch
from torch import Tensor, nn

from core.model.transformer import Transformer
from core.text.tokenizer import BOS, EOS, PAD

_LAYER = {  # theirs: ours
    "self_attn": "self_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "output",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.outer",
    "self_attn_layer_norm": "norm1",
    "encoder_attn_layer_norm": "norm2",
}


def convert(network: Transformer, maps: bool) -> Any:
    """Return the network as a transformers model; with `maps` it can return attention maps.

    Raises ValueError for a network that fits neither architecture.
    """
    from transformers import (
        MarianConfig,
        MarianMTModel,
        PegasusConfig,
        PegasusForConditionalGeneration,
        logging,
    )

    logging.set_verbosity_error()
    ours = network.config
    kinds = {
        (False, False): (MarianConfig, MarianMTModel),
        (True, True): (PegasusConfig, PegasusForConditionalGeneration),
    }
    kind = kinds.get((ours.norm_first, ours.final_norm))
    shared = ours.source_vocab_size == ours.target_vocab_size
    if kind is None or not shared or ours.layer_norm_eps != 1e-5 or ours.other_parts:
        raise ValueError("neither Marian nor Pegasus supports these norms, parts and vocabularies")
    config = kind[0](
        vocab_size=ours.target_vocab_size,
        d_model=ours.d_model,
        encoder_layers=ours.num_encoder_layers,
        decoder_layers=ours.num_decoder_layers,
        encoder_attention_heads=ours.num_heads,
        decoder_attention_heads=ours.num_heads,
        encoder_ffn_dim=ours.dim_feedforward,
        decoder_ffn_dim=ours.dim_feedforward,
        activation_function=ours.activation,
        max_position_embeddings=ours.max_length,
        scale_embedding=ours.scale_embeddings,
        share_encoder_decoder_embeddings=ours.share_embeddings,
        tie_word_embeddings=False,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation="eager" if maps else "sdpa",
    )
    theirs = kind[1](config).eval().requires_grad_(False)
    parts = dict(network.named_modules())
    for name, parameter in theirs.named_parameters():
        parameter.copy_(_our_value(network, parts, name, parameter))
    theirs.final_logits_bias.copy_(network.embeddings.projection.bias)
    theirs.generation_config.max_length = None
    return theirs


def _our_value(
    network: Transformer, parts: dict[str, nn.Module], name: str, theirs: Tensor
) -> Tensor:
    """Return this project's values for a named parameter of the transformers model."""
    embeddings = network.embeddings
    side, *path, kind = name.removeprefix("model.").split(".")
    if side in ("shared", "lm_head"):
        return embeddings.source_table.weight if side == "shared" else embeddings.projection.weight
    if path[0] == "embed_tokens":
        return embeddings.source_table.weight if side == "encoder" else embeddings.target_weight
    if path[0] == "embed_positions":
        positions = getattr(embeddings, f"{'source' if side == 'encoder' else 'target'}_positions")
        return positions(len(theirs))
    if path == ["layer_norm"]:
        return getattr(parts[f"{side}_norm"], kind)
    last = "norm2" if side == "encoder" else "norm3"
    names = [{"final_layer_norm": last, **_LAYER}.get(part, part) for part in path[1:]]
    value = getattr(parts[".".join((side, *names))], kind)
    return torch.zeros_like(theirs) if value is None else value  # q, k and v may lack a bias


@torch.inference_mode()
def translate(
    model: Any, source_NS: Tensor, beam: int, steps: int, maps: bool
) -> list[tuple[int, ...]]:
    """Return the ids that `generate` writes, without <bos>; `maps` makes it output maps as well."""
    output = model.generate(
        source_NS,
        attention_mask=(source_NS != PAD).long(),
        num_beams=beam,
        do_sample=False,
        max_new_tokens=steps,
        return_dict_in_generate=True,
        output_attentions=maps,
    )
    if maps:
        assert len(output.cross_attentions) == steps and output.encoder_attentions[0] is not None
    return [tuple(ids) for ids in output.sequences[:, 1:].tolist()]
