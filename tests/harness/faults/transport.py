"""Wrong content types and bodies (each time), connections that break off, and errors within a stream."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.fakes.says import Said
from tests.harness.fault import Ask, Fault, first, habit, right
from tests.harness.response import ERROR, EVENTS, JSON, JsonDict, Response, breaks_off, send, send_status, with_head
from tests.harness.tasks import Call

SILENCE = 16.0
"""Seconds of silence; the daemon sends a keepalive every 15 s."""


def _json_to_stream(said: Said, stream: bool) -> Response | None:
    return replace(send(said, stream=False), kind=JSON) if stream else None


def _stream_to_whole(said: Said, stream: bool) -> Response | None:
    return None if stream else replace(send(said, stream=True), kind=EVENTS)


def _error_first(said: Said, stream: bool) -> Response | None:
    event = b"data: " + json.dumps({"error": ERROR}).encode() + b"\n\n"
    return Response(kind=EVENTS, pieces=(event,)) if stream else send_status(200, {"error": ERROR})(said, stream)


def _text_before(ask: Ask) -> Said:
    said = right(ask.move)
    return replace(said, text=f"I will use {ask.move.tool} now.") if isinstance(ask.move, Call) else said


def _is_text(delta: JsonDict) -> bool:
    return bool(delta.get("content"))


def _is_arguments(delta: JsonDict) -> bool:
    return any(call["function"]["arguments"] for call in delta.get("tool_calls", ()))


_ERROR = b"data: " + json.dumps({"error": ERROR}).encode() + b"\n\n"
_PLAIN_ERROR = b'event: error\ndata: {"message": "the slot failed"}\n\n'
_with_text = first(_text_before)

FAULTS = (
    habit("no content type", "no response has a Content-Type", with_head(kind=None)),
    habit("text/plain", "every response has the Content-Type text/plain", with_head(kind="text/plain")),
    habit("JSON to stream", "every request for a stream gets a whole response", _json_to_stream),
    habit("stream to whole", "every request for a whole response gets a stream", _stream_to_whole),
    Fault(
        "silence",
        f"{SILENCE:.0f} seconds of silence after the first head",
        say=lambda ask: None if ask.index or ask.times else right(ask.move),
        send=with_head(pause=SILENCE),
    ),
    Fault(
        "no response",
        "the connection is closed without a response",
        send=lambda _said, _stream: Response(status=None),
        is_plain=True,
    ),
    Fault(
        "cut in text",
        "the connection is closed in the middle of the text",
        say=_with_text,
        send=breaks_off(at=_is_text),
        is_plain=True,
    ),
    Fault(
        "cut in arguments",
        "the connection is closed in the middle of a call's arguments",
        send=breaks_off(at=_is_arguments),
        is_plain=True,
    ),
    Fault("error first", 'the only event is `data: {"error": …}`', send=_error_first, is_plain=True),
    Fault(
        "error in text",
        '`data: {"error": …}` in the middle of the text',
        say=_with_text,
        send=breaks_off(at=_is_text, then=_ERROR),
        is_plain=True,
    ),
    Fault(
        "error in arguments",
        '`data: {"error": …}` in the middle of a call\'s arguments',
        send=breaks_off(at=_is_arguments, then=_ERROR),
        is_plain=True,
    ),
    Fault(
        "plain error",
        "`event: error` with a message in the middle of the text",
        say=_with_text,
        send=breaks_off(at=_is_text, then=_PLAIN_ERROR),
        is_plain=True,
    ),
)
