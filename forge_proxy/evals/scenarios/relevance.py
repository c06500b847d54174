"""Relevance: the model must decline a request that no tool can fulfil, without inventing a result."""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import Check, every
from forge_proxy.evals.scenarios.task import Does, Task, always, call, spec, text
from forge_proxy.workflows.sdk.respond import respond_tool

_DECLINES = re.compile(
    r"\b(?:can ?not|can['’]?t|could ?n['’]?t|unable|unavailable|not able|\w+n['’]t be able|lack"
    r"|can only|only (?:answer|cover|deal|handle|have|help|know|support)"
    r"|no (?:such |available |other |suitable |matching )?(?:tools?|functions?|access|way|information|data)"
    r"|none of (?:\w+ ){1,3}(?:tools|functions)"
    r"|(?:do|does)(?:n['’]t| not) (?:currently |actually )?(?:have|know|offer|cover|provide|support|include|allow)"
    r"|(?:is|are)n['’]t (?:something|able|available|a|any|possible|supported|within|covered)"
    r"|not (?:something|available|possible|supported|within|covered|any)"
    r"|(?:beyond|outside|out)(?: of)? (?:my|the|what|scope)|unrelated|nothing to do with)\b",
    re.IGNORECASE,
)
"""Phrases that decline a request."""
_FIGURE = re.compile(r"\d|\b(?:(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand)\b", re.IGNORECASE)


def declines(field: str) -> Check:
    """Check that the text declines the request and contains no numbers, which would be invented."""

    def check(args: JsonObject) -> str | None:
        told = args.get(field)
        if not isinstance(told, str) or not told.strip():
            return f"{field} is missing"
        if not _DECLINES.search(told):
            return f"{field} does not say that no tool does that: {told[:160]!r}"
        return f"{field} gives a figure that no tool gave: {told[:160]!r}" if _FIGURE.search(told) else None

    return check


_TASK = Task(
    name="relevance_detection",
    system=(
        "You serve the readers of a lending library through your tools. Where no tool can do what is asked, say so "
        "with respond."
    ),
    user="What will the exchange rate from euro to yen be tomorrow?",
    tools=(
        spec("find_book", "Finds books by their title.", title=text("Title or a part of it.")),
        spec("reserve_book", "Puts a book aside for a reader.", title=text("Title."), reader=text("Reader's number.")),
        spec("get_loan_period", "For how many days a kind of medium is lent.", medium=text("book, film or game.")),
        respond_tool().spec,
    ),
    terminal="respond",
    check=every(declines("message")),
    ideal=(call("respond", message="I cannot tell you that: none of my tools knows exchange rates."),),
)
_READING: dict[str, Does] = {"find_book": always([]), "get_loan_period": always({"days": 28})}


class _Library:
    """Records its calls."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def find(self, title: str) -> Json:
        self.used.append("find_book")
        return [{"title": f"{title}: a history", "shelf": "E 12"}]

    def reserve(self, title: str, reader: str) -> str:
        self.used.append("reserve_book")
        return f"{title} is put aside for {reader}"

    def period(self, medium: str) -> Json:
        self.used.append("get_loan_period")
        return {"medium": medium, "days": 28}

    def unused(self, _: JsonObject) -> str | None:
        return f"{self.used[0]} was called, which has nothing to do with the request" if self.used else None


def _static(_: int) -> ScenarioState:
    return _TASK.world({**_READING, "reserve_book": always("put aside")})


def _stateful(_: int) -> ScenarioState:
    library = _Library()
    does = {"find_book": library.find, "reserve_book": library.reserve, "get_loan_period": library.period}
    return _TASK.world(does, library.unused)


SCENARIOS = (
    Scenario(
        "relevance_detection", "A request that no tool fits.", frozenset({"model_quality", "relevance"}), 1, _static
    ),
    Scenario(
        "relevance_detection_stateful",
        "The same, and no tool is tried.",
        frozenset({"model_quality", "relevance", "stateful"}),
        1,
        _stateful,
    ),
)
