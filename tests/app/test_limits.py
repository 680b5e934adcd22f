"""Visitors who take too much, tried at real servers with small limits: others notice nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.load.client import Visitor
from tests.load.server import HOST, ROOT, Server, free_port, server

SOON = 60
MB = 1024 * 1024
PER_ADDRESS = 6
TEXT = "Ein Hund liest im Park."


def opened(found: Server) -> ClientConnection:
    address = f"{HOST}:{found.port}"
    return connect(
        f"ws://{address}/_stcore/stream",
        subprotocols=["streamlit"],
        origin=f"http://{address}",
        max_size=None,
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


def until(so: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not so():
        assert time.monotonic() < end
        time.sleep(0.1)


def finished(work: Any) -> Any:
    """What a coroutine returns, in a thread of its own: this one may have a browser's loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Iterator[tuple[Server, Path]]:
    """A server with small limits, and its log."""
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


def test_no_message_of_a_visitor_empties_the_caches(own):
    """The answer is still kept, and no network is loaded again."""
    found, log = own

    def worked() -> int:
        lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
        return sum(json.loads(line)["what"] == "inspect" for line in lines)

    async def through() -> tuple[int, int]:
        async with await Visitor.arrive(found.port) as visitor:
            await visitor.open()
            first = await visitor.type("source", TEXT)
            before = worked()
            for kind in ("clear_cache", "set_run_on_save", "debug_shutdown_runtime"):
                message = BackMsg()
                setattr(message, kind, True)
                await visitor._socket.send(message.SerializeToString())
        async with await Visitor.arrive(found.port) as other:
            await other.open()
            again = await other.type("source", TEXT)
        assert first.translation and again.translation == first.translation
        return before, worked()

    before, after = finished(through())
    assert before >= 1 and after == before


def test_one_address_holds_so_many_pages_and_gets_them_back(own):
    found, log = own
    with ExitStack() as stack:
        held = [stack.enter_context(opened(found)) for _ in range(PER_ADDRESS)]
        with pytest.raises(InvalidStatus) as refused:
            opened(found)
        assert refused.value.response.status_code == 503
        assert b"6 pages are open from your address" in refused.value.response.body
        assert status(found) == (200, "ok")
        assert status(found, "/", Accept="text/html")[0] == 503
        assert "refused a page to 127.0.0.1" in log.read_text()
        # Nobody asked for a page: they are closed, and their places are free.
        for one in held:
            with pytest.raises(ConnectionClosed):
                while True:
                    one.recv(timeout=SOON)
            assert one.close_code == 1008
    with opened(found):
        assert status(found, "/", Accept="text/html")[0] == 200


def test_bad_frames_end_their_own_connection_and_leave_no_traceback(own):
    found, log = own
    for sent, code in ((b"\xff" * 99, 1002), ("text", 1003), (b"\0" * 1_000_001, 1009)):
        with opened(found) as one:
            one.send(sent)
            with pytest.raises(ConnectionClosed):
                while True:
                    one.recv(timeout=SOON)
            assert one.close_code == code
    assert status(found) == (200, "ok")
    assert "Traceback" not in log.read_text()


def raw(found: Server, sent: bytes) -> socket.socket:
    """A connection that sends so much and then nothing."""
    one = socket.create_connection((HOST, found.port), timeout=SOON)
    one.sendall(sent)
    return one


