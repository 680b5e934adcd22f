"""Analyse a checkpoint's heads over a corpus: what they do, how they align, how much they matter.

python -m core.analyse atlas --checkpoint DIR --src FILE --ref FILE [--gold FILE] --out FILE.npz
python -m core.analyse alignment --checkpoint DIR --src FILE --ref FILE --gold FILE [--json FILE]
python -m core.analyse align --checkpoint DIR --src FILE --ref FILE [--reverse DIR] [--gold FILE]
python -m core.analyse importance --checkpoint DIR --src FILE --ref FILE [--method zero]
python -m core.analyse words --checkpoint DIR --src FILE --ref FILE [--tokens 200] [--json FILE]
python -m core.analyse means --checkpoint DIR --src FILE --ref FILE [--out FILE] [--force]
python -m core.analyse patch --checkpoint DIR (--pairs FILE | --src FILE --words FILE)
python -m core.analyse certainty --checkpoint DIR [--data DIR | --src FILE] [--out FILE] [--force]
python -m core.analyse claims --data DIR [--gold FILE] [--shards N] [--out FILE] [--json FILE]

`align` writes word alignments, i-j, to standard output. `means` writes
DIR/head_means.safetensors, which mean ablation needs. `certainty` writes DIR/certainty.json: how
certain the network is of sentences of its own kind. `patch` measures which states and heads carry
the word that minimal pairs differ in. `claims` tests published claims about heads on
six networks.
"""

import math
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from core.analysis.alignment import Gold, pharaoh
from core.atlas.agreement import agreeing_heads
from core.atlas.aligners import SCORED_ON, best_heads, check_gold, random_head, scored_half
from core.atlas.atlas import FILE as ATLAS
from core.atlas.atlas import AlignmentHeads, read_atlas
from core.atlas.claims.board import FILE as BOARD_FILE
from core.atlas.claims.board import Board
from core.atlas.claims.load import CORPUS, SPLIT, GoldFile, load_checkpoints, networks_of, runner
from core.atlas.claims.measure import NAMES, PARTS, measure_board
from core.atlas.command import add_arguments, add_link_options, gold_of, run_atlas
from core.atlas.corpus import corpus, write_without_gold
from core.atlas.lens import add_lens_arguments, run_lens
from core.atlas.patching import add_patch_arguments, run_patch
from core.atlas.pharaoh import Aligner, aligned, exports, score_with_interval
from core.atlas.shards import in_process
from core.checkpoint.folder import Card, Checkpoint, load
from core.checkpoint.head_means import FILE, HeadMeans, save_means
from core.command import (
    Parser,
    main,
    progress_bar,
    refuse_existing,
    refuse_unwritable,
    table,
    whole_number,
    write_credit,
    write_result,
)
from core.data.batches import encode_pairs
from core.data.text_files import LinePairs, write_marks_of_pairs
from core.device import limit_threads, pick_device
from core.experiments import certainty
from core.experiments.aligning import QUANTITIES, READINGS, Row, align, best
from core.experiments.importance import METHODS, batches_of, head_means, importance
from core.experiments.prediction import Agreement, prediction_error
from core.kinds import KINDS
from core.training.scoring import refuse_long

_TABLE_ROWS = 12  # the JSON has all rows


def alignment(arguments: Namespace) -> None:
    """Score every cross-attention head against manual alignments."""
    device = pick_device(arguments.device)
    checkpoint = _loaded(arguments.checkpoint, device)
    pairs = _pairs(arguments)
    gold = gold_of(arguments, len(pairs))
    with progress_bar(len(pairs)) as on_progress:
        rows = align(checkpoint, pairs, gold, on_progress)
    linked = sum(map(bool, gold))
    write_without_gold(arguments.gold, len(pairs) - linked, len(pairs))
    first = sorted(rows, key=lambda row: row.score.aer)[:_TABLE_ROWS]
    table([("reading, quantity, layer, head", "AER, precision, recall")])
    table((_name(row), _scores(row)) for row in first)
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": linked,
            **_without_gold(gold),
            "rows": [_values(row) for row in rows],
            "best": _values(best(rows)),
        },
    )


