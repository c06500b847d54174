"""`/v1/conversations` with the real `openai` SDK, and with requests that are wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.store.conversations import ConversationRepository
from forge_proxy.store.database import open_database
from forge_proxy.store.responses import ResponseRepository
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock
from tests.folding import folded

USER: Any = {"type": "message", "role": "user", "content": "My name is Ada."}
PATH = "/v1/conversations"


@asynccontextmanager
async def serving(folder: Path | None, *script: Said) -> AsyncGenerator[tuple[httpx2.AsyncClient, ScriptedHttp]]:
    """An application whose conversations are in a database in the folder, or are not stored."""
    http = ScriptedHttp(script)
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), [].append))
    database = None if folder is None else await open_database(f"sqlite+aiosqlite:///{folder}/runs.db")

    async def responses() -> ResponseRepository:
        assert database is not None
        return ResponseRepository(database)

    async def conversations() -> ConversationRepository:
        assert database is not None
        return ConversationRepository(database)

    seconds = count(1000.0)
    stored = ResponseStorage(responses, lambda: next(seconds), None, conversations)
    storage = ResponseStorage(None) if database is None else stored
    app = create_app(engine, backend, ServerConfig(), responses=storage)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client, http
    finally:
        if database is not None:
            await database.close()


def sdk(client: httpx2.AsyncClient, key: str = "one") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url="http://127.0.0.1/v1", http_client=client, max_retries=0)


async def test_the_sdk_creates_continues_lists_and_deletes_a_conversation(tmp_path: Path) -> None:
    async with serving(tmp_path, Said("Hello Ada."), Said("Ada.")) as (client, http):
        ai = sdk(client)
        made = await ai.conversations.create(items=[USER], metadata={"topic": "names"})
        assert (made.object, made.created_at, made.metadata) == ("conversation", 1000, {"topic": "names"})
        assert await ai.conversations.retrieve(made.id) == made
        updated = await ai.conversations.update(made.id, metadata={"topic": "people"})
        assert updated.metadata == {"topic": "people"}

        first = await ai.responses.create(model="m", input="Hi.", conversation=made.id)
        added = await ai.conversations.items.create(
            made.id, items=[{"type": "message", "role": "user", "content": "Be brief."}]
        )
        await ai.responses.create(model="m", input="Who am I?", conversation=made.id)
        sent = http.asked[-1]["messages"]
        items = [item async for item in ai.conversations.items.list(made.id, order="asc", limit=2)]
        one = await ai.conversations.items.retrieve(added.data[0].id or "", conversation_id=made.id)
        kept = await ai.conversations.items.delete(added.data[0].id or "", conversation_id=made.id)
        left = [item.id async for item in ai.conversations.items.list(made.id, order="asc")]
        gone = await ai.conversations.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await ai.conversations.retrieve(made.id)
        still = await ai.responses.retrieve(first.id)

    said = ["My name is Ada.", "Hi.", "Hello Ada.", "Be brief.", "Who am I?"]
    assert [message["content"] for message in sent] == said
    assert len(items) == 6
    assert one == added.data[0] == items[3]
    assert kept.id == made.id
    assert left == [item.id for place, item in enumerate(items) if place != 3]
    assert (gone.object, gone.deleted) == ("conversation.deleted", True)
    assert still.output_text == "Hello Ada."


async def test_the_conversation_of_another_key_does_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, _):
        made = await sdk(client).conversations.create()
        with pytest.raises(openai.NotFoundError) as caught:
            await sdk(client, "two").conversations.retrieve(made.id)

    assert caught.value.code == "conversation_not_found"


@pytest_asyncio.fixture
async def stored(tmp_path: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of an application that stores conversations."""
    async with serving(tmp_path) as (client, _):
        yield client


@folded
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "param"),
    [
        ("POST", "", {"metadata": []}, 400, "metadata"),
        ("POST", "", {"metadata": {"a": 1}}, 400, "metadata.a"),
        ("POST", "", {"metadata": {"a": "x" * 513}}, 400, "metadata.a"),
        ("POST", "", {"metadata": {"k" * 65: "x"}}, 400, "metadata"),
        ("POST", "", {"metadata": {str(n): "x" for n in range(17)}}, 400, "metadata"),
        ("POST", "", {"items": [USER] * 21}, 400, "items"),
        ("POST", "", {"items": [{"type": "message", "role": "usr", "content": "x"}]}, 400, "items[0].role"),
        ("POST", "", {"items": "x"}, 400, "items"),
        ("POST", "/CONV/items", {}, 400, "items"),
        ("POST", "/CONV/items", {"items": [{"type": "item_reference", "id": "msg_1"}]}, 400, "items[0].id"),
        ("GET", "/CONV/items?limit=0", None, 400, "limit"),
        ("GET", "/CONV/items?after=msg_0", None, 400, "after"),
        ("GET", "/CONV/items/msg_0", None, 404, None),
        ("DELETE", "/CONV/items/msg_0", None, 404, None),
        ("GET", "/conv_0", None, 404, None),
        ("POST", "/conv_0", {"metadata": {}}, 404, None),
        ("DELETE", "/conv_0", None, 404, None),
        ("GET", "/conv_0/items", None, 404, None),
        ("POST", "/conv_0/items", {"items": [USER]}, 404, None),
        ("GET", "/conv%00/items", None, 404, None),
    ],
)
async def test_an_invalid_request_is_rejected_with_the_name_of_the_field(
    stored: httpx2.AsyncClient, method: str, path: str, body: Any, status: int, param: str | None
) -> None:
    made = await stored.post(PATH, json={})
    answer = await stored.request(method, PATH + path.replace("CONV", made.json()["id"]), json=body)

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


async def test_a_daemon_without_a_store_rejects_conversations() -> None:
    async with serving(None) as (client, _):
        answers = [await client.post(PATH, json={}), await client.get(f"{PATH}/conv_1")]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert "store.responses" in answers[0].json()["error"]["message"]
