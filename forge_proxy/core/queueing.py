"""A bounded request queue for a number of slots, fair between clients.

This module only does the bookkeeping; `engine/admission.py` does the waiting. Clients are served round-robin, the
requests of one client in order of arrival. If only one of several models is loaded at a time, a `ModelSchedule` selects
it, and each model has its own queue.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum

from forge_proxy.core.scheduling import ModelSchedule


class EntryState(Enum):
    """The state of a queue entry."""

    WAITING = "waiting"
    RUNNING = "running"
    GONE = "gone"


class QueueEntry:
    """One request that is waiting, running or gone. Compared by identity."""

    __slots__ = ("client", "model", "state")

    def __init__(self, client: str, state: EntryState, model: str = "") -> None:
        self.client = client
        self.state = state
        self.model = model


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

    def pop(self) -> QueueEntry:
        """Remove and return the next entry. The queue must not be empty."""
        client, entries = self._turns.popitem(last=False)
        entry, _ = entries.popitem(last=False)
        if entries:  # the client goes to the end of the queue
            self._turns[client] = entries
        return entry


class FairQueue:
    """Runs at most `slots` requests at a time (None: no limit) and queues at most `limit`.

    A single client that fills the queue cannot lock out others: a client without a waiting request may enter a full
    queue, up to `limit` further requests in all. Without a `ModelSchedule`, models and times are ignored.
    """

    def __init__(self, slots: int | None, limit: int, schedule: ModelSchedule | None = None) -> None:
        self.slots = slots
        self.limit = limit
        self.schedule = schedule
        self.running = 0
        self.waiting = 0
        self.paused = False
        """Whether no request is admitted, even if slots are free."""
        self._queues: dict[str, ModelQueue] = {}

    def enter(self, client: str, model: str = "", now: float = 0.0) -> QueueEntry | None:
        """Return an entry that runs immediately if a slot is free and waits otherwise; None if the queue is full."""
        model = model if self.schedule else ""
        if self._can_admit(model, now):  # in that case no request waits for the model
            return self._run(QueueEntry(client, EntryState.RUNNING, model), now)
        waits_already = any(client in queue for queue in self._queues.values())
        if self.waiting >= (self.limit if waits_already else 2 * self.limit):
            return None
        entry = QueueEntry(client, EntryState.WAITING, model)
        self._queues.setdefault(model, ModelQueue()).join(entry)
        self.waiting += 1
        if self.schedule:
            self.schedule = self.schedule.with_waiting(model, now)
        return entry

    def enter_spare(self, client: str, model: str = "", now: float = 0.0) -> QueueEntry | None:
        """Return an entry that runs, only if the number of slots is known, one is free and no request waits."""
        model = model if self.schedule else ""
        if self.slots is None or self.waiting or not self._can_admit(model, now):
            return None
        return self._run(QueueEntry(client, EntryState.RUNNING, model), now)

    def leave(self, entry: QueueEntry, now: float = 0.0) -> list[QueueEntry]:
        """End an entry in any state. Returns the entries that start to run as a result."""
        state, entry.state = entry.state, EntryState.GONE
        match state:
            case EntryState.RUNNING:
                self.running -= 1
            case EntryState.WAITING:
                self.waiting -= 1
                self._queues[entry.model].drop(entry)
                self._drop_if_empty(entry.model)
            case EntryState.GONE:
                return []
        return self._start(now)

    def resize(self, slots: int | None, now: float = 0.0) -> list[QueueEntry]:
        """Change the number of slots. Returns the entries that start to run; running ones are not stopped."""
        self.slots = slots
        return self._start(now)

    def resume(self, now: float = 0.0) -> list[QueueEntry]:
        """Resume admission. Returns the entries that start to run as a result."""
        self.paused = False
        return self._start(now)

    def serve(self, model: str | None, now: float) -> list[QueueEntry]:
        """Record that `model`, or none, is loaded now. Returns the entries that start to run as a result."""
        if self.schedule:
            self.schedule = self.schedule.with_loaded(model)
        return self._start(now)

    def refuse(self, model: str) -> list[QueueEntry]:
        """Remove and return all entries that wait for `model`. Call `serve` afterwards with the loaded model."""
        refused: list[QueueEntry] = []
        while queue := self._queues.get(model):
            entry = queue.pop()
            entry.state = EntryState.GONE
            self.waiting -= 1
            refused.append(entry)
            self._drop_if_empty(model)
        return refused

    def next_model(self, now: float) -> str | None:
        """Return the model to load now, or None.

        There is one if requests wait for it, no request runs, and none of the loaded model is to be admitted first.
        """
        if self.schedule is None or self.running or self.paused:
            return None
        loaded = self.schedule.loaded
        if loaded is not None and self._queues.get(loaded) and self.schedule.admits(loaded, now):
            return None
        return self.schedule.next

    def _can_admit(self, model: str, now: float) -> bool:
        if self.paused or (self.slots is not None and self.running >= self.slots):
            return False
        return self.schedule is None or self.schedule.admits(model, now)

    def _start(self, now: float) -> list[QueueEntry]:
        started: list[QueueEntry] = []
        model = (self.schedule.loaded or "") if self.schedule else ""
        while (queue := self._queues.get(model)) and self._can_admit(model, now):
            entry = queue.pop()
            entry.state = EntryState.RUNNING
            self.waiting -= 1
            self._drop_if_empty(model)
            started.append(self._run(entry, now))
        return started

    def _run(self, entry: QueueEntry, now: float) -> QueueEntry:
        self.running += 1
        if self.schedule:
            self.schedule = self.schedule.with_admission(now)
        return entry

    def _drop_if_empty(self, model: str) -> None:
        """Remove the queue of a model if it is empty."""
        if not self._queues[model]:
            del self._queues[model]
            if self.schedule:
                self.schedule = self.schedule.without_waiting(model)
