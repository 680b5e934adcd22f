"""Tokenizers of T5, mBART-50, M2M100, NLLB, BART and FSMT folders, read and refused."""

import base64
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacremoses
import sentencepiece
import tokenizers
from tokenizers import normalizers, pre_tokenizers

from core.foreign.family import Vocabulary
from core.foreign.importing import lines_of
from core.text import load
from core.text.splitting import split
from core.text.tokenizer import BOS, EOS, PAD, UNK, encode_source, normalise
from tests.app.texts import TEXTS
from tests.tokenizer_folders import (
    CODES,
    JOINT,
    LINES,
    ROLES,
    SCRIPTS,
    model,
    pieces,
    put,
    read,
    write,
)

FAMILIES = (*JOINT, "fsmt")
MARKS = {"t5": [], "mbart": ["de_DE"], "m2m100": ["__de__"], "nllb": ["deu_Latn"], "bart": ["<s>"]}
LANGUAGES = {"mbart": ("de_DE", "en_XX"), "m2m100": ("de", "en"), "nllb": ("deu_Latn", "eng_Latn")}
TYPED = ["</s>", "<s>", "<pad>", "<unk>", "<mask>", "<extra_id_0>", "de_DE", "__de__", "deu_Latn"]
HOSTILE = [*TEXTS, "…" * 40, "aaaaa" * 30, ". . ...", "½ﬁ①㎏ﷺ", "e\u0301\u0308", "👩🏽‍🚀", "ｱﾞ한ᄒ"]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with each family's files."""
    folder = tmp_path_factory.mktemp("folders")
    for family in FAMILIES:
        write(folder / family, family)
    return folder


def original(vocabulary: Vocabulary, text: str) -> list[int]:
    """Return the original's ids of our tokens, as a network reads them."""
    return [int(vocabulary.rows[token.id]) for token in encode_source(vocabulary.tokenizer, text)]


def theirs(place: Path, family: str) -> Callable[[str], list[int]]:
    """Return an encoder by other code: SentencePiece, the tokenizers library, or BPE by hand."""
    folder = place / family
    if family == "fsmt":
        return by_hand(folder)
    if family == "bart":
        files = (str(folder / "vocab.json"), str(folder / "merges.txt"))
        one = tokenizers.ByteLevelBPETokenizer.from_file(*files)
        return lambda text: one.encode(text).ids
    name = "spiece.model" if family == "t5" else "sentencepiece.bpe.model"
    processor = sentencepiece.SentencePieceProcessor(str(folder / name))
    if family == "t5":
        return processor.encode
    return lambda text: [id + 1 if id else 3 for id in processor.encode(text)]  # <unk> is 0 there


def by_hand(folder: Path) -> Callable[[str], list[int]]:
    """Byte-pair encoding of Moses' words, as Sennrich et al. 2016 describe it."""
    merges = [line.split()[:2] for line in (folder / "merges.txt").read_text().splitlines()]
    ids = json.loads((folder / "vocab-src.json").read_text())
    clean = sacremoses.MosesPunctNormalizer("de", pre_replace_unicode_punct=True)
    words = sacremoses.MosesTokenizer("de")

    def encode(text: str) -> list[int]:
        found = []
        plain = "".join(c for c in clean.normalize(text) if c.isprintable() or c == " ")
        for word in words.tokenize(plain, aggressive_dash_splits=True):
            symbols = [*word[:-1], f"{word[-1]}</w>"]
            for first, second in merges:
                at = 0
                while at < len(symbols) - 1:
                    if symbols[at : at + 2] == [first, second]:
                        symbols[at : at + 2] = [first + second]
                    at += 1
            found += [ids.get(symbol, 3) for symbol in symbols]
        return found

    return encode


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_have_the_originals_ids(place, family):
    vocabulary, encode = read(place / family, family), theirs(place, family)
    in_front = [vocabulary.tokenizer.piece(id) for id in vocabulary.tokenizer.first]
    assert in_front == MARKS.get(family, [])
    first = [int(vocabulary.rows[id]) for id in vocabulary.tokenizer.first]
    lines = [*LINES[:17], *SCRIPTS, *map(normalise, HOSTILE), *lines_of(vocabulary, 150)]
    lines = [normalise(line) for line in lines if normalise(line)]
    if family == "fsmt":  # what is printable differs by Python's version
        lines = [line for line in lines if line.isprintable()]
    for line in lines:
        expected = first + encode(line) if encode(line) else []
        assert original(vocabulary, line) == expected, ascii(line)
        if vocabulary.original:
            assert list(vocabulary.original(line)) == expected, ascii(line)
    again = load(vocabulary.tokenizer.to_json())
    assert [again.encode(line) for line in lines] == [
        vocabulary.tokenizer.encode(line) for line in lines
    ]
    assert again.to_json() == vocabulary.tokenizer.to_json()


