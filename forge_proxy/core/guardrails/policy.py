"""The policy of the guardrails: which are enabled, and their limits. Set in the configuration, narrowed per request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import NoDecode

from forge_proxy.core.deprecation import RenamedFields, renamed_attribute
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.sampling import read_switch

_TOOL_PATTERN = r"^!?[\w.:/*?\[\]-][\w.:/*?\[\]!-]*$"
"""The characters of names and of glob patterns."""
AUTO_RETRY_TEMPERATURE = 0.2
"""The temperature of `retry_temperature: auto`. Source: docs/decisions/0031-constrained-retries.md: in plain words,
82.2 % of the retries make the requested call, and 79.8 % at the default temperature; elsewhere there is no loss.
"""
Switch = Literal["respond", "rescue", "validate", "retry", "loops", "repeats", "early_end"]
SWITCHES: tuple[str, ...] = get_args(Switch)


class Switches(BaseModel):
    """One switch per guardrail. If all are off, requests pass through unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    respond: bool = Field(
        default=True, description="Offer a synthetic tool whose message becomes the text of the response."
    )
    rescue: bool = Field(default=True, description="Recover tool calls that the model wrote as text.")
    validate_calls: bool = Field(
        default=True,
        alias="validate",
        description="Validate the names and arguments of calls against the offered tools.",
    )
    retry: bool = Field(default=True, description="Retry with a message that describes the fault.")
    loops: bool = Field(default=True, description="Detect text and reasoning that only repeat themselves.")
    repeats: bool = Field(default=True, description="Retry a call that the conversation has already answered.")
    early_end: bool = Field(
        default=True, description="Retry a final answer before the tools that the user asked for were called."
    )

    @property
    def any(self) -> bool:
        """Whether at least one guardrail is on."""
        return any(dict(self).values())


def _split(value: object) -> object:
    """Split a list that is written as one string at commas and spaces."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


ToolPatterns = Annotated[tuple[Annotated[str, Field(pattern=_TOOL_PATTERN)], ...], NoDecode, BeforeValidator(_split)]
"""Glob patterns of tool names; those that begin with `!` exclude."""


class GuardPolicy(RenamedFields):
    """The `guardrails` section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    former_names: ClassVar[Mapping[str, str]] = {"text_answers": "text_responses"}
    text_answers = renamed_attribute("text_answers", "text_responses")

    enabled: Switches = Field(default_factory=Switches, description="Which guardrails are enabled.")
    max_retries: int = Field(
        default=3, ge=0, le=10, description="Maximum number of retries per request, for any reason."
    )
    max_text_nudges: int = Field(
        default=1,
        ge=0,
        le=10,
        description="How many of these retries may be spent on plain text where a call was possible.",
    )
    text_responses: Literal["auto", "nudge", "accept"] = Field(
        default="auto",
        description="Plain text while tools are offered: retry, accept and stream it, or learn which per model.",
    )
    terminal_tools: ToolPatterns = Field(
        default=(),
        description=(
            "Tools that end the client's task, such as `finish` or `submit_*`, in addition to those that the daemon"
            " recognizes. With `!finish`, `finish` never counts as one; with `!*`, no tool does."
        ),
    )
    on_exhausted: Literal["deliver", "error"] = Field(
        default="deliver",
        description=(
            "Calls that are invalid after all retries: deliver them as they are, or return 502 `tool_call_invalid`."
        ),
    )
    on_loop: Literal["cut", "report"] = Field(
        default="cut",
        description="A response that only repeats itself: stop it and retry if possible, or only report it.",
    )
    constrain_retries: Literal["auto", "always", "never"] = Field(
        default="auto",
        description=(
            "Retries of an invalid call that the model server limits to calls of the offered tools: the last one, and"
            " the first one too for models whose other retries fail; each one; or none."
        ),
    )
    retry_temperature: Literal["auto", "unset"] | Annotated[float, Field(ge=0, le=2)] = Field(
        default="auto",
        description=(
            f"Temperature of retries of an invalid call if the client sets none: auto ({AUTO_RETRY_TEMPERATURE}), a"
            " number, or unset, which leaves it to the model server."
        ),
    )
    drafts: int = Field(
        default=1,
        ge=1,
        le=5,
        description=(
            "Responses to generate at the same time for each request with tools, on slots that are free; the response"
            " on which most agree is delivered. 1 is off."
        ),
    )
    grounding: Annotated[
        Literal["off", "report", "retry"],
        BeforeValidator(read_switch, json_schema_input_type=Literal["off", "report", "retry", False]),
    ] = Field(
        default="off",
        description=(
            "Arguments whose values appear nowhere in the conversation (ids, paths, numbers, names): ignore, report"
            " them in `x-forge-interventions`, or retry once."
        ),
    )
    answer_grounding: Annotated[
        Literal["auto", "off", "report", "retry"],
        BeforeValidator(read_switch, json_schema_input_type=Literal["auto", "off", "report", "retry", False]),
    ] = Field(
        default="auto",
        description=(
            "Final answers with codes or long numbers that appear nowhere in the conversation, or with nothing of the"
            " latest result: retry, at most twice; report in `x-forge-interventions`; ignore (off); or retry only"
            " short answers to results with codes, if no stream waits for them, and learn per model whether that helps"
            " (auto)."
        ),
    )
    on_repeat: Literal["auto", "retry", "accept"] = Field(
        default="auto",
        description=(
            "A call that was already answered since the user's last message: retry it once, accept it, or learn which "
            "per model."
        ),
    )
    on_early_end: Literal["auto", "retry", "accept"] = Field(
        default="auto",
        description=(
            "A final answer before the tools that the user asked for were called: retry it once, accept it, or learn "
            "which per model."
        ),
    )

    @property
    def coldest_retry(self) -> float | None:
        """The temperature of retries of an invalid call; None leaves it as it is in the first attempt."""
        match self.retry_temperature:
            case "auto":
                return AUTO_RETRY_TEMPERATURE
            case "unset":
                return None
            case temperature:
                return temperature


def read_switches(header: str | None, switches: Switches) -> Switches:
    """Apply the header `x-forge-guardrails` to the daemon's switches.

    `on` or no header keeps them, `off` turns all off, and a list such as `rescue,retry` keeps only those named.
    A guardrail that the daemon has switched off stays off. Raises `InvalidRequest` for an unknown name.
    """
    names = [name.strip().lower() for name in (header or "").split(",") if name.strip()]
    if not names or names == ["on"]:
        return switches
    if names == ["off"]:
        names = []
    for name in names:
        if name not in SWITCHES:
            why = (
                f"{name!r} is not a guardrail; expected 'on', 'off' or a list of the guardrails that stay on: "
                + ", ".join(SWITCHES)
            )
            raise InvalidRequest("header x-forge-guardrails", why)
    current = switches.model_dump(by_alias=True)
    return Switches.model_validate({name: name in names and current[name] for name in SWITCHES})
