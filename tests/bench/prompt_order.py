"""`python -m tests.bench.prompt_order`: how much of the prompts of a task a real llama.cpp has cached, in both orders.

The tiny model cannot complete a task. So a scripted model answers, and the messages of its requests are sent to a real
llama.cpp with one slot afterwards, in their order: what it has cached depends on the prompts alone. A task is planned
and one step fails once; a second task has sub-tasks. Tokens are those of the tiny model, whose window of 2,048 tokens
bounds the instructions and files.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import httpx

from forge_proxy.core.tasks.prompt.sections import PromptOrder
from tests.fakes.llama_cpp import llama_cpp
from tests.tasks.conftest import open_world

_KEY = "its-own"
_NAMES = ("a", "b", "c", "d")
_MODULE = "".join(f"def part_{number}(value: int) -> int:\n    return value + {number}\n\n\n" for number in range(3))
_INSTRUCTIONS = "".join(f"- Rule {number}: keep functions short and typed.\n" for number in range(5))
_FILES: dict[str, str | bytes] = {
    "AGENTS.md": _INSTRUCTIONS, **{f"shop/{name}.py": _MODULE for name in _NAMES}
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """One request, and its tokens."""

    what: str
    prompt: int
    cached: int


def _rules(*, divided: bool) -> list[dict[str, Any]]:
    parts = [
        {"id": name, "description": f"Change {name}.", "target_files": [f"shop/{name}.py"], "context_files": []}
        for name in _NAMES
    ]
    step = {"id": "all", "description": "Change all.", "context_files": [], "sub_tasks": parts}
    steps = [{**step, "target_files": [f"shop/{name}.py" for name in _NAMES]}] if divided else parts
    plan = {"when": {"operation": "plan"}, "respond": {"explanation": "", "steps": steps}}
    failed = {"when": {"step": "b"}, "times": 1, **_change("b", "BAD = 1")}
    return [plan, failed, *({"when": {"step": name}, **_change(name, "value + 100")} for name in _NAMES)]


def _change(name: str, replacement: str) -> dict[str, Any]:
    edit = {"search": "    return value + 2\n", "replace": f"    return {replacement}\n"}
    return {"respond": {"edits": [{"path": f"shop/{name}.py", "edits": [edit]}]}}


async def record_prompts(order: PromptOrder, *, divided: bool) -> Sequence[tuple[str, list[dict[str, Any]]]]:
    """Run the task with a scripted model, and return what each request was for, and its messages."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rules = _rules(divided=divided)
        async with open_world(Path(folder), *rules, files=_FILES, prompt_order=order) as world:
            done = await world.run(plan=True, target_files=[], description="Change the parts of the shop.")
            assert done.job.status == "requires_action", done.state.halt
            return [
                (f"{one.step or one.operation}{' again' if one.is_retry else ''}", one.body["messages"])
                for one in world.model.requests if one.operation != "other"
            ]  # fmt: skip


def send_prompts(prompts: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[SentPrompt]:
    """Have a llama.cpp with an empty cache process the prompts, one after the other."""
    sent: list[SentPrompt] = []
    headers = {"Authorization": f"Bearer {_KEY}"}
    with llama_cpp(_KEY, "--parallel", "1") as url, httpx.Client(base_url=url, headers=headers, timeout=120) as client:
        for what, messages in prompts:
            done = client.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 1, "temperature": 0})
            assert done.status_code == 200, (what, done.text)
            usage = done.json()["usage"]
            sent.append(SentPrompt(what, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]))
    return sent


def main() -> None:
    """Measure both orders, and print."""
    for divided in (False, True):
        print("A step with four sub-tasks" if divided else "A plan of four steps")
        for order in get_args(PromptOrder):
            sent = send_prompts(asyncio.run(record_prompts(order, divided=divided)))
            prompt, cached = sum(one.prompt for one in sent), sum(one.cached for one in sent)
            each = ", ".join(f"{one.what} {one.cached}/{one.prompt}" for one in sent)
            print(f"  {order:7} {prompt} tokens, {cached} cached, {prompt - cached} processed: {each}", flush=True)


if __name__ == "__main__":
    main()
