"""The sections `log` and `ledger` of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from forge_proxy.core.sampling import read_switch


class LedgerConfig(BaseModel):
    """The reliability ledger, which is stored with the records of requests (`store.requests`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alerts: Annotated[
        Literal["off", "on"], BeforeValidator(read_switch, json_schema_input_type=Literal["off", "on", True, False])
    ] = Field(
        default="on",
        description="on: every hour the daemon compares the fault rate of each model and tool with its own past, and"
        " reports those that got worse.",
    )


class LogConfig(BaseModel):
    """The log level and format. Prompts, responses and keys are never logged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console on a terminal, JSON lines elsewhere."
    )
