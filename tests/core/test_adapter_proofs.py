"""What must be proven before outputs of generate become a record: ends, rows, sides and padding.

The outputs are made by hand in the library's layout; test_records_of_libraries.py uses the library.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core.record.record import TranslationRecord
from tests.core.test_record_adapters import (
    EOS,
    NAMES,
    PAD,
    SITES,
    STEPS,
    UNK,
    WRITTEN,
    Tokenizer,
    cached,
    generated,
    truth,
)
from tests.small import refused


class Ends(Tokenizer):
    """A tokenizer whose end tokens are those given."""

    def __init__(self, eos: int | None, sep: int | None = None, pad: int | None = PAD) -> None:
        super().__init__()
        self.eos_token_id, self.sep_token_id, self.pad_token_id = eos, sep, pad


HOW_SEQUENCES_END = {  # tokenizer, config, what fills up; whether a record is possible
    "eos": (Ends(EOS), None, PAD, True),
    "sep, without eos": (Ends(None, EOS), None, PAD, True),
    "eos before sep": (Ends(EOS, 20), None, PAD, True),
    "config before the tokenizer": (Ends(20, 21), {"eos_token_id": EOS}, PAD, True),
    "one of the ids of a config": (Ends(20), SimpleNamespace(eos_token_id=[29, EOS]), PAD, True),
    "the generation configuration of a model": (
        Ends(20), SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=(EOS,)),
                                  eos_token_id=20), PAD, True),
    "no end known, padding follows": (Ends(None), None, PAD, True),
    "another id, padding follows": (Ends(29), None, PAD, True),
    "a separator within a sequence": (Ends(None, 20), None, PAD, False),
    "a tokenizer's end within a sequence": (Ends(20), None, PAD, False),
    "filled with the end id": (Ends(20), {"eos_token_id": EOS}, EOS, True),
    "filled with an id that only config knows": (
        Ends(EOS), {"eos_token_id": [EOS], "pad_token_id": 28}, 28, True),
    "filled with an unknown id": (Ends(EOS), None, 28, False),
    "filled with the tokenizer's end": (Ends(EOS), None, EOS, False),
    "filled with an end id that nothing names": (Ends(29, pad=None), None, EOS, False),
}  # fmt: skip


@pytest.mark.parametrize("case", HOW_SEQUENCES_END.values(), ids=HOW_SEQUENCES_END)
@pytest.mark.parametrize("beams", [False, True])
def test_a_sequence_ends_where_it_is_proven_to_end(case, beams):
    tokenizer, config, fill, possible = case
    outputs, inputs = generated(beams)
    for index, written in enumerate(WRITTEN):
        outputs.sequences[index, len(written) :] = fill
    for index, written in enumerate(WRITTEN if possible else WRITTEN[:1]):
        named = {"index": index, "config": config}
        if not beams and not possible:
            with refused("pass config=model.generation_config"):
                TranslationRecord.from_generate(outputs, tokenizer, inputs, **named)
            continue
        record = TranslationRecord.from_generate(outputs, tokenizer, inputs, **named)
        assert [t.id for t in record.target_out] == written[1:]
        assert np.array_equal(record.cross, truth(index)["cross"].astype(np.float32))


def test_repetition_up_to_the_limit_is_kept():
    """Equal last tokens are no filler if all sequences end with them, or with different ones."""
    for lasts in ([9, 9, 9], [9, 8, 7]):
        outputs, inputs = generated(False)
        outputs.sequences[:, -2:] = torch.tensor(lasts)[:, None]
        outputs.sequences[:, 1:-2] = 20
        record = TranslationRecord.from_generate(outputs, Ends(29), inputs, index=1)
        assert len(record.target_out) == STEPS


SEPARATE = {
    "encoder": {"</s>": EOS, "<unk>": UNK, "<pad>": PAD, **{f"▁q{i}": i for i in range(3, 30)}},
    "target_encoder": {"</s>": EOS, "<unk>": UNK, "<pad>": 28,
                       **{f"▁z{i}": i for i in (0, *range(3, 28))}},
}  # fmt: skip


class SeparateVocabularies(Tokenizer):
    """Like MarianTokenizer: ids become target tokens, special ids are those of the source."""

    separate_vocabs = True
    encoder, target_encoder = SEPARATE.values()
    pad_token, eos_token, unk_token = all_special_tokens = ("<pad>", "</s>", "<unk>")

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        pieces = {id: piece for piece, id in self.target_encoder.items()}
        return [pieces[id] for id in ids]


def test_each_side_is_read_from_its_own_vocabulary():
    outputs, inputs = generated(False)
    outputs.sequences[outputs.sequences == PAD] = 28
    record = TranslationRecord.from_generate(outputs, SeparateVocabularies(), inputs, index=0)
    assert [t.piece for t in record.source] == ["▁q5", "▁q9", "▁q8", "</s>"]
    assert [t.piece for t in record.target_in] == ["<pad>", "▁z20", "▁z21"]
    assert record.target_out[-1].special and record.source[-1].special
    assert (record.source_text, record.translation) == ("q5 q9 q8", "z20 z21")
    outputs, inputs = generated(True)
    other = Tokenizer("▁source")
    record = TranslationRecord.from_generate(
        outputs, Tokenizer(), inputs, index=0, source_tokenizer=other
    )
    assert record.tokens("source") == ["sourcew5", "sourcew9", "sourcew8", "</s>"]
    assert record.tokens("target") == ["w20", "w21", "</s>"]


def from_generate(change, beams: bool = True, tokenizer=None, **named):
    outputs, inputs = generated(beams)
    change(outputs, inputs)
    tokenizer = tokenizer or Tokenizer()
    return TranslationRecord.from_generate(outputs, tokenizer, inputs, **({"index": 0} | named))


class Lenient(Tokenizer):
    """Like the library's slower tokenizers: an id beyond the vocabulary is the unknown token."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.pieces[id] if id < len(self.pieces) else self.unk_token for id in ids]


