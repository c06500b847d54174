"""Routes that reject unknown query parameters and invalid JSON."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import DECODER


class StrictRoute(APIRoute):
    """A route that rejects a mistyped query parameter; ignoring it would answer a different request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()
        known = [parameter.alias for parameter in self.dependant.query_params]

        async def strict(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    has = f"available: {', '.join(known)}" if known else "this route has none"
                    raise InvalidRequest(name, f"no such query parameter; {has}")
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict


class _StrictRequest(Request):
    """A request with strict JSON: Python's parser accepts NaN and Infinity, which cannot be serialized again."""

    async def json(self) -> Any:
        """Parse the body. Raises `JSONDecodeError`, or `RecursionError` if it is nested too deeply."""
        body = await self.body()
        try:
            return DECODER.decode(body.decode("utf-8-sig"))
        except JSONDecodeError:
            raise
        except ValueError as exc:
            raise JSONDecodeError(str(exc), "", 0) from exc
