"""Synthetic text: what trained checkpoints translate of the pairs, as data diversification does.

A network of the same direction writes synthetic targets, one of the other direction sources, which
is back-translation; both stand beside the real pairs (Nguyen et al. 2020).
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.checkpoint.folder import Checkpoint, load
from core.config import DecodeConfig
from core.data.text_files import stream_lines
from core.files import write_atomic
from core.search.many import translate_ids
from core.training.data import TextPairs
from core.training.distributed import Processes

_BLOCK = 5000  # sentences translated at once


@dataclass(frozen=True)
class TextMaker:
    """A checkpoint that translates training text: its sources, or its targets."""

    checkpoint: Checkpoint
    backwards: bool
    device: str

    @classmethod
    def of(cls, folder: Path, languages: tuple[str, str], device: str) -> "TextMaker":
        """Load one for a run from one language to another.

        Raises ValueError if it translates between others, CheckpointError if it cannot be used.
        """
        checkpoint = load(folder, device)
        directions = {"-".join(languages): False, "-".join(reversed(languages)): True}
        direction = checkpoint.card.direction
        if direction not in directions:
            raise ValueError(
                f"{folder} translates {direction}: --teachers must translate "
                f"{' or '.join(directions)}"
            )
        return cls(checkpoint, directions[direction], device)

    def add(self, pairs: TextPairs, folder: Path, processes: Processes) -> "SyntheticText":
        """Translate one side of all pairs into a file of `folder`, unless it is there already.

        Of several processes the first one does, and all must see the folder. It tells the others
        after each batch that it is still at work: they would give up after half an hour of silence.
        """
        digest = hashlib.sha256(self.checkpoint.card.weights_sha256.encode())
        for text in self._texts(pairs):
            digest.update(text.encode() + b"\n")
        made = folder / f"{self.checkpoint.card.folder.name}-{digest.hexdigest()[:16]}.txt"
        if processes.first:
            if not made.is_file():
                lines = self._translations(pairs, lambda: processes.broadcast(b"at work"))
                write_atomic(made, "".join(lines).encode())
            processes.broadcast(b"made")
        else:
            while processes.broadcast(b"") != b"made":
                pass
        return SyntheticText(pairs, made, self.backwards)

    def _texts(self, pairs: TextPairs) -> Iterator[str]:
        return (pair[self.backwards] for pair in pairs)

    def _translations(self, pairs: TextPairs, at_work: Callable[[], object]) -> Iterator[str]:
        """A line for each pair, blank for a text longer than the checkpoint's positions.

        `at_work` is called after each batch.
        """
        from tqdm import tqdm

        texts = self._texts(pairs)
        card, model = self.checkpoint.card, self.checkpoint.model
        with tqdm(desc=f"{card.folder.name} translates", unit="sentence") as bar:

            def done(count: int) -> None:
                bar.update(count)
                at_work()

            while block := list(itertools.islice(texts, _BLOCK)):
                rows = [[t.id for t in self.checkpoint.source_tokenizer.encode(x)] for x in block]
                fitting = [row if len(row) < card.model.max_length else [] for row in rows]
                found = translate_ids(model, fitting, DecodeConfig(), self.device, done=done)
                for best, *_ in found:
                    yield self.checkpoint.target_tokenizer.decode(list(best.ids)) + "\n"


@dataclass(frozen=True)
class SyntheticText:
    """Pairs with one side by a checkpoint, line i of a file beside pair i; read anew each time."""

    pairs: TextPairs
    made: Path
    backwards: bool

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for (source, target), line in zip(self.pairs, stream_lines(self.made), strict=True):
            yield (line, target) if self.backwards else (source, line)
