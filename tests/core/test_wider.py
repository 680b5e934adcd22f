"""A wider network from a narrower one: what was trained is kept, and new units wait to be asked."""

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from core import train
from core.checkpoint.folder import load
from core.data.batches import encode_pairs
from core.model.baseline import copy_to_baseline, copy_to_scratch
from core.model.build import build
from core.model.positions import sinusoids
from core.model.transformer import LayerNorm, Transformer
from core.training import wider
from core.training.distributed import Processes
from core.training.job import Options, _prepare
from core.training.loop import validation_loss
from core.training.recipes import RECIPES
from core.training.warm_start import take_over
from tests import small
from tests.core.conftest import run_train

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "captions-de-en"
PAIRS = [
    ("Ein Hund springt über einen Baumstamm.", "A dog jumps over a log."),
    ("Zwei Kinder spielen Fußball im Park.", "Two children are playing soccer in the park."),
    ("Eine Frau mit rotem Hut liest ein Buch.", "A woman with a red hat is reading a book."),
]
ARCHITECTURES = ("scratch", "baseline")


def twice(config, **changes):
    widths = {name: 2 * getattr(config, name) for name in wider.WIDTHS}
    return dataclasses.replace(config, **widths | changes)


@pytest.fixture
def wide_recipe(monkeypatch):
    smoke = RECIPES["smoke"]
    widths = {name: 2 * smoke.network[name] for name in wider.WIDTHS}
    changes = dict(name="smoke-wide", network={**smoke.network, **widths}, half_precision=True)
    recipe = dataclasses.replace(smoke, **changes)
    monkeypatch.setitem(RECIPES, recipe.name, recipe)
    return recipe.name


@pytest.mark.parametrize("times", [2, 3])
def test_the_kept_columns_of_the_wider_table_are_the_narrower_one(times):
    kept = wider.kept_features(16, 16 * times)
    assert torch.allclose(sinusoids(50, 16 * times)[:, kept], sinusoids(50, 16), atol=1e-12)
    assert len(set(kept.tolist())) == 16


def test_but_for_the_layer_norms_the_wider_network_does_the_same(monkeypatch):
    narrow = small.pair(norm_first=True, share_embeddings=True, tie_classifier=True)[1]
    wide = build("scratch", twice(narrow.config)).double().eval()
    source, target = small.batch(padding=True)
    monkeypatch.setattr(LayerNorm, "forward", lambda self, x: x * self.weight + self.bias)
    with torch.no_grad():
        before = narrow(source, target)
        assert (wide(source, target) - before).abs().max() > 1
        wider.widen(narrow, wide)
        assert (wide(source, target) - before).abs().max() < 1e-9 * before.abs().max()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_trained_network_translates_nearly_as_well_when_it_is_wider(architecture):
    start = load(SHIPPED)
    if architecture == "baseline":
        model = build("baseline", start.card.model)
        copy_to_baseline(start.model, model)
        card = dataclasses.replace(start.card, architecture="baseline")
        start = dataclasses.replace(start, card=card, model=model)
    torch.manual_seed(1)
    wide = build(architecture, twice(start.card.model, dropout=0.2))
    pairs = list(encode_pairs(PAIRS, start.source_tokenizer, start.target_tokenizer))
    before, fresh = (validation_loss(m, pairs, 4096, "cpu") for m in (start.model, wide))
    take_over(start, wide, architecture)
    after = validation_loss(wide, pairs, 4096, "cpu")
    assert after - before < 0.1 * (fresh - before)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_run_starts_from_a_narrower_network(data, tmp_path, wide_recipe, architecture):
    run_train("--data", data, "--out", tmp_path / "narrow", "--model", architecture)
    start = load(tmp_path / "narrow").model
    given = ["--recipe", wide_recipe, "--model", architecture, "--data", str(data)]
    given += ["--out", str(tmp_path / "wide"), "--start-from", str(tmp_path / "narrow")]
    job = _prepare(Options(**vars(train.parser().parse_args(given))), "cpu", Processes())
    model = job.model
    if architecture == "baseline":
        start, model = Transformer(start.config), Transformer(job.model.config)
        copy_to_scratch(load(tmp_path / "narrow").model, start)
        copy_to_scratch(job.model, model)
    kept = wider.kept_features(16, 32)
    for theirs, ours in zip(start.decoder, model.decoder, strict=True):
        inner = theirs.feed_forward.inner.weight
        assert torch.equal(ours.feed_forward.inner.weight[: len(inner)][:, kept], inner)


def test_half_precision_is_kept_in_half_the_space(data, checkpoint_folder, tmp_path, wide_recipe):
    given = ["--data", data, "--out", tmp_path / "wide", "--start-from", checkpoint_folder]
    run_train(*given, recipe=wide_recipe)
    stored = load_file(tmp_path / "wide" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    loaded = dict(load(tmp_path / "wide").model.named_parameters())
    assert all(torch.equal(loaded[name], tensor.float()) for name, tensor in stored.items())


@pytest.mark.parametrize(
    "change",
    [
        dict(d_model=24, num_heads=3),
        dict(num_heads=2),
        dict(dim_feedforward=8),
        dict(norm_first=False),
        dict(tie_classifier=False),
        dict(learned_positions=True),
    ],
)
def test_what_cannot_be_widened_is_refused(checkpoint_folder, change):
    start = load(checkpoint_folder)
    wide = build("scratch", twice(start.card.model, **change))
    with pytest.raises(ValueError, match="choose the recipe and the model"):
        take_over(start, wide, "scratch")
