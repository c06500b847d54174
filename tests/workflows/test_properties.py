"""Properties of runs, for any responses of the model and any outcomes of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.compaction import NoCompact, SlidingWindowCompact, TieredCompact
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.core.workflow.run import RunState, begin_run
from forge_proxy.workflows.context import ContextManager
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.client import LLMResponse, TextResponse
from tests.fakes.said_client import SaidClient
from tests.properties import examples

STATES = TypeAdapter(RunState)
RESULT = f"ok{'.' * 300}"
TOOLS = ("a", "b", "c")
ENDS = ("finish", "stop")
SCHEMA: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

CALLS = st.builds(
    ToolCall.of,
    st.sampled_from([*TOOLS, *ENDS, "unknown"]),
    st.sampled_from([{"n": 1}, {"n": 2}, {"n": "1"}, {"n": "x"}, {}]),
    st.sampled_from([None, None, "Hm."]),
)
BROKEN = st.sampled_from([ToolCall("a", '{"n": 1'), ToolCall("", "{}"), ToolCall("finish", "[]")])
TEXTS = st.sampled_from(
    ["", "I am done.", '```json\n{"name": "a", "arguments": {"n": 1}}\n```', 'finish[ARGS]{"n": 2}', "<tool_call>{"]
).map(TextResponse)
REPLIES: st.SearchStrategy[LLMResponse | Exception] = st.one_of(
    st.lists(CALLS | BROKEN, max_size=3), TEXTS, st.just(OSError("gone"))
)
STRATEGIES = st.sampled_from([TieredCompact(), TieredCompact(keep_recent=1), SlidingWindowCompact(1), NoCompact()])
MEMORIES = st.none() | st.builds(ContextManager, STRATEGIES, st.integers(60, 400), st.sampled_from([0.3, 0.75, 1.0]))
NEEDS = st.lists(st.sampled_from(["a", {"tool": "a", "match_arg": "n"}]), max_size=1)


@dataclass
class World:
    """Tools that follow a script and record their calls."""

    does: Sequence[str]
    done: list[tuple[str, int, str]] = field(default_factory=list)

    def tool(self, name: str, needs: Sequence[object] = ()) -> ToolDef:
        def act(n: int) -> str:
            does = self.does[len(self.done) % len(self.does)]
            self.done.append((name, n, does))
            if does == "error":
                raise ValueError("no")
            if does == "soft":
                raise ToolResolutionError("not there")
            return RESULT

        return ToolDef(ToolSpec.from_json_schema(name, "", SCHEMA), act, needs)  # pyright: ignore[reportArgumentType]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Workflow, World, SaidClient, int]:
    world = World(draw(st.lists(st.sampled_from(["ok", "ok", "error", "soft"]), min_size=1, max_size=6)))
    tools = [world.tool("a"), world.tool("b", draw(NEEDS)), world.tool("c", draw(NEEDS)), *map(world.tool, ENDS)]
    required = draw(st.lists(st.sampled_from(TOOLS), unique=True, max_size=3))
    workflow = Workflow("w", "", {tool.name: tool for tool in tools}, required, list(ENDS), "Help.")
    client = SaidClient(draw(st.lists(REPLIES, min_size=1, max_size=12)))
    return workflow, world, client, draw(st.integers(0, 12))


def outcome(runner: WorkflowRunner, workflow: Workflow) -> object:
    try:
        return asyncio.run(runner.run(workflow, "Go."))
    except ForgeError as error:
        return f"{type(error).__name__}: {error}"


@examples(400)
@given(runs())
def test_a_run_ends_within_its_limits_with_a_result_or_a_run_error(
    drawn: tuple[Workflow, World, SaidClient, int],
) -> None:
    workflow, world, client, max_iterations = drawn

    ended = outcome(WorkflowRunner(client, max_iterations=max_iterations), workflow)

    assert len(client.asked) <= max_iterations
    if ended == RESULT:
        assert (world.done[-1][0] in ENDS) or any(name in ENDS and does == "ok" for name, _, does in world.done)
    else:
        assert isinstance(ended, str)
        assert not any(name in ENDS and does == "ok" for name, _, does in world.done)


@examples(400)
@given(runs(), MEMORIES)
def test_no_tool_is_executed_before_its_required_steps_and_prerequisites(
    drawn: tuple[Workflow, World, SaidClient, int], memory: ContextManager | None
) -> None:
    workflow, world, client, max_iterations = drawn

    outcome(WorkflowRunner(client, memory, max_iterations=max_iterations), workflow)

    succeeded: set[tuple[str, int]] = set()
    for name, n, does in world.done:
        names = {each for each, _ in succeeded}
        if name in ENDS:
            assert set(workflow.required_steps) <= names
        for needed in workflow.prerequisites[name]:
            assert ((needed.tool, n) in succeeded) if needed.match_arg else (needed.tool in names)
        if does == "ok":
            succeeded.add((name, n))


@examples(400)
@given(runs(), MEMORIES)
def test_every_sent_call_has_a_result_and_every_result_a_call(
    drawn: tuple[Workflow, World, SaidClient, int], memory: ContextManager | None
) -> None:
    workflow, _, client, max_iterations = drawn

    outcome(WorkflowRunner(client, memory, max_iterations=max_iterations), workflow)

    for messages in client.asked:
        assert [message["role"] for message in messages[:2]] == ["system", "user"]
        assert orphans(messages) == []


def orphans(messages: Sequence[dict[str, Json]]) -> list[Json]:
    """Return the ids of calls without a result right after them, and of results without such a call."""
    waiting: list[Json] = []
    wrong: list[Json] = []
    for message in messages:
        if message["role"] == "tool":
            identity = message.get("tool_call_id")
            if identity in waiting:
                waiting.remove(identity)
            else:
                wrong.append(identity)
            continue
        wrong += waiting
        made = message.get("tool_calls")
        waiting = [call.get("id") for call in made if is_object(call)] if is_list(made) else []
    return wrong + waiting


@examples(200)
@given(runs())
def test_a_run_resumed_from_any_stored_state_ends_like_an_uninterrupted_one(
    drawn: tuple[Workflow, World, SaidClient, int],
) -> None:
    workflow, world, client, max_iterations = drawn
    expected = outcome(WorkflowRunner(client, max_iterations=max_iterations), workflow)
    uninterrupted_calls = list(world.done)
    world.done.clear()
    fresh_client = SaidClient(client.script)

    async def run_step_by_step() -> object:
        stored = STATES.dump_json(begin_run(workflow, "Go."))
        while True:
            state = STATES.validate_json(stored)
            if state.ended is not None:
                return state.ended.result
            states = WorkflowRunner(fresh_client, max_iterations=max_iterations).drive(workflow, state, run_id="r")
            stored = STATES.dump_json(await anext(states))
            await states.aclose()

    try:
        ended = asyncio.run(run_step_by_step())
    except ForgeError as error:
        ended = f"{type(error).__name__}: {error}"

    assert (ended, world.done) == (expected, uninterrupted_calls)
