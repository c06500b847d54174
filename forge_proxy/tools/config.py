"""The `tools` section of the configuration, and how a submitted workflow says what executes a tool.

Nothing may be called until the operator lists it: a run that somebody submits reaches no host of its own choice, and
starts no program that the configuration does not name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from forge_proxy.tools.origins import check_entry, check_url

_LEAST_SECRET = 16


def _split(value: object) -> object:
    """What the environment says: a list is written with commas there, and an empty variable is an empty list."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


Origins: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(check_entry)], ...], NoDecode, BeforeValidator(_split)
]
Url: TypeAlias = Annotated[str, AfterValidator(check_url)]


def _check_secret(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and len(secret.get_secret_value()) < _LEAST_SECRET:
        raise ValueError(f"a secret of at least {_LEAST_SECRET} characters, such as `openssl rand -hex 32` prints")
    return secret


class CallbackConfig(BaseModel):
    """Tools that are executed by a POST to somebody's HTTP server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow: Origins = Field(
        default=(),
        description="Origins that may be called, such as https://tools.example.com or https://*.example.com. Default:"
        " none.",
    )
    secret: Annotated[SecretStr | None, AfterValidator(_check_secret)] = Field(
        default=None, description="What calls are signed with; the tools' server checks it. Needed for any callback."
    )
    timeout_seconds: float = Field(
        default=30, gt=0, le=3600, description="How long one request may take in all, where a tool does not say."
    )
    retries: int = Field(
        default=2, ge=0, le=10, description="How often a request that failed is sent again, where a tool does not say."
    )
    max_answer_kb: int = Field(default=1024, ge=1, description="Largest answer, in kilobytes of 1,024 bytes.")

    @model_validator(mode="after")
    def _is_signed(self) -> CallbackConfig:
        if self.allow and self.secret is None:
            raise ValueError("allow needs a secret, which calls are signed with: set tools.callbacks.secret")
        return self


def _check_header(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", value.get_secret_value()):
        raise ValueError("a header's value is made of visible ASCII characters and spaces between them")
    return value


class McpServerConfig(BaseModel):
    """One MCP server: a program that is started (`command`), or one that runs already (`url`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | None = Field(
        default=None, min_length=1, description="A program that speaks MCP on stdin and stdout, started on first use."
    )
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Its environment, besides HOME, LOGNAME, PATH, SHELL, TERM and USER, which are the daemon's.",
    )
    cwd: Path | None = Field(default=None, description="Its working directory. Default: the daemon's.")
    url: Url | None = Field(default=None, description="Or the URL of a running server (streamable HTTP).")
    headers: dict[
        Annotated[str, Field(pattern=r"^[!#-'*+.0-9A-Z^-z|~-]+$")], Annotated[SecretStr, AfterValidator(_check_header)]
    ] = Field(default_factory=dict, description="Headers for it, such as Authorization: Bearer KEY.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> McpServerConfig:
        if (self.command is None) == (self.url is None):
            raise ValueError("say what the server is: command (a program to start) or url (a running one), one of them")
        wrong = ("args", "env", "cwd") if self.command is None else ("headers",)
        if given := [name for name in wrong if getattr(self, name)]:
            raise ValueError(f"{given[0]} is for a server with {'a command' if self.command is None else 'a url'}")
        return self


class McpConfig(BaseModel):
    """Tools of MCP servers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    servers: dict[Annotated[str, Field(min_length=1)], McpServerConfig] = Field(
        default_factory=dict, description="Servers, by the names under which workflows use them."
    )
    allow: Origins = Field(
        default=(), description="Origins of further servers, which a workflow may name by url. Default: none."
    )
    connect_seconds: float = Field(
        default=30, gt=0, le=600, description="How long a server may take to start and to greet."
    )
    timeout_seconds: float = Field(
        default=60, gt=0, le=3600, description="How long one call may take, where a tool does not say."
    )
    max_answer_kb: int = Field(
        default=4096,
        ge=1,
        description="Largest message of a server, in kilobytes of 1,024 bytes; also what it may send within a minute"
        " without being asked. A server that sends more is ended and started again.",
    )


class ToolSettings(BaseModel):
    """What executes the tools of runs, and which hosts may be called for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    callbacks: CallbackConfig = Field(default_factory=CallbackConfig, description="HTTP callbacks.")
    mcp: McpConfig = Field(default_factory=McpConfig, description="MCP servers.")


class ByHttp(BaseModel):
    """A tool that is executed by a POST to `url`, as docs/tools.md describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["http"] = "http"
    url: Url = Field(description="Where its calls go. The origin has to be among tools.callbacks.allow.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=3600, description="How long one request may take in all. Default: the setting."
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        le=10,
        description="How often a request that failed is sent again, with the same key. Default: the setting.",
    )


class McpUrl(BaseModel):
    """An MCP server that is no setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Url = Field(description="Its endpoint (streamable HTTP). The origin has to be among tools.mcp.allow.")


class ByMcp(BaseModel):
    """A tool of an MCP server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["mcp"] = "mcp"
    server: str | McpUrl = Field(description="A name from tools.mcp.servers, or the URL of another one.")
    tool: str | None = Field(default=None, min_length=1, description="Its name there. Default: the same.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=3600, description="How long a call may take. Default: the setting."
    )


Execution: TypeAlias = Annotated[ByHttp | ByMcp, Field(discriminator="by")]
"""What executes a tool of a workflow, other than its caller."""
