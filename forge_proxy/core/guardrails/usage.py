"""What the attempts of one request cost, and what of it the caller is told as usage."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, JsonObject, is_integer


class Spent:
    """Fed the usage of each attempt. Tokens as the backend counts them; what it does not say is not made up."""

    def __init__(self) -> None:
        self._first: JsonObject | None = None
        self._last: JsonObject | None = None
        self.tokens = 0
        """All tokens of all attempts, prompts included."""

    def add(self, usage: JsonObject) -> None:
        """Take in the usage of one attempt, after those before it."""
        self._first = self._first or usage
        self._last = usage
        total = usage.get("total_tokens")
        self.tokens += total if is_integer(total) else 0

    @property
    def completion_tokens(self) -> int | None:
        """Completion tokens of the delivered attempt."""
        count = self._last.get("completion_tokens") if self._last else None
        return count if is_integer(count) else None

    def usage(self) -> JsonObject | None:
        """The delivered attempt against the caller's own prompt: harnesses size their context by it.

        The prompt of a later attempt holds failed answers and corrections that the caller never sees.
        """
        if self._first is None or self._last is None or self._first is self._last:
            return self._last
        usage: dict[str, Json] = {**self._last}
        prompt = self._first.get("prompt_tokens")
        if is_integer(prompt):
            usage["prompt_tokens"] = prompt
            usage["total_tokens"] = prompt + (self.completion_tokens or 0)
        if "prompt_tokens_details" in self._first:
            usage["prompt_tokens_details"] = self._first["prompt_tokens_details"]
        return usage
