"""Checkpoints as tutorials, Lightning and nanoGPT write them: the printed lines convert them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from core.foreign.finding import TO_SAFETENSORS, WHOLE_NETWORK
from core.foreign.importing import FAMILIES, import_network
from core.foreign.weights import Weights
from tests.core.seed_networks import Seed, Tutorial, make_seed

ROOT = Path(__file__).parents[2]
State = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def seed(tmp_path_factory) -> Seed:
    return make_seed("tutorial", tmp_path_factory.mktemp("seed"))


def trained(seed: Seed) -> dict[str, Any]:
    """Return the state of an Adam optimiser, which holds tensors as well."""
    optimiser = torch.optim.Adam(seed.network.parameters())
    for parameter in seed.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    return optimiser.state_dict()


def prefixed(state: State, prefix: str) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def views(state: State) -> State:
    """Return tensors that all share one piece of memory."""
    flat = torch.cat([tensor.flatten() for tensor in state.values()])
    parts = flat.split([tensor.numel() for tensor in state.values()])
    return {n: part.view(state[n].shape) for n, part in zip(state, parts, strict=True)}


def lightning(state: State) -> dict[str, Any]:
    """Return what Lightning's ModelCheckpoint writes for a module whose network is `model`."""
    return {
        "state_dict": prefixed(state, "model."),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 4}}}},
        "callbacks": {"ModelCheckpoint{}": {"best_model_score": torch.tensor(1.5)}},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(4.0)}}, "param_groups": []}],
        "hyper_parameters": {f"setting_{i}": i for i in range(200)},
    }


CHECKPOINTS: dict[str, Callable[[State, Seed], Any]] = {
    "a state dict": lambda state, seed: state,
    "PyTorch's tutorial": lambda state, seed: {
        "epoch": 3,
        "model_state_dict": state,
        "optimizer_state_dict": trained(seed),
        "loss": torch.tensor(0.3),
    },
    "nanoGPT, compiled": lambda state, seed: {
        "model": prefixed(state, "_orig_mod."),
        "optimizer": trained(seed),
        "model_args": {"n_layer": 2},
        "iter_num": 5,
        "best_val_loss": torch.tensor(1.0),
        "config": {"device": "cpu"},
    },
    "Lightning": lambda state, seed: lightning(state),
    "nested twice": lambda state, seed: {"args": {"lr": 1}, "checkpoint": {"model": state}},
    "an average beside it": lambda state, seed: {
        "model": state,
        "ema": {name: tensor + 1 for name, tensor in state.items()},
    },
    "AveragedModel": lambda state, seed: {
        "n_averaged": torch.tensor(7),
        **prefixed(state, "module."),
    },
    "a compiled part": lambda state, seed: {
        name.replace("transformer.encoder.", "transformer.encoder._orig_mod."): tensor
        for name, tensor in state.items()
    },
    "a counter": lambda state, seed: state | {"steps": torch.tensor(4)},
    "shared memory": lambda state, seed: {"model": views(state)},
    "other strides": lambda state, seed: {
        name: t.T.contiguous().T if t.dim() == 2 else t for name, t in state.items()
    },
}


def convert(seed: Seed, source: Path, out: Path):
    return import_network(seed.family, source, out, seed.options(), seed.reference)


def printed_lines(seed: Seed, file: Path, out: Path) -> str:
    """Give the pickle to the converter, and return the lines that its error prints."""
    with pytest.raises(ValueError, match="is a pickle") as error:
        convert(seed, file, out)
    assert WHOLE_NETWORK in str(error.value) and "\n" not in str(error.value)
    found = re.search(r": (from torch import .*) \(a file that load", str(error.value))
    assert found is not None
    return found[1]


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_the_printed_lines_convert_what_training_wrote(seed, case, tmp_path, monkeypatch):
    state = {name: tensor.clone() for name, tensor in seed.network.state_dict().items()}
    torch.save(CHECKPOINTS[case](state, seed), tmp_path / "best-3.ckpt")
    lines = printed_lines(seed, tmp_path / "best-3.ckpt", tmp_path / "mine-de-en")
    monkeypatch.chdir(tmp_path)
    exec(lines, {})
    result = convert(seed, tmp_path / "model.safetensors", tmp_path / "mine-de-en")
    assert result.imported.passed
    types = {entry.dtype for entry in Weights(tmp_path / "model.safetensors")._entries.values()}
    assert types - {"I64", "BOOL"} == {"F32"}


