"""What the guard lets in, refuses and frees: driven in-process, with a stand-in for Streamlit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
# Every field of a client's message, and why it is let in or dropped. A new version of Streamlit
# that has another field needs a decision here.
LET_IN = {
    "rerun_script": True,  # each click, and the first run
    "stop_script": True,  # the button Stop
    "file_urls_request": True,  # before a record is uploaded
    "backend_operation_request": True,  # its payloads are listed below
    "clear_cache": False,  # empties the caches of all visitors
    "set_run_on_save": False,  # a developer's menu
    "load_git_info": False,  # a developer's menu
    "app_heartbeat": False,  # only within Streamlit's own hosting service
    "debug_disconnect_websocket": False,  # Streamlit's tests
    "debug_shutdown_runtime": False,  # Streamlit's tests
}
PAYLOADS = {
    "deferred_file": True,  # a download button
    "install_skills": False,  # writes into the home of whoever runs the server
    "dismiss_skills_nudge": False,  # the same
    "dataframe_chunk": False,  # tables of more than 150,000 rows
}


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, in a thread: Playwright may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def frame(kind: str, payload: str | None = None) -> bytes:
    """A message of one kind, as a client sends it."""
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


@dataclass
class Visit:
    """One request or websocket: what the client sends, and what it is sent."""

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


class Inside:
    """Stands in for Streamlit: notes what reaches it, and holds each connection until its end."""

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
    """Streamlit's store of uploads: two dictionaries."""

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
) -> tuple[Guard, Inside, Uploads]:
    inside = Inside()
    store = files or Files()
    uploads = Uploads(limits, lambda: store, lambda session: session not in gone, clock)
    return Guard(inside, limits, headers(), uploads), inside, uploads


async def talk(guard: Guard, visit: Visit, *frames: Any, end: bool = True) -> None:
    """A websocket whose client sends frames (bytes, or text) and then leaves, or stays silent."""
    waiting = [
        {"type": "websocket.receive", "bytes" if isinstance(f, bytes) else "text": f}
        for f in frames
    ]

    async def receive():
        if waiting:
            return waiting.pop(0)
        if not end:
            await asyncio.Event().wait()
        return {"type": "websocket.disconnect", "code": 1001}

    await guard(visit.scope(), receive, visit.take)


async def ask(guard: Guard, visit: Visit) -> Visit:
    """A request without a body."""

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    await guard(visit.scope(), receive, visit.take)
    return visit


async def begun(*works) -> list[asyncio.Task]:
    """Tasks that have run until they wait for something."""
    tasks = [asyncio.create_task(work) for work in works]
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


async def end(tasks: list[asyncio.Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Messages


def test_every_field_of_a_message_is_decided_on():
    assert {f.name for f in BackMsg.DESCRIPTOR.fields} == LET_IN.keys()
    kinds = BackendOperationRequest.DESCRIPTOR.oneofs_by_name["payload"].fields
    assert {f.name for f in kinds} == PAYLOADS.keys()


@pytest.mark.parametrize("kind", LET_IN)
def test_only_what_a_page_needs_reaches_streamlit(kind):
    async def through() -> list[bytes]:
        guard, inside, _ = guarded()
        sent = frame(kind, "deferred_file" if kind == "backend_operation_request" else None)
        await talk(guard, Visit(), RUN, sent, RUN)
        assert inside.ends == [1001]  # a dropped message leaves the connection open
        return [one for one in inside.frames if one == sent]

    found = run(through())
    assert bool(found) == LET_IN[kind]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_of_the_operations_only_a_download_is_let_in(payload):
    async def through() -> list[bytes]:
        guard, inside, _ = guarded()
        await talk(guard, Visit(), frame("backend_operation_request", payload))
        return inside.frames

    assert bool(run(through())) == PAYLOADS[payload]


def test_the_last_of_two_kinds_in_one_frame_counts():
    both = [RUN + frame("clear_cache"), frame("clear_cache") + RUN]

    async def through() -> list[bytes]:
        guard, inside, _ = guarded()
        await talk(guard, Visit(), *both, b"", frame("backend_operation_request"))
        return inside.frames

    assert run(through()) == both[1:]
    assert BackMsg.FromString(both[0]).WhichOneof("type") == "clear_cache"


@pytest.mark.parametrize(("names", "reaches"), [(1, 1), (8, 1), (9, 0), (100_000, 0)])
def test_a_request_for_many_upload_addresses_is_dropped(names, reaches):
    message = BackMsg()
    message.file_urls_request.file_names.extend(["a"] * names)

    async def through() -> int:
        guard, inside, _ = guarded()
        await talk(guard, Visit(), message.SerializeToString())
        return len(inside.frames)

    assert run(through()) == reaches


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\xff" * 20, 1002),
        (RUN[:-1] + b"\x7f", 1002),
        ("text", 1003),
        (b"\0" * 1_000_001, 1009),
    ],
    ids=["noise", "cut", "text", "large"],
)
def test_what_is_no_message_closes_its_own_connection(sent, code):
    async def through() -> tuple[Visit, Inside]:
        guard, inside, _ = guarded()
        visit = Visit()
        await talk(guard, visit, sent, RUN)
        return visit, inside

    visit, inside = run(through())
    assert visit.code == code and inside.ends == [code] and inside.frames == []
    assert visit.sent[-1]["type"] == "websocket.close"  # what Streamlit sends late is not sent


