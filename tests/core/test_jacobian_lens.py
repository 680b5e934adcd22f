"""The Jacobian lens: derivatives, readings, test table, file and command, each a second way."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import core
from core import analyse
from core.atlas.corpus import corpus
from core.atlas.lens import LensTest, chosen, table_of
from core.checkpoint.folder import CheckpointError, list_cards, load
from core.checkpoint.lens import FILE, load_lens
from core.data.batches import collate
from core.experiments.jacobian_lens import BEST, jacobian_sums, read
from core.kinds import SIDES
from core.text.tokenizer import EOS
from core.translator import Translator
from tests import small

PAIRS = [([9, 8, 7, 6, 11, EOS], [30, 9, 30, EOS]), ([12, 7, EOS], [5, 30, 8, 9, 4, EOS])]
models = small.models("pre-norm", "post-norm", "no final norm")


def last_total(model, pair, side, layer, position, column, step):
    """Return the sum over positions of the decoder's last state, one state's number changed."""
    layers, _ = model.stack(side)
    last, _ = model.stack("decoder")
    found = []

    def change(state):
        state = state.clone()
        state[0, position, column] += step
        return state

    module = layers[max(0, layer - 1)]
    if layer:
        hook = module.register_forward_hook(lambda _, args, out: change(out))
    else:
        hook = module.register_forward_pre_hook(lambda _, args: (change(args[0]), *args[1:]))
    keep = last[-1].register_forward_hook(lambda _, args, out: found.append(out))
    batch = collate([pair])
    model(batch.source, batch.target_in)
    hook.remove()
    keep.remove()
    return found[0][0].sum(0)


def expected_column(model, pairs, side, layer, column, step=1e-5):
    """Return a column of J by central differences, one state after the other, without padding."""
    total, count = 0, 0
    for pair in pairs:
        for position in range(len(pair[side == "decoder"])):
            up, down = (
                last_total(model, pair, side, layer, position, column, sign * step)
                for sign in (1, -1)
            )
            total, count = total + (up - down) / (2 * step), count + 1
    return (total / count).numpy()


@torch.no_grad()
def assert_derivatives(model, pairs, columns):
    sums = jacobian_sums(model, collate(pairs))
    for side in SIDES:
        J = sums[f"{side}_jacobians"] / sums[f"{side}_positions"]
        assert len(J) == len(model.stack(side).layers) + 1
        for layer, J_DD in enumerate(J):
            for column in columns:
                wanted = expected_column(model, pairs, side, layer, column)
                error = np.abs(J_DD[:, column] - wanted).max() / np.abs(wanted).max()
                assert error < 1e-4, (side, layer, column)


def test_the_jacobians_equal_finite_differences(models):
    for model in models:
        assert_derivatives(model.double(), PAIRS, (5,))


def test_the_jacobians_of_a_shipped_network_equal_finite_differences():
    model = load("checkpoints/scratch-de-en").model.double()
    assert_derivatives(model, [([236, 1005, 272, EOS], [888, 757, EOS])], (17,))


@pytest.fixture(scope="module")
def fitted(translating_folder, tmp_path_factory):
    """A folder with a lens from the command, and what the command wrote as JSON."""
    folder = shutil.copytree(translating_folder, tmp_path_factory.mktemp("lens") / "scratch-de-en")
    text = folder.parent / "lines.de"
    text.write_text("".join(f"{source}\n" for source, _ in small.SENTENCES))
    found = folder.parent / "found.json"
    options = ["--sentences", "3", "--seed", "5", "--json", str(found)]
    given = ["lens", "--checkpoint", str(folder), "--src", str(text), *options]
    arguments = analyse.parser().parse_args(given)
    arguments.run(arguments)
    return folder, json.loads(found.read_text())


def test_a_lens_is_fitted_on_some_lines_and_tested_on_others(fitted):
    folder, found = fitted
    network, lens = load(folder), load_lens(load(folder).card)
    about = lens.about
    assert (about.sentences, about.tested, about.seed, about.corpus) == (3, 3, 5, "lines.de")
    assert about.weights_sha256 == network.card.weights_sha256
    assert found["table"] == {name: [*map(list, row)] for name, row in about.table.items()}
    lines = corpus(network, ((s, s) for s, _ in small.SENTENCES)).lines
    parts = chosen(lines, 3, 5)
    assert sorted(line.index for part in parts for line in part) == list(range(6))
    assert chosen(lines, 3, 6) != parts
    translator = Translator.load(folder, "cpu")
    passes = [translator.inspect(line.source_text, beam=1) for line in parts[0]]
    pairs = [([t.id for t in r.source], [t.id for t in r.target_out]) for r in passes]
    sums = jacobian_sums(network.model, collate(pairs))
    for side in SIDES:
        J = sums[f"{side}_jacobians"] / sums[f"{side}_positions"]
        assert np.allclose(lens.jacobians[side], J, rtol=2e-3, atol=2e-4)


def test_readings_are_recomputed(fitted):
    folder, _ = fitted
    translator, lens = Translator.load(folder, "cpu"), load_lens(load(folder).card)
    model = load(folder).model
    record = translator.inspect(small.SENTENCES[0][0], activations=True)
    seen = core.jacobian_lens(translator, record)
    target = [t.id for t in record.target_out]
    states = {
        "encoder": record.activations.encoder_states[:, -1],
        "decoder": record.activations.decoder_states[:, -1],
    }
    frame = seen.to_dataframe()
    for side in SIDES:
        reading = getattr(seen, side)
        for layer, state_ND in enumerate(states[side], 1):
            state_ND = torch.tensor(np.array(state_ND))
            J_DD = torch.tensor(np.array(lens.jacobians[side][layer]))
            norm = model.stack("decoder").norm
            logits = model.classify(norm(torch.einsum("nd,ed->ne", state_ND, J_DD)))
            chances = logits.double().softmax(-1).detach().numpy()
            order = (-chances).argsort(-1, kind="stable")
            assert np.array_equal(reading.ids[layer], order[:, :BEST])
            best = np.take_along_axis(chances, order[:, :BEST], 1)
            assert np.allclose(reading.probabilities[layer], best, atol=1e-5)
            ranks = [[order[n].tolist().index(id) + 1 for id in target] for n in range(len(order))]
            assert np.array_equal(reading.ranks[layer], ranks)
            other = (7, 30, 7)
            asked = getattr(core.jacobian_lens(translator, record, other), side).ranks[layer]
            assert asked.tolist() == [[o.tolist().index(i) + 1 for i in other] for o in order]
            plain = model.classify(norm(state_ND)).argsort(-1, descending=True)[:, :BEST]
            assert np.array_equal(reading.logit_ids[layer], plain)
            row = frame[(frame.side == side) & (frame.layer == layer) & (frame.position == 1)]
            assert row.ids.tolist() == order[1, :BEST].tolist()
    last = seen.decoder.ids[-1, :, 0]  # the last state is read as the network reads it
    assert np.array_equal(last, [row[0].id for row in record.alternatives])


@torch.no_grad()
def test_the_table_counts_what_it_says():
    """Count with plain loops what `LensTest` counts, for two sentences."""
    folder = Path("checkpoints/scratch-de-en")
    network, lens = load(folder), load_lens(load(folder).card)
    model, translator = network.model, Translator.load(folder, "cpu")
    sentences = corpus(network, ((s, s) for s, _ in small.SENTENCES[:2])).sentences[:]
    table = table_of(LensTest(lens.jacobians)(network, sentences), 2)
    texts = [sentence.source_text for sentence in sentences]
    records = [translator.inspect(text, beam=1, activations=True) for text in texts]
    found = {name: [] for name in ("jacobian_hits", "jacobian_null", "logit_hits")}
    agree, kl, by_decoder = [], [], []
    for record, other in zip(records, records[::-1], strict=True):
        source = {t.id for t in record.source}
        own, others = (
            {t.id for t in one.target_out if t.id not in source} for one in (record, other)
        )
        seen = core.jacobian_lens(translator, record).encoder
        for said, plain in zip(seen.ids[2, :-1], seen.logit_ids[2, :-1], strict=True):
            found["jacobian_hits"].append(bool(own & set(said)))
            found["jacobian_null"].append(bool(others & set(said)))
            found["logit_hits"].append(bool(own & set(plain)))
        states = record.activations.decoder_states
        logits, last = (read(model, torch.tensor(np.array(states[at, -1]))) for at in (1, -1))
        agree += (logits.argmax(-1) == last.argmax(-1)).tolist()
        p, q = last.double().softmax(-1), logits.double().softmax(-1)
        kl += (p * (p / q).log()).sum(-1).tolist()
        grid = core.decoder_lens(translator, record).ids
        by_decoder += (grid[2] == grid[-1]).tolist()
    found |= {"logit_agree": agree, "logit_kl": kl, "decoder_lens": by_decoder}
    for name, values in found.items():
        assert table[name][2][0] == pytest.approx(np.mean(values), abs=2e-4), name
    assert len({np.mean(values) for values in found.values()}) == len(found)
    assert table["jacobian_agree"][-1][0] == table["decoder_lens"][-1][0] == 1
    random = LensTest(lens.jacobians)._matrix("random", "encoder", 1)
    assert np.linalg.norm(random) == pytest.approx(np.linalg.norm(lens.jacobians["encoder"][1]))


def test_lenses_that_do_not_fit_are_refused(fitted, tmp_path, lines):
    folder, _ = fitted
    copy = shutil.copytree(folder, tmp_path / "scratch-de-en")
    given = ["lens", "--checkpoint", copy, "--src", folder.parent / "lines.de"]
    code, _, error = lines(analyse, *given)
    assert code == 1 and error.count("\n") == 1 and "exists already" in error
    code, _, error = lines(analyse, *given, "--force", "--sentences", 5)
    assert code == 1 and "6 usable lines: at least 2 more than --sentences 5" in error
    card, good = load(copy).card, (copy / FILE).read_bytes()
    other = good.replace(card.weights_sha256[:8].encode(), b"00000000")
    for content, reason in (
        (other, "other weights"),
        (good[:-2], "the file has"),
        (good[:-2] + b"\x00\x7e", "not finite"),
        (good.replace(b"F16", b"I16"), "I16"),
        (good.replace(b'"corpus', b'"korpus').replace(b'\\"corpus\\"', b'\\"korpus\\"'), "about"),
    ):
        (copy / FILE).write_bytes(content)
        with pytest.raises(CheckpointError, match=reason) as refused:
            load_lens(card)
        assert "core.analyse lens" in str(refused.value) and "\n" not in str(refused.value)
    (copy / FILE).unlink()
    with pytest.raises(CheckpointError, match="is missing.*core.analyse lens"):
        load_lens(card)


def test_every_shipped_lens_belongs_to_its_network_and_beats_its_null():
    cards, _ = list_cards(Path("checkpoints"))
    assert len(cards) == 6
    assert sum((card.folder / FILE).stat().st_size for card in cards) <= 5_000_000
    for card in cards:
        table = load_lens(card).about.table
        for hits, null, logit in zip(
            *(table[name] for name in ("jacobian_hits", "jacobian_null", "logit_hits")), strict=True
        ):
            assert hits[1] > max(null[2], logit[2]), card.folder.name
