"""Where heads attend over a corpus: planted roles, three nulls, intervals, merging of shards."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from core.analysis.alignment import Gold
from core.atlas.atlas import DISTANCES, ROLE_PARTS, Atlas, Origin
from core.atlas.attention import MIN_SENTENCES, SEEDS, Attended, Attention, finish, random_network
from core.atlas.corpus import Corpus, Sentence, chunked, corpus
from core.atlas.labels import labels
from core.atlas.roles import GOLD_ROLES, ROLES, Facts, Maps, reordered
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint, load
from core.kinds import KINDS, Kind
from core.model.build import Model, build
from core.record.capture import capture
from core.text.tokenizer import EOS, Token, special
from tests import small
from tests.core import atlas_network

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


def result(measured: Attended, layers: Mapping[Kind, int], heads: int) -> Atlas:
    """Return an atlas of these results alone; every other required part is NaN."""
    N = sum(layers.values()) * heads
    others = {"loss": np.full(3, np.nan), "zero": np.full((N, 3), np.nan)}
    arrays = {name: array.astype(np.float32) for name, array in others.items()}
    origin = Origin("", "", "", "", "", "", "de", "en", 1, 1, 1, 0)
    return Atlas(origin, layers, heads, measured.roles, arrays | dict(measured.arrays))


def atlas_of(checkpoint: Checkpoint, texts: Corpus, seeds: tuple[int, ...] = SEEDS) -> Atlas:
    measure = Attention(Facts.of(texts), seeds=seeds)
    total = Sums.total(measure(checkpoint, chunk) for chunk in chunked(texts.sentences))
    config = checkpoint.model.config
    L, M = config.num_encoder_layers, config.num_decoder_layers
    return result(finish(total), {"encoder": L, "decoder": M, "cross": M}, config.num_heads)


def texts_of(*lengths: tuple[int, int], seed: int = 0) -> Corpus:
    """Return sentences of random words, continuations and commas; every other one has gold."""
    rng = random.Random(seed)

    def side(length: int, frequent: str) -> tuple[Token, ...]:
        ids = [rng.randint(4, 30) for _ in range(length - 1)]
        texts = dict.fromkeys((4, 5), ",") | dict.fromkeys((6, 7, 8, 9), frequent)
        tokens = [Token(i, f"{i}", texts.get(i, f"w{i}"), i % 3 > 0) for i in ids]
        return (*tokens, special(EOS))

    def pair(index: int, S: int, T: int) -> Sentence:
        gold = Gold.of([(0, 1, True), (1, 0, True)]) if index % 2 else None
        words = tuple(range(S - 1)), tuple(range(T - 1))  # each token is a word
        texts = "w " * (S - 1), "w " * (T - 1)
        return Sentence(index, side(S, "der"), side(T, "the"), *texts, gold, words)

    sentences = tuple(pair(i, *sizes) for i, sizes in enumerate(lengths))
    counts = [{id: 50 - id for id in range(40)}, {id: 10 + id for id in range(40)}]
    return Corpus(sentences, (), "de", "en", "", "", *counts)


LENGTHS = tuple((3 + i * 5 % 11, 4 + i * 7 % 9) for i in range(30))


def checkpoint_of(network: Model, architecture: str = "scratch") -> Checkpoint:
    """Return a checkpoint of the network; its tokenizers are another network's and are not used."""
    card = dataclasses.replace(atlas_network.checkpoint().card, architecture=architecture)
    return dataclasses.replace(atlas_network.checkpoint(), card=card, model=network)


def maps_of(network: Model, sentence: Sentence) -> dict[Kind, np.ndarray]:
    """Return one sentence's maps from a pass without padding: [n, Q, K], n heads of all layers."""
    source, target_in = ([t.id for t in side] for side in (sentence.source, sentence.target_in))
    with torch.inference_mode(), capture(network) as captured:
        network(torch.tensor([source]), torch.tensor([target_in]))
    return {kind: captured.maps(kind)[:, 0].flatten(0, 1).numpy() for kind in KINDS}


