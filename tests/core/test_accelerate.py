"""step.c gives the results of plain torch, which is used where step.c cannot run."""

import copy
import math
import os
import shutil

import pytest
import torch
from torch.testing import assert_close

from core.accelerate import kernels, library
from core.accelerate.decoder import TreeCache
from core.accelerate.kernels import Product
from core.accelerate.network import accelerate
from core.config import DecodeConfig
from core.data.batches import pad
from core.model.build import build
from core.model.decoding import KVCache
from core.search.beam import search
from core.text.tokenizer import BOS, EOS
from tests import small
from tests.core.test_parts import T5

SHAPES = [
    {},
    {"norm_first": True},
    {"num_heads": 1, "qkv_bias": False, "tie_classifier": True},
    {"num_heads": 8, "d_model": 40, "final_norm": False},
    {"d_model": 20, "dim_feedforward": 37, "learned_positions": True},
    {"d_model": 12, "num_heads": 3, "share_embeddings": True, "tie_classifier": True},
    {"d_model": 64, "dim_feedforward": 130, "scale_embeddings": False},
    {"d_model": 96, "num_heads": 2},  # a head spans several SIMD vectors
    {"target_vocab_size": 1000, "num_decoder_layers": 1, "layer_norm_eps": 1e-3},
    {"activation": "silu", "dim_feedforward": 37, "tie_classifier": True, "tied_bias": True},
    {"activation": "silu", "norm_first": True, "dim_feedforward": 128},
    {"activation": "gelu", "embedding_norm": True, "learned_positions": True},
    T5 | {"decoder_heads": 2, "decoder_feedforward": 20},
    T5 | {"gated": False, "activation": "relu", "scale_output": True, "head_size": 16},
    {"relative_buckets": 8, "relative_distance": 9},
    {"gated": True, "activation": "silu", "dim_feedforward": 37},
    {"scale_scores": False, "norm_first": True},
]

needs_compiler = pytest.mark.skipif(library.library() is None, reason="no C compiler here")


@pytest.mark.skipif(not shutil.which(os.environ.get("CC") or "cc"), reason="no C compiler here")
def test_step_c_compiles():  # else all tests below would be skipped
    assert library.library() is not None


def network(seed: int = 0, **changes):
    torch.manual_seed(seed)
    found = build("scratch", small.config(**changes)).eval()
    accelerate(found)
    with torch.no_grad():
        for parameter in found.parameters():  # no zeros or ones: a swapped bias must show
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return found


def off_by(model) -> float:
    """Return the difference between the last step's logits and a full float64 pass's.

    It is the largest absolute difference, relative to the largest logit. Three sentences are
    decoded with four hypotheses each, which are reordered after some steps.
    """
    torch.manual_seed(1)
    source, K = small.ids(3, 9, [9, 5, 7]), 4
    written = small.ids(3 * K, 7, first=BOS)
    state = model.start(source).select(torch.arange(3).repeat_interleave(K))
    for t in range(7):
        logits, state = model.step(written[:, t], state)
        if t in (2, 4):
            order = torch.randint(K, (3, K)) + K * torch.arange(3)[:, None]
            state = state.select(order.flatten())
            written = written[order.flatten()]
            logits = logits[order.flatten()]
    exact = copy.deepcopy(model).double()
    with torch.inference_mode():
        wanted = exact(source.repeat_interleave(K, 0), written)[:, -1]
    return ((logits - wanted).abs().max() / wanted.abs().max()).item()


@needs_compiler
@pytest.mark.parametrize("changes", SHAPES)
def test_steps_equal_a_full_pass(changes, monkeypatch):
    model = network(**changes)
    assert isinstance(model.start(small.ids(1, 4)), TreeCache)
    found = off_by(model)
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "library", lambda: None)
        plain = off_by(copy.deepcopy(model))  # what float32 rounds: more if scores are unscaled
    assert found < max(3e-6, 2 * plain)


@needs_compiler
@pytest.mark.parametrize("changes", SHAPES)
def test_searches_equal_the_plain_path(changes, monkeypatch):
    """Search 30 sentences per shape, greedily and with a beam of 3."""
    model = network(2, **changes)
    with torch.no_grad():
        model.embeddings.projection.weight[EOS] += 0.2  # so that not all reach the length limit
    torch.manual_seed(3)
    rows = [small.source_row(3 + n % 9) for n in range(30)]
    for beam in (1, 3):
        decode = DecodeConfig(beam=beam)
        found = search(model, pad(rows), decode) + search(model, pad(rows[:1]), decode)
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "library", lambda: None)
            plain = copy.deepcopy(model)
            assert isinstance(plain.start(pad(rows)), KVCache)
            wanted, exact = (
                search(one, pad(rows), decode) + search(one, pad(rows[:1]), decode)
                for one in (plain, copy.deepcopy(plain).double())
            )
        for ours, theirs, true in zip(found, wanted, exact, strict=True):
            assert [h.ids for h in ours] == [h.ids for h in theirs]
            for h, other, one in zip(ours, theirs, true, strict=True):  # rounding adds up per token
                rounded = 2 * abs(other.score - one.score) * (other.ids == one.ids)
                assert abs(h.score - other.score) < 1e-5 * len(h.ids) + rounded


