"""Networks of the word-based tutorials are converted, compared, and refused if wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from core.foreign.importing import import_network
from core.translator import Translator
from tests.core.seed_networks import END, NETWORKS, PAD, START, Seed, make_seed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=NETWORKS)
def seed(request, tmp_path_factory) -> Seed:
    return make_seed(request.param, tmp_path_factory.mktemp("seed"))


def convert(seed: Seed, out: Path, source: Path | None = None, reference: bool = True, **changes):
    given = seed.reference if reference else None
    return import_network(
        seed.family, source or seed.weights, out, seed.options(**changes), given, "A. Person", "MIT"
    )


def test_a_seed_network_gives_the_originals_numbers(seed, tmp_path):
    result = convert(seed, tmp_path / "mine-de-en")
    compared = {one.what: one for one in result.imported.compared}
    assert {"attention maps", "logits", "log-probabilities", "logits of single steps"} <= {
        what.partition(",")[0] for what in compared
    }
    assert compared["logits, float64"].max_abs_diff < 1e-12
    assert compared["greedy ids, float32"].max_abs_diff == 0
    translator = Translator.load(tmp_path / "mine-de-en", "cpu")
    assert translator.card.imported == result.imported
    assert result.imported.author == "A. Person"
    record = translator.inspect("Ein Mann liest ein Buch.", beam=1)
    assert record.source[0].piece == "<bos>" and all(check.passed for check in record.checks)
    assert translator.translate([""])[0].text == ""


def test_logits_are_those_of_the_original(seed, tmp_path):
    """The converter's comparison is not used: ids are mapped by hand, and the original is run."""
    convert(seed, tmp_path / "mine-de-en", reference=False)
    translator = Translator.load(tmp_path / "mine-de-en", "cpu")
    theirs = torch.tensor([[START, 5, 6, 4, END], [START, 7, 8, END, PAD]])
    fed = torch.tensor([[START, 5, 4, 6], [START, 6, 5, 8]])
    ours = {0: 3, PAD: 0, START: 1, END: 2}  # <unk> <pad> <sos> <eos>
    source, target = (x.clone().apply_(lambda id: ours.get(id, id)) for x in (theirs, fed))
    with torch.no_grad(), translator.exclusive_model() as model:
        got = model(source, target)[..., [3, 0, 1, 2, *range(4, model.config.target_vocab_size)]]
        assert torch.allclose(got, seed.network(theirs, fed), atol=2e-5)


def test_white_space_keeps_its_ids(seed, tmp_path):
    convert(seed, tmp_path / "mine-de-en")
    vocabulary = json.loads((tmp_path / "mine-de-en/tokenizer.source.json").read_text())
    words = vocabulary["vocabulary"]
    assert vocabulary["first"] == [1]
    expected = ["white space U+0009" if word == "\t" else word for word in seed.words[0]]
    assert words == expected
    if seed.family != "hyunwoongko":  # which drops words that occur once
        assert "white space U+0009" in words and " " in words


def test_word_lists_and_the_training_text_give_equal_tokenizers_and_weights(seed, tmp_path):
    lists = []
    for side, words in zip(("de", "en"), seed.words, strict=True):
        lists.append(tmp_path / f"words.{side}")
        special = ["<unk>", "<pad>", "<sos>", "<eos>"]
        lists[-1].write_text("".join(f"{word}\n" for word in [*special, *words]))
    convert(seed, tmp_path / "a-de-en", words=tuple(lists), words_from=())
    convert(seed, tmp_path / "b-de-en")
    for file in ("tokenizer.source.json", "tokenizer.target.json", "model.safetensors"):
        assert (tmp_path / "a-de-en" / file).read_bytes() == (
            tmp_path / "b-de-en" / file
        ).read_bytes()


def test_what_was_not_verified_is_said(seed, tmp_path):
    result = convert(seed, tmp_path / "mine-de-en", reference=False)
    text = " ".join(result.imported.not_proven)
    assert "no reference.npz" in text and "--heads" in text and "Tokens" in text
    assert result.imported.compared == () and not result.imported.passed
    card = (tmp_path / "mine-de-en/MODEL_CARD.md").read_text()
    assert "A. Person" in card and "MIT" in card and text[:60] in card
    assert "from scratch" not in card


def wrong_sizes(state):
    name = next(n for n in state if "norm1" in n)
    state[name] = state[name][:-2].clone()


def extra(state):
    state["encoder.gate.weight"] = torch.ones(2)


def lacking(state):
    del state[next(n for n in state if n.endswith(("fc_1.bias", "linear1.bias")))]


def shifted_positions(state):
    for name in state:
        if name.startswith("positional_encoding"):
            state[name] = state[name].roll(1, 0 if state[name].shape[0] > 1 else 1)


