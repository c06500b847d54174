"""The `server` section of the configuration: who may send requests, limits, and how responses are streamed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import NoDecode

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.validation import split_list

_KEY = re.compile(r"[!#-&(-+\--~]+")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://[^\s/*?#@]*")


class ServerConfigError(ForgeError):
    """The server settings contradict each other or cannot be used on this machine."""


def check_key(key: str) -> str:
    """Return the key if a header can carry it. Raises `ValueError`, whose message does not contain the key."""
    if not _KEY.fullmatch(key):
        raise ValueError("a key is made of visible ASCII characters, without quotes, commas and spaces")
    return key


def _check_secret(key: SecretStr) -> SecretStr:
    check_key(key.get_secret_value())
    return key


def _check_host(name: str) -> str:
    if not _HOST.fullmatch(name.lower()):
        raise ValueError("expected a host name without scheme and port, such as forge-proxy; there is no wildcard")
    return name.lower()


def _check_origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin.lower().removesuffix("/")):
        raise ValueError("expected an origin such as https://chat.example.org, or null; there is no wildcard")
    return origin.lower().removesuffix("/")


class ServerConfig(BaseModel):
    """The listening address, access control, request limits and streaming."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. An address that other machines can reach requires API keys.",
    )
    port: int = Field(default=8081, ge=0, le=65535, description="Port to listen on; 0 picks a free port and logs it.")
    api_keys: Annotated[
        tuple[Annotated[SecretStr, AfterValidator(_check_secret)], ...], NoDecode, BeforeValidator(split_list)
    ] = Field(default=(), description="API keys; clients must send one of them. Default: no key required.")
    api_keys_file: Path | None = Field(
        default=None,
        description="File with more API keys, one per line; lines that begin with # are comments. `KEY # NAME` names "
        "the client in records.",
    )
    admin_keys: Annotated[
        tuple[Annotated[SecretStr, AfterValidator(_check_secret)], ...], NoDecode, BeforeValidator(split_list)
    ] = Field(
        default=(),
        description="Keys of the admin API; `api_keys` are then not accepted there. Default: `api_keys` are accepted,"
        " but the admin API is disabled if other machines can reach the daemon.",
    )
    admin_keys_file: Path | None = Field(default=None, description="File with more admin keys, one per line.")
    metrics_public: bool = Field(
        default=False,
        description="Show /metrics without a key. Default: it needs a key like the admin API. It contains the names of"
        " models, no text and no names of clients.",
    )
    allow_public_without_keys: bool = Field(
        default=False,
        description="Allow a publicly reachable address without API keys, if something else restricts access.",
    )
    allowed_hosts: Annotated[
        tuple[Annotated[str, AfterValidator(_check_host)], ...], NoDecode, BeforeValidator(split_list)
    ] = Field(
        default=(), description="Host names, besides localhost and IP addresses, under which clients reach the daemon."
    )
    allowed_origins: Annotated[
        tuple[Annotated[str, AfterValidator(_check_origin)], ...], NoDecode, BeforeValidator(split_list)
    ] = Field(default=(), description="Origins of web pages that may use the daemon from a browser.")
    max_body_mb: float = Field(
        default=64, gt=0, description="Largest request body, images included, in megabytes of 1,048,576 bytes."
    )
    max_header_kb: int = Field(
        default=256, ge=8, description="Largest request line and headers together, in kilobytes of 1,024 bytes."
    )
    memory_mb: int | None = Field(
        default=None,
        ge=16,
        description="Megabytes that request bodies, buffered responses and unread output may use together; further"
        " bodies wait. Bodies and arriving responses count three times. Default: a quarter of the machine's memory, at"
        " most 2048.",
    )
    header_timeout_seconds: float = Field(
        default=10, gt=0, description="Timeout for a complete request line and headers."
    )
    body_timeout_seconds: float = Field(default=30, gt=0, description="Longest pause while a request body arrives.")
    send_timeout_seconds: float = Field(
        default=60, gt=0, description="How long a client may stop reading a response before it is disconnected."
    )
    first_event_seconds: float = Field(
        default=10,
        gt=0,
        le=60,
        description="How long a stream's response headers wait for the first event to send, or for an error.",
    )
    keepalive_seconds: float = Field(
        default=15,
        gt=0,
        le=100,
        description="How long a stream may be silent before an empty chunk is sent. Clients time out after 120 s.",
    )
    stream_errors: Literal["abort", "event"] = Field(
        default="abort",
        description="On an error after the first byte: close the connection without [DONE], or send an error event.",
    )
    drain_seconds: int = Field(
        default=20, ge=0, description="How long running requests may take to finish when the daemon shuts down."
    )
