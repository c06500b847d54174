"""Converts the keyword arguments of the Python API to settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from forge_proxy.backends.config import BackendChoiceError, Kind
from forge_proxy.backends.llama_server.launch import CacheType
from forge_proxy.backends.selection import SelectedBackend
from forge_proxy.core.budget import BudgetMode
from forge_proxy.core.dialect import ToolMode
from forge_proxy.settings import Settings, SettingsError, build_settings


class BackendOptions(TypedDict, total=False):
    """The model server and how it is used. Omitted options keep the value of the settings or their default."""

    backend: Kind
    """Its kind; detected from the model, file or URL if omitted."""
    model: str
    """The model's name; on its own, a model of the local Ollama."""
    gguf_path: str | PathLike[str]
    """A model file for a managed llama.cpp server."""
    url: str
    """Base URL of a running server."""
    api_key: str
    """The server's API key."""
    mode: ToolMode
    """How tools are presented to the model."""
    think: bool
    """Whether the model produces reasoning. For llama.cpp and Ollama."""
    recommended_sampling: bool
    """Whether to use the sampling parameters that the model's publisher recommends."""
    budget_mode: BudgetMode
    manual_tokens: int
    """With `BudgetMode.MANUAL`: the tokens of prompt and response together."""
    slot_id: int
    """The llama-server slot that all requests use."""
    ctx_override: int
    """Context tokens per slot. This option and the following ones are for a managed server."""
    n_slots: int
    cache_type_k: CacheType
    cache_type_v: CacheType
    extra_flags: Sequence[str]
    """Additional command-line flags, one item per argument."""


_SETTINGS: Mapping[str, tuple[str, ...]] = {
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
"""The settings that each argument sets."""
_MANAGED_ONLY = ("ctx_override", "n_slots", "cache_type_k", "cache_type_v", "extra_flags")
_CONVERTERS: Mapping[str, Callable[[Any], object]] = {
    "think": lambda on: "on" if on else "off",
    "recommended_sampling": lambda on: "on" if on else "off",
    "extra_flags": list,
}


class ProxyOptions(BackendOptions, total=False):
    """Backend options, and the address to listen on."""

    host: str
    port: int
    """0 selects a free port."""


def apply_options(options: Mapping[str, Any], under: Settings | None, known: type[BackendOptions]) -> Settings:
    """Return the settings `under`, overridden by the arguments. The environment is not read.

    Raises `TypeError` for an unknown argument and `SettingsError` for an invalid value.
    """
    values: dict[str, Any] = under.model_dump(by_alias=True, exclude_unset=True) if under else {}
    for name, value in options.items():
        if name not in known.__annotations__:
            raise TypeError(f"no argument {name!r}; available: {', '.join(known.__annotations__)}")
        if value is not None:
            for path in _SETTINGS[name]:
                _put(values, path.split("."), _CONVERTERS.get(name, lambda same: same)(value))
    try:
        return build_settings(values)
    except SettingsError as error:
        raise SettingsError("\n".join(map(_by_argument, str(error).splitlines()))) from error


def refuse_unsupported(options: Mapping[str, Any], choice: SelectedBackend) -> None:
    """Raise `BackendChoiceError` for an argument that the selected backend does not support."""
    for name in _MANAGED_ONLY:
        if choice.launch is None and options.get(name) is not None:
            raise BackendChoiceError(
                f"{name} is for a llama.cpp server that forge-proxy starts; the {choice.kind} at {choice.public_url} "
                "is already running"
            )
    if choice.launch is None and choice.kind != "llama-server" and options.get("slot_id") is not None:
        raise BackendChoiceError(f"slot_id is for a llama.cpp server; {choice.kind} has no selectable slots")
    if choice.launch is not None and options.get("api_key") is not None:
        raise BackendChoiceError(
            "api_key is for a running server; a server that forge-proxy starts gets a generated key"
        )
    if choice.kind in ("openai", "anthropic") and options.get("think") is not None:
        raise BackendChoiceError(
            f"think is for llama.cpp and Ollama; for {choice.kind}, set reasoning options in each request, such as "
            '{"reasoning_effort": "low"}'
        )


def _put(values: dict[str, Any], path: Sequence[str], value: object) -> None:
    *sections, last = path
    for section in sections:
        values = values.setdefault(section, {})
    values[last] = value


def _by_argument(line: str) -> str:
    """Replace the setting's name in an error message by the name of the argument that set it."""
    setting, _, fault = line.partition(": ")
    name = next((name for name, paths in _SETTINGS.items() if setting in paths), setting)
    return f"{name}: {fault}"
