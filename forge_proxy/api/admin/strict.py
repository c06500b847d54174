"""Routes that take nothing they do not know: no query parameter that the endpoint has not, and no JSON that is none."""

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
    """A mistyped parameter is refused rather than passed over: the answer would be one to another question."""

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
    """Its JSON is strict: Python's own reading takes NaN and Infinity, which cannot be written again."""

    async def json(self) -> Any:
        """The body. Raises `JSONDecodeError`, or `RecursionError` where it is too deep."""
        body = await self.body()
        try:
            return DECODER.decode(body.decode("utf-8-sig"))
        except JSONDecodeError:
            raise
        except ValueError as exc:
            raise JSONDecodeError(str(exc), "", 0) from exc
