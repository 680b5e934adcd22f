"""Copies and pushes of states: in passes, from Python, over a corpus, each a second way."""

import json

import numpy as np
import pytest
import torch

import core
from core import analyse
from core.atlas.patching import read_pairs, swapped
from core.experiments.patching import contrast_of, paired, patched
from core.experiments.values import head_output
from core.kinds import KINDS, SIDES
from core.model.baseline import Baseline
from core.record.capture import after_attention, capture
from core.record.editing import edited
from core.record.edits import Donor, EditError, Edits, HeadPatch, Patch, Push, RandomPush
from core.record.parts import RecordToken
from core.record.states import at_states, random_direction
from core.serving.wire import from_bytes, to_bytes
from core.text.tokenizer import BOS, EOS
from tests import small

models = small.models("pre-norm", "post-norm", "tied with a bias, SiLU")
SOURCE, FED = (9, 8, 7, 6, 11, EOS), (BOS, 30, 9, 12)
OTHER, OTHER_FED = (9, 21, 7, 13, 11, EOS), (BOS, 14, 9, 31)
DONOR = Donor(OTHER, OTHER_FED)


def logits(model, source=SOURCE, fed=FED):
    return model(torch.tensor([source]), torch.tensor([fed]))


def states_of(model, source=SOURCE, fed=FED) -> dict:
    """Return every state of a pass by side and layer, [N, D]."""
    found = {}

    def keep(side, layer, state):
        found[side, layer] = state[0].clone()

    with at_states(model, keep):
        logits(model, source, fed)
    return found


def same(found, expected, model) -> bool:
    """Return whether logits are bit-equal; hooks keep torch's encoder from its fused kernel."""
    if type(model) is Baseline:
        return torch.allclose(found, expected, rtol=0, atol=1e-12)
    return torch.equal(found, expected)


def copies(side, layer, length):
    return tuple(Patch(side, layer, p, p) for p in range(length))


@torch.inference_mode()
def test_copying_a_pass_into_itself_is_bit_equal(models):
    """So is a donor by itself: nothing is copied from it."""
    own = Donor(SOURCE, FED)
    everything = [copies(side, layer, 4) for side in SIDES for layer in range(3)]
    patches = tuple(one for of in everything for one in of)
    for model in models:
        for edits in (Edits(donor=own, patches=patches), Edits(donor=DONOR)):
            before = logits(model)
            with edited(model, edits):
                assert same(logits(model), before, model)


@torch.inference_mode()
def test_copying_all_states_gives_the_other_pass_bit_for_bit(models):
    for model in models:
        for layer in range(3):
            with edited(model, Edits(donor=DONOR, patches=copies("encoder", layer, 6))):
                found = logits(model)
            assert same(found, logits(model, OTHER, FED), model)
        with edited(model, Edits(donor=DONOR, patches=copies("decoder", 3, 4))):
            found = logits(model)
        assert same(found, logits(model, OTHER, OTHER_FED), model)
        assert not same(found, logits(model), model)


@torch.inference_mode()
def test_a_copied_state_is_the_donors_at_its_own_position(models):
    """A push to the same state comes after the copy."""
    for model in models:
        donor = states_of(model, OTHER, OTHER_FED)
        for side, layer in (("encoder", 0), ("encoder", 2), ("decoder", 0), ("decoder", 2)):
            push = RandomPush(side, layer, 3, 1, 2.0)
            edits = Edits(donor=DONOR, patches=(Patch(side, layer, 3, 1),), pushes=(push,))
            expected = states_of(model)[side, layer]
            with edited(model, edits):
                found = states_of(model)[side, layer]
            pushed = torch.tensor(2 * random_direction(1, model.config.d_model))
            expected[3] = donor[side, layer][1] + pushed
            assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_copied_head_replaces_its_slice_of_the_projection(models, kind):
    """The output changes at one query, by the difference of the head's two contributions."""
    query, donor_query, head = 2, 1, 3
    edits = Edits(donor=DONOR, head_patches=(HeadPatch(kind, 0, head, query, donor_query),))
    outputs: list[torch.Tensor] = []
    for model in models:
        contributions = []
        outputs.clear()
        (site,) = (s for s in model.attention_sites() if (s.kind, s.layer) == (kind, 0))
        for source, fed in ((SOURCE, FED), (OTHER, OTHER_FED)):
            with capture(model) as captured:
                logits(model, source, fed)
            contributions.append(head_output(captured.of_kind(kind)[0], head)[0])
        with after_attention([site], lambda site, call, out: outputs.append(out[0][0])):
            logits(model)
        with edited(model, edits), after_attention([site], lambda s, c, o: outputs.append(o[0][0])):
            logits(model)
        plain, changed = outputs
        expected = plain.clone()
        expected[query] += contributions[1][donor_query] - contributions[0][query]
        assert torch.allclose(changed, expected, rtol=0, atol=1e-12)
        assert (changed[query] - plain[query]).abs().max() > 1e-3


