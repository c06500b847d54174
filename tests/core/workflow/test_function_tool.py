"""`ToolDef.from_function`: schema from type hints, descriptions from the docstring, arguments in the hinted types."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from forge_proxy.core.guardrails.schema.compiled import compile_schema
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.errors import InvalidWorkflow


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(BaseModel):
    """Somewhere."""

    city: str
    country: str = "DE"


@dataclass
class Span:
    first: date
    days: int = 1


class Options(TypedDict):
    verbose: bool


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Its schema, which is a valid one."""
    parameters = ToolDef.from_function(function).spec.parameters
    assert compile_schema(parameters) is not None
    assert isinstance(parameters, dict)
    return parameters


def property_of(hint: Any, *default: Any) -> Any:
    """The schema of one parameter with a type hint and a default."""

    def function(x: Any = None) -> None: ...

    function.__annotations__ = {"x": hint}
    function.__defaults__ = default or None
    return schema_of(function)["properties"]["x"]


def test_a_function_becomes_a_tool_with_its_name_docstring_and_required_arguments() -> None:
    def get_weather(city: str, days: int = 3) -> str:
        """Get the weather.

        For a city and some days.

        Args:
            city: The city's name,
                in English.
            days: How many days.

        Returns:
            A sentence.
        """
        return f"{city} {days}"

    tool = ToolDef.from_function(get_weather)

    assert tool.name == "get_weather"
    assert tool.spec.description == "Get the weather.\n\nFor a city and some days."
    assert tool.spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city's name, in English."},
            "days": {"type": "integer", "default": 3, "description": "How many days."},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "docstring",
    [
        "Look.\n\n    Args:\n        a: the first\n        b (int): the second\n    ",
        "Look.\n\n    Parameters\n    ----------\n    a : str\n        the first\n    b\n        the second\n    ",
        "Look.\n\n    :param a: the first\n    :param int b: the second\n    :returns: nothing\n    ",
    ],
)
def test_descriptions_come_from_each_usual_style(docstring: str) -> None:
    def look(a: str, b: int) -> None: ...

    look.__doc__ = docstring
    tool = ToolDef.from_function(look)

    properties = schema_of(look)["properties"]
    assert tool.spec.description == "Look."
    assert [properties[name]["description"] for name in ("a", "b")] == ["the first", "the second"]


def test_annotations_describe_and_bound_and_go_before_the_docstring() -> None:
    def look(a: Annotated[int, Field(description="of its own", ge=1)]) -> None:
        """Look.

        Args:
            a: of the docstring
        """

    assert schema_of(look)["properties"]["a"] == {"type": "integer", "minimum": 1, "description": "of its own"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (bool, {"type": "boolean"}),
        (Any, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045  as people write it
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (date, {"type": "string", "format": "date"}),
        (Path, {"type": "string", "format": "path"}),
        (Unit, {"$ref": "#/$defs/Unit"}),
        (Place, {"$ref": "#/$defs/Place"}),
        (Span, {"$ref": "#/$defs/Span"}),
        (Options, {"$ref": "#/$defs/Options"}),
    ],
)
def test_usual_types_have_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert property_of(hint) == schema


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, 3, 3),
        (int | None, None, None),
        (Unit, Unit.CELSIUS, "c"),
        (Span, Span(date(2026, 1, 2)), {"first": "2026-01-02", "days": 1}),
    ],
)
def test_a_default_is_shown_as_json(hint: Any, default: Any, shown: Any) -> None:
    assert property_of(hint, default)["default"] == shown


def test_a_default_that_json_has_no_form_for_is_not_shown() -> None:
    assert property_of(Any, object()) == {}


async def test_arguments_arrive_in_the_hinted_types_and_defaults_are_the_functions_own() -> None:
    seen: list[Any] = []
    absent = object()

    async def look(
        place: Place, span: Span, unit: Unit, options: Options, numbers: list[int], other: Any = absent
    ) -> str:
        seen.extend((place, span, unit, options, numbers, other))
        return "seen"

    tool = ToolDef.from_function(look)
    assert tool.callable is not None
    arguments = {
        "place": {"city": "Oslo"}, "span": {"first": "2026-01-02"}, "unit": "f", "options": {"verbose": True},
        "numbers": [1, 2.0],
    }  # fmt: skip

    assert inspect.iscoroutinefunction(tool.callable)
    assert await tool.callable(**arguments) == "seen"
    assert seen == [Place(city="Oslo"), Span(date(2026, 1, 2)), Unit.FAHRENHEIT, {"verbose": True}, [1, 2], absent]


def test_constraints_that_no_schema_expresses_are_described_in_text() -> None:
    def look(day: date) -> None: ...

    tool = ToolDef.from_function(look)
    assert tool.callable is not None

    with pytest.raises(ValueError, match=r"^day: expected a valid date[^\n]*$"):
        tool.callable(day="tomorrow")


