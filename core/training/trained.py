"""What a run has from networks trained before it: vocabulary and weights, or further text.

Further text is data diversification (Nguyen et al. 2020): what a network of the same direction
writes for each source, and what one of the other direction writes for each target, stand beside the
real pairs.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from core.checkpoint.folder import Checkpoint, load
from core.config import DecodeConfig
from core.data.text_files import stream_lines
from core.files import write_atomic
from core.model.baseline import copy_weights
from core.model.build import Model
from core.model.transformer import Transformer
from core.search.many import translate_ids
from core.text.tokenizer import Tokenizer
from core.training.data import TextPairs
from core.training.distributed import Processes
from core.training.wider import WIDTHS, may_grow, widen

_BLOCK = 5000  # sentences translated at once


def tokenizers_of(start: Checkpoint, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]:
    """A checkpoint's tokenizers for a run from one language to another.

    Raises ValueError if it is not for these languages, or has a table for each and is turned round.
    """
    card = start.card
    both = start.source_tokenizer, start.target_tokenizer
    if card.direction == "-".join(languages):
        return both
    if card.direction == "-".join(reversed(languages)) and card.model.share_embeddings:
        return both[::-1]
    raise ValueError(
        f"{card.folder} translates {card.direction} with "
        f"{'one vocabulary' if card.model.share_embeddings else 'two vocabularies'}: "
        f"start {'-'.join(languages)} from a checkpoint of that direction"
    )


def take_over(start: Checkpoint, model: Model, architecture: str) -> None:
    """Copy a checkpoint's weights, or `widen` them. Raises ValueError if its shape fits neither.

    Dropout may be another.
    """
    card, wanted = start.card, model.config
    free = {"dropout": wanted.dropout, "attention_dropout": wanted.attention_dropout}
    wider = may_grow(card.model, wanted)
    if wider:
        free |= {name: getattr(wanted, name) for name in WIDTHS}
    found = {"architecture": card.architecture, **replace(card.model, **free).to_json()}
    for name, value in {"architecture": architecture, **wanted.to_json()}.items():
        if found[name] != value:
            raise ValueError(
                f"{card.folder} has {name} {found[name]}, and the recipe {value}: "
                "choose the recipe and the model that the checkpoint was made with"
            )
    if not wider:
        model.load_state_dict(start.model.state_dict())
    else:  # the names of the scratch model's weights are those that `widen` knows
        narrow, wide = Transformer(card.model), Transformer(wanted)
        copy_weights(start.model, narrow)
        copy_weights(model, wide)
        widen(narrow, wide)
        copy_weights(wide, model)


@dataclass(frozen=True)
class Teacher:
    """A checkpoint that translates training text, maybe against the direction that is trained."""

    checkpoint: Checkpoint
    backwards: bool
    device: str

    @classmethod
    def of(cls, folder: Path, languages: tuple[str, str], device: str) -> "Teacher":
        """Load one for a run from one language to another.

        Raises ValueError if it translates between others, CheckpointError if it cannot be used.
        """
        checkpoint = load(folder, device)
        directions = {"-".join(languages): False, "-".join(reversed(languages)): True}
        direction = checkpoint.card.direction
        if direction not in directions:
            raise ValueError(
                f"{folder} translates {direction}: a teacher must translate "
                f"{' or '.join(directions)}"
            )
        return cls(checkpoint, directions[direction], device)

    def add(self, pairs: TextPairs, folder: Path, processes: Processes) -> "Taught":
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
        return Taught(pairs, made, self.backwards)

    def _texts(self, pairs: TextPairs) -> Iterator[str]:
        return (pair[self.backwards] for pair in pairs)

    def _translations(self, pairs: TextPairs, at_work: Callable[[], object]) -> Iterator[str]:
        """A line for each pair, blank for a text longer than the teacher's positions.

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
class Taught:
    """Pairs with one side by a teacher, line i of a file beside pair i; read anew each time."""

    pairs: TextPairs
    made: Path
    backwards: bool

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for (source, target), line in zip(self.pairs, stream_lines(self.made), strict=True):
            yield (line, target) if self.backwards else (source, line)
