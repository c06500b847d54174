"""The ASGI application: which path leads where."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.admin.text_answers import TextAnswerFigures
from forge_proxy.api.auth import RequireKey, read_keys
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.health import HealthChecks
from forge_proxy.api.identity import request_id_of
from forge_proxy.api.limits import LimitBody
from forge_proxy.api.openai.chat import ChatCompletions
from forge_proxy.api.openai.models import ModelList
from forge_proxy.api.origins import CheckOrigin, OwnNames
from forge_proxy.api.shortcut import Endpoint, Shortcut
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Backend
from forge_proxy.wire.openai.errors import encode_error

_TOLD_TO_PAGES = (
    "retry-after",
    "x-forge-attempts",
    "x-forge-marks",
    "x-forge-outcome",
    "x-forge-tokens-spent",
    "x-request-id",
)
"""What a page of an allowed origin can read of an answer's headers, beside those that any page can."""


def create_app(engine: Engine, backend: Backend, policy: GuardPolicy, config: ServerConfig) -> FastAPI:
    """The application over one engine and its backend. Raises `ServerConfigError` where the keys cannot be read."""
    app = FastAPI(title="forge-proxy", docs_url=None, redoc_url=None, openapi_url=None)
    chat, models, health = (
        ChatCompletions(engine, policy, config),
        ModelList(engine.models),
        HealthChecks(backend),
    )
    # Plain routes: the bodies are read in `wire`, so FastAPI's own reading of parameters would only cost time.
    hot: dict[str, Endpoint] = {"/v1/chat/completions": chat.create, "/chat/completions": chat.create}
    for path, endpoint in hot.items():
        app.add_route(path, endpoint, methods=["POST"])
    app.add_route("/v1/models", models.all, methods=["GET"])
    app.add_route("/v1/models/{name:path}", models.one, methods=["GET"])
    learned = TextAnswerFigures(engine.text_answers, policy)
    app.add_route("/admin/v1/text-answers", learned.all, methods=["GET", "DELETE"])
    app.add_route("/admin/v1/text-answers/{name:path}", learned.forget, methods=["DELETE"])
    app.add_route("/health", health.health, methods=["GET"])
    app.add_route("/healthz", health.alive, methods=["GET"])
    app.add_route("/readyz", health.ready, methods=["GET"])
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _own_error)
    app.add_middleware(Shortcut, endpoints=hot)
    _put_door_before(app, config)
    return app


def _put_door_before(app: FastAPI, config: ServerConfig) -> None:
    """What every request passes, on every route: the last one added is the first one met."""
    app.add_middleware(LimitBody, limit=int(config.max_body_mb * 1024 * 1024))
    if keys := read_keys(config):
        app.add_middleware(RequireKey, keys=keys)
    if config.allowed_origins:  # before the keys: a browser asks whether it may ask, and sends no key with that
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allowed_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=_TOLD_TO_PAGES,
        )
    app.add_middleware(CheckOrigin, names=OwnNames(config))


async def _http_error(request: Request, exc: Exception) -> Response:
    """No such path, or not this method."""
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    message = f"{request.method} {request.url.path}: {exc.detail if isinstance(exc, HTTPException) else exc}"
    kept: Mapping[str, str] = exc.headers if isinstance(exc, HTTPException) and exc.headers else {}
    headers = {**kept, "x-request-id": request_id_of(request)}
    return JSONResponse(encode_error(message, "invalid_request_error", None), status, headers)


async def _own_error(request: Request, _: Exception) -> Response:
    """A fault of ours. The server logs it with its traceback; the caller learns no more than that."""
    body = encode_error("an error inside forge-proxy; its log has the details", "server_error", "internal_error")
    return JSONResponse(body, 500, {"x-request-id": request_id_of(request)})
