"""Record attention snapshots during training: which steps, which sentences, which metrics."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sacrebleu
import torch

from core.analysis.appearance import role_shares
from core.config import DecodeConfig
from core.data.batches import encode_pairs, pad
from core.kinds import KINDS, Kind
from core.model.build import Model
from core.record.attention_snapshots import FILE, SAMPLE, AttentionSnapshots, Floats, Sentence
from core.record.capture import capture
from core.search.many import translate_ids
from core.text.tokenizer import BOS, Tokenizer
from core.training.loop import validation_loss

TextPair = tuple[str, str]

# (German, English); fixed targets give the same map cells in all snapshots.
SENTENCES: tuple[TextPair, ...] = (
    ("Ein Mann mit einem Hut liest ein Buch.", "A man with a hat is reading a book."),
    ("Zwei Kinder spielen am Strand.", "Two children are playing on the beach."),
    ("Gestern habe ich meine Mutter besucht.", "I visited my mother yesterday."),
    ("Der Hund, der bellt, ist schwarz.", "The dog that is barking is black."),
    ("Ich weiß nicht, wo er wohnt.", "I don't know where he lives."),
    ("Tom hat das rote Auto verkauft.", "Tom has sold the red car."),
)

_EARLY = (0, 50, 100, 200, 400)
_EVEN = 22  # number of evenly spaced steps after the early ones


def snapshot_steps(steps: int) -> frozenset[int]:
    """Return the steps at which to take snapshots: a few early ones, then evenly up to the last."""
    early = [step for step in _EARLY if step < steps]
    even = np.linspace(early[-1], steps, _EVEN + 1)[1:].round().astype(int).tolist()
    return frozenset((*early, *even))


class SnapshotRecorder:
    """Write a run's snapshots to history.npz in its folder; the file is always complete."""

    def __init__(
        self,
        folder: Path,
        languages: tuple[str, str],
        tokenizers: tuple[Tokenizer, Tokenizer],
        validation: list[TextPair],
        steps: int,
        device: str,
        german_english: Sequence[TextPair] = SENTENCES,
    ):
        self._file = folder / FILE
        self._tokenizers = tokenizers
        self._device = device
        self._steps = snapshot_steps(steps)
        pairs = [pair if languages[0] == "de" else pair[::-1] for pair in german_english]
        self._ids = list(encode_pairs(pairs, *tokenizers))
        self._sentences = tuple(self._tokens(*ids) for ids in self._ids)
        chosen = np.linspace(0, len(validation) - 1, min(SAMPLE, len(validation)))
        self._sample = [validation[i] for i in chosen.round().astype(int)]
        self._history: AttentionSnapshots | None = None

    def _tokens(self, source: list[int], target: list[int]) -> Sentence:
        def pieces(tokenizer: Tokenizer, ids: list[int]) -> tuple[str, ...]:
            return tuple(tokenizer.token(id).piece for id in ids)

        of_source, of_target = self._tokenizers
        target_in = [BOS, *target[:-1]]
        return Sentence(
            pieces(of_source, source), pieces(of_target, target_in), pieces(of_target, target)
        )

    def on_start(self, model: Model, step: int) -> None:
        """Start or resume after `step`, dropping later snapshots.

        Raises ValueError if the file is invalid or holds the snapshots of another run.
        """
        if step and self._file.is_file():
            self._history = AttentionSnapshots.load(self._file).until(step)
            if self._history.sentences != self._sentences:
                raise ValueError(
                    f"{self._file} holds the snapshots of another run, with other tokens: delete "
                    "it to start recording from this step"
                )
        if self._history is None or step not in self._history.steps:
            self.on_step(model, step)

    def on_step(self, model: Model, step: int) -> None:
        """Take a snapshot if one is due after this step; keeps the model's mode."""
        if step not in self._steps:
            return
        was_training = model.training
        model.eval()
        snapshot = self._measure(model, step)
        model.train(was_training)
        self._history = snapshot if self._history is None else self._history.append(snapshot)
        self._history.save(self._file)

    def _measure(self, model: Model, step: int) -> AttentionSnapshots:
        maps: dict[str, list[Floats]] = {kind: [] for kind in KINDS}
        for source, target in self._ids:
            ids = pad([source]), pad([[BOS, *target[:-1]]])
            with torch.inference_mode(), capture(model) as captured:
                model(*(side.to(self._device) for side in ids))
            for kind in KINDS:
                maps[kind].append(captured.maps(kind)[:, 0].float().cpu().numpy())
        pairs = list(encode_pairs(self._sample, *self._tokenizers))
        sources = [source[:-1] for source, _ in pairs]
        results = translate_ids(model, sources, DecodeConfig(beam=1), self._device)
        outputs = [self._tokenizers[1].decode(list(best[0].ids)) for best in results]
        bleu = sacrebleu.corpus_bleu(outputs, [[target for _, target in self._sample]]).score
        return AttentionSnapshots(
            sentences=self._sentences,
            steps=np.array([step], np.int32),
            loss=np.array([validation_loss(model, pairs, 2048, self._device)], np.float32),
            bleu=np.array([bleu], np.float32),
            maps={kind: tuple(m[None].astype(np.float16) for m in maps[kind]) for kind in KINDS},
            entropy={kind: entropy_of(kind, maps[kind])[None] for kind in KINDS},
            roles={kind: shares_of(kind, maps[kind])[None] for kind in KINDS},
        )


def entropy_of(kind: str, maps: list[Floats]) -> Floats:
    """Return entropy / uniform entropy, [L, H], averaged over rows with several unmasked keys.

    It is 0 if there is no such row, as when a network writes nothing but <eos>.
    """
    shares = []
    for m in maps:
        Q, K = m.shape[-2:]
        open_Q = np.arange(1, Q + 1) if kind == "decoder" else np.full(Q, K)
        logs = np.log(np.where(m > 0, m, 1.0))
        rows = -(m * logs).sum(-1)[..., open_Q > 1] / np.log(open_Q[open_Q > 1])
        shares.append(rows)
    rows = np.concatenate(shares, axis=-1)
    return np.clip(rows.sum(-1) / max(1, rows.shape[-1]), 0, 1).astype(np.float32)


def shares_of(kind: Kind, maps: list[Floats]) -> Floats:
    """Return the share of each role, [R, L, H], clipped to 0…1 against rounding errors."""
    return np.clip(role_shares(kind, maps), 0, 1).astype(np.float32)
