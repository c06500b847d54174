"""The `server` section of the configuration: how callers are answered."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ServerConfig(BaseModel):
    """Where the daemon listens and how it streams."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. There are no keys yet: keep it on loopback.",
    )
    port: int = Field(default=8081, ge=0, le=65535, description="Port to listen on; 0 takes a free one and says which.")
    first_event_seconds: float = Field(
        default=10,
        gt=0,
        le=60,
        description="How long a stream's response headers wait for the model server's first event or error.",
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
