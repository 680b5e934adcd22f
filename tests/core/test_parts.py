"""Parts of other families in the from-scratch network, against formulas written out here."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import core
from core.accelerate.network import accelerate
from core.analysis.inside_head import code_of, inside_head
from core.config import ModelConfig
from core.experiments.logit_lens import lenses
from core.experiments.tracing import traces
from core.model import transformer
from core.model.baseline import Baseline
from core.model.build import build
from core.model.parts import DeviationNorm, RMSNorm, ScoreBias, buckets_of
from core.model.positions import sinusoids
from core.record.edits import EditError, Edits, PositionEdit, Temperature
from core.text.tokenizer import BOS, EOS
from core.translator import Translator
from tests import mixed_network, small

T5: dict[str, Any] = dict(
    norm_first=True,
    norm="rms",
    qkv_bias=False,
    linear_bias=False,
    scale_scores=False,
    scale_embeddings=False,
    position_table="none",
    relative_buckets=8,
    relative_distance=9,
    head_size=5,
    gated=True,
    activation="gelu_tanh",
)
FAMILIES: dict[str, dict[str, Any]] = {
    "T5": T5 | dict(decoder_heads=2, decoder_feedforward=20),
    "T5 1.0": T5 | dict(gated=False, activation="relu", scale_output=True, tie_classifier=True),
    "BART": dict(learned_positions=True, embedding_norm=True, activation="gelu", final_norm=False),
    "mBART": dict(norm_first=True, learned_positions=True, embedding_norm=True, activation="gelu"),
    "M2M100": dict(norm_first=True, position_table="fairseq", decoder_heads=2),
    "sizes per side": dict(decoder_heads=2, decoder_feedforward=20, activation="gelu_tanh"),
    "a bias by distance alone": dict(relative_buckets=8, relative_distance=9),
    "gates alone": dict(gated=True),
    "scores that are not scaled": dict(norm_first=True, scale_scores=False),
    "Annotated Transformer": dict(norm_first=True, norm="deviation", layer_norm_eps=1e-2),
}
SOURCE, TARGET = [9, 8, 7, 6, 11, 5, 12, 9, 30, 8, 6, EOS], [30, 9, 30, 7, 8, 8, 9, 12, 6, 5, EOS]


def network(family: str) -> Any:
    """Return a network in float64 in which every parameter differs from its first value."""
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)  # also for the position table
    try:
        made = build("scratch", small.config(**FAMILIES[family])).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.3).add_(0.2 * torch.randn_like(parameter))
    return made


# --- the whole network once more, written for one sentence in the order of the papers


def bucket(distance: int, count: int, farthest: int, causal: bool) -> int:
    """Return the bucket of a distance, key minus query, by whole numbers alone."""
    first = 0
    if causal:
        distance = max(0, -distance)
    else:
        count //= 2
        first, distance = (count if distance > 0 else 0), abs(distance)
    exact = count // 2
    if distance < exact:
        return first + distance
    wide = count - exact
    ranges = [n for n in range(wide) if (farthest**n) * exact ** (wide - n) <= distance**wide]
    return first + exact + max(ranges)


def plain(c: ModelConfig, of: dict[str, Tensor], source: list[int], target: list[int]) -> Tensor:
    """Return the logits [T, V] of target-in ids, for one sentence without padding."""

    def norm(name: str, x: Tensor, kind: str = c.norm) -> Tensor:
        if f"{name}.weight" not in of:
            return x
        mean, D, eps = x.mean(-1, keepdim=True), x.shape[-1], c.layer_norm_eps
        if kind == "rms":
            return x / ((x**2).sum(-1, keepdim=True) / D + eps) ** 0.5 * of[f"{name}.weight"]
        squares = ((x - mean) ** 2).sum(-1, keepdim=True)
        scale = (squares / D + eps) ** 0.5
        if kind == "deviation":
            scale = (squares / (D - 1)) ** 0.5 + eps
        return (x - mean) / scale * of[f"{name}.weight"] + of[f"{name}.bias"]

    def linear(name: str, x: Tensor) -> Tensor:
        y = x @ of[f"{name}.weight"].T
        return y + of[f"{name}.bias"] if f"{name}.bias" in of else y

    def attention(name: str, x: Tensor, y: Tensor, heads: int, bias: str, causal: bool) -> Tensor:
        q, k, v = (linear(f"{name}.{p}", z) for p, z in (("query", x), ("key", y), ("value", y)))
        size, outputs = q.shape[1] // heads, []
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            scores = q[:, part] @ k[:, part].T
            scores = scores / size**0.5 if c.scale_scores else scores
            for i, j in np.ndindex(*scores.shape) if bias in of else ():
                place = bucket(j - i, c.relative_buckets or 0, c.relative_distance, causal)
                scores[i, j] += of[bias][place, h]
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
            outputs.append(scores.softmax(-1) @ v[:, part])
        return linear(f"{name}.output", torch.cat(outputs, -1))

    def gelu(x: Tensor) -> Tensor:
        return torch.tensor([n * (1 + math.erf(n / 2**0.5)) / 2 for n in x.flatten()]).view_as(x)

    def gelu_tanh(x: Tensor) -> Tensor:
        return x / 2 * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3)))

    activation = {"relu": F.relu, "gelu": gelu, "gelu_tanh": gelu_tanh}[c.activation]

    def feed_forward(name: str, x: Tensor) -> Tensor:
        inner = activation(linear(f"{name}.inner", x))
        return linear(f"{name}.outer", inner * linear(f"{name}.gate", x) if c.gated else inner)

    def residual(name: str, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + sublayer(norm(name, x)) if c.norm_first else norm(name, x + sublayer(x))

    def embedded(side: str, ids: list[int]) -> Tensor:
        rows = of[f"embeddings.{side}_table.weight"][ids]
        rows = rows * c.d_model**0.5 if c.scale_embeddings else rows
        if c.learned_positions:
            rows = rows + of[f"embeddings.{side}_positions.weight"][: len(ids)]
        elif c.position_table != "none":
            first, width = (2, c.d_model - 2) if c.position_table == "fairseq" else (0, c.d_model)
            for p, i in np.ndindex(len(ids), c.d_model // 2):
                angle = (p + first) / 10_000 ** (2 * i / width)
                rows[p, 2 * i] += math.sin(angle)
                rows[p, 2 * i + 1] += math.cos(angle)
        return norm(f"embeddings.{side}_norm", rows, "layer")

    def layer(side: str, at: str, x: Tensor, memory: Tensor | None) -> Tensor:
        own, bias, causal = f"{at}.self_attention", f"{side}_bias.weight", side == "decoder"
        heads = c.decoder_heads or c.num_heads if causal else c.num_heads
        x = residual(f"{at}.norm1", x, lambda z: attention(own, z, z, heads, bias, causal))
        if memory is not None:
            cross = f"{at}.cross_attention"
            x = residual(f"{at}.norm2", x, lambda z: attention(cross, z, memory, heads, "", False))
        last = "norm2" if memory is None else "norm3"
        return residual(f"{at}.{last}", x, lambda z: feed_forward(f"{at}.feed_forward", z))

    memory = None
    for side, ids in (("encoder", source), ("decoder", target)):
        x = embedded("source" if side == "encoder" else "target", ids)
        for i in range(c.num_encoder_layers if side == "encoder" else c.num_decoder_layers):
            x = layer(side, f"{side}.{i}", x, memory)
        memory = norm(f"{side}_norm", x)
    hidden = memory * (c.d_model**-0.5 if c.scale_output else 1)
    if c.tie_classifier:
        return hidden @ of["embeddings.target_table.weight"].T
    return linear("embeddings.classifier", hidden)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_computes_the_formulas(family):
    made = network(family)
    fed = [BOS, *TARGET[:-1]]
    torch.set_default_dtype(torch.float64)
    try:
        expected = plain(made.config, dict(made.state_dict()), SOURCE, fed)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        found = made(torch.tensor([SOURCE]), torch.tensor([fed]))[0]
    assert (found - expected).abs().max() < 1e-12
    assert expected.std() > 0.05


@pytest.mark.parametrize("family", FAMILIES)
def test_steps_and_padded_batches_give_the_logits_of_a_whole_pass(family):
    made, length = network(family), len(TARGET)
    source, target = small.ids(3, 9, [9, 4, 6]), small.ids(3, length, [length, 5, 8], BOS)
    with torch.no_grad():
        whole = made(source, target)
        for row, (S, T) in enumerate(((9, length), (4, 5), (6, 8))):
            alone = made(source[row : row + 1, :S], target[row : row + 1, :T])
            assert torch.allclose(alone[0], whole[row, :T], atol=1e-12)
    state = made.start(source)
    for t in range(5):
        logits, state = made.step(target[:, t], state)
        assert torch.allclose(logits, whole[:, t], atol=1e-12)
    state = state.select(torch.tensor([0, 0, 2]))  # as a search reorders its hypotheses
    for t in range(5, 8):
        logits, state = made.step(target[[0, 0, 2], t], state)
        assert torch.allclose(logits, whole[[0, 0, 2], t], atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_accelerated_network_gives_the_same_steps(family):
    """step.c computes the decoder's layers, or leaves them to torch; it must not skip a part."""
    made = network(family).float()
    source, target = small.ids(2, 9, [9, 4]), small.ids(2, 8, first=BOS)
    with torch.inference_mode():
        expected = made(source, target)
        accelerate(made)
        state = made.start(source)
        for t in range(8):
            logits, state = made.step(target[:, t], state)
            assert torch.allclose(logits, expected[:, t], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("count", "farthest"), [(8, 9), (32, 128), (16, 20), (5, 40)])
