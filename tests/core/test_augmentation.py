"""What an epoch changes in its pairs: copied on both sides, drawn by seed and epoch alone."""

import dataclasses
import os
import random
import re
from collections import Counter

import pytest
import torch

from core.config import TrainConfig
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
from core.model.build import build
from core.text.subwords import SPELLING, SubwordTokenizer
from core.training.data import Epochs, prepare
from core.training.loop import train
from core.training.recipes import RECIPES
from tests import small
from tests.core.conftest import run_train

DE_EN = ("de", "en")
ALL = Augmentation(source_noise=0.5, concatenation=0.5, concatenate_up_to=4, names=0.5, numbers=0.5)


def outcomes(change, *pair, count=300):
    drawn = random.Random(3)
    return [change(pair, drawn) for _ in range(count)]


def test_a_name_becomes_the_same_other_name_on_both_sides():
    pair = ("Tom liebt Maria, aber Maria liebt Boston.", "Tom loves Mary, but Mary loves Boston.")
    found = outcomes(with_other_names, *pair)
    assert len(set(found)) > 290
    for source, target in found:
        left = re.fullmatch(r"(\w+) liebt (\w+), aber (\w+) liebt (\w+)\.", source).groups()
        assert target == "{} loves {}, but {} loves {}.".format(*left)
        assert left[1] == left[2] and len(set(left)) == 3
        assert not set(left) & ({"Tom", "Maria", "Mary"} | names.RESERVED)


def test_a_name_is_left_where_the_sides_do_not_hold_it_alike():
    for pair in (
        ("Tom ist da.", "He is here."),
        ("Tom sah Tom.", "Tom saw him."),
        ("Die Hand.", "The hand."),
    ):
        assert set(outcomes(with_other_names, *pair, count=20)) == {pair}


def test_a_genitive_stays_one_and_a_man_stays_a_man_where_a_word_says_so():
    for source, target in outcomes(with_other_names, "Toms Hund bellt.", "Tom's dog barks."):
        name = target.split("'s")[0]
        assert source == f"{name}s Hund bellt." and not name.endswith(("s", "x", "z", "ß"))
    women = set(augmentation._NEW_WOMEN)
    of_him = outcomes(with_other_names, "Tom sah seinen Hund.", "Tom saw his dog.")
    anyone = outcomes(with_other_names, "Tom schlief.", "Tom slept.")
    assert not any(source.split()[0] in women for source, _ in of_him)
    assert any(source.split()[0] in women for source, _ in anyone)
    assert any(source.split()[0].endswith("s") for source, _ in anyone)


def test_numbers_change_on_both_sides_and_stay_of_their_kind():
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
    assert again > 0.5 * len(found), "digits that stand twice are the hard ones"


def test_pairs_with_the_same_numbers_are_shown_more_often():
    pairs = [("Er hat 3 Hunde.", "He has 3 dogs."), ("Um 8.", "At eight."), ("Ja.", "Yes.")]
    found = Counter(own for _, own in augmented([(pairs, 2)], Augmentation(number_copies=5), 1, 0))
    assert [found[pair] for pair in pairs] == [10, 2, 2]


def test_an_invented_name_may_begin_as_a_word_that_means_something():
    pairs = [("Regen und Wasser.", "Rain and water.")]
    drawn = random.Random(1)
    found = [augmentation.invented_name(drawn, pairs) for _ in range(2000)]
    starts = sum(name.startswith(("Regen", "Wasser", "Rain", "Water")) for name in found)
    assert 0.1 < starts / len(found) < 0.4 and len(set(found)) > 900
    plain = [augmentation.invented_name(drawn) for _ in range(2000)]
    assert not any(name.startswith(("Regen", "Wasser")) for name in plain)
    likes = [("Tom mag Regen.", "Tom likes rain.")] * 300
    changed = [source for (source, _), _ in augmented([(likes, 1)], Augmentation(names=1.0), 1, 0)]
    assert any(source.startswith(("Regen", "Rain")) for source in changed)


def test_a_broken_word_is_the_same_text_in_other_subwords():
    pair = ("Der Regen fällt auf Regensburg, 1234-mal.", "The rain falls on Regensburg.")
    vocabulary = SubwordTokenizer.train([*pair] * 40, 400, spelling=SPELLING, single_digits=True)
    ways = set()
    for source, target in outcomes(lambda p, d: augmentation.broken(p, 0.5, d), *pair):
        ids = next(encode_pairs([(source, target)], vocabulary, vocabulary))
        assert (source.replace(BREAK, ""), target.replace(BREAK, "")) == pair
        assert tuple(vocabulary.decode(side) for side in ids) == pair
        ways.add(tuple(ids[0]))
    assert len(ways) > 100
    whole = outcomes(lambda p, d: augmentation.broken(p, 0.0, d), *pair)
    assert set(whole) == {pair}


@pytest.mark.parametrize(
    "pair", [("Er ist 40.", "He is forty."), ("Am 3. Mai.", "On the 3rd of May."), ("Ja.", "Yes.")]
)
def test_numbers_that_one_side_writes_otherwise_stay(pair):
    assert set(outcomes(with_other_numbers, *pair, count=20)) == {pair}


