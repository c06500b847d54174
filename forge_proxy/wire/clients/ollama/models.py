"""Encodes the model routes of Ollama's API: `/api/tags`, `/api/show`, `/api/ps` and `/api/version`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_integer, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.ollama.response import format_time

API_VERSION = "0.30.0"
"""The version of Ollama whose API this is. Clients refuse to work with a version below the one they need."""
_NEVER = "2300-01-01T00:00:00Z"
"""When a model is unloaded that is not unloaded on its own."""
_KNOWN_CAPABILITIES = {"multimodal": "vision", "image": "vision", "reasoning": "thinking", "embeddings": "embedding"}
"""Ollama's capabilities by the names that other model servers use."""


def encode_version() -> JsonObject:
    """Return the response of `/api/version`."""
    return {"version": API_VERSION}


def encode_tags(cards: Sequence[ModelCard]) -> JsonObject:
    """Return the models that are served."""
    return {"models": [{**_summary(card), "modified_at": _modified_at(card)} for card in cards]}


def encode_loaded(cards: Sequence[ModelCard]) -> JsonObject:
    """Return the models that are loaded."""
    return {"models": [_encode_loaded(card) for card in cards]}


def encode_shown(card: ModelCard) -> JsonObject:
    """Return the description of a model. Its context length is the window that is served."""
    family = _family(card)
    info: dict[str, Json] = {"general.architecture": family, "general.basename": card.id}
    if (parameters := _meta(card).get("n_params")) is not None:
        info["general.parameter_count"] = parameters
    if card.window is not None:
        info[f"{family}.context_length"] = card.window
    parameters_text = f"num_ctx {card.window}" if card.window is not None else ""
    return {
        "modelfile": f"# served by forge-proxy\nFROM {card.id}\n",
        "parameters": parameters_text,
        "template": "",
        "details": _details(card),
        "model_info": info,
        "capabilities": [*find_capabilities(card)],
        "modified_at": _modified_at(card),
    }


def read_shown_name(body: JsonObject) -> str:
    """Return the model that a request to `/api/show` names. Raises `InvalidRequest`."""
    name = fields.read_optional_text(body, "model") or fields.read_optional_text(body, "name")
    if not name:
        raise InvalidRequest("model", "required, but missing")
    return name


def find_capabilities(card: ModelCard) -> tuple[str, ...]:
    """Return the capabilities of a model as far as its server reports them.

    A model whose server reports none can complete and call tools: the daemon describes tools in the prompt if it must.
    """
    reported = card.details.get("capabilities")
    names = [name for name in reported if isinstance(name, str)] if is_list(reported) else []
    found = dict.fromkeys(_KNOWN_CAPABILITIES.get(name, name) for name in names)
    if "embedding" not in found:
        found = {"completion": None, "tools": None, **found}
    if "image" in _input_modalities(card):
        found["vision"] = None
    return tuple(found)


def _summary(card: ModelCard) -> dict[str, Json]:
    # Ollama's command line shows the first twelve characters of the digest.
    digest = sha256(card.id.encode()).hexdigest()
    size = _meta(card).get("size")
    return {
        "name": card.id,
        "model": card.id,
        "size": size if is_count(size) else 0,
        "digest": digest,
        "details": _details(card),
    }


def _encode_loaded(card: ModelCard) -> JsonObject:
    entry = _summary(card)
    loaded: dict[str, Json] = {**entry, "size_vram": entry["size"], "expires_at": _NEVER}
    if card.window is not None:
        loaded["context_length"] = card.window
    return loaded


def _details(card: ModelCard) -> JsonObject:
    meta, family = _meta(card), _family(card)
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": _parameter_size(meta.get("n_params")),
        "quantization_level": _text(meta.get("ftype")) or "unknown",
    }


def _family(card: ModelCard) -> str:
    meta = _meta(card)
    return _text(meta.get("architecture")) or _text(meta.get("general.architecture")) or "llama"


def _parameter_size(parameters: Json) -> str:
    if not isinstance(parameters, int | float) or parameters <= 0:
        return ""
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"


def _modified_at(card: ModelCard) -> str:
    created = card.details.get("created")
    return format_time(created if is_integer(created) and 0 <= created < 2**32 else 0)


def _input_modalities(card: ModelCard) -> tuple[str, ...]:
    architecture = card.details.get("architecture")
    listed = architecture.get("input_modalities") if is_object(architecture) else None
    return tuple(name for name in listed if isinstance(name, str)) if is_list(listed) else ()


def _meta(card: ModelCard) -> JsonObject:
    meta = card.details.get("meta")
    return meta if is_object(meta) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
