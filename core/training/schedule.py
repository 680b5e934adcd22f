"""The learning rate of a step."""

import math


def inverse_sqrt(step: int, peak: float, warmup: int) -> float:
    """Linear to `peak` over `warmup` steps, then falling with 1/√step (paper §5.3, eq. 3).

    `step` counts from 1.
    """
    return peak * min(step / warmup, math.sqrt(warmup / step))
