"""Reads the configuration that a client has now: the API, address, key and model that it would use. Pure.

For `connect --check`. Each function follows the same path through the files as the client does, so that a file which
was edited or overwritten since is seen as the client sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from forge_proxy.core.errors import ForgeError

Api = Literal["chat_completions", "responses", "messages", "ollama"]
_API_OF_PATH: Mapping[str, Api] = {
    "/chat/completions": "chat_completions",
    "/responses": "responses",
    "/messages": "messages",
    "/api/chat": "ollama",
}


class IncompleteConfig(ForgeError):
    """The configuration of a client does not lead to a model server; the message states what is missing."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a client sends its requests. `url` is complete; `key` is None if it sends none.

    `model` is empty if the user chooses it in the client.
    """

    api: Api
    url: str
    key: str | None
    model: str


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The values of a file, with the path for messages."""

    path: str
    values: Any

    def find(self, *keys: str) -> Any:
        """Return the value below the keys, or None."""
        value = self.values
        for key in keys:
            value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
        return value

    def require(self, *keys: str) -> str:
        """Return the non-empty string below the keys. Raises `IncompleteConfig`."""
        value = self.find(*keys)
        if not isinstance(value, str) or not value:
            raise IncompleteConfig(f"{self.path}: {'.'.join(keys)} is missing")
        return value

    def entry(self, name: str, *keys: str) -> ClientFile:
        """Return the object with this name in the list below the keys. Raises `IncompleteConfig`."""
        entries = self.find(*keys)
        for one in cast("list[Any]", entries) if isinstance(entries, list) else ():
            if isinstance(one, dict) and one.get("name") == name:  # pyright: ignore[reportUnknownMemberType]
                return ClientFile(self.path, one)
        raise IncompleteConfig(f"{self.path}: there is no entry named {name}")


Environment: TypeAlias = Mapping[str, str]
Read: TypeAlias = Callable[[Sequence[ClientFile], Environment], Endpoint]


def _opencode(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    provider, _, model = files[0].require("model").partition("/")
    options = ("provider", provider, "options")
    return _chat(files[0].require(*options, "baseURL"), files[0].find(*options, "apiKey"), model)


def _codex(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    provider = ("model_providers", files[0].require("model_provider"))
    variable = files[0].find(*provider, "env_key")
    printed = cast("list[Any]", files[0].find(*provider, "auth", "args") or [])  # the arguments of `echo`
    key = _variable(env, variable) if variable else next(map(str, printed), None)
    base = files[0].require(*provider, "base_url")
    return Endpoint("responses", f"{base.rstrip('/')}/responses", key, files[0].require("model"))


def _claude(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    base = files[0].require("env", "ANTHROPIC_BASE_URL").rstrip("/")
    key = files[0].find("env", "ANTHROPIC_AUTH_TOKEN") or files[0].find("env", "ANTHROPIC_API_KEY")
    return Endpoint("messages", f"{base}/v1/messages", key, files[0].require("env", "ANTHROPIC_MODEL"))


def _aider(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    model = files[0].require("model").removeprefix("openai/")
    return _chat(files[0].require("openai-api-base"), files[0].find("openai-api-key"), model)


def _continue(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    entry = files[0].entry("forge-proxy", "models")
    return _chat(entry.require("apiBase"), entry.find("apiKey"), entry.require("model"))


def _cline(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    settings = ("providers", files[0].require("lastUsedProvider"), "settings")
    model = files[0].require(*settings, "model")
    return _chat(files[0].require(*settings, "baseUrl"), files[0].find(*settings, "apiKey"), model)


def _goose(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    provider, config = files
    if (chosen := config.require("GOOSE_PROVIDER")) != provider.require("name"):
        raise IncompleteConfig(f"{config.path}: GOOSE_PROVIDER is {chosen}, so goose does not use {provider.path}")
    needs_key = provider.find("requires_auth") is not False
    key = _variable(env, provider.require("api_key_env")) if needs_key else None
    url, model = provider.require("base_url"), config.require("GOOSE_MODEL")
    if provider.find("engine") == "ollama":
        return Endpoint("ollama", f"{url.rstrip('/')}/api/chat", key, model)
    return _complete(url, key, model)


def _zed(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    chosen = files[0].require("agent", "default_model", "provider")
    base = files[0].require("language_models", "openai_compatible", chosen, "api_url")
    model = files[0].require("agent", "default_model", "model")
    return _chat(base, _variable(env, f"{chosen.upper()}_API_KEY"), model)


def _vscode(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    entry = files[0].entry("forge-proxy")
    models = entry.find("models")
    if not isinstance(models, list) or not models:
        raise IncompleteConfig(f"{files[0].path}: models is missing")
    first = ClientFile(files[0].path, models[0])
    return _complete(first.require("url"), entry.find("apiKey"), first.require("id"))


def _roo(files: Sequence[ClientFile], env: Environment) -> Endpoint:
    imported, editor = files
    if not editor.find("roo-cline.autoImportSettingsPath"):
        raise IncompleteConfig(f"{editor.path}: roo-cline.autoImportSettingsPath is missing")
    profile = ("providerProfiles", "apiConfigs", imported.require("providerProfiles", "currentApiConfigName"))
    key, model = imported.find(*profile, "openAiApiKey"), imported.require(*profile, "openAiModelId")
    return _chat(imported.require(*profile, "openAiBaseUrl"), key, model)


def _from_variables(base: str, key: str, model: str | None) -> Read:
    def read(files: Sequence[ClientFile], env: Environment) -> Endpoint:
        url = _variable(env, base)
        name = _variable(env, model).removeprefix("openai/") if model else ""
        return _chat(url, env.get(key), name)

    return read


READERS: Mapping[str, Read] = {
    "opencode": _opencode,
    "codex": _codex,
    "claude": _claude,
    "aider": _aider,
    "continue": _continue,
    "cline": _cline,
    "goose": _goose,
    "openhands": _from_variables("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL"),
    "zed": _zed,
    "vscode": _vscode,
    "roo": _roo,
    "open-webui": _from_variables("OPENAI_API_BASE_URL", "OPENAI_API_KEY", None),
    "openai": _from_variables("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"),
    "env": _from_variables("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"),
}
"""By client; one whose settings no other program can read is missing."""


def _chat(base: str, key: Any, model: str) -> Endpoint:
    return Endpoint("chat_completions", f"{base.rstrip('/')}/chat/completions", str(key) if key else None, model)


def _complete(url: str, key: Any, model: str) -> Endpoint:
    """An endpoint whose URL ends with the route. Raises `IncompleteConfig`."""
    path = urlsplit(url).path.rstrip("/")
    api: Api | None = next((api for end, api in _API_OF_PATH.items() if path.endswith(end)), None)
    if api is None:
        raise IncompleteConfig(f"{url} is not the URL of chat completions, responses or messages")
    return Endpoint(api, url, str(key) if key else None, model)


def _variable(env: Environment, name: str) -> str:
    value = env.get(name)
    if not value:
        raise IncompleteConfig(f"the environment variable {name} is not set, from which the client reads it")
    return value
