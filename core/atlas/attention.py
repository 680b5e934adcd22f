"""Measure where heads attend over a corpus: roles, null baselines, entropy and distances.

Axes: B sentences, n heads of a kind (layer by layer), Q queries, K keys, O roles, A distances, R =
1 + REPLICATES bootstrap replicates, of which the first is the sample itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.atlas.atlas import DISTANCES
from core.atlas.corpus import Sentence
from core.atlas.roles import GOLD_ROLES, ROLES, Facts, Maps, Role, diagonal, reordered
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.config import ModelConfig
from core.data.batches import collate, plan
from core.device import torch_defaults
from core.experiments.experiment import model_inputs
from core.frozen import Bools, Doubles
from core.kinds import KINDS, Kind
from core.model.build import Model, build
from core.model.interface import Seq2Seq
from core.record.capture import capture

SEEDS = (0, 1, 2)
"""The seeds of random networks, whose highest score over all heads is a null baseline."""
MIN_SENTENCES = 5
"""With fewer sentences there is no interval, because resampling so few is not informative."""

_TOKENS = 2048  # per batch and side, with padding


@dataclass(frozen=True)
class Attention:
    """Measure where heads attend: `roles` and, with `averages`, entropy and distances.

    Roles that need a manual alignment are measured in the sentences that have one, all others in
    every sentence. A role with `reordered` is measured with reordered source tokens. One network
    with random weights for each of `seeds` runs on the same sentences.
    """

    facts: Facts
    roles: tuple[Role, ...] = ROLES
    averages: bool = True
    seeds: tuple[int, ...] = SEEDS

    @torch.inference_mode()
    def __call__(self, checkpoint: Checkpoint, chunk: tuple[Sentence, ...]) -> Sums:
        """Measure one chunk. Hooks are process-wide: the caller must hold the model's lock."""
        natural = [role for role in self.roles if not role.reordered]
        others = [role for role in self.roles if role.reordered]
        found: dict[str, NDArray] = {}
        if natural or self.averages:
            found |= self._sums(checkpoint, chunk, natural, self.averages)
        if others:
            found |= self._sums(checkpoint, tuple(map(reordered, chunk)), others, False)
        return Sums(found)

    def _sums(
        self,
        checkpoint: Checkpoint,
        chunk: tuple[Sentence, ...],
        roles: Sequence[Role],
        averages: bool,
    ) -> dict[str, NDArray]:
        """Run all networks on the chunk, without reordering it, and measure these roles."""
        weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
        of_kind = {kind: [role for role in roles if kind in role.kinds] for kind in KINDS}
        rows = {
            kind: [_Rows.of(Maps(kind, sentence, self.facts), of_kind[kind]) for sentence in chunk]
            for kind in KINDS
            if of_kind[kind] or averages
        }
        found: dict[str, NDArray] = {}
        own = _measured(checkpoint.model, chunk, rows, _Rows.everything)
        random = [
            _measured(network, chunk, rows, _Rows.shares)
            for network in self._random_networks(checkpoint)
        ]
        for kind, rows_B in rows.items():
            shares_BOn, entropy_Bn, largest_Bn, distance_BAn = map(
                np.array, zip(*own[kind], strict=True)
            )
            queries_BO = np.array([one.counts.sum(-1) for one in rows_B])
            uniform_BO = np.array([one.uniform for one in rows_B])
            for o, role in enumerate(of_kind[kind]):
                name = f"{kind} {role.name}"
                found[f"of rows {name}"] = np.array(sum(one.measurable(role) for one in rows_B))
                if not role.positional:
                    found[f"cells {name}"] = np.sum([one.by_distance[o] for one in rows_B], axis=0)
                    found[f"visible {name}"] = np.sum(
                        [one.visible_by_distance for one in rows_B], 0
                    )
                    found[f"distance {name}"] = distance_BAn.sum(0)
                found[f"share {name}"] = weights_BR.T @ shares_BOn[:, o]
                found[f"queries {name}"] = weights_BR.T @ queries_BO[:, o]
                found[f"uniform {name}"] = np.array(uniform_BO[:, o].sum())
                found[f"sentences {name}"] = np.array(np.count_nonzero(queries_BO[:, o]))
                if random:
                    found[f"random {name}"] = np.array(
                        [sum(shares_On[o] for shares_On in measured[kind]) for measured in random]
                    )
            if averages:
                choices_B = np.array([one.choice.sum() for one in rows_B])
                found[f"entropy {kind}"] = weights_BR.T @ entropy_Bn
                found[f"largest {kind}"] = weights_BR.T @ largest_Bn
                found[f"rows {kind}"] = weights_BR.T @ choices_B
                found[f"sentences {kind}"] = np.array(np.count_nonzero(choices_B))
                found[f"all rows {kind}"] = np.array(sum(len(one.choice) for one in rows_B))
                found[f"distance {kind}"] = distance_BAn.sum(0)
        return found

    def _random_networks(self, checkpoint: Checkpoint) -> list[Model]:
        architecture, config = checkpoint.card.architecture, checkpoint.model.config
        device = str(next(checkpoint.model.parameters()).device)
        return [random_network(architecture, config, seed, device) for seed in self.seeds]


