"""Fixtures for browser tests: Chromium, one Streamlit server per script, and pages."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch
from playwright.sync_api import Browser, BrowserContext, Page
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import local_script_runner

from app.benchmark.browser import BROWSERS, chromium
from app.benchmark.browser import serve as run_server
from app.export import offline
from app.state import models, results
from app.views.shared.question import Outcome
from core.parity import checklist
from core.translator import Translator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def one_thread_as_in_the_app() -> None:
    """Use the app's number of threads: with another number, records are not bit-equal."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def packages_are_not_scanned() -> Iterator[None]:
    """Skip the scan of installed packages for components, which each AppTest would repeat."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", list)
        yield


@pytest.fixture(scope="session", autouse=True)
def scripts_run_undisturbed() -> Iterator[None]:
    """Let AppTest wait for its script without waking each millisecond, which slows the script."""
    check = local_script_runner.require_widgets_deltas

    def wait(runner: local_script_runner.LocalScriptRunner, timeout: float) -> None:
        runner._script_thread.join(timeout)
        check(runner, 5.0)  # stops it, if it still runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_script_runner, "require_widgets_deltas", wait)
        yield


@pytest.fixture(scope="session", autouse=True)
def head_effects_in_one_run() -> Iterator[None]:
    """Let the page Ask why finish its ranking in the first run, even on a slow machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.views.why.heads.FIRST_S", 60.0)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_lines_of_the_checklist() -> Iterator[None]:
    """Run the first lines of the checklist in rendered pages; core's tests run all."""
    every = checklist.checklist
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checklist, "checklist", lambda checkpoint: islice(every(checkpoint), 8))
        yield


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    """Use the installed headless shell or Chromium; without one, skip locally and fail in CI."""
    try:
        path = chromium(("chromium-headless-shell", *BROWSERS))  # half of Chromium's CPU time
    except ValueError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
    return {
        **browser_type_launch_args,
        "executable_path": path,
        "args": [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--font-render-hinting=none",  # texts as wide as in full Chromium
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--process-per-site",  # see `visits`
        ],
    }


@pytest.fixture
def without_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show what a page's question hides."""
    settled = Outcome(None, True, True)
    monkeypatch.setattr("app.views.shared.question.ask", lambda *_: settled)


def clear_caches() -> None:
    """Forget the list of models, the loaded models and their results."""
    models._listed.clear()
    models._networks.clear()
    models._loaded.clear()
    results._store.clear()


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in the place of the shipped checkpoints."""
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    clear_caches()
    yield tmp_path
    clear_caches()


@pytest.fixture(scope="module")
def translator() -> Translator:
    """Return the app's default model, loaded in this process."""
    return Translator.load(ROOT / "checkpoints/scratch-de-en", device="cpu")


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Return `serve(script) -> url`: one server per script and test session."""
    with ExitStack() as stack:
        yield cache(lambda script: stack.enter_context(run_server(script)))


@contextmanager
def watched(page: Page) -> Iterator[Page]:
    """Fail if the page contacted another host, opened a dialog or raised an error."""
    foreign: list[str] = []
    unexpected: list[str] = []

    def note_request(request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.hostname not in (
            "127.0.0.1",
            "localhost",
        ):
            foreign.append(request.url)

    def note_dialog(dialog) -> None:
        unexpected.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("request", note_request)
    page.on("dialog", note_dialog)
    page.on("pageerror", lambda error: unexpected.append(f"error: {error}"))
    yield page
    assert not foreign, f"requests left this machine: {foreign}"
    assert not unexpected, unexpected


@pytest.fixture(scope="session")
def visits(
    launch_browser: Callable[..., Browser], browser_type_launch_args: dict
) -> Iterator[BrowserContext]:
    """A browser context whose pages share one process, so Streamlit's scripts load only once.

    A page in a new process takes twice as long to load. The process ends with its last page, so an
    empty page stays open. Streamlit's pages close before optimised code would pay off.
    """
    args = [
        *browser_type_launch_args["args"],
        "--js-flags=--no-opt --no-maglev",
        "--disable-features=ScriptStreaming,SmallScriptStreaming,BackgroundResourceFetch",
    ]
    browser = launch_browser(args=args)
    context = browser.new_context(reduced_motion="reduce")  # animated placeholders cost a second
    empty = context.new_page()
    empty.route("**", lambda route: route.fulfill(body=""))
    empty.goto("http://127.0.0.1/")
    yield context
    browser.close()


@contextmanager
def visited(context: BrowserContext) -> Iterator[Page]:
    """Open a watched page; clear its storage, cookies and permissions afterwards."""
    page = context.new_page()
    try:
        with watched(page):
            yield page
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
    finally:
        page.close()
        context.clear_cookies()
        context.clear_permissions()


@pytest.fixture(scope="session")
def blank(visits: BrowserContext) -> Page:
    """An empty page, shared by scripts that need no particular document."""
    return visits.new_page()


@pytest.fixture
def local_page(visits: BrowserContext) -> Iterator[Page]:
    """A new page for one test."""
    with visited(visits) as page:
        yield page


@pytest.fixture(scope="module")
def shared_page(visits: BrowserContext) -> Iterator[Page]:
    """One page for all tests of a module, because loading it takes longer than the tests."""
    with visited(visits) as page:
        yield page


@pytest.fixture(scope="module")
def computing_page(browser: Browser) -> Iterator[Page]:
    """A page whose scripts are optimised, which those of `visits` are not; it has no document."""
    page = browser.new_page()
    with watched(page):
        yield page
    page.close()


@pytest.fixture(scope="module")
def offline_context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser context without a network."""
    context = browser.new_context(offline=True, viewport={"width": 1440, "height": 900})
    yield context
    context.close()


@pytest.fixture(scope="session")
def offline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The offline page of two small networks, for both directions, written by the command.

    Writing it takes seconds, so the first worker writes it for all.
    """
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    out = shared / "offline" / "head light.html"
    folders = (str(ROOT / f"checkpoints/captions-{d}") for d in ("de-en", "en-de"))
    given = [text for folder in folders for text in ("--checkpoint", folder)]
    out.parent.mkdir(exist_ok=True)
    with (out.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.is_file():
            offline.run(offline.parser().parse_args([*given, "--out", str(out)]))
    return out


@contextmanager
def opened_offline(context: BrowserContext, address: str, *own: str) -> Iterator[Page]:
    """Open an address; fail if the page raised an error or requested a URL outside `own`.

    `own` are the beginnings of allowed URLs.
    """
    page = context.new_page()
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.goto(address)
        yield page
        assert [url for url in requests if not url.startswith((*own, "blob:", "data:"))] == []
        assert errors == []
    finally:
        page.close()
