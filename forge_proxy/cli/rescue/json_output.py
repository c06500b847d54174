"""Renders findings for programs, as one JSON object.

Renamed fields have their former names as well until 0.3: `reading`, `thoughts`, `said`, `in_thoughts`, `marks`, `what`,
`why`, `in_words`, `says`, and `does` with its former values.
"""

from __future__ import annotations

import json

from forge_proxy.cli.rescue.candidates import RejectedCandidate
from forge_proxy.cli.rescue.findings import Findings, FoundCall
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.cli.rescue.verdicts import corrections_in, describe_verdict
from forge_proxy.core.guardrails import Accept, FinalAnswer, GiveUp, Intervention, Outcome, Retry, Turn, Verdict
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import ToolCall


def to_json(findings: Findings) -> str:
    """Return all findings as JSON."""
    return json.dumps(to_fields(findings), indent=2)


def to_fields(findings: Findings) -> dict[str, Json]:
    """Return all findings as a JSON object."""
    extraction = findings.extraction
    parser = "thorough" if findings.is_thorough else "quick"
    return {
        "parser": parser,
        "reading": parser,
        "calls": [_call(call) for call in findings.calls],
        "text": extraction.text,
        "reasoning": extraction.reasoning,
        "thoughts": extraction.reasoning,
        "broken": extraction.broken,
        "not_calls": [_encode_rejected(candidate) for candidate in findings.rejected],
        "verdict": _verdict(findings.turn, findings.verdict),
    }


def _call(call: FoundCall) -> Json:
    written_name, is_in_reasoning = call.call.tool, call.is_in_reasoning
    out: dict[str, Json] = {"tool": call.tool, "written_name": written_name}
    if found := call.recovered:
        repairs: list[Json] = [*found.repairs]
        out |= {"form": found.form, "explicit": found.explicit, "open": found.open, "repairs": repairs}
    out |= {"place": _span(call.span) if call.span else None, "in_reasoning": is_in_reasoning}
    out |= {"typed_by_schema": [*call.typed_arguments], "by_position": [*call.positional_arguments]}
    match call.checked:
        case Problem(fault, written, reasons):
            out |= {"arguments": _arguments(written), "check": "invalid", "fault": fault.value, "reasons": [*reasons]}
        case (delivered, interventions):
            details: list[Json] = [each.detail for each in interventions]
            out |= {"arguments": _arguments(delivered), "check": _check_result(interventions)}
            out |= {"interventions": details, "marks": details}
    return {**out, "said": written_name, "in_thoughts": is_in_reasoning}


def _encode_rejected(candidate: RejectedCandidate) -> Json:
    description, reason = candidate.description, candidate.reason
    names = {"description": description, "reason": reason, "what": description, "why": reason}
    return {**_span(candidate.span), **names}


def _check_result(interventions: tuple[Intervention, ...]) -> str:
    if any(each.kind is Outcome.REPAIRED for each in interventions):
        return "repaired"
    return "unchecked" if interventions else "valid"


def _arguments(call: ToolCall) -> Json:
    """Return the arguments as an object, or as text if they are not an object."""
    args = call.args()
    return call.arguments if args is None else args


def _span(span: TextSpan) -> dict[str, Json]:
    return {"start": span.start, "end": span.end, "line": span.line, "column": span.column}


def _verdict(turn: Turn, verdict: Verdict) -> dict[str, Json]:
    summary = describe_verdict(turn, verdict)
    names: dict[str, Json] = {"summary": summary, "in_words": summary}
    match verdict:
        case Accept(answer):
            return {"action": "deliver", **_final_answer(answer), **names, "does": "hand out"}
        case Retry(_, fault):
            corrections: list[Json] = [*corrections_in(verdict)]
            retry: dict[str, Json] = {"action": "retry", "fault": fault.value, "corrections": corrections}
            return {**retry, **names, "does": "ask again", "says": corrections}
        case GiveUp(fault, answer, error):
            if answer is None:
                return {"action": "fail", "fault": fault.value, "error": str(error), **names, "does": "fail"}
            return {"action": "give_up", "fault": fault.value, **_final_answer(answer), **names, "does": "give up"}


def _final_answer(answer: FinalAnswer) -> dict[str, Json]:
    calls: list[Json] = [{"tool": call.tool, "arguments": call.arguments} for call in answer.calls]
    return {"outcome": answer.outcome.value, "text": answer.text, "calls": calls}