BAD_WEIGHTS = {
    "not of the shape": (wrong_sizes, r"norm1\.\w+ is \[14\], not \[16\]"),
    "unused": (extra, "encoder.gate.weight is not used"),
    "missing": (lacking, r"lacks .*(fc_1|linear1)\.bias"),
    "infinite": (
        lambda state: state[next(iter(state))].view(-1)[:1].fill_(torch.inf),
        "not finite",
    ),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_refused_and_nothing_is_written(seed, tmp_path, case):
    change, says = BAD_WEIGHTS[case]
    state = {name: tensor.clone() for name, tensor in seed.network.state_dict().items()}
    change(state)
    source = seed.save(state, tmp_path / "bad.safetensors")
    with pytest.raises(ValueError, match=says) as error:
        convert(seed, tmp_path / "mine-de-en", source)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "mine-de-en").exists()


def test_shifted_positions_are_refused(seed, tmp_path):
    if seed.family == "hyunwoongko":
        table = dict(np.load(seed.reference))
        table["positions"] = np.roll(table["positions"], 1, axis=0)
        np.savez(tmp_path / "reference.npz", **table)
        moved = Seed(seed.family, seed.network, tmp_path, seed.words)
        source, options = seed.weights, seed.options()
        with pytest.raises(ValueError, match="wrong positions: position .* offset"):
            import_network(seed.family, source, tmp_path / "x-de-en", options, moved.reference)
        return
    state = {name: tensor.clone() for name, tensor in seed.network.state_dict().items()}
    shifted_positions(state)
    source = seed.save(state, tmp_path / "bad.safetensors")
    with pytest.raises(ValueError, match="is not the table of sines"):
        convert(seed, tmp_path / "x-de-en", source)


def test_another_network_than_the_reference_is_refused(seed, tmp_path):
    """Queries and keys of one layer are exchanged in the file: the first wrong map is named."""
    state = {name: tensor.clone() for name, tensor in seed.network.state_dict().items()}
    if seed.family == "tutorial":
        name = "transformer.encoder.layers.1.self_attn.in_proj_weight"
        q, k, v = state[name].chunk(3)
        state[name] = torch.cat((k, q, v))
    else:
        parts = {"friendshipkim": ("self_attn.fc_q", "self_attn.fc_k")}
        query, key = parts.get(seed.family, ("attention.w_q", "attention.w_k"))
        query, key = (f"encoder.layers.1.{part}.weight" for part in (query, key))
        state[query], state[key] = state[key], state[query]
    source = seed.save(state, tmp_path / "bad.safetensors")
    with pytest.raises(ValueError, match="encoder attention of layer 2: its queries or keys"):
        convert(seed, tmp_path / "mine-de-en", source)
    assert not (tmp_path / "mine-de-en").exists()


def test_a_wrong_number_of_heads_is_refused(seed, tmp_path):
    with pytest.raises(ValueError, match="--heads 3 does not divide the width 16"):
        convert(seed, tmp_path / "mine-de-en", heads=3)
    with pytest.raises(ValueError, match="number of heads"):
        convert(seed, tmp_path / "mine-de-en", heads=4)
    with pytest.raises(ValueError, match="give it with --heads"):
        convert(seed, tmp_path / "mine-de-en", heads=None)


def test_a_vocabulary_of_the_wrong_length_is_refused(seed, tmp_path):
    short = tmp_path / "short.de"
    short.write_text("Ein Mann .\n" * 3)
    size = 4 + len(seed.words[0])
    with pytest.raises(ValueError, match=f"7 with the special ones, but .* {size} rows"):
        convert(seed, tmp_path / "mine-de-en", words_from=(short, seed.options().words_from[1]))
    with pytest.raises(ValueError, match="give the word lists with --words"):
        convert(seed, tmp_path / "mine-de-en", words_from=())


def test_another_family_is_refused_and_the_right_one_named(seed, tmp_path):
    for family in set(NETWORKS) - {seed.family}:
        with pytest.raises(ValueError, match=f"every network of the family {family} has") as error:
            import_network(family, seed.weights, tmp_path / "x-de-en", seed.options())
        assert str(error.value).endswith(f": choose --from {seed.family}, whose names it has")


def test_a_wrong_start_token_is_named(seed, tmp_path):
    arrays = dict(np.load(seed.reference))
    arrays["target"][:, 0] = END
    np.savez(tmp_path / "reference.npz", **arrays)
    with pytest.raises(ValueError, match=r"wrong start token: .* id 3, the conversion with id 2"):
        import_network(
            seed.family,
            seed.weights,
            tmp_path / "x-de-en",
            seed.options(),
            tmp_path / "reference.npz",
        )


def test_wrong_tokens_are_named(seed, tmp_path):
    arrays = dict(np.load(seed.reference))
    tokens = json.loads(arrays["tokens"].tobytes())
    tokens["ids"][2][1] += 1
    arrays["tokens"] = np.frombuffer(json.dumps(tokens).encode(), np.uint8)
    np.savez(tmp_path / "reference.npz", **arrays)
    with pytest.raises(ValueError, match=r"tokens of 1 of 8 source lines differ, .*token 2"):
        import_network(
            seed.family,
            seed.weights,
            tmp_path / "x-de-en",
            seed.options(),
            tmp_path / "reference.npz",
        )
