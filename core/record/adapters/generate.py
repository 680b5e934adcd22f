"""Build a record from what `generate` of a Hugging Face encoder-decoder returned."""

from typing import Any

import numpy as np

from core.record.adapters.fields import Languages, build, chosen, stacked
from core.record.adapters.tokens import vocabulary_tokens


def from_generate(
    outputs: Any, tokenizer: Any, inputs: Any, index: int | None, model: str, languages: Languages
) -> dict[str, Any]:
    """Return the fields of a record of one generated sequence, by greedy or beam search.

    `inputs` are the model's: `input_ids` with their `attention_mask`, or the ids alone, whose
    padding is then known by the tokenizer's `pad_token_id`. `index` chooses among
    `outputs.sequences` and is needed if there are several. Raises ValueError, in one line.
    """
    own, cross = (getattr(outputs, f"{kind}_attentions", None) for kind in ("decoder", "cross"))
    if not own or own[0][0] is None or not cross or cross[0][0] is None:
        raise ValueError(
            'no attention: load the model with attn_implementation="eager" and call '
            "generate(…, output_attentions=True, return_dict_in_generate=True)"
        )
    inputs = inputs if hasattr(inputs, "get") else {"input_ids": inputs}
    sequences, ids = (stacked(x).astype(int) for x in (outputs.sequences, inputs["input_ids"]))
    if len(sequences) % len(ids) or cross[0][0].shape[3] != ids.shape[1]:
        raise ValueError("the inputs are not those of this call of generate: pass the same")
    index = chosen(index, len(sequences), "generated sequence")
    sentence = index // (len(sequences) // len(ids))  # several sequences of each sentence
    mask = inputs.get("attention_mask")
    kept = (ids != tokenizer.pad_token_id if mask is None else stacked(mask) > 0)[sentence]
    prefix = cross[0][0].shape[2]  # tokens fed in at the first step
    ends = np.flatnonzero(sequences[index, prefix:] == tokenizer.eos_token_id)
    count = int(ends[0]) + 1 if len(ends) else len(cross)
    beams = getattr(outputs, "beam_indices", None)
    rows = [index] * count if beams is None else stacked(beams)[index, :count].astype(int)
    target = vocabulary_tokens(tokenizer, sequences[index, : prefix + count], "target")
    maps: Any = {"cross": _rows(cross, rows, [len(kept)] * count, len(kept))[..., kept]}
    maps["decoder"] = _rows(own, rows, [prefix + t for t in range(count)], len(target) - 1)
    if (encoder := outputs.encoder_attentions) and encoder[0] is not None:
        row = sentence * (len(encoder[0]) // len(ids))  # in case it was repeated for each beam
        maps["encoder"] = stacked([layer[row] for layer in encoder])[..., kept, :][..., kept]
    source = vocabulary_tokens(tokenizer, ids[sentence, kept], "source")
    return build(source, target[1:], maps, target[0], model, languages, "Hugging Face generate")


def _rows(steps: Any, rows: Any, keys: list[int], longest: int) -> Any:
    """Join the steps of a search, step t in batch row `rows[t]`: [layer, head, query, key].

    A step holds its own query or, without a cache, all so far. Keys beyond `keys[t]`, of a static
    cache, are dropped; shorter rows are filled with 0 up to `longest`.
    """
    joined = []
    for t, row in enumerate(rows):
        step = np.stack([stacked(layer[row]) for layer in steps[t]])[..., : keys[t]]
        step = np.pad(step, [(0, 0)] * 3 + [(0, longest - step.shape[-1])])
        joined.append(step[:, :, -1:] if t else step)
    return np.concatenate(joined, axis=2)
