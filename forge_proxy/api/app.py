"""The ASGI application: routes, middleware and error handlers."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from forge_proxy.api.admin.routes import add_admin_routes
from forge_proxy.api.admin.services import AdminServices
from forge_proxy.api.auth import KeyRing, RequireKey
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.docs import ApiDescription
from forge_proxy.api.errors import error_response, log_refused
from forge_proxy.api.fast_path import Endpoint, FastPath
from forge_proxy.api.health import HealthChecks
from forge_proxy.api.home import HomePage
from forge_proxy.api.identity import request_id_of
from forge_proxy.api.limits import LimitBody
from forge_proxy.api.openai.chat import ChatCompletions
from forge_proxy.api.openai.models import ModelList
from forge_proxy.api.origins import CheckOrigin, HostNames
from forge_proxy.api.rejected import LogRejections
from forge_proxy.core.errors import ForgeError, InvalidRequest, OutOfMemory
from forge_proxy.core.validation import to_invalid_request
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MemoryBudget, memory_limit
from forge_proxy.engine.ports import Backend
from forge_proxy.wire.clients.chat_completions.errors import encode_error

_EXPOSED_HEADERS = (
    "retry-after",
    "x-forge-attempts",
    "x-forge-compacted",
    "x-forge-marks",
    "x-forge-outcome",
    "x-forge-tokens-spent",
    "x-request-id",
)
"""Response headers exposed to web pages of an allowed origin, besides those that CORS exposes to any page."""

_MAX_PATH_CHARS = 200
_OTHER_APIS = ("/v1/messages", "/v1/responses", "/v1/completions", "/v1/embeddings", "/api/chat", "/api/generate")
"""Routes of other APIs and of OpenAI's that clients try and that the daemon does not serve."""
_MIN_SIMILARITY = 0.75
"""Minimum similarity (0 to 1) of two paths for one to be treated as a typo of the other."""


def create_app(
    engine: Engine,
    backend: Backend,
    config: ServerConfig,
    admin: AdminServices | None = None,
    door: KeyRing | None = None,
    memory: MemoryBudget | None = None,
) -> FastAPI:
    """Create the application for one engine and its backend; with an admin API if `admin` is passed.

    Raises `ServerConfigError` if the keys cannot be read.
    """
    memory = memory or MemoryBudget(memory_limit(config.memory_mb, None))
    app = FastAPI(title="forge-proxy", docs_url=None, redoc_url=None, openapi_url=None)
    chat, models, health = (
        ChatCompletions(engine, config, memory),
        ModelList(engine.models, engine.budgets),
        HealthChecks(backend),
    )
    # Plain routes: `wire` decodes the bodies, so FastAPI's parameter parsing would only cost time.
    hot: dict[str, Endpoint] = {"/v1/chat/completions": chat.create, "/chat/completions": chat.create}
    for path, endpoint in hot.items():
        app.add_route(path, endpoint, methods=["POST"])
    app.add_route("/v1/models", models.all, methods=["GET"])
    app.add_route("/v1/models/{name:path}", models.one, methods=["GET"])
    app.add_route("/", HomePage(backend).show, methods=["GET"])
    descriptions = ApiDescription(app)
    app.add_route("/openapi.json", descriptions.as_json, methods=["GET"])
    app.add_route("/docs", descriptions.as_page, methods=["GET"])
    if admin is not None:
        add_admin_routes(app, admin, config.keepalive_seconds)
    app.add_route("/health", health.health, methods=["GET"])
    app.add_route("/healthz", health.alive, methods=["GET"])
    app.add_route("/readyz", health.ready, methods=["GET"])
    app.add_exception_handler(ForgeError, _forge_error)
    app.add_exception_handler(RequestValidationError, _wrong_field)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)
    app.add_middleware(FastPath, endpoints=hot)
    app.add_middleware(LogRejections)
    _add_request_checks(app, config, door or KeyRing(config), memory)
    return app


def _add_request_checks(app: FastAPI, config: ServerConfig, door: KeyRing, memory: MemoryBudget) -> None:
    """Add the checks that every request passes. The middleware that is added last runs first."""
    app.add_middleware(LimitBody, limit=int(config.max_body_mb * 1024 * 1024), memory=memory)
    app.add_middleware(RequireKey, door=door)
    if config.allowed_origins:  # before the key check: CORS preflight requests carry no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allowed_origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),  # every method that a route accepts
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=_EXPOSED_HEADERS,
        )
    app.add_middleware(CheckOrigin, names=HostNames(config))


async def _forge_error(request: Request, exc: Exception) -> Response:
    error = exc if isinstance(exc, ForgeError) else ForgeError(str(exc))
    return error_response(error, {"x-request-id": request_id_of(request)})


async def _wrong_field(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)  # noqa: S101  # registered for this type only
    if isinstance(exc.body, bytes) and exc.body:  # not parsed: its Content-Type is not JSON
        return await _forge_error(request, InvalidRequest("body", "send JSON with Content-Type: application/json"))
    return await _forge_error(request, to_invalid_request(list(exc.errors()), exc.body))


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
    return JSONResponse(encode_error(message, "invalid_request_error", None), status, headers)


def _nearest_route(request: Request, path: str) -> str:
    """Return a hint to append to the message: the route with the most similar spelling."""
    routes: list[Route] = [route for route in request.app.routes if isinstance(route, Route)]
    if path.rstrip("/").endswith(_OTHER_APIS):
        return "; the daemon does not serve this API, use /v1/chat/completions"
    near = get_close_matches(path, dict.fromkeys(route.path for route in routes), n=1, cutoff=_MIN_SIMILARITY)
    return f"; did you mean {near[0]}?" if near else "; GET / lists the routes"


def _methods_of(request: Request) -> set[str]:
    """Return the methods that the routes of the request's path accept."""
    routes: list[Route] = [route for route in request.app.routes if isinstance(route, Route)]
    fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in fitting for method in route.methods or ()}


async def _internal_error(request: Request, exc: Exception) -> Response:
    """Respond to an error of the daemon. The server logs it with its traceback; the client gets no details."""
    if isinstance(exc, MemoryError):
        error, request_id = OutOfMemory("the request"), request_id_of(request)
        log_refused(error, request_id, request.scope)
        return error_response(error, {"x-request-id": request_id})
    body = encode_error("an error inside forge-proxy; its log has the details", "server_error", "internal_error")
    return JSONResponse(body, 500, {"x-request-id": request_id_of(request)})
