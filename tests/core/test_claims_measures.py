"""Measures for claims agree with hand-made maps and with independent computations."""

import pickle
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from core.analysis.alignment import Gold
from core.analysis.attribution import source_words
from core.atlas.build import Work
from core.atlas.claims import lens
from core.atlas.claims.alignment import alignment, alike
from core.atlas.claims.attention import (
    Attended,
    attention,
    neighbours,
    on_empty,
    on_rarest,
)
from core.atlas.claims.claim import OPEN, Estimate
from core.atlas.claims.errors import Errors, auroc, uncertainties
from core.atlas.claims.gender import Triggers
from core.atlas.claims.hallucinations import MadeUp, hallucinations, is_made_up
from core.atlas.claims.literature import LITERATURE
from core.atlas.claims.measure import PARTS, measure_board
from core.atlas.claims.network import Network
from core.atlas.claims.pruning import Survivors, differences_in_order
from core.atlas.claims.sinks import Sinks, sinks
from core.atlas.claims.sources import (
    ROLLOUT,
    Faithfulness,
    SourceShares,
    changes,
    rolled_out_shares,
    source_shares,
)
from core.atlas.claims.training import width
from core.atlas.corpus import corpus
from core.atlas.lens import LensTest, translated
from core.atlas.partial import Partial
from core.atlas.pruning import ChoiceLosses, heads_on, removal_order
from core.atlas.shards import in_process
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint, load, read_card
from core.experiments.attribution import log_probs_seeing
from core.experiments.relevance import relevances
from core.experiments.values import value_norms
from core.model.baseline import Baseline, copy_to_baseline
from core.model.build import build
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.search.beam import greedy
from core.text.tokenizer import BOS, EOS, Token, special
from tests import small
from tests.core import atlas_network
from tests.generated_language import ENTRIES, language, plant

PAIRS = atlas_network.MIXED[:14]
FOUR_TOKENS = [*(Token(id, f"{id}", f"{id}", True) for id in (10, 11, 12, 13)), special(EOS)]


def as_network(checkpoint: Checkpoint, gold: bool = True, count: int = len(PAIRS)) -> Network:
    text = corpus(checkpoint, PAIRS[:count])
    links = [Gold.parse("0-0 1-1")] * len(PAIRS)
    aligned = corpus(checkpoint, PAIRS, links) if gold else None
    work = Work(in_process(checkpoint), Partial(None, ""))
    return Network(checkpoint, text, work, text.source_counts, aligned)


@pytest.fixture(scope="module")
def sharp() -> Checkpoint:
    """Random weights, large enough for uneven maps, with another network's tokens."""
    base = atlas_network.checkpoint()
    both = base.source_tokenizer, base.target_tokenizer
    sizes = {"source_vocab_size": both[0].size, "target_vocab_size": both[1].size}
    model = small.sharp(3, **sizes, num_heads=2, norm_first=True)
    return Checkpoint(replace(base.card, folder=Path("one"), model=model.config), model, *both)


def test_the_largest_weight_on_a_neighbour_is_counted():
    rows = np.eye(5)[[[1, 0, 3, 2, 3], [3, 2, 1, 3, 3], [0, 0, 1, 2, 3]]]
    rows[1, 0] = [0, 0.4, 0, 0, 0.6]  # without <eos>, the largest weight is on the token after
    rows[2, 3] = [0, 0, 0.2, 0.1, 0.7]  # and here on the token before
    found = neighbours(rows.reshape(3, 1, 5, 5), FOUR_TOKENS)
    # head 0: after, before, after, before; head 1: rows 0 and 1 after, row 2 before; head 2: before
    assert found["neighbour"].tolist() == [[2, 1, 3], [2, 2, 0]], "the row of <eos> is left out"
    assert found["neighbours"].tolist() == [3, 3]
    assert found["neighbour_uniform"].tolist() == [3 / 4, 3 / 4]


def test_the_largest_weight_on_a_rarest_token_is_counted():
    counts = {10: 9, 11: 2, 12: 2, 13: 5, 2: 1}  # <eos> does not count as rare
    rows = np.eye(5)[[[1, 2, 1, 0, 1], [4, 4, 2, 3, 1]]]
    found = on_rarest(rows, FOUR_TOKENS, counts, frozenset({10, 13}))
    assert found["rarest"].tolist() == [3, 1], "the row of <eos> is left out"
    assert found["queries"] == 4
    assert found["rarest_uniform"] == pytest.approx(4 * 2 / 5)
    assert found["rare_sentences"] == 1
    none = on_rarest(rows, FOUR_TOKENS, counts, frozenset({10, 11, 12, 13, 14}))
    assert none["rarest"].tolist() == [0, 0], "a sentence of frequent tokens"
    assert none["queries"] == none["rarest_uniform"] == none["rare_sentences"] == 0
    del counts[13]  # never seen, so the rarest
    assert on_rarest(rows, FOUR_TOKENS, counts, frozenset())["rarest"].tolist() == [0, 1]


