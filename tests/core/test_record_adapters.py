"""Adapters read outputs made by hand in the libraries' layout, so no library is needed.

test_records_of_libraries.py checks the layout with the libraries.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core.kinds import KINDS
from core.record.record import TranslationRecord
from tests.small import refused

PAD, EOS, UNK = 0, 1, 2
LAYERS, HEADS = {"encoder": 3, "decoder": 2, "cross": 2}, {"encoder": 4, "decoder": 2, "cross": 3}
BEAMS = 3


class Tokenizer:
    """The part of a Hugging Face tokenizer that the adapter uses."""

    pad_token_id, eos_token_id, unk_token_id = PAD, EOS, UNK
    all_special_ids, unk_token = (PAD, EOS, UNK), "<unk>"

    def __init__(self, mark: str = "▁") -> None:
        self.pieces = ["<pad>", "</s>", "<unk>", *(f"{mark}w{id}" for id in range(3, 30))]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.pieces[id] for id in ids]

    def decode(self, ids: list[int]) -> str:
        return "".join(f" decoded{id}" for id in ids)


SOURCES = [[5, 9, 8, EOS], [11, EOS], [7, 6, 10, 12, EOS]]
LONGEST = 5
WRITTEN = [[PAD, 20, 21, EOS], [PAD, 22, 23, 24, 25, 26], [PAD, EOS]]
"""Target ids with the start token; the second sentence was cut at the limit of five tokens."""
STEPS = 5


def probabilities(rng: np.random.Generator, *shape: int) -> np.ndarray:
    raw = rng.random(shape) + 0.05
    return raw / raw.sum(-1, keepdims=True)


def truth(index: int) -> dict[str, np.ndarray]:
    """Return the maps of a sentence: [layer, head, query, key]."""
    rng = np.random.default_rng(index)
    S, T = len(SOURCES[index]), len(WRITTEN[index]) - 1
    sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    maps = {k: probabilities(rng, LAYERS[k], HEADS[k], *sizes[k]) for k in KINDS}
    causal = np.tril(maps["decoder"])
    return maps | {"decoder": causal / causal.sum(-1, keepdims=True)}


def kept(index: int, left: bool) -> slice:
    length = len(SOURCES[index])
    return slice(LONGEST - length, None) if left else slice(length)


def generated(
    beams: bool, *, cache: bool = True, keys: int = 0, left: bool = False, prefix: int = 1
):
    """Return outputs of generate for the sentences: every row but the right one is noise.

    `keys` is the length of a static cache, or 0. The first step has `prefix` queries.
    """
    rng = np.random.default_rng(99)
    rows = len(SOURCES) * (BEAMS if beams else 1)
    steps = STEPS - (prefix - 1)
    paths = rng.integers(0, BEAMS, (len(SOURCES), steps)) + BEAMS * np.arange(len(SOURCES))[:, None]
    paths = paths if beams else np.repeat(np.arange(len(SOURCES))[:, None], steps, 1)
    by_step = {"decoder": [], "cross": []}
    for t in range(steps):
        end = prefix + t  # tokens fed in so far
        for kind, of_kind in by_step.items():
            width = LONGEST if kind == "cross" else max(keys, end)
            step = probabilities(rng, LAYERS[kind], rows, HEADS[kind], end, width)
            for index in range(len(SOURCES)):
                known = truth(index)[kind][:, :, :end]
                if end > known.shape[2]:
                    continue  # after <eos>
                row = np.zeros((*known.shape[:2], end, width))
                if kind == "cross":
                    row[..., kept(index, left)] = known
                else:
                    row[..., :end] = known[..., :end]
                step[:, paths[index, t]] = row
            if cache and t:
                step = step[..., -1:, :]
            of_kind.append(tuple(torch.from_numpy(layer) for layer in step))
    encoder = probabilities(
        rng, LAYERS["encoder"], len(SOURCES), HEADS["encoder"], LONGEST, LONGEST
    )
    for index in range(len(SOURCES)):
        at = kept(index, left)
        encoder[:, index] = 1 / LONGEST  # rows of padding
        encoder[:, index, :, at] = 0
        encoder[:, index, :, at, at] = truth(index)["encoder"]
    lengths = [len(written) - prefix for written in WRITTEN]
    sequences = [written + [PAD] * (STEPS + 1 - len(written)) for written in WRITTEN]
    outputs = SimpleNamespace(
        sequences=torch.tensor(sequences),
        encoder_attentions=tuple(torch.from_numpy(layer) for layer in encoder),
        decoder_attentions=tuple(by_step["decoder"]),
        cross_attentions=tuple(by_step["cross"]),
    )
    if beams:
        ended = np.arange(steps) >= np.array(lengths)[:, None]
        outputs.beam_indices = torch.from_numpy(np.where(ended, -1, paths))
    fill = [[PAD] * (LONGEST - len(source)) for source in SOURCES]
    pairs = zip(fill, SOURCES, strict=True)
    ids = torch.tensor([pad + source if left else source + pad for pad, source in pairs])
    return outputs, {"input_ids": ids, "attention_mask": (ids != PAD).long()}


FORMS = {
    "greedy": {"beams": False},
    "greedy without a cache": {"beams": False, "cache": False},
    "static cache": {"beams": False, "keys": 11},
    "beams": {"beams": True},
    "beams without a cache": {"beams": True, "cache": False},
    "beams in a static cache": {"beams": True, "keys": 11},
    "padded on the left": {"beams": True, "left": True},
    "three tokens fed in first": {"beams": True, "prefix": 3},
    "three fed in first, without a cache": {"beams": True, "prefix": 3, "cache": False},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_sentence_of_generate_gets_its_own_maps(form):
    outputs, inputs = generated(**form)
    for index, (source, written) in enumerate(zip(SOURCES, WRITTEN, strict=True)):
        if len(written) <= form.get("prefix", 1):
            continue
        record = TranslationRecord.from_generate(outputs, Tokenizer(), inputs, index=index)
        assert [t.id for t in record.source] == source
        assert [t.id for t in record.target_in] == written[:-1]
        assert [t.id for t in record.target_out] == written[1:]
        for kind, maps in truth(index).items():
            assert np.array_equal(record.maps(kind), maps.astype(np.float32)), kind
        assert all(check.passed for check in record.checks)


def test_several_sequences_of_a_sentence_share_its_source():
    outputs, inputs = generated(True)
    for name in ("sequences", "beam_indices"):  # each sentence's hypothesis, twice
        setattr(outputs, name, getattr(outputs, name).repeat_interleave(2, 0))
    for index in range(6):
        record = TranslationRecord.from_generate(outputs, Tokenizer(), inputs, index=index)
        assert [t.id for t in record.source] == SOURCES[index // 2]
        assert np.array_equal(record.encoder, truth(index // 2)["encoder"].astype(np.float32))


def test_encoder_maps_may_be_repeated_for_each_beam():
    outputs, inputs = generated(True)
    outputs.encoder_attentions = tuple(
        layer.repeat_interleave(BEAMS, 0) for layer in outputs.encoder_attentions
    )
    record = TranslationRecord.from_generate(outputs, Tokenizer(), inputs, index=2)
    assert np.array_equal(record.encoder, truth(2)["encoder"].astype(np.float32))


def test_tokens_carry_what_the_tokenizer_says():
    outputs, inputs = generated(False)
    inputs["input_ids"][0, 1] = UNK
    named = {"model": "toy", "source_language": "German", "target_language": "English"}
    record = TranslationRecord.from_generate(outputs, Tokenizer(), inputs, index=0, **named)
    assert [t.piece for t in record.source] == ["▁w5", "<unk>", "▁w8", "</s>"]
    assert record.tokens("source") == ["w5", "<unk>", "w8", "</s>"]
    assert [t.special for t in record.source] == [False, False, False, True]
    assert [t.unknown for t in record.source] == [False, True, False, False]
    assert (record.target_in[0].piece, record.target_in[0].special) == ("<pad>", True)
    assert (record.source_text, record.translation) == ("w5 <unk> w8", "w20 w21")
    assert (record.model, record.source_language, record.target_language) == (
        "toy", "German", "English",
    )  # fmt: skip
    assert record.search == "maps from Hugging Face generate"
    read = TranslationRecord.from_generate(outputs, Tokenizer("Ġ"), inputs, index=0, **named)
    assert read.tokens("target") == ["decoded20", "decoded21", "</s>"], "bytes are decoded"
    assert [t.piece for t in read.target_out] == ["Ġw20", "Ġw21", "</s>"]


def test_without_an_attention_mask_padding_is_known_by_its_id():
    outputs, inputs = generated(False)
    del inputs["attention_mask"]
    for given in (inputs, inputs["input_ids"]):
        record = TranslationRecord.from_generate(outputs, Tokenizer(), given, index=1)
        assert [t.id for t in record.source] == SOURCES[1]


SITES = {
    "encoder": "encoder_blocks.{}.attn.hook_pattern",
    "decoder": "decoder_blocks.{}.self_attn.hook_pattern",
    "cross": "decoder_blocks.{}.cross_attn.hook_pattern",
}
NAMES = [f"▁w{id}" for id in SOURCES[0]], ["<pad>", "▁w20", "▁w21", "</s>"]


def cached(sentences: tuple[int, ...] = (0,), batched: bool = True) -> dict[str, torch.Tensor]:
    """Return a cache with layers in reverse order and an entry that is not attention weights."""
    cache = {"decoder_blocks.0.self_attn.hook_v": torch.ones(1, 3, 2, 2)}
    for kind, name in SITES.items():
        for layer in reversed(range(LAYERS[kind])):
            patterns = torch.from_numpy(np.stack([truth(0)[kind][layer] for _ in sentences]))
            cache[name.format(layer)] = patterns if batched else patterns[0]
    return cache


def test_a_cache_is_read_with_the_tokens_fed_in_and_the_last_one_produced():
    for batched in (True, False):
        record = TranslationRecord.from_transformer_lens(cached(batched=batched), NAMES)
        for kind, maps in truth(0).items():
            assert np.array_equal(record.maps(kind), maps.astype(np.float32))
        assert record.tokens("target_in") == ["<pad>", "w20", "w21"]
        assert record.tokens("target") == ["w20", "w21", "</s>"]
        assert record.tokens("source") == [f"w{id}" for id in SOURCES[0]]
        assert record.search == "maps from TransformerLens"


def test_a_row_whose_produced_token_is_unknown_is_left_out():
    record = TranslationRecord.from_transformer_lens(cached(), (NAMES[0], NAMES[1][:-1]))
    assert record.tokens("target_in") == ["<pad>", "w20"]
    assert record.tokens("target") == ["w20", "w21"]
    known = truth(0)
    assert np.array_equal(record.cross, known["cross"][:, :, :2].astype(np.float32))
    assert np.array_equal(record.decoder, known["decoder"][:, :, :2, :2].astype(np.float32))


def test_caches_that_cannot_be_read_are_rejected_in_one_line():
    incomplete = cached()
    del incomplete[SITES["encoder"].format(1)]
    other = {"blocks.0.attn.hook_pattern": torch.ones(1, 1, 4, 4)}
    for message, cache, tokens in (
        ("not 2", cached((0, 0)), NAMES),
        ("the cache needs a hook_pattern", other, NAMES),
        ("the target needs two tokens", cached(), (NAMES[0], ["<pad>"])),
        ("the cache lacks the encoder pattern of layer 2", incomplete, NAMES),
        ("decoder has 3 queries and 3 keys", cached(), (NAMES[0], [*NAMES[1], "▁w9"])),
        ("encoder has 4 queries and 4 keys", cached(), (NAMES[0][1:], NAMES[1])),
    ):
        with refused(message):
            index = 2 if message == "not 2" else None
            TranslationRecord.from_transformer_lens(cache, tokens, index=index)