def test_a_message_of_just_the_limit_is_read():
    def of_size(size: int) -> bytes:
        message = BackMsg()
        message.rerun_script.query_string = "a" * (size - 8)
        found = message.SerializeToString()
        assert len(found) == size
        return found

    async def through() -> tuple[int, int | None]:
        guard, inside, _ = guarded()
        visit = Visit()
        await talk(guard, visit, of_size(1_000_000), of_size(1_000_001))
        return len(inside.frames), visit.code

    assert run(through()) == (1, 1009)


def test_messages_are_slowed_down_to_their_rate():
    now = [0.0]
    pace = TokenBucket(20, lambda: now[0])
    assert [pace.wait_s(1) for _ in range(60)] == [0.0] * 60  # at once
    assert pace.wait_s(1) == pytest.approx(1 / 20)
    assert pace.wait_s(1) == pytest.approx(2 / 20)
    now[0] = 10.0  # rested: again as many at once as at first, and no more
    assert [pace.wait_s(1) for _ in range(60)] == [0.0] * 60
    assert pace.wait_s(1) == pytest.approx(1 / 20)
    assert messages.cost_of("rerun_script", 100) == 1
    assert messages.cost_of("rerun_script", 500_000) == 10
    assert messages.cost_of("deferred_file", 100) == 10


def test_a_flood_waits_also_where_it_is_dropped(monkeypatch):
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    async def through() -> int:
        guard, inside, _ = guarded(replace(LIMITS, messages_per_s=10))
        monkeypatch.setattr(asyncio, "sleep", noted)
        await talk(guard, Visit(), *[frame("clear_cache")] * 100, RUN)
        return len(inside.frames)

    assert run(through()) == 1
    assert max(slept) > 3  # 101 messages, 60 of them at once, then ten a second


# Connections


def test_one_address_and_all_together_may_hold_so_many_pages():
    async def through() -> None:
        guard, inside, _ = guarded()
        held = [Visit() for _ in range(3)]
        tasks = await begun(*(talk(guard, visit, RUN, end=False) for visit in held))
        assert len(inside.frames) == 3
        fourth = Visit()
        await talk(guard, fourth, RUN)
        assert fourth.status == 503 and "3 pages are open from your address" in fourth.text
        others = [Visit(client=f"198.51.100.{i}") for i in (1, 2)]
        tasks += await begun(*(talk(guard, visit, RUN, end=False) for visit in others))
        assert len(inside.frames) == 5
        sixth = Visit(client="203.0.113.9")
        await talk(guard, sixth, RUN)
        assert sixth.status == 503 and "5 pages are open, the limit" in sixth.text
        old = Visit(client="203.0.113.9", extensions=False)
        await talk(guard, old, RUN)
        assert old.code == 1013 and "5 pages are open" in old.sent[-1]["reason"]
        page = await ask(guard, Visit("http", "/", extra={"accept": "text/html,*/*"}))
        assert page.status == 503 and "pages are open" in page.text
        assert dict(page.sent[0]["headers"])[b"retry-after"] == b"60"
        assert b"content-security-policy" in dict(page.sent[0]["headers"])
        assert (await ask(guard, Visit("http", "/static/a.js"))).status == 200
        assert (await ask(guard, Visit("http", "/_stcore/health"))).status == 200
        assert len(inside.frames) == 5
        await end(tasks[:1])  # a tab is closed, and its place is free
        again = Visit()
        await talk(guard, again, RUN)
        assert again.sent == [{"type": "websocket.send", "bytes": b"late"}]
        await end(tasks)

    run(through())