def test_the_500_tokens_that_occur_most_often_are_frequent(sharp):
    """Of 501 tokens, the rarest is left out; in a tie, the one with the higher id."""
    counts = {id: 9 for id in range(1000, 1499)} | {11: 5, 10: 5}
    network = replace(as_network(sharp), frequencies=counts)
    measured = []
    with (
        patch.object(network, "measured", measured.append),
        patch("core.atlas.claims.attention.statistics"),
    ):
        attention(network)
    assert measured[0].frequent == {*range(1000, 1499), 10}
    assert measured[0].counts == counts


def test_attention_to_eos_and_punctuation_is_summed():
    tokens = [Token(9, text, text, True) for text in "b,c"] + [special(EOS)]
    maps = np.array([[[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.2, 0]], [[0, 0, 0, 1], [1, 0, 0, 0]]])
    found = on_empty(maps.reshape(1, 2, 2, 4), tokens)
    assert found["empty"] == pytest.approx((0.6 + 0.1 + 1 + 0) / 2)
    assert found["empty_uniform"] == pytest.approx(2 * 2 / 4)
    assert found["rows"] == 2


def test_what_heads_attend_to_agrees_with_a_loop_over_the_maps(sharp):
    text = corpus(sharp, PAIRS)
    sums = Attended(dict(text.source_counts), frozenset())(sharp, text.sentences)
    empty, rows, before = 0.0, 0, 0
    for sentence in text.sentences:
        with capture(sharp.model) as captured:
            sharp.model(
                torch.tensor([sentence.ids[0]]), torch.tensor([[BOS, *sentence.ids[1][:-1]]])
            )
        cross, encoder = (captured.maps(kind)[:, 0] for kind in ("cross", "encoder"))
        for k, token in enumerate(sentence.source):
            if token.special or token.text.strip("▁") in (",", "."):
                empty += float(cross[..., k].sum()) / (cross.shape[0] * cross.shape[1])
        rows += cross.shape[2]
        for q in range(1, encoder.shape[2] - 1):  # the last is <eos>
            before += int(encoder[1, 1, q, :-1].argmax() == q - 1)
    assert sums["empty"][0] == pytest.approx(empty)
    assert sums["rows"][0] == rows
    assert sums["neighbour"][0, 0, 1 * 2 + 1] == before
    weights = bootstrap_weights(s.index for s in text.sentences)
    assert sums["rows"].tolist() == pytest.approx(
        (weights.T @ [len(s.target) for s in text.sentences]).tolist()
    )


def test_the_sources_share_is_that_of_relevances_by_size(sharp):
    """The reference asks for one token at a time, and sums as floats."""
    sentence = corpus(sharp, PAIRS).sentences[0]
    expected = []
    for t in range(len(sentence.target)):
        found = relevances(sharp.model, *sentence.ids, [t])
        source, prefix = (sum(map(abs, part[0].tolist())) for part in (found.source, found.prefix))
        expected.append(source / (source + prefix))
    assert source_shares(sharp, sentence) == pytest.approx(expected, rel=1e-5)


