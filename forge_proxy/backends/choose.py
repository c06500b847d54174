"""Which backend is used, and why: the one that is named, else one that is running, else the embedded test model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forge_proxy.backends.config import BackendChoiceError, BackendConfig, Kind
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.embedded import TINY_MODEL
from forge_proxy.backends.probe import LLAMA_SERVER, OLLAMA, find_server, identify

_URLS: dict[Kind, str] = {
    "llama-server": LLAMA_SERVER,
    "ollama": OLLAMA,
    "anthropic": "https://api.anthropic.com",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend to use: a server at `url`, or the embedded llama.cpp with `gguf`. `because` is for the user."""

    kind: Kind
    because: str
    url: str | None = None
    gguf: Path | None = None


async def choose(config: BackendConfig, http: HttpClient) -> Choice:
    """The backend that the settings mean. Raises `BackendChoiceError`."""
    refuse_contradictions(config)
    if config.url is not None:
        return await _at_url(config, config.url, http)
    if config.gguf is not None:
        return Choice("embedded", "a model file is named", gguf=config.gguf)
    if config.kind == "embedded":
        return Choice("embedded", "it is asked for; no model file is named, so it runs the test model", gguf=TINY_MODEL)
    if config.kind is not None:
        return Choice(config.kind, "it is asked for, at its usual address", url=_URLS[config.kind])
    if config.model is not None:
        return Choice("ollama", f"a model is named ({config.model}) and no server or file", url=OLLAMA)
    found = await find_server(http)
    if found and found.kind in ("llama-server", "ollama"):
        return Choice(found.kind, "nothing is named, and it is running", url=found.url)
    return Choice("embedded", "nothing is named and no server is running, so it is the test model", gguf=TINY_MODEL)


async def _at_url(config: BackendConfig, url: str, http: HttpClient) -> Choice:
    if config.kind is not None:
        return Choice(config.kind, "its URL is named", url=url)
    kind = await identify(url, http)
    if kind == "forge-proxy":
        raise BackendChoiceError(f"backend.url {url} is a forge-proxy itself; name the model server behind it")
    if kind is None:
        return Choice(
            "openai",
            "its URL is named; it does not answer yet, so any OpenAI-compatible server is assumed",
            url=url,
        )
    return Choice(kind, f"its URL is named and {kind} answers there", url=url)


def refuse_contradictions(config: BackendConfig) -> None:
    """Raise `BackendChoiceError` where the settings exclude each other or lack something."""
    kind = config.kind
    if config.gguf is not None and config.url is not None:
        raise BackendChoiceError(
            "backend.gguf and backend.url exclude each other: a running server has its model already"
        )
    if kind == "embedded" and config.url is not None:
        raise BackendChoiceError("backend.url names a running server; leave it out for the embedded backend")
    if config.gguf is not None and kind not in (None, "embedded"):
        raise BackendChoiceError(f"backend.gguf is for the embedded backend; {kind} is started with its own model")
    if kind == "openai" and config.url is None:
        raise BackendChoiceError("the openai backend needs --backend-url: it may be any server")
    if kind == "anthropic" and config.api_key is None:
        raise BackendChoiceError("the anthropic backend needs backend.api_key (FORGE_PROXY_BACKEND__API_KEY)")
    if kind == "anthropic" and config.tools == "prompt":
        raise BackendChoiceError("backend.tools: prompt is for models without tools of their own; leave it out")
    if config.gguf is not None and not config.gguf.is_file():
        raise BackendChoiceError(f"no model file at {config.gguf}")
