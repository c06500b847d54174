"""Who may run now and who comes next: a bounded queue for a number of slots, fair between clients.

Only the bookkeeping, for `engine/admission.py`, which does the waiting. Clients take turns; one client's own places are
served in the order in which they came. If one of several models is loaded at a time, a `ModelSchedule` selects it, and
each model has a queue of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum

from forge_proxy.core.scheduling import ModelSchedule


class State(Enum):
    """What has become of a place."""

    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"


class QueueEntry:
    """One request's place: it waits or runs, until it has left. Each is equal to itself alone."""

    __slots__ = ("client", "model", "state")

    def __init__(self, client: str, state: State, model: str = "") -> None:
        self.client = client
        self.state = state
        self.model = model


class ModelQueue:
    """Those who wait for one model. Clients take turns."""

    def __init__(self) -> None:
        # The client whose turn is next comes first. A place that leaves while it waits is found by its key.
        self._turns: OrderedDict[str, OrderedDict[QueueEntry, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __contains__(self, client: str) -> bool:
        """Whether one of this client's waits."""
        return client in self._turns

    def join(self, place: QueueEntry) -> None:
        """Behind the others of its client."""
        self._turns.setdefault(place.client, OrderedDict())[place] = None

    def drop(self, place: QueueEntry) -> None:
        """It waits no more."""
        places = self._turns[place.client]
        del places[place]
        if not places:
            del self._turns[place.client]

    def pop(self) -> QueueEntry:
        """The next one, who waits no more. There is one."""
        client, places = self._turns.popitem(last=False)
        place, _ = places.popitem(last=False)
        if places:  # behind all others who wait
            self._turns[client] = places
        return place


class FairQueue:
    """At most `slots` places run, any number where it is None; at most `limit` wait.

    So that nobody is locked out by one client who fills the queue, a client of whom nothing waits finds a place in a
    full one, for as many again as `limit`. Without a `ModelSchedule` neither models nor the time count.
    """

    def __init__(self, slots: int | None, limit: int, schedule: ModelSchedule | None = None) -> None:
        self.slots = slots
        self.limit = limit
        self.schedule = schedule
        self.running = 0
        self.waiting = 0
        self.paused = False
        """Whether nobody is let in, whatever is free."""
        self._lines: dict[str, ModelQueue] = {}

    def enter(self, client: str, model: str = "", now: float = 0.0) -> QueueEntry | None:
        """A place that runs at once if a slot is free, and else waits; None where no more may wait."""
        model = model if self.schedule else ""
        if self._lets_in(model, now):  # then nobody waits for it
            return self._run(QueueEntry(client, State.RUNNING, model), now)
        waits_already = any(client in line for line in self._lines.values())
        if self.waiting >= (self.limit if waits_already else 2 * self.limit):
            return None
        place = QueueEntry(client, State.WAITING, model)
        self._lines.setdefault(model, ModelQueue()).join(place)
        self.waiting += 1
        if self.schedule:
            self.schedule = self.schedule.wanting(model, now)
        return place

    def leave(self, place: QueueEntry, now: float = 0.0) -> list[QueueEntry]:
        """End a place, whether it ran, waited or had left already. Gives those that run now in consequence."""
        state, place.state = place.state, State.GONE
        match state:
            case State.RUNNING:
                self.running -= 1
            case State.WAITING:
                self.waiting -= 1
                self._lines[place.model].drop(place)
                self._tidy(place.model)
            case State.GONE:
                return []
        return self._start(now)

    def resize(self, slots: int | None, now: float = 0.0) -> list[QueueEntry]:
        """Have another number of slots. Gives those that run now in consequence; none is stopped for it."""
        self.slots = slots
        return self._start(now)

    def resume(self, now: float = 0.0) -> list[QueueEntry]:
        """Let in again. Gives those that run now in consequence."""
        self.paused = False
        return self._start(now)

    def serve(self, model: str | None, now: float) -> list[QueueEntry]:
        """This model is loaded now, or none is. Gives those that run now in consequence."""
        if self.schedule:
            self.schedule = self.schedule.turning(model)
        return self._start(now)

    def refuse(self, model: str) -> list[QueueEntry]:
        """Have nobody wait for this model. Gives those who did; say with `serve` which one is loaded after all."""
        refused: list[QueueEntry] = []
        while line := self._lines.get(model):
            place = line.pop()
            place.state = State.GONE
            self.waiting -= 1
            refused.append(place)
            self._tidy(model)
        return refused

    def wanted(self, now: float) -> str | None:
        """The model to load now: it is waited for, nobody runs, and nobody of the loaded one is let in before."""
        if self.schedule is None or self.running or self.paused:
            return None
        loaded = self.schedule.loaded
        if loaded is not None and self._lines.get(loaded) and self.schedule.admits(loaded, now):
            return None
        return self.schedule.next

    def _lets_in(self, model: str, now: float) -> bool:
        if self.paused or (self.slots is not None and self.running >= self.slots):
            return False
        return self.schedule is None or self.schedule.admits(model, now)

    def _start(self, now: float) -> list[QueueEntry]:
        started: list[QueueEntry] = []
        model = (self.schedule.loaded or "") if self.schedule else ""
        while (line := self._lines.get(model)) and self._lets_in(model, now):
            place = line.pop()
            place.state = State.RUNNING
            self.waiting -= 1
            self._tidy(model)
            started.append(self._run(place, now))
        return started

    def _run(self, place: QueueEntry, now: float) -> QueueEntry:
        self.running += 1
        if self.schedule:
            self.schedule = self.schedule.letting_in(now)
        return place

    def _tidy(self, model: str) -> None:
        """Forget the line of a model for which nobody waits."""
        if not self._lines[model]:
            del self._lines[model]
            if self.schedule:
                self.schedule = self.schedule.unwanting(model)
