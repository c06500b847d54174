"""Reads and checks the lines of a batch's input file, which arrives in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from forge_proxy.core.batches.limits import MAX_CUSTOM_ID, MAX_ERRORS, MAX_LINES
from forge_proxy.core.batches.prefixes import compute_prefix_key
from forge_proxy.core.jsontypes import is_object

_ENVELOPE = 64 * 1024
"""Bytes that a line may have besides the body of its request."""


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line cannot be part of a batch."""

    code: str
    message: str
    line: int | None = None
    """The number of the line, from 1; None for a fault of the whole file."""
    param: str | None = None


class BatchLine(NamedTuple):
    """A valid line: where it is, and what decides about its order."""

    number: int
    offset: int
    size: int
    model: str
    prefix: bytes


@dataclass(frozen=True, slots=True)
class LineRules:
    """What all lines of a batch have to satisfy."""

    endpoint: str
    max_body: int
    """Bytes of a request's body."""


class BatchFileReader:
    """Reads and validates a file from its beginning. `close` completes the validation."""

    def __init__(self, rules: LineRules) -> None:
        self._rules = rules
        self._pending = bytearray()
        self._offset = 0
        """Where the pending bytes begin in the file."""
        self._number = 0
        self._is_too_long = False
        """Whether the pending line is longer than any valid one; its bytes are dropped."""
        self._ids: dict[str, int] = {}
        self.lines: list[BatchLine] = []
        self.faults: list[LineFault] = []
        """The first faults, in the order of the lines."""

    def feed(self, data: bytes) -> None:
        """Read more bytes of the file."""
        self._pending += data
        start = 0
        while (end := self._pending.find(b"\n", start)) >= 0:
            self._take(bytes(self._pending[start:end]), start)
            start = end + 1
        del self._pending[:start]
        self._offset += start
        if len(self._pending) > self._rules.max_body + _ENVELOPE:
            self._is_too_long = True
            self._offset += len(self._pending)
            self._pending.clear()

    def close(self) -> None:
        """Read the last line, which may have no line end."""
        if self._pending or self._is_too_long:
            self._take(bytes(self._pending), 0)
        self._pending.clear()
        if self._number == 0 or not (self.lines or self.faults):
            self._add(LineFault("empty_file", "the file has no lines"))

    @property
    def model(self) -> str | None:
        """The model of all lines; None if they have several."""
        models = {line.model for line in self.lines}
        return models.pop() or None if len(models) == 1 else None

    def _take(self, raw: bytes, start: int) -> None:
        self._number += 1
        is_too_long, self._is_too_long = self._is_too_long or len(raw) > self._rules.max_body + _ENVELOPE, False
        if not is_too_long and not raw.strip():
            return
        if len(self.lines) == MAX_LINES:
            self._add(LineFault("too_many_lines", f"the file has more than {MAX_LINES} lines", self._number))
            return
        fault = self._too_large() if is_too_long else self._check(raw, start)
        if fault is not None:
            self._add(fault)

    def _check(self, raw: bytes, start: int) -> LineFault | None:
        try:
            parsed: Any = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return self._fault("invalid_json_line", "the line is not valid JSON")
        if not is_object(parsed):
            return self._fault("invalid_json_line", "the line is not a JSON object")
        fault = self._check_id(parsed.get("custom_id")) or self._check_request(parsed)
        if fault is not None:
            return fault
        body = parsed["body"]
        assert is_object(body)  # noqa: S101  # checked
        if len(raw) > self._rules.max_body and len(orjson.dumps(body)) > self._rules.max_body:
            return self._too_large()
        model = body.get("model")
        line = BatchLine(
            self._number,
            self._offset + start,
            len(raw),
            model if isinstance(model, str) else "",
            compute_prefix_key(body),
        )
        self.lines.append(line)
        return None

    def _check_id(self, custom_id: object) -> LineFault | None:
        if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= MAX_CUSTOM_ID:
            why = f"expected a string of 1 to {MAX_CUSTOM_ID} characters"
            return self._fault("missing_custom_id" if custom_id is None else "invalid_custom_id", why, "custom_id")
        first = self._ids.setdefault(custom_id, self._number)
        if first != self._number:
            return self._fault("duplicate_custom_id", f"line {first} has the same custom_id", "custom_id")
        return None

    def _check_request(self, parsed: Mapping[str, object]) -> LineFault | None:
        if parsed.get("method") != "POST":
            return self._fault("invalid_method", "expected POST", "method")
        if parsed.get("url") != self._rules.endpoint:
            why = f"expected {self._rules.endpoint}, the endpoint of the batch"
            return self._fault("mismatched_endpoint", why, "url")
        body = parsed.get("body")
        if not is_object(body):
            return self._fault("invalid_body", "expected an object", "body")
        if body.get("stream"):
            return self._fault("stream_not_supported", "a batch has whole responses: remove stream", "body.stream")
        return None

    def _too_large(self) -> LineFault:
        limit = f"{self._rules.max_body} bytes (server.max_body_mb)"
        return self._fault("body_too_large", f"the body has more than {limit}", "body")

    def _fault(self, code: str, message: str, param: str | None = None) -> LineFault:
        return LineFault(code, message, self._number, param)

    def _add(self, fault: LineFault) -> None:
        is_repeated = fault.code == "too_many_lines" and any(one.code == fault.code for one in self.faults)
        if len(self.faults) < MAX_ERRORS and not is_repeated:
            self.faults.append(fault)
