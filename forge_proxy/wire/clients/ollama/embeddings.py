"""Converts `/api/embed` and the older `/api/embeddings` to `/v1/embeddings`, and its response back."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.ollama.response import convert_counts, convert_durations

_DROPPED = {
    "options": "embeddings have no options",
    "keep_alive": "only Ollama unloads models by itself",
    "truncate": "the model server decides about an input over its window",
}


@dataclass(frozen=True, slots=True)
class DecodedEmbedRequest:
    """A request for embeddings. `body` is that of `/v1/embeddings`; `dropped` is what it has no field for."""

    body: JsonObject
    model: str | None
    is_single: bool
    """Whether the request is one of `/api/embeddings`, whose response has a single embedding."""
    dropped: tuple[str, ...] = ()

    def encode_response(self, response: Json, elapsed: int) -> bytes:
        """Encode the response. `elapsed` is in nanoseconds. Raises `ValueError` if it has no embeddings."""
        fields_of: JsonObject = response if is_object(response) else {}
        embeddings = _read_embeddings(fields_of.get("data"))
        if self.is_single:
            return orjson.dumps({"embedding": embeddings[0] if embeddings else []})
        usage = fields_of.get("usage")
        times = convert_durations(None, elapsed, 0)
        return orjson.dumps({
            "model": self.model or fields_of.get("model") or "",
            "embeddings": embeddings,
            "total_duration": times["total_duration"],
            "load_duration": times["load_duration"],
            **convert_counts(usage if is_object(usage) else None),
        })  # fmt: skip


def decode_embed(body: JsonObject) -> DecodedEmbedRequest:
    """Decode the parsed body of `/api/embed`. Raises `InvalidRequest`."""
    given = body.get("input")
    if not isinstance(given, str) and not (is_list(given) and all(isinstance(one, str) for one in given)):
        if "input" not in body:
            raise InvalidRequest("input", "required, but missing")
        fields.reject("input", "text, or a list of texts", given)
    out: dict[str, Json] = {"input": given}
    if (dimensions := fields.read_count(body, "dimensions", least=1)) is not None:
        out["dimensions"] = dimensions
    return _decode_common(body, out, is_single=False)


def decode_embeddings(body: JsonObject) -> DecodedEmbedRequest:
    """Decode the parsed body of `/api/embeddings`. Raises `InvalidRequest`."""
    return _decode_common(body, {"input": fields.read_text(body, "prompt")}, is_single=True)


def _decode_common(body: JsonObject, out: dict[str, Json], *, is_single: bool) -> DecodedEmbedRequest:
    model = fields.read_optional_text(body, "model")
    if model is not None:
        out["model"] = model
    dropped = tuple(f"{name}: {reason}" for name, reason in _DROPPED.items() if body.get(name) not in (None, {}))
    return DecodedEmbedRequest(out, model, is_single, dropped)


def _read_embeddings(data: Json) -> list[Json]:
    found = [one.get("embedding") for one in data if is_object(one)] if is_list(data) else None
    if found is None or not all(map(is_list, found)):
        raise ValueError("the response has no embeddings")
    return found