def test_wrong_tokens_agree_with_a_loop_over_pairs(sharp):
    """AUROC from all pairs of a wrong and a right token; RAUQ by its formula, layer by layer."""
    chunk = corpus(sharp, PAIRS).sentences
    sums = Errors()(sharp, chunk)
    expected = []
    for sentence, target in zip(chunk, translated(sharp, chunk), strict=True):
        if len(target) <= 2:
            continue
        with capture(sharp.model) as captured:
            logits = sharp.model(
                torch.tensor([sentence.ids[0]]), torch.tensor([[BOS, *target[:-1]]])
            )
        log_p = logits[0].double().log_softmax(-1)
        maps = captured.maps("decoder")[:, 0].double()
        found = sums[f"tokens_{sentence.index:09}"]
        for t, id in enumerate(target[:-1]):
            assert found[t, 2:] == pytest.approx(maps[:, :, t + 1, t].numpy())
            assert found[t, 1] == pytest.approx(log_p[t, id].item(), abs=1e-5)
            text = sharp.target_tokenizer.token(id).text.strip("▁").lower()
            words = sentence.reference.lower().replace(".", " ").replace(",", " ").split()
            if text.isalpha():
                assert found[t, 0, 0] == (not any(text in word for word in words))
        best = maps.diagonal(-1, -2, -1)
        expected.append((found[:, 1, 0], best))
    heads = torch.cat([previous[..., 1:] for _, previous in expected], -1).mean(-1).argmax(-1)
    by_formula = []
    for log_p, previous in expected:
        of_layer = []
        for layer, head in enumerate(heads.tolist()):
            confidence = [np.exp(log_p[0])]
            for t in range(1, len(log_p)):
                weight = float(previous[layer, head, t])
                confidence.append(0.2 * np.exp(log_p[t]) + 0.8 * weight * confidence[-1])
            of_layer.append(-np.log(confidence).mean())
        by_formula.append(max(of_layer))
    assert uncertainties([sums[name] for name in sorted(sums)]) == pytest.approx(by_formula)


def test_auroc_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(1)
    score, wrong = rng.integers(0, 6, 40) / 5, rng.random(40) < 0.4
    counts = rng.poisson(1.0, (40, 3)).astype(float)
    for r, found in enumerate(auroc(score, wrong, counts)):
        at = np.repeat(np.arange(40), counts[:, r].astype(int))
        pairs = [(score[i] > score[j]) + (score[i] == score[j]) / 2
                 for i in at[wrong[at]] for j in at[~wrong[at]]]  # fmt: skip
        assert found == pytest.approx(np.mean(pairs))


def test_sinks_agree_with_value_norms(sharp):
    """‖α v W‖ / α of a row that sees all keys is ‖v W‖."""
    sentence = corpus(sharp, PAIRS).sentences[0]
    sums = Sinks()(sharp, [sentence])
    norms = value_norms(sharp.model, *sentence.ids)["decoder"].astype(float)
    with capture(sharp.model) as captured:
        sharp.model(torch.tensor([sentence.ids[0]]), torch.tensor([[BOS, *sentence.ids[1][:-1]]]))
    maps = captured.maps("decoder")[:, 0].detach().double().numpy()
    length = (norms / np.where(maps > 0, maps, 1))[:, :, -1]
    assert sums["ratio"][0] == pytest.approx(length[..., 0] / length[..., 1:].mean(-1), rel=1e-4)
    by_row = [maps[:, :, q, 0] for q in range(1, maps.shape[2])]
    assert sums["weight"][0] == pytest.approx(np.mean(by_row, axis=0), rel=1e-5)


def test_a_rise_between_two_snapshots_has_wide_bounds():
    value, low, high = width(np.array([0, 100, 400, 1600]), np.array([0.1, 0.1, 0.1, 0.9]))
    assert (low, high) == (0, 1 - 400 / 1600)
    assert value == pytest.approx(1 - (400 + 0.1 * 1200) / (400 + 0.9 * 1200))
    _, low, high = width(np.array([0, 100, 400, 1600]), np.array([0.1, 0.3, 0.8, 0.9]))
    assert (low, high) == (1 - 100 / 400, 1)
    assert width(np.arange(3), np.array([0.3, 0.2, 0.1])) is None


def by_hand(checkpoint: Checkpoint, sentence) -> np.ndarray:
    """Return the source's share in each decoder row [T], query by query, for a pre-norm network."""
    model = checkpoint.model
    source, target = sentence.ids
    with capture(model) as captured:
        memory, mask = model.encode(torch.tensor([source]))
        x = model.embeddings.target(torch.tensor([[BOS, *target[:-1]]]))[0]
        model.decode(torch.tensor([[BOS, *target[:-1]]]), memory, mask)
    maps = {kind: captured.maps(kind)[:, 0] for kind in ("decoder", "cross")}
    sites = {(site.kind, site.layer): site for site in model.attention_sites()}
    share = [0.0] * len(x)
    for number, layer in enumerate(model.stack("decoder").layers):
        for kind, norm in (("decoder", layer.norm1), ("cross", layer.norm2)):
            _, _, value, out = sites[kind, number].projections()
            keys = norm(x) if kind == "decoder" else memory[0]
            H = sites[kind, number].num_heads
            v = linear(keys, *value).chunk(H, -1)
            o = out.weight.chunk(H, 1)
            new, after = [], []
            for q in range(len(x)):
                parts = [
                    sum(maps[kind][number, h, q, k] * (v[h][k] @ o[h].T) for h in range(H))
                    for k in range(len(keys))
                ]
                after.append(x[q] + sum(parts) + out.bias)
                if kind == "decoder":
                    parts[q] = parts[q] + x[q]
                    sizes = [float(part.norm()) for part in parts]
                    mixed = sum(size * share[k] for k, size in enumerate(sizes))
                else:
                    sizes = [float(part.norm()) for part in parts] + [float(x[q].norm())]
                    mixed = sum(sizes[:-1]) + sizes[-1] * share[q]
                new.append(mixed / sum(sizes))
            x, share = torch.stack(after), new
        x = x + layer.feed_forward(layer.norm3(x))
    return np.array(share)


