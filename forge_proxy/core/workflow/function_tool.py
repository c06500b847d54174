"""Derives a tool from a Python function: the schema from its type hints, the descriptions from its docstring.

For `ToolDef.from_function`. Imported on first use: most programs that import a workflow need no docstring parser.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NotRequired

import docstring_parser
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.validation import describe_fault
from forge_proxy.core.workflow.errors import InvalidWorkflow

_UNSUPPORTED_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "it is positional-only, and a model gives arguments by name: remove the /",
    inspect.Parameter.VAR_POSITIONAL: "a model gives arguments by name: use a separate parameter for a list",
    inspect.Parameter.VAR_KEYWORD: "the schema has to name each argument: use a separate parameter for a dict",
}


def derive_tool(
    function: Callable[..., Any], name: str | None = None, description: str | None = None
) -> tuple[ToolSpec, Callable[..., Any]]:
    """Return the tool's specification, and a function that converts the arguments from JSON before the call.

    Arguments are converted to the types of the function's hints. Raises `InvalidWorkflow`, which names the parameter.
    """
    _check_function(function)
    name = name or _name_of(function)
    parameters = _parameters_of(function, name)
    hints = _resolve_hints(function, name)
    for parameter in parameters.values():
        _check_parameter(parameter, hints, name)
    summary, notes = _read_docstring(function)
    adapter = _build_adapter({one: hints[one] for one in parameters}, parameters, name)
    schema = adapter.json_schema(schema_generator=_Schema)
    for one, parameter in parameters.items():
        property_schema = schema["properties"][one]
        if notes.get(one):
            property_schema.setdefault("description", notes[one])
        if parameter.default is not parameter.empty:
            _add_default(property_schema, parameter.default)
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    spec = ToolSpec.from_json_schema(name, summary if description is None else description, kept)
    return spec, _convert_arguments(function, adapter)


def _check_function(function: object) -> None:
    """Raise `InvalidWorkflow` for an object that cannot be called, or has no single result."""
    if not callable(function):
        raise InvalidWorkflow("function", f"expected a function, got {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidWorkflow("function", f"{_name_of(function)} is a generator function: return a list instead")


class _Schema(GenerateJsonSchema):
    """JSON Schema without titles, which repeat the names of the parameters and cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _name_of(function: Callable[..., Any]) -> str:
    target = function.func if isinstance(function, functools.partial) else function
    name: object = getattr(target, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidWorkflow("name", f"{function!r} has no name for the tool: pass name=…")
    return name


def _parameters_of(function: Callable[..., Any], name: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters that the model provides: all except those that `functools.partial` has bound."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidWorkflow(name, f"its parameters cannot be read: {error}") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return {one: parameter for one, parameter in signature.parameters.items() if one not in bound}


def _resolve_hints(function: Callable[..., Any], name: str) -> Mapping[str, Any]:
    target: Any = function.func if isinstance(function, functools.partial) else function
    if inspect.isclass(target):
        target = target.__init__
    elif not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        why = f"a type hint cannot be resolved: {error}; define the type at the top of its module"
        raise InvalidWorkflow(name, why) from error
    except TypeError as error:
        raise InvalidWorkflow(name, f"its type hints cannot be read: {error}") from error


def _check_parameter(parameter: inspect.Parameter, hints: Mapping[str, Any], name: str) -> None:
    at = f"{name}.{parameter.name}"
    if parameter.kind in _UNSUPPORTED_KINDS:
        raise InvalidWorkflow(at, _UNSUPPORTED_KINDS[parameter.kind])
    if parameter.name not in hints:
        unbound = " (or pass a bound method)" if parameter.name in ("self", "cls") else ""
        raise InvalidWorkflow(at, f"it has no type hint: add one{unbound}")
    if isinstance(parameter.default, FieldInfo):
        raise InvalidWorkflow(at, "a Field is not a default: write Annotated[…, Field(…)] followed by the default")


def _build_adapter(
    hints: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter], name: str
) -> TypeAdapter[dict[str, Any]]:
    """Build the validator of all arguments. Raises `InvalidWorkflow` for a type that has no JSON Schema."""
    fields = {
        one: hint if parameters[one].default is inspect.Parameter.empty else NotRequired[hint]
        for one, hint in hints.items()
    }
    arguments: Any = TypedDict("arguments", fields)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    arguments.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        adapter = TypeAdapter[dict[str, Any]](arguments)
        adapter.json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as error:
        wrong = next((one for one, hint in hints.items() if not _has_schema(hint)), "")
        at = f"{name}.{wrong}" if wrong else name
        raise InvalidWorkflow(at, f"its type has no JSON Schema{_advise(error)}") from error
    return adapter


def _has_schema(hint: Any) -> bool:
    try:
        TypeAdapter[Any](hint).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, PydanticUndefinedAnnotation):
        return False
    return True


def _advise(error: Exception) -> str:
    """Return what to do about a type. pydantic's own advice on unknown classes is about its models."""
    if isinstance(error, PydanticSchemaGenerationError):
        return "; use built-in types, enums, dataclasses, TypedDicts or pydantic models"
    return f": {str(error).strip().splitlines()[0].rstrip('.')}"


def _add_default(schema: dict[str, Any], default: object) -> None:
    """Add a default for the model to read, if JSON can represent it. The function's own default applies."""
    try:
        schema["default"] = to_jsonable_python(default)
    except (PydanticSerializationError, ValueError):
        schema.pop("default", None)


def _read_docstring(function: Callable[..., Any]) -> tuple[str, Mapping[str, str]]:
    """Return the description and those of the parameters, from Google, NumPy, Sphinx or Epydoc style."""
    text = inspect.getdoc(function.func if isinstance(function, functools.partial) else function) or ""
    try:
        read = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text.strip(), {}
    notes = {
        one.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in read.params
        if parameter.description
        for one in parameter.arg_name.split(",")
    }
    return "\n\n".join(part.strip() for part in (read.short_description, read.long_description) if part), notes


def _convert_arguments(function: Callable[..., Any], adapter: TypeAdapter[dict[str, Any]]) -> Callable[..., Any]:
    def read(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return adapter.validate_python(arguments)
        except ValidationError as error:
            wrong = [
                f"{'.'.join(map(str, one['loc']))}: {describe_fault(one)}" for one in error.errors(include_url=False)
            ]
            raise ValueError("; ".join(wrong)) from error

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004

        @functools.wraps(function)
        async def invoke_async(**arguments: Any) -> Any:
            return await function(**read(arguments))

        return invoke_async

    @functools.wraps(function)
    def invoke(**arguments: Any) -> Any:
        return function(**read(arguments))

    return invoke
