"""The atlas of a small network is complete, consistent, and unchanged by saving and loading."""

import dataclasses
import hashlib
import io
import json
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from core.analysis.alignment import Gold
from core.atlas import losses
from core.atlas.atlas import LIMIT, ROLE_PARTS, Atlas
from core.atlas.attention import Attention
from core.atlas.build import Extras, Work, build, count_passes, origin_of
from core.atlas.corpus import corpus
from core.atlas.counterpart import counterparts
from core.atlas.labels import labels
from core.atlas.losses import HeadLosses
from core.atlas.own_text import MAX_LINES, own_text, parts
from core.atlas.partial import Partial
from core.atlas.report import report
from core.atlas.shards import in_process
from core.atlas.sums import Sums
from core.checkpoint.folder import load
from core.kinds import KINDS
from tests.app.atlases import ROLES
from tests.app.atlases import atlas as random_atlas
from tests.core.atlas_network import PAIRS, pair_files, run_atlas, token_losses


@pytest.fixture(scope="module")
def network(translating_folder):
    return load(translating_folder)


@pytest.fixture(scope="module")
def built(network):
    gold = [Gold.parse(" ".join(f"{i}-{i}" for i in range(4))) for _ in PAIRS]
    text = corpus(network, PAIRS)
    extras = Extras(corpus(network, PAIRS, gold), network, bleu=True)
    passes = []
    work = Work(in_process(network), Partial(None, ""), passes.append)
    atlas = build(network, text, origin_of(network, text, "tiny", "the command"), work, extras)
    assert sum(passes) == pytest.approx(count_passes(network, text, extras), rel=0.1)
    return atlas


def test_an_atlas_has_every_part_and_keeps_it_in_its_file(built, network, tmp_path):
    built.save(tmp_path / "atlas.npz")
    assert (tmp_path / "atlas.npz").stat().st_size < LIMIT
    read = Atlas.load(tmp_path / "atlas.npz")
    # Nothing is left out but `fetch`, which another command measures.
    assert set(read.arrays) == set(built._shapes()) - {"fetch"}
    for name, array in built.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array, err_msg=name)
        assert np.isfinite(array).any(), name
    assert built.arrays["partner"].tolist() == list(range(built.count)), "its own counterpart"
    np.testing.assert_allclose(built.arrays["similarity"], 1, atol=1e-6)
    for field in dataclasses.fields(Atlas):
        if field.name != "arrays":
            assert getattr(read, field.name) == getattr(built, field.name), field.name
    card = network.card
    assert read.origin.weights_sha256 == card.weights_sha256 and read.origin.sentences == 12
    assert read.heads[0] == ("encoder", 0, 0) and read.heads[-1] == ("cross", 1, 1)
    assert len(read.heads) == read.count == 2 * 3 * 2 - 2


def test_the_similarity_of_unmatched_heads():
    """Three heads; head 0 is matched with 2, 1 with 0, 2 with 1, in both of two replicates."""
    first = np.array([[0.1, 0.2, 0.9], [0.8, 0.3, 0.4], [0.5, 0.7, 0.6]])
    second = np.array([[0.2, 0.2, 0.9], [0.8, 0.3, 0.2], [0.1, 0.7, 0.6]])
    arrays = {f"same_{kind}": 50 * np.stack([first, first, second]) for kind in KINDS}
    arrays |= {f"rows_{kind}": np.full(3, 50.0) for kind in KINDS}
    found = counterparts(Sums(arrays | {"same_sentences": np.array(9)}))
    assert found["partner"].tolist() == [2, 0, 1, 5, 3, 4, 8, 6, 7]
    unmatched = found["similarity_unmatched"]
    assert unmatched[:3, 0] == pytest.approx([0.15, 0.35, 0.55])
    assert unmatched[3:6] == pytest.approx(unmatched[:3])
    # With two replicates, the quantiles are 2.5 % and 97.5 % of the way between their values.
    assert unmatched[2, 1:] == pytest.approx([0.35 + 0.025 * 0.2, 0.55 - 0.025 * 0.2])
    single = {f"same_{kind}": np.full((3, 1, 1), 20.0) for kind in KINDS}
    alone = counterparts(Sums(arrays | single | {"same_sentences": np.array(9)}))
    assert np.isnan(alone["similarity_unmatched"]).all()


