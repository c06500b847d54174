"""What happened while a request was answered, for logs, metrics and records. No prompts, no answers, no secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from forge_proxy.core.budget import Budget
from forge_proxy.core.guardrails.loops import Loop
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.guardrails.turn import Fault


@dataclass(frozen=True, slots=True)
class SlotsDetected:
    """The backend was asked how many requests it works on at a time, for the first time or with a new answer."""

    slots: int | None


@dataclass(frozen=True, slots=True)
class BudgetResolved:
    """The context budget of a model, for the first time or another than before."""

    model: str | None
    budget: Budget


@dataclass(frozen=True, slots=True)
class SamplingRecommended:
    """The makers of a model recommend sampling values, and they are not used. Told once for each model."""

    model: str
    family: str
    source: str


@dataclass(frozen=True, slots=True)
class ServerStateChanged:
    """A model server of ours is in another state now, or says more of how it gets on. `detail` is of its own words."""

    server: str
    state: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ToolsUnvalidated:
    """Tools whose arguments are not checked, since their schemas cannot be used. Told once for each set of tools."""

    request_id: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestRewritten:
    """The backend refused requests as they were sent and takes them with these changes. Told when it is learned."""

    model: str | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldsOmitted:
    """Fields of requests that the backend has no place for. Each is told once."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptTruncated:
    """The backend read less of a prompt than there was, and said nothing of it; the answer had left by then.

    `read` are the tokens that it tells, `least` those that the prompt had at least, by its length.
    """

    model: str | None
    read: int
    least: int


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """A history was over the budget and was shortened: so many of its messages were `cut`, whole or in part."""

    request_id: str
    model: str | None
    phase: int
    cut: int
    tokens_before: int
    tokens_after: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AttemptRetried:
    """An attempt failed and the daemon retries it. `tool` is that of the call at fault, `reason` says why it is.

    Of both there is no more than fits a line, and never a value.
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
    """The answer of an attempt only repeated itself. `cut` where it was stopped for that."""

    request_id: str
    attempt: int
    loop: Loop
    cut: bool


@dataclass(frozen=True, slots=True)
class ModelSwapped:
    """Another model of the catalog was loaded, in so many `seconds`. `before` is the one that gave way to it."""

    model: str
    before: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """A model of the catalog could not be loaded: its requests are refused for so many `seconds`."""

    model: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A request was answered. `seconds` from its arrival, of which it was `queued` for so many."""

    request_id: str
    model: str | None
    report: Report
    seconds: float
    queued: float


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request ended in an error."""

    request_id: str
    model: str | None
    error: str
    seconds: float
    queued: float


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """The caller left before the answer was complete."""

    request_id: str
    seconds: float
    queued: float


@dataclass(frozen=True, slots=True)
class RunStatusChanged:
    """A stored run is in another state. `error` is the name of what it failed with."""

    run_id: str
    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RunNotResumable:
    """A stored run cannot be gone on with here: for its store, or for a fault of ours, which `fault` then is."""

    run_id: str
    error: str
    fault: Exception | None = None


@dataclass(frozen=True, slots=True)
class ToolServerFailed:
    """What executes a tool of a run was not to be had, or did not answer as it should. `server` is an origin or a name
    of an MCP server, `key` that of the call. It may be asked again.
    """

    server: str
    tool: str
    key: str
    why: str


Event: TypeAlias = (
    SlotsDetected
    | BudgetResolved
    | SamplingRecommended
    | ServerStateChanged
    | ToolsUnvalidated
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
    | RunNotResumable
    | ToolServerFailed
)
