"""The security middleware, tested in-process with a stand-in for Streamlit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import pytest
from streamlit.proto.BackMsg_pb2 import BackendOperationRequest, BackMsg

from app.serving import connections, messages
from app.serving.guard import Guard
from app.serving.headers import frame_ancestors, headers
from app.serving.limits import Limits
from app.serving.messages import TokenBucket
from app.serving.uploads import Uploads

MB = 1024 * 1024
HOST = "127.0.0.1:8501"
LIMITS = Limits(
    connections=5,
    connections_per_address=3,
    idle_s=60,
    files_per_visit=2,
    upload_mb=20,
    upload_s=60,
    messages_per_s=1000,
)
# Every field of a client message, and whether it is allowed. If a new version of Streamlit adds a
# field, decide on it here.
ALLOWED = {
    "rerun_script": True,  # every interaction
    "stop_script": True,  # the Stop button
    "file_urls_request": True,  # before a record is uploaded
    "backend_operation_request": True,  # see PAYLOADS
    "clear_cache": False,  # clears everyone's caches
    "set_run_on_save": False,  # developer menu
    "load_git_info": False,  # developer menu
    "app_heartbeat": False,  # only on Streamlit's hosting service
    "debug_disconnect_websocket": False,  # Streamlit's tests
    "debug_shutdown_runtime": False,  # Streamlit's tests
}
PAYLOADS = {
    "deferred_file": True,  # a download button
    "install_skills": False,  # writes to the home folder of the server's user
    "dismiss_skills_nudge": False,  # also writes there
    "dataframe_chunk": False,  # tables over 150,000 rows
}


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a new thread, since Playwright may run an event loop in this one."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, asyncio.wait_for(test(*args, **kwargs), 30)).result()

    return run


def frame(kind: str, payload: str | None = None) -> bytes:
    """Encode a message of one kind as a client does."""
    message = BackMsg()
    part = getattr(message, kind)
    if payload is not None:
        getattr(part, payload).SetInParent()
    elif isinstance(part, bool):
        setattr(message, kind, True)
    else:
        part.SetInParent()
    return message.SerializeToString()


RUN = frame("rerun_script")
OPERATION = "backend_operation_request"


@dataclass
class Connection:
    """One request or websocket, and the messages sent to it."""

    type: str = "websocket"
    path: str = "/_stcore/stream"
    method: str = "GET"
    client: str = "192.0.2.1"
    extra: dict[str, str] = field(default_factory=dict)
    extensions: bool = True
    sent: list[dict[str, Any]] = field(default_factory=list)

    def scope(self) -> dict[str, Any]:
        named = {"host": HOST, **self.extra}
        return {
            "type": self.type,
            "path": self.path,
            "method": self.method,
            "headers": [(k.encode(), v.encode()) for k, v in named.items()],
            "client": (self.client, 50_000),
            "extensions": {"websocket.http.response": {}} if self.extensions else {},
        }

    async def take(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return next((m["status"] for m in self.sent if "status" in m), None)

    @property
    def text(self) -> str:
        return b"".join(m.get("body", b"") for m in self.sent).decode()

    @property
    def code(self) -> int | None:
        return next((m["code"] for m in self.sent if m["type"] == "websocket.close"), None)


class Streamlit:
    """A stand-in that records its input, and holds PUT and slow requests until `leave` is set."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.ends: list[int] = []
        self.requests = 0
        self.leave = asyncio.Event()

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "websocket":
            while (message := await receive())["type"] != "websocket.disconnect":
                self.frames.append(message["bytes"])
            self.ends.append(message["code"])
            await send({"type": "websocket.send", "bytes": b"late"})
            return
        self.requests += 1
        if scope["method"] == "PUT" or "slow" in scope["path"]:
            await self.leave.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"streamlit"})


class Stored:
    """One uploaded file."""

    def __init__(self, size: int) -> None:
        self.data = b"\0" * size


