"""Who runs, who waits and who is next: a few by hand, then whatever happens in whatever order."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.queueing import EntryState, FairQueue, QueueEntry
from tests.properties import examples


def entered(queue: FairQueue, clients: str) -> list[QueueEntry]:
    """A place for each of these, who are called by one letter, all let in."""
    places = [queue.enter(client) for client in clients]
    assert None not in places
    return [place for place in places if place]


def in_turn(queue: FairQueue, running: list[QueueEntry]) -> str:
    """The clients of those who wait, in the order in which they run when one after the other ends."""
    order = ""
    while running:
        started = queue.leave(running.pop(0))
        order += "".join(place.client for place in started)
        running += started
    return order


def test_whoever_finds_a_slot_runs_at_once_and_the_others_wait() -> None:
    queue = FairQueue(2, 10)

    states = [place.state for place in entered(queue, "abc")]

    assert states == [EntryState.RUNNING, EntryState.RUNNING, EntryState.WAITING]
    assert (queue.running, queue.waiting) == (2, 1)


def test_clients_take_turns_however_much_one_of_them_has_waiting() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "aaaaabbc")

    assert in_turn(queue, [first]) == "abcabaa"


def test_a_clients_own_places_are_served_as_they_came() -> None:
    queue = FairQueue(1, 10)
    first, *own = entered(queue, "aaaa")

    running = [first]
    served: list[QueueEntry] = []
    while running:
        running = queue.leave(running.pop())
        served += running

    assert served == own


def test_who_comes_back_is_behind_those_who_wait() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "abb")
    (b,) = queue.leave(first)
    entered(queue, "a")

    assert in_turn(queue, [b]) == "ba"


def test_whoever_leaves_while_waiting_is_passed_over_and_makes_room() -> None:
    queue = FairQueue(1, 2)
    first, leaver, _ = entered(queue, "aab")
    assert queue.enter("a") is None

    assert queue.leave(leaver) == []

    assert queue.enter("a")
    assert in_turn(queue, [first]) == "ba"


def test_leaving_twice_frees_no_second_slot() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "abc")

    assert [place.client for place in queue.leave(first)] == ["b"]
    assert queue.leave(first) == []
    assert (queue.running, queue.waiting) == (1, 1)


def test_a_full_queue_has_room_for_clients_of_whom_none_waits_but_not_without_end() -> None:
    queue = FairQueue(1, 2)
    entered(queue, "aaabc")

    assert [queue.enter(client) for client in "abcd"] == [None] * 4


def test_without_a_queue_nobody_waits() -> None:
    queue = FairQueue(1, 0)
    (first,) = entered(queue, "a")

    assert queue.enter("b") is None
    assert queue.leave(first) == []
    assert queue.enter("b")


def test_more_slots_let_more_run_and_fewer_stop_nobody() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "abcd")

    assert [place.client for place in queue.resize(3)] == ["b", "c"]
    assert queue.resize(1) == []
    assert queue.leave(first) == []
    assert (queue.running, queue.waiting) == (2, 1)
    assert [place.client for place in queue.resize(None)] == ["d"]
    assert all(place.state is EntryState.RUNNING for place in entered(queue, "efg"))


HAPPENINGS = st.lists(
    st.tuples(st.just("enter"), st.sampled_from("abcd"))
    | st.tuples(st.just("leave"), st.integers(0, 30))
    | st.tuples(st.just("resize"), st.none() | st.integers(1, 4)),
    max_size=60,
)


@examples(500)
@given(st.none() | st.integers(1, 3), st.integers(0, 6), HAPPENINGS)
def test_whatever_happens_slots_are_used_but_not_exceeded_and_nobody_is_lost_or_overtaken_without_end(
    slots: int | None, limit: int, happenings: list[tuple[str, object]]
) -> None:
    queue = FairQueue(slots, limit)
    here: list[QueueEntry] = []
    started: list[QueueEntry] = []
    joined: dict[QueueEntry, tuple[int, int]] = {}
    """Of each place: how many had started when it came, and how many of its client waited before it."""

    def start(places: list[QueueEntry]) -> None:
        for place in places:
            since, ahead = joined[place]
            others = Counter(other.client for other in started[since:])
            assert others.pop(place.client, 0) <= ahead
            assert all(count <= ahead + 1 for count in others.values())
            started.append(place)

    def happen(what: str, value: object) -> None:
        before = queue.running
        match what, value:
            case "enter", str(client):
                ahead = sum(place.client == client and place.state is EntryState.WAITING for place in here)
                place = queue.enter(client)
                if place is None:
                    assert queue.waiting >= limit
                    return
                joined[place] = (len(started), ahead)
                here.append(place)
                if place.state is EntryState.RUNNING:
                    assert queue.waiting == 0
                    start([place])
            case "leave", int(number) if here:
                start(queue.leave(here.pop(number % len(here))))
            case "resize", (None | int()) as count:
                start(queue.resize(count))
            case _:
                return
        states = Counter(place.state for place in here)
        assert (queue.running, queue.waiting) == (states[EntryState.RUNNING], states[EntryState.WAITING])
        assert queue.slots is None or queue.running <= max(queue.slots, before)
        assert queue.waiting == 0 or (queue.slots is not None and queue.running >= queue.slots)
        assert queue.waiting <= 2 * limit

    for what, value in happenings:
        happen(what, value)
    while here:
        happen("leave", next(number for number, place in enumerate(here) if place.state is EntryState.RUNNING))

    assert (queue.running, queue.waiting) == (0, 0)
