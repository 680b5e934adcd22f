"""Each of the eight mistakes does what its name says, and its symptoms are measured correctly."""

import dataclasses
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from core.config import DecodeConfig
from core.experiments.bugs import (
    BUGS,
    Symptoms,
    broken,
    bug_pass,
    bug_symptoms,
    bug_translation,
)
from core.model.baseline import copy_weights
from core.model.build import build
from core.parity import networks
from core.record.capture import after_attention, capture, explicit_attention
from core.record.edits import EditError
from core.text.tokenizer import BOS, EOS, PAD, UNK
from core.translator import Translator
from tests import small

SOURCE, TARGET = [9, 8, 21, 30, 8, EOS], [30, 31, 12, EOS]
LONG_SOURCE, LONG_TARGET = [9, 8, 21, 30, 8, 9, 8, 21, EOS], [30, 31, 12, 30, 31, 12, EOS]
S, T, P = len(SOURCE), len(TARGET), 3
REAL = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
SIZES = {"encoder": (S + P, S + P), "decoder": (T + P, T + P), "cross": (T + P, S + P)}
ALL = (None, *BUGS)
SENTENCES = {
    "de-en": (
        "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker.",
        "Zwei junge Männer spielen im Park Fußball.",
        "Der Hund schläft.",
    ),
    "en-de": (
        "A man in a red shirt is talking to a street musician.",
        "Two young men are playing soccer in the park.",
        "The dog is sleeping.",
    ),
}


