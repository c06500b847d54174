"""Handlers for exceptions that routes raise, and for requests that match no route."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from forge_proxy.api.error_responses import ErrorResponse, error_response, log_refused
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.errors import ForgeError, InvalidRequest, OutOfMemory
from forge_proxy.core.validation import iter_fields, to_invalid_request
from forge_proxy.wire.clients.errors import ClassifiedError

_MAX_PATH_CHARS = 200
_MIN_SIMILARITY = 0.75
"""Minimum similarity (0 to 1) of two paths for one to be treated as a typo of the other."""


def add_exception_handlers(app: FastAPI) -> None:
    """Register all handlers."""
    app.add_exception_handler(ForgeError, _forge_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)


async def _forge_error(request: Request, exc: Exception) -> Response:
    error = exc if isinstance(exc, ForgeError) else ForgeError(str(exc))
    return error_response(error, request.scope, {"x-request-id": request_id_of(request)})


async def _validation_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)  # noqa: S101  # registered for this type only
    if isinstance(exc.body, bytes) and exc.body:  # not parsed: its Content-Type is not JSON
        return await _forge_error(request, InvalidRequest("body", "send JSON with Content-Type: application/json"))
    fault = to_invalid_request(list(exc.errors()), exc.body, _body_fields(request.scope.get("route")))
    return await _forge_error(request, fault)


def _body_fields(route: object) -> list[str]:
    """Return the dotted names of the fields of a route's body; none if it is not one model."""
    body = route.body_field if isinstance(route, APIRoute) else None
    model = body.field_info.annotation if body is not None else None
    return [name for name, _ in iter_fields(model)] if isinstance(model, type) and issubclass(model, BaseModel) else []


async def _http_error(request: Request, exc: Exception) -> Response:
    """Respond to an unknown path or method."""
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    path = request.scope["path"][:_MAX_PATH_CHARS]
    message = f"{request.method} {path}: {exc.detail if isinstance(exc, HTTPException) else exc}"
    if status == 404:
        message += _nearest_route(request, path)
    kept: Mapping[str, str] = exc.headers if isinstance(exc, HTTPException) and exc.headers else {}
    headers = {**{name.lower(): value for name, value in kept.items()}, "x-request-id": request_id_of(request)}
    if status == 405:  # the framework's Allow header lists only the first route of a path
        methods = sorted(_methods_of(request))
        headers["allow"] = ", ".join(methods)
        message += f"; use {' or '.join(methods)}" if methods else ""
    return ErrorResponse(ClassifiedError(status, "invalid_request_error", None, message), request.scope, headers)


def _nearest_route(request: Request, path: str) -> str:
    """Return a hint to append to the message: the route with the most similar spelling."""
    routes: list[Route] = [route for route in request.app.routes if isinstance(route, Route)]
    near = get_close_matches(path, dict.fromkeys(route.path for route in routes), n=1, cutoff=_MIN_SIMILARITY)
    return f"; did you mean {near[0]}?" if near else "; GET / lists the routes"


def _methods_of(request: Request) -> set[str]:
    """Return the methods that the routes of the request's path accept."""
    routes: list[Route] = [route for route in request.app.routes if isinstance(route, Route)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in matching for method in route.methods or ()}


async def _internal_error(request: Request, exc: Exception) -> Response:
    """Respond to an error of the daemon. The server logs it with its traceback; the client gets no details."""
    headers = {"x-request-id": request_id_of(request)}
    if isinstance(exc, MemoryError):
        error = OutOfMemory("the request")
        log_refused(error, headers["x-request-id"], request.scope)
        return error_response(error, request.scope, headers)
    message = "an error inside forge-proxy; its log has the details"
    return ErrorResponse(ClassifiedError(500, "server_error", "internal_error", message), request.scope, headers)
