"""One exchange as a value, how it is run, and how what differs from run to run is replaced."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.transcripts.server import Reply, ScriptedServer

JsonDict = dict[str, Any]
_LONG = 8_000
"""Characters of a request to the model server that are kept as text; of a longer one the digest is."""
_VOLATILE_HEADERS = {"date", "content-length", "connection"}
_VOLATILE_FIELDS = re.compile(
    r'("(?:uptime_seconds|idle_seconds|pid|ram_mb|cores|vram_mb|queued_seconds|created_at|updated_at|started_at|ended_at|at'
    r'|seconds|home|path|expires_at|total_duration|load_duration|prompt_eval_duration|eval_duration)"\s*:\s*)(?:"[^"]*"|-?[0-9.eE+-]+|null)'
)
_CREATED = re.compile(r'("created"\s*:\s*)(?!1700000000\b)\d+')
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)?")
_RANDOM_ID = re.compile(
    r"\b(?P<kind>req|run|call|chatcmpl|evt|resp|msg|rs|fc)[_-](?P<id>[0-9a-f]{16,34}|[0-9A-Za-z]{24,32})\b"
)


@dataclass(frozen=True)
class Exchange:
    """One request to the daemon, and what the model server answers to the requests that it leads to."""

    name: str
    replies: tuple[Reply, ...] = ()
    body: Any = None
    method: str = "POST"
    path: str = "/v1/chat/completions"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_background: bool = False
    """Whether the model server gets its requests later or none: its script is kept, and requests are not recorded."""


def run_exchange(exchange: Exchange, client: httpx.Client, server: ScriptedServer) -> JsonDict:
    """The daemon's response and what the model server received, as JSON that is the same in each run."""
    if exchange.replies or not exchange.is_background:
        server.set_script(exchange.replies)
    content = exchange.body if isinstance(exchange.body, bytes) else None
    parsed = None if content is not None else exchange.body
    headers = {"x-request-id": "req-recorded", **exchange.headers}
    text = ""
    with client.stream(exchange.method, exchange.path, content=content, json=parsed, headers=headers) as response:
        try:
            for piece in response.iter_bytes():
                text += piece.decode()
            ending = "complete"
        except httpx.RemoteProtocolError:
            ending = "aborted"
    ids = _Ids()
    kept = {name: value for name, value in sorted(response.headers.items()) if name not in _VOLATILE_HEADERS}
    asked = [] if exchange.is_background else [[path, _received(body, ids)] for path, body in server.received]
    return {
        "status": response.status_code,
        "headers": {name: ids.normalise(value) for name, value in kept.items()},
        "body": ids.normalise(text).split("\n"),
        "ending": ending,
        "received": asked,
        "replies_left": 0 if exchange.is_background else len(server.script),
    }


def _received(body: Any, ids: _Ids) -> Any:
    text = ids.normalise(json.dumps(body, ensure_ascii=False))
    if len(text) <= _LONG:
        return json.loads(text)
    return {"characters": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


class _Ids:
    """Numbers random ids in the order in which they appear, so that equal ones stay equal."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def normalise(self, text: str) -> str:
        """The text without what differs from run to run."""
        text = _VOLATILE_FIELDS.sub(r'\1"*"', _CREATED.sub(r"\g<1>0", _ADDRESS.sub("127.0.0.1:0", text)))
        return _RANDOM_ID.sub(self._number, _TIME.sub("TIME", text))

    def _number(self, found: re.Match[str]) -> str:
        return self._known.setdefault(found[0], f"{found['kind']}_random{len(self._known) + 1}")
