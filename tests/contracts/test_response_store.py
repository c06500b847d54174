"""The contract of `ResponseStore`, for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.stored_responses import ResponseNotFound, StoredItem, StoredResponse
from forge_proxy.store.database import open_database
from forge_proxy.store.responses import ResponseRepository

LIMIT = 10_000
NOW, END = 100.0, 200.0
ME, YOU = "me", "you"


@pytest.fixture
async def store(place: str) -> AsyncGenerator[ResponseRepository]:
    database = await open_database(place)
    opened = ResponseRepository(database)
    await opened.save(response("eraser", created_at=1e9, expires_at=2e9), [])  # deletes what has expired by then
    await opened.delete("eraser", ME, 0.0)
    yield opened
    await database.close()


def response(name: str, **fields: object) -> StoredResponse:
    made = StoredResponse(f"resp_{name}" if len(name) == 1 else name, ME, NOW, END, '{"text": "\\u0000 é😀"}')
    return replace(made, **fields)


def items(*names: str) -> list[StoredItem]:
    kinds = ("input", "output")
    return [StoredItem(f"msg_{name}", kinds[at % 2], f'{{"id": "{name}"}}') for at, name in enumerate(names)]


def names(found: Sequence[StoredItem]) -> str:
    return "".join(item.id.removeprefix("msg_") for item in found)


async def test_a_stored_response_is_read_unchanged(store: ResponseRepository) -> None:
    made = response("a", conversation_id="conv_1")
    await store.save(made, items("1", "2"))

    assert await store.get("resp_a", ME, NOW) == made
    assert await store.read_input("resp_a", ME, NOW) == items("1")


async def test_the_items_of_a_chain_are_in_order(store: ResponseRepository) -> None:
    await store.save(response("a"), items("1", "2"))
    await store.save(response("b", previous_id="resp_a"), items("3", "4"))
    await store.save(response("c", previous_id="resp_b"), items("5", "6"))
    await store.save(response("d", previous_id="resp_a"), items("7", "8"))

    assert names(await store.read_chain("resp_c", ME, NOW, LIMIT)) == "123456"
    assert names(await store.read_chain("resp_d", ME, NOW, LIMIT)) == "1278"


async def test_a_long_chain_is_read_completely(store: ResponseRepository) -> None:
    await store.save(response("r0000"), items("0"))
    for number in range(1, 60):
        await store.save(response(f"r{number:04}", previous_id=f"r{number - 1:04}"), items("0"))

    assert len(await store.read_chain("r0059", ME, NOW, LIMIT)) == 60


async def test_a_chain_with_a_missing_response_is_not_found(store: ResponseRepository) -> None:
    await store.save(response("a"), items("1"))
    await store.save(response("b", previous_id="resp_a"), items("2"))
    await store.delete("resp_a", ME, NOW)

    with pytest.raises(ResponseNotFound, match="resp_a"):
        await store.read_chain("resp_b", ME, NOW, LIMIT)


async def test_a_conversation_has_the_items_of_all_its_responses(store: ResponseRepository) -> None:
    for name, created in (("b", 102.0), ("a", 101.0)):
        await store.save(response(name, conversation_id="conv_1", created_at=created), items(name))
    await store.save(response("c", conversation_id="conv_1", owner=YOU), items("c"))

    assert names(await store.read_conversation("conv_1", ME, NOW, LIMIT)) == "ab"
    assert await store.read_conversation("conv_2", ME, NOW, LIMIT) == []


@pytest.mark.parametrize("at", ["chain", "conversation"])
async def test_a_conversation_that_is_too_large_cannot_be_continued(store: ResponseRepository, at: str) -> None:
    await store.save(response("a", conversation_id="conv_1"), [replace(items("1")[0], data="x" * 600)])
    await store.save(
        response("b", previous_id="resp_a", conversation_id="conv_1"), [replace(items("2")[0], data="x" * 600)]
    )
    read = (
        store.read_chain("resp_b", ME, NOW, 1000) if at == "chain" else store.read_conversation("conv_1", ME, NOW, 1000)
    )

    with pytest.raises(InvalidRequest):
        await read


async def test_items_are_found_by_their_ids(store: ResponseRepository) -> None:
    await store.save(response("a"), items("1", "2"))
    await store.save(response("b", owner=YOU), items("3"))

    found = await store.read_items(["msg_2", "msg_3", "msg_4", "msg_\0"], ME, NOW, LIMIT)

    assert {name: item.data for name, item in found.items()} == {"msg_2": '{"id": "2"}'}


async def test_items_that_are_too_large_together_are_not_read(store: ResponseRepository) -> None:
    await store.save(response("a"), [replace(item, data="x" * 600) for item in items("1", "2")])

    assert len(await store.read_items(["msg_1"], ME, NOW, 1000)) == 1
    with pytest.raises(InvalidRequest):
        await store.read_items(["msg_1", "msg_2"], ME, NOW, 1000)


async def test_responses_of_another_key_do_not_exist(store: ResponseRepository) -> None:
    await store.save(response("a"), items("1"))

    for read in (store.get, store.delete, store.read_input):
        with pytest.raises(ResponseNotFound):
            await read("resp_a", YOU, NOW)
    with pytest.raises(ResponseNotFound):
        await store.read_chain("resp_a", YOU, NOW, LIMIT)
    assert await store.get("resp_a", ME, NOW)


async def test_an_expired_response_does_not_exist_and_is_deleted_by_the_next_save(store: ResponseRepository) -> None:
    await store.save(response("a"), items("1"))

    with pytest.raises(ResponseNotFound):
        await store.get("resp_a", ME, END)
    assert await store.read_items(["msg_1"], ME, END, LIMIT) == {}

    await store.save(response("b", created_at=END, expires_at=END + 1), [])
    with pytest.raises(ResponseNotFound):
        await store.get("resp_a", ME, NOW)


async def test_a_continued_response_is_kept_as_long_as_the_last_one_of_its_chain(store: ResponseRepository) -> None:
    await store.save(response("a", conversation_id="conv_1"), items("1"))
    await store.save(response("b", previous_id="resp_a"), items("2"))
    await store.save(response("c", previous_id="resp_b", expires_at=END + 50), items("3"))
    await store.save(response("d", conversation_id="conv_1", expires_at=END + 90), items("4"))

    assert names(await store.read_chain("resp_c", ME, END + 40, LIMIT)) == "123"
    assert names(await store.read_conversation("conv_1", ME, END + 80, LIMIT)) == "14"
    with pytest.raises(ResponseNotFound):
        await store.get("resp_b", ME, END + 80)


@pytest.mark.parametrize("name", ["resp_\0", "", "x" * 8000, "\ud83d", "resp_%", "a'b\"", "\n"])
async def test_any_id_is_merely_unknown(store: ResponseRepository, name: str) -> None:
    for read in (store.get, store.delete, store.read_input):
        with pytest.raises(ResponseNotFound):
            await read(name, ME, NOW)
    with pytest.raises(ResponseNotFound):
        await store.read_chain(name, ME, NOW, LIMIT)
    assert await store.read_conversation(name, ME, NOW, LIMIT) == []
