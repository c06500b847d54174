"""What a workflow is and how one stands: definitions, steps, and the pure moves of a run."""

from forge_proxy.core.workflow.definition import Prerequisite, ToolDef, Workflow
from forge_proxy.core.workflow.steps import Steps

__all__ = ["Prerequisite", "Steps", "ToolDef", "Workflow"]
