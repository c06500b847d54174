"""Sub-tasks of a step, the pure half: what each of them may write, and how their outputs are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from pydantic import Base64Bytes, TypeAdapter

from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.models import PlanStep, SubTask
from forge_proxy.core.tasks.plan_validation import collect_target_files


@dataclass(frozen=True, slots=True)
class SubTaskOutput:
    """What a sub-task returns to its parent: its files, and a short text about them (D18)."""

    files: Mapping[str, Base64Bytes]
    digest: str


@dataclass(frozen=True, slots=True)
class GatheredOutputs:
    """What the sub-tasks of a step have written, by path."""

    files: Mapping[str, Base64Bytes]
    """Files with only one version."""
    conflicts: Mapping[str, Mapping[str, Base64Bytes]]
    """The different versions of the other files, by the sub-tasks that have written them."""
    writers: Mapping[str, tuple[str, ...]]
    """The sub-tasks that have written each file."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """What each sub-task has done."""


def find_shared_paths(part: PlanStep | SubTask) -> tuple[str, ...]:
    """Return the targets of a step that are targets of none of its sub-tasks: each of them may write these."""
    own = {path for sub_task in part.sub_tasks for path in collect_target_files(sub_task)}
    return tuple(path for path in part.target_files if path not in own)


def to_step(step: PlanStep, sub_task: SubTask) -> PlanStep:
    """Return a sub-task as the step that it executes.

    Beyond its targets it may write what all sub-tasks share, but never the targets of the others.
    """
    own = {*collect_target_files(sub_task)}
    others = (path for other in step.sub_tasks for path in collect_target_files(other) if path not in own)
    return PlanStep(
        id=sub_task.id,
        description=sub_task.description,
        target_files=sub_task.target_files,
        context_files=tuple(dict.fromkeys((*step.context_files, *sub_task.context_files))),
        may_write=tuple(dict.fromkeys((*find_shared_paths(step), *step.may_write))),
        must_not_write=tuple(dict.fromkeys((*step.must_not_write, *others))),
        capability_tier=step.capability_tier,
        sub_tasks=sub_task.sub_tasks,
    )


def gather_outputs(outputs: Mapping[str, SubTaskOutput]) -> GatheredOutputs:
    """Gather the outputs of sub-tasks, by their ids. Identical versions of a file do not conflict."""
    versions: dict[str, dict[str, bytes]] = {}
    for sub_task, output in outputs.items():
        for path, data in output.files.items():
            versions.setdefault(path, {})[sub_task] = data
    files: dict[str, bytes] = {}
    conflicts: dict[str, Mapping[str, bytes]] = {}
    for path, found in sorted(versions.items()):
        if len({*found.values()}) == 1:
            files[path] = next(iter(found.values()))
        else:
            conflicts[path] = found
    writers = {path: (*found,) for path, found in sorted(versions.items())}
    return GatheredOutputs(files, conflicts, writers, {name: output.digest for name, output in outputs.items()})


def find_concerned(gathered: GatheredOutputs, findings: Sequence[Finding]) -> frozenset[str]:
    """Return the sub-tasks that have to be repeated because of findings in what was gathered.

    Files in conflict are written again by the resolution of the conflicts. If a finding is in none of the files, any of
    the sub-tasks may be its cause.
    """
    concerned: set[str] = set()
    for finding in findings:
        if finding.path is None or finding.path not in gathered.writers:
            return frozenset(gathered.digests)
        if finding.path not in gathered.conflicts:
            concerned.update(gathered.writers[finding.path])
    return frozenset(concerned)


def render_digests(digests: Mapping[str, str]) -> str:
    """Return what the sub-tasks have done as a list, for a commit message or a prompt."""
    return "\n".join(f"- {name}: {' '.join(text.split())}" for name, text in digests.items())


@cache
def _output_adapter() -> TypeAdapter[SubTaskOutput]:
    return TypeAdapter(SubTaskOutput)


@cache
def _gathered_adapter() -> TypeAdapter[GatheredOutputs]:
    return TypeAdapter(GatheredOutputs)


def write_output_document(output: SubTaskOutput) -> bytes:
    """Serialize the output of a sub-task."""
    return _output_adapter().dump_json(output)


def read_output_document(data: bytes) -> SubTaskOutput:
    """Parse the output of a sub-task."""
    return _output_adapter().validate_json(data)


def write_gathered(gathered: GatheredOutputs) -> bytes:
    """Serialize what was gathered."""
    return _gathered_adapter().dump_json(gathered)


def read_gathered(data: bytes) -> GatheredOutputs:
    """Parse what was gathered."""
    return _gathered_adapter().validate_json(data)
