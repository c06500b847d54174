"""Admits prompts that are within the context budget, and compacts the others if the policy is `compact`.

A client sends its whole history each time, and the cuts depend on that history alone: the same history is cut in the
same way, so the model server's prefix cache still matches.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cachetools import FIFOCache

from forge_proxy.core.backend_errors import BackendFault, ContextOverflow
from forge_proxy.core.budget_errors import ContextBudgetExceeded
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.compaction import CompactionPlan
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.estimate import Calibration, estimate_prompt_tokens
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_integer, is_object
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.events import ContextCompacted
from forge_proxy.engine.ports import Observer
from forge_proxy.wire.compaction import apply_cuts, classify_messages

CountTokens: TypeAlias = Callable[[ModelCall], Awaitable[int | None]]
_CACHE_SIZE = 256
_RESERVED_TOKENS = 16
"""Tokens that servers reserve at the end of a window or count differently (a judgement, not measured)."""


@dataclass(frozen=True, slots=True)
class PromptSize:
    """Tokens of a whole prompt; estimated unless `exact`."""

    tokens: int
    exact: bool


@dataclass(frozen=True, slots=True)
class CompactedCall:
    """A call as compacted by one phase."""

    call: ModelCall
    plan: CompactionPlan
    indexes: tuple[int, ...]
    """Indexes of the cut messages in the client's messages."""
    prompt: PromptSize


