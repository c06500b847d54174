"""What the guardrails were worth in a period, in one sentence."""

from __future__ import annotations

from forge_proxy.core.requests.ledger import RequestCounts

_DAY = 86400


def describe_effect(counts: RequestCounts, seconds: float) -> str:
    """Return the sentence for a period of that many seconds."""
    period = _describe_period(seconds)
    if not counts.judged:
        return f"No request with tools was completed in {period}."
    judged, recovered = counts.judged, counts.recovered
    requests = "1 request" if judged == 1 else f"{judged:,} requests"
    if not recovered:
        return f"In {period} the guardrails recovered none of {requests} with tools; {_failures(counts)}"
    share = f"{100 * recovered / judged:.1f} %"
    cost = f"{100 * counts.retry_tokens / counts.tokens:.1f} %" if counts.tokens else "0 %"
    return (
        f"In {period} the guardrails recovered {recovered:,} of {requests} with tools ({share}), {counts.repaired:,}"
        f" of them without a retry, for {cost} of all tokens; {_failures(counts)}"
    )


def _failures(counts: RequestCounts) -> str:
    if not counts.exhausted:
        return "no request ended without a valid response."
    ended = "1 request" if counts.exhausted == 1 else f"{counts.exhausted:,} requests"
    return f"{ended} ended without a valid response."


def _describe_period(seconds: float) -> str:
    days = round(seconds / _DAY)
    if days >= 2:
        return f"the last {days} days"
    hours = max(1, round(seconds / 3600))
    return f"the last {hours} hours" if hours > 1 else "the last hour"
