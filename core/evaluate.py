"""Score a checkpoint: sacreBLEU, lower-cased tokenised BLEU, chrF, loss and bits per character.

python -m core.evaluate --checkpoint DIR --src FILE --ref FILE [--beam N] [--json FILE]
python -m core.evaluate --checkpoint DIR --corpus NAME --split NAME [--data DIR]
    [--from-lang CODE] [--to-lang CODE] [--prefix TEXT]
Before scoring, --joined N concatenates pairs; --small-letters lower-cases the sources and removes
final punctuation.
"""

from argparse import Namespace
from pathlib import Path

from core.checkpoint.folder import load
from core.command import Parser, main, table, whole_number, write_credit, write_result
from core.config import DecodeConfig
from core.data.corpora import CORPORA, read_pairs
from core.data.source_noise import concatenated_groups, without_final_marks
from core.data.text_files import LinePairs, write_marks_of_pairs
from core.device import pick_device
from core.training.scoring import evaluate


def run(arguments: Namespace) -> None:
    """Score the given pairs, print a table and write the JSON."""
    device = pick_device(arguments.device)
    checkpoint = load(arguments.checkpoint, device)
    checkpoint = checkpoint.between(arguments.from_lang, arguments.to_lang, arguments.prefix)
    write_credit(checkpoint.card.folder.name, checkpoint.card.credit)
    if arguments.src and arguments.ref:
        pairs = list(LinePairs(arguments.src, arguments.ref))
        write_marks_of_pairs(arguments.src, arguments.ref, pairs)
    elif arguments.corpus:
        card = checkpoint.card
        pairs = read_pairs(
            arguments.corpus,
            arguments.split,
            card.source_language,
            card.target_language,
            arguments.data,
        )
    else:
        raise ValueError("nothing to score: give --src FILE and --ref FILE, or --corpus NAME")
    changes = []
    if arguments.joined > 1:
        pairs = concatenated_groups(pairs, arguments.joined)
        changes.append(f"{arguments.joined} concatenated")
    if arguments.small_letters:
        unmarked = (without_final_marks(*pair) for pair in pairs)
        pairs = [(source.lower(), target) for source, target in unmarked]
        changes.append("lower-cased, without final punctuation")
    copying = arguments.corpus == "names" and not changes
    scores = evaluate(checkpoint, pairs, DecodeConfig(beam=arguments.beam), device, copying)
    if changes:
        scores["sources"] = ", ".join(changes)
    table(scores.items())
    write_result(arguments.json, scores)


def parser() -> Parser:
    p = Parser(prog="python -m core.evaluate", description=__doc__)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.path("--src", "source sentences, one per line, plain or gzipped")
    p.path("--ref", "their reference translations, line for line")
    p.add_argument("--corpus", choices=CORPORA)
    p.add_argument("--split", default="val")
    p.path("--data", "folder of corpora; downloaded if omitted")
    p.number("--joined", "concatenate every N consecutive pairs into one", 1, default=1)
    p.flag(
        "--small-letters",
        "lower-case the sources and drop the final punctuation mark of both sides",
    )
    p.add_argument("--beam", type=whole_number(1, 16), default=5)
    p.add_argument("--device", default="auto")
    p.languages()
    p.path("--json", "write the scores here")
    return p


if __name__ == "__main__":
    main(parser(), run)
