"""`/admin/v1/requests/stream` and cancelling, over HTTP."""

from __future__ import annotations

import pytest

from tests.api.admin.test_events import parse
from tests.api.admin.world import ADMIN, error, world


async def test_the_stream_begins_with_a_picture_and_ends_with_the_daemon() -> None:
    async with world() as client:  # its feeds are closed
        answer = await client.get(f"{ADMIN}/requests/stream")

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert parse(answer.text) == [{"event": "stopping", "message": "the daemon is stopping"}]


@pytest.mark.parametrize("request_id", ["unknown", "a%2Fb"])
async def test_a_request_that_is_not_under_way_cannot_be_cancelled(request_id: str) -> None:
    async with world() as client:
        answer = await client.post(f"{ADMIN}/requests/{request_id}/cancel")

    assert answer.status_code == 404


async def test_the_error_names_the_request() -> None:
    async with world() as client:
        answer = await client.post(f"{ADMIN}/requests/unknown/cancel")

    assert error(answer) == (404, "request_not_active", None)
    assert "no request with the id unknown is under way" in answer.text
