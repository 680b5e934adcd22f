"""Convert a network to CTranslate2, OpenNMT's translation engine, and run it there."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from core.model.transformer import Transformer
from core.text.tokenizer import BOS, EOS, UNK

Ids = tuple[int, ...]


def write(network: Transformer, folder: Path) -> None:
    """Write the network in CTranslate2's format, with ids as tokens.

    Raises ValueError for an unsupported network.
    """
    from ctranslate2 import specs

    config = network.config
    if config.final_norm and not config.norm_first:
        raise ValueError("CTranslate2 does not support a final norm in a post-norm network")
    if config.activation != "relu":
        raise ValueError(f"only ReLU networks are converted, not {config.activation}")
    if parts := config.other_parts:
        raise ValueError(f"networks with another {parts[0]} than the paper's are not converted")
    spec = specs.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm_first,
        no_final_norm=not config.final_norm,
    )
    embeddings = network.embeddings
    scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], embeddings.source_table.weight, "encoder"),
        (spec.decoder, spec.decoder.embeddings, embeddings.target_weight, "decoder"),
    )
    for stack, table, weight, side in sides:
        stack.scale_embeddings = scale
        table.weight = _array(weight)
        positions = (
            embeddings.source_positions if side == "encoder" else embeddings.target_positions
        )
        stack.position_encodings.encodings = _array(positions(config.max_length))
        if config.final_norm:
            _norm(stack.layer_norm, network.stack(side).norm)
        layers: Sequence[Any] = network.stack(side).layers
        for to, layer in zip(stack.layer, layers, strict=True):
            _attention(to.self_attention, layer.self_attention, layer.norm1, packed=3)
            if side == "decoder":
                _attention(to.attention, layer.cross_attention, layer.norm2, packed=2)
            _norm(to.ffn.layer_norm, layer.norm2 if side == "encoder" else layer.norm3)
            _linear(to.ffn.linear_0, [layer.feed_forward.inner])
            _linear(to.ffn.linear_1, [layer.feed_forward.outer])
    _linear(spec.decoder.projection, [embeddings.projection])
    for register, size in (
        (spec.register_source_vocabulary, config.source_vocab_size),
        (spec.register_target_vocabulary, config.target_vocab_size),
    ):
        register([str(id) for id in range(size)])
    names = spec.config
    names.bos_token = names.decoder_start_token = str(BOS)
    names.eos_token, names.unk_token = str(EOS), str(UNK)
    names.layer_norm_epsilon = config.layer_norm_eps
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _array(x: Tensor) -> NDArray[np.float32]:
    return x.detach().float().cpu().numpy().copy()


def _norm(to: Any, norm: Any) -> None:
    to.gamma, to.beta = _array(norm.weight), _array(norm.bias)


def _linear(to: Any, layers: Sequence[Any]) -> None:
    """Copy one layer, or several with rows stacked; if only some have a bias, others get 0."""
    to.weight = np.concatenate([_array(layer.weight) for layer in layers])
    if any(layer.bias is not None for layer in layers):
        biases = [
            np.zeros(len(layer.weight), np.float32) if layer.bias is None else _array(layer.bias)
            for layer in layers
        ]
        to.bias = np.concatenate(biases)


def _attention(to: Any, module: Any, norm: Any, packed: int) -> None:
    """Copy an attention: q, k and v packed in one matrix, or q separate from k and v."""
    q, k, v = module.query, module.key, module.value
    groups = [[q, k, v]] if packed == 3 else [[q], [k, v]]
    for i, layers in enumerate([*groups, [module.output]]):
        _linear(to.linear[i], layers)
    _norm(to.layer_norm, norm)


def open_translator(folder: Path, kind: str, threads: int) -> Any:
    """Open a CTranslate2 translator on the CPU with compute type `kind`, such as int8."""
    import ctranslate2

    return ctranslate2.Translator(
        str(folder), compute_type=kind, inter_threads=1, intra_threads=threads
    )


def translate(engine: Any, source_NS: Tensor, beam: int, steps: int) -> list[Ids]:
    """Return the best hypothesis of each row, in one batch."""
    results = engine.translate_batch(
        [[str(id) for id in row] for row in source_NS.tolist()],
        beam_size=beam,
        max_decoding_length=steps,
        max_batch_size=0,
    )
    return [tuple(int(token) for token in one.hypotheses[0]) for one in results]
