"""Which guardrails are on and how far they go. One value, from the configuration, narrowed per request."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.errors import InvalidRequest

Switch = Literal["respond", "rescue", "validate", "retry", "loops"]
SWITCHES: tuple[str, ...] = get_args(Switch)


class Switches(BaseModel):
    """Each guardrail by itself; all off means that requests pass through unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    respond: bool = Field(
        default=True, description="Offer a synthetic tool whose message becomes the text of the answer."
    )
    rescue: bool = Field(default=True, description="Read tool calls that the model wrote as text.")
    validate_calls: bool = Field(
        default=True, alias="validate", description="Check names and arguments of calls against the offered tools."
    )
    retry: bool = Field(default=True, description="Ask the model again, saying what was wrong.")
    loops: bool = Field(default=True, description="Notice text and reasoning that only repeat themselves.")

    @property
    def any(self) -> bool:
        """Whether anything is left to do."""
        return self.respond or self.rescue or self.validate_calls or self.retry or self.loops


class GuardPolicy(BaseModel):
    """The `guardrails` section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: Switches = Field(default_factory=Switches, description="Which guardrails are on.")
    max_retries: int = Field(
        default=3, ge=0, le=10, description="How often one request is asked again, for any reason."
    )
    max_text_nudges: int = Field(
        default=1,
        ge=0,
        le=10,
        description="How many of these may be because the model wrote text where it might have called.",
    )
    text_answers: Literal["auto", "nudge", "accept"] = Field(
        default="auto",
        description="Bare text while tools are offered: ask once more, accept it live, or learn per model.",
    )
    on_exhausted: Literal["deliver", "error"] = Field(
        default="deliver",
        description="Calls that stay invalid: hand them out as they are, or answer 502 `tool_call_invalid`.",
    )
    on_loop: Literal["cut", "report"] = Field(
        default="cut",
        description="An answer that only repeats itself: stop it, asking again if that is possible, or only say so.",
    )


def read_switches(said: str | None, switches: Switches) -> Switches:
    """What the header `x-forge-guardrails` makes of the daemon's switches.

    `on` and nothing leave them, `off` turns all off, a list such as `rescue,retry` leaves on just those named: what the
    daemon has switched off stays off. Raises `InvalidRequest` for a name that is none.
    """
    names = [name.strip().lower() for name in (said or "").split(",") if name.strip()]
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
    stay = switches.model_dump(by_alias=True)
    return Switches.model_validate({name: name in names and stay[name] for name in SWITCHES})
