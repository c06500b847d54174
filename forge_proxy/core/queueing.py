"""A bounded request queue for a number of slots, fair between clients.

This module only does the bookkeeping; `engine/admission.py` does the waiting. Clients are served round-robin, the
requests of one client in order of arrival. If only one of several models is loaded at a time, a `ModelSchedule` selects
it, and each model has its own queue. Background requests wait apart: `core/background.py` decides when one may start.
"""

from __future__ import annotations

from forge_proxy.core.background import BackgroundPolicy, Obstacle, Priority, QueueLoad
from forge_proxy.core.scheduling import ModelSchedule
from forge_proxy.core.waiting import BackgroundQueue, EntryState, ModelQueue, QueueEntry

_NEVER = float("-inf")


class FairQueue:
    """Runs at most `slots` requests at a time (None: no limit) and queues at most `limit` interactive ones.

    A single client that fills the queue cannot lock out others: a client without a waiting request may enter a full
    queue, up to `limit` further requests in all. Background requests are queued without a limit. Without a
    `ModelSchedule`, interactive requests ignore models.
    """

    def __init__(
        self,
        slots: int | None,
        limit: int,
        schedule: ModelSchedule | None = None,
        policy: BackgroundPolicy | None = None,
    ) -> None:
        self.slots = slots
        self.limit = limit
        self.schedule = schedule
        self.policy = policy or BackgroundPolicy()
        self.running = 0
        """Running requests of both priorities."""
        self.waiting = 0
        """Interactive requests that wait."""
        self.background_running = 0
        self.is_open = True
        """Whether the hours permit background requests; set by the owner of the queue."""
        self.paused = False
        """Whether no request is admitted, even if slots are free."""
        self._queues: dict[str, ModelQueue] = {}
        self._background = BackgroundQueue(self.policy.turn_seconds)
        self._background.begin_turn(schedule.loaded if schedule else None)
        self._interactive_at = _NEVER

    @property
    def background_waiting(self) -> int:
        """Background requests that wait."""
        return self._background.waiting

    def enter(
        self, client: str, model: str = "", now: float = 0.0, priority: Priority = "interactive"
    ) -> QueueEntry | None:
        """Return an entry that runs immediately if possible and waits otherwise; None if the queue is full."""
        if priority == "background":
            return self._enter_background(client, model, now)
        self._interactive_at = now
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

    def enter_spare(
        self, client: str, model: str = "", now: float = 0.0, priority: Priority = "interactive"
    ) -> QueueEntry | None:
        """Return an entry that runs, only if the number of slots is known, one is free and no request waits for it."""
        if self.slots is None or self.waiting:
            return None
        if priority == "background":
            may_run = not self._background.waiting and self._can_admit_background(model, now)
        else:
            model = model if self.schedule else ""
            may_run = self._can_admit(model, now)
        return self._run(QueueEntry(client, EntryState.RUNNING, model, priority), now) if may_run else None

    def leave(self, entry: QueueEntry, now: float = 0.0) -> list[QueueEntry]:
        """End an entry in any state. Returns the entries that start to run as a result."""
        state, entry.state = entry.state, EntryState.GONE
        match state:
            case EntryState.RUNNING:
                self.running -= 1
                self.background_running -= entry.priority == "background"
            case EntryState.WAITING if entry.priority == "background":
                self._background.drop(entry)
            case EntryState.WAITING:
                self.waiting -= 1
                self._queues[entry.model].drop(entry)
                self._drop_if_empty(entry.model)
            case EntryState.GONE:
                return []
        if entry.priority == "interactive":
            self._interactive_at = now
        return self._start(now)

    def find_position(self, entry: QueueEntry) -> int | None:
        """Return the place of an entry among those that wait for the same model, from 1; None if it does not wait.

        Interactive requests come before background ones.
        """
        if entry.state is not EntryState.WAITING:
            return None
        if entry.priority == "background":
            return self.waiting + self._background.find_position(entry)
        return self._queues[entry.model].find_position(entry)

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
            self._background.begin_turn(model)
        return self._start(now)

    def start_due(self, now: float) -> list[QueueEntry]:
        """Return the entries that start to run because time has passed, see `next_check`."""
        return self._start(now)

    def next_check(self, now: float) -> float | None:
        """Return when background requests that wait may start although no request arrives or ends until then."""
        load = self._load()
        if not self._background.waiting or load.interactive_running or load.interactive_waiting:
            return None
        idle_at = self.policy.idle_at(load)
        return idle_at if idle_at > now else None

    def refuse(self, model: str) -> list[QueueEntry]:
        """Remove and return all entries that wait for `model`. Call `serve` afterwards with the loaded model."""
        refused: list[QueueEntry] = []
        while queue := self._queues.get(model):
            entry = queue.pop()
            entry.state = EntryState.GONE
            self.waiting -= 1
            refused.append(entry)
            self._drop_if_empty(model)
        for entry in self._background.pop_all(model):
            entry.state = EntryState.GONE
            refused.append(entry)
        return refused

    def next_model(self, now: float) -> str | None:
        """Return the model to load now, or None.

        There is one if requests wait for it, no request runs, and none of the loaded model is to be admitted first.
        Background requests cause no change of the model while an interactive client is active.
        """
        if self.schedule is None or self.running or self.paused:
            return None
        loaded = self.schedule.loaded
        if loaded is not None and self._queues.get(loaded) and self.schedule.admits(loaded, now):
            return None
        return self.schedule.next or self._next_background_model(now)

    def is_awaited(self, model: str, now: float) -> bool:
        """Whether `model`, which `next_model` returned before, is still the one to load."""
        if self.schedule is None:
            return False
        return model == (self.schedule.next or self._next_background_model(now))

    def find_obstacle(self, now: float) -> Obstacle | None:
        """Return why background requests wait; None if none waits."""
        if not self._background.waiting:
            return None
        if self.paused:
            return "paused"
        return self.policy.find_obstacle(self._load(), now) or "model"

    def _next_background_model(self, now: float) -> str | None:
        """Return the model to load for background requests, if another one than the loaded model is due."""
        load = self._load()
        if self.schedule is None or not load.is_open or self.policy.is_active(load, now):
            return None
        model = self._background.next_model(now)
        return model if model != self.schedule.loaded else None

    def _enter_background(self, client: str, model: str, now: float) -> QueueEntry:
        entry = QueueEntry(client, EntryState.WAITING, model, "background")
        if not self._background.waiting and self._can_admit_background(model, now):
            entry.state = EntryState.RUNNING
            return self._run(entry, now)
        self._background.join(entry, now)
        return entry

    def _load(self) -> QueueLoad:
        interactive = self.running - self.background_running
        return QueueLoad(self.slots, self.running, interactive, self.waiting, self._interactive_at, self.is_open)

    def _can_admit_background(self, model: str, now: float) -> bool:
        if self.paused or self.policy.find_obstacle(self._load(), now) is not None:
            return False
        return self.schedule is None or model == self.schedule.loaded

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
        while (entry := self._pop_background(now)) is not None:
            entry.state = EntryState.RUNNING
            started.append(self._run(entry, now))
        return started

    def _pop_background(self, now: float) -> QueueEntry | None:
        """Remove and return the background entry to start now, if there is one."""
        if not self._background.waiting:
            return None
        model = self._background.next_model(now)
        loaded = self.schedule.loaded if self.schedule else None
        if loaded is not None and loaded in self._background and self.policy.is_active(self._load(), now):
            model = loaded  # its turn does not end: the clients that use it prevent loading another model
        if model is None or not self._can_admit_background(model, now):
            return None
        return self._background.pop(model)

    def _run(self, entry: QueueEntry, now: float) -> QueueEntry:
        self.running += 1
        if entry.priority == "background":
            self.background_running += 1
            self._background.record_start(entry.model, now)
        elif self.schedule:
            self.schedule = self.schedule.with_admission(now)
        return entry

    def _drop_if_empty(self, model: str) -> None:
        """Remove the queue of a model if it is empty."""
        if not self._queues[model]:
            del self._queues[model]
            if self.schedule:
                self.schedule = self.schedule.without_waiting(model)