def aligned_lines(arguments: Namespace) -> None:
    """Write one Pharaoh line per sentence pair, from the heads that align words best.

    With manual alignments (--gold), the heads are chosen on the sentences with an even index and
    scored on those with an odd one. Without --gold, they are read from the atlas of each network.
    If one has no atlas, the heads are those of both networks (--reverse) that agree most.
    """
    device = pick_device(arguments.device)
    pairs, gold = _pairs(arguments), None
    if arguments.gold is not None:
        gold = gold_of(arguments, len(pairs))
    networks = [_loaded(arguments.checkpoint, device)]
    card = networks[0].card
    if arguments.reverse is not None:
        networks.append(_reverse(arguments.reverse, device, card))
    limit_threads(max(network.card.parameters for network in networks))
    chosen, estimated = _chosen(networks, pairs, gold, arguments)
    found, (random, *_) = [heads for heads, _ in chosen], [aer for _, aer in chosen]
    aligners = [Aligner(*both) for both in zip(networks, found, strict=True)]
    lines, problems = [], []
    with progress_bar(len(pairs)) as on_progress:
        for number, (links, problem) in enumerate(aligned(pairs, *aligners), 1):
            lines.append(links)
            sys.stdout.write(pharaoh(links) + "\n")
            if problem:
                problems.append(f"line {number} is empty in the output: {problem}")
            on_progress(1)
    first = found[0]
    result = {
        "checkpoint": card.folder.name,
        "sentences": len(pairs),
        "heads": [list(head) for head in first.heads],
        "reading": first.reading,
        "quantity": first.quantity,
        "aer": first.aer,
        "low": first.low,
        "high": first.high,
        "random_aer": random,
        "estimated_with": estimated,
        **exports(first, card.model.heads("cross")),
    }
    if arguments.reverse is not None:
        result["reverse_heads"] = [list(head) for head in found[1].heads]
        if gold is not None:  # score only sentences on which no heads were chosen
            indices = [i for i in range(SCORED_ON, len(pairs), 2) if gold[i]]
            parts = [lines[i] for i in indices], [gold[i] for i in indices]
            result["symmetrised"] = score_with_interval(*parts, indices)
    says = _heads_line(first, random, estimated == "reverse")
    for line in [*problems[:_TABLE_ROWS], *_more(problems), says]:
        sys.stderr.write(line + "\n")
    write_result(arguments.json, result)


def _reverse(folder: Path, device: str, forward: Card) -> Checkpoint:
    """Load the network of --reverse. Raises ValueError if its direction is not the reverse one."""
    reverse = _loaded(folder, device)
    opposite = forward.source_language, forward.target_language
    if (reverse.card.target_language, reverse.card.source_language) != opposite:
        raise ValueError(
            f"--reverse {folder} translates {reverse.card.direction}: the reverse of "
            f"{'-'.join(opposite)} is needed"
        )
    return reverse


def _both_ways(
    pairs: list[tuple[str, str]], gold: list[Gold]
) -> list[tuple[list[tuple[str, str]], list[Gold]]]:
    """Return pairs and alignments as given, and for the other direction."""
    turned = [(target, source) for source, target in pairs]
    return [(pairs, gold), (turned, [right.turned for right in gold])]


_Chosen = tuple[AlignmentHeads, float]
"""Aligning heads, and the AER of a random head."""


def _chosen(
    networks: list[Checkpoint],
    pairs: list[tuple[str, str]],
    gold: list[Gold] | None,
    arguments: Namespace,
) -> tuple[list[_Chosen], str]:
    """Return the aligning heads of each network, and what they were chosen with.

    Raises ValueError if there is nothing to choose them with.
    """
    if gold is not None:
        both = zip(networks, _both_ways(pairs, gold), strict=False)
        chosen = [_by_gold(network, *turned, arguments) for network, turned in both]
        linked = sum(map(bool, gold))
        write_without_gold(arguments.gold, len(pairs) - linked, len(pairs))
        return chosen, "gold"
    read = [heads for network in networks if (heads := _by_atlas(network))]
    if len(read) == len(networks):
        return read, "atlas"
    if arguments.reverse is None:
        raise ValueError(
            f"{arguments.checkpoint} has no atlas with alignment heads: pass --gold with manual "
            "alignments of the text, or --reverse with a network of the other direction, or write "
            "the atlas with `python -m core.analyse atlas --gold`"
        )
    forward, reverse = networks
    with progress_bar(len(pairs)) as on_progress:
        agreed = agreeing_heads(forward, reverse, pairs, arguments.quantity, on_progress)
    return [(heads, agreed.random) for heads in (agreed.forward, agreed.reverse)], "reverse"


def _by_atlas(network: Checkpoint) -> _Chosen | None:
    """Read the aligning heads of a network's atlas, if it has any."""
    file = network.card.folder / ATLAS
    atlas = read_atlas(file, network.card.weights_sha256) if file.exists() else None
    if atlas is None or (heads := atlas.alignment_heads) is None:
        return None
    return heads, random_head(atlas.arrays["aer"], heads.quantity)