def distance_of(kind: Kind, q: int, k: int, Q: int, K: int) -> int:
    origin = round(q * (K - 1) / (Q - 1)) if kind == "cross" else q
    return min(max(k - origin, -20), 20)


def check_averages(atlas: Atlas, kind: Kind, maps: list[np.ndarray]) -> None:
    """Compare entropy, largest weight and distances with loops over all rows of a kind."""
    entropy, largest, rows = [], [], 0
    distance = np.zeros((len(DISTANCES), len(maps[0])))
    for map_nQK in maps:
        Q, K = map_nQK.shape[1:]
        for q, row_nK in enumerate(map_nQK.transpose(1, 0, 2)):
            rows += 1
            visible = q + 1 if kind == "decoder" else K
            for k in range(visible):
                distance[DISTANCES.index(distance_of(kind, q, k, Q, K))] += row_nK[:, k]
            if visible > 1:
                bits = -sum(row_nK[:, k] * np.log2(row_nK[:, k]) for k in range(visible))
                entropy.append(bits / math.log2(visible))
                largest.append(row_nK.max(-1))
    own = atlas.span(kind)
    assert atlas.arrays["entropy"][own, 0] == pytest.approx(np.mean(entropy, 0), abs=1e-6)
    assert atlas.arrays["largest"][own, 0] == pytest.approx(np.mean(largest, 0), abs=1e-6)
    assert atlas.arrays["distance"][own] == pytest.approx(distance.T / rows, abs=1e-6)


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_roles_nulls_and_averages_equal_loops_over_rows(architecture):
    """The first network is measured, the others are random ones for the null."""
    texts = texts_of(*LENGTHS, (45, 4))
    networks = [small.sharp(3, architecture)]
    for seed in (5, 6):
        torch.manual_seed(seed)
        networks.append(build(architecture, networks[0].config).eval())
    atlas = atlas_of(checkpoint_of(networks[0], architecture), texts, seeds=(5, 6))
    facts, weights_BR = Facts.of(texts), bootstrap_weights(range(len(texts.sentences)))
    orders = {False: texts.sentences, True: [*map(reordered, texts.sentences)]}
    maps = {way: [[maps_of(x, s) for s in orders[way]] for x in networks] for way in orders}
    for kind in KINDS:
        check_averages(atlas, kind, [of_kind[kind] for of_kind in maps[False][0]])
        assert atlas.roles[kind] == tuple(role.name for role in ROLES if kind in role.kinds)
        for o, role in enumerate(role for role in ROLES if kind in role.kinds):
            seen: dict[int, list[np.ndarray]] = {}
            chances, distances, rows = [], [], 0
            n = len(maps[False][0][0][kind])
            sums, counts_B = np.zeros((3, len(orders[False]), n)), np.zeros(len(orders[False]))
            for b, sentence in enumerate(orders[role.reordered]):
                targets, counting = role.cells(Maps(kind, sentence, facts))
                Q, K = targets.shape
                rows += Q if role not in GOLD_ROLES or sentence.gold else 0
                of_networks = [found[b][kind] for found in maps[role.reordered]]
                for q in range(Q):
                    visible = range(q + 1 if kind == "decoder" else K)
                    for k in visible:
                        weights_n = of_networks[0][:, q, k]
                        seen.setdefault(distance_of(kind, q, k, Q, K), []).append(weights_n)
                    if counting[q]:
                        keys = [k for k in visible if targets[q, k]]
                        counts_B[b] += 1
                        chances.append(len(keys) / len(visible))
                        distances += [distance_of(kind, q, k, Q, K) for k in keys]
                        for i, map_nQK in enumerate(of_networks):
                            sums[i, b] += map_nQK[:, q, keys].sum(-1)
            found = {part: atlas.arrays[f"role_{kind}{part}"][o] for part in ROLE_PARTS}
            with np.errstate(invalid="ignore"):  # a replicate may draw no such sentence
                drawn_Rn = (weights_BR.T @ sums[0]) / (weights_BR.T @ counts_B)[:, None]
            bounds = np.nanpercentile(drawn_Rn[1:], (2.5, 97.5), axis=0)
            if np.count_nonzero(counts_B) < MIN_SENTENCES:
                bounds[:] = np.nan
            near = functools.partial(pytest.approx, abs=1e-6, nan_ok=True)
            assert near(np.stack([drawn_Rn[0], *bounds])) == found[""].T, (kind, role.name)
            assert found["_shuffled"] == near(np.mean(chances)), "the mean over all orders"
            random = (sums[1:].sum(1) / counts_B.sum()).max(-1)
            assert found["_random"] == near(random.max()) and random[0] != random[1]
            assert found["_rows"] == near(counts_B.sum() / rows)
            if role.positional:
                assert np.isnan(found["_profile"]).all()
            else:
                by_distance = {at: np.mean(weights, axis=0) for at, weights in seen.items()}
                expected = sum(by_distance[at] for at in distances) / counts_B.sum()
                assert found["_profile"] == near(expected), (kind, role.name)


