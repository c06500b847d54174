"""The configuration of each client, as values. Pure; `write.py` finds the files and merges the values.

The fields are documented by the clients. `tests/harness` runs opencode and aider with such fields; the windows and the
files of the other clients have not been tried in the clients themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

JsonDict = dict[str, Any]
_OUTPUT = 8192
"""Maximum tokens of a response, if the window is at least four times as large."""
CHAT_COMPLETIONS = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model of the daemon. `window` is None if it is not known."""

    name: str
    window: int | None

    @property
    def output(self) -> int:
        """The maximum number of tokens of a response."""
        return min(_OUTPUT, self.window // 4) if self.window else _OUTPUT


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """The daemon from a client's view. `root` is its URL without `/v1`; `window` is None if it is not known.

    `others` are the other models that it serves.
    """

    root: str
    key: str
    model: str
    window: int | None
    others: tuple[ServedModel, ...] = ()

    @property
    def base(self) -> str:
        """The base URL of OpenAI clients."""
        return f"{self.root}/v1"

    @property
    def output(self) -> int:
        """The maximum number of tokens of a response."""
        return self.models[0].output

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """All models, the chosen one first."""
        return (ServedModel(self.model, self.window), *self.others)


@dataclass(frozen=True, slots=True)
class ClientConfigFile:
    """A file of the client. `values` are merged into it; in a list the entry of the same name is replaced.

    `other_paths` are alternative paths from which the client reads the file.
    """

    path: str
    format: Literal["json", "yaml", "toml"]
    values: JsonDict
    other_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """The complete configuration of a client. `route` is the route of its requests."""

    files: tuple[ClientConfigFile, ...] = ()
    variables: dict[str, str] = field(default_factory=dict[str, str])
    run: str = ""
    route: str = CHAT_COMPLETIONS


def opencode(to: DaemonAddress) -> ClientSetup:
    """Configure opencode, which uses chat completions."""
    models = {
        one.name: {
            "name": one.name, **({"limit": {"context": one.window, "output": one.output}} if one.window else {}),
        }
        for one in to.models
    }  # fmt: skip
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "forge-proxy",
        "options": {"baseURL": to.base, "apiKey": to.key},
        "models": models,
    }
    values = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"forge/{to.model}",
        "provider": {"forge": provider},
    }
    folder = "~/.config/opencode"
    file = ClientConfigFile(f"{folder}/opencode.json", "json", values, (f"{folder}/opencode.jsonc",))
    return ClientSetup((file,), run="opencode")


def codex(to: DaemonAddress) -> ClientSetup:
    """Configure Codex, which uses responses."""
    window = {"model_context_window": to.window} if to.window else {}
    provider = {"name": "forge-proxy", "base_url": to.base, "env_key": "FORGE_API_KEY", "wire_api": "responses"}
    values = {"model": to.model, "model_provider": "forge", **window, "model_providers": {"forge": provider}}
    return ClientSetup(
        (ClientConfigFile("~/.codex/config.toml", "toml", values),),
        {"FORGE_API_KEY": to.key},
        "codex",
        "/v1/responses",
    )


def claude(to: DaemonAddress) -> ClientSetup:
    """Configure Claude Code, which uses messages."""
    names = ("OPUS", "SONNET", "HAIKU")
    window = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(to.window)} if to.window else {}
    variables = {
        "ANTHROPIC_BASE_URL": to.root,
        "ANTHROPIC_AUTH_TOKEN": to.key,
        "ANTHROPIC_API_KEY": "",
        **{f"ANTHROPIC_DEFAULT_{name}_MODEL": to.model for name in names},
        "CLAUDE_CODE_SUBAGENT_MODEL": to.model,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "off",
        **window,
    }
    file = ClientConfigFile("~/.claude/settings.json", "json", {"env": variables})
    return ClientSetup((file,), run=f"claude --model {to.model}", route="/v1/messages")


def aider(to: DaemonAddress) -> ClientSetup:
    """Configure aider, which uses chat completions without tools."""
    name = f"openai/{to.model}"
    values = {"model": name, "openai-api-base": to.base, "openai-api-key": to.key}
    files = [ClientConfigFile("~/.aider.conf.yml", "yaml", values)]
    if to.window:
        known = {"max_input_tokens": to.window, "max_output_tokens": to.output, "max_tokens": to.output}
        entry = {**known, "litellm_provider": "openai", "mode": "chat"}
        files.append(ClientConfigFile("~/.aider.model.metadata.json", "json", {name: entry}))
    return ClientSetup(tuple(files), run="aider")


def continue_(to: DaemonAddress) -> ClientSetup:
    """Configure Continue, which uses chat completions."""
    options = {"contextLength": to.window, "maxTokens": to.output} if to.window else {}
    entry = {
        "name": "forge-proxy",
        "provider": "openai",
        "model": to.model,
        "apiBase": to.base,
        "apiKey": to.key,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
        **({"defaultCompletionOptions": options} if options else {}),
    }
    values = {"name": "forge-proxy", "version": "0.0.1", "schema": "v1", "models": [entry]}
    return ClientSetup((ClientConfigFile("~/.continue/config.yaml", "yaml", values),), run="cn")


def openai(to: DaemonAddress) -> ClientSetup:
    """Configure the openai SDKs and programs built on them."""
    return ClientSetup(variables={"OPENAI_BASE_URL": to.base, "OPENAI_API_KEY": to.key, "OPENAI_MODEL": to.model})


def env(to: DaemonAddress) -> ClientSetup:
    """Set every variable that some client of chat completions reads."""
    window = {"FORGE_CONTEXT_WINDOW": str(to.window)} if to.window else {}
    return ClientSetup(variables={**openai(to).variables, "OPENAI_API_BASE": to.base, **window})


CLIENTS: dict[str, Callable[[DaemonAddress], ClientSetup]] = {
    "opencode": opencode,
    "codex": codex,
    "claude": claude,
    "aider": aider,
    "continue": continue_,
    "openai": openai,
    "env": env,
}
