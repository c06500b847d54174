"""`evaluate_transition`: commits what has passed its checks, and decides what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.jobs.records import Document
from forge_proxy.core.tasks.decisions import (
    CONTINUE,
    AwaitReview,
    Decision,
    End,
    Halt,
    reset_of,
    to_action,
)
from forge_proxy.core.tasks.findings import Finding, ValidationResult
from forge_proxy.core.tasks.happenings import (
    AttemptFailed,
    AttemptImpossible,
    AttemptSucceeded,
    ConflictsFound,
    Happening,
    PlanMade,
)
from forge_proxy.core.tasks.ids import branch_of
from forge_proxy.core.tasks.models import Plan, TransitionSignal
from forge_proxy.core.tasks.operations import OPERATIONS
from forge_proxy.core.tasks.records import FailedAttempt
from forge_proxy.core.tasks.responses import parse_files, parse_json
from forge_proxy.core.tasks.state_machine import advance
from forge_proxy.core.tasks.sub_tasks import (
    SubTaskOutput,
    find_concerned,
    read_gathered,
    render_digests,
    write_output_document,
)
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.tasks.call_records import settle_call
from forge_proxy.tasks.phase_run import PhaseRun, decode_texts, json_document
from forge_proxy.tasks.results import build_result, first_line

_MAX_REASON = 300
"""Characters of the reason of a failed attempt."""
_MAX_DIGEST = 500
"""Characters of what a sub-task reports to its parent."""
_NOTHING_CHANGED = "nothing is changed once the fixers have run"
NO_CHILDREN: Mapping[str, Any] = {"children": (), "kept": (), "gathered": None, "conflicts": ()}
"""The fields of a state without sub-tasks."""


def signal_of(findings: Sequence[Finding], results: Sequence[ValidationResult]) -> TransitionSignal:
    """Return what the checks of an attempt mean. A result that cannot be classified has raised an error before (D9)."""
    is_success = not findings and all(result.passed for result in results)
    return TransitionSignal.SUCCESS if is_success else TransitionSignal.FAILURE_RETRYABLE


async def evaluate_transition(run: PhaseRun) -> NextAction:
    """Commit the attempt if it has passed; begin the next step, another attempt, a review or a halt."""
    state = run.state
    if signal_of(state.findings, state.results) is not TransitionSignal.SUCCESS:
        return await fail_attempt(run, _describe(state.findings, state.results))
    if OPERATIONS[state.progress.operation].response == "plan":
        plan = parse_json((await run.read_document(state.responses[-1])).decode(), Plan)
        settle_call(run, "passed")
        return await decide(run, PlanMade(plan))
    worktree = await run.worktree()
    if state.parent is not None:
        return await _return_output(run, worktree)
    commit = await _commit(run, worktree)
    if commit is None:
        return await fail_attempt(run, _NOTHING_CHANGED)
    settle_call(run, "passed")
    step = state.step_id
    commits = {**state.step_commits, step: commit} if step is not None else state.step_commits
    run.stage(run.event("committed", commit=commit), head=commit, step_commits=commits)
    return await decide(run, AttemptSucceeded(commit))


async def _return_output(run: PhaseRun, worktree: Worktree) -> NextAction:
    """End a sub-task, whose parent takes over what it has written. It commits nothing (D16)."""
    repositories, checked = run.deps.repositories, set(run.state.checked)
    changed = [
        path
        for path in await repositories.changed_files(worktree, run.base)
        if path in checked and run.scope.permits(path)
    ]
    files = {path: found.data for path in changed if (found := await repositories.read(worktree, path))}
    if not files:
        return await fail_attempt(run, _NOTHING_CHANGED)
    settle_call(run, "passed")
    output = SubTaskOutput(files, await _output_digest(run))
    document = Document(write_output_document(output))
    run.stage(run.event("returned", files=[*files]), documents=[document], output=document.digest)
    action = await decide(run, AttemptSucceeded(None))
    if run.state.result is not None:
        run.stage(result=replace(run.state.result, digest=output.digest, output_files=(*files,)))
    return action


async def fail_attempt(run: PhaseRun, reason: str, *, is_final: bool = False) -> NextAction:
    """End a failed attempt: keep its findings, its files and its changes for the next one and for the report."""
    settle_call(run, "failed")
    state, repositories = run.state, run.deps.repositories
    worktree = await run.worktree()
    diff = Document((await repositories.diff_worktree(worktree)).encode())
    failed = {path: found.data for path in state.written if (found := await repositories.read(worktree, path))}
    files = json_document(decode_texts(failed))
    findings = (*state.findings, *(finding for result in state.results for finding in _findings_of(result)))
    findings = findings or (Finding("attempt", reason),)
    failure = FailedAttempt(state.step_id, state.progress.attempt, reason, findings, diff.digest)
    event = run.event("attempt_ended", status="failed", reason=reason, findings=len(findings))
    run.stage(
        event,
        *(run.event("finding", check=finding.check, text=str(finding)[:_MAX_REASON]) for finding in findings[:20]),
        documents=[diff, files],
        failures=(*state.failures, failure),
        previous=findings,
        previous_files=files.digest,
        follow_up=(),
    )
    run.stage(kept=await _find_kept(run, findings))
    if is_final:
        return await decide(run, AttemptImpossible(reason))
    return await decide(run, AttemptFailed(reason, is_violation=state.is_violation))


async def _find_kept(run: PhaseRun, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the sub-tasks whose outputs another attempt uses again: no finding concerns them."""
    state, step = run.state, run.state.progress.current
    if state.gathered is None or step is None or not state.children:
        return ()
    if state.progress.operation == "resolve_conflicts" and not state.results:  # the response itself was at fault
        return state.children
    concerned = find_concerned(read_gathered(await run.read_document(state.gathered)), findings)
    names = (sub_task.id for sub_task in step.sub_tasks)
    return tuple(job for name, job in zip(names, state.children, strict=True) if name not in concerned)


