"""forge-proxy: an OpenAI-compatible daemon that makes a self-hosted model's tool calling dependable.

This module exports what Python programs use. Each name is imported at its first use, since commands need few of them.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from forge_proxy._version import __version__ as __version__

# isort: off
if TYPE_CHECKING:
    from forge_proxy.api.admin.task_models import TaskInfo, TaskSubmission
    from forge_proxy.api.config import ServerConfigError
    from forge_proxy.api.server import CannotListen, PortTaken
    from forge_proxy.backends.config import BackendChoiceError
    from forge_proxy.backends.llama_server.commands import Superseded, SwitchFailed
    from forge_proxy.backends.llama_server.instance import CannotStart
    from forge_proxy.core.budget import Budget, BudgetMode
    from forge_proxy.core.chat import ToolSpec
    from forge_proxy.core.compaction import (
        CompactStrategy,
        NoCompact,
        SlidingWindowCompact,
        TieredCompact,
    )
    from forge_proxy.client.remote import DaemonError, NoDaemon, SentEvent, WaitTimeout
    from forge_proxy.client.tasks import Tasks
    from forge_proxy.core.backend_errors import (
        BackendBroke,
        BackendDown,
        BackendError,
        BackendFault,
        BackendLost,
        BackendNotReady,
        BackendTimeout,
        BackendUnreachable,
        ContextOverflow,
        LimitTooLarge,
        ModelNotLoaded,
        RequestFormatRejected,
        ResponseTooDeep,
        ResponseTooLarge,
        RouteNotSupported,
        ThinkingNotSupportedError,
        ToolsRejected,
        UnexpectedStatus,
        UnreadCall,
    )
    from forge_proxy.core.budget_errors import BudgetResolutionError, BudgetUnchanged, ContextBudgetExceeded
    from forge_proxy.core.errors import (
        EmptyAnswer,
        ForgeError,
        GuardrailsBroken,
        InvalidRequest,
        OutOfMemory,
        Overloaded,
        RequestCancelled,
        ToolCallInvalid,
        ToolChoiceUnsatisfied,
        UnknownModel,
    )
    from forge_proxy.core.jsontypes import Json
    from forge_proxy.core.messages import (
        Message,
        MessageFormat,
        MessageMeta,
        MessageRole,
        MessageType,
        ToolCall,
        ToolCallInfo,
    )
    from forge_proxy.core.sampling import UnsupportedModelError
    from forge_proxy.core.tasks.models import TaskDefinition
    from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
    from forge_proxy.core.workflow.definition import (
        Prerequisite,
        ToolDef,
        Workflow,
    )
    from forge_proxy.core.workflow.errors import (
        InvalidWorkflow,
        MaxIterationsError,
        PrerequisiteError,
        StepEnforcementError,
        StreamError,
        ToolCallError,
        ToolExecutionError,
        ToolResolutionError,
    )
    from forge_proxy.core.workflow.run import Limits, ToolOutcome
    from forge_proxy.core.workflow.steps import Steps
    from forge_proxy.daemon.proxy_server import ProxyServer
    from forge_proxy.daemon.setup import ReadyBackend, setup_backend
    from forge_proxy.engine.memory import MemoryFull, TooLargeForMemory
    from forge_proxy.settings import Settings, SettingsError
    from forge_proxy.workflows.sdk.client import (
        ChunkType,
        LLMClient,
        LLMResponse,
        StreamChunk,
        TextResponse,
    )
    from forge_proxy.workflows.sdk.guardrail_components import (
        ErrorTracker,
        Nudge,
        ResponseValidator,
        StepCheck,
        StepEnforcer,
        StepTracker,
        ValidationResult,
    )
    from forge_proxy.workflows.context import CompactEvent, ContextManager
    from forge_proxy.workflows.sdk.engine_client import EngineClient
    from forge_proxy.workflows.sdk.guardrails import CheckedResponse, Guardrails
    from forge_proxy.workflows.sdk.respond import respond_tool
    from forge_proxy.workflows.runner import WorkflowRunner
    from forge_proxy.workflows.sdk.slot_worker import SlotWorker, WorkerStopped
# isort: on

__all__ = [
    "BackendBroke",
    "BackendChoiceError",
    "BackendDown",
    "BackendError",
    "BackendFault",
    "BackendLost",
    "BackendNotReady",
    "BackendTimeout",
    "BackendUnreachable",
    "Budget",
    "BudgetMode",
    "BudgetResolutionError",
    "BudgetUnchanged",
    "CannotListen",
    "CannotStart",
    "CheckedResponse",
    "ChunkType",
    "CompactEvent",
    "CompactStrategy",
    "ContextBudgetExceeded",
    "ContextManager",
    "ContextOverflow",
    "DaemonError",
    "EmptyAnswer",
    "EngineClient",
    "ErrorTracker",
    "ForgeError",
    "Guardrails",
    "GuardrailsBroken",
    "InvalidRequest",
    "InvalidWorkflow",
    "Json",
    "LLMClient",
    "LLMResponse",
    "LimitTooLarge",
    "Limits",
    "MaxIterationsError",
    "MemoryFull",
    "Message",
    "MessageFormat",
    "MessageMeta",
    "MessageRole",
    "MessageType",
    "ModelNotLoaded",
    "NoCompact",
    "NoDaemon",
    "Nudge",
    "OutOfMemory",
    "Overloaded",
    "PortTaken",
    "Prerequisite",
    "PrerequisiteError",
    "ProxyServer",
    "ReadyBackend",
    "RequestCancelled",
    "RequestFormatRejected",
    "ResponseTooDeep",
    "ResponseTooLarge",
    "ResponseValidator",
    "RouteNotSupported",
    "SentEvent",
    "ServerConfigError",
    "Settings",
    "SettingsError",
    "SlidingWindowCompact",
    "SlotWorker",
    "StepCheck",
    "StepEnforcementError",
    "StepEnforcer",
    "StepTracker",
    "Steps",
    "StreamChunk",
    "StreamError",
    "Superseded",
    "SwitchFailed",
    "TaskDefinition",
    "TaskInfo",
    "TaskSubmission",
    "Tasks",
    "TextResponse",
    "ThinkingNotSupportedError",
    "TieredCompact",
    "TooLargeForMemory",
    "ToolCall",
    "ToolCallError",
    "ToolCallInfo",
    "ToolCallInvalid",
    "ToolChoiceUnsatisfied",
    "ToolDef",
    "ToolExecutionError",
    "ToolOutcome",
    "ToolResolutionError",
    "ToolSpec",
    "ToolsRejected",
    "UnexpectedStatus",
    "UnknownModel",
    "UnreadCall",
    "UnsupportedModelError",
    "ValidationResult",
    "WaitTimeout",
    "WorkerStopped",
    "Workflow",
    "WorkflowCancelledError",
    "WorkflowRunner",
    "__version__",
    "respond_tool",
    "setup_backend",
]

_NAMES = {
    "api.admin.task_models": "TaskInfo TaskSubmission",
    "api.config": "ServerConfigError",
    "api.server": "CannotListen PortTaken",
    "backends.config": "BackendChoiceError",
    "backends.llama_server.commands": "Superseded SwitchFailed",
    "backends.llama_server.instance": "CannotStart",
    "client.remote": "DaemonError NoDaemon SentEvent WaitTimeout",
    "client.tasks": "Tasks",
    "core.backend_errors": "BackendBroke BackendDown BackendError BackendFault BackendLost BackendNotReady"
    " BackendTimeout BackendUnreachable ContextOverflow LimitTooLarge ModelNotLoaded"
    " RequestFormatRejected ResponseTooDeep ResponseTooLarge RouteNotSupported UnexpectedStatus"
    " ThinkingNotSupportedError ToolsRejected UnreadCall",
    "core.budget": "Budget BudgetMode",
    "core.budget_errors": "BudgetResolutionError BudgetUnchanged ContextBudgetExceeded",
    "core.chat": "ToolSpec",
    "core.compaction": "CompactStrategy NoCompact SlidingWindowCompact TieredCompact",
    "core.errors": "EmptyAnswer ForgeError GuardrailsBroken InvalidRequest OutOfMemory Overloaded RequestCancelled"
    " ToolCallInvalid ToolChoiceUnsatisfied UnknownModel",
    "core.jsontypes": "Json",
    "core.messages": "Message MessageFormat MessageMeta MessageRole MessageType ToolCall ToolCallInfo",
    "core.sampling": "UnsupportedModelError",
    "core.tasks.models": "TaskDefinition",
    "core.workflow.cancelled": "WorkflowCancelledError",
    "core.workflow.definition": "Prerequisite ToolDef Workflow",
    "core.workflow.errors": "InvalidWorkflow MaxIterationsError PrerequisiteError StepEnforcementError StreamError"
    " ToolCallError ToolExecutionError ToolResolutionError",
    "core.workflow.run": "Limits ToolOutcome",
    "core.workflow.steps": "Steps",
    "daemon.proxy_server": "ProxyServer",
    "daemon.setup": "ReadyBackend setup_backend",
    "engine.memory": "MemoryFull TooLargeForMemory",
    "settings": "Settings SettingsError",
    "workflows.sdk.client": "ChunkType LLMClient LLMResponse StreamChunk TextResponse",
    "workflows.sdk.guardrail_components": "ErrorTracker Nudge ResponseValidator StepCheck StepEnforcer StepTracker"
    " ValidationResult",
    "workflows.context": "CompactEvent ContextManager",
    "workflows.sdk.engine_client": "EngineClient",
    "workflows.sdk.guardrails": "CheckedResponse Guardrails",
    "workflows.sdk.respond": "respond_tool",
    "workflows.runner": "WorkflowRunner",
    "workflows.sdk.slot_worker": "SlotWorker WorkerStopped",
}
"""The names above, by the module that has them."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_RENAMED = {
    "Checked": "CheckedResponse",
    "Overruled": "Superseded",
    "Refused": "RequestFormatRejected",
    "ToolsRefused": "ToolsRejected",
}
"""Names of 0.1, which work until 0.3, and the current ones."""


def __getattr__(name: str) -> Any:
    if (present := _RENAMED.get(name)) is not None:
        warnings.warn(f"forge_proxy.{name} is now {present}; the old name ends with 0.3", DeprecationWarning, 2)
        return __getattr__(present)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
