"""The operations of tasks: one table of what distinguishes them. The phases of all of them are the same (D2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.tasks.models import CapabilityTier

OperationName: TypeAlias = Literal["plan", "generate", "gather", "resolve_conflicts"]
ResponseKind: TypeAlias = Literal["plan", "files", "digests"]
"""`digests`: an operation without a call of its own, which takes over what sub-tasks return."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a call is for."""

    name: OperationName
    role: str
    """The first section of its prompt."""
    response: ResponseKind
    tier: CapabilityTier
    is_checked: bool
    """Whether the checks of the repository run on what it has written."""


OPERATIONS: Mapping[OperationName, Operation] = {
    operation.name: operation
    for operation in (
        Operation(
            "plan",
            "You are a planning assistant. You divide a task into an ordered list of small steps, each of which leaves"
            " the repository in a working state.",
            "plan",
            CapabilityTier.REASONING,
            is_checked=False,
        ),
        Operation(
            "generate",
            "",  # depends on the domain of the task
            "files",
            CapabilityTier.GENERATION,
            is_checked=True,
        ),
        Operation(
            "gather",
            "",  # its sub-tasks have prompts
            "digests",
            CapabilityTier.GENERATION,  # of its sub-tasks
            is_checked=True,
        ),
        Operation(
            "resolve_conflicts",
            "You are a merge assistant. Several sub-tasks have written different versions of the same files. You write"
            " one version of each file that does what all of them were meant to do.",
            "files",
            CapabilityTier.REASONING,
            is_checked=True,
        ),
    )
}
