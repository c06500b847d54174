"""`/admin/v1/compaction`: how contexts over the budget are compacted, and a preview for one."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forge_proxy.api.admin.former_names import former_field
from forge_proxy.core.budget import MAX_TOKENS, MIN_TOKENS
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.compaction import CutKind
from forge_proxy.core.compaction.policy import CompactionPolicy
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import open_turn
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.messages import MessageType
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.context_fitting import CompactedCall, select_phase
from forge_proxy.wire.clients.chat_completions.request import decode_request


class Compaction(BaseModel):
    """The policy, and whether it is used."""

    policy: CompactionPolicy
    active: bool = Field(description="Whether contexts are compacted, which they are if budget.overflow is compact.")
    note: str
    acts = former_field("active", bool)


_IGNORED_FIELDS = frozenset({
    "audio", "chat_template_kwargs", "frequency_penalty", "function_call", "functions", "guided_json",
    "keep_alive", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "metadata", "min_p",
    "modalities", "n", "options", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key",
    "prompt_cache_retention", "reasoning", "reasoning_effort", "repeat_penalty", "repetition_penalty",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
    "temperature", "think", "thinking", "tool_choice", "top_k", "top_logprobs", "top_p", "user", "verbosity",
    "web_search_options",
})  # fmt: skip
"""Fields of chat completion requests, of OpenAI and of common model servers, that do not affect a compaction."""


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
        default=None, ge=MIN_TOKENS, le=MAX_TOKENS, description="Used instead of the model's budget."
    )
    policy: CompactionPolicy | None = Field(default=None, description="Used instead of the current policy.")

    @model_validator(mode="before")
    @classmethod
    def _drop_ignored(cls, body: object) -> object:
        """Drop the other fields of a request. Unknown fields stay and are rejected: they are mistyped."""
        if not is_object(body):
            return body
        return {name: value for name, value in body.items() if name not in _IGNORED_FIELDS and value is not None}


class CutPreview(BaseModel):
    """One message that is cut."""

    message: int = Field(description="Its place in `messages`, from 0.")
    type: MessageType
    action: CutKind
    tokens_saved: int = Field(description="Estimated.")
    reason: str
    content: str | None = Field(description="Its content after the compaction; null if the message is dropped.")
    what = former_field("action", CutKind)
    why = former_field("reason", str)


class PhasePreview(BaseModel):
    """The cuts of one phase and the phases before it."""

    phase: int
    tokens: int
    fits: bool = Field(description="Whether the prompt then fits into the budget.")
    cuts: list[CutPreview]


class Preview(BaseModel):
    """The effect of `budget.overflow: compact` on a history, whether or not it is set."""

    policy: CompactionPolicy
    budget_tokens: int
    target_tokens: int = Field(description="The target of a compaction: `threshold` of the budget.")
    tokens: int = Field(description="Tokens of the prompt before the compaction, tools included.")
    exact: bool = Field(description="Whether the model server counted the tokens; otherwise they are estimated.")
    phases: list[PhasePreview]
    used: int | None = Field(description="The phase that would be used; null if nothing would be cut.")
    fits: bool = Field(description="Whether the compacted prompt fits into the budget; otherwise the request is a 400.")
    messages: list[dict[str, Any]] = Field(description="The history as it would be sent.")
    aim_tokens = former_field("target_tokens", int)


class CompactionEndpoints:
    """The endpoints of `/compaction`. Tools are counted with the current guardrails."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self) -> Compaction:
        """Show the policy, and whether it is used."""
        policy, overflow = self._engine.policies.compaction, self._engine.policies.budget.overflow
        active = overflow == "compact" and policy.strategy != "none"
        note = "histories over the budget are compacted" if active else "histories are not changed"
        if overflow != "compact":
            note += f": budget.overflow is {overflow}, not compact"
        return Compaction(policy=policy, active=active, note=note)

    async def choose(self, policy: CompactionPolicy) -> Compaction:
        """Replace the policy, from the next request on."""
        await self._engine.apply(compaction=policy)
        return await self.read()

    async def preview(self, body: PreviewRequest) -> Preview:
        """Show what each phase would cut of a history, and why. Nothing is generated or changed."""
        policy = body.policy or self._engine.policies.compaction
        call = await self._call(body)
        limit = body.budget_tokens or (await self._engine.budgets.of(call.model.served)).tokens
        if limit is None:
            raise InvalidRequest(
                "budget_tokens", "the model server does not report its window; set the number of tokens"
            )
        prompt = await self._engine.fitting.measure(call)
        phases = [phase async for phase in self._engine.fitting.compact_in_phases(call, prompt, policy)]
        target = policy.target_tokens(limit)
        best = select_phase(phases, target) if prompt.tokens > limit else None
        left, after = (best.prompt, best.call.request) if best else (prompt, call.request)
        return Preview(
            policy=policy,
            budget_tokens=limit,
            target_tokens=target,
            tokens=prompt.tokens,
            exact=prompt.exact,
            phases=[_to_phase_preview(phase, limit) for phase in phases],
            used=best.plan.phase if best else None,
            fits=left.tokens <= limit,
            messages=[dict(message) for message in after.messages],
        )

    async def _call(self, preview: PreviewRequest) -> ModelCall:
        """Return the first call that the model server would receive."""
        body: dict[str, Json] = {"messages": [*preview.messages], "tools": [*preview.tools], "model": preview.model}
        request = decode_request({name: value for name, value in body.items() if value})
        turn = open_turn(request, self._engine.policies.guardrails, request_id="preview", nudge_text=False)
        model = await self._engine.models.resolve(request.model)
        return ModelCall(request, stream=False, respond=turn.respond if turn else None, resolved=model)


def _to_phase_preview(phase: CompactedCall, limit: int) -> PhasePreview:
    cuts = [
        CutPreview(
            message=place,
            type=cut.type,
            action=cut.kind,
            tokens_saved=cut.saved,
            reason=cut.reason,
            content=cut.replacement.content if cut.replacement else None,
        )
        for place, cut in zip(phase.indexes, phase.plan.cuts, strict=True)
    ]
    return PhasePreview(
        phase=phase.plan.phase, tokens=phase.prompt.tokens, fits=phase.prompt.tokens <= limit, cuts=cuts
    )
