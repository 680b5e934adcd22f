"""Write the app as one HTML file: it translates, inspects and intervenes without a server.

    python -m app.export.offline --checkpoint DIR [--checkpoint DIR] [--int8] --out FILE

The file holds the weights of one direction or two. It opens by double-click, makes no requests, and
keeps its state in the `#` fragment. `--int8` halves the file's size and rounds the weights more.
"""

from __future__ import annotations

import argparse
import base64
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

import core
from app.components.assets import joined, palette, read
from app.components.explorer.markup import markup
from app.examples import examples, minimal_pairs, opening
from app.export.page import INCOMPLETE, checksum
from app.export.rounding import measured_rounding
from app.export.tour import Inspect, not_offline, planned, tour, translator_of, whole_tour
from app.export.weights import as_text, pack, tokenizer_of_page
from app.lessons.texts import table
from app.look.certainty import certainty_of, lines
from app.look.glossary import TERMS
from app.look.numbers import number, scientific, weights_count
from app.look.palette import PALETTES
from app.plan import Plan
from core.analysis.quality_warnings import FUNCTION_WORDS
from core.checkpoint.folder import Card, language_of, read_card
from core.command import Parser, main, refuse_unwritable
from core.data.corpora import LANGUAGES, about
from core.data.tasks import PASTED, TASKS
from core.files import write_atomic
from core.record.record import TranslationRecord
from core.text.tokenizer import Frame

_HERE = Path(__file__).parent
_COMPONENTS = _HERE.parent / "components"
LIMIT = 90_000_000
"""Bytes of the largest page: browsers open larger ones too slowly."""
_PER_BYTE = 1.15  # letters of a page for a byte of weights: deflated by 8 %, then in base 85
MOST = 2
"""The most networks in one file: one for each direction."""
_STYLES = tuple(_COMPONENTS / f"offline/{name}.css" for name in ("offline", "guide"))
_LESSON_STYLE = _COMPONENTS / "offline/lessons.css"
_SIDE = {"light": "#f8f8f7", "dark": "#181a1f"}  # of the sidebar, as in .streamlit/config.toml


@dataclass(frozen=True, eq=False)
class Network:
    """One checkpoint, as stored in the page."""

    card: Card
    weights: bytes
    """As written by `app.export.weights.pack`."""
    rounding: str
    """How the weights are rounded and what that changes."""
    tour: Sequence[dict[str, Any]] = ()
    """Stops of the guided tour, as `app.export.tour` computed them with these weights."""
    plan: bool = False
    """Whether `tour` holds the stops of a plan, with which the page opens."""
    left_out: Sequence[str] = ()
    """One line for each stop that the page lacks, with the reason."""
    examples: Sequence[dict[str, Any]] = ()
    """Example sentences, each with the view that shows what it is about, or None."""

    @property
    def languages(self) -> tuple[str, str]:
        """The names of both languages."""
        source, target = self.card.source_language, self.card.target_language
        return LANGUAGES[source], LANGUAGES[target]

    def to_json(self, precision: str) -> dict[str, Any]:
        """Return what the page's script reads: see `OfflineModel` in choice.js."""
        source, target = self.languages
        direction = self.card.direction
        return {
            "direction": direction,
            "name": self.card.name,
            "source": source,
            "target": target,
            "learned": about(self.card.metrics.get("final", {}))
            or "sentences that are not recorded",
            "precision": precision,
            "parameters": self.card.parameters,
            "sha256": sha256(self.weights).hexdigest(),
            "tour": self.tour,
            "plan": self.plan,
            "left_out": self.left_out,
            "certainty": self._certainty(),
            "examples": self.examples,
            **self._spoken(),
            "pairs": [[p.title(direction), *p.texts(direction)] for p in minimal_pairs(direction)],
        }

    def _spoken(self) -> dict[str, Any]:
        """Return the names of all languages by code, and the usual pair, if there are codes."""
        frame = Frame.from_json(_header(self.weights)["tokenizer"])
        code_of = {id: code for code, id in frame.languages.items()}
        if not code_of:
            return {}
        names = {code: LANGUAGES[language_of(code)] for code in frame.languages}
        names = dict(sorted(names.items(), key=lambda item: item[::-1]))
        return {"languages": names, "spoken": [code_of[frame.first[0]], code_of[frame.forced[0]]]}

    def _certainty(self) -> dict[str, list[tuple[float, str]]]:
        """Return limits of the mean probability with a line each, by search."""
        if (measured := certainty_of(self.card)) is None:
            return {}
        return {search: lines(measured, search) for search in measured.searches}


