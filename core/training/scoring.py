"""Score a checkpoint on sentence pairs: BLEU, chrF, loss and bits per character."""

import math
import time
from typing import Any

from core.checkpoint.folder import Checkpoint
from core.command import progress_bar
from core.config import DecodeConfig
from core.data import names
from core.data.batches import Pair, encode_pairs
from core.search.many import translate_ids
from core.text.line import plain
from core.training.loop import validation_loss


def evaluate(
    checkpoint: Checkpoint,
    pairs: list[tuple[str, str]],
    decode: DecodeConfig,
    device: str,
    copying: bool = False,
) -> dict[str, Any]:
    """Return all scores of a checkpoint on sentence pairs; losses are teacher-forced, in nats.

    `copying` adds the scores of core.data.names.copied, for the generated corpus `names`. Raises
    ValueError if there is nothing to score, or if a sentence is too long.
    """
    import sacrebleu

    started = time.perf_counter()
    references = [plain(target, checkpoint.target_tokenizer) for _, target in pairs]
    if not pairs:
        raise ValueError("there are no sentence pairs to score: give at least one")
    for side, wanted in enumerate(("source to translate", "translation to score against")):
        if not any(pair[side].strip() for pair in pairs):
            raise ValueError(
                f"the {('sources', 'references')[side]} of all {len(pairs):,} pairs are empty: "
                f"give a {wanted}"
            )
    ids = list(encode_pairs(pairs, checkpoint.source_tokenizer, checkpoint.target_tokenizer))
    refuse_long(ids, checkpoint.card.model.max_length)
    with progress_bar(len(ids)) as on_progress:
        sources = [source[:-1] for source, _ in ids]
        forced = checkpoint.target_tokenizer.frame.forced
        results = translate_ids(
            checkpoint.model, sources, decode, device, on_progress=on_progress, forced=forced
        )
    outputs = [checkpoint.target_tokenizer.decode(list(h[0].ids)) for h in results]
    bleu = sacrebleu.metrics.BLEU()
    score = bleu.corpus_score(outputs, [references])
    tokenised = sacrebleu.metrics.BLEU(tokenize="none", force=True)
    language = checkpoint.card.target_language
    tokenised_outputs, tokenised_references = (
        lc_norm_tok(lines, language) for lines in (outputs, references)
    )
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
        "exact_match": round(sum(map(str.__eq__, outputs, references)) / len(pairs), 4),
        "chrf": round(sacrebleu.corpus_chrf(outputs, [references]).score, 2),
        "loss_per_token": round(loss, 4),
        "bits_per_char": round(loss * tokens / characters / math.log(2), 4),
        "seconds": round(time.perf_counter() - started, 1),
        **(names.copied(pairs, outputs) if copying else {}),
    }


def refuse_long(pairs: list[Pair], limit: int) -> None:
    """Raise ValueError for the first pair with a side of more than `limit` tokens."""
    for number, pair in enumerate(pairs, start=1):
        if (longest := max(map(len, pair))) > limit:
            raise ValueError(
                f"pair {number} has {longest} tokens with <eos>: the limit is {limit}, "
                "leave it out or shorten it"
            )


def lc_norm_tok(lines: list[str], language: str) -> list[str]:
    """Lower-case, normalise punctuation and tokenise, as papers on Multi30k do before scoring.

    Follows the corpus's own preparation: it reproduces every line of the published `lc.norm.tok`
    files of test_2016_flickr, and all lines but one of the German validation file.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True) for line in lines
    ]
