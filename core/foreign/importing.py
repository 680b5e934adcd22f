"""Import a network: read, fill, compare, and write a checkpoint folder; on failure, write nothing.

The families are listed here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.checkpoint.folder import save
from core.checkpoint.imported import Comparison, Imported
from core.data.corpora import LANGUAGES
from core.files import printable, write_atomic
from core.foreign import friendshipkim, hyunwoongko, marian, pegasus, tutorial
from core.foreign.comparison import compare_network, compare_tokens
from core.foreign.family import Options, Plan, Read, Vocabulary, check_positions, fill
from core.foreign.reference import Reference, from_file, from_library
from core.foreign.weights import Weights
from core.model.shapes import count_parameters, weight_shapes
from core.model.transformer import Transformer

FAMILIES: dict[str, Read] = {
    "friendshipkim": friendshipkim.read,
    "hyunwoongko": hyunwoongko.read,
    "tutorial": tutorial.read,
    "marian": marian.read,
    "pegasus": pegasus.read,
}
NOT_CONVERTED = {
    "bart": "it adds a norm to the embeddings and has byte-level subwords",
    "mbart": "it adds a norm to the embeddings, and its networks exceed the limit on weights",
    "nllb": "its first target token is forced, and its networks exceed the limit on weights",
    "m2m100": "its first target token is forced, and its networks exceed the limit on weights",
    "t5": "its self-attention scores have a bias that depends on the distance",
}
_LIBRARY = ("marian", "pegasus")
_LINES = 200


@dataclass(frozen=True)
class Result:
    """An imported network's size and provenance."""

    parameters: int
    imported: Imported


def import_network(
    family: str,
    source: Path,
    out: Path,
    options: Options,
    reference: Path | None = None,
    author: str = "",
    licence: str = "",
) -> Result:
    """Convert `source` to a checkpoint folder. Raises ValueError without writing anything."""
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise ValueError(f"{printable(str(out))} exists already: choose another --out")
    weights = Weights(source)
    plan = FAMILIES[family](weights, options)
    stored = check_positions(weights, plan)
    network = fill(weights, plan)
    sha256 = weights.sha256()
    compared, not_proven = _verify(network, plan, family, source, stored, reference)
    imported = Imported(
        family=family,
        source=printable(source.resolve().name),
        sha256=sha256,
        author=author,
        licence=licence,
        compared=tuple(compared),
        not_proven=tuple(not_proven),
    )
    save(
        out,
        network,
        "scratch",
        options.languages,
        (plan.source.tokenizer, plan.target.tokenizer),
        {"source": f"imported from {imported.source}", "imported": imported.to_json()},
        {"curve": [], "final": {}},
    )
    parameters = count_parameters(weight_shapes("scratch", plan.config))
    card = model_card(out.name, options.languages, plan, imported, parameters)
    write_atomic(out / "MODEL_CARD.md", card.encode())
    return Result(parameters, imported)


def _verify(
    network: Transformer,
    plan: Plan,
    family: str,
    source: Path,
    stored: np.ndarray | None,
    file: Path | None,
) -> tuple[list[Comparison], list[str]]:
    """Return what was compared, and a sentence for each thing that was not."""
    reference, why = _reference(family, source, plan, file)
    if reference is None:
        tokens, notes = _tokens(plan, ())
        sentence = (
            f"Logits, attention maps and greedy ids were not compared with the original: {why}."
        )
        return tokens, [sentence, *plan.notes, *notes]
    compared = compare_network(network, plan, reference, stored)
    tokens, notes = _tokens(plan, reference.tokens)
    return compared + tokens, notes


def _reference(
    family: str, source: Path, plan: Plan, file: Path | None
) -> tuple[Reference | None, str]:
    vocabulary = int(plan.target.rows.max()) + 1
    if file is not None:
        return from_file(file, plan.config, vocabulary), ""
    if family not in _LIBRARY:
        return None, "no reference.npz was given (--reference-script prints how to make one)"
    try:
        return from_library(source, lines_of(plan.source), plan.config, vocabulary), ""
    except ImportError:
        return None, "transformers is not installed, and no reference.npz was given"


def _tokens(
    plan: Plan, of_reference: tuple[tuple[str, tuple[int, ...]], ...]
) -> tuple[list[Comparison], list[str]]:
    """Compare tokens with the reference's, and with the original's tokenizer if it runs here."""
    compared, notes = compare_tokens(plan.source, of_reference, "source")
    notes = [*plan.source.notes, *plan.target.notes, *notes]
    known = len(of_reference)
    for side, vocabulary in (("source", plan.source), ("target", plan.target)):
        if vocabulary.original:
            lines = lines_of(vocabulary)
            tokens = tuple((line, vocabulary.original(line)) for line in lines)
            more = compare_tokens(vocabulary, tokens, f"generated {side}")
            compared, notes = compared + more[0], notes + more[1]
            known = max(known, len(lines))
    if not known:
        notes.append("Tokens were not compared with the original's tokenizer.")
    elif known < _LINES:
        notes.append(f"Tokens were compared on {known} lines only, not on {_LINES}.")
    return compared, notes


def lines_of(vocabulary: Vocabulary, count: int = _LINES) -> list[str]:
    """Return reproducible random lines made of the vocabulary's pieces, numbers and punctuation."""
    draw = random.Random(1)
    size = vocabulary.tokenizer.size
    texts = [vocabulary.tokenizer.token(id) for id in range(4, size)]
    pieces = [(" " if t.starts_word else "") + t.text for t in texts if t.text.isprintable()]
    extra = [" 1,234.5", "!", " (", ")", "…", " \u201ex\u201c", "\u00a0", " ☃", " QX"]
    return [
        "".join(
            draw.choice(extra if draw.random() < 0.1 else pieces) for _ in range(3 + i % 12)
        ).strip()
        for i in range(count)
    ]


def model_card(
    name: str, languages: Sequence[str], plan: Plan, imported: Imported, parameters: int
) -> str:
    """Return the text of MODEL_CARD.md."""
    config = plan.config
    source, target = (LANGUAGES[code] for code in languages)
    rows = "\n".join(
        f"| {one.what} | {one.max_abs_diff:.2g} | {one.limit:.2g} | "
        f"{'yes' if one.passed else 'no'} |"
        for one in imported.compared
    )
    table = f"| compared | largest difference | limit | passed |\n| --- | --- | --- | --- |\n{rows}"
    open_points = "\n".join(f"- {sentence}" for sentence in imported.not_proven)
    return f"""# {name}

Translates {source} to {target}. These weights were **imported**: others trained them. Family \
`{imported.family}`, source `{imported.source}`, SHA-256 of its weights `{imported.sha256}`.

**Author:** {imported.author or "not stated"}. **Licence:** {imported.licence or "not stated"}.

An encoder-decoder Transformer with {parameters:,} weights: {config.num_encoder_layers} + \
{config.num_decoder_layers} layers, d_model {config.d_model}, {config.num_heads} heads, \
feed-forward {config.dim_feedforward} ({config.activation}), \
{"pre-norm" if config.norm_first else "post-norm"}; vocabularies of \
{config.source_vocab_size:,} and {config.target_vocab_size:,} tokens.

**Compared with the original on import**

{table if rows else "Nothing."}

**Not verified**

{open_points or "Nothing is known to be missing from the comparison."}
"""