def network(folder: Path, int8: bool = False, plan: Plan | None = None) -> Network:
    """Read a checkpoint for the page. With `int8`, take seconds to measure what rounding changes.

    The stops of a `plan` replace those of the tour; stops that the page cannot show are left out.

    Raises CheckpointError, and ValueError for a tokenizer that the page cannot run.
    """
    card = read_card(folder)
    weights = pack(folder, int8)
    about_weights = _header(weights)["about"]

    @cache
    def translator() -> core.Translator:  # not needed for languages without examples
        return translator_of(folder, int8)

    @cache
    def inspect(text: str) -> TranslationRecord:
        return translator().inspect(text, beam=5)

    direction = card.direction
    return Network(
        card,
        weights,
        _rounding(card, about_weights["rounding"], int8),
        tour(direction, inspect) if plan is None else planned(plan, inspect),
        plan is not None,
        not_offline(whole_tour(direction) if plan is None else plan, inspect),
        [
            {
                "title": example.title(direction),
                "text": example.text(direction),
                "hint": example.hint(direction),
                "reference": example.text("-".join(reversed(direction.split("-")))),
                "view": opening(inspect(example.text(direction))),
            }
            for example in examples(direction)
            if _reads(inspect, example.text(direction))
        ],
    )


def _reads(inspect: Inspect, text: str) -> bool:
    """Return whether a text is short enough for the network."""
    try:
        return bool(inspect(text))
    except core.InputError:
        return False


def _rounding(card: Card, largest: float, int8: bool) -> str:
    if not int8:
        if largest == 0:
            return "The checkpoint stores 16-bit numbers, and this file holds exactly these."
        return f"Weights are rounded to 16 bits; the largest error is {scientific(largest)}."
    said = (
        "Matrices are rounded to 8 bits: each row to multiples of its largest weight / 127. "
        f"The largest error of a weight is {scientific(largest)}."
    )
    if (found := measured_rounding(card)) is None:
        return f"{said} What that changes in translations was not measured."
    return (
        f"{said} Of {found.sentences} example sentences, {found.same} get the same translation as "
        f"with the checkpoint’s own weights (beam 5). On the translations with "
        f"the checkpoint’s own weights, an attention weight differs by at most "
        f"{number(found.largest, 3)}, and by {number(found.mean, 4)} on average."
    )


def page(networks: Sequence[Network], int8: bool = False) -> str:
    """Return the page that holds these networks.

    Raises ValueError for no network, more than `MOST`, or two of the same direction.
    """
    check_directions(networks)
    parts = markup()
    script = _script(_COMPONENTS / "offline/main.js")
    script = f'(() => {{\n"use strict";\n{script}\nopenPage();\n}})();'
    lessons, states, train = (
        f'(() => {{\n"use strict";\n{_script(_COMPONENTS / f"offline/{name}.js")}\n'
        f"window.headlight.add{name.title()}(mount{name.title()});\n}})();"
        for name in ("lessons", "states", "train")
    )
    precision = "int8" if int8 else "fp16"
    texts = {
        "models": _json([network.to_json(precision) for network in networks]),
        "function-words": _json({name: " ".join(sorted(w)) for name, w in FUNCTION_WORDS.items()}),
        "lesson-tables": _json({lesson: table(lesson) for lesson in ("masks", "positions")}),
        "worker": _script(_COMPONENTS / "offline/worker.js"),
        "train-table": _json(table("train") | {"tasks": _tasks()}),
        "train-worker": _script(_COMPONENTS / "offline/train_worker.js"),
    }
    weights = {
        f"weights-{network.card.direction}": as_text(network.weights) for network in networks
    }
    checksums = {name: checksum(text) for name, text in (texts | weights).items()}
    last = f"window.headlight.confirm({json.dumps(checksums)});"
    first, *others = (
        f'<script type="text/plain" id="{name}">{text}</script>' for name, text in weights.items()
    )
    return Template(read(_HERE / "offline.html").rstrip()).substitute(
        policy=_policy(script, lessons, states, train, last),
        incomplete=INCOMPLETE,
        css=_without_end("\n".join([colours(), parts.css, *map(read, _STYLES)])),
        logo=read(_HERE.parent / "logo.svg").strip(),
        beam_search=html.escape(TERMS["beam search"]),
        explorer=parts.html,
        about=_about(networks),
        models=texts["models"],
        function_words=texts["function-words"],
        worker=texts["worker"],
        first_weights=first,
        script=script,
        lesson_tables=texts["lesson-tables"],
        lesson_files=_files(":is(.lessons, .map-row)", "map_row/map_row", "offline/lessons"),
        lesson_script=lessons,
        states_files=_files(":is(.state-page, .states)", "states/states", "offline/states_page"),
        states_script=states,
        train_table=texts["train-table"],
        train_worker=texts["train-worker"],
        train_files=_train_files(),
        train_script=train,
        other_weights="\n".join(others),
        last_script=last,
    )


