"""forge-proxy: an OpenAI-compatible daemon that makes a self-hosted model's tool calling dependable.

What Python programs use of it is here by name, and imported when it is first asked for: commands need little of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# isort: off
if TYPE_CHECKING:
    from forge_proxy.backends.config import BackendChoiceError as BackendChoiceError
    from forge_proxy.core.budget import Budget as Budget, BudgetMode as BudgetMode
    from forge_proxy.core.chat import ToolSpec as ToolSpec
    from forge_proxy.core.compaction import (
        CompactStrategy as CompactStrategy,
        NoCompact as NoCompact,
        SlidingWindowCompact as SlidingWindowCompact,
        TieredCompact as TieredCompact,
    )
    from forge_proxy.core.errors import (
        BackendError as BackendError,
        BackendFault as BackendFault,
        BudgetResolutionError as BudgetResolutionError,
        ContextBudgetExceeded as ContextBudgetExceeded,
        ForgeError as ForgeError,
        ThinkingNotSupportedError as ThinkingNotSupportedError,
    )
    from forge_proxy.core.messages import (
        Message as Message,
        MessageMeta as MessageMeta,
        MessageRole as MessageRole,
        MessageType as MessageType,
        ToolCall as ToolCall,
        ToolCallInfo as ToolCallInfo,
    )
    from forge_proxy.core.sampling import UnsupportedModelError as UnsupportedModelError
    from forge_proxy.core.workflow.cancelled import WorkflowCancelledError as WorkflowCancelledError
    from forge_proxy.core.workflow.definition import (
        Prerequisite as Prerequisite,
        ToolDef as ToolDef,
        Workflow as Workflow,
    )
    from forge_proxy.core.workflow.errors import (
        InvalidWorkflow as InvalidWorkflow,
        MaxIterationsError as MaxIterationsError,
        PrerequisiteError as PrerequisiteError,
        StepEnforcementError as StepEnforcementError,
        StreamError as StreamError,
        ToolCallError as ToolCallError,
        ToolExecutionError as ToolExecutionError,
        ToolResolutionError as ToolResolutionError,
    )
    from forge_proxy.core.workflow.run import Limits as Limits, ToolOutcome as ToolOutcome
    from forge_proxy.core.workflow.steps import Steps as Steps
    from forge_proxy.daemon.proxy_server import ProxyServer as ProxyServer
    from forge_proxy.daemon.setup import ReadyBackend as ReadyBackend, setup_backend as setup_backend
    from forge_proxy.settings import Settings as Settings, SettingsError as SettingsError
    from forge_proxy.workflows.client import (
        ChunkType as ChunkType,
        LLMClient as LLMClient,
        LLMResponse as LLMResponse,
        StreamChunk as StreamChunk,
        TextResponse as TextResponse,
    )
    from forge_proxy.workflows.components import (
        ErrorTracker as ErrorTracker,
        Nudge as Nudge,
        ResponseValidator as ResponseValidator,
        StepCheck as StepCheck,
        StepEnforcer as StepEnforcer,
        StepTracker as StepTracker,
        ValidationResult as ValidationResult,
    )
    from forge_proxy.workflows.context import CompactEvent as CompactEvent, ContextManager as ContextManager
    from forge_proxy.workflows.engine_client import EngineClient as EngineClient
    from forge_proxy.workflows.guardrails import Checked as Checked, Guardrails as Guardrails
    from forge_proxy.workflows.respond import respond_tool as respond_tool
    from forge_proxy.workflows.runner import WorkflowRunner as WorkflowRunner
    from forge_proxy.workflows.slot_worker import SlotWorker as SlotWorker, WorkerStopped as WorkerStopped
# isort: on

__version__ = "0.1.0"

_NAMES = {
    "backends.config": "BackendChoiceError",
    "core.budget": "Budget BudgetMode",
    "core.chat": "ToolSpec",
    "core.compaction": "CompactStrategy NoCompact SlidingWindowCompact TieredCompact",
    "core.errors": "BackendError BackendFault BudgetResolutionError ContextBudgetExceeded ForgeError"
    " ThinkingNotSupportedError",
    "core.messages": "Message MessageMeta MessageRole MessageType ToolCall ToolCallInfo",
    "core.sampling": "UnsupportedModelError",
    "core.workflow.cancelled": "WorkflowCancelledError",
    "core.workflow.definition": "Prerequisite ToolDef Workflow",
    "core.workflow.errors": "InvalidWorkflow MaxIterationsError PrerequisiteError StepEnforcementError StreamError"
    " ToolCallError ToolExecutionError ToolResolutionError",
    "core.workflow.run": "Limits ToolOutcome",
    "core.workflow.steps": "Steps",
    "daemon.proxy_server": "ProxyServer",
    "daemon.setup": "ReadyBackend setup_backend",
    "settings": "Settings SettingsError",
    "workflows.client": "ChunkType LLMClient LLMResponse StreamChunk TextResponse",
    "workflows.components": "ErrorTracker Nudge ResponseValidator StepCheck StepEnforcer StepTracker ValidationResult",
    "workflows.context": "CompactEvent ContextManager",
    "workflows.engine_client": "EngineClient",
    "workflows.guardrails": "Checked Guardrails",
    "workflows.respond": "respond_tool",
    "workflows.runner": "WorkflowRunner",
    "workflows.slot_worker": "SlotWorker WorkerStopped",
}
"""The names above, by the module that has them."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
