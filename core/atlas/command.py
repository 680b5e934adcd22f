"""The subcommand `atlas` of core.analyse: one file of statistics for one network."""

from __future__ import annotations

import hashlib
import math
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from core.analysis.alignment import Gold, read_gold
from core.atlas.atlas import Atlas
from core.atlas.build import Extras, Work, build, count_passes, origin_of
from core.atlas.corpus import corpus, write_without_gold
from core.atlas.partial import Partial
from core.atlas.report import report
from core.atlas.roles import Facts
from core.atlas.shards import Runner, in_process, in_processes
from core.checkpoint.folder import Checkpoint, load
from core.command import Parser, progress_bar, refuse_unwritable, table, whole_number, write_result
from core.data.text_files import LinePairs, read_lines, write_marks_of_pairs
from core.device import pick_device

_LINES = 12  # of messages about skipped sentences, at most


def run_atlas(arguments: Namespace) -> None:
    """Compute the atlas of a network over a corpus, and write it to one file."""
    refuse_unwritable("--out", arguments.out)
    if arguments.shards > 1 and arguments.device not in ("auto", "cpu"):
        raise ValueError("--shards are processes on the CPU: leave out --device or --shards")
    device = "cpu" if arguments.shards > 1 else pick_device(arguments.device)
    torch.set_num_threads(1)  # equal sums for any number of shards; more threads are no faster
    network = load(arguments.checkpoint, device)
    text = corpus(network, _pairs(arguments.src, arguments.ref, arguments.first))
    extras, gold = _extras(arguments, network, device)
    if arguments.gold is None or arguments.gold_src is not None:
        files = arguments.src, arguments.ref
        write_marks_of_pairs(*files, _pairs(*files, arguments.first))
    for line in (*text.skipped[:_LINES], *Facts.of(text).notes):
        sys.stderr.write(f"{arguments.src.name}: {line}\n")
    origin = origin_of(
        network, text, _names(arguments.src, arguments.ref), _command(arguments), **gold
    )
    partial = Partial(arguments.out.with_name(f"{arguments.out.name}.partial"), repr(origin))
    with (
        runner(network, arguments.shards, arguments.ray) as run,
        progress_bar(count_passes(network, text, extras), " passes") as on_progress,
    ):
        found = build(network, text, origin, Work(run, partial, on_progress), extras)
    found.save(arguments.out)
    partial.remove()
    heads = report(found)
    _atlas_tables(found, heads)
    write_result(
        arguments.json,
        {
            "checkpoint": network.card.folder.name,
            "sentences": origin.sentences,
            "origin": asdict(origin),
            "heads": heads,
            "alignment_heads": found.alignment_heads and asdict(found.alignment_heads),
        },
    )


def _extras(
    arguments: Namespace, network: Checkpoint, device: str
) -> tuple[Extras, dict[str, Any]]:
    """Return the optional parts of the atlas, and the `Origin` fields about its gold alignments."""
    other = load(arguments.other, device) if arguments.other else None
    if (arguments.gold_src is None) != (arguments.gold_ref is None):
        raise ValueError("--gold-src and --gold-ref go together: give both, or none")
    if arguments.gold is None:
        if arguments.gold_src is not None:
            raise ValueError("--gold-src needs --gold, the alignments of that text")
        return Extras(None, other, not arguments.no_bleu), {}
    own = arguments.gold_src is None
    files = (arguments.src, arguments.ref) if own else (arguments.gold_src, arguments.gold_ref)
    pairs = list(_pairs(*files, arguments.first if own else None))
    aligned = corpus(network, pairs, gold_of(arguments, len(pairs)))
    lines = "\n".join(read_lines(arguments.gold))
    identity = {
        "gold": f"{arguments.gold.name} of {_names(*files)}",
        "gold_sha256": hashlib.sha256(lines.encode()).hexdigest(),
        "gold_sentences": aligned.linked,
    }
    write_without_gold(arguments.gold, len(aligned.sentences) - aligned.linked, len(pairs))
    write_marks_of_pairs(*files, pairs)
    return Extras(aligned, other, not arguments.no_bleu), identity


