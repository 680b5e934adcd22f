"""Which device a model runs on, and how to name it to a person."""

import ctypes
import platform
import re
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

import torch
from threadpoolctl import threadpool_limits

from core.fair_lock import FairLock


def pick_device(name: str) -> str:
    """The device by a torch name: "cpu", "cuda", "cuda:1" or "mps"; "auto" is CUDA or the CPU.

    Raises ValueError, in one line, for a name of another form and for a device that is not here.
    """
    if not isinstance(name, str):
        raise ValueError(f"unknown device {name!r}: choose auto, cpu, cuda, cuda:1 or mps")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]{1,3})?", name):
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
def own_defaults(device: str) -> Generator[None]:
    """Compute with torch's usual defaults: factory calls on the CPU, no autocast.

    A notebook may have set others (`torch.set_default_device("cuda")`, `torch.autocast`); a network
    in float32 computes the same numbers under any of them.
    """
    kind = torch.device(device).type
    with ExitStack() as stack:
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for one in sorted({"cpu", kind}):
            if torch.is_autocast_enabled(one):
                stack.enter_context(torch.autocast(one, enabled=False))
        yield


class DeviceLock(FairLock):
    """A lock on a network: whoever holds it computes with torch's usual defaults."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device
        self._defaults = ExitStack()

    def acquire(self, raise_if_cancelled: Callable[[], object]) -> None:
        first = not self.owned()
        super().acquire(raise_if_cancelled)
        if first:
            self._defaults.enter_context(own_defaults(self._device))

    def release(self) -> None:
        if not self._reentered:
            self._defaults.close()
        super().release()


def autocast_dtype(device: str) -> torch.dtype:
    """What training multiplies in: bfloat16 where the hardware does, else float32.

    A processor without the instructions imitates them, at half the speed of float32.
    """
    kind = torch.device(device).type
    if kind == "mps":
        return torch.float32
    if kind == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    has = getattr(torch.cpu, "get_capabilities", dict)()
    return torch.bfloat16 if has.get("amx_bf16") or has.get("avx512_bf16") else torch.float32


def device_label(device: str) -> str:
    """The GPU's own name, or "CPU"."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if kind == "mps" else "CPU"


_GAINS_FROM_THREADS = 20_000_000  # weights


def spare_threads(parameters: int) -> None:
    """One thread for torch and NumPy where a network of so many weights gains nothing from more.

    Threads that wait for each other keep their processors busy: with two for a small network a
    sentence was translated no sooner, and painted 100 ms later; and beside other work NumPy's two
    made the products of its checks, 5 ms of work, last 460.
    """
    if parameters < _GAINS_FROM_THREADS:
        torch.set_num_threads(1)
        threadpool_limits(1, user_api="blas")


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # glibc's malloc.h
_LARGEST_BLOCK = 32 << 20  # the most that glibc takes for the first


def keep_memory() -> None:
    """Let glibc keep freed memory for the next step rather than give it back to the system.

    Blocks of some megabytes go back at once, and each time the system gives one out anew it fills
    it with zeros, page by page: a step of training lasts 1.1 times as long. Elsewhere nothing
    happens.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