def check_directions(networks: Sequence[Network]) -> None:
    """Raise ValueError for no network, more than `MOST`, or two of the same direction."""
    directions = [network.card.direction for network in networks]
    if not 1 <= len(networks) <= MOST or len(set(directions)) < len(directions):
        raise ValueError(
            f"the checkpoints translate {', '.join(directions) or 'nothing'}: "
            f"give one checkpoint per direction, at most {MOST}"
        )


def _files(where: str, component: str, page: str) -> str:
    """Return the style and markup of a component and of the page around it, for a shadow tree."""
    files = [_COMPONENTS / component, _COMPONENTS / page]
    css = [palette(where), *map(read, (files[0].with_suffix(".css"), _LESSON_STYLE))]
    html = "\n".join(read(file.with_suffix(".html")) for file in reversed(files))
    return f"<style>{_without_end(chr(10).join(css))}</style>{html}"


def _train_files() -> str:
    """Return the style and markup of *Train one here*, for a shadow tree."""
    explorer, where = markup(), ":is(.state-page, .training)"
    styles = _COMPONENTS / "training/training.css", _LESSON_STYLE
    css = "\n".join([explorer.css, palette(where), *map(read, styles)])
    html = read(_COMPONENTS / "training/training.html").replace("{{explorer}}", explorer.html, 1)
    page = read(_COMPONENTS / "offline/train_page.html")
    return f"<style>{_without_end(css)}</style>{page}\n{html}"


@cache
def _tasks() -> dict[str, dict[str, Any]]:
    """Return the vocabulary and the languages of each task; given pairs have no vocabulary yet."""
    from core.small.examples import PAIRS, Examples  # imports torch

    tasks = {task: Examples(task) for task in TASKS}
    found = {
        name: (examples.sides, tokenizer_of_page(examples.tokenizer.to_json()))
        for name, examples in tasks.items()
    }
    return {
        name: {"tokenizer": vocabulary, "sides": sides, "languages": [LANGUAGES[s] for s in sides]}
        for name, (sides, vocabulary) in (found | {PASTED: (PAIRS, None)}).items()
    }


