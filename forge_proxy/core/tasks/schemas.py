"""JSON Schemas of responses, hardened for small models: all fields required, no further ones, no recursion, and the
paths of the write scope as an enumeration, so that a grammar cannot produce another path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.tasks.models import CapabilityTier

_TEXT: JsonObject = {"type": "string"}
_ID: JsonObject = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$"}


def files_schema(paths: Sequence[str] | None, existing: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of an `LLMResponse`.

    `paths` are those that may be written; None if patterns permit further ones. `existing` are those of them that can
    be edited. If there are none, the response has new files only.
    """
    new_file = _object({"path": _path(paths), "content": _TEXT})
    if existing is not None and not existing:
        return _object({"explanation": _TEXT, "files": _list(new_file), "edits": _empty_list()})
    edit = _object({"search": {"type": "string", "minLength": 1}, "replace": _TEXT})
    edits = _object({"path": _path(existing if existing is not None else paths), "edits": _list(edit)})
    # An empty response is neither of the two.
    return {
        "anyOf": [
            _object({"explanation": _TEXT, "files": _list(new_file, 0), "edits": _list(edits)}),
            _object({"explanation": _TEXT, "files": _list(new_file), "edits": _empty_list()}),
        ]
    }


def plan_schema(depth: int) -> JsonObject:
    """Return the schema of a `Plan` whose steps may have sub-tasks, nested up to `depth`."""
    tiers: list[Json] = [tier.value for tier in CapabilityTier]
    step: dict[str, Json] = {
        "id": _ID,
        "description": {"type": "string", "minLength": 1},
        "target_files": _list(_TEXT),
        "context_files": _list(_TEXT, 0),
        "capability_tier": {"type": "string", "enum": tiers},
    }
    if depth > 0:
        step["sub_tasks"] = _list(_sub_task_schema(depth), 0)
    if depth > 1:
        step["max_fan_out_depth"] = {"type": "integer", "enum": [*range(depth + 1)]}
    return _object({"explanation": _TEXT, "steps": _list(_object(step))})


def _sub_task_schema(depth: int) -> JsonObject:
    fields: dict[str, Json] = {
        "id": _ID,
        "description": {"type": "string", "minLength": 1},
        "target_files": _list(_TEXT),
        "context_files": _list(_TEXT, 0),
    }
    if depth > 1:
        fields["sub_tasks"] = _list(_sub_task_schema(depth - 1), 0)
    return _object(fields)


def _object(fields: Mapping[str, Json]) -> JsonObject:
    required: list[Json] = [*fields]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _list(items: JsonObject, least: int = 1) -> JsonObject:
    return {"type": "array", "items": items, "minItems": least}


def _empty_list() -> JsonObject:
    return {"type": "array", "items": _TEXT, "maxItems": 0}


def _path(paths: Sequence[str] | None) -> JsonObject:
    if not paths:
        return _TEXT
    names: list[Json] = [*paths]
    return {"type": "string", "enum": names}
