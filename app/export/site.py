"""Write a folder for any static host: an index, the offline page of each direction, a gallery.

    python -m app.export.site --checkpoint DIR [--checkpoint DIR] [--int8] --out FOLDER

Each direction has its own page, so that a visitor loads the weights of one direction only. The tour
and the lessons are parts of those pages. Nothing in the folder makes a request to another host.
"""

from __future__ import annotations

import argparse
import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from urllib.parse import quote, urlencode

import core
from app.components.assets import read
from app.export.gallery import Picture, gallery
from app.export.offline import Network, add_networks, check_directions, colours, page, read_networks
from app.export.picture import picture
from app.export.tour import translator_of
from app.look.labels import ATTENTION
from app.look.numbers import number, weights_count
from app.look.palette import PALETTES
from core.command import Parser, main, refuse_unwritable
from core.files import write_atomic

_TEMPLATE = Path(__file__).parent / "site.html"
LESSONS = {"masks": "Lesson: masks", "positions": "Lesson: positions"}
PICTURES = 8


def site(
    networks: Sequence[Network], translators: Sequence[core.Translator], int8: bool = False
) -> dict[str, bytes]:
    """Return the folder's files by relative path; `translators` run the networks' rounded weights.

    Raises ValueError for no network, more than two, or two of the same direction.
    """
    check_directions(networks)
    pages = {_page_name(one.card.direction): page([one], int8).encode() for one in networks}
    pictures = gallery(translators, PICTURES)
    drawn = {
        f"gallery/{_slug(place, one)}-{theme}.svg": _svg(one, theme)
        for place, one in enumerate(pictures, 1)
        for theme in PALETTES
    }
    index = Template(read(_TEMPLATE)).substitute(
        colours=colours(),
        apps="\n".join(
            _app(one, len(content)) for one, content in zip(networks, pages.values(), strict=True)
        ),
        gallery="\n".join(_figure(place, one, drawn) for place, one in enumerate(pictures, 1)),
        frame=html.escape(_frame(pictures, networks)),
        footer="\n".join(map(_about, networks)),
        made="" if any(one.card.imported for one in networks) else " that was written from scratch",
    )
    return {"index.html": index.encode(), **pages} | {n: svg.encode() for n, svg in drawn.items()}


def link(direction: str, parameters: Mapping[str, str], query: str = "") -> str:
    """Return the relative link to a state of a direction's page."""
    return f"{_page_name(direction)}{query}#{urlencode(parameters, quote_via=quote)}"


def _page_name(direction: str) -> str:
    return f"headlight-{direction}.html"


def _slug(place: int, shown: Picture) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", shown.title.lower()).strip("-")
    return f"{place}-{words}"


def _svg(shown: Picture, theme: str) -> str:
    at = shown.found.shown
    return picture(shown.record, at.kind, at.head.layer, at.head.head, at.query, theme)


def _app(network: Network, size: int) -> str:
    """Return a direction's entry: the link to its page, the page's size, its tour and lessons."""
    direction, shape = network.card.direction, network.card.model
    links = {}
    if network.tour:
        first = network.tour[0]
        at = {"direction": direction, "source": first["source"], **first["view"], "stop": "1"}
        links["Guided tour"] = at
    links |= {words: {"direction": direction, "lesson": name} for name, words in LESSONS.items()}
    listed = "".join(
        f'<a href="{html.escape(link(direction, parameters))}">{words}</a>'
        for words, parameters in links.items()
    )
    names = html.escape(" → ".join(network.languages))
    return (
        f'<li><a class="open" href="{_page_name(direction)}">{names}</a>'
        f"<p>{number(size / 1e6, 1)} MB in one file, which you can also save and open from your "
        f"disk. {weights_count(network.card.parameters)}, "
        f"{shape.num_encoder_layers} + {shape.num_decoder_layers} layers of "
        f"{shape.heads_label} heads.</p><nav>{listed}</nav></li>"
    )


def _figure(place: int, shown: Picture, drawn: Mapping[str, str]) -> str:
    """Return a picture that follows the reader's colour scheme and links to its map in the page."""
    file = f"gallery/{_slug(place, shown)}"
    light, dark = (
        f"data:image/svg+xml;base64,{base64.b64encode(drawn[f'{file}-{theme}.svg'].encode()).decode()}"
        for theme in ("light", "dark")
    )
    record, at = shown.record, shown.found.shown
    head = f"{ATTENTION[at.kind]}, layer {at.head.layer + 1}, head {at.head.head + 1}"
    texts = f"{record.source_text} → {record.translation}"
    alternative = html.escape(f"Map of the {head}: {texts}")
    return (
        f'<figure><a href="{html.escape(link(shown.direction, shown.link))}"><picture>'
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{alternative}"></picture></a>'
        f"<figcaption><b>{html.escape(shown.title)}</b>"
        f'<span class="texts">{html.escape(texts)}</span>{html.escape(shown.caption)} '
        f'<a href="{file}-light.svg">SVG</a></figcaption></figure>'
    )


def _frame(pictures: Sequence[Picture], networks: Sequence[Network]) -> str:
    """Return an iframe element that embeds a page, as an example to copy."""
    if pictures:
        source = link(pictures[0].direction, pictures[0].link, "?embed=1")
    else:
        source = f"{_page_name(networks[0].card.direction)}?embed=1"
    return f'<iframe src="{source}" width="100%" height="900"></iframe>'


def _about(network: Network) -> str:
    card = network.card
    return (
        f"<p>{html.escape(card.title)}. {html.escape(network.rounding)} SHA-256 of the "
        f"checkpoint's weights: <code>{card.weights_sha256}</code></p>"
    )


def parser() -> Parser:
    """Return the command-line parser."""
    p = Parser(prog="python -m app.export.site", description=__doc__)
    add_networks(p)
    p.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    return p


def run(arguments: argparse.Namespace) -> None:
    """Write the folder, and say what it holds."""
    refuse_unwritable("--out", arguments.out / "index.html")
    networks = read_networks(arguments.checkpoints, arguments.int8)
    translators = [translator_of(folder, arguments.int8) for folder in arguments.checkpoints]
    files = site(networks, translators, arguments.int8)
    for name, content in files.items():
        file = arguments.out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, content)
    size = sum(map(len, files.values())) / 1e6
    print(f"{arguments.out}: {len(files)} files, {size:.1f} MB; open index.html")  # noqa: T201


if __name__ == "__main__":
    main(parser(), run)