def test_so_many_requests_at_once_and_the_health_check_beyond_them():
    async def through() -> None:
        guard, inside, _ = guarded()
        slow = [Visit("http", "/slow") for _ in range(5)]
        tasks = await begun(*(ask(guard, visit) for visit in slow))
        sixth = await ask(guard, Visit("http", "/a"))
        assert sixth.status == 503 and "5 requests are open from your address" in sixth.text
        assert (await ask(guard, Visit("http", "/_stcore/health"))).status == 200
        other = await ask(guard, Visit("http", "/a", client="198.51.100.1"))
        assert other.status == 200
        more = [Visit("http", "/slow", client="198.51.100.2") for _ in range(5)]
        tasks += await begun(*(ask(guard, visit) for visit in more))
        eleventh = await ask(guard, Visit("http", "/a", client="198.51.100.1"))
        assert eleventh.status == 503 and "10 requests are open, the limit" in eleventh.text
        inside.leave.set()
        await asyncio.gather(*tasks)
        assert (await ask(guard, Visit("http", "/a"))).status == 200

    run(through())


@pytest.mark.parametrize("sent", [(), (frame("stop_script"), frame("clear_cache"))])
def test_a_connection_that_asks_for_no_page_is_closed(sent):
    async def through() -> Visit:
        guard, inside, _ = guarded(replace(LIMITS, idle_s=1))
        visit = Visit()
        async with asyncio.timeout(10):
            await talk(guard, visit, *sent, end=False)
        assert inside.ends == [1008]
        return visit

    assert run(through()).code == 1008


def test_a_page_that_ran_stays_open():
    async def through() -> None:
        guard, inside, _ = guarded(replace(LIMITS, idle_s=1))
        tasks = await begun(talk(guard, Visit(), RUN, end=False))
        await asyncio.sleep(1.2)
        assert not tasks[0].done() and inside.ends == []
        await end(tasks)

    run(through())


@pytest.mark.parametrize(
    ("client", "forwarded", "named", "counts"),
    [
        ("192.0.2.7", None, False, "192.0.2.7"),
        ("192.0.2.7", "203.0.113.1", True, "192.0.2.7"),  # by then uvicorn has put it there
        ("203.0.113.1", "203.0.113.1", False, connections.UNNAMED_PROXY),
        ("203.0.113.2", "203.0.113.2", False, connections.UNNAMED_PROXY),
        ("::ffff:192.0.2.7", None, False, "192.0.2.7"),
        ("2001:db8:1:2:3::4", None, False, "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::9", None, False, "2001:db8:1:2::/64"),
        ("fe80::1%eth0", None, False, "fe80::/64"),
        ("a\nb", None, True, "unknown"),
    ],
)
def test_whom_a_request_counts_for(client, forwarded, named, counts):
    scope = Visit(client=client, extra={"x-forwarded-for": forwarded} if forwarded else {}).scope()
    environment = {"FORWARDED_ALLOW_IPS": "127.0.0.1"} if named else {}
    assert connections.address_of(scope, environment) == counts


# Uploads


def put(session: str = "s", file: str = "f", size: int = 5 * MB, client: str = "192.0.2.1"):
    return Visit(
        "http",
        f"/_stcore/upload_file/{session}/{file}",
        "PUT",
        client,
        {"content-length": str(size)},
    )


async def stored(guard: Guard, inside: Inside, files: Files, visit: Visit) -> Visit:
    """An upload that Streamlit takes if it reaches it."""
    inside.leave.set()
    before = inside.requests
    await ask(guard, visit)
    if inside.requests > before:
        _, _, session, file = visit.path.strip("/").split("/")
        size = int(visit.extra["content-length"])
        files.file_storage.setdefault(session, {})[file] = Stored(size)
    return visit


def test_a_visit_keeps_its_newest_files():
    async def through() -> None:
        files = Files()
        guard, inside, _ = guarded(files=files)
        for i in range(60):
            visit = await stored(guard, inside, files, put(file=f"f{i}", size=4 * MB))
            assert visit.status == 200
            assert sum(len(f.data) for f in files.file_storage["s"].values()) <= 8 * MB
        assert list(files.file_storage["s"]) == ["f58", "f59"]
        await stored(guard, inside, files, put(file="f58"))  # sent again: takes its own place
        assert list(files.file_storage["s"]) == ["f58", "f59"]

    run(through())


