"""A network with pieces, SiLU, a bias on a tied classifier, and <bos> in front of the source."""

import dataclasses

import numpy as np
import pytest

from core.analysis.alignment import Gold
from core.analysis.attribution import source_words
from core.atlas.corpus import corpus
from core.atlas.roles import ROLES, Facts, Maps, reordered
from core.config import DecodeConfig
from core.data.batches import encode_pairs
from core.experiments.aligning import word_maps
from core.experiments.attribution import attributions
from core.experiments.logit_lens import lens
from core.experiments.word_choice import word_choice
from core.record.checks import LOGIT_LIMIT, check
from core.record.edits import Edits
from core.record.record import TranslationRecord
from core.record.teacher_forced import teacher_forced_pass
from core.text.tokenizer import BOS, EOS, special
from core.training.scoring import evaluate
from core.translator import InputError, Translator
from tests import mixed_network, small

TEXT, REFERENCE = small.SENTENCES[0]


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> Translator:
    folder = tmp_path_factory.mktemp("mixed") / "mixed-de-en"
    return Translator.load(mixed_network.write(folder), "cpu")


@pytest.fixture(scope="module")
def record(translator) -> TranslationRecord:
    return translator.inspect(TEXT)


@pytest.fixture(scope="module")
def plain_ids(translator) -> list[int]:
    """The ids of the text, without <bos> and <eos>."""
    return [token.id for token in translator.checkpoint.source_tokenizer.encode(TEXT)]


def fed(translator, monkeypatch, run) -> list[list[int]]:
    """Return the source ids of each call of the encoder during `run`, without padding."""
    model, seen = translator.checkpoint.model, []
    encode = type(model).encode

    def watch(self, source_BS):
        seen.extend([id for id in row if id] for row in source_BS.tolist())
        return encode(self, source_BS)

    monkeypatch.setattr(type(model), "encode", watch)
    run()
    assert seen
    return seen


def test_every_way_to_the_network_feeds_bos_first(translator, plain_ids, monkeypatch):
    expected = [BOS, *plain_ids, EOS]
    ways = {
        "translate": lambda: translator.translate(TEXT),
        "many": lambda: translator.translate([TEXT, TEXT], batch_tokens=1),
        "inspect": lambda: translator.inspect(TEXT),
        "given target": lambda: translator.inspect(TEXT, REFERENCE),
        "inspect_many": lambda: translator.inspect_many([TEXT] * 2),
        "tree": lambda: translator.search_tree(TEXT),
        "score": lambda: evaluate(
            translator.checkpoint, [(TEXT, REFERENCE)], DecodeConfig(), "cpu"
        ),
        "align": lambda: word_maps(translator.checkpoint, (TEXT, REFERENCE)),
    }
    for name, run in ways.items():
        with monkeypatch.context() as patch:
            assert all(ids == expected for ids in fed(translator, patch, run)), name


def test_an_empty_text_stays_empty(translator):
    for translation in translator.translate(["", " \n", "\u200b"]):
        assert translation.text == ""
        assert [h.ids for h in translation.hypotheses] == [(EOS,)]
    assert translator.count_tokens(["", TEXT])[0] == 0
    assert [t.piece for t in translator.tokens("", "source")] == ["<eos>"]
    for run in (
        translator.inspect,
        translator.search_tree,
        lambda text: translator.inspect([text]),
    ):
        with pytest.raises(InputError, match="nothing to translate: type a sentence"):
            run(" ")
    ((source, target),) = encode_pairs([("", "")], *tokenizers(translator))
    assert (source, target) == ([EOS], [EOS])


def tokenizers(translator):
    return translator.checkpoint.source_tokenizer, translator.checkpoint.target_tokenizer


def test_only_the_source_starts_with_bos(translator, record):
    assert [(t.piece, t.special) for t in (record.source[0], record.source[-1])] == [
        *(("<bos>", True), ("<eos>", True)),
    ]
    assert not any(t.special for t in record.source[1:-1])
    given = translator.inspect(TEXT, REFERENCE)
    for one in (record, given):
        assert [t.piece for t in one.target_in].count("<bos>") == 1
        assert BOS not in [t.id for t in one.target_out]
    assert given.translation == REFERENCE


def test_a_target_has_no_bos_in_front_even_if_both_sides_share_a_tokenizer(translator):
    shared = translator.checkpoint.source_tokenizer
    both = dataclasses.replace(translator.checkpoint, target_tokenizer=shared)
    plain = [token.id for token in shared.encode(TEXT)]
    one = Translator(both, "cpu")
    assert [t.id for t in one.tokens(TEXT, "source")] == [BOS, *plain, EOS]
    assert [t.id for t in one.tokens(TEXT, "target")] == [*plain, EOS]
    assert list(encode_pairs([(TEXT, TEXT)], shared, shared)) == [
        ([BOS, *plain, EOS], [*plain, EOS])
    ]
    (sentence,) = corpus(both, [(TEXT, TEXT)]).sentences
    assert sentence.ids == ([BOS, *plain, EOS], [*plain, EOS])


