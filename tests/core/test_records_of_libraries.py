"""Records of generate and of TransformerLens caches equal a teacher-forced pass of the model."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from core.kinds import KINDS
from core.record.record import TranslationRecord

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

PAD, EOS, UNK, BOS = 0, 1, 2, 3
WORDS = ["<pad>", "</s>", "<unk>", "<s>", *(f"▁w{i}" for i in range(20)), *map(str, range(16))]
SENTENCES = [[5, 9, 30, 7, EOS], [11, 12, EOS], [8, 6, 25, 26, 14, 10, EOS]]
BART_SHAPE = {
    "vocab_size": len(WORDS), "d_model": 16, "encoder_layers": 3, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "max_position_embeddings": 40, "attn_implementation": "eager",
    "eos_token_id": EOS, "forced_eos_token_id": None, "pad_token_id": PAD,
}  # fmt: skip


def network(family: str, **changes):
    """Return a random network whose maps have distinct rows and whose outputs often end early."""
    torch.manual_seed(5)
    shape = BART_SHAPE | changes
    if family == "marian":
        config = transformers.MarianConfig(**shape, decoder_start_token_id=PAD)
        model = transformers.MarianMTModel(config)
    elif family == "bart":
        config = transformers.BartConfig(**shape, bos_token_id=BOS, decoder_start_token_id=EOS)
        model = transformers.BartForConditionalGeneration(config)
    else:
        config = transformers.T5Config(
            vocab_size=len(WORDS), d_model=16, d_kv=4, d_ff=24, num_layers=3, num_decoder_layers=2,
            num_heads=4, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
            attn_implementation="eager",
        )  # fmt: skip
        model = transformers.T5ForConditionalGeneration(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embed" not in name:
                weight.normal_(0, 0.6)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias[0, EOS] = 1.5
    return model.double().eval()  # float32 rounding would need a wide limit


@pytest.fixture(scope="module")
def networks():
    return {family: network(family) for family in ("marian", "bart", "t5")}


@pytest.fixture(scope="module")
def tokenizer():
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: id for id, word in enumerate(WORDS)}, "<unk>")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def batch(sentences, left: bool = False):
    """Return padded inputs of sentences."""
    longest = max(map(len, sentences))
    fill = [[PAD] * (longest - len(row)) for row in sentences]
    pairs = zip(fill, sentences, strict=True)
    ids = torch.tensor([pad + row if left else row + pad for pad, row in pairs])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def generate(model, inputs, **settings):
    settings = {"max_new_tokens": 9, "do_sample": False, **settings}
    return model.generate(
        **inputs, output_attentions=True, return_dict_in_generate=True, **settings
    )


def expected(model, source: list[int], written: list[int]) -> dict[str, np.ndarray]:
    """Return the maps of a teacher-forced pass; `written` includes the start token."""
    with torch.no_grad():
        out = model(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([written[:-1]]),
            output_attentions=True, use_cache=False,
        )  # fmt: skip
    layers = (out.encoder_attentions, out.decoder_attentions, out.cross_attentions)
    return {k: torch.cat(of_kind).numpy() for k, of_kind in zip(KINDS, layers, strict=True)}


def written_by(outputs, index: int, prefix: int = 1) -> list[int]:
    """Return a sequence's ids, up to and including the first <eos> after the prefix."""
    row = outputs.sequences[index].tolist()
    after = row[prefix:]
    return row[: prefix + after.index(EOS) + 1] if EOS in after else row


def assert_same(record, model, source: list[int], written: list[int]) -> None:
    assert [t.id for t in record.source] == source
    assert [t.id for t in record.target_in] == written[:-1]
    assert [t.id for t in record.target_out] == written[1:]
    for kind, maps in expected(model, source, written).items():
        np.testing.assert_allclose(record.maps(kind), maps, rtol=0, atol=1e-6, err_msg=kind)
    T = len(written) - 1
    assert np.array_equal(record.decoder_mask, np.tri(T, dtype=bool))
    assert record.cross_mask.all() and record.encoder_mask.all()
    assert [check.passed for check in record.checks] == [True, True]


