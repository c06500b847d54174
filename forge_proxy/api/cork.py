"""A transport that sends together what is written at one time: an answer's head with its body, the end of a stream.

uvicorn writes each piece by itself, and uvloop sends each at once: a system call that wakes the other side costs as
much as all else that we do for a piece.
"""

from __future__ import annotations

import asyncio

_HEAD = b"HTTP/1."


class Corked(asyncio.Transport):
    """Holds a head until more is written, and what is written within the same millisecond as the last; neither longer
    than until the loop's next turn, which is before it waits for anything. A piece that comes by itself leaves at once.

    Everything else is the transport's own. What is held is no more than one turn of the loop writes.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes | bytearray | memoryview] = []
        self._holds_head: bool = False
        self._wrote_at: float = 0.0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send this in its order. A body that looks like a head is none the worse for it."""
        now = self._loop.time()  # of uvloop: when this turn began, in milliseconds
        if self._holds_head:
            self._held.append(data)
            self._send()
        elif self._held:
            self._held.append(data)
        elif now == self._wrote_at or (isinstance(data, bytes) and data.startswith(_HEAD)):
            self._holds_head = now != self._wrote_at
            self._held.append(data)
            self._loop.call_soon(self._send)
        else:
            self._transport.write(data)
        self._wrote_at = now

    def close(self) -> None:
        """Send what is held, then close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what was written before leaves as far as the socket takes it."""
        self._send()
        self._transport.abort()

    def is_closing(self) -> bool:
        """See `asyncio.Transport`."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """See `asyncio.Transport`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See `asyncio.Transport`."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """See `asyncio.Transport`."""
        return self._transport.get_extra_info(name, default)

    def _send(self) -> None:
        held, self._held, self._holds_head = self._held, [], False
        if held and not self._transport.is_closing():  # whoever it is for may have left since it was written
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))
