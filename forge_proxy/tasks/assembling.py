"""`assemble_context`: reads the files of an attempt and builds its prompt, which is stored before the call."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

from forge_proxy.core.jobs.actions import NextAction
from forge_proxy.core.tasks.decisions import CALL, TEST_MODEL
from forge_proxy.core.tasks.errors import UnsafePath
from forge_proxy.core.tasks.models import AssembledContext
from forge_proxy.core.tasks.operations import OPERATIONS
from forge_proxy.core.tasks.paths import find_path_fault
from forge_proxy.core.tasks.plan_validation import collect_target_files
from forge_proxy.core.tasks.prompt.assemble import PromptInputs, assemble_prompt
from forge_proxy.core.tasks.records import CallForm
from forge_proxy.core.tasks.workspace import Worktree
from forge_proxy.tasks.attempt_errors import AttemptError
from forge_proxy.tasks.beginning import begin_attempt
from forge_proxy.tasks.calling import response_schema, tier_of
from forge_proxy.tasks.gathering import read_gathered_outputs
from forge_proxy.tasks.phase_run import PhaseRun, decode_texts, json_document
from forge_proxy.tasks.request_bodies import add_schema_note
from forge_proxy.tasks.writing import apply_stored

_INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
_MAX_INSTRUCTIONS = 64 * 1024
"""Characters of an instruction file that a prompt contains."""


async def assemble_context(run: PhaseRun) -> NextAction:
    """Begin an attempt, or a request for failed edits, with its prompt."""
    state = run.state
    tier = tier_of(run)
    model = state.input.models.get(tier)
    kind = OPERATIONS[state.progress.operation].response
    form = state.tested or await run.deps.caller.form_of(tier, model, kind)
    if form is None:
        return TEST_MODEL
    worktree = await begin_attempt(run)
    context = await _fit(run, await _read_inputs(run, worktree), form)
    document = json_document(asdict(context))
    event = run.event("assembled", tokens=context.tokens, sections=[*context.sections], follow_up=bool(state.follow_up))
    fresh = {} if state.follow_up else {"responses": (), "findings": (), "results": (), "written": ()}
    run.stage(event, documents=[document], prompt=document.digest, form=form.form, method=form.method,
              worktree=worktree, tested=None, **fresh)  # fmt: skip
    return CALL


async def _fit(run: PhaseRun, inputs: PromptInputs, form: CallForm) -> AssembledContext:
    """Assemble the prompt, without context files that do not fit. Raises `AttemptError` if the targets do not fit."""
    inputs = replace(inputs, form=form.form)
    schema = await response_schema(run) if form.has_schema_note else None
    caller, tier = run.deps.caller, tier_of(run)
    model = run.state.input.models.get(tier)
    window = await caller.window_of(tier, model)
    reserve = caller.output_of(tier, window)
    while True:
        context = assemble_prompt(inputs)
        if schema is not None:
            context = add_schema_note(context, schema)
        tokens = await caller.count(context, tier, model)
        if window is None or tokens + reserve <= window:
            return replace(context, tokens=tokens)
        if not inputs.context:
            text = (
                f"the prompt has {tokens} tokens and its response {reserve}, but the window has only {window}; name"
                f" smaller or fewer files, or choose a model with a larger window for the tier {tier.value}"
            )
            raise AttemptError(text, is_final=True)
        inputs = replace(inputs, context=dict([*inputs.context.items()][:-1]))


async def _read_inputs(run: PhaseRun, worktree: Worktree) -> PromptInputs:
    state, progress = run.state, run.state.progress
    step, task = progress.current, state.input.task
    targets = await _target_paths(run, worktree)
    context = [*task.context_files, *(step.context_files if step is not None else ())]
    source = worktree if state.parent is None else state.parent.worktree  # D28
    failed: dict[str, str] = {} if state.previous_files is None else await run.read_json(state.previous_files)
    inputs = PromptInputs(
        progress.operation,
        task,
        run.scope,
        instructions=await _read_instructions(run),
        targets=await _read_all(run, worktree, targets),
        context={
            path: text
            for path, text in (await _read_all(run, source, [path for path in context if path not in targets])).items()
            if text is not None
        },
        plan=progress.plan,
        part=step,
        findings=state.previous,
        failed=failed,
        failed_edits=state.follow_up,
        notes=state.notes,
        order=run.deps.config.prompt_order,
        outline=state.parent.outline if state.parent is not None else "",
        sub_tasks=bool(state.input.max_fan_out_depth),
    )
    if progress.operation == "resolve_conflicts":
        return replace(inputs, **await _read_versions(run, worktree))
    if not state.follow_up:
        return inputs
    applied = await apply_stored(run, worktree)
    files = decode_texts(applied.files)
    return replace(inputs, targets={path: files.get(path, text) for path, text in inputs.targets.items()})


async def _read_versions(run: PhaseRun, worktree: Worktree) -> dict[str, Any]:
    """Return the versions of the files in conflict, that before the step first, and what the sub-tasks have done."""
    gathered = await read_gathered_outputs(run)
    before = await _read_all(run, worktree, [*gathered.conflicts])
    versions = {
        path: {
            **({"the task before this step": text} if (text := before[path]) is not None else {}),
            **decode_texts(found),
        }
        for path, found in gathered.conflicts.items()
    }
    return {"versions": versions, "digests": gathered.digests, "targets": {}}


async def _target_paths(run: PhaseRun, worktree: Worktree) -> Collection[str]:
    state, progress = run.state, run.state.progress
    if progress.operation in ("plan", "resolve_conflicts"):
        return ()
    if (step := progress.current) is not None:
        return dict.fromkeys((*collect_target_files(step), *(run.scope.exact_paths or ())))
    targets = state.input.task.target_files
    if progress.stage != "changes":
        return targets
    changed = await run.deps.repositories.changed_files(worktree, state.repository.base_commit)
    return tuple(dict.fromkeys((*targets, *changed)))


async def _read_all(run: PhaseRun, worktree: Worktree, paths: Collection[str]) -> dict[str, str | None]:
    """Return the contents of files as texts; None for those that do not exist. Raises `AttemptError`."""
    found: dict[str, str | None] = {}
    for path in dict.fromkeys(paths):
        if fault := find_path_fault(path):
            raise AttemptError(f"{path!r}: {fault}", is_final=True)
        try:
            content = await run.deps.repositories.read(worktree, path)
        except UnsafePath as error:
            raise AttemptError(str(error), is_final=True) from error
        if content is not None and b"\0" in content.data[:8192]:
            raise AttemptError(f"{path!r}: a binary file cannot be part of a prompt", is_final=True)
        found[path] = None if content is None else content.data.decode(errors="replace").replace("\r\n", "\n")
    return found


async def _read_instructions(run: PhaseRun) -> dict[str, str]:
    """Return the instructions of the settings and of the base branch, which the task cannot change."""
    found: dict[str, str] = {}
    if run.state.instructions.strip():
        found["the settings"] = run.state.instructions
    repository = run.state.repository
    for name in _INSTRUCTION_FILES:
        data = await run.deps.repositories.read_committed(repository.path, repository.base_commit, name)
        if data is not None and data.strip():
            text = data.decode(errors="replace")
            if text not in found.values():  # one of them is often a link to the other
                found[name] = text[:_MAX_INSTRUCTIONS]
    return found
