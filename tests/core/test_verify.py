"""The checklist passes for equivalent models, and each injected fault fails exactly its lines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from core import verify
from core.checkpoint.folder import load
from core.config import ModelConfig
from core.model.transformer import Embeddings, MultiHeadAttention, Transformer
from core.parity import checklist, networks, state_dicts
from core.record.capture import Captured
from tests import small

SHORTCUT = "logits, the library's inference shortcut"
FLOAT32 = "float32"
WEIGHTS = "every weight after copying"
GRADIENTS = "every gradient after one backward"
AFTER_ADAM = "every weight but key biases after 20 Adam steps"
LOGITS_AFTER = "logits after 20 Adam steps"
KEYS_AFTER = "key biases, which nothing depends on, after 20 Adam steps"
PADDING_MASK = "padding mask (encoder, cross)"
CAUSAL_MASK = "causal and padding mask (decoder)"
Fault = Callable[[Transformer, Any], object]
TRAINING = {"loss", GRADIENTS, AFTER_ADAM, LOGITS_AFTER}

SOURCE, TARGET = "source embeddings", "target embeddings"
FORMULA = [f"{side} against the paper's formula" for side in (SOURCE, TARGET)]
ENCODER = ["encoder layer 1", "encoder layer 2", "encoder output"]
DECODER = ["decoder layer 1", "decoder layer 2", "decoder layer 3", "decoder output", "logits"]
ENCODER_MAPS = [f"encoder attention maps, layer {i}" for i in (1, 2)]
DECODER_MAPS = [f"decoder attention maps, layer {i}" for i in (1, 2, 3)]
CROSS_MAPS = [f"cross attention maps, layer {i}" for i in (1, 2, 3)]


def forward(*activations: str) -> set[str]:
    """Return the lines of these activations in every case."""
    lines = {f"{name}, {case}" for name in activations for case in networks.CASES}
    return lines | ({SHORTCUT} if "logits" in activations else set())


AFTER_THE_ENCODER = {*forward(*DECODER), *DECODER_MAPS[1:], *CROSS_MAPS, *TRAINING}


def swap_projections(attention: MultiHeadAttention) -> None:
    attention.query, attention.key = attention.key, attention.query


def swap_heads(attention: MultiHeadAttention) -> None:
    """Swap heads 1 and 2 in all projections, which leaves the output unchanged."""
    order = torch.arange(16).view(4, 4)[[1, 0, 2, 3]].flatten()
    for part in (attention.query, attention.key, attention.value):
        part.weight.data = part.weight.data[order]
        part.bias.data = part.bias.data[order]
    attention.output.weight.data = attention.output.weight.data[:, order]


def future_only(ids, pad):
    square = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
    return (ids != pad)[:, None, None] & square.triu()


def shift_positions(scratch: Transformer) -> None:
    positions = scratch.embeddings.source_positions
    positions.table = positions.table.roll(-1, dims=0)


def mask(name: str, function: Callable) -> Fault:
    return lambda _, patch: patch.setattr(f"core.model.transformer.{name}", function)


FAULTS: dict[str, tuple[Fault, set[str]]] = {
    "q and k swapped": (
        lambda scratch, _: swap_projections(scratch.encoder[1].self_attention),
        {WEIGHTS, *forward(*ENCODER[1:]), ENCODER_MAPS[1], *AFTER_THE_ENCODER, KEYS_AFTER},
    ),
    "bias off by 1e-9": (
        lambda scratch, _: scratch.decoder[2].feed_forward.outer.bias.data[3].add_(1e-9),
        {WEIGHTS, *forward(*DECODER[2:]), *TRAINING},
    ),
    "padding mask inverted": (
        mask("padding_mask", lambda ids, pad: (ids == pad)[:, None, None]),
        {PADDING_MASK, *forward(*ENCODER), *ENCODER_MAPS, *AFTER_THE_ENCODER},
    ),
    "causal mask inverted": (
        mask("target_mask", future_only),
        {CAUSAL_MASK, *DECODER_MAPS, *AFTER_THE_ENCODER},
    ),
    "heads swapped": (
        lambda scratch, _: swap_heads(scratch.decoder[0].cross_attention),
        {WEIGHTS, CROSS_MAPS[0], GRADIENTS, AFTER_ADAM, KEYS_AFTER},
    ),
    "positions off by one": (
        lambda scratch, _: shift_positions(scratch),
        {FORMULA[0], *forward(SOURCE, *ENCODER), *ENCODER_MAPS, *AFTER_THE_ENCODER},
    ),
}


def test_the_checklist_passes_on_fresh_networks_and_counts_its_lines():
    deep = ("4+4", "5+5", "6+6")
    variants = {name: c for name, c in networks.VARIANTS.items() if not name.startswith(deep)}
    checks = list(checklist.checklist(variants=variants))
    assert len(checks) == checklist.count_lines(variants=variants)
    assert len({check.name for check in checks}) == len(checks)
    assert [check for check in checks if not check.passed] == []
    assert {check.limit for check in checks if FLOAT32 not in check.name} == {0, 1e-12, 2e-6}
    assert len(verify.fold(checks)) == len(variants)


@pytest.mark.parametrize("fault", [None, "scale", "mask"])
def test_rounding_that_large_weights_amplify_is_no_fault(fault, monkeypatch):
    """The fixed limits are exceeded, by less than ten times what each weight's last bit changes."""
    network = networks.fresh(networks.small())
    for parameter in network.parameters():
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)
    baseline, scratch = networks.same_weights(network)
    if fault == "scale":
        scratch.decoder[1].feed_forward.outer.weight.data.mul_(1 + 1e-3)
    if fault == "mask":
        padding = "core.model.transformer.padding_mask"
        monkeypatch.setattr(padding, lambda ids, pad: (ids == ids)[:, None, None])
    pairs = networks.random_pairs(network.config)
    checks = list(checklist.compare(baseline, scratch, pairs))
    wider = {c.name for c in checks if c.detail.startswith("limit: 10 × what the last bit")}
    after = {AFTER_ADAM, LOGITS_AFTER}
    if fault is None:
        assert wider & after and [c for c in checks if not c.passed] == []
        assert max(check.limit for check in checks) <= checklist.WIDEST
    else:
        assert not wider and after <= {c.name for c in checks if not c.passed}


