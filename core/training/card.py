"""The model card that goes with a checkpoint: data, licence of the data, recipe, scores."""

from core.checkpoint import Card
from core.corpora import CORPORA, LANGUAGES


def render(card: Card) -> str:
    """MODEL_CARD.md, from what the checkpoint's own files say and nothing else."""
    training, model, final = card.training, card.model, card.metrics["final"]
    corpus = CORPORA[training["corpus"]]
    source, target = LANGUAGES[card.source_language], LANGUAGES[card.target_language]
    measures = [
        name for name in final if name not in ("checkpoint", "beam", "seconds", "signature")
    ]
    rows = "\n".join(f"| `{name}` | {final[name]} |" for name in measures)
    return f"""# {card.folder.name}

Translates {source} to {target}. An encoder-decoder Transformer, \
{_kind(card.architecture)}, with {card.parameters:,} weights: \
{model.num_encoder_layers} + {model.num_decoder_layers} layers, d_model {model.d_model}, \
{model.num_heads} heads, feed-forward {model.dim_feedforward}, \
{"pre-norm" if model.norm_first else "post-norm"}, dropout {model.dropout}; \
{_vocabulary(card)}.

**Meant for** looking at attention while it translates. It knows {corpus.about}; on other text it \
guesses fluently and wrongly. It is not meant for translating anything that matters.

**Data.** {corpus.credit}

**Recipe** `{training["recipe"]}`: {training["source"]}. Seed {training["config"]["seed"]}, \
{training["config"]["steps"]:,} steps of up to {training["config"]["batch_tokens"]:,} padded \
tokens, on {training["machine"]} in {training["hours"]:.2f} hours with torch {training["torch"]}. \
Kept: {training["kept"]}.

Train it again:

```
python -m core.train --recipe {training["recipe"]} --model {card.architecture} \
--direction {card.direction} --seed {training["config"]["seed"]} --out {card.folder.name}
```

**Scores** on the validation split, beam {final["beam"]}, length penalty 0.6; `sacrebleu` is on \
raw, cased text (`{final["signature"]}`), `bleu_lc_tok` on lower-cased Moses tokens. The \
weights were chosen on this split, so they flatter a little.

| measure | value |
| --- | --- |
{rows}

`metrics.json` holds the training curve. Each file's SHA-256 stands in `config.json`.
"""


def _vocabulary(card: Card) -> str:
    sizes = card.model.source_vocab_size, card.model.target_vocab_size
    if card.model.share_embeddings:
        return f"one vocabulary of {sizes[0]:,} pieces for both languages"
    return f"vocabularies of {sizes[0]:,} and {sizes[1]:,} pieces"


def _kind(architecture: str) -> str:
    return {"scratch": "written from scratch", "baseline": "torch.nn.Transformer"}[architecture]
