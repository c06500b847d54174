"""Completion of a recovered call's arguments by the schema of its tool: types of raw text, names of positional ones."""

from __future__ import annotations

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.argument_typing import type_arguments
from forge_proxy.core.jsontypes import Json, is_list, is_object, write
from forge_proxy.core.rescue import RecoveredCall

_WRAPPERS = ("arguments", "args", "parameters", "input")


def meant_arguments(schema: Schema, found: RecoveredCall) -> str:
    """Return the arguments as JSON text, unchanged if the call's form states all types and names."""
    args = found.call.args()
    if args is None:
        return found.call.arguments
    meant = type_arguments(schema, args, found.untyped) if found.untyped else args
    meant = _unwrapped(schema, _named(schema, meant, found.positional))
    return found.call.arguments if meant is args else write(meant)


def _named(schema: Schema, args: dict[str, Json], positional: int) -> dict[str, Json]:
    """Name positional arguments by the parameters in order, required ones first.

    Returns the arguments unchanged if there are more of them than parameters.
    """
    if not positional:
        return args
    free = [name for name in _parameters(schema) if name not in args]
    if positional > len(free):
        return args
    names = {str(place): free[place] for place in range(positional)}
    return {names.get(key, key): value for key, value in args.items()}


def _parameters(schema: Schema) -> list[str]:
    properties = schema.get("properties") if is_object(schema) else None
    required = schema.get("required") if is_object(schema) else None
    known = list(properties) if is_object(properties) else []
    first = [name for name in required if isinstance(name, str) and name in known] if is_list(required) else []
    return [*first, *(name for name in known if name not in first)] if len(first) == 1 else known


def _unwrapped(schema: Schema, args: dict[str, Json]) -> dict[str, Json]:
    """Unwrap arguments that are nested in a single parameter that the tool does not have."""
    if len(args) != 1:
        return args
    ((key, value),) = args.items()
    return value if key in _WRAPPERS and key not in _parameters(schema) and is_object(value) else args
