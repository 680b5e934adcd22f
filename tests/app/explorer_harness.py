"""Mounts the explorer on a synthetic record whose size and words come from the address.

`?case=short|long|hundred|unknown|hostile&layers=4&heads=4&decoder_layers=4`; `case=N` with a
number N gives sentences of N tokens. `offered` lists the quantities, and `broken` names one that
fails.

Every unmasked weight of a record differs from its neighbours, and no map is a transpose or a copy
of another, so a wrong layer, head or axis fails a test.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from core.config import DecodeConfig
from core.record.edits import Edits

SOURCES = {
    "short": "Ein Mann in einem roten Hemd sprich|t mit einem Hund .",
    "other": "Zwei Frau|en lauf|en durch den Wald .",
    "long": (
        "Ein junger Mann , der mit einem weit|eren jungen Mann unterwegs ist , blickt sich nach "
        "drei Mädchen um , an denen sie gerade vorbei|ge|g|angen sind , während der "
        "Donau|dampf|schiff|fahrts|gesell|schafts|kapitän in einem blauen Kleid "
        "vor einem Haus steht und ein brauner Hund durch das ho|he Gras läuft ."
    ),
    "unknown": "Zwei junge Männer spielen in |?Ł|?ó|d|?ź Fußball .",
    "hostile": (
        "<img_src=x_onerror=alert(1)> </s> $x$ שלום **fett** `code` &amp; 👩‍🚀 a\u200bb "
        "soft\u00adhyphen right\u202eleft nb\u00a0space <b>dick</b> :red[rot] " + "x" * 120
    ),
}
TARGETS = {
    "short": "A man in a red shirt talks to a dog .",
    "other": "Two women run through the woods .",
    "long": (
        "A young man walking with another young man is look|ing at three girls they have just "
        "passed , while the Danube steam|boat company captain in a blue dress stands in front of a "
        "house and a brown dog runs through the tall grass and two children on a bench wave at "
        "them before it rains hard ."
    ),
    "unknown": "Two young men playing soccer .",
    "hostile": "<script>alert(2)</script> </s> $y$ مرحبا \u200e <eos> A .",
}
SOURCES["hundred"] = f"{SOURCES['long']} Ein Hund läuft und " + "ein Mann sieht zu und " * 7
SOURCES["hundred"] += "Hund"
TARGETS["hundred"] = f"{TARGETS['long']} A dog runs and " + "a man looks on and " * 7 + "dog"


def text(texts: dict[str, str], case: str) -> str:
    """Return the text of a case; N gives N − 1 words before <eos>, and N+ other words."""
    if case in texts:
        return texts[case]
    words = range(1, int(case.removesuffix("+")))
    return " ".join(f"{'word' if case.endswith('+') else 'Wort'}{i}" for i in words)


@dataclass(frozen=True)
class Token:
    """A token; equal tokens have equal ids."""

    text: str
    starts_word: bool = True
    special: bool = False
    unknown: bool = False

    @property
    def piece(self) -> str:
        return ("\u2581" if self.starts_word else "") + self.text

    @property
    def id(self) -> int:
        return zlib.crc32(self.piece.encode("utf-8", "replace"))


@dataclass(frozen=True)
class Check:
    """A stand-in for `core.record.parts.RecordCheck`."""

    name: str
    figure: float
    limit: float
    words: str

    @property
    def passed(self) -> bool:
        return self.figure <= self.limit


CHECKS = (
    Check(
        "Recomputed outside the model",
        4.4e-7,
        1e-5,
        "All 7,504 weights, recomputed in float64 from the inputs of each layer: "
        "softmax(QKᵀ/√32 + mask). Shown: the largest difference.",
    ),
    Check("Every row sums to 1", 2.33e-7, 1e-5, "608 rows. Shown: the largest deviation."),
    Check("A masked cell is exactly 0", 0.0, 0.0, "1,248 <b>cells</b> are masked: $x$ & so on."),
    Check("Labels match the model's inputs", 0.0, 0.0, "25 tokens. Shown: how many differ."),
    Check(
        "Texts match the token ids",
        0.0,
        0.0,
        "74 tokens compared with the tokenizers' vocabularies and the typed text, and 6 translated "
        "texts with their ids. Shown: the number that differ.",
    ),
    Check(
        "Log-probabilities recomputed",
        2.5e-6,
        1e-4,
        "Log-probabilities of 9 tokens and of the top 5 at each step, recomputed in float64 from "
        "the logits. Shown: the largest difference, in nats.",
    ),
    Check(
        "Positions recomputed",
        3.0e-8,
        1e-5,
        "20 rows compared with sin and cos of p/10000^(2i/128). Shown: the largest difference.",
    ),
    Check(
        "Recording leaves the output unchanged",
        3.8e-6,
        1e-4,
        "All logits, compared with those of the same pass without recording. Shown: the largest "
        "difference; that pass sums in another order, so the last digits may differ.",
    ),
)


BEAM = DecodeConfig()


@dataclass(frozen=True)
class Record:
    """A stand-in for `TranslationRecord` with the fields that the explorer reads."""

    edits = Edits()
    id: str
    source_language: str
    target_language: str
    source: tuple[Token, ...]
    target_in: tuple[Token, ...]
    target_out: tuple[Token, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    encoder_mask: np.ndarray
    decoder_mask: np.ndarray
    cross_mask: np.ndarray
    log_probs: np.ndarray
    log_prob: float
    search: str
    alternatives: tuple[tuple[Token, ...], ...]
    alternative_log_probs: np.ndarray
    checks: tuple[Check, ...] = CHECKS
    model: str = "synthetic-de-en"
    weights_sha256: str = "0123456789abcdef" * 4
    source_text: str = "Ein Satz."
    translation: str = "A sentence."
    lost_edits: bool = False
    decode: DecodeConfig | None = BEAM
    origin: str = ""

    @property
    def model_title(self) -> str:
        return self.model


def pieces(sentence: str) -> tuple[Token, ...]:
    """Split words at spaces and tokens at `|`; `?` marks an unknown token, `_` is a space."""
    tokens = []
    for word in sentence.split(" "):
        for place, part in enumerate(word.split("|")):
            unknown = part.startswith("?")
            text = part.removeprefix("?").replace("_", " ")
            close = place > 0 or part in (".", ",")
            tokens.append(Token(text, starts_word=not close, unknown=unknown))
    return tuple(tokens)


def _maps(seed: int, layers: int, heads: int, mask: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(seed)
    queries, keys = mask.shape
    logits = random.normal(0, 1.5, (layers, heads, queries, keys))
    where = (
        np.arange(queries)[:, None] * max(1, keys - 1) / max(1, queries - 1) - np.arange(keys)[None]
    )
    for layer in range(layers):
        for head in range(heads):
            logits[layer, head] -= (0.15 + 0.5 * ((layer + head) % 4)) * np.abs(
                where + head % 3 - 1
            )
    logits = np.where(mask, logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def synthetic_record(
    case: str = "short", layers: int = 4, heads: int = 4, decoder_layers: int | None = None
) -> Record:
    """Return a record, deterministic in its arguments."""
    decoder_layers = decoder_layers or layers
    end = Token("<eos>", special=True)
    source = (*pieces(text(SOURCES, case)), end)
    words = pieces(text(TARGETS, case))
    target_in, target_out = (Token("<bos>", special=True), *words), (*words, end)
    source_length, target_length = len(source), len(target_out)
    encoder_mask = np.ones((source_length, source_length), dtype=bool)
    decoder_mask = np.tril(np.ones((target_length, target_length), dtype=bool))
    cross_mask = np.ones((target_length, source_length), dtype=bool)
    random = np.random.default_rng(9)
    log_probs = -random.gamma(1.0, 0.4, target_length).astype(np.float32)
    others = pieces("cat sees near under behind")
    # The written token is the second most probable; at every fifth step it is not in the top five.
    alternatives = tuple(
        others if step % 5 == 4 else (others[0], token, *others[2:])
        for step, token in enumerate(target_out)
    )
    below = -random.gamma(1.0, 1.0, (target_length, 5)).astype(np.float32).cumsum(-1)
    alternative_log_probs = log_probs[:, None] + below
    alternative_log_probs[:, :2] = np.stack([log_probs * 0.5, log_probs], axis=1)
    return Record(
        id=f"{case}-{layers}-{heads}",
        source_language="German",
        target_language="English",
        source=source,
        target_in=target_in,
        target_out=target_out,
        encoder=_maps(1, layers, heads, encoder_mask),
        decoder=_maps(2, decoder_layers, heads, decoder_mask),
        cross=_maps(3, decoder_layers, heads, cross_mask),
        encoder_mask=encoder_mask,
        decoder_mask=decoder_mask,
        cross_mask=cross_mask,
        log_probs=log_probs,
        log_prob=float(log_probs.sum()),
        search="beam 5",
        source_text=text(SOURCES, case).replace("|", ""),
        translation=text(TARGETS, case).replace("|", ""),
        alternatives=alternatives,
        alternative_log_probs=alternative_log_probs,
    )


def synthetic_quantity(record: Record, name: str) -> dict[str, np.ndarray]:
    """Return signed scores, nonnegative norms, or for rollout the mean map of each layer."""
    random = np.random.default_rng(len(name))
    found = {}
    for kind in ("encoder", "decoder", "cross"):
        shape = getattr(record, kind).shape
        if name == "rollout":
            found[kind] = getattr(record, kind).mean(1, keepdims=True)
        else:
            numbers = random.normal(0, 2, shape)
            found[kind] = numbers if name == "scores" else np.abs(numbers)
    return found


QUANTITIES = ("scores", "norms", "rollout")


def broken() -> dict[str, np.ndarray]:
    """Fail like a network that runs out of memory."""
    raise RuntimeError("out of\nmemory")


def main() -> None:
    import streamlit as st

    from app.components.explorer.answers import answers
    from app.components.explorer.mount import explorer
    from app.components.explorer.payload import payload

    st.set_page_config(page_title="Explorer harness", layout="wide")
    query = st.query_params
    case = query.get("case", "short")
    if st.sidebar.toggle("Another sentence", key="another"):
        case = f"{case}+" if case.isdigit() else "other"
    count = st.sidebar.button("Run again", key="again")
    st.sidebar.text(f"run again: {count}")
    layers = int(query.get("layers", 4))
    record = synthetic_record(
        case, layers, int(query.get("heads", 4)), int(query.get("decoder_layers", layers))
    )
    view = {
        "kind": query.get("kind", "cross"),
        "layer": query.get("layer", 0),
        "head": query.get("head", 0),
    }
    numbers = {name: partial(synthetic_quantity, record, name) for name in QUANTITIES}
    if "broken" in query:
        numbers[query["broken"]] = broken
    offered = query.get("offered", ",".join(QUANTITIES)).split(",")
    numbers = {name: make for name, make in numbers.items() if name in offered}
    asked = st.session_state.get("explorer") or {}
    checked = query.get("checked", "here")
    data = payload(record, view, quantities=dict.fromkeys(numbers), checked=checked)
    explorer(data, answers(record, asked, numbers))
    st.text(f"asked for {asked.get('quantity', {}).get('quantity')}")
    st.text("Below the explorer")


if __name__ == "__main__":
    main()
