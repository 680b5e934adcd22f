"""Collect what one version of the project computes, shows and writes, as {key: text or SHA-256}.

    python facts.py PART SENTENCES OUT.json

Runs in the root of that version's tree and uses its public interfaces only, so the same script
serves versions that lack it.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

TREE = Path.cwd()
NETWORKS = sorted(path.parent.name for path in TREE.glob("checkpoints/*/config.json"))
_BEFORE_THE_LIST = (
    "",
    *"tour tokens steps head why heads literature together masks positions bugs".split(),
    *"training comparison class quiz glossary".split(),
)
PAGES = tuple(getattr(importlib.import_module("app.views"), "VIEWS", _BEFORE_THE_LIST))
"""The URL paths of all pages of this version; older versions have no list of them."""
SHOWN = {
    "de-en": (
        "Ein Hund läuft.",
        "Zwei junge Männer in orangefarbenen Westen spielen im Park Fußball.",
        "Die Bank, auf der »Kinder« sitzen, steht vor der Bank – seit 1.000 Jahren!",
    ),
    "en-de": (
        "A dog is running.",
        "Two young men in orange vests are playing soccer in the park.",
        "The bench on which “children” sit has been in front of the bank for 1,000 years!",
    ),
}
EDITS = (
    "off.cross.0.1",
    "cut.cross.1.2.1.0",
    "hide.1",
    "temp.cross.1.0.2",
    "times.encoder.0.1.2.1.3",
)
PARTS_OF_SPEECH = {
    "de": (
        "Ein Mann|Eine Frau|Zwei Kinder|Der braune Hund|Viele junge Leute",
        "läuft|springt|steht|sitzen und lachen|spielt Fußball",
        "im Park|auf einer Bank|vor einem großen Haus|am Strand",
        ".|, während es schneit.",
    ),
    "en": (
        "A man|A woman|Two children|The brown dog|Many young people",
        "runs|jumps|is standing|are sitting and laughing|plays soccer",
        "in the park|on a bench|in front of a big house|at the beach",
        ".|, while it is snowing.",
    ),
}
EXPORTS = ("map-svg", "map-csv", "overview-svg")


def digest(*values: Any) -> str:
    """Return the SHA-256 of arrays, texts and numbers."""
    found = sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            found.update(f"{value.dtype}{value.shape}".encode())
            found.update(np.ascontiguousarray(value).tobytes())
        else:
            found.update(value if isinstance(value, bytes) else repr(value).encode())
    return found.hexdigest()


def sentences(language: str, count: int) -> list[str]:
    """Return different sentences of a language, the same at every call."""
    parts = [part.split("|") for part in PARTS_OF_SPEECH[language]]
    made = [f"{who} {does} {where}{end}" for who, does, where, end in itertools.product(*parts)]
    return [made[(7 * n) % len(made)] for n in range(min(count, len(made)))]


def of_record(record: Any) -> str:
    """Return the digest of a record's tokens, numbers and texts."""
    tokens = [(t.id, t.text) for t in (*record.source, *record.target_in, *record.target_out)]
    maps = (record.encoder, record.decoder, record.cross, record.log_probs)
    masks = (record.encoder_mask, record.decoder_mask, record.cross_mask)
    return digest(record.source_text, record.translation, tokens, *maps, *masks)


def records(count: int) -> Iterator[tuple[str, str]]:
    """Yield translations, records and edited passes of every network."""
    import core

    for name in NETWORKS:
        translator = core.load(name, device="cpu")
        texts = sentences(translator.card.direction.split("-")[0], count)
        for text, one in zip(texts, translator.translate(texts, beam=5), strict=True):
            yield f"records/{name}/beam/{text}", one.text
        for text, record in zip(texts, translator.inspect(texts), strict=True):
            yield f"records/{name}/pass/{text}", of_record(record)
        for edit, text in itertools.product(EDITS, texts[:20:4]):
            edits, problems = core.Edits.parse(edit)
            shown = problems or of_record(translator.inspect(text, edits=edits))
            yield f"records/{name}/{edit}/{text}", str(shown)


def pages(_: int) -> Iterator[tuple[str, str]]:
    """Yield texts, figures, payloads and URL of every page, with all its sections open."""
    path = Path(__file__).parents[1] / "app/rendered.py"
    spec = importlib.util.spec_from_file_location("rendered", path)
    assert spec is not None and spec.loader is not None
    rendered = importlib.util.module_from_spec(spec)
    sys.modules["rendered"] = rendered
    spec.loader.exec_module(rendered)
    rendered.MAIN = TREE / "app/main.py"
    for direction, texts in SHOWN.items():
        for page, text in itertools.product(PAGES, texts):
            query = {"source": text, "direction": direction, "model": "scratch"}
            where = f"pages/{page or 'translate'}/{direction}/{text}"
            try:
                shown = rendered.render(page, *_sections(rendered, page, query), **query)
            except AssertionError as error:
                yield f"{where}/error", str(error)
                continue
            yield f"{where}/url", json.dumps(dict(shown.app.query_params), sort_keys=True)
            yield f"{where}/text", "\n".join(map(str, shown.items))
            for kind in ("figures", "tables", "payloads"):
                for key, values in getattr(shown, kind).items():
                    yield f"{where}/{kind}/{key}", digest(*map(_plain, values))


