"""Which sampling values go with a model, as its makers recommend them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from forge_proxy.core.errors import ForgeError

Value = Literal["temperature", "top_p", "top_k", "min_p", "repeat_penalty"]


def _read_switch(value: object) -> object:
    """YAML reads the words on and off as booleans."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


class SamplingPolicy(BaseModel):
    """The `sampling` section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    defaults: Annotated[
        Literal["off", "on"], BeforeValidator(_read_switch, json_schema_input_type=Literal["off", "on", True, False])
    ] = Field(
        default="off",
        description="on: what a caller leaves open is filled in as the model's makers recommend; a model of which"
        " nothing is known is then an error.",
    )


class Recommendation(BaseModel):
    """What is recommended for a family of models."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: str
    match: str = Field(description="A regular expression, found in the model's name in lower case.")
    values: Mapping[Value, float | int]
    source: str = Field(description="Where the recommendation stands.")


class UnsupportedModelError(ForgeError):
    """Recommended values were asked for, and there are none for this model. `known` are the families there are."""

    def __init__(self, model: str, families: Sequence[str]) -> None:
        super().__init__(
            f"sampling.defaults is on, and nothing is known of the model {model!r}; available: {', '.join(families)}. "
            "Switch sampling.defaults off and send temperature and the like with each request"
        )
        self.model = model
        self.known = tuple(families)


def find_recommendation(model: str, known: Sequence[Recommendation]) -> Recommendation | None:
    """The first one that goes with a model's name; None where there is none."""
    name = model.lower()
    return next((one for one in known if re.search(one.match, name)), None)