def _policy(*scripts: str) -> str:
    """Return a policy that allows these scripts, their worker and pictures, and no request."""
    own = (base64.b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in own)
    return (
        f"default-src 'none'; script-src {allowed} 'wasm-unsafe-eval'; worker-src blob:; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _script(entry: Path) -> str:
    return _without_end(joined(entry))


def _without_end(text: str) -> str:
    """Return the text; raise ValueError if it could end its script or style element."""
    if found := re.search(r"</(?:script|style)|<!--", text, re.IGNORECASE):
        raise ValueError(f"a script or style of the page contains {found[0]!r}")
    return text


def _json(value: Any) -> str:
    """Return JSON that cannot end a script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def colours() -> str:
    """Return the palette as CSS variables that follow the reader's colour scheme."""
    rules = {}
    for name, theme in PALETTES.items():
        variables = {field.name: getattr(theme, field.name) for field in fields(theme)}
        variables |= {"ink2": theme.second, "side": _SIDE[name]}
        rules[name] = "".join(f" --{k.replace('_', '-')}: {v};" for k, v in variables.items())
    return (
        f":root {{{rules['light']} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{{rules['dark']} }} }}"
    )


def _about(networks: Sequence[Network]) -> str:
    """Return the entries of *About this file* as HTML."""
    entries = [("Networks" if len(networks) > 1 else "Network", [_described(n) for n in networks])]
    notes = dict.fromkeys(n.rounding for n in networks)
    if len(notes) > 1:
        notes = [f"{' → '.join(n.languages)}: {n.rounding}" for n in networks]
    entries.append(("Rounding", [html.escape(note) for note in notes]))
    entries += [
        (
            "What leaves this page",
            ["Nothing: the file's security policy blocks every request. Texts stay in this tab."],
        ),
        (
            "What runs here",
            [
                "Tokens, search, attention, edits, checks and trainings are computed in this tab. "
                '<span data-page="products"></span>'
            ],
        ),
        (
            "What needs the app",
            [
                "Only Python computes Shapley values and the page Ask why, the search tree, trials "
                "of the tour, and the comparison with torch.nn.Transformer."
            ],
        ),
        ("Licence", [f"Headlight {_version()}, Apache-2.0."]),
    ]
    items = (
        f"<dt>{name}</dt><dd>{''.join(f'<p>{line}</p>' for line in lines)}</dd>"
        for name, lines in entries
        if lines
    )
    return f"<dl>\n{chr(10).join(items)}\n</dl>"


def _described(network: Network) -> str:
    card, shape = network.card, network.card.model
    corpora = card.metrics.get("final", {})
    scores = ", ".join(
        f"{number(score['sacrebleu'], 1)} ({about([corpus])})" for corpus, score in corpora.items()
    )
    said = [
        f"<b>{html.escape(' → '.join(network.languages))}</b>: {html.escape(card.title)}, "
        f"{weights_count(card.parameters)}, {shape.num_encoder_layers} + "
        f"{shape.num_decoder_layers} layers, {shape.heads_label} heads, d_model {shape.d_model}."
    ]
    if scores:
        said.append(
            "Validation BLEU, on sentences that the network was not trained on: "
            f"{html.escape(scores)}. Expect errors on other kinds of text."
        )
    if card.imported is not None:
        said.append(html.escape(card.imported.origin))
    hashed = f"SHA-256 of the checkpoint’s weights {card.weights_sha256}"
    return f"{' '.join(said)}<br><code>{hashed}</code>"


def _header(weights: bytes) -> dict[str, Any]:
    """Return the header of a weights file."""
    return json.loads(weights[4 : 4 + int.from_bytes(weights[:4], "little")])


def _version() -> str:
    return core.__version__


def parser() -> Parser:
    """Return the command-line parser."""
    p = Parser(prog="python -m app.export.offline", description=__doc__)
    add_networks(p)
    p.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page to write")
    return p


def add_networks(p: Parser) -> None:
    """Add the arguments that choose the networks and how they are rounded."""
    p.add_argument(
        "--checkpoint",
        dest="checkpoints",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="a checkpoint folder; give a second one for the other direction",
    )
    p.add_argument("--int8", action="store_true", help="8-bit weights: half the size, less exact")


def read_networks(folders: Sequence[Path], int8: bool) -> list[Network]:
    """Read the networks of a page. Raises ValueError if their weights take more than `LIMIT`."""
    byte = 1 if int8 else 2
    count = sum(read_card(folder).parameters for folder in folders)
    if count * byte * _PER_BYTE > LIMIT:
        remedy = "save a record as a page" if int8 else "add INT8=1 (--int8), which halves it"
        one = "give one direction, or " if len(folders) > 1 else ""
        raise ValueError(
            f"{number(count / 1e6, 1)} million weights make a page of about "
            f"{count * byte * _PER_BYTE / 1e6:.0f} MB, above the limit of {LIMIT / 1e6:.0f}: "
            f"{one}{remedy}"
        )
    return [network(folder, int8) for folder in folders]


def run(arguments: argparse.Namespace) -> None:
    """Write the page and say what it holds."""
    refuse_unwritable("--out", arguments.out)
    networks = read_networks(arguments.checkpoints, arguments.int8)
    write_atomic(arguments.out, page(networks, arguments.int8).encode())
    size = arguments.out.stat().st_size / 1e6
    names = ", ".join(n.card.folder.name for n in networks)
    print(f"{arguments.out}: {names}, {size:.1f} MB")  # noqa: T201


if __name__ == "__main__":
    main(parser(), run)
