"""Records made under edits: checks, files, experiments and mean ablation."""

import dataclasses
import hashlib
import io
import json
import shutil
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from core import analyse
from core.checkpoint.head_means import FILE, load_means
from core.experiments.padding import padding_effect
from core.experiments.positions import equivariance
from core.experiments.score_parts import score_parts, scores
from core.experiments.site import site
from core.experiments.values import value_norms
from core.record.canonical import canonical_bytes
from core.record.checks import check
from core.record.editing import edited
from core.record.edits import (
    OFF,
    Donor,
    Edge,
    EditError,
    Edits,
    HeadPatch,
    Patch,
    RandomPush,
    Row,
    Temperature,
)
from core.record.record import TranslationRecord
from core.record.teacher_forced import teacher_forced_pass
from core.translator import InputError, Translator
from tests import small
from tests.core.test_record import with_metadata

SENTENCE, REFERENCE = small.SENTENCES[0]
KINDS = ("encoder", "decoder", "cross")
WEIGHTS = {
    "an edge cut": Edits(edges=(Edge("cross", 1, 1, 2, 2),)),
    "a key cut for all queries": Edits(edges=(Edge("cross", None, None, None, 1),)),
    "edges strengthened": Edits(
        edges=(Edge("cross", 0, None, None, 0, 30.0), Edge("decoder", 1, 1, None, 0, 0.1))
    ),
    "all keys of a query cut": Edits(edges=(Edge("encoder", 0, 1, 2, None),)),
    "rows set by hand": Edits(
        rows=(Row("encoder", 0, 0, 2, (0, 1, 1)), Row("decoder", 1, 0, 1, (3, 1, 9)))
    ),
    "temperatures": Edits(
        temperatures=(Temperature("cross", 0, 0, 0.05), Temperature("decoder", 1, 1, 4.0))
    ),
    "uniform heads": Edits(heads_uniform={("cross", 0, 1), ("encoder", 0, 0)}),
}
HIDDEN = Edits(hidden_source=(1,))
OTHERS = {
    "heads off": Edits(heads_off={("cross", 1, 0), ("encoder", 0, 1)}),
    "states and a head": Edits(
        donor=Donor((9, 8, 7, 2), (1, 30, 9)),
        patches=(Patch("encoder", 1, 2, 0), Patch("decoder", 1, 1, 2)),
        head_patches=(HeadPatch("cross", 0, 1, 1, 1),),
        pushes=(RandomPush("decoder", 2, 1, 5, 2.0), RandomPush("encoder", 0, 1, 5, 2.0)),
    ),
    "a head at its mean": Edits(heads_mean={("cross", 1, 0), ("decoder", 0, 1)}),
    "all at once": Edits(
        hidden_source=(2,),
        target_positions=OFF,
        heads_off={("cross", 1, 1)},
        heads_mean={("encoder", 0, 0)},
        heads_uniform={("decoder", 1, 0)},
        edges=(Edge("cross", None, None, None, 3), Edge("cross", 0, 0, None, 1, 7.0)),
        rows=(Row("cross", 1, 0, 1, (1, 0, 5)),),
        temperatures=(Temperature("cross", 0, 1, 0.5),),
    ),
}
EDITS = WEIGHTS | OTHERS
each = pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)


@pytest.fixture(scope="module")
def folder(translating_folder, tmp_path_factory):
    """A trained checkpoint with the head means that `core.analyse means` writes."""
    folder = shutil.copytree(translating_folder, tmp_path_factory.mktemp("means") / "scratch-de-en")
    text = tmp_path_factory.mktemp("text")
    for side, language in enumerate(("de", "en")):
        lines = "".join(pair[side] + "\n" for pair in small.SENTENCES)
        (text / f"val.{language}").write_text(lines, encoding="utf-8")
    given = ["--checkpoint", folder, "--src", text / "val.de", "--ref", text / "val.en"]
    parsed = analyse.parser().parse_args(
        ["means", *map(str, given), "--json", str(text / "found.json")]
    )
    parsed.run(parsed)
    found = json.loads((text / "found.json").read_text())
    assert list(found) == ["checkpoint", "sentences", "corpus", "rows"]
    assert found["sentences"] == 6 and found["corpus"] == "val.de, val.en"
    assert len(found["rows"]) == 5 * 2
    assert list(found["rows"][0]) == ["kind", "layer", "head", "norm"]
    return folder


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def translator(request, folder):
    found = Translator.load(folder, device="cpu")
    return found if request.param == "scratch" else found.other_implementation()