@dataclass(frozen=True)
class _Rows:
    """The facts about one sentence's maps of a kind that do not depend on the network.

    `counts` [O, Q] says which rows count for each role, and `cells` [O, Q, K] are the role's target
    cells in these rows.
    """

    maps: Maps
    cells: Bools
    counts: Bools

    @classmethod
    def of(cls, maps: Maps, roles: Sequence[Role]) -> _Rows:
        """Find the cells of roles in one sentence."""
        cells_OQK = np.zeros((len(roles), *maps.shape), np.bool_)
        counts_OQ = np.zeros(cells_OQK.shape[:2], np.bool_)
        for o, role in enumerate(roles):
            cells_QK, counts_OQ[o] = role.cells(maps)
            cells_OQK[o] = cells_QK & counts_OQ[o, :, None]
        return cls(maps, cells_OQK, counts_OQ)

    @cached_property
    def visible_count(self) -> NDArray[np.int64]:
        """The number of keys that each query may see: [Q]."""
        return self.maps.visible.sum(-1)

    @property
    def choice(self) -> Bools:
        """Which rows have a choice, because their query may see at least two keys: [Q]."""
        return self.visible_count > 1

    def measurable(self, role: Role) -> int:
        """Return the number of rows, or 0 if the role needs a gold alignment and there is none."""
        aligned = self.maps.sentence.gold is not None
        return len(self.choice) if aligned or role not in GOLD_ROLES else 0

    @property
    def uniform(self) -> Doubles:
        """Each role's expected share in a shuffled row, summed over the rows that count: [O].

        A row sums to 1, so the mean over all orders of its weights is uniform for every head.
        """
        return (self.cells.sum(-1) / self.visible_count).sum(-1)

    @cached_property
    def distances(self) -> Bools:
        """Which cells are at each of DISTANCES: [A, Q·K]."""
        bins_QK = _distances(self.maps.kind, *self.maps.shape) - DISTANCES[0]
        return np.arange(len(DISTANCES))[:, None] == bins_QK.ravel()

    @property
    def visible_by_distance(self) -> Doubles:
        """The number of cells at each distance that queries may see: [A]."""
        return self.distances.astype(np.float64) @ self.maps.visible.ravel()

    @property
    def by_distance(self) -> Doubles:
        """The number of each role's cells at each distance: [O, A]."""
        cells_OC = self.cells.reshape(len(self.cells), self.maps.visible.size)
        return cells_OC.astype(np.float64) @ self.distances.T

    def shares(self, map_nQK: Doubles) -> Doubles:
        """Return the weights on each role's cells, summed over rows: [O, n]."""
        cells = self.cells.reshape(len(self.cells), self.maps.visible.size)
        return cells.astype(np.float64) @ map_nQK.reshape(len(map_nQK), -1).T

    def everything(self, map_nQK: Doubles) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        """Return shares [O, n], entropy [n], largest weight [n] and weights by distance [A, n].

        All are sums over rows. Entropy, which is relative to a uniform row's, and largest weight
        are summed over the rows with a choice only.
        """
        chosen_nQK = map_nQK[:, self.choice]
        logs_nQK = np.log(chosen_nQK, out=np.zeros_like(chosen_nQK), where=chosen_nQK > 0)
        entropy_nQ = -(chosen_nQK * logs_nQK).sum(-1) / np.log(self.visible_count[self.choice])
        distance_An = self.distances.astype(np.float64) @ map_nQK.reshape(len(map_nQK), -1).T
        return self.shares(map_nQK), entropy_nQ.sum(-1), chosen_nQK.max(-1).sum(-1), distance_An


def _distances(kind: Kind, queries: int, keys: int) -> NDArray[np.int64]:
    """Return key minus query position or, in cross-attention, minus the diagonal's key: [Q, K].

    Distances are clipped to DISTANCES.
    """
    origin_Q = diagonal(queries, keys) if kind == "cross" else np.arange(queries)
    return np.clip(np.arange(keys) - origin_Q[:, None], DISTANCES[0], DISTANCES[-1])


def _measured(
    model: Seq2Seq,
    chunk: tuple[Sentence, ...],
    rows: Mapping[Kind, list[_Rows]],
    measure: Callable[[_Rows, Doubles], Any],
) -> dict[Kind, list[Any]]:
    """Run a network on a chunk and measure each sentence's maps [n, Q, K] of the kinds in `rows`.

    Maps are measured and dropped batch by batch, because those of long sentences fill the memory.
    """
    device = next(model.parameters()).device
    pairs = [sentence.ids for sentence in chunk]
    found: dict[Kind, dict[int, Any]] = {kind: {} for kind in rows}
    for batch in plan(pairs, _TOKENS):  # batches within a chunk do not depend on the shards
        padded = collate([pairs[b] for b in batch]).to(device)
        with capture(model) as captured:
            model.decode(padded.target_in, *model.encode(padded.source))  # maps need no logits
        for kind in rows:
            weights_LBHQK = captured.maps(kind).cpu().numpy()
            for row, b in enumerate(batch):
                queries, keys = rows[kind][b].maps.shape
                own_LHQK = weights_LBHQK[:, row, :, :queries, :keys].astype(np.float64)
                found[kind][b] = measure(rows[kind][b], own_LHQK.reshape(-1, queries, keys))
    return {kind: [of_kind[b] for b in range(len(chunk))] for kind, of_kind in found.items()}


