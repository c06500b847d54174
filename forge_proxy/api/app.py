"""The ASGI application: routes, middleware and error handlers."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from forge_proxy.api.admin.routes import add_admin_routes
from forge_proxy.api.admin.services import AdminServices
from forge_proxy.api.auth import METRICS_PATH, ApiKeyMiddleware, KeyRing
from forge_proxy.api.background.endpoint import ResponsesEndpoint
from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.batch_lines import BatchLineExecutor
from forge_proxy.api.batches import BatchEndpoints
from forge_proxy.api.bodies import LargeBodies
from forge_proxy.api.chat_completions import CHAT_COMPLETIONS
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.conversations import ConversationEndpoints
from forge_proxy.api.dashboard import add_dashboard
from forge_proxy.api.docs import ApiDescription
from forge_proxy.api.endpoint import EndpointDeps, SurfaceEndpoint
from forge_proxy.api.error_responses import ErrorEnvelopes
from forge_proxy.api.exception_handlers import add_exception_handlers
from forge_proxy.api.fast_path import Endpoint, FastPathMiddleware
from forge_proxy.api.files import FileEndpoints
from forge_proxy.api.health import HealthChecks
from forge_proxy.api.home import HomePage
from forge_proxy.api.limits import BodyLimitMiddleware
from forge_proxy.api.messages import MESSAGES, TokenCountEndpoint
from forge_proxy.api.metrics import MetricsEndpoint
from forge_proxy.api.models import ModelList
from forge_proxy.api.ollama import OLLAMA_SURFACES, OllamaEndpoint
from forge_proxy.api.ollama_embeddings import OllamaEmbeddings
from forge_proxy.api.ollama_models import OllamaModels
from forge_proxy.api.origins import HostNames, OriginMiddleware
from forge_proxy.api.rejection_log import RejectionLogMiddleware
from forge_proxy.api.relay import MODEL_ROUTES, RelayEndpoint
from forge_proxy.api.request_id_header import RequestIdHeaderMiddleware
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.api.responses import RESPONSES, ResponseEndpoints
from forge_proxy.api.surface import Surface
from forge_proxy.batches.files import Files
from forge_proxy.batches.service import Batches
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget, memory_limit
from forge_proxy.engine.ports import Backend

SURFACES = (CHAT_COMPLETIONS, RESPONSES, MESSAGES, *OLLAMA_SURFACES)
"""The APIs that clients speak. Errors of paths that belong to none of them have OpenAI's format."""
_WHOLE_ROUTES = (
    *MODEL_ROUTES, "/v1/messages/count_tokens", "/v1/responses/input_tokens", "/api/embed", "/api/embeddings",
)  # fmt: skip
"""Routes whose requests always have whole responses in JSON."""
_EXPOSED_HEADERS = (
    "request-id",
    "retry-after",
    "x-forge-attempts",
    "x-forge-compacted",
    "x-forge-interventions",
    "x-forge-marks",
    "x-forge-outcome",
    "x-forge-tokens-spent",
    "x-request-id",
)
"""Response headers exposed to web pages of an allowed origin, besides those that CORS exposes to any page."""


