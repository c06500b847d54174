"""The ASGI application: which path leads where."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.config import ServerConfig
from forge_proxy.api.health import HealthChecks
from forge_proxy.api.identity import request_id_of
from forge_proxy.api.openai.chat import ChatCompletions
from forge_proxy.api.openai.models import ModelList
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.ports import Backend
from forge_proxy.wire.openai.errors import encode_error


def create_app(engine: Engine, backend: Backend, policy: GuardPolicy, config: ServerConfig) -> FastAPI:
    """The application over one engine and its backend."""
    app = FastAPI(title="forge-proxy", docs_url=None, redoc_url=None, openapi_url=None)
    chat, models, health = (
        ChatCompletions(engine, policy, config),
        ModelList(engine.models),
        HealthChecks(backend),
    )
    # Plain routes: the bodies are read in `wire`, so FastAPI's own reading of parameters would only cost time.
    for path in ("/v1/chat/completions", "/chat/completions"):
        app.add_route(path, chat.create, methods=["POST"])
    app.add_route("/v1/models", models.all, methods=["GET"])
    app.add_route("/v1/models/{name:path}", models.one, methods=["GET"])
    app.add_route("/health", health.health, methods=["GET"])
    app.add_route("/healthz", health.alive, methods=["GET"])
    app.add_route("/readyz", health.ready, methods=["GET"])
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _own_error)
    return app


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