def _by_gold(
    checkpoint: Checkpoint, pairs: list[tuple[str, str]], gold: list[Gold], arguments: Namespace
) -> _Chosen:
    """Choose a network's aligning heads. Raises ValueError for too little gold."""
    text = corpus(checkpoint, pairs, gold)
    check_gold(checkpoint, text)
    card = checkpoint.card
    size = card.model.num_decoder_layers, card.model.heads("cross")
    by = tuple((reading, arguments.quantity) for reading in READINGS)
    run = in_process(checkpoint)
    chosen = best_heads(run, card.folder, text, size, by, arguments.one_layer)
    if chosen is None:
        raise ValueError(
            f"{arguments.gold} is too small: the heads are chosen on one half of the sentences and "
            "scored on the other, and each needs at least 2 with sure links"
        )
    return chosen, random_head(scored_half(run, card.folder, text), arguments.quantity)


def _without_gold(gold: list[Gold]) -> dict[str, int]:
    """Return a JSON field that counts the sentences without gold links, if there are any."""
    missing = len(gold) - sum(map(bool, gold))
    return {"without_gold": missing} if missing else {}


def _more(problems: list[str]) -> list[str]:
    left = len(problems) - _TABLE_ROWS
    return [f"and {left:,} more lines"] if left > 0 else []


def _heads_line(found: AlignmentHeads, random: float, by_agreement: bool) -> str:
    heads = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in found.heads)
    row = "is fed" if found.reading == "input" else "produces"
    gold = " with the links of --reverse as gold" if by_agreement else ""
    return (
        f"{heads} (counted from 1), {found.quantity} of the row that {row} a word: alignment error "
        f"rate{gold} {found.aer:.3f}, 95 % CI [{found.low:.3f}, {found.high:.3f}]; of a random "
        f"head {random:.3f}"
    )


def importances(arguments: Namespace) -> None:
    """Measure how ablating each head changes the loss."""
    checkpoint, pairs, device = _encoded(arguments)
    heads = sum(site.num_heads for site in checkpoint.model.attention_sites())
    with progress_bar(heads, " heads") as on_progress:
        loss, rows = importance(checkpoint.model, pairs, arguments.method, device, on_progress)
    table([("loss, nats per token", f"{loss:.4f}"), ("head (from 1)", "change in loss, 95 % CI")])
    table(
        (
            f"{row.kind} layer {row.layer + 1} head {row.head + 1}",
            f"{row.loss_change:+.4f} [{row.low:+.4f}, {row.high:+.4f}]",
        )
        for row in sorted(rows, key=lambda row: -row.loss_change)
    )
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": len(pairs),
            "method": arguments.method,
            "loss": loss,
            "rows": [asdict(row) for row in rows],
        },
    )


def words(arguments: Namespace) -> None:
    """Compare each head's direct logit effect on a word with the effect of ablating the head."""
    checkpoint, pairs, device = _encoded(arguments)
    config = checkpoint.card.model
    heads = 2 * config.num_decoder_layers * config.heads("decoder")
    with progress_bar(heads, " heads") as on_progress:
        result = prediction_error(checkpoint.model, pairs, arguments.tokens, device, on_progress)
    largest = result.largest(arguments.largest)
    rows: list[dict[str, Any]] = []
    for kind, layer in dict.fromkeys(head.place[:2] for head in result.heads):
        chosen = largest & np.array([head.place[:2] == (kind, layer) for head in result.heads])
        if chosen.any():
            rows.append({"kind": kind, "layer": layer} | _agreement(result.agreement(chosen)))
    over_all = _agreement(result.agreement(largest))
    table([("nats", "mean |predicted − true|, mean |true|, correlation, count")])
    table(
        [(f"{arguments.largest} largest of {len(result.words)} tokens", _agreement_text(over_all))]
    )
    table((f"{row['kind']} layer {row['layer'] + 1}", _agreement_text(row)) for row in rows)
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": result.sentences,
            "tokens": len(result.words),
            "largest": arguments.largest,
            **over_all,
            "rows": rows,
        },
    )


