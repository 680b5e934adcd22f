"""Small runs: learning, mistakes, measurements computed a second way, points and saved networks."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
import torch

import core
from core.checkpoint import folder as checkpoint
from core.config import DecodeConfig
from core.data.captions import short_captions
from core.data.tasks import Example
from core.experiments.bugs import BUGS
from core.kinds import KINDS
from core.record.attention_snapshots import FILE, AttentionSnapshots
from core.small import history as histories
from core.small.checkpoint import save
from core.small.examples import HELD_OUT, Examples, token_of
from core.small.history import History
from core.small.run import SmallConfig, SmallRun
from core.text.tokenizer import EOS, PAD
from core.translator import Translator

TINY = {"layers": 1, "heads": 2, "d_model": 16, "warmup": 5, "steps": 200}
PAIRS = [(f"wort {a} {b}", f"word {b} {a}") for a in "abcdef" for b in "ghij"]


def run_of(task: str = "dates", steps: int = 0, **settings) -> SmallRun:
    run = SmallRun(Examples(task), SmallConfig(**TINY | settings))
    for _ in range(steps):
        run.step()
    return run


@pytest.fixture(scope="module")
def learned() -> History:
    """A network that has half learned to sort."""
    history = History(SmallRun(Examples("sorting"), SmallConfig(d_model=32, warmup=20)))
    for _ in range(60):
        history.run.step()
        if history.is_due():
            history.add()
    return history


def test_it_learns_and_the_same_seed_repeats_it_bit_for_bit():
    first, again, other = (run_of(steps=40, seed=seed) for seed in (1, 1, 2))
    assert first.losses == again.losses
    assert first.losses != other.losses
    assert np.mean(first.losses[-5:]) < np.mean(first.losses[:5]) - 1
    for one, two in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_training_never_sees_a_held_out_example():
    examples = Examples("reversal")  # a thousand sources of three letters: many would repeat
    held = {tuple(examples.encode(one.source, one.target)[0]) for one in examples.held.examples}
    assert len(held) == HELD_OUT
    rng = random.Random(5)
    for _ in range(40):
        for row in examples.batch(rng, 64).source.tolist():
            assert tuple(id for id in row if id != PAD) not in held


def test_every_mistake_trains_and_acts_in_training_too():
    healthy = run_of("dates", 3).losses
    for bug in BUGS:
        run = run_of("dates", 3, bug=bug)
        assert run.losses[0] != healthy[0], bug  # the same weights and batch
        measured = run.measure()
        assert np.isfinite(measured.loss) and 0 <= measured.exact <= 1


def test_without_positions_reversed_sources_give_the_same_memory():
    run = run_of("reversal", 3, positions="none")
    ids = run.examples.encode("a b c d", "d c b a")[0][:-1]
    rows = torch.tensor([ids, ids[::-1]])
    with torch.inference_mode():
        memory, _ = run.model.encode(rows)
    torch.testing.assert_close(memory[0], memory[1].flip(0))
    placed = run_of("reversal", 3)
    with torch.inference_mode():
        memory, _ = placed.model.encode(rows)
    assert not torch.allclose(memory[0], memory[1].flip(0), atol=1e-3)


def test_measurements_are_those_of_each_example_alone(learned):
    """Loss, shares and answers of the padded batch, recomputed one example at a time."""
    run, measured = learned.run, learned.points[-1]
    examples, tokenizer = run.examples, run.examples.tokenizer
    total = count = rows = right = 0.0
    share, chance = np.zeros(measured.shares.shape[1:]), 0.0
    for one in examples.held.examples:
        source, target = examples.encode(one.source, one.target)
        fed = torch.tensor([[1, *target[:-1]]])
        with torch.inference_mode():
            log_probs = run.model(torch.tensor([source]), fed)[0].log_softmax(-1)
        total -= float(log_probs[range(len(target)), target].sum())
        count += len(target)
        cross = run.maps(source, target)["cross"]
        of_source, of_target = token_of(tokenizer, one.source), token_of(tokenizer, one.target)
        keys: dict[int, set[int]] = {}
        for link in one.links:
            keys.setdefault(of_target[link.target], set()).update(of_source[i] for i in link.source)
        for row, found in keys.items():
            share += cross[:, :, row, sorted(found)].sum(-1)
            chance += len(found) / len(source)
            rows += 1
        written = greedily(run, source)
        right += written == target
    assert measured.loss == pytest.approx(total / count, abs=1e-5)
    np.testing.assert_allclose(measured.shares[0], share / rows, atol=1e-5)
    assert measured.chance[0] == pytest.approx(chance / rows)
    assert measured.exact == run.exactness() == right / len(examples.held.examples)
    assert 0.05 < measured.exact < 1  # else the comparison says little
    best = measured.best(0)
    assert best[2] == measured.shares[0].max() == measured.shares[0][best[:2]]


def test_answers_are_written_out_if_the_network_looks_ahead(learned):
    """A healthy network that starts to look ahead still writes answers that the pass gets wrong."""
    examples = learned.run.examples
    batch = examples.held.batch
    targets = [examples.encode(one.source, one.target)[1] for one in examples.held.examples]
    for bug in ("over_queries", "no_causal_mask"):
        run = copy.copy(learned.run)
        run.config = replace(run.config, bug=bug)
        written = run.write(batch.source, batch.target_out.shape[1])
        right = np.mean([mine == target for mine, target in zip(written, targets, strict=True)])
        best = run._pass(batch)[1].argmax(-1)
        of_pass = float(((best == batch.target_out) | (batch.target_out == PAD)).all(-1).sum())
        assert run.measure().exact == right != of_pass / len(targets), bug


def test_a_passing_point_gives_way_to_the_next():
    run = run_of("reversal")
    history = History(run)
    for step in range(1, 24):
        run.step()
        if step in (3, 7, 10, 15, 20, 23):
            history.add()
            history.add()
            assert history.points[-1].step == step
    assert [one.step for one in history.points] == [0, 10, 20, 23]
    snapshots = history.snapshots()
    np.testing.assert_allclose(
        snapshots.maps["cross"][0][-1].astype(np.float32), history.last_maps["cross"], atol=1e-3
    )
    assert len(snapshots.maps["cross"][0]) == 4


def greedily(run: SmallRun, source: list[int]) -> list[int]:
    """Decode one sentence greedily, without padding."""
    from core.search.beam import greedy

    ids = list(greedy(run.model, torch.tensor([source]))[0][0].ids)
    return ids if ids[-1] == EOS else [*ids, EOS]


def test_points_thin_out_and_another_example_gets_the_maps_of_every_point(monkeypatch):
    monkeypatch.setattr(histories, "MOST_POINTS", 4)
    run = run_of("numbers")
    history = History(run)
    maps = {0: history.last_maps}
    other = run.examples.held.examples[7]
    for _ in range(60):
        run.step()
        if history.is_due():
            history.add()
            maps[run.step_number] = run.maps(*run.examples.encode(other.source, other.target))
    assert [one.step for one in history.points] == [0, 20, 40, 60]
    history.watch(other)
    snapshots = history.snapshots()
    for point, step in enumerate(snapshots.steps[1:], start=1):
        for kind in KINDS:
            shown = snapshots.maps[kind][0][point].astype(np.float32)
            np.testing.assert_allclose(shown, maps[int(step)][kind], atol=1e-3)
    assert history.shown().target == other.target
    assert run.step_number == 60


def test_an_own_example_is_fed_what_the_network_writes(learned):
    learned.watch(Example("d c b a", ""))
    shown, snapshots = learned.shown(), learned.snapshots()
    assert shown.source == "d c b a" and not shown.target
    fed = "".join(snapshots.sentences[0].target_out[:-1]).replace("▁", " ").strip()
    assert fed == shown.written
    for long in (" ".join("ab" * 40), "d c b a"):
        with pytest.raises(ValueError, match="the limit is 64, shorten it"):
            learned.watch(Example(long, "" if long != "d c b a" else long * 30))
    assert learned.example.source == "d c b a"
    with pytest.raises(ValueError, match="“x1x.*…” has 1"):
        Examples("pasted", [("a", "b"), ("x1" * 60, "c")])


def test_marks_name_the_heads_that_find_a_part(learned):
    (measure,) = learned.measures()
    for mark in learned.found():
        curve = measure.values[:, mark.layer, mark.head]
        assert (curve[mark.point :] >= histories.FOUND).all()
        assert mark.point == 0 or curve[mark.point - 1] < histories.FOUND


def test_a_mistaken_map_is_shown_as_it_is():
    history = History(run_of("dates", 2, bug="no_causal_mask"))
    snapshots = history.snapshots()
    assert np.triu(snapshots.maps["decoder"][0], 1).any()
    assert snapshots.mask("decoder", 0).all()
    healthy = History(run_of("dates", 2)).snapshots()
    assert not np.triu(healthy.mask("decoder", 0), 1).any()


def test_a_saved_network_translates_as_it_did_in_training(learned, tmp_path):
    save(learned, tmp_path / "sorting", "CPU")
    translator = Translator.load(tmp_path / "sorting", "cpu")
    run = learned.run
    for one in run.examples.held.examples[:10]:
        source, target = run.examples.encode(one.source, one.target)
        written = run.write(torch.tensor([source]), len(target) + 4)[0]
        record = translator.inspect(one.source, decode=DecodeConfig(beam=1))
        assert record.translation == run.examples.tokenizer.decode(written)
    card = translator.card
    assert card.direction == "letters-sorted"
    assert card.training["corpora"] == {"sorting": 1}
    assert AttentionSnapshots.of_network(card.folder, card.model).steps.tolist() == [
        one.step for one in learned.points
    ]
    assert [row["step"] for row in card.metrics["curve"]] == [one.step for one in learned.points]
    checkpoint.load(tmp_path / "sorting")
    longest = run.examples.held.batch.target_out.shape[1] + 2
    answers = [
        run.examples.tokenizer.decode(
            greedily(run, run.examples.encode(one.source, "")[0])[:longest]
        )
        for one in run.examples.held.examples
    ]
    right = [one.target for one in run.examples.held.examples]
    bleu = sacrebleu.corpus_bleu(answers, [right]).score
    saved = AttentionSnapshots.load(card.folder / FILE)
    assert saved.bleu[-1] == pytest.approx(bleu) and saved.bleu[-1] > saved.bleu[0]
    assert [final["sacrebleu"] for final in card.metrics["final"].values()] == [pytest.approx(bleu)]


def test_snapshots_that_are_too_large_are_saved_with_fewer_points(learned, tmp_path, monkeypatch):
    size = len(learned.snapshots(learned.bleu()).to_bytes())
    monkeypatch.setattr("core.small.checkpoint.LIMIT", size - 1)
    save(learned, tmp_path / "sorting", "CPU")
    saved = AttentionSnapshots.load(tmp_path / "sorting" / FILE)
    assert saved.steps.tolist() == [one.step for one in learned.points][::-2][::-1]
    for kind in KINDS:
        assert (saved.maps[kind][0][-1] == learned.snapshots().maps[kind][0][-1]).all()


def test_given_pairs_are_learned_and_few_of_them_serve_twice():
    many, few = Examples("pasted", PAIRS), Examples("pasted", PAIRS[:5])
    assert many.is_held_out and len(many.held.examples) == 2
    assert not few.is_held_out and len(few.held.examples) == 5
    sources = {tuple(row) for row in many.batch(random.Random(1), 200).source.tolist()}
    for one in many.held.examples:
        assert tuple(many.encode(one.source, one.target)[0]) not in sources
    run = SmallRun(few, SmallConfig(d_model=32, layers=1, heads=2, warmup=10))
    for _ in range(60):
        run.step()
    assert run.measure().exact == 1
    assert run.measure().shares.shape == (0, 1, 2)


def test_captions_are_short_each_once_and_have_no_known_alignment(tmp_path):
    lines = {
        "de": [
            "Ein Hund.",
            "Ein " + "sehr " * 7 + "alter Hund.",
            "Ein Hund.",
            "Eine Katze schläft.",
        ],
        "en": ["A dog.", "An old dog.", "One dog.", "A cat " + "really " * 6 + "sleeps."],
    }
    lines = {side: [*own, *(f"{side} {n}" for n in range(30))] for side, own in lines.items()}
    (tmp_path / "multi30k").mkdir()
    for side, own in lines.items():
        (tmp_path / f"multi30k/train.{side}").write_text("\n".join(own) + "\n")
    expected = [("Ein Hund.", "A dog."), *((f"de {n}", f"en {n}") for n in range(30))]
    assert [*short_captions(tmp_path)] == expected
    (first, *_) = core.train_small("captions", data=str(tmp_path), **TINY)
    own = first.run.examples
    assert own.sides == ("de", "en") and own.is_held_out and own.parts == ()
    assert {one.source for one in own.held.examples} == {source for source, _ in expected[-3:]}
    with pytest.raises(ValueError, match="multi30k"):
        next(core.train_small("captions", data=tmp_path / "nowhere"))


def test_bad_settings_are_refused_in_one_line():
    for settings, said in (
        ({"heads": 3}, "d_model 64 must be a multiple"),
        ({"layers": 9}, "layers"),
        ({"positions": "rotary"}, "positions"),
        ({"bug": "nothing"}, "bug"),
    ):
        with pytest.raises(ValueError, match=said):
            SmallConfig(**settings)
    with pytest.raises(ValueError, match="unknown task 'chess': choose dates"):
        Examples("chess")


def test_train_small_yields_points_for_a_notebook(capsys):
    runs = list(core.train_small("reversal", **TINY | {"steps": 25}))
    assert len(runs) == 4  # steps 0, 10, 20 and the last
    assert [one.step for one in runs[-1].points] == [0, 10, 20, 25]
    html = runs[-1]._repr_html_()
    maps = runs[-1].last_maps
    assert html.count("<rect") == sum(m.size for m in maps.values())
    assert f'fill-opacity="{maps["cross"][0, 1, 2, 0]:.2f}"' in html
    assert html.count("<polyline") == 2
