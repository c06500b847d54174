"""The `backend` section of the configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from forge_proxy.backends.llama_server.launch import CacheType, reject_managed_flags
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
    except ValueError:  # the port is not a number or is out of range
        usable = False
    if not usable:
        raise ValueError("expected a URL such as http://127.0.0.1:8080")
    return url.rstrip("/").removesuffix("/chat/completions")  # users paste the full route


def _read_auto(value: object) -> object:
    return None if value == "auto" else value


def _read_off(value: object) -> object:
    return "off" if value is False else value  # YAML reads a bare `off` as false


_Slots: TypeAlias = Annotated[int, Field(ge=1)] | Literal["auto"] | None
"""The accepted values of `backend.slots`, for the JSON schema."""
Kind = Literal["embedded", "openai", "llama-server", "llamafile", "ollama", "anthropic"]


_INSTEAD: dict[str, Kind] = {
    **dict.fromkeys(("vllm", "sglang", "lmstudio", "lm-studio", "litellm", "localai", "tgi", "openrouter"), "openai"),
    **dict.fromkeys(("llama.cpp", "llamacpp", "llama-cpp", "llama_server"), "llama-server"),
    "claude": "anthropic",
}


def hint_kind(name: str) -> str:
    """Return a hint for a server name that is not a backend kind; empty if the name is unknown."""
    instead = _INSTEAD.get(name.lower())
    at_url = " with --backend-url" if instead == "openai" else ""
    return f"{name} is not a kind of backend; use {instead}{at_url}" if instead else ""


def _check_kind(kind: object) -> object:
    if isinstance(kind, str) and (hint := hint_kind(kind)):
        raise ValueError(hint)
    return kind


def _check_extra(extra: list[str]) -> list[str]:
    reject_managed_flags(extra)
    return extra


class LlamaServerConfig(BaseModel):
    """The managed llama.cpp server: llama-server, a llamafile, or the embedded one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    binary: Path | None = Field(
        default=None, description="The llama-server or llamafile to start. Default: searched for."
    )
    context: int | None = Field(
        default=None,
        ge=256,
        description="Context window of each slot, in tokens. Default: llama.cpp's choice: the trained length, as far as"
        " memory allows.",
    )
    slots: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Number of requests processed in parallel. Default: the server's own; embedded 2.",
    )
    gpu_layers: int | None = Field(
        default=None, ge=-1, description="Layers on the GPU. Default: as many as fit. The embedded wheel is CPU only."
    )
    threads: int | None = Field(default=None, ge=1, description="CPU threads. Default: llama.cpp's choice.")
    cache_type_k: CacheType | None = Field(
        default=None, description="Data type of the keys in the KV cache. Default: f16."
    )
    cache_type_v: CacheType | None = Field(
        default=None, description="Data type of the values in the KV cache. Default: f16."
    )
    swap_after_seconds: float = Field(
        default=30,
        gt=0,
        description="With several models: how long requests for another wait before the loaded model accepts no more.",
    )
    port: int = Field(default=0, ge=0, le=65535, description="The port the server listens on; 0 picks a free port.")
    extra: Annotated[list[str], AfterValidator(_check_extra)] = Field(
        default_factory=list,
        description="More command-line flags, one list item per word. Flags that the daemon sets itself are rejected.",
    )
    load_silence_seconds: float = Field(
        default=300,
        gt=0,
        description="Loading fails after so long without a log line, a byte read or memory allocated. No other limit.",
    )
    wait_seconds: float = Field(
        default=900, gt=0, description="How long a request waits for the server to be ready before it gets a 503."
    )
    drain_seconds: float = Field(
        default=60,
        ge=0,
        description="How long running requests may take to finish when the server is restarted or replaced.",
    )
    stop_seconds: float = Field(
        default=10, ge=0, description="How long the server may take to exit before it is killed."
    )
    idle_unload_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Stop the server after this long without a request; the next request starts it. Default: never.",
    )


def _read_switch(value: object) -> object:
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value  # YAML's on and off


def _check_duration(value: str | int) -> str | int:
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):  # from the environment
        return int(value)
    if isinstance(value, str) and not re.fullmatch(r"-?(?:\d+(?:\.\d+)?(?:ms|s|m|h))+", value):
        raise ValueError("expected a duration such as 30m, or a number of seconds; -1 to keep the model loaded")
    return value