def test_the_checklist_passes_on_a_trained_checkpoint(checkpoint_folder, tmp_path, monkeypatch):
    """The network is only read; the batches have padding."""
    checkpoint, file = load(checkpoint_folder), tmp_path / "verify.json"
    before = {name: p.clone() for name, p in checkpoint.model.named_parameters()}
    pairs = networks.checkpoint_pairs(checkpoint)
    assert len({len(source) for source, _ in pairs}) > 1
    monkeypatch.setattr(verify, "load", lambda _: checkpoint)
    arguments = ["--checkpoint", str(checkpoint_folder), "--json", str(file)]
    verify.run(verify.parser().parse_args(arguments))
    found = json.loads(file.read_text())
    assert list(found) == ["checkpoint", "passed", "checks"]
    assert (found["checkpoint"], found["passed"]) == (checkpoint_folder.name, True)
    assert len(found["checks"]) == checklist.count_lines(checkpoint)
    for check in found["checks"]:
        assert list(check) == ["name", "passed", "max_abs_diff", "limit"]
        assert check["passed"] is True and 0 <= check["max_abs_diff"] <= check["limit"]
    assert not checkpoint.model.training
    for name, parameter in checkpoint.model.named_parameters():
        assert torch.equal(before[name], parameter) and parameter.grad is None


def compared(fault: Fault = lambda *_: None, patch: Any = None):
    """Compare two equivalent networks after injecting a fault into the scratch one."""
    config = small.config()
    baseline, scratch = networks.same_weights(networks.fresh(config))
    fault(scratch, patch)
    with mock.patch.object(checklist, "COPIES", 1):  # each of them trains; the limits are narrower
        return list(checklist.compare(baseline, scratch, networks.random_pairs(config)))


def failed_lines() -> set[str]:
    """Return the lines that fail for equivalent networks."""
    return {check.name for check in compared() if not check.passed}


@pytest.mark.parametrize("name", FAULTS)
def test_an_injected_fault_fails_exactly_its_lines(name, monkeypatch):
    """Lines about searches and float32, which a fault need not fail, are not compared by name."""
    fault, lines = FAULTS[name]
    checks = compared(fault, monkeypatch)
    failed = {check.name for check in checks if not check.passed}
    uncertain = (FLOAT32, "the same tokens", "the same scores")
    exact = {c.name for c in checks if not any(word in c.name for word in uncertain)}
    assert failed & exact == lines
    invisible_in_float32 = name in ("bias off by 1e-9", "heads swapped")
    assert any(FLOAT32 in line for line in failed) != invisible_in_float32
    json.dumps(verify.report(None, checks), allow_nan=False)


def test_a_fault_in_what_both_models_share_is_caught(monkeypatch):
    """Both models share embeddings and masks, so these are also compared with their definitions."""
    assert failed_lines() == set()
    original = Embeddings.__init__

    def unscaled(self, config):
        original(self, config)
        self.scale = 1.0

    with monkeypatch.context() as patch:
        patch.setattr(Embeddings, "__init__", unscaled)
        assert failed_lines() == set(FORMULA)
    with monkeypatch.context() as patch:
        for module in ("baseline", "transformer", "masks"):
            name = f"core.model.{module}.padding_mask"
            patch.setattr(
                name, lambda ids, pad: torch.ones_like(ids, dtype=torch.bool)[:, None, None]
            )
        assert failed_lines() == {PADDING_MASK, CAUSAL_MASK}


