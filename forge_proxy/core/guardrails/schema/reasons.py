"""Converts validation errors to messages such as `days: expected integer, got "three"`. Called by `compiled`.

Wrong values are shown, so a reason is for the model and never for a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jsonschema_rs

from forge_proxy.core.jsontypes import kind_of, write

_MAX_PATH = 120
"""Maximum characters of a path: its keys come from the model."""
_MAX_SHOWN = 60
"""Maximum characters of an invalid value in a message to the model."""
_MAX_OPTIONS = 300
"""Maximum characters of the list of allowed values."""
_MAX_ALTERNATIVES = 600
_MAX_DEPTH = 8
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "pattern": "text that matches {}",
    "format": "the format {}",
    "const": "{}",
}
"""Rules with one number or text each."""


def explain_error(error: jsonschema_rs.ValidationError, depth: int = 0) -> tuple[str, ...]:
    """Return the faults, each as "`path`: reason". A missed alternative yields all faults that it still has."""
    place = _quote_path(error.instance_path) or "arguments"
    facts: dict[str, Any] = error.kind.as_dict()
    match error.kind.name:
        case "required":
            return (f"{_quote_path([*error.instance_path, facts['property']])}: required, missing",)
        case "type":
            return (f"{place}: expected {' or '.join(facts['types'])}, {_describe_instance(error)}",)
        case "enum":
            return (
                f"{place}: expected one of {_cut(write(facts['options']), _MAX_OPTIONS)}, {_describe_instance(error)}",
            )
        case "additionalProperties" | "unevaluatedProperties":
            names = ", ".join(_quote_path([*error.instance_path, name]) for name in facts["unexpected"][:8])
            return (f"{names}: no such parameter",)
        case "anyOf" | "oneOf" if depth < _MAX_DEPTH:
            return _of_alternatives(error, facts["context"], place, depth)
        case name if name in _LIMITS and len(facts) == 1:
            (limit,) = facts.values()
            wanted = limit if name in ("pattern", "format") else write(limit)
            return (
                f"{place}: expected {_LIMITS[name].format(_cut(wanted, _MAX_OPTIONS))}, {_describe_instance(error)}",
            )
        case _:
            return (f"{place}: {error.message if len(error.message) <= 200 else f'breaks the rule {error.kind.name}'}",)


def _of_alternatives(
    error: jsonschema_rs.ValidationError,
    alternatives: Sequence[Sequence[jsonschema_rs.ValidationError]],
    place: str,
    depth: int,
) -> tuple[str, ...]:
    """Return why no alternative matches: the faults of those of the right type, otherwise the types that match."""
    if not all(alternatives):
        return (f"{place}: fits more than one alternative",)
    near: list[Sequence[jsonschema_rs.ValidationError]] = []
    wanted: list[str] = []
    for faults in alternatives:
        of_whole = {fault.kind.name: fault for fault in faults if fault.instance_path == error.instance_path}
        wrong = next((of_whole[rule] for rule in ("type", "const", "enum") if rule in of_whole), None)
        if wrong is None:
            near.append(faults)
        else:
            facts = wrong.kind.as_dict()
            wanted += facts.get("types") or [
                write(value) for value in facts.get("options", [facts.get("expected_value")])
            ]
    if not near:
        return (
            f"{place}: expected {_cut(' or '.join(dict.fromkeys(wanted)), _MAX_OPTIONS)}, {_describe_instance(error)}",
        )
    # Alternatives often differ by a constant (a discriminator): the one whose constant matches is the intended one.
    near = [faults for faults in near if all(fault.kind.name != "const" for fault in faults)] or near
    lacking = [tuple(reason for fault in faults for reason in explain_error(fault, depth + 1)) for faults in near[:3]]
    if len(near) == 1:
        return lacking[0]
    each = " or ".join(" and ".join(reasons[:3]) for reasons in lacking)
    return (f"{place}: fits no alternative: {_cut(each, _MAX_ALTERNATIVES)}",)


def render_path(parts: Iterable[str | int]) -> str:
    """Return the path of a value inside arguments, such as `filters[0].name`; empty for the arguments as a whole."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part[:_MAX_PATH]}" if path else part[:_MAX_PATH]
        if len(path) > _MAX_PATH:
            path = f"{path[:_MAX_PATH]}…"
            break
    if path.isprintable():
        return path
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)


def _quote_path(path: Sequence[str | int]) -> str:
    return f"`{render_path(path)}`" if path else ""


def _describe_instance(error: jsonschema_rs.ValidationError) -> str:
    return f"got {_render(error.instance)}"


def _render(value: object) -> str:
    """Render a scalar as JSON, truncated if it is long; of an object or array only the type."""
    if isinstance(value, str | int | float | bool):
        return write(value)[:_MAX_SHOWN]
    return kind_of(value)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