def test_a_curve_runs_from_the_network_to_one_without_heads(built, network):
    """The curve starts with no head ablated and ends with every head of the kind ablated."""
    lines = corpus(network, PAIRS).sentences
    tokens = sum(len(line.target) for line in lines)
    for kind in (*KINDS, "all"):
        own = [head for head in built.heads if kind in (head[0], "all")]
        for step, off in ((0, []), (-1, own)):
            loss = sum(token_losses(network, line, off).sum() for line in lines) / tokens
            assert built.arrays[f"prune_{kind}_loss"][step, 0] == pytest.approx(loss, abs=1e-5)


def test_the_report_has_the_numbers_of_each_head():
    """A random atlas of 3 layers of 2 heads: no two heads, roles or measures have equal numbers."""
    atlas = random_atlas(4, layers=3, heads=2)
    arrays = atlas.arrays
    places = [(kind, layer, head) for kind in KINDS for layer in range(3) for head in range(2)]
    entries, named = report(atlas), labels(atlas)
    assert [(e["kind"], e["layer"], e["head"]) for e in entries] == places
    for n, (kind, layer, head), entry in zip(range(18), places, entries, strict=True):
        names = ("zero", "mean", "bleu_zero", "entropy", "largest", "similarity")
        assert entry["measures"] == {name: arrays[name][n].tolist() for name in names}
        assert [entry[of] for of in ("loss_change", "low", "high")] == arrays["zero"][n].tolist()
        assert entry["entropy"] == arrays["entropy"][n, 0]
        assert tuple(entry["partner"]) == places[arrays["partner"][n]]
        for name in ("zero", "mean", "bleu_zero"):
            assert entry[f"{name}_p"] == arrays[f"{name}_p"][n]
            assert entry[f"{name}_no_effect"] == (arrays[f"{name}_p"][n] >= 0.05)
        assert list(entry["roles"]) == list(ROLES[kind])
        for o, (name, role) in enumerate(entry["roles"].items()):
            of_role = {part: arrays[f"role_{kind}{part}"][o] for part in ROLE_PARTS}
            profile = of_role["_profile"][n % 6]
            assert role == {
                **dict(zip(("score", "low", "high"), of_role[""][n % 6].tolist(), strict=True)),
                "null_shuffled": of_role["_shuffled"][n % 6],
                "null_random": of_role["_random"],
                "null_profile": None if np.isnan(profile) else profile,
                "rows": of_role["_rows"],
                "label": name in [label.role for label in named[n]],
            }
        # Axes: reading, quantity (weights first), layer, head, [value, low, high].
        of_head = arrays["aer"][:, 0, layer, head].tolist() if kind == "cross" else [[None] * 3]
        best = min(range(len(of_head)), key=lambda reading: of_head[reading][0])
        assert [entry.get(of) for of in ("aer", "aer_low", "aer_high")] == of_head[best]
        assert kind != "cross" or entry["reading"] == ("output", "input")[best]
    assert 0 < sum(map(bool, named)) < 18
    assert {entry.get("reading") for entry in entries} == {None, "input", "output"}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("zero", lambda a: a[:-1], r"zero is float32 \(9, 3\), not float32 \(10, 3\)"),
        ("zero", lambda a: a.astype(np.float64), "zero is float64"),
        ("zero", lambda a: np.where(a == a[0, 0], np.inf, a), "zero holds an infinite number"),
        ("largest", lambda a: a + 1, "largest holds a number outside 0..1"),
        ("prune_all_order", lambda a: a * 0, "prune_all_order does not name each head once"),
        ("loss", None, "loss is missing"),
        ("more", lambda a: np.zeros(3, np.float32), "more is not a part of an atlas"),
    ],
)
def test_arrays_that_do_not_fit_are_rejected(built, name, change, message):
    arrays = dict(built.arrays)
    old = arrays.pop(name, None)
    if change is not None:
        arrays[name] = change(old)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(built, arrays=arrays)


