"""OpenAI's Batch API: `/v1/batches`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.bodies import LargeBodies
from forge_proxy.api.endpoint import read_json
from forge_proxy.api.files import respond
from forge_proxy.api.identity import owner_of
from forge_proxy.api.paging import read_page
from forge_proxy.batches.service import Batches
from forge_proxy.wire.clients.batches import decode_batch_request, encode_batch
from forge_proxy.wire.clients.files import encode_page


class BatchEndpoints:
    """The endpoints for batches. Each client sees its own."""

    def __init__(self, batches: Batches, large_bodies: LargeBodies) -> None:
        self._batches = batches
        self._large_bodies = large_bodies

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes."""
        routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("", "POST", self._create),
            ("", "GET", self._list),
            ("/{id}", "GET", self._get),
            ("/{id}/cancel", "POST", self._cancel),
        ]
        for path, method, answer in routes:
            app.add_route(f"/v1/batches{path}", partial(respond, answer), methods=[method])

    async def _create(self, request: Request) -> Response:
        body, _ = await read_json(request, self._large_bodies)
        wanted = decode_batch_request(body, self._batches.endpoints)
        return JSONResponse(encode_batch(await self._batches.create(owner_of(request), wanted)))

    async def _list(self, request: Request) -> Response:
        limit, _ = read_page(request)
        page = await self._batches.list(owner_of(request), after=request.query_params.get("after"), limit=limit)
        return JSONResponse(encode_page([encode_batch(batch) for batch in page.batches], has_more=page.has_more))

    async def _get(self, request: Request) -> Response:
        return JSONResponse(encode_batch(await self._batches.get(request.path_params["id"], owner_of(request))))

    async def _cancel(self, request: Request) -> Response:
        return JSONResponse(encode_batch(await self._batches.cancel(request.path_params["id"], owner_of(request))))