def test_fresh_networks_leave_torchs_random_state_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    random_network("scratch", small.config(max_length=63), 3)
    assert torch.equal(torch.rand(3), expected)


# Random networks get no label


def shuffled_texts(checkpoint: Checkpoint, count: int = 30) -> Corpus:
    """Return sentences of randomly drawn words, in the checkpoint's languages."""
    rng = random.Random(1)
    german = checkpoint.card.source_language == "de"
    pools = [" ".join(pair[side] for pair in small.SENTENCES).split() for side in (0, 1)]
    lines = [
        tuple(" ".join(rng.sample(pool, rng.randint(4, 14))) for pool in pools)
        for _ in range(count)
    ]
    return corpus(checkpoint, [(a, b) if german else (b, a) for a, b in lines])


@pytest.mark.parametrize("name", ["scratch-de-en", "baseline-en-de"])
def test_a_random_network_of_a_shipped_shape_gets_no_label(name):
    shipped = load(CHECKPOINTS / name)
    texts = shuffled_texts(shipped)
    network = random_network(shipped.card.architecture, shipped.model.config, 10)
    fresh = labels(atlas_of(dataclasses.replace(shipped, model=network), texts))
    assert [*map(len, fresh)] == [0] * 48
    trained = labels(atlas_of(shipped, texts))
    assert sum(map(bool, trained)) > 10  # the same rule finds roles once the network is trained


# Intervals and labels


@pytest.mark.parametrize("count", [1, MIN_SENTENCES - 1, MIN_SENTENCES])
def test_few_sentences_have_estimates_but_no_interval(count):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        atlas = atlas_of(checkpoint_of(small.sharp(3)), texts_of(*LENGTHS[:count]))
    number = atlas.roles["encoder"].index("previous token")
    for values in (atlas.arrays["role_encoder"][number], atlas.arrays["entropy"]):
        assert np.isfinite(values[:, 0]).all()
        assert np.isfinite(values[:, 1:]).all() == (count >= MIN_SENTENCES)


def made_up(
    score: float,
    low: float,
    shuffled: float,
    random: float,
    profile: float = 0.0,
    rows: float = 1.0,
) -> Atlas:
    """Return an atlas of one head per kind and two roles, the second with these values."""
    roles = dict.fromkeys(KINDS, ("first", "second"))
    three = np.array([[[0.5, 0.45, 0.55]], [[score, low, 0.99]]])
    arrays: dict[str, np.ndarray] = {"entropy": np.ones((3, 3)), "largest": np.ones((3, 3))}
    arrays |= {"distance": np.zeros((3, len(DISTANCES)))}
    for kind in KINDS:
        arrays |= {f"role_{kind}": three, f"role_{kind}_random": np.array([0.2, random])}
        arrays |= {f"role_{kind}_shuffled": np.array([[0.3], [shuffled]])}
        arrays |= {f"role_{kind}_profile": np.array([[np.nan], [profile]])}
        arrays |= {f"role_{kind}_rows": np.array([1.0, rows])}
    floats = {name: array.astype(np.float32) for name, array in arrays.items()}
    return result(Attended(roles, floats), dict.fromkeys(KINDS, 1), 1)


