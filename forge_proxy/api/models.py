"""`GET /v1/models` and `GET /v1/models/{id}`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.models import Models
from forge_proxy.wire.clients.chat_completions.models import encode_model, encode_models


class ModelList:
    """The endpoints for the models of the backend."""

    def __init__(self, models: Models, budgets: Budgets) -> None:
        self._models = models
        self._budgets = budgets

    async def all(self, request: Request) -> Response:
        """List the models, each with its context budget as its window if known.

        Codex sends its version with the request, and reads another list than all other clients.
        """
        headers = {"x-request-id": request_id_of(request)}
        try:
            cards = await self._budgets.advertise(await self._models.list())
            return JSONResponse(encode_models(cards, codex="client_version" in request.query_params), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)

    async def one(self, request: Request) -> Response:
        """Show one model."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            (card,) = await self._budgets.advertise([await self._models.get(request.path_params["name"])])
            return JSONResponse(encode_model(card), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)
