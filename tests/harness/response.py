"""A response as a model server writes it on the connection, and the ways in which faults change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tests.fakes.says import DONE, Said, as_event

JsonDict = dict[str, Any]
JSON, EVENTS = "application/json", "text/event-stream"


@dataclass(frozen=True)
class Response:
    """The bytes of a response: the head, then the body in these pieces, each in a write of its own."""

    status: int | None = 200
    """None if the connection is closed without a response."""
    kind: str | None = JSON
    """The Content-Type; None if there is none."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pieces: tuple[bytes, ...] = ()
    pause: float = 0.0
    """Seconds of silence between the head and the body."""
    is_complete: bool = True
    """Whether the body is complete; otherwise the connection is closed after the last piece."""


Send: TypeAlias = Callable[[Said, bool], Response | None]
"""From the model's response, and whether a stream is requested, to the bytes; None if this response cannot have the
fault.
"""


def send(said: Said, stream: bool) -> Response:
    """The response without a fault."""
    if said.status != 200:
        return Response(said.status, pieces=(json.dumps(said.body).encode(),))
    if not stream:
        return Response(pieces=(said.as_whole(),))
    return Response(kind=EVENTS, pieces=_as_pieces(said.as_chunks()))


def send_status(status: int, body: JsonDict | str = "", **headers: str) -> Send:
    """Return an error response, or another one without a completion; header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind, data = ("text/html", body) if isinstance(body, str) else (JSON, json.dumps(body))
    response = Response(status, kind if data else None, named, (data.encode(),) if data else ())
    return lambda _said, _stream: response


def with_head(**changes: Any) -> Send:
    """Return the right body with another head."""
    return lambda said, stream: replace(send(said, stream), **changes)


def in_chunks(change: Callable[[list[JsonDict]], list[JsonDict]]) -> Send:
    """Change the chunks of the stream; a whole response has no such fault."""

    def send_changed(said: Said, stream: bool) -> Response | None:
        chunks = said.as_chunks()
        changed = change(json.loads(json.dumps(chunks)))
        return Response(kind=EVENTS, pieces=_as_pieces(changed)) if stream and changed != chunks else None

    return send_changed


def in_pieces(change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]) -> Send:
    """Change the bytes of the stream; a whole response has no such fault."""

    def send_changed(said: Said, stream: bool) -> Response | None:
        response = send(said, stream)
        return replace(response, pieces=change(response.pieces)) if stream else None

    return send_changed


def in_calls(change: Callable[[JsonDict], JsonDict]) -> Send:
    """Change each native call, in streams and whole responses. A streamed call has its arguments in one piece."""

    def send_changed(said: Said, stream: bool) -> Response | None:
        if not said.calls:
            return None
        if not stream:
            whole = json.loads(said.as_whole())
            message = whole["choices"][0]["message"]
            message["tool_calls"] = [change(call) for call in message["tool_calls"]]
            return Response(pieces=(json.dumps(whole).encode(),))
        chunks = replace(said, piece=10**9).as_chunks()
        for delta in deltas_of(chunks):
            if "tool_calls" in delta:
                delta["tool_calls"] = [change(call) for call in delta["tool_calls"]]
        return Response(kind=EVENTS, pieces=_as_pieces(chunks))

    return send_changed


def breaks_off(*, at: Callable[[JsonDict], bool], then: bytes = b"") -> Send:
    """End a stream in the middle of what `at` finds, with these bytes.

    A whole response ends in the middle of its body, or is an error if there are such bytes.
    """

    def send_part(said: Said, stream: bool) -> Response | None:
        chunks = said.as_chunks()
        found = [index for index, delta in enumerate(deltas_of(chunks)) if at(delta)]
        if not found:
            return None
        if stream:
            pieces = _as_pieces(chunks[: found[len(found) // 2] + 1])[:-1]
            return Response(kind=EVENTS, pieces=(*pieces, then) if then else pieces, is_complete=bool(then))
        if then:
            return Response(status=500, pieces=(json.dumps({"error": ERROR}).encode(),))
        whole = said.as_whole()
        return Response(pieces=(whole[: len(whole) // 2],), is_complete=False)

    return send_part


def deltas_of(chunks: Sequence[JsonDict]) -> list[JsonDict]:
    """Yield the delta of each chunk; an empty one for a chunk without choices."""
    return [chunk["choices"][0]["delta"] if chunk["choices"] else {} for chunk in chunks]


ERROR = {"code": 500, "message": "the slot failed", "type": "server_error"}


def _as_pieces(chunks: Sequence[JsonDict]) -> tuple[bytes, ...]:
    return (*(as_event(chunk) for chunk in chunks), DONE)
