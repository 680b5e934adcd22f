"""One visitor without a browser: opens a page over Streamlit's socket, types, clicks and reads."""

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
"""Seconds without a message after which a run has hung."""


@dataclass
class Page:
    """What one run of a page has sent: texts by the key of their container, errors, seconds.

    `told` is when its first error came, in seconds.
    """

    texts: dict[str, list[str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    told: float | None = None
    size: int = 0

    @property
    def translation(self) -> str | None:
        """What the first page shows as the translation, or None."""
        return next(iter(self.texts.get("translation", ())), None)


class Visitor:
    """One session; its widgets keep their values from run to run, as a browser's do."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids: dict[str, str] = {}  # of widgets, by their keys
        self._values: dict[str, WidgetState] = {}
        self._fragments: dict[str, str] = {}  # of widgets that stand in one
        self._blocks: dict[tuple[int, ...], str] = {}
        self._page = ""

    @property
    def keys(self) -> set[str]:
        """Of the widgets that it has seen."""
        return set(self._ids)

    @classmethod
    async def arrive(cls, port: int, cookie: str | None = None) -> Self:
        """Open a socket to the app on this machine; `cookie` is for a proxy in between."""
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

    async def leave(self) -> None:
        """Close the tab."""
        await self._socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.leave()

    async def open(self, page: str = "", query: str = "") -> Page:
        """Open a page by its path, with what stands in its address."""
        return await self._run(page=page, query=query)

    async def type(self, key: str, text: str) -> Page:
        """Put a text into a box and leave it."""
        await self.begin(key, text)
        return await self.read()

    async def begin(self, key: str, text: str) -> None:
        """Put a text into a box, and do not wait for what comes of it."""
        self._values[key] = WidgetState(id=self._ids[key], string_value=text)
        await self._ask(changed=key)

    async def unfold(self, key: str) -> Page:
        """Open a fold of a lesson."""
        self._values[key] = WidgetState(id=self._ids[key], bool_value=True)
        return await self._run(changed=key)

    async def click(self, key: str) -> Page:
        """Click a button."""
        await self.press(key)
        return await self.read()

    async def press(self, key: str) -> None:
        """Click a button, and do not wait for what comes of it."""
        await self._ask(changed=key, trigger=WidgetState(id=self._ids[key], trigger_value=True))

    async def _run(self, **asked: Any) -> Page:
        await self._ask(**asked)
        return await self.read()

    async def _ask(
        self,
        page: str = "",
        query: str = "",
        changed: str | None = None,
        trigger: WidgetState | None = None,
    ) -> None:
        message = BackMsg()
        asked = message.rerun_script
        asked.query_string = query
        if changed is None:
            asked.page_name = page
        else:
            asked.page_script_hash = self._page
            asked.fragment_id = self._fragments.get(changed, "")
        asked.widget_states.widgets.extend(self._values.values())
        if trigger is not None:
            asked.widget_states.widgets.append(trigger)
        self._begun = time.perf_counter()
        await self._socket.send(message.SerializeToString())

    async def read(self) -> Page:
        """What a run sends, until it has ended."""
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
                page.seconds = time.perf_counter() - self._begun
                return page

    def _see(self, page: Page, message: ForwardMsg) -> None:
        """One element or container of the page."""
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
            page.told = page.told or time.perf_counter() - self._begun
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
        """A widget and the fragment that it stands in, if any."""
        self._ids[_key(id)] = id
        self._fragments[_key(id)] = fragment


def _key(id: str) -> str:
    """The key that a widget or container was given: $$ID-hash-key."""
    return id.split("-", 2)[2] if id.startswith("$$ID-") else ""