@torch.inference_mode()
def test_a_push_adds_the_normalised_lens_direction(models):
    rng = np.random.default_rng(3)
    for model in models:
        D = model.config.d_model
        lens = {side: rng.standard_normal((4, D, D), np.float32) for side in SIDES}
        W = model.embeddings.projection.weight.detach().numpy()
        for side, layer, position, old in (("encoder", 2, 4, 12), ("decoder", 0, 1, None)):
            push = Push(side, layer, position, old, 31, -2.5)
            with edited(model, Edits(pushes=(push,)), lens=lens):
                states = states_of(model)
            direction = lens[side][layer].T @ (W[31] - (0 if old is None else W[old]))
            expected = states_of(model)[side, layer]
            expected[position] -= 2.5 * torch.tensor(direction / np.linalg.norm(direction))
            assert torch.allclose(states[side, layer], expected, rtol=0, atol=1e-6)
        with small.refused("needs the network's Jacobian lens", EditError):
            edited(model, Edits(pushes=(push,))).__enter__()


def test_a_random_direction_is_fixed_by_its_seed():
    directions = [random_direction(seed, 192) for seed in (0, 1, 0)]
    assert np.linalg.norm(directions, axis=1) == pytest.approx([1, 1, 1])
    assert np.array_equal(directions[0], directions[2])
    assert abs(directions[0] @ directions[1]) < 0.2
    assert random_direction(1, 3) == pytest.approx([0.167447, -0.071254, 0.983303], abs=1e-6)


@torch.inference_mode()
def test_a_position_beyond_the_source_is_refused(models):
    for model in models:
        for edits in (
            Edits(pushes=(RandomPush("encoder", 1, 6, 0, 1.0),)),
            Edits(donor=DONOR, head_patches=(HeadPatch("encoder", 0, 0, 6, 1),)),
        ):
            with small.refused("position 6 of the source", EditError), edited(model, edits):
                logits(model)


@torch.inference_mode()
@pytest.mark.parametrize("direction", ["restore", "damage"])
def test_one_planted_head_carries_the_word(direction):
    """Only one cross head writes, and no encoder head: its share is 1, and that of others 0."""
    for model in small.pair(norm_first=True):
        for site in model.attention_sites():
            weight = site.projections().output.weight.data
            heads = weight.unflatten(1, (site.num_heads, -1))
            keep = heads[:, 2].clone()
            weight.zero_()
            if (site.kind, site.layer) == ("cross", 2):
                heads[:, 2] = 50 * keep  # so that the words differ enough
        contrast = contrast_of(SOURCE, (*SOURCE[:2], 33, *SOURCE[3:]), (30, 9, EOS), (30, 12, EOS))
        assert contrast.fed == (BOS, 30) and contrast.words == (9, 12)
        model.embeddings.classifier.weight.data[9] *= 40
        found = patched(model, contrast, tuple((p, p) for p in range(6)), direction)
        assert found.reason == "" and abs(found.clean - found.corrupted) > 0.5
        for kind, shares in found.heads.items():
            expected = np.zeros_like(shares)
            if kind == "cross":
                expected[2, 2] = 1
            assert np.allclose(shares, expected, rtol=0, atol=1e-9), kind
        changed = np.zeros((3, 6))
        changed[:, 2] = 1
        assert np.allclose(found.encoder, changed, rtol=0, atol=1e-9)
        assert np.allclose(found.decoder[:, -1], [0, 0, 0, 1], rtol=0, atol=1e-9)