def failed_checks(record: TranslationRecord) -> set[str]:
    return {line.name for line in record.checks if not line.passed}


def saved(record: TranslationRecord) -> TranslationRecord:
    return TranslationRecord.load(io.BytesIO(record.to_bytes()))


@each
def test_a_record_made_under_edits_can_be_checked_saved_and_rechecked(translator, edits):
    record = translator.inspect(SENTENCE, edits=edits)
    assert len(record.checks) == 8 and failed_checks(record) == set()
    assert record.edits == edits and record.edited
    assert record.log_prob == pytest.approx(record.hypotheses[0].log_prob, abs=1e-4)
    given = translator.inspect(SENTENCE, REFERENCE, edits)
    assert failed_checks(given) == set()
    plain = translator.inspect(SENTENCE, REFERENCE)
    assert np.abs(given.log_probs - plain.log_probs).max() > 2e-5  # probabilities are near 1
    written = translator.search_tree(SENTENCE, edits=edits)
    best = written.tree.hypotheses[0]
    assert best.ids == record.hypotheses[0].ids and best.log_prob == record.hypotheses[0].log_prob
    assert best.log_prob != translator.search_tree(SENTENCE).tree.hypotheses[0].log_prob
    again = saved(record)
    assert again.edits == edits and again.id == record.id
    rechecked = translator.recheck(dataclasses.replace(again, checks=()))
    assert len(rechecked.checks) == 8 and failed_checks(rechecked) == set()


@pytest.mark.parametrize("edits", [*WEIGHTS.values(), HIDDEN], ids=[*WEIGHTS, "hidden"])
def test_checks_without_the_edits_fail(translator, edits):
    record = translator.inspect(SENTENCE, edits=edits)
    source, target = ([t.id for t in side] for side in (record.source, record.target_out))
    with translator.exclusive_model() as model:
        seen = teacher_forced_pass(model, source, target, edits, [h.ids for h in record.hypotheses])
    tokenizers = translator._source, translator._target
    assert all(line.passed for line in check(record, seen.evidence, tokenizers, edits))
    wrong = {line.name for line in check(record, seen.evidence, tokenizers) if not line.passed}
    assert "Recomputed outside the model" in wrong
    if edits == HIDDEN:
        assert wrong == {"Recomputed outside the model", "A masked cell is exactly 0"}


def test_recheck_detects_other_edits_in_a_file(translator):
    record = translator.inspect(SENTENCE, edits=WEIGHTS["edges strengthened"])
    for other in (WEIGHTS["temperatures"], EDITS["heads off"]):
        forged = saved(dataclasses.replace(record, edits=other))
        assert failed_checks(forged) == set()  # its stored checks passed
        assert "Recomputed outside the model" in failed_checks(translator.recheck(forged))


def test_an_unedited_record_has_no_edits_in_its_file_or_id(translator):
    """Its id equals the hash of a format that has no edits."""
    record = translator.inspect(SENTENCE)
    assert record.edits == Edits() and not record.edited
    with zipfile.ZipFile(io.BytesIO(record.to_bytes())) as archive:
        words = json.loads(np.load(archive.open("words.npy")).tobytes())
    assert "edits" not in words
    words = {name: value for name, value in words.items() if name not in ("format", "checks")}
    digest = hashlib.sha256(canonical_bytes(words))
    for name in (
        *(f"{kind}{what}" for what in ("", "_mask") for kind in KINDS),
        *("source_positions", "target_positions", "log_probs", "alternative_log_probs"),
    ):
        digest.update(getattr(record, name).tobytes())
    assert record.id == digest.hexdigest()[:16]
    other = translator.inspect(SENTENCE, REFERENCE, Edits(heads_off={("cross", 1, 0)}))
    assert other.id != translator.inspect(SENTENCE, REFERENCE).id


