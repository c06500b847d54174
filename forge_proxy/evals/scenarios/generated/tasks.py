"""The generated tasks: each kind of task over each family of tools.

The names and values of a run depend on the family, the kind and the run number only. A run is correct if every step
was executed with the right arguments and the report names the last value that the tools returned.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import Fact, says
from forge_proxy.evals.scenarios.generated.families import FAMILIES, Family
from forge_proxy.evals.scenarios.task import Does, Task, call, integer, spec, text
from forge_proxy.workflows.sdk.respond import respond_tool

_SYSTEM = "You are a helpful assistant. Use the tools."
_ASKS = ("What is the {detail} of {noun}?", "Tell me the {detail} of {noun}.", "Get the {detail} of {noun}.")
_POLITE = ("{}.", "Please {}.", "I want you to {}.")


class _Things:
    """The words and values of one run."""

    def __init__(self, family: Family, kind: str, run: int) -> None:
        chance = random.Random(f"{family.name} {kind} {run}")  # noqa: S311  # reproducible on purpose
        self.family = family
        self.key, self.other_key = chance.sample(family.keys, 2)
        self.id = f"{family.noun[0].upper()}-{chance.randint(100, 999)}"
        self.detail, self.other_detail = chance.sample(range(12, 998), 2)
        word = chance.choice(family.values)
        self.value: str | int = int(word) if family.takes_number else word
        self.code = f"R-{chance.randint(1000, 9999)}"
        self.ask = chance.choice(_ASKS)
        self.polite = chance.choice(_POLITE)
        self.distractor = chance.choice([one for one in FAMILIES if one is not family])
        self.shuffle = chance.shuffle

    def question(self, key: str) -> str:
        """The question for the detail of a thing."""
        return self.ask.format(detail=self.family.detail, noun=f"the {self.family.noun} {key}")

    def order(self, noun: str) -> str:
        """The user's words for the change."""
        order = self.family.order.format(noun=noun, value=self.value)
        said = self.polite.format(order)
        return said[0].upper() + said[1:]

    @property
    def found(self) -> JsonObject:
        """The result of a look-up."""
        return {self.family.id: self.id, self.family.detail: self.detail}


@dataclass(frozen=True, slots=True)
class _Plan:
    """A task before it is built: the user's words, the calls of an ideal run, and the result of each in turn."""

    user: str
    steps: tuple[tuple[ToolCall, JsonObject | Exception], ...]
    answer: tuple[Fact, ...]
    forbidden: frozenset[str] = field(default_factory=frozenset[str])
    """Tools whose execution makes the run wrong."""


def _find(things: _Things, tool: str | None = None) -> tuple[ToolCall, JsonObject]:
    family = things.family
    return call(tool or family.find, **{family.key: things.key}), things.found


def _change(things: _Things) -> tuple[ToolCall, JsonObject]:
    family = things.family
    return call(family.change, **{family.id: things.id, family.value: things.value}), {"receipt": things.code}


def _status(things: _Things, **result: Json) -> tuple[ToolCall, JsonObject]:
    return call(things.family.status, **{things.family.id: things.id}), result


def _look_up(things: _Things) -> _Plan:
    return _Plan(things.question(things.key), (_find(things),), (things.detail,))


def _act(things: _Things) -> _Plan:
    return _Plan(things.order(f"the {things.family.noun} {things.id}"), (_change(things),), (things.code,))


def _look_up_and_act(things: _Things) -> _Plan:
    family = things.family
    user = f"Find the {family.noun} {things.key}. {things.order('it')}"
    return _Plan(user, (_find(things), _change(things)), (things.code,))


def _two_look_ups(things: _Things) -> _Plan:
    family = things.family
    second = call(family.find, **{family.key: things.other_key})
    found: JsonObject = {family.id: f"{things.id}0", family.detail: things.other_detail}
    user = f"{things.question(things.key)} {things.question(things.other_key)}"
    return _Plan(user, (_find(things), (second, found)), (things.other_detail,))


def _polling(things: _Things) -> _Plan:
    family = things.family
    name = family.status.replace("_", " ")
    user = f"Check the {name} of {things.id} until it is done, then report the result."
    pending = _status(things, status="pending")
    return _Plan(user, (pending, pending, _status(things, status="done", result=things.detail)), (things.detail,))


def _transient(things: _Things) -> _Plan:
    request, found = _find(things)
    return _Plan(
        things.question(things.key),
        ((request, TimeoutError("timeout: the service is busy, try again")), (request, found)),
        (things.detail,),
    )


def _alternative(things: _Things) -> _Plan:
    family = things.family
    fails = call(family.find, **{family.key: things.key})
    error = RuntimeError(f"{family.find} is not available any more. Use {family.search}.")
    return _Plan(things.question(things.key), ((fails, error), _find(things, family.search)), (things.detail,))


def _long(things: _Things) -> _Plan:
    family = things.family
    user = (
        f"Find the {family.noun} {things.key}. {things.order('it')} Then check the {family.status.replace('_', ' ')}."
    )
    status = _status(things, status="done", result=things.other_detail)
    return _Plan(user, (_find(things), _change(things), status), (things.other_detail,))


def _greeting(things: _Things) -> _Plan:
    said = ("Hello!", "Hi, how are you?", "Good morning.", "Thank you very much!")[things.detail % 4]
    return _Plan(said, (), (), frozenset({things.family.change}))


