"""The `tools` section of the configuration.

Only hosts and programs that the operator lists are used: a submitted run cannot reach other hosts or start other
programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from forge_proxy.core.deprecation import RenamedFields, renamed_attribute
from forge_proxy.tools.origins import check_entry, check_url

_MIN_SECRET_CHARS = 16


def _split(value: object) -> object:
    """Split a list from an environment variable, which uses commas; an empty variable is an empty list."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


Origins: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(check_entry)], ...], NoDecode, BeforeValidator(_split)
]
ToolServerUrl: TypeAlias = Annotated[str, AfterValidator(check_url)]


def _check_secret(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and len(secret.get_secret_value()) < _MIN_SECRET_CHARS:
        raise ValueError(
            f"expected a secret of at least {_MIN_SECRET_CHARS} characters; create one with `openssl rand -hex 32`"
        )
    return secret


class CallbackConfig(RenamedFields):
    """Tools that are executed by a POST to an HTTP server."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    former_names: ClassVar[Mapping[str, str]] = {"max_answer_kb": "max_response_kb"}
    max_answer_kb = renamed_attribute("max_answer_kb", "max_response_kb")

    allow: Origins = Field(
        default=(),
        description="Origins that may be called, such as https://tools.example.com or https://*.example.com. Default:"
        " none.",
    )
    secret: Annotated[SecretStr | None, AfterValidator(_check_secret)] = Field(
        default=None,
        description="Key that signs calls, so that the tools' server can verify them. Required for callbacks.",
    )
    timeout_seconds: float = Field(
        default=30, gt=0, le=3600, description="Total time limit of one request. Tools can override it."
    )
    retries: int = Field(
        default=2, ge=0, le=10, description="How often a failed request is retried. Tools can override it."
    )
    max_response_kb: int = Field(default=1024, ge=1, description="Maximum response size, in kilobytes of 1,024 bytes.")

    @model_validator(mode="after")
    def _is_signed(self) -> CallbackConfig:
        if self.allow and self.secret is None:
            raise ValueError("allow requires a secret to sign calls: set tools.callbacks.secret")
        return self


def _check_header(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", value.get_secret_value()):
        raise ValueError("expected visible ASCII characters, without leading or trailing spaces")
    return value


class McpServerConfig(BaseModel):
    """One MCP server: a program to start (`command`), or a running server (`url`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | None = Field(
        default=None, min_length=1, description="A program that speaks MCP on stdin and stdout, started on first use."
    )
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Its environment, in addition to HOME, LOGNAME, PATH, SHELL, TERM and USER of the daemon.",
    )
    cwd: Path | None = Field(default=None, description="Its working directory. Default: the daemon's.")
    url: ToolServerUrl | None = Field(
        default=None, description="URL of a running server (streamable HTTP), instead of `command`."
    )
    headers: dict[
        Annotated[str, Field(pattern=r"^[!#-'*+.0-9A-Z^-z|~-]+$")], Annotated[SecretStr, AfterValidator(_check_header)]
    ] = Field(default_factory=dict, description="Headers sent to `url`, such as Authorization: Bearer KEY.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> McpServerConfig:
        if (self.command is None) == (self.url is None):
            raise ValueError("set either command (a program to start) or url (a running server)")
        wrong = ("args", "env", "cwd") if self.command is None else ("headers",)
        if unusable := [name for name in wrong if getattr(self, name)]:
            raise ValueError(f"{unusable[0]} is for a server with {'a command' if self.command is None else 'a url'}")
        return self


class McpConfig(RenamedFields):
    """Tools of MCP servers."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    former_names: ClassVar[Mapping[str, str]] = {"max_answer_kb": "max_message_kb"}
    max_answer_kb = renamed_attribute("max_answer_kb", "max_message_kb")

    servers: dict[Annotated[str, Field(min_length=1)], McpServerConfig] = Field(
        default_factory=dict, description="Servers by the names that workflows use."
    )
    allow: Origins = Field(
        default=(), description="Origins of other servers that workflows may use by URL. Default: none."
    )
    connect_seconds: float = Field(
        default=30, gt=0, le=600, description="Time limit for starting a server and the MCP handshake."
    )
    timeout_seconds: float = Field(
        default=60, gt=0, le=3600, description="Time limit of one call. Tools can override it."
    )
    max_message_kb: int = Field(
        default=4096,
        ge=1,
        description="Maximum size of a server's message, in kilobytes of 1,024 bytes, and of its unsolicited messages"
        " within a minute. A server that sends more is restarted.",
    )


class ToolSettings(BaseModel):
    """How the tools of runs are executed, and which hosts may be called."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    callbacks: CallbackConfig = Field(default_factory=CallbackConfig, description="HTTP callbacks.")
    mcp: McpConfig = Field(default_factory=McpConfig, description="MCP servers.")