def test_a_connection_without_a_request_is_closed(own):
    found, _ = own
    half = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
    for sent in (b"", half, b"GET /_stcore/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + half):
        with raw(found, sent) as one:
            begun = time.monotonic()
            while one.recv(4096):  # an answer, and then the end
                pass
            assert time.monotonic() - begun < 10


def test_one_peer_holds_so_many_connections(own):
    found, _ = own
    with ExitStack() as stack:
        held = [stack.enter_context(raw(found, b"")) for _ in range(24)]
        assert not healthy(found)  # not even this is answered: it is the same peer
        held[0].close()
        until(lambda: healthy(found))


def test_a_page_that_is_read_for_long_stays_open(own):
    found, _ = own

    async def through() -> tuple[str | None, str | None]:
        async with await Visitor.arrive(found.port) as visitor:
            await visitor.open()
            first = await visitor.type("source", TEXT)
            await asyncio.sleep(4)  # longer than the limits of an idle or a silent connection
            return first.translation, (await visitor.type("source", TEXT + " ")).translation

    first, second = finished(through())
    assert first and first == second


def put(found: Server, session: str, file: str, size: int, cookie: str) -> int:
    """Upload a file as the browser does; returns the status."""
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


def test_uploads_in_a_loop_take_no_more_than_their_share(own):
    found, _ = own
    connection = http.client.HTTPConnection(HOST, found.port, timeout=SOON)
    connection.request("GET", "/_stcore/health")
    cookie = connection.getresponse().headers["Set-Cookie"].split("=", 1)[1].split(";")[0]

    def visit(stack: ExitStack) -> str:
        tab = stack.enter_context(opened(found))
        message = BackMsg()
        message.rerun_script.query_string = ""
        tab.send(message.SerializeToString())
        while True:
            got = ForwardMsg.FromString(tab.recv(timeout=SOON, decode=False))
            if got.WhichOneof("type") == "new_session":
                return got.new_session.initialize.session_id

    with ExitStack() as stack:
        session = visit(stack)
        assert put(found, session, "first", 4 * MB, cookie) == 204
        before = found.memory
        for i in range(40):
            assert put(found, session, f"f{i}", 4 * MB, cookie) == 204
        assert found.memory < before + 60  # 40 files are 160 MB
        other = visit(stack)  # 8 MB are kept, and one address may have 11
        assert put(found, other, "a", 2 * MB, cookie) == 204
        assert put(found, other, "b", 2 * MB, cookie) == 429
        assert put(found, session, "c", 6 * MB, cookie) == 413


def test_the_last_descriptors_are_kept():
    """With 256 descriptors and no more to be had, 150 sockets that only open leave it healthy."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))

    with server(before=few, connections=500, connections_per_address=500) as found:
        limits = Path(f"/proc/{found.pid}/limits").read_text()
        assert limits.split("Max open files")[1].split()[:2] == ["256", "256"]
        refused = 0
        with ExitStack() as stack:
            for _ in range(150):
                try:
                    stack.enter_context(opened(found))
                except InvalidStatus as error:
                    assert error.response.status_code == 503
                    refused += 1
            assert refused == 150 - 16  # (256 - 128) / 4 pages, half of them for one address
            assert status(found) == (200, "ok")
            assert len(list(Path(f"/proc/{found.pid}/fd").iterdir())) < 256 - 64


START = [sys.executable, "-m", "app.serving.start"]


def started(command: list[str], **environment: str) -> tuple[int, str]:
    """A start that fails: its status, and what it says."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SOON,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    return done.returncode, done.stdout + done.stderr


def test_a_port_in_use_is_one_line_that_names_another(own):
    found, _ = own
    code, said = started([*START, "--server.port", str(found.port)], HOME="/")
    assert code == 1
    assert said == f"port {found.port} is in use, choose another: make app PORT=8502\n"
    code, said = started([*START, "--server.port", "70000"], HOME="/")
    assert code == 1 and said == "port 70000: choose from 1 to 65535: make app PORT=8501\n"


def test_a_user_without_a_home_is_told_in_one_line():
    """As in a container with a user id that /etc/passwd does not have."""
    code = (
        "import pwd, sys\n"
        "def getpwuid(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = getpwuid\n"
        "from app.serving.start import main\n"
        "main(['--server.port', sys.argv[1]])\n"
    )
    status, said = started([sys.executable, "-c", code, str(free_port())])
    assert status == 1 and said.count("\n") == 1
    assert said.startswith("HOME is not set") and "make app HOME=$(mktemp -d)" in said


def test_a_home_that_cannot_be_read_is_told_in_one_line(tmp_path, monkeypatch):
    from app.serving import start

    class Home(type(tmp_path)):
        def stat(self, **_: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    assert start.home_error() is None
    monkeypatch.setattr(start.Path, "home", lambda: Home(tmp_path))
    line = start.home_error()
    assert line and line.startswith(f"HOME={tmp_path} cannot be read: make app HOME=")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HEADLIGHT_FRAME_ANCESTORS", "*", "HEADLIGHT_FRAME_ANCESTORS: '*' is not a site"),
        ("HEADLIGHT_IDLE_S", "0", "HEADLIGHT_IDLE_S=0: give a whole number from 1 to"),
    ],
)
def test_a_wrong_setting_is_one_line_at_start(name, value, says):
    code, said = started([sys.executable, "-c", "import app.serve"], HOME="/", **{name: value})
    assert code == 1 and said.startswith(says) and said.count("\n") == 1


def test_elsewhere_without_its_options_it_does_not_start(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "app/serve.py")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "no hosts are allowed: start the app from the project's folder"
    )
