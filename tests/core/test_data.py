"""Training data from corpora or files: what is skipped and what is rejected."""

import itertools
import re
from datetime import date

import pytest
import torch

from core import train
from core.checkpoint.folder import load
from core.config import ModelConfig
from core.data.corpora import CORPORA, read_pairs
from core.data.text_files import LinePairs
from core.model.build import build
from core.training.data import PairFiles, prepare
from core.training.recipes import RECIPES, JointSubwords
from tests import small
from tests.core.conftest import run_train

DE_EN = ("de", "en")


def files(folder, pairs, name="train") -> LinePairs:
    for side, language in enumerate(DE_EN):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    return LinePairs(folder / f"{name}.de", folder / f"{name}.en")


def own_files(folder, pairs) -> PairFiles:
    return PairFiles(files(folder, pairs), files(folder, small.SENTENCES, "val"))


def test_a_corpus_by_name_is_encoded_with_its_own_vocabulary(data):
    found = prepare(RECIPES["smoke"], DE_EN, data)
    assert found.corpora == {"multi30k": 1}
    assert found.validation_text == {"multi30k": small.SENTENCES}
    source, target = found.tokenizers
    assert source is target
    assert source.decode(found.train[0][0]) == small.SENTENCES[0][0]
    assert len(found.train) == 20 * len(small.SENTENCES)
    assert len(found.validation) == len(small.SENTENCES)


def test_a_mixture_repeats_its_corpora(data, tmp_path, monkeypatch):
    import dataclasses

    monkeypatch.setattr(
        "core.training.data.read_pairs",
        lambda name, split, *_, data: [(f"{name} {i}", f"{split} {i}") for i in range(30)],
    )
    recipe = dataclasses.replace(RECIPES["smoke"], corpora={"multi30k": 3, "tatoeba": 1})
    found = prepare(recipe, DE_EN, data)
    read = [found.tokenizers[0].decode(source) for source, _ in found.train]
    assert len(read) == 120
    assert [read.count("multi30k 7"), read.count("tatoeba 7")] == [3, 1]
    assert {name: len(text) for name, text in found.validation_text.items()} == {
        "multi30k": 30,
        "tatoeba": 30,
    }


def test_skipped_pairs_of_own_files_are_counted(tmp_path):
    long = " ".join(["Hund"] * 80)
    pairs = [*small.SENTENCES * 5, ("", "Nothing."), ("Nichts.", "  "), (long, "Dogs.")]
    found = prepare(RECIPES["smoke"], DE_EN, None, own_files(tmp_path, pairs), max_pair_tokens=60)
    assert found.left_out == {"with an empty side": 2, "longer than 60 tokens": 1}
    assert len(found.train) == 30
    assert found.corpora == {"train.de + train.en": 1}


@pytest.mark.parametrize(
    ("pairs", "limit", "count"), [(0, 60, 0), (1, 60, 1), (9, 60, 9), (24, 2, 0)]
)
def test_too_few_usable_pairs_are_rejected(tmp_path, pairs, limit, count):
    files = own_files(tmp_path, (small.SENTENCES * 4)[:pairs])
    message = rf"contains {count} usable sentence pair\(s\): at least 10"
    with pytest.raises(ValueError, match=message):
        prepare(RECIPES["smoke"], DE_EN, None, files, limit)


def test_an_empty_validation_text_is_rejected(tmp_path):
    given = PairFiles(files(tmp_path, small.SENTENCES * 4), files(tmp_path, [], "val"))
    with pytest.raises(ValueError, match="validation text contains no sentence pairs"):
        prepare(RECIPES["smoke"], DE_EN, None, given)


def test_the_command_needs_all_four_own_files(tmp_path, capsys):
    given = own_files(tmp_path, [*small.SENTENCES * 20, ("", "")])
    sides = [given.train.source, given.train.target, given.validation.source]
    names = ["--src", "--ref", "--val-src"]
    three = [x for pair in zip(names, sides, strict=True) for x in pair]
    with pytest.raises(ValueError, match="all four of --src, --ref, --val-src and --val-ref"):
        run_train(*three, "--out", tmp_path / "out")
    run_train(*three, "--val-ref", given.validation.target, "--out", tmp_path / "out")
    assert "left out: 1 pairs with an empty side" in capsys.readouterr().out
    card = (tmp_path / "out/MODEL_CARD.md").read_text()
    assert "The files train.de + train.en." in card


