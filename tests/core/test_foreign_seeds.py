"""Networks of the word-based tutorials are converted, compared, and refused if wrong."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from core.foreign.importing import import_network
from core.translator import Translator
from tests.core import saved_folders
from tests.core.seed_networks import END, NETWORKS, Seed, make_seed


@pytest.fixture(scope="module", params=NETWORKS)
def seed(request, tmp_path_factory) -> Seed:
    return make_seed(request.param, tmp_path_factory.mktemp("seed"))


def convert(seed: Seed, out: Path, source: Path | None = None, reference: bool = True, **changes):
    given = seed.reference if reference else None
    return import_network(
        seed.family, source or seed.weights, out, seed.options(**changes), given, "A. Person", "MIT"
    )


def test_a_seed_network_gives_the_originals_numbers(seed, tmp_path):
    """Also without the converter's comparison: ids are mapped by hand, and the original is run."""
    result = convert(seed, tmp_path / "mine-de-en")
    compared = {one.what: one for one in result.imported.compared}
    assert {"attention maps", "logits", "log-probabilities", "logits of single steps"} <= {
        what.partition(",")[0] for what in compared
    }
    assert compared["logits, float64"].max_abs_diff < 1e-12
    assert compared["greedy ids, float32"].max_abs_diff == 0
    translator = Translator.load(tmp_path / "mine-de-en", "cpu")
    assert translator.card.imported == result.imported
    record = translator.inspect("Ein Mann liest ein Buch.", beam=1)
    assert record.source[0].piece == "<bos>" and all(check.passed for check in record.checks)
    assert translator.translate([""])[0].text == ""
    unknown, pad, start, end = seed.special
    theirs = torch.tensor([[start, 5, 6, 4, end], [start, 7, 8, end, pad]])
    fed = torch.tensor([[start, 5, 4, 6], [start, 6, 5, 8]])
    ours = {unknown: 3, pad: 0, start: 1, end: 2}
    source, target = (x.clone().apply_(lambda id: ours.get(id, id)) for x in (theirs, fed))
    with torch.no_grad(), translator.exclusive_model() as model:
        first = [ours[id] for id in range(4)]
        got = model(source, target)[..., [*first, *range(4, model.config.target_vocab_size)]]
        assert torch.allclose(got, seed.network(theirs, fed), atol=2e-5)


def test_word_lists_and_the_training_text_give_equal_tokenizers_and_weights(seed, tmp_path):
    """White space keeps its ids."""
    lists = []
    for side, words in zip(("de", "en"), seed.words, strict=True):
        lists.append(tmp_path / f"words.{side}")
        special = ["<unk>", "<pad>", "<sos>", "<eos>"]
        if seed.family == "annotated":
            special = ["<s>", "</s>", "<blank>", "<unk>"]
        lists[-1].write_text("".join(f"{word}\n" for word in [*special, *words]))
    convert(seed, tmp_path / "a-de-en", words=tuple(lists), words_from=())
    convert(seed, tmp_path / "b-de-en")
    for file in ("tokenizer.source.json", "tokenizer.target.json", "model.safetensors"):
        first, second = ((tmp_path / f"{x}-de-en" / file).read_bytes() for x in "ab")
        assert first == second
    values = json.loads((tmp_path / "b-de-en/tokenizer.source.json").read_text())
    expected = ["white space U+0009" if word == "\t" else word for word in seed.words[0]]
    assert (values["vocabulary"], values["first"]) == (expected, [1])
    if seed.family in ("friendshipkim", "tutorial"):  # others drop words that occur once
        assert "white space U+0009" in expected and " " in expected


def test_what_was_not_verified_is_said(seed, tmp_path):
    result = convert(seed, tmp_path / "mine-de-en", reference=False)
    text = " ".join(result.imported.not_proven)
    assert "no reference.npz" in text and "--heads" in text and "Tokens" in text
    assert result.imported.compared == () and not result.imported.passed
    card = (tmp_path / "mine-de-en/MODEL_CARD.md").read_text()
    assert "A. Person" in card and "MIT" in card and text[:60] in card
    assert "from scratch" not in card


State = dict[str, torch.Tensor]


