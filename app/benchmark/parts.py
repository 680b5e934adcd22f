"""Break down the time of a new sentence, from the click to the painted frame."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from app.benchmark.browser import EXPLORER, row, text_of

# Records the time of each sent message, and the time and size of each received one.
WATCH = """() => {
  window.headlightWire = [];
  const note = (way, size) => window.headlightWire.push([way, performance.now(), size]);
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) { note("sent", 0); return send.call(this, data); };
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener(
        "message", ({ data }) => note("received", data.byteLength ?? data.size));
    }
  };
}"""
# Resolves with the times of the click, of the explorer's change and of the frame after it, and
# with the messages that WATCH recorded.
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
    """Yield one row per part, in order; the page must have been opened with the script `WATCH`.

    The server's parts are timed in this process, with the same model. `the page's run, and the
    message` is the time from the request to the largest response, minus these parts. Uses the texts
    of `text_of` with numbers from 500.
    """
    times: dict[str, list[float]] = {}
    button = page.locator(".st-key-translate button")
    texts = [text_of(tokens, 500 + number) for number in range(rounds + 1)]
    for number, text in enumerate(texts):
        page.locator(".st-key-source textarea").fill(text)
        page.locator(EXPLORER).evaluate(_MOMENTS)
        button.click()
        clicked, changed, painted, wire = page.evaluate("window.headlightMoments")
        sent = next(at for way, at, _ in wire if way == "sent" and at >= clicked)
        received = max((size, at) for way, at, size in wire if way == "received" and at <= changed)[
            1
        ]
        if number == 0:  # warm-up: connection and first drawing
            continue
        for what, value in (
            ("click to question", sent - clicked),
            ("server", received - sent),
            ("script", changed - received),
            ("paint", painted - changed),
        ):
            times.setdefault(what, []).append(value)
    found = {what: statistics.median(values) for what, values in times.items()}
    served = _served(texts)
    rest = found.pop("server") - sum(served.values())
    order = {"click to question": found.pop("click to question"), **served}
    order |= {"the page's run, and the message": rest, **found}
    for what, value in order.items():
        yield row(f"of a new sentence: {what}", f"shipped model, {tokens}", tokens, value)


def _served(texts: list[str]) -> dict[str, float]:
    """Return the median ms of search, passes, checks and payload, measured in this process."""
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

    tasks: dict[str, Callable[[Any], object]] = {
        "search": lambda record: translator.translate([record.source_text]),
        "passes": passes,
        "checks": translator.recheck,
        "payload": lambda record: pack(payload(record, {"kind": "cross"})),
    }
    times: dict[str, list[float]] = {what: [] for what in tasks}
    for record in records:
        for what, task in tasks.items():
            start = time.perf_counter()
            task(record)
            times[what].append(1000 * (time.perf_counter() - start))
    found = {what: statistics.median(values[1:]) for what, values in times.items()}
    found["checks"] -= found["passes"]  # a recheck repeats the passes
    return found