@pytest.mark.parametrize("family", FAMILIES)
def test_known_text_survives_and_special_tokens_are_not_written(place, family):
    tokenizer = read(place / family, family).tokenizer
    for line in [*LINES[:12], SCRIPTS[0], SCRIPTS[2]]:
        ids = [token.id for token in tokenizer.encode(line)]
        if UNK not in ids:
            marked = [BOS, *tokenizer.frame.special, *ids, EOS, PAD]
            assert tokenizer.decode(marked) == line
    assert UNK not in [token.id for token in tokenizer.encode(LINES[0])]
    for id in tokenizer.frame.special:
        assert tokenizer.token(id).special and tokenizer.token(id).text == tokenizer.piece(id)


@pytest.mark.parametrize("family", FAMILIES)
def test_typed_special_tokens_are_text(place, family):
    tokenizer = read(place / family, family).tokenizer
    special = tokenizer.frame.special
    assert special
    for typed in [*TYPED, *(tokenizer.piece(id) for id in sorted(special)[:200])]:
        for text in (typed, f"Ein {typed} Hund", f"☃{typed}", typed * 2):
            assert not special.intersection(token.id for token in tokenizer.encode(text)), text


@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_of_the_table_has_one_id(place, family):
    vocabulary, roles = read(place / family, family), ROLES[family]
    rows = vocabulary.rows.tolist()
    assert set(range(max(rows) + 1)) == set(rows) - {-1}
    assert (rows[BOS], rows[EOS]) == (roles["start"], roles["end"])
    assert vocabulary.tokenizer.size == len(rows)
    twice = {row for row in rows if rows.count(row) > 1}
    assert twice == ({roles["end"]} if roles["start"] == roles["end"] else set())


@pytest.mark.parametrize("family", LANGUAGES)
def test_languages_are_chosen_by_their_codes(place, family):
    source, target = LANGUAGES[family]
    frame = read(place / family, family).tokenizer.frame
    assert frame.first == (frame.languages[source],) and frame.forced == (frame.languages[target],)
    chosen = read(place / family, family, codes=(target, source)).tokenizer
    assert chosen.frame.first == frame.forced and chosen.frame.forced == frame.first
    back = chosen.between(source, target)
    assert back.frame == frame and chosen.frame.first == frame.forced
    with pytest.raises(ValueError, match=f"no language 'xx': the nearest of its .* {target}|xx"):
        chosen.between(None, "xx")
    with pytest.raises(ValueError, match=r"the nearest of its \d+ codes are"):
        read(place / family, family, codes=("klingon", None))


def test_a_language_of_several_codes_must_be_named(place):
    folder = place / "nllb"
    with pytest.raises(ValueError, match="2 codes for Chinese .*--to-lang, such as zho_Hans, zho"):
        read(folder, "nllb", languages=("de", "zh"))
    with pytest.raises(ValueError, match="no codes for French .*--from-lang"):
        read(folder, "nllb", languages=("fr", "de"))
    frame = read(folder, "nllb", languages=("de", "zh"), codes=(None, "zho_Hant")).tokenizer.frame
    assert frame.forced == (frame.languages["zho_Hant"],) and set(frame.languages) == set(CODES)


def test_a_check_takes_any_codes_that_are_there(place, tmp_path):
    given = {"languages": ("fr", "zh"), "any_codes": True}
    assert codes_of(read(place / "nllb", "nllb", **given)) == ["ace_Arab", "ace_Arab"]
    shutil.copytree(place / "nllb", tmp_path / "nllb")
    put(tmp_path / "nllb", "tokenizer_config.json", {"src_lang": "zho_Hans", "tgt_lang": "xx"})
    own = read(tmp_path / "nllb", "nllb", **given)
    assert codes_of(own) == ["zho_Hans", "ace_Arab"]
    named = read(tmp_path / "nllb", "nllb", codes=("eng_Latn", None), **given)
    assert codes_of(named) == ["eng_Latn", "ace_Arab"]