@torch.inference_mode()
def test_shares_equal_those_of_single_edits(models):
    """The grid copies many cells at once; here each cell is copied by `edited`."""
    contrast = contrast_of(SOURCE, OTHER, (30, 9, 5, EOS), (30, 9, 17, EOS))
    pairs = tuple((p, p) for p in range(6))
    for model in models:
        scale = model.embeddings.projection.weight.data
        kept = scale.clone()
        scale[5] *= 40
        for direction, into, other in (("restore", OTHER, SOURCE), ("damage", SOURCE, OTHER)):
            found = patched(model, contrast, pairs, direction)
            donor, fed = Donor(other, contrast.fed), contrast.fed

            def difference(source, edits=Edits(), model=model, fed=fed):
                with edited(model, edits):
                    last = logits(model, source, fed)[0, -1]
                return float(last[5] - last[17])

            before, total = difference(into), difference(other) - difference(into)
            ends = {"restore": (other, into), "damage": (into, other)}[direction]
            assert [found.clean, found.corrupted] == pytest.approx([*map(difference, ends)])
            for side, layer, place in (("encoder", 1, 1), ("decoder", 2, 2), ("decoder", 1, 0)):
                edits = Edits(donor=donor, patches=(Patch(side, layer, place, place),))
                share = (difference(into, edits) - before) / total
                assert getattr(found, side)[layer, place] == pytest.approx(share, abs=1e-9)
            for kind in KINDS:
                length = 6 if kind == "encoder" else 3
                heads = tuple(HeadPatch(kind, 1, 2, q, q) for q in range(length))
                share = (difference(into, Edits(donor=donor, head_patches=heads)) - before) / total
                assert found.heads[kind][1, 2] == pytest.approx(share, abs=1e-9)
        scale.copy_(kept)


def words(text: str) -> list[RecordToken]:
    """Tokenise "ab|c d": tokens of a word have a | between them; <eos> follows."""
    found = [
        RecordToken(4, part, part, i == 0, False, False)
        for word in text.split()
        for i, part in enumerate(word.split("|"))
    ]
    return [*found, RecordToken(EOS, "<eos>", "<eos>", False, True, False)]


@pytest.mark.parametrize(
    ("source", "other", "pairs"),
    [
        ("a b", "c d", [(0, 0), (1, 1), (2, 2)]),
        ("a b|x c", "a q c", [(0, 0), (1, 1), (3, 2), (4, 3)]),
        ("a b c", "b c", [(1, 0), (2, 1), (3, 2)]),
        ("a b c d", "a x d", [(0, 0), (3, 2), (4, 3)]),
    ],
)
def test_tokens_are_paired(source, other, pairs):
    assert list(paired(words(source), words(other))) == pairs


def test_sentences_without_a_common_word_are_refused():
    with small.refused("4 and 3 tokens without a common word"):
        paired(words("a b c"), words("d e"))


@pytest.fixture(scope="module")
def shipped():
    return core.load("scratch-de-en", device="cpu")


def test_a_word_is_restored_and_steered_in_a_shipped_network(shipped):
    man, woman = (
        shipped.inspect(f"{who} läuft im Park.", beam=1) for who in ("Ein Mann", "Eine Frau")
    )
    found = core.patch_all(shipped, woman, man)
    assert found.encoder[:, 1].min() > 0.9 and np.nanmax(found.encoder[:, 2:]) < 0.1
    assert found.words == (woman.target_out[1].id, man.target_out[1].id)
    frame = found.to_dataframe()
    cell = frame.query("part == 'cross' and layer == 3 and index == 3")
    assert cell.share.tolist() == [found.heads["cross"][3, 3]]
    assert len(frame) == 5 * len(man.source) + 5 * 2 + 48
    edits = Edits(donor=Donor.of(woman), patches=(Patch("encoder", 2, 1, 1),))
    record = shipped.inspect(man.source_text, edits=edits, beam=4)
    assert "woman" in record.translation and all(line.passed for line in record.checks)
    assert from_bytes(to_bytes(record)) == record
    steered = core.steer(shipped, man, 1, "woman", "man", layer=0, strength=16)
    assert "woman" in steered.pushed.translation and "man" in steered.random.translation.split()
    assert steered.to_dataframe().which.tolist() == ["plain", "pushed", "random"]
    assert core.steer(shipped, man, 1, "woman", layer=0, strength=0).pushed == man
    with small.refused("choose a word of one token"):
        core.steer(shipped, man, 1, "unconstitutional", layer=0, strength=1)
    for clean, problem in ((man, "same translation"), (record, "edited passes cannot")):
        with small.refused(problem):
            core.patch_all(shipped, clean, man)


