"""Checks that the function of a tool accepts the arguments of the tool's schema. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import is_list, is_object


def find_signature_fault(spec: ToolSpec, function: Callable[..., Any]) -> str | None:
    """Return why some valid call could not be executed; None if the function fits or its signature is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        return None
    if isinstance(spec.parameters, bool) or not is_object(properties := spec.parameters.get("properties")):
        return None  # the schema allows any argument
    listed = spec.parameters.get("required")
    required = listed if is_list(listed) else []
    signature_text = f"{getattr(function, '__name__', 'the function')}{signature}"
    takes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    by_name = {
        one.name for one in signature.parameters.values() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    for name in properties:
        if name not in by_name and not takes_all:
            return f"the schema has an argument {name!r}, which {signature_text} does not take by name"
    for parameter in signature.parameters.values():
        if parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        if parameter.name not in properties or parameter.kind is parameter.POSITIONAL_ONLY:
            return f"{signature_text} needs {parameter.name!r}, which the schema does not have as an argument"
        if parameter.name not in required:
            return (
                f"{signature_text} needs {parameter.name!r}, which the schema does not require: add it to its required,"
                " or give the parameter a default"
            )
    return None
