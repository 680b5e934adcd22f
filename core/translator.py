"""The Translator: turns text into translations and records, and owns the model and its lock."""

import dataclasses
import math
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Self, overload

import torch
from torch import Tensor

from core.accelerate.network import accelerate
from core.analysis.quality_warnings import QualityWarnings, known_marks, warnings_about
from core.checkpoint.folder import Card, Checkpoint, CheckpointError
from core.checkpoint.folder import load as load_checkpoint
from core.checkpoint.head_means import HeadMeans, load_means
from core.checkpoint.lens import Lens, load_lens
from core.config import DecodeConfig
from core.data.corpora import LANGUAGES
from core.device import DeviceLock, pick_device, torch_defaults
from core.model.baseline import copy_weights
from core.model.build import Model, build
from core.model.interface import Seq2Seq
from core.record.checks import check
from core.record.editing import Means, edited, limits_of
from core.record.edits import EditError, Edits, Push, RandomPush
from core.record.record import (
    MAX_RECORD_TOKENS,
    RecordHypothesis,
    RecordToken,
    TranslationRecord,
    check_size,
)
from core.record.states import Jacobians
from core.record.teacher_forced import (
    PassInput,
    TeacherForcedPass,
    plan_batches,
    teacher_forced_passes,
)
from core.search.beam import Hypothesis, search
from core.search.many import translate_ids
from core.search.tree import WrittenTree, search_tree
from core.text.line import encode_source_line, encode_target_line
from core.text.texts import list_of_texts, one_text
from core.text.tokenizer import BOS, EOS, PAD, Token, Tokenizer, special

_SHIPPED = Path(__file__).parents[1] / "checkpoints"
MAX_CHARACTERS = 500  # of an inspected text
MAX_TOKENS = 100
_MAX_HYPOTHESES = 16  # the widest beam
_SURROGATE = re.compile("[\ud800-\udfff]")

Side = Literal["source", "target"]


class InputError(ValueError):
    """Raised for invalid input; the message is one line: problem, limit, remedy."""


@dataclass(frozen=True)
class Translation:
    """A translated text with its hypotheses, best first."""

    source: str
    text: str
    hypotheses: tuple[Hypothesis, ...]

    @property
    def log_prob(self) -> float:
        """Log-probability of the translation including <eos>, in nats."""
        return self.hypotheses[0].log_prob


