"""The `backend` section of the configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from forge_proxy.backends.llama_server.launch import CacheType, refuse_our_flags
from forge_proxy.core.dialect import Reasoning, ToolMode
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.admission import QUEUE_LIMIT


class BackendChoiceError(ForgeError):
    """The settings contradict each other, or name a backend that cannot be used."""


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or too large a one
        usable = False
    if not usable:
        raise ValueError("expected a URL such as http://127.0.0.1:8080")
    return url.rstrip("/").removesuffix("/chat/completions")  # what people paste


def _read_auto(value: object) -> object:
    return None if value == "auto" else value


def _read_off(value: object) -> object:
    return "off" if value is False else value  # which is how YAML reads the word


_Slots: TypeAlias = Annotated[int, Field(ge=1)] | Literal["auto"] | None
"""How the setting may be written."""
Kind = Literal["embedded", "openai", "llama-server", "llamafile", "ollama", "anthropic"]


_INSTEAD: dict[str, Kind] = {
    **dict.fromkeys(("vllm", "sglang", "lmstudio", "lm-studio", "litellm", "localai", "tgi", "openrouter"), "openai"),
    **dict.fromkeys(("llama.cpp", "llamacpp", "llama-cpp", "llama_server"), "llama-server"),
    "claude": "anthropic",
}


def hint_kind(name: str) -> str:
    """What to write for a server that is no kind of its own; empty if it is not known."""
    instead = _INSTEAD.get(name.lower())
    at_url = " with --backend-url" if instead == "openai" else ""
    return f"{name} is not a kind of backend; use {instead}{at_url}" if instead else ""


def _check_kind(kind: object) -> object:
    if isinstance(kind, str) and (hint := hint_kind(kind)):
        raise ValueError(hint)
    return kind


def _check_extra(extra: list[str]) -> list[str]:
    refuse_our_flags(extra)
    return extra


class LlamaServerConfig(BaseModel):
    """How a llama.cpp server of ours runs: llama-server, a llamafile, or the embedded one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    binary: Path | None = Field(
        default=None, description="The llama-server or llamafile to start. Default: what is found."
    )
    context: int | None = Field(
        default=None,
        ge=256,
        description="Tokens for each slot. Default: llama.cpp's choice, what the model was trained with as memory"
        " allows.",
    )
    slots: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="How many requests it works on at a time. Default: its own; embedded 2.",
    )
    gpu_layers: int | None = Field(
        default=None, ge=-1, description="Layers on the GPU. Default: as many as fit. The embedded wheel is CPU only."
    )
    threads: int | None = Field(default=None, ge=1, description="CPU threads. Default: llama.cpp's choice.")
    cache_type_k: CacheType | None = Field(default=None, description="How the KV cache keeps its keys. Default: f16.")
    cache_type_v: CacheType | None = Field(default=None, description="How the KV cache keeps its values. Default: f16.")
    swap_after_seconds: float = Field(
        default=30,
        gt=0,
        description="With several models: how long requests for others wait before the loaded one takes no more.",
    )
    port: int = Field(default=0, ge=0, le=65535, description="The port it listens on; 0 takes a free one.")
    extra: Annotated[list[str], AfterValidator(_check_extra)] = Field(
        default_factory=list, description="More flags for it, each word an item. Those that are set here are refused."
    )
    load_silence_seconds: float = Field(
        default=300,
        gt=0,
        description="How long loading may go without a line, a byte read or memory taken. It may take any time else.",
    )
    wait_seconds: float = Field(
        default=900, gt=0, description="How long a request waits for it to be ready. Then it is a 503."
    )
    drain_seconds: float = Field(
        default=60, ge=0, description="How long answers may still take when it is restarted or exchanged."
    )
    stop_seconds: float = Field(default=10, ge=0, description="How long it has to end by itself. Then it is killed.")
    idle_unload_seconds: float | None = Field(
        default=None,
        gt=0,
        description="After how long without a request it is ended, until the next one. Default: never.",
    )


def _read_switch(value: object) -> object:
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value  # YAML's on and off


def _check_duration(value: str | int) -> str | int:
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):  # from the environment
        return int(value)
    if isinstance(value, str) and not re.fullmatch(r"-?(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", value):
        raise ValueError("expected a duration such as 30m, or a number of seconds; -1 for as long as it runs")
    return value