def rewritten(record: TranslationRecord, **values: object) -> io.BytesIO:
    return io.BytesIO(with_metadata(record, lambda metadata: metadata.update(values)))


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (3, "edits is 3, not a text"),
        ("off.cross.1", "its edits cannot be read"),
        ("off.cross.9.0", "cross layer 9, head 0 cannot be switched off"),
        ("temp.cross.0.9.2", "counted from 0"),
        ("hide.99", "position 99 cannot be hidden"),
        ("~" * 2_000_000, "its edits cannot be read"),
    ],
)
def test_invalid_edits_in_a_file_are_rejected(translator, edits, message):
    record = translator.inspect(SENTENCE, edits=Edits(heads_off={("cross", 1, 0)}))
    assert TranslationRecord.load(rewritten(record)).id == record.id
    with small.refused(message):
        TranslationRecord.load(rewritten(record, edits=edits))


def test_a_file_with_edits_must_be_labelled_edited(translator):
    record = translator.inspect(SENTENCE, edits=Edits(heads_off={("cross", 1, 0)}))
    assert record.edited and record.search == "beam 5, edited"
    with pytest.raises(ValueError, match="its search does not end with ', edited'"):
        TranslationRecord.load(rewritten(record, search="beam 5"))


def test_a_record_with_lost_edits_cannot_be_rechecked(translator):
    record = translator.inspect(SENTENCE, edits=WEIGHTS["temperatures"])
    old = TranslationRecord.load(rewritten(record, edits=None))
    assert old.lost_edits and old.edited and old.edits == Edits()
    with pytest.raises(ValueError, match="made under edits, which its file does not hold"):
        translator.recheck(old)
    with (
        pytest.raises(ValueError, match="cannot be run for this record"),
        translator.model_for(old),
    ):
        pass


@each
def test_experiments_run_under_the_records_edits(translator, edits):
    record = translator.inspect(SENTENCE, edits=edits, activations=True)
    ids = [tuple(t.id for t in side) for side in (record.source, record.target_out)]
    with translator.exclusive_model() as model, edited(model, edits, *translator._given(edits)):
        expected = value_norms(model, *ids)
    found = value_norms(translator, record)
    for kind in KINDS:
        assert np.array_equal(found[kind], expected[kind])
        assert not found[kind][record.maps(kind) == 0].any()
        drawn = record.activations.scores(kind)
        assert np.abs(scores(translator, record)[kind] - drawn).max() < 1e-5
    parts = score_parts(translator, record, "encoder")
    assert np.array_equal(parts.weights, record.encoder[0])
    assert np.array_equal(parts.mask, record.encoder_mask)


def test_a_site_with_edited_weights_is_rejected(translator):
    edits = Edits(hidden_source=(1,), temperatures=(Temperature("cross", 0, 0, 0.5),))
    record = translator.inspect(SENTENCE, edits=edits)
    seen = site(translator, record, "cross", 1)
    assert np.array_equal(seen.maps_HQK, record.cross[1])
    assert np.array_equal(seen.mask_QK, record.cross_mask)
    with pytest.raises(ValueError, match="weights of cross layer 0 are edited"):
        site(translator, record, "cross", 0)


def test_experiments_reject_conflicting_edits(translator):
    record = translator.inspect(SENTENCE, edits=Edits(source_positions=OFF))
    order = [1, 0, *range(2, len(record.source))]
    assert equivariance(translator, record, order, True).map_difference < 1e-6  # positions are off
    with pytest.raises(EditError, match="cannot be nested"):
        equivariance(translator, record, order, False)
    other = translator.inspect(small.SENTENCES[2][0])
    with pytest.raises(ValueError, match="made under different edits: pass them one by one"):
        padding_effect(translator, [record, other], 0)
    assert not translator._lock.locked()