def lengthened(name: str, by: int):
    def change(outputs, _):
        steps = getattr(outputs, name)
        setattr(outputs, name, steps[:by] if by < 0 else steps + steps[-1:] * by)

    return change


def sized(source: int, target: int) -> dict:
    sides = {"encoder": SimpleNamespace(vocab_size=source)}
    return {"config": SimpleNamespace(**sides, decoder=SimpleNamespace(vocab_size=target))}


MIXED = {  # change, whether with beams, further arguments, and the line
    "beams of another sentence": (
        lambda o, i: o.beam_indices[0].fill_(4), True, {}, "rows 0 to 2"),
    "a beam index after the end": (
        lambda o, i: o.beam_indices[0].copy_(torch.tensor([0, -1, 0, 0, 0])), True, {}, "leave"),
    "no beam index": (lambda o, i: o.beam_indices[0].fill_(-1), True, {}, "leave its"),
    "an index beyond the batch": (lambda o, i: o.beam_indices[0].fill_(99), True, {}, "leave its"),
    "tokens after the last beam index": (
        lambda o, i: o.beam_indices[1, 2:].fill_(-1), True, {"index": 1}, "goes on after its 2"),
    "beams without their indices": (
        lambda o, i: delattr(o, "beam_indices"), True, {}, "beam_indices is missing"),
    "fewer steps than tokens": (
        lambda o, i: (lengthened("cross_attentions", -1)(o, i),
                      lengthened("decoder_attentions", -1)(o, i)), False, {},
        "5 tokens were produced, but ids and attention rows are there for 4"),
    "a kind with fewer steps": (lengthened("cross_attentions", -1), True, {}, "of 5 steps, but"),
    "a kind with more steps": (lengthened("decoder_attentions", 1), True, {}, "of 6 steps, but"),
    "shorter sequences": (
        lambda o, i: setattr(o, "sequences", o.sequences[:, :-1]), False, {}, "4 tokens were"),
    "padding called a token": (
        lambda o, i: (i["attention_mask"].fill_(1),
                      [layer[0, :, 4].copy_(layer[0, :, 3]) for layer in o.encoder_attentions]),
        True, {}, "as if it were padding"),
    "tokens called padding": (
        lambda o, i: i["attention_mask"][0, 1:].fill_(0), True, {}, "call padding"),
    "the inputs of another batch": (
        lambda o, i: i.update({k: v.flip(0) for k, v in i.items()}), True, {"index": 2}, "padding"),
    "attention of another batch": (
        lambda o, i: setattr(o, "cross_attentions", tuple(
            tuple(layer[:6] for layer in step) for step in o.cross_attentions)), True, {},
        "does not continue the steps before|do not fit"),
    "another number of encoder sentences": (
        lambda o, i: setattr(o, "encoder_attentions", tuple(
            layer[:2] for layer in o.encoder_attentions)), True, {}, "does not fit 3 sentences"),
    "no input ids": (lambda o, i: i.clear(), True, {}, "inputs has no input_ids"),
    "a mask of another length": (
        lambda o, i: i.update(attention_mask=torch.ones(3, 4)), True, {}, "attention_mask is"),
    "a masked token fed in first": (
        lambda o, i: i.update(decoder_attention_mask=torch.tensor([[0], [1], [1]])), True, {},
        "masks tokens fed in first"),
    "ids that are not numbers": (
        lambda o, i: setattr(o, "sequences", o.sequences * float("nan")), True, {}, "whole num"),
    "ids beyond the vocabulary": (
        lambda o, i: o.sequences[0, 1].fill_(77), True, {}, "no target token with id 77"),
    "ids that the tokenizer calls unknown": (
        lambda o, i: o.sequences[0, 1].fill_(77), True, {"tokenizer": Lenient()},
        "no target token with id 77"),
    "no tokenizer": (
        lambda o, i: None, True, {"tokenizer": object()}, "tokenizer is object, which has no"),
    "two vocabularies, one tokenizer": (
        lambda o, i: None, True, sized(38, 28), "source_tokenizer="),
    "a network for a name": (lambda o, i: None, True, {"model": object()}, "model is object"),
    "no eager attention": (
        lambda o, i: vars(o).update(encoder_attentions=(), cross_attentions=((),) * 5,
                                    decoder_attentions=((),) * 5), True, {}, "attn_implementation"),
    "a fused kernel's weights": (
        lambda o, i: setattr(o, "cross_attentions", ((None,),)), True, {}, "attn_implementation"),
    "no decoder attention": (
        lambda o, i: delattr(o, "decoder_attentions"), True, {}, "attn_implementation"),
    "the inputs of fewer sentences": (
        lambda o, i: i.update({k: v[:2] for k, v in i.items()}), True, {}, "do not fit the out"),
    "shorter inputs": (
        lambda o, i: i.update({k: v[:, :4] for k, v in i.items()}), True, {}, "do not fit the out"),
    "a forward pass": (
        lambda o, i: delattr(o, "sequences"), True, {}, "pass its maps to from_arrays"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "beams", "named", "line"), MIXED.values(), ids=MIXED)
def test_outputs_that_do_not_belong_together_are_rejected_with_the_cause(
    change, beams, named, line
):
    with refused(line):
        from_generate(change, beams, **named)


def test_equal_vocabulary_sizes_need_one_tokenizer():
    assert from_generate(lambda o, i: None, True, **sized(30, 30)).has("cross")


@pytest.mark.parametrize("rows", [3, 4])
def test_patterns_of_different_runs_are_rejected(rows):
    cache = cached((0, 0)) | {SITES["cross"].format(0): torch.ones(rows, 3, 3, 4) / 4}
    with pytest.raises(ValueError, match="pass the cache of one run"):
        TranslationRecord.from_transformer_lens(cache, NAMES, index=0)
