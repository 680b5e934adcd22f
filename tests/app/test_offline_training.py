"""Training in the scripts equals Python's: examples, gradients, curves, measurements, networks."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import random
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from playwright.sync_api import Browser, Page

from app.components.assets import joined
from app.components.training.payload import SmallCurves, payload
from app.export.weights import tokenizer_of_page
from app.lessons.texts import table
from core.checkpoint.folder import load
from core.data.batches import Batch, collate
from core.data.tasks import TASKS, Example, pasted
from core.experiments.bugs import BUGS
from core.kinds import KINDS
from core.record.attention_snapshots import FILE, AttentionSnapshots
from core.small.checkpoint import save
from core.small.examples import Examples
from core.small.history import History
from core.small.run import SmallConfig, SmallRun
from core.text.tokenizer import PAD
from core.training.loss import Objective
from core.translator import Translator
from tests.app.test_offline_payload import is_sent, unpacked

TRAINING = Path(__file__).resolve().parents[2] / "app/components/network/training"
SCRIPT = joined(
    *(TRAINING / f"{name}.js" for name in ("run", "history", "pairs")),
    TRAINING.parent / "transformer.js",
)
WORKER = joined(TRAINING.parents[1] / "offline/train_worker.js")
GRADIENTS = 1e-9  # of the tensor's largest gradient

# Functions that the tests call in the page; numbers travel as base64.
ASK = """
const doublesOf = (numbers) => base64Of(Float64Array.from(numbers));
const base64Of = (numbers) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength).toBase64();
const numbersOf = (text) => new Float64Array(Uint8Array.fromBase64(text).buffer);
const examplesOf = new Map();

function drawn(task, seed, count) {
  const random = new Random(seed);
  return Array.from({ length: count }, () => TASKS[task].draw(random));
}

function open(task, tokenizer) {
  const examples = new Examples(task, new Tokenizer(tokenizer));
  examplesOf.set(task, examples);
  return { held: examples.held, right: base64Of(examples.right) };
}

const messageOf = (call) => {
  try {
    return call();
  } catch ({ message }) {
    return message;
  }
};

/* Read pasted pairs, learn their vocabulary, and make the examples. */
function paste(task, text) {
  return messageOf(() => {
    const pairs = pastedPairs(text), tokenizer = learnedTokenizer(pairs.flat()), { pieces } = tokenizer;
    const examples = new Examples(task, tokenizer, pairs), { held, heldOut, isHeldOut } = examples;
    examplesOf.set(task, examples);
    const merges = [...tokenizer.merges.keys()].map((pair) => [pieces[Math.floor(pair / pieces.length)], pieces[pair % pieces.length]]);
    return { pairs, pieces, merges, held, heldOut: heldOut.map(({ source, target }) => [source, target]), isHeldOut };
  });
}

/* Train for some steps, then measure, show the maps of the first held-out example, and run the stored network on it. */
async function train(task, config, steps) {
  const run = await makeRun(examplesOf.get(task), config), losses = Array.from({ length: steps }, () => run.step());
  const { held } = run.examples, idsOfRow = ({ ids, length }) => [...ids.subarray(0, length)].filter((id) => id);
  const source = idsOfRow(held.source), target = idsOfRow(held.targetOut), capture = { weights: true };
  const measured = run.measure(), written = run.write(held.source, 12), maps = run.maps(source, target), stored = run.stored();
  const network = await makeNetwork(stored);
  network.decode([1, ...target.slice(0, -1)], network.encode(source, NO_EDITS, capture), NO_EDITS, capture);
  const byKind = (of) => ["encoder", "decoder", "cross"].map((kind) => doublesOf(of(kind)));
  return { ...measured, losses, shares: [...measured.shares], chance: [...measured.chance], written, isFast: run.heap.kernel !== null,
    maps: byKind((kind) => maps[kind]), storedMaps: byKind((kind) => capture[kind].weights), config: stored.config };
}

const joinedOf = (run, what) => Object.values(run.network.parameters).flatMap((one) => [...one[what]]);