def test_all_checks_pass_and_notice_a_missing_bos(translator, record):
    assert [c.passed for c in record.checks] == [True] * 8
    assert [c.passed for c in translator.recheck(record).checks] == [True] * 8
    without = dataclasses.replace(special(BOS), id=5, piece="x", text="x", special=False)
    wrong = dataclasses.replace(record, source=(without, *record.source[1:]), checks=())
    failed = {c.name for c in translator.recheck(wrong).checks if not c.passed}
    assert "Texts match the token ids" in failed


def test_rounding_of_a_barred_token_is_no_change_of_the_output(translator, record, monkeypatch):
    """At a logit of −10,000, float32 has steps of 0.001, above the limit: the check skips it."""
    assert np.spacing(np.float32(10_000)) > LOGIT_LIMIT
    ids = [[t.id for t in side] for side in (record.source, record.target_out)]
    hypotheses = [h.ids for h in record.hypotheses]
    model = translator.checkpoint.model
    evidence = teacher_forced_pass(model, *ids, Edits(), hypotheses).evidence
    assert (evidence.logits_TV[:, mixed_network.NEVER] < -9_000).all()
    for id, passed in ((mixed_network.NEVER, True), (7, False)):
        logits_TV = evidence.logits_TV.clone()
        logits_TV[1, id] += 0.002
        moved = dataclasses.replace(evidence, logits_TV=logits_TV)
        found = check(record, moved, tokenizers(translator))[-1]
        assert found.passed == passed


def test_bos_belongs_to_no_word(translator, record):
    words = source_words(record.source)
    assert ["".join(record.source[i].text for i in word) for word in words] == [
        *("Ein", "Hund", "läuft", "über", "die", "Wiese", "."),
    ]
    scores = attributions(translator, record)
    assert scores.words == words
    assert {score.shape[1] for score in scores.scores.values()} == {7}


def test_word_maps_have_the_words_of_the_text(translator):
    record = translator.inspect(TEXT, REFERENCE)
    maps = word_maps(translator.checkpoint, (TEXT, REFERENCE))["output", "weights"]
    assert maps.shape[-1] == len(TEXT.split())
    word_of, word = [], -1
    for token in record.source[1:-1]:
        word += token.starts_word
        word_of.append(word)
    rows_of, word = [], -1
    for token in record.target_out[:-1]:
        word += token.starts_word
        rows_of.append(word)
    one = record.cross[1, 2, :-1, 1:-1].astype(np.float64)
    expected = np.zeros((max(rows_of) + 1, max(word_of) + 1))
    for t, s in np.ndindex(expected.shape):
        rows = one[np.array(rows_of) == t]
        expected[t, s] = rows[:, np.array(word_of) == s].sum(1).mean()
    assert np.abs(maps[1, 2] - expected).max() < 1e-6


def test_a_corpus_keeps_bos_in_front(translator):
    (sentence,) = corpus(translator.checkpoint, [(TEXT, REFERENCE)]).sentences
    assert sentence.ids[0][0] == BOS and sentence.leads == (1, 0)
    assert BOS not in sentence.ids[1]
    shuffled = reordered(dataclasses.replace(sentence, index=3))
    assert (shuffled.source[0], shuffled.source[-1]) == (special(BOS), special(EOS))
    assert shuffled.source != sentence.source
    assert sorted(map(repr, shuffled.source)) == sorted(map(repr, sentence.source))
    (with_gold,) = corpus(translator.checkpoint, [(TEXT, REFERENCE)], [Gold.parse("1-1")]).sentences
    (role,) = (r for r in ROLES if r.name == "aligned to produced token")
    cells = role.targets(
        Maps("cross", with_gold, Facts.of(corpus(translator.checkpoint, [(TEXT, REFERENCE)])))
    )
    rows, columns = (set(map(int, axis)) for axis in cells.nonzero())
    assert "".join(with_gold.target[t].text for t in sorted(rows)) == "dog"
    assert "".join(with_gold.source[s].text for s in sorted(columns)) == "Hund"
    skipped = corpus(translator.checkpoint, [(TEXT, REFERENCE), ("", REFERENCE)]).skipped
    assert skipped == ("line 2 has an empty side",)


def test_the_bias_of_the_classifier_counts_in_word_choice_and_lens(translator, record):
    model = translator.checkpoint.model
    bias = model.embeddings.tied_bias.detach().double().numpy()
    step, words = 2, (record.target_out[2].id, mixed_network.NEVER)
    choice = word_choice(translator, record, step, words)
    assert abs(choice.terms[-1] - (bias[words[0]] - bias[words[1]])) < 1e-6
    assert abs(choice.terms.sum() - choice.difference) < 1e-2  # a float32 value near 10,000
    near = word_choice(translator, record, step, (words[0], 9))
    assert near.largest_error < 1e-4
    last = lens(translator, record)
    assert last.exact
    assert np.abs(last.written_probabilities[-1] - np.exp(record.log_probs)).max() < 1e-5
