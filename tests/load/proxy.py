"""A minimal proxy with sticky sessions by cookie, for load tests only."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.load.client import HOST

_SEAT = re.compile(rb"^cookie:.*\bseat=([^;\s]+)", re.I | re.M)
_HEAD = 64 * 2**10


def seat_of(head: bytes, count: int) -> int:
    """Return the index of the process that serves a request's session; 0 without a cookie."""
    seat = _SEAT.search(head)
    return zlib.crc32(seat[1]) % count if seat else 0


@asynccontextmanager
async def proxy(ports: Sequence[int]) -> AsyncIterator[int]:
    """Yield a local port that proxies to several processes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            up_reader, up_writer = await asyncio.open_connection(
                HOST, ports[seat_of(head, len(ports))], limit=_HEAD
            )
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.close()
            return
        up_writer.write(head)
        await asyncio.gather(_pipe(reader, up_writer), _pipe(up_reader, writer))

    server = await asyncio.start_server(serve, HOST, 0, limit=_HEAD)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy a stream until either side closes."""
    try:
        while data := await reader.read(_HEAD):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