SIZE = 50  # of the vocabularies


def config(name: str) -> ModelConfig:
    return ModelConfig(source_vocab_size=SIZE, target_vocab_size=SIZE, **RECIPES[name].network)


@pytest.mark.parametrize("name", RECIPES)
def test_both_architectures_have_the_same_number_of_weights(name):
    recipe = RECIPES[name]
    assert recipe.name == name and len(recipe.source) > 20
    assert set(recipe.corpora) <= set(CORPORA)
    with torch.device("meta"):
        scratch, baseline = (build(kind, config(name)) for kind in ("scratch", "baseline"))
    counts = [sum(p.numel() for p in model.parameters()) for model in (scratch, baseline)]
    if config(name).qkv_bias:
        assert counts[0] == counts[1]


@pytest.mark.parametrize("name", RECIPES)
def test_help_states_the_size_of_each_recipe(name):
    recipe = RECIPES[name]
    (row,) = re.findall(rf"^  {name} .*$", train.parser().format_help(), re.M)
    assert f"{recipe.millions:.2f}" in row and f"{recipe.training.steps:,} steps" in row
    assert row.endswith(recipe.took)
    if isinstance(recipe.vocabulary, JointSubwords):
        size = recipe.vocabulary.size
        sizes = {"source_vocab_size": size, "target_vocab_size": size}
        with torch.device("meta"):
            network = build("scratch", ModelConfig(**sizes, **recipe.network))
        weights = sum(p.numel() for p in network.parameters())
        assert abs(weights / 1e6 - recipe.millions) < 0.01


def test_generated_dates_are_right_and_no_date_is_in_two_splits():
    splits = {name: read_pairs("dates", name, "de", "en") for name in CORPORA["dates"].splits}
    months = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
    for german, iso in itertools.chain(*splits.values()):
        day, month, year = german.replace(".", "").split()
        assert iso == f"{year}-{months.split().index(month) + 1:02d}-{int(day):02d}"
        date.fromisoformat(iso)
    every = [pair for pairs in splits.values() for pair in pairs]
    assert len(set(every)) == len(every) == 11_000
    assert read_pairs("dates", "val", "en", "de") == [pair[::-1] for pair in splits["val"]]


@pytest.mark.soak
def test_the_toy_learns_held_out_dates(tmp_path):
    run_train("--threads", 1, "--out", tmp_path / "dates-de-en", recipe="dates")
    found = load(tmp_path / "dates-de-en").card.metrics["final"]["dates"]
    assert found["sentences"] == 500 and found["exact_match"] >= 0.95


# An encoder layer has 4·d² + 4·d + 2·d·f + f + d + 4·d parameters; a decoder layer has another
# attention (4·d² + 4·d) and norm.
@pytest.mark.parametrize(
    ("name", "layers", "feed_forward"),
    [("tutorial", 3, 512), ("friendshipkim", 6, 2048), ("hyunwoongko", 6, 2048)],
)
def test_reproduced_layers_have_their_sources_size(name, layers, feed_forward):
    d, f = 512, feed_forward
    encoder = 4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d
    decoder = encoder + 4 * d * d + 4 * d + 2 * d
    with torch.device("meta"):
        model = build("scratch", config(name))
    found = sum(p.numel() for part in (model.encoder, model.decoder) for p in part.parameters())
    assert found == layers * (encoder + decoder)


def test_reproduced_runs_have_their_sources_epochs():
    steps = {name: RECIPES[name].training.steps for name in ("tutorial", "friendshipkim")}
    assert steps == {"tutorial": 18 * -(-29_000 // 128), "friendshipkim": 15 * -(-29_000 // 32)}


def test_only_what_follows_the_tutorial_trains_in_the_order_of_the_text():
    ordered = {name for name, recipe in RECIPES.items() if recipe.training.as_they_stand}
    assert ordered == {"tutorial", "friendshipkim", "blog"}


def test_xavier_embeddings_stay_within_the_xavier_bound():
    model = build("scratch", config("smoke-words"))
    table = model.embeddings.source_table.weight
    torch.manual_seed(0)
    model.reset_parameters()
    assert table.std().item() == pytest.approx(table.shape[1] ** -0.5, rel=0.1)
    model.reset_parameters(xavier_embeddings=True)
    bound = (6 / sum(table.shape)) ** 0.5
    assert 0.9 * bound < table.abs().max().item() <= bound
