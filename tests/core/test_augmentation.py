"""Data augmentation: consistent on both sides, and determined by seed and epoch."""

import os
import random
import re
from collections import Counter

import pytest

from core.data import augmentation, names
from core.data.augmentation import (
    Augmentation,
    augmented,
    with_other_names,
    with_other_numbers,
    with_source_noise,
)
from core.data.batches import BREAK, EncodedPairs, encode_pairs
from core.data.corpora import read_pairs
from core.text.subwords import SPELLING, SubwordTokenizer
from core.training.data import Epochs, prepare
from core.training.recipes import RECIPES
from tests import small
from tests.core.conftest import run_train

DE_EN = ("de", "en")
ALL = Augmentation(source_noise=0.5, concatenation=0.5, concatenate_up_to=4, names=0.5, numbers=0.5)


def outcomes(change, *pair, count=300):
    rng = random.Random(3)
    return [change(pair, rng) for _ in range(count)]


def test_names_are_replaced_consistently():
    pair = ("Tom liebt Maria, aber Maria liebt Boston.", "Tom loves Mary, but Mary loves Boston.")
    found = outcomes(with_other_names, *pair)
    assert len(set(found)) > 290
    for source, target in found:
        left = re.fullmatch(r"(\w+) liebt (\w+), aber (\w+) liebt (\w+)\.", source).groups()
        assert target == "{} loves {}, but {} loves {}.".format(*left)
        assert left[1] == left[2] and len(set(left)) == 3
        assert not set(left) & ({"Tom", "Maria", "Mary"} | names.RESERVED)


@pytest.mark.parametrize(
    ("change", "source", "target"),
    [
        (with_other_names, "Tom ist da.", "He is here."),
        (with_other_names, "Tom sah Tom.", "Tom saw him."),
        (with_other_names, "Die Hand.", "The hand."),
        (with_other_numbers, "Er ist 40.", "He is forty."),
        (with_other_numbers, "Am 3. Mai.", "On the 3rd of May."),
        (with_other_numbers, "Ja.", "Yes."),
    ],
)
def test_names_and_numbers_that_do_not_match_are_kept(change, source, target):
    assert set(outcomes(change, source, target, count=20)) == {(source, target)}


def test_possessives_and_masculine_words_limit_the_new_name():
    for source, target in outcomes(with_other_names, "Toms Hund bellt.", "Tom's dog barks."):
        name = target.split("'s")[0]
        assert source == f"{name}s Hund bellt." and not name.endswith(("s", "x", "z", "ß"))
    women = set(augmentation._NEW_WOMEN)
    masculine = outcomes(with_other_names, "Tom sah seinen Hund.", "Tom saw his dog.")
    neutral = outcomes(with_other_names, "Tom schlief.", "Tom slept.")
    assert not any(source.split()[0] in women for source, _ in masculine)
    assert any(source.split()[0] in women for source, _ in neutral)
    assert any(source.split()[0].endswith("s") for source, _ in neutral)


def test_numbers_are_replaced_consistently_and_keep_their_kind():
    pair = ("Am 23. Mai 1960 um 9 Uhr: 4711 oder 1?", "On May 23, 1960 at 9: 4711 or 1?")
    found = outcomes(with_other_numbers, *pair)
    assert len(set(found)) > 250
    years = 0
    for source, target in found:
        day, year, hour, many, one = map(int, re.findall(r"\d+", source))
        assert re.findall(r"\d+", target) == re.findall(r"\d+", source)
        assert 2 <= day <= 24 and 1000 <= year <= 9999 and 2 <= hour <= 12
        assert 1000 <= many <= 9999 and one == 1
        years += year < 2100
    assert 0.7 < years / len(found) < 0.85
    again = sum(re.search(r"(\d)\1", source.split()[-3]) is not None for source, _ in found)
    assert again > 0.5 * len(found)


def test_pairs_with_matching_numbers_are_repeated():
    pairs = [("Er hat 3 Hunde.", "He has 3 dogs."), ("Um 8.", "At eight."), ("Ja.", "Yes.")]
    found = Counter(
        original for _, original in augmented([(pairs, 2)], Augmentation(number_copies=5), 1, 0)
    )
    assert [found[pair] for pair in pairs] == [10, 2, 2]