@cache
def translator(name: str) -> Translator:
    return Translator.load(Path(__file__).parents[2] / "checkpoints" / name, "cpu")


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return a padded sentence, and one that is three tokens longer and repeats its tokens."""
    source = torch.tensor([SOURCE + [PAD] * P, LONG_SOURCE])
    fed = torch.tensor([[BOS, *TARGET[:-1], *[PAD] * P], [BOS, *LONG_TARGET[:-1]]])
    return source, fed


def models() -> dict:
    return dict(zip(("baseline", "scratch"), small.pair(), strict=True))


def softmax(scores, axis):
    exps = np.exp(scores - np.where(np.isfinite(scores), scores, -1e9).max(axis, keepdims=True))
    total = exps.sum(axis, keepdims=True)
    return exps / np.where(total > 0, total, 1)


def right_mask(kind):
    """Return the correct mask of row 0, True = may attend: no padding, no future in the decoder."""
    Q, K = SIZES[kind]
    mask = np.broadcast_to(np.arange(K) < REAL[kind][1], (Q, K))
    return np.tril(mask) if kind == "decoder" else mask


def attention(bug, kind, x, memory, matrices, heads):
    """Compute one attention with one mistake, by the formula: weights [H, Q, K], output [Q, D]."""
    (wq, bq), (wk, bk), (wv, bv), (wo, bo) = matrices
    q, k, v = x @ wq.T + bq, memory @ wk.T + bk, memory @ wv.T + bv
    if bug == "swapped":
        q, k = x @ wk.T + bk, memory @ wq.T + bq
    size = q.shape[1] // heads
    if bug == "reshaped":  # a head gets the next len / heads rows, cut into len pieces
        q, k, v = (np.stack(np.split(t.ravel(), heads)).reshape(heads, -1, size) for t in (q, k, v))
    else:
        q, k, v = (
            np.stack([t[:, h * size : (h + 1) * size] for h in range(heads)]) for t in (q, k, v)
        )
    scores = np.einsum("hqe,hke->hqk", q, k)
    if bug != "unscaled":
        scores = scores / math.sqrt(size)
    mask = right_mask(kind)
    if bug == "no_causal_mask" and kind == "decoder":
        mask = np.broadcast_to(mask[-1], mask.shape)
    if bug == "no_padding_mask":
        mask = np.ones_like(mask)
        mask = np.tril(mask) if kind == "decoder" else mask
    if bug == "inverted_mask":
        mask = ~mask
    weights = softmax(np.where(mask, scores, -np.inf), 1 if bug == "over_queries" else 2)
    output = np.concatenate(list(weights @ v), axis=1) @ wo.T + bo
    return weights, output


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize("bug", ALL)
@torch.inference_mode()
def test_each_attention_makes_this_mistake_and_no_other(bug, architecture):
    """Every attention of the broken network equals the formula with the mistake in it."""
    model = models()[architecture]
    checked = []

    def compare(site, call, output):
        matrices = [tuple(t.numpy() for t in pair) for pair in site.projections()]
        x, memory = (states[0].numpy() for states in call.args[:2])
        expected = attention(bug, site.kind, x, memory, matrices, site.num_heads)
        where = f"{site.kind} layer {site.layer}"
        assert np.allclose(output[0][0].numpy(), expected[1], atol=1e-12), where
        assert np.allclose(output[1][0].numpy(), expected[0], atol=1e-12), where
        checked.append(where)

    sites = model.attention_sites()
    with explicit_attention(sites), broken(model, bug), after_attention(sites, compare):
        model(*batch())
    assert len(checked) == 2 + 3 + 3


@pytest.mark.parametrize("bug", ALL)
@torch.inference_mode()
def test_positions_are_shifted_by_one_only_in_that_bug(bug):
    """The bug `shifted` adds the encoding of position p + 1 at position p, on both sides."""
    model = models()["scratch"]
    d = model.config.d_model
    shift = 1 if bug == "shifted" else 0
    angles = [
        [(p + shift) / 10_000 ** (2 * (i // 2) / d) + (i % 2) * math.pi / 2 for i in range(d)]
        for p in range(7)
    ]
    ids = torch.tensor([[9, 8, 21, 30, 8, 7, EOS]])
    with broken(model, bug):
        for embed in (model.embeddings.source, model.embeddings.target):
            table = model.embeddings.source_table.weight
            if embed == model.embeddings.target:
                table = model.embeddings.target_weight
            rest = embed(ids)[0] - table[ids[0]] * model.embeddings.scale
            assert np.allclose(rest.numpy(), np.sin(angles), atol=1e-12)


@pytest.mark.parametrize("config", networks.VARIANTS.values(), ids=networks.VARIANTS)
@torch.inference_mode()
def test_networks_of_any_configuration_can_be_broken(config):
    """Every bug changes the symptoms, also with learned positions or a finite mask value."""
    baseline = networks.fresh(config)
    scratch = build("scratch", config).eval()
    copy_weights(baseline, scratch)
    healthy = bug_symptoms(scratch, SOURCE, TARGET, None)
    for bug in BUGS:
        found = [bug_symptoms(model, SOURCE, TARGET, bug) for model in (baseline.eval(), scratch)]
        assert found[0].agree(found[1]), bug
        assert not found[0].agree(healthy), bug


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize("bug", BUGS)
@torch.inference_mode()
def test_nothing_is_left_on_the_model(bug, architecture):
    model = models()[architecture]
    before = model(*batch())
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    with pytest.raises(KeyboardInterrupt), broken(model, bug):
        assert not torch.equal(model(*batch()), before)
        raise KeyboardInterrupt
    assert torch.equal(model(*batch()), before)
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    for module in model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


def test_unknown_bugs_and_positions_beyond_a_learned_table_are_refused():
    with (
        pytest.raises(ValueError, match="unknown bug 'no_value'"),
        broken(models()["scratch"], "no_value"),
    ):  # ty: ignore[invalid-argument-type]
        pass
    model = small.sharp(learned_positions=True, max_length=S)
    with pytest.raises(EditError, match="never learned"):
        bug_pass(model, SOURCE, TARGET, "shifted")


def maps_of(model, bug):
    """Return the maps and target log-probabilities of row 0 of `batch`."""
    source, fed = batch()
    with broken(model, bug), capture(model) as captured:
        logits = model(source, fed)[0, :T]
    maps = {kind: captured.maps(kind)[:, 0].numpy() for kind in REAL}
    return maps, logits.log_softmax(-1)[range(T), TARGET].numpy()


@pytest.mark.parametrize("bug", ALL)
@torch.inference_mode()
def test_a_pass_holds_the_maps_of_the_padded_batch(bug):
    model = models()["scratch"]
    found = bug_pass(model, SOURCE, TARGET, bug)
    maps, log_probs = maps_of(model, bug)
    assert found.padding == P
    assert np.allclose(found.log_probs, log_probs, atol=1e-6)
    for kind, (Q, K) in SIZES.items():
        assert found.maps[kind].shape == (3 if kind != "encoder" else 2, 4, Q, K)
        assert np.allclose(found.maps[kind], maps[kind], atol=1e-6)
        # A masked cell is exactly 0 in every head, an unmasked one in none.
        assert np.array_equal(found.masks[kind], (maps[kind] > 0).any((0, 1)))


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize("bug", ALL)
@torch.inference_mode()
def test_symptoms_are_what_their_names_say(bug, architecture):
    model = models()[architecture]
    found = bug_symptoms(model, SOURCE, TARGET, bug)
    maps, log_probs = maps_of(model, bug)
    assert found.loss == pytest.approx(-log_probs.mean(), abs=1e-6)
    rows, columns, inside, all_weight = [], [], 0.0, 0.0
    for kind, (Q, K) in REAL.items():
        for layer in maps[kind]:
            for head in layer:
                rows += [head[q].sum() for q in range(Q)]
                columns += [head[:, k].sum() for k in range(K)]
                inside += head[:Q][right_mask(kind)[:Q]].sum()
                all_weight += head[:Q].sum()
    assert found.row_sums == pytest.approx((min(rows), max(rows)), abs=1e-6)
    assert found.column_sums == pytest.approx((min(columns), max(columns)), abs=1e-6)
    assert found.on_allowed == pytest.approx(inside / all_weight, abs=1e-6)
    own = maps["decoder"][:, :, :T]
    later = sum(own[:, :, t, t + 1 : T].sum() for t in range(T))
    assert found.on_future == pytest.approx(later / own.sum(), abs=1e-6)
    own = maps["encoder"][:, :, :S]
    assert found.on_padding == pytest.approx(own[..., S:].sum() / own.sum(), abs=1e-6)
    shares = own[0] / own[0].sum(-1, keepdims=True)
    bits = [-sum(p * math.log2(p) for p in row if p > 0) for head in shares for row in head]
    assert found.entropy == pytest.approx(np.mean(bits), abs=1e-5)
    assert found.position == (1 if bug == "shifted" else 0)
    assert found.tokens_probed == S

    # Compare the log-weights with the healthy network's scores, which are computed by hand.
    healthy = models()[architecture]
    with capture(healthy) as clean:
        healthy.encode(torch.tensor([SOURCE]))
    call = clean.calls()[0]
    (wq, bq), (wk, bk) = ([t.numpy() for t in p] for p in call.site.projections()[:2])
    x = call.query[0].numpy()
    q, k = ((x @ w.T + b).reshape(S, 4, 4) for w, b in ((wq, bq), (wk, bk)))
    scores = np.einsum("qhe,khe->hqk", q, k) / 2
    weights = maps["encoder"][0, :, :S, :S]
    if bug == "inverted_mask":
        assert all(map(math.isnan, (found.scale, found.same, found.transposed)))
        return
    logs, plain, turned = (
        (a - a.mean(-1, keepdims=True)).ravel()
        for a in (np.log(weights), scores, scores.transpose(0, 2, 1))
    )
    assert found.scale == pytest.approx(logs @ plain / (plain @ plain), abs=1e-4)
    assert found.same == pytest.approx(np.corrcoef(logs, plain)[0, 1], abs=1e-4)
    assert found.transposed == pytest.approx(np.corrcoef(logs, turned)[0, 1], abs=1e-4)


@pytest.mark.parametrize("bug", ALL)
@torch.inference_mode()
def test_tokens_read_counts_replaced_tokens_that_every_head_notices(bug):
    model = models()["scratch"]
    found = bug_symptoms(model, SOURCE, TARGET, bug)

    def first_maps(ids):
        with broken(model, bug), capture(model) as captured:
            model.encode(torch.tensor([ids + [PAD] * P]))
        return captured.calls()[0].weights[0, :, :S].numpy()

    before = first_maps(SOURCE)
    changed = np.zeros((S, 4), bool)
    for place in range(S):
        after = first_maps([UNK if i == place else id for i, id in enumerate(SOURCE)])
        both = (before > 0) & (after > 0)
        ratio = np.where(both, after, 1) / np.where(both, before, 1)
        changed[place] = (np.abs(np.log(ratio)) > 1e-3).any((1, 2))
    assert found.tokens_read == changed.sum(0).min()
    if bug == "reshaped":  # the last head's rows come from the last 9/4 rows, all padding
        assert found.tokens_read == 0
    else:
        assert found.tokens_read == S


def test_at_most_eight_tokens_are_replaced_evenly_spaced(monkeypatch):
    model, long, passes = models()["scratch"], [*range(4, 30), EOS], []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda ids: passes.append(ids) or encode(ids))
    assert bug_symptoms(model, long, TARGET, None).tokens_probed == 8
    (ids,) = (ids for ids in passes if len(ids) > 2)
    assert ids[0, :27].tolist() == long
    changed = (ids[1:] != ids[0]).nonzero().tolist()
    assert changed == [[row, at] for row, at in enumerate([0, 4, 7, 11, 15, 19, 22, 26])]


def diagnosis(found: Symptoms) -> set[str]:
    """Return the mistakes that fit the numbers."""
    d_k, some = 48, found.on_allowed > 0

    def are_one(sums):
        return sums == pytest.approx((1, 1), abs=1e-3)

    fits = {
        "over_queries": are_one(found.column_sums) and not are_one(found.row_sums),
        "inverted_mask": not some,
        "no_causal_mask": found.on_future > 0.01 and some,
        "no_padding_mask": found.on_padding > 0.01 and some,
        "unscaled": abs(found.scale - math.sqrt(d_k)) < 0.01 and found.same > 0.999,
        "swapped": found.transposed > 0.999 > found.same,
        "shifted": found.position == 1,
        "reshaped": found.tokens_read < found.tokens_probed,
    }
    return {bug for bug, fit in fits.items() if fit}


@pytest.mark.parametrize(("direction", "at"), [("de-en", 0), ("en-de", 1), ("de-en", 2)])
def test_the_numbers_alone_tell_which_mistake_it_is(direction, at):
    net = translator(f"scratch-{direction}")
    record = net.inspect(SENTENCES[direction][at])
    healthy = bug_symptoms(net, record, None)
    assert diagnosis(healthy) == set()
    every = {bug: bug_symptoms(net, record, bug) for bug in BUGS}
    assert {bug: diagnosis(found) for bug, found in every.items()} == {bug: {bug} for bug in BUGS}
    for bug, found in every.items():
        assert found.agree(found) and not found.agree(healthy)
        assert [other for other in BUGS if found.agree(every[other])] == [bug]


def greedily(model, bug, source, limit):
    """Translate by running the whole prefix again for each token."""
    fed = torch.tensor([source + [PAD] * P, [*source[:-1], *source[:P], source[-1]]])
    ids = [BOS]
    with torch.inference_mode(), broken(model, bug):
        while len(ids) <= limit and ids[-1] != EOS:
            logits = model(fed, torch.tensor([ids, ids]))[0, -1]
            logits[[PAD, BOS, UNK]] = -math.inf
            ids.append(int(logits.argmax()))
    return tuple(ids[1:])


@pytest.mark.parametrize("bug", [None, "no_padding_mask", "reshaped"])
def test_a_translation_is_written_greedily_by_the_broken_network(bug):
    net = translator("scratch-de-en")
    record = net.inspect(SENTENCES["de-en"][0])
    written = bug_translation(net, record, bug)
    source = [token.id for token in record.source]
    limit = len(record.target_out) + 10
    with net.exclusive_model() as model:
        assert written == greedily(model, bug, source, limit)
    assert len(written) == limit or written[-1] == EOS
    if bug is None:
        best = net.translate(record.source_text, DecodeConfig(beam=1)).hypotheses[0]
        assert written == best.ids


def test_a_long_translation_is_cut_off():
    net = translator("scratch-de-en")
    record = net.inspect(" ".join(SENTENCES["de-en"] * 2))
    assert len(record.target_out) > 40
    written = bug_translation(net, record, "inverted_mask")
    assert len(written) == 40 and EOS not in written


@torch.inference_mode()
def test_where_a_mistake_has_no_effect_the_numbers_agree():
    """Three such cases: no room for padding, a target of one token, a network with one head."""
    full = models()["scratch"]
    long = [*(SOURCE[:-1] * 13)[: full.config.max_length - 1], EOS]
    assert bug_pass(full, long, TARGET, None).padding == 0
    one_head = small.sharp(num_heads=1)
    for model, source, target, bug in (
        (full, long, TARGET, "no_padding_mask"),
        (full, SOURCE, [EOS], "no_causal_mask"),
        (one_head, SOURCE, TARGET, "reshaped"),
    ):
        healthy, found = (bug_symptoms(model, source, target, one) for one in (None, bug))
        assert found.agree(healthy), bug
        assert not bug_symptoms(model, source, target, "swapped").agree(healthy)


def test_symptoms_agree_only_if_all_numbers_do():
    one = Symptoms(1.0, (0.0, 1.0), (0.5, 2.0), 1.0, 0.0, 0.0, 2.0, math.nan, 1.0, 0.3, 0, 6, 6)
    assert one.agree(one) and one.agree(dataclasses.replace(one, loss=1.0001))
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        other = (value[0], value[1] + 1) if isinstance(value, tuple) else 7
        assert not one.agree(dataclasses.replace(one, **{field.name: other})), field.name
