"""A client over the engine: requests, responses, usage and tool mode."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendError
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.dialect import Dialect, ToolMode
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


async def test_a_call_is_returned_with_its_reasoning() -> None:
    asks, http = client(Said(reasoning="Oslo, then.", calls=(("look", OSLO),)), options={"temperature": 0})

    answer = await asks.send(ASK, [LOOK])

    assert answer == [ToolCall("look", OSLO, "call_0", reasoning="Oslo, then.")]
    (sent,) = http.asked
    assert (sent["messages"], sent["temperature"]) == (ASK, 0)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["look"]  # without the respond tool


async def test_responses_are_neither_repaired_nor_retried() -> None:
    asks, http = client(Said(text=IN_TEXT))

    assert await asks.send(ASK, [LOOK]) == TextResponse(IN_TEXT)
    assert len(http.asked) == 1


async def test_usage_and_tool_mode_are_known_after_the_first_response() -> None:
    asks, _ = client(Said(text="hi"))
    assert (asks.last_usage, asks.resolved_mode) == (None, None)

    await asks.send(ASK)

    assert asks.last_usage == {"input_tokens": 10, "output_tokens": 5}
    assert asks.resolved_mode == "native"


async def test_calls_in_text_are_recovered_if_the_tools_are_in_the_prompt() -> None:
    asks, http = client(Said(text='{"name": "look", "arguments": {"city": "Oslo"}}'), tools="prompt")

    answer = await asks.send(ASK, [LOOK])

    assert not isinstance(answer, TextResponse)
    assert [(call.tool, call.args()) for call in answer] == [("look", {"city": "Oslo"})]
    assert asks.resolved_mode == "prompt"
    assert "tools" not in http.asked[0]


async def test_a_stream_yields_chunks_and_the_complete_response_at_the_end() -> None:
    asks, _ = client(Said(text="It is cold.", calls=(("look", OSLO),)))

    chunks = [chunk async for chunk in asks.send_stream(ASK, [LOOK])]

    text = "".join(chunk.content for chunk in chunks if chunk.type is ChunkType.TEXT_DELTA)
    call = "".join(chunk.content for chunk in chunks if chunk.type is ChunkType.TOOL_CALL_DELTA)
    assert (text, call) == ("It is cold.", f"look{OSLO}")
    assert [chunk.response for chunk in chunks if chunk.response] == [[ToolCall("look", OSLO, "call_0")]]
    assert chunks[-1].type is ChunkType.FINAL


async def test_output_that_the_server_cannot_parse_is_returned_as_text() -> None:
    asks, _ = client(Said(status=500, body=NO_PARSE))

    assert await asks.send(ASK, [LOOK]) == TextResponse(IN_TEXT)


async def test_a_server_error_is_raised_with_its_status() -> None:
    asks, _ = client(Said(status=429, body={"error": {"message": "slow down"}}))

    with pytest.raises(BackendError) as raised:
        await asks.send(ASK)

    assert raised.value.status == 429


async def test_the_runner_applies_guardrails_and_keeps_model_and_options() -> None:
    asks, http = client(Said(text=IN_TEXT), model="scripted", options={"temperature": 0, "top_p": 0.5})
    flow = Workflow("w", "d", {"look": ToolDef(LOOK, "{city}: sunny".format)}, [], "look", "Look around.")

    result = await WorkflowRunner(asks, options={"top_p": 0.9}).run(flow, "Oslo?")

    assert result == "Oslo: sunny"
    sent = http.asked[0]
    assert (sent["model"], sent["temperature"], sent["top_p"]) == ("scripted", 0, 0.9)
    assert asks.last_usage == {"input_tokens": 10, "output_tokens": 5}
    assert asks.resolved_mode == "native"


def test_an_engine_client_implements_llm_client() -> None:
    asks, _ = client()

    assert isinstance(asks, LLMClient)