@torch.no_grad()
def test_the_rolled_out_share_agrees_with_a_loop_over_cells(sharp):
    sentence = corpus(sharp, PAIRS).sentences[0]
    shares = by_hand(sharp, sentence)
    assert rolled_out_shares(sharp, sentence) == pytest.approx(shares, abs=1e-6)
    sums = SourceShares(ROLLOUT)(sharp, [sentence])
    assert (sums["along"][0], sums["at_eos"][0]) == pytest.approx(changes(shares), abs=1e-6)


@torch.no_grad()
def test_lens_rows_agree_with_a_loop_over_tokens():
    """A trained network and a noisy lens; states come from hooks on the layers."""
    network, rng = atlas_network.checkpoint(), np.random.default_rng(2)
    model, D = network.model, network.model.config.d_model
    jacobians = {
        side: np.eye(D, dtype=np.float32)
        + 0.3 * rng.standard_normal((1 + len(model.stack(side).layers), D, D)).astype(np.float32)
        for side in ("encoder", "decoder")
    }
    chunk = corpus(network, PAIRS).sentences
    targets = translated(network, chunk)
    hits, null, agree = [], [], {"plain": [], "lens": []}
    for i, sentence in enumerate(chunk):
        source, target = sentence.ids[0], targets[i]
        states, logits = states_of(model, source, target)
        for words, counted in ((target, hits), (targets[(i + 1) % len(chunk)], null)):
            wanted = {id for id in words if id not in source and id != EOS}
            for n in range(len(source) - 1):
                best = (best_of(model, states["encoder"][at][n], jacobians["encoder"][at])
                        for at in (0, -1))  # fmt: skip
                counted.append([bool(wanted & set(ids)) for ids in best])
        for t, row in enumerate(logits):
            for name, J in (("plain", [np.eye(D)] * 3), ("lens", jacobians["decoder"])):
                read = zip(states["decoder"], J, strict=True)
                agree[name].append([best_of(model, s[t], j)[0] == row.argmax() for s, j in read])
    first, last = np.mean(hits, 0) - np.mean(null, 0)
    plain, by_lens = (np.mean(agree[name], 0) for name in ("plain", "lens"))
    found = lens.statistics(LensTest(jacobians)(network, chunk), len(chunk))
    expected = {
        "translated-in-embeddings": first,
        "translated-layer-by-layer": last - first,
        "first-decoder-layer": (plain[1] - plain[0]) / ((plain[2] - plain[0]) / 2),
        "jacobian-lens-better": np.mean(by_lens[:2] - plain[:2]),
    }
    assert {id: one.replicates[0] for id, one in found.items()} == pytest.approx(expected)
    assert all(expected.values()), "values that a wrong layer would change"


def test_the_lens_of_a_folder_is_sent_to_other_processes():
    """Its matrices are read-only, in a mapping that cannot be pickled."""
    card = read_card(Path(__file__).parents[2] / "checkpoints/scratch-de-en")
    network = Mock(checkpoint=Mock(card=card), text=Mock(lines=(), source_sha256=""))
    with patch.object(lens, "statistics"):
        lens.lens(network)
    (measure, _), _ = network.measured.call_args
    assert repr(pickle.loads(pickle.dumps(measure))) == repr(measure)


