"""Workflows: definitions, completed steps, and the pure state transitions of a run."""

from forge_proxy.core.workflow.definition import Prerequisite, ToolDef, Workflow
from forge_proxy.core.workflow.steps import Steps

__all__ = ["Prerequisite", "Steps", "ToolDef", "Workflow"]
