"""The contract of the stored requests and of the ledger, for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from sqlalchemy import delete

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.requests.alerts import CallWindow
from forge_proxy.core.requests.ledger import LedgerCounts, LedgerKey, RequestCounts
from forge_proxy.core.requests.records import AttemptRecord, CallRecord, RequestOrigin, TokenCounts
from forge_proxy.core.requests.stored import (
    DURATION_BOUNDS,
    HOUR,
    EndedRequest,
    RequestFilter,
    RequestNotStored,
    RequestRetention,
)
from forge_proxy.store.database import Database, open_database
from forge_proxy.store.ledger import LedgerRepository
from forge_proxy.store.requests import RequestRepository
from forge_proxy.store.tables import DURATIONS, LEDGER, REQUEST_HOURS, REQUESTS
from tests.fakes.records import record_with

NOON = 500_000 * HOUR
"""A time that begins an hour, in seconds since 1970."""
ALL = RequestFilter()
FAULTY = AttemptRecord(1, "bad_arguments", "search", "limit: not an integer", 0.4, TokenCounts(100, None, 10))


class Stores(NamedTuple):
    database: Database
    requests: RequestRepository
    ledger: LedgerRepository

    async def numbers(self, which: RequestFilter = ALL, before: int | None = None, limit: int = 100) -> list[str]:
        """The ids of the listed requests."""
        return [one.record.request_id for one in await self.requests.list(which, before=before, limit=limit)]


@pytest.fixture
async def stores(place: str) -> AsyncGenerator[Stores]:
    database = await open_database(place)
    async with database.write() as connection:
        for table in (REQUESTS, LEDGER, REQUEST_HOURS, DURATIONS):
            await connection.execute(delete(table))
    yield Stores(database, RequestRepository(database), LedgerRepository(database))
    await database.close()


def ended(name: str = "r", at: float = NOON, counted_as: str = "m", **fields: Any) -> EndedRequest:
    return EndedRequest(at, record_with(request_id=name, **fields), counted_as, "Q4_K_M")


async def test_a_request_is_read_unchanged(stores: Stores) -> None:
    request = ended(
        result="retried",
        attempts=(FAULTY, AttemptRecord(2, seconds=0.2, tokens=TokenCounts(120, 100, 8, 3))),
        calls=(CallRecord("search", Outcome.RETRIED),),
        interventions=("retried: limit",),
        first_output=None,
    )
    await stores.requests.add([request])

    (listed,) = await stores.requests.list(ALL, before=None, limit=10)

    assert listed.record == request.record
    assert (listed.ended_at, listed.quantization) == (NOON, "Q4_K_M")
    assert await stores.requests.get("r") == listed
    assert await stores.requests.get(str(listed.number)) == listed


async def test_text_that_a_model_or_a_client_made_up_is_stored(stores: Stores) -> None:
    strange = "a\0b\ud800\U0001f600" + "x" * 300
    attempt = AttemptRecord(1, "bad_arguments", strange, strange)
    origin = RequestOrigin(strange, strange, strange)
    request = ended(
        counted_as=strange, origin=origin, error=strange, attempts=(attempt,), model=strange, served=strange
    )
    await stores.requests.add([request])

    (listed,) = await stores.requests.list(ALL, before=None, limit=10)

    assert listed.record.error == strange
    assert listed.record.attempts == (attempt,)
    assert (listed.record.model or "").startswith("a\ufffdb?\U0001f600x")
    assert len(await stores.ledger.list_calls(NOON, NOON, None)) == 1


async def test_pages_and_filters(stores: Stores) -> None:
    other = RequestOrigin("messages", "laptop", "claude-code/2")
    await stores.requests.add([ended(f"r{number}", NOON + number) for number in range(5)])
    await stores.requests.add([
        ended("other", NOON + 10, result="failed", origin=other, served="n", attempts=(FAULTY, FAULTY)),
        ended("last", NOON + 11),
    ])  # fmt: skip
    first = await stores.requests.list(ALL, before=None, limit=2)

    assert [one.record.request_id for one in first] == ["last", "other"]
    assert await stores.numbers(before=first[-1].number, limit=3) == ["r4", "r3", "r2"]
    for which in (
        RequestFilter(result="failed"),
        RequestFilter(model="n"),
        RequestFilter(surface="messages"),
        RequestFilter(fault="bad_arguments"),
        RequestFilter(fault="bad_arguments", result="failed", surface="messages"),
        RequestFilter(request_id="other"),
        RequestFilter(since=NOON + 10, until=NOON + 11),
    ):
        assert await stores.numbers(which) == ["other"], which
    assert await stores.numbers(RequestFilter(fault="text")) == []


async def test_of_several_requests_with_one_id_the_latest_is_shown(stores: Stores) -> None:
    await stores.requests.add([ended("same", NOON), ended("same", NOON + 5)])

    assert (await stores.requests.get("same")).ended_at == NOON + 5


@pytest.mark.parametrize("name", ["unknown", "99999999999999999", "9" * 50, "\0", "", "²"])
async def test_a_request_that_is_not_stored(stores: Stores, name: str) -> None:
    await stores.requests.add([ended()])

    with pytest.raises(RequestNotStored, match="no request"):
        await stores.requests.get(name)


async def test_the_ledger_adds_up_over_hours(stores: Stores) -> None:
    calls = (CallRecord("search", Outcome.RETRIED),)

    def retried(at: float) -> EndedRequest:
        return ended(at=at, result="retried", attempts=(FAULTY, AttemptRecord(2)), calls=calls)

    clean = ended(at=NOON + HOUR, calls=(CallRecord("search", Outcome.CLEAN),))
    await stores.requests.add([retried(NOON), retried(NOON + 1), clean])
    await stores.requests.add([retried(NOON + 2)])

    rows = {row.key.fault: row for row in await stores.ledger.list_calls(NOON, NOON + HOUR, None)}
    hours = await stores.ledger.list_hours(NOON, NOON + HOUR, "m")

    assert rows["bad_arguments"].key == LedgerKey("m", "Q4_K_M", "search", "bad_arguments")
    assert rows["bad_arguments"].counts.calls == rows["bad_arguments"].counts.retried == 3
    assert rows["bad_arguments"].counts.tokens == 330
    assert abs(rows["bad_arguments"].counts.seconds - 1.2) < 1e-9
    assert rows[""].counts == LedgerCounts(calls=4, clean=4)
    assert [(hour.starts_at, hour.counts.retried, hour.counts.clean) for hour in hours] == [
        (NOON, 3, 0),
        (NOON + HOUR, 0, 1),
    ]
    assert hours[1].counts == RequestCounts(requests=1, clean=1, tokens=120)
    assert await stores.ledger.list_calls(NOON, NOON + HOUR, "unknown") == []
    assert await stores.ledger.list_hours(NOON + 2 * HOUR, NOON + 3 * HOUR, None) == []


async def test_durations_by_classes(stores: Stores) -> None:
    times = [(0.04, 0.01), (0.05, None), (0.3, 0.06), (1e6, 1e5)]
    await stores.requests.add([ended(seconds=total, first_output=first) for total, first in times])

    found = {(one.measure, one.bucket): one.count for one in await stores.ledger.list_durations(NOON, NOON, None)}

    last = len(DURATION_BOUNDS)
    assert found == {
        ("total", 0): 2, ("total", 3): 1, ("total", last): 1,
        ("first_output", 0): 1, ("first_output", 1): 1, ("first_output", last): 1,
    }  # fmt: skip


async def test_what_is_no_longer_kept_is_deleted_in_small_steps(stores: Stores) -> None:
    old = [ended(f"old{number}", NOON, attempts=(FAULTY,)) for number in range(1100)]
    await stores.requests.add([*old, ended("new", NOON + 40 * 24 * HOUR)])
    steps = 1
    while await stores.requests.prune(RequestRetention(30, 1_000_000, 35), NOON + 41 * 24 * HOUR):
        steps += 1

    assert steps > 2
    assert await stores.numbers() == ["new"]
    assert await stores.numbers(RequestFilter(fault="bad_arguments")) == []
    assert [hour.starts_at for hour in await stores.ledger.list_hours(0, NOON * 2, None)] == [NOON + 40 * 24 * HOUR]


async def test_only_the_newest_are_kept(stores: Stores) -> None:
    await stores.requests.add([ended(f"r{number}") for number in range(20)])

    await stores.requests.prune(RequestRetention(30, 3, 365), NOON)

    assert await stores.numbers() == ["r19", "r18", "r17"]
    assert sum(hour.counts.requests for hour in await stores.ledger.list_hours(NOON, NOON, None)) == 20


async def test_a_text_is_read_by_the_number_of_its_request(stores: Stores) -> None:
    with_text = [replace(ended(f"r{number}", attempts=(FAULTY,)), content=b"text %d" % number) for number in range(3)]
    await stores.requests.add([ended("before"), *with_text, ended("after")])

    numbers = {one.record.request_id: one.number for one in await stores.requests.list(ALL, before=None, limit=10)}
    texts = {name: await stores.requests.read_content(number) for name, number in numbers.items()}

    assert texts == {"before": None, "r0": b"text 0", "r1": b"text 1", "r2": b"text 2", "after": None}
    assert await stores.requests.read_content(10**15) is None


async def texts_after_pruning(stores: Stores, retention: RequestRetention, now: float) -> list[str]:
    """Prune until nothing is left to delete, and return the requests whose text is still stored."""
    while await stores.requests.prune(retention, now):
        pass
    found = await stores.requests.list(ALL, before=None, limit=1000)
    return [one.record.request_id for one in found if await stores.requests.read_content(one.number) is not None]


async def test_texts_are_deleted_before_their_requests(stores: Stores) -> None:
    day = 24 * HOUR
    await stores.requests.add(
        [replace(ended(f"r{number}", NOON + number * day), content=b"text") for number in range(10)]
    )

    left = await texts_after_pruning(stores, RequestRetention(30, 1000, 365, content_days=3), NOON + 9 * day)

    assert left == ["r9", "r8", "r7", "r6"]
    assert len(await stores.numbers()) == 10
    assert await texts_after_pruning(stores, RequestRetention(1, 1000, 365, content_days=3), NOON + 9 * day) == [
        "r9",
        "r8",
    ]


async def test_the_oldest_texts_are_deleted_by_size(stores: Stores) -> None:
    await stores.requests.add([replace(ended(f"r{number}"), content=bytes(1000)) for number in range(300)])

    assert len(await texts_after_pruning(stores, RequestRetention(30, 1000, 365, max_content=4500), NOON)) == 4
    assert await texts_after_pruning(stores, RequestRetention(30, 1000, 365, max_content=1000), NOON) == ["r299"]
    assert await texts_after_pruning(stores, RequestRetention(30, 2, 365), NOON) == ["r299"]


async def test_calls_by_windows_of_a_day(stores: Stores) -> None:
    clean = (CallRecord("search", Outcome.CLEAN),)
    rescued = (CallRecord("search", Outcome.RESCUED),)
    await stores.requests.add([
        ended(at=NOON, calls=clean),
        ended(at=NOON - 23 * HOUR, calls=rescued, result="rescued"),
        ended(at=NOON - 24 * HOUR, calls=clean, result="retried", attempts=(FAULTY, AttemptRecord(2))),
        ended(at=NOON - 100 * HOUR, calls=clean),
    ])  # fmt: skip

    last = NOON // HOUR
    found = await stores.ledger.call_windows(last - 47, last)

    assert sorted(found, key=lambda one: one.age) == [
        CallWindow(0, "m", "search", 2, 1), CallWindow(1, "m", "search", 2, 1),
    ]  # fmt: skip
