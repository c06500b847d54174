"""Calls of a tool with a grammar, from the model's bytes to what the client's codec receives."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ToolGrammar, ToolSpec
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import AttemptRetried, Event, ToolsUnvalidated
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.core.tool_grammars.grammars import APPLY_PATCH, INPUT
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, ScriptedResponse, StillClock

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n"
WRONG = PATCH.replace("-x = 1", "x = 1")
TOOL: JsonDict = {"type": "function", "function": {"name": "apply_patch", "parameters": INPUT}}
LLAMA_CPP = Dialect(llama_cpp=True)
ALWAYS = GuardPolicy(constrain_retries="always")


def calling(text: str) -> Said:
    return Said(calls=(("apply_patch", json.dumps({"input": text})),))


AS_JSON = Said(text=json.dumps({"name": "apply_patch", "arguments": {"input": PATCH}}))


class LlamaCppHttp(ScriptedHttp):
    """Counts the tokens of prompts as well, like llama-server."""

    @asynccontextmanager
    async def open(self, method: str, url: str, **more: Any) -> AsyncGenerator[ScriptedResponse]:
        if url.endswith("/input_tokens"):
            yield ScriptedResponse(200, b'{"input_tokens": 10}', "application/json", self.cut)
            return
        async with super().open(method, url, **more) as response:
            yield response


@dataclass
class Done:
    """What became of a request: the texts of the calls, the report and the requests that the model server received."""

    texts: list[Any] = field(default_factory=list[Any])
    report: Report | None = None
    asked: list[JsonDict] = field(default_factory=list[JsonDict])
    heard: list[Event] = field(default_factory=list[Event])

    @property
    def corrections(self) -> list[str]:
        """The corrections that the model received with the last request."""
        return [str(message["content"]) for message in self.asked[-1]["messages"] if message["role"] == "tool"]

    @property
    def grammars(self) -> list[bool]:
        """Whether each request limited the model server to the grammar."""
        return ["grammar" in asked for asked in self.asked]


async def ask(
    script: Sequence[Said],
    *,
    policy: GuardPolicy | None = None,
    dialect: Dialect = LLAMA_CPP,
    tool: ToolSpec = APPLY_PATCH,
    more: JsonDict | None = None,
) -> Done:
    done = Done()
    http = LlamaCppHttp(script, asked=done.asked)
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), done.heard.append, dialect=dialect))
    body: JsonDict = {"messages": [{"role": "user", "content": "Set x to 2."}], "tools": [TOOL], **(more or {})}
    request = replace(decode_request(body), tools=(tool,), is_converted=True)
    arguments = ""
    async for event in engine.answer(request, policy or GuardPolicy(), request_id="r"):
        if isinstance(event, Report):
            done.report = event
        elif isinstance(event, Chunk):
            arguments += "".join(call.arguments for delta in event.deltas for call in delta.calls)
    done.texts = [json.loads(arguments)["input"]] if arguments else []
    return done


async def test_a_patch_that_matches_is_delivered_as_it_was_written() -> None:
    done = await ask([calling(PATCH)])

    assert done.texts == [PATCH]
    assert done.report is not None
    assert (done.report.outcome.value, done.report.descriptions) == ("clean", ())


async def test_wrong_framing_is_repaired_and_reported_without_a_retry() -> None:
    done = await ask([calling("```\n" + PATCH.removesuffix("*** End Patch\n") + "```")])

    assert done.texts == [PATCH]
    assert done.report is not None
    assert (done.report.attempts, done.report.descriptions) == (
        1, ("repaired apply_patch: input: code fence, missing end",),
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [PATCH, json.dumps(PATCH), json.dumps({"patch": PATCH}), json.dumps([PATCH])])
async def test_arguments_that_are_the_text_itself_or_other_json_become_the_argument(arguments: str) -> None:
    done = await ask([Said(calls=(("apply_patch", arguments),))])

    assert done.texts == [PATCH]
    assert done.report is not None
    assert (done.report.outcome.value, done.report.attempts) == ("repaired", 1)


async def test_what_does_not_match_is_retried_with_the_line_and_what_was_expected() -> None:
    done = await ask([calling(WRONG), calling(PATCH)])

    assert done.texts == [PATCH]
    assert done.report is not None
    assert (done.report.attempts, done.report.faults) == (2, (Fault.GRAMMAR,))
    (correction,) = done.corrections
    assert '`input`: does not match the grammar: line 4 ("x = 1"), column 1: expected "@@"' in correction


async def test_the_log_of_a_retry_contains_no_part_of_the_text() -> None:
    done = await ask([calling(WRONG), calling(PATCH)])

    reasons = [event.reason for event in done.heard if isinstance(event, AttemptRetried)]
    assert reasons == ["`input`: does not match the grammar"]


async def test_the_last_retry_is_limited_to_the_grammar() -> None:
    done = await ask([calling(WRONG)] * 3 + [AS_JSON])

    assert (done.texts, done.grammars) == ([PATCH], [False, False, False, True])
    last = done.asked[-1]
    assert (last["tool_choice"], last["tools"]) == ("none", done.asked[0]["tools"])
    assert last["grammar"].startswith('root ::= "{\\x22name\\x22: \\x22apply_patch\\x22')


async def test_only_llama_cpp_is_sent_a_grammar() -> None:
    done = await ask([calling(WRONG), AS_JSON], policy=ALWAYS, dialect=Dialect())

    assert (done.texts, done.grammars) == ([PATCH], [False, False])
    assert done.asked[1]["response_format"]["type"] == "json_schema"


async def test_a_server_that_rejects_the_grammar_is_limited_by_the_schema() -> None:
    refusal = Said(status=400, body={"error": {"message": "failed to parse grammar"}})

    done = await ask([calling(WRONG), refusal, calling(WRONG), AS_JSON], policy=ALWAYS)

    assert (done.texts, done.grammars) == ([PATCH], [False, True, False, False])
    assert [asked.get("response_format", {}).get("type") for asked in done.asked] == [
        None, "text", "json_schema", "json_schema",
    ]  # fmt: skip


async def test_a_grammar_that_gbnf_cannot_express_is_replaced_by_the_schema() -> None:
    left_recursive = ToolGrammar("lark", 'start: start "b" | "a"')
    said = Said(text=json.dumps({"name": "apply_patch", "arguments": {"input": "ab"}}))

    done = await ask([calling("ba"), said], policy=ALWAYS, tool=replace(APPLY_PATCH, grammar=left_recursive))

    assert (done.texts, done.grammars) == (["ab"], [False, False])
    assert done.asked[1]["response_format"]["type"] == "json_schema"


async def test_with_never_no_retry_is_limited() -> None:
    done = await ask([calling(WRONG)] * 4, policy=GuardPolicy(constrain_retries="never"))

    assert (done.texts, done.grammars) == ([WRONG], [False] * 4)
    assert done.report is not None
    assert done.report.outcome.value == "exhausted"


async def test_a_grammar_that_cannot_be_used_changes_nothing_and_is_reported() -> None:
    done = await ask([calling(WRONG)], tool=replace(APPLY_PATCH, grammar=ToolGrammar("lark", "start: /(?=a)/")))

    assert done.texts == [WRONG]
    assert done.report is not None
    assert done.report.descriptions == (
        "unchecked apply_patch: lookaround or flags inside a regular expression",
    )  # fmt: skip
    assert [event.tools for event in done.heard if isinstance(event, ToolsUnvalidated)] == [("apply_patch",)]


async def test_a_patch_cut_at_the_token_limit_is_not_delivered() -> None:
    """Its arguments may be repaired to JSON, but its missing end is not added."""
    whole = json.dumps({"input": PATCH})
    cuts = [whole[: whole.index("-x")], whole[: whole.index("*** End")], whole[:-2]]

    for cut in cuts:
        for finish in ("length", "tool_calls"):
            done = await ask([Said(calls=(("apply_patch", cut),), finish=finish), calling(PATCH)])
            assert done.texts == [PATCH]


async def test_without_validation_the_text_is_not_checked() -> None:
    done = await ask([calling(WRONG)], policy=GuardPolicy.model_validate({"enabled": {"validate": False}}))

    assert done.texts == [WRONG]