def states_of(model, source, target) -> tuple[dict[str, list[torch.Tensor]], torch.Tensor]:
    """Return each side's embeddings and layer outputs, L + 1 tensors [N, D], and the logits."""
    states: dict[str, list[torch.Tensor]] = {"encoder": [], "decoder": []}
    hooks = []
    for side, found in states.items():
        for number, layer in enumerate(model.stack(side).layers):
            if number == 0:
                hooks.append(layer.register_forward_pre_hook(
                    lambda module, args, found=found: found.append(args[0][0])))  # fmt: skip
            hooks.append(layer.register_forward_hook(
                lambda module, args, out, found=found: found.append(out[0])))  # fmt: skip
    logits = model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))[0]
    for hook in hooks:
        hook.remove()
    return states, logits


def best_of(model, state, J) -> list[int]:
    """Return the five most probable tokens of one state, read through J."""
    turned = torch.as_tensor(J, dtype=state.dtype) @ state
    return model.classify(model.stack("decoder").norm(turned)).argsort(descending=True)[:5].tolist()


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Checkpoint:
    """Head 1 of layer 2 aligns all words, and head 2 of layer 1 half of them; noise on weights."""
    folder = tmp_path_factory.mktemp("planted") / "one-xx-yy"
    plant(folder, {(1, 0): range(ENTRIES), (0, 1): range(0, ENTRIES, 2)})
    checkpoint, noise = load(folder), torch.Generator().manual_seed(5)
    model = build("scratch", checkpoint.card.model)
    weights = {
        name: weight + 0.1 * torch.randn(weight.shape, generator=noise)
        for name, weight in checkpoint.model.state_dict().items()
    }
    model.load_state_dict(weights)
    return replace(checkpoint, model=model.eval())


@torch.no_grad()
def test_aligning_heads_agree_with_a_loop_over_words(planted):
    """Links, errors and losses of single heads by their definitions, one head at a time."""
    drawn = language().pairs(12)
    pairs, gold = [pair for pair, _ in drawn], [right for _, right in drawn]
    text, model = corpus(planted, pairs, gold), planted.model
    work = Work(in_process(planted), Partial(None, ""))
    network = Network(planted, text, work, text.source_counts, text)
    heads = [(layer, head) for layer in (0, 1) for head in (0, 1)]
    error = {}
    for first in (0, 1):  # rows that produce a token, and rows that are fed it
        for layer, head in heads:
            links = []
            for sentence in text.sentences:
                with capture(model) as captured:
                    model(*both_sides(sentence))
                rows = captured.maps("cross")[layer, 0, head, first:].double()
                links.append(links_of(rows, sentence))
            error[first, layer, head] = error_of(links, gold)
    best = [min(error[first, *head] for first in (0, 1)) for head in heads]
    monotone = [
        {(int(t * (S - 1) / max(1, T - 1) + 0.5), t) for t in range(T)}
        for S, T in ((len(a.split()), len(b.split())) for a, b in pairs)
    ]
    diagonal = error_of(monotone, gold)
    losses = []
    for off in (None, *heads):
        edits = Edits(heads_off=frozenset() if off is None else frozenset({("cross", *off)}))
        with edited(model, edits):
            rows = [model(*both_sides(s))[0].double().log_softmax(-1) for s in text.sentences]
        each = [-row[t, id] for row, s in zip(rows, text.sentences, strict=True)
                for t, id in enumerate(s.ids[1])]  # fmt: skip
        losses.append(float(sum(each)) / len(each))
    gained = np.array(losses[1:]) - losses[0]
    others = np.delete(gained, np.argmin(best)).mean()
    found = {id: one.replicates[0] for id, one in alignment(network).items()}
    expected = {
        "aligning-heads-exist": diagonal - min(best),
        "aligning-heads-sparse": np.mean([one < diagonal for one in best]),
        "aligning-heads-causal": gained[np.argmin(best)] - others,
        "other-heads-idle": others / gained[np.argmin(best)],
    }
    assert {id: found[id] for id in expected} == pytest.approx(expected, abs=1e-5)
    assert min(best) < 0.1 and 0 < expected["aligning-heads-sparse"] < 1
    network.other = Network(planted, text, work, text.source_counts, text)
    with patch("core.atlas.counterpart.load", lambda folder: planted):
        same = alike(network)["aligning-heads-same"].replicates[0]
    assert same == pytest.approx(1), "a network and itself"


def both_sides(sentence) -> tuple[torch.Tensor, torch.Tensor]:
    source, target = sentence.ids
    return torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])


