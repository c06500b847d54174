"""Response headers that report how a response came about. A stream that has begun sends them in comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.guardrails.report import Report, as_fits
from forge_proxy.engine.events import ContextCompacted

_MAX_TOTAL = 1000
"""Characters for all interventions. Servers and proxies reject headers beyond a few thousand."""
_MAX_EACH = 300
"""Characters for one intervention."""
_INCOMPLETE_ESCAPE = re.compile(r"%[0-9A-F]?\Z")
_SAFE = "".join(letter for letter in map(chr, range(0x20, 0x7F)) if letter not in "%;")


def outcome_headers(report: Report) -> dict[str, str]:
    """Return outcome, attempts, tokens and, as the last ones, interventions if there are any.

    `x-forge-marks` is the former name of `x-forge-interventions`. It is sent until 0.3.
    """
    headers = {"x-forge-outcome": report.outcome.value, "x-forge-attempts": str(report.attempts)}
    if report.tokens is not None:
        headers["x-forge-tokens-spent"] = str(report.tokens)
    return headers | intervention_headers(report.descriptions)


def dropped_headers(request: ChatRequest) -> dict[str, str]:
    """Return the header of a stream that reports, before its outcome is known, what of the request was dropped."""
    return describe_dropped(request.dropped)


def describe_dropped(dropped: Sequence[str]) -> dict[str, str]:
    """Return the header that reports the dropped parts of a request; no header if nothing was dropped."""
    return intervention_headers([f"dropped {what}" for what in dropped])


def compaction_headers(compactions: Sequence[ContextCompacted]) -> dict[str, str]:
    """Return the header that reports how the context was compacted; empty if it was not."""
    value = ", ".join(_describe(compaction) for compaction in compactions)
    return {"x-forge-compacted": value} if value else {}


def headers_as_text(headers: Mapping[str, str]) -> str:
    """Return headers on one line, for a comment. Those whose value may contain spaces are the last ones."""
    return " ".join(f"{name}={value}" for name, value in headers.items())


def intervention_headers(descriptions: Sequence[str]) -> dict[str, str]:
    """Return the header of interventions under its current and its former name; no header if there are none."""
    if not descriptions:
        return {}
    interventions = "; ".join(as_fits([_to_ascii(text) for text in descriptions], _MAX_TOTAL))
    return dict.fromkeys(("x-forge-interventions", "x-forge-marks"), interventions)


def _describe(one: ContextCompacted) -> str:
    about = "" if one.exact else "about "
    return f"phase={one.phase}; messages={one.cut}; tokens={about}{one.tokens_before}->{one.tokens_after}"


def _to_ascii(text: str) -> str:
    """Encode text for a header: the daemon's own symbols in ASCII, anything else that a model wrote in percent."""
    spelled = text.replace("→", "->").replace("…", "...")
    encoded = quote(spelled, safe=_SAFE, errors="backslashreplace")
    return encoded if len(encoded) <= _MAX_EACH else f"{_INCOMPLETE_ESCAPE.sub('', encoded[:_MAX_EACH])}..."
