"""Query parameters of OpenAI's lists."""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request

from forge_proxy.core.errors import InvalidRequest

_MAX_PAGE = 100
_PAGE = 20


def read_page(request: Request, *, most: int = _MAX_PAGE, default: int = _PAGE) -> tuple[int, Literal["asc", "desc"]]:
    """Return the number of items of a page, and their order. Raises `InvalidRequest`."""
    limit, order = request.query_params.get("limit", str(default)), request.query_params.get("order", "desc")
    if not (limit.isdecimal() and limit.isascii() and 1 <= int(limit[:9]) <= most):
        raise InvalidRequest("limit", f"expected an integer from 1 to {most}")
    if order not in ("asc", "desc"):
        raise InvalidRequest("order", "expected asc or desc")
    return int(limit), order
