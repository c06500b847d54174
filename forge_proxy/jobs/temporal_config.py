"""The section `jobs.temporal` of the configuration."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class TemporalConfig(BaseModel):
    """The Temporal server, if `jobs.scheduler` is `temporal`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str = Field(
        default="127.0.0.1:7233", pattern=r"^[^\s:/]+:\d{1,5}$", description="Host and port of its gRPC service."
    )
    namespace: str = Field(default="default", pattern=_NAME, description="Namespace, which must exist.")
    tls: bool = Field(default=False, description="Connect with TLS. An API key requires it.")
    api_key_file: Path | None = Field(
        default=None, description="File with the API key. It is read whenever the daemon connects."
    )
    task_queue_prefix: str = Field(
        default="forge-proxy-",
        pattern=_NAME,
        description="The prefix of the names of all task queues. Daemons that share a database must have the same"
        " prefix; daemons with different databases must have different prefixes or namespaces.",
    )