def create_app(
    engine: Engine,
    backend: Backend,
    config: ServerConfig,
    admin: AdminServices | None = None,
    keys: KeyRing | None = None,
    memory: MemoryBudget | None = None,
    surfaces: Sequence[Surface] = SURFACES,
    responses: ResponseStorage | None = None,
    files: Files | None = None,
    background: BackgroundResponses | None = None,
    batches: Batches | None = None,
    lines: BatchLineExecutor | None = None,
) -> FastAPI:
    """Create the application for one engine and its backend; with an admin API if `admin` is passed.

    Responses are stored if `responses` is passed, and files if `files` is; `background` answers in the background.
    `lines` sends the lines of `batches`.

    Raises `ServerConfigError` if the keys cannot be read.
    """
    memory = memory or MemoryBudget(memory_limit(config.memory_mb, None))
    responses = responses or ResponseStorage(None)
    app = FastAPI(title="forge-proxy", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.error_envelopes = ErrorEnvelopes(
        {prefix: surface.encode_error for surface in surfaces for prefix in surface.prefixes},
        default=CHAT_COMPLETIONS.encode_error,
    )
    hot = _add_surfaces(app, surfaces, engine, config, memory, responses, background)
    _add_read_routes(app, engine, backend, surfaces)
    if files is not None:
        FileEndpoints(files, batches).add_routes(app)
    if batches is not None:
        BatchEndpoints(batches, LargeBodies()).add_routes(app)
    if lines is not None:
        lines.attach(app, {*hot, *_WHOLE_ROUTES}, int(config.max_body_mb * MEGABYTE), memory)
    if admin is not None:
        add_admin_routes(app, admin, config.keepalive_seconds)
        add_dashboard(app)
        if admin.metrics is not None:
            app.add_route(METRICS_PATH, MetricsEndpoint(admin.metrics).show, methods=["GET"])
    health = HealthChecks(backend)
    app.add_route("/health", health.health, methods=["GET"])
    app.add_route("/healthz", health.alive, methods=["GET"])
    app.add_route("/readyz", health.ready, methods=["GET"])
    add_exception_handlers(app)
    app.add_middleware(FastPathMiddleware, endpoints=hot)
    app.add_middleware(RejectionLogMiddleware)
    _add_request_checks(app, config, keys or KeyRing(config), memory)
    return app


def _add_surfaces(
    app: FastAPI,
    surfaces: Sequence[Surface],
    engine: Engine,
    config: ServerConfig,
    memory: MemoryBudget,
    responses: ResponseStorage,
    background: BackgroundResponses | None,
) -> dict[str, Endpoint]:
    """Add the routes of the client APIs and of what is relayed. Returns those that answer requests, by path.

    They are plain routes: `wire` decodes the bodies, so FastAPI's parameter parsing would only cost time.
    """
    hot: dict[str, Endpoint] = {}
    large_bodies = LargeBodies()
    deps = EndpointDeps(engine, config, memory, large_bodies)
    for surface in surfaces:
        if surface is RESPONSES:
            endpoint = ResponsesEndpoint(surface, deps, responses, background)
        else:
            kind = OllamaEndpoint if surface in OLLAMA_SURFACES else SurfaceEndpoint
            endpoint = kind(surface, deps)
        hot |= dict.fromkeys(surface.routes, endpoint.create)
    for path, endpoint in hot.items():
        app.add_route(path, endpoint, methods=["POST"])
    ResponseEndpoints(responses, engine, large_bodies, background, config.keepalive_seconds).add_routes(app)
    ConversationEndpoints(responses, large_bodies).add_routes(app)
    counter = TokenCountEndpoint(engine, large_bodies)
    app.add_route("/v1/messages/count_tokens", counter.count, methods=["POST"])
    relay = RelayEndpoint(engine, large_bodies)
    relay.add_routes(app)
    OllamaModels(engine, relay).add_routes(app)
    OllamaEmbeddings(engine, relay, memory).add_routes(app)
    return hot


def _add_read_routes(app: FastAPI, engine: Engine, backend: Backend, surfaces: Sequence[Surface]) -> None:
    """Add the routes for models, the home page and the documentation."""
    models = ModelList(engine.models, engine.budgets)
    app.add_route("/v1/models", models.all, methods=["GET"])
    app.add_route("/v1/models/{name:path}", models.one, methods=["GET"])
    app.add_route("/", HomePage(backend).show, methods=["GET"])
    descriptions = ApiDescription(app, surfaces)
    app.add_route("/openapi.json", descriptions.as_json, methods=["GET"])
    app.add_route("/docs", descriptions.as_page, methods=["GET"])


def _add_request_checks(app: FastAPI, config: ServerConfig, keys: KeyRing, memory: MemoryBudget) -> None:
    """Add the checks that every request passes. The middleware that is added last runs first."""
    app.add_middleware(BodyLimitMiddleware, limit=int(config.max_body_mb * MEGABYTE), memory=memory)
    app.add_middleware(ApiKeyMiddleware, keys=keys)
    if config.allowed_origins:  # before the key check: CORS preflight requests carry no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allowed_origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),  # every method that a route accepts
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=_EXPOSED_HEADERS,
        )
    app.add_middleware(OriginMiddleware, names=HostNames(config))
    app.add_middleware(RequestIdHeaderMiddleware)
