"""`make nudges`: how often the test model's next response is a valid call, by the wording of the correction.

Each wording meets the same failures: held-out requests, a failed response in the conversation, then the correction that
`core/guardrails/nudges.py` builds. Native tools, the `respond` tool offered, temperature 1.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from forge_proxy import daemon
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.extraction import extract
from forge_proxy.core.guardrails.nudges import WORDING, NudgeWording, Problem, correct_calls, correct_text
from forge_proxy.core.guardrails.turn import Fault
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.stream import ReplyBuilder
from forge_proxy.engine.ports import Backend
from forge_proxy.settings import Settings
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.tiny_model.conversations import Case, heldout_requests

Failure = Callable[[Turn, Case, random.Random, NudgeWording], tuple[Message, ...]]

LIST = "Your last reply was not a valid tool call. Available tools: {names}. Reply with a tool call only."
BARE = "Invalid tool call. Try again."
ERROR_LIST = "Error: no tool call found. You must call one of these tools: {names}"
WITH_RESPOND = "That was not a valid tool call. Call one of: {names}. To answer in words, call {respond}."
WITHOUT_RESPOND = "That was not a valid tool call. Call one of: {names}."


def nothing_said(turn: Turn, case: Case, rng: random.Random, wording: NudgeWording) -> tuple[Message, ...]:
    """The request sent again without a correction: the baseline for every nudge."""
    return ()


def bare_text(turn: Turn, case: Case, rng: random.Random, wording: NudgeWording) -> tuple[Message, ...]:
    name = case.expected.name
    said = rng.choice(
        [f"I will call {name}.", f"Let me {name.replace('_', ' ')}.", f"Sure, I will use the {name} tool now."]
    )
    return correct_text(turn, Fault.TEXT_ONLY, said, wording)


def malformed(turn: Turn, case: Case, rng: random.Random, wording: NudgeWording) -> tuple[Message, ...]:
    whole = json.dumps({"name": case.expected.name, "arguments": case.expected.args})
    broken = rng.choice([whole[:-2] + ",}}", whole.replace('"', "'"), whole[:-1]])
    return correct_text(turn, Fault.MALFORMED, f"<tool_call>\n{broken}\n</tool_call>", wording)


def unknown_tool(turn: Turn, case: Case, rng: random.Random, wording: NudgeWording) -> tuple[Message, ...]:
    verb, _, noun = case.expected.name.partition("_")
    said = rng.choice([f"{verb}_{noun}s", f"{verb}-{noun}", f"do_{noun}", f"{verb}_the_{noun}"])
    call = ToolCall(said, json.dumps(case.expected.args), "call1call")
    return correct_calls(turn, "", (call,), (Problem(Fault.UNKNOWN_TOOL, call),), wording)


def bad_arguments(turn: Turn, case: Case, rng: random.Random, wording: NudgeWording) -> tuple[Message, ...]:
    args: dict[str, Any] = dict(case.expected.args)
    tool = turn.tool(case.expected.name)
    assert tool is not None
    assert isinstance(tool.parameters, dict)
    required: Any = tool.parameters["required"]
    args.pop(rng.choice(required), None)
    problem = check(turn, ToolCall(tool.name, json.dumps(args), "call1call"))
    assert isinstance(problem, Problem)
    return correct_calls(turn, "", (problem.call,), (problem,), wording)


KINDS: dict[str, tuple[Failure, dict[str, NudgeWording]]] = {
    "any": (nothing_said, {"nothing said, asked once more": replace(WORDING, text="")}),
    "bare text": (
        bare_text,
        {
            "list, respond hint": replace(WORDING, text_with_respond=WITH_RESPOND),
            "list": replace(WORDING, text_with_respond=WITHOUT_RESPOND),
            "longer, list": replace(WORDING, text_with_respond=LIST),
            "error, list": replace(WORDING, text_with_respond=ERROR_LIST),
            "no list": replace(WORDING, text_with_respond=BARE),
        },
    ),
    "malformed": (
        malformed,
        {
            "list": replace(WORDING, malformed=WITHOUT_RESPOND),
            "longer, list": replace(WORDING, malformed=LIST),
            "no list": replace(WORDING, malformed=BARE),
        },
    ),
    "unknown tool": (
        unknown_tool,
        {
            "[UnknownTool] x. Call one of": replace(
                WORDING, unknown_tool="[UnknownTool] {tool}. Call one of: {names}."
            ),
            "[UnknownTool] sentence": replace(
                WORDING, unknown_tool="[UnknownTool] Tool '{tool}' does not exist. Available tools: {names}"
            ),
            "sentence, no prefix": replace(WORDING, unknown_tool="There is no tool {tool}. Use one of: {names}"),
            "no list": replace(WORDING, unknown_tool="[UnknownTool] {tool}."),
        },
    ),
    "bad arguments": (
        bad_arguments,
        {
            "[ToolArgValidationError] reasons": replace(
                WORDING,
                bad_arguments="[ToolArgValidationError] Invalid arguments for {tool}: {reasons}. "
                "Fix the call and retry.",
            ),
            "[ToolError] reasons": replace(
                WORDING, bad_arguments="[ToolError] Invalid arguments for {tool}: {reasons}. Fix the call and retry."
            ),
            "[ToolArgValidationError] no reasons": replace(
                WORDING, bad_arguments="[ToolArgValidationError] Invalid arguments for {tool}. Fix the call and retry."
            ),
            "[ToolError] no reasons": replace(
                WORDING, bad_arguments="[ToolError] Invalid arguments for {tool}. Fix the call and retry."
            ),
        },
    ),
}


async def next_answer(backend: Backend, request: ChatRequest, turn: Turn, case: Case) -> tuple[bool, bool]:
    """Return whether the next response is a valid call, and whether it is the right one."""
    builder = ReplyBuilder()
    call = ModelCall(request, stream=True, respond=turn.respond, added=turn.added)
    async with aclosing(backend.stream(call)) as chunks:
        async for chunk in chunks:
            for delta in chunk.deltas:
                builder.add(delta)
    calls = extract(turn, builder.reply()).calls
    if not calls or isinstance(checked := check(turn, calls[0]), Problem) or checked[0].tool == "respond":
        return False, False
    return True, (checked[0].tool, checked[0].args()) == (case.expected.name, case.expected.args)


async def measure(backend: Backend, fail: Failure, wording: NudgeWording, count: int, seed: int) -> tuple[int, int]:
    """Return from how many of `count` failures the next response recovers, and how many calls are right."""
    recovered = right = 0
    for number, case in enumerate(heldout_requests(count, seed)):
        body: Any = {
            "messages": case.messages,
            "tools": case.tools,
            "temperature": 1.0,
            "seed": number,
            "max_tokens": 160,
        }
        request = decode_request(body)
        turn = open_turn(request, GuardPolicy(), request_id=str(number), nudge_text=True)
        assert turn is not None
        told = replace(turn, added=fail(turn, case, random.Random(number), wording))
        is_valid, is_right = await next_answer(backend, request, told, case)
        recovered += is_valid
        right += is_right
    return recovered, right


async def run(count: int, seed: int) -> None:
    """Measure every wording and print a line for each; the shipped one is marked."""
    settings = Settings.model_validate({"backend": {"kind": "embedded"}})
    async with daemon.assemble(settings, lambda _: None) as parts:
        await parts.load()
        print(f"{'mistake':14} {'wording':38} {'failures':>8} {'recovered':>10} {'right':>7}")
        for kind, (fail, wordings) in KINDS.items():
            for label, wording in wordings.items():
                recovered, right = await measure(parts.backend, fail, wording, count, seed)
                mark = " (shipped)" if wording == WORDING else ""
                print(
                    f"{kind:14} {label:38} {count:8} {recovered / count:10.1%} {right / count:7.1%}{mark}", flush=True
                )


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="failures for each wording (200)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(run(options.count, options.seed))


if __name__ == "__main__":
    main()
