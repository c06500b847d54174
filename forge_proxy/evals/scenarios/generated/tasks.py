"""Generates a task from its number: the family of tools, the words, the result to be found, and the other tools.

Run n of a scenario is its task n. `RUNS` runs of each scenario are more than 300 tasks and meet every family. In some
of them a repeated call is right, or an answer without a call, so that guardrails against these can also do harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.evals.scenario import ReportEnd, Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import says
from forge_proxy.evals.scenarios.generated.families import FAMILIES, ToolFamily
from forge_proxy.evals.scenarios.task import Does, Task, call, note_success, spec, text
from forge_proxy.workflows.sdk.respond import respond_tool

_SYSTEM = "You are a tool-calling assistant. Use the tools."
_POLLS = 1
"""Times that a job is reported as pending. The embedded test model does not ask again unless the user says so."""
RUNS = 48
"""Runs of each scenario for the figures of docs/evals.md."""
_GREETINGS = (
    "Hi!", "Hello.", "Thanks!", "Good morning!", "Bye.", "Thanks, I found the {noun}.", "Good, the {noun} is done.",
    "Thank you for the {noun}.",
)  # fmt: skip


def single(run: int) -> ScenarioState:
    """Look one thing up."""
    family = _family(run)
    value = _value(run, family)
    found = _code(run, family.noun)
    tools = [(family.finder, _gives({family.noun: found}, **{family.key: value})), (family.user, _refuses)]
    find = call(family.finder.name, **{family.key: value})
    return _task(run, _ask(run, family, value), tools, [find], {family.noun: found})


def chain(run: int) -> ScenarioState:
    """Look one thing up and use what was found."""
    family = _family(run, 3)
    value = _value(run, family)
    found, outcome = _code(run, family.noun), _code(run + 1, family.outcome)
    tools = [
        (family.user, _gives({family.outcome: outcome}, **{family.noun: found})),
        (family.finder, _gives({family.noun: found}, **{family.key: value})),
    ]
    steps = [call(family.finder.name, **{family.key: value}), call(family.user.name, **{family.noun: found})]
    return _task(run, f"{_ask(run, family, value)}, then {family.use} it", tools, steps, {family.outcome: outcome})


def pair(run: int) -> ScenarioState:
    """Look two things up."""
    first, second = _family(run, 5), _family(run, 5, beside=1)
    one, other = _value(run, first), _value(run, second, beside=1)
    codes = _code(run, first.noun), _code(run + 1, second.noun)
    tools = [
        (second.finder, _gives({second.noun: codes[1]}, **{second.key: other})),
        (first.finder, _gives({first.noun: codes[0]}, **{first.key: one})),
    ]
    steps = [call(first.finder.name, **{first.key: one}), call(second.finder.name, **{second.key: other})]
    asked = f"first {_ask(run, first, one)}, then {_ask(run + 1, second, other)}"
    return _task(run, asked, tools, steps, {first.noun: codes[0], second.noun: codes[1]})


def polling(run: int) -> ScenarioState:
    """Ask twice for the state of a job, which is pending at first: here the same call again is right."""
    family = _family(run, 7)
    job, outcome = _code(run, family.noun), _code(run + 1, family.outcome)
    tool = spec(f"check_{family.noun}", f"check whether a {family.noun} is done", **{family.noun: text(family.noun)})
    polls = _Polls(family.outcome, outcome, {family.noun: job})
    steps = [call(tool.name, **{family.noun: job})] * (_POLLS + 1)
    asked = f"first check the {family.noun} {job}, then check the {family.noun} {job} again"
    return _task(run, asked, [(tool, polls), (family.finder, _refuses)], steps, {family.outcome: outcome})


def transient(run: int) -> ScenarioState:
    """Look one thing up with a tool that fails once: the correct reaction is the same call again."""
    family = _family(run, 9)
    value = _value(run, family)
    found = _code(run, family.noun)
    works = _gives({family.noun: found}, **{family.key: value})
    find = call(family.finder.name, **{family.key: value})
    tools = [(family.user, _refuses), (family.finder, _FailsOnce(works))]
    return _task(run, _ask(run, family, value), tools, [find, find], {family.noun: found})


def alternative(run: int) -> ScenarioState:
    """Look one thing up with a tool that always fails and names another one."""
    family = _family(run, 13)
    value = _value(run, family)
    found, key = _code(run, family.noun), family.key
    other = spec(f"search_{family.noun}", f"search for the {family.noun} of a {key}", **{key: text(key)})
    tools = [
        (family.finder, _fails(f"{family.finder.name} is not available. Call {other.name}.")),
        (other, _gives({family.noun: found}, **{key: value})),
    ]
    path = [call(family.finder.name, **{key: value}), call(other.name, **{key: value})]
    return _task(run, _ask(run, family, value), tools, path[1:], {family.noun: found}, path=path)


def greeting(run: int) -> ScenarioState:
    """Answer without a tool, although the user may mention what a tool is about."""
    family, calls = _family(run, 17), list[str]()
    tools = (family.finder, family.user)

    def check(args: JsonObject) -> str | None:
        if calls:
            return f"message: {calls[0]} was called, although nothing asks for it"
        return None if str(args.get("message") or "").strip() else "message is empty"

    task = Task(
        name="generated",
        system=_SYSTEM,
        user=_GREETINGS[run % len(_GREETINGS)].format(noun=family.noun),
        tools=(*tools, respond_tool().spec),
        terminal="respond",
        check=check,
        ideal=(call("respond", message="You are welcome."),),
    )
    return task.world({tool.name: _records(tool.name, calls) for tool in tools})


class _FailsOnce:
    """A tool that is unavailable at its first correct call."""

    def __init__(self, does: Does) -> None:
        self._does = does
        self._has_failed = False

    def __call__(self, **args: Json) -> Json:
        result = self._does(**args)
        if not self._has_failed:
            self._has_failed = True
            raise TimeoutError("temporarily unavailable, try again")
        return result


class _Polls:
    """A tool that reports `pending` at first."""

    def __init__(self, name: str, value: str, expected: Mapping[str, str]) -> None:
        self._give = _gives({name: value}, **expected)
        self._pending: JsonObject = {name: "pending"}
        self._left = _POLLS

    def __call__(self, **args: Json) -> Json:
        result = self._give(**args)
        if not self._left:
            return result
        self._left -= 1
        return self._pending


def _task(
    run: int,
    asked: str,
    tools: Sequence[tuple[ToolSpec, Does]],
    steps: Sequence[ToolCall],
    facts: Mapping[str, str],
    path: Sequence[ToolCall] = (),
) -> ScenarioState:
    """Return the task with two tools of other families among its own, in an order that depends on the run.

    The report has to name the last fact. `path` are the ideal calls if more than the steps are needed.
    """
    others = [(_family(run, 19, beside=number).finder, _refuses) for number in (2, 3)]
    names = {tool.name for tool, _ in tools}
    mixed = [*tools, *(other for other in others if other[0].name not in names)]
    at, taken = run % len(mixed), set[str]()

    def ask(end: str | None) -> str:
        return f"{asked[0].upper()}{asked[1:]}. {f'Then call {end}.' if end else 'Report the result.'}"

    def find_missing(_: JsonObject) -> str | None:
        left = [step.tool for step in steps if step.tool not in taken]
        return f"{left[0]} was never called, or gave nothing" if left else None

    report = " ".join(f"The {key} is {value}." for key, value in facts.items())
    task = Task(
        name="generated",
        system=_SYSTEM,
        user=ask(None),
        tools=(*(tool for tool, _ in (*mixed[at:], *mixed[:at])), respond_tool().spec),
        terminal="respond",
        check=says("message", list(facts.values())[-1]),
        ideal=(*(path or steps), call("respond", message=report)),
        report=ReportEnd("message", ask),
    )
    return task.world({tool.name: note_success(tool.name, does, taken) for tool, does in mixed}, find_missing)


def _family(run: int, stride: int = 1, beside: int = 0) -> ToolFamily:
    """Return the family of a run. Each scenario meets all families, because each stride is prime to their number."""
    return FAMILIES[(run * stride + run // len(FAMILIES) + 9 * beside) % len(FAMILIES)]


def _value(run: int, family: ToolFamily, beside: int = 0) -> str:
    words = family.words
    return words[(run * 5 + run // len(words) + 3 * beside) % len(words)]


def _code(run: int, noun: str) -> str:
    """Return a code that a model does not guess by chance."""
    return f"{noun[0].upper()}-{100 + (run * 37 + 7 * len(noun)) % 900}"


def _ask(run: int, family: ToolFamily, value: str) -> str:
    """Return a request to look something up, in one of several wordings."""
    wordings = (
        f"{family.find} the {family.noun} of {value}",
        f"{family.find} the {family.noun} for {family.key} {value}",
        f"please {family.find} the {family.noun} with {family.key} {value}",
    )
    return wordings[run % len(wordings)]


def _gives(result: Mapping[str, Json], **expected: str) -> Does:
    """Return a tool that has a result for these arguments and fails for others."""

    def give(**args: Json) -> Json:
        for name, value in expected.items():
            if str(args.get(name, "")).strip().casefold() != value.casefold():
                raise ValueError(f"unknown {name} '{args.get(name)}'. Did you mean '{value}'?")
        return {**result}

    return give


def _fails(message: str) -> Does:
    def fail(**_: Json) -> Json:
        raise ValueError(message)

    return fail


def _refuses(**_: Json) -> Json:
    raise ValueError("nothing found")


def _records(name: str, calls: list[str]) -> Does:
    """Return a tool that records that it was called."""

    def record(**_: Json) -> Json:
        calls.append(name)
        return "nothing found"

    return record


def _generated(ideal: int, build: Callable[[int], ScenarioState]) -> Scenario:
    description = (build.__doc__ or "").strip()
    name = f"generated_{build.__name__}"
    return Scenario(name, description, frozenset({"generated"}), ideal, build, max_iterations=10)


SCENARIOS = (
    _generated(2, single),
    _generated(3, chain),
    _generated(3, pair),
    _generated(3, polling),
    _generated(3, transient),
    _generated(3, alternative),
    _generated(1, greeting),
)
