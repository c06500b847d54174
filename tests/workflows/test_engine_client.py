"""A client over the engine: what it sends, what it makes of an answer, and what is known after one."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.dialect import Dialect, ToolMode
from forge_proxy.core.errors import BackendError
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.workflows.runner import WorkflowRunner
from forge_proxy.workflows.sdk.client import ChunkType, LLMClient, TextResponse
from forge_proxy.workflows.sdk.engine_client import EngineClient
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

LOOK = ToolSpec.from_json_schema("look", "looks", {"type": "object", "properties": {"city": {"type": "string"}}})
ASK: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
OSLO = '{"city": "Oslo"}'
IN_TEXT = '<tool_call>{"name": "look", "arguments": {"city": "Oslo"}}</tool_call>'
NO_PARSE = {"error": f"error parsing tool call: raw='{IN_TEXT}', err=invalid character"}


def client(*script: Said, tools: ToolMode = "auto", **options: Any) -> tuple[EngineClient, ScriptedHttp]:
    http = ScriptedHttp(script)
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, dialect=Dialect(tools=tools)))
    return EngineClient(engine, **options), http


async def test_a_call_comes_as_a_call_with_what_was_thought_before_it() -> None:
    asks, http = client(Said(reasoning="Oslo, then.", calls=(("look", OSLO),)), options={"temperature": 0})

    answer = await asks.send(ASK, [LOOK])

    assert answer == [ToolCall("look", OSLO, "call_0", reasoning="Oslo, then.")]
    (sent,) = http.asked
    assert (sent["messages"], sent["temperature"]) == (ASK, 0)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["look"]  # and no respond beside it


async def test_nothing_is_repaired_or_asked_again() -> None:
    asks, http = client(Said(text=IN_TEXT))

    assert await asks.send(ASK, [LOOK]) == TextResponse(IN_TEXT)
    assert len(http.asked) == 1


async def test_usage_and_mode_are_known_after_an_answer_and_not_before() -> None:
    asks, _ = client(Said(text="hi"))
    assert (asks.last_usage, asks.resolved_mode) == (None, None)

    await asks.send(ASK)

    assert asks.last_usage == {"input_tokens": 10, "output_tokens": 5}
    assert asks.resolved_mode == "native"


async def test_calls_of_a_model_that_is_told_of_tools_in_the_prompt_are_read_from_its_text() -> None:
    asks, http = client(Said(text='{"name": "look", "arguments": {"city": "Oslo"}}'), tools="prompt")

    answer = await asks.send(ASK, [LOOK])

    assert not isinstance(answer, TextResponse)
    assert [(call.tool, call.args()) for call in answer] == [("look", {"city": "Oslo"})]
    assert asks.resolved_mode == "prompt"
    assert "tools" not in http.asked[0]


async def test_a_streamed_answer_comes_in_pieces_and_whole_at_the_end() -> None:
    asks, _ = client(Said(text="It is cold.", calls=(("look", OSLO),)))

    chunks = [chunk async for chunk in asks.send_stream(ASK, [LOOK])]

    text = "".join(chunk.content for chunk in chunks if chunk.type is ChunkType.TEXT_DELTA)
    call = "".join(chunk.content for chunk in chunks if chunk.type is ChunkType.TOOL_CALL_DELTA)
    assert (text, call) == ("It is cold.", f"look{OSLO}")
    assert [chunk.response for chunk in chunks if chunk.response] == [[ToolCall("look", OSLO, "call_0")]]
    assert chunks[-1].type is ChunkType.FINAL


async def test_what_the_server_could_not_read_of_its_own_model_comes_as_text() -> None:
    asks, _ = client(Said(status=500, body=NO_PARSE))

    assert await asks.send(ASK, [LOOK]) == TextResponse(IN_TEXT)


async def test_an_error_of_the_server_is_raised_with_its_status() -> None:
    asks, _ = client(Said(status=429, body={"error": {"message": "slow down"}}))

    with pytest.raises(BackendError) as raised:
        await asks.send(ASK)

    assert raised.value.status == 429


async def test_the_runner_guards_what_comes_from_it_and_leaves_its_model_and_options() -> None:
    asks, http = client(Said(text=IN_TEXT), model="scripted", options={"temperature": 0, "top_p": 0.5})
    flow = Workflow("w", "d", {"look": ToolDef(LOOK, "{city}: sunny".format)}, [], "look", "Look around.")

    result = await WorkflowRunner(asks, options={"top_p": 0.9}).run(flow, "Oslo?")

    assert result == "Oslo: sunny"
    sent = http.asked[0]
    assert (sent["model"], sent["temperature"], sent["top_p"]) == ("scripted", 0, 0.9)
    assert asks.last_usage == {"input_tokens": 10, "output_tokens": 5}
    assert asks.resolved_mode == "native"


def test_it_is_an_llm_client() -> None:
    asks, _ = client()

    assert isinstance(asks, LLMClient)