def test_all_visits_and_one_address_may_keep_so_many_bytes():
    async def through() -> None:
        files = Files()
        guard, inside, _ = guarded(files=files)  # 20 MB, of which one address has 10
        for session in ("a", "b"):
            assert (await stored(guard, inside, files, put(session))).status == 200
        third = await stored(guard, inside, files, put("c"))
        assert third.status == 429 and "from your address take 10 MB" in third.text
        for session in ("d", "e"):
            other = put(session, client="198.51.100.1")
            assert (await stored(guard, inside, files, other)).status == 200
        fifth = await stored(guard, inside, files, put("g", client="203.0.113.1", size=1))
        assert fifth.status == 503 and "take 20 MB, the limit" in fifth.text
        assert dict(fifth.sent[0]["headers"])[b"retry-after"] == b"60"
        assert sum(len(f.data) for kept in files.file_storage.values() for f in kept.values()) == (
            20 * MB
        )

    run(through())


def test_uploads_that_are_still_coming_count():
    async def through() -> None:
        files = Files()
        guard, inside, _ = guarded(files=files)
        tasks = await begun(*(ask(guard, put(file=f"f{i}", size=1000)) for i in range(2)))
        third = await ask(guard, put(file="f3", size=1000))
        assert third.status == 429 and "2 uploads at once" in third.text
        tasks += await begun(ask(guard, put("b", size=4 * MB)))

        def unknown() -> Visit:  # its length is not told: as much as may be, with what surrounds it
            visit = put("c")
            visit.extra = {"transfer-encoding": "chunked"}
            return visit

        tasks += await begun(ask(guard, put("d", size=MB)))
        assert (await ask(guard, unknown())).status == 429  # 2,000 bytes, 4, 1 and 6 MB
        inside.leave.set()
        await asyncio.gather(*tasks)
        assert (await ask(guard, unknown())).status == 200

    run(through())


def test_an_upload_that_lasts_too_long_ends():
    async def through() -> Visit:
        guard, _, uploads = guarded(replace(LIMITS, upload_s=1))
        visit = await ask(guard, put())
        assert uploads._in_transfer == []
        return visit

    visit = run(through())
    assert visit.status == 408 and "longer than 1 s" in visit.text


def test_files_go_when_their_visit_has_ended():
    now = [0.0]
    files = Files(here={"a": Stored(10)}, gone={"b": Stored(10)})
    _, _, uploads = guarded(files=files, gone=frozenset({"gone"}), clock=lambda: now[0])
    uploads.sweep()
    now[0] = 29.0  # so long a closed tab may come back
    uploads.sweep()
    assert files.file_storage.keys() == {"here", "gone"}
    now[0] = 30.0
    uploads.sweep()
    assert files.file_storage.keys() == {"here"}


def test_a_file_that_is_too_large_takes_no_other_ones_place():
    async def through() -> None:
        files = Files(s={"a": Stored(10), "b": Stored(10)})
        guard, inside, _ = guarded(files=files)
        inside.leave.set()
        await ask(guard, put(file="c", size=5 * MB + 1))
        assert inside.requests == 1 and files.file_storage["s"].keys() == {"a", "b"}
        await ask(guard, put(file="c", size=5 * MB))
        assert files.file_storage["s"].keys() == {"b"}

    run(through())


def test_an_upload_to_no_visit_is_for_streamlit_to_refuse():
    async def through() -> Inside:
        guard, inside, _ = guarded(gone=frozenset({"s"}))
        inside.leave.set()
        await ask(guard, put())
        return inside

    assert run(through()).requests == 1


# Limits and headers


def test_limits_come_from_the_environment():
    assert Limits.from_environment({}) == Limits()
    found = Limits.from_environment({"HEADLIGHT_IDLE_S": "5", "HEADLIGHT_UPLOAD_MB": "1000000"})
    assert (found.idle_s, found.upload_mb) == (5, 1_000_000)
    for wrong in ("0", "-1", "1.5", "", "many", "1000001", "٣", "9" * 5000):
        with pytest.raises(ValueError, match=r"^HEADLIGHT_IDLE_S=.{0,40}: give a whole number"):
            Limits.from_environment({"HEADLIGHT_IDLE_S": wrong})


def test_connections_fit_the_descriptors():
    usual = Limits(connections=500, connections_per_address=100)
    assert usual.within(65_536) == usual
    few = usual.within(1024)  # 128 are kept back, and a page may take four
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
def test_what_is_no_site_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"^HEADLIGHT_FRAME_ANCESTORS: [^\n]*$"):
        frame_ancestors(text)
