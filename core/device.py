"""Which device a model runs on, and how to name it to a person."""

import torch


def pick_device(name: str) -> str:
    """ "auto" is the GPU where there is one, else the CPU. Raises ValueError for one not here."""
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"unknown device {name!r}: choose auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("torch sees no CUDA device here: use --device cpu")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def autocast_dtype(device: str) -> torch.dtype:
    """What training multiplies in: bfloat16 where the hardware does, else float32.

    A processor without the instructions imitates them, at half the speed of float32.
    """
    if device == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    has = getattr(torch.cpu, "get_capabilities", dict)()
    return torch.bfloat16 if has.get("amx_bf16") or has.get("avx512_bf16") else torch.float32


def device_label(device: str) -> str:
    """The GPU's own name, or "CPU"."""
    return torch.cuda.get_device_name(device) if device == "cuda" else "CPU"


_GAINS_FROM_THREADS = 20_000_000  # weights


def spare_threads(parameters: int) -> None:
    """Keep torch to one thread where a network of so many weights would gain nothing from more.

    Threads that wait for each other keep their processors busy: with two for a small network a
    sentence was translated no sooner, and painted 100 ms later.
    """
    if parameters < _GAINS_FROM_THREADS:
        torch.set_num_threads(1)
