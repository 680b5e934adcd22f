"""Import a network: read, fill, compare, and write a checkpoint folder; on failure, write nothing.

The families are listed here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

import numpy as np
import torch

from core.checkpoint.folder import save
from core.checkpoint.imported import Comparison, Family, Imported
from core.data.corpora import LANGUAGES
from core.files import printable, release_memory, write_atomic, write_folder
from core.foreign import hugging_face, seeds, t5
from core.foreign.comparison import compare_network, compare_tokens
from core.foreign.family import (
    Options,
    Plan,
    Vocabulary,
    check_positions,
    check_shapes,
    fill,
)
from core.foreign.library import BLOCK
from core.foreign.reference import LIBRARY, MAX_REFERENCE, Reference, from_file, from_library
from core.foreign.sources import opened, shown
from core.foreign.weights import MissingError, Weights
from core.model.shapes import count_parameters, weight_shapes
from core.model.transformer import Transformer

FAMILIES = {
    "friendshipkim": seeds.FRIENDSHIPKIM,
    "hyunwoongko": seeds.HYUNWOONGKO,
    "tutorial": seeds.TUTORIAL,
    "bentrevett": seeds.BENTREVETT,
    "annotated": seeds.ANNOTATED,
    "marian": hugging_face.MARIAN,
    "pegasus": hugging_face.PEGASUS,
    "bart": hugging_face.BART,
    "mbart": hugging_face.MBART,
    "m2m100": hugging_face.M2M100,
    "fsmt": hugging_face.FSMT,
    "t5": t5.T5,
}
LARGE = 300_000_000
"""Above this many weights, a comparison uses no kernels, which need a second copy of each."""
_LINES = 200


@dataclass(frozen=True)
class Result:
    """An imported network's size and provenance; `notes` say what was read differently."""

    parameters: int
    imported: Imported
    notes: tuple[str, ...] = ()


def import_network(
    family: Family,
    source: Path,
    out: Path,
    options: Options,
    reference: Path | None = None,
    author: str = "",
    licence: str = "",
) -> Result:
    """Convert `source` to a checkpoint folder. Raises ValueError without writing anything."""
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise ValueError(f"{shown(out)} exists already: choose another --out")
    network, plan, result = verified(family, source, options, reference, author, licence)
    imported = result.imported
    card = model_card(out.name, options.languages, plan, result)

    if half := _fits_half(network):
        release_memory()  # of the comparison
        network.half()  # one tensor at a time

    def write(folder: Path) -> None:
        save(
            folder,
            network,
            "scratch",
            options.languages,
            (plan.source.tokenizer, plan.target.tokenizer),
            {"source": f"imported from {imported.source}", "imported": imported.to_json()},
            {"curve": [], "final": {}},
            half_precision=half,
        )
        write_atomic(folder / "MODEL_CARD.md", card.encode())

    try:
        write_folder(out, write)
    except OSError as error:
        raise ValueError(
            f"{shown(out)} cannot be written ({error.strerror}): free the disk or choose another "
            "--out; nothing was written"
        ) from None
    return result


def _fits_half(network: Transformer) -> bool:
    """Return whether float16 holds each weight exactly, as after a save in half precision."""
    parts = (part for weight in network.parameters() for part in weight.split(BLOCK))
    return all(torch.equal(part.half().float(), part) for part in parts)


def verified(
    family: Family,
    source: Path,
    options: Options,
    reference: Path | None = None,
    author: str = "",
    licence: str = "",
) -> tuple[Transformer, Plan, Result]:
    """Read a network and compare it with the original, without writing anything.

    Raises ValueError if it cannot be read, and DifferentError if a comparison fails.
    """
    weights = Weights(source)
    weights.unwrap(FAMILIES[family].signature)
    try:
        plan = FAMILIES[family].read(weights, options)
        check_shapes(weights, plan)
    except MissingError as error:
        raise ValueError(f"{error}{_advice(weights, family)}") from None
    stored = check_positions(weights, plan)
    fill(weights, plan)  # checks the weights; only one network is in memory at a time
    original, why = _reference(family, weights, plan, reference)
    network = fill(weights, plan)
    sha256 = weights.sha256()
    compared, not_proven = _verify(network, plan, stored, original, why)
    imported = Imported(
        family=family,
        source=printable(source.resolve().name),
        sha256=sha256,
        author=author,
        licence=licence,
        compared=tuple(compared),
        not_proven=tuple(not_proven),
    )
    parameters = count_parameters(weight_shapes("scratch", plan.config))
    return network, plan, Result(parameters, imported, (*weights.notes, *plan.remarks))


