"""Statistics of claims about what states say, read by the Jacobian lens and by the logit lens.

Axes: R replicates; L layers, from the embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.atlas.claims.literature import DRAWN
from core.atlas.claims.network import Network
from core.atlas.claims.statistic import Statistic
from core.atlas.corpus import drawn
from core.atlas.lens import LensTest, chosen
from core.atlas.sums import Sums
from core.checkpoint.lens import FILE, load_lens

_SEED = 3


def lens(network: Network) -> Mapping[str, Statistic]:
    """Return the statistics of all claims about states; empty for a network without a lens.

    Sentences on which the lens was fitted are left out.
    """
    card = network.checkpoint.card
    if not (card.folder / FILE).exists():
        return {}
    found = load_lens(card)
    lines = network.text.lines
    if found.about.corpus_sha256 == network.text.source_sha256:
        _, lines = chosen(lines, found.about.sentences, found.about.seed)
    tested = drawn(lines, DRAWN, _SEED)
    return statistics(network.measured(LensTest(dict(found.jacobians)), tested), len(tested))


def statistics(sums: Sums, sentences: int) -> Mapping[str, Statistic]:
    """Return the statistics from the sums of `LensTest`."""
    with np.errstate(invalid="ignore"):
        hits_RL = sums["jacobian_hits"] / sums["source_tokens"][:, None]
        null_RL = sums["jacobian_null"] / sums["null_tokens"][:, None]
        logit_RL, jacobian_RL = (
            sums[f"{lens}_agree"] / sums["target_tokens"][:, None] for lens in ("logit", "jacobian")
        )
        even_R = (logit_RL[:, -1] - logit_RL[:, 0]) / (logit_RL.shape[1] - 1)
        first_R = (logit_RL[:, 1] - logit_RL[:, 0]) / even_R
    own_RL = hits_RL - null_RL
    found = {
        "translated-in-embeddings": own_RL[:, 0],
        "translated-layer-by-layer": own_RL[:, -1] - own_RL[:, 0],
        "first-decoder-layer": first_R,
        "jacobian-lens-better": (jacobian_RL - logit_RL)[:, :-1].mean(1),
    }
    return {id: Statistic(replicates_R, sentences) for id, replicates_R in found.items()}