def test_buckets_are_those_of_whole_numbers(count, farthest, causal):
    """At the edge of a range, where both sides are equal, float32 may round down by one bucket."""
    distances = list(range(-300, 301))
    found = buckets_of(torch.tensor(distances), count, farthest, causal).tolist()
    expected = [bucket(distance, count, farthest, causal) for distance in distances]
    different = [d for d, a, b in zip(distances, found, expected, strict=True) if a != b]
    half = count if causal else count // 2
    exact = half // 2
    edges = {
        d
        for d in range(1, 301)
        for n in range(half - exact)
        if farthest**n * exact ** (half - exact - n) == d ** (half - exact)
    }
    assert {abs(d) for d in different} <= edges and len(different) <= 2
    assert set(found) <= set(range(count)) and max(found) >= count - 2


def test_the_bias_of_a_step_is_the_last_row_of_a_whole_pass():
    config = small.config(**FAMILIES["T5"])
    for causal in (False, True):
        bias = ScoreBias(config, causal)
        assert torch.equal(bias(1, 7), bias(7, 7)[:, -1:])
        assert bias(7, 7).shape == (2 if causal else 4, 7, 7)
        assert torch.equal(bias(9, 9)[:, 1:, 1:], bias(8, 8))  # by distance alone


def test_norms_divide_by_what_their_papers_say():
    x = torch.randn(3, 7, dtype=torch.float64) + 2
    rms = RMSNorm(7, 1e-3, factor=0.5).double()
    deviation = DeviationNorm(7, 0.1).double()
    with torch.no_grad():
        rms.weight.normal_(), deviation.weight.normal_(), deviation.bias.normal_()
    assert torch.allclose(rms(x), 0.5 * F.rms_norm(x, (7,), rms.weight, 1e-3))
    s = x.numpy().std(-1, ddof=1, keepdims=True)
    expected = (x.numpy() - x.numpy().mean(-1, keepdims=True)) / (s + 0.1)
    expected = expected * deviation.weight.detach().numpy() + deviation.bias.detach().numpy()
    assert np.allclose(deviation(x).detach().numpy(), expected)