@pytest.mark.parametrize(
    ("score", "low", "nulls", "rows", "expected"),
    [
        (0.80, 0.41, (0.1, 0.3, 0.2), 1.0, ["second", "first"]),  # excess 0.5, the first role 0.2
        (0.45, 0.41, (0.1, 0.3, 0.2), 1.0, ["first", "second"]),
        (0.80, 0.39, (0.1, 0.3, 0.2), 1.0, ["first"]),  # 0.09 above the random network
        (0.80, 0.39, (0.3, 0.1, 0.2), 1.0, ["first"]),  # 0.09 above shuffled rows
        (0.80, 0.39, (0.1, 0.2, 0.3), 1.0, ["first"]),  # 0.09 above the profile null
        (0.80, 0.41, (0.1, 0.3, np.nan), 1.0, ["second", "first"]),  # no profile null
        (0.80, 0.29, (0.0, 0.1, 0.1), 1.0, ["first"]),  # below 30 %
        (0.80, 0.31, (0.0, 0.1, 0.1), 1.0, ["second", "first"]),
        (0.80, 0.41, (0.1, 0.3, 0.2), 0.09, ["first"]),  # in 9 % of rows
        (0.80, 0.41, (0.1, 0.3, 0.2), 0.11, ["second", "first"]),
        (0.80, np.nan, (0.1, 0.2, 0.2), 1.0, ["first"]),
        (0.05, 0.01, (0.2, 0.3, 0.2), 1.0, ["first"]),
    ],
)
def test_a_label_exceeds_every_null_in_enough_rows(score, low, nulls, rows, expected):
    found = labels(made_up(score, low, *nulls, rows))
    assert [[label.role for label in of_head] for of_head in found] == [expected] * 3
    second = next((label.excess for label in found[0] if label.role == "second"), None)
    assert second is None or second == pytest.approx(score - np.nanmax(nulls), abs=1e-6)


def test_an_atlas_without_roles_has_no_labels():
    atlas = made_up(0.8, 0.7, 0.1, 0.1)
    others = {name: array for name, array in atlas.arrays.items() if not name.startswith("role_")}
    assert labels(dataclasses.replace(atlas, arrays=others)) == ((), (), ())


def test_gold_roles_measured_in_a_separate_pass_complete_the_atlas():
    texts, measured = texts_of(*LENGTHS), checkpoint_of(small.sharp(3))
    plain = tuple(dataclasses.replace(s, gold=None) for s in texts.sentences)
    own = Attention(Facts.of(texts))(measured, plain)
    assert not any("aligned" in role for role in finish(own).roles["cross"])
    gold = Attention(Facts.of(texts), GOLD_ROLES, averages=False)(measured, texts.sentences)
    joined = finish(own + gold)
    expected = finish(Attention(Facts.of(texts))(measured, texts.sentences))
    assert joined.roles == expected.roles
    for name, array in expected.arrays.items():
        assert joined.arrays[name] == pytest.approx(array, abs=1e-6, nan_ok=True), name


def test_without_source_function_words_all_other_roles_are_measured():
    texts = texts_of(*LENGTHS)
    facts = dataclasses.replace(Facts.of(texts), source_function_words=None)
    roles = finish(Attention(facts)(checkpoint_of(small.sharp(3)), texts.sentences)).roles
    assert "function words" not in roles["encoder"] + roles["cross"]
    assert "function words" in roles["decoder"] and len(roles["encoder"]) == 9
