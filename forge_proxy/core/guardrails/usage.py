"""The token counts of all attempts of a request, and the `usage` that the client receives."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.estimate import estimate_text_tokens, estimate_tokens
from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.guardrails.verdict import FinalAnswer, Intervention
from forge_proxy.core.jsontypes import Json, JsonObject, is_count, is_object

ESTIMATED = Intervention(Outcome.CLEAN, "", "estimated the usage, which the model server did not report")


class TokenUsage:
    """Collects the usage of each attempt, as the backend counts it. A count that the backend omits is not estimated."""

    def __init__(self) -> None:
        self._own: JsonObject | None = None
        self._last: JsonObject | None = None
        self.tokens = 0
        """All tokens of all attempts, prompts included."""

    def add(self, usage: JsonObject, *, corrected: bool = False) -> None:
        """Add the usage of the next attempt. `corrected` means that its prompt contained corrections."""
        self._last = usage
        if not corrected:
            self._own = usage
        self.add_discarded(usage)

    def add_discarded(self, usage: JsonObject) -> None:
        """Add the usage of a response that was not passed on, such as a draft."""
        total = usage.get("total_tokens")
        self.tokens += total if is_count(total) else 0

    @property
    def completion_tokens(self) -> int | None:
        """Completion tokens of the delivered attempt."""
        count = self._last.get("completion_tokens") if self._last else None
        return count if is_count(count) else None

    def usage(self, respond_tokens: int = 0) -> JsonObject | None:
        """Return the delivered attempt's usage with the prompt tokens of the client's own prompt.

        Agents size their context by it. The prompt of the delivered attempt may also contain failed responses and
        corrections, which the client never sees, and `respond_tokens` tokens of the respond tool.
        """
        own = self._own or self._last
        if own is None or self._last is None or (own is self._last and not respond_tokens):
            return self._last
        usage: dict[str, Json] = {**self._last}
        prompt, details = own.get("prompt_tokens"), own.get("prompt_tokens_details")
        if is_count(prompt):
            usage["prompt_tokens"] = prompt = max(0, prompt - respond_tokens)
            usage["total_tokens"] = prompt + (self.completion_tokens or 0)
        if is_object(details):
            usage["prompt_tokens_details"] = _without(details, respond_tokens)
        return usage


def estimate_usage(request: ChatRequest, answers: Sequence[FinalAnswer], reasoning: str) -> JsonObject:
    """Return the usage of a whole response whose model server reported none.

    Attempts are streamed, and some servers report the usage only of responses that are not. A client that asked for a
    whole response relies on the field: smolagents fails without it.
    """
    prompt = estimate_tokens([*request.messages], request.body.get("tools"))
    texts = [answer.text or "" for answer in answers]
    calls = [call.tool + call.arguments for answer in answers for call in answer.calls]
    completion = estimate_text_tokens(sum(map(len, (*texts, *calls, reasoning))))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _without(details: JsonObject, respond_tokens: int) -> JsonObject:
    """Return the prompt details without the respond tool, which precedes the conversation and is cached with it."""
    cached = details.get("cached_tokens")
    return (
        {**details, "cached_tokens": max(0, cached - respond_tokens)}
        if respond_tokens and is_count(cached)
        else details
    )
