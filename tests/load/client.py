"""A client without a browser: it opens pages over the websocket, types, clicks and reads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Self

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

HOST = "127.0.0.1"
PATIENCE_S = 120.0
"""Seconds without a message after which a run counts as hung."""


@dataclass
class Page:
    """What one script run has sent: texts by the key of their container, alerts and exceptions.

    `seconds` and `error_s` are the times until the run's end and its first alert. `size` counts the
    bytes received.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    error_s: float | None = None
    size: int = 0

    @property
    def translation(self) -> str | None:
        """The translation that the main page shows, or None."""
        return next(iter(self.texts.get("translation", ())), None)


class Client:
    """One session; like a browser, it keeps widget values from run to run."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids: dict[str, str] = {}  # of widgets by key
        self._values: dict[str, WidgetState] = {}
        self._fragments: dict[str, str] = {}  # of widgets by key
        self._blocks: dict[tuple[int, ...], str] = {}
        self._page = ""

    @property
    def keys(self) -> set[str]:
        """The keys of all widgets seen so far."""
        return set(self._ids)

    @classmethod
    async def connect(cls, port: int, cookie: str | None = None) -> Self:
        """Open a websocket to the app; `cookie` is for a proxy in between."""
        address = f"{HOST}:{port}"
        socket = await connect(
            f"ws://{address}/_stcore/stream",
            subprotocols=["streamlit"],  # ty: ignore[invalid-argument-type]
            origin=f"http://{address}",  # ty: ignore[invalid-argument-type]
            additional_headers={"Cookie": cookie} if cookie else None,
            max_size=64 * 2**20,
            open_timeout=PATIENCE_S,
            ping_interval=None,
            proxy=None,
        )
        return cls(socket)

    async def close(self) -> None:
        """Close the tab."""
        await self._socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def open(self, page: str = "", query: str = "") -> Page:
        """Open a page by path and query."""
        return await self._run(page=page, query=query)

    async def type(self, key: str, text: str) -> Page:
        """Enter a text into a box and wait for the run."""
        await self.begin(key, text)
        return await self.read()

    async def begin(self, key: str, text: str) -> None:
        """Enter a text into a box without waiting."""
        self._values[key] = WidgetState(id=self._ids[key], string_value=text)
        await self._send(changed=key)

    async def unfold(self, key: str) -> Page:
        """Open an expander."""
        self._values[key] = WidgetState(id=self._ids[key], bool_value=True)
        return await self._run(changed=key)

    async def click(self, key: str) -> Page:
        """Click a button and wait for the run."""
        await self.press(key)
        return await self.read()

    async def press(self, key: str) -> None:
        """Click a button without waiting."""
        await self._send(changed=key, trigger=WidgetState(id=self._ids[key], trigger_value=True))

    async def again(self, key: str) -> Page:
        """Run the fragment of a widget again, as its timer does."""
        return await self._run(changed=key)

    async def submit(self, key: str, text: str, button: str) -> Page:
        """Enter a text into a form's box, submit the form and wait for the run."""
        self._values[key] = WidgetState(id=self._ids[key], string_value=text)
        return await self.click(button)

    async def _run(self, **request: Any) -> Page:
        await self._send(**request)
        return await self.read()

    async def _send(
        self,
        page: str = "",
        query: str = "",
        changed: str | None = None,
        trigger: WidgetState | None = None,
    ) -> None:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string = query
        if changed is None:
            rerun.page_name = page
        else:
            rerun.page_script_hash = self._page
            rerun.fragment_id = self._fragments.get(changed, "")
        rerun.widget_states.widgets.extend(self._values.values())
        if trigger is not None:
            rerun.widget_states.widgets.append(trigger)
        self._start = time.perf_counter()
        await self._socket.send(message.SerializeToString())

    async def read(self) -> Page:
        """Read messages until the run has ended."""
        page = Page()
        while True:
            raw = await asyncio.wait_for(self._socket.recv(decode=False), PATIENCE_S)
            page.size += len(raw)
            message = ForwardMsg.FromString(raw)
            kind = message.WhichOneof("type")
            if kind == "navigation":
                self._page = message.navigation.page_script_hash
            elif kind == "delta":
                self._see(page, message)
            elif kind == "script_finished" and message.script_finished in (
                ForwardMsg.FINISHED_SUCCESSFULLY,
                ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
                ForwardMsg.FINISHED_WITH_COMPILE_ERROR,
            ):
                page.seconds = time.perf_counter() - self._start
                return page

    def _see(self, page: Page, message: ForwardMsg) -> None:
        """Record one element or container."""
        delta, path = message.delta, tuple(message.metadata.delta_path)
        if delta.WhichOneof("type") == "add_block":
            self._blocks[path] = _key(delta.add_block.id)
            self._note(delta.add_block.expandable.id, delta.fragment_id)
            return
        element = delta.new_element
        kind = element.WhichOneof("type")
        if kind == "text":
            page.texts.setdefault(self._blocks.get(path[:-1], ""), []).append(element.text.body)
        elif kind == "alert":
            page.errors.append(element.alert.body)
            page.error_s = page.error_s or time.perf_counter() - self._start
        elif kind == "exception":
            page.failed.append(element.exception.type)
        elif kind is not None and (id := getattr(getattr(element, kind), "id", "")):
            self._note(id, delta.fragment_id)
            if kind in ("text_area", "text_input"):
                box = getattr(element, kind)
                if box.set_value or _key(id) not in self._values:
                    text = box.value if box.set_value else box.default
                    self._values[_key(id)] = WidgetState(id=id, string_value=text)

    def _note(self, id: str, fragment: str) -> None:
        """Record a widget's id and its fragment, if any."""
        self._ids[_key(id)] = id
        self._fragments[_key(id)] = fragment


def _key(id: str) -> str:
    """Return the key of a widget or container id, $$ID-hash-key."""
    return id.split("-", 2)[2] if id.startswith("$$ID-") else ""