def links_of(map_QK, sentence) -> set[tuple[int, int]]:
    """Link each target word to the source word with the largest weight; words follow blanks."""
    source, target = (
        np.cumsum([t.starts_word for t in side[:-1]]) - 1
        for side in (sentence.source, sentence.target)
    )
    links = set()
    for word in range(target[-1] + 1):
        rows = [map_QK[q] for q in np.flatnonzero(target == word)]
        mean = sum(rows) / len(rows)
        sums = [float(mean[np.flatnonzero(source == k)].sum()) for k in range(source[-1] + 1)]
        links.add((int(np.argmax(sums)), word))
    return links


def error_of(links, gold) -> float:
    right = sum(len(a & g.sure) + len(a & g.possible) for a, g in zip(links, gold, strict=True))
    return 1 - right / sum(len(a) + len(g.sure) for a, g in zip(links, gold, strict=True))


def test_made_up_translations_are_counted_one_by_one():
    assert is_made_up("A dog runs.", "A cat sat, ran.") and not is_made_up("A dog", "a, Dog cat")
    assert not is_made_up("A dog", "...") and not is_made_up("", ""), "no word is made up"
    network = atlas_network.checkpoint()
    chunk = corpus(network, [(reference, reference) for _, reference in PAIRS]).sentences
    choices = ((("decoder", 0, 0),), (("decoder", 1, 1), ("decoder", 1, 0)))
    counts = []
    for off in ((), *choices):
        with edited(network.model, Edits(heads_off=frozenset(off))):
            found = [greedy(network.model, torch.tensor([s.ids[0]]))[0][0].ids for s in chunk]
        texts = map(network.target_tokenizer.decode, found)
        counts.append(sum(is_made_up(s.reference, t) for s, t in zip(chunk, texts, strict=True)))
    sums = MadeUp(choices)(network, chunk)
    assert sums["made_up"][0].tolist() == counts and sums["sentences"] == len(chunk)
    copy = build("baseline", network.model.config).double().eval()
    copy_to_baseline(network.model, copy)
    same, ids = replace(network, model=copy), translated(network, chunk)
    with patch.object(Baseline, "step", side_effect=AssertionError("it has no KV cache")):
        assert MadeUp(choices)(same, chunk)["made_up"][0].tolist() == counts
        assert translated(same, chunk) == ids


def test_heads_are_chosen_on_other_sentences_than_they_are_tested_on(sharp):
    """Of six heads one is chosen: the one without which least is made up."""
    network, asked = as_network(sharp), []

    def measured(measure, lines):
        asked.append((measure.choices, lines))
        counts = [9, 8, 7, 9, 2, 9, 8] if len(measure.choices) == 6 else [8, 2, 8, 6, 7]
        made_up = np.tile(np.array(counts, float), (5, 1))
        return Sums({"made_up": made_up, "sentences": np.array(len(lines), np.int64)})

    with patch.object(network, "measured", measured):
        found = hallucinations(network)["few-heads-hallucinate"]
    (_, chosen_on), (tested, others) = asked
    assert tested[0] == (("decoder", 1, 1),) and ("decoder", 1, 1) not in sum(tested[1:], ())
    assert not {line.index for line in chosen_on} & {line.index for line in others}
    assert all(line.source_text == line.reference for line in (*chosen_on, *others))
    assert (found.replicates[0], found.null) == pytest.approx((1 - 2 / 8, np.mean([0, 2, 1]) / 8))


def test_triggers_agree_with_hidden_words_and_a_gradient_of_the_difference(sharp):
    """The network sees words by `Edits`, and the gradient is that of one difference of logits."""
    pairs = {"A": "Two", "Two": "A", "the": "a", "a": "the"}
    model, chunk = sharp.model, corpus(sharp, PAIRS).sentences
    id_of = {text: sharp.target_tokenizer.encode(text)[0].id for text in pairs}
    gained = np.zeros(2)
    for sentence in chunk:
        words, entered = source_words(sentence.source), []
        row = next(t for t, token in enumerate(sentence.target) if token.text in pairs)
        ids = [sentence.ids[1][row], id_of[pairs[sentence.target[row].text]]]
        inputs = torch.tensor([sentence.ids[0]]), torch.tensor([[BOS, *sentence.ids[1][:row]]])

        def enter(module, args, entered=entered):
            entered.append(args[0].requires_grad_())

        hook = model.stack("encoder").layers[0].register_forward_pre_hook(enter)
        with hook, torch.enable_grad():
            own, other = model(*inputs)[0, row, ids]
            (gradient,) = torch.autograd.grad(own - other, entered[0])
        table = model.embeddings.source_table.weight
        x = model.embeddings.look_up(inputs[0], table)[0]
        size = [abs((gradient[0] * x.detach())[list(word)].sum().item()) for word in words]
        few = sorted(range(len(words)), key=lambda n, size=size: size[n])[-2:]
        prefers = []
        for shown in (range(len(words)), (), few):
            hidden = tuple(p for n, word in enumerate(words) if n not in shown for p in word)
            with torch.no_grad(), edited(model, Edits(hidden_source=hidden)):
                own, other = model(*inputs)[0, row, ids].tolist()
            prefers.append(own - other)
        if prefers[0] > 0 and len(words) > 2:
            gained += prefers[0] - prefers[1], prefers[2] - prefers[1]
    with patch("core.atlas.claims.gender.GENDERS", pairs):
        sums = Triggers()(sharp, chunk)
    assert (sums["all"][0], sums["few"][0]) == pytest.approx(gained, rel=1e-4)
    assert 0 < sums["sentences"] < len(chunk) and sums["random"][0] != sums["few"][0]


