"""Where heads attend over a corpus: planted roles, three nulls, intervals, merging of shards."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
import pickle
import random
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from core.atlas.atlas import DISTANCES, Atlas, Origin
from core.atlas.attention import MIN_SENTENCES, SEEDS, Attended, Attention, finish, random_network
from core.atlas.corpus import Corpus, Sentence, chunked, corpus
from core.atlas.labels import FLOOR, MARGIN, ROWS, labels
from core.atlas.roles import GOLD_ROLES, ROLES, Facts, Maps
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint, load
from core.kinds import KINDS, Kind
from core.model.build import Model, build
from core.parity.networks import VARIANTS
from core.record.capture import capture
from core.text.tokenizer import EOS, Token, special
from tests import small
from tests.planted_roles import Planted, planted

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
PLAIN_ROLES = tuple(role for role in ROLES if role not in GOLD_ROLES)


@cache
def language() -> tuple[Planted, Corpus]:
    made = planted()
    return made, corpus(made.checkpoint, made.pairs, made.gold)


@cache
def parts() -> tuple[Sums, ...]:
    """Return the sums of each chunk of the planted language."""
    made, texts = language()
    measure = Attention(Facts.of(texts))
    return tuple(measure(made.checkpoint, chunk) for chunk in chunked(texts.sentences))


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


# Planted heads


def test_every_role_of_every_kind_has_a_planted_head_that_scores_1():
    made, _ = language()
    measured = finish(Sums.total(parts()))
    everything = {(kind, role.name) for role in ROLES for kind in role.kinds}
    assert set(made.heads) == everything and len(set(made.heads.values())) == len(everything)
    for (kind, role), (_, layer, head) in made.heads.items():
        number = measured.roles[kind].index(role)
        score, low, high = measured.arrays[f"role_{kind}"][number, layer * 4 + head]
        assert score > 0.999 and low > 0.999 and high > 0.999, (kind, role)
        assert measured.arrays[f"role_{kind}_shuffled"][number, 0] < 0.3
        assert measured.arrays[f"role_{kind}_random"][number] < 0.35


def test_planted_heads_are_labelled_and_uniform_heads_are_not():
    made, _ = language()
    atlas = result(finish(Sums.total(parts())), dict.fromkeys(KINDS, 3), 4)
    by_head = dict(zip(atlas.heads, labels(atlas), strict=True))
    for (kind, role), head in made.heads.items():
        found = [label.role for label in by_head.pop(head)]
        rows = atlas.arrays[f"role_{kind}_rows"][atlas.roles[kind].index(role)]
        assert (role in found) == (rows >= ROWS), (kind, role, found)
    assert len(by_head) == 36 - 28
    assert all(found == () for found in by_head.values())


def test_a_head_that_finds_words_is_not_labelled_diagonal_where_word_order_is_the_same():
    """If sentences are their own translation, copies of the fed token lie near the diagonal."""
    made, _ = language()
    lines = [" ".join(words) for words in itertools.permutations("aimn")]
    atlas = atlas_of(made.checkpoint, corpus(made.checkpoint, [(line, line) for line in lines]))
    number = atlas.roles["cross"].index("diagonal")
    by_head = dict(zip(atlas.heads, labels(atlas), strict=True))
    places = {role: made.heads["cross", role] for role in ("copy of fed token", "diagonal")}
    near = slice(DISTANCES.index(-1), DISTANCES.index(1) + 1)
    for role, goes_by_position in (("copy of fed token", False), ("diagonal", True)):
        place = places[role][1] * 4 + places[role][2]
        assert atlas.arrays["distance"][atlas.span("cross")][place, near].sum() > 0.85
        score = atlas.arrays["role_cross"][number, place, 0]
        assert (score > 0.999) if goes_by_position else (score < 0.65)
        # Copies lie on the diagonal, so the head that finds them is not labelled a copying head.
        found = [label.role for label in by_head[places[role]]]
        assert found == (["diagonal"] if goes_by_position else [])


# Sums, averages and nulls, recomputed from maps


def texts_of(*lengths: tuple[int, int], seed: int = 0) -> Corpus:
    """Return sentences of random tokens: words, continuations and commas."""
    rng = random.Random(seed)

    def side(length: int) -> tuple[Token, ...]:
        ids = [rng.randint(4, 39) for _ in range(length - 1)]
        tokens = [Token(i, f"{i}", "," if i < 8 else f"w{i}", i % 3 > 0) for i in ids]
        return (*tokens, special(EOS))

    sentences = tuple(Sentence(i, side(s), side(t), "", "") for i, (s, t) in enumerate(lengths))
    counts = [{id: 50 - id for id in range(40)}, {id: 10 + id for id in range(40)}]
    return Corpus(sentences, (), "de", "en", "", "", *counts)


LENGTHS = tuple((3 + i * 5 % 11, 4 + i * 7 % 9) for i in range(30))


def checkpoint_of(network: Model, architecture: str = "scratch") -> Checkpoint:
    """Return a checkpoint of the network; its tokenizers are another network's and are not used."""
    made, _ = language()
    card = dataclasses.replace(made.checkpoint.card, architecture=architecture)
    return dataclasses.replace(made.checkpoint, card=card, model=network)