def codes_of(vocabulary: Vocabulary) -> list[str]:
    frame = vocabulary.tokenizer.frame
    of = {id: code for code, id in frame.languages.items()}
    return [of[id] for id in (*frame.first, *frame.forced)]


def test_a_network_without_codes_says_so(place):
    with pytest.raises(ValueError, match="has no language codes: leave out 'de_DE'"):
        read(place / "t5", "t5").tokenizer.between("de_DE", None)


def test_the_task_of_t5_is_read_and_can_be_changed(place):
    folder = place / "t5"
    assert read(folder, "t5").tokenizer.frame.prefix == "translate German to English: "
    assert read(folder, "t5", languages=("en", "de")).tokenizer.frame.prefix == ""
    assert read(folder, "t5", prefix="summarize: ").tokenizer.frame.prefix == "summarize: "


def test_the_sentinels_of_t5_have_its_ids(place):
    """The last one is first: <extra_id_0> is 32,099 of 32,100 in the original."""
    vocabulary = read(place / "t5", "t5")
    ids = {vocabulary.tokenizer.piece(n): int(row) for n, row in enumerate(vocabulary.rows)}
    behind = len(pieces(T5_IDS))
    assert [ids[f"<extra_id_{n}>"] for n in (99, 98, 0)] == [behind, behind + 1, behind + 99]
    assert ids[f"<unused_{behind + 100}>"] == behind + 100


def library(folder: Path, family: str, **changes: Any) -> Path:
    """Replace a family's files by the tokenizer.json that the library would save."""
    vocabulary = read(folder, family)
    tokenizer, ids = vocabulary.tokenizer, vocabulary.theirs_to_ours
    pieces = [tokenizer.piece(ids[id]) for id in range(len(ids))]
    for role, id in ROLES[family].items():
        pieces[id] = {"pad": "<pad>", "end": "</s>"}.get(role, pieces[id])
    special = [
        {"id": id, "content": piece, "special": True}
        for id, piece in enumerate(pieces)
        if id < 3 + (family != "t5") or ids[id] in tokenizer.frame.special
    ]
    if family == "bart":
        merges = [line.split() for line in (folder / "merges.txt").read_text().split("\n")[1:-1]]
        kind = {"type": "BPE", "vocab": dict(zip(pieces, range(len(pieces)), strict=True))}
        kind["merges"] = merges
        steps = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
        normal = None
    else:
        values = tokenizer.to_json()
        scores = dict(zip(values["vocabulary"], values["scores"], strict=True))
        one = tokenizers.Tokenizer(tokenizers.models.Unigram())
        one.normalizer = normalizers.Precompiled(base64.b64decode(values["charsmap"]))
        normal = json.loads(one.to_str())["normalizer"]
        steps = [pre_tokenizers.Metaspace(prepend_scheme="always")]
        listed = [[piece, scores.get(piece) or 0.0] for piece in pieces]
        kind = {"type": "Unigram", "unk_id": pieces.index("<unk>"), "vocab": listed}
        if values.get("bpe"):
            known = sorted((p for p in scores if scores[p] is not None), key=lambda p: -scores[p])
            merges = [
                [piece[:at], piece[at:]]
                for piece in known
                for at in range(1, len(piece))
                if {piece[:at], piece[at:]} <= set(known)
            ]
            kind = {"type": "BPE", "vocab": {p: id for id, p in enumerate(pieces)}}
            kind["merges"] = merges
    one = tokenizers.Tokenizer(tokenizers.models.BPE())
    one.pre_tokenizer = pre_tokenizers.Sequence(steps)
    split_ = json.loads(one.to_str())["pre_tokenizer"]
    file = {"added_tokens": special, "normalizer": normal, "pre_tokenizer": split_, "model": kind}
    for name in ("spiece.model", "sentencepiece.bpe.model", "vocab.json", "merges.txt"):
        if family != "bart" or name != "vocab.json":
            (folder / name).unlink(missing_ok=True)
    put(folder, "tokenizer.json", file | changes)
    return folder


