"""The notebook API: data frames, repr, batches of records, activations, experiments."""

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from core.config import DecodeConfig
from core.experiments.bugs import bug_pass
from core.experiments.logit_lens import decoder_lens, decoder_lenses, lens, lenses
from core.experiments.padding import padding_effect
from core.experiments.positions import equivariance, extrapolation
from core.experiments.score_parts import embedded, score_parts, scores
from core.experiments.score_split import score_split
from core.experiments.site import site
from core.experiments.values import value_norms
from core.experiments.word_choice import true_change, word_choice
from core.kinds import KINDS
from core.record import teacher_forced
from core.record.edits import Edits
from core.record.record import RecordCheck, TranslationRecord
from core.translator import InputError
from tests import small

SENTENCES = [source for source, _ in small.SENTENCES]
ARRAYS = ("encoder", "decoder", "cross", "log_probs", "alternative_log_probs")


@pytest.fixture(scope="module")
def records(translator):
    return [translator.inspect(text) for text in SENTENCES]


@pytest.fixture(scope="module")
def record(records):
    return records[1]


def test_attention_is_indexed_and_tokens_are_listed_by_side(record):
    attention = record.attention
    assert np.array_equal(attention("cross", 1, 0), record.cross[1, 0])
    assert np.array_equal(attention["cross", 1, 0], record.cross[1, 0])
    assert np.array_equal(attention["encoder", -1], record.encoder[-1])
    assert np.shares_memory(attention["decoder"], record.decoder)
    assert attention["cross", :, 1].shape == record.cross[:, 1].shape
    assert record.tokens("source") == [t.text for t in record.source]
    assert record.tokens("target") == [t.text for t in record.target_out]
    assert record.tokens("target_in")[0] == "<bos>"
    assert record.tokens("target_in")[1:] == record.tokens("target")[:-1]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda r: r.attention("across", 0, 0),
            "unknown kind 'across': choose encoder, decoder or",
        ),
        (lambda r: r.attention("encoder", 1, 0), "encoder has no layer 1: .*end at 0"),
        (lambda r: r.attention("cross", 0, 2), "cross has no head 2: .*end at 1"),
        (lambda r: r.attention["cross", -4], "cross has no layer -4"),
        (lambda r: r.attention["crosss"], "unknown kind 'crosss'"),
        (lambda r: r.to_dataframe("all"), "unknown kind 'all'"),
        (lambda r: r.maps("x"), "unknown kind 'x': choose encoder, decoder or cross"),
        (lambda r: r.mask("x"), "unknown kind 'x'"),
        (lambda r: r.entropy("x"), "unknown kind 'x'"),
        (lambda r: r.tokens("both"), "unknown side 'both': choose source, target or target_in"),
        (lambda r: r.words("both"), "unknown side 'both'"),
    ],
)
def test_unknown_kinds_layers_heads_and_sides_are_rejected(record, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(record)


class _Read(HTMLParser):
    """The tags, attributes and text of an HTML page."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_the_html_card_shows_texts_and_checks(record):
    shown = _Read(record._repr_html_())
    for part in (record.source_text, record.translation, "scratch-de-en", "beam 5", "German"):
        assert part in shown.text
    assert "Checks: 8 of 8 passed" in shown.text and shown.text.count("✓") == 8
    failed = dataclasses.replace(record.checks[0], passed=False, figure=1.0)
    red = dataclasses.replace(record, checks=(failed, *record.checks[1:]))
    assert "Checks: 7 of 8 passed" in red._repr_html_() and f"✗ {failed.name}" in red._repr_html_()
    assert "Not checked" in dataclasses.replace(record, checks=())._repr_html_()


def test_the_html_card_escapes_texts(record):
    hostile = '<img src=x onerror="alert(1)"></div><script>alert(1)</script>&amp;'
    check = RecordCheck(hostile, True, 0.0, 0.0, hostile)
    names = ("model", "source_language", "target_language", "source_text", "translation")
    bad = dataclasses.replace(record, checks=(check,), **dict.fromkeys(names, hostile))
    clean, shown = _Read(record._repr_html_()), _Read(bad._repr_html_())
    assert set(shown.tags) == set(clean.tags) and not {"img", "script"} & set(shown.tags)
    assert shown.attributes == clean.attributes == {"style"}
    assert shown.text.count(hostile) == 6
    long = dataclasses.replace(record, translation="x" * 100_000)
    assert len(long._repr_html_()) < 5000


def test_the_repr_of_a_translator_names_model_direction_size_and_device(translator):
    assert repr(translator) == (
        f"Translator(scratch-de-en, German → English, scratch, "
        f"{translator.card.parameters:,} weights, cpu)"
    )


def test_the_log_probability_of_a_translation_is_that_of_its_best_hypothesis(translator):
    (translation,) = translator.translate(SENTENCES[:1])
    assert translation.log_prob == translation.hypotheses[0].log_prob < 0


def assert_same(many: TranslationRecord, one: TranslationRecord) -> None:
    """Assert equal fields: weights to 1e-5 and log-probabilities to 1e-4, as in the checks."""
    for field in dataclasses.fields(TranslationRecord):
        a, b = getattr(many, field.name), getattr(one, field.name)
        if field.name in ARRAYS:
            limit = 1e-5 if field.name in KINDS else 1e-4
            assert a.shape == b.shape and np.abs(a - b).max() < limit, field.name
        elif isinstance(a, np.ndarray):
            assert np.array_equal(a, b), field.name
        elif field.name == "hypotheses":
            assert [(h.text, h.ids) for h in a] == [(h.text, h.ids) for h in b]
            assert np.allclose([h.score for h in a], [h.score for h in b], atol=1e-4)
        elif field.name == "checks":
            assert [(c.name, c.limit) for c in a] == [(c.name, c.limit) for c in b]
        elif field.name != "activations":
            assert a == b, field.name
    assert all(check.passed for check in many.checks)


@pytest.mark.parametrize("batch_tokens", [1, 150, 2048])
@pytest.mark.parametrize("decode", [DecodeConfig(), DecodeConfig(beam=1)])
def test_inspect_many_equals_inspect(translator, batch_tokens, decode):
    texts = [*SENTENCES, "Ja.", SENTENCES[0]]
    done = []
    found = translator.inspect_many(
        texts, decode=decode, batch_tokens=batch_tokens, on_progress=done.append
    )
    assert len({len(r.source) for r in found}) > 3, "no padding is tested"
    for text, many in zip(texts, found, strict=True):
        assert_same(many, translator.inspect(text, decode=decode))
    assert sum(done) == len(texts)
    assert (len(done) == len(texts)) == (batch_tokens == 1)


def test_inspect_many_equals_inspect_with_targets_and_activations(translator):
    targets = [target for _, target in reversed(small.SENTENCES)]
    for model in (translator, translator.other_implementation()):
        found = model.inspect_many(SENTENCES, targets, activations=True)
        for text, target, many in zip(SENTENCES, targets, found, strict=True):
            one = model.inspect(text, target, activations=True)
            assert_same(many, one)
            assert_same_activations(many.activations, one.activations)


def assert_same_activations(some, others) -> None:
    for field in dataclasses.fields(some):
        a, b = getattr(some, field.name), getattr(others, field.name)
        assert a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-4), field.name


def test_batches_are_bounded_by_batch_tokens(translator, monkeypatch):
    fed = []
    whole = teacher_forced.teacher_forced_passes

    def spy(model, inputs, *rest, **named):
        rows = sum(1 + len(one.rows) for one in inputs)
        fed.append((len(inputs), rows * max(one.longest for one in inputs)))
        return whole(model, inputs, *rest, **named)

    monkeypatch.setattr("core.translator.teacher_forced_passes", spy)
    assert translator.inspect_many([]) == [] and fed == []
    translator.inspect_many(SENTENCES * 3, batch_tokens=200)
    assert max(count for count, _ in fed) > 1
    assert all(tokens <= 200 or count == 1 for count, tokens in fed)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((["Ja.", ""],), InputError, "sentence 2: nothing to translate"),
        ((["Ja."], "Yes."), TypeError, "takes a list of texts"),
        ((["Ja."], []), ValueError, "1 sources and 0 targets"),
    ],
)
def test_invalid_lists_are_rejected_before_any_work(
    translator, monkeypatch, arguments, error, message
):
    monkeypatch.setattr("core.translator.translate_ids", None)
    monkeypatch.setattr("core.translator.teacher_forced_passes", None)
    with pytest.raises(error, match=message):
        translator.inspect_many(*arguments)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_hidden_states_match_each_sublayer_by_hand(architecture, norm_first):
    baseline, scratch = small.pair(norm_first=norm_first)
    network = (scratch if architecture == "scratch" else baseline).float()
    source, target = small.source_row(6), small.source_row(5)
    seen = teacher_forced.teacher_forced_pass(network, source, target, activations=True)
    found = seen.activations
    S, T, D = 6, 5, network.config.d_model
    assert found.encoder_states.shape == (network.config.num_encoder_layers, 2, S, D)
    assert found.decoder_states.shape == (network.config.num_decoder_layers, 3, T, D)
    causal = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
    # Run the sub-layers of the scratch model by hand, one after the other.
    hand = scratch.float()
    memory = torch.from_numpy(found.encoder_output.copy())[None]
    with torch.no_grad():
        for side, x in (("encoder", found.source_embeddings), ("decoder", found.target_embeddings)):
            states = getattr(found, f"{side}_states")
            x = torch.from_numpy(x.copy())[None]
            for layer, kept in zip(hand.stack(side).layers, states, strict=True):
                subs = [lambda h, at=layer.self_attention: at(h, h, None)[0], layer.feed_forward]
                if side == "decoder":
                    subs[0] = lambda h, at=layer.self_attention, m=causal: at(h, h, m)[0]
                    subs.insert(1, lambda h, at=layer.cross_attention: at(h, memory, None)[0])
                norms = [layer.norm1, layer.norm2, getattr(layer, "norm3", None)]
                for sub, norm, state in zip(subs, norms, kept, strict=False):
                    x = x + sub(norm(x)) if norm_first else norm(x + sub(x))
                    assert np.abs(x[0].numpy() - state).max() < 1e-4
            output = hand.stack(side).norm(x)[0].numpy()
            assert np.abs(output - getattr(found, f"{side}_output")).max() < 1e-4
        logits = hand.classify(torch.from_numpy(found.decoder_output.copy()))
    assert (logits - seen.evidence.logits_TV).abs().max() < 1e-4


def test_activations_do_not_change_the_record(translator, record, tmp_path):
    with_them = translator.inspect(SENTENCES[1], activations=True)
    assert record.activations is None
    assert with_them.id == record.id and repr(with_them) == repr(record)
    for kind in KINDS:
        scores_LHQK = np.where(record.mask(kind), with_them.activations.scores(kind), -np.inf)
        shares = np.exp(scores_LHQK - scores_LHQK.max(-1, keepdims=True))
        weights = shares / shares.sum(-1, keepdims=True)
        assert np.abs(weights - record.maps(kind)).max() < 1e-5
    assert len(repr(with_them.activations)) < 500
    with pytest.raises(ValueError, match="read-only"):
        with_them.activations.cross_scores[0] = 0
    with_them.save(tmp_path / "record.npz")
    again = TranslationRecord.load(tmp_path / "record.npz")
    assert again.id == record.id and again.activations is None
    for module in translator._model.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("cross_scores", lambda a: a + np.arange(a.shape[-1], dtype=a.dtype), "off the weights"),
        ("encoder_scores", lambda a: a * np.float32(np.nan), "off the weights"),
        ("decoder_scores", lambda a: a[:, ::-1].copy(), "off the weights"),
        ("encoder_states", lambda a: a[:, :1].copy(), "axis 2 should be 2"),
        ("decoder_output", lambda a: a.astype(np.float64), "float64"),
        ("target_embeddings", lambda a: a[1:].copy(), "axis T"),
    ],
)
def test_inconsistent_activations_are_rejected(translator, name, spoil, message):
    record = translator.inspect(SENTENCES[1], activations=True)
    wrong = {name: spoil(getattr(record.activations, name))}
    with pytest.raises(ValueError, match=message):
        activations = dataclasses.replace(record.activations, **wrong)
        dataclasses.replace(record, activations=activations)


EXPERIMENTS = {  # by the first arguments that it takes instead of a record
    "norms": (value_norms, "pass", ()),
    "scores": (scores, "pass", ()),
    "parts": (score_parts, "pass", ("encoder",)),
    "site": (site, "pass", ("cross", 1)),
    "bug": (bug_pass, "pass", ("swapped",)),
    "split": (score_split, "pass", ("cross", 1, 0, 1, 1)),
    "choice": (word_choice, "pass", (1, (5, 6))),
    "lens": (lens, "pass", ()),
    "decoder lens": (decoder_lens, "pass", ()),
    "extrapolation": (extrapolation, "pass", ((0, 2),)),
    "equivariance": (equivariance, "source", ((1, 0, 3, 2, 4), False)),
    "source embedded": (embedded, "source", ("source",)),
    "target embedded": (embedded, "target_in", ("target",)),
    "padding": (padding_effect, "batch", (2,)),
    "lenses": (lenses, "batch", ()),
    "decoder lenses": (decoder_lenses, "batch", ()),
}


@pytest.mark.parametrize(("question", "takes", "rest"), EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_experiments_take_a_translator_and_records(translator, records, question, takes, rest):
    sides = [
        [[t.id for t in getattr(r, side)] for r in records] for side in ("source", "target_out")
    ]
    one = records[1]
    ids = {
        "pass": [side[1] for side in sides],
        "source": [sides[0][1]],
        "target_in": [[t.id for t in one.target_in]],
        "batch": sides,
    }[takes]
    with translator.exclusive_model() as network:
        expected = question(network, *ids, *rest)
    found = question(translator, records if takes == "batch" else one, *rest)
    assert numbers(expected)
    for a, b in zip(numbers(found), numbers(expected), strict=True):
        assert np.array_equal(a, b)


def test_a_true_change_is_that_of_the_ids(translator, record):
    ids = [[t.id for t in side] for side in (record.source, record.target_out)]
    off = Edits(heads_off=frozenset({("cross", 1, 0)}))
    with translator.exclusive_model() as network:
        changed = true_change(network, *ids, 1, (5, 6), off)
    assert true_change(translator, record, 1, (5, 6), off) == changed != 0


def numbers(value: object) -> list[np.ndarray]:
    """Return all arrays in a result, in order."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return [a for part in value.values() for a in numbers(part)]
    if isinstance(value, tuple | list):
        return [a for part in value for a in numbers(part)]
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    return [a for f in fields for a in numbers(getattr(value, f.name))]


def test_experiments_reject_records_of_another_model(translator, record):
    other = dataclasses.replace(record, weights_sha256="0" * 64)
    held = translator.inspect(SENTENCES[1], edits=Edits(hidden_source=(1,)))
    edited = dataclasses.replace(held, edits=Edits(), lost_edits=True)
    for wrong, message in ((other, "other weights"), (edited, "under edits")):
        with pytest.raises(ValueError, match=f"cannot be run for this record: .*{message}"):
            value_norms(translator, wrong)
        with pytest.raises(ValueError, match=message):
            padding_effect(translator, [record, wrong], 0)
    assert not translator._lock.locked()
