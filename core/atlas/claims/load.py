"""Load the networks on which claims are tested, with their texts and gold alignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from core.analysis.alignment import Gold, read_gold
from core.atlas.aligners import check_gold
from core.atlas.build import Work
from core.atlas.claims.network import Network
from core.atlas.corpus import Corpus, corpus
from core.atlas.partial import Partial
from core.atlas.shards import Runner, in_process, in_processes
from core.checkpoint.folder import Checkpoint, load
from core.data.corpora import LANGUAGES, read_pairs
from core.data.text_files import LinePairs, read_lines

NETWORKS = (
    *("scratch-de-en", "baseline-de-en", "scratch-en-de", "baseline-en-de"),
    *("captions-de-en", "captions-en-de"),
)
"""Both implementations in both directions, and networks trained on captions alone."""
CORPUS, SPLIT, TRAINING = "multi30k", "val", "train"


@dataclass(frozen=True)
class GoldFile:
    """A file of manual alignments of German-English pairs, and how its links are written.

    Its texts are in the same folder, in files of the same name that end in .de and .en. A link
    names the German word first, unless `english_first`.
    """

    file: Path
    one_based: bool = False
    english_first: bool = False

    def read(self, checkpoint: Checkpoint) -> Corpus:
        """Read texts and alignments in a network's direction. Raises ValueError and OSError."""
        card = checkpoint.card
        sides = (
            self.file.with_suffix(f".{x}") for x in (card.source_language, card.target_language)
        )
        pairs = list(LinePairs(*sides))
        target_first = (card.target_language == "de") != self.english_first
        links: list[Gold] = read_gold(
            read_lines(self.file), len(pairs), str(self.file), self.one_based, target_first
        )
        aligned = corpus(checkpoint, pairs, links)
        check_gold(checkpoint, aligned)
        return aligned


def runner(checkpoints: Sequence[Checkpoint], shards: int) -> AbstractContextManager[Runner]:
    """Return a context manager with a runner: in this process, or in `shards` processes if > 1."""
    if shards > 1:
        return in_processes(shards)
    loaded = {checkpoint.card.folder: in_process(checkpoint) for checkpoint in checkpoints}
    return nullcontext(lambda measure, folder, chunks: loaded[folder](measure, folder, chunks))


def load_checkpoints(
    root: Path, device: str = "cpu", names: Sequence[str] = NETWORKS
) -> list[Checkpoint]:
    """Load the networks. Raises ValueError for a missing or invalid folder."""
    return [load(root / name, device) for name in names]


def networks_of(
    checkpoints: Sequence[Checkpoint],
    data: Path | None,
    gold: GoldFile | None,
    run: Runner,
    unfinished: Path | None = None,
    first: int | None = None,
) -> list[Network]:
    """Return the networks with their texts; `first` limits each text to its first pairs.

    Unfinished sums are kept in the folder `unfinished`. Raises ValueError and OSError for missing
    texts, for gold that does not fit its text, and for languages other than German and English.
    """
    networks = []
    for checkpoint in checkpoints:
        card = checkpoint.card
        languages = card.source_language, card.target_language
        if set(languages) != set(LANGUAGES):
            raise ValueError(
                f"{card.folder} translates {card.direction}: the claims are tested between German "
                "and English"
            )
        text = corpus(checkpoint, read_pairs(CORPUS, SPLIT, *languages, data)[:first])
        identity = f"{card.weights_sha256} {text.source_sha256} {text.target_sha256}"
        aligned = None if gold is None else gold.read(checkpoint)
        if aligned is not None:
            identity += f" {aligned.source_sha256} {aligned.target_sha256} {gold}"
        work = Work(run, Partial(unfinished, identity))
        training = (source for source, _ in read_pairs(CORPUS, TRAINING, *languages, data))
        tokenizer = checkpoint.source_tokenizer
        counts = Counter(token.id for source in training for token in tokenizer.encode(source))
        networks.append(Network(checkpoint, text, work, counts, aligned))
    for i, network in enumerate(networks):
        shape = _shape(network.checkpoint)
        network.other = next((n for n in networks[i + 1 :] if _shape(n.checkpoint) == shape), None)
    return networks


def _shape(checkpoint: Checkpoint) -> tuple[object, ...]:
    """Return what must agree so that heads can be compared: direction, layers, heads, tokens."""
    config = checkpoint.card.model
    sizes = config.num_encoder_layers, config.num_decoder_layers, config.num_heads
    sides = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    return (checkpoint.card.direction, *sizes, *(side.to_json() for side in sides))
