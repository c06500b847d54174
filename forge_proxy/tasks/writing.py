"""`write_output`: applies the stored responses of an attempt to a clean worktree."""

from __future__ import annotations

from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.tasks.call_record import CallOutcome
from forge_proxy.core.tasks.decisions import ASSEMBLE, EVALUATE, VALIDATE
from forge_proxy.core.tasks.edits.response import AppliedResponse, RejectedFile, apply_response, paths_of
from forge_proxy.core.tasks.errors import UnsafePath
from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.models import LLMResponse, Plan
from forge_proxy.core.tasks.operations import OPERATIONS
from forge_proxy.core.tasks.plan_validation import find_plan_faults
from forge_proxy.core.tasks.responses import parse_files, parse_json
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.tasks.call_records import settle_call
from forge_proxy.tasks.gathering import read_gathered_outputs, write_gathered_files
from forge_proxy.tasks.phase_run import PhaseRun


async def write_output(run: PhaseRun) -> NextAction:
    """Write what the model has responded, or check its plan."""
    if OPERATIONS[run.state.progress.operation].response == "plan":
        return await _check_plan(run)
    state, repositories = run.state, run.deps.repositories
    worktree = await run.worktree()
    await repositories.ensure_reset(worktree, state.head)
    applied = await apply_stored(run, worktree)
    levels = tuple(edit.level for edit in applied.applied)
    findings = (
        *(Finding("edits", fault.message, fault.path) for fault in applied.faults),
        *(Finding("scope" if one.is_outside else "response", one.message, one.path) for one in applied.rejected),
    )
    is_resolution = state.progress.operation == "resolve_conflicts"
    if is_resolution:
        missing = [path for path in state.conflicts if path not in applied.files]
        findings = (*findings, *(Finding("response", "there is no version of this file", path) for path in missing))
    if applied.faults and not applied.rejected and not state.follow_up and not is_resolution:
        settle_call(run, "edits_failed", levels)
        event = run.event("edits_failed", edits=len(applied.faults))
        run.stage(
            event,
            follow_up=tuple(Finding("edits", fault.describe(), fault.path) for fault in applied.faults),
        )
        return ASSEMBLE
    if is_resolution and not findings:
        await write_gathered_files(run, await read_gathered_outputs(run), applied.files)
        written = run.state.written
    else:
        await repositories.write(worktree, applied.files)
        written = tuple(sorted(applied.files))
    is_violation = any(one.is_outside for one in applied.rejected)
    outcome: CallOutcome = "rejected" if applied.rejected else "edits_failed" if applied.faults else "written"
    settle_call(run, outcome, levels)
    event = run.event("written", files=[*written], levels=[*levels], findings=len(findings))
    run.stage(event, written=written, findings=findings, is_violation=is_violation, follow_up=())
    return EVALUATE if findings else VALIDATE


async def apply_stored(run: PhaseRun, worktree: Worktree) -> AppliedResponse:
    """Apply the stored responses of the attempt to the files of a clean worktree. Nothing is written."""
    files: dict[str, bytes] = {}
    done = AppliedResponse({}, (), (), ())
    for digest in run.state.responses:
        response = parse_files((await run.read_document(digest)).decode(), run.state.form)
        before, unsafe = await _read_before(run, worktree, response)
        step = apply_response(response, {**before, **files}, run.scope)
        files |= step.files
        done = AppliedResponse(
            dict(files), (*done.applied, *step.applied), step.faults, (*done.rejected, *unsafe, *step.rejected)
        )
    return done


async def _read_before(
    run: PhaseRun, worktree: Worktree, response: LLMResponse
) -> tuple[dict[str, bytes | None], list[RejectedFile]]:
    before: dict[str, bytes | None] = {}
    unsafe: list[RejectedFile] = []
    for path in paths_of(response):
        if run.scope.permits(path):
            try:
                content = await run.deps.repositories.read(worktree, path)
            except UnsafePath as error:
                unsafe.append(RejectedFile(path, error.reason, is_outside=True))
                continue
            before[path] = None if content is None else content.data
    return before, unsafe


async def _check_plan(run: PhaseRun) -> NextAction:
    state = run.state
    plan = parse_json((await run.read_document(state.responses[-1])).decode(), Plan)
    existing = await run.deps.repositories.list_files(await run.worktree())
    faults = find_plan_faults(
        plan,
        task_id=state.task_id,
        targets=state.input.task.target_files,
        existing=existing,
        scope=run.scope,
        max_depth=state.input.max_fan_out_depth or 0,
    )
    findings = tuple(Finding("plan", fault) for fault in faults)
    run.stage(run.event("planned", steps=len(plan.steps), findings=len(findings)), findings=findings)
    return EVALUATE
