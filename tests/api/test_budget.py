"""Requests over the budget are rejected with the message on which clients compact; models advertise the budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.budget import BudgetMode, BudgetPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.config import EngineConfig
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock


@asynccontextmanager
async def daemon(policy: BudgetPolicy) -> AsyncGenerator[tuple[httpx.AsyncClient, ScriptedHttp]]:
    http = ScriptedHttp([Said(text="Hello."), Said(text="Hello.")])
    backend = OpenAICompatible("http://scripted", http)
    budgets = Budgets(backend, StillClock(), lambda _: None, policy)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, budgets=budgets))
    app = create_app(engine, backend, ServerConfig())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client, http


SMALL = BudgetPolicy(mode=BudgetMode.MANUAL, tokens=1000)
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_a_prompt_over_the_budget_never_reaches_the_server(stream: bool, tools: list[object]) -> None:
    async with daemon(SMALL) as (client, http):
        body = {"messages": [{"role": "user", "content": "word " * 2000}], "tools": tools, "stream": stream}
        answer = await client.post("/v1/chat/completions", json=body)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert error["message"].startswith("This model's maximum context length is 1000 tokens. However, your messages ")
    assert "1000 tokens are configured" in error["message"]
    assert http.asked == []


async def test_a_prompt_within_the_budget_is_forwarded() -> None:
    async with daemon(SMALL) as (client, _):
        answer = await client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}]})

    assert answer.status_code == 200


async def test_the_model_list_has_the_budget_in_every_field_that_clients_read() -> None:
    async with daemon(SMALL) as (client, _):
        (entry,) = (await client.get("/v1/models")).json()["data"]
        one = (await client.get("/v1/models/scripted")).json()

    assert entry == one
    assert [entry[key] for key in ("max_model_len", "context_length", "max_context")] == [1000] * 3
    assert entry["meta"]["n_ctx"] == 1000


async def test_codex_receives_a_catalog_with_the_budget_beside_the_same_list() -> None:
    async with daemon(SMALL) as (client, _):
        plain = (await client.get("/v1/models")).json()
        listed = (await client.get("/v1/models?client_version=0.169.0")).json()

    (model,) = listed.pop("models")
    assert listed == plain
    assert (model["slug"], model["context_window"]) == ("scripted", 1000)