def maps_of(network: Model, sentence: Sentence) -> dict[Kind, np.ndarray]:
    """Return one sentence's maps from a pass without padding: [n, Q, K], n heads of all layers."""
    source, target_in = ([t.id for t in side] for side in (sentence.source, sentence.target_in))
    with torch.inference_mode(), capture(network) as captured:
        network(torch.tensor([source]), torch.tensor([target_in]))
    return {kind: captured.maps(kind)[:, 0].flatten(0, 1).numpy() for kind in KINDS}


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_shares_and_averages_equal_those_of_each_sentence_by_itself(architecture):
    network, texts = small.sharp(3, architecture), texts_of(*LENGTHS)
    atlas = atlas_of(checkpoint_of(network, architecture), texts)
    shares: dict[tuple[Kind, str], list[np.ndarray]] = {}
    entropy: dict[Kind, list[np.ndarray]] = {kind: [] for kind in KINDS}
    largest: dict[Kind, list[np.ndarray]] = {kind: [] for kind in KINDS}
    distance = {kind: np.zeros((len(DISTANCES), network.config.num_heads * 3)) for kind in KINDS}
    distance["encoder"] = distance["encoder"][:, :8]
    rows = dict.fromkeys(KINDS, 0)
    for sentence in texts.sentences:
        maps = maps_of(network, sentence)
        S, T = len(sentence.source), len(sentence.target)
        for q in range(1, S):
            shares.setdefault(("encoder", "previous token"), []).append(
                maps["encoder"][:, q, q - 1]
            )
            shares.setdefault(("encoder", "sentence start"), []).append(maps["encoder"][:, q, 0])
            shares.setdefault(("encoder", "<eos>"), []).append(maps["encoder"][:, q - 1, S - 1])
        for q in range(1, T):
            shares.setdefault(("decoder", "previous token"), []).append(
                maps["decoder"][:, q, q - 1]
            )
            shares.setdefault(("decoder", "itself"), []).append(maps["decoder"][:, q, q])
        commas = [k for k, token in enumerate(sentence.source) if token.text == ","]
        for q in range(T) if commas else ():
            punctuation = maps["cross"][:, q, commas].sum(-1)
            shares.setdefault(("cross", "punctuation"), []).append(punctuation)
        for kind in KINDS:
            for q, row_nK in enumerate(maps[kind].transpose(1, 0, 2)):
                rows[kind] += 1
                visible = q + 1 if kind == "decoder" else row_nK.shape[-1]
                origin = round(q * (S - 1) / (T - 1)) if kind == "cross" else q
                for k in range(visible):
                    far = min(max(k - origin, -20), 20)
                    distance[kind][DISTANCES.index(far)] += row_nK[:, k]
                if visible > 1:
                    bits = -sum(row_nK[:, k] * np.log2(row_nK[:, k]) for k in range(visible))
                    entropy[kind].append(bits / math.log2(visible))
                    largest[kind].append(row_nK.max(-1))
    for (kind, role), values in shares.items():
        found = atlas.arrays[f"role_{kind}"][atlas.roles[kind].index(role), :, 0]
        assert found == pytest.approx(np.mean(values, axis=0), abs=1e-6), (kind, role)
    for kind in KINDS:
        own = atlas.span(kind)
        assert atlas.arrays["entropy"][own, 0] == pytest.approx(np.mean(entropy[kind], 0), abs=1e-6)
        assert atlas.arrays["largest"][own, 0] == pytest.approx(np.mean(largest[kind], 0), abs=1e-6)
        expected = distance[kind].T / rows[kind]
        assert atlas.arrays["distance"][own] == pytest.approx(expected, abs=1e-6)
    assert atlas.arrays["distance"].sum(-1) == pytest.approx(1, abs=1e-5)