function setWeights(run, numbers) {
  let at = 0;
  for (const { values } of Object.values(run.network.parameters)) values.set(numbers.subarray(at, (at += values.length)));
}

/* The loss and all gradients with the given weights and pairs of ids, one after the other in one run of the scripts. */
async function gradients(task, cases) {
  return Promise.all(cases.map(async ({ config, weights, pairs }) => {
    const run = await makeRun(examplesOf.get(task), config);
    setWeights(run, numbersOf(weights));
    return { loss: run.gradients(collate(pairs)), gradients: doublesOf(joinedOf(run, "gradient")) };
  }));
}

/* The share of right answers as it is measured, as it is counted on the way, and as it is in what the network writes. */
async function counted(task, config, steps) {
  const run = await makeRun(examplesOf.get(task), config);
  for (let step = 0; step < steps; step++) run.step();
  const [written, right] = run.answers();
  return [run.measure().exact, run.exactness(), written.filter((row, n) => row.join() === right[n].join()).length / right.length];
}

/* Give the page's worker these messages, one after the other; return its last answer, the payload as base64. */
async function told(script, messages) {
  const worker = new Worker(URL.createObjectURL(new Blob([script])));
  let answer = null;
  for (const message of messages)
    answer = await new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.postMessage(message);
    });
  worker.terminate();
  return { ...answer, payload: answer.payload && base64Of(answer.payload), bytes: answer.bytes && base64Of(answer.bytes) };
}

/* Run the page's worker until it is past a step; return the step of each answer. */
async function running(script, start, last) {
  const worker = new Worker(URL.createObjectURL(new Blob([script]))), seen = [];
  await new Promise((resolve) => {
    worker.onmessage = ({ data: { step } }) => {
      if (seen.push(step) === 1) worker.postMessage({ ask: "run", on: true });
      if (step > last) resolve();
    };
    worker.postMessage(start);
  });
  worker.terminate();
  return seen;
}