def means(arguments: Namespace) -> None:
    """Write each head's mean output, for mean ablation; by default to the checkpoint folder."""
    out = arguments.checkpoint / FILE if arguments.out is None else arguments.out
    refuse_existing("--checkpoint" if arguments.out is None else "--out", out, arguments.force)
    checkpoint, pairs, device = _encoded(arguments)
    with progress_bar(len(pairs)) as on_progress:
        parts = head_means(checkpoint.model, batches_of(pairs, device), on_progress)
    corpus = f"{arguments.src.name}, {arguments.ref.name}"
    save_means(out, HeadMeans(parts, len(pairs), corpus))
    lengths = [
        (kind, layer, head, part_D.norm().item())
        for kind, layer in sorted(parts, key=lambda at: (KINDS.index(at[0]), at[1]))
        for head, part_D in enumerate(parts[kind, layer])
    ]
    table([("written", out), ("sentences", len(pairs))])
    table([("head (from 1)", "norm of its mean output")])
    table(
        (f"{kind} layer {layer + 1} head {head + 1}", f"{length:.4f}")
        for kind, layer, head, length in lengths
    )
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": len(pairs),
            "corpus": corpus,
            "rows": [dict(zip(("kind", "layer", "head", "norm"), r, strict=True)) for r in lengths],
        },
    )


def claims(arguments: Namespace) -> None:
    """Decide every published claim and write the board that the page Literature shows."""
    device = pick_device(arguments.device)
    if arguments.out is not None:
        refuse_unwritable("--out", arguments.out)
    known = arguments.known and Board.still_valid(arguments.known)
    checkpoints = load_checkpoints(arguments.checkpoints, device)
    gold = arguments.gold and GoldFile(
        arguments.gold, arguments.one_based, arguments.gold_english_first
    )
    with runner(checkpoints, arguments.shards) as run:
        networks = networks_of(
            checkpoints, arguments.data, gold, run, arguments.resume, arguments.first
        )
        with progress_bar(PARTS * len(networks), " parts") as on_progress:
            board = measure_board(
                networks,
                f"{CORPUS}, {SPLIT}" + (f", first {n}" if (n := arguments.first) else ""),
                "" if gold is None else gold.file.name,
                _claims_command(arguments),
                on_progress,
                known,
                arguments.only,
            )
    table((row.claim.id, f"{row.verdict}: {row.reason}") for row in board.rows)
    if arguments.out is not None:
        board.save(arguments.out)
    write_result(arguments.json, board.to_values())


def _claims_command(arguments: Namespace) -> str:
    """Return the command that repeats a measurement, without the names of folders."""
    parts = ["python -m core.analyse claims --data DIR"]
    if arguments.gold is not None:
        parts += ["--gold FILE"] + ["--one-based"] * arguments.one_based
        parts += ["--gold-english-first"] * arguments.gold_english_first
    if arguments.first is not None:
        parts.append(f"--first {arguments.first}")
    if arguments.known is not None:
        parts.append("--known FILE")
    if arguments.only != NAMES:
        parts += ["--only", *arguments.only]
    return " ".join(parts)


def _agreement(result: Agreement) -> dict[str, Any]:
    values = asdict(result)
    if math.isnan(result.correlation):
        values["correlation"] = None
    return values


def _agreement_text(row: dict[str, Any]) -> str:
    correlation = "—" if row["correlation"] is None else f"{row['correlation']:+.3f}"
    return f"{row['mean_error']:.4f}  {row['mean_true']:.4f}  {correlation}  {row['count']:,}"


def _loaded(folder: Path, device: str) -> Checkpoint:
    """Load a checkpoint and write the credit of its weights, if they have one."""
    checkpoint = load(folder, device)
    write_credit(checkpoint.card.folder.name, checkpoint.card.credit)
    return checkpoint


def _pairs(arguments: Namespace) -> list[tuple[str, str]]:
    pairs = list(LinePairs(arguments.src, arguments.ref))[: arguments.first]
    if not pairs:
        raise ValueError(f"{arguments.src} contains no sentences: at least 1 is needed")
    write_marks_of_pairs(arguments.src, arguments.ref, pairs)
    return pairs


def _encoded(arguments: Namespace) -> tuple[Checkpoint, list[Any], str]:
    """Return the checkpoint, the ids of the pairs, and the device.

    Raises ValueError for a pair that is too long.
    """
    device = pick_device(arguments.device)
    checkpoint = _loaded(arguments.checkpoint, device)
    both = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    pairs = list(encode_pairs(_pairs(arguments), *both))
    refuse_long(pairs, checkpoint.card.model.max_length)
    return checkpoint, pairs, device


def _name(row: Row) -> str:
    layer, head = ("mean" if i is None else str(i + 1) for i in (row.layer, row.head))
    return f"{row.reading}, {row.quantity}, layer {layer}, head {head}"


def _scores(row: Row) -> str:
    return f"{row.score.aer:.4f}  {row.score.precision:.4f}  {row.score.recall:.4f}"


def _values(row: Row) -> dict[str, Any]:
    named = {"reading": row.reading, "quantity": row.quantity, "layer": row.layer, "head": row.head}
    return named | asdict(row.score)


