"""Which request runs, waits or is next: hand-written cases, then random sequences of events."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.waiting import EntryState, QueueEntry
from tests.properties import examples


def entered(queue: FairQueue, clients: str) -> list[QueueEntry]:
    """Return an entry for each of these clients, named by one letter, all admitted."""
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


def test_a_request_with_a_free_slot_runs_at_once_and_others_wait() -> None:
    queue = FairQueue(2, 10)

    states = [place.state for place in entered(queue, "abc")]

    assert states == [EntryState.RUNNING, EntryState.RUNNING, EntryState.WAITING]
    assert (queue.running, queue.waiting) == (2, 1)


def test_clients_are_served_round_robin_regardless_of_their_number_of_requests() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "aaaaabbc")

    assert in_turn(queue, [first]) == "abcabaa"


def test_the_requests_of_one_client_are_served_in_order_of_arrival() -> None:
    queue = FairQueue(1, 10)
    first, *own = entered(queue, "aaaa")

    running = [first]
    served: list[QueueEntry] = []
    while running:
        running = queue.leave(running.pop())
        served += running

    assert served == own


def test_a_returning_client_queues_behind_waiting_clients() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "abb")
    (b,) = queue.leave(first)
    entered(queue, "a")

    assert in_turn(queue, [b]) == "ba"


def test_a_waiting_request_that_leaves_is_skipped_and_frees_its_place() -> None:
    queue = FairQueue(1, 2)
    first, leaver, _ = entered(queue, "aab")
    assert queue.enter("a") is None

    assert queue.leave(leaver) == []

    assert queue.enter("a")
    assert in_turn(queue, [first]) == "ba"


def test_leaving_twice_frees_only_one_slot() -> None:
    queue = FairQueue(1, 10)
    first, *_ = entered(queue, "abc")

    assert [place.client for place in queue.leave(first)] == ["b"]
    assert queue.leave(first) == []
    assert (queue.running, queue.waiting) == (1, 1)


def test_a_full_queue_admits_a_bounded_number_of_clients_without_waiting_requests() -> None:
    queue = FairQueue(1, 2)
    entered(queue, "aaabc")

    assert [queue.enter(client) for client in "abcd"] == [None] * 4


def test_with_a_limit_of_zero_no_request_waits() -> None:
    queue = FairQueue(1, 0)
    (first,) = entered(queue, "a")

    assert queue.enter("b") is None
    assert queue.leave(first) == []
    assert queue.enter("b")


def test_more_slots_start_more_requests_and_fewer_slots_stop_none() -> None:
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
def test_slots_are_used_but_never_exceeded_and_no_request_is_lost_or_starved(
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


@examples(200)
@given(clients=st.text("abcd", min_size=1, max_size=12))
def test_the_position_of_a_request_is_the_turn_in_which_it_runs(clients: str) -> None:
    queue = FairQueue(1, 100)
    first, *waiting = entered(queue, f"x{clients}")
    positions = {place: queue.find_position(place) for place in waiting}

    running, turn = [first], 0
    while running:
        running = queue.leave(running.pop())
        turn += 1
        assert [positions.pop(place) for place in running] == [turn] * len(running)
    assert positions == {}


def test_a_background_request_waits_behind_all_interactive_ones() -> None:
    queue = FairQueue(1, 10)
    running, _ = entered(queue, "ab")
    background = [queue.enter("c", priority="background"), queue.enter("c", priority="background")]

    assert [place and queue.find_position(place) for place in background] == [2, 3]
    assert queue.find_position(running) is None