def test_the_printed_lines_store_a_tied_table_twice(tmp_path, monkeypatch):
    """Two names of one tensor, as in a network whose classifier is the embedding."""
    table = torch.arange(12.0).view(3, 4)
    torch.save({"model": {"embedding": table, "classifier": table}}, tmp_path / "model.pt")
    monkeypatch.chdir(tmp_path)
    exec("; ".join(TO_SAFETENSORS), {})
    weights = Weights(tmp_path / "model.safetensors")
    assert weights.names == ["classifier", "embedding"]
    assert all(torch.equal(weights.take(name), table) for name in weights.names)


def test_a_whole_network_needs_its_classes(seed, tmp_path, monkeypatch):
    torch.save(seed.network, tmp_path / "model.pt")
    lines = printed_lines(seed, tmp_path / "model.pt", tmp_path / "mine-de-en")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=Tutorial.__name__):
        exec(lines, {})
    exec(lines.replace("weights_only=True", "weights_only=False"), {})
    assert convert(seed, tmp_path / "model.safetensors", tmp_path / "mine-de-en").imported.passed


def test_the_guides_lines_are_the_printed_ones():
    """README shows them with line breaks."""
    text = (ROOT / "core/foreign/README.md").read_text()
    block = next(b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "save_file" in b)

    def plain(lines: str) -> str:
        return re.sub(r"[\s;]|,(?=\s*\))", "", lines)

    assert plain(block) == plain("".join(TO_SAFETENSORS))


@pytest.mark.parametrize("prefix", ["net.", "_forward_module.net.transformer_model."])
@pytest.mark.parametrize("family", ["friendshipkim", "hyunwoongko"])
def test_a_wrappers_prefix_is_removed_in_each_family(family, prefix, tmp_path):
    seed = make_seed(family, tmp_path)
    state = prefixed(seed.network.state_dict(), prefix)
    source = seed.save(state, tmp_path / "wrapped.safetensors")
    result = convert(seed, source, tmp_path / "mine-de-en")
    assert result.imported.passed
    assert result.notes == (f"The prefix {prefix!r} of the weights' names was removed.",)


OTHERS: dict[str, tuple[Callable[[State], State], str]] = {
    "a part that the wrapper adds": (
        lambda state: prefixed(state, "model.") | {"criterion.weight": torch.ones(3)},
        "criterion.weight is not used",
    ),
    "one tensor missing": (
        lambda state: {n: t for n, t in state.items() if n != "generator.bias"},
        "lacks generator.bias: save the complete state dict",
    ),
    "a network of no family": (
        lambda state: {
            "encoder.rnn.weight_ih_l0": torch.ones(9, 4),  # no Transformer
            "decoder.rnn.weight_ih_l0": torch.ones(4, 4),
        },
        f"none of the {len(FAMILIES)} families .friendshipkim, hyunwoongko, tutorial, .* has",
    ),
    "the names of two networks under one wrapper": (
        lambda state: prefixed(state, "a.") | prefixed(state, "a.b."),
        "holds two networks, 'a.' and 'a.b.'",
    ),
    "a large table of whole numbers": (
        lambda state: state | {"cache": torch.zeros(5_000, 5_000, dtype=torch.int8)},
        "cache is not used",
    ),
    "float64 beyond float32": (
        lambda state: state | {"generator.bias": state["generator.bias"].double() + 1e300},
        "generator.bias contains values that are not finite",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_state_dicts_are_refused_in_one_line(seed, case, tmp_path):
    change, says = OTHERS[case]
    source = seed.save(change(seed.network.state_dict()), tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=says) as error:
        convert(seed, source, tmp_path / "mine-de-en")
    assert "\n" not in str(error.value) and not (tmp_path / "mine-de-en").exists()
