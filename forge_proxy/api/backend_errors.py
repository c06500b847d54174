"""Classify HTTP errors of the model server: which are the client's to solve, and which are the server's fault."""

from __future__ import annotations

from forge_proxy.core.backend_errors import BackendError, ContextOverflow, ToolsRejected
from forge_proxy.core.jsontypes import is_object
from forge_proxy.wire.clients.errors import ClassifiedError

_FORWARDED = frozenset({400, 413, 422, 429})
"""Statuses below 500 that concern the request or that the client can act on. The others concern the daemon or
the model server.
"""
_AUTH = frozenset({401, 402, 403, 407})
"""The server rejects the daemon's key. A client would read a 401 as a rejection of its own key and prompt its user."""
_REPLACEMENTS = {408: 504, 409: 503, 425: 503}
"""Statuses for errors that a client should retry later; they do not blame its request. 502 if not listed."""


def classify_backend_error(error: BackendError) -> ClassifiedError:
    """Keep the model server's message, and its status if that concerns the request."""
    if isinstance(error, ContextOverflow):
        return _overflow(error)
    if isinstance(error, ToolsRejected):
        return _tools_rejected(error)
    inner = error.body.get("error") if is_object(error.body) else None
    details = inner if is_object(inner) else {}
    kind, code, param = details.get("type"), details.get("code"), details.get("param")
    status = _status_of(error)
    if status != error.status:
        return _server_fault(error, status)
    fallback = "invalid_request_error" if status < 500 else "server_error"
    if status == 404:
        code = code if isinstance(code, str) else "model_not_found"
    return ClassifiedError(
        status,
        kind if isinstance(kind, str) else fallback,
        code if isinstance(code, str) else None,
        _unknown_model_message(error) if status == 404 else error.server_message,
        param if isinstance(param, str) else None,
        error.headers,
    )


def _status_of(error: BackendError) -> int:
    """Return the status that the client receives if the model server responded with an error."""
    if error.status >= 500 or error.status in _FORWARDED or (error.status == 404 and error.is_about_model):
        return error.status
    return _REPLACEMENTS.get(error.status, 502)


def _server_fault(error: BackendError, status: int) -> ClassifiedError:
    hint, headers = "", error.headers
    if error.status in _AUTH:
        headers = {**headers, "x-should-retry": "false"}
    elif error.status == 404:
        hint, headers = "; check the path of backend.url", {**headers, "x-should-retry": "false"}
    code = "backend_refused_key" if error.status in _AUTH else "backend_error"
    return ClassifiedError(status, "server_error", code, f"{error}{hint}", headers=headers)


def _unknown_model_message(error: BackendError) -> str:
    """Return the model server's message with a remedy, unless it has one."""
    remedy = "GET /v1/models lists the models; backend.model sets the one for unknown names"
    return error.server_message if "ollama pull" in error.server_message else f"{error.server_message} ({remedy})"


def _overflow(error: ContextOverflow) -> ClassifiedError:
    """Return the status, code and sentence that make clients compact, followed by the model server's message."""
    message = error.server_message
    if error.tokens is not None and error.window is not None and "maximum context length is" not in message:
        message = (
            f"This model's maximum context length is {error.window} tokens. However, your messages resulted in "
            f"{error.tokens} tokens. Please reduce the length of the messages. The model server says: {message}"
        )
    code, param = "context_length_exceeded", "messages"
    return ClassifiedError(
        400, "invalid_request_error", code, message, param, prompt_tokens=error.tokens, window=error.window
    )


def _tools_rejected(error: ToolsRejected) -> ClassifiedError:
    if error.place is None:
        subject, remedy, param = f"the {error.offered} tools together", "offer fewer or simpler ones", "tools"
    else:
        subject, remedy = f"the tool {error.tool!r}", "simplify its parameters or omit it"
        param = f"tools[{error.place}].function.parameters"
    message = f"{subject} cannot be used with this model server, not even with simplified schemas; {remedy}. It says: "
    kind, code = "invalid_request_error", "invalid_function_parameters"
    return ClassifiedError(400, kind, code, message + error.server_message, param)
