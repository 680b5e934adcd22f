"""Layer-wise relevance propagation with the rules of AttnLRP (Achtibat et al. 2024).

Axes: B row, T target token, S source token, D d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from core.experiments.experiment import Ids, model_inputs
from core.frozen import Doubles
from core.model.interface import Seq2Seq
from core.record.capture import explicit_attention

PARTS = ("source", "target prefix", "biases", "softmax")
"""Where a logit comes from; the last is what linearised softmaxes leave over (see `_Rules`)."""


class Relevances(NamedTuple):
    """Relevances for the logits of some target tokens N; float64.

    `source` [N, S] and `prefix` [N, T] are those of the vectors that enter the first layer of the
    encoder and of the decoder, token and position together. `parts` has [N] for each of `PARTS`,
    and "logit", their sum up to rounding. States that an edit copies belong to no part.
    """

    source: Doubles
    prefix: Doubles
    parts: dict[str, Doubles]


def relevances(model: Seq2Seq, source: Ids, target: Ids, tokens: Sequence[int]) -> Relevances:
    """Return the relevances of all inputs for the logits of target[t], for each t of `tokens`.

    Hooks are process-wide: the caller must hold the model's lock.
    """
    rows, at = range(len(tokens)), list(tokens)
    rules, entered = _Rules(), dict[str, Tensor]()

    def enter(side: str) -> Callable[..., tuple[Any, ...]]:
        def hook(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Any, ...]:
            entered[side] = _leaf(args[0])
            return entered[side], *args[1:]

        return hook

    with ExitStack() as stack:
        for side in ("encoder", "decoder"):
            first = model.stack(side).layers[0]
            stack.enter_context(first.register_forward_pre_hook(enter(side)))
        sites = model.attention_sites()
        stack.enter_context(explicit_attention(sites))
        for site in sites:  # torch's own attention becomes single operations, too
            stack.callback(site.before_output(lambda heads: None))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        inputs = model_inputs(model, source, target)
        source_BS, target_in_BT = (ids.expand(len(at), -1) for ids in inputs)
        with rules:
            hidden_BTD = model.decode(target_in_BT, *model.encode(source_BS))
            logits_BV = model.classify(hidden_BTD[rows, at])
        logit_B = logits_BV[rows, [target[t] for t in at]]
        leaves = [*entered.values(), *rules.biases, *rules.softmax]
        gradients = torch.autograd.grad(logit_B.sum(), leaves, allow_unused=True)
    relevance = [
        torch.zeros_like(leaf, dtype=torch.float64, device="cpu")
        if gradient is None  # nothing depends on it, such as the ε of a norm
        else (leaf.detach() * gradient).double().cpu()
        for leaf, gradient in zip(leaves, gradients, strict=True)
    ]
    of_source_BS, of_target_BT = (one.sum(-1) for one in relevance[:2])
    of_rest = torch.stack([one.flatten(1).sum(1) for one in relevance[2:]])
    biases, softmax = of_rest.split([len(rules.biases), len(rules.softmax)])
    of_parts = of_source_BS.sum(1), of_target_BT.sum(1), biases.sum(0), softmax.sum(0)
    parts = dict(zip((*PARTS, "logit"), (*of_parts, logit_B.detach().double().cpu()), strict=True))
    return Relevances(
        of_source_BS.numpy(),
        of_target_BT.numpy(),
        {name: part.numpy() for name, part in parts.items()},
    )


class _Rules(TorchFunctionMode):
    """Runs operations such that gradient times input is the relevance of AttnLRP's rules.

    If R = x · ∂logit/∂x for the outputs of an operation, its inputs follow from its gradient:

    - linear layers, sums, ReLU: the ε-rule with ε = 0 is the gradient as it is
    - norms: the deviation is a constant, which is the identity rule for the division
    - products of two states (q·k, A·V, gates): each factor gets half, by the uniform rule
    - softmax: Taylor's first order (proposition 3.1) is the gradient as it is; `softmax` collects
      the constant term, which receives the rest
    - GELU and SiLU: the identity rule is a gradient of y/x

    `biases` and `softmax` collect all constants that are added to states, as leaves [B, ...].
    """

    def __init__(self) -> None:
        super().__init__()
        self.biases: list[Tensor] = []
        self.softmax: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, func.__name__.strip("_")
        args = tuple(arg.detach() if isinstance(arg, nn.Parameter) else arg for arg in args)
        depends = [isinstance(arg, Tensor) and arg.requires_grad for arg in args]
        if any(depends):
            if name in ("matmul", "mul", "rmul") and all(depends):
                return func(*map(_halved, args), **kwargs)
            if name in ("add", "radd", "sub", "rsub") and not all(depends):
                return self._shifted(func, args, depends.index(False))
            if name in ("div", "truediv"):
                return func(args[0], args[1].detach() if depends[1] else args[1], **kwargs)
            if name == "rsqrt":
                return func(*args).detach()
            if name in ("gelu", "silu"):
                return _as_factor(args[0], func(*args, **kwargs))
            if name in ("linear", "layer_norm", "softmax"):
                return getattr(self, f"_{name}")(*args, **kwargs)
        return func(*args, **kwargs)

    def _shifted(self, func: Callable, args: tuple[Any, ...], at: int) -> Tensor:
        """Add or subtract the constant args[at]."""
        result, both = func(*args), list(args)
        both[at] = self._bias(torch.as_tensor(args[at]).to(result), result)
        return func(*both)

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = F.linear(x, weight)
        return y if bias is None else y + self._bias(bias, y)

    def _layer_norm(
        self, x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float = 1e-5
    ) -> Tensor:
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        y = (x - mean) / torch.sqrt(variance + eps).detach() * weight
        return y + self._bias(bias, y)

    def _softmax(self, scores: Tensor, dim: int = -1, **options: Any) -> Tensor:
        """Return the weights s; of s = Jx + c with the Jacobian J at x, c becomes a leaf."""
        weights = scores.softmax(dim)
        s, x = weights.detach(), scores.detach()
        products = s * x.masked_fill(x.isinf(), 0.0)
        constant = _leaf(s - products + s * products.sum(dim, keepdim=True))
        self.softmax.append(constant)
        return weights + constant - constant.detach()

    def _bias(self, bias: Tensor, like: Tensor) -> Tensor:
        """Return a bias as a leaf of its own for each row."""
        of_row = bias.reshape(*[1] * (like.dim() - bias.dim()), *bias.shape)
        self.biases.append(_leaf(of_row.expand(len(like), *of_row.shape[1:])))
        return self.biases[-1]


def _leaf(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_()


def _halved(x: Tensor) -> Tensor:
    return (x + x.detach()) / 2


def _as_factor(x: Tensor, y: Tensor) -> Tensor:
    """Return y as x times a constant; where x is 0, its relevance is 0 with any factor."""
    return x * torch.where(x == 0, 1.0, y / x).detach()
