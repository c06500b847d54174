"""Restores the error of a request from its response: the inverse of `errors.classify`."""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.api.errors import ERROR_TABLE
from forge_proxy.core.backend_errors import BackendError
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, is_object

_BY_CODE: Mapping[str, type[ForgeError]] = {
    code: error for error, (_, _, code) in reversed(ERROR_TABLE.items()) if code is not None
}
"""The errors by their codes: of several with the same code, the first one of the table."""


def restore_error(status: int, body: Json) -> ForgeError:
    """Return the error that a response of the chat completions API reports, with its type and its message.

    One with an unknown code is from the model server: a `BackendError`. Other fields of the error are not restored.
    """
    details = body.get("error") if is_object(body) else None
    details = details if is_object(details) else {}
    code, message = details.get("code"), str(details.get("message") or f"status {status}")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    if kind is None:
        error = BackendError("", status, body)
        error.args = (message,)
        return error
    restored = kind.__new__(kind, message)
    restored.args = (message,)
    return restored
