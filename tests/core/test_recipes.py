"""Recipes: both architectures match, and reproduced networks have their sources' shapes."""

import pytest
import torch

from core.config import ModelConfig
from core.data.corpora import CORPORA
from core.model.build import build
from core.training.recipes import RECIPES

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
