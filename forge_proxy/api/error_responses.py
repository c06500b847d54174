"""Respond with errors, in the envelope of the client API that the request's path belongs to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from forge_proxy.api.errors import classify
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.clients.errors import ClassifiedError

_LOG = logging.getLogger("forge_proxy.api")
_SCOPE_KEY = "forge_proxy.error"

Envelope: TypeAlias = Callable[[ClassifiedError], JsonObject]
"""Encodes an error in the format of a client API."""


class ErrorEnvelopes:
    """The envelope of each path: that of the client API whose prefix the path has, else `default`.

    By this rule errors before a route is reached (unknown path, wrong key, large body) have the right format, too.
    """

    def __init__(self, by_prefix: Mapping[str, Envelope], default: Envelope) -> None:
        self._by_prefix = sorted(by_prefix.items(), key=lambda entry: len(entry[0]), reverse=True)
        self._default = default

    def envelope_for(self, path: str) -> Envelope:
        """Return the envelope of the longest prefix. It ends at a slash: `/v1/chat` is not a prefix of `/v1/chatty`."""
        for prefix, envelope in self._by_prefix:
            if path == prefix or path.startswith(f"{prefix}/"):
                return envelope
        return self._default


class ErrorResponse(JSONResponse):
    """The response to a request that ended in an error, in the envelope of its path."""

    def __init__(self, error: ClassifiedError, scope: Scope, headers: Mapping[str, str]) -> None:
        envelopes: ErrorEnvelopes = scope["app"].state.error_envelopes
        encode = envelopes.envelope_for(scope["path"])
        body = encode(error._replace(request_id=headers.get("x-request-id")))
        super().__init__(body, error.status, {**error.headers, **headers})
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and leave the error in the scope for the log."""
        scope[_SCOPE_KEY] = self._error
        await super().__call__(scope, receive, send)


def error_response(error: ForgeError, scope: Scope, headers: Mapping[str, str]) -> ErrorResponse:
    """Return the response to a request that ended in `error`."""
    return ErrorResponse(classify(error), scope, headers)


def find_sent_error(scope: Scope) -> ClassifiedError | None:
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
