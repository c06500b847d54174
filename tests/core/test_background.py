"""When background requests start: hand-written cases, then random sequences of events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.background import BackgroundPolicy, DailyHours, Priority
from forge_proxy.core.queueing import FairQueue
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.core.waiting import EntryState, QueueEntry
from tests.properties import examples

IDLE = 5.0


@dataclass
class World:
    """A queue, a clock, and the requests that started, as `client` or `client:model`."""

    slots: int | None = 2
    schedule: ModelSchedule | None = None
    policy: BackgroundPolicy = field(default_factory=BackgroundPolicy)
    time: float = 1000.0
    started: list[QueueEntry] = field(default_factory=list[QueueEntry])
    entries: list[QueueEntry] = field(default_factory=list[QueueEntry])

    def __post_init__(self) -> None:
        self.queue = FairQueue(self.slots, 3, self.schedule, self.policy)

    def enter(self, client: str, model: str = "", priority: Priority = "interactive") -> QueueEntry:
        entry = self.queue.enter(client, model, self.time, priority)
        assert entry is not None
        self.entries.append(entry)
        if entry.state is EntryState.RUNNING:
            self.started.append(entry)
        return entry

    def background(self, client: str, model: str = "") -> QueueEntry:
        return self.enter(client, model, "background")

    def leave(self, entry: QueueEntry) -> None:
        self.started += self.queue.leave(entry, self.time)

    def wait(self, seconds: float) -> None:
        self.time += seconds
        self.started += self.queue.start_due(self.time)

    @property
    def order(self) -> list[str]:
        return [f"{entry.client}:{entry.model}" if entry.model else entry.client for entry in self.started]


def test_background_requests_use_all_slots_if_no_interactive_client_was_ever_active() -> None:
    w = World(slots=2)
    for client in "xyz":
        w.background(client)

    assert w.order == ["x", "y"]
    assert w.queue.find_obstacle(w.time) == "slots"


def test_one_slot_stays_free_while_an_interactive_client_is_active() -> None:
    w = World(slots=2)
    request = w.enter("a")
    w.background("x")
    before = list(w.order)
    obstacle = w.queue.find_obstacle(w.time)
    w.leave(request)
    w.background("y")

    assert (before, obstacle) == (["a"], "reserved_slots")
    assert w.order == ["a", "x"]


def test_the_reserved_slot_is_used_once_the_interactive_clients_are_idle() -> None:
    w = World(slots=2)
    w.leave(w.enter("a"))
    w.background("x")
    w.background("y")
    check = w.queue.next_check(w.time)
    w.wait(IDLE - 0.1)
    early = list(w.order)
    w.wait(0.1)

    assert check == 1000.0 + IDLE
    assert early == ["a", "x"]
    assert w.order == ["a", "x", "y"]


def test_a_single_slot_is_not_reserved() -> None:
    w = World(slots=1)
    w.leave(w.enter("a"))
    w.background("x")

    assert w.order == ["a", "x"]


def test_the_number_of_reserved_slots_can_be_set() -> None:
    w = World(slots=4, policy=BackgroundPolicy(reserved_slots=3))
    w.leave(w.enter("a"))
    for client in "xyz":
        w.background(client)

    assert w.order == ["a", "x"]


def test_interactive_requests_that_wait_come_before_background_requests_that_wait_longer() -> None:
    w = World(slots=1)
    first = w.background("x")
    w.background("y")
    second = w.enter("a")
    w.leave(first)
    w.leave(second)

    assert w.order == ["x", "a", "y"]


def test_background_requests_are_never_rejected_and_do_not_fill_the_interactive_queue() -> None:
    w = World(slots=1)
    w.background("x")
    for _ in range(500):
        w.background("x")

    assert w.queue.background_waiting == 500
    assert w.enter("a").state is EntryState.WAITING


def test_background_clients_are_served_round_robin() -> None:
    w = World(slots=1)
    running = w.background("x")
    for client in "xxxyy":
        w.background(client)
    for _ in range(5):
        w.leave(running)
        running = w.started[-1]

    assert w.order == ["x", "x", "y", "x", "y", "x"]


def test_without_a_known_number_of_slots_background_requests_run_at_once() -> None:
    w = World(slots=None)
    w.enter("a")

    assert w.background("x").state is EntryState.RUNNING


def test_outside_the_hours_no_background_request_starts() -> None:
    w = World()
    w.queue.is_open = False
    w.background("x")
    obstacle = w.queue.find_obstacle(w.time)
    w.queue.is_open = True
    w.wait(0)

    assert obstacle == "hours"
    assert w.order == ["x"]


def test_background_requests_are_grouped_by_model() -> None:
    w = World(slots=1)
    running = w.background("x", "a")
    for model in "babab":
        w.background("x", model)
    for _ in range(5):
        w.leave(running)
        running = w.started[-1]

    assert w.order == ["x:a", "x:a", "x:a", "x:b", "x:b", "x:b"]


def test_a_long_group_gives_way_to_another_model_after_its_turn() -> None:
    w = World(slots=1)
    running = w.background("x", "a")
    w.background("y", "b")
    for _ in range(3):
        w.background("x", "a")
    for _ in range(4):
        w.time += 150.0
        w.leave(running)
        running = w.started[-1]

    assert w.order == ["x:a", "x:a", "y:b", "x:a", "x:a"]


def loaded(model: str | None) -> World:
    return World(slots=2, schedule=ModelSchedule(30.0, model))


def test_background_requests_do_not_change_the_model_while_an_interactive_client_is_active() -> None:
    w = loaded("a")
    request = w.enter("i", "a")
    w.background("x", "b")
    w.leave(request)
    during = w.queue.next_model(w.time), w.queue.find_obstacle(w.time)
    w.time += IDLE

    assert during == (None, "model")
    assert w.queue.next_model(w.time) == "b"
    assert w.queue.is_awaited("b", w.time)


def test_an_interactive_request_prevents_a_change_for_background_that_is_about_to_begin() -> None:
    w = loaded("a")
    w.background("x", "b")
    before = w.queue.next_model(w.time)
    w.queue.paused = True
    w.enter("i", "a")

    assert before == "b"
    assert not w.queue.is_awaited("b", w.time)


def test_an_interactive_request_for_another_model_comes_before_the_rest_of_the_group() -> None:
    w = loaded("b")
    first = w.background("x", "b")
    w.background("x", "b")
    w.background("x", "b")
    w.enter("i", "a")
    w.leave(first)
    w.leave(w.started[1])

    assert w.order == ["x:b", "x:b"]
    assert w.queue.next_model(w.time) == "a"


def test_the_loaded_model_keeps_serving_background_requests_if_interactive_clients_prevent_a_change() -> None:
    w = World(slots=1, schedule=ModelSchedule(30.0, "a"))
    running = w.background("x", "a")
    w.background("x", "a")
    w.background("y", "b")
    w.time += 1000.0
    w.leave(w.enter("i", "a"))
    w.leave(running)

    assert w.order == ["x:a", "x:a"]


def test_only_the_background_requests_of_a_failed_model_are_removed() -> None:
    w = loaded("a")
    w.background("x", "b")
    w.background("y", "c")

    refused = w.queue.refuse("b")

    assert [entry.model for entry in refused] == ["b"]
    assert w.queue.next_model(w.time) == "c"


EVENTS = st.lists(
    st.tuples(st.just("interactive"), st.sampled_from([client + model for client in "ij" for model in "ab"]))
    | st.tuples(st.just("background"), st.sampled_from([client + model for client in "xy" for model in "abc"]))
    | st.tuples(st.just("leave"), st.integers(0, 30))
    | st.tuples(st.just("wait"), st.floats(0, 2 * IDLE) | st.just(400.0))
    | st.tuples(st.just("resize"), st.none() | st.integers(1, 4))
    | st.tuples(st.just("hours"), st.booleans())
    | st.tuples(st.just("swap"), st.none()),
    max_size=80,
)


@dataclass
class Model:
    """What must hold after each event, computed from the entries alone."""

    world: World
    active_until: float = float("-inf")

    def counts(self, priority: Priority, state: EntryState) -> int:
        return sum(entry.priority == priority and entry.state is state for entry in self.world.entries)

    @property
    def is_active(self) -> bool:
        states = (EntryState.RUNNING, EntryState.WAITING)
        return any(self.counts("interactive", state) for state in states) or self.world.time < self.active_until

    def touch(self) -> None:
        self.active_until = self.world.time + IDLE

    def check(self, new: list[QueueEntry]) -> None:
        """Check the counts, and that each background request that started was permitted to."""
        w, queue = self.world, self.world.queue
        running = self.counts("interactive", EntryState.RUNNING), self.counts("background", EntryState.RUNNING)
        waiting = self.counts("interactive", EntryState.WAITING), self.counts("background", EntryState.WAITING)
        assert (queue.running - queue.background_running, queue.background_running) == running
        assert (queue.waiting, queue.background_waiting) == waiting
        started = [entry for entry in new if entry.priority == "background"]
        reserve = 1 if queue.slots is not None and queue.slots > 1 and self.is_active else 0
        if started:
            assert queue.is_open
            assert waiting[0] == 0
            assert queue.slots is None or sum(running) + reserve <= queue.slots
        if queue.schedule is not None:
            assert {entry.model for entry in new} <= {queue.schedule.loaded}
            startable = any(entry.model == queue.schedule.loaded for entry in w.entries if self.is_background(entry))
        else:
            startable = waiting[1] > 0
        has_room = queue.slots is None or sum(running) + reserve < queue.slots
        if startable and has_room and queue.is_open and not waiting[0]:  # only because its turn is over
            assert queue.schedule is not None
            assert queue.next_model(w.time) is not None or sum(running)

    def is_background(self, entry: QueueEntry) -> bool:
        return entry.priority == "background" and entry.state is EntryState.WAITING


@examples(500)
@given(st.none() | st.integers(1, 4), st.booleans(), EVENTS)
def test_background_requests_start_only_if_permitted_and_all_run_in_the_end(
    slots: int | None, has_schedule: bool, events: list[tuple[str, object]]
) -> None:
    w = World(slots, ModelSchedule(30.0, "a") if has_schedule else None)
    model = Model(w)

    def enter(what: str, value: str) -> None:
        client, name = value
        priority: Priority = "background" if what == "background" else "interactive"
        has_room = w.queue.slots is None or w.queue.running < w.queue.slots
        entry = w.queue.enter(client, name, w.time, priority)
        if entry is None:
            assert priority == "interactive"
            return
        if priority == "interactive":
            model.touch()
            if has_room and not has_schedule:  # background requests that wait never delay it
                assert entry.state is EntryState.RUNNING
        w.entries.append(entry)
        w.started += [entry] if entry.state is EntryState.RUNNING else []

    def happen(what: str, value: object) -> None:
        before = len(w.started)
        match what, value:
            case (("interactive" | "background"), str(both)):
                enter(what, both)
            case "leave", int(number) if w.entries:
                entry = w.entries.pop(number % len(w.entries))
                if entry.priority == "interactive":
                    model.touch()
                w.leave(entry)
            case "wait", float(seconds):
                w.wait(seconds)
            case "resize", (None | int()) as count:
                w.started += w.queue.resize(count, w.time)
            case "hours", bool(is_open):
                w.queue.is_open = is_open
                w.wait(0)
            case "swap", None:
                swap()
            case _:
                return
        w.wait(0)  # the timer has fired
        model.check(w.started[before:])

    def swap() -> None:
        name = w.queue.next_model(w.time)
        if name is not None:
            for_interactive = any(
                entry.model == name and entry.priority == "interactive" and entry.state is EntryState.WAITING
                for entry in w.entries
            )
            assert for_interactive or (w.queue.is_open and not model.is_active)
            w.started += w.queue.serve(name, w.time)

    for what, value in events:
        happen(what, value)
    happen("hours", True)
    for _ in range(4 * len(w.entries)):
        happen("swap", None)
        happen("wait", 400.0)
        for entry in [entry for entry in w.entries if entry.state is EntryState.RUNNING]:
            happen("leave", w.entries.index(entry))

    assert not w.entries


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("22:00-07:00", ["22:00", "23:59", "00:00", "06:59"], ["07:00", "21:59"]), ("9:30-17:00", ["09:30"], ["17:00"])],
)
def test_hours_include_their_start_and_exclude_their_end(text: str, inside: list[str], outside: list[str]) -> None:
    hours = DailyHours.parse(text)

    def contains(time: str) -> bool:
        return hours.contains(int(time[:2]) * 60 + int(time[3:]))

    assert all(map(contains, inside))
    assert not any(map(contains, outside))


@pytest.mark.parametrize("text", ["", "22:00", "22-07", "24:00-07:00", "22:60-07:00", "-1:00-07:00", "1:2-3:4", "a-b"])
def test_malformed_hours_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="22:00-07:00"):
        DailyHours.parse(text)


def test_hours_that_begin_and_end_at_the_same_time_are_rejected() -> None:
    with pytest.raises(ValueError, match="same time"):
        DailyHours.parse("07:00-07:00")


BERLIN = ZoneInfo("Europe/Berlin")


def berlin_minute(moment: float) -> int:
    local = datetime.fromtimestamp(moment, BERLIN)
    return local.hour * 60 + local.minute


@pytest.mark.parametrize(
    ("hours", "now", "opening"),
    [
        ("22:00-07:00", "2026-11-24T12:00:30", "2026-11-24T21:00:00"),
        ("22:00-07:00", "2026-11-24T23:00:00", "2026-11-24T23:00:00"),
        ("02:30-05:00", "2026-03-28T22:00:00", "2026-03-29T01:00:00"),  # 02:30 does not exist: set forward to 03:00
        ("04:00-05:00", "2026-03-28T22:00:00", "2026-03-29T02:00:00"),
        ("02:10-02:50", "2026-03-28T22:00:00", "2026-03-30T00:10:00"),  # nothing of it exists that day
        ("02:30-02:40", "2026-10-25T00:35:00", "2026-10-25T00:35:00"),
        ("02:30-02:40", "2026-10-25T00:45:00", "2026-10-25T01:30:00"),  # 02:30 comes twice
    ],
)
def test_the_next_opening_follows_daylight_saving_time(hours: str, now: str, opening: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp()

    found = DailyHours.parse(hours).next_opening(moment, berlin_minute)

    assert datetime.fromtimestamp(found, UTC).replace(tzinfo=None).isoformat() == opening
