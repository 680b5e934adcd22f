"""The network in JavaScript equals Python's: weights, products, whole passes, steps, edits."""

from __future__ import annotations

import base64
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page

from app.components.assets import joined
from app.export.weights import dequantised, pack, packed, quantised
from core.checkpoint.folder import load
from core.checkpoint.head_means import HeadMeans, load_means
from core.checkpoint.lens import load_lens
from core.config import ModelConfig
from core.experiments.score_parts import scores
from core.experiments.values import value_norms
from core.kinds import KINDS
from core.model.build import build
from core.parity.networks import VARIANTS
from core.record.editing import Means, edited, limits_of
from core.record.edits import Edits
from core.record.states import Jacobians
from core.record.teacher_forced import teacher_forced_pass
from core.text.tokenizer import BOS, EOS, PAD

ROOT = Path(__file__).resolve().parents[2]
NETWORK = ROOT / "app/components/network"
CAPTIONS = ROOT / "checkpoints/captions-de-en"
BUNDLE = joined(*(NETWORK / f"{name}.js" for name in ("transformer", "weights", "edits")))
MAPS, LOG_PROBS = 1e-5, 1e-4  # limits

# Functions that the tests call in the page; they return numbers as base64.
ASK = """
const networks = new Map();
const packedNumbers = (numbers) => {
  const bytes = new Uint8Array(Float32Array.from(numbers).buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 4096)
    text += String.fromCharCode(...bytes.subarray(at, at + 4096));
  return btoa(text);
};
const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

async function open(name, address, plain) {
  const file = await (await fetch(address)).arrayBuffer();
  networks.set(name, await makeNetwork(readWeights(new Uint8Array(file)), { plain }));
  return networks.get(name).heap.kernel !== null;
}

function pass({ name, source, target, edits = "", quantities = ["weights"] }) {
  const network = networks.get(name), asked = parseEdits(edits);
  const capture = Object.fromEntries(quantities.map((one) => [one, true]));
  network.free();
  const logits = network.decode(target, network.encode(source, asked, capture), asked, capture);
  const mapsOf = (kind) => quantities.map((quantity) => packedNumbers(capture[kind][quantity]));
  const maps = ["encoder", "decoder", "cross"].map(mapsOf);
  return { logits: packedNumbers(logits), maps };
}

/* Return the largest difference between logits of steps and of passes over the same prefixes. */
function steps({ name, source, tree, edits = "" }) {
  const network = networks.get(name), asked = parseEdits(edits);
  network.free();
  const memory = network.encode(source, asked), V = network.config.target_vocab_size;
  const cache = network.start(memory, tree[0].ids.length, tree.length);
  let prefixes = [], largest = 0;
  for (const { ids, parents } of tree) {
    prefixes = parents.map((parent, b) => [...(prefixes[parent] ?? []), ids[b]]);
    const found = network.step(ids, parents, cache, asked).slice();
    for (const [b, prefix] of prefixes.entries()) {
      const whole = network.decode(prefix, memory, asked).subarray(-V);
      for (const [v, logit] of whole.entries())
        largest = Math.max(largest, Math.abs(found[b * V + v] - logit));
    }
  }
  return largest;
}
"""


