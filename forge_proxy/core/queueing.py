"""Who may run now and who comes next: a bounded queue for a number of slots, fair between clients.

Only the bookkeeping, for `engine/admission.py`, which does the waiting. Clients take turns; one client's own places are
served in the order in which they came.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum


class State(Enum):
    """What has become of a place."""

    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"


class Place:
    """One request's place: it waits or runs, until it has left. Each is equal to itself alone."""

    __slots__ = ("client", "state")

    def __init__(self, client: str, state: State) -> None:
        self.client = client
        self.state = state


class FairQueue:
    """At most `slots` places run, any number where it is None; at most `limit` wait.

    So that nobody is locked out by one client who fills the queue, a client of whom nothing waits finds a place in a
    full one, for as many again as `limit`.
    """

    def __init__(self, slots: int | None, limit: int) -> None:
        self.slots = slots
        self.limit = limit
        self.running = 0
        self.waiting = 0
        self.paused = False
        """Whether nobody is let in, whatever is free."""
        # The client whose turn is next comes first. A place that leaves while it waits is found by its key.
        self._turns: OrderedDict[str, OrderedDict[Place, None]] = OrderedDict()

    def enter(self, client: str) -> Place | None:
        """A place that runs at once if a slot is free, and else waits; None where no more may wait."""
        if self._has_free_slot:  # then nobody waits
            self.running += 1
            return Place(client, State.RUNNING)
        if self.waiting >= (self.limit if client in self._turns else 2 * self.limit):
            return None
        place = Place(client, State.WAITING)
        self._turns.setdefault(client, OrderedDict())[place] = None
        self.waiting += 1
        return place

    def leave(self, place: Place) -> list[Place]:
        """End a place, whether it ran, waited or had left already. Gives those that run now in consequence."""
        state, place.state = place.state, State.GONE
        match state:
            case State.RUNNING:
                self.running -= 1
                return self._start()
            case State.WAITING:
                self.waiting -= 1
                places = self._turns[place.client]
                del places[place]
                if not places:
                    del self._turns[place.client]
                return []
            case State.GONE:
                return []

    def resize(self, slots: int | None) -> list[Place]:
        """Have another number of slots. Gives those that run now in consequence; none is stopped for it."""
        self.slots = slots
        return self._start()

    def resume(self) -> list[Place]:
        """Let in again. Gives those that run now in consequence."""
        self.paused = False
        return self._start()

    @property
    def _has_free_slot(self) -> bool:
        return not self.paused and (self.slots is None or self.running < self.slots)

    def _start(self) -> list[Place]:
        started: list[Place] = []
        while self._turns and self._has_free_slot:
            client, places = self._turns.popitem(last=False)
            place, _ = places.popitem(last=False)
            if places:  # behind all others who wait
                self._turns[client] = places
            place.state = State.RUNNING
            self.waiting -= 1
            self.running += 1
            started.append(place)
        return started
