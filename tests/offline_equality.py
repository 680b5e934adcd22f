"""Compare the offline page's network with Python's, sentence by sentence, on the same weights.

    python -m tests.offline_equality --sentences 1000 --data DIR   validation sentences of Multi30k
    python -m tests.offline_equality                               60 sentences of this project

Runs in the installed Chromium. Lists every sentence whose hypotheses differ, with both scores.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Page, sync_playwright

from app.benchmark.browser import FLAGS, chromium
from app.components.assets import joined, read
from app.examples import EXAMPLES, MINIMAL_PAIRS
from app.export.weights import pack
from core.data.text_files import read_lines
from core.kinds import KINDS
from core.record.record import TranslationRecord
from core.translator import InputError, Translator
from tests.load.sentences import sentences as generated
from tests.small import SENTENCES

ROOT = Path(__file__).parents[1]
NETWORK = ROOT / "app/components/network"
SCRIPT = joined(
    *(NETWORK / f"{name}.js" for name in ("record", "tokenizers", "weights", "transformer"))
)
DIRECTIONS = {"de-en": 34, "en-de": 26}
"""How many of this project's own sentences to compare in each direction: 60 in all."""
MAP_LIMIT, LOG_PROB_LIMIT = 1e-5, 1e-4
ARRAYS = [
    *KINDS,
    "sourcePositions",
    "targetPositions",
    "logProbs",
    "alternativeLogProbs",
]
TIE = 1e-5
"""Hypotheses whose scores differ by at most this may change places because of rounding."""

OPEN = f"""async (weights) => {{
    {SCRIPT}
    {read(Path(__file__).with_suffix(".js"))}
    const open = await opened(weights);
    window.offline = {{
        ...open,
        record: (text, options) => recordAnswer(open, text, options),
        effects: (text, edits) => effectsAnswer(open, text, edits),
        hypotheses: (texts, beam) => texts.map((text) => hypothesesAnswer(open, text, beam)),
        inspect, search, logTotal,
    }};
}}"""


class OfflineNetwork:
    """The page's network in a browser, with the weights of a checkpoint folder."""

    def __init__(self, page: Page, folder: Path, int8: bool = False):
        self.page = page
        page.evaluate(OPEN, base64.b64encode(pack(folder, int8)).decode())

    def inspect(
        self, text: str, beam: int = 5, edits: str = "", target: str | list[int] | None = None
    ) -> dict[str, Any]:
        """Return the page's record, with maps as arrays, or `failed` with its message."""
        work = "([text, options]) => JSON.stringify(offline.record(text, options))"
        options = {"beam": beam, "edits": edits, "target": target}
        record = json.loads(self.page.evaluate(work, [text, options]))
        if "failed" not in record:
            S, T, heads = len(record["source"]), len(record["targetOut"]), record["heads"]
            sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
            record |= {name: _floats(record[name]) for name in ARRAYS}
            for kind in KINDS:
                shape = record["layers"][kind], heads[kind], *sizes[kind]
                record[kind] = record[kind].reshape(shape)
        return record

    def hypotheses(self, texts: Sequence[str], beam: int) -> list[list[list[int]]]:
        """Return the ids of each text's hypotheses, from searches alone."""
        work = "([texts, beam]) => offline.hypotheses(texts, beam)"
        return self.page.evaluate(work, [list(texts), beam])

    def effects(self, text: str, edits: str = "") -> dict[str, np.ndarray]:
        """Return the effects of all heads on the translation's tokens, one flat array per kind."""
        work = "([text, edits]) => offline.effects(text, edits)"
        found = self.page.evaluate(work, [text, edits])
        return {kind: _floats(found[kind]) for kind in KINDS}


def _floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


