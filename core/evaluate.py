"""Score a checkpoint: sacreBLEU, lower-cased tokenised BLEU, chrF, loss and bits per character.

python -m core.evaluate --checkpoint DIR --src FILE --ref FILE [--beam N] [--json FILE]
python -m core.evaluate --checkpoint DIR --corpus NAME --split NAME [--data DIR]
Either may be scored [--joined N] [--small-letters].
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any

from core.batches import encode_pairs
from core.checkpoint import Checkpoint, load
from core.command import counting, main, table, write_result
from core.config import DecodeConfig
from core.corpora import CORPORA, names, read_pairs
from core.corpora.files import LinePairs
from core.device import pick_device
from core.training.typed import in_small_letters, several_at_once
from core.translator import translate_ids


def evaluate(
    checkpoint: Checkpoint,
    pairs: list[tuple[str, str]],
    decode: DecodeConfig,
    device: str,
    copying: bool = False,
) -> dict[str, Any]:
    """Every score of one checkpoint on sentence pairs; losses are teacher-forced, in nats.

    With `copying`, for the generated corpus, also what share of names, numbers and capitals came
    through. Raises ValueError where there is nothing to score, or a sentence is too long.
    """
    import sacrebleu

    from core.training.loop import validation_loss

    started = time.perf_counter()
    references = [target for _, target in pairs]
    if not pairs:
        raise ValueError("there are no sentence pairs to score: give at least one")
    if not any(reference.strip() for reference in references):
        raise ValueError(
            f"the references of all {len(pairs):,} pairs are empty: give a translation to score "
            "against"
        )
    ids = list(encode_pairs(pairs, checkpoint.source_tokenizer, checkpoint.target_tokenizer))
    limit = checkpoint.card.model.max_length
    for number, pair in enumerate(ids, start=1):
        if max(map(len, pair)) > limit:
            raise ValueError(
                f"pair {number} has {max(map(len, pair))} tokens with <eos>: the limit is {limit}, "
                "leave it out or shorten it"
            )
    with counting(len(ids)) as done:
        sources = [source[:-1] for source, _ in ids]
        found = translate_ids(checkpoint.model, sources, decode, device, done=done)
    outputs = [checkpoint.target_tokenizer.decode(list(h[0].ids)) for h in found]
    bleu = sacrebleu.metrics.BLEU()
    score = bleu.corpus_score(outputs, [references])
    tokenised = sacrebleu.metrics.BLEU(tokenize="none", force=True)
    language = checkpoint.card.target_language
    tokenised_outputs, tokenised_references = (
        lc_norm_tok(lines, language) for lines in (outputs, references)
    )
    shares = {}
    if copying:
        shares = names.copied(pairs, outputs)
    loss = validation_loss(checkpoint.model, ids, 4096, device)
    tokens = sum(len(target) for _, target in ids)
    characters = sum(len(text) for text in references)
    return {
        "checkpoint": checkpoint.card.folder.name,
        "sentences": len(pairs),
        "beam": decode.beam,
        "sacrebleu": round(score.score, 2),
        "signature": str(bleu.get_signature()),
        "bleu_lc_tok": round(
            tokenised.corpus_score(tokenised_outputs, [tokenised_references]).score, 2
        ),
        "chrf": round(sacrebleu.corpus_chrf(outputs, [references]).score, 2),
        "loss_per_token": round(loss, 4),
        "bits_per_char": round(loss * tokens / characters / math.log(2), 4),
        "seconds": round(time.perf_counter() - started, 1),
        **shares,
    }


def lc_norm_tok(lines: list[str], language: str) -> list[str]:
    """Lower-cased, punctuation normalised, tokenised: what papers on Multi30k score.

    sacremoses in the order of the corpus's own preparation; of its published `lc.norm.tok` files
    this gives back every line of test_2016_flickr, and all but one of the German val.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True) for line in lines
    ]


def run(arguments: argparse.Namespace) -> None:
    """Read the pairs, score them, print a table and write the JSON."""
    device = pick_device(arguments.device)
    checkpoint = load(arguments.checkpoint, device)
    if arguments.src and arguments.ref:
        pairs = list(LinePairs(arguments.src, arguments.ref))
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
    if arguments.joined < 1:
        raise ValueError(f"{arguments.joined} pairs at once are none: choose 1 or more")
    if arguments.joined > 1:
        pairs = several_at_once(pairs, arguments.joined)
        changes.append(f"{arguments.joined} at once")
    if arguments.small_letters:
        pairs = [in_small_letters(*pair) for pair in pairs]
        changes.append("in small letters, without their last mark")
    copying = arguments.corpus == "names" and not changes
    scores = evaluate(checkpoint, pairs, DecodeConfig(beam=arguments.beam), device, copying)
    if changes:
        scores["sources"] = ", ".join(changes)
    table(scores.items())
    write_result(arguments.json, scores)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m core.evaluate", description=__doc__)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.add_argument("--src", type=Path, help="source sentences, one a line, plain or gzipped")
    p.add_argument("--ref", type=Path, help="their reference translations, line for line")
    p.add_argument("--corpus", choices=CORPORA)
    p.add_argument("--split", default="val")
    p.add_argument("--data", type=Path, help="folder of corpora; fetched if left out")
    p.add_argument(
        "--joined",
        type=int,
        default=1,
        help="how many pairs that follow each other are translated and scored as one",
        metavar="N",
    )
    p.add_argument(
        "--small-letters",
        action="store_true",
        help="sources as people type them: in small letters, no mark at the end of either side",
    )
    p.add_argument("--beam", type=int, default=5)
    p.add_argument("--device", default="auto")
    p.add_argument("--json", type=Path, help="write the scores here")
    return p


if __name__ == "__main__":
    main(parser(), run)