SEARCHES = {
    "greedy": {},
    "without a cache": {"use_cache": False},
    "static cache": {"cache_implementation": "static"},
    "beam 4": {"num_beams": 4},
    "beam 4, three of each": {"num_beams": 4, "num_return_sequences": 3},
    "beam 3 without a cache": {"num_beams": 3, "use_cache": False},
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("family", ["marian", "bart", "t5"])
def test_maps_equal_a_teacher_forced_pass(networks, tokenizer, family, search):
    model, inputs = networks[family], batch(SENTENCES)
    outputs = generate(model, inputs, **SEARCHES[search])
    each = len(outputs.sequences) // len(SENTENCES)
    lengths, moved = set(), False
    for index in range(len(outputs.sequences)):
        record = TranslationRecord.from_generate(outputs, tokenizer, inputs, index=index)
        written = written_by(outputs, index)
        assert_same(record, model, SENTENCES[index // each], written)
        lengths.add(len(written))
        if "beam" in search:
            moved |= len(set(outputs.beam_indices[index, : len(written) - 1].tolist())) > 1
    if family == "t5":
        assert moved == ("beam" in search), "no hypothesis changes its row of the batch"
    else:
        assert len(lengths) > 1, "no sequence is padded"


ARCHITECTURES = {
    "marian": "MarianMTModel",
    "bart": "BartForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
}


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_transformer_lens_cache_equals_a_teacher_forced_pass(family):
    pytest.importorskip("transformer_lens")
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    same_depth = {
        "decoder_layers": 3,
        "decoder_attention_heads": 4,
    }  # for TransformerLens
    model, hooked = network(family, **same_depth), network(family, **same_depth)
    bridge = build_bridge_from_module(hooked, ARCHITECTURES[family], hf_config=hooked.config)
    source, written = SENTENCES[0], [EOS if family == "bart" else PAD, 9, 30, 12, 8, EOS]
    _, cache = bridge.run_with_cache(
        torch.tensor([source]), decoder_input=torch.tensor([written[:-1]])
    )
    names = [WORDS[id] for id in source], [WORDS[id] for id in written]
    truth = expected(model, source, written)
    record = TranslationRecord.from_transformer_lens(cache, names)
    assert [t.piece for t in record.target_in] == names[1][:-1]
    assert [t.piece for t in record.target_out] == names[1][1:]
    # Without the token that the last row predicts, that row is left out.
    shorter = TranslationRecord.from_transformer_lens(cache, (names[0], names[1][:-1]))
    assert [t.piece for t in shorter.target_in] == names[1][:-2]
    assert [t.piece for t in shorter.target_out] == names[1][1:-1]
    T = len(written) - 2
    for kind in KINDS:
        np.testing.assert_allclose(record.maps(kind), truth[kind], rtol=0, atol=1e-6)
        cut = {"encoder": np.s_[:], "decoder": np.s_[..., :T, :T], "cross": np.s_[..., :T, :]}[kind]
        np.testing.assert_allclose(shorter.maps(kind), truth[kind][cut], rtol=0, atol=1e-6)
    cache.remove_batch_dim()
    assert TranslationRecord.from_transformer_lens(cache, names) == record


def guide(with_text: str) -> str:
    """Return the guide's only example that contains this text."""
    text = (Path(__file__).parents[2] / "core/foreign/README.md").read_text(encoding="utf-8")
    (found,) = [
        example
        for example in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        if with_text in example
    ]
    return found


def test_the_guides_example_of_generate_runs(networks, tokenizer):
    names = {"model": networks["marian"], "tokenizer": tokenizer}
    names["TranslationRecord"] = TranslationRecord
    exec(guide("from_generate"), names)
    record = names["record"]
    assert [t.piece for t in record.source] == ["<unk>"] * 2  # the second of two, without padding
    assert record.cross.shape[:2] == (2, 2) and not record.log_probs.size


def test_the_guides_example_of_transformer_lens_runs(tokenizer):
    pytest.importorskip("transformer_lens")
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    hooked = network("marian", decoder_layers=3, decoder_attention_heads=4)
    names = {
        "bridge": build_bridge_from_module(
            hooked, ARCHITECTURES["marian"], hf_config=hooked.config
        ),
        "tokenizer": tokenizer,
        "source_ids": torch.tensor([SENTENCES[0]]),
        "target_ids": torch.tensor([[PAD, 9, 30, EOS]]),
        "TranslationRecord": TranslationRecord,
    }
    exec(guide("run_with_cache"), names)
    record = names["record"]
    assert [t.id for t in record.target_in] == [-1, -1, -1]
    assert [t.piece for t in record.target_out] == [WORDS[9], WORDS[30], WORDS[EOS]]
    assert record.cross.shape == (3, 4, 3, len(SENTENCES[0]))
