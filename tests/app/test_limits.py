"""Resource limits, tested on real servers with small limits."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.benchmark.browser import free_port
from tests.app.test_many import finished
from tests.load.client import Client
from tests.load.server import HOST, ROOT, Server, server

SOON = 60
MB = 1024 * 1024
PER_ADDRESS = 6
TEXT = "Ein Hund liest im Park."


def websocket(found: Server) -> ClientConnection:
    address = f"{HOST}:{found.port}"
    return connect(
        f"ws://{address}/_stcore/stream",
        subprotocols=["streamlit"],
        origin=f"http://{address}",
        max_size=None,
        max_queue=None,  # otherwise closing waits 10 s for the unread messages
    )


def status(found: Server, path: str = "/_stcore/health", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, found.port, timeout=SOON)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace")


def healthy(found: Server) -> bool:
    try:
        return status(found) == (200, "ok")
    except (OSError, http.client.HTTPException):
        return False


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def limited(tmp_path_factory) -> Iterator[tuple[Server, Path]]:
    """Yield a server with small limits, and its log file."""
    log = tmp_path_factory.mktemp("limits") / "log.txt"
    with server(
        log,
        connections=12,
        connections_per_address=PER_ADDRESS,
        idle_s=2,
        silent_s=3,
        upload_mb=22,
    ) as found:
        yield found, log
    assert "Traceback" not in log.read_text()


def test_pages_per_address_are_limited_and_freed(limited):
    found, log = limited
    with ExitStack() as stack:
        held = [stack.enter_context(websocket(found)) for _ in range(PER_ADDRESS)]
        with pytest.raises(InvalidStatus) as refused:
            websocket(found)
        assert refused.value.response.status_code == 503
        assert b"6 pages are open from your address" in refused.value.response.body
        assert status(found) == (200, "ok")
        assert status(found, "/", Accept="text/html")[0] == 503
        assert "refused a page to 127.0.0.1" in log.read_text()
        # None of them ran the page: they are closed, which makes room.
        for one in held:
            with pytest.raises(ConnectionClosed):
                while True:
                    one.recv(timeout=SOON)
            assert one.close_code == 1008
    with websocket(found):
        assert status(found, "/", Accept="text/html")[0] == 200


def raw(found: Server, sent: bytes) -> socket.socket:
    """Open a connection, send these bytes, and stay silent."""
    one = socket.create_connection((HOST, found.port), timeout=20)
    one.sendall(sent)
    return one


def test_a_connection_without_a_complete_request_is_closed(limited):
    found, _ = limited
    half = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
    whole = b"GET /_stcore/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    start = time.monotonic()
    with ExitStack() as stack:
        for one in [stack.enter_context(raw(found, sent)) for sent in (b"", half, whole + half)]:
            while one.recv(4096):  # the response, if any, and then the end
                pass
    assert time.monotonic() - start < 10


def test_a_link_that_is_too_long_gets_a_line(limited):
    """As in a browser, the request is sent before the answer is read; one read may take 256 KB."""
    found, _ = limited
    code, line = status(found, f"/class?plan={'a' * 2_000_000}", Accept="text/html")
    assert (code, line.count("\n")) == (431, 0)
    assert "too long" in line and "2,000 characters" in line
    assert status(found, f"/class?plan={'a' * 2_000}")[0] == 200
    with socket.create_connection((HOST, found.port), timeout=SOON) as other:
        other.sendall(b"\x00 nonsense\r\n\r\n")  # not too long: refused as before
        assert other.recv(100).startswith(b"HTTP/1.1 400")


def test_connections_per_peer_are_limited(limited):
    found, _ = limited
    with ExitStack() as stack:
        held = [stack.enter_context(raw(found, b"")) for _ in range(24)]
        assert not healthy(found)  # from the same peer, so refused as well
        held[0].close()
        wait_until(lambda: healthy(found))


def put(found: Server, session: str, file: str, size: int, cookie: str) -> int:
    """Upload a file as a browser does; return the status."""
    head = (
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.npz"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n"
    )
    connection = http.client.HTTPConnection(HOST, found.port, timeout=SOON)
    connection.request(
        "PUT",
        f"/_stcore/upload_file/{session}/{file}",
        head + b"\0" * size + b"\r\n--x--\r\n",
        {
            "Content-Type": "multipart/form-data; boundary=x",
            "Cookie": f"_streamlit_xsrf={cookie}",
            "X-Xsrftoken": cookie,
            "Origin": f"http://{HOST}:{found.port}",
        },
    )
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_uploads_in_a_loop_are_limited(limited):
    found, _ = limited
    connection = http.client.HTTPConnection(HOST, found.port, timeout=SOON)
    connection.request("GET", "/_stcore/health")
    cookie = connection.getresponse().headers["Set-Cookie"].split("=", 1)[1].split(";")[0]

    def session(stack: ExitStack) -> str:
        """Run the page once, so that the server has loaded what it needs."""
        tab, found_id = stack.enter_context(websocket(found)), ""
        message = BackMsg()
        message.rerun_script.query_string = ""
        tab.send(message.SerializeToString())
        while True:
            got = ForwardMsg.FromString(tab.recv(timeout=SOON, decode=False))
            if got.WhichOneof("type") == "new_session":
                found_id = got.new_session.initialize.session_id
            elif got.WhichOneof("type") == "script_finished":
                return found_id

    with ExitStack() as stack:
        first = session(stack)
        assert put(found, first, "first", 4 * MB, cookie) == 204
        before = found.memory
        for i in range(25):
            assert put(found, first, f"f{i}", 4 * MB, cookie) == 204
        assert found.memory < before + 60  # 25 files are 100 MB
        # The first page keeps its last two files, 8 MB; one address may have 11 MB.
        other = session(stack)
        assert put(found, other, "a", 2 * MB, cookie) == 204
        assert put(found, other, "b", 2 * MB, cookie) == 429
        assert put(found, first, "c", 6 * MB, cookie) == 413


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))\n"
        "from app.serving.limits import raise_descriptors; print(raise_descriptors())\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert failed_start([sys.executable, "-c", code]) == (0, "256\n(256, 256)\n")


START = [sys.executable, "-m", "app.serving.start"]


def failed_start(command: list[str], **environment: str) -> tuple[int, str]:
    """Start a server that fails; return its status and output."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SOON,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    return done.returncode, done.stdout + done.stderr


