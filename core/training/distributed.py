"""Several processes that train one network: who takes which rows, and what they tell each other."""

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
    """This process among those of a run; alone, unless torchrun started it with others."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one process that reads and writes the run's folder, and speaks."""
        return self.rank == 0

    def share(self, rows: Sequence[T]) -> Sequence[T]:
        """This process's part of what all do together; neighbours, alike in length, go apart."""
        return rows[self.rank :: self.size]

    def wrap(self, objective: nn.Module) -> nn.Module:
        """The same objective, whose gradients become the mean over all processes.

        All of a step's graph must come from one call of it. The first process's weights are copied
        to the others.
        """
        if self.size == 1:
            return objective
        # Constant buffers need not be sent before each step, and gradients that lie where they are
        # summed need not be copied there.
        return DistributedDataParallel(
            objective, broadcast_buffers=False, gradient_as_bucket_view=True
        )

    def gather(self, tensor: Tensor) -> Tensor:
        """Everyone's tensor on the CPU, all of one shape, stacked by rank: [size, ...]."""
        if self.size == 1:
            return tensor[None]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor)
        return torch.stack(gathered)

    def sums(self, *values: float) -> list[float]:
        """Each value summed over all processes by rank, so that all hold the same bits."""
        rows = self.gather(torch.tensor(values, dtype=torch.float64)).tolist()
        return [sum(column) for column in zip(*rows, strict=True)]

    def broadcast(self, content: bytes) -> bytes:
        """The first process's bytes, in all; what the others pass is ignored."""
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
    """Meet the other processes that torchrun started, and part from them at the end.

    On GPUs each process takes the one of its local rank. Raises ValueError if there are too few,
    or if a restart could not work.
    """
    if not dist.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) == 1:
        if device.startswith("cuda:"):  # whose random state is then the one that is kept
            torch.cuda.set_device(device)
        yield Processes()
        return
    if device.startswith("cuda:"):
        raise ValueError(f"torchrun gives each process a GPU of its own: use cuda, not {device}")
    if device == "cuda":
        local, here = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= here:
            raise ValueError(
                f"process {local + 1} of this machine finds {here} GPU(s): "
                f"start at most {here} with --nproc-per-node"
            )
        torch.cuda.set_device(local)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # Numbers and random states travel between CPUs, gradients between devices.
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    # DistributedDataParallel loads this module, which keeps the group if it finds one: the group's
    # threads then live on, and one that frees a tensor while Python ends aborts the process.
    from torch import _dynamo  # noqa: F401

    dist.init_process_group(backend, store=_store(size), rank=rank, world_size=size)
    yield Processes(rank, size)
    dist.destroy_process_group()


def _store(size: int) -> "dist.Store | None":
    """Where the processes find each other; None is torch's own way.

    torchrun keeps one store through its restarts, and a process started again would find in it the
    addresses of the dead (pytorch's issue 135712): so each start looks under names of its own.
    Machines count their starts apart, so for several of them torchrun must be told not to share.
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
    """Whether torchrun started this process again after one had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