def test_distances_beyond_the_last_are_added_to_it():
    network, texts = small.sharp(3), texts_of((45, 4), (46, 5))
    maps = [maps_of(network, sentence)["encoder"] for sentence in texts.sentences]
    far = sum(
        map_nQK[:, q, : max(q - 19, 0)].sum(-1) for map_nQK in maps for q in range(map_nQK.shape[1])
    )
    atlas = atlas_of(checkpoint_of(network), texts)
    assert (far > 0).all()
    assert atlas.arrays["distance"][:8, 0] == pytest.approx(far / (45 + 46), abs=1e-6)


def test_the_shuffled_null_is_the_mean_over_real_shuffles():
    """Every row of two heads is shuffled 2,000 times over its unmasked keys."""
    network, texts = small.sharp(3), texts_of(*LENGTHS[:8])
    checkpoint, facts = checkpoint_of(network), Facts.of(texts)
    atlas = atlas_of(checkpoint, texts)
    rng = np.random.default_rng(0)
    for kind in KINDS:
        total, count = np.zeros((2, len(atlas.roles[kind]))), np.zeros(len(atlas.roles[kind]))
        for sentence in texts.sentences:
            map_nQK = maps_of(network, sentence)[kind][:2]
            roles = [role for role in ROLES if role.name in atlas.roles[kind]]
            cells = [role.cells(Maps(kind, sentence, facts)) for role in roles]
            for q in range(map_nQK.shape[1]):
                visible = q + 1 if kind == "decoder" else map_nQK.shape[2]
                rows = np.broadcast_to(map_nQK[:, None, q, :visible], (2, 2000, visible))
                mean_nK = rng.permuted(rows, axis=-1).mean(1)
                for o, (targets, counting) in enumerate(cells):
                    if counting[q]:
                        total[:, o] += mean_nK[:, targets[q, :visible]].sum(-1)
                        count[o] += 1
        shuffled_On = atlas.arrays[f"role_{kind}_shuffled"]
        # A share's standard deviation is at most 1/2; the limit is 4 standard errors of its mean.
        assert (np.abs(shuffled_On[:, :2].T - total / count) < 2 / np.sqrt(2000 * count)).all()
        assert np.ptp(shuffled_On, axis=1) == pytest.approx(0)  # the same for every head