class OllamaConfig(BaseModel):
    """What an Ollama is told with each request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_ctx: int | None = Field(
        default=None, ge=256, description="Tokens of the window. Default: the model's own, or Ollama's."
    )
    keep_alive: Annotated[str | int, AfterValidator(_check_duration)] | None = Field(
        default=None, description="How long a model stays loaded after an answer. Default: Ollama's, 5 minutes."
    )
    think: Annotated[
        Literal["auto", "on", "off", "low", "medium", "high"],
        BeforeValidator(
            _read_switch, json_schema_input_type=Literal["auto", "on", "off", "low", "medium", "high", True, False]
        ),
    ] = Field(
        default="auto", description="Whether models think where a request does not say: auto where the model can."
    )


class LlamaCppConfig(BaseModel):
    """What a llama-server is told with each request, ours or not, where the caller does not say it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    think: Annotated[
        Literal["auto", "on", "off"],
        BeforeValidator(_read_switch, json_schema_input_type=Literal["auto", "on", "off", True, False]),
    ] = Field(default="auto", description="Whether models think: as their chat template has it, or on, or off.")
    cache_prompt: bool | None = Field(
        default=None, description="Whether what a prompt has in common with the one before is kept. Default: it is."
    )
    slot_id: int | None = Field(
        default=None,
        ge=0,
        description="The slot that takes all requests, one at a time: for several daemons before one server.",
    )

    @property
    def fields(self) -> dict[str, Json]:
        """The fields that say so."""
        told: dict[str, Json] = {"cache_prompt": self.cache_prompt, "id_slot": self.slot_id}
        return {name: value for name, value in told.items() if value is not None}

    @property
    def thinks(self) -> bool | None:
        """Whether models are told to think; None leaves it to them."""
        return {"on": True, "off": False}.get(self.think)


class BackendConfig(BaseModel):
    """Which model server answers. With nothing named, one that is already running is looked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Annotated[Kind | None, BeforeValidator(_check_kind)] = Field(
        default=None, description="Its kind; found out when a url, gguf or model is named without it."
    )
    url: Annotated[str, AfterValidator(_check_url)] | None = Field(
        default=None, description="Base URL of a running server, with or without /v1."
    )
    gguf: Path | None = Field(default=None, description="A model file, for a llama.cpp server of ours.")
    model: str | None = Field(
        default=None, min_length=1, description="The model that stands in for names the server does not know."
    )
    api_key: SecretStr | None = Field(
        default=None, description="The server's own key. Never shown, never the caller's."
    )
    connect_seconds: float = Field(default=5, gt=0, description="How long connecting may take.")
    silence_seconds: float = Field(
        default=1800,
        gt=0,
        description="How long a server may send nothing. Reading a long prompt takes minutes on slow hardware.",
    )
    max_response_mb: float = Field(
        default=64,
        gt=0,
        description="How much of one response may be held, to read it or put it together; more is a 502. What is only"
        " passed on is not bounded.",
    )
    slots: Annotated[
        int | None,
        BeforeValidator(_read_auto, json_schema_input_type=_Slots),
    ] = Field(
        default=None,
        ge=1,
        description="How many requests it is asked at a time, the others wait here; auto: as many slots as it tells "
        "(llama-server's --parallel), and without bounds where it tells none.",
    )
    queue_limit: int = Field(
        default=QUEUE_LIMIT,
        ge=0,
        description="How many requests may wait, as many again of clients of whom none waits yet. More are a 429.",
    )
    reasoning: Reasoning = Field(
        default="as-sent",
        description="Thoughts in the history that a caller sends: left as-sent, none, keep-last (since the last user"
        " message), or all. Those kept are sent as reasoning_content and as reasoning.",
    )
    self_test: Annotated[
        Literal["off", "on-load"],
        BeforeValidator(_read_off, json_schema_input_type=Literal["off", "on-load", False]),
    ] = Field(
        default="off",
        description="Whether the model is asked a few short questions once it is loaded: how it is best told of tools,"
        " and what else works. 'forge-proxy check --self-test' asks them at any time.",
    )
    tools: ToolMode = Field(
        default="auto",
        description="How the model is told of tools: native (in the request), prompt (as text, for chat templates"
        " without tools), or auto: native until the server or a self-test says that it knows none.",
    )
    llama_server: LlamaServerConfig = Field(default_factory=LlamaServerConfig)
    llama_cpp: LlamaCppConfig = Field(default_factory=LlamaCppConfig)
    ollama: OllamaConfig = Field(default_factory=OllamaConfig)

    @property
    def max_response(self) -> int:
        """`max_response_mb` in bytes."""
        return int(self.max_response_mb * 1024 * 1024)
