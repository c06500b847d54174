"""Encodes `reasoning_effort`, or Anthropic's own fields, in the form that the model supports."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.wire.backends.anthropic.capabilities import ModelFacts

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
"""Thinking tokens for models with a budget instead of an effort; 1024 is the API's minimum. LiteLLM's up to `high`."""
_MIN_RESPONSE = 1024
"""Completion tokens that the budget leaves for the response."""


def encode_thinking(body: JsonObject, facts: ModelFacts, limit: int, *, may_budget: bool) -> dict[str, Json]:
    """Return the fields `thinking` and `output_config.effort`. Anthropic's own fields are forwarded unchanged.

    `limit` is the maximum of completion tokens; `may_budget` is whether the server accepts the history with a budget.
    """
    out: dict[str, Json] = {}
    if is_object(own := body.get("output_config")):
        out["output_config"] = dict(own)
    if is_object(own := body.get("thinking")):
        return {**out, "thinking": own}
    effort = _read_effort(body)
    if effort == "none":
        return {**out, "thinking": {"type": "disabled"}} if "disabled" in facts.thinking else out
    if effort not in _BUDGETS:
        return out
    if not facts.thinking or "adaptive" in facts.thinking:
        # Without "summarized", some models return empty reasoning.
        out["thinking"] = {"type": "adaptive", "display": "summarized"}
        return {**out, "output_config": {"effort": _nearest(effort, facts), **_object(out.get("output_config"))}}
    budget = min(_BUDGETS[effort], limit - _MIN_RESPONSE)
    if "enabled" in facts.thinking and may_budget and budget >= _BUDGETS["minimal"]:
        out["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return out


def _read_effort(body: JsonObject) -> str | None:
    effort = body.get("reasoning_effort")
    if effort is None and is_object(reasoning := body.get("reasoning")):  # OpenRouter's field
        effort = reasoning.get("effort")
    return effort if isinstance(effort, str) else None


def _nearest(effort: str, facts: ModelFacts) -> str:
    """Return the effort, or the next lower one that the model supports."""
    index = _EFFORTS.index(effort) if effort in _EFFORTS else 0
    known = [name for name in _EFFORTS[: index + 1] if not facts.efforts or name in facts.efforts]
    return known[-1] if known else _EFFORTS[0]


def _object(value: Json) -> JsonObject:
    return value if is_object(value) else {}