def _advice(weights: Weights, family: str) -> str:
    """Return the end of a sentence about a missing tensor: what to do about it."""
    names = set(weights.names)
    own = FAMILIES[family].signature
    if 2 * len(own & names) > len(own):
        return ": save the complete state dict"
    fitting = {name: one.signature for name, one in FAMILIES.items()}
    fitting = {name: one for name, one in fitting.items() if one <= names}
    best = [name for name, one in fitting.items() if not any(one < o for o in fitting.values())]
    some = ", ".join(printable(name)[:60] for name in weights.names[:3])
    has = f", which every network of the family {family} has (its first names: {some})"
    if len(best) == 1:
        return f"{has}: choose --from {best[0]}, whose names it has"
    return (
        f"{has}: none of the {len(FAMILIES)} families ({', '.join(FAMILIES)}) has its names, so it "
        "cannot be converted"
    )


def _verify(
    network: Transformer,
    plan: Plan,
    stored: np.ndarray | None,
    reference: Reference | None,
    why: str,
) -> tuple[list[Comparison], list[str]]:
    """Return what was compared, and a sentence for each thing that was not."""
    if reference is None:
        tokens, notes = _tokens(plan, ())
        sentence = (
            f"Logits, attention maps and greedy ids were not compared with the original: {why}."
        )
        return tokens, [sentence, *plan.notes, *notes]
    small = count_parameters(weight_shapes("scratch", plan.config)) <= LARGE
    compared = compare_network(network, plan, reference, stored, kernels=small)
    tokens, notes = _tokens(plan, reference.tokens)
    if not small:
        notes.append("The compiled kernels were not compared: they take twice the memory.")
    return compared + tokens, notes


def _reference(
    family: str, weights: Weights, plan: Plan, file: Path | None
) -> tuple[Reference | None, str]:
    vocabulary = int(plan.target.rows.max()) + 1
    if file is not None:
        with opened(file, MAX_REFERENCE):
            pass
        return from_file(file, plan.config, vocabulary), ""
    if family not in LIBRARY:
        return None, "no reference.npz was given (--reference-script prints how to make one)"
    if weights.is_wrapped:
        return None, "transformers does not read wrapped names, and no reference.npz was given"
    try:
        lines = lines_of(plan.source)
        frame = plan.source.tokenizer.frame
        language = next((code for code, id in frame.languages.items() if id in frame.first), None)
        return from_library(weights.source, lines, plan.config, vocabulary, language), ""
    except ImportError:
        return None, (
            "transformers is not installed (pip install -e '.[benchmark]'), and no --reference "
            "was given"
        )


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
    # transformers drops a mark that follows a character which its map replaces, such as "…".
    marks = {"Mn", "Mc", "Me"}
    texts = [
        t
        for t in texts
        if t.text.isprintable()
        and not t.special
        and not marks.intersection(map(category, t.text[:1]))
    ]
    pieces = [(" " if t.starts_word else "") + t.text for t in texts]
    extra = [" 1,234.5", "!", " (", ")", "…", " \u201ex\u201c", "\u00a0", " ☃", " QX"]
    return [
        "".join(
            draw.choice(extra if draw.random() < 0.1 else pieces) for _ in range(3 + i % 12)
        ).strip()
        for i in range(count)
    ]


def shape(plan: Plan) -> str:
    """Return a phrase with the sizes of a network and its vocabularies."""
    config = plan.config
    return (
        f"{config.num_encoder_layers} + {config.num_decoder_layers} layers, d_model "
        f"{config.d_model}, {config.num_heads} heads, feed-forward {config.dim_feedforward} "
        f"({'gated ' * config.gated}{config.activation}), "
        f"{'pre-norm' if config.norm_first else 'post-norm'}; vocabularies of "
        f"{config.source_vocab_size:,} and {config.target_vocab_size:,} tokens"
    )


def comparison_table(compared: Sequence[Comparison]) -> str:
    """Return a Markdown table of what was compared with the original."""
    rows = "\n".join(
        f"| {one.what} | {one.max_abs_diff:.2g} | {one.limit:.2g} | "
        f"{'yes' if one.passed else 'no'} |"
        for one in compared
    )
    head = "| compared | largest difference | limit | passed |\n| --- | --- | --- | --- |"
    return f"{head}\n{rows}" if rows else "Nothing."


def model_card(name: str, languages: Sequence[str], plan: Plan, result: Result) -> str:
    """Return the text of MODEL_CARD.md."""
    imported = result.imported
    source, target = (LANGUAGES[code] for code in languages)
    open_points = "\n".join(f"- {sentence}" for sentence in imported.not_proven)
    changes = "\n".join(f"- {sentence}" for sentence in result.notes)
    return f"""# {name}

Translates {source} to {target}. These weights were **imported**: others trained them. Family \
`{imported.family}`, source `{imported.source}`, SHA-256 of its weights `{imported.sha256}`.

**Author:** {imported.author or "not stated"}. **Licence:** {imported.licence or "not stated"}.

An encoder-decoder Transformer with {result.parameters:,} weights: {shape(plan)}.

**Compared with the original on import**

{comparison_table(imported.compared)}

**Not verified**

{open_points or "Nothing is known to be missing from the comparison."}

**Read differently from the file**

{changes or "Nothing."}
"""
