"""Works for Temporal: the workers of a daemon's queues, and the sender of its messages."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.temporal.activities import JobActivities
from forge_proxy.temporal.connection import connect
from forge_proxy.temporal.ports import TemporalDeps
from forge_proxy.temporal.relay import OutboxRelay
from forge_proxy.temporal.workflow import CONTROL_QUEUE, JobWorkflow

_RETRY_SECONDS = 1.0
_STICKY = timedelta(seconds=2)
"""How long a workflow waits for the daemon that has it in its cache, before any daemon may continue it."""
_POLLS = 1
"""Of each worker. Temporal may give a phase to each poll of a stopped daemon, until heartbeats are missing."""
_HEARTBEATS = timedelta(seconds=1)
"""The interval in which heartbeats are sent, and cancellations received."""


async def serve(deps: TemporalDeps) -> None:
    """Work for Temporal until cancelled; if the server or the store is unavailable, try again."""
    activities = JobActivities(deps.writers, deps.phases, deps.running)
    relay = OutboxRelay(deps.writers, deps.open_outbox, deps.options.queue_prefix, deps.has_messages)
    reported = ""
    while True:
        try:
            client = await connect(deps.options.config)
            reported = ""
            async with asyncio.TaskGroup() as group:
                for worker in _build_workers(client, activities, deps):
                    group.create_task(worker.run())
                group.create_task(_relay_messages(client, relay, deps))
                deps.options.report_connected()
        except* (RuntimeError, RPCError, OSError) as errors:
            reason = str(errors.exceptions[0])
            if reason != reported:
                reported = reason
                deps.options.report_unavailable(reason)
        await asyncio.sleep(_RETRY_SECONDS)


async def _relay_messages(client: Client, relay: OutboxRelay, deps: TemporalDeps) -> None:
    reported = ""
    while True:
        try:
            await relay.run(client)
        except (RPCError, StoreUnavailable) as error:
            if str(error) != reported:
                reported = str(error)
                deps.options.report_unavailable(reported)
            await asyncio.sleep(_RETRY_SECONDS)


def _build_workers(client: Client, activities: JobActivities, deps: TemporalDeps) -> list[Worker]:
    prefix = deps.options.queue_prefix
    control = Worker(
        client, task_queue=prefix + CONTROL_QUEUE, workflows=[JobWorkflow],
        activities=[activities.load, activities.cancel],
        # The sandbox would import each module again; the workflow is one small module that is tested by replay.
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=_STICKY,
        max_concurrent_workflow_task_polls=2, max_concurrent_activity_task_polls=_POLLS,
    )  # fmt: skip
    queues = deps.options.queues.items()
    return [control, *(_build_worker(client, activities, prefix + name, limit()) for name, limit in queues)]


def _build_worker(client: Client, activities: JobActivities, task_queue: str, limit: int) -> Worker:
    return Worker(
        client, task_queue=task_queue, activities=[activities.run_phase],
        max_concurrent_activities=limit, max_concurrent_activity_task_polls=_POLLS,
        max_heartbeat_throttle_interval=_HEARTBEATS, default_heartbeat_throttle_interval=_HEARTBEATS,
    )  # fmt: skip
