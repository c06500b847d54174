"""Requests that are passed on to the model server as they came, but for the name of their model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import orjson

from forge_proxy.core.jsontypes import JsonObject

RawBytes: TypeAlias = bytes | bytearray
RawPieces: TypeAlias = Sequence[bytes | memoryview]
_PIECE = 256 * 1024
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;,"]{1,200}))', re.IGNORECASE)
_MAX_PARTS = 100
_MAX_PART_HEAD = 4096
_MAX_FORM_MODEL = 512
_NAMES_MODEL = re.compile(
    rb'^content-disposition:[^\r\n]*[;\s]name="?model"?\s*(?:;|\r?$)', re.IGNORECASE | re.MULTILINE
)


class RelayedBody(Protocol):
    """The body of a relayed request."""

    @property
    def model(self) -> str | None:
        """The model that it names."""
        ...

    def pieces(self, model: str | None) -> RawPieces:
        """Return the bytes to send; with `model`, that name in place of its own."""
        ...


@dataclass(frozen=True, slots=True)
class JsonBody:
    """A JSON object: as it was received, and parsed."""

    raw: RawBytes
    fields: JsonObject

    @property
    def model(self) -> str | None:
        """See `RelayedBody`."""
        name = self.fields.get("model")
        return name if isinstance(name, str) else None

    def pieces(self, model: str | None) -> RawPieces:
        """See `RelayedBody`."""
        return slice_bytes(self.raw if model is None else orjson.dumps({**self.fields, "model": model}))


@dataclass(frozen=True, slots=True)
class FormBody:
    """A `multipart/form-data` body. `start` and `end` enclose the value of its field `model`, or are 0."""

    raw: RawBytes
    start: int = 0
    end: int = 0

    @classmethod
    def read(cls, raw: RawBytes, content_type: str) -> FormBody:
        """Find the field `model`. A body that is not well-formed has none; the model server rejects it."""
        return cls(raw, *_find_model_field(raw, content_type))

    @property
    def model(self) -> str | None:
        """See `RelayedBody`."""
        return bytes(self.raw[self.start : self.end]).decode("utf-8", "replace") if self.end else None

    def pieces(self, model: str | None) -> RawPieces:
        """See `RelayedBody`."""
        if model is None or not self.end:
            return slice_bytes(self.raw)
        before, after = slice_bytes(self.raw, 0, self.start), slice_bytes(self.raw, self.end)
        return [*before, model.encode(), *after]


@dataclass(frozen=True, slots=True)
class OpaqueBody:
    """A body of which nothing is known, or none."""

    raw: RawBytes = b""
    model: str | None = None

    def pieces(self, model: str | None) -> RawPieces:
        """See `RelayedBody`."""
        return slice_bytes(self.raw)


@dataclass(frozen=True, slots=True)
class RawCall:
    """A request to a route of the model server that the daemon does not interpret.

    `route` is the path as documented by the API, such as `/v1/embeddings`: the adapter knows where the server has it.
    """

    method: str
    route: str
    body: RelayedBody = OpaqueBody()
    content_type: str = ""
    query: str = ""
    runs_model: bool = True
    """Whether the model server runs a model for it: it then needs a slot, and the model that it names."""
    is_read: bool = False
    """Whether it only reads the state of the server, which answers at once."""
    replacement: str | None = None
    """The model that answers, by the name that the backend knows, if the client's name is not that."""

    @property
    def served(self) -> str | None:
        """The model that answers, by the name that the backend knows."""
        return self.replacement if self.replacement is not None else self.body.model

    @property
    def data(self) -> RawPieces:
        """The bytes to send. A body that names no model stays as it is."""
        named = self.body.model
        return self.body.pieces(self.replacement if named is not None and self.replacement != named else None)

    def for_model(self, name: str | None) -> RawCall:
        """Return the call with this model in place of the one that it names."""
        return replace(self, replacement=name)


def slice_bytes(raw: RawBytes, start: int = 0, end: int | None = None) -> RawPieces:
    """Return bytes in slices that refer to them, so that large ones are sent without a copy."""
    view = memoryview(raw)[start:end]
    return [view[at : at + _PIECE] for at in range(0, len(view), _PIECE)]


def _find_model_field(raw: RawBytes, content_type: str) -> tuple[int, int]:
    """Return where the value of the field `model` begins and ends; 0, 0 if there is none."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        return 0, 0
    delimiter = f"--{found[1] or found[2]}".encode("latin-1", "replace")
    at = raw.find(delimiter)
    for _ in range(_MAX_PARTS):
        if at < 0:
            break
        head = at + len(delimiter)
        value = raw.find(b"\r\n\r\n", head, head + _MAX_PART_HEAD) + 4
        end = raw.find(b"\r\n" + delimiter, value - 2)
        if value < 4 or end < value:
            break
        if end - value <= _MAX_FORM_MODEL and _NAMES_MODEL.search(bytes(raw[head:value])):
            return value, end
        at = end + 2
    return 0, 0
