"""What a Python program says of a backend, by the names of arguments, as settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from forge_proxy.backends.config import BackendChoiceError, Kind
from forge_proxy.backends.llama_server.launch import CacheType
from forge_proxy.backends.selection import SelectedBackend
from forge_proxy.core.budget import BudgetMode
from forge_proxy.core.dialect import ToolMode
from forge_proxy.settings import Settings, SettingsError, given


class BackendOptions(TypedDict, total=False):
    """Which model server, and how it is used. What is left out is as the settings or their defaults have it."""

    backend: Kind
    """Its kind; found out where a model, a file or a URL is named without it."""
    model: str
    """The model's name; alone, a model of the Ollama on this machine."""
    gguf_path: str | PathLike[str]
    """A model file, for a llama.cpp server that is started here."""
    url: str
    """Base URL of a server that runs already."""
    api_key: str
    """The server's own key."""
    mode: ToolMode
    """How the model is told of tools."""
    think: bool
    """Whether the model thinks. For llama.cpp and Ollama."""
    recommended_sampling: bool
    """Whether to sample as the model's makers recommend."""
    budget_mode: BudgetMode
    manual_tokens: int
    """With `BudgetMode.MANUAL`: the tokens of prompt and answer together."""
    slot_id: int
    """The slot of a llama-server that takes all requests."""
    ctx_override: int
    """Tokens of each slot, of a server that is started here; like the following."""
    n_slots: int
    cache_type_k: CacheType
    cache_type_v: CacheType
    extra_flags: Sequence[str]
    """More flags for it, each word an item."""


_PLACES: Mapping[str, tuple[str, ...]] = {
    "backend": ("backend.kind",),
    "model": ("backend.model",),
    "gguf_path": ("backend.gguf",),
    "url": ("backend.url",),
    "api_key": ("backend.api_key",),
    "mode": ("backend.tools",),
    "think": ("backend.llama_cpp.think", "backend.ollama.think"),
    "recommended_sampling": ("sampling.defaults",),
    "budget_mode": ("budget.mode",),
    "manual_tokens": ("budget.tokens",),
    "slot_id": ("backend.llama_cpp.slot_id",),
    "ctx_override": ("backend.llama_server.context",),
    "n_slots": ("backend.llama_server.slots",),
    "cache_type_k": ("backend.llama_server.cache_type_k",),
    "cache_type_v": ("backend.llama_server.cache_type_v",),
    "extra_flags": ("backend.llama_server.extra",),
    "host": ("server.host",),
    "port": ("server.port",),
}
"""The settings that each argument is."""
_OF_OUR_SERVER = ("ctx_override", "n_slots", "cache_type_k", "cache_type_v", "extra_flags")
_AS_SETTING: Mapping[str, Callable[[Any], object]] = {
    "think": lambda on: "on" if on else "off",
    "recommended_sampling": lambda on: "on" if on else "off",
    "extra_flags": list,
}


class ProxyOptions(BackendOptions, total=False):
    """The backend's, and where to listen."""

    host: str
    port: int
    """0 takes a free one."""


def settings_of(options: Mapping[str, Any], under: Settings | None, known: type[BackendOptions]) -> Settings:
    """The settings that arguments say, over those `under` them; the environment is not read.

    Raises `TypeError` for an argument that there is not, `SettingsError` for a value.
    """
    values: dict[str, Any] = under.model_dump(by_alias=True, exclude_unset=True) if under else {}
    for name, value in options.items():
        if name not in known.__annotations__:
            raise TypeError(f"no argument {name!r}; available: {', '.join(known.__annotations__)}")
        if value is not None:
            for place in _PLACES[name]:
                _put(values, place.split("."), _AS_SETTING.get(name, lambda same: same)(value))
    try:
        return given(values)
    except SettingsError as error:
        raise SettingsError("\n".join(map(_by_argument, str(error).splitlines()))) from error


def refuse_unheard(options: Mapping[str, Any], choice: SelectedBackend) -> None:
    """Raise `BackendChoiceError` for an argument that means nothing to the backend that was chosen."""
    for name in _OF_OUR_SERVER:
        if choice.launch is None and options.get(name) is not None:
            raise BackendChoiceError(
                f"{name} is for a llama.cpp server that is started here, and the {choice.kind} at {choice.shown_url} "
                "is not"
            )
    if choice.launch is None and choice.kind != "llama-server" and options.get("slot_id") is not None:
        raise BackendChoiceError(f"slot_id is for a llama.cpp server; {choice.kind} has no slots that can be chosen")
    if choice.launch is not None and options.get("api_key") is not None:
        raise BackendChoiceError("api_key is for a server that runs already; one that is started here has a new one")
    if choice.kind in ("openai", "anthropic") and options.get("think") is not None:
        raise BackendChoiceError(
            f"think is for llama.cpp and Ollama; what {choice.kind} has for it goes into each request, as "
            '{"reasoning_effort": "low"}'
        )


def _put(values: dict[str, Any], path: Sequence[str], value: object) -> None:
    *sections, last = path
    for section in sections:
        values = values.setdefault(section, {})
    values[last] = value


def _by_argument(line: str) -> str:
    """What is wrong with a setting, told of the argument that it came from."""
    place, _, fault = line.partition(": ")
    name = next((name for name, places in _PLACES.items() if place in places), place)
    return f"{name}: {fault}"
