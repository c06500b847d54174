"""Assembles the prompt of one call from values that are all read before: equal inputs give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.models import AssembledContext, Plan, PlanStep, ResponseForm, TaskDefinition
from forge_proxy.core.tasks.operations import OPERATIONS, OperationName
from forge_proxy.core.tasks.plan_validation import collect_target_files
from forge_proxy.core.tasks.prompt.domains import DOMAINS
from forge_proxy.core.tasks.prompt.error_section import render_errors, render_failed_edits
from forge_proxy.core.tasks.prompt.requirements import render_requirements, render_scope
from forge_proxy.core.tasks.prompt.sections import (
    PromptOrder,
    SectionName,
    list_sections,
    render_file,
    render_sections,
)
from forge_proxy.core.tasks.scopes import WriteScope
from forge_proxy.core.tasks.sub_tasks import render_digests

CHARACTERS_PER_TOKEN = 4
"""For estimates, if neither the server counts nor its model was calibrated (D33)."""


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """All that a prompt depends on."""

    operation: OperationName
    task: TaskDefinition
    scope: WriteScope
    form: ResponseForm = "json"
    instructions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Project instructions by their source, such as `AGENTS.md`."""
    targets: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """The contents of the target files; None for one that does not exist yet."""
    context: Mapping[str, str] = field(default_factory=dict[str, str])
    plan: Plan | None = None
    outline: str = ""
    """The plan around a sub-task (`render_outline`), in place of `plan`."""
    part: PlanStep | None = None
    """The step or the sub-task that the call is for."""
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Versions of files in conflict by the sub-tasks that have written them."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the sub-tasks have done."""
    findings: Sequence[Finding] = ()
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contents of the files of the failed attempt."""
    failed_edits: Sequence[Finding] = ()
    """Edits of the same attempt that are requested again, in place of `findings`."""
    notes: Sequence[str] = ()
    """What a person has written about earlier attempts."""
    order: PromptOrder = "stable"
    sub_tasks: bool = False
    """Whether a plan may have sub-tasks."""


def assemble_prompt(inputs: PromptInputs) -> AssembledContext:
    """Assemble the prompt of a call."""
    operation = OPERATIONS[inputs.operation]
    sections: dict[SectionName, str] = {
        "role": operation.role or DOMAINS[inputs.task.domain].role,
        "output_requirements": render_requirements(
            operation.response,
            inputs.form,
            sub_tasks=inputs.sub_tasks,
            whole_files=inputs.operation == "resolve_conflicts",
        ),
        "project_instructions": "\n\n".join(
            f"From {source}:\n\n{text.strip()}" for source, text in inputs.instructions.items()
        ),
        "task": _render_task(inputs),
        "target_files": _render_targets(inputs),
        "direct_dependencies": "\n\n".join(render_file(path, text) for path, text in inputs.context.items()),
        "previous_errors": (
            render_failed_edits(inputs.failed_edits)
            if inputs.failed_edits
            else render_errors(inputs.findings, inputs.failed, inputs.notes)
        ),
    }
    system, user = render_sections(sections, inputs.order), _render_user_prompt(inputs)
    return AssembledContext(system, user, list_sections(sections, inputs.order), estimate_tokens(system + user))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text at four characters each, rounded up (D33)."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _render_task(inputs: PromptInputs) -> str:
    parts = [inputs.task.description.strip()]
    if inputs.part is not None:
        parts += [inputs.outline or render_outline(inputs.plan)]
        parts.append(f"This call is for `{inputs.part.id}`: {inputs.part.description.strip()}")
    if inputs.digests:
        parts.append("What the sub-tasks have done:\n\n" + render_digests(inputs.digests))
    if OPERATIONS[inputs.operation].response == "files":
        parts.append(render_scope(inputs.scope))
    if inputs.operation == "plan" and inputs.task.target_files:
        parts.append("Files that have to be changed or created: " + _list(inputs.task.target_files))
    new = [path for path, text in inputs.targets.items() if text is None]
    if new:
        parts.append("Files that do not exist yet: " + _list(new))
    return "\n\n".join(parts)


def render_outline(plan: Plan | None, step: PlanStep | None = None, above: str = "") -> str:
    """Return the plan of a task as text; with `step`, also the sub-tasks into which that one is divided.

    `above` is the outline in which a sub-task is that has sub-tasks of its own.
    """
    lines = [f"{number}. {one.id}: {one.description}" for number, one in enumerate(plan.steps if plan else (), 1)]
    parts = [above] if above else ["The plan of the task:\n\n" + "\n".join(lines)] if lines else []
    if step is not None:
        names = [f"- {one.id}: {one.description} ({_list(collect_target_files(one))})" for one in step.sub_tasks]
        parts.append(f"The sub-tasks of `{step.id}`, which run at the same time:\n\n" + "\n".join(names))
    return "\n\n".join(parts)


def _render_targets(inputs: PromptInputs) -> str:
    if inputs.versions:
        return "\n\n".join(
            render_file(f"{path}, as written by `{writer}`", text)
            for path, versions in inputs.versions.items()
            for writer, text in versions.items()
        )
    return "\n\n".join(render_file(path, text) for path, text in inputs.targets.items() if text is not None)


def _render_user_prompt(inputs: PromptInputs) -> str:
    if inputs.operation == "plan":
        return "Make the plan of the task."
    if inputs.operation == "resolve_conflicts":
        return "Write one version of each file in conflict. Use `files`, with the complete content."
    prompt = DOMAINS[inputs.task.domain].user_prompt
    return prompt if inputs.part is None else f"{prompt}\n\n{inputs.part.id}: {inputs.part.description.strip()}"


def _list(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)
