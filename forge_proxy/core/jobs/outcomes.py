"""The outcome of a job, as JSON. A failed job of any kind has the same fields; the results are the kind's own."""

from __future__ import annotations

import orjson

from forge_proxy.core.jsontypes import Json, is_object


def write_error(name: str, message: str) -> str:
    """Serialize the outcome of a job that failed with the error `name`."""
    return orjson.dumps({"kind": "error", "type": name, "message": message, "fields": {}}).decode()


def read_outcome(text: str | None) -> Json:
    """Parse an outcome; None if there is none."""
    return None if text is None else orjson.loads(text)


def read_error_type(text: str | None) -> str | None:
    """Return the name of the error that an outcome reports; None if it is a result."""
    outcome = read_outcome(text)
    if not is_object(outcome) or outcome.get("kind") != "error":
        return None
    return str(outcome.get("type"))
