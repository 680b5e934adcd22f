"""Data-parallel training: batch sharding and collective communication."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """This process's rank and the number of processes; 0 and 1 unless torchrun started the run."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is rank 0, the only process that prints and that uses the run's folder."""
        return self.rank == 0

    def shard(self, rows: Sequence[T]) -> Sequence[T]:
        """Return this process's shard, strided, because adjacent rows have similar lengths."""
        return rows[self.rank :: self.size]

    def wrap(self, objective: nn.Module) -> nn.Module:
        """Wrap the objective in DDP, which averages gradients over all processes.

        Call the result exactly once per step. Rank 0's weights are copied to the other processes.
        """
        if self.size == 1:
            return objective
        # All buffers are constant, and bucket views save a copy of the gradients.
        return DistributedDataParallel(
            objective, broadcast_buffers=False, gradient_as_bucket_view=True
        )

    def gather(self, tensor: Tensor) -> Tensor:
        """Stack each process's CPU tensor, all of one shape, by rank: [size, ...]."""
        if self.size == 1:
            return tensor[None]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor)
        return torch.stack(gathered)

    def sums(self, *values: float) -> list[float]:
        """Sum each value over all processes in rank order, bit-identically on each of them."""
        rows = self.gather(torch.tensor(values, dtype=torch.float64)).tolist()
        return [sum(column) for column in zip(*rows, strict=True)]

    def broadcast(self, content: bytes) -> bytes:
        """Return rank 0's `content` in every process; the argument of other ranks is ignored."""
        if self.size == 1:
            return content
        length = torch.tensor([len(content)])
        dist.broadcast(length, src=0)
        received = torch.empty(int(length), dtype=torch.uint8)
        if self.first:
            received.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        dist.broadcast(received, src=0)
        return received.numpy().tobytes()


@contextmanager
def joined(device: str) -> Generator[Processes]:
    """Join the process group that torchrun started, and leave it at the end.

    On GPUs, each process uses the GPU of its local rank. Raises ValueError for a numbered device
    such as cuda:1, for too few GPUs, and for restarts that would fail (see `_store`).
    """
    if not dist.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) == 1:
        if device.startswith("cuda:"):  # the saved random state is the current device's
            torch.cuda.set_device(device)
        yield Processes()
        return
    if device.startswith("cuda:"):
        raise ValueError(f"torchrun gives each process a GPU of its own: use cuda, not {device}")
    if device == "cuda":
        local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= gpus:
            raise ValueError(
                f"process {local + 1} of this machine has no GPU of its own: there are {gpus}, "
                f"start at most {gpus} with --nproc-per-node"
            )
        torch.cuda.set_device(local)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # Scalars and random states are exchanged between CPUs, gradients between devices.
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    # DistributedDataParallel imports torch._dynamo. If imported after init_process_group, _dynamo
    # keeps a reference to the group, whose threads can then abort the process at interpreter exit.
    from torch import _dynamo  # noqa: F401

    dist.init_process_group(backend, store=_store(size), rank=rank, world_size=size)
    yield Processes(rank, size)
    dist.destroy_process_group()


def _store(size: int) -> "dist.Store | None":
    """Return the rendezvous store, or None for torch's default.

    torchrun keeps its store across restarts, so a restarted process would find the addresses of
    dead processes (pytorch issue 135712). Each start therefore uses its own key prefix. Machines
    count restarts independently, so with several machines torchrun must not share the store.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    several = os.environ["LOCAL_WORLD_SIZE"] != os.environ["WORLD_SIZE"]
    if several and int(os.environ["TORCHELASTIC_MAX_RESTARTS"]) > 0:
        raise ValueError(
            "--max-restarts on several machines needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 "
            "in torchrun's environment: set it, or leave restarts out and use --resume"
        )
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    starts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    return dist.PrefixStore(f"start {starts}", dist.TCPStore(address, port, size, is_master=False))


def restarted() -> bool:
    """Return whether torchrun restarted this process after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