def numbers(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def as_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass(frozen=True)
class Network:
    """A network in Python, and the same one in the page under `name`."""

    page: Page
    name: str
    model: Any
    means: Means | None = None
    lens: Jacobians | None = None

    def compare(self, source: Sequence[int], target: Sequence[int], edits: str = "") -> np.ndarray:
        """Compare a pass with Python's; return its flattened maps and log-probabilities."""
        asked, problems = Edits.parse(edits)
        assert not problems
        given = {"means": self.means, "lens": self.lens}
        expected = teacher_forced_pass(self.model, source, target, asked, **given)
        fed = [BOS, *target[:-1]]
        ask = {"name": self.name, "source": list(source), "target": fed, "edits": edits}
        found = self.page.evaluate("(ask) => pass(ask)", ask)
        maps = []
        for kind, (weights,) in zip(KINDS, found["maps"], strict=True):
            own = numbers(weights).reshape(getattr(expected, kind).shape)
            assert np.abs(own - getattr(expected, kind).numpy()).max() <= MAPS, (edits, kind)
            maps.append(own.ravel())
        logits = torch.tensor(numbers(found["logits"]).reshape(len(target), -1))
        log_probs = logits.double().log_softmax(-1).gather(1, torch.tensor(target)[:, None])[:, 0]
        assert (log_probs - expected.log_probs).abs().max() <= LOG_PROBS, edits
        best = logits.double().log_softmax(-1).gather(1, expected.alternatives)
        assert (best - expected.alternative_log_probs).abs().max() <= LOG_PROBS, edits
        return np.concatenate([*maps, log_probs.numpy()])


class Files(BaseHTTPRequestHandler):
    """Serves the latest weights file at /weights; any other path is an empty page."""

    files: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        content = self.files.get(self.path, b"<title>Tests</title>")
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def network_page(computing_page: Page) -> Iterator[Page]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        computing_page.goto(f"http://127.0.0.1:{server.server_port}/")
        computing_page.add_script_tag(content=BUNDLE + ASK)
        yield computing_page
        server.shutdown()


def opened(
    page: Page, name: str, file: bytes, model: Any, means: Means | None = None, plain: bool = False
) -> Network:
    Files.files["/weights"] = file
    fast = page.evaluate("(ask) => open(...ask)", [name, "/weights", plain])
    assert fast is not plain
    return Network(page, name, model, means)


def from_checkpoint(page: Page, name: str, plain: bool = False) -> Network:
    folder = ROOT / "checkpoints" / name
    own = load(folder)
    means, lens = load_means(folder, own.card.model).parts, load_lens(own.card).jacobians
    network = opened(page, f"{name}-{plain}", pack(folder), own.model, means, plain)
    rounded = {
        side: np.stack([dequantised(*quantised(J_DD)) for J_DD in lens[side]]) for side in lens
    }
    return replace(network, lens=rounded)


@pytest.fixture(scope="module")
def captions(network_page: Page) -> Network:
    return from_checkpoint(network_page, "captions-de-en")


def random_ids(seed: int, length: int, vocabulary: int) -> list[int]:
    rng = random.Random(seed)
    return [*(rng.randrange(4, vocabulary) for _ in range(length - 1)), EOS]


@pytest.mark.parametrize("name", ["scratch-de-en", "baseline-en-de"])
def test_maps_and_probabilities_are_those_of_python(network_page, name):
    network = from_checkpoint(network_page, name)
    network.compare(random_ids(1, 9, 8000), random_ids(2, 12, 8000))


def test_a_long_sentence_and_a_single_token_match_python(captions):
    captions.compare(random_ids(3, 61, 6000), random_ids(4, 50, 6000))
    captions.compare([EOS], [EOS])


def test_plain_javascript_computes_the_same(network_page, captions):
    plain = from_checkpoint(network_page, "captions-de-en", plain=True)
    ids = random_ids(5, 9, 6000), random_ids(6, 8, 6000)
    assert np.abs(plain.compare(*ids) - captions.compare(*ids)).max() <= 1e-5


EDITS = [
    "off.encoder.1.2~off.decoder.0.3~off.cross.2.0~off.cross.2.3",
    "mean.cross.1.1~mean.encoder.0.3~mean.decoder.2.1~mean.decoder.2.2",
    "uniform.encoder.3.0~uniform.decoder.0.1~uniform.cross.3.2",
    "cut.cross.all.all.all.1",
    "cut.decoder.1.0.3.2~cut.encoder.0.all.2.all",
    "times.cross.0.1.2.3.20~times.cross.all.1.2.all.3~times.encoder.all.all.all.0.0.25",
    "times.decoder.all.2.all.1.5~times.decoder.3.all.4.all.0.1",
    "row.cross.1.2.3.0-0.25-0.75~row.decoder.2.1.2.1-0-0.5~row.encoder.0.0.1.0-0-0-1",
    "row.decoder.2.1.2.0.2-0.3-0.1-0.4~row.cross.0.0.1.0.5-0.5~hide.1",  # some keys are masked
    "temp.encoder.0.0.0.3~temp.decoder.1.2.2.5~temp.cross.3.1.4",
    "hide.1~hide.4",
    "causal",
    "padding",
    "positions.source.scale-0~positions.target.scale-2",
    "positions.source.stretch-2_shift-5~positions.target.stretch--1_shift-3",
    "positions.source.order-2-0-1-3~positions.target.order-1-0-3-2",
    "causal~row.decoder.1.1.2.0-0-0-0-1~uniform.decoder.0.0~hide.0~temp.cross.0.0.0.5",
    "uniform.cross.1.1~times.cross.1.1.all.2.9~temp.cross.1.1.2~hide.3~off.cross.1.2",
    "pass.900-17-44-2.1-55-60-9~copy.encoder.2.1.0~copy.encoder.0.4.2~copy.decoder.4.3.1",
    "pass.900-17-44-2.1-55-60-9~copy.decoder.0.2.1~copyhead.encoder.0.2.4.1~off.cross.2.0~"
    "copyhead.decoder.1.0.2.3~copyhead.cross.2.1.3.2~copyhead.cross.2.0.3.2~mean.decoder.1.1",
    "pushrandom.encoder.0.2.7.9~pushrandom.encoder.4.1.0.-30~pushrandom.decoder.3.2.9999.60.5",
    "push.encoder.0.1.none.500.20~push.encoder.3.2.4000.17.-40~push.decoder.4.3.9.5999.80",
    "pass.900-2.1-55~copy.decoder.1.2.1~pushrandom.decoder.1.2.3.8~cut.decoder.0.0.all.0",
]


@pytest.fixture(scope="module")
def unedited(captions) -> np.ndarray:
    return captions.compare(*PADDED)


PADDED = [*random_ids(7, 8, 6000), PAD, PAD], random_ids(8, 7, 6000)


@pytest.mark.parametrize("edits", EDITS)
def test_each_kind_of_edit_does_what_it_does_in_python(captions, unedited, edits):
    changed = captions.compare(*PADDED, edits)
    assert np.abs(changed - unedited).max() > 1e-3


@pytest.mark.parametrize("edits", ["", *(edits for edits in EDITS if "causal" not in edits)])
def test_steps_give_what_a_whole_pass_gives(captions, edits):
    rng = random.Random(9)
    tree = [
        {"ids": [rng.randrange(4, 6000) for _ in range(3)], "parents": rng.choices(range(3), k=3)}
        for _ in range(6)
    ]
    tree[0]["ids"] = [BOS] * 3
    ask = {"name": captions.name, "source": PADDED[0], "tree": tree, "edits": edits}
    assert captions.page.evaluate("(ask) => steps(ask)", ask) <= LOG_PROBS


@pytest.mark.parametrize("edits", ["", "off.cross.1.1~uniform.encoder.0.2~hide.2"])
def test_scores_and_norms_are_those_of_python(captions, edits):
    source, target = random_ids(10, 7, 6000), random_ids(11, 6, 6000)
    ask = {"name": captions.name, "source": source, "target": [BOS, *target[:-1]], "edits": edits}
    found = captions.page.evaluate(
        "(ask) => pass({ ...ask, quantities: ['scores', 'norms'] })", ask
    )
    with edited(captions.model, Edits.parse(edits)[0]):
        expected = [quantity(captions.model, source, target) for quantity in (scores, value_norms)]
    for kind, own in zip(KINDS, found["maps"], strict=True):
        for theirs, mine in zip(expected, own, strict=True):
            difference = numbers(mine).reshape(theirs[kind].shape) - theirs[kind]
            assert np.abs(difference).max() <= 2e-5 * max(1, np.abs(theirs[kind]).max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_network_that_a_configuration_can_describe_matches_python(network_page, variant):
    config = VARIANTS[variant]
    network = small_network(network_page, variant, config)
    source, target = random_ids(12, 7, 40), random_ids(13, 6, 40)
    network.compare(source, target)
    # If every key is masked, all weights are 0 or, with a finite mask score, equal.
    network.compare([PAD] * 3, target)
    network.compare([PAD] * 3, target, "off.cross.0.0")


PARTS = {
    "T5": {
        "norm": "rms",
        "norm_first": True,
        "position_table": "none",
        "relative_buckets": 8,
        "relative_distance": 20,
        "activation": "gelu_tanh",
        "gated": True,
        "qkv_bias": False,
        "linear_bias": False,
        "scale_scores": False,
        "head_size": 6,
        "scale_output": True,
        "scale_embeddings": False,
        "share_embeddings": True,
        "tie_classifier": True,
    },
    "BART": {"activation": "gelu", "embedding_norm": True, "learned_positions": True},
    "M2M100": {"position_table": "fairseq", "norm_first": True, "decoder_heads": 2},
    "Annotated Transformer": {"norm": "deviation", "norm_first": True, "decoder_feedforward": 32},
}
PART_EDITS = [
    "off.encoder.1.2~off.cross.0.1~uniform.decoder.1.1~mean.cross.1.0~mean.encoder.0.3",
    "cut.encoder.0.all.2.all~temp.decoder.0.1.3~hide.1~causal",
    "pass.30-17-2.1-5~copyhead.encoder.0.2.1.1~copyhead.decoder.1.1.2.1~copy.decoder.1.1.1",
]


@pytest.mark.parametrize("family", PARTS)
def test_the_parts_of_other_families_match_python(network_page, family):
    sizes: dict[str, Any] = {"d_model": 16, "num_heads": 4, "dim_feedforward": 24, "max_length": 64}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    vocabularies = {"source_vocab_size": 40, "target_vocab_size": 40}
    config = ModelConfig(**vocabularies, **layers, **sizes, **PARTS[family])
    network = small_network(network_page, family, config)
    source, target = random_ids(16, 40, 40), random_ids(17, 30, 40)
    unedited = network.compare(source, target)
    for edits in PART_EDITS:
        assert np.abs(network.compare(source, target, edits) - unedited).max() > 1e-3
    tree = [{"ids": [BOS] * 2, "parents": [0, 0]}] + [
        {"ids": [5 + step, 9], "parents": [step % 2, 0]} for step in range(30)
    ]
    ask = {"name": family, "source": source, "tree": tree, "edits": ""}
    assert network_page.evaluate("(ask) => steps(ask)", ask) <= LOG_PROBS
    ask = {"name": family, "source": source, "target": [BOS, *target[:-1]]}
    found = network_page.evaluate("(ask) => pass({...ask, quantities: ['scores', 'norms']})", ask)
    expected = [quantity(network.model, source, target) for quantity in (scores, value_norms)]
    for kind, own in zip(KINDS, found["maps"], strict=True):
        for theirs, mine in zip(expected, own, strict=True):
            difference = numbers(mine).reshape(theirs[kind].shape) - theirs[kind]
            assert np.abs(difference).max() <= 2e-5 * max(1, np.abs(theirs[kind]).max())


def test_positions_that_are_not_there_cannot_be_moved(network_page):
    sizes: dict[str, Any] = {"d_model": 8, "num_heads": 2, "dim_feedforward": 8, "max_length": 64}
    config = ModelConfig(
        source_vocab_size=9,
        target_vocab_size=9,
        num_encoder_layers=1,
        num_decoder_layers=1,
        position_table="none",
        **sizes,
    )
    network = small_network(network_page, "none", config)
    ask = {"name": "none", "source": [5, EOS], "target": [BOS]}
    edits = "positions.target.shift-1"
    with pytest.raises(ValueError, match="no positions") as expected:
        teacher_forced_pass(network.model, [5, EOS], [6], Edits.parse(edits)[0])
    assert failure(network_page, "pass(ask)", {**ask, "edits": edits}) == str(expected.value)


def small_network(page: Page, name: str, config: ModelConfig) -> Network:
    """Return a network with random weights, rounded to float16."""
    torch.manual_seed(0)
    model = build("scratch", config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + 0.1 * torch.randn_like(parameter)).half())
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    header = {"about": {}, "config": config.to_json(), "tokenizer": {}}
    layers = {"encoder": config.num_encoder_layers}
    parts = {
        (kind, layer): torch.randn(config.heads(kind), config.d_model)
        for kind in KINDS
        for layer in range(layers.get(kind, config.num_decoder_layers))
    }
    means = HeadMeans(parts, 1, "noise") if config.max_length > 60 and name in PARTS else None
    return opened(page, name, packed(header, weights, means), model, means and means.parts)


def test_an_activation_that_the_page_lacks_is_refused(network_page):
    config = VARIANTS["learned positions"].to_json()
    torch.manual_seed(0)
    model = build("scratch", VARIANTS["learned positions"])
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    header = {"about": {}, "config": config | {"activation": "mish"}, "tokenizer": {}}
    said = failure(
        network_page,
        "makeNetwork(readWeights(fromBase64(ask)), { plain: true })",
        as_text(packed(header, weights)),
    )
    assert said == "This page does not know the activation mish: export the page again."


def test_a_learned_position_that_does_not_exist_is_refused_as_in_python(network_page):
    network = small_network(network_page, "learned", VARIANTS["learned positions"])
    ask = {"name": "learned", "source": [5, EOS], "target": [BOS]}
    for edits, position in (("positions.source.shift-63", 64), ("positions.target.shift--1", -1)):
        with pytest.raises(ValueError, match="was never learned") as expected:
            teacher_forced_pass(network.model, [5, EOS], [6], Edits.parse(edits)[0])
        said = failure(network_page, "pass(ask)", {**ask, "edits": edits})
        assert said == str(expected.value)
        assert f" {position} " in said


def failure(page: Page, script: str, ask: Any = None) -> str:
    """Return the message of the error that a script throws."""
    return page.evaluate(
        f"async (ask) => {{ try {{ await {script}; }} catch (error) {{ return error.message; }} }}",
        ask,
    )


def test_a_pass_refuses_what_does_not_fit(captions):
    ask = {"name": captions.name, "source": [5, 6, EOS], "target": [BOS]}
    assert failure(captions.page, "pass(ask)", {**ask, "source": [5] * 257}) == (
        "257 tokens are too many: the limit is 256"
    )
    for edits in ("hide.3", "off.cross.4.0", "cut.cross.all.all.all.3"):
        problem = Edits.parse(edits)[0].fitting(limits_of(captions.model, 3))[1][0]
        assert failure(captions.page, "pass(ask)", {**ask, "edits": edits}) == problem
    small_network(captions.page, "small", VARIANTS["learned positions"])
    said = failure(captions.page, "pass(ask)", {**ask, "name": "small", "edits": "mean.cross.0.0"})
    assert said == "the means of the heads are not on this page: switch heads off instead"
    push = {**ask, "name": "small", "edits": "push.encoder.0.0.none.6.1"}
    assert failure(captions.page, "pass(ask)", push).startswith(
        "the network's Jacobian lens is not"
    )


def test_a_search_that_needs_too_much_memory_is_refused(captions):
    said = failure(
        captions.page,
        """(() => {
             const network = networks.get(ask);
             network.free();
             network.start(network.encode([5, 2]), 100, 256);
           })()""",
        captions.name,
    )
    assert said == "The sentence needs more memory than the page has reserved: shorten it."


def test_an_encoder_output_outlives_what_came_after_it(captions):
    """Passes over one encoder output are equal, and the page's memory does not grow."""
    found = captions.page.evaluate(
        """(name) => {
             const network = networks.get(name), used = [];
             network.free();
             const memory = network.encode([5, 6, 7, 2]);
             const first = network.decode([1, 8, 9], memory).slice();
             for (let i = 0; i < 3; i++) {
               network.decode([1, 4], network.encode([9, 8, 2]));
               network.start(memory, 2, 5);
               network.free(memory);
               used.push(network.heap.used);
             }
             const again = network.decode([1, 8, 9], memory);
             return [first.every((logit, i) => logit === again[i]), new Set(used).size];
           }""",
        captions.name,
    )
    assert found == [True, 1]


TEXTS = [
    *EDITS,
    "",
    "off.cross.2.0~off.cross.2.0",
    "off.cross.2.0~mean.cross.2.0",
    "mean.cross.2.0~uniform.cross.2.0",
    "hide.7~hide.2~hide.2",
    "cut.cross.*.*.2.1~times.cross.all.all.2.1.3",
    "times.cross.0.0.0.0.1~temp.cross.0.0.1~positions.source.scale-1",
    "times.cross.0.0.0.0.0.0000000001",
    "times.cross.0.0.0.0.0.000001~times.cross.0.0.0.1.1000000",
    "times.cross.0.0.0.0.1000001",
    "times.cross.0.0.0.0.0",
    "temp.cross.0.0.0.001~temp.cross.0.1.101~temp.decoder.0.1.0.01",
    "row.cross.0.0.0.0-0~row.cross.0.0.1.1-2-1~row.decoder.0.0.1.0.3333333-0.6666667",
    f"row.cross.0.0.0.{'-'.join(['1'] * 513)}",
    "row.cross.0.0.0.1000001",
    "off.cross.10000.0~cut.encoder.all.0.10000.0",
    "off.self.0.0~off.cross.0~off.cross.0.0.0~Off.cross.0.0~off.cross.-1.0~ off.cross.0.0",
    "positions.source.order-0-2~positions.target.scale-1001~positions.source.shift--1000001",
    "positions.source.scale-0.1234567_stretch-3_shift--4_order-1-0~positions.target.",
    "positions.source.scale--2.50~positions.source.shift-1",
    "causal~causal~padding",
    "hide.123456~hide.~hide.x",
    "~".join(f"hide.{i}" for i in range(230)),
    "~".join(f"word{i}" for i in range(30)),
    "~".join(["x"] * 2001),
    "x" * 50,
    "times.encoder.all.1.2.all.2~times.encoder.0.all.all.all.3~times.encoder.0.1.2.3.0.5",
    "row.decoder.0.0.1.0-0-1~row.cross.0.0.0.0-0-0-0-0-0-0-0-1~row.encoder.0.0.1.0-1~hide.1",
    "row.decoder.0.0.300.1~cut.cross.0.0.256.0~cut.encoder.all.all.8.0~temp.encoder.9.0.2",
    "off.encoder.4.0~off.cross.0.4~off.decoder.3.3",
    "pass.9-8-2.1~pass.9-2.1~pass.9-8.1~pass.0-2.1~pass.9-2.9~pass.9-2~pass.9-2.1-",
    f"pass.{'9-' * 512}2.1~copy.encoder.0.0.0~copyhead.cross.0.0.0.0",
    f"pass.{'9-' * 300}2.1~copy.encoder.0.0.0",
    "pass.6000-2.1~copy.encoder.0.0.0~hide.1",
    "pass.9-8-2.1-9~copy.encoder.5.0.0~copy.encoder.4.8.0~copy.decoder.0.256.0~copy.encoder.0.0.3~"
    "copyhead.cross.4.0.0.0~copyhead.cross.0.0.0.2~copyhead.encoder.0.0.8.0~copy.encoder.0.0.2",
    "copy.cross.0.0.0~copy.encoder.0.10000.0~copy.encoder.0.0.10000~copyhead.cross.0.0.0.99999",
    "copy.encoder.0.1.2~copy.encoder.0.1.3~copyhead.cross.0.0.1.1~copyhead.cross.0.0.1.2",
    "push.encoder.0.1.5.5.2~push.encoder.0.1.none.none.2~push.encoder.0.1.5.6.1000001",
    "push.encoder.0.2.none.77.1.23456789~push.encoder.0.2.5.77.0~push.encoder.0.1.30.4.-0.5",
    "push.encoder.0.1.5.6.1~push.encoder.0.1.5.6.2~push.decoder.4.1.6000.6.1~push.decoder.5.1.5.6.1",
    "pushrandom.encoder.0.1.10000.1~pushrandom.encoder.0.1.7.-0.0000001~pushrandom.decoder.2.0.0.7",
    "push.encoder.0.1.3.77.1~pushrandom.encoder.0.1.3.1~pushrandom.encoder.0.1.20.1",
]


def test_the_text_form_is_read_and_checked_as_in_python(captions):
    found = captions.page.evaluate(
        """([all, name]) => all.map((text) => {
             const problems = [], edits = parseEdits(text, problems);
             const { config } = networks.get(name), listed = listEdits(edits).map(editsText);
             const { edits: fitting, problems: unfit } = fitEdits(edits, config, 8);
             const beyond = checkEdits(edits, config).length;
             const texts = [editsText(edits), listed, problems, editsText(fitting), unfit];
             return [...texts, beyond, Object.isFrozen(edits)];
           })""",
        [TEXTS, captions.name],
    )
    for text, own in zip(TEXTS, found, strict=True):
        edits, said = Edits.parse(text)
        problems = [re.sub(r"( \d+)\.0\b", r"\1", problem) for problem in said]  # 101, not 101.0
        kept, unfit = edits.fitting(limits_of(captions.model, 8))
        beyond = edits.fitting(limits_of(captions.model))[1]
        listed = [one.to_text() for one in edits.listed()]
        assert own == [
            edits.to_text(), listed, problems, kept.to_text(), unfit, len(beyond), True,
        ]  # fmt: skip


def test_a_text_of_edits_that_is_too_long_is_refused(network_page):
    said = network_page.evaluate(
        """() => {
             const said = [], found = parseEdits("x".repeat(1048577), said);
             return [found === NO_EDITS, said];
           }"""
    )
    assert said == [True, Edits.parse("x" * 1048577)[1]]


def unpacked(page: Page, header: dict, content: bytes) -> np.ndarray:
    """Return the numbers that the page reads from one stored tensor `w`."""
    text = json.dumps({"config": {}, "tensors": {"w": header}}).encode()
    text += b" " * (-(4 + len(text)) % 16)
    file = len(text).to_bytes(4, "little") + text + content
    count = math.prod(header["shape"])
    return numbers(
        page.evaluate(
            """([file, count]) => {
                 const aligned = fromBase64(file);
                 const bytes = new Uint8Array(aligned.length + 1).subarray(1);
                 bytes.set(aligned);
                 const found = new Float32Array(count);
                 unpackTensor(readWeights(bytes).tensors.w, found);
                 return packedNumbers(found);
               }""",
            [as_text(file), count],
        )
    )


def test_every_float16_is_exact(network_page):
    halves = np.arange(1 << 16, dtype="<u2").view("<f2")
    halves = halves[np.isfinite(halves)]
    header = {"shape": [len(halves)], "kind": "f16", "at": 0}
    found = unpacked(network_page, header, halves.tobytes())
    assert found.tobytes() == halves.astype("<f4").tobytes()


def test_int8_rows_are_exact(network_page):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(6, 8)) * np.logspace(-9, 2, 6)[:, None]
    weight[2] = 0
    values, scales = quantised(weight.astype(np.float32))
    header = {"shape": [6, 8], "kind": "i8", "at": 0, "scales": 48}
    found = unpacked(network_page, header, values.tobytes() + scales.tobytes())
    assert found.tobytes() == dequantised(values, scales).tobytes()
    error = np.abs(dequantised(values, scales) - weight).max(1)
    assert (error <= np.maximum(0.505 / 127 * np.abs(weight).max(1), 2**-24)).all()


