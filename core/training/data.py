"""Prepare training data: read pairs, learn the vocabulary, encode."""

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
    """Line-aligned text files that replace a recipe's corpora."""

    train: LinePairs
    validation: LinePairs


class Epochs:
    """Augmented pairs, encoded again for each epoch; call it with the epoch's number, from 0.

    `len`, `sha256` and `lengths` describe the first epoch. If `prefetch` is set, a background
    process encodes the next epoch during training, so a GPU does not have to wait.
    """

    def __init__(self, make: Callable[[int], Iterable[Pair]]):
        self.prefetch = False
        self._make = make
        self._prefetched: dict[int, Callable[[], EncodedPairs]] = {}
        self._first = EncodedPairs(make(0))
        self.sha256 = self._first.sha256
        self.lengths = self._first.lengths

    def __len__(self) -> int:
        return len(self._first)

    def __call__(self, epoch: int) -> EncodedPairs:
        wait = self._prefetched.pop(epoch, None)
        pairs = self._first
        if epoch:
            pairs = wait() if wait else EncodedPairs(self._make(epoch))
        if self.prefetch and epoch + 1 not in self._prefetched:
            self._prefetched[epoch + 1] = EncodedPairs.in_background(self._make(epoch + 1))
        return pairs


@dataclass(frozen=True)
class Prepared:
    """Encoded training and validation pairs with their tokenizers.

    `corpora` holds how often each corpus is repeated per epoch, `longest` the largest number of
    tokens in a source and in a target, and `left_out` the number of dropped pairs by reason (an
    empty side, too long).
    """

    corpora: dict[str, int]
    tokenizers: tuple[Tokenizer, Tokenizer]
    train: EncodedPairs | Epochs
    validation: EncodedPairs
    validation_text: dict[str, list[tuple[str, str]]]
    longest: tuple[int, int]
    left_out: dict[str, int]


class _NonEmpty:
    """Re-iterable pairs; `empty` counts those that are left out because a side is empty."""

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
    """Read the text, learn the vocabulary and encode; files are streamed.

    Augmentation depends on `seed` and on the epoch. Raises a one-line ValueError for unusable text,
    such as a validation sentence of more than `max_length` tokens.
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
    nonempty = [_NonEmpty(pairs) for pairs in train_text]
    validation_text = {
        name: list(_NonEmpty(pairs)) for name, pairs in zip(corpora, val_text, strict=True)
    }
    _require(sum(1 for pairs in nonempty for _ in itertools.islice(pairs, MIN_PAIRS)))
    tokenizers = recipe.vocabulary.learn(nonempty, languages)

    def checked(name: str, text: TextPairs) -> Iterator[Pair]:
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

    validation = EncodedPairs(itertools.chain.from_iterable(map(checked, corpora, val_text)))
    if not len(validation):
        raise ValueError("the validation text contains no sentence pairs: at least 1 is needed")
    repeats = list(zip(nonempty, corpora.values(), strict=True))

    too_long = 0

    def first_short(groups: Iterable[TextPairs]) -> Iterator[Pair]:
        """Encode the first pair of each group that is not too long."""
        nonlocal too_long
        for candidates in groups:
            for pair in encode_pairs(candidates, *tokenizers):
                if max(map(len, pair)) <= max_pair_tokens:
                    yield pair
                    break
            else:
                too_long += 1

    def repeated() -> Iterator[Pair]:
        for text, times in repeats:
            encoded: Iterable[Pair] = first_short([pair] for pair in text)
            if times > 1:
                encoded = list(encoded)
            for _ in range(times):
                yield from encoded

    def augment(how: Augmentation, epoch: int) -> Iterator[Pair]:
        nonlocal too_long
        too_long = 0
        return first_short(augmented(repeats, how, seed, epoch))

    train: EncodedPairs | Epochs
    if recipe.augmentation is None:
        train = EncodedPairs(repeated())
    else:
        train = Epochs(functools.partial(augment, recipe.augmentation))
    longest_source, longest_target = train.lengths.max(axis=0, initial=0).tolist()
    _require(len(train))
    empty = sum(pairs.empty for pairs in nonempty)
    return Prepared(
        corpora,
        tokenizers,
        train,
        validation,
        validation_text,
        (longest_source, longest_target),
        {"with an empty side": empty, f"longer than {max_pair_tokens} tokens": too_long},
    )


def _require(count: int) -> None:
    if count < MIN_PAIRS:
        raise ValueError(
            f"the training text contains {count} usable sentence pair(s): at least {MIN_PAIRS} are "
            "needed"
        )