@pytest.fixture
def build_here(monkeypatch, tmp_path):
    """Build the library in a temporary cache; a shell script, if given, acts as the compiler."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(library.SWITCH, raising=False)
    unoptimised = [flag.replace("-O3", "-O0") for flag in library._FLAGS]  # compiles fast
    monkeypatch.setattr(library, "_FLAGS", unoptimised)

    def built(script: str | None = None):
        if script is not None:
            file = tmp_path / "cc"
            file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            file.chmod(0o700)
            monkeypatch.setenv("CC", str(file))
        return library.library.__wrapped__()

    return built


@needs_compiler
def test_a_product_does_not_depend_on_the_other_rows():
    x, product = torch.randn(100, 50), Product(torch.randn(70, 50), torch.randn(70))
    with torch.inference_mode():
        apart = torch.cat([product(row) for row in x.split(1)])
        assert_close(apart, torch.nn.functional.linear(x, product.weight, product.bias))
        for rows in range(1, len(x) + 1):  # in blocks and groups of every size
            assert torch.equal(product(x[:rows]), apart[:rows])
        assert torch.equal(product(x.t().contiguous().t()), apart)
        assert product(x[:0]).shape == (0, 70)
        large = torch.randn(2048, 1030)  # read at most once per 168 rows
        some = torch.randn(340, 1030)
        assert_close(Product(large, None)(some), some @ large.t(), atol=1e-3, rtol=0)


@needs_compiler
def test_top_k_log_probs_equal_torch():
    with torch.inference_mode():
        for shape in ((1,), (7,), (3, 16), (2, 5, 33), (9, 1000), (0, 4), (4, 200)):
            x = torch.randn(shape) * 3
            x[..., 1:3] = -torch.inf
            log_probs = x.log_softmax(-1)
            for first in (0, min(2, shape[-1])):
                log_probs[..., :first] = -torch.inf
                for k in range(1, min(12, shape[-1] + 1)):
                    value, place = kernels.top_k_log_probs(x, first, k)
                    assert_close(value, log_probs.topk(k).values, rtol=0, atol=2e-6)
                    assert_close(log_probs.gather(-1, place), value, rtol=0, atol=2e-6)
                    assert all(len({*row}) == k for row in place.view(-1, k).tolist())
        same = torch.zeros(2, 300)
        assert kernels.top_k_log_probs(same, 0, 3)[1].tolist() == [[0, 1, 2]] * 2
        same[0, 250], same[1, :2] = 1.0, -torch.inf
        assert kernels.top_k_log_probs(same, 0, 2)[1].tolist() == [[250, 0], [2, 3]]
        assert kernels.top_k_log_probs(same, 298, 3)[1].tolist() == [[298, 299, 0]] * 2
        for broken in (torch.nan, torch.inf):
            same[0, 250] = broken
            assert kernels.top_k_log_probs(same, 0, 2)[0][0].isnan().any()
        nothing = torch.full((3, 5), -torch.inf)
        assert kernels.top_k_log_probs(nothing, 0, 2)[0].isnan().all()
        with pytest.raises(ValueError, match="top 3 of 2 logits with ids from 0 on"):
            kernels.top_k_log_probs(torch.ones(1, 2), 0, 3)


@needs_compiler
def test_beam_candidates_equal_torch():
    with torch.inference_mode():
        for N, K, V, each in ((1, 1, 7, 5), (3, 4, 300, 8), (2, 16, 40, 32), (2, 3, 4, 4)):
            logits = torch.randn(N, K, V) * 3
            total = torch.randn(N, K, dtype=torch.float64) * 5
            total[0, 1:] = -torch.inf  # the placeholder rows of a beam's first step
            for first, wanted in ((0, 1), (2, each), (2, min(each + 3, K * each))):
                sums, rows, ids = kernels.beam_candidates(logits, total, first, each, wanted)
                log_probs = logits.log_softmax(-1)
                log_probs[..., :first] = -torch.inf
                best = (total[:, :, None] + log_probs.topk(each).values).flatten(1).topk(wanted)
                assert_close(sums, best.values, rtol=0, atol=1e-5)
                place = rows * V + ids
                again = (total[:, :, None] + log_probs).flatten(1).gather(1, place)
                assert_close(again, sums, rtol=0, atol=1e-5)
                assert all(len({*row}) == wanted for row in place.tolist())
        same, total = torch.zeros(1, 2, 30), torch.zeros(1, 2, dtype=torch.float64)
        _, rows, ids = kernels.beam_candidates(same, total, 1, 2, 3)
        assert (rows.tolist(), ids.tolist()) == ([[0, 0, 1]], [[1, 2, 1]])  # ties go to the first
        same[0, 1, 7] = torch.nan
        assert kernels.beam_candidates(same, total, 0, 2, 1)[0].isnan().all()
        for each, wanted in ((31, 1), (2, 5), (0, 1), (2, 0)):
            with pytest.raises(ValueError, match="cannot take"):
                kernels.beam_candidates(same, total, 0, each, wanted)


@needs_compiler
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("N, V", [(1, 5), (3, 16), (40, 999), (7, 1056)])
def test_the_loss_and_its_gradient_equal_torch(N, V, dtype, smoothing, one_thread):
    logits = (torch.randn(N, V) * 4).to(dtype)
    target, count = torch.randint(V, (N,)), 17.0
    target[0] = V - 1  # in the partial last vector
    gradient = torch.full_like(logits, torch.nan)
    loss = kernels.smoothed_cross_entropy(logits, target, smoothing, count, gradient)
    exact = logits.double().requires_grad_()
    options = {"label_smoothing": smoothing, "reduction": "sum"}
    plain = torch.nn.functional.cross_entropy(exact, target, **options) / count
    plain.backward()
    assert loss == pytest.approx(plain.item(), rel=1e-6, abs=1e-6)
    assert exact.grad is not None
    wanted = exact.grad.to(dtype)
    assert_close(gradient, wanted, rtol=1 / 128 if dtype == torch.bfloat16 else 1e-5, atol=1e-8)
    assert (gradient == wanted).float().mean() > 0.9 or dtype == torch.float32  # rounds as torch


@needs_compiler
def test_unsupported_losses_are_left_to_torch(one_thread):
    logits, target = torch.randn(3, 8), torch.tensor([1, 2, 3])

    def loss_of(x: torch.Tensor) -> float | None:
        return kernels.smoothed_cross_entropy(x, target, 0.1, 3.0, torch.empty_like(x))

    def known(x: torch.Tensor) -> bool:
        return loss_of(x) is not None

    assert known(logits) and known(logits.bfloat16())
    for broken in (torch.nan, torch.inf):  # a diverging run must be noticed
        wrong = logits.index_fill(1, torch.tensor(6), broken)
        for x in (wrong, wrong.bfloat16()):
            assert math.isnan(loss_of(x) or 0.0)
    assert not known(logits.double()) and not known(logits.half())
    for outside in (-1, 8):
        target[1] = outside
        with pytest.raises(ValueError, match="outside of the vocabulary of 8"):
            known(logits)
    torch.set_num_threads(2)
    assert not known(logits)


@needs_compiler
def test_unsupported_products_are_left_to_torch():
    x, product = torch.randn(3, 8), Product(torch.randn(5, 8), None)
    with torch.inference_mode():
        assert kernels.supports(x) and not kernels.supports(x.double())
    assert not kernels.supports(x)  # outside inference mode, gradients may be needed
    assert product(x.requires_grad_()).requires_grad
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert product(x).dtype == torch.bfloat16
    exact = network().double()
    assert isinstance(exact.start(small.ids(1, 4)), KVCache)


def test_without_a_working_compiler_or_cache_torch_is_used(build_here, monkeypatch, tmp_path):
    monkeypatch.setattr(library, "_TIMEOUT_S", 0.5)
    for script in (
        "exit 1",
        "exit 0",  # writes nothing
        'while [ $# -gt 1 ]; do [ "$1" = -o ] && echo nonsense > "$2"; shift; done',
        "exec sleep 60",
    ):
        assert build_here(script) is None, script
    monkeypatch.delenv("CC")
    (tmp_path / "file").touch()
    for variable, value in (
        ("CC", "no-such-compiler"),
        (library.SWITCH, "0"),
        ("XDG_CACHE_HOME", str(tmp_path / "file")),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            assert build_here() is None, variable


@needs_compiler
def test_step_c_is_compiled_once_and_never_loaded_from_where_others_may_write(build_here, tmp_path):
    assert build_here() is not None
    folder = tmp_path / "headlight" / "compiled"
    [file] = folder.iterdir()
    assert folder.stat().st_mode & 0o077 == 0 == file.stat().st_mode & 0o077
    made = file.stat()
    assert build_here() is not None
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    for place, mode in ((file, 0o666), (folder, 0o777), (folder.parent, 0o770)):
        before = place.stat().st_mode
        place.chmod(mode)
        assert build_here() is None, place
        place.chmod(before)
    assert build_here() is not None
    file.symlink_to(file.rename(tmp_path / "elsewhere.so"))
    assert build_here() is None


@needs_compiler
def test_a_changed_source_is_compiled_into_another_file(build_here, monkeypatch, tmp_path):
    first = library.compiled(tmp_path / "there")
    changed = tmp_path / "step.c"
    changed.write_bytes(library._SOURCE.read_bytes() + b"/* */\n")
    monkeypatch.setattr(library, "_SOURCE", changed)
    assert library.compiled(tmp_path / "there") != first
    assert {first, library.compiled(tmp_path / "there")} == {*(tmp_path / "there").iterdir()}
