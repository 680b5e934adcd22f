"""One network on which claims are tested: its text, its gold alignments, and its measured sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.atlas.build import Work
from core.atlas.corpus import CHUNK, Corpus, Line
from core.atlas.shards import Measure
from core.atlas.sums import Sums
from core.checkpoint.folder import Checkpoint


@dataclass(eq=False)
class Network:
    """A network, a corpus tokenised for it, and gold alignments of another corpus, if any.

    `frequencies` says how often each source token occurs in the training data, by id.
    `other` is the network of the same direction in the other implementation. Only the first of two
    such networks has an `other`, so that a pair is measured once.
    """

    checkpoint: Checkpoint
    text: Corpus
    work: Work
    frequencies: Mapping[int, int]
    gold: Corpus | None = None
    other: Network | None = None
    _measured: dict[str, Sums] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the network's folder."""
        return self.checkpoint.card.folder.name

    def measured(
        self, measure: Measure, lines: Sequence[Line] | None = None, size: int = CHUNK
    ) -> Sums:
        """Return the sums of a measure over `lines`, by default the whole text; cached."""
        chosen = self.text.lines if lines is None else lines
        key = f"{measure!r} {[line.index for line in chosen]} {size} {lines is None}"
        if key not in self._measured:
            folder = self.checkpoint.card.folder
            self._measured[key] = self.work.partial.measured(
                measure, folder, chosen, self.work.run, self.work.on_progress, size
            )
        return self._measured[key]