def test_fairseqs_table_begins_at_its_third_row():
    """Pairs of sine and cosine, of rates from 1 to 1/10,000 with both ends included."""
    table = sinusoids(5, 8, "fairseq")
    assert torch.allclose(table[0, :2], torch.tensor([math.sin(2), math.cos(2)]).double())
    assert torch.allclose(table[3, -2:], torch.tensor([math.sin(5e-4), math.cos(5e-4)]).double())


# --- what stands on the network


@pytest.fixture(scope="module", params=FAMILIES)
def translator(request, tmp_path_factory) -> Translator:
    folder = tmp_path_factory.mktemp("family") / "mixed-de-en"
    changes: Any = {"final_norm": True} | FAMILIES[request.param]
    return Translator.load(mixed_network.write(folder, **changes))


def test_a_record_passes_all_eight_checks(translator):
    cooler = Temperature("encoder", 0, 1, 0.7), Temperature("decoder", 1, 0, 1.5)
    for record in (
        translator.inspect("Ein Hund läuft über die Wiese."),
        translator.inspect("Ein Mann", edits=Edits(heads_off=frozenset({("encoder", 0, 1)}))),
        translator.inspect("Ein Mann", edits=Edits(temperatures=cooler)),
    ):
        assert [check.name for check in record.checks if not check.passed] == []
        assert len(record.checks) == 8


