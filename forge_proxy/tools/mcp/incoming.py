"""Messages out of the bytes that a program writes, within bounds. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Generator

import orjson
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from forge_proxy.tools.mcp.bounds import NotificationLimit, TooMuchOutput, check_values

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\b')
_NEAR = 300
"""Bytes at both ends of a message that cannot be parsed, in which its id is looked for."""


class MessageAssembler:
    """Takes bytes and returns messages. One message may have `limit` bytes, and so may all within a minute together
    that are no response to a request.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._asked: set[int | str] = set()
        self._unasked = NotificationLimit(limit)

    def expect(self, message: JSONRPCMessage) -> None:
        """Note that a message is being sent, which may have a response."""
        if isinstance(message, JSONRPCRequest):
            self._asked.add(message.id)

    def feed(self, data: bytes, now: float) -> Generator[JSONRPCMessage]:
        """Yield the messages that are complete with these bytes. `now` is in seconds. Raises `TooMuchOutput`."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._extend(part)
            line = bytes(self._rest)
            self._rest.clear()
            if (message := self._read(line, now)) is not None:
                yield message
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > self._limit:
            raise TooMuchOutput(f"it sent a message of more than {self._limit // 1024} KB")

    def _read(self, line: bytes, now: float) -> JSONRPCMessage | None:
        message = _parse(line)
        if message is None and (number := _id_of(line)) in self._asked:
            data = ErrorData(code=PARSE_ERROR, message="the server's response is no valid JSON, or nested too deeply")
            message = JSONRPCError(jsonrpc="2.0", id=number, error=data)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._asked:
            self._asked.discard(message.id)
        else:
            self._unasked.spend(len(line) + 1, now)
        # Nobody here listens for progress or logs, and the package takes its time with them.
        return None if isinstance(message, JSONRPCNotification) else message


def _parse(line: bytes) -> JSONRPCMessage | None:
    """The message that this JSON is, read strictly; None if it is none."""
    check_values(line)
    try:
        # The package's own parser takes NaN for a number.
        return jsonrpc_message_adapter.validate_python(orjson.loads(line), by_name=False)
    except ValueError:
        return None


def _id_of(line: bytes) -> int | None:
    found = _ID.search(line[:_NEAR]) or _ID.search(line[-_NEAR:])
    return int(found[1]) if found else None
