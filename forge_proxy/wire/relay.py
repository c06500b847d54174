"""Requests that are passed on to the model server as they came, but for the name of their model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.multipart import RawBytes, find_fields, read_parameters

RawPieces: TypeAlias = Sequence[bytes | memoryview]
_PIECE = 256 * 1024
_MAX_FORM_MODEL = 512
_MAX_BOUNDARY = 200


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
    def read(cls, raw: RawBytes, content_type: str) -> Generator[None, None, FormBody]:
        """Find the field `model`; yields between slices. A body that is not well-formed has none.

        Raises `InvalidRequest` if it has two: servers differ in which of them they use.
        """
        boundary = (read_parameters(content_type) or {}).get("boundary", "")
        if not 0 < len(boundary) <= _MAX_BOUNDARY:
            return cls(raw)
        found = [one for one in (yield from find_fields(raw, boundary)) if one.name == "model"]
        if len(found) > 1:
            raise InvalidRequest("model", "the form has more than one field of this name")
        if not found or found[0].end - found[0].start > _MAX_FORM_MODEL:
            return cls(raw)
        return cls(raw, found[0].start, found[0].end)

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
    """A body that is not parsed, or no body."""

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
    """Whether the model server runs a model for the request, which then needs a slot and names a model."""
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
