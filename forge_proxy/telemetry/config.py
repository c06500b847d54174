"""The sections `log`, `ledger` and `telemetry` of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from forge_proxy.core.sampling import read_switch


def _check_endpoint(url: str | None) -> str | None:
    if url is not None and not (url.startswith(("http://", "https://")) and urlsplit(url).hostname):
        raise ValueError("expected the URL of a collector, such as http://127.0.0.1:4318")
    return url


class LedgerConfig(BaseModel):
    """The reliability ledger, which is stored with the records of requests (`store.requests`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alerts: Annotated[
        Literal["off", "on"], BeforeValidator(read_switch, json_schema_input_type=Literal["off", "on", True, False])
    ] = Field(
        default="on",
        description="`on`: every hour the daemon compares the fault rate of each model and tool with its own past, and"
        " reports those that got worse.",
    )


class TracesConfig(BaseModel):
    """Traces of requests in OpenTelemetry's protocol (extra `otel`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: Annotated[str | None, AfterValidator(_check_endpoint)] = Field(
        default=None,
        description="Base URL of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318. Default: no"
        " traces.",
    )
    content: Annotated[
        Literal["off", "on"], BeforeValidator(read_switch, json_schema_input_type=Literal["off", "on", True, False])
    ] = Field(default="off", description="`on`: prompts and responses are exported with the traces.")
    sample_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of the traces that begin here and are exported. A client with a `traceparent` decides"
        " itself.",
    )


class TelemetryConfig(BaseModel):
    """What is exported to other programs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    traces: TracesConfig = Field(default_factory=TracesConfig)


class LogConfig(BaseModel):
    """The log level and format. Prompts, responses and keys are never logged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="`auto`: console on a terminal, JSON lines elsewhere."
    )
