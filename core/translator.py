"""The Translator: text, at most 500 characters, to translation or record; it owns the model."""

import dataclasses
import math
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import Literal, Self, overload

import torch
from torch import Tensor

from core.accelerate.network import accelerate
from core.analysis.quality_warnings import QualityWarnings, warnings_about
from core.checkpoint.folder import Card, Checkpoint, CheckpointError
from core.checkpoint.folder import load as load_checkpoint
from core.checkpoint.head_means import HeadMeans, load_means
from core.config import DecodeConfig
from core.data.corpora import LANGUAGES
from core.device import DeviceLock, pick_device, torch_defaults
from core.model.baseline import copy_weights
from core.model.build import Model, build
from core.model.interface import Seq2Seq
from core.record.checks import check
from core.record.editing import Means, edited, limits_of
from core.record.edits import EditError, Edits
from core.record.record import (
    MAX_RECORD_TOKENS,
    RecordHypothesis,
    RecordToken,
    TranslationRecord,
    check_size,
)
from core.record.teacher_forced import (
    Asked,
    TeacherForcedPass,
    batches,
    teacher_forced_pass,
    teacher_forced_passes,
)
from core.search.beam import Hypothesis, search
from core.search.many import translate_ids
from core.search.tree import WrittenTree, search_tree
from core.text.texts import list_of_texts, one_text
from core.text.tokenizer import BOS, EOS, PAD, Token, Tokenizer, normalise, special

_SHIPPED = Path(__file__).parents[1] / "checkpoints"
MAX_CHARACTERS = 500  # of a text to inspect
MAX_TOKENS = 100
_MOST_HYPOTHESES = 16  # the widest beam
_SURROGATE = re.compile("[\ud800-\udfff]")

Side = Literal["source", "target"]


class InputError(ValueError):
    """A text that is not translated; the message is one line: what, the limit, what to do."""


@dataclass(frozen=True)
class Translation:
    """A translated text and the hypotheses behind it, best first."""

    source: str
    text: str
    hypotheses: tuple[Hypothesis, ...]

    @property
    def log_prob(self) -> float:
        """Log-probability of the translation with its <eos>, in nats."""
        return self.hypotheses[0].log_prob


def load(name: str | Path, device: str = "auto") -> "Translator":
    """Load a translator by the name of a shipped checkpoint, or from a folder.

    Raises CheckpointError for a name or folder that does not exist or does not verify, and
    ValueError for an unknown device.
    """
    folder = Path(name)
    if not folder.is_dir() and folder.name == str(name):
        folder = _SHIPPED / folder
        if not folder.is_dir():
            names = sorted(f.name for f in _SHIPPED.glob("*/") if (f / "config.json").is_file())
            raise CheckpointError(
                f"{str(name)[:80]!r} is not a folder or a shipped checkpoint: "
                f"choose {', '.join(names)}"
            )
    return Translator.load(folder, device)


@dataclass(frozen=True)
class _Task:
    """A text in its normal form, its tokens, and those of its target if one is given."""

    text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...] | None