class Files:
    """A stand-in for Streamlit's store of uploads."""

    def __init__(self, **files: dict[str, Stored]) -> None:
        self.file_storage = files

    def remove_file(self, session_id: str, file_id: str) -> None:
        del self.file_storage[session_id][file_id]

    def remove_session_files(self, session_id: str) -> None:
        del self.file_storage[session_id]


def guarded(
    limits: Limits = LIMITS,
    files: Files | None = None,
    gone: frozenset[str] = frozenset(),
    clock: Callable[[], float] = lambda: 0.0,
) -> tuple[Guard, Streamlit, Uploads]:
    streamlit = Streamlit()
    store = files or Files()
    uploads = Uploads(limits, lambda: store, lambda session: session not in gone, clock)
    return Guard(streamlit, limits, headers(), uploads), streamlit, uploads


async def talk(guard: Guard, *frames: Any, end: bool = True, **options: Any) -> Connection:
    """Open a websocket, send frames and, with `end`, disconnect."""
    connection = Connection(**options)
    pending = [
        {"type": "websocket.receive", "bytes" if isinstance(f, bytes) else "text": f}
        for f in frames
    ]

    async def receive():
        if pending:
            return pending.pop(0)
        if not end:
            await asyncio.Event().wait()
        return {"type": "websocket.disconnect", "code": 1001}

    await guard(connection.scope(), receive, connection.take)
    return connection


async def ask(guard: Guard, connection: Connection) -> Connection:
    """Send a request with an empty body."""

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    await guard(connection.scope(), receive, connection.take)
    return connection


