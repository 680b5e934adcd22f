"""Learning-rate schedules."""

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from core.config import TrainConfig


def inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    """Return a rate that rises linearly to `peak`, then falls with 1/√step (paper §5.3, eq. 3).

    `step` counts from 1.
    """
    warmup = max(warmup, 1)
    return peak * min(step / warmup, math.sqrt(warmup / step))


def cooldown(step: int, steps: int, length: int) -> float:
    """Return the cooldown factor: 1 until the last `length` of `steps`, then 1 − √x towards 0.

    x is the completed fraction of the cooldown (Hägele et al. 2024, "1-sqrt"); steps count from 1.
    """
    return 1 - math.sqrt(max(0, step - (steps - length)) / (length + 1))


class Schedule:
    """Set an optimiser's learning rate before each step; its state is a JSON object.

    Warm-up is linear, except for "plateau", which starts at its peak and ignores validations
    during the warm-up.
    """

    def __init__(self, optimizer: Optimizer, config: TrainConfig):
        self._optimizer, self._config = optimizer, config
        self._plateau = ReduceLROnPlateau(
            optimizer, factor=config.plateau_factor, patience=config.plateau_patience
        )

    def before(self, step: int) -> None:
        """Set the rate for this step, counted from 1."""
        config = self._config
        if config.schedule == "plateau":
            return
        if config.schedule == "inverse_sqrt":
            rate = inverse_sqrt(step, config.peak_lr, config.warmup_steps)
        else:
            rate = config.peak_lr * min(1.0, step / max(config.warmup_steps, 1))
        self._set(rate * cooldown(step, config.steps, config.cooldown_steps))

    def validated(self, step: int, loss: float) -> None:
        """Record the loss of a validation after this step."""
        if self._config.schedule == "plateau" and step > self._config.warmup_steps:
            self._plateau.step(loss)

    def state(self) -> dict[str, Any]:
        rate, plateau = self._optimizer.param_groups[0]["lr"], self._plateau.state_dict()
        return {"lr": rate, "plateau": plateau, "steps": self._config.steps}

    def restore(self, state: dict[str, Any], step: int) -> None:
        """Restore the state after this step.

        Raises ValueError if `steps` has changed and the old or the new cooldown has begun.
        """
        saved, steps, length = state["steps"], self._config.steps, self._config.cooldown_steps
        if length and saved != steps and step > min(saved, steps) - length:
            raise ValueError(
                f"a run of {saved:,} steps with a cooldown over the last {length:,} cannot become "
                f"one of {steps:,} steps after step {step:,}: resume with --max-steps {saved}"
            )
        self._set(state["lr"])
        self._plateau.load_state_dict(state["plateau"])

    def _set(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
