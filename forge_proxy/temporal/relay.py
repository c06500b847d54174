"""Sends the messages of the outbox to Temporal. Sending one twice has no effect beyond a needless wake."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from forge_proxy.core.jobs.errors import JobNotFound
from forge_proxy.core.jobs.records import OutboxEntry
from forge_proxy.jobs.writers import JobWriters
from forge_proxy.temporal.ports import OpenOutbox
from forge_proxy.temporal.workflow import CONTROL_QUEUE, WORKFLOW, JobInput, workflow_id

_PAGE = 100
_CHECK_SECONDS = 15.0
"""How often messages of a daemon that was killed before it sent them are looked for."""


class OutboxRelay:
    """Sends messages while `run` is running. `has_new` is set when there may be new ones."""

    def __init__(self, writers: JobWriters, open_outbox: OpenOutbox, queue_prefix: str, has_new: asyncio.Event) -> None:
        self._writers = writers
        self._open_outbox = open_outbox
        self._prefix = queue_prefix
        self._has_new = has_new

    async def run(self, client: Client) -> None:
        """Send messages until cancelled. Raises `RPCError` and `StoreUnavailable`; no message is lost by that."""
        outbox = await self._open_outbox()
        while True:
            self._has_new.clear()
            entries = await outbox.list_pending(_PAGE)
            sent = [entry.id for entry in entries if await self._send(client, entry)]
            await outbox.remove(sent)
            if not sent or len(entries) < _PAGE:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await self._has_new.wait()

    async def _send(self, client: Client, entry: OutboxEntry) -> bool:
        """Send a message. Returns whether it can be removed."""
        try:
            head = await (await self._writers.store()).head(entry.job_id)
        except JobNotFound:
            return True
        if head.is_finished:
            return True
        if head.parent is not None:  # the workflow of its parent starts it
            return await _signal_child(client, entry, workflow_id(self._prefix, head.id))
        signal = None if entry.signal == "start" else entry.signal
        await client.start_workflow(
            WORKFLOW, JobInput(head.id, self._prefix), id=workflow_id(self._prefix, head.id),
            task_queue=self._prefix + CONTROL_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING, start_signal=signal,
        )  # fmt: skip
        return True


async def _signal_child(client: Client, entry: OutboxEntry, child_id: str) -> bool:
    if entry.signal == "start":
        return True
    try:
        await client.get_workflow_handle(child_id).signal(entry.signal)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False  # it has not started yet
    return True