def test_an_int8_file_holds_the_rounded_weights(network_page):
    file = pack(CAPTIONS, int8=True)
    length = int.from_bytes(file[:4], "little")
    header = json.loads(file[4 : 4 + length])
    assert header["about"]["precision"] == "int8"
    assert len(file) < 0.56 * len(pack(CAPTIONS))  # a lens is as large in both
    own = load(CAPTIONS)
    with torch.no_grad():
        for parameter in own.model.parameters():
            if parameter.dim() == 2:
                rounded = torch.tensor(dequantised(*quantised(parameter.numpy())))
                assert (rounded - parameter).abs().max() <= header["about"]["rounding"]
                parameter.copy_(rounded)
    ids = random_ids(14, 7, 6000), random_ids(15, 6, 6000)
    model = build("scratch", own.card.model).eval()  # without an accelerated model's packed copies
    model.load_state_dict(own.model.state_dict())
    opened(network_page, "int8", file, model).compare(*ids)


@pytest.mark.parametrize("doubles", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_products_of_any_shape_match_plain_sums(network_page, plain, doubles):
    largest = network_page.evaluate(
        """async ([plain, doubles]) => {
             const Numbers = doubles ? Float64Array : Float32Array;
             const heap = await makeHeap(40000, plain, Numbers), random = () => Math.random() - 0.5;
             const long = [[5, 48, 9, 3], [4, 192, 33, 0]];
             const shapes = [[1, 1, 1, 0], [3, 4, 4, 0], [2, 7, 6, 2]];
             let largest = 0;
             for (const [rows, inner, outer, more] of [...shapes, ...long]) {
               const [xStep, wStep, outStep] = [inner + more, inner + 2 * more, outer + more];
               heap.used = 4;
               const counts = [rows * xStep, outer * wStep, rows * outStep, outer];
               const [x, w, out, b] = counts.map((count) => heap.take(count));
               for (const part of [x, w, out, b]) part.forEach((_, i) => (part[i] = random()));
               const before = out.slice();
               for (const bias of [b, null]) {
                 heap.product({ x, w, bias, out, rows, inner, outer, xStep, wStep, outStep });
                 for (let at = 0; at < out.length; at++) {
                   const row = Math.floor(at / outStep), column = at % outStep;
                   const isIn = column < outer;
                   let expected = isIn ? bias?.[column] ?? 0 : before[at]; // unchanged past the row
                   for (let i = 0; i < inner && isIn; i++)
                     expected += x[row * xStep + i] * w[column * wStep + i];
                   largest = Math.max(largest, Math.abs(out[at] - expected));
                 }
               }
             }
             return [heap.kernel === null, largest];
           }""",
        [plain, doubles],
    )
    assert largest[0] is plain
    assert largest[1] <= (1e-14 if doubles else 1e-5)


def test_without_webassembly_the_page_computes_in_javascript(network_page):
    assert (
        network_page.evaluate(
            """async () => {
             const { instantiate } = WebAssembly;
             WebAssembly.instantiate = () => Promise.reject(new Error("forbidden"));
             try { return (await makeHeap(100)).kernel; }
             finally { WebAssembly.instantiate = instantiate; }
           }"""
        )
        is None
    )


def test_a_file_that_cannot_be_read_says_so(network_page):
    def said(header: dict, content: bytes = b"", short: int = 0) -> str:
        text = json.dumps(header).encode()
        file = (len(text) + short).to_bytes(4, "little") + text + content
        return failure(network_page, "readWeights(fromBase64(ask))", as_text(file))

    again = "export the page again."
    assert said({}, short=9) == f"The weights end before their header does: {again}"
    config = {"d_model": 4, "routed": True, "experts": 2}
    unknown = "This page does not know the network's routed, experts: export the page again."
    assert said({"config": config, "tensors": {}}) == unknown
    tensor = {"shape": [3], "kind": "f16", "at": 0}
    assert said({"config": {}, "tensors": {"w": tensor}}, bytes(5)) == (
        f"The weights end before their last tensor does: {again}"
    )
    kind = {"config": {}, "tensors": {"w": {**tensor, "kind": "i4"}}}
    assert said(kind) == "This page does not know weights stored as i4: export the page again."


def test_a_classic_worker_runs_in_a_page_on_disk(browser: Browser, tmp_path: Path):
    """In such a page, Chromium starts classic workers from a Blob, but no module workers."""
    script = f"""{BUNDLE}{ASK}
      onmessage = async ({{ data }}) => {{
        const fast = await open("one", data.address, false);
        postMessage({{ fast, ...pass({{ name: "one", source: [5, 6, 2], target: [1, 7] }}) }});
      }};"""
    (tmp_path / "page.html").write_text("<title>On disk</title>")
    page = browser.new_context(offline=True).new_page()
    try:
        page.goto((tmp_path / "page.html").as_uri())
        found = page.evaluate(
            """([script, file]) => new Promise((done) => {
                 const worker = new Worker(URL.createObjectURL(new Blob([script])));
                 worker.onmessage = ({ data }) => done(data);
                 worker.postMessage({ address: `data:;base64,${file}` });
               })""",
            [script, as_text(pack(CAPTIONS))],
        )
    finally:
        page.context.close()
    model = load(CAPTIONS).model
    expected = teacher_forced_pass(model, [5, 6, EOS], [7, EOS])
    assert found["fast"]
    assert np.abs(numbers(found["maps"][2][0]) - expected.cross.numpy().ravel()).max() <= MAPS
