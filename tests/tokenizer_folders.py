"""Small tokenizers in the folders of T5, mBART-50, M2M100, NLLB, BART and FSMT, trained here."""

import functools
import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from core.foreign.family import Options, Vocabulary
from core.foreign.vocabularies import byte_level, moses
from core.foreign.vocabularies import sentencepiece as joint
from tests.small import SENTENCES

SCRIPTS = (
    "القطة تنام على السجادة. ذهبنا إلى السوق صباح اليوم",
    "החתול ישן על השטיח. הלכנו לשוק הבוקר",
    "猫在地毯上睡觉。今天早上我们去市场买了面包和牛奶。",
    "แมวนอนบนพรม เช้านี้เราไปตลาดซื้อขนมปังกับนม",
    "बिल्ली कालीन पर सो रही है। आज सुबह हम बाज़ार गए",
)
"""Sentences from right to left, and without spaces between words."""

LINES = (*(line for pair in SENTENCES for line in pair), *SCRIPTS) * 20
CODES = ("ace_Arab", "deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant")
FAIRSEQ = {"pad": 1, "start": 2, "end": 2}
ROLES = {name: FAIRSEQ for name in ("mbart", "m2m100", "nllb", "bart", "fsmt")}
ROLES["t5"] = {"pad": 0, "start": 0, "end": 1}
JOINT = ("t5", "mbart", "m2m100", "nllb", "bart")


@functools.cache
def model(kind: str, **settings: Any) -> bytes:
    """Train a SentencePiece model of about 400 pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=written,
        model_type=kind,
        character_coverage=0.99,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 400, **settings},
    )
    return written.getvalue()


def pieces(content: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    return [processor.id_to_piece(id) for id in range(processor.get_piece_size())]


def put(folder: Path, name: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    (folder / name).write_bytes(content)


def write(folder: Path, family: str) -> Path:
    """Write a family's tokenizer files, as they are distributed."""
    name = {"t5": "T5", "mbart": "MBart50", "m2m100": "M2M100", "nllb": "Nllb"}.get(family, "")
    put(folder, "tokenizer_config.json", {"tokenizer_class": f"{name}Tokenizer"} if name else {})
    match family:
        case "t5":
            put(folder, "spiece.model", model("unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
            task = {"translation_de_to_en": {"prefix": "translate German to English: "}}
            put(folder, "config.json", {"task_specific_params": task})
        case "mbart":
            put(folder, "sentencepiece.bpe.model", model("unigram"))
        case "m2m100" | "nllb":
            put(folder, "sentencepiece.bpe.model", model("bpe"))
            if family == "nllb":
                put(folder, "special_tokens_map.json", {"additional_special_tokens": CODES})
            else:
                ordered = ["<s>", "<pad>", "</s>", "<unk>", *pieces(model("bpe"))[3:]]
                put(folder, "vocab.json", {piece: id for id, piece in enumerate(ordered)})
        case "bart":
            vocabulary, merges = _trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
            ordered = ["<s>", "<pad>", "</s>", "<unk>", *vocabulary, "<mask>"]
            put(folder, "vocab.json", {piece: id for id, piece in enumerate(ordered)})
            put(folder, "merges.txt", f"#version: 0.2\n{merges}".encode())
        case "fsmt":
            vocabulary, merges = _trained(pre_tokenizers.WhitespaceSplit(), "</w>")
            for side, some in (("src", vocabulary), ("tgt", vocabulary[:-9])):
                ordered = ["<s>", "<pad>", "</s>", "<unk>", *some]
                put(folder, f"vocab-{side}.json", {piece: id for id, piece in enumerate(ordered)})
            put(folder, "merges.txt", merges.replace("\n", " 7\n").encode())
    return folder


def _trained(split: Any, end: str = "") -> tuple[list[str], str]:
    """Train BPE of about 500 pieces; return them, and the text of merges.txt."""
    learner = tokenizers.Tokenizer(models.BPE(end_of_word_suffix=end) if end else models.BPE())
    learner.pre_tokenizer = split
    alphabet = [] if end else pre_tokenizers.ByteLevel.alphabet()
    suffix = {"end_of_word_suffix": end} if end else {}
    trainer = trainers.BpeTrainer(
        vocab_size=500, show_progress=False, initial_alphabet=alphabet, **suffix
    )
    learner.train_from_iterator(LINES, trainer)
    learned = json.loads(learner.to_str())["model"]
    ids = learned["vocab"]
    return sorted(ids, key=ids.get), "".join(f"{a} {b}\n" for a, b in learned["merges"])


def size(folder: Path, family: str) -> int:
    """Return the number of rows of the family's table, with some that have no piece."""
    count = {
        "t5": lambda: len(pieces(model("unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1))) + 128,
        "mbart": lambda: len(pieces(model("unigram"))) + 1 + 52 + 1,
        "m2m100": lambda: len(pieces(model("bpe"))) + 1 + 100 + 8,
        "nllb": lambda: len(pieces(model("bpe"))) + 1 + len(CODES) + 1 + 2,
        "bart": lambda: len(json.loads((folder / "vocab.json").read_bytes())) + 3,
    }
    return count[family]()


def read(folder: Path, family: str, **options: Any) -> Vocabulary:
    """Read the vocabulary of both sides, or of the source (FSMT)."""
    ids, chosen = ROLES[family], Options(**{"languages": ("de", "en"), **options})
    if family == "fsmt":
        sizes = [
            len(json.loads((folder / f"vocab-{side}.json").read_bytes())) for side in ("src", "tgt")
        ]
        return moses(folder, chosen, (sizes[0], sizes[1]), ids)[0]
    rows = size(folder, family)
    if family == "bart":
        return byte_level(folder, rows, ids, 0)
    kind: Any = {"nllb": "m2m100"}.get(family, family)
    return joint(kind, folder, chosen, rows, ids)
