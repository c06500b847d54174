"""The dependencies of an engine, and the policies that can change while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.dialect import AS_SENT, Dialect
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.engine.active_requests import ActiveRequests
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.memory import MemoryBudget
from forge_proxy.engine.models import Models
from forge_proxy.engine.pacing import LoopTurns
from forge_proxy.engine.ports import (
    Backend,
    CardStore,
    Clock,
    ContentObserver,
    Observer,
    RequestTracer,
    TemplateLearner,
    ThoroughReader,
)
from forge_proxy.engine.sampling import Sampling


@dataclass(frozen=True, slots=True)
class EnginePolicies:
    """The policies in force. `Engine.apply` replaces them."""

    guardrails: GuardPolicy
    """For requests that do not narrow it."""
    budget: BudgetPolicy
    """For models without a policy of their own."""
    compaction: CompactionPolicy
    sampling: SamplingPolicy


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The dependencies of an engine. Only the backend, a clock and an observer are required.

    `models`, `admission`, `budgets` and `sampling` are built before the engine if other code shares them: a managed
    server changes its window through `budgets`, and a switch of the model goes through `admission`.
    """

    backend: Backend
    clock: Clock
    observe: Observer
    """Receives the events of all requests."""
    observe_content: ContentObserver | None = None
    """Receives the text of all requests. Default: no text is collected."""
    tracer: RequestTracer | None = None
    """Default: there are no traces."""
    models: Models | None = None
    """Default: the models that the backend reports."""
    admission: Admission | None = None
    """Default: as many slots as the backend reports."""
    budgets: Budgets | None = None
    """Default: the window that the backend reports, which cannot be changed."""
    sampling: Sampling | None = None
    """Default: no recommendations."""
    guardrails: GuardPolicy = field(default_factory=GuardPolicy)
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy)
    dialect: Dialect = AS_SENT
    """The form of the requests to this backend."""
    reader: ThoroughReader | None = None
    """Parses badly malformed responses. Without it they are retried."""
    cards: CardStore | None = None
    """Keeps the results of self-tests. Without it they are lost at the end of the process."""
    templates: TemplateLearner | None = None
    """Learns the form of calls from the chat templates of the models. Without it only the general grammar is used."""
    active: ActiveRequests = field(default_factory=ActiveRequests)
    """The requests under way."""
    memory: MemoryBudget | None = None
    """Limits the bytes of buffered responses. Default: no limit."""
    turns: LoopTurns = field(default_factory=LoopTurns)
    """Shared with the HTTP client of the backend, so that reading and judging yield to the event loop in turn."""
