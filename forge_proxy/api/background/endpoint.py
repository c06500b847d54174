"""`POST /v1/responses` of clients that want the response in the background: it is stored and answered as a job."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.api.background.request import BackgroundRequest
from forge_proxy.api.background.service import BackgroundResponses
from forge_proxy.api.endpoint import EndpointDeps, SurfaceEndpoint, narrow
from forge_proxy.api.identity import client_of, origin_of, owner_of, request_id_of
from forge_proxy.api.outcome_headers import dropped_headers
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.api.surface import DecodedRequest, Surface
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest
from forge_proxy.wire.clients.responses.response_object import is_background


class ResponsesEndpoint(SurfaceEndpoint):
    """Answers requests for responses, those in the background by a job. Without `background` it refuses the latter."""

    def __init__(
        self, surface: Surface, deps: EndpointDeps, storage: ResponseStorage, background: BackgroundResponses | None
    ) -> None:
        super().__init__(surface, deps, storage)
        self._responses = storage
        self._background = background

    async def _prepare(self, request: Request, decoded: DecodedRequest) -> DecodedRequest | Response:
        assert isinstance(decoded, DecodedResponsesRequest)  # noqa: S101  # the storage returned it
        body = decoded.converted.body
        if not is_background(body):
            return decoded
        if self._background is None:
            raise InvalidRequest("background", "this server runs no jobs; omit it or send false")
        switches = request.headers.get("x-forge-guardrails")
        narrow(self._engine.policies.guardrails, switches)  # raises
        origin, request_id = origin_of(request, self._surface.name), request_id_of(request)
        submitted = BackgroundRequest(
            body,
            int(self._responses.now()),
            request_id,
            client_of(request),
            switches,
            origin.key_label,
            origin.program,
            decoded.chat.stream,
        )
        owner = owner_of(request)
        response_id, document = await self._background.submit(submitted, owner)
        headers = {"x-request-id": request_id, **dropped_headers(decoded.chat)}
        if decoded.chat.stream:
            from forge_proxy.api.event_stream import sse_stream  # imports sse_starlette: slow, and rarely needed

            events = await self._background.follow(response_id, owner)
            return sse_stream(events, headers, self._config.keepalive_seconds)
        return Response(document, media_type="application/json", headers=headers)
