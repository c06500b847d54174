"""`/v1/responses` before every adapter: recorded responses of real servers become valid events at every cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.contracts.adapters import ADAPTERS, Adapter, Dialect
from tests.contracts.recordings import Recording
from tests.fakes.literal import EVENTS
from tests.fakes.response_events import final_response, read_events
from tests.fakes.scripted import JsonDict, StillClock

TOOL: JsonDict = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
ASK: JsonDict = {"model": "m", "input": "weather?", "stream": True, "max_output_tokens": 100}
CASES = [
    pytest.param(dialect, said, id=f"{dialect.run.__name__} {said.name}")
    for dialect in ADAPTERS
    if not dialect.starts_process  # the managed one has the same adapter
    for said in dialect.recordings
]


def ask(adapter: Adapter, sent: Sequence[bytes], body: JsonDict, path: str) -> bytes:
    adapter.http.says(list(sent), EVENTS)
    policy = GuardPolicy(text_responses="accept", on_early_end="accept")
    engine = Engine(EngineConfig(adapter.backend, StillClock(), [].append, guardrails=policy))
    app = create_app(engine, adapter.backend, ServerConfig())

    async def asked() -> bytes:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            return (await client.post(path, json=body)).content

    return adapter.runner.run(asked())


def content(response: JsonDict) -> Any:
    return response["status"], [
        {name: value for name, value in item.items() if name not in ("id", "call_id")} for item in response["output"]
    ]


@pytest.mark.long
@pytest.mark.parametrize("guarded", [False, True], ids=["relayed", "guarded"])
@pytest.mark.parametrize(("dialect", "said"), CASES)
def test_a_recorded_response_becomes_the_same_items_at_every_cut(
    dialect: Dialect, said: Recording, guarded: bool
) -> None:
    body = {**ASK, "tools": [TOOL]} if guarded else ASK
    with dialect.run() as adapter:
        at_once = final_response(read_events(ask(adapter, [said.streamed], body, "/v1/responses")))
        for size in (1, 7, 100):
            pieces = [said.streamed[at : at + size] for at in range(0, len(said.streamed), size)]
            cut = final_response(read_events(ask(adapter, pieces, body, "/v1/responses")))
            assert content(cut) == content(at_once)

    assert at_once["status"] in ("completed", "incomplete")
    assert at_once["output"]
