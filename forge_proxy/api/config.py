"""The `server` section of the configuration: who may ask, and how callers are answered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import NoDecode

from forge_proxy.core.errors import ForgeError

_KEY = re.compile(r"[!#-&(-+\--~]+")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://[^\s/*?#@]*")


class ServerConfigError(ForgeError):
    """The settings of the server contradict each other, or cannot be used here."""


def check_key(key: str) -> str:
    """The key, if a header can carry it. Raises `ValueError`, whose message does not hold it."""
    if not _KEY.fullmatch(key):
        raise ValueError("a key is made of visible ASCII characters, without quotes, commas and spaces")
    return key


def _check_secret(key: SecretStr) -> SecretStr:
    check_key(key.get_secret_value())
    return key


def _check_host(name: str) -> str:
    if not _HOST.fullmatch(name.lower()):
        raise ValueError("expected a host's name without scheme and port, such as forge-proxy; there is no wildcard")
    return name.lower()


def _check_origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin.lower().removesuffix("/")):
        raise ValueError("expected an origin such as https://chat.example.org, or null; there is no wildcard")
    return origin.lower().removesuffix("/")


def _split(value: object) -> object:
    """What the environment says: a list is written with commas there, and an empty variable is an empty list."""
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value


class ServerConfig(BaseModel):
    """Where the daemon listens, whom it answers, how much it takes and how it streams."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. One that other machines reach is refused as long as there are no keys.",
    )
    port: int = Field(default=8081, ge=0, le=65535, description="Port to listen on; 0 takes a free one and says which.")
    api_keys: Annotated[
        tuple[Annotated[SecretStr, AfterValidator(_check_secret)], ...], NoDecode, BeforeValidator(_split)
    ] = Field(default=(), description="Keys of which a caller has to send one. None: nobody needs a key.")
    api_keys_file: Path | None = Field(
        default=None, description="File with more of them, one a line; lines that begin with # are comments."
    )
    admin_keys: Annotated[
        tuple[Annotated[SecretStr, AfterValidator(_check_secret)], ...], NoDecode, BeforeValidator(_split)
    ] = Field(
        default=(),
        description="Keys of the admin API, which the others then do not open. None: the callers' keys do, and where"
        " other machines reach the daemon the admin API is closed.",
    )
    admin_keys_file: Path | None = Field(default=None, description="File with more of these, one a line.")
    allow_public_without_keys: bool = Field(
        default=False,
        description="Listen where other machines reach it though there are no keys: something else keeps them out.",
    )
    allowed_hosts: Annotated[
        tuple[Annotated[str, AfterValidator(_check_host)], ...], NoDecode, BeforeValidator(_split)
    ] = Field(default=(), description="Names, besides localhost and addresses, under which callers reach the daemon.")
    allowed_origins: Annotated[
        tuple[Annotated[str, AfterValidator(_check_origin)], ...], NoDecode, BeforeValidator(_split)
    ] = Field(default=(), description="Origins of web pages that may use the daemon from a browser.")
    max_body_mb: float = Field(
        default=64, gt=0, description="Largest body of a request, in megabytes of 1,048,576 bytes. Images are in it."
    )
    max_header_kb: int = Field(
        default=256, ge=8, description="Largest head of a request, its line and headers, in kilobytes of 1,024 bytes."
    )
    memory_mb: int | None = Field(
        default=None,
        ge=16,
        description="Megabytes that request bodies, buffered responses and slow readers may hold together; bodies"
        " beyond that wait."
        " Default: a quarter of the machine's memory, at most 2048.",
    )
    header_timeout_seconds: float = Field(
        default=10, gt=0, description="How long a request's line and headers may take to arrive."
    )
    body_timeout_seconds: float = Field(
        default=30, gt=0, description="How long nothing of a request's body may arrive."
    )
    send_timeout_seconds: float = Field(
        default=60, gt=0, description="How long a client may read nothing of a response before it is disconnected."
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
        description="How long a stream may be silent before an empty chunk is sent. Clients give up after 120 s.",
    )
    stream_errors: Literal["abort", "event"] = Field(
        default="abort",
        description="A fault after the first byte: cut the connection without [DONE], or send an error event.",
    )
    drain_seconds: int = Field(
        default=20, ge=0, description="How long answers may still take when the daemon is told to stop."
    )
