"""The routes of Ollama's API that are about models: which there are, which are loaded, and their administration.

Pulling, creating, copying and deleting models is relayed to an Ollama; another model server has no such routes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.bodies import read_whole
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import request_id_of
from forge_proxy.api.relay import RelayEndpoint
from forge_proxy.core.backend_errors import RouteNotSupported
from forge_proxy.core.chat import ModelCard
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.engine.answer import Engine
from forge_proxy.wire.clients.body import read_body
from forge_proxy.wire.clients.ollama.models import (
    encode_loaded,
    encode_shown,
    encode_tags,
    encode_version,
    read_shown_name,
)

_BLOB = re.compile(r"/api/blobs/sha256[:-][0-9a-f]{64}")
MODEL_ADMINISTRATION = {
    "/api/pull": "POST",
    "/api/push": "POST",
    "/api/create": "POST",
    "/api/copy": "POST",
    "/api/delete": "DELETE",
}
"""Routes that change the models of an Ollama."""


class OllamaModels:
    """The endpoints for models. Administration needs no slot: it runs no model, and a download takes long."""

    def __init__(self, engine: Engine, relay: RelayEndpoint) -> None:
        self._engine = engine
        self._relay = relay

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes to the application."""
        app.add_route("/api/version", self.version, methods=["GET"])
        app.add_route("/api/tags", self.tags, methods=["GET"])
        app.add_route("/api/ps", self.loaded, methods=["GET"])
        app.add_route("/api/show", self.show, methods=["POST"])
        for path, method in MODEL_ADMINISTRATION.items():
            app.add_route(path, self.administer, methods=[method])
        app.add_route("/api/blobs/{digest}", self.store_blob, methods=["HEAD", "POST"])

    async def version(self, request: Request) -> Response:
        """Return the version of the API."""
        return JSONResponse(encode_version(), headers={"x-request-id": request_id_of(request)})

    async def tags(self, request: Request) -> Response:
        """List the models."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            listed = self._engine.models.with_tiers(await self._cards())
            return JSONResponse(encode_tags(listed), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)

    async def loaded(self, request: Request) -> Response:
        """List the loaded models. An Ollama knows them; of another model server all are, or the one of a catalog."""
        headers = {"x-request-id": request_id_of(request)}
        if self._engine.relay.kind == "ollama":
            return await self._relay.relay(request, None, is_read=True, runs_model=False)
        try:
            cards, schedule = await self._cards(), self._engine.queue.schedule
            shown = cards if schedule is None else [card for card in cards if card.id == schedule.loaded]
            return JSONResponse(encode_loaded(shown), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)

    async def show(self, request: Request) -> Response:
        """Show a model: its capabilities and its context length."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            name = read_shown_name(read_body(await read_whole(request.receive)))
            served = (await self._engine.models.resolve(name)).served or name
            (card,) = await self._engine.budgets.advertise([await self._engine.models.get(served)])
            return JSONResponse(encode_shown(card), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)

    async def administer(self, request: Request) -> Response:
        """Relay a request that changes the models of an Ollama."""
        if self._engine.relay.kind != "ollama":
            return self._refuse(request)
        return await self._relay.relay(request, None, runs_model=False, after=self._engine.models.forget)

    async def store_blob(self, request: Request) -> Response:
        """Relay a file for `/api/create`, or the question whether an Ollama has it."""
        if not _BLOB.fullmatch(request.scope["path"]):
            error = InvalidRequest("digest", "expected sha256: and 64 hexadecimal digits")
            return error_response(error, request.scope, {"x-request-id": request_id_of(request)})
        if self._engine.relay.kind != "ollama":
            return self._refuse(request)
        return await self._relay.relay(request, None, runs_model=False)

    def _refuse(self, request: Request) -> Response:
        url, kind = self._engine.relay.url, self._engine.relay.kind
        error = RouteNotSupported(url, kind, request.method, request.scope["path"])
        return error_response(error, request.scope, {"x-request-id": request_id_of(request)})

    async def _cards(self) -> Sequence[ModelCard]:
        return await self._engine.budgets.advertise(await self._engine.models.list())
