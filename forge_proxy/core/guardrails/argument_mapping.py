"""The arguments a rescued call was meant to have, where its form left something for the schema to say: the types of raw
text, and the names of arguments that were given by their place.
"""

from __future__ import annotations

from forge_proxy.core.chat import Schema
from forge_proxy.core.guardrails.argument_typing import type_arguments
from forge_proxy.core.jsontypes import Json, is_list, is_object, write
from forge_proxy.core.rescue import RecoveredCall

_WRAPPERS = ("arguments", "args", "parameters", "input")


def meant_arguments(schema: Schema, found: RecoveredCall) -> str:
    """The arguments as JSON text, to the letter as they were written where the form left nothing open."""
    args = found.call.args()
    if args is None:
        return found.call.arguments
    meant = type_arguments(schema, args, found.untyped) if found.untyped else args
    meant = _unwrapped(schema, _named(schema, meant, found.positional))
    return found.call.arguments if meant is args else write(meant)


def _named(schema: Schema, args: dict[str, Json], positional: int) -> dict[str, Json]:
    """The arguments under their names: those given by place get the names of the parameters in their order, required
    ones first. As they are where there are more of them than parameters.
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
    """The arguments out of the one parameter they were put into, which the tool does not have."""
    if len(args) != 1:
        return args
    ((key, value),) = args.items()
    return value if key in _WRAPPERS and key not in _parameters(schema) and is_object(value) else args
