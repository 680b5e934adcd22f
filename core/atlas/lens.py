"""Fit the Jacobian lens of a network, and test it on other sentences, as sums over a corpus.

Axes: L layers; B sentences of a chunk; R bootstrap replicates; N positions; D d_model.
"""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.atlas.bleu import with_kv_cache
from core.atlas.corpus import Line, Sentence, corpus
from core.atlas.intervals import interval
from core.atlas.partial import Partial
from core.atlas.shards import in_process
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint, load
from core.checkpoint.lens import FILE, About, Lens
from core.command import Parser, progress_bar, refuse_unwritable, table, whole_number, write_result
from core.config import DecodeConfig
from core.data.batches import Batch, collate
from core.data.text_files import read_lines
from core.device import pick_device
from core.experiments.jacobian_lens import (
    BEST,
    Jacobians,
    jacobian_sums,
    layer_states,
    read,
)
from core.kinds import SIDES
from core.search.many import translate_ids
from core.text.tokenizer import EOS

SENTENCES = 48
"""How many sentences a lens is fitted on by default: more change its readings little."""
TESTED = 200
_RANDOM_SEED = 64
_LENSES = ("jacobian", "logit", "random")


@torch.inference_mode()
def greedy(checkpoint: Checkpoint, sources: list[list[int]]) -> list[list[int]]:
    """Return greedy translations of source ids without <eos>: ids with <eos>."""
    model = with_kv_cache(checkpoint.model)
    device = str(next(model.parameters()).device)
    forced = checkpoint.target_tokenizer.frame.forced
    found = translate_ids(model, sources, DecodeConfig(beam=1), device, forced=forced)
    ids = [list(best.ids) for best, *_ in found]
    return [target if target[-1:] == [EOS] else [*target, EOS] for target in ids]