def test_the_random_null_is_the_highest_head_of_networks_with_fresh_weights():
    texts = texts_of(*LENGTHS)
    checkpoint = checkpoint_of(small.sharp(3))
    atlas = atlas_of(checkpoint, texts, seeds=(5, 6))
    best = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        network = build("scratch", checkpoint.model.config).eval()
        shares = [
            maps_of(network, sentence)["decoder"][:, q, q - 1]
            for sentence in texts.sentences
            for q in range(1, len(sentence.target))
        ]
        best.append(np.mean(shares, axis=0).max())
    number = atlas.roles["decoder"].index("previous token")
    assert atlas.arrays["role_decoder_random"][number] == pytest.approx(max(best), abs=1e-6)
    assert best[0] != pytest.approx(best[1], abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("encoder", "punctuation"), ("decoder", "sentence start"), ("cross", "punctuation")],
)
def test_the_profile_null_gives_every_key_the_heads_mean_weight_at_its_distance(kind, name):
    network, texts = small.sharp(3), texts_of(*LENGTHS)
    atlas, seen, targets, measured, rows = atlas_of(checkpoint_of(network), texts), {}, [], 0, 0
    for sentence in texts.sentences:
        map_nQK = maps_of(network, sentence)[kind]
        Q, K = map_nQK.shape[1:]
        keys = sentence.target_in if kind == "decoder" else sentence.source
        for q in range(Q):
            rows += 1
            origin = round(q * (K - 1) / (Q - 1)) if kind == "cross" else q
            visible = range(q + 1 if kind == "decoder" else K)
            for k in visible:
                seen.setdefault(min(max(k - origin, -20), 20), []).append(map_nQK[:, q, k])
            own = [k for k in visible if (kind == "cross" or k != q)
                   and (k == 0 if name == "sentence start" else keys[k].text == ",")]  # fmt: skip
            if own and len(own) < len(visible):
                measured += 1
                targets += [min(max(k - origin, -20), 20) for k in own]
    expected = sum(np.mean(seen[distance], axis=0) for distance in targets) / measured
    number = atlas.roles[kind].index(name)
    assert atlas.arrays[f"role_{kind}_profile"][number] == pytest.approx(expected, abs=1e-6)
    assert atlas.arrays[f"role_{kind}_rows"][number] == pytest.approx(measured / rows, abs=1e-6)


def test_roles_that_are_a_distance_have_no_profile_null():
    atlas = atlas_of(checkpoint_of(small.sharp(3)), texts_of(*LENGTHS[:6]))
    for kind in KINDS:
        without = np.isnan(atlas.arrays[f"role_{kind}_profile"]).all(-1)
        assert {role for role, none in zip(atlas.roles[kind], without, strict=True) if none} == {
            "encoder": {"previous token", "next token", "itself"},
            "decoder": {"previous token", "itself"},
            "cross": {"diagonal"},
        }[kind]


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


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_small_random_network_gets_no_label(variant):
    """The networks are 16 wide; by chance, their heads differ far more than in wider networks."""
    texts = texts_of(*LENGTHS, seed=1)
    for seed in (20, 21):
        network = random_network("scratch", VARIANTS[variant], seed)
        found = labels(atlas_of(checkpoint_of(network), texts))
        assert not any(found), (seed, found)


# Intervals and labels


def test_intervals_are_percentiles_over_bootstrap_replicates():
    network, texts = small.sharp(3), texts_of(*LENGTHS)
    atlas = atlas_of(checkpoint_of(network), texts)
    sums = np.array(
        [
            [
                maps_of(network, s)["encoder"][
                    :, range(1, len(s.source)), range(len(s.source) - 1)
                ].sum(-1)
            ]
            for s in texts.sentences
        ]
    )[:, 0]
    queries = np.array([len(s.source) - 1 for s in texts.sentences])
    drawn = bootstrap_weights(range(len(texts.sentences)))[:, 1:]
    replicates = sorted_percentiles((drawn.T @ sums) / (drawn.T @ queries)[:, None])
    number = atlas.roles["encoder"].index("previous token")
    assert atlas.arrays["role_encoder"][number, :, 1:] == pytest.approx(replicates, abs=1e-6)
    width = np.ptp(atlas.arrays["role_encoder"][number, :, 1:], axis=1)
    # The normal approximation of a ratio's standard error, from the same sentences.
    residual = sums - sums.sum(0) / queries.sum() * queries[:, None]
    error = np.sqrt((residual**2).sum(0)) / queries.sum()
    assert width == pytest.approx(2 * 1.96 * error, rel=0.25)


def sorted_percentiles(values_Rn: np.ndarray) -> np.ndarray:
    """Return the 2.5th and 97.5th percentile of each column, interpolated linearly: [n, 2]."""
    ordered = np.sort(values_Rn, axis=0)
    places = np.array([0.025, 0.975]) * (len(ordered) - 1)
    below = np.floor(places).astype(int)
    part = (places - below)[:, None]
    return (ordered[below] * (1 - part) + ordered[below + 1] * part).T