def runner(network: Checkpoint, workers: int, ray: bool) -> AbstractContextManager[Runner]:
    """Return a context manager with a runner: on Ray, in several processes, or in this one."""
    if ray:
        from core.atlas.ray_workers import on_ray

        return on_ray(workers)
    return in_processes(workers) if workers > 1 else nullcontext(in_process(network))


def _names(*files: Path) -> str:
    return ", ".join(file.name for file in files)


def _command(arguments: Namespace) -> str:
    """Return the command that reproduces an atlas, with file names but without folders."""
    words = ["python -m core.analyse atlas"]
    for option in ("checkpoint", "src", "ref", "gold", "gold_src", "gold_ref", "other", "out"):
        if (file := getattr(arguments, option)) is not None:
            words.append(f"--{option.replace('_', '-')} {shlex.quote(file.name)}")
    for option in ("one_based", "gold_target_first", "no_bleu"):
        if getattr(arguments, option):
            words.append(f"--{option.replace('_', '-')}")
    if arguments.first is not None:
        words.append(f"--first {arguments.first}")
    return " ".join(words)


def _atlas_tables(found: Atlas, heads: list[dict[str, Any]]) -> None:
    origin = found.origin
    table(
        [
            ("sentences", f"{origin.sentences:,}"),
            ("loss, nats per token", _with_bounds(found.arrays["loss"], 4)),
            *(
                [("BLEU, greedy", _with_bounds(found.arrays["bleu"], 2))]
                if "bleu" in found.arrays
                else []
            ),
        ]
    )
    table([("head (from 1)", "change in loss, 95 % CI, zero ablation; roles beyond chance")])
    table(
        (
            f"{head['kind']} layer {head['layer'] + 1} head {head['head'] + 1}",
            "; ".join(
                (
                    _with_bounds([head["loss_change"], head["low"], head["high"]], 4, "+"),
                    ", ".join(name for name, role in head["roles"].items() if role["label"])
                    or "none",
                )
            ),
        )
        for head in sorted(heads, key=lambda head: -head["loss_change"])
    )
    if (chosen := found.alignment_heads) is not None:
        names = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in chosen.heads)
        error = _with_bounds([chosen.aer, chosen.low, chosen.high], 3)
        table([("alignment heads (from 1)", f"{names}; {chosen.reading} reading, AER {error}")])


def _pairs(source: Path, reference: Path, first: int | None) -> Iterator[tuple[str, str]]:
    """Yield the first pairs, but read all, because both files need equally many lines."""
    for i, pair in enumerate(LinePairs(source, reference)):
        if first is None or i < first:
            yield pair


def _with_bounds(values: Iterable[float | None], digits: int, sign: str = "") -> str:
    value, low, high = (
        "—" if v is None or math.isnan(v) else f"{round(v, digits) + 0.0:{sign}.{digits}f}"
        for v in values
    )
    return f"{value} [{low}, {high}]"


def add_link_options(p: Parser) -> None:
    """Add the options that say how the links in --gold are written."""
    p.flag("--one-based", "links count words from 1")
    p.flag("--gold-target-first", "links name the target word first")


def gold_of(arguments: Namespace, sentences: int) -> list[Gold]:
    """Read --gold, which must have one line for each of the sentences."""
    return read_gold(
        read_lines(arguments.gold),
        sentences,
        str(arguments.gold),
        arguments.one_based,
        arguments.gold_target_first,
    )


def add_arguments(p: Parser) -> None:
    """Add the options of this command to those that all analyses share."""
    p.path("--out", "write the atlas to this .npz file", required=True)
    p.path("--gold", "file of manual alignments, to measure alignment errors and roles")
    p.path("--gold-src", "source sentences of --gold, if not --src")
    p.path("--gold-ref", "translations of --gold, if not --ref")
    add_link_options(p)
    p.path("--other", "a network whose heads are matched with this one's")
    p.flag("--no-bleu", "leave out BLEU, which takes more than half the time")
    p.add_argument(
        "--shards",
        type=whole_number(1, 1024),
        default=1,
        help="number of processes or, with --ray, of workers",
    )
    p.flag("--ray", "run the shards on Ray")
    p.number("--first", "use only the first N pairs", 1)
