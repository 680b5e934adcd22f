"""Server options and the middleware's host, origin and header checks, over HTTP."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from app import serve as served
from app.state import results

ROOT = Path(__file__).resolve().parents[2]
SET = {
    "server.address": "127.0.0.1",
    "server.allowedHosts": ["localhost", "127.0.0.1"],
    "server.maxUploadSize": 5,
    "server.maxMessageSize": 20,
    "server.maxWidgetStateSize": 1,
    "server.disconnectedSessionTTL": 30,
    "server.maxCacheDataSize": "64mb",
    "server.enableStaticServing": False,
    "server.enableXsrfProtection": True,
    "server.enableCORS": True,
    "server.enableAgentApi": False,
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.showErrorLinks": False,
    "client.toolbarMode": "viewer",
    "runner.magicEnabled": False,
}
OWN = "127.0.0.1"


@pytest.fixture(scope="module")
def address(serve) -> str:
    """Host and port of the guarded app."""
    return urlsplit(serve(ROOT / "app/serve.py")).netloc


def get(address: str, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(address, timeout=30)
    sent = {"Host": address} | {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request(method, path, headers=sent)
    return connection.getresponse()


def test_the_server_starts_with_its_options():
    code = f"from streamlit import config; print([config.get_option(n) for n in {list(SET)}])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(list(SET.values()))
    assert results.LIMIT <= 256 * 2**20


def test_the_page_has_its_security_headers(address):
    answer = get(address, "/")
    assert answer.status == 200
    for name, text in served.HEADERS.items():
        assert answer.headers.get_all(name) == [text]
    scripts = re.search("script-src ([^;]+)", answer.headers["Content-Security-Policy"])[1]
    assert "unsafe" not in scripts and "http" not in answer.headers["Content-Security-Policy"]
    assert len(re.findall("<script>", answer.read().decode())) == scripts.count("sha256-")


def test_metrics_are_not_served(address):
    for path in ("/_stcore/metrics", "/_stcore/metrics/", "/x/_stcore/metrics"):
        assert get(address, path).status == 404
        assert b"session" not in get(address, path).read()
    assert get(address, "/_stcore/health").status == 200


@pytest.mark.parametrize("path", ["/", "/_stcore/health", "/masks"])
def test_foreign_hosts_and_origins_are_rejected(address, path):
    port = address.split(":")[1]
    assert get(address, path, Host=f"localhost:{port}").status == 200
    for host in ("evil.example", f"evil.example:{port}", "", f"127.0.0.1.evil.example:{port}"):
        assert get(address, path, Host=host).status == 403
    for origin in ("http://evil.example", "null", f"http://{OWN}:1", f"http://{address}.evil"):
        assert get(address, path, Origin=origin).status == 403
    assert get(address, path, Origin=f"http://{address}").status == 200
    assert get(address, "/_stcore/upload_file/a/b", "PUT").status == 403


@pytest.mark.parametrize(
    ("host", "origin"), [(None, "http://evil.example"), ("evil.example", None), (None, "null")]
)
def test_foreign_websockets_are_rejected(address, host, origin):
    name, port = address.split(":")
    with pytest.raises(InvalidStatus) as refused:
        connect(
            f"ws://{host or address}/_stcore/stream",
            sock=socket.create_connection((name, int(port)), timeout=30),
            subprotocols=["streamlit"],
            additional_headers={"Origin": origin} if origin else {},
        )
    assert refused.value.response.status_code == 403


def test_an_oversized_message_closes_its_own_connection(address):
    with connect(
        f"ws://{address}/_stcore/stream",
        subprotocols=["streamlit"],
        origin=f"http://{address}",
        max_size=None,
    ) as connection:
        with pytest.raises(ConnectionClosed):
            connection.send(b"\0" * 21_000_000)
            while True:
                connection.recv(timeout=30)
        # 1006: the server closed the connection before the whole message was sent.
        assert connection.close_code in (1009, 1006)
    assert get(address, "/_stcore/health").status == 200


def test_optional_libraries_are_imported_on_demand():
    code = (
        "import sys; from streamlit.testing.v1 import AppTest; "
        f"page = AppTest.from_file({str(ROOT / 'app/main.py')!r}, default_timeout=120).run(); "
        "assert not page.exception; "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert {"streamlit", "torch", "core"} <= loaded
    parts = "spacy torchtext scipy sacremoses sacrebleu rich lxml thinc huggingface_hub"
    assert not loaded & set(parts.split())