async def decide(run: PhaseRun, happening: Happening) -> NextAction:
    """Advance the task, and stage the consequences of the decision."""
    progress, decision = advance(run.state.progress, happening)
    is_same_step = isinstance(happening, AttemptFailed | ConflictsFound)
    if not is_same_step and not isinstance(decision, Halt):
        run.stage(previous=(), previous_files=None, **NO_CHILDREN)
    if isinstance(happening, AttemptFailed) and isinstance(decision, Halt):
        run.stage(kept=())  # another attempt than the one that a person has seen fail
    run.stage(progress=progress, reset=reset_of(decision), is_violation=False, follow_up=())
    await prepare_wait(run, decision)
    return CONTINUE if isinstance(decision, End) else to_action(decision)


async def prepare_wait(run: PhaseRun, decision: Decision) -> None:
    """Stage the result of a task that waits for a person or ends."""
    state = run.state
    if isinstance(decision, Halt | AwaitReview):
        run.stage(is_admitted=False)
    if isinstance(decision, Halt):
        run.stage(run.event("halted", reason=decision.reason), halt=decision.reason)
    elif isinstance(decision, End):
        run.stage(halt=decision.reason, result=await build_result(run, decision))
    elif isinstance(decision, AwaitReview):
        worktree = await run.worktree()
        await run.deps.repositories.reset(worktree, state.head)  # of the attempt that a person has skipped
        files = await run.deps.repositories.changed_files(worktree, state.repository.base_commit)
        run.stage(
            run.event("awaiting_merge", branch=branch_of(state.task_id), head=state.head),
            halt="",
            result=await build_result(run, decision, tuple(files)),
        )
        await run.deps.repositories.remove_worktree(worktree)  # git refuses to check out a branch twice


async def _commit(run: PhaseRun, worktree: Worktree) -> str | None:
    """Commit what was checked, without what the checks have left behind; None if nothing has changed."""
    state = run.state
    commit = await run.deps.repositories.commit(worktree, await _message(run), state.head, state.checked)
    return None if commit == state.head else commit


async def _message(run: PhaseRun) -> str:
    state = run.state
    step = state.progress.current
    subject = first_line(step.description if step is not None else state.input.task.description)
    if state.progress.stage == "changes":
        subject = first_line(f"Requested changes: {state.notes[-1]}" if state.notes else "Requested changes")
    explanation = await _explain(run)
    trailer = f"Forge-Task: {state.task_id}" + (f"\nForge-Step: {step.id}" if step is not None else "")
    return "\n\n".join(part for part in (subject, explanation, trailer) if part) + "\n"


async def _explain(run: PhaseRun) -> str:
    """Return what the model writes about the attempt; of a step with sub-tasks, what each of them has done."""
    state = run.state
    if state.gathered is not None:
        return render_digests(read_gathered(await run.read_document(state.gathered)).digests)
    response = parse_files((await run.read_document(state.responses[0])).decode(), state.form)
    return response.explanation.strip()


async def _output_digest(run: PhaseRun) -> str:
    """Return what a sub-task has done, short enough for a prompt that has the digests of all of them (D18)."""
    step, text = run.state.progress.current, " ".join((await _explain(run)).split())
    digest = text or (step.description if step is not None else "")
    return digest if len(digest) <= _MAX_DIGEST else digest[: _MAX_DIGEST - 1] + "…"


def _findings_of(result: ValidationResult) -> Sequence[Finding]:
    if result.passed:
        return ()
    return result.findings or (Finding(result.check, result.details or "the check failed"),)


def _describe(findings: Sequence[Finding], results: Sequence[ValidationResult]) -> str:
    parts = [str(finding) for finding in findings[:1]]
    parts += [f"{result.check}: {len(result.findings) or 'no'} findings" for result in results if not result.passed]
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    return ("; ".join(parts) + more)[:_MAX_REASON]
