"""A small trained network, a corpus of two chunks, and passes with some heads ablated."""

import functools
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from core import analyse
from core.atlas.atlas import Atlas
from core.atlas.corpus import CHUNK, Corpus, chunked, corpus
from core.atlas.sums import Sums
from core.checkpoint.configuration import ListedFile
from core.checkpoint.folder import Card, Checkpoint
from core.model.build import build
from core.record.editing import edited
from core.record.edits import Edits
from core.search.beam import greedy
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import BOS, EOS
from tests import small

PAIRS = [*small.SENTENCES, *(tuple(map(str.upper, pair)) for pair in small.SENTENCES)]
STEPS = 100
SHAPE = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "share_embeddings": False,
    "tie_classifier": False,
}


@functools.cache
def checkpoint(**shape: int) -> Checkpoint:
    """Return a network in float64 that has learned six sentences, so that all heads matter."""
    sides = [[pair[side] for pair in small.SENTENCES] for side in (0, 1)]
    both = [SubwordTokenizer.train(side, 110, min_character_count=1) for side in sides]
    sizes = {"source_vocab_size": both[0].size, "target_vocab_size": both[1].size}
    shape = {**SHAPE, **shape}
    torch.manual_seed(3)
    model = build("scratch", small.config(**sizes, **shape))
    small.learn(model, both, STEPS)
    file = ListedFile("", 0, "0")
    card = Card(
        "scratch", "de", "en", model.config, {}, file, (file, file), "0", folder=Path(), metrics={}
    )
    return Checkpoint(card, model.double().eval(), *both)


def _halves(text: str) -> tuple[str, str]:
    words = text.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


MIXED = [
    (f"{_halves(a)[0]} {_halves(b)[1]}", f"{_halves(c)[0]} {_halves(d)[1]}")
    for a, c in small.SENTENCES
    for b, d in small.SENTENCES
]
"""36 pairs: the first half of every pair joined to the second half of every pair."""


@functools.cache
def sentences(**shape: int) -> Corpus:
    found = corpus(checkpoint(**shape), MIXED)
    assert len(found.sentences) == len(MIXED) > CHUNK
    return found


def total(measure, measured: Corpus | None = None, **shape: int) -> Sums:
    """Return a measure's sums over all chunks of a corpus."""
    chunks = chunked((measured or sentences(**shape)).sentences)
    return Sums.total(measure(checkpoint(**shape), chunk) for chunk in chunks)


def heads(model) -> list[tuple[str, int, int]]:
    """Return all heads as (kind, layer, head), from the configuration."""
    c = model.config
    layers = {
        "encoder": c.num_encoder_layers,
        "decoder": c.num_decoder_layers,
        "cross": c.num_decoder_layers,
    }
    return [(k, i, h) for k, count in layers.items() for i in range(count) for h in range(4)]


@torch.inference_mode()
def token_losses(network: Checkpoint, sentence, off=(), mean=(), means=None) -> np.ndarray:
    """Return target-token losses [T] with heads `off` zeroed and heads `mean` set to `means`."""
    model, (source, target) = network.model, sentence.ids
    edits = Edits(heads_off=frozenset(off), heads_mean=frozenset(mean))
    with edited(model, edits, means):
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))[0]
    return F.cross_entropy(logits, torch.tensor(target), reduction="none").numpy()


def translation(network: Checkpoint, source: str, off=()) -> str:
    """Translate one sentence greedily as a batch of one, with heads `off` zeroed."""
    ids = [*(token.id for token in network.source_tokenizer.encode(source)), EOS]
    with edited(network.model, Edits(heads_off=frozenset(off))):
        best = greedy(network.model, torch.tensor([ids]))[0][0]
    return network.target_tokenizer.decode(list(best.ids))


def pair_files(folder: Path) -> Path:
    """Write PAIRS as `val.de` and `val.en` in a folder, which is returned."""
    for side, language in enumerate(("de", "en")):
        text = "".join(pair[side] + "\n" for pair in PAIRS)
        (folder / f"val.{language}").write_text(text, encoding="utf-8")
    return folder


def run_atlas(checkpoint_folder: Path, files: Path, *more: object) -> Atlas:
    """Run `analyse atlas` on the files of a folder, and return the atlas that it writes there."""
    arguments = ["--checkpoint", checkpoint_folder, "--out", files / "atlas.npz", *more]
    arguments += ["--src", files / "val.de", "--ref", files / "val.en"]
    parsed = analyse.parser().parse_args(["atlas", *map(str, arguments)])
    parsed.run(parsed)
    return Atlas.load(files / "atlas.npz")
