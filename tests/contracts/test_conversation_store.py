"""The contract of `ConversationStore`, for SQLite and PostgreSQL, beside the responses of the same conversations."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import NamedTuple

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.stored_responses import (
    ConversationNotFound,
    ItemNotFound,
    ResponseNotFound,
    StoredConversation,
    StoredItem,
    StoredResponse,
)
from forge_proxy.store.conversations import ConversationRepository
from forge_proxy.store.database import open_database
from forge_proxy.store.responses import ResponseRepository

LIMIT = 10_000
NOW, END = 100.0, 200.0
CONVERSATION = StoredConversation("conv_1", "me", NOW, END, '{"topic": "é"}')


class Stores(NamedTuple):
    conversations: ConversationRepository
    responses: ResponseRepository

    async def ids(self, now: float = NOW, name: str = "conv_1") -> list[str]:
        return [item.id for item in await self.responses.read_conversation(name, "me", now, LIMIT)]


@pytest.fixture
async def stores(place: str) -> AsyncGenerator[Stores]:
    database = await open_database(place)
    opened = Stores(ConversationRepository(database), ResponseRepository(database))
    eraser = StoredResponse("resp_eraser", "me", 1e9, 2e9, "{}", conversation_id="conv_eraser")
    await opened.responses.save(eraser, [])  # deletes what has expired by then
    await opened.responses.delete("resp_eraser", "me", 0.0)
    await opened.conversations.delete("conv_eraser", "me", 0.0)
    yield opened
    await database.close()


def item(name: str, size: int = 10) -> StoredItem:
    return StoredItem(name, "input", "x" * size)


async def test_a_conversation_is_read_unchanged_and_its_metadata_are_replaced(stores: Stores) -> None:
    await stores.conversations.create(CONVERSATION)
    assert await stores.conversations.get("conv_1", "me", NOW) == CONVERSATION

    changed = await stores.conversations.update("conv_1", "me", NOW, "{}")

    assert changed == replace(CONVERSATION, metadata="{}")
    assert await stores.conversations.get("conv_1", "me", NOW) == changed


async def test_added_items_and_those_of_responses_are_in_order(stores: Stores) -> None:
    await stores.conversations.create(CONVERSATION)
    await stores.conversations.add(CONVERSATION, "a", NOW + 1, [item("1"), item("2")], LIMIT)
    response = StoredResponse("resp_a", "me", NOW + 2, END, "{}", conversation_id="conv_1")
    await stores.responses.save(response, [item("3")])
    await stores.conversations.add(CONVERSATION, "b", NOW + 3, [item("4")], LIMIT)

    assert await stores.ids() == ["1", "2", "3", "4"]
    with pytest.raises(ResponseNotFound):
        await stores.responses.get("items_a", "me", NOW)


async def test_a_response_begins_the_conversation_that_it_names(stores: Stores) -> None:
    await stores.responses.save(StoredResponse("resp_a", "me", NOW, END, "{}", conversation_id="conv_9"), [item("1")])

    assert (await stores.conversations.get("conv_9", "me", NOW)).metadata == "{}"


async def test_an_item_is_removed_and_leaves_room_for_others(stores: Stores) -> None:
    await stores.conversations.create(CONVERSATION)
    await stores.conversations.add(CONVERSATION, "a", NOW, [item("1", 600), item("2", 300)], 1000)
    with pytest.raises(InvalidRequest, match="at most 1000"):
        await stores.conversations.add(CONVERSATION, "b", NOW, [item("3", 500)], 1000)

    assert await stores.conversations.remove_item("conv_1", "me", NOW, "1") == CONVERSATION
    await stores.conversations.add(CONVERSATION, "b", NOW, [item("3", 500)], 1000)

    assert await stores.ids() == ["2", "3"]
    with pytest.raises(ItemNotFound):
        await stores.conversations.remove_item("conv_1", "me", NOW, "1")


async def test_a_deleted_conversation_takes_added_items_along_but_no_responses(stores: Stores) -> None:
    await stores.conversations.create(CONVERSATION)
    await stores.conversations.add(CONVERSATION, "a", NOW, [item("1")], LIMIT)
    response = StoredResponse("resp_a", "me", NOW, END, "{}", conversation_id="conv_1")
    await stores.responses.save(response, [item("2")])

    await stores.conversations.delete("conv_1", "me", NOW)

    assert await stores.ids() == []
    assert await stores.responses.get("resp_a", "me", NOW) == replace(response, conversation_id=None)
    with pytest.raises(ConversationNotFound):
        await stores.conversations.get("conv_1", "me", NOW)


async def test_a_conversation_expires_as_a_whole_after_its_last_addition(stores: Stores) -> None:
    await stores.conversations.create(CONVERSATION)
    await stores.conversations.add(CONVERSATION, "a", NOW, [item("1")], LIMIT)
    await stores.conversations.add(replace(CONVERSATION, expires_at=END + 50), "b", NOW + 50, [item("2")], LIMIT)

    assert await stores.ids(END + 10) == ["1", "2"]
    assert await stores.ids(END + 60) == []
    with pytest.raises(ConversationNotFound):
        await stores.conversations.get("conv_1", "me", END + 60)


async def test_a_conversation_of_another_owner_does_not_exist(stores: Stores) -> None:
    await stores.conversations.create(CONVERSATION)
    theirs = replace(CONVERSATION, owner="you")
    for name in ("conv_1", "conv_\0"):
        with pytest.raises(ConversationNotFound):
            await stores.conversations.get(name, "you", NOW)
        with pytest.raises(ConversationNotFound):
            await stores.conversations.update(name, "you", NOW, "{}")
        with pytest.raises(ConversationNotFound):
            await stores.conversations.delete(name, "you", NOW)
        with pytest.raises(ConversationNotFound):
            await stores.conversations.remove_item(name, "you", NOW, "1")
    with pytest.raises(ConversationNotFound):
        await stores.conversations.add(theirs, "a", NOW, [item("1")], LIMIT)

    await stores.conversations.create(theirs)  # the same id, chosen by two clients
    assert (await stores.conversations.get("conv_1", "you", NOW)).owner == "you"
