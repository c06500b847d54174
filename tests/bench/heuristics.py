"""What the guardrails since 0.2.0 cost a request that needs no help: `python -m tests.bench.heuristics`.

Each pair sends one request with the default policy and one with that of 0.2.0 (preset `v02`), in random order, through
one engine to one model server: the embedded llama.cpp with the test model. The prompt has an agent's history, and the
model makes a valid call. Prints the mean of the paired differences with its 95 % interval, of the time of a request
and of the CPU time of the daemon's process.
"""

# ruff: noqa: T201  a command line prints
from __future__ import annotations

import argparse
import asyncio
import math
import random
import time
from collections.abc import Sequence
from statistics import fmean, median, stdev

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.guardrails import GuardPolicy, Outcome
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.jsontypes import Json
from forge_proxy.daemon import assemble
from forge_proxy.engine.answer import Engine
from forge_proxy.evals.ablation import PRESETS
from forge_proxy.settings import build_settings
from forge_proxy.wire.clients.chat_completions.request import decode_request

_ANSWERED_CALLS = 6
_TOOLS = ("get_weather", "read_file", "write_file", "search_code", "run_tests", "list_files")
_WARM_UP = 20


def _make_request() -> ChatRequest:
    """Return an agent's request in the middle of its work: what it asks for next has not been done yet."""
    messages: list[Json] = [{"role": "user", "content": "Please read the files, then get the weather."}]
    for number in range(_ANSWERED_CALLS):
        function: Json = {"name": "read_file", "arguments": f'{{"path": "src/module_{number}.py"}}'}
        calls: Json = [{"id": f"call_{number}", "type": "function", "function": function}]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": f"print({number})"},
        ]
    messages.append({"role": "user", "content": "Please get the weather with city Paris and days 3."})
    parameters: Json = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    }
    tools: Json = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
        for name in _TOOLS
    ]
    body: dict[str, Json] = {
        "model": "tiny-tools", "messages": messages, "tools": tools, "stream": True, "temperature": 0, "seed": 7,
        "max_tokens": 60,
    }  # fmt: skip
    return decode_request(body)


async def _measure(engine: Engine, request: ChatRequest, policy: GuardPolicy, number: int) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of one request."""
    began, cpu = time.perf_counter(), time.process_time()
    outcome = None
    async for event in engine.answer(request, policy, request_id=f"bench-{number}"):
        if isinstance(event, Report):
            outcome = event.outcome
    if outcome is not Outcome.CLEAN:
        raise SystemExit(f"the response was {outcome}; only a request that needs no help is measured")
    return time.perf_counter() - began, time.process_time() - cpu


async def measure_pairs(pairs: int) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the figures of each pair, those of the default policy first."""
    default = GuardPolicy()
    v02 = PRESETS["v02"]
    changed = {"enabled": default.enabled.model_copy(update={"repeats": v02.repeats, "early_end": v02.early_end})}
    former = GuardPolicy.model_validate({**default.model_dump(by_alias=True), **changed, **v02.settings})
    request, order = _make_request(), random.Random(7)
    settings = build_settings({"backend": {"kind": "embedded", "llama_server": {"slots": 1, "context": 2048}}})
    figures: list[tuple[tuple[float, float], tuple[float, float]]] = []
    async with assemble(settings, lambda _: None) as parts:
        await parts.load()
        for number in range(-_WARM_UP, pairs):
            first, second = (default, former) if order.random() < 0.5 else (former, default)
            one = await _measure(parts.engine, request, first, number)
            two = await _measure(parts.engine, request, second, number)
            if number >= 0:
                figures.append((one, two) if first is default else (two, one))
    return figures


def _report(label: str, now: Sequence[float], before: Sequence[float]) -> None:
    differences = sorted(a - b for a, b in zip(now, before, strict=True))
    kept = differences[len(differences) // 20 : -len(differences) // 20]  # pauses of the machine are no cost
    mean, error, base = fmean(kept), 1.96 * stdev(kept) / math.sqrt(len(kept)), median(before)
    print(
        f"{label:<10} {1000 * base:8.3f} ms  added {1e6 * mean:+7.1f} µs ({1e6 * (mean - error):+.1f} to"
        f" {1e6 * (mean + error):+.1f}), {100 * mean / base:+.2f} % ({100 * (mean - error) / base:+.2f} to"
        f" {100 * (mean + error) / base:+.2f})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2000)
    figures = asyncio.run(measure_pairs(parser.parse_args().pairs))
    for label, place in (("time", 0), ("CPU time", 1)):
        _report(label, [now[place] for now, _ in figures], [before[place] for _, before in figures])


if __name__ == "__main__":
    main()