class OllamaConfig(BaseModel):
    """Options sent to Ollama with each request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_ctx: int | None = Field(
        default=None, ge=256, description="Context window in tokens. Default: the model's own, or Ollama's."
    )
    keep_alive: Annotated[str | int, AfterValidator(_check_duration)] | None = Field(
        default=None, description="How long a model stays loaded after a response. Default: Ollama's, 5 minutes."
    )
    think: Annotated[
        Literal["auto", "on", "off", "low", "medium", "high"],
        BeforeValidator(
            _read_switch, json_schema_input_type=Literal["auto", "on", "off", "low", "medium", "high", True, False]
        ),
    ] = Field(
        default="auto",
        description="Whether models reason if the request does not specify it; auto: if the model supports it.",
    )


class LlamaCppConfig(BaseModel):
    """Options sent to llama-server, managed or not, with each request that does not set them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    think: Annotated[
        Literal["auto", "on", "off"],
        BeforeValidator(_read_switch, json_schema_input_type=Literal["auto", "on", "off", True, False]),
    ] = Field(default="auto", description="Whether models reason: auto (the chat template's default), on or off.")
    cache_prompt: bool | None = Field(
        default=None, description="Whether the server reuses the KV cache of the common prompt prefix. Default: yes."
    )
    slot_id: int | None = Field(
        default=None,
        ge=0,
        description="The slot that processes all requests, one at a time: for several daemons that share one server.",
    )

    @property
    def fields(self) -> dict[str, Json]:
        """The request fields for these options."""
        options: dict[str, Json] = {"cache_prompt": self.cache_prompt, "id_slot": self.slot_id}
        return {name: value for name, value in options.items() if value is not None}

    @property
    def thinks(self) -> bool | None:
        """Whether models are asked to reason; None if the chat template decides."""
        return {"on": True, "off": False}.get(self.think)


class BackendConfig(BaseModel):
    """The model server. If none is configured, the daemon looks for a running one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Annotated[Kind | None, BeforeValidator(_check_kind)] = Field(
        default=None, description="The kind of server; detected if url, gguf or model is set without it."
    )
    url: Annotated[str, AfterValidator(_check_url)] | None = Field(
        default=None, description="Base URL of a running server, with or without /v1."
    )
    gguf: Path | None = Field(default=None, description="A model file, for a managed llama.cpp server.")
    model: str | None = Field(
        default=None, min_length=1, description="The model to use if a request names one that the server does not know."
    )
    chat_template: Path | None = Field(
        default=None,
        description="A file with the model's chat template, for servers that do not report it: a Jinja template,"
        " `tokenizer_config.json` or a GGUF file. The form of the model's tool calls is learned from it.",
    )
    api_key: SecretStr | None = Field(
        default=None, description="The model server's API key. Never logged; never taken from clients."
    )
    connect_seconds: float = Field(default=5, gt=0, description="Timeout for connecting.")
    silence_seconds: float = Field(
        default=1800,
        gt=0,
        description="How long the server may send nothing. Processing a long prompt takes minutes on slow hardware.",
    )
    max_response_mb: float = Field(
        default=64,
        gt=0,
        description="Megabytes of one response that may be buffered for parsing or assembly; more is a 502. Data that"
        " is only passed on has no limit.",
    )
    slots: Annotated[
        int | None,
        BeforeValidator(_read_auto, json_schema_input_type=_Slots),
    ] = Field(
        default=None,
        ge=1,
        description="Number of requests sent to the server in parallel; further requests queue in the daemon. auto: the"
        " slots that the server reports (llama-server's --parallel), or no limit if it reports none.",
    )
    queue_limit: int = Field(
        default=QUEUE_LIMIT,
        ge=0,
        description="Length of the request queue; as many again for clients without a queued request. More is a 429.",
    )
    reasoning: Reasoning = Field(
        default="as-sent",
        description="Reasoning in the client's message history to forward: as-sent, none, keep-last (since the last"
        " user message), or all. It is forwarded as reasoning_content and as reasoning.",
    )
    self_test: Annotated[
        Literal["off", "on-load"],
        BeforeValidator(_read_off, json_schema_input_type=Literal["off", "on-load", False]),
    ] = Field(
        default="off",
        description="Whether the daemon tests the model with a few short requests once it is loaded, to find out how to"
        " present tools and what else works. 'forge-proxy check --self-test' runs them at any time.",
    )
    tools: ToolMode = Field(
        default="auto",
        description="How tools are presented to the model: native (in the request), prompt (as text, for chat templates"
        " without tools), or auto: native unless the server or a self-test reports that they are unsupported.",
    )
    llama_server: LlamaServerConfig = Field(default_factory=LlamaServerConfig)
    llama_cpp: LlamaCppConfig = Field(default_factory=LlamaCppConfig)
    ollama: OllamaConfig = Field(default_factory=OllamaConfig)

    @property
    def max_response(self) -> int:
        """`max_response_mb` in bytes."""
        return int(self.max_response_mb * 1024 * 1024)
