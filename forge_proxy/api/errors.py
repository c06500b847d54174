"""Classify errors and respond with them. This is the only module that knows which status an error has.

A client API (`api/surface.py`) decides the format of an error response, the classification decides everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

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
from forge_proxy.api.backend_errors import classify_backend_error
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
    EmptyAnswer,
    ForgeError,
    InvalidRequest,
    ModelNotLoaded,
    OutOfMemory,
    Overloaded,
    ResponseTooLarge,
    ToolCallInvalid,
    ToolChoiceUnsatisfied,
    UnknownModel,
)
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.sampling import UnsupportedModelError
from forge_proxy.engine.memory import MemoryFull, TooLargeForMemory
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.workflows.runs.errors import NotReadable, RunConflict, RunNotFound, StoreUnavailable, ToolUnusable

_LOG = logging.getLogger("forge_proxy.api")
_SCOPE_KEY = "forge_proxy.error"

Envelope: TypeAlias = Callable[[ClassifiedError], JsonObject]
"""Encodes an error in the format of a client API."""

ERROR_TABLE: dict[type[ForgeError], tuple[int, str, str | None]] = {
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
    NotReadable: (409, "invalid_request_error", "run_not_readable"),
    ToolUnusable: (502, "server_error", "tool_unusable"),
    StoreUnavailable: (503, "server_error", "store_unavailable"),
    ShuttingDown: (503, "server_error", "stopping"),
    ForgeError: (500, "server_error", "internal_error"),
}
"""Status, kind and code of each error; a subclass without an entry has those of its base class."""


def classify(error: ForgeError) -> ClassifiedError:
    """Return the status, kind, code, message and headers of an error."""
    if isinstance(error, BackendError):
        return classify_backend_error(error)
    status, kind, code = next(ERROR_TABLE[cls] for cls in type(error).__mro__ if cls in ERROR_TABLE)
    param = error.at if isinstance(error, InvalidRequest) else None
    param = "messages" if isinstance(error, ContextBudgetExceeded) else param
    return ClassifiedError(status, kind, code, str(error), param, _headers_for(error))


def _headers_for(error: ForgeError) -> Mapping[str, str]:
    if isinstance(error, Overloaded | BackendLost | BackendNotReady | ModelNotLoaded | MemoryFull | StoreUnavailable):
        return {"retry-after": str(error.seconds)}
    if isinstance(error, BackendDown):  # the server stays down until its operator acts
        return {"x-should-retry": "false"}
    if isinstance(error, ToolChoiceUnsatisfied | ToolCallInvalid | EmptyAnswer):
        # The daemon has already retried; without this header, OpenAI's SDKs would repeat the whole request twice.
        return {"x-forge-attempts": str(error.attempts), "x-should-retry": "false"}
    return {}


class ErrorEnvelopes:
    """The envelope of each path: that of the client API whose prefix the path has, else `default`.

    By this rule errors before a route is reached (unknown path, wrong key, large body) have the right format, too.
    """

    def __init__(self, by_prefix: Mapping[str, Envelope], default: Envelope) -> None:
        self._by_prefix = sorted(by_prefix.items(), key=lambda entry: len(entry[0]), reverse=True)
        self._default = default

    def envelope_for(self, path: str) -> Envelope:
        """Return the envelope of the longest prefix. Prefixes end at a slash: `/v1/chat` is none of `/v1/chatty`."""
        for prefix, envelope in self._by_prefix:
            if path == prefix or path.startswith(f"{prefix}/"):
                return envelope
        return self._default


class ErrorResponse(JSONResponse):
    """The response to a request that ended in an error, in the envelope of its path."""

    def __init__(self, error: ClassifiedError, scope: Scope, headers: Mapping[str, str]) -> None:
        envelopes: ErrorEnvelopes = scope["app"].state.error_envelopes
        encode = envelopes.envelope_for(scope["path"])
        super().__init__(encode(error), error.status, {**error.headers, **headers})
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and leave the error in the scope for the log."""
        scope[_SCOPE_KEY] = self._error
        await super().__call__(scope, receive, send)


def error_response(error: ForgeError, scope: Scope, headers: Mapping[str, str]) -> ErrorResponse:
    """Return the response to a request that ended in `error`."""
    return ErrorResponse(classify(error), scope, headers)


def sent_error(scope: Scope) -> ClassifiedError | None:
    """Return the error that was sent in response to a request."""
    return scope.get(_SCOPE_KEY)


async def refuse(
    error: ForgeError, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str] | None = None
) -> None:
    """Respond with an error before the request reaches the application, and log it as `refused`."""
    request_id = request_id_of(Request(scope))
    log_refused(error, request_id, scope)
    response = error_response(error, scope, {**(headers or {}), "x-request-id": request_id})
    await response(scope, receive, send)


def log_refused(error: ForgeError, request_id: str, scope: Scope) -> None:
    """Log the rejection of a request."""
    fields = {"event": "refused", "request_id": request_id, "path": scope["path"], "error": error.summary}
    _LOG.warning("refused %s: %s", fields["path"], fields["error"], extra={"log_fields": fields})
