"""Device selection, display names, and the number of threads of torch and NumPy."""

import re
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

import torch
from threadpoolctl import threadpool_limits

from core.fair_lock import FairLock


def pick_device(name: str) -> str:
    """Validate a torch device name, such as "cpu", "cuda", "cuda:1" or "mps", and return it.

    For "auto", return "cuda" if torch sees a CUDA device, else "cpu". Raises ValueError, with a
    one-line message, for an invalid name or an unavailable device.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not isinstance(name, str) or not re.fullmatch(r"cpu|mps|cuda(:[0-9]{1,3})?", name):
        raise ValueError(f"unknown device {name!r}: choose auto, cpu, cuda, cuda:1 or mps")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ValueError("torch sees no Apple GPU (mps) here: choose cpu")
    if name.startswith("cuda"):
        if not torch.cuda.is_available():
            raise ValueError("torch sees no CUDA device here: choose cpu")
        count = torch.cuda.device_count()
        if int(name.partition(":")[2] or 0) >= count:
            raise ValueError(
                f"torch sees no {name} here: {count} CUDA device{'s' * (count > 1)}, "
                f"counted from 0, so choose cuda:{count - 1} or less"
            )
    return name


@contextmanager
def torch_defaults(device: str) -> Generator[None]:
    """Restore torch's defaults inside the block: factory functions on the CPU, no autocast.

    Keeps results independent of what a notebook has set, such as
    `torch.set_default_device("cuda")` or `torch.autocast`.
    """
    kind = torch.device(device).type
    with ExitStack() as stack:
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for device_type in sorted({"cpu", kind}):
            if torch.is_autocast_enabled(device_type):
                stack.enter_context(torch.autocast(device_type, enabled=False))
        yield


class DeviceLock(FairLock):
    """A lock on a network; while it is held, torch uses its defaults."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device
        self._defaults = ExitStack()

    def acquire(self, raise_if_cancelled: Callable[[], object]) -> None:
        first = not self.owned()
        super().acquire(raise_if_cancelled)
        if first:
            self._defaults.enter_context(torch_defaults(self._device))

    def release(self) -> None:
        if not self._reentered:
            self._defaults.close()
        super().release()


def autocast_dtype(device: str) -> torch.dtype:
    """Return the matmul type for training: bfloat16 if the hardware supports it, else float32.

    CPUs without native bfloat16 emulate it at half the speed of float32.
    """
    kind = torch.device(device).type
    if kind == "mps":
        return torch.float32
    if kind == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    native = capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")
    return torch.bfloat16 if native else torch.float32


def device_label(device: str) -> str:
    """Return the product name of a CUDA device, "Apple GPU" or "CPU"."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if kind == "mps" else "CPU"


_MIN_PARAMETERS_FOR_THREADS = 20_000_000


def limit_threads(parameters: int) -> None:
    """Use a single thread in torch and NumPy for a network too small to gain from more.

    Idle worker threads keep a core busy. With two threads, a small network translated no faster,
    but its page was painted 100 ms later. Under load, NumPy's checks took 460 ms instead of 5.
    """
    if parameters < _MIN_PARAMETERS_FOR_THREADS:
        torch.set_num_threads(1)
        threadpool_limits(1, user_api="blas")
