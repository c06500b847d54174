"""How the number of slots of a server is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from forge_proxy.backends.http import RequestBody
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendError
from tests.fakes.scripted import ScriptedResponse


@dataclass
class Answers:
    """`HttpClient` of a server that answers with this, and below its root only to `/props`."""

    status: int
    body: bytes

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        body: RequestBody | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[ScriptedResponse]:
        assert (method, url) == ("GET", "http://model:8080/props")
        assert headers
        assert headers["Authorization"] == "Bearer its-own"
        yield ScriptedResponse(self.status, self.body, "application/json", 1_000_000)


def server(status: int, body: bytes) -> OpenAICompatible:
    return OpenAICompatible("http://model:8080/v1", Answers(status, body), api_key="its-own")


@pytest.mark.parametrize(
    ("status", "body", "slots"),
    [
        (200, b'{"total_slots": 4, "default_generation_settings": {}}', 4),
        (200, b'{"role": "router"}', None),
        (200, b'{"total_slots": 0}', None),
        (200, b'{"total_slots": true}', None),
        (200, b'{"total_slots": "4"}', None),
        (200, b"[4]", None),
        (200, b"<html>", None),
        (401, b'{"error": {"message": "Invalid API Key"}}', None),
        (404, b"404 page not found", None),
        (500, b"", None),
    ],
)
async def test_slots_are_what_llama_server_calls_so_and_else_unknown(
    status: int, body: bytes, slots: int | None
) -> None:
    assert await server(status, body).slots() == slots


async def test_a_server_that_is_loading_does_not_know_yet() -> None:
    with pytest.raises(BackendError):
        await server(503, b'{"error": {"code": 503, "message": "Loading model"}}').slots()
