"""`GET /v1/models` and `GET /v1/models/{id}`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.chat import ModelCard
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.models import Models
from forge_proxy.wire.clients.chat_completions.models import encode_model, encode_models
from forge_proxy.wire.clients.messages import models as messages_models


class ModelList:
    """The endpoints for the models of the backend, and for tiers as models."""

    def __init__(self, models: Models, budgets: Budgets) -> None:
        self._models = models
        self._budgets = budgets

    async def all(self, request: Request) -> Response:
        """List the models, each with its context budget as its window if known.

        Codex sends its version with the request, and reads another list than all other clients.
        """
        headers = {"x-request-id": request_id_of(request)}
        try:
            cards = self._models.with_tiers(await self._budgets.advertise(await self._models.list()))
            if _is_for_anthropic(request):
                return JSONResponse(messages_models.encode_models(cards), headers=headers)
            return JSONResponse(encode_models(cards, codex="client_version" in request.query_params), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)

    async def one(self, request: Request) -> Response:
        """Show one model."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            card = await self._find(request.path_params["name"])
            encode = messages_models.encode_model if _is_for_anthropic(request) else encode_model
            return JSONResponse(encode(card), headers=headers)
        except ForgeError as error:
            return error_response(error, request.scope, headers)

    async def _find(self, name: str) -> ModelCard:
        tier = self._models.tier_of(name)
        if tier is not None and tier.is_listed:
            listed = self._models.with_tiers(await self._budgets.advertise(await self._models.list()))
            return next(card for card in listed if card.id == name)
        (card,) = await self._budgets.advertise([await self._models.get(name)])
        return card


def _is_for_anthropic(request: Request) -> bool:
    """Return whether the client speaks Anthropic's API, which has the same path."""
    return "anthropic-version" in request.headers
