"""Runs a phase of a job and stores the action that it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jobs.actions import (
    AwaitChildren,
    Finished,
    NextAction,
    RunPhase,
    StartChildren,
    Wait,
    write_action,
)
from forge_proxy.core.jobs.errors import JobConflict, JobIdInUse, JobLimitExceeded, JobNotFound, JobNotReadable
from forge_proxy.core.jobs.limits import MAX_TREE
from forge_proxy.core.jobs.outcomes import write_error
from forge_proxy.core.jobs.records import JobStatus, NewEvent
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.jobs.cancellation import Cancelled
from forge_proxy.jobs.kinds import JobKinds
from forge_proxy.jobs.ports import JobStore, NewRow
from forge_proxy.jobs.retries import compute_retry_delay
from forge_proxy.jobs.writer import JobWriter


@dataclass(frozen=True, slots=True)
class PhaseDeps:
    """The dependencies of phases. `report` is called with a job's id and an internal error."""

    kinds: JobKinds
    now: Callable[[], float]
    report: Callable[[str, Exception], None]


async def run_phase(writer: JobWriter, phase: RunPhase, deps: PhaseDeps, store: JobStore) -> None:
    """Run a phase and store its action.

    Raises `StoreInUse`, `JobConflict` if another daemon has taken the job, `JobNotFound` if it was deleted,
    `JobNotReadable`, and `Cancelled` if the phase ended itself because cancellation was requested.
    """
    handler = deps.kinds.find_handler(writer.job.kind)
    writer.take_staged()  # of an attempt that failed
    try:
        async with asyncio.timeout(phase.timeout):
            action = await handler.run_phase(writer, phase)
        children = await _children_of(action, writer, deps, store)
    except (StoreUnavailable, JobNotFound, JobConflict, JobNotReadable):
        raise
    except Exception as error:  # it must not affect other jobs
        if isinstance(error, Cancelled) and writer.cancel.is_set():
            raise
        action, children = _after_failure(writer, phase, error, deps), []
    async with writer.change_lock:
        if writer.cancel.is_set() and not isinstance(action, Finished):
            await store_cancelled(writer, deps.kinds, wait=True)
            return
        try:
            await store_action(writer, action, children, wait=True)
        except (JobIdInUse, JobLimitExceeded) as error:
            await store_action(writer, _after_failure(writer, phase, error, deps), wait=True)


async def store_running(writer: JobWriter, phase: RunPhase) -> None:
    """Store that a phase runs. The wait that it ends, if there is one, has used up the request to wake the job."""
    is_woken = writer.job.wake_requested and not isinstance(writer.action, Wait)
    event, action = NewEvent("status", {"status": "running"}), write_action(phase)
    await writer.write(event, status="running", action=action, wake_at=None, wake_requested=is_woken, wait=True)


async def store_cancelled(writer: JobWriter, kinds: JobKinds, *, wait: bool = False) -> None:
    """Store the status `cancelled`, with what the handler's `on_cancel` stages. Discards earlier staged changes."""
    writer.take_staged()
    kinds.find_handler(writer.job.kind).on_cancel(writer)
    await store_action(writer, Finished("cancelled"), wait=wait)


async def store_action(
    writer: JobWriter, action: NextAction, children: list[NewRow] | None = None, *, wait: bool
) -> None:
    """Store an action, together with what was staged for it."""
    staged = writer.take_staged()
    status = _status_after(action)
    events = [*staged.events]
    if not any(event.type == "status" for event in events):
        events.append(NewEvent("status", {"status": status}))
    await writer.write(
        *events,
        state=staged.state,
        documents=staged.documents,
        children=children or (),
        wait=wait,
        status=status,
        action=write_action(AwaitChildren(action.then) if isinstance(action, StartChildren) else action),
        outcome=staged.outcome or writer.job.outcome,
        wake_at=action.until if isinstance(action, Wait) else None,
    )


def _status_after(action: NextAction) -> JobStatus:
    match action:
        case RunPhase():
            return "running"
        case StartChildren():
            return "waiting"
        case Wait() | Finished():
            return action.status


async def _children_of(action: NextAction, writer: JobWriter, deps: PhaseDeps, store: JobStore) -> list[NewRow]:
    if not isinstance(action, StartChildren):
        return []
    job = writer.job
    total = await store.count_tree(job.root) + len(action.jobs)
    if total > MAX_TREE:
        raise JobLimitExceeded(f"{total} jobs in one tree; {MAX_TREE} are possible")
    return [deps.kinds.build_child(new, job, deps.now()) for new in action.jobs]


def _after_failure(writer: JobWriter, phase: RunPhase, error: Exception, deps: PhaseDeps) -> NextAction:
    if not isinstance(error, ForgeError | TimeoutError):
        deps.report(writer.job.id, error)
    writer.take_staged()
    name = type(error).__name__ if isinstance(error, ForgeError | TimeoutError) else "InternalError"
    if phase.attempt < phase.max_attempts:
        seconds = compute_retry_delay(phase.attempt)
        writer.stage(NewEvent("attempt_failed", {"phase": phase.phase, "attempt": phase.attempt, "error": name}))
        return Wait(deps.now() + seconds, replace(phase, attempt=phase.attempt + 1), "queued")
    message = _describe(error, phase)
    writer.stage(
        NewEvent("status", {"status": "failed", "error": name}),
        outcome=write_error(name, message),
    )
    return Finished("failed")


def _describe(error: Exception, phase: RunPhase) -> str:
    """Describe an error for the job's client. Details of internal errors are only in the log."""
    if isinstance(error, ForgeError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"{phase.phase} took longer than {phase.timeout} s"
    return "an error inside forge-proxy; its log has the details"
