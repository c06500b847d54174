"""What was found, for programs: one JSON object."""

from __future__ import annotations

import json

from forge_proxy.cli.rescue.findings import Findings, FoundCall
from forge_proxy.cli.rescue.text_spans import TextSpan
from forge_proxy.cli.rescue.verdicts import corrections, in_words
from forge_proxy.core.guardrails import Accept, FinalAnswer, GiveUp, Intervention, Outcome, Retry, Verdict
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import ToolCall


def as_json(findings: Findings) -> str:
    """All that was found."""
    reading = findings.reading
    missed: list[Json] = [{**_place(one.place), "what": one.what, "why": one.why} for one in findings.left_out]
    whole: Json = {
        "reading": "thorough" if findings.thorough else "quick",
        "calls": [_call(call) for call in findings.calls],
        "text": reading.text,
        "thoughts": reading.thought,
        "broken": reading.broken,
        "not_calls": missed,
        "verdict": {**_verdict(findings.verdict), "in_words": in_words(findings.turn, findings.verdict)},
    }
    return json.dumps(whole, indent=2)


def _call(call: FoundCall) -> Json:
    out: dict[str, Json] = {"tool": call.tool, "said": call.call.tool}
    if found := call.found:
        repairs: list[Json] = [*found.repairs]
        out |= {"form": found.form, "explicit": found.explicit, "open": found.open, "repairs": repairs}
    out |= {"place": _place(call.place) if call.place else None, "in_thoughts": call.in_thoughts}
    out |= {"typed_by_schema": [*call.typed], "by_position": [*call.by_position]}
    match call.checked:
        case Problem(fault, said, reasons):
            out |= {"arguments": _arguments(said), "check": "invalid", "fault": fault.value, "reasons": [*reasons]}
        case (going_out, marks):
            out["arguments"] = _arguments(going_out)
            out |= {"check": _found_in_check(marks), "marks": [mark.detail for mark in marks]}
    return out


def _found_in_check(marks: tuple[Intervention, ...]) -> str:
    if any(mark.kind is Outcome.REPAIRED for mark in marks):
        return "repaired"
    return "unchecked" if marks else "valid"


def _arguments(call: ToolCall) -> Json:
    """As an object; as the text they are where they are none."""
    args = call.args()
    return call.arguments if args is None else args


def _place(place: TextSpan) -> dict[str, Json]:
    return {"start": place.start, "end": place.end, "line": place.line, "column": place.column}


def _verdict(verdict: Verdict) -> dict[str, Json]:
    match verdict:
        case Accept(settled):
            return {"does": "hand out", **_settled(settled)}
        case Retry(_, fault):
            return {"does": "ask again", "fault": fault.value, "says": [*corrections(verdict)]}
        case GiveUp(fault, settled, error):
            if settled is None:
                return {"does": "fail", "fault": fault.value, "error": str(error)}
            return {"does": "give up", "fault": fault.value, **_settled(settled)}


def _settled(settled: FinalAnswer) -> dict[str, Json]:
    calls: list[Json] = [{"tool": call.tool, "arguments": call.arguments} for call in settled.calls]
    return {"outcome": settled.outcome.value, "text": settled.text, "calls": calls}
