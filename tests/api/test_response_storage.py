"""What is read before a request is decoded and what is saved before its response ends, with a store that may fail."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from forge_proxy.api import response_storage
from forge_proxy.api.bodies import LargeBodies
from forge_proxy.api.response_storage import ResponseStorage
from forge_proxy.api.response_store import ResponseRetention
from forge_proxy.api.surface import ReceivedRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.stored_responses import Charge, StoredItem, StoredResponse, charge_nothing
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.memory import MEGABYTE, MemoryBudget, MemoryFull, RequestMemory
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest

JsonDict = dict[str, Any]
ASK: JsonDict = {"model": "m", "input": "Hi", "store": True}


class MemoryStore:
    """A `ResponseStore` that keeps the last response, and may be slow or fail."""

    def __init__(self) -> None:
        self.saved: list[tuple[StoredResponse, Sequence[StoredItem]]] = []
        self.earlier: Sequence[StoredItem] = ()
        self.fails = False
        self.may_save = asyncio.Event()
        self.may_save.set()
        self.is_saving = asyncio.Event()

    async def save(self, response: StoredResponse, items: Sequence[StoredItem]) -> None:
        self.is_saving.set()
        await self.may_save.wait()
        if self.fails:
            raise StoreUnavailable("the disk is full")
        self.saved.append((response, items))

    async def get(self, response_id: str, owner: str, now: float) -> StoredResponse:
        return self.saved[-1][0]

    async def delete(self, response_id: str, owner: str, now: float) -> None:
        self.saved.clear()

    async def read_chain(
        self, response_id: str, owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Sequence[StoredItem]:
        charge(sum(len(item.data) for item in self.earlier))
        return self.earlier

    async def read_conversation(
        self, conversation_id: str, owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Sequence[StoredItem]:
        return self.earlier

    async def read_input(self, response_id: str, owner: str, now: float) -> Sequence[StoredItem]:
        return [item for item in self.saved[-1][1] if item.kind == "input"]

    async def read_items(
        self, ids: Sequence[str], owner: str, now: float, limit: int, charge: Charge = charge_nothing
    ) -> Mapping[str, StoredItem]:
        return {item.id: item for item in self.earlier}


def storage_of(store: MemoryStore, **retention: Any) -> ResponseStorage:
    async def open_store() -> MemoryStore:
        return store

    return ResponseStorage(open_store, lambda: 1000.0, ResponseRetention(**retention))


async def decode(
    storage: ResponseStorage, body: JsonDict, memory: RequestMemory | None = None
) -> DecodedResponsesRequest:
    received = ReceivedRequest(body, len(json.dumps(body)), "me", memory or RequestMemory())
    return await storage.decode(received, LargeBodies())


def said(text: str) -> ResponseCollector:
    collector = ResponseCollector()
    collector.add(Chunk((Delta(text=text, finish="stop"),)))
    return collector


async def respond(storage: ResponseStorage, body: JsonDict = ASK, text: str = "Hello.") -> JsonDict:
    decoded = await decode(storage, body)
    return json.loads(await storage.encode_response(decoded, said(text), "r", 7))


async def test_a_response_is_saved_with_its_input_and_its_output() -> None:
    store = MemoryStore()

    made = await respond(storage_of(store, days=2))

    ((response, items),) = store.saved
    assert (response.id, response.owner, response.expires_at) == (made["id"], "me", 1000.0 + 2 * 86400)
    assert json.loads(response.document) == made
    assert [(item.kind, json.loads(item.data)["content"][0]["text"]) for item in items] == [
        ("input", "Hi"), ("output", "Hello."),
    ]  # fmt: skip
    assert json.loads(items[0].data)["id"].startswith("msg_")


async def test_without_a_reason_to_store_nothing_is_stored() -> None:
    store = MemoryStore()

    made = await respond(storage_of(store), {**ASK, "store": None})

    assert (made["store"], store.saved) == (False, [])


async def test_a_store_that_fails_after_the_model_has_answered_costs_only_the_copy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    store.fails = True

    with caplog.at_level(logging.WARNING, "forge_proxy.api"):
        made = await respond(storage_of(store))

    assert (made["store"], made["output"][0]["content"][0]["text"]) == (False, "Hello.")
    assert [record.__dict__["log_fields"]["event"] for record in caplog.records] == ["response not stored"]
    assert "Hello." not in caplog.text


async def test_a_store_that_cannot_be_opened_fails_the_request_before_the_model_works() -> None:
    async def open_store() -> MemoryStore:
        raise StoreUnavailable("another daemon uses it")

    storage = ResponseStorage(open_store, lambda: 0.0)

    with pytest.raises(StoreUnavailable):
        await decode(storage, ASK)
    assert (await decode(storage, {**ASK, "store": False})).chat.messages


@pytest.mark.parametrize(("body", "text"), [({**ASK, "input": "x" * 600}, "Hello."), (ASK, "x" * 600)])
async def test_a_response_that_is_too_large_is_not_stored(
    monkeypatch: pytest.MonkeyPatch, body: JsonDict, text: str
) -> None:
    store = MemoryStore()
    monkeypatch.setattr(response_storage, "MAX_STORED", 2000)

    assert (await respond(storage_of(store)))["store"] is True
    assert (await respond(storage_of(store), {**body, "instructions": "y" * 600}, text))["store"] is False
    assert len(store.saved) == 1


async def test_a_client_that_leaves_does_not_interrupt_a_save() -> None:
    store = MemoryStore()
    store.may_save.clear()
    storage = storage_of(store)
    responding = asyncio.create_task(respond(storage))
    await store.is_saving.wait()

    responding.cancel()
    await asyncio.wait([responding])
    store.may_save.set()
    while not store.saved:  # noqa: ASYNC110  the save has no other end to wait for
        await asyncio.sleep(0)

    assert responding.cancelled()


async def test_a_large_stored_conversation_is_serialized_in_slices() -> None:
    store = MemoryStore()
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x" * 300_000}]}
    store.earlier = [StoredItem(f"msg_{number}", "input", json.dumps(item)) for number in range(5)]
    storage = storage_of(store)

    small = await decode(storage, ASK)
    large = await decode(storage, {**ASK, "previous_response_id": "resp_1"})

    assert (small.chat.is_large, large.chat.is_large) == (False, True)
    assert len(large.chat.messages) == 6


async def test_a_reference_that_is_repeated_often_is_bounded_like_what_it_stands_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    store.earlier = [StoredItem("msg_1", "input", json.dumps({"role": "user", "content": "x" * 300}))]
    storage = storage_of(store)
    monkeypatch.setattr(response_storage, "MAX_CONVERSATION", 1000)
    reference = {"type": "item_reference", "id": "msg_1"}
    twice: JsonDict = {**ASK, "input": [reference] * 2}
    often: JsonDict = {**ASK, "input": [reference] * 4}

    assert len((await decode(storage, twice)).chat.messages) == 2
    with pytest.raises(InvalidRequest):
        await decode(storage, often)


async def test_each_response_has_an_id_of_its_own() -> None:
    storage = ResponseStorage(None, lambda: 0.0)

    decoded = [await decode(storage, {**ASK, "store": False}) for _ in range(3)]

    assert all(isinstance(one, DecodedResponsesRequest) for one in decoded)
    assert len({one.response_id for one in decoded}) == 3


async def test_a_stored_conversation_is_charged_to_the_memory_of_its_request_until_it_ends() -> None:
    store, budget = MemoryStore(), MemoryBudget(16 * MEGABYTE)
    store.earlier = [StoredItem("msg_1", "input", json.dumps({"role": "user", "content": "x" * 4 * MEGABYTE}))]
    first, second = RequestMemory(budget), RequestMemory(budget)
    body = {**ASK, "previous_response_id": "resp_1"}

    await decode(storage_of(store), body, first)
    assert budget.used == pytest.approx(12 * MEGABYTE, rel=0.01)
    with pytest.raises(MemoryFull):
        await decode(storage_of(store), body, second)
    first.release()
    second.release()
    assert budget.used == 0
    await decode(storage_of(store), body, second)


async def test_a_large_request_is_converted_beside_the_event_loop() -> None:
    loop_thread, threads = threading.get_ident(), list[int]()
    large = LargeBodies()
    for size in (1000, 10 * MEGABYTE):
        await large.convert(size, lambda: threads.append(threading.get_ident()))

    assert threads[0] == loop_thread
    assert threads[1] != loop_thread
