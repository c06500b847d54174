"""`forge-proxy demo`: sends the same requests to the embedded test model, raw and guarded, and compares them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from forge_proxy import daemon
from forge_proxy.api.config import ServerConfig
from forge_proxy.backends.config import BackendConfig
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.guardrails import GuardPolicy, read_switches
from forge_proxy.core.guardrails.report import Report
from forge_proxy.core.guardrails.schema.compiled import find_faults
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.core.stream import Chunk, CompletionBuilder, Reply
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.events import Event
from forge_proxy.settings import Settings
from forge_proxy.telemetry.config import LogConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request

# The test model understands only requests of this form: an action, and its arguments by name.
REQUESTS = (
    "Please get the weather with city Paris and days 3.",
    "send a email with email bob@acme.com and subject lunch",
    "Can you book the hotel for city Rome, days 5?",
    "I want to find the invoice for customer Anna.",
    "get weather, city: Oslo and days: 7",
    "Now book a hotel with city Lisbon and days 2.",
)
_TRIES = 4
"""How often each request is sent: at temperature 1 a small model is right or wrong by chance."""


def _tool(name: str, about: str, **params: str) -> Json:
    properties: dict[str, Json] = {key: {"type": kind} for key, kind in params.items()}
    schema: Json = {"type": "object", "properties": properties, "required": [*params]}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


TOOLS: list[Json] = [
    _tool("get_weather", "get the weather", city="string", days="integer"),
    _tool("send_email", "send a email", email="string", subject="string"),
    _tool("book_hotel", "book the hotel", city="string", days="integer"),
    _tool("find_invoice", "find the invoice", customer="string"),
]


RESULTS = {
    "get_weather": '{"weather": "sunny"}',
    "send_email": '{"ok": true, "sent": "today"}',
    "book_hotel": '{"price": 17}',
    "find_invoice": '{"ok": true, "amount": 240}',
}


@dataclass(frozen=True, slots=True)
class DemoResult:
    """One conversation, raw and guarded with the same seed. `last_text` is the guarded model's last message."""

    request: str
    raw: Reply | None
    guarded: Reply | None
    report: Report | None
    last_text: str


def run_demo() -> None:
    """Run the demo and print what happened."""
    console = Console(highlight=False)
    console.print(
        "[bold]forge-proxy demo[/]: a 1.35 M parameter test model, temperature 1, each request raw and guarded.\n"
    )
    results = asyncio.run(_try_all())
    table = Table("request", "raw model", "guarded", "what was done", "then, given the result", show_lines=True)
    for case in _select_examples(results):
        done = _describe_steps(case.report) if case.report else ""
        table.add_row(case.request, _describe_reply(case.raw), _describe_reply(case.guarded), done, case.last_text)
    console.print(table)
    raw = sum(is_right(case.raw) for case in results)
    guarded = sum(is_right(case.guarded) for case in results)
    for line in (
        f"\nEach request was sent {_TRIES} times each way; the table shows a try in which the raw model failed.",
        "The two columns are independent tries; 'rescued' names the format that the guarded call was parsed from.",
        f"\nvalid tool calls in {len(results)} requests: raw {raw}, guarded {guarded}\n",
        "Now with your own model and client:",
        "  1. forge-proxy serve --backend-url http://127.0.0.1:8080",
        "  2. export OPENAI_BASE_URL=http://127.0.0.1:8081/v1 OPENAI_API_KEY=none",
    ):
        console.print(line, soft_wrap=True)


def is_right(reply: Reply | None) -> bool:
    """Return whether all calls of a reply name an offered tool and match its schema."""
    return reply is not None and bool(reply.calls) and all(_is_valid(call) for call in reply.calls)


def _is_valid(call: ToolCall) -> bool:
    offered = {tool.name: tool.parameters for tool in decode_request(_body("", 0)).tools}
    args = call.args()
    return call.tool in offered and args is not None and not find_faults(offered[call.tool], args)


async def _try_all() -> list[DemoResult]:
    # Built without the environment, which configures the user's own daemon.
    settings = Settings.model_construct(
        server=ServerConfig(),
        backend=BackendConfig(kind="embedded"),
        budget=BudgetPolicy(),
        sampling=SamplingPolicy(),
        guardrails=GuardPolicy(text_responses="nudge"),
        log=LogConfig(),
    )
    async with daemon.assemble(settings, _ignore_event) as parts:
        await parts.load()
        return [results async for results in _try_each(parts.engine, settings.guardrails)]


async def _try_each(engine: Engine, policy: GuardPolicy) -> AsyncIterator[DemoResult]:
    off = policy.model_copy(update={"enabled": read_switches("off", policy.enabled)})
    for request in REQUESTS:
        for seed in range(_TRIES):
            body = _body(request, seed)
            raw, _ = await _ask(engine, body, off)
            guarded, report = await _ask(engine, body, policy)
            last_text = ""
            if guarded is not None and is_right(guarded):
                last, _ = await _ask(engine, _with_result(body, request, guarded.calls[0]), policy)
                last_text = (last.text if last else None) or ""
            yield DemoResult(request, raw, guarded, report, last_text)


async def _ask(engine: Engine, body: JsonObject, policy: GuardPolicy) -> tuple[Reply | None, Report | None]:
    """Send the request; return the reply and its report, or None for both if it fails."""
    builder = CompletionBuilder()
    report = None
    try:
        async with aclosing(engine.answer(decode_request(body), policy, request_id="demo")) as events:
            async for event in events:
                if isinstance(event, Chunk):
                    builder.add(event)
                elif isinstance(event, Report):
                    report = event
    except ForgeError:
        return None, None
    replies = builder.completion().replies
    return (replies[0] if replies else None), report


def _body(request: str, seed: int) -> dict[str, Json]:
    messages: list[Json] = [{"role": "user", "content": request}]
    return {"messages": messages, "tools": TOOLS, "temperature": 1.0, "seed": seed, "max_tokens": 200}


def _with_result(body: JsonObject, request: str, call: ToolCall) -> JsonObject:
    """Return the conversation after the tool has been executed."""
    function: Json = {"name": call.tool, "arguments": call.arguments}
    messages: list[Json] = [
        {"role": "user", "content": request},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call.id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.tool]},
    ]
    return {**body, "messages": messages}


def _select_examples(results: list[DemoResult]) -> list[DemoResult]:
    """Select one try per request: the first in which the raw model is wrong, else the first."""
    examples: list[DemoResult] = []
    for request in REQUESTS:
        cases = [case for case in results if case.request == request]
        examples.append(next((case for case in cases if not is_right(case.raw)), cases[0]))
    return examples


def _describe_reply(reply: Reply | None) -> str:
    if reply is None:
        return "[red]✗[/] an error"
    summary = "; ".join(f"{call.tool} {call.arguments}" for call in reply.calls)
    if not summary:
        summary = (
            f"text: {reply.text.strip()[:160]}"
            if reply.text
            else f"reasoning only: {(reply.reasoning or '').strip()[:160]}"
        )
    return f"{'[green]✓[/]' if is_right(reply) else '[red]✗[/]'} {escape(summary)}"


def _describe_steps(report: Report) -> str:
    steps = [f"retried: {fault.value.replace('_', ' ')}" for fault in report.faults]
    steps += [
        f"{intervention.kind.value}: {intervention.detail.partition(' at ')[0]}"
        for intervention in report.interventions
    ]
    return escape("\n".join(steps)) or "nothing"


def _ignore_event(_: Event) -> None:
    """Ignore engine events: the demo prints the report itself."""
