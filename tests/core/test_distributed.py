"""Two processes train the same weights as one, even if one of them is killed."""

import os
import signal
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from core.checkpoint.folder import load, read_card
from core.config import TrainConfig
from core.data.batches import plan
from core.model.build import build
from core.train import parser
from core.training.distributed import Processes, joined, restarted
from core.training.loop import Stepped, train
from tests import small
from tests.core.conftest import run_train
from tests.core.crashes import fingerprint
from tests.core.test_training import random_pairs

CONFIG = TrainConfig(
    steps=12, batch_tokens=26, warmup_steps=3, validate_every=4, save_every=3, seed=5
)


def trained(
    folder: Path,
    dropout: float,
    dtype: torch.dtype,
    processes: Processes = Processes(),
    dies_at: int | None = None,
) -> dict[str, Tensor]:
    """Train and return the weights; rank 1 kills itself at step `dies_at`, and is resumed."""
    torch.manual_seed(1)
    network: nn.Module = build("scratch", small.config(dropout=dropout)).to(dtype)
    data, again = random_pairs(30), dies_at is not None and restarted()
    for event in train(network, data, data[:5], CONFIG, folder, "cpu", again, processes=processes):
        if isinstance(event, Stepped) and event.step == dies_at and not again and processes.rank:
            os.kill(os.getpid(), signal.SIGKILL)
    return {name: p.detach() for name, p in network.named_parameters()}


def work(folder: Path) -> None:
    """Run in each process; rank 0 saves its weights."""
    warnings.resetwarnings()  # drop pytest's filters, which turn torch's warnings into errors
    with joined("cpu") as processes:
        runs = {"killed": (0.2, torch.float32, 8)}
        if restarted():
            (folder / "restarted").touch()
        else:
            runs = {"exact": (0.0, torch.float64, None), "whole": (0.2, torch.float32, None)} | runs
        for name, (dropout, dtype, dies_at) in runs.items():
            weights = trained(folder / f"{name}-state", dropout, dtype, processes, dies_at)
            if processes.first:
                save_file(weights, folder / f"{name}.safetensors")
    names = [task.read_text() for task in Path("/proc/self/task").glob("*/comm")]
    assert not any("gloo" in name for name in names), "a thread outlives its process group"


def in_two_processes(function: Callable[..., None], *arguments: object) -> None:
    forks = LaunchConfig(  # torchrun's own launcher; a new process would import torch first
        *(1, 1, 2),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=1,
        start_method="fork",
    )
    elastic_launch(forks, function)(*arguments)


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> dict[str, Any]:
    """Weights and state fingerprints of runs with two processes; in one, rank 1 was killed."""
    folder = tmp_path_factory.mktemp("ranks")
    in_two_processes(work, folder)
    assert (folder / "restarted").exists(), "nothing was killed"
    states = {f.parent.name: fingerprint(f) for f in folder.glob("*-state/state.safetensors")}
    return states | {file.stem: load_file(file) for file in folder.glob("*.safetensors")}


def test_the_shards_are_unequal():
    """Otherwise the next test would also pass with an unweighted mean of the shards."""
    data, batches = random_pairs(30), plan(random_pairs(30), CONFIG.batch_tokens, seed=5 * 100_003)
    tokens = [
        [sum(len(data[i][1]) for i in Processes(rank, 2).shard(batch)) for rank in (0, 1)]
        for batch in batches
    ]
    assert any(not b for _, b in tokens), "a batch of one row leaves nothing for rank 1"
    assert sum(a != b for a, b in tokens) > len(tokens) / 2


def test_two_processes_take_the_steps_of_one(two, tmp_path):
    alone = trained(tmp_path, 0.0, torch.float64)
    for name, weight in alone.items():
        torch.testing.assert_close(two["exact"][name], weight, rtol=0, atol=1e-10, msg=name)


def test_a_killed_process_is_restarted_with_bit_equal_results(two):
    """Weights, moments, each process's random state and the curve are equal."""
    assert all(torch.equal(two["killed"][name], two["whole"][name]) for name in two["whole"])
    killed, whole = (two[f"{name}-state"] for name in ("killed", "whole"))
    assert killed == whole


def printing(folder: Path, data: Path) -> None:
    """Run the command in each process; what it prints goes to a file."""
    warnings.resetwarnings()
    with (folder / os.environ["RANK"]).open("w") as file, redirect_stdout(file):
        run_train("--data", data, "--out", folder / "d")


def test_the_command_trains_with_two_processes(data, tmp_path):
    in_two_processes(printing, tmp_path, data)
    printed = [(tmp_path / rank).read_text() for rank in "01"]
    assert printed[0].count("sacrebleu") == 1 and not printed[1], "only rank 0 prints"
    load(tmp_path / "d")
    curve = read_card(tmp_path / "d").metrics["curve"]
    assert [row["step"] for row in curve] == [4, 8, 12]
    assert curve[-1]["val_loss"] < curve[0]["val_loss"]


def test_torchrun_leaves_every_option_to_the_command():
    """torchrun accepts abbreviations of its own options, even after the module's name."""
    from torch.distributed.run import get_args_parser

    options = [o for action in parser()._actions for o in action.option_strings if o[:2] == "--"]
    theirs = [o for action in get_args_parser()._actions for o in action.option_strings]
    assert len(options) > 10
    assert not [o for o in options for t in theirs if t.startswith(o) and o != "--help"]
