"""Followers of the daemon's events: what they receive, in which order, and what happens to a slow one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import get_args

import pytest

from forge_proxy.core.event_feed import EventFilter, EventName, FeedEvent, FeedNotice
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.requests.records import RequestOrigin
from forge_proxy.engine.events import (
    AttemptRetried,
    RequestFailed,
    RunNotResumable,
    ServerStateChanged,
    SlotsDetected,
)
from forge_proxy.telemetry.event_feed import EventFeed
from tests.fakes.records import record_with

ALL = EventFilter()


async def read(feed: EventFeed, which: EventFilter = ALL, *, after: int = 0, last: int | None = None) -> list[str]:
    """The names of the stored events, and the kinds of notices."""
    items = [item async for item in feed.follow(which, after=after, last=last, stays=False)]
    return [item.name if isinstance(item, FeedEvent) else item.kind for item in items]


async def follow(feed: EventFeed, which: EventFilter = ALL) -> AsyncGenerator[FeedEvent | FeedNotice]:
    """A follower that waits for new events."""
    following = feed.follow(which)
    first = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    yield await first
    async for item in following:
        yield item


async def test_stored_events_come_first_and_new_ones_follow() -> None:
    feed = EventFeed()
    feed(SlotsDetected(1))
    following = feed.follow(ALL)
    stored = await anext(following)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    assert not waiting.done()

    feed(SlotsDetected(2))
    new = await waiting

    assert isinstance(stored, FeedEvent)
    assert isinstance(new, FeedEvent)
    assert stored.fields == {"slots": 1, "reported": True}
    assert new.fields["slots"] == 2
    assert new.id > stored.id
    await following.aclose()


async def test_ids_grow_across_restarts_and_when_the_clock_stands_still_or_goes_back() -> None:
    times = iter([1000.0, 1000.0, 1000.0, 990.0])
    feed = EventFeed(read_clock=lambda: next(times))
    for slots in range(3):
        feed(SlotsDetected(slots))

    ids = [item.id async for item in feed.follow(ALL, stays=False) if isinstance(item, FeedEvent)]

    assert ids == [1_000_000_001, 1_000_000_002, 1_000_000_003]


async def test_a_follower_continues_after_the_last_id_that_it_has() -> None:
    feed = EventFeed()
    for slots in range(3):
        feed(SlotsDetected(slots))
    ids = [item.id async for item in feed.follow(ALL, stays=False) if isinstance(item, FeedEvent)]

    assert await read(feed, after=ids[1]) == ["backend slots"]
    assert await read(feed, after=ids[2]) == []


async def test_events_that_may_be_missing_are_reported() -> None:
    feed = EventFeed(capacity=2, read_clock=lambda: 1000.0)
    for slots in range(4):
        feed(SlotsDetected(slots))
    kept_from = 1_000_000_003

    assert await read(feed, after=kept_from - 1) == ["backend slots", "backend slots"]
    assert await read(feed, after=kept_from - 2) == ["gap", "backend slots", "backend slots"]
    assert await read(feed, after=999_000_000) == ["gap", "backend slots", "backend slots"]  # of an earlier daemon
    assert await read(feed) == ["backend slots", "backend slots"]


async def test_last_limits_the_stored_events_that_match() -> None:
    feed = EventFeed()
    feed(SlotsDetected(1))
    feed(ServerStateChanged("llama-server", "ready", model="tiny"))
    feed(SlotsDetected(2))

    assert await read(feed, last=2) == ["model server", "backend slots"]
    assert await read(feed, EventFilter(frozenset({"backend slots"})), last=1) == ["backend slots"]
    assert await read(feed, last=0) == []


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (EventFilter(frozenset({"retried"})), ["retried"]),
        (EventFilter(model="named"), ["failed"]),
        (EventFilter(model="served"), ["failed"]),
        (EventFilter(client="laptop"), ["failed"]),
        (EventFilter(client="aider/0.86"), ["failed"]),
        (EventFilter(client="aider"), ["failed"]),
        (EventFilter(client="nobody"), []),
        (EventFilter(request_id="req-1"), ["retried", "failed"]),
        (EventFilter(level="warning"), ["failed", "run not resumable"]),
        (EventFilter(level="error"), ["run not resumable"]),
        (EventFilter(request_id="req-1", level="warning"), ["failed"]),
    ],
)
async def test_a_follower_chooses_its_events(which: EventFilter, expected: list[str]) -> None:
    feed = EventFeed()
    feed(SlotsDetected(1))
    feed(AttemptRetried("req-1", 1, Fault.UNKNOWN_TOOL))
    origin = RequestOrigin("messages", "laptop", "aider/0.86")
    feed(RequestFailed(record_with(request_id="req-1", origin=origin, model="named", served="served", result="failed")))
    feed(RunNotResumable("run-1", "of another version", fault=ValueError("a secret")))

    assert await read(feed, which) == expected


async def test_exceptions_and_former_names_are_not_part_of_an_event() -> None:
    feed = EventFeed()
    feed(RunNotResumable("run-1", "of another version", fault=ValueError("a secret")))

    (item,) = [item async for item in feed.follow(ALL, stays=False)]

    assert isinstance(item, FeedEvent)
    assert item.fields == {"run_id": "run-1", "error": "of another version"}


async def test_a_follower_that_is_too_slow_gets_a_message_and_delays_nobody() -> None:
    feed = EventFeed(capacity=3)
    feed(SlotsDetected(0))
    slow, quick = feed.follow(ALL), feed.follow(ALL)
    await anext(slow)
    received = [await anext(quick)]
    for slots in range(1, 6):
        feed(SlotsDetected(slots))
        received.append(await anext(quick))

    missed = await anext(slow)

    assert [item.fields["slots"] for item in received if isinstance(item, FeedEvent)] == [0, 1, 2, 3, 4, 5]
    assert missed == FeedNotice("dropped", "you read too slowly: 2 events were missed")
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    await quick.aclose()


async def test_closing_ends_every_feed_after_its_last_event() -> None:
    feed = EventFeed()
    following = follow(feed)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    feed(SlotsDetected(1))
    feed.close()

    assert isinstance(await waiting, FeedEvent)
    assert [item async for item in following] == [FeedNotice("stopping", "the daemon is stopping")]
    assert [item async for item in feed.follow(ALL, last=0)] == [FeedNotice("stopping", "the daemon is stopping")]


async def test_followers_are_counted_while_they_follow() -> None:
    feed = EventFeed()
    feed(SlotsDetected(1))
    following = feed.follow(ALL)

    await anext(following)
    assert feed.followers == 1
    await following.aclose()
    assert feed.followers == 0


def test_the_names_are_in_order_and_unique() -> None:
    names = get_args(EventName)

    assert sorted(set(names)) == list(names)


async def test_an_event_of_a_running_request_names_its_model_and_client() -> None:
    origins = {"req-1": {"model": "coder", "client": "laptop", "program": "aider/0.86"}}
    feed = EventFeed(describe_origin=lambda request_id: origins.get(request_id, {}))
    feed(AttemptRetried("req-1", 1, Fault.UNKNOWN_TOOL))
    feed(AttemptRetried("req-2", 1, Fault.UNKNOWN_TOOL))

    assert await read(feed, EventFilter(model="coder", client="laptop")) == ["retried"]
