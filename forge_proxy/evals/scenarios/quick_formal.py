"""Quick tasks in the formal phrases of the test model: the action, and its arguments by name.

It knows these best of all, so here its mistakes are nearly all of form, which is what guardrails are about.
"""

from __future__ import annotations

from collections.abc import Callable

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.workflow.definition import ToolDef, Workflow
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, says
from forge_proxy.evals.scenarios.task import Does, Task, accept, call, integer, spec, text
from forge_proxy.workflows.sdk.respond import respond_tool

_SYSTEM = "You are a helpful assistant. Use the tools."
_CITIES = ("Paris", "Berlin", "London", "Madrid", "Rome", "Oslo", "Vienna", "Lisbon", "Tokyo", "Cairo", "Lima")
_NAMES = ("anna", "bob", "carla", "david", "elena", "frank", "grace", "hugo", "irene", "jack", "lena", "maria", "oscar")
_SUBJECTS = ("lunch", "dinner", "party", "budget", "review", "launch", "team", "plan", "garden")

_WEATHER = spec("get_weather", "get the weather", city=text("city"), days=integer("days"))
_HOTEL = spec("book_hotel", "book the hotel", city=text("city"), days=integer("days"))
_EMAIL = spec("send_email", "send a email", email=text("email"), subject=text("subject"))
_INVOICE = spec("find_invoice", "find the invoice", customer=text("customer"))


def _pick(run: int, words: tuple[str, ...]) -> str:
    """Return a word for the run number; lists of different lengths combine differently."""
    return words[(run + run // len(words)) % len(words)]


def _gives(result: JsonObject, **expected: Json) -> Does:
    """Return a tool with this result for these arguments; it fails for others."""

    def give(**args: Json) -> JsonObject:
        if args != expected:
            raise ValueError(f"expected {', '.join(f'{name} {value}' for name, value in expected.items())}")
        return result

    return give


def _refuses(**_: Json) -> str:
    raise ValueError("that was not asked for")


def _choice(run: int) -> ScenarioState:
    """Return a scenario with one call of one of four tools, whose arguments are checked."""
    city, days = _pick(run, _CITIES), 2 + run % 9
    asks = (
        (f"Please get the weather with city {city} and days {days}.", call("get_weather", city=city, days=days)),
        (f"Can you book the hotel for city {city}, days {days}?", call("book_hotel", city=city, days=days)),
        (f"I want to find the invoice for customer {city}.", call("find_invoice", customer=city)),
    )
    asked, right = asks[run % len(asks)]
    wanted = right.args() or {}

    def validate(tool: str, args: JsonObject) -> str | None:
        if tool != right.tool:
            return f"it called {tool}, not {right.tool}"
        wrong = [name for name in {**wanted, **args} if args.get(name) != wanted.get(name)]
        return f"{wrong[0]} is {args.get(wrong[0])!r}" if wrong else None

    tools = {tool.name: ToolDef(tool, accept) for tool in (_WEATHER, _EMAIL, _HOTEL, _INVOICE)}
    return ScenarioState(asked, Workflow("quick", asked, tools, (), tuple(tools), _SYSTEM), validate, (right,))


def _steps(run: int) -> ScenarioState:
    """Return a scenario with two instructions; the second one ends the run."""
    city, days = _pick(run, _CITIES), 2 + run % 9
    email, subject = f"{_pick(run, _NAMES)}@acme.com", _pick(run, _SUBJECTS)
    task = Task(
        name="quick",
        system=_SYSTEM,
        user=f"first book the hotel with city {city} and days {days}, then send a email, email {email}, "
        f"subject {subject}",
        tools=(_EMAIL, _WEATHER, _HOTEL),
        terminal="send_email",
        check=every(is_name("email", email), is_name("subject", subject)),
        ideal=(call("book_hotel", city=city, days=days), call("send_email", email=email, subject=subject)),
        required=("book_hotel",),
    )
    return task.world({"get_weather": _refuses, "book_hotel": _gives({"price": 17 * days}, city=city, days=days)})


def _words(run: int) -> ScenarioState:
    """Return a scenario with a lookup whose result is reported as text."""
    city, days, price = _pick(run, _CITIES), 2 + run % 9, 31 + 7 * run % 600
    task = Task(
        name="quick",
        system=_SYSTEM,
        user=f"Now book a hotel with city {city} and days {days}.",
        tools=(_INVOICE, _HOTEL, _WEATHER, respond_tool().spec),
        terminal="respond",
        check=says("message", price),
        ideal=(call("book_hotel", city=city, days=days), call("respond", message=f"The price is {price}.")),
        required=("book_hotel",),
    )
    booked = _gives({"price": price}, city=city, days=days)
    return task.world({"find_invoice": _refuses, "book_hotel": booked, "get_weather": _refuses})


def _quick(name: str, description: str, ideal: int, build: Callable[[int], ScenarioState]) -> Scenario:
    return Scenario(
        f"quick_formal_{name}", description, frozenset({"quick"}), ideal, build, max_iterations=10, quick=True
    )


SCENARIOS = (
    _quick("choice", "One call of one of four tools.", 1, _choice),
    _quick("steps", "Two orders in a row, the second of which ends it.", 2, _steps),
    _quick("words", "A lookup, then its result in words.", 2, _words),
)
