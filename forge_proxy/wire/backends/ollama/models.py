"""What Ollama says of its models: those it has (`/api/tags`), what one is (`/api/show`), those loaded (`/api/ps`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_list, is_object
from forge_proxy.wire.backends.ollama.response import seconds_of

_TRUNCATE_SINCE = (0, 12, 6)
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model that it has. `digest` tells one state of it from another."""

    name: str
    digest: str = ""
    size: int | None = None
    created: int | None = None


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What a model is: the tokens it was trained with, those its Modelfile asks for, and what it can do."""

    trained: int | None = None
    num_ctx: int | None = None
    capabilities: frozenset[str] = frozenset()
    """`tools`, `thinking`, `vision` and others; empty where the version does not tell."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory: its window in tokens, its size and the part of that on the GPU, both in bytes."""

    name: str
    window: int | None = None
    size: int | None = None
    size_vram: int | None = None


def decode_tags(body: Json) -> list[InstalledModel]:
    """The models it has; an empty list for anything that is no such list."""
    return [
        InstalledModel(
            name, _text(entry.get("digest")), _count(entry.get("size")), seconds_of(entry.get("modified_at"))
        )
        for entry in _entries(body)
        if (name := _text(entry.get("model")) or _text(entry.get("name")))
    ]


def decode_loaded(body: Json) -> list[LoadedModel]:
    """The models in memory."""
    return [
        LoadedModel(
            name, _count(entry.get("context_length")), _count(entry.get("size")), _count(entry.get("size_vram"))
        )
        for entry in _entries(body)
        if (name := _text(entry.get("model")) or _text(entry.get("name")))
    ]


def decode_show(body: Json) -> ModelDescription:
    """What one model is."""
    fields: JsonObject = body if is_object(body) else {}
    said = fields.get("model_info")
    info: JsonObject = said if is_object(said) else {}
    asked = _NUM_CTX.search(_text(fields.get("parameters")))
    capabilities = fields.get("capabilities")
    return ModelDescription(
        trained=_count(info.get(f"{_text(info.get('general.architecture'))}.context_length")),
        num_ctx=int(asked[1]) if asked else None,
        capabilities=frozenset(_text(one) for one in capabilities) if is_list(capabilities) else frozenset(),
    )


def with_tag(name: str) -> str:
    """The whole name of a model: a tag that is left out is `latest`."""
    return name if ":" in name.rpartition("/")[2] or not name else f"{name}:latest"


def knows_truncate(version: Json) -> bool:
    """Whether this version refuses a prompt that is too long when it is asked to, by what `/api/version` says.

    0.12.6 was the first to. One built from source says 0.0.0.
    """
    said = version.get("version") if is_object(version) else None
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", said) if isinstance(said, str) else None
    if numbers is None:
        return True
    parts = tuple(map(int, numbers.groups()))
    return parts == (0, 0, 0) or parts >= _TRUNCATE_SINCE


def card_of(
    model: InstalledModel, shown: ModelDescription, loaded: LoadedModel | None, num_ctx: int | None
) -> ModelCard:
    """The model as we list it. `num_ctx` is what we ask for: the model is loaded anew where it has another window.

    Without that it is what the model is loaded with, else what its Modelfile asks for. Else nobody can know before it
    is loaded: the window of the training is none that anybody promised, and stands beside it as `n_ctx_train`.
    """
    window = num_ctx or (loaded.window if loaded else None) or shown.num_ctx
    if window is not None and shown.trained is not None:
        window = min(window, shown.trained)
    meta: dict[str, Json] = {"n_ctx_train": shown.trained} if shown.trained is not None else {}
    if model.size is not None:
        meta["size"] = model.size
    details: dict[str, Json] = {"owned_by": "ollama", "meta": meta}
    if model.created is not None:
        details["created"] = model.created
    if shown.capabilities:
        details["capabilities"] = list[Json](sorted(shown.capabilities))
    return ModelCard(model.name, window, details)


def _entries(body: Json) -> list[JsonObject]:
    models = body.get("models") if is_object(body) else None
    return [entry for entry in models if is_object(entry)] if is_list(models) else []


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Json) -> int | None:
    return value if is_integer(value) and value > 0 else None
