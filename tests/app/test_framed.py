"""Framing the app in another site's page, in a real browser."""

from __future__ import annotations

import http.client
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.load.server import HOST, ROOT, Server, server

PAINTED = re.compile(r"[1-9]")
SANDBOX = "allow-scripts allow-same-origin allow-downloads"


class Course(http.server.BaseHTTPRequestHandler):
    """A course page that frames the URL after its `?`."""

    def do_GET(self) -> None:
        address = self.path.partition("?")[2]
        body = f'<iframe src="{address}" sandbox="{SANDBOX}" width="1200" height="900"></iframe>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def course() -> Iterator[str]:
    """The course's URL: for a browser, localhost and 127.0.0.1 are different sites."""
    with http.server.ThreadingHTTPServer((HOST, 0), Course) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://localhost:{found.server_port}"
        found.shutdown()


@pytest.fixture(scope="module")
def framed(course) -> Iterator[Server]:
    """A server that this course and an https site may frame."""
    with server(frame_ancestors=f"{course} https://moodle.example.org") as found:
        yield found


def test_a_listed_site_frames_the_app(local_page: Page, course, framed, tmp_path):
    """The record is opened in a tab, since in a frame the browser may block the upload cookie."""
    local_page.goto(f"{course}/?http://{HOST}:{framed.port}/?embed=true")
    frame = local_page.frame_locator("iframe")
    explorer = frame.locator(".st-key-explorer section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-painted", PAINTED, timeout=60_000)
    idle = expect(frame.locator("[data-test-script-state=notRunning]"))
    idle.to_be_attached(timeout=60_000)  # a run may replace what is clicked
    frame.locator(".st-key-take_away summary").click()
    idle.to_be_attached(timeout=60_000)
    with local_page.expect_download(timeout=30_000) as download:
        frame.get_by_role("button", name="Record (.npz)").click()
    saved = tmp_path / "saved.npz"
    download.value.save_as(saved)
    assert saved.read_bytes()[:2] == b"PK"
    local_page.goto(f"http://{HOST}:{framed.port}/")
    local_page.locator(".st-key-take_away summary").click()
    local_page.locator(".st-key-open_record input[type=file]").set_input_files(saved)
    opened = local_page.locator(".st-key-opened_explorer section[aria-label='Attention explorer']")
    expect(opened).to_have_attribute("data-painted", PAINTED, timeout=60_000)


def test_the_upload_cookie_is_cross_site_only_if_framing_is_allowed(framed, serve):
    def cookie(address: str) -> str:
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().headers["Set-Cookie"]

    assert "SameSite=None; Secure" in cookie(f"{HOST}:{framed.port}")
    default = cookie(serve(Path(ROOT) / "app/serve.py").removeprefix("http://"))
    assert "SameSite=Lax" in default and "Secure" not in default