def edited(state: State, part: str, edit: Callable[[torch.Tensor], torch.Tensor]) -> State:
    """Change the first tensor with this part of a name."""
    name = next(name for name in state if part in name)
    return state | {name: edit(state[name])}


def with_queries_and_keys_exchanged(state: State) -> State:
    packed = "transformer.encoder.layers.1.self_attn.in_proj_weight"
    if packed in state:
        q, k, v = state[packed].chunk(3)
        return state | {packed: torch.cat((k, q, v))}
    own = [n for n in state if n.startswith("encoder.layers.1.") and n.endswith(".weight")]
    query, key = (
        next(n for n in own if re.search(rf"_{x}\.|linears\.{x}\.", n)) for x in ("[q0]", "[k1]")
    )
    return state | {query: state[key], key: state[query]}


WRONG: dict[str, tuple[Callable[[State], State], str]] = {
    "not of the shape": (
        lambda state: edited(state, "norm", lambda tensor: tensor[:-2]),
        r"norm[\w.]* is \[14\], not \[16\]",
    ),
    "unused": (
        lambda state: state | {"encoder.gate.weight": torch.ones(2)},
        "encoder.gate.weight is not used",
    ),
    "infinite": (
        lambda state: edited(state, "norm", lambda tensor: tensor * torch.inf),
        "not finite",
    ),
    "shifted positions": (
        lambda state: edited(
            state,
            ".pe" if "src_embed.1.pe" in state else "encoding.",
            lambda t: t.roll(1, t.shape.index(40)),
        ),
        "is not the table of sines",
    ),
    "queries and keys exchanged": (
        with_queries_and_keys_exchanged,
        "encoder attention of layer 2: its queries or keys",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_weights_are_refused_and_nothing_is_written(seed, tmp_path, case):
    change, says = WRONG[case]
    if case == "shifted positions" and seed.family in ("hyunwoongko", "bentrevett"):
        pytest.skip("this network stores no table of sines")
    source = seed.save(change(seed.network.state_dict()), tmp_path / "bad.safetensors")
    with pytest.raises(ValueError, match=says) as error:
        convert(seed, tmp_path / "mine-de-en", source)
    assert "\n" not in str(error.value) and not (tmp_path / "mine-de-en").exists()


def test_options_that_do_not_fit_are_refused(seed, tmp_path):
    short = tmp_path / "short.de"
    short.write_text("Ein Mann .\n" * 3)
    size = 4 + len(seed.words[0])
    texts = {"words_from": (short, seed.options().words_from[1])}
    for changes, says in (
        ({"heads": 3}, "--heads 3 does not divide the width 16"),
        ({"heads": 4}, "number of heads"),
        ({"heads": None}, "give it with --heads"),
        (texts, f"7 with the special ones, but .* {size} rows"),
        ({"words_from": ()}, "give the word lists with --words"),
    ):
        with pytest.raises(ValueError, match=says):
            convert(seed, tmp_path / "mine-de-en", **changes)


def test_another_family_is_refused_and_the_right_one_named(seed, tmp_path):
    for family in set(NETWORKS) - {seed.family}:
        with pytest.raises(ValueError, match=f"every network of the family {family} has") as error:
            import_network(family, seed.weights, tmp_path / "x-de-en", seed.options())
        assert str(error.value).endswith(f": choose --from {seed.family}, whose names it has")


REFERENCES: dict[str, tuple[saved_folders.Change, str]] = {
    "start": (
        saved_folders.arrays(lambda values: values["target"].__setitem__((..., 0), END)),
        r"wrong start token: .* id 3, the conversion with id 2",
    ),
    "tokens": (
        saved_folders.tokens(lambda t: t["ids"][2].__setitem__(1, t["ids"][2][1] + 1)),
        r"tokens of 1 of 8 source lines differ, .*token 2",
    ),
    "positions": (
        saved_folders.arrays(lambda v: v.update(positions=np.roll(v["positions"], 1, axis=0))),
        "wrong positions: position .* offset",
    ),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_a_reference_of_another_network_is_refused(tmp_path, case):
    seed, (change, says) = make_seed("hyunwoongko", tmp_path), REFERENCES[case]
    change(tmp_path)
    with pytest.raises(ValueError, match=says):
        convert(seed, tmp_path / "x-de-en")
