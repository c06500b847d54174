"""`gather`: takes over what the sub-tasks of a step have written, and finds where they contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.jobs.records import Document
from forge_proxy.core.tasks.decisions import VALIDATE
from forge_proxy.core.tasks.errors import UnsafePath
from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.happenings import AttemptImpossible, ConflictsFound
from forge_proxy.core.tasks.records import FailedAttempt
from forge_proxy.core.tasks.sub_tasks import (
    GatheredOutputs,
    SubTaskOutput,
    gather_outputs,
    read_gathered,
    read_output_document,
    write_gathered,
)
from forge_proxy.tasks.attempt_errors import AttemptError
from forge_proxy.tasks.evaluating import decide
from forge_proxy.tasks.fanning_out import StoredSubTask, current_step, read_sub_task
from forge_proxy.tasks.phase_run import PhaseRun


async def gather(run: PhaseRun) -> NextAction:
    """Write the files of the sub-tasks into the worktree, or have conflicts between them resolved first.

    If a sub-task has failed, the step halts with its report (D9); the outputs of the others are kept.
    """
    step, store = current_step(run), await run.deps.open_jobs()
    ids = [sub_task.id for sub_task in step.sub_tasks]
    ended = dict(zip(ids, [await read_sub_task(store, job) for job in run.state.children], strict=True))
    if any(one.failure is not None for one in ended.values()):
        return await _report_failures(run, ended)
    outputs = {name: await _read_output(run, one) for name, one in ended.items()}
    gathered = gather_outputs(outputs)
    document = Document(write_gathered(gathered))
    conflicts = (*gathered.conflicts,)
    event = run.event("gathered", files=[*gathered.writers], conflicts=[*conflicts])
    run.stage(event, documents=[document], gathered=document.digest, conflicts=conflicts)
    if not conflicts:
        await write_gathered_files(run, gathered, {})
        return VALIDATE
    if run.state.input.conflicts == "fail":
        names = "; ".join(f"{path} ({', '.join(versions)})" for path, versions in gathered.conflicts.items())
        return await decide(run, AttemptImpossible(f"sub-tasks have written different versions of files: {names}"))
    return await decide(run, ConflictsFound(conflicts))


async def write_gathered_files(run: PhaseRun, gathered: GatheredOutputs, resolved: Mapping[str, bytes]) -> None:
    """Write all files of a step into its clean worktree. Raises `AttemptError`."""
    worktree = await run.worktree()
    files = {**gathered.files, **resolved}
    await run.deps.repositories.ensure_reset(worktree, run.state.head)
    try:
        await run.deps.repositories.write(worktree, files)
    except UnsafePath as error:  # such as two names that differ only in case
        run.stage(findings=(Finding("gather", error.reason, error.path),))
        raise AttemptError(str(error)) from error
    run.stage(written=tuple(sorted(files)))


async def read_gathered_outputs(run: PhaseRun) -> GatheredOutputs:
    """Return what was gathered for the current step."""
    if run.state.gathered is None:
        raise AssertionError("conflicts are resolved after their files were gathered")
    return read_gathered(await run.read_document(run.state.gathered))


async def _read_output(run: PhaseRun, sub_task: StoredSubTask) -> SubTaskOutput:
    if sub_task.state.output is None:
        raise AssertionError("a sub-task that has completed has an output")
    return read_output_document(await run.read_document(sub_task.state.output))


async def _report_failures(run: PhaseRun, ended: Mapping[str, StoredSubTask]) -> NextAction:
    """Halt the step with the report of the sub-tasks that have failed."""
    failed = {name: one for name, one in ended.items() if one.failure is not None}
    kept = tuple(one.job.id for name, one in ended.items() if name not in failed)
    step = run.state.step_id
    failures: list[FailedAttempt] = []
    for name, one in failed.items():
        failures += [replace(own, step=f"{step}/{own.step or name}") for own in one.state.failures]
    run.stage(
        *(run.event("sub_task_failed", sub_task=one.job.id, reason=one.failure) for one in failed.values()),
        failures=(*run.state.failures, *failures),
        kept=kept,
    )
    reasons = "; ".join(f"sub-task {name}: {one.failure}" for name, one in failed.items())
    return await decide(run, AttemptImpossible(reasons))
