"""The last section of a retry: what the checks have found, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forge_proxy.core.tasks.findings import Finding
from forge_proxy.core.tasks.prompt.source_context import render_source_context

MAX_CHARACTERS = 32_000
"""The length of the section: 8,000 tokens of four characters."""
_NOTE = "The previous attempt was discarded: the files above are those from before it. Do not repeat these errors."

_EDITS_NOTE = (
    "These edits of your response could not be applied. All others are applied, and the files above contain them."
    " Respond with corrected versions of these edits only."
)


def render_errors(findings: Sequence[Finding], failed: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """Return the section, or an empty text if there is nothing to report.

    `failed` has the contents of the files as they were checked. `notes` are comments of a person, which come first.
    """
    if not findings and not notes:
        return ""
    parts = [f"A reviewer writes: {note}" for note in notes]
    if findings:
        parts.append(_NOTE)
    length, omitted = sum(map(len, parts)), 0
    for finding in findings:
        part = _render_finding(finding, failed)
        if length + len(part) > MAX_CHARACTERS:
            omitted += 1
            continue
        length += len(part) + 2
        parts.append(part)
    if omitted:
        parts.append(f"({omitted} more findings are not shown.)")
    return "\n\n".join(parts)


def render_failed_edits(faults: Sequence[Finding]) -> str:
    """Return the section of a request for edits that could not be applied; the others are in the files already."""
    parts = [_EDITS_NOTE, *(f"- {fault.path}: {fault.message}" for fault in faults)]
    return "\n\n".join(parts)[:MAX_CHARACTERS]


def _render_finding(finding: Finding, failed: Mapping[str, str]) -> str:
    text = f"- [{finding.check}] {finding}"
    source = failed.get(finding.path or "")
    if source is None or finding.line is None:
        return text
    context = render_source_context(source, finding.line)
    return text if context is None else f"{text}\n\n```\n{context}\n```"