def load(name: str | Path, device: str = "auto") -> "Translator":
    """Load a translator by the name of a shipped checkpoint, or from a folder.

    Raises CheckpointError for a name or folder that does not exist or fails validation, and
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
    """A normalised text with its tokens, and the tokens of the target if one is given."""

    text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...] | None


class Translator:
    """A model guarded by a lock, because hooks act process-wide and several threads may call it."""

    def __init__(self, checkpoint: Checkpoint, device: str):
        self.card: Card = checkpoint.card
        self.device = device
        self._model: Model = checkpoint.model
        self._source: Tokenizer = checkpoint.source_tokenizer
        self._target: Tokenizer = checkpoint.target_tokenizer
        self._lock = DeviceLock(device)
        self._head_means: HeadMeans | None = None
        self._lens: Lens | None = None

    @classmethod
    def load(cls, folder: Path | str, device: str = "auto") -> Self:
        """Load a checkpoint folder; device is "auto" or a name such as "cuda:1".

        Raises CheckpointError, and ValueError for an unavailable device.
        """
        device = pick_device(device)
        return cls(load_checkpoint(folder, device), device)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...]]:
        """Pickle and copy by reference to the folder, which is loaded again."""
        return _reload, (self.card.folder, self.device, self.card.architecture, *self.card.spoken)

    def __repr__(self) -> str:
        card = self.card
        languages = " → ".join(LANGUAGES[x] for x in (card.source_language, card.target_language))
        return (
            f"Translator({card.title}, {languages}, {card.architecture}, "
            f"{card.parameters:,} weights, {self.device})"
        )

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes that `between` takes, such as deu_Latn; none without language codes."""
        return tuple(self._target.frame.languages)

    @property
    def prefix(self) -> str:
        """The text in front of every source, such as T5's task, which `between` changes."""
        return self._source.frame.prefix

    def between(
        self, source: str | None = None, target: str | None = None, prefix: str | None = None
    ) -> Self:
        """Return this translator for other languages, by their codes, or for another prefix.

        None keeps what it has. Both share the network and its lock. Raises ValueError, in one line,
        for an unknown code.
        """
        changed = type(self)(self.checkpoint.between(source, target, prefix), self.device)
        changed._lock = self._lock
        return changed

    def other_implementation(self) -> Self:
        """Return a translator with the same weights in the other architecture.

        Records of the two must agree.
        """
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
        """Translate one text, or several in their order; an empty text stays empty.

        Several texts may be any iterable: a list, a generator, a pandas Series, an open file.
        `beam=5` is short for `decode=DecodeConfig(beam=5)`. After each batch, `on_progress` is
        called with the number of newly translated texts; other threads may acquire the model
        between batches.

        Raises, before any work, InputError for a text that is too long or is not valid Unicode,
        TypeError for anything but texts and settings, and ValueError for a beam out of range.
        """
        settings = _settings(decode, beam)
        if isinstance(texts, str):
            return self.translate([texts], settings, batch_tokens, on_progress)[0]
        texts = list_of_texts(texts, "translate")
        encoded = self._encoded(texts, 1)
        given = self.device, batch_tokens, on_progress, self._lock, self._forced
        results = translate_ids(self._model, encoded, settings, *given)
        return [
            Translation(text, self._target.decode(list(best.ids)), (best, *rest))
            for text, (best, *rest) in zip(texts, results, strict=True)
        ]

    def quality_warnings(self, translation: Translation) -> QualityWarnings:
        """Return the quality warnings for a translation by this model."""
        tokens = self._tokenised(translation.source, "source")
        best = translation.hypotheses[0]
        return warnings_about(
            translation.source,
            translation.text,
            LANGUAGES[self.card.source_language],
            tuple(token.text for token in tokens if token.unknown),
            math.exp(best.log_prob / len(best.ids)) if tokens else 1.0,
            known_marks(tokens),
        )

    def count_tokens(self, texts: Iterable[str], first: int = 1) -> list[int]:
        """Return the number of tokens of each text, without <eos>; texts may be empty.

        Raises InputError for a text that `translate` would reject, with its number, counted from
        `first`.
        """
        return [len(ids) for ids in self._encoded(list_of_texts(texts, "count_tokens"), first)]

    def _encoded(self, texts: Sequence[str], first: int) -> list[list[int]]:
        limit, encoded = self.card.model.max_length - 1, []
        for number, text in enumerate(texts, start=first):
            try:
                ids = [t.id for t in self._tokenised(text, "source")]
            except InputError as error:
                raise InputError(f"sentence {number}: {error}") from None
            if len(ids) > limit:
                raise InputError(
                    f"sentence {number} has {len(ids)} tokens: the limit is {limit}, shorten it"
                )
            encoded.append(ids)
        return encoded

    @property
    def _forced(self) -> tuple[int, ...]:
        return self._target.frame.forced

    @property
    def checkpoint(self) -> Checkpoint:
        """The loaded network and its tokenizers; run the network only inside `exclusive_model`."""
        return Checkpoint(self.card, self._model, self._source, self._target)

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
        """Context manager giving exclusive access to the model, with the record's edits applied.

        Raises ValueError, in one line, for a record of other weights, or one whose edits are lost.
        """
        try:
            self._check_record(record)
            given = self._given(record.edits)
        except ValueError as error:
            raise ValueError(f"this model cannot be run for this record: {error}") from None
        with self.exclusive_model(raise_if_cancelled), edited(self._model, record.edits, *given):
            yield self._model

    def tokens(self, text: str, side: Side) -> tuple[RecordToken, ...]:
        """Tokenise a text as input of one side, with <eos>. Raises InputError if too long."""
        return _record_tokens(self._within_limits(text, side))

    def target_tokens(self, ids: Sequence[int]) -> tuple[RecordToken, ...]:
        """Return the tokens of target ids, as in a record. Raises ValueError for unknown ids."""
        return _record_tokens(tuple(self._target.token(int(id)) for id in ids))

    def search_tree(
        self,
        source: str,
        *,
        decode: DecodeConfig = DecodeConfig(),
        prefix: tuple[int, ...] = (),
        edits: Edits = Edits(),
    ) -> WrittenTree:
        """Return the complete search tree of a translation; `prefix` forces its first target ids.

        The network's own forced ids, such as its language's token, are put in front of it.
        Raises InputError for an empty or over-long text, ValueError for an impossible prefix, and
        InputError or EditError for edits, as `inspect` does.
        """
        source_ids = [t.id for t in self._task(source, edits=edits).source]
        given = self._given(edits)
        with self._lock, edited(self._model, edits, *given):
            ids = torch.tensor([source_ids], device=self.device)
            forced = self._forced
            prefix = prefix if prefix[: len(forced)] == forced else (*forced, *prefix)
            tree = search_tree(self._model, ids, decode, prefix, len(forced))
        used = {node.id for node in tree.nodes}
        used |= {id for node in tree.nodes for id, _ in node.next}
        tokens = {id: self._target.token(id) for id in used}
        texts = tuple(self._target.decode(list(h.ids)) for h in tree.hypotheses)
        return WrittenTree(tree, tokens, texts)

    def continuation(self, text: str) -> tuple[int, ...]:
        """Return target ids for a text that continues a prefix.

        No space is inserted before leading punctuation. Raises InputError for an over-long text.
        """
        first, *rest = self._within_limits(text, "target")[len(self._forced) :]
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
        """Translate `source` and record every map; a given `target` replaces the translation.

        `target_ids` give the target as token ids, with or without <eos>, for example for a prefix.
        `beam=5` is short for `decode=DecodeConfig(beam=5)`. `activations` also captures hidden
        states and scores (see `core.record.hidden_states`). Several sources, with as many targets
        or none, return a list of records: see `inspect_many`.

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
        means, lens = self._given(edits)
        with self._lock:
            hypotheses: list[Hypothesis] = []
            if task.target is None:
                ids = torch.tensor([[t.id for t in task.source]], device=self.device)
                with edited(self._model, edits, means, lens):
                    hypotheses = search(self._model, ids, decode, self._forced)[0]
            inputs = self._pass_input(task, hypotheses)
            (result,) = teacher_forced_passes(
                self._model, [inputs], edits, activations, means, lens
            )
        return self._record(task, inputs, result, hypotheses, decode, edits)

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
        """Inspect many sentences in padded batches; return their records in order.

        Each record has the same tokens, hypotheses, masks and positions as from `inspect`, and
        carries its checks. Weights and probabilities may differ in the last digits; the order of
        hypotheses can differ only when scores are tied to within rounding error. A batch has at
        most `batch_tokens` padded tokens, including hypotheses, which bounds the memory needed in
        addition to the records. Under `edits`, sentences are processed one by one. `on_progress`
        is called after each batch with the number of new records; other threads may acquire the
        model between batches.

        Sources and targets are paired by position, not by the index of a pandas Series. Raises,
        before any work, InputError with the sentence's number, EditError for edits that do not
        apply, TypeError for anything but texts, and ValueError if the numbers of sources and
        targets differ.
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
        hypotheses: list[list[Hypothesis]] = [[] for _ in tasks]
        if targets is None:
            ids = [[t.id for t in task.source[:-1]] for task in tasks]
            hypotheses = translate_ids(
                *(self._model, ids, decode, self.device, batch_tokens),
                lock=self._lock,
                forced=self._forced,
            )
        inputs = [self._pass_input(*item) for item in zip(tasks, hypotheses, strict=True)]
        by_number: dict[int, TranslationRecord] = {}
        for batch in plan_batches(inputs, batch_tokens):
            with self._lock:
                results = teacher_forced_passes(
                    self._model, [inputs[i] for i in batch], activations=activations
                )
            for i, result in zip(batch, results, strict=True):
                by_number[i] = self._record(tasks[i], inputs[i], result, hypotheses[i], decode)
            on_progress(len(batch))
        return [by_number[i] for i in range(len(tasks))]

    def _task(
        self,
        source: str,
        target: str | None = None,
        target_ids: Sequence[int] | None = None,
        edits: Edits = Edits(),
    ) -> "_Task":
        """Validate and tokenise the arguments. Raises InputError and EditError."""
        source_tokens = self._within_limits(source, "source")
        if len(source_tokens) == 1:
            raise InputError("nothing to translate: type a sentence")
        if target is None and target_ids is None and not edits.causal_mask:
            raise InputError("decoding requires the causal mask: give a target")
        if set(range(len(source_tokens))) <= set(edits.hidden_source):
            raise InputError("all source tokens are hidden: leave at least one visible")
        if problems := edits.fitting(limits_of(self._model, len(source_tokens)))[1]:
            raise EditError(problems[0])
        given = None
        if target is not None:
            if target_ids is not None:
                raise InputError("target and target_ids are both given: leave out one")
            given = self._within_limits(target, "target")
        elif target_ids is not None:
            given = self._tokens_of(target_ids)
        return _Task(source, source_tokens, given)

    def fitting(self, edits: Edits, source: str) -> tuple[Edits, list[str]]:
        """Return the edits that apply to this model and text, and one message per rejected edit.

        Raises InputError for an over-long text.
        """
        tokens = self._within_limits(source, "source")
        kept, problems = edits.fitting(limits_of(self._model, len(tokens)))
        random = tuple(one for one in kept.pushes if isinstance(one, RandomPush))
        for needed, without in (
            (Edits(heads_mean=kept.heads_mean), {"heads_mean": frozenset()}),
            (Edits(pushes=kept.pushes), {"pushes": random}),
        ):
            try:
                self._given(needed)
            except EditError as error:
                kept = dataclasses.replace(kept, **without)
                problems.append(str(error))
        return kept, problems

    def _given(self, edits: Edits) -> tuple[Means | None, Jacobians | None]:
        """Return the mean head outputs and the Jacobian lens that edits need, loaded on first use.

        Raises EditError if they are missing or invalid.
        """
        card = self.card
        try:
            if edits.heads_mean and self._head_means is None:
                self._head_means = load_means(card.folder, card.model, self.device)
            if any(isinstance(one, Push) for one in edits.pushes) and self._lens is None:
                self._lens = load_lens(card)
        except CheckpointError as error:
            raise EditError(str(error)) from None
        means, lens = self._head_means, self._lens
        return (
            None if means is None else means.parts,
            None if lens is None else lens.jacobians,
        )

    def _pass_input(self, task: "_Task", hypotheses: list[Hypothesis]) -> PassInput:
        """Return the ids to feed; without a given target, feed the best hypothesis."""
        target = hypotheses[0].ids if task.target is None else [t.id for t in task.target]
        self._check_size(len(task.source), len(target))
        source = [t.id for t in task.source]
        return PassInput(source, target, [h.ids for h in hypotheses], len(self._forced))

    def _check_size(self, source: int, target: int) -> None:
        """Raise InputError if the maps for these numbers of tokens exceed a record's limits."""
        try:
            check_size(self.card.model, source, target)
        except ValueError as error:
            raise InputError(str(error)) from None

    def _record(
        self,
        task: "_Task",
        inputs: PassInput,
        result: TeacherForcedPass,
        hypotheses: list[Hypothesis],
        decode: DecodeConfig,
        edits: Edits = Edits(),
    ) -> TranslationRecord:
        """Build the record of one pass, with its checks."""
        target = task.target or tuple(self._target.token(id) for id in inputs.target)
        arrays = {
            name: value.cpu().numpy().copy()
            for name, value in vars(result).items()
            if isinstance(value, Tensor)
        }
        alternatives = arrays.pop("alternatives")
        try:
            record = TranslationRecord(
                **arrays,
                model=self.card.folder.name,
                credit=self.card.credit,
                weights_sha256=self.card.weights_sha256,
                source_language=LANGUAGES[self.card.source_language],
                target_language=LANGUAGES[self.card.target_language],
                decode=decode if task.target is None else None,
                source_text=task.text,
                translation=self._target.decode([t.id for t in target]),
                source=_record_tokens(task.source),
                target_in=_record_tokens((special(BOS), *target[:-1])),
                target_out=_record_tokens(target),
                alternatives=tuple(map(self.target_tokens, alternatives)),
                hypotheses=tuple(
                    RecordHypothesis(self._target.decode(list(h.ids)), h.ids, h.log_prob, h.score)
                    for h in hypotheses
                ),
                activations=result.activations,
                edits=edits,
            )
        except ValueError as error:  # weights of an unusual network can break the record's rules
            raise InputError(f"this pass cannot be recorded: {error}") from None
        checks = check(record, result.evidence, (self._source, self._target), edits)
        return dataclasses.replace(record, checks=checks)

    def recheck(self, record: TranslationRecord) -> TranslationRecord:
        """Recompute a record's checks with these weights, because its file may have been altered.

        The checks take the record's edits into account. Raises a one-line ValueError for imported
        maps, for a record of other weights or of another name, for lost edits, and for tokens that
        the model does not accept.
        """
        self._check_record(record)
        source, target = ([t.id for t in side] for side in (record.source, record.target_out))
        self._check_size(len(source), len(target))
        hypotheses = [h.ids for h in record.hypotheses]
        edits, (means, lens) = record.edits, self._given(record.edits)
        with self._lock:
            inputs = PassInput(source, target, hypotheses, len(self._forced))
            (result,) = teacher_forced_passes(self._model, [inputs], edits, means=means, lens=lens)
        tokenizers = self._source, self._target
        return dataclasses.replace(record, checks=check(record, result.evidence, tokenizers, edits))

    def _check_record(self, record: TranslationRecord) -> None:
        """Raise ValueError, in one line, for a record that these weights cannot reproduce."""
        card = self.card
        if record.origin:
            raise ValueError(f"its maps were imported from {record.origin}, without weights")
        if record.weights_sha256 != card.weights_sha256:
            raise ValueError(f"it was made with other weights than those of {card.folder.name}")
        languages = LANGUAGES[card.source_language], LANGUAGES[card.target_language]
        named = (record.model_title, record.source_language, record.target_language)
        if named != (card.title, *languages):
            claimed = " ".join(", ".join(named).split())[:200]  # untrusted
            raise ValueError(
                f"it claims to be of {claimed}, but these weights are "
                f"{', '.join((card.title, *languages))}"
            )
        if record.lost_edits:
            raise ValueError("it was made under edits, which its file does not hold")
        source, target = ([t.id for t in side] for side in (record.source, record.target_out))
        hypotheses = [h.ids for h in record.hypotheses]
        candidates = [t.id for row in record.alternatives for t in row]
        fed = [t.id for t in record.target_in]
        model = self.card.model
        if len(hypotheses) > _MAX_HYPOTHESES:
            raise ValueError(
                f"it holds {len(hypotheses)} hypotheses: the limit is {_MAX_HYPOTHESES}"
            )
        for ids in (source, target, *hypotheses):
            if not 1 <= len(ids) <= model.max_length:
                raise ValueError(
                    f"one of its texts has {len(ids)} tokens: this model takes 1 to "
                    f"{model.max_length}"
                )
        if (each := len(record.alternatives[0])) > (size := model.target_vocab_size):
            raise ValueError(
                f"it holds {each:,} alternatives per step: the vocabulary has {size:,} tokens"
            )
        written = [*fed, *target, *candidates, *(id for ids in hypotheses for id in ids)]
        for ids, size in ((source, model.source_vocab_size), (written, model.target_vocab_size)):
            if odd := [id for id in ids if not 0 <= id < size]:
                raise ValueError(
                    f"it holds the token id {odd[0]}: the vocabulary has {size:,} tokens"
                )

    def _within_limits(self, text: str, side: Side) -> tuple[Token, ...]:
        """Tokenise one side's text, with <eos>; enforce the limits of the model and of drawing.

        The number of characters is checked first, because that is cheap.
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
        """Tokenise a text. Raises InputError for half a surrogate pair."""
        if half := _SURROGATE.search(text):
            raise InputError(
                f"character {half.start() + 1} is half a surrogate pair (U+{ord(half[0]):04X}), "
                "which is not valid text: delete it"
            )
        if side == "source":
            return encode_source_line(self._source, text)
        return encode_target_line(self._target, text)

    def _tokens_of(self, ids: Sequence[int]) -> tuple[Token, ...]:
        """Look up target ids. Raises InputError for ids that decoding cannot produce."""
        ids = tuple(ids)
        limit = min(MAX_RECORD_TOKENS, self.card.model.max_length)
        size = self.card.model.target_vocab_size
        if not ids:
            raise InputError("no target ids are given: give at least one, such as 2 for <eos>")
        if len(ids) > limit:
            raise InputError(f"{len(ids)} target ids are too many: the limit is {limit}")
        for position, id in enumerate(ids):
            if isinstance(id, bool) or not isinstance(id, Integral) or not 0 <= id < size:
                raise InputError(
                    f"target id {id!r} is not in the vocabulary: choose from {EOS} to {size - 1}"
                )
            if id in (PAD, BOS) or (id == EOS and position < len(ids) - 1):
                raise InputError(
                    f"target id {id} ({special(id).piece}) is not allowed at position {position}: "
                    "leave out <pad> and <bos>, and use <eos> only at the end"
                )
        return tuple(self._target.token(int(id)) for id in ids)


def _settings(decode: DecodeConfig | None, beam: int | None) -> DecodeConfig:
    """Return the decoding settings from either argument. Raises TypeError and ValueError."""
    if decode is not None and not isinstance(decode, DecodeConfig):
        hint = f": write beam={decode}" if isinstance(decode, int) else ""
        raise TypeError(f"decode must be a DecodeConfig, not {type(decode).__name__}{hint}")
    if beam is None:
        return decode or DecodeConfig()
    if decode is not None:
        raise TypeError("decode and beam are both given: leave out one")
    return DecodeConfig(beam=beam)


def _reload(folder: Path, device: str, architecture: str, *spoken: str | None) -> Translator:
    found = Translator.load(folder, device)
    if found.card.architecture != architecture:
        found = found.other_implementation()
    return found.between(*spoken)


_token_fields = attrgetter(*(field.name for field in dataclasses.fields(RecordToken)))


def _record_tokens(tokens: tuple[Token, ...]) -> tuple[RecordToken, ...]:
    return tuple(RecordToken(*_token_fields(token)) for token in tokens)
