"""Sampling parameters recommended by the authors of a model. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from forge_proxy.core.errors import ForgeError

Value = Literal["temperature", "top_p", "top_k", "min_p", "repeat_penalty"]


def read_switch(value: object) -> object:
    """Convert the booleans that YAML parses from on and off."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


class SamplingPolicy(BaseModel):
    """The `sampling` section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    defaults: Annotated[
        Literal["off", "on"], BeforeValidator(read_switch, json_schema_input_type=Literal["off", "on", True, False])
    ] = Field(
        default="off",
        description="`on`: sampling parameters that the client does not set get the values that the model's authors"
        " recommend; requests for a model without recommendation are rejected.",
    )


class Recommendation(BaseModel):
    """The recommended values for a family of models."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: str
    match: str = Field(description="A regular expression to search for in the lower-case name of the model.")
    values: Mapping[Value, float | int]
    source: str = Field(description="The source of the recommendation.")


class UnsupportedModelError(ForgeError):
    """`sampling.defaults` is on and there is no recommendation for this model. `known` lists the known families."""

    def __init__(self, model: str, families: Sequence[str]) -> None:
        super().__init__(
            f"sampling.defaults is on, but there is no recommendation for the model {model!r}; available: "
            f"{', '.join(families)}. Set sampling.defaults to off and send temperature and others with each request"
        )
        self.model = model
        self.known = tuple(families)


def find_recommendation(model: str, known: Sequence[Recommendation]) -> Recommendation | None:
    """Return the first recommendation that matches the model's name, or None."""
    name = model.lower()
    return next((one for one in known if re.search(one.match, name)), None)
