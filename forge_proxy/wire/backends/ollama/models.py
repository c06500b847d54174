"""Decodes Ollama's model routes: installed models (`/api/tags`), a model (`/api/show`), loaded models (`/api/ps`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object
from forge_proxy.wire.backends.ollama.response import parse_time

_TRUNCATE_SINCE = (0, 12, 6)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """An installed model: size in bytes, creation time in seconds since 1970. `digest` identifies its version."""

    name: str
    digest: str = ""
    size: int | None = None
    created: int | None = None


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model's properties: trained context window and `num_ctx` of its Modelfile in tokens, and its capabilities."""

    trained_window: int | None = None
    num_ctx: int | None = None
    capabilities: frozenset[str] = frozenset()
    """`tools`, `thinking`, `vision` and others; empty if this version of Ollama does not report them."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model: window in tokens, size and its part on the GPU in bytes."""

    name: str
    window: int | None = None
    size: int | None = None
    size_vram: int | None = None


def decode_tags(body: Json) -> list[InstalledModel]:
    """Return the installed models; an empty list if the body is not a model list."""
    return [
        InstalledModel(
            name, _text(entry.get("digest")), _count(entry.get("size")), parse_time(entry.get("modified_at"))
        )
        for entry in _entries(body)
        if (name := _text(entry.get("model")) or _text(entry.get("name")))
    ]


def decode_loaded(body: Json) -> list[LoadedModel]:
    """Return the loaded models."""
    return [
        LoadedModel(
            name, _count(entry.get("context_length")), _count(entry.get("size")), _count(entry.get("size_vram"))
        )
        for entry in _entries(body)
        if (name := _text(entry.get("model")) or _text(entry.get("name")))
    ]


def decode_show(body: Json) -> ModelDescription:
    """Return the properties of a model."""
    fields: JsonObject = body if is_object(body) else {}
    listed = fields.get("model_info")
    info: JsonObject = listed if is_object(listed) else {}
    num_ctx = _NUM_CTX.search(_text(fields.get("parameters")))
    capabilities = fields.get("capabilities")
    return ModelDescription(
        trained_window=_count(info.get(f"{_text(info.get('general.architecture'))}.context_length")),
        num_ctx=int(num_ctx[1]) if num_ctx else None,
        capabilities=frozenset(_text(one) for one in capabilities) if is_list(capabilities) else frozenset(),
    )


def add_tag(name: str) -> str:
    """Return the full name of a model: the default tag is `latest`."""
    return name if ":" in name.rpartition("/")[2] or not name else f"{name}:latest"


def supports_truncate(version: Json) -> bool:
    """Return whether the version in the `/api/version` response supports `truncate`: since 0.12.6.

    A build from source reports 0.0.0 and is assumed to support it.
    """
    text = version.get("version") if is_object(version) else None
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", text) if isinstance(text, str) else None
    if numbers is None:
        return True
    parts = tuple(map(int, numbers.groups()))
    return parts == (0, 0, 0) or parts >= _TRUNCATE_SINCE


def to_card(
    model: InstalledModel, description: ModelDescription, loaded: LoadedModel | None, num_ctx: int | None
) -> ModelCard:
    """Return the card of a model. `num_ctx` is the configured window in tokens: Ollama reloads a model to change it.

    Without it, the window is that of the loaded model, else the Modelfile's `num_ctx`, else unknown until the model is
    loaded. The trained window does not guarantee that size; it is listed as `n_ctx_train`.
    """
    window = num_ctx or (loaded.window if loaded else None) or description.num_ctx
    if window is not None and description.trained_window is not None:
        window = min(window, description.trained_window)
    meta: dict[str, Json] = (
        {"n_ctx_train": description.trained_window} if description.trained_window is not None else {}
    )
    if model.size is not None:
        meta["size"] = model.size
    details: dict[str, Json] = {"owned_by": "ollama", "meta": meta}
    if model.created is not None:
        details["created"] = model.created
    if description.capabilities:
        details["capabilities"] = list[Json](sorted(description.capabilities))
    return ModelCard(model.name, window, details)


def _entries(body: Json) -> list[JsonObject]:
    models = body.get("models") if is_object(body) else None
    return [entry for entry in models if is_object(entry)] if is_list(models) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Json) -> int | None:
    return value if is_integer(value) and value > 0 else None
