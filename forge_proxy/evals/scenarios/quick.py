"""Small tasks in short sentences that the embedded test model understands.

Each run has words of its own, chosen by its number: many runs are many prompts, and the same ones each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, JsonObject, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.evals.scenario import ReportEnd, Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import Fact, says
from forge_proxy.evals.scenarios.relevance import declines
from forge_proxy.evals.scenarios.task import Does, Task, call, choice, integer, note_success, spec, text
from forge_proxy.workflows.sdk.respond import respond_tool

One = TypeVar("One")

_SYSTEM = "You are a tool-calling assistant. Use the tools."
_CITIES = (
    *("Oslo", "Paris", "Lima", "Nairobi", "Boston", "Hanoi", "Porto"),
    *("Vienna", "Cairo", "Geneva", "Dublin", "Quito", "Tunis"),
)
_ITEMS = ["tea", "bread", "honey", "paper", "candle", "coffee", "ladder", "cheese", "juice", "mirror", "rice"]
_PEOPLE = ["Anna", "Oscar", "Priya", "Hugo", "Gloria", "Lena", "Marco", "Nina", "Yusuf", "Rosa", "Henrik"]
_WEATHERS = ["sunny", "cloudy", "rainy", "windy", "snowy", "foggy", "stormy"]
_ROOMS = ["kitchen", "office", "bedroom", "hall", "garage", "cellar", "attic"]

_WEATHER = spec("get_weather", "get the weather", city=text("city"))
_TIME = spec("get_time", "the time in a city", city=text("city"))
_POPULATION = spec("get_population", "the population of a city", city=text("city"))
_PRICE = spec("get_price", "the price of a product", item=text("item"))
_STOCK = spec("check_stock", "how many are in stock", item=text("item"))
_FIND_ORDER = spec("find_order", "find the order of a customer", customer=text("customer"))
_CANCEL_ORDER = spec("cancel_order", "cancel an order", order_id=text("order_id"))
_GET_EMAIL = spec("get_email", "find the email address of a person", name=text("name"))
_LIGHT = spec("switch_light", "switch a light", room=text("room"), state=choice("state", "on", "off"))
_TIMER = spec("set_timer", "start a timer", minutes=integer("minutes"))


def _pick(run: int, words: Sequence[One], stride: int = 1) -> One:
    """Return a word for the run number; lists with different strides combine differently."""
    return words[(run * stride + run // len(words)) % len(words)]


def _number(run: int, stride: int, least: int = 12, most: int = 997) -> int:
    """Return a number for the run number that a model does not guess by chance."""
    return least + (run * stride + 5 * stride) % (most - least)


def _knows(argument: str, value: str | int, result: Mapping[str, Json]) -> Does:
    """Return a tool that accepts one value of its argument and raises an error for others."""

    def give(**args: Json) -> str:
        said = args.get(argument)
        if str(said).strip().casefold() != str(value).casefold():
            raise ValueError(f"unknown {argument} '{said}'. Did you mean '{value}'?")
        return write(result)

    return give


_ENDS = (("finish", "summary"), ("submit_report", "summary"), ("submit_answer", "answer"), ("report_result", "result"))


def _world(
    run: int,
    user: str,
    tools: Sequence[tuple[ToolSpec, Does]],
    steps: Sequence[ToolCall],
    facts: Mapping[str, Fact],
    *,
    required: bool = False,
) -> ScenarioState:
    """A world that ends with one of the usual terminal tools, once every step was taken. Its one text has to name the
    last of the facts: that much the tiny model can tell.
    """
    end, field = _pick(run, _ENDS)
    report = " ".join(f"The {key} is {value}." for key, value in facts.items())

    def ask(name: str | None) -> str:
        ways = ("Report the result.", f"Then call {name}.", f"Finish with {name}.")
        return f"{user} {_pick(run, ways, 2) if name else ways[0]}"

    task = Task(
        name="quick",
        system=_SYSTEM,
        user=ask(end),
        report=ReportEnd(field, ask),
        tools=(*(tool for tool, _ in tools), spec(end, "report the result", **{field: text("the result")})),
        terminal=end,
        check=says(field, list(facts.values())[-1]),
        ideal=(*steps, call(end, **{field: report})),
        required=tuple(dict.fromkeys(step.tool for step in steps)) if required else (),
    )
    taken: set[str] = set()

    def all_taken(_: JsonObject) -> str | None:
        left = [step.tool for step in steps if step.tool not in taken]
        return f"{left[0]} was never called, or gave nothing" if left else None

    return task.world({tool.name: note_success(tool.name, does, taken) for tool, does in tools}, all_taken)


def _nothing(**_: Json) -> str:
    raise ValueError("nothing found")


def _two_step(run: int) -> ScenarioState:
    city, weather = _pick(run, _CITIES), _pick(run, _WEATHERS, 3)
    knows = _knows("city", city, {"weather": weather, "temperature": _number(run, 7, 1, 35)})
    asks = (f"What is the weather in {city}?", f"Get the weather in {city}.", f"Tell me the weather in {city}.")
    return _world(run, _pick(run, asks, 2), [(_WEATHER, knows)], [call("get_weather", city=city)], {"weather": weather})


def _required_steps(run: int) -> ScenarioState:
    item, price, stock = _pick(run, _ITEMS), _number(run, 31), _number(run, 17)
    return _world(
        run,
        f"First get the price of {item}, then check the stock of {item}.",
        [(_PRICE, _knows("item", item, {"price": price})), (_STOCK, _knows("item", item, {"stock": stock}))],
        [call("get_price", item=item), call("check_stock", item=item)],
        {"price": price, "stock": stock},
        required=True,
    )


def _three_lookups(run: int) -> ScenarioState:
    city, item, weather = _pick(run, _CITIES, 2), _pick(run, _ITEMS, 3), _pick(run, _WEATHERS)
    population, price = _number(run, 53), _number(run, 29)
    return _world(
        run,
        f"Get the weather in {city}, then get the population of {city}, then get the price of {item}.",
        [
            (_POPULATION, _knows("city", city, {"population": population})),
            (_PRICE, _knows("item", item, {"price": price})),
            (_WEATHER, _knows("city", city, {"weather": weather})),
        ],
        [call("get_weather", city=city), call("get_population", city=city), call("get_price", item=item)],
        {"weather": weather, "population": population, "price": price},
        required=True,
    )


def _error_recovery(run: int) -> ScenarioState:
    city, population = _pick(run, _CITIES, 5), _number(run, 37)
    mistyped = city[:-1] + city[-1] * 2
    return _world(
        run,
        f"Get the population of {mistyped}.",
        [(_POPULATION, _knows("city", city, {"population": population})), (_WEATHER, _nothing)],
        [call("get_population", city=mistyped), call("get_population", city=city)],
        {"population": population},
    )


def _tool_selection(run: int) -> ScenarioState:
    name = _pick(run, _PEOPLE, 3)
    email = f"{name.lower()}@{_pick(run, _ITEMS, 5)}.com"
    others = [(tool, _nothing) for tool in (_FIND_ORDER, _WEATHER, _PRICE, _STOCK)]
    at = run % 5
    return _world(
        run,
        f"Find the email address of {name}.",
        [*others[:at], (_GET_EMAIL, _knows("name", name, {"email": email})), *others[at:]],
        [call("get_email", name=name)],
        {"email": email},
    )


def _passed_on(run: int) -> ScenarioState:
    customer, order = _pick(run, _PEOPLE), f"{_pick(run, 'ABKQZ', 2)}-{_number(run, 41)}"
    cancelled = f"C-{_number(run, 23)}"
    return _world(
        run,
        f"Find the order of {customer}, then cancel it.",
        [
            (_CANCEL_ORDER, _knows("order_id", order, {"cancelled": cancelled})),
            (_FIND_ORDER, _knows("customer", customer, {"order_id": order, "status": "open"})),
        ],
        [call("find_order", customer=customer), call("cancel_order", order_id=order)],
        {"cancelled": cancelled},
        required=True,
    )


def _typed(run: int) -> ScenarioState:
    room, state, minutes = _pick(run, _ROOMS), _pick(run, ("on", "off")), _number(run, 3, 2, 58)
    timer, light = f"T-{_number(run, 19)}", f"L-{_number(run, 13)}"
    return _world(
        run,
        f"Set a timer for {minutes} minutes, then turn {state} the light in the {room}.",
        [(_LIGHT, _switch(room, state, light)), (_TIMER, _knows("minutes", minutes, {"timer": timer}))],
        [call("set_timer", minutes=minutes), call("switch_light", room=room, state=state)],
        {"timer": timer, "light": light},
        required=True,
    )


def _switch(room: str, state: str, light: str) -> Does:
    def give(**args: Json) -> str:
        if args != {"room": room, "state": state}:
            raise ValueError(f"turn the light in the {room} {state}, please")
        return write({"light": light})

    return give


def _no_tool(run: int) -> ScenarioState:
    asks = ("Tell me a joke.", "Why is the sky blue?", "Who won the game?", "Sing me a song.", "Draw a picture of {}.",
            "What is the capital of {}?", "How old are you?", "Write a poem about {}.")  # fmt: skip
    respond = respond_tool()
    task = Task(
        name="quick",
        system=_SYSTEM,
        user=_pick(run, asks).format(_pick(run, _ITEMS, 2)),
        tools=(_PRICE, _FIND_ORDER, _TIMER, respond.spec),
        terminal="respond",
        check=declines("message"),
        ideal=(call("respond", message="I have no tool for that."),),
    )
    return task.world({"get_price": _nothing, "find_order": _nothing, "set_timer": _nothing})


def _quick(name: str, description: str, ideal: int, build: Callable[[int], ScenarioState]) -> Scenario:
    return Scenario(f"quick_{name}", description, frozenset({"quick"}), ideal, build, max_iterations=10, quick=True)


SCENARIOS = (
    _quick("two_step", "Fetch one fact and report it.", 2, _two_step),
    _quick("required_steps", "Two lookups that are required, then a report of both.", 3, _required_steps),
    _quick("three_lookups", "Three lookups that are required, then a report of all.", 4, _three_lookups),
    _quick("error_recovery", "A mistyped name: the tool says which one is meant.", 3, _error_recovery),
    _quick("tool_selection", "One of five tools, and the one that ends it.", 2, _tool_selection),
    _quick("passed_on", "An id out of the first result.", 3, _passed_on),
    _quick("typed_arguments", "A number and one of two words as arguments.", 3, _typed),
    _quick("no_tool", "A request that no tool fits.", 1, _no_tool),
)
