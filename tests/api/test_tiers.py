"""Tiers as models of clients (`forge-reasoning`, …)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.catalog import Catalog
from forge_proxy.daemon.tiers import build_tier_models
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.models import Models
from forge_proxy.tasks.config import TiersConfig
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

TIERS: dict[str, Any] = {
    "reasoning": {"temperature": 0.4, "top_p": 0.9, "thinking": True, "max_output": 64},
    "generation": {"model": "small", "seed": 7},
}
NAMES = ["forge-reasoning", "forge-generation", "forge-summarization", "forge-classification"]


class World:
    """An application with tiers, and the model server behind it."""

    def __init__(self, http: ScriptedHttp, client: httpx.AsyncClient) -> None:
        self.http = http
        self.client = client

    async def models(self) -> list[str]:
        listed = (await self.client.get("/v1/models")).json()
        return [model["id"] for model in listed["data"]]

    async def chat(self, model: str | None, **fields: Any) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": "Hello"}], **fields}
        return await self.client.post("/v1/chat/completions", json=body if model is None else {**body, "model": model})

    @property
    def sent(self) -> dict[str, Any]:
        """The latest request that the model server received."""
        return self.http.asked[-1]


@asynccontextmanager
async def open_world(
    tiers: dict[str, Any] = TIERS, default: str | None = None, catalog: Catalog | None = None
) -> AsyncGenerator[World]:
    http = ScriptedHttp((), model=lambda _: Said(text="Hi."), window=4096)
    backend, clock = OpenAICompatible("http://scripted", http), StillClock()
    built = build_tier_models(TiersConfig.model_validate(tiers))
    engine = Engine(
        EngineConfig(backend, clock, lambda _: None, models=Models(backend, clock, default, catalog, built))
    )
    transport = httpx.ASGITransport(create_app(engine, backend, ServerConfig()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield World(http, client)


async def test_s_tiers_that_are_set_are_models_of_clients() -> None:
    async with open_world() as world:
        listed = (await world.client.get("/v1/models")).json()["data"]
        shown = (await world.client.get("/v1/models/forge-reasoning")).json()
        missing = await world.client.get("/v1/models/forge-summarization")
        tags = (await world.client.get("/api/tags")).json()["models"]

    assert [model["id"] for model in listed] == ["scripted", "forge-reasoning", "forge-generation"]
    assert [(shown["id"], shown["root"], shown["max_model_len"])] == [("forge-reasoning", "scripted", 4096)]
    assert missing.status_code == 404
    assert [model["name"] for model in tags] == ["scripted", "forge-reasoning", "forge-generation"]


async def test_s_tiers_without_settings_list_nothing_and_are_the_default_model() -> None:
    async with open_world({}, default="usual") as world:
        listed = await world.models()
        answer = await world.chat("forge-classification")

        assert listed == ["scripted"]
        assert (world.sent["model"], answer.json()["model"]) == ("usual", "forge-classification")


async def test_s_tiers_have_their_model_and_sampling_where_the_client_left_it_open() -> None:
    async with open_world() as world:
        answer = await world.chat("forge-reasoning", top_p=0.1)

        sent = world.sent
        assert (sent["model"], sent["temperature"], sent["top_p"]) == ("scripted", 0.4, 0.1)
        assert sent["chat_template_kwargs"] == {"enable_thinking": True}
        assert "max_tokens" not in sent  # max_output bounds the calls of tasks
        assert answer.json()["model"] == "forge-reasoning"
        await world.chat("forge-reasoning", reasoning_effort="none")
        assert "chat_template_kwargs" not in world.sent


async def test_s_tiers_have_a_model_of_their_own() -> None:
    async with open_world(default="usual", catalog=Catalog(("usual", "small"), {}, "usual")) as world:
        await world.chat("forge-generation")

        assert (world.sent["model"], world.sent["seed"], world.sent.get("temperature")) == ("small", 7, None)


async def test_s_tiers_serve_every_client_api() -> None:
    async with open_world() as world:
        message = {"role": "user", "content": "Hello"}
        await world.client.post("/api/chat", json={"model": "forge-reasoning", "messages": [message], "stream": False})
        ollama = world.sent
        body = {"model": "forge-reasoning", "messages": [message], "max_tokens": 10}
        await world.client.post("/v1/messages", json=body)
        anthropic = world.sent
        await world.client.post("/v1/responses", json={"model": "forge-reasoning", "input": "Hello"})

        for sent in (ollama, anthropic, world.sent):
            assert (sent["model"], sent["temperature"]) == ("scripted", 0.4)


@pytest.mark.parametrize("name", NAMES)
async def test_s_tiers_give_way_to_a_model_with_their_name_unless_they_are_set(name: str) -> None:
    catalog = Catalog(("usual", name), {}, "usual")
    async with open_world({}, catalog=catalog) as world:
        await world.chat(name)
        assert world.sent["model"] == name

    async with open_world({name.removeprefix("forge-"): {"model": "usual"}}, catalog=catalog) as world:
        await world.chat(name)
        assert world.sent["model"] == "usual"