class ContextFitter:
    """Fits calls into the budgets of one backend; `count` counts its tokens. The policy is replaced as a whole."""

    def __init__(
        self, budgets: Budgets, count: CountTokens, observe: Observer, policy: CompactionPolicy | None = None
    ) -> None:
        self._budgets = budgets
        self._count = count
        self._observe = observe
        self._calibrations: FIFOCache[str | None, Calibration] = FIFOCache(_CACHE_SIZE)
        """Calibration of the estimates, by model, for models whose tokens the backend does not count."""
        self.policy = policy or CompactionPolicy()

    async def admit(self, call: ModelCall, request_id: str) -> tuple[ModelCall, ContextCompacted | None]:
        """Return the call, compacted if the policy allows it and the prompt requires it, and the compaction's event.

        Raises `ContextBudgetExceeded` if it is still over the budget. For most calls the only cost is counting their
        bytes; there is none at all if the backend enforces the budget itself.
        """
        limit = await self._budgets.limit_of(call)
        if limit is None:
            return call, None
        prompt = await self.measure(call)
        if prompt.tokens <= limit.tokens:
            return call, None
        best = await self._compact(call, prompt, limit.tokens) if limit.compacts else None
        remaining = best.prompt if best else prompt
        if remaining.tokens > limit.tokens and (remaining.exact or limit.enforced):
            shortened = best.prompt.tokens if best else None
            raise ContextBudgetExceeded(
                prompt.tokens, limit.tokens, limit.reason, exact=prompt.exact, shortened=shortened
            )
        return self._report(best, prompt, request_id) if best else (call, None)

    async def compact_after_overflow(
        self, call: ModelCall, overflow: ContextOverflow, request_id: str
    ) -> tuple[ModelCall, ContextCompacted] | None:
        """Compact a call that the model server has rejected as too long.

        That happens if the window is not known or an estimate was too low. Returns None if the policy does not allow
        compaction or nothing is left to cut.
        """
        if self._budgets.policy_of(call.model.served).overflow != "compact":
            return None
        prompt = await self.measure(call)
        if not prompt.exact and overflow.tokens is not None:  # counted for this very prompt
            self._calibrations[call.model.served] = Calibration.from_count(_estimate(call), overflow.tokens)
            prompt = replace(prompt, tokens=overflow.tokens)
        budget = await self._budgets.of(call.model.served)
        known = [tokens for tokens in (overflow.window, budget.tokens) if tokens is not None]
        best = await self._compact(call, prompt, min([prompt.tokens, *known]))
        return self._report(best, prompt, request_id) if best else None

    async def find_room(self, call: ModelCall, usage: JsonObject) -> int | None:
        """Return the completion tokens that fit beside this prompt, if they exceed those of the response.

        None otherwise, and if the model server does not report its tokens. Raises nothing.
        """
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        budget = await self._budgets.of(call.model.served)
        if budget.tokens is None or not (is_integer(prompt) and is_integer(completion)):
            return None
        room = budget.tokens - prompt - _RESERVED_TOKENS
        return room if room > completion else None

    async def measure(self, call: ModelCall) -> PromptSize:
        """Return the size of a prompt. Raises nothing."""
        try:
            exact = await self._count(call)
        except BackendFault:  # the request itself will raise it
            exact = None
        if exact is not None:
            return PromptSize(exact, exact=True)
        known = self._calibrations.setdefault(call.model.served, Calibration())
        return PromptSize(known.to_tokens(_estimate(call)), exact=False)

    def calibrate(self, call: ModelCall, usage: JsonObject | None) -> None:
        """Calibrate the estimates of a model by the usage that the model server reports for a call."""
        known = self._calibrations.get(call.model.served)
        tokens = usage.get("prompt_tokens") if usage is not None else None
        if known is not None and is_count(tokens):
            self._calibrations[call.model.served] = known.update(_estimate(call), tokens)

    async def compact_in_phases(
        self, call: ModelCall, prompt: PromptSize, policy: CompactionPolicy
    ) -> AsyncGenerator[CompactedCall]:
        """Yield the call as each phase compacts it, the mildest phase first. `prompt` is its current size."""
        strategy = policy.planner
        if strategy is None:
            return
        messages: list[Json] = list(call.request.messages)
        tags = classify_messages(messages)
        last = CompactedCall(call, CompactionPlan(0, (), 0), (), prompt)
        for plan in strategy.plans(tags.messages):
            if len(plan.cuts) == len(last.plan.cuts) and plan.tokens == last.plan.tokens:
                last = replace(last, plan=plan)
            elif plan.cuts:
                shorter = _with_messages(call, apply_cuts(messages, tags, plan.cuts))
                indexes = tuple(tags.places[cut.index] for cut in plan.cuts)
                last = CompactedCall(shorter, plan, indexes, await self.measure(shorter))
            yield last

    async def _compact(self, call: ModelCall, prompt: PromptSize, limit: int) -> CompactedCall | None:
        policy = self.policy
        aim = policy.target_tokens(limit)
        done: list[CompactedCall] = []
        async for phase in self.compact_in_phases(call, prompt, policy):
            done.append(phase)
            if phase.prompt.tokens <= aim:
                break
        return select_phase(done, aim)

    def _report(self, best: CompactedCall, before: PromptSize, request_id: str) -> tuple[ModelCall, ContextCompacted]:
        compacted = ContextCompacted(
            request_id,
            best.call.model.served,
            best.plan.phase,
            len(best.plan.cuts),
            before.tokens,
            best.prompt.tokens,
            exact=before.exact and best.prompt.exact,
        )
        self._observe(compacted)
        return best.call, compacted


def select_phase(phases: Sequence[CompactedCall], aim: int) -> CompactedCall | None:
    """Return the mildest sufficient phase, else the one with the shortest prompt; None if nothing can be cut."""
    candidates = [phase for phase in phases if phase.plan.cuts]
    sufficient = next((phase for phase in candidates if phase.prompt.tokens <= aim), None)
    return sufficient or min(candidates, key=lambda phase: phase.prompt.tokens, default=None)


def _estimate(call: ModelCall) -> int:
    messages, tools, added = call.prompt_parts
    return estimate_prompt_tokens([messages, added], tools)


def _with_messages(call: ModelCall, messages: list[Json]) -> ModelCall:
    body = {**call.request.body, "messages": messages}
    read = tuple(message for message in messages if is_object(message))
    return replace(call, request=replace(call.request, body=body, messages=read))
