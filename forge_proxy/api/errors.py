"""Map errors to HTTP responses. This is the only module that knows which status an error has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from forge_proxy.api.access_denied import (
    AdminDisabled,
    AmbiguousHeaders,
    BodyTimeout,
    BodyTooLarge,
    CompressedBody,
    ForeignHost,
    ForeignOrigin,
    HeadTimeout,
    HeadTooLarge,
    NotHttp,
    NotJson,
    TooManyConnections,
    TooManyHeaders,
    TooManyValues,
    WrongKey,
)
from forge_proxy.api.admin.ports import NotManaged, WrongSettings
from forge_proxy.api.disconnect import ShuttingDown
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.errors import (
    BackendBroke,
    BackendDown,
    BackendError,
    BackendFault,
    BackendLost,
    BackendNotReady,
    BackendTimeout,
    BackendUnreachable,
    BudgetUnchanged,
    ContextBudgetExceeded,
    ContextOverflow,
    EmptyAnswer,
    ForgeError,
    InvalidRequest,
    ModelNotLoaded,
    OutOfMemory,
    Overloaded,
    ResponseTooLarge,
    ToolCallInvalid,
    ToolChoiceUnsatisfied,
    ToolsRejected,
    UnknownModel,
)
from forge_proxy.core.jsontypes import JsonObject, is_object
from forge_proxy.core.sampling import UnsupportedModelError
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.engine.memory import MemoryFull, TooLargeForMemory
from forge_proxy.wire.clients.chat_completions.errors import encode_error
from forge_proxy.workflows.runs.errors import RunConflict, RunNotFound, RunNotReadable
from forge_proxy.workflows.tool_registry import ToolUnusable

_LOG = logging.getLogger("forge_proxy.api")


class ErrorResponse(NamedTuple):
    """An error as it is sent to the client."""

    status: int
    body: JsonObject
    headers: Mapping[str, str]


_TABLE: dict[type[ForgeError], tuple[int, str, str | None]] = {
    InvalidRequest: (400, "invalid_request_error", None),
    ContextBudgetExceeded: (400, "invalid_request_error", "context_length_exceeded"),
    BudgetUnchanged: (502, "server_error", "budget_unchanged"),
    UnsupportedModelError: (400, "invalid_request_error", "unsupported_model"),
    UnknownModel: (404, "invalid_request_error", "model_not_found"),
    OutOfMemory: (503, "server_error", "out_of_memory"),
    Overloaded: (429, "rate_limit_error", "rate_limit_exceeded"),
    BackendUnreachable: (502, "server_error", "backend_unreachable"),
    BackendTimeout: (504, "server_error", "backend_timeout"),
    BackendBroke: (502, "server_error", "backend_broke_off"),
    ResponseTooLarge: (502, "server_error", "response_too_large"),
    BackendLost: (503, "server_error", "backend_restarting"),
    BackendNotReady: (503, "server_error", "backend_loading"),
    BackendDown: (503, "server_error", "backend_down"),
    ModelNotLoaded: (503, "server_error", "model_not_loaded"),
    BackendFault: (502, "server_error", "backend_error"),
    ToolChoiceUnsatisfied: (502, "server_error", "tool_choice_unsatisfied"),
    ToolCallInvalid: (502, "server_error", "tool_call_invalid"),
    EmptyAnswer: (502, "server_error", "empty_answer"),
    WrongKey: (401, "invalid_request_error", "invalid_api_key"),
    ForeignHost: (403, "invalid_request_error", "host_not_allowed"),
    ForeignOrigin: (403, "invalid_request_error", "origin_not_allowed"),
    BodyTooLarge: (413, "invalid_request_error", "body_too_large"),
    TooManyValues: (413, "invalid_request_error", "body_too_large"),
    TooLargeForMemory: (413, "invalid_request_error", "body_too_large"),
    MemoryFull: (503, "server_error", "memory_full"),
    CompressedBody: (415, "invalid_request_error", None),
    NotJson: (415, "invalid_request_error", None),
    HeadTooLarge: (431, "invalid_request_error", "headers_too_large"),
    TooManyHeaders: (431, "invalid_request_error", "headers_too_large"),
    HeadTimeout: (408, "invalid_request_error", "request_timeout"),
    BodyTimeout: (408, "invalid_request_error", "request_timeout"),
    TooManyConnections: (503, "server_error", "too_many_connections"),
    AmbiguousHeaders: (400, "invalid_request_error", None),
    NotHttp: (400, "invalid_request_error", None),
    AdminDisabled: (403, "invalid_request_error", "admin_closed"),
    NotManaged: (409, "invalid_request_error", "backend_not_managed"),
    WrongSettings: (400, "invalid_request_error", "wrong_settings"),
    RunNotFound: (404, "invalid_request_error", "run_not_found"),
    RunConflict: (409, "invalid_request_error", "run_conflict"),
    RunNotReadable: (409, "invalid_request_error", "run_not_readable"),
    ToolUnusable: (502, "server_error", "tool_unusable"),
    StoreUnavailable: (503, "server_error", "store_unavailable"),
    ShuttingDown: (503, "server_error", "stopping"),
    ForgeError: (500, "server_error", "internal_error"),
}


def render(error: ForgeError) -> ErrorResponse:
    """Return the status, body and headers of an error, in OpenAI's format."""
    if isinstance(error, BackendError):
        return _backend_error(error)
    status, kind, code = next(_TABLE[cls] for cls in type(error).__mro__ if cls in _TABLE)
    param = error.at if isinstance(error, InvalidRequest) else None
    param = "messages" if isinstance(error, ContextBudgetExceeded) else param
    return ErrorResponse(status, encode_error(str(error), kind, code, param), _headers_for(error))