def test_text_stays_as_the_model_wrote_it() -> None:
    def look(text: str) -> str:
        return text

    tool = ToolDef.from_function(look)
    assert tool.callable is not None

    assert tool.callable(text=" 007\n") == " 007\n"


class Desk:
    def __init__(self) -> None:
        self.found = 0

    def find(self, customer: str) -> str:
        """Find a customer."""
        self.found += 1
        return customer

    async def __call__(self, customer: str) -> str:
        return customer


def test_methods_of_all_kinds_become_tools() -> None:
    class Office:
        @classmethod
        def of_class(cls, a: int) -> int:
            return a

        @staticmethod
        def of_nobody(a: int) -> int:
            return a

    desk = Desk()
    bound = ToolDef.from_function(desk.find)
    assert bound.callable is not None

    assert (bound.name, bound.spec.description, bound.callable(customer="Anna")) == ("find", "Find a customer.", "Anna")
    assert desk.found == 1
    assert [*schema_of(Office.of_class)["properties"]] == [*schema_of(Office().of_nobody)["properties"]] == ["a"]


async def test_objects_that_can_be_called_and_partial_functions_become_tools() -> None:
    def add(amount: int, customer: str) -> tuple[int, str]:
        """Add something."""
        return amount, customer

    assert [*schema_of(Span)["properties"]] == ["first", "days"]

    called = ToolDef.from_function(Desk(), name="desk")
    partial = ToolDef.from_function(functools.partial(add, customer="Anna"))
    assert called.callable is not None
    assert partial.callable is not None

    assert await called.callable(customer="Bob") == "Bob"
    assert (partial.name, partial.spec.description) == ("add", "Add something.")
    assert [*schema_of(functools.partial(add, customer="Anna"))["properties"]] == ["amount"]
    assert partial.callable(amount=3) == (3, "Anna")


def test_a_decorated_function_is_read_through_its_decorator() -> None:
    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @ToolDef.from_function
    @decorated
    def look(a: int) -> int:
        """Look."""
        return a

    assert (look.name, look.spec.description) == ("look", "Look.")
    assert look.callable is not None
    assert look.callable(a=1) == 1


def test_name_description_and_prerequisites_can_be_given() -> None:
    def look(a: int) -> int:
        """Look."""
        return a

    tool = ToolDef.from_function(look, name="see", description="", prerequisites=["find"])

    assert (tool.name, tool.spec.description, tool.prerequisites) == ("see", "", ["find"])


def positional_only(a: int, /) -> None: ...
def several(*rest: int) -> None: ...
def any_name(**rest: int) -> None: ...
def untyped(a) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore
def without_schema(good: int, a: Callable[[], int]) -> None: ...
def of_a_class(a: Desk) -> None: ...
def one_by_one(a: int) -> Iterator[int]:
    yield a


async def one_by_one_later(a: int) -> AsyncIterator[int]:
    yield a


def field_as_default(a: int = Field(3)) -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (positional_only, "positional_only.a: it is positional-only"),
        (several, "several.rest: a model gives arguments by name"),
        (any_name, "any_name.rest: the schema has to name each argument"),
        (untyped, "untyped.a: it has no type hint: add one"),
        (Desk.find, "find.self: it has no type hint: add one (or pass a bound method)"),
        (without_schema, "without_schema.a: its type has no JSON Schema"),
        (of_a_class, "of_a_class.a: its type has no JSON Schema; use built-in types, enums, dataclasses"),
        (one_by_one, "function: one_by_one is a generator function: return a list instead"),
        (one_by_one_later, "function: one_by_one_later is a generator function: return a list instead"),
        (5, "function: expected a function, got int"),
        ("find", "function: expected a function, got str"),
        (field_as_default, "field_as_default.a: a Field is not a default"),
        (lambda: None, "has no name for the tool: pass name="),
        (Desk(), "has no name for the tool: pass name="),
    ],
)
def test_what_a_model_cannot_give_is_refused_by_name(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        ToolDef.from_function(function)

    assert said in str(caught.value)


def test_a_type_that_cannot_be_found_is_named() -> None:
    def look(a: int) -> None: ...

    look.__annotations__["a"] = "Missing"

    with pytest.raises(InvalidWorkflow, match="look: a type hint cannot be resolved: name 'Missing' is not defined"):
        ToolDef.from_function(look)


def test_such_tools_make_a_workflow() -> None:
    def find(customer: str, unit: Unit = Unit.CELSIUS) -> str:
        return customer

    def finish() -> None: ...

    made = Workflow("w", "", [ToolDef.from_function(find), ToolDef.from_function(finish)], ["find"], "finish", "Hi.")

    assert made.tool_names == ("find", "finish")
