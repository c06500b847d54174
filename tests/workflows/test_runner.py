"""Running a workflow: the messages to the model, and the ways in which a run can end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.compaction import NoCompact
from forge_proxy.core.guardrails import Switches
from forge_proxy.core.guardrails.policy import SWITCHES
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import Message, MessageType, ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.cancelled import WorkflowCancelledError
from forge_proxy.core.workflow.errors import (
    MaxIterationsError,
    PrerequisiteError,
    StepEnforcementError,
    ToolCallError,
    ToolExecutionError,
    ToolResolutionError,
)
from forge_proxy.core.workflow.run import ToolOutcome, begin_run
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.workflows.context import ContextManager
from forge_proxy.workflows.requests import build_request
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.client import ChunkType, LLMResponse, StreamChunk
from forge_proxy.workflows.sdk.engine_client import EngineClient
from forge_proxy.workflows.sdk.respond import respond_tool
from tests.fakes.said_client import SaidClient, calls, text
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

CITY: dict[str, Json] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NONE: dict[str, Json] = {"type": "object", "properties": {}}


def tool(name: str, does: Callable[..., Any], schema: dict[str, Json] = NONE, needs: Sequence[Any] = ()) -> ToolDef:
    return ToolDef(ToolSpec.from_json_schema(name, f"does {name}", schema), does, needs)


def workflow(*tools: ToolDef, required: Sequence[str] = (), terminal: str = "finish") -> Workflow:
    ends = tool(terminal, lambda: "done")
    named = {each.name: each for each in (*tools, ends)}
    return Workflow("w", "a workflow", named, required, terminal, "You help {who}.")


async def run(client: SaidClient, flow: Workflow, **options: Any) -> tuple[Any, list[Message]]:
    messages: list[Message] = []
    runner = WorkflowRunner(client, on_message=messages.append, **options)
    return await runner.run(flow, "Go.", {"who": "Ann"}), messages


def echo(city: str) -> str:
    return f"sunny in {city}"


def results(messages: Sequence[Message]) -> list[str]:
    return [message.content for message in messages if message.tool_call_id is not None]


async def test_a_run_ends_with_the_result_of_its_terminal_tool() -> None:
    flow = workflow(tool("look", echo, CITY))
    client = SaidClient([calls("look", city="Oslo"), calls("finish")])

    result, messages = await run(client, flow)

    assert result == "done"
    kinds = [message.type.value for message in messages]
    assert kinds == ["system_prompt", "user_input", "tool_call", "tool_result", "tool_call", "tool_result"]
    assert [message.metadata.step_index for message in messages] == [None, None, 0, 0, 1, 1]
    call = messages[2].tool_calls[0].id
    assert client.asked[1] == [
        {"role": "system", "content": "You help Ann."},
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": call, "type": "function", "function": {"name": "look", "arguments": '{"city": "Oslo"}'}}
            ],
        },
        {"role": "tool", "content": "sunny in Oslo", "tool_call_id": call, "name": "look"},
    ]


async def test_a_plain_text_response_is_retried() -> None:
    client = SaidClient([text("I am done."), calls("finish")])

    _, messages = await run(client, workflow())

    assert [message.type for message in messages[2:4]] == [MessageType.TEXT_RESPONSE, MessageType.RETRY_NUDGE]
    assert messages[3].content == "That was not a valid tool call. Call one of: finish."


async def test_a_call_in_text_is_recovered_unless_rescue_is_off() -> None:
    written = text('```json\n{"name": "finish", "arguments": {}}\n```')

    result, _ = await run(SaidClient([written]), workflow())
    with pytest.raises(ToolCallError) as caught:
        await run(SaidClient([written]), workflow(), rescue_enabled=False, max_retries_per_step=0)

    assert result == "done"
    assert caught.value.attempts == 1
    assert caught.value.raw_response is not None
    assert '"name": "finish"' in caught.value.raw_response


async def test_the_retry_limit_counts_consecutive_failures() -> None:
    bad, good = text("Hm."), calls("look")
    flow = workflow(tool("look", lambda: "x"))

    result, _ = await run(SaidClient([bad, bad, good, bad, bad, calls("finish")]), flow, max_retries_per_step=2)
    client = SaidClient([bad])
    with pytest.raises(ToolCallError) as caught:
        await run(client, flow, max_retries_per_step=2)

    assert result == "done"
    assert caught.value.attempts == len(client.asked) == 3


async def test_a_call_with_invalid_arguments_is_retried() -> None:
    flow = workflow(tool("look", echo, CITY))

    _, messages = await run(SaidClient([calls("look"), calls("look", city="Oslo"), calls("finish")]), flow)

    first = results(messages)[0]
    assert first.startswith("[ToolArgValidationError] Invalid arguments for look")
    assert "`city`" in first


async def test_a_run_fails_after_max_iterations() -> None:
    client = SaidClient([calls("look")])
    flow = workflow(tool("look", lambda: "x"), tool("ask", lambda: "x"), required=["look", "ask"])

    with pytest.raises(MaxIterationsError) as caught:
        await run(client, flow, max_iterations=4)

    assert len(client.asked) == caught.value.iterations == 4
    assert (caught.value.completed_steps, caught.value.pending_steps) == (("look",), ("ask",))


async def test_a_premature_terminal_call_is_refused_with_increasing_firmness() -> None:
    flow = workflow(tool("look", lambda: "x"), required=["look"])
    client = SaidClient([calls("finish")])
    messages: list[Message] = []

    with pytest.raises(StepEnforcementError) as caught:
        await WorkflowRunner(client, on_message=messages.append).run(flow, "Go.", {"who": "Ann"})

    nudges = [message.content for message in messages if message.type is MessageType.STEP_NUDGE]
    assert len(nudges) == len(set(nudges)) == 3
    assert all(nudge.startswith("[StepEnforcementError] finish") and "look" in nudge for nudge in nudges)
    assert (caught.value.attempts, caught.value.pending_steps) == (4, ("look",))


async def test_no_call_of_a_batch_with_a_premature_terminal_call_is_executed() -> None:
    ran: list[str] = []
    flow = workflow(tool("look", lambda: ran.append("look") or "x"), required=["look"])

    _, messages = await run(SaidClient([calls("look", "finish"), calls("look"), calls("finish")]), flow)

    assert ran == ["look"]
    assert [content[:22] for content in results(messages)[:2]] == ["[StepEnforcementError]"] * 2


async def test_a_prerequisite_must_have_succeeded_with_the_same_argument() -> None:
    needs = [{"tool": "read", "match_arg": "city"}]
    flow = workflow(tool("read", echo, CITY), tool("edit", echo, CITY, needs))
    script = [calls("read", city="a"), calls("edit", city="b"), calls("read", city="b"), calls("edit", city="b")]

    _, messages = await run(SaidClient([*script, calls("finish")]), flow)
    with pytest.raises(PrerequisiteError) as caught:
        await run(SaidClient([calls("edit", city="b")]), flow)

    assert results(messages)[1].startswith("[PrereqError] edit cannot run yet. First call: read with the same city")
    assert results(messages)[3] == "sunny in b"
    assert (caught.value.violations, caught.value.missing_prereqs) == (3, ("read with the same city",))


async def test_a_tool_error_reaches_the_model_and_too_many_end_the_run() -> None:
    def fails() -> str:
        raise KeyError("nothing there")

    flow = workflow(tool("look", fails))
    client = SaidClient([calls("look")])

    messages: list[Message] = []
    with pytest.raises(ToolExecutionError) as caught:
        await WorkflowRunner(client, on_message=messages.append).run(flow, "Go.", {"who": "Ann"})

    assert results(messages) == ["[ToolError] KeyError: 'nothing there'"] * 3
    assert (caught.value.tool_name, caught.value.attempts) == ("look", 3)
    assert isinstance(caught.value.cause, KeyError)
    assert caught.value.__cause__ is caught.value.cause


async def test_an_unresolved_call_counts_neither_as_an_error_nor_as_a_step() -> None:
    found = iter([ToolResolutionError("no such city; try Oslo"), ToolResolutionError("no"), ToolResolutionError("no")])

    def look(city: str) -> str:
        if (error := next(found, None)) is not None:
            raise error
        return "sunny"

    flow = workflow(tool("look", look, CITY), required=["look"])
    script = [calls("look", city="x")] * 3
    client = SaidClient([*script, calls("finish"), calls("look", city="Oslo"), calls("finish")])

    result, messages = await run(client, flow, max_tool_errors=0)

    assert result == "done"
    assert results(messages)[0] == "no such city; try Oslo"
    assert results(messages)[3].startswith("[StepEnforcementError]")


async def test_a_batch_is_executed_completely_and_its_results_keep_the_order() -> None:
    async def slow() -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": 1}

    def fails() -> str:
        raise ValueError("bad")

    flow = workflow(tool("slow", slow), tool("fails", fails), tool("quick", lambda: None))

    _, messages = await run(SaidClient([calls("slow", "fails", "quick"), calls("finish")]), flow)

    assert results(messages)[:3] == ['{"n":1}', "[ToolError] ValueError: bad", "null"]
    assert [message.tool_call_id for message in messages[3:6]] == [call.id for call in messages[2].tool_calls]


async def test_a_cancelled_run_can_be_resumed_with_its_messages() -> None:
    cancel = asyncio.Event()
    flow = workflow(tool("look", cancel.set), tool("ask", lambda: "x"), required=["look"])
    client = SaidClient([calls("look", "ask")])

    with pytest.raises(WorkflowCancelledError) as caught:
        await WorkflowRunner(client).run(flow, "Go.", {"who": "Ann"}, cancel_event=cancel)

    assert [message.content for message in caught.value.messages[-2:]] == ["null", "[Cancelled] ask was not run."]
    assert caught.value.completed_steps == ("look",)
    again = WorkflowRunner(SaidClient([calls("finish")]))
    assert await again.run(flow, "", initial_messages=caught.value.messages, steps=caught.value.steps) == "done"


async def test_an_initial_message_of_the_wrong_type_is_an_error_with_its_index() -> None:
    result: list[Any] = [Message.of(MessageType.USER_INPUT, "Go."), {"role": "user", "content": "Go."}]

    with pytest.raises(TypeError, match=r"initial_messages\[1\]: expected a Message, got dict"):
        await WorkflowRunner(SaidClient([calls("finish")])).run(workflow(), "", initial_messages=result)


async def test_cancelling_stops_a_response_in_progress() -> None:
    class Endless(SaidClient):
        stopped = False

        async def send_stream(
            self, messages: list[dict[str, Json]], tools: Sequence[ToolSpec] | None = None
        ) -> AsyncIterator[StreamChunk]:
            try:
                while True:
                    yield StreamChunk(ChunkType.TEXT_DELTA, "la ")
                    await asyncio.sleep(0.001)
            finally:
                self.stopped = True

    client, cancel = Endless([]), asyncio.Event()
    received = asyncio.Event()

    async def on_chunk(_: StreamChunk) -> None:
        received.set()

    running = asyncio.create_task(
        WorkflowRunner(client, stream=True, on_chunk=on_chunk).run(workflow(), "Go.", {"who": "A"}, cancel_event=cancel)
    )
    await received.wait()
    cancel.set()

    with pytest.raises(WorkflowCancelledError):
        await running
    assert client.stopped


async def test_chunks_are_reported_as_they_arrive_and_a_retry_voids_them() -> None:
    received: list[StreamChunk] = []

    async def on_chunk(chunk: StreamChunk) -> None:
        received.append(chunk)

    client = SaidClient([text("Oh no."), calls("finish")])
    await run(client, workflow(), stream=True, on_chunk=on_chunk)

    kinds = [chunk.type.value for chunk in received]
    assert kinds == ["text_delta"] * 4 + ["retry", "tool_call_delta", "tool_call_delta", "final"]
    assert "".join(chunk.content for chunk in received[:4]) == "Oh no. "
    last: LLMResponse | None = received[-1].response
    assert last == (ToolCall("finish", "{}", last[0].id),) if isinstance(last, tuple) else False


async def test_a_run_may_end_with_text_by_the_respond_tool() -> None:
    flow = Workflow("w", "", {"respond": respond_tool()}, (), "respond", "Talk.")

    assert await WorkflowRunner(SaidClient([calls("respond", message="Hello.")])).run(flow, "Hi.") == "Hello."


async def test_reasoning_is_a_separate_message_and_is_sent_with_its_calls() -> None:
    thinks = [ToolCall.of("look", {}, reasoning="I should look.")]
    client = SaidClient([thinks, calls("finish")])

    _, messages = await run(client, workflow(tool("look", lambda: "x")))

    assert (messages[2].type, messages[2].content) == (MessageType.REASONING, "I should look.")
    assert client.asked[1][2]["content"] == "I should look."


async def test_each_call_has_its_own_key_which_is_the_same_after_a_resume() -> None:
    keys: list[str] = []

    class Elsewhere:
        async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
            keys.append(key)
            return None if call.tool == "ask" else ToolOutcome("x")

    flow = workflow(tool("look", lambda: "x"), tool("ask", lambda: "x"))
    runner = WorkflowRunner(SaidClient([calls("look"), calls("look", "ask")]))
    state = begin_run(flow, "Go.", {"who": "Ann"})
    for _ in range(2):
        async for now in runner.drive(flow, state, executor=Elsewhere(), run_id="r1"):
            state = now

    assert keys == ["r1/0/0", "r1/1/0", "r1/1/1", "r1/1/1"]


async def test_calls_reach_the_tools_unchanged_if_they_are_not_validated() -> None:
    off = Switches.model_validate(dict.fromkeys(SWITCHES, False))
    script = [calls("lok"), [ToolCall("look", '{"city": Oslo}')], calls("look", town="Oslo"), calls("finish")]

    result, messages = await run(
        SaidClient(script), workflow(tool("look", echo, CITY)), max_tool_errors=3, guardrails=off
    )

    assert result == "done"
    assert [result.partition(":")[0] for result in results(messages)[:3]] == [
        "[ToolError] there is no tool lok",
        "[ToolError] the arguments of look are not a JSON object",
        "[ToolError] TypeError",
    ]


async def test_the_usage_of_each_response_is_reported() -> None:
    http = ScriptedHttp([Said(calls=(("look", "{}"),)), Said(calls=(("finish", "{}"),))])
    engine = Engine(EngineConfig(OpenAICompatible("http://scripted", http), StillClock(), lambda _: None))
    received: list[Any] = []

    await WorkflowRunner(engine, on_usage=received.append).run(
        workflow(tool("look", lambda: "x")), "Go.", {"who": "Ann"}
    )

    assert [usage["total_tokens"] for usage in received] == [15, 15]


def test_a_negative_token_limit_means_no_limit() -> None:
    assert build_request(workflow(), [], None, {"max_tokens": 7}).limit == 7
    assert build_request(workflow(), [], None, {}).limit is None
    assert build_request(workflow(), [], None, {"max_tokens": -1, "max_completion_tokens": -1}).limit is None


async def test_a_threading_event_is_refused_as_cancel_event() -> None:
    stop: Any = threading.Event()

    with pytest.raises(TypeError, match=r"cancel_event: expected an asyncio\.Event"):
        await WorkflowRunner(SaidClient([calls("finish")])).run(workflow(), "Go.", {"who": "A"}, cancel_event=stop)


async def test_callbacks_of_the_wrong_kind_are_refused() -> None:
    async def on_message(_: Message) -> None: ...

    wrong: Any = print
    asynchronous: Any = on_message

    with pytest.raises(TypeError, match="on_chunk: expected an async function"):
        await run(SaidClient([calls("finish")]), workflow(), stream=True, on_chunk=wrong)
    with pytest.raises(TypeError, match="on_message: expected a function that is not async"):
        WorkflowRunner(SaidClient([]), on_message=asynchronous)


@pytest.mark.parametrize("budget", [-1, 1.5, True, "3"])
def test_a_limit_must_be_a_non_negative_integer(budget: Any) -> None:
    with pytest.raises(ValueError, match="expected a whole number, 0 or more"):
        WorkflowRunner(SaidClient([]), max_iterations=budget)


async def test_the_error_for_an_unknown_tool_names_the_available_ones() -> None:
    with pytest.raises(ToolCallError, match="no call of look, finish in 2 responses"):
        await run(SaidClient([calls("luk")]), workflow(tool("look", lambda: "x")), max_retries_per_step=1)


async def test_without_retries_the_first_response_without_a_call_ends_the_run() -> None:
    client = SaidClient([text("Hm."), calls("finish")])

    with pytest.raises(ToolCallError):
        await run(client, workflow(), guardrails=Switches(retry=False))

    assert len(client.asked) == 1


async def test_a_call_without_a_result_is_not_reported() -> None:
    flow = workflow(tool("look", lambda: None), required=["look"])
    messages: list[Message] = []

    with pytest.raises(StepEnforcementError):
        await WorkflowRunner(SaidClient([calls("finish")]), on_message=messages.append).run(flow, "Go.", {"who": "Ann"})

    assert [message.type.value for message in messages[2:]] == ["tool_call", "step_nudge"] * 3


async def test_cancelling_does_not_wait_for_a_token_count() -> None:
    counting = asyncio.Event()

    class Counts(EngineClient):
        async def count(self, request: ChatRequest) -> int | None:
            counting.set()
            await asyncio.Event().wait()

    backend = OpenAICompatible("http://scripted", ScriptedHttp([]))
    client = Counts(Engine(EngineConfig(backend, StillClock(), lambda _: None)))
    memory, cancel = ContextManager(NoCompact(), 10), asyncio.Event()
    running = asyncio.create_task(
        WorkflowRunner(client, memory).run(workflow(), "Go.", {"who": "Ann"}, cancel_event=cancel)
    )
    await counting.wait()
    cancel.set()

    with pytest.raises(WorkflowCancelledError) as caught:
        await asyncio.wait_for(running, 5)
    assert [message.role for message in caught.value.messages] == ["system", "user"]


async def test_a_run_cancelled_before_its_first_request_sends_none() -> None:
    cancel = asyncio.Event()
    memory = ContextManager(NoCompact(), 1000, context_thresholds={0.001: lambda _: cancel.set()})
    client = SaidClient([calls("finish")])

    with pytest.raises(WorkflowCancelledError):
        await WorkflowRunner(client, memory).run(workflow(), "Go.", {"who": "Ann"}, cancel_event=cancel)

    assert client.asked == []
