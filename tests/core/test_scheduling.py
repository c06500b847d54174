"""Models that are loaded in turns: hand-written cases, then random sequences of events."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.core.waiting import EntryState, QueueEntry
from tests.properties import examples

SWAP_AFTER = 10.0


@dataclass
class World:
    """A queue for models, and a clock. Admitted requests are recorded as `client:model`."""

    slots: int = 1
    loaded: str | None = "a"
    time: float = 0.0
    let_in: list[str] = field(default_factory=list[str])
    places: list[QueueEntry] = field(default_factory=list[QueueEntry])

    def __post_init__(self) -> None:
        self.queue = FairQueue(self.slots, 100, ModelSchedule(SWAP_AFTER, self.loaded))

    def comes(self, client: str, model: str) -> QueueEntry:
        place = self.queue.enter(client, model, self.time)
        assert place is not None
        self.places.append(place)
        if place.state is EntryState.RUNNING:
            self._starts([place])
        return place

    def leaves(self, place: QueueEntry) -> None:
        self._starts(self.queue.leave(place, self.time))

    def swaps(self) -> str | None:
        """Load what is wanted, if anything is."""
        wanted = self.queue.next_model(self.time)
        if wanted is not None:
            self._starts(self.queue.serve(wanted, self.time))
        return wanted

    def ends(self) -> None:
        """End all running requests."""
        for place in [place for place in self.places if place.state is EntryState.RUNNING]:
            self.leaves(place)

    def _starts(self, places: list[QueueEntry]) -> None:
        self.let_in += [f"{place.client}:{place.model}" for place in places]


def test_the_loaded_model_keeps_its_turn_until_another_has_been_waited_for_long_enough() -> None:
    w = World()
    first = w.comes("x", "a")
    w.comes("y", "b")
    w.comes("x", "a")
    w.time = SWAP_AFTER - 1

    w.leaves(first)

    assert w.let_in == ["x:a", "x:a"]
    assert w.queue.next_model(w.time) is None


def test_the_turn_ends_when_another_model_has_been_waited_for_swap_after_seconds() -> None:
    w = World()
    first = w.comes("x", "a")
    w.comes("y", "b")
    w.comes("x", "a")
    w.time = SWAP_AFTER

    w.leaves(first)

    assert w.let_in == ["x:a"]
    assert w.swaps() == "b"
    assert w.let_in == ["x:a", "y:b"]


def test_an_idle_model_is_swapped_at_once_but_not_while_it_is_running() -> None:
    w = World()
    first = w.comes("x", "a")
    w.comes("y", "b")
    meanwhile = w.swaps()
    w.leaves(first)

    assert (meanwhile, w.swaps()) == (None, "b")


def test_a_turn_fills_all_slots_regardless_of_the_load_time() -> None:
    w = World(slots=2)
    first = w.comes("x", "a")
    for client, model in (("x", "a"), ("x", "a"), ("y", "b"), ("z", "b"), ("y", "b")):
        w.comes(client, model)
    w.time = 1000.0
    w.leaves(first)
    w.ends()

    w.swaps()

    assert w.let_in == ["x:a", "x:a", "y:b", "z:b"]


def test_the_previous_model_queues_behind_the_models_waited_for() -> None:
    w = World()
    w.comes("x", "a")
    w.comes("x", "a")  # waits before anybody does for b and c
    w.comes("y", "b")
    w.comes("z", "c")
    order: list[str | None] = []
    for _ in range(4):
        w.time += SWAP_AFTER
        w.ends()
        order.append(w.swaps())

    assert order == ["b", "c", "a", None]


def test_a_waiting_request_that_leaves_no_longer_ends_the_turn() -> None:
    w = World(slots=2)
    w.comes("x", "a")
    waits = w.comes("y", "b")
    w.time = SWAP_AFTER
    w.comes("x", "a")
    before = list(w.let_in)

    w.leaves(waits)

    assert before == ["x:a"]
    assert w.let_in == ["x:a", "x:a"]


def test_clients_are_served_round_robin_within_a_model() -> None:
    w = World(loaded=None)
    for client in "xxxyy":
        w.comes(client, "b")
    w.swaps()
    for _ in range(4):
        w.ends()

    assert w.let_in == ["x:b", "y:b", "x:b", "y:b", "x:b"]


def test_only_the_requests_for_a_failed_model_are_rejected() -> None:
    w = World()
    w.comes("x", "a")
    for model in "bcb":
        w.comes("y", model)

    refused = w.queue.refuse("b")

    assert [place.model for place in refused] == ["b", "b"]
    assert w.queue.waiting == 1
    assert w.queue.schedule is not None
    assert w.queue.schedule.next == "c"


@pytest.mark.parametrize(("times", "pause"), [(1, 5), (2, 10), (3, 20), (7, 300), (40, 300)])
def test_the_backoff_of_a_failing_model_doubles_up_to_a_limit(times: int, pause: float) -> None:
    schedule = ModelSchedule(SWAP_AFTER, "a")
    for _ in range(times):
        schedule = schedule.with_failure("b", "no memory", 100.0)

    assert schedule.find_failure("b", 99.9 + pause)
    assert schedule.find_failure("b", 100.0 + pause) is None
    assert schedule.find_failure("a", 100.0) is None
    assert schedule.without_failures().find_failure("b", 100.0) is None


def test_a_successful_load_resets_the_backoff() -> None:
    schedule = ModelSchedule(SWAP_AFTER, "a").with_failure("b", "no memory", 0.0).with_failure("b", "no memory", 10.0)

    again = schedule.with_loaded("b").with_loaded("a").with_failure("b", "no memory", 100.0)

    assert again.find_failure("b", 104.9)
    assert again.find_failure("b", 105.0) is None


HAPPENINGS = st.lists(
    st.tuples(st.just("enter"), st.sampled_from([client + model for client in "xyz" for model in "abcd"]))
    | st.tuples(st.just("leave"), st.integers(0, 30))
    | st.tuples(st.just("later"), st.floats(0, 2 * SWAP_AFTER))
    | st.tuples(st.just("swap"), st.none())
    | st.tuples(st.just("fail"), st.none()),
    max_size=80,
)


@examples(500)
@given(st.integers(1, 3), HAPPENINGS)
def test_one_model_runs_at_a_time_and_no_request_is_lost_or_starved(
    slots: int, happenings: list[tuple[str, object]]
) -> None:
    w = World(slots)
    came: dict[QueueEntry, int] = {}
    """Of each that waits or waited: how many turns there had been when it came."""
    turns = 0
    in_order: dict[tuple[str, str], list[QueueEntry]] = defaultdict(list)

    def check() -> None:
        inside = [place for place in w.places if place.state is EntryState.RUNNING]
        outside = [place for place in w.places if place.state is EntryState.WAITING]
        schedule = w.queue.schedule
        assert schedule is not None
        assert (w.queue.running, w.queue.waiting) == (len(inside), len(outside))
        assert len(inside) <= slots
        assert {place.model for place in inside} <= {schedule.loaded}
        assert {model for model, _ in schedule.waiting} == {place.model for place in outside}
        if outside and not inside:
            assert w.queue.next_model(w.time) is not None
        for (_, model), places in in_order.items():
            states = [place.state for place in places if place.state is not EntryState.GONE]
            assert states == sorted(states, key=lambda state: state is EntryState.WAITING)  # as they came
            if model == schedule.loaded or not places:
                continue
            ahead = [came[place] for place in places if place.state is EntryState.WAITING]
            assert not ahead or turns - ahead[0] <= 3  # of the other three models one turn each

    def happen(what: str, value: object) -> None:
        nonlocal turns
        match what, value:
            case "enter", str(both):
                client, model = both
                place = w.queue.enter(client, model, w.time)
                assert place is not None
                w.places.append(place)
                in_order[client, model].append(place)
                came[place] = turns
            case "leave", int(number) if w.places:
                w.leaves(w.places.pop(number % len(w.places)))
            case "later", float(seconds):
                w.time += seconds
            case "swap", None:
                waited = w.queue.schedule.next if w.queue.schedule else None
                if w.swaps():
                    turns += 1
                    for place in w.places:
                        if place.model == waited and place.state is EntryState.WAITING:
                            came[place] = turns  # admitted as slots become free, or behind the others again
                    assert w.queue.running  # a turn admits a request
            case "fail", None:
                if (wanted := w.queue.next_model(w.time)) is not None:
                    for place in w.queue.refuse(wanted):
                        w.places.remove(place)
                    w.queue.serve("a", w.time)  # which could be loaded again
            case _:
                return
        check()

    for what, value in happenings:
        happen(what, value)
    for _ in range(len(w.places) * 2):
        happen("swap", None)
        for place in [place for place in w.places if place.state is EntryState.RUNNING]:
            happen("leave", w.places.index(place))

    assert (w.queue.running, w.queue.waiting) == (0, 0)


@examples(300)
@given(st.integers(1, 3), st.integers(1, 40), st.lists(st.sampled_from("bcd"), min_size=1, max_size=6))
def test_a_busy_model_does_not_delay_the_others_beyond_the_bound(slots: int, crowd: int, others: list[str]) -> None:
    w = World(slots)
    for number in range(crowd):
        w.comes(f"crowd {number}", "a")
    waiting = [w.comes("other", model) for model in others]
    answer_seconds, steps = 3.0, 0

    while any(place.state is EntryState.WAITING for place in waiting):
        w.time += answer_seconds
        w.ends()
        for place in list(waiting):
            if place.state is EntryState.GONE:
                waiting.remove(place)
        for number in range(slots):
            w.comes(f"more {steps} {number}", "a")
        w.swaps()
        steps += 1

    turns = 2 * len(others) + 1  # one of a before each
    assert w.time <= turns * (SWAP_AFTER + 2 * answer_seconds)