def test_invented_names_may_begin_like_words():
    pairs = [("Regen und Wasser.", "Rain and water.")]
    rng = random.Random(1)
    found = [augmentation.invented_name(rng, pairs) for _ in range(2000)]
    starts = sum(name.startswith(("Regen", "Wasser", "Rain", "Water")) for name in found)
    assert 0.1 < starts / len(found) < 0.4 and len(set(found)) > 900
    plain = [augmentation.invented_name(rng) for _ in range(2000)]
    assert not any(name.startswith(("Regen", "Wasser")) for name in plain)
    likes = [("Tom mag Regen.", "Tom likes rain.")] * 300
    changed = [source for (source, _), _ in augmented([(likes, 1)], Augmentation(names=1.0), 1, 0)]
    assert any(source.startswith(("Regen", "Rain")) for source in changed)


def test_breaks_change_the_subwords_but_not_the_text():
    pair = ("Der Regen fällt auf Regensburg, 1234-mal.", "The rain falls on Regensburg.")
    vocabulary = SubwordTokenizer.train([*pair] * 40, 400, spelling=SPELLING, single_digits=True)
    segmentations = set()
    for source, target in outcomes(lambda p, d: augmentation.with_breaks(p, 0.5, d), *pair):
        ids = next(encode_pairs([(source, target)], vocabulary, vocabulary))
        assert (source.replace(BREAK, ""), target.replace(BREAK, "")) == pair
        assert tuple(vocabulary.decode(side) for side in ids) == pair
        segmentations.add(tuple(ids[0]))
    assert len(segmentations) > 100
    whole = outcomes(lambda p, d: augmentation.with_breaks(p, 0.0, d), *pair)
    assert set(whole) == {pair}


def test_source_noise_keeps_words_and_the_targets_case():
    pair = ("Guten Morgen, Anna! Wie geht es dir?", "Good morning, Anna! How are you?")
    found = set(outcomes(with_source_noise, *pair))
    assert len(found) > 12
    for source, target in found:
        assert re.findall(r"\w+", source.lower()) == re.findall(r"\w+", pair[0].lower())
        assert target == pair[1].removesuffix("" if source.endswith("?") else "?")
    assert ("guten morgen anna wie geht es dir", "Good morning, Anna! How are you") in found


def test_an_epoch_is_reproducible_and_has_the_set_probabilities():
    pairs = [(f"Der Hund Nummer {i}x schläft.", f"Dog number {i}x sleeps.") for i in range(3000)]
    texts = [(pairs, 2)]

    def epoch(seed, number, how=ALL):
        return [pair for pair, _ in augmented(texts, how, seed, number)]

    found = epoch(1, 0)
    assert len(found) == 6000
    assert found == epoch(1, 0)
    assert found != epoch(1, 1) and found != epoch(2, 0)
    joined = Counter(target.count("sleeps") for _, target in found)
    assert sorted(joined) == [1, 2, 3, 4] and 0.46 < joined[1] / 6000 < 0.54
    assert max(joined[n] for n in (2, 3, 4)) < 1.25 * min(joined[n] for n in (2, 3, 4))
    for source, target in found:  # the same dogs in the same order on both sides
        assert re.findall(r"\d+", source) == re.findall(r"\d+", target)
    plain = epoch(1, 0, Augmentation())
    assert plain == pairs * 2
    assert [original for _, original in augmented(texts, ALL, 1, 0)] == pairs * 2


@pytest.mark.parametrize("split", names.SPLITS)
def test_the_generated_set_is_reproducible_and_its_references_score_1(split):
    pairs = read_pairs("names", split, "de", "en")
    assert pairs == read_pairs("names", split, "de", "en") and len(pairs) == names.SIZE
    assert read_pairs("names", split, "en", "de") == [(e, g) for g, e in pairs]
    for german, english in pairs:
        for word in (w for w in re.findall(r"\w+", german) if w in names.RESERVED or w.isdigit()):
            assert re.search(rf"\b{word}\b", english)
    full = {"names_copied": 1.0, "numbers_copied": 1.0, "capitals_right": 1.0}
    assert names.copied(pairs, [target for _, target in pairs]) == full


def test_names_of_training_validation_and_test_are_disjoint():
    new = {*augmentation._NEW_MEN, *augmentation._NEW_WOMEN, *augmentation._NEW_PLACES}
    invented = {augmentation.invented_name(random.Random(seed)) for seed in range(3000)}
    assert len(invented) > 2500
    assert not names.RESERVED & (new | invented | set(augmentation._KNOWN))
    val, test = (
        {word for pair in names.read(split) for word in re.findall(r"\w+", pair[0])}
        for split in names.SPLITS
    )
    assert not val & test & names.RESERVED and len(val & names.RESERVED) > 30


