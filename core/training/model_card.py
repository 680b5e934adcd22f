"""Render a checkpoint's model card: data and their licence, recipe, scores."""

from typing import Any

from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.data.corpora import CORPORA, LANGUAGES, about
from core.training.recipes import RECIPES


def render(card: Card) -> str:
    """Return the text of MODEL_CARD.md, based only on the checkpoint's files."""
    training, model, final = card.training, card.model, card.metrics["final"]
    source, target = LANGUAGES[card.source_language], LANGUAGES[card.target_language]
    scores = list(final.values())
    measures = [m for m in scores[0] if m not in ("checkpoint", "beam", "seconds", "signature")]
    rows = "\n".join(
        f"| `{measure}` | {' | '.join(str(score[measure]) for score in scores)} |"
        for measure in measures
    )
    data = " ".join(
        CORPORA[name].credit if name in CORPORA else f"The files {name}."
        for name in training["corpora"]
    )
    repeated = ", ".join(
        f"{name} {times} times per epoch"
        for name, times in training["corpora"].items()
        if times > 1
    )
    augmentation = training.get("augmentation")
    return f"""# {card.folder.name}

Translates {source} to {target}. An encoder-decoder Transformer, \
{_kind(card.architecture)}, with {card.parameters:,} weights: \
{model.num_encoder_layers} + {model.num_decoder_layers} layers, d_model {model.d_model}, \
{model.num_heads} heads, feed-forward {model.dim_feedforward}, \
{"pre-norm" if model.norm_first else "post-norm"}, dropout {model.dropout}; \
{_vocabulary(card)}.

**Intended use:** inspecting attention during translation. It was trained on \
{about(training["corpora"])}; on other text its output may be fluent but wrong. Do not use it for \
translations that matter.

**Data.** {data}{f" Repeated: {repeated}." if repeated else ""}\
{f" {_augmented(augmentation)}" if augmentation else ""}

**Recipe** `{training["recipe"]}`: {training["source"]}. Seed {training["config"]["seed"]}, \
{card.metrics["curve"][-1]["step"]:,} steps of {_batch(training["config"])}, on \
{training["machine"]} in {training["hours"]:.2f} hours with torch {training["torch"]}. \
Kept: {training["kept"]}.

Train it again:

```
{command(card)}
```

**Scores** on the validation splits, beam {scores[0]["beam"]}, length penalty \
{DecodeConfig().length_penalty:g}; `sacrebleu` is on raw, cased text (`{scores[0]["signature"]}`), \
`bleu_lc_tok` on lower-cased text, with punctuation normalised and tokenised by sacremoses. The \
weights were selected on these splits, so the scores tend to be optimistic.

| measure | {" | ".join(final)} |
| --- | {" | ".join("---" for _ in final)} |
{rows}

`metrics.json` contains the training curve, `config.json` the SHA-256 of weights and tokenizers.
"""


def command(card: Card) -> str:
    """Return the command that trains the checkpoint again."""
    training, config = card.training, card.training["config"]
    recipe = RECIPES.get(training["recipe"])
    stopped = recipe is not None and recipe.training.steps != config["steps"]
    options = f" --max-steps {config['steps']}" if stopped else ""
    return (
        f"python -m core.train --recipe {training['recipe']} --model {card.architecture} "
        f"--direction {card.direction} --seed {config['seed']}"
        f"{options} --out {card.folder.name}"
    )


def _augmented(how: dict[str, Any]) -> str:
    copies, broken = how.get("number_copies", 1), how.get("segmentation", 0)
    return (
        f"Each epoch augments its pairs at random: {how['source_noise']:.0%} get source "
        "noise (such as lower case, no final punctuation mark or no commas), "
        f"{how['concatenation']:.0%} are concatenated with others, up to "
        f"{how['concatenate_up_to']} in all, and names ({how['names']:.0%}) and numbers "
        f"({how['numbers']:.0%}) that occur on both sides are replaced on both."
        + (
            f" Pairs with the same numbers on both sides are repeated {copies} times."
            * (copies > 1)
        )
        + (f" {broken:.0%} of all words are split into subwords at random." if broken else "")
    )


def _batch(config: dict[str, Any]) -> str:
    if sentences := config.get("batch_sentences"):
        return f"{sentences} pairs"
    return f"up to {config['batch_tokens']:,} padded tokens"


def _vocabulary(card: Card) -> str:
    sizes = card.model.source_vocab_size, card.model.target_vocab_size
    if card.model.share_embeddings:
        return f"one vocabulary of {sizes[0]:,} tokens for both languages"
    return f"vocabularies of {sizes[0]:,} and {sizes[1]:,} tokens"


def _kind(architecture: str) -> str:
    return {"scratch": "written from scratch", "baseline": "torch.nn.Transformer"}[architecture]