/* The steps of a history's points while it is trained, with a point due at every `every`th step at first. */
async function thinned(task, config, steps, every) {
  const history = new History(await makeRun(examplesOf.get(task), config));
  history.every = every;
  for (let step = 0; step < steps; step++) {
    history.run.step();
    if (step === 20) history.watch(history.run.examples.heldOut[1].source); // runs the weights of earlier points
    history.add();
  }
  return { steps: history.points.map(({ measured }) => measured.step), loss: history.last.loss };
}
"""  # noqa: E501


def numbers(text: str, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def as_text(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file = tmp_path_factory.mktemp("page") / "empty.html"
    file.write_text("<!doctype html>")
    page = browser.new_page()
    page.goto(file.as_uri())  # a secure context, as the offline page is: only these hash
    page.add_script_tag(content=SCRIPT + ASK)
    yield page
    page.close()


@cache
def examples(task: str) -> Examples:
    return Examples(task)


def opened(page: Page, task: str) -> Examples:
    """Make the task's examples here and in the page, with Python's vocabulary; compare them."""
    own = examples(task)
    found = page.evaluate(
        "(ask) => open(...ask)", [task, tokenizer_of_page(own.tokenizer.to_json())]
    )
    for name, side in (
        ("source", "source"),
        ("targetIn", "target_in"),
        ("targetOut", "target_out"),
    ):
        assert found["held"][name]["ids"] == getattr(own.held.batch, side).flatten().tolist()
    assert (numbers(found["right"], "u1") == own.held.right.flatten().numpy()).all()
    return own


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_draws_pythons_examples(page, task):
    opened(page, task)
    rng = random.Random(7)
    expected = [dataclasses.asdict(TASKS[task].draw(rng)) for _ in range(200)]
    found = page.evaluate("(ask) => drawn(...ask)", [task, 7, 200])
    assert found == json.loads(json.dumps(expected))


def parameters_of(run: SmallRun) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in run.model.parameters()])


SHAPES: list[dict[str, Any]] = [
    {"positions": positions, "norm_first": norm_first, "bug": bug}
    for positions in ("sinusoids", "learned", "none")
    for norm_first in (True, False)
    for bug in (None, *BUGS)
]


def expected_gradients(run: SmallRun, batch: Batch) -> tuple[float, dict[str, np.ndarray]]:
    """Return the loss and the gradients by name."""
    with run.mistaken():
        objective = Objective(run.model, run.config.label_smoothing)
        loss = objective(batch, float((batch.target_out != PAD).sum()))
        loss.backward()
    return loss.item(), {
        name: np.zeros(p.shape) if p.grad is None else p.grad.numpy()
        for name, p in run.model.named_parameters()
    }


def test_every_gradient_is_that_of_torch(page):
    """With and without each mistake; weights differ from how they begin, so that each counts."""
    own = opened(page, "grammar")
    rng, runs, cases = np.random.default_rng(3), [], []
    drawn = random.Random(11)
    for shape in SHAPES:
        config = {"d_model": 16, "label_smoothing": 0.1, **shape}
        run = SmallRun(own, SmallConfig(**config))
        for parameter in run.model.parameters():
            if parameter.requires_grad:
                noise = torch.from_numpy(rng.normal(scale=0.2, size=parameter.shape))
                parameter.data += noise
        pairs = [
            own.encode(one.source, one.target)
            for one in (TASKS["grammar"].draw(drawn) for _ in range(6))
        ]
        runs.append((run, collate(pairs)))
        cases.append(
            {"config": config, "weights": as_text(parameters_of(run).numpy()), "pairs": pairs}
        )
    found = page.evaluate("(ask) => gradients(...ask)", ["grammar", cases])
    worst = 0.0
    for (run, batch), answer, shape in zip(runs, found, SHAPES, strict=True):
        loss, expected = expected_gradients(run, batch)
        assert answer["loss"] == pytest.approx(loss, rel=1e-12), shape
        flat, at = numbers(answer["gradients"], "<f8"), 0
        most = max(np.abs(one).max() for one in expected.values())
        for name, gradient in expected.items():
            mine = flat[at : at + gradient.size].reshape(gradient.shape)
            at += gradient.size
            largest = np.abs(gradient).max()
            difference = np.abs(mine - gradient).max()
            if largest < 1e-12 * most:  # e.g. a key's bias, which no softmax over keys notices
                assert difference < 1e-12 * most, (shape, name)
                continue
            worst = max(worst, difference / largest)
        assert at == flat.size
    assert worst < GRADIENTS


WORDS = [(" ".join(word), f"{word[0]} {len(word)}") for word in "ab bca c dab bb ad ca".split()]


@pytest.mark.parametrize(
    ("task", "steps", "config"),
    [
        ("sorting", 60, {"positions": "learned", "label_smoothing": 0.1, "warmup": 10}),
        ("pasted", 60, {"positions": "learned", "seed": 4}),
        # A network that has hardly begun would like to write <bos>.
        ("sorting", 2, {"norm_first": False, "bug": "no_causal_mask", "seed": 2}),
    ],
)
def test_a_run_is_pythons(page, task, steps, config):
    """The healthy network then runs as any other network of the offline page."""
    if task == "pasted":
        page.evaluate("(ask) => paste(...ask)", [task, as_lines(WORDS * 4)])
    own = Examples(task, WORDS * 4) if task == "pasted" else opened(page, task)
    config = {"d_model": 16, "layers": 1, **config}
    run = SmallRun(own, SmallConfig(**config))
    losses = [run.step() for _ in range(steps)]
    found = page.evaluate("(ask) => train(...ask)", [task, config, steps])
    assert found["isFast"]
    np.testing.assert_allclose(found["losses"], losses, rtol=0, atol=1e-10)
    measured = run.measure()
    for name in ("step", "loss", "exact", "shares", "chance"):
        expected = np.ravel(getattr(measured, name))
        np.testing.assert_allclose(found[name], expected, atol=1e-5, err_msg=name)
    assert found["written"] == run.write(own.held.batch.source, 12)
    assert found["config"] == run.model.config.to_json()
    ids = [
        [id for id in side[0].tolist() if id != PAD]
        for side in (own.held.batch.source, own.held.batch.target_out)
    ]
    maps = run.maps(*ids)
    for kind, mine, stored in zip(KINDS, found["maps"], found["storedMaps"], strict=True):
        np.testing.assert_allclose(numbers(mine, "<f8"), maps[kind].ravel(), atol=1e-5)
        if run.config.bug is None:
            np.testing.assert_allclose(numbers(stored, "<f8"), maps[kind].ravel(), atol=1e-5)


def sentences(count: int, seed: int = 5) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    drawn = [TASKS["grammar"].draw(rng) for _ in range(count)]
    return [(f"{one.source} 12 – {n % 3} é", f"{one.target} ({n})") for n, one in enumerate(drawn)]


def as_lines(pairs: Sequence[tuple[str, str]], mark: str = "\t") -> str:
    return "\n".join(f"{source} {mark} {target}" for source, target in pairs)


@pytest.mark.parametrize("count", [2, 19, 20, 150])
def test_pasted_pairs_have_pythons_vocabulary_and_examples(page, count):
    pairs = pasted(as_lines(sentences(count)))
    own = Examples("pasted", pairs)
    found = page.evaluate("(ask) => paste(...ask)", ["pasted", as_lines(pairs)])
    assert found["pairs"] == [list(pair) for pair in pairs]
    expected = own.tokenizer.to_json()
    vocabulary = expected["vocabulary"]
    assert found["pieces"] == sorted(vocabulary, key=vocabulary.__getitem__)
    assert found["merges"] == [list(merge) for merge in expected["merges"]]
    assert found["isHeldOut"] == own.is_held_out == (count >= 20)
    assert found["heldOut"] == [[one.source, one.target] for one in own.held.examples]
    assert found["held"]["targetOut"]["ids"] == own.held.batch.target_out.flatten().tolist()


def test_a_vocabulary_is_learned_as_by_the_library(page):
    """Also where many pairs are equally frequent, and where two merges make the same piece."""
    rng = random.Random(8)
    for alphabet in ("ab", "aab ", "abcdefgh  ", "äöü12 3abc-<>.▁ ", "日本語ab 𝔉é\x07 "):
        words = ["".join(rng.choices(alphabet, k=rng.randint(1, 30))) + "." for _ in range(120)]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        expected = Examples("pasted", pasted(as_lines(pairs))).tokenizer.to_json()
        found = page.evaluate("(ask) => paste(...ask)", ["pasted", as_lines(pairs)])
        vocabulary = expected["vocabulary"]
        assert found["pieces"] == sorted(vocabulary, key=vocabulary.__getitem__)
        assert found["merges"] == [list(merge) for merge in expected["merges"]]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = b",
        "a = b\nc",
        "a = b\n\n = d",
        "a = b\n" + "ä𝔉" * 51 + " → d",
        "a → b = c\nd\te → f",
        "a = b\r\n\x0b\x1cc = d\x85e = f\u2028g",
        "\u200b = b\n\x1f c\x1f = d",
        "a = b\n" * 5_001,
        "a = b\n" * 5_001 + "c",
        "a = b\n" * 5_000 + "c",
        "c = d\n" + "a " * 50 + " = " + "`b " * 33,
    ],
)
def test_pasted_text_is_read_or_refused_as_in_python(page, text):
    try:
        expected: Any = [list(pair) for pair in pasted(text)]
        Examples("pasted", pasted(text))
    except ValueError as error:
        expected = str(error)
    found = page.evaluate("(ask) => paste(...ask)", ["pasted", text])
    assert (found if isinstance(found, str) else found["pairs"]) == expected


def test_answers_are_counted_without_writing_them_where_that_is_the_same(page):
    """A network that looks ahead predicts a right answer that it is fed, but may not write it."""
    pairs = [(" ".join(word), " ".join(word[::-1])) for word in "abc bca ba ac cb cab".split()] * 4
    page.evaluate("(ask) => paste(...ask)", ["pasted", as_lines(pairs)])
    found = {}
    for bug in (None, *BUGS):
        config = {"d_model": 16, "layers": 1, "bug": bug, "positions": "learned"}
        exact, *others = page.evaluate("(ask) => counted(...ask)", ["pasted", config, 60])
        assert others == [exact, exact], bug
        found[bug] = exact
    run = SmallRun(
        Examples("pasted", pasted(as_lines(pairs))),
        SmallConfig(**config | {"bug": "no_causal_mask"}),
    )
    for _ in range(60):
        run.step()
    with torch.inference_mode():
        batch = run.examples.held.batch
        fed = run._pass(batch)[1].argmax(-1)
    right = ((fed == batch.target_out) | (batch.target_out == PAD)).all(-1).double().mean()
    assert found["no_causal_mask"] == run.measure().exact < right
    assert found[None] > 0


def test_a_link_sets_the_network_as_in_the_app(computing_page):
    script = joined(TRAINING.parents[1] / "offline/train_settings.js")
    given = json.dumps(table("train") | {"tasks": dict.fromkeys((*TASKS, "pasted"))})
    ask = f"""(link) => {{
      {script}
      const settings = settingsOf({given}), found = chosenIn(link, settings);
      return [found, configOf(found), linkOfSettings(found, settings)];
    }}"""

    def chosen(**link: str) -> Any:
        return computing_page.evaluate(ask, link)

    plain, config, link = chosen()
    assert plain["train_task"] == "dates" and not any(link.values())
    usual = dataclasses.asdict(SmallConfig())
    assert config == {name: usual[name] for name in config}
    odd = {"train_heads": "3", "train_seed": "12345", "train_bug": "?", "train_task": "x"}
    assert chosen(**odd) == [plain, config, link]
    wanted = {"train_heads": "8", "train_norm": "after", "train_smoothing": "0.1"}
    wanted |= {"train_seed": "0", "train_bug": "swapped", "train_task": "pasted"}
    task, config, link = chosen(**wanted)
    assert task["train_task"] == "pasted"
    changed = {"heads": 8, "norm_first": False, "label_smoothing": 0.1, "seed": 0, "bug": "swapped"}
    assert config == {name: usual[name] for name in config} | changed
    assert {name: str(value) for name, value in link.items() if value is not None} == wanted


def test_bleu_is_that_of_sacrebleu(page):
    rng = random.Random(4)
    words = "der die das 1999-03-03 1,5 3.14 a.b x, &quot;ja&quot; R&amp;B (so) 7- - … ü".split()
    scores = []
    for kept in (0.0, 0.3, 0.6, 0.9, 1.0):
        right = [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(30)]
        written = [
            " ".join(word if rng.random() < kept else rng.choice(words) for word in line.split())
            for line in right
        ]
        for cut in (99, 7, 1):  # characters
            shown = [line[:cut] for line in written]
            scores.append(sacrebleu.corpus_bleu(shown, [right]).score)
            found = page.evaluate("(ask) => bleuOf(...ask)", [shown, right])
            assert found == pytest.approx(scores[-1], abs=1e-9)
    assert scores[-3] > 99 > scores[3] > 1 and 0 in scores


@pytest.mark.parametrize(
    ("pasted_pairs", "bug"), [(False, None), (True, None), (True, "no_causal_mask")]
)
def test_python_opens_a_network_that_the_page_has_saved(page, tmp_path, pasted_pairs, bug):
    pairs = sentences(24)
    own = Examples("pasted", pairs) if pasted_pairs else examples("numbers")
    config = {"d_model": 16, "layers": 1, "heads": 2, "seed": 2, "positions": "learned", "bug": bug}
    start = {"ask": "start", "turn": 1, "task": own.task, "configs": [config], "names": []}
    start |= {"about": {}, "sides": own.sides, "pasted": as_lines(pairs)}
    start["tokenizer"] = None if pasted_pairs else tokenizer_of_page(own.tokenizer.to_json())
    asked = [start, *[{"ask": "step"}] * 12, {"ask": "file", "use": "save"}]
    content = base64.b64decode(page.evaluate("(ask) => told(...ask)", [WORKER, asked])["bytes"])
    (history,) = histories_of(own, [config], 12)
    save(history, tmp_path / "own", "here")
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert packed.testzip() is None
        packed.extractall(tmp_path)
    mine, theirs = (load(tmp_path / name) for name in (own.task, "own"))
    assert mine.card.direction == theirs.card.direction and not mine.card.note
    assert mine.card.model == theirs.card.model
    assert mine.source_tokenizer.to_json() == theirs.source_tokenizer.to_json()
    for name, parameter in theirs.model.named_parameters():
        torch.testing.assert_close(mine.model.get_parameter(name), parameter, rtol=1e-3, atol=1e-7)
    for key in ("recipe", "source", "corpora", "steps_done", "settings"):
        assert mine.card.training[key] == theirs.card.training[key], key
    for point, expected in zip(
        mine.card.metrics["curve"], theirs.card.metrics["curve"], strict=True
    ):
        assert point == pytest.approx(expected, abs=1e-6)
    alike(mine.card.metrics["final"], theirs.card.metrics["final"], "final")
    texts = [one.source for one in own.held.examples[:5]]
    ids = [
        [
            [token.id for token in one.target_out]
            for one in Translator.load(tmp_path / name).inspect(texts)
        ]
        for name in (own.task, "own")
    ]
    assert ids[0] == ids[1]
    snapshots = AttentionSnapshots.of_network(mine.card.folder, mine.card.model)
    assert (snapshots is None) == (bug is not None) == (not (tmp_path / "own" / FILE).exists())
    if bug:
        return
    with np.load(tmp_path / own.task / FILE) as found, np.load(tmp_path / "own" / FILE) as expected:
        assert {*found} == {*expected}
        words = [json.loads(bytes(one["words"])) for one in (found, expected)]
        assert words[0] == words[1]
        for name in {*expected} - {"words"}:
            np.testing.assert_allclose(found[name], expected[name], atol=5e-4, err_msg=name)


def histories_of(own: Examples, configs: list[dict[str, Any]], steps: int) -> list[History]:
    found = [History(SmallRun(own, SmallConfig(**config))) for config in configs]
    for history in found:
        for step in range(1, steps + 1):
            history.run.step()
            if step % 10 == 0 or step == steps:
                history.add()
    return found


@pytest.mark.parametrize(
    ("task", "bug", "shown", "typed"),
    [
        ("dates", "no_causal_mask", 0, ""),
        ("sorting", "unscaled", 0, ""),
        ("sorting", "unscaled", 1, ""),
        ("sorting", "unscaled", 1, "j  j a b"),  # the network writes nothing but <eos>
        ("sorting", "unscaled", 1, "j é a b"),  # a character that it does not know
    ],
)
def test_the_worker_sends_what_the_app_draws(page, task, bug, shown, typed):
    """Of the network with the mistake or of the one without it, for a chosen or typed example."""
    own, steps = opened(page, task), 12
    plain_config = {"d_model": 16, "layers": 1, "heads": 2, "warmup": 1, "seed": 2}
    configs = [plain_config | {"bug": bug}, plain_config]
    histories = histories_of(own, configs, steps)
    history = histories[shown]
    about = {"name": "a run", "languages": ["from", "to"]}
    start = {"turn": 3, "task": task, "configs": configs, "names": ["changed", "healthy"]}
    start |= {"tokenizer": tokenizer_of_page(own.tokenizer.to_json()), "about": about}
    example = Example(typed, "") if typed else own.held.examples[3]
    history.watch(example)
    asked = [start | {"ask": "start"}, *[{"ask": "step"}] * steps]
    asked += [{"ask": "watch", "source": example.source}, {"ask": "show", "shown": shown}]
    found = page.evaluate("(ask) => told(...ask)", [WORKER, asked])
    last, other = history.points[-1], histories[1 - shown]
    assert (found["turn"], found["step"]) == (3, steps)
    assert found["exact"] == last.exact and found["source"] == example.source
    assert found["written"] == history.shown().written
    for part, best in enumerate(found["best"]):
        assert (best["layer"], best["head"]) == last.best(part)[:2]
        assert best["share"] == pytest.approx(last.best(part)[2], abs=1e-5)
    for one, measured in zip(histories, found["measured"], strict=True):
        assert measured["loss"] == pytest.approx(one.points[-1].loss, abs=1e-5)
    quality = {
        "title": "right",
        "meaning": "Share of unseen examples that the network translates without a mistake, "
        "counted every 10 steps.",
        "values": [one.exact for one in history.points],
        "share": True,
    }
    compared = {
        "name": ("changed", "healthy")[1 - shown],
        "loss": [one.loss for one in other.points],
        "quality": [one.exact for one in other.points],
    }
    expected = payload(
        history.snapshots(),
        name="a run",
        languages=("from", "to"),
        opened={"sentence": 0, "step": None, "kind": "cross", "layer": 0, "head": 0},
        small=SmallCurves(quality, history.measures(), history.found(), compared),
    )
    assert bool(expected["marks"]) == (task == "sorting" and not shown)
    drawn_alike(unpacked(base64.b64decode(found["payload"])), expected)


def test_the_worker_shows_every_point_that_is_due(page):
    own, config = opened(page, "sorting"), {"d_model": 16, "layers": 1, "heads": 1}
    start = {"ask": "start", "turn": 1, "task": "sorting", "names": ["one", "other"]}
    start |= {"tokenizer": tokenizer_of_page(own.tokenizer.to_json()), "sides": own.sides}
    start |= {"about": {}, "configs": [config | {"bug": "no_causal_mask"}, config]}
    seen = page.evaluate("(ask) => running(...ask)", [WORKER, start, 30])
    assert seen == sorted(seen) and {10, 20, 30} <= {*seen}


def drawn_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name.startswith("maps_"):
            mine, own = (np.frombuffer(one, "<f2").astype(float) for one in (found[name], value))
            np.testing.assert_allclose(mine, own, atol=2**-11, err_msg=name)
        elif name.startswith("measure_"):
            mine, own = (np.frombuffer(one, "<f4") for one in (found[name], value))
            np.testing.assert_allclose(mine, own, atol=5e-4, err_msg=name)
        elif name == "sentences":
            for side in ("source", "target_in", "target_out"):
                kept = [{**token, "id": -1} for token in found[name][0][side]]
                assert is_sent(kept, value[0][side]), side
            assert found[name][0]["source_text"] == value[0]["source_text"]
            assert found[name][0]["translation"] == value[0]["translation"]
        else:
            alike(found[name], value, name)


def alike(found: Any, expected: Any, name: str) -> None:
    """Compare nested values; numbers are compared to four decimals, as the app sends them."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), name
        for key, value in expected.items():
            alike(found[key], value, f"{name}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), (name, found, expected)
        for mine, value in zip(found, expected, strict=True):
            alike(mine, value, name)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=5e-4), name
    else:
        assert found == expected, name


def test_points_are_thinned_out_as_in_python(page):
    own, config = opened(page, "sorting"), {"d_model": 16, "layers": 1, "heads": 1}
    (history,) = histories_of(own, [config], 0)
    history.every = 1
    for _ in range(43):
        history.run.step()
        if history.is_due():
            history.add()
    steps = [one.step for one in history.points]
    assert len(steps) < 43
    found = page.evaluate("(ask) => thinned(...ask)", ["sorting", config, 43, 1])
    assert found["steps"] == [*steps, 43], "the last point may be one that is not due"
    assert found["loss"] == pytest.approx(history.run.measure().loss, abs=1e-6)