def test_copied_names_numbers_and_capitals_are_counted():
    pairs = [("Olga wohnt in Passau seit 1999.", "Olga has lived in Passau since 1999.")]
    found = names.copied(pairs, ["olga has Lived in Passau since 1998."])
    assert found == {"names_copied": 0.5, "numbers_copied": 0.0, "capitals_right": 0.6667}
    ordinal = names.copied([("Am 3. Mai.", "On May 3.")], ["On the 3rd of May."])
    assert ordinal["numbers_copied"] == 1.0
    for source, output, share in (
        ("Olga's dog", "Olgas Hund", 1.0),
        ("Olga's dog", "der Hund von Olga", 1.0),
        ("Olga's dog", "Olgass Hund", 0.0),
        ("Olga sleeps", "Olgas schläft", 0.0),
    ):
        assert names.copied([(source, "")], [output])["names_copied"] == share


def test_a_spelling_vocabulary_covers_any_name_and_splits_digits():
    text = [side for pair in small.SENTENCES for side in pair] * 3 + ["1990 1990 1990"] * 9
    plain = SubwordTokenizer.train(text, 400)
    spelled = SubwordTokenizer.train(text, 400, spelling=SPELLING, single_digits=True)
    typed = "Žofia Quirx aus Zürich, 1990: 86,400 €"
    assert any(token.unknown for token in plain.encode(typed))
    again = SubwordTokenizer.from_json(spelled.to_json())
    for tokenizer in (spelled, again):
        tokens = tokenizer.encode(typed)
        assert not any(token.unknown for token in tokens)
        assert tokenizer.decode([token.id for token in tokens]) == typed
        assert all(sum(map(str.isdigit, token.piece)) <= 1 for token in tokens)
        assert [t.text for t in tokenizer.encode("1990")] == ["1", "9", "9", "0"]
    assert any(sum(map(str.isdigit, token.piece)) > 1 for token in plain.encode("1990"))
    assert "single_digits" not in plain.to_json()


def test_html_entities_are_resolved(tmp_path):
    (tmp_path / "multi30k").mkdir()
    for language, text in (("de", "Hunde &amp; Katzen\n"), ("en", "Dogs &quot;and&quot; cats\n")):
        (tmp_path / f"multi30k/val.{language}").write_text(text)
    assert read_pairs("multi30k", "val", "de", "en", tmp_path) == [
        ("Hunde & Katzen", 'Dogs "and" cats')
    ]


def test_each_epoch_is_augmented_again_within_the_length_limit(data):
    recipe = RECIPES["smoke-changing"]
    found = prepare(recipe, DE_EN, data, max_pair_tokens=40)
    assert isinstance(found.train, Epochs)
    source, _ = found.tokenizers
    first, second = found.train(0), found.train(1)
    assert found.train(1).sha256 == second.sha256 != first.sha256 == found.train.sha256
    assert len(first) == len(second) == 20 * len(small.SENTENCES)
    assert found.longest == tuple(first.lengths.max(axis=0))
    assert max(first.lengths.max(), second.lengths.max()) <= 40
    sources = {source.decode(pair[0]) for pair in first}
    assert {s for s, _ in small.SENTENCES} & sources
    assert any(text[0].islower() for text in sources) and len(sources) > 20
    other = prepare(recipe, DE_EN, data, max_pair_tokens=40, seed=2)
    assert other.train.sha256 != first.sha256


def test_the_next_epoch_is_encoded_in_the_background(data, monkeypatch):
    found, same = (prepare(RECIPES["smoke-changing"], DE_EN, data).train for _ in range(2))
    assert isinstance(found, Epochs) and isinstance(same, Epochs)
    found.prefetch = True
    order = [0, 0, 1, 2, 4]  # the last epoch is not the one being prepared
    here = os.getpid()
    made: list[int] = []
    real = found._make

    def make(epoch):
        for pair in real(epoch):
            if os.getpid() == here and epoch not in made:
                made.append(epoch)
            yield pair

    monkeypatch.setattr(found, "_make", make)
    for epoch in order:
        original, other = found(epoch), same(epoch)
        assert original.sha256 == other.sha256 and list(original) == list(other)
    assert made == [4]


def test_a_failing_background_process_gives_one_line(capfd):
    def pairs():
        yield [1], [2]
        raise OSError("the disk is full")

    with pytest.raises(ValueError, match="the process that encodes pairs failed"):
        EncodedPairs.in_background(pairs())()
    assert "the disk is full" in capfd.readouterr().err


def test_the_model_card_describes_the_augmentation(data, tmp_path):
    run_train("--data", data, "--out", tmp_path / "c", "--max-steps", 4, recipe="smoke-changing")
    card = (tmp_path / "c/MODEL_CARD.md").read_text()
    assert "25% get source noise" in card and "up to 6 in all" in card
    assert "repeated 10 times. 10% of all words are split into subwords at random" in card