def test_damaged_and_foreign_files_are_rejected_in_one_line(built):
    content = built.to_bytes()
    with np.load(io.BytesIO(content)) as npz:
        arrays = dict(npz)
    words = json.loads(arrays["words"].tobytes())
    for key, value in (("format", 9), ("origin", {}), ("quoted", [[1, 2]]), ("layers", {})):
        buffer = io.BytesIO()
        other = np.frombuffer(json.dumps({**words, key: value}).encode(), np.uint8)
        np.savez(buffer, **{**arrays, "words": other})
        _check_rejected(buffer.getvalue())
    for changed in (b"", content[: len(content) // 2], b"PK" + content[2:-9]):
        _check_rejected(changed)


def _check_rejected(content: bytes) -> None:
    with pytest.raises(
        ValueError, match="is not an atlas of heads .*core.analyse atlas`"
    ) as caught:
        Atlas.load(io.BytesIO(content))
    assert str(caught.value).isprintable()


def test_own_text_is_measured_as_a_corpus_is(built, network):
    """The numbers equal those of `build` for the same text."""
    steps = own_text(lambda: nullcontext(), network, PAIRS)
    progress = []
    try:
        while True:
            progress.append(next(steps))
    except StopIteration as end:
        atlas, text = end.value
    assert [p.done for p in progress] == sorted(p.done for p in progress)
    assert progress[-1].done == progress[-1].total
    assert len(text.sentences) == 12
    for name, array in atlas.arrays.items():
        expected = built.arrays[name]
        if name.startswith("role_cross"):  # the corpus also has the roles that need gold
            expected = expected[: len(array)]
        np.testing.assert_allclose(array, expected, atol=2e-5, err_msg=name)
    assert atlas.tokens == built.tokens
    with pytest.raises(ValueError, match=f"301 lines: the limit is {MAX_LINES}"):
        next(own_text(lambda: nullcontext(), network, PAIRS[:1] * 301))


def test_own_text_borrows_the_network_for_one_batch_at_a_time(network, monkeypatch):
    """Others wait for one batch of ablated heads, or for the attention of about 100 tokens."""
    works: list[list[tuple]] = []

    @contextmanager
    def borrow():
        works.append([])
        yield

    def watched(name, call):
        def noted(*arguments, **options):
            works[-1].append((name, arguments))
            return call(*arguments, **options)

        return noted

    ablated = watched("ablated", losses.log_probs_without)
    monkeypatch.setattr(losses, "log_probs_without", ablated)
    monkeypatch.setattr(Attention, "__call__", watched("attention", Attention.__call__))
    pairs = [(" ".join([de] * 3), " ".join([en] * 3)) for de, en in PAIRS]
    steps = own_text(borrow, network, pairs)
    done = [(step.done, step.total) for step in steps]
    assert done == sorted(done) and done[0][0] == 0 and done[-1][0] == done[-1][1]
    sizes = [len(one) for one in works]
    assert max(sizes) == 1 and sum(sizes) > len(pairs)
    measured = [given[-1] for work in works for name, given in work if name == "attention"]
    tokens = [[max(map(len, one.ids)) for one in part] for part in measured]
    assert all(len(part) == 1 or sum(part) <= 100 for part in tokens)
    assert {len(part) == 1 for part in tokens} == {True, False}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([3, 3, 3, 3], [[3, 3, 3], [3]]),
        ([11, 1, 10], [[11], [1], [10]]),
        ([1, 12, 1, 9, 1], [[1], [12], [1, 9], [1]]),
    ],
)
def test_parts_are_bounded_and_complete(sizes, expected):
    assert [list(part) for part in parts(sizes, int, 10)] == expected