def _sections(rendered: Any, page: str, query: dict[str, str]) -> list[str]:
    """Return the keys of a page's sections, which are computed only when they are open."""
    app = rendered.render(page, **query).app
    expanders = [node for node in _nodes(app._tree) if node.type == "expander"]
    return [key for node in expanders if (key := rendered._key(node.proto))]


def _nodes(node: Any) -> Iterator[Any]:
    for child in getattr(node, "children", {}).values():
        yield child
        yield from _nodes(child)


def _plain(value: Any) -> Any:
    if hasattr(value, "to_csv"):
        return value.to_csv()
    if isinstance(value, dict) and "blobs" in value:
        return [value["json"], sorted(digest(blob) for blob in value["blobs"].values())]
    return value


def exports(_: int) -> Iterator[tuple[str, str]]:
    """Yield what is saved: records, worksheets, pictures and tables of saved and offline pages."""
    import core
    from app.export import offline, show
    from app.export.worksheet import sheet, worksheet

    with tempfile.TemporaryDirectory() as name, _browser() as browser:
        folder = Path(name)
        for direction, texts in SHOWN.items():
            translator = core.load(f"scratch-{direction}", device="cpu")
            made = [translator.inspect(text) for text in texts]
            yield f"exports/{direction}/worksheet", worksheet([sheet(one) for one in made])
            for number, record in enumerate(made):
                where = f"exports/{direction}/{number}"
                yield f"{where}/npz", digest(record.to_bytes())
                yield f"{where}/dataframe", digest(record.to_dataframe("cross").to_csv())
                saved = folder / f"{direction}-{number}.html"
                show(record).save(saved)
                yield from _files(browser, where, saved.as_uri())
            networks = [offline.network(TREE / f"checkpoints/scratch-{direction}")]
            whole = folder / f"{direction}.html"
            whole.write_bytes(offline.page(networks).encode())
            address = f"{whole.as_uri()}#{urlencode({'source': texts[1]})}"
            yield from _files(browser, f"exports/{direction}/offline", address)


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    from app.benchmark.browser import BROWSERS, chromium

    path = chromium(("chromium-headless-shell", *BROWSERS))
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


_AT_REST = """
() => {
    const now = document.querySelector('.explorer').dataset.painted;
    if (window.seen !== now) { window.seen = now; window.since = Date.now(); }
    return Date.now() - window.since > 3000;
}
"""


def _files(browser: Any, where: str, address: str) -> Iterator[tuple[str, str]]:
    """Yield the visible text of a page with an explorer, and what its save buttons write."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, bypass_csp=True)
    page.goto(address)
    page.wait_for_function("document.querySelector('.explorer')?.dataset.painted", timeout=300_000)
    page.wait_for_function(_AT_REST, timeout=300_000)
    # Only now: the offline page starts its worker from such an address.
    page.evaluate("URL.createObjectURL = (blob) => ((window.kept = blob), '#kept')")
    for kind in ("encoder", "decoder", "cross"):
        page.locator(f"[data-kind-option={kind}]").click()
        yield f"{where}/{kind}/text", page.locator(".explorer").inner_text()
        for name in EXPORTS:
            page.evaluate("window.kept = null")
            page.locator(f"[data-export={name}]").evaluate("(button) => button.click()")
            page.wait_for_function("window.kept !== null")
            yield f"{where}/{kind}/{name}", digest(page.evaluate("kept.text()"))
    page.close()


def commands(_: int) -> Iterator[tuple[str, str]]:
    """Yield output and JSON of the commands on a few sentences."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for language in ("de", "en"):
            lines = [text[:-1] + " ." for text in sentences(language, 24)]
            (folder / f"words.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "gold").write_text("0-0 1-1 2?2\n" * 24, encoding="utf-8")
        files = ["--src", f"{folder}/words.de", "--ref", f"{folder}/words.en"]
        for command in (
            ["translate"],
            ["evaluate", *files],
            ["verify"],
            ["analyse", "alignment", *files, "--gold", f"{folder}/gold"],
            ["analyse", "align", *files],
            ["analyse", "importance", *files],
        ):
            key = "commands/" + "-".join(part for part in command[:2] if not part.startswith("-"))
            out = folder / "out.json"
            out.unlink(missing_ok=True)
            wanted = [] if command == ["translate"] else ["--json", str(out)]
            full = [f"core.{command[0]}", *command[1:], "--checkpoint", "checkpoints/scratch-de-en"]
            with (folder / "words.de").open(encoding="utf-8") as source:
                done = subprocess.run(
                    [sys.executable, "-m", *full, *wanted],
                    stdin=source,
                    capture_output=True,
                    text=True,
                )
            yield f"{key}/status", str(done.returncode)
            if out.exists():
                yield f"{key}/json", json.dumps(_timeless(json.loads(out.read_text())))
            if key in ("commands/translate", "commands/analyse-align"):
                yield f"{key}/output", done.stdout


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if "seconds" not in k}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def main() -> None:
    """Write one part's facts."""
    import torch

    part, count, out = sys.argv[1:]
    torch.set_num_threads(1)
    found = dict(
        {"records": records, "pages": pages, "exports": exports, "commands": commands}[part](
            int(count)
        )
    )
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