def test_inapplicable_edits_are_rejected(translator):
    S = len(translator.tokens(SENTENCE, "source"))
    for edits, message in (
        (Edits(edges=(Edge("cross", 0, 0, 0, S),)), f"key {S} of cross does not exist"),
        (Edits(heads_off={("encoder", 1, 0)}), "counted from 0, the layers end at 0"),
        (Edits(rows=(Row("cross", 0, 0, 0, (1,)),), hidden_source=(0,)), "only on masked keys"),
    ):
        for ask in (translator.inspect, translator.search_tree):
            with pytest.raises(EditError, match=message):
                ask(SENTENCE, edits=edits)
    with pytest.raises(InputError, match="decoding requires the causal mask"):
        translator.search_tree(SENTENCE, edits=Edits(causal_mask=False))
    both = Edits(edges=(Edge("cross", 0, 0, 0, S), Edge("cross", 0, 0, 0, 1)))
    kept, problems = translator.fitting(both, SENTENCE)
    assert kept == Edits(edges=(Edge("cross", 0, 0, 0, 1),)) and len(problems) == 1


def test_saved_means_match_a_calculation_by_hand(folder):
    """For cross-attention layer 1, head 0: weights, values and Wᴼ, averaged over target tokens."""
    translator = Translator.load(folder, device="cpu")
    parts = []
    for source, target in small.SENTENCES:
        record = translator.inspect(source, target)
        seen = site(translator, record, "cross", 1)
        E = seen.to_value.shape[0] // seen.num_heads
        v_KE = (seen.memory_KD @ seen.to_value.T + seen.value_bias)[:, :E]
        parts.append(record.cross[1, 0] @ v_KE @ seen.to_output[:, :E].T)
    found = load_means(folder, translator.card.model)
    mean_D = np.concatenate(parts).mean(0)
    assert np.abs(found.parts["cross", 1][0].numpy() - mean_D).max() < 1e-5
    assert found.sentences == 6 and found.corpus == "val.de, val.en"


def test_missing_means_prevent_mean_ablation_only(folder, tmp_path):
    bare = shutil.copytree(folder, tmp_path / "bare" / folder.name)
    (bare / FILE).unlink()
    translator = Translator.load(bare, device="cpu")
    mean = EDITS["a head at its mean"]
    off = Edits(heads_off={("cross", 0, 0)})
    with pytest.raises(EditError, match="missing: write it with `python -m core.analyse means"):
        translator.inspect(SENTENCE, edits=mean)
    kept, problems = translator.fitting(mean.plus(off), SENTENCE)
    assert kept == off and len(problems) == 1 and "python -m core.analyse means" in problems[0]
    assert failed_checks(translator.inspect(SENTENCE, edits=off)) == set()
    shutil.copy(folder / FILE, bare / FILE)
    assert (
        failed_checks(translator.inspect(SENTENCE, edits=mean)) == set()
    )  # read again on the next call


BROKEN = {
    "a kind missing": lambda t: {k: v for k, v in t.items() if k != "cross"},
    "a layer missing": lambda t: {**t, "cross": t["cross"][:1].clone()},
    "NaN": lambda t: {**t, "cross": t["cross"] * float("nan")},
    "another type": lambda t: {k: v.half() for k, v in t.items()},
}


@pytest.mark.parametrize(
    "broken", [*BROKEN, "no safetensors", "too long", "no sentences", "a link"]
)
def test_invalid_means_prevent_mean_ablation_only(folder, tmp_path, broken):
    bare = shutil.copytree(folder, tmp_path / "bare" / folder.name)
    tensors = load_file(folder / FILE)
    metadata = {} if broken == "no sentences" else {"sentences": "6"}
    change = BROKEN.get(broken, lambda t: t)
    save_file(change(tensors), bare / FILE, metadata)
    if broken == "no safetensors":
        (bare / FILE).write_bytes(b"x" * 100)
    if broken == "too long":
        (bare / FILE).write_bytes(bytes(10**7))
    if broken == "a link":
        (bare / FILE).unlink()
        (bare / FILE).symlink_to(folder / FILE)
    translator = Translator.load(bare, device="cpu")
    with small.refused("cannot be used .*: write it with", EditError):
        translator.inspect(SENTENCE, edits=EDITS["a head at its mean"])
    assert failed_checks(translator.inspect(SENTENCE)) == set()
    assert torch.is_grad_enabled()