def test_a_noisy_source_keeps_its_words_and_its_target_its_case():
    pair = ("Guten Morgen, Anna! Wie geht es dir?", "Good morning, Anna! How are you?")
    found = set(outcomes(with_source_noise, *pair))
    assert len(found) > 12
    for source, target in found:
        assert re.findall(r"\w+", source.lower()) == re.findall(r"\w+", pair[0].lower())
        assert target == pair[1].removesuffix("" if source.endswith("?") else "?")
    assert ("guten morgen anna wie geht es dir", "Good morning, Anna! How are you") in found


def test_an_epoch_changes_as_many_as_it_says_and_seed_and_epoch_alone_decide():
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
    assert [own for _, own in augmented(texts, ALL, 1, 0)] == pairs * 2


def test_no_name_that_training_puts_in_is_in_the_generated_test_set():
    new = {*augmentation._NEW_MEN, *augmentation._NEW_WOMEN, *augmentation._NEW_PLACES}
    assert not names.RESERVED & (new | set(augmentation._KNOWN))
    drawn = random.Random(1)
    invented = {augmentation.invented_name(drawn) for _ in range(3000)}
    assert len(invented) > 2500 and not names.RESERVED & invented


@pytest.mark.parametrize("split", names.SPLITS)
def test_the_generated_set_is_the_same_each_time_and_scores_itself_in_full(split):
    pairs = read_pairs("names", split, "de", "en")
    assert pairs == read_pairs("names", split, "de", "en") and len(pairs) == names.SIZE
    assert read_pairs("names", split, "en", "de") == [(e, g) for g, e in pairs]
    for german, english in pairs:
        for word in (w for w in re.findall(r"\w+", german) if w in names.RESERVED or w.isdigit()):
            assert re.search(rf"\b{word}\b", english)
    full = {"names_copied": 1.0, "numbers_copied": 1.0, "capitals_right": 1.0}
    assert names.copied(pairs, [target for _, target in pairs]) == full


def test_what_one_chooses_by_is_not_what_one_reports():
    val, test = (
        {word for pair in names.read(split) for word in re.findall(r"\w+", pair[0])}
        for split in names.SPLITS
    )
    assert not val & test & names.RESERVED and len(val & names.RESERVED) > 30


def test_what_was_not_copied_is_counted():
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


def test_a_spelled_vocabulary_writes_any_name_and_each_digit_apart():
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


def test_entities_are_the_characters_that_they_stand_for(tmp_path):
    (tmp_path / "multi30k").mkdir()
    for language, text in (("de", "Hunde &amp; Katzen\n"), ("en", "Dogs &quot;and&quot; cats\n")):
        (tmp_path / f"multi30k/val.{language}").write_text(text)
    assert read_pairs("multi30k", "val", "de", "en", tmp_path) == [
        ("Hunde & Katzen", 'Dogs "and" cats')
    ]


def test_each_epoch_is_encoded_anew_and_no_pair_is_longer_than_the_limit(data):
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


def test_the_next_epoch_is_encoded_by_a_process_beside(data, monkeypatch):
    found, same = (prepare(RECIPES["smoke-changing"], DE_EN, data).train for _ in range(2))
    assert isinstance(found, Epochs) and isinstance(same, Epochs)
    found.ahead = True
    order = [0, 0, 1, 2, 4]  # the last is not the one that was begun
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
        own, other = found(epoch), same(epoch)
        assert own.sha256 == other.sha256 and list(own) == list(other)
    assert made == [4]


def test_a_process_beside_that_fails_is_one_line(capfd):
    def pairs():
        yield [1], [2]
        raise OSError("the disk is full")

    with pytest.raises(ValueError, match="the process that encodes pairs ended too early"):
        EncodedPairs.begin(pairs())()
    assert "the disk is full" in capfd.readouterr().err


@pytest.mark.parametrize("stop", [3, 7])
def test_a_run_whose_pairs_change_is_resumed_bit_for_bit(data, tmp_path, stop):
    """Steps 5 to 8 are in the second epoch, which another process encodes again."""
    config = TrainConfig(
        steps=9, batch_sentences=30, warmup_steps=3, validate_every=1, snapshot_every=9
    )

    def weights(folder, stops):
        for number, end in enumerate([*stops, 9]):
            found = prepare(RECIPES["smoke-changing"], DE_EN, data, max_pair_tokens=60)
            shape = dict(source_vocab_size=400, target_vocab_size=400)
            torch.manual_seed(5 if number == 0 else 77)
            sizes = {**shape, **{k: found.tokenizers[0].size for k in shape}}
            model = build("scratch", dataclasses.replace(small.config(dropout=0.2), **sizes))
            epochs = []

            def shown(epoch, epochs=epochs, found=found):
                epochs.append(epoch)
                return found.train(epoch)

            arguments = (model, shown, found.validation, config, folder, "cpu", number > 0)
            for event in train(*arguments):
                if getattr(event, "step", None) == end and end < 9:
                    break
        assert epochs == list(range(epochs[0], 3))  # of four steps each
        return dict(model.named_parameters())

    straight, resumed = weights(tmp_path / "a", []), weights(tmp_path / "b", [stop])
    assert all(torch.equal(resumed[name], straight[name]) for name in straight)


def test_a_card_says_what_an_epoch_changes(data, tmp_path):
    run_train("--data", data, "--out", tmp_path / "c", "--max-steps", 4, recipe="smoke-changing")
    card = (tmp_path / "c/MODEL_CARD.md").read_text()
    assert "25% get source noise" in card and "up to 6 in all" in card
    assert "repeated 10 times. 10% of all words are split into subwords at random" in card