def _headers_for(error: ForgeError) -> Mapping[str, str]:
    if isinstance(error, Overloaded | BackendLost | BackendNotReady | ModelNotLoaded | MemoryFull | StoreUnavailable):
        return {"retry-after": str(error.seconds)}
    if isinstance(error, BackendDown):  # the server stays down until its operator acts
        return {"x-should-retry": "false"}
    if isinstance(error, ToolChoiceUnsatisfied | ToolCallInvalid | EmptyAnswer):
        # The daemon has already retried; without this header, OpenAI's SDKs would repeat the whole request twice.
        return {"x-forge-attempts": str(error.attempts), "x-should-retry": "false"}
    return {}


_PASSED_ON = frozenset({400, 413, 422, 429})
"""Statuses below 500 that concern the request or that the client can act on. The others concern the daemon or
the model server.
"""
_AUTH = frozenset({401, 402, 403, 407})
"""The server rejects the daemon's key. A client would read a 401 as a rejection of its own key and prompt its user."""
_INSTEAD = {408: 504, 409: 503, 425: 503}
"""Statuses for errors that a client should retry later; they do not blame its request. 502 if not listed."""


def _backend_error(error: BackendError) -> ErrorResponse:
    """Render the model server's message in OpenAI's format; keep its status if that concerns the request."""
    if isinstance(error, ContextOverflow):
        return _overflow(error)
    if isinstance(error, ToolsRejected):
        return _tools_rejected(error)
    inner = error.body.get("error") if is_object(error.body) else None
    details = inner if is_object(inner) else {}
    kind, code, param = details.get("type"), details.get("code"), details.get("param")
    status = _status_of(error)
    if status != error.status:
        return _blamed_on_server(error, status)
    fallback = "invalid_request_error" if status < 500 else "server_error"
    if status == 404:
        code = code if isinstance(code, str) else "model_not_found"
    body = encode_error(
        _model_missing(error) if status == 404 else error.server_message,
        kind if isinstance(kind, str) else fallback,
        code if isinstance(code, str) else None,
        param if isinstance(param, str) else None,
    )
    return ErrorResponse(status, body, error.headers)


def _status_of(error: BackendError) -> int:
    """Return the status that the client receives if the model server responded with an error."""
    if error.status >= 500 or error.status in _PASSED_ON or (error.status == 404 and error.is_about_model):
        return error.status
    return _INSTEAD.get(error.status, 502)


def _blamed_on_server(error: BackendError, status: int) -> ErrorResponse:
    hint, headers = "", error.headers
    if error.status in _AUTH:
        headers = {**headers, "x-should-retry": "false"}
    elif error.status == 404:
        hint, headers = "; check the path of backend.url", {**headers, "x-should-retry": "false"}
    code = "backend_refused_key" if error.status in _AUTH else "backend_error"
    return ErrorResponse(status, encode_error(f"{error}{hint}", "server_error", code), headers)


def _model_missing(error: BackendError) -> str:
    remedy = "GET /v1/models lists what there is, and backend.model names what stands in for other names"
    return error.server_message if "ollama pull" in error.server_message else f"{error.server_message} ({remedy})"


def _overflow(error: ContextOverflow) -> ErrorResponse:
    """Render the status, code and sentence that make clients compact, followed by the model server's message."""
    sentence = error.server_message
    if error.tokens is not None and error.window is not None and "maximum context length is" not in sentence:
        sentence = (
            f"This model's maximum context length is {error.window} tokens. However, your messages resulted in "
            f"{error.tokens} tokens. Please reduce the length of the messages. The model server says: {sentence}"
        )
    return ErrorResponse(
        400, encode_error(sentence, "invalid_request_error", "context_length_exceeded", "messages"), {}
    )


def _tools_rejected(error: ToolsRejected) -> ErrorResponse:
    if error.place is None:
        subject, remedy, param = f"the {error.offered} tools together", "offer fewer or simpler ones", "tools"
    else:
        subject, remedy = f"the tool {error.tool!r}", "simplify its parameters or leave it out"
        param = f"tools[{error.place}].function.parameters"
    sentence = f"{subject} cannot be used with this model server, not even with simplified schemas; {remedy}. It says: "
    kind, code = "invalid_request_error", "invalid_function_parameters"
    return ErrorResponse(400, encode_error(sentence + error.server_message, kind, code, param), {})


def error_response(error: ForgeError, headers: Mapping[str, str]) -> JSONResponse:
    """Return the response to a request that ended in `error`."""
    rendered = render(error)
    return JSONResponse(rendered.body, rendered.status, {**rendered.headers, **headers})


async def refuse(
    error: ForgeError, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str] | None = None
) -> None:
    """Reject a request before it reaches the application, and log it."""
    request_id = request_id_of(Request(scope))
    log_refused(error, request_id, scope)
    await error_response(error, {**(headers or {}), "x-request-id": request_id})(scope, receive, send)


def log_refused(error: ForgeError, request_id: str, scope: Scope) -> None:
    """Log one line about a rejected request."""
    fields = {"event": "refused", "request_id": request_id, "path": scope["path"], "error": error.summary}
    _LOG.warning("refused %s: %s", fields["path"], fields["error"], extra={"fields": fields})
