"""Device names, and the number of threads for a network."""

import os

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from core.device import autocast_dtype, device_label, limit_threads, pick_device
from core.training.distributed import joined


@pytest.fixture
def machine(monkeypatch):
    """Return a function that simulates CUDA devices and, if `mps`, an Apple GPU."""

    def with_devices(cuda: int, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return with_devices


@pytest.mark.parametrize(
    ("cuda", "mps", "name", "expected"),
    [
        (0, False, "auto", "cpu"),
        (2, False, "auto", "cuda"),
        (0, True, "auto", "cpu"),
        (2, True, "cpu", "cpu"),
        (2, False, "cuda:1", "cuda:1"),
        (0, True, "mps", "mps"),
    ],
)
def test_available_devices_are_picked(machine, cuda, mps, name, expected):
    machine(cuda, mps)
    assert pick_device(name) == expected


@pytest.mark.parametrize(
    ("cuda", "name", "message"),
    [
        (0, "cuda", "torch sees no CUDA device here: choose cpu"),
        (1, "cuda:1", "no cuda:1 here: 1 CUDA device, counted from 0, so choose cuda:0 or less"),
        (2, "cuda:12", "no cuda:12 here: 2 CUDA devices, counted from 0, so choose cuda:1 or less"),
        (1, "mps", r"no Apple GPU \(mps\) here: choose cpu"),
        (1, "mps:0", "unknown device 'mps:0': choose auto, cpu, cuda, cuda:1 or mps"),
        (1, "cuda:1\n", "unknown device"),
    ],
)
def test_unavailable_devices_give_one_line(machine, cuda, name, message):
    machine(cuda)
    with pytest.raises(ValueError, match=message) as error:
        pick_device(name)
    assert "\n" not in str(error.value)


def test_a_numbered_gpu_has_the_precision_and_label_of_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device}")
    assert autocast_dtype("cuda:1") == torch.bfloat16
    assert device_label("cuda:1") == "card cuda:1"
    assert (autocast_dtype("mps"), device_label("mps")) == (torch.float32, "Apple GPU")
    assert device_label("cpu") == "CPU"


def test_training_on_a_numbered_gpu_makes_it_current(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    with joined("cuda:1"):
        assert taken == ["cuda:1"]
    with joined("cpu"):
        assert taken == ["cuda:1"]


def test_torchrun_rejects_a_numbered_gpu(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_torchelastic_launched", lambda: True)
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="use cuda, not cuda:1"), joined("cuda:1"):
        pass


@pytest.mark.parametrize("parameters, threads", [(3_000_000, 1), (60_000_000, 2)])
def test_only_small_networks_use_one_thread(parameters, threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with threadpool_limits(2, user_api="blas"):
            limit_threads(parameters)
            assert torch.get_num_threads() == threads
            blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            assert blas and all(pool["num_threads"] == threads for pool in blas)
    finally:
        torch.set_num_threads(before)
