"""Assembles JSON-RPC messages from a program's output, within limits. Pure."""

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

from forge_proxy.tools.mcp.output_limits import NotificationLimit, TooMuchOutput, check_values

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\b')
_ID_SEARCH_BYTES = 300
"""Bytes at both ends of an unparsable message that are searched for its id."""


class MessageAssembler:
    """Converts bytes to messages.

    `limit` is the maximum in bytes for one message, and for all messages within a minute that are not a response to a
    request.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._pending_ids: set[int | str] = set()
        self._notifications = NotificationLimit(limit)

    def expect(self, message: JSONRPCMessage) -> None:
        """Record a sent message that may get a response."""
        if isinstance(message, JSONRPCRequest):
            self._pending_ids.add(message.id)

    def feed(self, data: bytes, now: float) -> Generator[JSONRPCMessage]:
        """Yield the messages that these bytes complete. `now` is in seconds. Raises `TooMuchOutput`."""
        *complete, rest = data.split(b"\n")
        for part in complete:
            self._extend(part)
            line = bytes(self._buffer)
            self._buffer.clear()
            if (message := self._read(line, now)) is not None:
                yield message
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        self._buffer += part
        if len(self._buffer) > self._limit:
            raise TooMuchOutput(f"it sent a message of more than {self._limit // 1024} KB")

    def _read(self, line: bytes, now: float) -> JSONRPCMessage | None:
        message = _parse(line)
        if message is None and (number := _find_id(line)) in self._pending_ids:
            data = ErrorData(code=PARSE_ERROR, message="the server's response is not valid JSON, or nested too deeply")
            message = JSONRPCError(jsonrpc="2.0", id=number, error=data)
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._pending_ids:
            self._pending_ids.discard(message.id)
        else:
            self._notifications.spend(len(line) + 1, now)
        # Drop notifications: progress and logs are unused, and slow to process in the package.
        return None if isinstance(message, JSONRPCNotification) else message


def _parse(line: bytes) -> JSONRPCMessage | None:
    """Parse a JSON-RPC message strictly; None if it is invalid."""
    check_values(line)
    try:
        # orjson, because the package's own parser accepts NaN.
        return jsonrpc_message_adapter.validate_python(orjson.loads(line), by_name=False)
    except ValueError:
        return None


def _find_id(line: bytes) -> int | None:
    found = _ID.search(line[:_ID_SEARCH_BYTES]) or _ID.search(line[-_ID_SEARCH_BYTES:])
    return int(found[1]) if found else None