def test_the_share_is_compared_by_thirds_and_at_eos():
    along, at_eos = changes(np.array([0.9, 0.7, 0.5, 0.5, 0.2, 0.4, 0.1, 0.05]))
    assert along == pytest.approx((0.4 + 0.1) / 2 - (0.9 + 0.7) / 2)
    assert at_eos == pytest.approx(0.05 - 0.1)


def test_faithfulness_agrees_with_shapley_values_over_all_orders(sharp):
    """The reference averages over the six orders of three words, and ranks those averages."""
    text = corpus(sharp, [("Ein Hund läuft", "A dog runs")])
    (sentence,) = text.sentences
    words = source_words(sentence.source)
    assert len(words) == 3
    hidden = {}
    for subset in range(8):
        keep = [k for k in range(len(sentence.source)) if not _in(k, words, ~subset)]
        hidden[subset] = log_probs_seeing(sharp.model, *sentence.ids, [tuple(keep)])[0]
    values = np.zeros((3, len(sentence.target)))
    for order in permutations(range(3)):
        seen = 0
        for word in order:
            values[word] += (hidden[seen | 1 << word] - hidden[seen]) / 6
            seen |= 1 << word
    with capture(sharp.model) as captured:
        sharp.model(torch.tensor([sentence.ids[0]]), torch.tensor([[BOS, *sentence.ids[1][:-1]]]))
    mean = captured.maps("cross")[:, 0].mean((0, 1)).detach().numpy()
    weights = np.array([mean[:, list(word)].sum(-1) for word in words])
    rho = [
        np.corrcoef(values[:, t].argsort().argsort(), weights[:, t].argsort().argsort())[0, 1]
        for t in range(len(sentence.target))
    ]
    sums = Faithfulness()(sharp, text.sentences)
    assert sums["weights"][0] == pytest.approx(np.mean(rho))
    assert sums["drawn"][0] == sums["sentences"] == 1


def _in(k: int, words, subset: int) -> bool:
    """Return whether position k is in a word of `subset`, which has one bit per word."""
    return any(k in word and subset >> n & 1 for n, word in enumerate(words))


def test_survivors_are_what_the_order_has_not_removed_halfway(sharp):
    chunk = corpus(sharp, PAIRS).sentences[3:5]
    order = removal_order(
        heads_on(sharp.model, "all"),
        lambda choices: ChoiceLosses(choices)(sharp, chunk)["choice_loss"],
    )
    kinds = ["encoder"] * 4 + ["decoder"] * 6 + ["cross"] * 6  # 2, 3 and 3 layers of 2 heads
    left = [kinds[n] for n in order[8:]]
    expected = [left.count("encoder") / 4, left.count("decoder") / 6, left.count("cross") / 6]
    sums = Survivors()(sharp, chunk)
    assert sums.keys() == {"left_3"}
    assert sums["left_3"].tolist() == pytest.approx(expected)


def test_differences_are_in_the_order_of_the_groups():
    left = {"left_20": [0.1, 0.4, 0.9], "left_3": [0.3, 0.2, 0.25]}
    found = differences_in_order(Sums({name: np.array(x) for name, x in left.items()}))
    assert found == pytest.approx(np.array([[-0.1, 0.05], [0.3, 0.5]]))