def _from_text(things: _Things) -> _Plan:
    family = things.family
    user = f"My {family.noun} is called {things.key}. What is my {family.noun} called? Do not look it up."
    return _Plan(user, (), (things.key,), frozenset({family.change}))


_KINDS: tuple[tuple[str, str, int, Callable[[_Things], _Plan]], ...] = (
    ("look_up", "Look one value up and report it.", 2, _look_up),
    ("act", "One action, whose arguments the user names.", 2, _act),
    ("look_up_and_act", "Look an id up and act on it.", 3, _look_up_and_act),
    ("two_look_ups", "Look two values up.", 3, _two_look_ups),
    ("polling", "A status that is pending twice: the same call has to be repeated.", 4, _polling),
    ("transient", "A tool that fails once: the same call has to be repeated.", 3, _transient),
    ("alternative", "A tool that always fails: another one has to be called.", 3, _alternative),
    ("long", "Look up, act, then check the status.", 4, _long),
    ("greeting", "A greeting, which needs no tool.", 1, _greeting),
    ("from_text", "A question that its own text answers.", 1, _from_text),
)


def _build(family: Family, kind: str, plan: Callable[[_Things], _Plan], run: int) -> ScenarioState:
    """Build the state of a run."""
    things = _Things(family, kind, run)
    planned = plan(things)
    service = _Service(planned, {family.search: family.find})
    offered = [*_tools(family), *_tools(things.distractor)[:2]]
    things.shuffle(offered)
    report = " ".join(map(str, planned.answer)) or "Hello!"
    task = Task(
        name="generated",
        system=_SYSTEM,
        user=planned.user,
        tools=(*offered, respond_tool().spec),
        terminal="respond",
        check=says("message", *planned.answer) if planned.answer else _is_said,
        ideal=(*(request for request, _ in planned.steps), call("respond", message=report)),
        required=tuple(dict.fromkeys(one.tool for one, result in planned.steps if not isinstance(result, Exception))),
    )
    return task.world({tool.name: service.tool(tool.name) for tool in offered}, service.validate)


def _is_said(args: JsonObject) -> str | None:
    said = args.get("message")
    return None if isinstance(said, str) and said.strip() else "message is missing"


def _tools(family: Family) -> list[ToolSpec]:
    number = integer if family.takes_number else text
    key, thing = {family.key: text(family.key)}, {family.id: text(f"the id of the {family.noun}")}
    return [
        spec(family.find, f"find a {family.noun}: its id and {family.detail}", **key),
        spec(family.search, f"search for a {family.noun} in all sources", **key),
        spec(family.change, family.order.format(noun=f"a {family.noun}", value="a value"), **thing, **{
            family.value: number(family.value)
        }),
        spec(family.status, f"the {family.status.replace('_', ' ')} of a {family.noun}", **thing),
    ]  # fmt: skip


class _Service:
    """The far side of the tools of one run: it returns the planned results in turn, and an error for other calls.

    After the last result of a call, the same call returns it again. `same` are tools that do what another one does,
    unless the plan has results of their own for them.
    """

    def __init__(self, plan: _Plan, same: Mapping[str, str]) -> None:
        self._plan = plan
        self._left: dict[str, list[tuple[Mapping[str, Json], JsonObject | Exception]]] = {}
        for request, result in plan.steps:
            self._left.setdefault(request.tool, []).append((request.args() or {}, result))
        self._open = {_key(request.tool, request.args() or {}) for request, _ in plan.steps}
        self._same = {tool: other for tool, other in same.items() if tool not in self._left}
        self._executed: set[str] = set()

    def tool(self, name: str) -> Does:
        """Return the function of a tool."""

        def give(**args: Json) -> Json:
            result = self._answer(name, args)
            self._executed.add(name)
            if isinstance(result, Exception):
                raise result
            return result

        return give

    def _answer(self, name: str, args: JsonObject) -> JsonObject | Exception:
        name = self._same.get(name, name)
        left = self._left.get(name, [])
        matching = [each for each in left if _key(name, each[0]) == _key(name, args)]
        if not matching:
            return ValueError(f"nothing found for {', '.join(map(str, args.values())) or 'this'}")
        if len(matching) > 1:
            left.remove(matching[0])
        if len(matching) == 1:
            self._open.discard(_key(name, args))
        return matching[0][1]

    def validate(self, _: JsonObject) -> str | None:
        """Return which step was not executed, or which tool should not have been."""
        if self._open:
            return f"{min(self._open)[0]} was not called with the right arguments, or not often enough"
        wrong = sorted(self._executed & self._plan.forbidden)
        return f"{wrong[0]} was called, although nothing asks for it" if wrong else None


def _key(tool: str, args: Mapping[str, Json]) -> tuple[str, str]:
    return tool, str(sorted((name, str(value).strip().casefold()) for name, value in args.items()))


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        f"generated_{kind}_{family.name}",
        description,
        frozenset({"generated", f"generated_{kind}"}),
        ideal,
        partial(_build, family, kind, plan),
        max_iterations=10,
    )
    for kind, description, ideal, plan in _KINDS
    for family in FAMILIES
)


def interleave(count: int | None) -> tuple[Scenario, ...]:
    """Return `count` tasks, or all, in an order in which kinds and families take turns."""
    size = len(FAMILIES)
    order = sorted(range(len(SCENARIOS)), key=lambda place: ((place % size - 4 * (place // size)) % size, place))
    return tuple(SCENARIOS[place] for place in order)[:count]
