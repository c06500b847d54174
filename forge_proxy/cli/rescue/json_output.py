"""Renders findings for programs, as one JSON object."""

from __future__ import annotations

import json

from forge_proxy.cli.rescue.findings import Findings, FoundCall
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.cli.rescue.verdicts import corrections_in, describe_verdict
from forge_proxy.core.guardrails import Accept, FinalAnswer, GiveUp, Intervention, Outcome, Retry, Verdict
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import ToolCall


def to_json(findings: Findings) -> str:
    """Return all findings as JSON."""
    extraction = findings.extraction
    rejected: list[Json] = [{**_span(one.span), "what": one.what, "why": one.why} for one in findings.rejected]
    whole: Json = {
        "reading": "thorough" if findings.is_thorough else "quick",
        "calls": [_call(call) for call in findings.calls],
        "text": extraction.text,
        "thoughts": extraction.reasoning,
        "broken": extraction.broken,
        "not_calls": rejected,
        "verdict": {**_verdict(findings.verdict), "in_words": describe_verdict(findings.turn, findings.verdict)},
    }
    return json.dumps(whole, indent=2)


def _call(call: FoundCall) -> Json:
    out: dict[str, Json] = {"tool": call.tool, "said": call.call.tool}
    if found := call.recovered:
        repairs: list[Json] = [*found.repairs]
        out |= {"form": found.form, "explicit": found.explicit, "open": found.open, "repairs": repairs}
    out |= {"place": _span(call.span) if call.span else None, "in_thoughts": call.is_in_reasoning}
    out |= {"typed_by_schema": [*call.typed_arguments], "by_position": [*call.positional_arguments]}
    match call.checked:
        case Problem(fault, written, reasons):
            out |= {"arguments": _arguments(written), "check": "invalid", "fault": fault.value, "reasons": [*reasons]}
        case (delivered, marks):
            out["arguments"] = _arguments(delivered)
            out |= {"check": _check_result(marks), "marks": [mark.detail for mark in marks]}
    return out


def _check_result(marks: tuple[Intervention, ...]) -> str:
    if any(mark.kind is Outcome.REPAIRED for mark in marks):
        return "repaired"
    return "unchecked" if marks else "valid"


def _arguments(call: ToolCall) -> Json:
    """Return the arguments as an object, or as text if they are not an object."""
    args = call.args()
    return call.arguments if args is None else args


def _span(span: TextSpan) -> dict[str, Json]:
    return {"start": span.start, "end": span.end, "line": span.line, "column": span.column}


def _verdict(verdict: Verdict) -> dict[str, Json]:
    match verdict:
        case Accept(answer):
            return {"does": "hand out", **_final_answer(answer)}
        case Retry(_, fault):
            return {"does": "ask again", "fault": fault.value, "says": [*corrections_in(verdict)]}
        case GiveUp(fault, answer, error):
            if answer is None:
                return {"does": "fail", "fault": fault.value, "error": str(error)}
            return {"does": "give up", "fault": fault.value, **_final_answer(answer)}


def _final_answer(answer: FinalAnswer) -> dict[str, Json]:
    calls: list[Json] = [{"tool": call.tool, "arguments": call.arguments} for call in answer.calls]
    return {"outcome": answer.outcome.value, "text": answer.text, "calls": calls}