def _command(
    subparsers: Any, name: str, help: str, run: Callable[[Namespace], None], ref: bool = True
) -> Parser:
    """Add a subcommand with the options shared by all subcommands except `claims`."""
    p = subparsers.add_parser(name, help=help)
    p.set_defaults(run=run, first=None)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.path("--src", "source sentences, one per line", required=True)
    if ref:
        p.path("--ref", "translations, line for line", required=True)
    p.add_argument("--device", default="auto")
    p.path("--json", "write all rows here")
    return p


def _add_claims(subparsers: Any) -> None:
    p = subparsers.add_parser("claims", help="published claims, tested on the shipped networks")
    p.set_defaults(run=claims)
    p.path("--data", f"folder that contains {CORPUS}/; downloaded if omitted")
    p.add_argument("--checkpoints", type=Path, default=Path("checkpoints"), metavar="DIR")
    p.path(
        "--gold",
        "manual links i-j of German and English words; its texts must be beside it, as .de and .en",
    )
    p.flag("--one-based", "links count words from 1")
    p.flag("--gold-english-first", "links name English first")
    p.number("--first", "use the first N pairs", 1)
    p.add_argument("--shards", type=whole_number(1, 64), default=1, help="number of processes")
    p.path("--resume", "keep unfinished work here", metavar="DIR")
    p.path("--known", "take over this board's rows that are still measured in the same way")
    p.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, metavar="MEASURE", help=", ".join(NAMES)
    )
    p.add_argument("--device", default="auto")
    p.path("--out", f"write the board here; the app reads checkpoints/{BOARD_FILE}")
    p.path("--json", "write all rows here")


def _add_certainty(subparsers: Any) -> None:
    p = subparsers.add_parser("certainty", help="how certain the network is of its own kind")
    p.set_defaults(run=certainty.run_certainty)
    p.add_argument("--checkpoint", type=Path, required=True)
    certainty.add_arguments(p)
    p.add_argument("--device", default="auto")
    p.path("--json", "write all rows here")


def parser() -> Parser:
    p = Parser(prog="python -m core.analyse", description=__doc__)
    subparsers = p.add_subparsers(
        required=True,
        metavar="atlas|alignment|align|importance|words|means|lens|patch|certainty|claims",
    )
    whole, aligning, linking, ranking, choosing, averaging, reading = (
        _command(subparsers, *command)
        for command in (
            ("atlas", "all statistics of each head over a corpus, in one file", run_atlas),
            ("alignment", "alignment error of each cross-attention head", alignment),
            ("align", "word alignments of a corpus, in Pharaoh format", aligned_lines),
            ("importance", "change in loss when a head is ablated", importances),
            ("words", "predicted and true effect of heads on a word", words),
            ("means", "write the mean output of each head", means),
            ("lens", "fit and test the Jacobian lens", run_lens, False),
        )
    )
    patching = subparsers.add_parser("patch", help="states and heads that carry a word")
    patching.set_defaults(run=run_patch)
    add_patch_arguments(patching)
    _add_certainty(subparsers)
    _add_claims(subparsers)
    add_arguments(whole)
    add_lens_arguments(reading)
    for command in (aligning, linking):
        command.path(
            "--gold",
            "links i-j (sure) and i?j (possible), one sentence per line, or NAACL format",
            required=command is aligning,
        )
        add_link_options(command)
    linking.path(
        "--reverse",
        "checkpoint of the other direction: combine both by grow-diag-final; without --gold and "
        "without an atlas of each, their heads are chosen by agreement",
        metavar="DIR",
    )
    linking.add_argument(
        "--quantity",
        choices=QUANTITIES,
        default="weights",
        help="what links words, unless an atlas says so",
    )
    linking.flag("--one-layer", "with --gold: choose heads of one layer only")
    ranking.add_argument(
        "--method",
        choices=METHODS,
        default="zero",
        help="zero: zero ablation; mean: mean ablation; gradient: signed first-order estimate of "
        "zero ablation (Molchanov et al. take its absolute value)",
    )
    for command in (ranking, averaging):
        command.number("--first", "use only the first N pairs", 1)
    averaging.path("--out", f"write here; mean ablation reads {FILE} of the checkpoint")
    averaging.flag("--force", "replace an existing file")
    choosing.add_argument(
        "--tokens", type=whole_number(1), default=200, help="minimum number of target tokens"
    )
    choosing.add_argument(
        "--largest",
        type=whole_number(1),
        default=5,
        help="number of largest effects to compare per token",
    )
    return p


if __name__ == "__main__":
    main(parser(), lambda arguments: arguments.run(arguments))
