"""Measure how certain a network is of its translations, and of how many it is unusually uncertain.

`python -m core.analyse certainty` runs this module.
"""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.checkpoint.certainty import FILE, PERCENT, Certainty, mean_probability
from core.checkpoint.folder import Checkpoint, load
from core.command import (
    Parser,
    progress_bar,
    refuse_existing,
    table,
    write_credit,
    write_result,
)
from core.config import DecodeConfig
from core.data.corpora import CORPORA, read_pairs
from core.data.other_kinds import KINDS
from core.data.text_files import LinePairs
from core.device import pick_device
from core.search.many import translate_ids
from core.text.tokenizer import Tokenizer, encode_source

SEARCHES = (DecodeConfig(beam=1), DecodeConfig(beam=5))
HELD_OUT = 200
"""The most sentences of a corpus that are set aside to count how many are uncertain."""
_SHARE = 5  # at most one of so many is set aside


def add_arguments(p: Parser) -> None:
    p.add_argument("--data", type=Path, help="folder of corpora; downloaded if omitted")
    p.add_argument("--src", type=Path, help="your own sentences, one per line")
    p.add_argument("--out", type=Path, help=f"write here; the app reads {FILE} of the checkpoint")
    p.add_argument("--force", action="store_true", help="replace an existing file")


def run_certainty(arguments: Namespace) -> None:
    """Write the percentiles of a checkpoint's mean probabilities; count what is below them."""
    folder = arguments.checkpoint
    out = folder / FILE if arguments.out is None else arguments.out
    refuse_existing("--checkpoint" if arguments.out is None else "--out", out, arguments.force)
    device = pick_device(arguments.device)
    checkpoint = load(folder, device)
    card = checkpoint.card
    write_credit(folder.name, card.credit)
    sample, held_out = _parted(_texts(checkpoint, arguments))
    others = _other_kinds(card.source_language, card.target_language)
    counted: dict[str, Mapping[str, Sequence[float]]] = {}
    found = {}
    for search in SEARCHES:
        own = _measured(checkpoint, sample, search, device)
        found[search.label] = [probability for values in own.values() for probability in values]
        counted[search.label] = _measured(checkpoint, held_out | others, search, device)
    certainty = Certainty.of(
        card.weights_sha256, {name: len(texts) for name, texts in sample.items()}, found
    )
    certainty.save(out)
    flagged = {
        search: {
            name: {
                "uncertain": sum(certainty.less_than(p, search) is not None for p in values),
                "of": len(values),
            }
            for name, values in kinds.items()
        }
        for search, kinds in counted.items()
    }
    table([("written", out), ("sentences", certainty.sentences)])
    table([("search", f"below the {PERCENT}nd percentile, of sentences outside the sample")])
    for search, kinds in flagged.items():
        table((f"{search}, {name}", f"{n['uncertain']} of {n['of']}") for name, n in kinds.items())
    write_result(
        arguments.json,
        {"checkpoint": folder.name, "sentences": certainty.sentences, "uncertain": flagged},
    )


def mean_probabilities(
    checkpoint: Checkpoint, texts: Sequence[str], decode: DecodeConfig, device: str
) -> list[float]:
    """Return the mean probability of the translation of each text."""
    tokenizer: Tokenizer = checkpoint.source_tokenizer
    sources = map(tokenizer.frame.prefixed, texts)
    ids = [[token.id for token in encode_source(tokenizer, text)] for text in sources]
    forced = checkpoint.target_tokenizer.frame.forced
    with progress_bar(len(ids)) as on_progress:
        found = translate_ids(
            checkpoint.model, ids, decode, device, on_progress=on_progress, forced=forced
        )
    return [mean_probability(best.log_prob, len(best.ids)) for best, *_ in found]


def _measured(
    checkpoint: Checkpoint, kinds: Mapping[str, list[str]], decode: DecodeConfig, device: str
) -> dict[str, list[float]]:
    return {
        name: mean_probabilities(checkpoint, texts, decode, device) for name, texts in kinds.items()
    }


def _texts(checkpoint: Checkpoint, arguments: Namespace) -> dict[str, list[str]]:
    """Return the sentences of the network's kind: its validation corpora, or the given file."""
    card = checkpoint.card
    if arguments.src is not None:
        lines = [source for source, _ in LinePairs(arguments.src, arguments.src)]
        texts = {f"the sentences of {arguments.src.name}": lines}
    else:
        names = [name for name in card.metrics.get("final", {}) if name in CORPORA]
        if not names:
            raise ValueError(f"{card.folder.name} names no corpus that is known: give --src FILE")
        languages = card.source_language, card.target_language
        texts = {
            name: [source for source, _ in read_pairs(name, "val", *languages, arguments.data)]
            for name in names
        }
    limit = card.model.max_length
    kept = {
        name: [t for t in lines if 0 < len(checkpoint.source_tokenizer.encode(t)) < limit]
        for name, lines in texts.items()
    }
    if min(map(len, kept.values())) < 100:
        raise ValueError("percentiles need at least 100 sentences of each kind: give more")
    return kept


def _parted(texts: Mapping[str, list[str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the sample, and the sentences that are set aside: the same ones in each run."""
    sample, held_out = {}, {}
    for name, lines in texts.items():
        mixed = random.Random(1).sample(lines, len(lines))
        aside = min(HELD_OUT, len(lines) // _SHARE)
        held_out[name], sample[name] = mixed[:aside], mixed[aside:]
    return sample, held_out


def _other_kinds(source: str, target: str) -> dict[str, list[str]]:
    if {source, target} != {"de", "en"}:
        return {}
    side = ("de", "en").index(source)
    return {f"{kind} (other)": [pair[side] for pair in pairs] for kind, pairs in KINDS.items()}