@pytest.mark.parametrize("family", FAMILIES)
def test_every_split_adds_up(family):
    made = network(family)
    (trace,) = traces(made, [SOURCE], [TARGET])
    for (kind, layer), site in trace.sites.items():
        assert trace.queries(kind, layer).largest_error(site.inputs_QD) < 1e-6
        inside = inside_head(site, 1, 2)
        assert np.abs(inside.weights_K - site.maps_HQK[1, 2]).max() < 1e-6
        split = core.score_split(made, SOURCE, TARGET, kind, layer, 1, 3, 1, removals=1)
        assert split.largest_error < 1e-6 and abs(split.score) > 1e-3
    for side, (_, output) in trace.ends.items():
        assert trace.final(side).largest_error(output) < 1e-6
    for side in ("encoder", "decoder"):
        parts = core.score_parts(made, SOURCE, TARGET, side)
        assert parts.largest_error < 1e-6
    assert lenses(made, [SOURCE], [TARGET])[0].exact
    scores_HQK = core.scores(made, SOURCE, TARGET)["encoder"][1]
    weights_HQK = torch.tensor(scores_HQK).softmax(-1).numpy()
    assert np.abs(weights_HQK - trace.site("encoder", 1).maps_HQK).max() < 1e-6


def test_the_bias_is_a_term_of_the_score():
    made = network("T5")
    split = core.score_split(made, SOURCE, TARGET, "encoder", 2 - 1, 1, 3, 1, removals=0)
    table = made.encoder_bias.weight
    expected = table[bucket(1 - 3, 8, 9, False), 1]
    assert split.distance == pytest.approx(expected.item())
    assert split.score == pytest.approx(split.terms.sum() + split.distance)
    cross = core.score_split(made, SOURCE, TARGET, "cross", 0, 1, 3, 1, removals=0)
    assert cross.distance == 0


@pytest.mark.parametrize(
    ("family", "kind", "lines"),
    [
        ("T5", "encoder", ["scores_BHTS = scores_BHTS + bias_HTS"]),
        ("T5", "cross", []),
        ("BART", "encoder", ["q_BHTE = q_BHTE / math.sqrt(q_BHTE.shape[-1])"]),
    ],
)
def test_the_code_of_a_score_is_what_ran(family, kind, lines):
    (trace,) = traces(network(family), [SOURCE], [TARGET])
    found = code_of(inside_head(trace.site(kind, 0), 1, 2), "scratch", "scale")
    assert [place.line for place in found] == lines
    source = inspect.getsource(transformer.scaled_dot_product_attention)
    assert all(line in source for line in lines)


def test_heads_set_to_their_mean_count_without_an_output_bias():
    from core.record.editing import edited

    made = network("T5")
    mean_HD = torch.randn(4, made.config.d_model, dtype=torch.float64)
    source, target = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]])
    with torch.no_grad():
        before = made(source, target)
        with edited(made, Edits(heads_off=frozenset({("encoder", 1, 2)}))):
            off = made(source, target)
        edits = Edits(heads_mean=frozenset({("encoder", 1, 2)}))
        with edited(made, edits, {("encoder", 1): mean_HD}):
            mean = made(source, target)
        assert not torch.allclose(mean, off) and torch.equal(made(source, target), before)


def test_positions_that_are_not_there_cannot_be_edited():
    from core.record.editing import edited

    with (
        pytest.raises(EditError, match="adds no positions to its embeddings"),
        edited(network("T5"), Edits(source_positions=PositionEdit(shift=1))),
    ):
        pass


@pytest.mark.parametrize("family", FAMILIES)
def test_torchs_network_has_every_part_or_says_what_it_lacks(family):
    config = small.config(**FAMILIES[family])
    made = network(family)
    if not family.endswith(("BART", "M2M100", "per side")):
        with pytest.raises(ValueError, match=r"torch\.nn\.Transformer lacks .*from-scratch code"):
            Baseline(config)
        return
    from core.model.baseline import copy_to_baseline

    twin = Baseline(config).double().eval()
    copy_to_baseline(made, twin)
    source, target = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]])
    with torch.no_grad():
        assert torch.allclose(twin(source, target), made(source, target), atol=1e-5)
