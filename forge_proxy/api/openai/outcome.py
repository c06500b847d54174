"""What a caller is told of how an answer came about: headers of a whole one, a comment at the end of a stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from forge_proxy.core.guardrails.report import Report, as_fits
from forge_proxy.engine.events import ContextCompacted

_ROOM = 1000
"""Characters for all that was done. Servers and proxies refuse headers beyond a few thousand."""
_LONGEST = 300
"""Characters for one thing done."""
_HALF_ENCODED = re.compile(r"%[0-9A-F]?\Z")
_SAFE = "".join(letter for letter in map(chr, range(0x20, 0x7F)) if letter not in "%;")


def outcome_headers(report: Report) -> dict[str, str]:
    """The headers, `x-forge-marks` last: it may hold spaces, and is left out where nothing was done to a call."""
    told = {"x-forge-outcome": report.outcome.value, "x-forge-attempts": str(report.attempts)}
    if report.tokens is not None:
        told["x-forge-tokens-spent"] = str(report.tokens)
    if report.interventions:
        told["x-forge-marks"] = "; ".join(as_fits([_in_ascii(words) for words in report.descriptions], _ROOM))
    return told


def compacted_header(done: Sequence[ContextCompacted]) -> dict[str, str]:
    """The header that says by how much the history was shortened; none where it was not."""
    told = ", ".join(_shortened(one) for one in done)
    return {"x-forge-compacted": told} if told else {}


def _shortened(one: ContextCompacted) -> str:
    about = "" if one.exact else "about "
    return f"phase={one.phase}; messages={one.cut}; tokens={about}{one.tokens_before}->{one.tokens_after}"


def outcome_comment(report: Report) -> str:
    """The same on one line; what stands behind `x-forge-marks=` goes to its end."""
    return " ".join(f"{name}={value}" for name, value in outcome_headers(report).items())


def _in_ascii(words: str) -> str:
    """Words that a header can hold: our own signs spelled out, what else a model wrote percent-encoded."""
    spelled = words.replace("→", "->").replace("…", "...")
    encoded = quote(spelled, safe=_SAFE, errors="backslashreplace")
    return encoded if len(encoded) <= _LONGEST else f"{_HALF_ENCODED.sub('', encoded[:_LONGEST])}..."