@pytest.mark.parametrize("count", [1, MIN_SENTENCES - 1, MIN_SENTENCES])
def test_few_sentences_have_estimates_but_no_interval_and_no_label(count):
    made, texts = language()
    few = dataclasses.replace(texts, sentences=texts.sentences[:count])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        atlas = atlas_of(made.checkpoint, few)
    number = atlas.roles["encoder"].index("previous token")
    score, low, high = atlas.arrays["role_encoder"][number, 0]
    assert score > 0.999 and np.isfinite(atlas.arrays["entropy"][:, 0]).all()
    assert np.isfinite([low, high]).all() == (count >= MIN_SENTENCES)
    assert np.isfinite(atlas.arrays["entropy"][:, 1:]).all() == (count >= MIN_SENTENCES)
    assert any(labels(atlas)) == (count >= MIN_SENTENCES)


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
    assert (MARGIN, FLOOR, ROWS) == (0.1, 0.3, 0.1)
    found = labels(made_up(score, low, *nulls, rows))
    assert [[label.role for label in of_head] for of_head in found] == [expected] * 3
    second = next((label.excess for label in found[0] if label.role == "second"), None)
    assert second is None or second == pytest.approx(score - np.nanmax(nulls), abs=1e-6)


def test_an_atlas_without_roles_has_no_labels():
    atlas = made_up(0.8, 0.7, 0.1, 0.1)
    others = {name: array for name, array in atlas.arrays.items() if not name.startswith("role_")}
    assert labels(dataclasses.replace(atlas, arrays=others)) == ((), (), ())


# Shards


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_shards_agree(shards):
    """60 sentences in chunks of 25 are 3 parts; more parts come from repeating them."""
    every = parts() * 3
    by_shard = [Sums.total(every[number::shards]) for number in range(shards)]
    expected, found = Sums.total(every), Sums.total(by_shard)
    assert set(found) == set(expected)
    for name, array in expected.items():
        if array.dtype == np.int64 or name.startswith("queries"):
            assert np.array_equal(found[name], array), name
        else:
            np.testing.assert_allclose(found[name], array, rtol=1e-12, atol=1e-12, err_msg=name)


def test_a_pickled_measure_gives_the_same_sums():
    made, texts = language()
    measure = pickle.loads(pickle.dumps(Attention(Facts.of(texts))))
    found = measure(made.checkpoint, next(chunked(texts.sentences)))
    assert all(np.array_equal(found[name], array) for name, array in parts()[0].items())


def test_gold_roles_measured_in_a_separate_pass_complete_the_atlas():
    made, texts = language()
    plain = dataclasses.replace(
        texts, sentences=tuple(dataclasses.replace(s, gold=None) for s in texts.sentences)
    )
    without = Attention(Facts.of(plain))
    own = Sums.total(without(made.checkpoint, chunk) for chunk in chunked(plain.sentences))
    assert not any("aligned" in role for role in finish(own).roles["cross"])
    aligned = Attention(Facts.of(texts), GOLD_ROLES, averages=False)
    gold = Sums.total(aligned(made.checkpoint, chunk) for chunk in chunked(texts.sentences))
    joined, expected = finish(own + gold), finish(Sums.total(parts()))
    assert joined.roles == expected.roles
    for name, array in expected.arrays.items():
        assert joined.arrays[name] == pytest.approx(array, abs=1e-6, nan_ok=True), name


def test_without_source_function_words_all_other_roles_are_measured():
    made, texts = language()
    facts = dataclasses.replace(Facts.of(texts), source_function_words=None)
    sums = Attention(facts)(made.checkpoint, texts.sentences[:25])
    measured = finish(sums)
    assert "function words" not in measured.roles["encoder"] + measured.roles["cross"]
    assert "function words" in measured.roles["decoder"]
    assert len(measured.arrays["role_encoder"]) == len(measured.roles["encoder"]) == 9


def test_measured_roles_survive_saving_and_loading_an_atlas():
    atlas = result(finish(Sums.total(parts())), dict.fromkeys(KINDS, 3), 4)
    again = Atlas.load(io.BytesIO(atlas.to_bytes()))
    assert again.roles == atlas.roles
    assert np.array_equal(again.arrays["role_cross"], atlas.arrays["role_cross"])