class Translator:
    """One model behind one lock: hooks are process-wide, and pages run in many threads."""

    def __init__(self, checkpoint: Checkpoint, device: str):
        self.card: Card = checkpoint.card
        self.device = device
        self._model: Model = checkpoint.model
        self._source: Tokenizer = checkpoint.source_tokenizer
        self._target: Tokenizer = checkpoint.target_tokenizer
        self._lock = DeviceLock(device)
        self._head_means: HeadMeans | None = None

    @classmethod
    def load(cls, folder: Path | str, device: str = "auto") -> Self:
        """Load a checkpoint folder; device is "auto" or a name such as "cuda:1".

        Raises CheckpointError, and ValueError for a device that is not here.
        """
        device = pick_device(device)
        return cls(load_checkpoint(folder, device), device)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Path, str, str]]:
        """Pickle and copy by loading the folder again, so that another process can."""
        return _loaded_again, (self.card.folder, self.device, self.card.architecture)

    def __repr__(self) -> str:
        card = self.card
        languages = " → ".join(LANGUAGES[x] for x in (card.source_language, card.target_language))
        return (
            f"Translator({card.folder.name}, {languages}, {card.architecture}, "
            f"{card.parameters:,} weights, {self.device})"
        )

    def other_implementation(self) -> Self:
        """The other architecture with the same weights: what it shows must be what this shows."""
        other = {"scratch": "baseline", "baseline": "scratch"}[self.card.architecture]
        with torch_defaults(self.device):
            network = build(other, self.card.model).to(self.device, torch.float32).eval()
            copy_weights(self._model, network)
        accelerate(network)
        card = dataclasses.replace(self.card, architecture=other)
        checkpoint = Checkpoint(card, network, self._source, self._target)
        return type(self)(checkpoint, self.device)

    @overload
    def translate(
        self,
        texts: str,
        decode: DecodeConfig | None = None,
        batch_tokens: int = 2048,
        on_progress: Callable[[int], object] = lambda count: None,
        *,
        beam: int | None = None,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: Iterable[str],
        decode: DecodeConfig | None = None,
        batch_tokens: int = 2048,
        on_progress: Callable[[int], object] = lambda count: None,
        *,
        beam: int | None = None,
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        decode: DecodeConfig | None = None,
        batch_tokens: int = 2048,
        on_progress: Callable[[int], object] = lambda count: None,
        *,
        beam: int | None = None,
    ) -> Translation | list[Translation]:
        """Translate one text, or several in their order; an empty one stays empty.

        Several may be any iterable: a list, a generator, a pandas Series, an open file. `beam=5` is
        short for `decode=DecodeConfig(beam=5)`. `on_progress` is called after each batch with the
        number of newly translated texts; other threads may acquire the model between batches.

        Raises, before any work, InputError for a text longer than the model's positions, TypeError
        for anything but texts and settings, and ValueError for a beam that is out of range.
        """
        settings = _settings(decode, beam)
        if isinstance(texts, str):
            return self.translate([texts], settings, batch_tokens, on_progress)[0]
        texts = list_of_texts(texts, "translate")
        encoded = self._encoded(texts, 1)
        found = translate_ids(
            self._model, encoded, settings, self.device, batch_tokens, on_progress, self._lock
        )
        return [
            Translation(text, self._target.decode(list(best.ids)), (best, *rest))
            for text, (best, *rest) in zip(texts, found, strict=True)
        ]

    def quality_warnings(self, translation: Translation) -> QualityWarnings:
        """Return the reasons to doubt a translation of this network's, as the page shows them."""
        tokens = self._tokenised(translation.source, "source")
        best = translation.hypotheses[0]
        return warnings_about(
            normalise(translation.source),
            translation.text,
            LANGUAGES[self.card.source_language],
            tuple(token.text for token in tokens if token.unknown),
            math.exp(best.log_prob / len(best.ids)) if tokens else 1.0,
        )

    def count_tokens(self, texts: Iterable[str], first: int = 1) -> list[int]:
        """How many tokens of each text `translate` feeds, <eos> apart; they may be empty.

        Raises InputError for one that it would refuse, by its number from `first` on.
        """
        return [len(ids) for ids in self._encoded(list_of_texts(texts, "count_tokens"), first)]

    def _encoded(self, texts: Sequence[str], first: int) -> list[list[int]]:
        limit, found = self.card.model.max_length - 1, []
        for number, text in enumerate(texts, start=first):
            try:
                found.append([t.id for t in self._tokenised(text, "source")])
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
            if len(found[-1]) > limit:
                raise InputError(
                    f"sentence {number} has {len(found[-1])} tokens: the limit is {limit}, "
                    "shorten it"
                )
        return found

    @contextmanager
    def exclusive_model(
        self, raise_if_cancelled: Callable[[], object] = lambda: None
    ) -> Generator[Seq2Seq]:
        """Context manager giving exclusive access to the model; other threads wait.

        `raise_if_cancelled` is polled while waiting; an exception from it cancels the wait.
        """
        self._lock.acquire(raise_if_cancelled)
        try:
            yield self._model
        finally:
            self._lock.release()

    @contextmanager
    def model_for(
        self, record: TranslationRecord, raise_if_cancelled: Callable[[], object] = lambda: None
    ) -> Generator[Seq2Seq]:
        """Exclusive access to the model that made a record, with the record's edits applied.

        Raises ValueError, in one line, for a record of other weights, or one whose edits are lost.
        """
        try:
            self._check_own(record)
            means = self._means(record.edits)
        except ValueError as error:
            raise ValueError(f"this record cannot be asked about here: {error}") from None
        with self.exclusive_model(raise_if_cancelled), edited(self._model, record.edits, means):
            yield self._model

    def tokens(self, text: str, side: Side) -> tuple[RecordToken, ...]:
        """What one side is fed of a text, <eos> included. Raises InputError if it is too long."""
        return _record_tokens(self._within_limits(text, side))

    def target_tokens(self, ids: Sequence[int]) -> tuple[RecordToken, ...]:
        """The tokens of ids of the target's vocabulary, as a record shows them.

        Raises ValueError for an id that is not there.
        """
        return _record_tokens(tuple(self._target.token(int(id)) for id in ids))

    def search_tree(
        self,
        source: str,
        *,
        decode: DecodeConfig = DecodeConfig(),
        prefix: tuple[int, ...] = (),
        edits: Edits = Edits(),
    ) -> WrittenTree:
        """The whole search behind a translation; it follows the target ids of `prefix` first.

        Raises InputError for an empty or over-long text, ValueError for an impossible prefix, and
        both InputError and EditError for edits as `inspect` does.
        """
        source_ids = [t.id for t in self._task(source, edits=edits).source]
        means = self._means(edits)
        with self._lock, edited(self._model, edits, means):
            ids = torch.tensor([source_ids], device=self.device)
            tree = search_tree(self._model, ids, decode, prefix)
        used = {node.id for node in tree.nodes}
        used |= {id for node in tree.nodes for id, _ in node.next}
        tokens = {id: self._target.token(id) for id in used}
        texts = tuple(self._target.decode(list(h.ids)) for h in tree.hypotheses)
        return WrittenTree(tree, tokens, texts)

    def continuation(self, text: str) -> tuple[int, ...]:
        """The target ids of a typed text that goes on from others; a comma stays close to them.

        Raises InputError for an over-long text.
        """
        first, *rest = self._within_limits(text, "target")
        lone_boundary = not first.text and rest[:-1]
        return tuple(t.id for t in (rest if lone_boundary else [first, *rest]))[:-1]

    @overload
    def inspect(
        self,
        source: str,
        target: str | None = None,
        edits: Edits = Edits(),
        *,
        decode: DecodeConfig | None = None,
        beam: int | None = None,
        target_ids: Sequence[int] | None = None,
        activations: bool = False,
    ) -> TranslationRecord: ...
    @overload
    def inspect(
        self,
        source: Iterable[str],
        target: Iterable[str] | None = None,
        edits: Edits = Edits(),
        *,
        decode: DecodeConfig | None = None,
        beam: int | None = None,
        activations: bool = False,
    ) -> list[TranslationRecord]: ...
    def inspect(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str] | None = None,
        edits: Edits = Edits(),
        *,
        decode: DecodeConfig | None = None,
        beam: int | None = None,
        target_ids: Sequence[int] | None = None,
        activations: bool = False,
    ) -> TranslationRecord | list[TranslationRecord]:
        """Translate `source` and record every map; with a `target`, record that one instead.

        `target_ids` give the target as token ids, with or without <eos>: for prefixes that are not
        a text of their own. `beam=5` is short for `decode=DecodeConfig(beam=5)`. `activations`
        also captures hidden states and scores (see `core.record.hidden_states`). Several sources,
        with as many targets or none, return a list of records: see `inspect_many`.

        Both the search and the recorded pass run under `edits`. The record carries its checks.
        Raises InputError for an empty or over-long text, for ids that cannot be a target and for
        edits that hide every source token; EditError for edits that do not apply to the model or
        the sentence; TypeError for arguments of another type.
        """
        decode = _settings(decode, beam)
        if not isinstance(edits, Edits):
            hint = ": Edits.parse returns (edits, problems), pass the first"
            raise TypeError(
                f"edits must be an Edits, not {type(edits).__name__}"
                + (hint if isinstance(edits, tuple) else "")
            )
        if not isinstance(source, str):
            if target_ids is not None:
                raise TypeError("target_ids go with one source: call inspect for each sentence")
            sources = list_of_texts(source, "inspect")
            return self.inspect_many(sources, target, edits, decode=decode, activations=activations)
        given = None if target is None else one_text(target, "target")
        task = self._task(source, given, target_ids, edits)
        means = self._means(edits)
        with self._lock:
            hypotheses: list[Hypothesis] = []
            if task.target is None:
                ids = torch.tensor([[t.id for t in task.source]], device=self.device)
                with edited(self._model, edits, means):
                    hypotheses = search(self._model, ids, decode)[0]
            asked = self._asked(task, hypotheses)
            (seen,) = teacher_forced_passes(self._model, [asked], edits, activations, means)
        return self._record(task, asked, seen, hypotheses, decode, edits)

    def inspect_many(
        self,
        sources: Iterable[str],
        targets: Iterable[str] | None = None,
        edits: Edits = Edits(),
        *,
        decode: DecodeConfig | None = None,
        beam: int | None = None,
        activations: bool = False,
        batch_tokens: int = 2048,
        on_progress: Callable[[int], object] = lambda count: None,
    ) -> list[TranslationRecord]:
        """`inspect` of many sentences, in their order: searched and recorded in padded batches.

        Each record has the same tokens, hypotheses, masks and positions as from `inspect`, and
        every check is made. Weights and probabilities differ in the last digits, because sums are
        taken in another order; hypotheses can change places only when their scores are that close.
        A batch has at most `batch_tokens` padded tokens, hypotheses included, which bounds the
        memory needed besides the records. Under `edits`, sentences are taken one by one.
        `on_progress` is called after each batch with the number of new records; other threads may
        acquire the model between batches.

        Sources and targets are paired by their order, whatever index a pandas Series has. Raises,
        before any work, InputError with the sentence's number, TypeError for anything but texts,
        and ValueError for different numbers of them.
        """
        decode = _settings(decode, beam)
        sources = list_of_texts(sources, "inspect_many")
        given: list[str | None] = [None] * len(sources)
        if targets is not None:
            given = [*list_of_texts(targets, "inspect_many")]
        if len(given) != len(sources):
            raise ValueError(
                f"{len(sources)} sources and {len(given)} targets: give each source its target"
            )
        tasks = []
        for number, (source, target) in enumerate(zip(sources, given, strict=True), start=1):
            try:
                tasks.append(self._task(source, target, edits=edits))
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
        if edits != Edits():
            records = []
            for source, target in zip(sources, given, strict=True):
                records.append(
                    self.inspect(source, target, edits, decode=decode, activations=activations)
                )
                on_progress(1)
            return records
        found: list[list[Hypothesis]] = [[] for _ in tasks]
        if targets is None:
            ids = [[t.id for t in task.source[:-1]] for task in tasks]
            found = translate_ids(
                self._model, ids, decode, self.device, batch_tokens, lock=self._lock
            )
        every = [self._asked(task, own) for task, own in zip(tasks, found, strict=True)]
        by_number: dict[int, TranslationRecord] = {}
        for batch in batches(every, batch_tokens):
            with self._lock:
                seen = teacher_forced_passes(
                    self._model, [every[i] for i in batch], activations=activations
                )
            for i, own in zip(batch, seen, strict=True):
                by_number[i] = self._record(tasks[i], every[i], own, found[i], decode)
            on_progress(len(batch))
        return [by_number[i] for i in range(len(tasks))]

    def _task(
        self,
        source: str,
        target: str | None = None,
        target_ids: Sequence[int] | None = None,
        edits: Edits = Edits(),
    ) -> "_Task":
        """What is asked for, in tokens. Raises InputError, before any work."""
        source_tokens = self._within_limits(source, "source")
        if len(source_tokens) == 1:
            raise InputError("nothing to translate: type a sentence")
        if target is None and target_ids is None and not edits.causal_mask:
            raise InputError("nothing can be searched without the causal mask: give a target")
        if set(range(len(source_tokens))) <= set(edits.hidden_source):
            raise InputError("every source token is masked away: leave at least one open")
        if problems := edits.fitting(limits_of(self._model, len(source_tokens)))[1]:
            raise EditError(problems[0])
        given = None
        if target is not None:
            if target_ids is not None:
                raise InputError("two targets are given: leave out target or target_ids")
            given = self._within_limits(target, "target")
        elif target_ids is not None:
            given = self._named(target_ids)
        return _Task(normalise(source), source_tokens, given)

    def fitting(self, edits: Edits, source: str) -> tuple[Edits, list[str]]:
        """The edits that this network and a source text can have, and a line for each other one.

        Raises InputError for an over-long text.
        """
        tokens = self._within_limits(source, "source")
        kept, problems = edits.fitting(limits_of(self._model, len(tokens)))
        try:
            self._means(kept)
        except EditError as error:
            kept = dataclasses.replace(kept, heads_mean=frozenset())
            problems.append(str(error))
        return kept, problems

    def _means(self, edits: Edits) -> Means | None:
        """What heads at their mean add, read when it is first needed. Raises EditError."""
        if not edits.heads_mean:
            return None
        if self._head_means is None:
            try:
                self._head_means = load_means(self.card.folder, self.card.model, self.device)
            except CheckpointError as error:
                raise EditError(str(error)) from None
        return self._head_means.parts

    def _asked(self, task: "_Task", hypotheses: list[Hypothesis]) -> Asked:
        """The ids to be fed: the given target, or the best of the hypotheses."""
        target = hypotheses[0].ids if task.target is None else [t.id for t in task.target]
        self._check_size(len(task.source), len(target))
        return Asked([t.id for t in task.source], target, [h.ids for h in hypotheses])

    def _check_size(self, source: int, target: int) -> None:
        """Raises InputError for more tokens than this network's maps can be recorded of."""
        model = self.card.model
        layers = model.num_encoder_layers, model.num_decoder_layers
        try:
            check_size(layers, model.num_heads, source, target)
        except ValueError as error:
            raise InputError(str(error)) from None

    def _record(
        self,
        task: "_Task",
        asked: Asked,
        seen: TeacherForcedPass,
        hypotheses: list[Hypothesis],
        decode: DecodeConfig,
        edits: Edits = Edits(),
    ) -> TranslationRecord:
        """The record of one pass, with its checks."""
        target = task.target or tuple(self._target.token(id) for id in asked.target)
        found = {f.name: getattr(seen, f.name) for f in dataclasses.fields(seen)}
        arrays = {
            name: value.cpu().numpy().copy()
            for name, value in found.items()
            if isinstance(value, Tensor)
        }
        alternatives = arrays.pop("alternatives")
        try:
            record = TranslationRecord(
                **arrays,
                model=self.card.folder.name,
                weights_sha256=self.card.weights_sha256,
                source_language=LANGUAGES[self.card.source_language],
                target_language=LANGUAGES[self.card.target_language],
                decode=decode if task.target is None else None,
                source_text=task.text,
                translation=self._target.decode([t.id for t in target]),
                source=_record_tokens(task.source),
                target_in=_record_tokens((special(BOS), *target[:-1])),
                target_out=_record_tokens(target),
                alternatives=tuple(
                    _record_tokens(tuple(self._target.token(int(id)) for id in row))
                    for row in alternatives
                ),
                hypotheses=tuple(
                    RecordHypothesis(self._target.decode(list(h.ids)), h.ids, h.log_prob, h.score)
                    for h in hypotheses
                ),
                activations=seen.activations,
                edits=edits,
            )
        except ValueError as error:  # of strange weights: one masked cell with a weight is enough
            raise InputError(f"what the network does here cannot be recorded: {error}") from None
        checks = check(record, seen.evidence, (self._source, self._target), edits)
        return dataclasses.replace(record, checks=checks)

    def recheck(self, record: TranslationRecord) -> TranslationRecord:
        """The record with its checks made anew from these weights, for a file may have been edited.

        A record that holds its edits is checked under them. Raises ValueError, in one line, for
        what cannot be checked here: a record of other weights, under another name, made under edits
        that it does not hold, or with tokens that the model cannot be fed.
        """
        self._check_own(record)
        source, target = ([t.id for t in side] for side in (record.source, record.target_out))
        self._check_size(len(source), len(target))
        hypotheses = [h.ids for h in record.hypotheses]
        edits, means = record.edits, self._means(record.edits)
        with self._lock:
            seen = teacher_forced_pass(self._model, source, target, edits, hypotheses, means=means)
        tokenizers = self._source, self._target
        return dataclasses.replace(record, checks=check(record, seen.evidence, tokenizers, edits))

    def _check_own(self, record: TranslationRecord) -> None:
        """Raises ValueError, in one line, for a record that these weights cannot make again."""
        card = self.card
        if record.weights_sha256 != card.weights_sha256:
            raise ValueError(f"it was made with other weights than those of {card.folder.name}")
        languages = LANGUAGES[card.source_language], LANGUAGES[card.target_language]
        named = (record.model, record.source_language, record.target_language)
        if named != (card.folder.name, *languages):
            itself = " ".join(", ".join(named).split())[:200]  # a file may say anything
            raise ValueError(
                f"it names itself {itself}: these weights are "
                f"{', '.join((card.folder.name, *languages))}"
            )
        if record.edited and record.edits == Edits():
            raise ValueError("it was made under edits, which its file does not hold")
        source, target = ([t.id for t in side] for side in (record.source, record.target_out))
        hypotheses = [h.ids for h in record.hypotheses]
        candidates = [t.id for row in record.alternatives for t in row]
        fed = [t.id for t in record.target_in]
        model = self.card.model
        if len(hypotheses) > _MOST_HYPOTHESES:
            raise ValueError(f"it holds {len(hypotheses)} hypotheses: no search keeps so many")
        for ids in (source, target, *hypotheses):
            if not 1 <= len(ids) <= model.max_length:
                raise ValueError(f"one of its texts has {len(ids)} tokens: {model.max_length} fit")
        if (each := len(record.alternatives[0])) > model.target_vocab_size:
            raise ValueError(f"it holds {each:,} alternatives a step: no vocabulary has so many")
        written = [*fed, *target, *candidates, *(id for ids in hypotheses for id in ids)]
        for ids, size in ((source, model.source_vocab_size), (written, model.target_vocab_size)):
            if odd := [id for id in ids if not 0 <= id < size]:
                raise ValueError(f"it holds the token id {odd[0]}: the vocabulary has {size:,}")

    def _within_limits(self, text: str, side: Side) -> tuple[Token, ...]:
        """Tokens of one side's text, <eos> included, as many as are drawn and the model allows.

        A long one is refused by its characters first, which costs nothing.
        """
        if len(one_text(text, side)) > MAX_CHARACTERS:
            raise InputError(
                f"{len(text):,} characters are too many: the limit is {MAX_CHARACTERS}, "
                "try one sentence at a time"
            )
        tokens = self._tokenised(text, side)
        limit = min(MAX_TOKENS, self.card.model.max_length - 1)
        if len(tokens) > limit:
            raise InputError(
                f"{len(tokens)} tokens are too many: the limit is {limit}, "
                "try one sentence at a time"
            )
        return (*tokens, special(EOS))

    def _tokenised(self, text: str, side: Side) -> tuple[Token, ...]:
        """Raises InputError for half a surrogate pair, which stands for no character."""
        if half := _SURROGATE.search(text):
            raise InputError(
                f"character {half.start() + 1} is half a surrogate pair (U+{ord(half[0]):04X}), "
                "which is no text: delete it"
            )
        return (self._source if side == "source" else self._target).encode(text)

    def _named(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """The tokens of given target ids. Raises InputError for what no search could write."""
        ids = tuple(ids)
        limit = min(MAX_RECORD_TOKENS, self.card.model.max_length)
        size = self.card.model.target_vocab_size
        if not ids:
            raise InputError("no target ids are given: give at least one, such as 2 for <eos>")
        if len(ids) > limit:
            raise InputError(f"{len(ids)} target ids are too many: the limit is {limit}")
        for place, id in enumerate(ids):
            if isinstance(id, bool) or not isinstance(id, Integral) or not 0 <= id < size:
                raise InputError(
                    f"target id {id!r} is not in the vocabulary: choose from {EOS} to {size - 1}"
                )
            if id in (PAD, BOS) or (id == EOS and place < len(ids) - 1):
                raise InputError(
                    f"target id {id} ({special(id).piece}) cannot stand at place {place}: "
                    "leave <pad> and <bos> out, and <eos> for the end"
                )
        return tuple(self._target.token(int(id)) for id in ids)


def _settings(decode: DecodeConfig | None, beam: int | None) -> DecodeConfig:
    """Return the settings of a search from either argument. Raises TypeError and ValueError."""
    if decode is not None and not isinstance(decode, DecodeConfig):
        hint = f": write beam={decode}" if isinstance(decode, int) else ""
        raise TypeError(f"decode must be a DecodeConfig, not {type(decode).__name__}{hint}")
    if beam is None:
        return decode or DecodeConfig()
    if decode is not None:
        raise TypeError("decode and beam are both given: leave out one")
    return DecodeConfig(beam=beam)


def _loaded_again(folder: Path, device: str, architecture: str) -> Translator:
    found = Translator.load(folder, device)
    return found if found.card.architecture == architecture else found.other_implementation()


_of_token = attrgetter(*(field.name for field in dataclasses.fields(RecordToken)))


def _record_tokens(tokens: tuple[Token, ...]) -> tuple[RecordToken, ...]:
    return tuple(RecordToken(*_of_token(token)) for token in tokens)
