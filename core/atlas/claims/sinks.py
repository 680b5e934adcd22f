"""Statistics of claims about attention sinks: that there are some, and that their values are small.

Axes: R replicates; L layers, H heads; K keys, D d_model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from core.atlas.claims.literature import DRAWN, SINK
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import Sentence, drawn
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.experiment import model_inputs
from core.experiments.values import transformed_values
from core.record.capture import capture

_SEED = 5


@dataclass(frozen=True)
class Sinks:
    """Measure what decoder heads put on <bos>. Sums over sentences, by replicate:

    - weight [R, L, H]: a head's mean weight on <bos>, without the first row
    - ratio [R, L, H]: ‖v W^O‖ of <bos> over its mean at the other keys
    - drawn [R], sentences: as in `core.atlas.claims.sources.SourceShares`
    """

    @torch.inference_mode()
    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
        found = []
        for sentence in chunk:
            with capture(checkpoint.model) as captured:
                checkpoint.model(*model_inputs(checkpoint.model, *sentence.ids))
            calls = captured.of_kind("decoder")
            norms_LHK = torch.stack([transformed_values(call).norm(dim=-1) for call in calls])
            weight_LH = captured.maps("decoder")[:, 0, :, 1:, 0].mean(-1)
            ratio_LH = norms_LHK[..., 0] / norms_LHK[..., 1:].mean(-1)
            found.append(torch.stack([weight_LH, ratio_LH]).double().cpu().numpy())
        weight_RLH, ratio_RLH = np.einsum("br,bxlh->xrlh", weights_BR, np.array(found))
        count = np.array(len(chunk), np.int64)
        drawn_R = weights_BR.sum(0)
        return Sums(
            {"weight": weight_RLH, "ratio": ratio_RLH, "drawn": drawn_R, "sentences": count}
        )


def sinks(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of the claims about sinks on one network."""
    return statistics(network.measured(Sinks(), drawn(network.text.lines, DRAWN, _SEED)))


def statistics(sums: Sums) -> Mapping[str, Statistic]:
    """Return the statistics from the sums of `Sinks`."""
    with np.errstate(invalid="ignore"):
        weight_RLH, ratio_RLH = (
            sums[name] / sums["drawn"][:, None, None] for name in ("weight", "ratio")
        )
    count, largest_R = int(sums["sentences"]), weight_RLH.max((1, 2))
    found = {"sinks-exist": Statistic(largest_R, count)}
    is_sink_LH = weight_RLH[0] > SINK
    if not is_sink_LH.any():
        return found
    least = np.where(is_sink_LH, ratio_RLH[0], np.inf).argmin()
    ratio_R = ratio_RLH.reshape(len(ratio_RLH), -1)[:, least]
    return {**found, "sinks-are-empty": Statistic(ratio_R, count)}
