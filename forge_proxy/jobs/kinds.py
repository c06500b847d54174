"""The kinds of jobs of a daemon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.jobs.actions import NewJob, write_action
from forge_proxy.core.jobs.errors import JobLimitExceeded, JobNotReadable
from forge_proxy.core.jobs.limits import MAX_DEPTH
from forge_proxy.core.jobs.packed_text import pack
from forge_proxy.core.jobs.records import NewEvent, StoredJob
from forge_proxy.jobs.ports import JobHandler, NewRow
from forge_proxy.jobs.writer import number_events


class JobKinds:
    """The handlers of all kinds, by name."""

    def __init__(self, *handlers: JobHandler) -> None:
        self._handlers = {handler.kind: handler for handler in handlers}

    def find_handler(self, kind: str) -> JobHandler:
        """Return the handler of a kind. Raises `JobNotReadable` for one that this version does not have."""
        try:
            return self._handlers[kind]
        except KeyError:
            raise JobNotReadable(f"this version of forge-proxy has no jobs of the kind {kind!r}") from None

    def build_row(
        self, new: NewJob, now: float, events: Sequence[NewEvent] = (), *, owner: str | None = None
    ) -> NewRow:
        """Return the row of a new job that has no parent."""
        job = StoredJob(
            new.id,
            new.kind,
            "queued",
            new.title,
            new.model,
            now,
            now,
            owner=owner,
            root=new.id,
            notify_url=new.notify_url,
        )
        return self._complete(job, new.state, events)

    def build_child(self, new: NewJob, parent: StoredJob, now: float) -> NewRow:
        """Return the row of a new child job. Raises `JobLimitExceeded`."""
        if parent.depth + 2 > MAX_DEPTH:
            raise JobLimitExceeded(
                f"a child job of {parent.id} would be at depth {parent.depth + 2}; {MAX_DEPTH} is possible"
            )
        row = self.build_row(new, now, owner=parent.owner)
        return replace(row, job=replace(row.job, parent=parent.id, root=parent.root, depth=parent.depth + 1))

    def _complete(self, job: StoredJob, state: str, events: Sequence[NewEvent]) -> NewRow:
        all_events = number_events([NewEvent("status", {"status": "queued"}), *events], 0, job.created_at)
        packed = pack(state)
        first = self.find_handler(job.kind).first_action(job)
        job = replace(job, action=write_action(first), state=packed.text, last_event=len(all_events))
        return NewRow(job, all_events, packed.parts)