@pytest.fixture
def files(tmp_path):
    (tmp_path / "gold").write_text("0-0 1-1\n" * len(PAIRS))
    return pair_files(tmp_path)


def test_the_command_writes_the_same_atlas_and_says_how_to_repeat_it(
    built, translating_folder, files, capsys
):
    more = ["--json", files / "atlas.json", "--gold", files / "gold"]
    atlas = run_atlas(translating_folder, files, *more, "--other", translating_folder)
    for name, array in built.arrays.items():
        if not name.startswith(("aer", "precision", "recall", "role_cross")):  # the gold differs
            np.testing.assert_array_equal(atlas.arrays[name], array, err_msg=name)
    origin = atlas.origin
    assert origin.command == (
        "python -m core.analyse atlas --checkpoint scratch-de-en --src val.de --ref val.en "
        "--gold gold --other scratch-de-en --out atlas.npz"
    )
    assert origin.corpus == "val.de, val.en"
    lines = "\n".join(pair[0] for pair in PAIRS)
    assert origin.sources_sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert origin.gold_sentences == len(PAIRS)
    written = json.loads((files / "atlas.json").read_text())
    assert list(written) == ["checkpoint", "sentences", "origin", "heads", "alignment_heads"]
    assert written["heads"] == json.loads(json.dumps(report(atlas)))
    assert "cross layer 1 head 1" in capsys.readouterr().out
    assert not (files / "atlas.npz.partial").exists()


def test_the_command_continues_after_an_interruption(built, translating_folder, files, monkeypatch):
    """The second run measures nothing that the first one has saved."""
    monkeypatch.setattr("core.atlas.build.head_bleu", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_atlas(translating_folder, files)
    saved = {*(files / "atlas.npz.partial").iterdir()}
    steps = 2 + 4 + 4 + 10  # choose from as many heads of each kind, and from all
    assert len(saved) == 10 + steps, "one file per measure"
    monkeypatch.undo()
    monkeypatch.setattr(HeadLosses, "__call__", _interrupt)  # saved by the first run
    again = run_atlas(translating_folder, files)
    np.testing.assert_array_equal(again.arrays["zero"], built.arrays["zero"])


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--gold-src", "val.de"], "--gold-src and --gold-ref go together"),
        (["--gold-src", "val.de", "--gold-ref", "val.en"], "--gold-src needs --gold"),
        (["--gold", "short"], "12 sentence pairs and 1 alignments"),
        (["--gold", "long"], "sentence 1: its alignment links word 99"),
        (["--out", "."], "--out"),
    ],
)
def test_bad_input_is_rejected_before_any_work(
    translating_folder, files, monkeypatch, more, message
):
    (files / "short").write_text("0-0\n")
    (files / "long").write_text("99-0\n" * len(PAIRS))
    monkeypatch.chdir(files)
    monkeypatch.setattr("core.atlas.build.finish", None)
    with pytest.raises(ValueError, match=message) as caught:
        run_atlas(translating_folder, files, *more)
    assert str(caught.value).isprintable()


def test_lines_that_cannot_be_measured_are_left_out_and_named(translating_folder, files, capsys):
    for language in ("de", "en"):
        file = files / f"val.{language}"
        file.write_text(file.read_text() + ("\n" if language == "de" else "Alone.\n"))
    atlas = run_atlas(translating_folder, files, "--no-bleu")
    assert atlas.origin.sentences == 12 and atlas.origin.skipped == 1
    assert "bleu" not in atlas.arrays and "prune_all_loss" in atlas.arrays
    assert "val.de: line 13 has an empty side" in capsys.readouterr().err
