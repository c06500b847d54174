"""What was learned about bare text, model by model, and what follows from it for the next request."""

from __future__ import annotations

from forge_proxy.core.guardrails import GuardPolicy, Settled
from forge_proxy.core.guardrails.text_policy import TextFigures
from forge_proxy.core.guardrails.turn import Fault


class TextAnswers:
    """The figures of each model since the daemon started."""

    def __init__(self) -> None:
        self.figures: dict[str, TextFigures] = {}

    def should_nudge(self, policy: GuardPolicy, model: str | None) -> bool:
        """Whether bare text of this model is to be asked again."""
        match policy.text_answers:
            case "nudge":
                return True
            case "accept":
                return False
            case "auto":
                return self.figures.get(model or "", TextFigures()).should_nudge()

    def learn(self, model: str | None, faults: tuple[Fault, ...], settled: Settled) -> None:
        """Take in how a request ended."""
        before = self.figures.get(model or "", TextFigures())
        if Fault.TEXT in faults:
            self.figures[model or ""] = before.with_nudge(brought_call=bool(settled.calls))
        elif settled.bare_text:
            self.figures[model or ""] = before.with_text()