async def started(*coroutines) -> list[asyncio.Task]:
    """Start tasks and let them run until they wait."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


async def end(tasks: list[asyncio.Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Messages


def test_every_field_of_a_message_is_decided_on():
    assert {f.name for f in BackMsg.DESCRIPTOR.fields} == ALLOWED.keys()
    kinds = BackendOperationRequest.DESCRIPTOR.oneofs_by_name["payload"].fields
    assert {f.name for f in kinds} == PAYLOADS.keys()


@in_loop
async def test_only_allowed_messages_reach_streamlit():
    cases = [(frame(kind), allowed) for kind, allowed in ALLOWED.items() if kind != OPERATION]
    cases += [(frame(OPERATION, payload), allowed) for payload, allowed in PAYLOADS.items()]
    cases.append((frame(OPERATION), False))  # without a payload
    for names, allowed in ((1, True), (8, True), (9, False), (100_000, False)):
        message = BackMsg()
        message.file_urls_request.file_names.extend(["a"] * names)
        cases.append((message.SerializeToString(), allowed))
    for sent, allowed in cases:
        guard, streamlit, _ = guarded()
        await talk(guard, sent)
        assert streamlit.frames == ([sent] if allowed else []), sent[:20]
        assert streamlit.ends == [1001]  # a dropped message leaves the connection open


@in_loop
async def test_the_last_of_two_kinds_in_one_frame_counts():
    both = [RUN + frame("clear_cache"), frame("clear_cache") + RUN]
    guard, streamlit, _ = guarded()
    await talk(guard, *both, b"")
    assert streamlit.frames == both[1:]
    assert BackMsg.FromString(both[0]).WhichOneof("type") == "clear_cache"


def of_size(size: int) -> bytes:
    message = BackMsg()
    message.rerun_script.query_string = "a" * (size - 8)
    assert message.ByteSize() == size
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\xff" * 20, 1002),
        (RUN[:-1] + b"\x7f", 1002),
        ("text", 1003),
        (of_size(1_000_001), 1009),
    ],
    ids=["noise", "cut", "text", "large"],
)
@in_loop
async def test_malformed_frames_close_their_own_connection(sent, code):
    guard, streamlit, _ = guarded()
    largest = of_size(1_000_000)
    client = await talk(guard, largest, sent, RUN)
    assert client.code == code and streamlit.ends == [code] and streamlit.frames == [largest]
    assert client.sent[-1]["type"] == "websocket.close"  # nothing is sent after it


def test_messages_are_throttled():
    now = [0.0]
    bucket = TokenBucket(20, lambda: now[0])
    for _ in range(2):
        assert [bucket.wait_s(1) for _ in range(60)] == [0.0] * 60  # the burst
        assert bucket.wait_s(1) == pytest.approx(1 / 20)
        assert bucket.wait_s(1) == pytest.approx(2 / 20)
        now[0] += 10.0  # refilled, but not beyond a burst
    assert messages.cost_of("rerun_script", 100) == 1
    assert messages.cost_of("rerun_script", 500_000) == 10
    assert messages.cost_of("deferred_file", 100) == 10


@in_loop
async def test_dropped_messages_are_throttled_too():
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    guard, streamlit, _ = guarded(replace(LIMITS, messages_per_s=10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "sleep", sleep)
        await talk(guard, *[frame("clear_cache")] * 100, RUN)
    assert len(streamlit.frames) == 1
    assert max(slept) > 3  # 101 messages: a burst of 60, then ten per second


# Connections


@in_loop
async def test_open_pages_are_limited_per_address_and_in_total():
    guard, streamlit, _ = guarded()
    tasks = await started(*(talk(guard, RUN, end=False) for _ in range(3)))
    assert len(streamlit.frames) == 3
    fourth = await talk(guard, RUN)
    assert fourth.status == 503 and "3 pages are open from your address" in fourth.text
    others = (talk(guard, RUN, end=False, client=f"198.51.100.{i}") for i in (1, 2))
    tasks += await started(*others)
    assert len(streamlit.frames) == 5
    sixth = await talk(guard, RUN, client="203.0.113.9")
    assert sixth.status == 503 and "5 pages are open, the limit" in sixth.text
    old = await talk(guard, RUN, client="203.0.113.9", extensions=False)
    assert old.code == 1013 and "5 pages are open" in old.sent[-1]["reason"]
    page = await ask(guard, Connection("http", "/", extra={"accept": "text/html,*/*"}))
    assert page.status == 503 and "pages are open" in page.text
    assert dict(page.sent[0]["headers"])[b"retry-after"] == b"60"
    assert b"content-security-policy" in dict(page.sent[0]["headers"])
    assert (await ask(guard, Connection("http", "/static/a.js"))).status == 200
    assert (await ask(guard, Connection("http", "/_stcore/health"))).status == 200
    assert len(streamlit.frames) == 5
    await end(tasks[:1])  # closing a tab makes room
    again = await talk(guard, RUN)
    assert again.sent == [{"type": "websocket.send", "bytes": b"late"}]
    await end(tasks)


@in_loop
async def test_requests_are_limited_except_the_health_check():
    guard, streamlit, _ = guarded()
    tasks = await started(*(ask(guard, Connection("http", "/slow")) for _ in range(5)))
    sixth = await ask(guard, Connection("http", "/a"))
    assert sixth.status == 503 and "5 requests are open from your address" in sixth.text
    assert (await ask(guard, Connection("http", "/_stcore/health"))).status == 200
    other = Connection("http", "/a", client="198.51.100.1")
    assert (await ask(guard, other)).status == 200
    more = (Connection("http", "/slow", client="198.51.100.2") for _ in range(5))
    tasks += await started(*(ask(guard, connection) for connection in more))
    eleventh = await ask(guard, Connection("http", "/a", client="198.51.100.1"))
    assert eleventh.status == 503 and "10 requests are open, the limit" in eleventh.text
    streamlit.leave.set()
    await asyncio.gather(*tasks)
    assert (await ask(guard, Connection("http", "/a"))).status == 200


@in_loop
async def test_only_a_connection_that_runs_no_page_is_closed():
    guard, streamlit, _ = guarded(replace(LIMITS, idle_s=1))
    sent = (), (frame("stop_script"), frame("clear_cache")), (RUN,)
    *idle, ran = await started(*(talk(guard, *frames, end=False) for frames in sent))
    async with asyncio.timeout(10):
        assert [client.code for client in await asyncio.gather(*idle)] == [1008, 1008]
    await asyncio.sleep(0.2)
    assert not ran.done() and streamlit.ends == [1008, 1008]
    await end([ran])


@pytest.mark.parametrize(
    ("client", "forwarded", "listed", "address"),
    [
        ("192.0.2.7", None, False, "192.0.2.7"),
        ("192.0.2.7", "203.0.113.1", True, "192.0.2.7"),  # uvicorn has already set the client
        ("203.0.113.1", "203.0.113.1", False, connections.UNNAMED_PROXY),
        ("203.0.113.2", "203.0.113.2", False, connections.UNNAMED_PROXY),
        ("::ffff:192.0.2.7", None, False, "192.0.2.7"),
        ("2001:db8:1:2:3::4", None, False, "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::9", None, False, "2001:db8:1:2::/64"),
        ("fe80::1%eth0", None, False, "fe80::/64"),
        ("a\nb", None, True, "unknown"),
    ],
)
def test_a_request_counts_for_the_address_of_its_client(client, forwarded, listed, address):
    extra = {"x-forwarded-for": forwarded} if forwarded else {}
    environment = {"FORWARDED_ALLOW_IPS": "127.0.0.1"} if listed else {}
    scope = Connection(client=client, extra=extra).scope()
    assert connections.address_of(scope, environment) == address


# Uploads


def put(session: str = "s", file: str = "f", size: int | None = 5 * MB, client: str = "192.0.2.1"):
    """Return an upload; without a size, it is sent in chunks."""
    header = {"transfer-encoding": "chunked"} if size is None else {"content-length": str(size)}
    return Connection("http", f"/_stcore/upload_file/{session}/{file}", "PUT", client, header)


async def upload(guard: Guard, streamlit: Streamlit, files: Files, put: Connection) -> Connection:
    """Upload a file, and store it if the request reaches Streamlit."""
    streamlit.leave.set()
    before = streamlit.requests
    await ask(guard, put)
    if streamlit.requests > before:
        _, _, session, file = put.path.strip("/").split("/")
        size = int(put.extra["content-length"])
        files.file_storage.setdefault(session, {})[file] = Stored(size)
    return put


@in_loop
async def test_a_session_keeps_its_newest_files():
    files = Files()
    guard, streamlit, _ = guarded(files=files)
    for i in range(60):
        client = await upload(guard, streamlit, files, put(file=f"f{i}", size=4 * MB))
        assert client.status == 200
        assert sum(len(f.data) for f in files.file_storage["s"].values()) <= 8 * MB
    assert list(files.file_storage["s"]) == ["f58", "f59"]
    await upload(guard, streamlit, files, put(file="f58"))  # replaces the old file
    assert list(files.file_storage["s"]) == ["f58", "f59"]


@in_loop
async def test_stored_bytes_are_limited_per_address_and_in_total():
    files = Files()
    guard, streamlit, _ = guarded(files=files)  # 20 MB, of which one address gets 10
    for session in ("a", "b"):
        assert (await upload(guard, streamlit, files, put(session))).status == 200
    third = await upload(guard, streamlit, files, put("c"))
    assert third.status == 429 and "from your address may take 10 MiB" in third.text
    for session in ("d", "e"):
        other = put(session, client="198.51.100.1")
        assert (await upload(guard, streamlit, files, other)).status == 200
    fifth = await upload(guard, streamlit, files, put("g", client="203.0.113.1", size=1))
    assert fifth.status == 503 and "may take 20 MiB together" in fifth.text
    assert dict(fifth.sent[0]["headers"])[b"retry-after"] == b"60"
    sizes = [len(f.data) for stored in files.file_storage.values() for f in stored.values()]
    assert sum(sizes) == 20 * MB


@in_loop
async def test_uploads_in_transfer_count():
    guard, streamlit, _ = guarded()
    tasks = await started(*(ask(guard, put(file=f"f{i}", size=1000)) for i in range(2)))
    third = await ask(guard, put(file="f3", size=1000))
    assert third.status == 429 and "2 uploads at once" in third.text
    tasks += await started(ask(guard, put("b", size=4 * MB)), ask(guard, put("d", size=MB)))
    # An upload of unknown size counts as the 5 MiB limit and 1 MiB for its multipart envelope.
    # With the 5 MiB and 2,000 bytes in transfer, that exceeds 10 MiB.
    assert (await ask(guard, put("c", size=None))).status == 429
    streamlit.leave.set()
    await asyncio.gather(*tasks)
    assert (await ask(guard, put("c", size=None))).status == 200


@in_loop
async def test_a_slow_upload_times_out():
    guard, _, uploads = guarded(replace(LIMITS, upload_s=1))
    client = await ask(guard, put())
    assert client.status == 408 and "longer than 1 s" in client.text
    assert uploads._in_transfer == []


def test_uploads_are_deleted_with_their_session():
    now = [0.0]
    files = Files(here={"a": Stored(10)}, gone={"b": Stored(10)})
    _, _, uploads = guarded(files=files, gone=frozenset({"gone"}), clock=lambda: now[0])
    uploads.sweep()
    now[0] = 29.0  # a closed tab can still reconnect
    uploads.sweep()
    assert files.file_storage.keys() == {"here", "gone"}
    now[0] = 30.0
    uploads.sweep()
    assert files.file_storage.keys() == {"here"}


@in_loop
async def test_an_oversized_upload_replaces_no_file():
    files = Files(s={"a": Stored(10), "b": Stored(10)})
    guard, streamlit, _ = guarded(files=files)
    streamlit.leave.set()
    await ask(guard, put(file="c", size=5 * MB + 1))
    assert streamlit.requests == 1 and files.file_storage["s"].keys() == {"a", "b"}
    await ask(guard, put(file="c", size=5 * MB))
    assert files.file_storage["s"].keys() == {"b"}


# Limits and headers


def test_limits_come_from_the_environment():
    assert Limits.from_environment({}) == Limits()
    found = Limits.from_environment({"HEADLIGHT_IDLE_S": "5", "HEADLIGHT_UPLOAD_MB": "1000000"})
    assert (found.idle_s, found.upload_mb) == (5, 1_000_000)
    for wrong in ("0", "-1", "1.5", "", "many", "1000001", "٣", "9" * 5000):
        with pytest.raises(ValueError, match=r"^HEADLIGHT_IDLE_S=.{0,40}: give a whole number"):
            Limits.from_environment({"HEADLIGHT_IDLE_S": wrong})


def test_connections_fit_the_file_descriptors():
    usual = Limits(connections=500, connections_per_address=100)
    assert usual.within(65_536) == usual
    few = usual.within(1024)  # minus 128 in reserve, four per page
    assert (few.connections, few.connections_per_address) == (224, 100)
    fewer = usual.within(256)
    assert (fewer.connections, fewer.connections_per_address) == (32, 16)


def test_only_named_sites_may_frame_the_app():
    usual = headers()
    assert "frame-ancestors 'none'" in usual["Content-Security-Policy"]
    assert usual["X-Frame-Options"] == "DENY"
    sites = frame_ancestors("self https://Moodle.example.org  https://*.example.edu:8443")
    allowed = headers(sites)
    assert allowed["Content-Security-Policy"].endswith(
        "; frame-ancestors 'self' https://moodle.example.org https://*.example.edu:8443"
    )
    assert "X-Frame-Options" not in allowed
    assert allowed["X-Content-Type-Options"] == "nosniff"
    assert frame_ancestors(None) == frame_ancestors("  ") == ()
    assert frame_ancestors("http://localhost:8000") == ("http://localhost:8000",)


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "https:",
        "https://*",
        "https://*.org",
        "https://org",
        "http://moodle.example.org",
        "https://moodle.example.org/course",
        "https://a.example.org; script-src *",
        "https://a.example.org,https://b.example.org",
        "https://a.example.org\x00",
        "'none'",
        "javascript:alert(1)",
        " ".join(f"https://s{i}.example.org" for i in range(21)),
    ],
)
def test_invalid_sites_are_rejected(text):
    with pytest.raises(ValueError, match=r"^HEADLIGHT_FRAME_ANCESTORS: [^\n]*$"):
        frame_ancestors(text)
