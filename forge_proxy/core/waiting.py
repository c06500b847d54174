"""Waiting requests: those for one model, fair between clients, and background requests, grouped by model.

`core/queueing.py` decides which of them start.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum

from forge_proxy.core.background import Priority
from forge_proxy.core.scheduling import ModelSchedule


class EntryState(Enum):
    """The state of a queue entry."""

    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"


class QueueEntry:
    """One request that is waiting, running or gone. Compared by identity."""

    __slots__ = ("client", "model", "priority", "state")

    def __init__(self, client: str, state: EntryState, model: str = "", priority: Priority = "interactive") -> None:
        self.client = client
        self.state = state
        self.model = model
        self.priority: Priority = priority


class ModelQueue:
    """The requests waiting for one model, served round-robin between clients."""

    def __init__(self) -> None:
        # The next client comes first. Entries are dict keys, so that one that leaves while waiting is found at once.
        self._turns: OrderedDict[str, OrderedDict[QueueEntry, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __contains__(self, client: str) -> bool:
        """Whether a request of this client is waiting."""
        return client in self._turns

    def join(self, entry: QueueEntry) -> None:
        """Append an entry to those of its client."""
        self._turns.setdefault(entry.client, OrderedDict())[entry] = None

    def drop(self, entry: QueueEntry) -> None:
        """Remove a waiting entry."""
        entries = self._turns[entry.client]
        del entries[entry]
        if not entries:
            del self._turns[entry.client]

    def find_position(self, entry: QueueEntry) -> int:
        """Return after how many entries, itself included, a waiting entry is the next one."""
        own = list(self._turns[entry.client]).index(entry)
        position, is_before = own + 1, True
        for client, entries in self._turns.items():
            if client == entry.client:
                is_before = False
            else:
                position += min(len(entries), own + is_before)
        return position

    def pop(self) -> QueueEntry:
        """Remove and return the next entry. The queue must not be empty."""
        client, entries = self._turns.popitem(last=False)
        entry, _ = entries.popitem(last=False)
        if entries:  # the client goes to the end of the queue
            self._turns[client] = entries
        return entry


class BackgroundQueue:
    """The background requests that wait, without a limit on their number.

    Requests for the same model start one after the other, until none is left or requests for another model have waited
    for `turn_seconds`: the model server may have to load another model for each change.
    """

    def __init__(self, turn_seconds: float) -> None:
        self.waiting = 0
        self._queues: dict[str, ModelQueue] = {}
        self._turns = ModelSchedule(turn_seconds)

    def __contains__(self, model: str) -> bool:
        """Whether a request for this model is waiting."""
        return model in self._queues

    def join(self, entry: QueueEntry, now: float) -> None:
        """Append an entry."""
        self._queues.setdefault(entry.model, ModelQueue()).join(entry)
        self._turns = self._turns.with_waiting(entry.model, now)
        self.waiting += 1

    def drop(self, entry: QueueEntry) -> None:
        """Remove a waiting entry."""
        self._queues[entry.model].drop(entry)
        self._removed(entry.model)

    def find_position(self, entry: QueueEntry) -> int:
        """Return the place of a waiting entry among those for the same model, from 1."""
        return self._queues[entry.model].find_position(entry)

    def next_model(self, now: float) -> str | None:
        """Return the model whose requests come next; None if no request waits."""
        loaded = self._turns.loaded
        keeps_turn = loaded is not None and loaded in self and self._turns.admits(loaded, now)
        return loaded if keeps_turn else self._turns.next

    def pop(self, model: str) -> QueueEntry:
        """Remove and return the next entry of this model. There must be one."""
        entry = self._queues[model].pop()
        self._removed(model)
        return entry

    def begin_turn(self, model: str | None) -> None:
        """Record that this model is loaded, or none."""
        self._turns = self._turns.with_loaded(model)

    def record_start(self, model: str, now: float) -> None:
        """Record that a request for this model has started."""
        self._turns = self._turns.with_loaded(model).with_admission(now)

    def pop_all(self, model: str) -> list[QueueEntry]:
        """Remove and return all entries of this model."""
        entries: list[QueueEntry] = []
        while model in self._queues:
            entries.append(self.pop(model))
        return entries

    def _removed(self, model: str) -> None:
        self.waiting -= 1
        if not self._queues[model]:
            del self._queues[model]
            self._turns = self._turns.without_waiting(model)
