"""Start-up check that the guardrails work with the installed libraries, on the same code path as any call."""

from __future__ import annotations

from forge_proxy.core.chat import ChatRequest, Schema, ToolSpec
from forge_proxy.core.errors import GuardrailsBroken
from forge_proxy.core.guardrails.check import check
from forge_proxy.core.guardrails.nudges import Problem
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.schema.compiled import find_uncheckable_tools
from forge_proxy.core.guardrails.turn import open_turn
from forge_proxy.core.messages import ToolCall

_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "pattern": "^[A-Z](?=[a-z])"},
        "days": {"$ref": "#/$defs/days"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"days": {"type": "integer", "minimum": 1}},
}
_RIGHT = '{"city": "Oslo", "days": 2}'
_REPAIRABLE = '{"city": "Oslo", "days": "2"}'
_WRONG = '{"city": "oslo", "days": 0}'


def check_guardrails() -> None:
    """Raise `GuardrailsBroken` if calls of a known tool are not validated correctly."""
    try:
        _check_known_calls()
    except (TypeError, AttributeError) as exc:  # the library has a different interface
        raise GuardrailsBroken(str(exc)) from exc


def _check_known_calls() -> None:
    tool = ToolSpec("get_weather", _SCHEMA)
    request = ChatRequest({}, tools=(tool,))
    turn = open_turn(request, GuardPolicy(), request_id="self-check", nudge_text=False)
    if turn is None or find_uncheckable_tools((tool,)):
        raise GuardrailsBroken("a known JSON Schema cannot be compiled")
    right, repairable, wrong = (check(turn, ToolCall(tool.name, text)) for text in (_RIGHT, _REPAIRABLE, _WRONG))
    if isinstance(right, Problem) or right[0].arguments != _RIGHT:
        raise GuardrailsBroken("a valid call is rejected")
    if isinstance(repairable, Problem) or repairable[0].arguments != _RIGHT:
        raise GuardrailsBroken("a call that can be repaired is rejected")
    if not isinstance(wrong, Problem) or len(wrong.reasons) != 2:
        raise GuardrailsBroken("an invalid call is accepted")