def translated(checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> list[list[int]]:
    """Return the network's own greedy translations, ids with <eos>."""
    return greedy(checkpoint, [sentence.ids[0][:-1] for sentence in chunk])


def _batch(checkpoint: Checkpoint, chunk: Sequence[Sentence], targets: list[list[int]]) -> Batch:
    pairs = [(sentence.ids[0], target) for sentence, target in zip(chunk, targets, strict=True)]
    return collate(pairs).to(next(checkpoint.model.parameters()).device)


@dataclass(frozen=True)
class LensSums:
    """Measure the sums of `core.experiments.jacobian_lens.jacobian_sums`."""

    def __call__(self, checkpoint: Checkpoint, chunk: tuple[Sentence, ...]) -> Sums:
        batch = _batch(checkpoint, chunk, translated(checkpoint, chunk))
        return Sums(jacobian_sums(checkpoint.model, batch))


def jacobians_of(sums: Sums) -> Jacobians:
    """Return the lens from the sums of `LensSums`, rounded to float16 as in its file."""
    means = {side: sums[f"{side}_jacobians"] / sums[f"{side}_positions"] for side in SIDES}
    return {side: mean.astype(np.float16).astype(np.float32) for side, mean in means.items()}


@dataclass(frozen=True, eq=False, repr=False)
class LensTest:
    """Measure how well a lens reads each layer, from the embeddings. Sums, [1 + R, L + 1]:

    - LENS_hits: source tokens, without <eos>, that have a token of the translation among the BEST
      most probable; a token that the source has too does not count
    - LENS_null: the same with the next sentence's translation
    - LENS_agree: positions of the decoder whose most probable token is the network's own
    - LENS_kl: KL(own distribution ‖ read distribution) over these positions, in nats
    - decoder_lens: agreement of DecoderLens, which lets the decoder read each encoder layer

    LENS is jacobian, logit, or random: Gaussian matrices with the norms of the Jacobians. The sums
    source_tokens, null_tokens and target_tokens [1 + R] are what these are shares of.
    """

    jacobians: Jacobians

    def __repr__(self) -> str:
        digest = hashlib.sha256()
        for side in SIDES:
            digest.update(self.jacobians[side].tobytes())
        return f"LensTest({digest.hexdigest()})"

    def __call__(self, checkpoint: Checkpoint, chunk: tuple[Sentence, ...]) -> Sums:
        targets = translated(checkpoint, chunk)
        rows = []
        for i, sentence in enumerate(chunk):
            other = targets[(i + 1) % len(chunk)] if len(chunk) > 1 else None
            with torch.inference_mode():
                rows.append(self._sentence(checkpoint, sentence, targets[i], other))
        weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
        return Sums(
            {name: weights_BR.T @ np.array([row[name] for row in rows], float) for name in rows[0]}
        )

    def _sentence(
        self, checkpoint: Checkpoint, sentence: Sentence, target: list[int], other: list[int] | None
    ) -> dict[str, Any]:
        model = checkpoint.model
        batch = _batch(checkpoint, [sentence], [target])
        states = layer_states(model, batch)
        source = sentence.ids[0]
        words = {"hits": set(target), "null": set(other or ())}
        counts: dict[str, Any] = {"source_tokens": len(source) - 1, "target_tokens": len(target)}
        counts["null_tokens"] = 0 if other is None else len(source) - 1
        final_TV = read(model, states["decoder"][-1][0]).double().log_softmax(-1)
        for lens in _LENSES:
            best = [
                read(model, state_BND[0, :-1], self._matrix(lens, "encoder", layer))
                .topk(BEST)
                .indices.tolist()
                for layer, state_BND in enumerate(states["encoder"])
            ]
            for name, ids in words.items():
                wanted = ids - set(source) - {EOS}
                hits = [sum(not wanted.isdisjoint(row) for row in best_NK) for best_NK in best]
                counts[f"{lens}_{name}"] = np.array(hits)
            agree, divergence = [], []
            for layer, state_BND in enumerate(states["decoder"]):
                J_DD = self._matrix(lens, "decoder", layer)
                read_TV = read(model, state_BND[0], J_DD).double().log_softmax(-1)
                agree.append(_agreement(read_TV, final_TV))
                divergence.append(float((final_TV.exp() * (final_TV - read_TV)).sum()))
            counts |= {f"{lens}_agree": np.array(agree), f"{lens}_kl": np.array(divergence)}
        norm, (_, mask) = model.stack("encoder").norm, model.encode(batch.source)
        counts["decoder_lens"] = np.array(
            [
                _agreement(
                    model.classify(model.decode(batch.target_in, norm(x), mask))[0], final_TV
                )
                for x in states["encoder"]
            ]
        )
        return counts

    def _matrix(self, lens: str, side: Any, layer: int) -> Any:
        if lens == "logit":
            return None
        J_DD = self.jacobians[side][layer]
        if lens == "jacobian":
            return J_DD
        rng = np.random.default_rng((_RANDOM_SEED, SIDES.index(side), layer))
        random_DD = rng.standard_normal(J_DD.shape, np.float32)
        return random_DD * (np.linalg.norm(J_DD) / np.linalg.norm(random_DD))


def _agreement(read_TV: Tensor, final_TV: Tensor) -> int:
    return int((read_TV.argmax(-1) == final_TV.argmax(-1)).sum())


def table_of(sums: Sums, sentences: int) -> dict[str, tuple[tuple[float, float, float], ...]]:
    """Return each share or mean of `LensTest` with its bootstrap interval, per layer."""
    of = {"hits": "source_tokens", "null": "null_tokens", "agree": "target_tokens"}
    of |= {"kl": "target_tokens", "lens": "target_tokens"}
    table = {}
    for name in sums:
        if (whole := of.get(name.rpartition("_")[2])) is not None:
            with np.errstate(invalid="ignore"):  # a replicate that drew no sentence is NaN
                share_RL = sums[name] / sums[whole][:, None]
            rows = interval(share_RL, sentences).round(4).tolist()
            table[name] = tuple((value, low, high) for value, low, high in rows)
    return table


def chosen(lines: Sequence[Line], count: int, seed: int) -> tuple[list[Line], list[Line]]:
    """Draw `count` lines at random, and up to TESTED others; both in the order of the file."""
    order = np.random.default_rng(seed).permutation(len(lines)).tolist()
    parts = order[:count], order[count : count + TESTED]
    fitted, tested = ([lines[i] for i in sorted(part)] for part in parts)
    return fitted, tested


def run_lens(arguments: Namespace) -> None:
    """Fit a network's Jacobian lens, test it on other sentences of the file, and write both."""
    out = arguments.out or arguments.checkpoint / FILE
    option = "--out" if arguments.out else "--checkpoint"
    if out.exists() and not arguments.force:
        raise ValueError(f"{out} exists already: choose another --out, or replace it with --force")
    refuse_unwritable(option, out)
    checkpoint = load(arguments.checkpoint, pick_device(arguments.device))
    text = corpus(checkpoint, ((line, line) for line in read_lines(arguments.src)))
    fitted, tested = chosen(text.lines, arguments.sentences, arguments.seed)
    if len(tested) < 2:
        raise ValueError(
            f"{arguments.src} has {len(text.lines)} usable lines: at least 2 more than --sentences "
            f"{arguments.sentences} are needed for the test"
        )
    card, folder, run = checkpoint.card, arguments.checkpoint, in_process(checkpoint)
    partial = Partial(
        out.with_name(f"{out.name}.partial"), f"{card.weights_sha256} {text.source_sha256}"
    )
    with progress_bar(len(fitted) + len(tested)) as on_progress:
        jacobians = jacobians_of(partial.measured(LensSums(), folder, fitted, run, on_progress))
        sums = partial.measured(LensTest(jacobians), folder, tested, run, on_progress)
    rows = table_of(sums, len(tested))
    counts = {"sentences": len(fitted), "tested": len(tested), "seed": arguments.seed}
    about = About(card.weights_sha256, arguments.src.name, text.source_sha256, **counts, table=rows)
    Lens(jacobians, about).save(out)
    partial.remove()
    table([("written", out), ("sentences", len(fitted)), ("tested on", len(tested))])
    table([("by layer, from the embeddings", "95 % bootstrap intervals over sentences")])
    table((name, "  ".join(map(_shown, row))) for name, row in rows.items())
    write_result(arguments.json, {"checkpoint": card.folder.name, **asdict(about)})


def _shown(statistic: Iterable[float]) -> str:
    value, low, high = statistic
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def add_lens_arguments(p: Parser) -> None:
    """Add the options of this command to those that all analyses share."""
    p.add_argument("--sentences", type=whole_number(1), default=SENTENCES, help="to fit it on")
    p.add_argument("--seed", type=whole_number(0), default=0, help="chooses the sentences")
    p.path("--out", f"write here; the app reads {FILE} of the checkpoint")
    p.flag("--force", "replace an existing file")
