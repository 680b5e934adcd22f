"""Run the same weights in Hugging Face's transformers.

An imported network's original is opened as it was saved. Networks of this project are converted to
Marian (post-norm) or Pegasus (pre-norm).

Marian normalises after each sub-layer and has no final norm; Pegasus normalises before each
sub-layer and after each stack. Both put all sines before all cosines, so our positions are copied.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from core.benchmarks.networks import NEVER
from core.checkpoint.imported import Imported
from core.foreign.family import Options, Vocabulary
from core.foreign.importing import FAMILIES
from core.foreign.reference import LIBRARY
from core.foreign.sources import shown
from core.foreign.weights import Weights
from core.model.transformer import Transformer
from core.text.tokenizer import BOS, EOS, PAD, Tokenizer

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
    model: Any, source_NS: Tensor, beam: int, steps: int, maps: bool, pad: int = PAD
) -> list[tuple[int, ...]]:
    """Return the ids that `generate` writes, without <bos>; `maps` makes it output maps as well."""
    output = model.generate(
        source_NS,
        attention_mask=(source_NS != pad).long(),
        num_beams=beam,
        do_sample=False,
        max_new_tokens=steps,
        return_dict_in_generate=True,
        output_attentions=maps,
    )
    if maps:
        assert len(output.cross_attentions) == steps and output.encoder_attentions[0] is not None
    return [tuple(ids) for ids in output.sequences[:, 1:].tolist()]


@dataclass(frozen=True)
class Original:
    """The saved network from which one of ours was imported, and its ids for ours."""

    folder: Path
    source: Vocabulary
    target: Vocabulary

    @classmethod
    def of(
        cls, folder: Path, imported: Imported | None, tokenizers: tuple[Tokenizer, Tokenizer] | None
    ) -> "Original":
        """Find the ids in the folder. Raises ValueError unless the network is from there."""
        if imported is None or tokenizers is None or imported.family not in LIBRARY:
            raise ValueError(
                "--library needs a --checkpoint that core.convert wrote from a folder of "
                f"{', '.join(LIBRARY)}"
            )
        weights = Weights(folder)
        if weights.sha256() != imported.sha256:
            raise ValueError(
                f"{shown(folder)} holds other weights than those that were imported: give the "
                "folder that core.convert read"
            )
        first = [tokenizers[0].token(id).piece for id in tokenizers[0].first]
        # The ids depend on none of these options, but some folders cannot be read without them.
        options = Options(("de", "en"), first=first[0] if first else None, any_codes=True)
        plan = FAMILIES[imported.family].read(weights, options)
        return cls(folder, plan.source, plan.target)

    def open(self, maps: bool) -> Any:
        """Return the transformers model, which never writes <pad>, <bos> or <eos>."""
        from transformers import AutoModelForSeq2SeqLM, GenerationConfig, logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        more = {"attn_implementation": "eager"} if maps else {}
        model = AutoModelForSeq2SeqLM.from_pretrained(
            self.folder,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            **more,
        ).eval()
        start, pad, end = self.target.start, self.target.pad, int(self.target.rows[EOS])
        model.generation_config = GenerationConfig(
            pad_token_id=pad, decoder_start_token_id=start, eos_token_id=end
        )
        never = torch.zeros(model.get_output_embeddings().weight.shape[0])
        never[[start, pad, end]] = NEVER

        def forbid(module: Any, given: Any, output: Any) -> None:
            output.logits += never.to(output.logits.device)

        model.register_forward_hook(forbid)  # before the softmax, as in `Weights.fixed_length`
        return model

    def translate(
        self, model: Any, source_NS: Tensor, beam: int, steps: int, maps: bool
    ) -> list[tuple[int, ...]]:
        """Return what `translate` returns, in our ids."""
        rows = torch.from_numpy(self.source.rows).to(source_NS.device)
        ids = rows[source_NS].masked_fill(source_NS == PAD, self.source.pad)
        written = translate(model, ids, beam, steps, maps, self.source.pad)
        ours = self.target.theirs_to_ours
        return [tuple(ours[id] for id in sentence) for sentence in written]
