"""What a run trains on: pairs by corpus name or from files, their vocabulary, and their ids."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.config import ModelConfig
from core.data.augmentation import Augmentation, augmented
from core.data.batches import EncodedPairs, Pair, encode_pairs
from core.data.corpora import read_pairs
from core.data.text_files import LinePairs
from core.text.tokenizer import Tokenizer
from core.training.recipes import Recipe

TextPairs = Iterable[tuple[str, str]]

MIN_PAIRS = 10


@dataclass(frozen=True)
class PairFiles:
    """Text files in place of a recipe's corpora: sentence i of one is sentence i of the other."""

    train: LinePairs
    validation: LinePairs


class Epochs:
    """Pairs that an epoch changes: called with its number, from 0, it encodes them anew.

    The first epoch's stand for all where only one can be looked at. `ahead`, the next one is
    encoded by a process beside this one, while this one trains: a GPU waits for nothing then.
    """

    def __init__(self, make: Callable[[int], Iterable[Pair]]):
        self.ahead = False
        self._make = make
        self._begun: dict[int, Callable[[], EncodedPairs]] = {}
        self._first = EncodedPairs(make(0))
        self.sha256 = self._first.sha256
        self.lengths = self._first.lengths

    def __len__(self) -> int:
        return len(self._first)

    def __call__(self, epoch: int) -> EncodedPairs:
        begun = self._begun.pop(epoch, None)
        pairs = self._first
        if epoch:
            pairs = begun() if begun else EncodedPairs(self._make(epoch))
        if self.ahead and epoch + 1 not in self._begun:
            self._begun[epoch + 1] = EncodedPairs.in_background(self._make(epoch + 1))
        return pairs


@dataclass(frozen=True)
class Prepared:
    """The pairs of ids to train on and to validate on, and how they were made.

    `corpora` says how often an epoch repeats each corpus; `longest` is the most tokens of a source
    and of a target in them; `left_out` counts pairs with an empty side and pairs longer than the
    limit.
    """

    corpora: dict[str, int]
    tokenizers: tuple[Tokenizer, Tokenizer]
    train: EncodedPairs | Epochs
    validation: EncodedPairs
    validation_text: dict[str, list[tuple[str, str]]]
    longest: tuple[int, int]
    left_out: dict[str, int]


class _Filled:
    """Pairs without those that have an empty side, which are counted; read anew each time."""

    def __init__(self, pairs: TextPairs):
        self._pairs = pairs
        self.empty = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        self.empty = 0
        for source, target in self._pairs:
            if source.strip() and target.strip():
                yield source, target
            else:
                self.empty += 1


def prepare(
    recipe: Recipe,
    languages: tuple[str, str],
    data: Path | None,
    files: PairFiles | None = None,
    max_pair_tokens: int = 100,
    seed: int = 1,
    max_length: int = ModelConfig.max_length,
) -> Prepared:
    """Read, learn the vocabulary, encode; files are streamed and never whole in memory.

    A recipe with an augmentation changes its pairs by `seed` and epoch. Raises ValueError, in one
    line, for unusable text, such as a sentence to validate on of more than `max_length` tokens.
    """
    if files is not None:
        corpora = {f"{files.train.source.name} + {files.train.target.name}": 1}
        train_text: list[TextPairs] = [files.train]
        val_text: list[TextPairs] = [files.validation]
    else:
        corpora = recipe.corpora
        train_text, val_text = (
            [read_pairs(name, split, *languages, data=data) for name in corpora]
            for split in ("train", "val")
        )
    filled = [_Filled(pairs) for pairs in train_text]
    validation_text = {
        name: list(_Filled(pairs)) for name, pairs in zip(corpora, val_text, strict=True)
    }
    _enough(sum(1 for pairs in filled for _ in itertools.islice(pairs, MIN_PAIRS)), MIN_PAIRS)
    tokenizers = recipe.vocabulary.learn(filled, languages)

    def short_enough(name: str, text: TextPairs) -> Iterator[Pair]:
        for number, pair in enumerate(text, start=1):
            if not all(side.strip() for side in pair):
                continue
            (ids,) = encode_pairs([pair], *tokenizers)
            if (longest := max(map(len, ids))) > max_length:
                raise ValueError(
                    f"validation pair {number}{'' if files else f' of {name}'} has {longest} "
                    f"tokens with <eos>: the limit is {max_length}, leave it out or shorten it"
                )
            yield ids

    validation = EncodedPairs(itertools.chain.from_iterable(map(short_enough, corpora, val_text)))
    if not len(validation):
        raise ValueError("the validation text holds no sentence pair: at least 1 is needed")
    repeats = list(zip(filled, corpora.values(), strict=True))

    too_long = 0

    def short(pairs: Iterable[Pair]) -> Iterator[Pair]:
        nonlocal too_long
        for pair in pairs:
            if max(map(len, pair)) <= max_pair_tokens:
                yield pair
            else:
                too_long += 1

    def repeated() -> Iterator[Pair]:
        for text, times in repeats:
            encoded: Iterable[Pair] = short(encode_pairs(text, *tokenizers))
            if times > 1:
                encoded = list(encoded)
            for _ in range(times):
                yield from encoded

    def changed(how: Augmentation, epoch: int) -> Iterator[Pair]:
        nonlocal too_long
        too_long = 0
        for both in augmented(repeats, how, seed, epoch):
            for pair in encode_pairs(both, *tokenizers):
                if max(map(len, pair)) <= max_pair_tokens:
                    yield pair
                    break
            else:
                too_long += 1

    train: EncodedPairs | Epochs
    if recipe.augmentation is None:
        train = EncodedPairs(repeated())
    else:
        train = Epochs(functools.partial(changed, recipe.augmentation))
    longest_source, longest_target = train.lengths.max(axis=0, initial=0).tolist()
    _enough(len(train), MIN_PAIRS)
    empty = sum(pairs.empty for pairs in filled)
    return Prepared(
        corpora,
        tokenizers,
        train,
        validation,
        validation_text,
        (longest_source, longest_target),
        {"with an empty side": empty, f"longer than {max_pair_tokens} tokens": too_long},
    )


def _enough(count: int, least: int) -> None:
    if count < least:
        raise ValueError(
            f"the training text holds {count} usable sentence pair(s): at least {least} are needed"
        )