def test_equal_passes_have_no_shares(models):
    """Two words of one source differ by as much with either sentence."""
    contrast = contrast_of(SOURCE, SOURCE, (30, 9, EOS), (30, 12, EOS))
    found = patched(models[1], contrast, tuple((p, p) for p in range(6)))
    assert found.clean == found.corrupted and "differ by 0.00 nats" in found.reason
    parts = (found.encoder, found.decoder, *found.heads.values())
    assert all(np.isnan(part).all() for part in parts)


def test_a_network_without_a_lens_refuses_a_push_in_one_line(translator):
    text = small.SENTENCES[0][0]
    edits = Edits(pushes=(Push("encoder", 0, 1, 5, 6, 2.0), RandomPush("encoder", 0, 1, 5, 2.0)))
    with small.refused("core.analyse lens", EditError):
        translator.inspect(text, edits=edits)
    kept, (problem,) = translator.fitting(edits, text)
    assert (
        kept == Edits(pushes=(RandomPush("encoder", 0, 1, 5, 2.0),))
        and "core.analyse lens" in problem
    )


def test_the_command_means_shares_over_pairs(translator, tmp_path):
    texts = [source for source, _ in small.SENTENCES]
    file, found = tmp_path / "pairs.tsv", tmp_path / "found.json"
    pairs = [(a, b) for a in texts for b in texts[:3]]
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    folder = translator.card.folder
    given = ["patch", "--checkpoint", str(folder), "--pairs", str(file), "--json", str(found)]
    arguments = analyse.parser().parse_args([*given, "--device", "cpu"])
    arguments.run(arguments)
    values = json.loads(found.read_text())
    each = []
    for a, b in pairs:
        try:
            clean, corrupted = (translator.inspect(text, beam=1) for text in (a, b))
            each.append(core.patch_all(translator, clean, corrupted))
        except ValueError:
            continue
    each = [one for one in each if not one.reason]
    assert 0 < len(each) < len(pairs) and values["pairs"] == len(each)
    assert sum(values["left_out"].values()) == len(pairs) - len(each)
    for row in values["heads"]:
        shares = [one.heads[row["kind"]][row["layer"], row["head"]] for one in each]
        assert row["share"] == pytest.approx(np.mean(shares), abs=1e-4)
        assert row["low"] <= row["share"] <= row["high"]
    last = {
        row["layer"]: row
        for row in values["states"]
        if row["side"] == "decoder" and row["tokens"] == "changed"
    }
    for layer, row in last.items():
        shares = [one.decoder[layer, -1] for one in each]
        assert row["share"] == pytest.approx(np.mean(shares), abs=1e-4)
    assert last[max(last)]["share"] == pytest.approx(1, abs=1e-4)


def test_pairs_are_made_and_read(tmp_path):
    lines = ["Ein Mann geht.", "Ein Mann und Ein Mann.", "Manni geht.", "Der Hund bellt."]
    entries = [("Ein Mann", "Eine Frau"), ("Mann", "Hund"), ("Hund", "Mann")]
    assert swapped(lines, entries) == [
        ("Ein Mann geht.", "Eine Frau geht."),
        ("Der Hund bellt.", "Der Mann bellt."),
    ]
    file = tmp_path / "pairs.tsv"
    file.write_text("a b\tc d\n\nx\ty\n")
    assert read_pairs(file) == [("a b", "c d"), ("x", "y")]
    file.write_text("a\tb\na b c\n")
    with small.refused("line 2: give two texts"):
        read_pairs(file)
