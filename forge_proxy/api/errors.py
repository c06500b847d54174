"""Classify errors. Only this module knows which status, kind and code an error has.

The format of an error response belongs to the client API: see `error_responses.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.api.access_denied import (
    AdminDisabled,
    AmbiguousHeaders,
    BodyTimeout,
    BodyTooLarge,
    CompressedBody,
    ForeignHost,
    ForeignOrigin,
    HeadTimeout,
    HeadTooLarge,
    NotHttp,
    NotJson,
    TooManyConnections,
    TooManyHeaders,
    TooManyValues,
    WrongKey,
)
from forge_proxy.api.admin.ports import NotManaged, RequestNotActive, TooManyFollowers, WrongSettings
from forge_proxy.api.backend_errors import classify_backend_error
from forge_proxy.api.disconnect import ShuttingDown
from forge_proxy.batches.errors import BatchConflict, BatchNotFound, FileInUse
from forge_proxy.core.backend_errors import (
    BackendBroke,
    BackendDown,
    BackendError,
    BackendFault,
    BackendLost,
    BackendNotReady,
    BackendTimeout,
    BackendUnreachable,
    ModelNotLoaded,
    ResponseTooLarge,
    RouteNotSupported,
)
from forge_proxy.core.budget_errors import BudgetUnchanged, ContextBudgetExceeded
from forge_proxy.core.errors import (
    EmptyAnswer,
    ForgeError,
    InvalidRequest,
    OutOfMemory,
    Overloaded,
    RequestCancelled,
    ToolCallInvalid,
    ToolChoiceUnsatisfied,
    UnknownModel,
)
from forge_proxy.core.files import FileTooLarge, RangeNotSatisfiable, StoredFileNotFound
from forge_proxy.core.jobs.errors import JobConflict, JobNotFound, JobNotReadable
from forge_proxy.core.requests.content import ContentNotStored
from forge_proxy.core.requests.stored import RequestNotStored
from forge_proxy.core.sampling import UnsupportedModelError
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.stored_responses import (
    ConversationNotFound,
    ItemNotFound,
    NotCancellable,
    PreviousResponseNotFound,
    ResponseNotFound,
)
from forge_proxy.core.tasks.errors import CheckUnavailable, GitFailed, RepositoryUnusable, UnsafePath
from forge_proxy.engine.memory import MemoryFull, TooLargeForMemory
from forge_proxy.tasks.errors import TaskConflict, TaskNotFound
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.messages.errors import ThreadsNotSupported
from forge_proxy.workflows.runs.errors import RunConflict, RunNotFound, RunNotReadable
from forge_proxy.workflows.tool_registry import ToolUnusable

ERROR_TABLE: dict[type[ForgeError], tuple[int, str, str | None]] = {
    InvalidRequest: (400, "invalid_request_error", None),
    ThreadsNotSupported: (400, "invalid_request_error", "thread_unsupported_request"),
    ContextBudgetExceeded: (400, "invalid_request_error", "context_length_exceeded"),
    BudgetUnchanged: (502, "server_error", "budget_unchanged"),
    UnsupportedModelError: (400, "invalid_request_error", "unsupported_model"),
    UnknownModel: (404, "invalid_request_error", "model_not_found"),
    OutOfMemory: (503, "server_error", "out_of_memory"),
    Overloaded: (429, "rate_limit_error", "rate_limit_exceeded"),
    RequestNotActive: (404, "invalid_request_error", "request_not_active"),
    RequestCancelled: (503, "server_error", "request_cancelled"),
    TooManyFollowers: (429, "rate_limit_error", "too_many_followers"),
    BackendUnreachable: (502, "server_error", "backend_unreachable"),
    BackendTimeout: (504, "server_error", "backend_timeout"),
    BackendBroke: (502, "server_error", "backend_broke_off"),
    ResponseTooLarge: (502, "server_error", "response_too_large"),
    BackendLost: (503, "server_error", "backend_restarting"),
    BackendNotReady: (503, "server_error", "backend_loading"),
    BackendDown: (503, "server_error", "backend_down"),
    ModelNotLoaded: (503, "server_error", "model_not_loaded"),
    RouteNotSupported: (501, "server_error", "route_not_supported"),
    BackendFault: (502, "server_error", "backend_error"),
    ToolChoiceUnsatisfied: (502, "server_error", "tool_choice_unsatisfied"),
    ToolCallInvalid: (502, "server_error", "tool_call_invalid"),
    EmptyAnswer: (502, "server_error", "empty_answer"),
    WrongKey: (401, "invalid_request_error", "invalid_api_key"),
    ForeignHost: (403, "invalid_request_error", "host_not_allowed"),
    ForeignOrigin: (403, "invalid_request_error", "origin_not_allowed"),
    BodyTooLarge: (413, "invalid_request_error", "body_too_large"),
    TooManyValues: (413, "invalid_request_error", "body_too_large"),
    TooLargeForMemory: (413, "invalid_request_error", "body_too_large"),
    MemoryFull: (503, "server_error", "memory_full"),
    CompressedBody: (415, "invalid_request_error", None),
    NotJson: (415, "invalid_request_error", None),
    HeadTooLarge: (431, "invalid_request_error", "headers_too_large"),
    TooManyHeaders: (431, "invalid_request_error", "headers_too_large"),
    HeadTimeout: (408, "invalid_request_error", "request_timeout"),
    BodyTimeout: (408, "invalid_request_error", "request_timeout"),
    TooManyConnections: (503, "server_error", "too_many_connections"),
    AmbiguousHeaders: (400, "invalid_request_error", None),
    NotHttp: (400, "invalid_request_error", None),
    AdminDisabled: (403, "invalid_request_error", "admin_closed"),
    NotManaged: (409, "invalid_request_error", "backend_not_managed"),
    WrongSettings: (400, "invalid_request_error", "wrong_settings"),
    ContentNotStored: (409, "invalid_request_error", "content_not_stored"),
    RequestNotStored: (404, "invalid_request_error", "request_not_found"),
    RunNotFound: (404, "invalid_request_error", "run_not_found"),
    RunConflict: (409, "invalid_request_error", "run_conflict"),
    RunNotReadable: (409, "invalid_request_error", "run_not_readable"),
    StoredFileNotFound: (404, "invalid_request_error", "file_not_found"),
    FileTooLarge: (413, "invalid_request_error", "file_too_large"),
    RangeNotSatisfiable: (416, "invalid_request_error", "range_not_satisfiable"),
    FileInUse: (409, "invalid_request_error", "file_in_use"),
    BatchNotFound: (404, "invalid_request_error", "batch_not_found"),
    BatchConflict: (409, "invalid_request_error", "batch_conflict"),
    JobNotFound: (404, "invalid_request_error", "job_not_found"),
    JobConflict: (409, "invalid_request_error", "job_conflict"),
    JobNotReadable: (409, "invalid_request_error", "job_not_readable"),
    TaskNotFound: (404, "invalid_request_error", "task_not_found"),
    TaskConflict: (409, "invalid_request_error", "task_conflict"),
    RepositoryUnusable: (400, "invalid_request_error", "repository_unusable"),
    UnsafePath: (400, "invalid_request_error", "unsafe_path"),
    GitFailed: (503, "server_error", "git_failed"),
    CheckUnavailable: (503, "server_error", "check_unavailable"),
    ToolUnusable: (502, "server_error", "tool_unusable"),
    PreviousResponseNotFound: (400, "invalid_request_error", "previous_response_not_found"),
    ResponseNotFound: (404, "invalid_request_error", "response_not_found"),
    ConversationNotFound: (404, "invalid_request_error", "conversation_not_found"),
    ItemNotFound: (404, "invalid_request_error", "item_not_found"),
    NotCancellable: (400, "invalid_request_error", None),
    StoreUnavailable: (503, "server_error", "store_unavailable"),
    ShuttingDown: (503, "server_error", "stopping"),
    ForgeError: (500, "server_error", "internal_error"),
}
"""Status, kind and code of each error; a subclass without an entry has those of its base class."""


def classify(error: ForgeError) -> ClassifiedError:
    """Return the status, kind, code, message and headers of an error."""
    if isinstance(error, BackendError):
        return classify_backend_error(error)
    status, kind, code = next(ERROR_TABLE[cls] for cls in type(error).__mro__ if cls in ERROR_TABLE)
    param = error.at if isinstance(error, InvalidRequest) else None
    classified = ClassifiedError(status, kind, code, str(error), param, _headers_for(error))
    if isinstance(error, ContextBudgetExceeded):
        return classified._replace(param="messages", prompt_tokens=error.tokens, window=error.budget)
    return classified


def _headers_for(error: ForgeError) -> Mapping[str, str]:
    if isinstance(
        error,
        Overloaded
        | BackendLost
        | BackendNotReady
        | ModelNotLoaded
        | MemoryFull
        | StoreUnavailable
        | TooManyConnections,
    ):
        return {"retry-after": str(error.seconds)}
    if isinstance(error, RangeNotSatisfiable):
        return {"content-range": f"bytes */{error.size}"}
    if isinstance(error, BackendDown | RouteNotSupported | RequestCancelled):  # until its operator acts
        return {"x-should-retry": "false"}
    if isinstance(error, ToolChoiceUnsatisfied | ToolCallInvalid | EmptyAnswer):
        # The daemon has already retried; without this header, OpenAI's SDKs would repeat the whole request twice.
        return {"x-forge-attempts": str(error.attempts), "x-should-retry": "false"}
    return {}