def test_shards_agree(sharp):
    """The sums of the shards add up to those of the whole corpus."""
    sentences = corpus(sharp, PAIRS).sentences
    for measure in (Attended({}, frozenset()), SourceShares(), Sinks()):
        whole = measure(sharp, sentences)
        total = Sums.total(measure(sharp, sentences[n::3]) for n in range(3))
        assert total.keys() == whole.keys()
        for name in whole:
            assert total[name] == pytest.approx(whole[name], rel=1e-12), name


def test_a_board_is_measured_from_end_to_end(sharp, tmp_path):
    """A network and its copy without gold: each head's counterpart is itself."""
    networks = [as_network(sharp, gold, 4) for gold in (True, False)]
    networks[1].checkpoint = replace(sharp, card=replace(sharp.card, folder=Path("copy")))
    networks[0].other = networks[1]
    both = {Path("one"): sharp, Path("copy"): sharp}
    loaded = patch("core.atlas.counterpart.load", both.__getitem__)
    progress: list[int] = []
    with loaded:
        board = measure_board(networks, "generated", "words", "command", progress.append)
    assert sum(progress) == 2 * PARTS
    rows = {row.claim.id: row for row in board.rows}
    assert set(rows["positional-heads"].estimates) == {"one", "copy"}
    assert set(rows["input-reading-better"].estimates) == {"one"}
    assert rows["input-reading-better"].mean is None, "a mean needs all networks"
    assert set(rows["same-heads-matter"].estimates) == {sharp.card.direction}
    assert rows["same-heads-matter"].mean.value == pytest.approx(1)
    assert rows["fixed-positional-heads"].verdict == OPEN
    assert not rows["gender-by-few-words"].estimates, "no network writes German"
    assert {*rows["source-share-at-eos"].variants} == {ROLLOUT}
    assert len(rows) == len(LITERATURE)
    for row in rows.values():
        if row.mean is not None:
            values = [estimate.value for estimate in row.estimates.values()]
            assert row.mean.value == pytest.approx(np.mean(values), rel=1e-4)


def test_what_is_known_on_a_network_is_not_measured_again(sharp):
    """Rows are completed network by network, and their means from the estimates."""
    network = as_network(sharp, count=4)
    one = {network.name: Estimate(0.4, 0.3, 0.5)}
    few = patch(
        "core.atlas.claims.measure._MEASURES", ((sinks, 1, ("sinks-exist", "sinks-are-empty")),)
    )
    with few, patch("core.atlas.claims.sinks.SINK", 0.0):
        measured = measure_board([network], "text", "", "command")
        known = replace(
            measured,
            origin=replace(measured.origin, weights=measured.origin.weights | {"old": "1"}),
            estimates={
                "fifth-free": {"old": one[network.name]},
                "sinks-are-empty": one,
                "sinks-exist": {"old": Estimate(0.1, 0.0, 0.2)},
            },
            means={"sinks-exist": Estimate(0.1, 0.0, 0.2)},
        )
        again = measure_board([network], "text", "", "command", known=known)
        (new,) = measured.estimates["sinks-exist"].values()
        exist = known.estimates["sinks-exist"] | {network.name: new}
        assert again.estimates == known.estimates | {"sinks-exist": exist}
        assert {*again.origin.weights} == {"old", "one"}
        mean = again.means["sinks-exist"]
        assert (mean.value, mean.low) == pytest.approx(((0.1 + new.value) / 2, new.low / 2), 1e-5)
        every = replace(known, estimates=again.estimates)
        with patch.object(network, "measured", None):
            same = measure_board([network], "text", "", "command", known=every)
            none = measure_board([network], "text", "", "command", known=known, only=("lens",))
            assert same.estimates == again.estimates and none.estimates == known.estimates
        row = next(row for row in again.rows if row.claim.id == "fifth-free")
        assert "tested (1 of 2)" in row.reason
        with pytest.raises(ValueError, match="other texts"):
            measure_board([network], "another", "", "command", known=known)
        other = replace(known, origin=replace(known.origin, weights={network.name: "1"}))
        with pytest.raises(ValueError, match="other weights"):
            measure_board([network], "text", "", "command", known=other)


def test_what_a_claim_lacks_is_said(sharp):
    nothing = patch.multiple("core.atlas.claims.measure", _MEASURES=())
    with nothing:
        board = measure_board([as_network(sharp, gold=False)], "generated", "", "command")
    assert "scratch network of a direction with the baseline" in board.missing["same-heads-matter"]
    assert "--gold" in board.missing["norms-align-better"]
    assert "core.analyse lens" in board.missing["jacobian-lens-better"]
    assert "snapshots" in board.missing["role-by-a-jump"]