def test_scores_that_differ_are_caught_though_the_tokens_are_the_same(monkeypatch):
    original = Transformer.step

    def noisy(self, token_B, state):
        logits_BV, state = original(self, token_B, state)
        return logits_BV + 1e-9 * torch.arange(logits_BV.shape[-1]), state

    monkeypatch.setattr(Transformer, "step", noisy)
    assert failed_lines() == {"greedy: the same scores", "beam 4: the same scores"}


def test_layers_in_another_order_in_the_record_are_caught(monkeypatch):
    original = Captured.maps
    monkeypatch.setattr(Captured, "maps", lambda self, kind: original(self, kind).flip(0))
    assert failed_lines() == {
        *ENCODER_MAPS,
        DECODER_MAPS[0],
        DECODER_MAPS[2],
        CROSS_MAPS[0],
        CROSS_MAPS[2],
    }


def test_a_nan_weight_fails_and_stays_json():
    checks = compared(lambda scratch, _: scratch.encoder[0].norm1.weight.data.fill_(torch.nan))
    failed = {check.name for check in checks if not check.passed}
    assert {WEIGHTS, "logits, with padding", "logits, float32"} <= failed
    json.dumps(verify.report(None, checks), allow_nan=False)


@pytest.mark.parametrize("factor", [0.0, 0.9, 1.1, torch.nan])
@pytest.mark.parametrize("value", [0.0, 1.0, -40.0])
def test_the_float32_lines_agree_with_assert_close(value, factor):
    theirs = torch.tensor([[3.0, value], [0.5, -2.0]])
    ours = theirs.clone()
    ours[0, 1] += factor * (1e-5 + 1.3e-6 * abs(value))
    try:
        torch.testing.assert_close(ours, theirs)
        close = True
    except AssertionError:
        close = False
    assert close == (factor < 1)
    assert checklist._close_float32("values", ours, theirs).passed == close


@pytest.mark.parametrize("changes", [{}, dict(share_embeddings=True, tie_classifier=True)])
def test_the_map_names_every_parameter_of_both_once(changes):
    config: ModelConfig = small.config(**changes)
    rows = state_dicts.state_dict_map(config)
    baseline, scratch = small.pair(**changes)
    assert [row.baseline for row in rows] == [name for name, _ in baseline.named_parameters()]
    names = [name for row in rows for name in row.scratch]
    assert sorted(names) == sorted(name for name, _ in scratch.named_parameters())
    for row in rows:
        assert row.baseline_shape[0] == len(row.scratch) * row.scratch_shape[0]
        assert row.baseline_shape[1:] == row.scratch_shape[1:]


def test_a_failed_line_is_one_line_on_stderr_and_exit_code_1(monkeypatch, capsys, tmp_path):
    lines = [
        checklist.Check("network: loss", True, 1e-15, 1e-12),
        checklist.Check("network: logits", False, 1.0, 1e-12),
    ]
    monkeypatch.setattr(verify, "checklist", lambda checkpoint: iter(lines))
    monkeypatch.setattr("sys.argv", ["verify", "--json", str(tmp_path / "verify.json")])
    with pytest.raises(SystemExit) as stopped:
        verify.main(verify.parser(), verify.run)
    # If the exit code is a string, Python prints it to stderr and exits with 1.
    assert stopped.value.code == (
        "error: 1 of 2 checks against torch.nn.Transformer failed, first: network: logits"
    )
    printed = capsys.readouterr().out
    assert "✗" in printed and "network: logits" in printed and "loss" not in printed
    found = json.loads((tmp_path / "verify.json").read_text())
    assert (found["checkpoint"], found["passed"]) == (None, False)
    assert [check["passed"] for check in found["checks"]] == [True, False]


CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
SHIPPED = [
    "captions-de-en",
    *(
        pytest.param(name, marks=pytest.mark.soak)
        for name in (
            *("scratch-de-en", "baseline-de-en", "captions-en-de"),
            *("scratch-en-de", "baseline-en-de"),
        )
    ),
]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_checkpoints_pass(name):
    """`make soak` tests the larger ones and the other direction."""
    lines = list(checklist.checklist(load(CHECKPOINTS / name)))
    assert len(lines) > 60
    assert not [line for line in lines if not line.passed]


def test_the_readmes_count_the_networks_that_are_compared():
    root, count = Path(__file__).parents[2], len(networks.VARIANTS)
    words = {12: "twelve", 13: "thirteen", 14: "fourteen"}
    said = (root / "checkpoints/README.md").read_text(encoding="utf-8")
    assert f"on {words[count]} small networks" in said
    first = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    assert f"agree to {checklist.LIMIT:g} in float64 on the {count} small networks" in first
