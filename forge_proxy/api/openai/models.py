"""`GET /v1/models` and `GET /v1/models/{id}`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.errors import error_response
from forge_proxy.api.identity import request_id_of
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.models import Models
from forge_proxy.wire.openai.models import encode_model, encode_models


class ModelList:
    """The two endpoints."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def all(self, request: Request) -> Response:
        """The models of the backend, each with its window where that is known."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            return JSONResponse(encode_models(await self._models.list()), headers=headers)
        except ForgeError as error:
            return error_response(error, headers)

    async def one(self, request: Request) -> Response:
        """One of them."""
        headers = {"x-request-id": request_id_of(request)}
        try:
            return JSONResponse(encode_model(await self._models.get(request.path_params["name"])), headers=headers)
        except ForgeError as error:
            return error_response(error, headers)