@torch.inference_mode()
def maps_of(model: Seq2Seq, sentence: Sentence) -> dict[Kind, Doubles]:
    """Return the maps of one sentence by kind: [L, H, Q, K]. The caller holds the model's lock."""
    with capture(model) as captured:
        model(*model_inputs(model, *sentence.ids))
    return {kind: captured.maps(kind)[:, 0].double().cpu().numpy() for kind in KINDS}


@lru_cache(maxsize=len(SEEDS))
def random_network(architecture: str, config: ModelConfig, seed: int, device: str = "cpu") -> Model:
    """Return a network of this shape with random weights, in evaluation mode."""
    with torch.random.fork_rng(devices=[]), torch_defaults("cpu"):
        torch.manual_seed(seed)
        return build(architecture, config).eval().to(device)


@dataclass(frozen=True)
class Attended:
    """The parts of an `Atlas` that `Attention` measures: roles by kind, and arrays by name."""

    roles: Mapping[Kind, tuple[str, ...]]
    arrays: Mapping[str, NDArray]


def finish(total: Sums) -> Attended:
    """Turn the sums over a corpus into estimates with 95 % percentile bootstrap intervals.

    A role that could not be measured in any sentence is left out. Bounds are NaN where fewer than
    MIN_SENTENCES sentences could be measured.
    """
    roles: dict[Kind, tuple[str, ...]] = {}
    arrays: dict[str, NDArray] = {}
    for kind in KINDS:
        names = [role.name for role in ROLES if total.get(f"sentences {kind} {role.name}", 0)]
        roles[kind] = tuple(names)
        scores, shuffled, random, profile, rows = [], [], [], [], []
        for name in (f"{kind} {role}" for role in names):
            score_n3 = _estimate(total, f"share {name}", f"queries {name}", f"sentences {name}")
            queries = total[f"queries {name}"][0]
            scores.append(score_n3)
            shuffled.append(np.full(len(score_n3), total[f"uniform {name}"] / queries))
            random.append(np.max(total.get(f"random {name}", np.nan)) / queries)
            profile.append(_by_profile(total, name, len(score_n3)))
            rows.append(queries / total[f"of rows {name}"])
        if names:
            arrays[f"role_{kind}"] = np.array(scores)
            arrays[f"role_{kind}_shuffled"] = np.array(shuffled)
            arrays[f"role_{kind}_random"] = np.array(random)
            arrays[f"role_{kind}_profile"] = np.array(profile)
            arrays[f"role_{kind}_rows"] = np.array(rows)
    if "all rows encoder" in total:
        for name in ("entropy", "largest"):
            arrays[name] = np.concatenate(
                [
                    _estimate(total, f"{name} {kind}", f"rows {kind}", f"sentences {kind}")
                    for kind in KINDS
                ]
            )
        distances = [total[f"distance {kind}"].T / total[f"all rows {kind}"] for kind in KINDS]
        arrays["distance"] = np.concatenate(distances)
    return Attended(roles, {name: array.astype(np.float32) for name, array in arrays.items()})


def _by_profile(total: Sums, name: str, heads: int) -> Doubles:
    """Return a role's score if each cell had its head's mean weight at that distance: [n].

    NaN for positional roles. A head whose actual score is no higher attends to certain distances,
    where the role's keys happen to be. Voita et al. 2019, §5.2, also compare syntactic heads with
    the most frequent distance.
    """
    if f"cells {name}" not in total:
        return np.full(heads, np.nan)
    with np.errstate(invalid="ignore"):  # 0 / 0 at distances that no sentence has
        mean_An = total[f"distance {name}"] / total[f"visible {name}"][:, None]
    share_n = total[f"cells {name}"] @ np.nan_to_num(mean_An)
    return np.minimum(share_n / total[f"queries {name}"][0], 1.0)


def _estimate(total: Sums, part: str, whole: str, sentences: str) -> Doubles:
    """Return the quotient of two sums, `part` / `whole`, and the bounds of its interval: [n, 3]."""
    part_Rn, whole_R = total[part], total[whole]
    drawn_R = whole_R > 0  # a replicate of few sentences may draw no measurable row
    quotient_Rn = part_Rn[drawn_R] / whole_R[drawn_R, None]
    bounds_2n = np.quantile(quotient_Rn[1:], (0.025, 0.975), axis=0)
    if total[sentences] < MIN_SENTENCES:
        bounds_2n = np.full_like(bounds_2n, np.nan)
    return np.stack((quotient_Rn[0], *bounds_2n), axis=-1)
