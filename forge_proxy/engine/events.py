"""Events of the engine, for logs, metrics and records. They contain no prompts, no responses and no secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.budget import Budget
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.requests.alerts import LedgerAlert
from forge_proxy.core.requests.records import RequestRecord


@dataclass(frozen=True, slots=True)
class SlotsDetected:
    """The number of requests that the backend processes concurrently was determined or has changed."""

    slots: int | None


@dataclass(frozen=True, slots=True)
class BudgetResolved:
    """The context budget of a model was determined or has changed."""

    model: str | None
    budget: Budget


@dataclass(frozen=True, slots=True)
class SamplingRecommended:
    """The publishers of a model recommend sampling values that are not used. Reported once for each model."""

    model: str
    family: str
    source: str


@dataclass(frozen=True, slots=True)
class ServerStateChanged:
    """A managed model server has changed its state or reports progress. `detail` quotes the server."""

    server: str
    state: str
    detail: str | None = None
    model: str = ""
    """The model that it serves."""


@dataclass(frozen=True, slots=True)
class ToolsUnvalidated:
    """Tools whose arguments are not validated: their schemas are unusable. Reported once for each set of tools."""

    request_id: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemplateLearned:
    """The chat template of a model was read. `form` is the form of its calls, or None; `why` is then the reason."""

    model: str | None
    form: str | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RequestRewritten:
    """The backend rejected a request as it was sent and accepted it with these changes. Reported when first seen."""

    model: str | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldsOmitted:
    """Request fields that the backend does not support. Each field is reported once."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptTruncated:
    """The backend silently truncated a prompt; the response had already been sent when this was noticed.

    `read` is the number of prompt tokens that the backend reports, `least` the minimum that its length implies.
    """

    model: str | None
    read: int
    least: int


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """A context over the budget was compacted: `cut` of its messages were removed, in whole or in part."""

    request_id: str
    model: str | None
    phase: int
    cut: int
    tokens_before: int
    tokens_after: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AttemptRetried:
    """An attempt failed and the daemon retries it. `tool` is the tool of the invalid call, `reason` why it is invalid.

    Both are cut to one line and never contain an argument's value.
    """

    request_id: str
    attempt: int
    fault: Fault
    tool: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LostResponseRetried:
    """The response was lost before anything of it was sent to the client, and the daemon sends the request again."""

    request_id: str
    error: str


@dataclass(frozen=True, slots=True)
class LoopDetected:
    """The response of an attempt repeated itself. `cut` if the generation was stopped for that reason."""

    request_id: str
    attempt: int
    loop: Loop
    cut: bool


@dataclass(frozen=True, slots=True)
class ModelSwapped:
    """Another model of the catalog was loaded within `seconds`. `before` is the model that was unloaded for it."""

    model: str
    before: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """A model of the catalog could not be loaded: its requests are refused for `seconds`."""

    model: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A request was answered."""

    record: RequestRecord
    report: Report


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request ended in an error, which `record.error` quotes."""

    record: RequestRecord


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """The client disconnected before the response was complete."""

    record: RequestRecord


@dataclass(frozen=True, slots=True)
class RunStatusChanged:
    """The status of a stored run has changed. `error` is the name of the error that it failed with."""

    run_id: str
    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class JobStatusChanged:
    """The status of a job that is not a run has changed. `error` is the name of the error that it failed with."""

    job_id: str
    kind: str
    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RunNotResumable:
    """A run or another job cannot be resumed: because of its store, or of an internal error, which is then `fault`."""

    run_id: str
    error: str
    fault: Exception | None = None


@dataclass(frozen=True, slots=True)
class NotificationFailed:
    """A client could not be notified of its job. The request may be retried. `server` is an origin."""

    server: str
    key: str
    error: str


@dataclass(frozen=True, slots=True)
class ToolServerFailed:
    """The executor of a run's tool was unreachable or responded incorrectly. The call may be retried.

    `server` is an origin or the name of an MCP server, `key` the idempotency key of the call.
    """

    server: str
    tool: str
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class ToolExecuted:
    """The daemon has executed a call of a run. `error` is empty if it succeeded, and never quotes the result."""

    run_id: str
    tool: str
    call_id: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class FaultRateRaised:
    """The fault rate of a tool of a model is above its own past. Reported once, until it is no longer so."""

    alert: LedgerAlert


@dataclass(frozen=True, slots=True)
class FaultRateSettled:
    """The fault rate of a tool of a model is no longer above its own past."""

    model: str
    tool: str


Event: TypeAlias = (
    SlotsDetected
    | BudgetResolved
    | SamplingRecommended
    | ServerStateChanged
    | ToolsUnvalidated
    | TemplateLearned
    | RequestRewritten
    | FieldsOmitted
    | PromptTruncated
    | ContextCompacted
    | AttemptRetried
    | LostResponseRetried
    | LoopDetected
    | ModelSwapped
    | ModelFailed
    | RequestAnswered
    | RequestFailed
    | RequestAbandoned
    | RunStatusChanged
    | JobStatusChanged
    | RunNotResumable
    | ToolServerFailed
    | NotificationFailed
    | ToolExecuted
    | FaultRateRaised
    | FaultRateSettled
)
