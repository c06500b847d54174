"""`/admin/v1/compaction`: how histories are shortened that are over the budget, and what that would do to one."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forge_proxy.core.budget import LARGEST, SMALLEST
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.compaction import What
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import GuardPolicy, open_turn
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.messages import MessageType
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.context_fitting import CompactedCall, select_phase
from forge_proxy.engine.live_value import LiveValue
from forge_proxy.wire.clients.chat_completions.request import decode_request


class Compaction(BaseModel):
    """The policy, and whether it does anything."""

    policy: CompactionPolicy
    acts: bool = Field(description="Whether contexts are compacted, which they are if budget.overflow is compact.")
    note: str


_OF_NO_MATTER = frozenset({
    "audio", "chat_template_kwargs", "frequency_penalty", "function_call", "functions", "guided_json",
    "keep_alive", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "metadata", "min_p",
    "modalities", "n", "options", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key",
    "prompt_cache_retention", "reasoning", "reasoning_effort", "repeat_penalty", "repetition_penalty",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
    "temperature", "think", "thinking", "tool_choice", "top_k", "top_logprobs", "top_p", "user", "verbosity",
    "web_search_options",
})  # fmt: skip
"""Fields of chat completion requests, OpenAI's and of usual model servers, that cut nothing of a history."""


class PreviewRequest(BaseModel):
    """A history, as in a chat completion request. A whole request works too: its other fields are ignored."""

    model_config = ConfigDict(extra="forbid")

    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="The tools, which count as tokens too."
    )
    model: str | None = Field(
        default=None, description="The model whose tokenizer and budget count; default: the one that is served."
    )
    budget_tokens: int | None = Field(
        default=None, ge=SMALLEST, le=LARGEST, description="Used instead of the model's budget."
    )
    policy: CompactionPolicy | None = Field(default=None, description="Used instead of the current policy.")

    @model_validator(mode="before")
    @classmethod
    def _pass_over(cls, said: object) -> object:
        """Fields that are neither a request's nor ours stay, and are refused: they are mistyped."""
        if not is_object(said):
            return said
        return {name: value for name, value in said.items() if name not in _OF_NO_MATTER and value is not None}


class CutPreview(BaseModel):
    """One message that is cut."""

    message: int = Field(description="Its place in `messages`, from 0.")
    type: MessageType
    what: What
    tokens_saved: int = Field(description="Estimated.")
    why: str
    content: str | None = Field(description="Its content after the compaction; null if the message is dropped.")


class PhasePreview(BaseModel):
    """What one phase and the phases before it cut."""

    phase: int
    tokens: int
    fits: bool = Field(description="Whether the prompt then fits into the budget.")
    cuts: list[CutPreview]


class Preview(BaseModel):
    """What `budget.overflow: compact` would do to a history, whether or not it is set."""

    policy: CompactionPolicy
    budget_tokens: int
    aim_tokens: int = Field(description="The target of a compaction: `threshold` of the budget.")
    tokens: int = Field(description="Tokens of the prompt before the compaction, tools included.")
    exact: bool = Field(description="Whether the model server counted the tokens; otherwise they are estimated.")
    phases: list[PhasePreview]
    used: int | None = Field(description="The phase that would be used; null if nothing would be cut.")
    fits: bool = Field(description="Whether the compacted prompt fits into the budget; otherwise the request is a 400.")
    messages: list[dict[str, Any]] = Field(description="The history as it would be sent.")


class CompactionEndpoints:
    """The endpoints. Tools are counted as with the guardrails that hold."""

    def __init__(self, engine: Engine, guardrails: LiveValue[GuardPolicy]) -> None:
        self._engine = engine
        self._guardrails = guardrails

    async def read(self) -> Compaction:
        """Show the policy, and whether it is used."""
        policy, overflow = self._engine.fitting.policy, self._engine.budgets.policy.overflow
        acts = overflow == "compact" and policy.strategy != "none"
        note = "histories over the budget are shortened" if acts else "histories are not changed"
        if overflow != "compact":
            note += f": budget.overflow is {overflow}, and only compact shortens"
        return Compaction(policy=policy, acts=acts, note=note)

    async def choose(self, policy: CompactionPolicy) -> Compaction:
        """Replace the policy, from the next request on."""
        self._engine.fitting.policy = policy
        return await self.read()

    async def preview(self, asked: PreviewRequest) -> Preview:
        """Show what each phase would cut of a history, and why. Nothing is generated or changed."""
        policy = asked.policy or self._engine.fitting.policy
        call = await self._call(asked)
        limit = asked.budget_tokens or (await self._engine.budgets.of(call.model.served)).tokens
        if limit is None:
            raise InvalidRequest("budget_tokens", "the model server does not tell its window: say how many tokens")
        prompt = await self._engine.fitting.measure(call)
        phases = [phase async for phase in self._engine.fitting.compact_in_phases(call, prompt, policy)]
        aim = policy.target_tokens(limit)
        best = select_phase(phases, aim) if prompt.tokens > limit else None
        left, after = (best.prompt, best.call.request) if best else (prompt, call.request)
        return Preview(
            policy=policy,
            budget_tokens=limit,
            aim_tokens=aim,
            tokens=prompt.tokens,
            exact=prompt.exact,
            phases=[_shown(phase, limit) for phase in phases],
            used=best.plan.phase if best else None,
            fits=left.tokens <= limit,
            messages=[dict(message) for message in after.messages],
        )

    async def _call(self, asked: PreviewRequest) -> ModelCall:
        """The call that the model server would be asked first."""
        body: dict[str, Json] = {"messages": [*asked.messages], "tools": [*asked.tools], "model": asked.model}
        request = decode_request({name: value for name, value in body.items() if value})
        turn = open_turn(request, self._guardrails.now, request_id="preview", nudge_text=False)
        model = await self._engine.models.resolve(request.model)
        return ModelCall(request, stream=False, respond=turn.respond if turn else None, resolved=model)


def _shown(phase: CompactedCall, limit: int) -> PhasePreview:
    cuts = [
        CutPreview(
            message=place,
            type=cut.type,
            what=cut.what,
            tokens_saved=cut.saved,
            why=cut.why,
            content=cut.instead.content if cut.instead else None,
        )
        for place, cut in zip(phase.indexes, phase.plan.cuts, strict=True)
    ]
    return PhasePreview(
        phase=phase.plan.phase, tokens=phase.prompt.tokens, fits=phase.prompt.tokens <= limit, cuts=cuts
    )
