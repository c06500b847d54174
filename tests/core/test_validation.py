"""Descriptions of invalid values state what was expected."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from forge_proxy.core.validation import describe_fault


def _refuse_odd(number: int) -> int:
    if number % 2:
        raise ValueError("expected an even number")
    return number


class _Inner(BaseModel):
    value: int = 0


class _Values(BaseModel):
    model_config = ConfigDict(extra="forbid")

    port: int = Field(default=1, ge=0, le=65535)
    share: float = Field(default=0.5, gt=0, lt=1)
    host: str = Field(default="h", min_length=1)
    level: Literal["debug", "info"] = "info"
    flags: list[str] = Field(default_factory=list, max_length=2)
    names: dict[str, str] = Field(default_factory=dict)
    inner: _Inner = Field(default_factory=_Inner)
    is_on: bool = False
    even: Annotated[int, AfterValidator(_refuse_odd)] = 2


@pytest.mark.parametrize(
    ("values", "description"),
    [
        ({"port": "http"}, "expected an integer"),
        ({"port": 1.5}, "expected an integer"),
        ({"port": -1}, "expected at least 0"),
        ({"port": 65536}, "expected at most 65535"),
        ({"share": "much"}, "expected a number"),
        ({"share": 0}, "expected more than 0.0"),
        ({"share": 1}, "expected less than 1.0"),
        ({"host": 5}, "expected a string"),
        ({"host": ""}, "expected a length of at least 1"),
        ({"flags": ["a", "b", "c"]}, "expected at most 2 items"),
        ({"level": "loud"}, "expected 'debug' or 'info'"),
        ({"flags": "--mlock"}, "expected a list"),
        ({"names": []}, "expected an object"),
        ({"inner": 5}, "expected an object"),
        ({"is_on": "of"}, "expected true or false"),
        ({"even": 3}, "expected an even number"),
    ],
)
def test_an_invalid_value_is_described_by_the_expected_one(values: dict[str, object], description: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Values.model_validate(values)

    assert [describe_fault(fault) for fault in caught.value.errors()] == [description]


def test_a_missing_field_is_reported_as_required() -> None:
    class Needed(BaseModel):
        name: str

    with pytest.raises(ValidationError) as caught:
        Needed.model_validate({})

    assert describe_fault(caught.value.errors()[0]) == "required, but missing"