WITHOUT_HOME = """
import pwd, sys
def getpwuid(uid): raise KeyError(uid)
pwd.getpwuid = getpwuid
from app.serving.start import main
main(["--server.port", sys.argv[1]])
"""
"""A container whose user id is not in /etc/passwd."""


@pytest.mark.parametrize(
    ("command", "environment", "said"),
    [
        (
            [*START, "--server.port", "{used}"],
            {},
            "port {used} is in use, choose another: make app",
        ),
        ([*START, "--server.port", "70000"], {}, "port 70000 does not exist: choose one from 1 to"),
        (
            [sys.executable, "-c", WITHOUT_HOME, "{free}"],
            {"HOME": None},
            "HOME is not set, .* make app HOME=$(mktemp -d)",
        ),
        (
            [*START, "--server.port={free}"],
            {"HEADLIGHT_IDLE_S": "0"},
            "HEADLIGHT_IDLE_S=0: give a whole number from 1 to",
        ),
        (
            [sys.executable, "-c", "import app.serve"],
            {"HEADLIGHT_FRAME_ANCESTORS": "*"},
            "HEADLIGHT_FRAME_ANCESTORS: '*' is not a site",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(limited, command, environment, said):
    ports = {"used": limited[0].port, "free": free_port()}
    command = [part.format(**ports) if part.isascii() and "{" in part else part for part in command]
    given = {name: text for name, text in ({"HOME": "/"} | environment).items() if text is not None}
    code, output = failed_start(command, **given)
    assert code == 1 and output.count("\n") == 1
    for part in said.format(**ports).split(" .* "):
        assert part in output


def test_an_unreadable_home_is_a_one_line_error(tmp_path, monkeypatch):
    from app.serving import start

    class Home(type(tmp_path)):
        def stat(self, **_: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    assert start.home_error() is None
    monkeypatch.setattr(start.Path, "home", lambda: Home(tmp_path))
    line = start.home_error()
    assert line and line.startswith(f"HOME={tmp_path} cannot be read: run make app HOME=")


def test_the_server_does_not_start_without_its_configuration(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "app/serve.py")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("server.allowedHosts is not set: start the app")


def test_no_client_message_clears_the_caches(limited):
    found, log = limited

    def computed() -> int:
        lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
        return sum(json.loads(line)["what"] == "inspect" for line in lines)

    async def through() -> tuple[int, int]:
        async with await Client.connect(found.port) as client:
            await client.open()
            first = await client.type("source", TEXT)
            before = computed()
            for kind in ("clear_cache", "set_run_on_save", "debug_shutdown_runtime"):
                message = BackMsg()
                setattr(message, kind, True)
                await client._socket.send(message.SerializeToString())
        async with await Client.connect(found.port) as other:
            await other.open()
            again = await other.type("source", TEXT)
        assert first.translation and again.translation == first.translation
        return before, computed()

    before, after = finished(through())
    assert before >= 1 and after == before


def test_file_descriptors_stay_in_reserve():
    """With at most 256 descriptors, 150 idle websockets leave the server healthy."""

    def lower_limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))

    with server(before=lower_limit, connections=500, connections_per_address=500) as found:
        limits = Path(f"/proc/{found.pid}/limits").read_text()
        assert limits.split("Max open files")[1].split()[:2] == ["256", "256"]
        refused = 0
        with ExitStack() as stack:
            for _ in range(150):
                try:
                    stack.enter_context(websocket(found))
                except InvalidStatus as error:
                    assert error.response.status_code == 503
                    refused += 1
            # 128 descriptors are in reserve and a page takes 4: 32 pages fit, 16 from one address.
            assert refused == 150 - 16
            assert status(found) == (200, "ok")
            assert len(list(Path(f"/proc/{found.pid}/fd").iterdir())) < 256 - 64
