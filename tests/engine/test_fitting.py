"""Prompts over the budget: compacted as far as necessary, rejected if that is not enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from forge_proxy.core.backend_errors import ContextOverflow
from forge_proxy.core.budget import BudgetMode, BudgetPolicy, WindowSizing
from forge_proxy.core.budget_errors import ContextBudgetExceeded
from forge_proxy.core.chat import ChatRequest, ModelCall
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.context_fitting import ContextFitter
from forge_proxy.engine.events import ContextCompacted, Event
from tests.engine.test_budgets import Server
from tests.fakes.scripted import StillClock


@dataclass
class Counting(Server):
    """Counts a token for four characters of content, and a hundred tokens for the tools."""

    async def count_tokens(self, call: ModelCall) -> int | None:
        self.counted += 1
        said = sum(len(str(message["content"])) for message in call.request.messages)
        return said // 4 + 100 if self.counts else None


JsonDict = dict[str, Any]


def turns(*lengths: int) -> list[JsonDict]:
    """A question, and for each number a call with a result of this many characters."""
    messages: list[JsonDict] = [{"role": "user", "content": "Look."}]
    for number, length in enumerate(lengths):
        calls = [{"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "x" * length})
    return messages


def asking(messages: list[JsonDict]) -> ModelCall:
    return ModelCall(ChatRequest({"messages": [*messages], "seed": 7}, messages=tuple(messages)), stream=False)


def fitting(
    server: Server,
    tokens: int | None = 1000,
    overflow: Any = "compact",
    heard: list[Event] | None = None,
    **policy: Any,
) -> ContextFitter:
    mode = BudgetMode.BACKEND if tokens is None else BudgetMode.MANUAL
    wish = BudgetPolicy(mode=mode, tokens=tokens, overflow=overflow)
    budgets = Budgets(server, StillClock(), lambda _: None, wish, WindowSizing())
    observe = (heard if heard is not None else []).append
    return ContextFitter(budgets, server.count_tokens, observe, CompactionPolicy(**policy))


def contents(call: ModelCall) -> list[int]:
    """The lengths of the results."""
    return [len(str(m["content"])) for m in call.request.messages if m["role"] == "tool"]


TRUNCATED, REPLACED = 233, 32


@pytest.mark.parametrize(
    ("lengths", "left", "phase"),
    [
        ((4000, 800, 800), [TRUNCATED, 800, 800], 1),
        ((*[1000] * 10, 400, 400), [*[REPLACED] * 10, 400, 400], 2),
    ],
)
async def test_a_history_over_the_budget_is_cut_to_leave_room_for_the_response(
    lengths: tuple[int, ...], left: list[int], phase: int
) -> None:
    heard: list[Event] = []
    call, compacted = await fitting(Counting(), heard=heard).admit(asking(turns(*lengths)), "r")

    assert contents(call) == left
    before, after = sum(lengths) // 4 + 101, sum(left) // 4 + 101
    assert compacted == ContextCompacted("r", None, phase, len(lengths) - 2, before, after, exact=True)
    assert after <= 750
    assert heard == [compacted]
    assert call.request.body == {"messages": list(call.request.messages), "seed": 7}


async def test_a_call_within_the_budget_is_not_changed() -> None:
    call = asking(turns(1400, 800, 800))  # 850 tokens: over the threshold, but not over the budget

    assert await fitting(Counting()).admit(call, "r") == (call, None)


@pytest.mark.parametrize(("overflow", "strategy"), [("reject", "tiered"), ("compact", "none")])
async def test_a_history_over_the_budget_is_rejected_if_compaction_is_off(overflow: str, strategy: str) -> None:
    with pytest.raises(ContextBudgetExceeded, match="resulted in 1501 tokens"):
        await fitting(Counting(), overflow=overflow, strategy=strategy).admit(asking(turns(4000, 800, 800)), "r")


async def test_recent_messages_are_not_cut_and_the_error_states_the_remaining_tokens() -> None:
    with pytest.raises(ContextBudgetExceeded, match=r"2101 tokens\. After compaction they still have 1109 tokens"):
        await fitting(Counting()).admit(asking(turns(4000, 2000, 2000)), "r")


async def test_histories_are_compacted_to_a_window_that_the_server_enforces() -> None:
    call, compacted = await fitting(Counting(window=1000), tokens=None).admit(asking(turns(4000, 800, 800)), "r")

    assert (contents(call), compacted is not None) == ([TRUNCATED, 800, 800], True)


async def test_a_sliding_window_drops_whole_turns() -> None:
    call, _ = await fitting(Counting(), strategy="sliding").admit(asking(turns(4000, 800, 800)), "r")

    assert contents(call) == [800, 800]


async def test_a_compacted_call_is_not_compacted_again_when_it_is_retried() -> None:
    server = Counting()
    fit = fitting(server)
    call, _ = await fit.admit(asking(turns(4000, 800, 800)), "r")

    assert await fit.admit(call, "r") == (call, None)


async def test_estimates_are_calibrated_by_the_reported_usage() -> None:
    fit = fitting(Counting(counts=False))
    call = asking(turns(2000, 400, 400))
    assert await fit.admit(call, "r") == (call, None)

    fit.calibrate(call, {"prompt_tokens": 1500})
    shorter, compacted = await fit.admit(call, "r")

    assert contents(shorter) == [TRUNCATED, 400, 400]
    assert compacted is not None
    assert (compacted.tokens_before, compacted.exact) == (1500, False)


async def test_a_call_rejected_by_the_server_is_compacted_below_the_window_in_its_error() -> None:
    fit = fitting(Counting(window=None, counts=False), tokens=None)
    call = asking(turns(4000, 800, 800))
    assert await fit.admit(call, "r") == (call, None)
    refused = ContextOverflow("http://model", 400, None, tokens=1600, window=1000)

    done = await fit.compact_after_overflow(call, refused, "r")

    assert done is not None
    assert (contents(done[0]), done[1].tokens_before) == ([TRUNCATED, 800, 800], 1600)
    again = await fit.compact_after_overflow(done[0], refused, "r")  # the estimate was too low even so
    assert again is not None
    assert contents(again[0]) == [REPLACED, 800, 800]
    assert await fit.compact_after_overflow(again[0], refused, "r") is None


async def test_a_call_rejected_by_the_server_is_an_error_if_compaction_is_off() -> None:
    fit = fitting(Counting(), overflow="reject")

    assert (
        await fit.compact_after_overflow(asking(turns(4000)), ContextOverflow("http://model", 400, None), "r") is None
    )
