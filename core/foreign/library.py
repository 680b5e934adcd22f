"""Write reference.npz: what transformers computes for a saved network.

Save this script as make_reference.py, then run

    python make_reference.py FOLDER LINES.txt [LANGUAGE]

Needs torch, transformers and sentencepiece. LINES.txt holds up to 200 source sentences, one per
line; LANGUAGE is the tokenizer's code of their language, if it has such codes.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

SENTENCES, LINES, WRITTEN = 8, 200, 20
BLOCK = 512  # rows of a matrix that are converted at once


class Precision(TorchFunctionMode):
    """Compute in a type in which the weights are not stored: each is converted where it is used.

    A network of 600 million weights in float64 would take 5 GB.
    """

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype
        self._space: dict[int, torch.Tensor] = {}  # by width; new ones would fragment the heap

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.__name__ == "__get__":  # an attribute; T5 converts its states to a matrix's dtype
            found = func(*args)
            is_type = isinstance(found, torch.dtype) and isinstance(args[0], torch.nn.Parameter)
            return self.dtype if is_type else found
        named = kwargs or {}
        if func is F.embedding:
            return func(*args, **named).to(self.dtype)
        if func is F.linear:
            return self._linear(*args)
        named = {name: self._converted(x) for name, x in named.items()}
        return func(*map(self._converted, args), **named)

    def _converted(self, x: Any) -> Any:
        return x.to(self.dtype) if isinstance(x, torch.nn.Parameter) else x

    def _linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        rows, width = weight.shape
        y = x.new_empty(*x.shape[:-1], rows, dtype=self.dtype)
        if width not in self._space:
            self._space[width] = x.new_empty(BLOCK, width, dtype=self.dtype)
        for start in range(0, rows, BLOCK):
            some = slice(start, min(start + BLOCK, rows))
            part = self._space[width][: some.stop - start].copy_(weight[some])
            y[..., some] = F.linear(x, part)
        return y if bias is None else y.add_(bias)


def measure(
    folder: str, lines: Sequence[str], language: str | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays of reference.npz: results for 8 random sentences, and the lines' ids."""
    from transformers import AutoModelForSeq2SeqLM, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    arrays: dict[str, Any] = {}
    model = AutoModelForSeq2SeqLM.from_pretrained(
        folder,
        dtype=_stored(folder),
        attn_implementation="eager",
        use_safetensors=True,
        local_files_only=True,
    ).eval()
    config = model.config
    if config.model_type == "fsmt":
        from transformers.models.fsmt import modeling_fsmt

        modeling_fsmt.fill_with_neg_inf = _lowest  # its own fails in float64
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):  # T5's norm rounds to float32 by itself
            module.forward = partial(_norm, module)
        if "Sinusoidal" in type(module).__name__ and model.dtype != torch.float32:
            _unround(module)
    pad, start, end = config.pad_token_id, config.decoder_start_token_id, config.eos_token_id
    start = pad if start is None else start
    ids_of = {"pad_token_id": pad, "decoder_start_token_id": start, "eos_token_id": end}
    model.generation_config = GenerationConfig(**ids_of)  # none of the folder's own settings
    for bits in (64, 32):
        draw = np.random.default_rng(1)
        source = np.full((SENTENCES, 3 + SENTENCES), pad)
        target = np.full((SENTENCES, 3 + SENTENCES), pad)
        sizes = (
            model.get_input_embeddings().weight.shape[0],
            model.get_output_embeddings().weight.shape[0],
        )
        for n in range(SENTENCES):  # n + 3 tokens in 11 columns: every row has padding
            for ids, size in ((source, sizes[0]), (target, sizes[1])):
                words = [id for id in range(size) if id not in (pad, start, end)]
                ids[n, 1 : n + 3] = draw.choice(words, n + 2)
            source[n, : n + 2], source[n, n + 2] = source[n, 1 : n + 3], end
            target[n, 0] = start
        ids, fed = torch.from_numpy(source), torch.from_numpy(target)
        shown = (ids != pad).long()
        with torch.inference_mode(), Precision(getattr(torch, f"float{bits}")):
            passed = model(
                input_ids=ids,
                attention_mask=shown,
                decoder_input_ids=fed,
                output_attentions=True,
                use_cache=False,  # with a cache, FSMT has no causal mask
            )
            written = model.generate(
                ids,
                attention_mask=shown,
                num_beams=1,
                do_sample=False,
                max_new_tokens=WRITTEN,
                bad_words_ids=[[id] for id in {pad, start} - {end}],
            )
        arrays[f"logits_{bits}"] = passed.logits
        for kind in ("encoder", "decoder", "cross"):
            maps = getattr(passed, f"{kind}_attentions")
            arrays[f"{kind}_{bits}"] = torch.stack(maps)
        arrays[f"greedy_{bits}"] = written[:, 1:]
    arrays |= {"source": source, "target": target}
    table: Any = getattr(model.get_encoder(), "embed_positions", None)
    if "Sinusoidal" in type(table).__name__:
        first = 0 if table.padding_idx is None else table.padding_idx + 1
        rows = table.weights if hasattr(table, "weights") else table.weight
        arrays["positions"] = rows.detach()[first:]
    found = tokens_of(folder, lines[:LINES], language)
    texts = json.dumps({"lines": list(lines[: len(found)]), "ids": found}).encode()
    arrays["tokens"] = np.frombuffer(texts, np.uint8)
    return {name: np.asarray(array) for name, array in arrays.items()}


def tokens_of(folder: str, lines: Sequence[str], language: str | None) -> list[list[int]]:
    """Return the ids of each line, without the last, </s>."""
    from transformers import AutoTokenizer, MarianTokenizer

    kind = MarianTokenizer if Path(folder, "source.spm").exists() else AutoTokenizer
    tokenizer = kind.from_pretrained(folder, local_files_only=True)
    if language:
        tokenizer.src_lang = language
    return [tokenizer(line)["input_ids"][:-1] for line in lines]


def _stored(folder: str) -> torch.dtype:
    """Return the type of all weights, with which they stay in their file, or else float32."""
    from safetensors import safe_open

    files = [safe_open(file, "pt") for file in Path(folder).glob("*.safetensors")]
    kinds = {file.get_slice(name).get_dtype() for file in files for name in file.keys()}  # noqa: SIM118
    return {"F16": torch.float16, "BF16": torch.bfloat16}.get("".join(kinds), torch.float32)


def _unround(positions: Any) -> None:
    """Compute a table of sines again in float32; it was rounded to the weights' precision."""
    table = getattr(positions.float(), "weights" if hasattr(positions, "weights") else "weight")
    if hasattr(positions, "get_embedding"):
        table.data = positions.get_embedding(*table.shape, positions.padding_idx)
    else:
        table.data = positions.create_weight()


def _lowest(mask: Any) -> Any:
    return mask.fill_(float(np.finfo(np.float32).min))


def _norm(module: Any, x: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + module.variance_epsilon).rsqrt() * module.weight


if __name__ == "__main__":
    text = Path(sys.argv[2]).read_text(encoding="utf-8")
    measured: dict[str, Any] = dict(measure(sys.argv[1], text.splitlines(), *sys.argv[3:4]))
    np.savez("reference.npz", **measured)