@pytest.mark.parametrize("family", ["t5", "mbart", "nllb"])
def test_tokenizer_json_gives_the_same_tokenizer(place, tmp_path, family):
    expected = read(place / family, family)
    found = read(library(write(tmp_path / family, family), family), family)
    assert found.rows.tolist() == expected.rows.tolist() and found.original is None
    assert found.tokenizer.frame == expected.tokenizer.frame
    for line in [*LINES[:17], *HOSTILE, *TYPED]:
        assert original(found, line) == original(expected, line), ascii(line)


def json_change(edit: Callable[[dict], object]) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        values = json.loads((folder / "tokenizer.json").read_text())
        edit(values)
        put(folder, "tokenizer.json", values)

    return change


T5_IDS = model("unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
STEPS = {"type": "Sequence", "pretokenizers": [{"type": "Metaspace", "prepend_scheme": "first"}]}
REFUSED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "mBART-cc25": (
        "mbart",
        lambda f: put(f, "tokenizer_config.json", {"tokenizer_class": "MBartTokenizerFast"}),
        "puts the source's language behind </s>, but here </s> ends a source",
    ),
    "NLLB of 2022": (
        "nllb",
        lambda f: put(f, "tokenizer_config.json", {"legacy_behaviour": True}),
        "puts the source's language behind",
    ),
    "no list of languages": (
        "nllb",
        lambda f: (f / "special_tokens_map.json").unlink(),
        "names no languages: get tokenizer.json or special_tokens_map.json",
    ),
    "no tokenizer": ("t5", lambda f: (f / "spiece.model").unlink(), "has no tokenizer: neither"),
    "not a model": ("mbart", lambda f: put(f, "sentencepiece.bpe.model", b"x" * 99), "is not a Se"),
    "of words": ("t5", lambda f: put(f, "spiece.model", model("word")), "unigram or BPE model"),
    "bytes for unknown characters": (
        "t5",
        lambda f: put(f, "spiece.model", model("unigram", byte_fallback=True, vocab_size=700)),
        "is a byte, unused or user-defined piece",
    ),
    "user-defined": (
        "t5",
        lambda f: put(f, "spiece.model", model("bpe", user_defined_symbols="<sep>", pad_id=3)),
        "'<sep>' is a byte, unused or user-defined piece",
    ),
    "marks at the end": (
        "mbart",
        lambda f: put(
            f, "sentencepiece.bpe.model", model("unigram", treat_whitespace_as_suffix=True)
        ),
        "treats white space",
    ),
    "other first ids": (
        "mbart",
        lambda f: put(f, "sentencepiece.bpe.model", T5_IDS),
        "does not begin with <unk>, <s> and </s>",
    ),
    "ids with a gap": (
        "m2m100",
        lambda f: put(f, "vocab.json", {"<unk>": 0, "a": 2}),
        "has gaps: no piece has id 1",
    ),
    "a table that is too small": (
        "bart",
        lambda f: put(f, "vocab.json", {chr(0x4E00 + i): i for i in range(99)}),
        "do not fit a table|lack <s>|has no <unk>",
    ),
    "a merge of three": (
        "bart",
        lambda f: put(f, "merges.txt", b"a\n"),
        "'a' is not a merge of two pieces",
    ),
    "a merge of unknown pieces": (
        "bart",
        lambda f: put(f, "merges.txt", b"a \xe4\xb8\x80\n"),
        "is not in the vocabulary",
    ),
    "a merge that makes a special token": (
        "bart",
        lambda f: put(f, "merges.txt", b"< mask>\n"),
        "is not in the vocabulary|special token",
    ),
    "merges that are no text": ("fsmt", lambda f: put(f, "merges.txt", b"\xff\xff"), "not UTF-8"),
    "a token that texts are cut at": (
        "t5-json",
        json_change(lambda v: v["added_tokens"][5].update(special=False)),
        "is cut out of texts first",
    ),
    "another step": ("t5-json", json_change(lambda v: v.update(pre_tokenizer=STEPS)), "has the st"),
    "another normalizer": (
        "t5-json",
        json_change(lambda v: v.update(normalizer={"type": "Lowercase"})),
        "has the step .*Lowercase",
    ),
    "a map that is no base64": (
        "t5-json",
        json_change(lambda v: v["normalizer"].update(precompiled_charsmap="?")),
        "character map is not base64",
    ),
    "pieces without scores": (
        "t5-json",
        json_change(lambda v: v["model"].update(vocab=["a", "b"])),
        "not different texts with a score each",
    ),
    "merges in another order": (
        "nllb-json",
        json_change(lambda v: v["model"]["merges"].reverse()),
        "in another order than SentencePiece",
    ),
    "a merge missing": (
        "nllb-json",
        json_change(lambda v: v["model"]["merges"].pop()),
        "in another order than SentencePiece",
    ),
    "two pieces of one id": (
        "nllb-json",
        json_change(lambda v: v["model"]["vocab"].update({"zz": 9})),
        "do not have an id of their own",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_tokenizer_is_refused_in_one_line(tmp_path, case):
    family, change, says = REFUSED[case]
    name, _, form = family.partition("-")
    folder = write(tmp_path / name, name)
    if form:
        library(folder, name)
    change(folder)
    with pytest.raises(ValueError, match=says) as error:
        read(folder, name)
    text = str(error.value)
    assert text.isprintable() and len(text) < 600 and name in text


@pytest.mark.parametrize("family", [*FAMILIES, "t5-json", "nllb-json"])
def test_a_damaged_file_is_refused_in_one_line_or_harmless(place, tmp_path, family):
    """Each of 60 changed folders is refused, or its tokenizer reads every text without controls."""
    name, _, form = family.partition("-")
    folder = write(tmp_path / name, name)
    if form:
        library(folder, name)
    chance, refused = random.Random(7), 0
    files = sorted(file for file in folder.iterdir() if file.stat().st_size > 20)
    for _ in range(60):
        file = chance.choice(files)
        right = file.read_bytes()
        wrong = bytearray(right)
        for _ in range(chance.randint(1, 6)):
            wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        file.write_bytes(bytes(wrong[: chance.choice([len(wrong), chance.randrange(len(wrong))])]))
        try:
            tokenizer = read(folder, name).tokenizer
        except ValueError as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 600
        else:
            for line in (LINES[0], *HOSTILE[-3:]):
                ids = {token.id for token in tokenizer.encode(line)}
                assert not ids.intersection(tokenizer.frame.special)
        file.write_bytes(right)
    assert refused > 20


@pytest.mark.parametrize("family", JOINT)
def test_the_steps_of_a_text_are_shown(place, family):
    tokenizer = read(place / family, family).tokenizer
    found = split(tokenizer, "Größe läuft über ☃")
    assert found.kind == ("pieces" if family in ("t5", "mbart") else "subwords")
    assert (found.merges > 0) == (found.kind == "subwords")
    read_texts = "".join(symbol.text for unit in found.units for symbol in unit.symbols)
    if family != "bart":  # which shows the bytes of parts of characters
        assert read_texts.replace("▁", " ").strip() == "Größe läuft über ☃"
    assert any(unit.merges for unit in found.units) == (found.kind == "subwords")


def test_the_library_gives_the_same_ids(place):
    """Where transformers is installed; its own rules differ from SentencePiece's for few lines."""
    transformers = pytest.importorskip("transformers")
    for family, name, options in (
        ("t5", "T5", {}),
        ("mbart", "MBart50", {"src_lang": "de_DE"}),
        ("m2m100", "M2M100", {"src_lang": "de"}),
        ("bart", "Bart", {}),
        ("fsmt", "FSMT", {"langs": ["de", "en"]}),
    ):
        folder = place / family
        files = {"src_vocab_file": "vocab-src.json", "tgt_vocab_file": "vocab-tgt.json"}
        if family == "fsmt":
            given = {key: str(folder / value) for key, value in files.items()}
            library_ = transformers.FSMTTokenizer(
                **given, merges_file=str(folder / "merges.txt"), **options
            )
        else:
            library_ = getattr(transformers, f"{name}Tokenizer").from_pretrained(folder, **options)
        vocabulary = read(folder, family)
        for line in [*LINES[:12], *SCRIPTS, *lines_of(vocabulary, 100)]:
            plain = normalise(line)
            assert original(vocabulary, plain) == library_(plain)["input_ids"][:-1], ascii(plain)
