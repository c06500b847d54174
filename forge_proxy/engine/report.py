"""What answering a request took."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.core.guardrails import Mark, Outcome
from forge_proxy.core.guardrails.turn import Fault


@dataclass(frozen=True, slots=True)
class Report:
    """The last thing an answer yields. `tokens` are those of all attempts, None where the backend does not say."""

    outcome: Outcome
    attempts: int = 1
    faults: tuple[Fault, ...] = ()
    marks: tuple[Mark, ...] = ()
    tokens: int | None = None