@dataclass
class Report:
    """What a comparison found; `different` describes each sentence whose results differ."""

    name: str
    sentences: int = 0
    different: list[str] = field(default_factory=list)
    ties: int = 0
    largest_map: float = 0.0
    largest_log_prob: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether only ties differ, and maps and log-probabilities are within their limits."""
        close = self.largest_map <= MAP_LIMIT and self.largest_log_prob <= LOG_PROB_LIMIT
        return len(self.different) == self.ties and close

    def add(self, record: TranslationRecord, found: dict[str, Any]) -> None:
        """Compare a record with the page's."""
        self.sentences += 1
        own = [(list(h.ids), h.log_prob, h.score) for h in record.hypotheses]
        page = [(h["ids"], h["logProb"], h["score"]) for h in found["hypotheses"]]
        scores = [pair[0][2] - pair[1][2] for pair in zip(own, page, strict=False)]
        same = [ids for ids, *_ in own] == [ids for ids, *_ in page]
        if not same:
            tied = len(own) == len(page) and max(map(abs, scores)) <= TIE
            self.ties += tied
            lines = [f"{self.name}: {record.source_text} ({'tie' if tied else 'NO TIE'})"]
            for (ids, _, score), (others, _, other) in zip(own, page, strict=False):
                if ids != others:
                    lines += [f"    Python {score:.8f} {ids}", f"    page   {other:.8f} {others}"]
            self.different.append("\n".join(lines))
        else:
            sums = [abs(a[1] - b[1]) / len(a[0]) for a, b in zip(own, page, strict=True)]
            self.largest_log_prob = max(self.largest_log_prob, *sums, *map(abs, scores), 0)
        if [t.id for t in record.target_out] == [t["id"] for t in found["targetOut"]]:
            differences = record.log_probs - found["logProbs"]
            self.largest_log_prob = max(self.largest_log_prob, float(np.abs(differences).max()))
            for kind in KINDS:
                difference = float(np.abs(record.maps(kind) - found[kind]).max())
                self.largest_map = max(self.largest_map, difference)


def compare(
    translator: Translator, offline: OfflineNetwork, texts: Sequence[str], beam: int
) -> Report:
    """Compare the records of texts, one by one; both must reject the same texts in equal words."""
    card = translator.card
    report = Report(f"{card.source_language}-{card.target_language}, beam {beam}")
    for text in texts:
        found = offline.inspect(text, beam)
        try:
            record = translator.inspect(text, beam=beam)
        except InputError as error:
            if found.get("failed") != str(error):
                on_page = found.get("failed", "no error")
                report.different.append(
                    f"{report.name}: {text[:60]}: Python: {error}; page: {on_page}"
                )
            continue
        report.add(record, found)
    return report


def own_sentences(direction: str) -> list[str]:
    """Return sentences of this project's examples and tests in a direction's source language."""
    side = ("de-en", "en-de").index(direction)
    found = [text for e in EXAMPLES for text in (e.text(direction), e.changed[side])]
    found += [text for pair in MINIMAL_PAIRS for text in pair.texts(direction)]
    found += [pair[side] for pair in SENTENCES]
    found += generated(20) if side == 0 else []
    return list(dict.fromkeys(found))[: DIRECTIONS[direction]]


def validation_sentences(direction: str, data: Path, count: int) -> list[str]:
    """Return the first validation sentences of Multi30k in a direction's source language."""
    return read_lines(data / f"multi30k/val.{direction[:2]}.gz")[:count]


@contextmanager
def browser_page() -> Iterator[Page]:
    """Open an empty page in the installed Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser.new_page()
        browser.close()


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.offline_equality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="folder with multi30k/val.de.gz and val.en.gz")
    parser.add_argument(
        "--sentences", type=int, default=1000, help="sentences per direction, with --data"
    )
    parser.add_argument("--beam", type=int, action="append", help="repeatable; default: 1 and 5")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reports = []
    for direction in DIRECTIONS:
        folder = ROOT / "checkpoints" / f"scratch-{direction}"
        translator = Translator.load(folder, device="cpu")
        texts = own_sentences(direction)
        if options.data:
            texts = validation_sentences(direction, options.data, options.sentences)
        with browser_page() as page:
            offline = OfflineNetwork(page, folder)
            reports += [
                compare(translator, offline, texts, beam) for beam in options.beam or (1, 5)
            ]
    for line in (line for report in reports for line in report.different):
        print(line)  # noqa: T201
    for report in reports:
        print(  # noqa: T201
            f"{report.name}: {report.sentences - len(report.different)} of {report.sentences} "
            f"sentences with the same hypotheses, {report.ties} ties, "
            f"maps within {report.largest_map:.1e}, "
            f"log-probabilities within {report.largest_log_prob:.1e}"
        )
    return 0 if all(report.passed for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
