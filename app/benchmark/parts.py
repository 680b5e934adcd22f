"""Where the time of a new sentence goes, from the click to the frame that shows it."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from app.benchmark.browser import EXPLORER, row, text_of

# Notes when the page asks for something and when each answer comes, with its size.
WATCH = """() => {
  window.headlightWire = [];
  const note = (way, size) => window.headlightWire.push([way, performance.now(), size]);
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) { note("asked", 0); return send.call(this, data); };
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => note("came", data.byteLength ?? data.size));
    }
  };
}"""
# Resolves with the moments of the click, of the explorer's change and of the frame behind it.
_MOMENTS = """(root) => {
  window.headlightWire.length = 0;
  let clicked = null;
  document.addEventListener(
    "click", () => { clicked = performance.now(); }, { capture: true, once: true });
  window.headlightMoments = new Promise((resolve) => {
    const before = root.dataset.sentence;
    const observer = new MutationObserver(() => {
      if (root.dataset.sentence === before || clicked === null) return;
      observer.disconnect();
      const changed = performance.now();
      requestAnimationFrame(() => setTimeout(
        () => resolve([clicked, changed, performance.now(), window.headlightWire])));
    });
    observer.observe(root, { attributes: true });
  });
}"""


def parts(page: Any, tokens: int, rounds: int) -> Iterator[dict[str, Any]]:
    """One row a part, in their order, of a page with `WATCH` from its start.

    The texts are those that `text_of` numbers from 500 on.

    What the server does is timed in this process, on the same network; `the page's run, and the
    message` is what remains of the time from the question to the largest answer.
    """
    taken: dict[str, list[float]] = {}
    button = page.locator(".st-key-translate button")
    texts = [text_of(tokens, 500 + number) for number in range(rounds + 1)]
    for number, text in enumerate(texts):
        page.locator(".st-key-source textarea").fill(text)
        page.locator(EXPLORER).evaluate(_MOMENTS)
        button.click()
        clicked, changed, painted, wire = page.evaluate("window.headlightMoments")
        asked = next(at for way, at, _ in wire if way == "asked" and at >= clicked)
        came = max((size, at) for way, at, size in wire if way == "came" and at <= changed)[1]
        if number == 0:  # which a new connection or a first drawing may have made longer
            continue
        for what, value in (
            ("click to question", asked - clicked),
            ("server", came - asked),
            ("script", changed - came),
            ("paint", painted - changed),
        ):
            taken.setdefault(what, []).append(value)
    found = {what: statistics.median(values) for what, values in taken.items()}
    served = _served(texts)
    rest = found.pop("server") - sum(served.values())
    order = {"click to question": found.pop("click to question"), **served}
    order |= {"the page's run, and the message": rest, **found}
    for what, value in order.items():
        yield row(f"of a new sentence: {what}", f"shipped model, {tokens}", tokens, value)


def _served(texts: list[str]) -> dict[str, float]:
    """Milliseconds of search, passes, checks and payload, in this process."""
    from app.components.explorer.payload import pack, payload
    from app.state import models
    from core.record.teacher_forced import teacher_forced_pass

    card = models.cards()["de-en", "scratch"]
    translator = models.translator(card)
    records = [translator.inspect(text) for text in texts]

    def passes(record: Any) -> None:
        source, target = ([t.id for t in side] for side in (record.source, record.target_out))
        hypotheses = [hypothesis.ids for hypothesis in record.hypotheses]
        with translator.exclusive_model() as network:
            teacher_forced_pass(network, source, target, hypotheses=hypotheses)

    works: dict[str, Callable[[Any], object]] = {
        "search": lambda record: translator.translate([record.source_text]),
        "passes": passes,
        "checks": translator.recheck,
        "payload": lambda record: pack(payload(record, {"kind": "cross"})),
    }
    taken: dict[str, list[float]] = {what: [] for what in works}
    for record in records:
        for what, work in works.items():
            started = time.perf_counter()
            work(record)
            taken[what].append(1000 * (time.perf_counter() - started))
    found = {what: statistics.median(values[1:]) for what, values in taken.items()}
    found["checks"] -= found["passes"]  # which a recheck makes again
    return found
