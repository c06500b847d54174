"""The guardrails in a custom agent loop: combined, and individually."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.core.workflow.errors import (
    PrerequisiteError,
    StepEnforcementError,
    ToolCallError,
    ToolExecutionError,
)
from forge_proxy.core.workflow.run import Limits, ToolOutcome
from forge_proxy.workflows.sdk.client import TextResponse
from forge_proxy.workflows.sdk.guardrail_components import ErrorTracker, ResponseValidator, StepEnforcer, StepTracker
from forge_proxy.workflows.sdk.guardrails import Guardrails
from forge_proxy.workflows.tools import to_tool_outcome
from tests.fakes.said_client import calls, text

PATH: dict[str, Json] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NONE: dict[str, Json] = {"type": "object", "properties": {}}


def workflow() -> Workflow:
    tools = [
        ToolDef(ToolSpec.from_json_schema("read", "", PATH)),
        ToolDef(ToolSpec.from_json_schema("edit", "", PATH), None, [{"tool": "read", "match_arg": "path"}]),
        ToolDef(ToolSpec.from_json_schema("finish", "", NONE)),
    ]
    return Workflow("w", "", {tool.name: tool for tool in tools}, ["edit"], "finish", "")


def test_check_and_record_guide_a_custom_loop() -> None:
    guardrails = Guardrails(workflow())

    early = guardrails.check(calls("finish"))
    wrong = guardrails.check(text("Let me see."))
    unread = guardrails.check(calls("edit", path="a"))
    good = guardrails.check(text('read[ARGS]{"path": "a"}'))

    assert [nudge and (nudge.kind, nudge.role, nudge.tier) for nudge in (early.nudge, wrong.nudge, unread.nudge)] == [
        ("step", "tool", 1),
        ("retry", "user", 0),
        ("prerequisite", "tool", 0),
    ]
    assert [message.role for message in unread.messages] == ["assistant", "tool"]
    assert [(call.tool, call.args()) for call in good.tool_calls] == [("read", {"path": "a"})]
    assert [message.content for message in guardrails.record([to_tool_outcome("text of a")])] == ["text of a"]
    assert guardrails.check(calls("edit", path="a")).tool_calls
    guardrails.record([to_tool_outcome("ok")])
    assert guardrails.check(calls("finish")).nudge is None
    assert guardrails.ended is None
    guardrails.record([to_tool_outcome({"n": 1})])
    assert (guardrails.ended and guardrails.ended.result) == {"n": 1}
    assert guardrails.completed_steps == ("read", "edit", "finish")


def test_generated_call_ids_are_unique_across_responses() -> None:
    guardrails = Guardrails(workflow())

    first = guardrails.check(calls("read", "read", path="a")).tool_calls
    guardrails.record([to_tool_outcome("x"), to_tool_outcome("x")])
    second = guardrails.check(calls("read", path="b")).tool_calls

    assert len({call.id for call in (*first, *second)}) == 3


def test_an_exceeded_limit_is_an_error() -> None:
    none = Limits(max_retries=0, max_tool_errors=0, max_premature=0, max_prereq_violations=0)

    with pytest.raises(ToolCallError, match="no valid tool call in 1 responses"):
        Guardrails(workflow(), none).check(text("Hm."))
    with pytest.raises(StepEnforcementError):
        Guardrails(workflow(), none).check(calls("finish"))
    with pytest.raises(PrerequisiteError):
        Guardrails(workflow(), none).check(calls("edit", path="a"))
    guardrails = Guardrails(workflow(), none)
    guardrails.check(calls("read", path="a"))
    with pytest.raises(ToolExecutionError):
        guardrails.record([ToolOutcome.failed("OSError: no such file")])


def test_outcomes_must_be_recorded_before_the_next_response() -> None:
    guardrails = Guardrails(workflow())
    guardrails.check(calls("read", path="a"))

    with pytest.raises(RuntimeError, match="record"):
        guardrails.check(calls("read", path="a"))
    with pytest.raises(ValueError, match="expected the outcomes of 1 calls, got 2"):
        guardrails.record([to_tool_outcome("x"), to_tool_outcome("x")])


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (TextResponse("Hm."), "retry"),
        (calls("delete"), "unknown_tool"),
        (calls("read", file="a"), "retry"),
        (TextResponse(""), "retry"),
    ],
)
def test_a_validator_returns_a_nudge_of_the_right_kind(response: TextResponse | list[ToolCall], kind: str) -> None:
    result = ResponseValidator(workflow().get_tool_specs()).validate(response)

    assert result.needs_retry
    assert result.tool_calls is None
    assert result.nudge is not None
    assert result.nudge.kind == kind
    assert "read" in result.nudge.content


def test_a_validator_without_schemas_checks_only_names() -> None:
    names = ResponseValidator(["read"])

    assert names.validate(calls("read", file="a")).tool_calls
    assert names.validate(calls("delete")).needs_retry
    assert ResponseValidator(["read"], rescue_enabled=False).validate(text("read[ARGS]{}")).needs_retry
    assert not names.validate(text("read[ARGS]{}")).needs_retry


def test_an_enforcer_counts_consecutive_refusals() -> None:
    enforcer = StepEnforcer(["read"], ["finish"], {"edit": ["read"]}, max_premature_attempts=1, max_prereq_violations=0)

    tiers = [check.nudge and check.nudge.tier for check in (enforcer.check(calls("finish")) for _ in range(2))]

    assert tiers == [1, 2]
    assert enforcer.premature_exhausted
    enforcer.reset_premature()
    assert (enforcer.premature_attempts, enforcer.premature_exhausted) == (0, False)
    assert enforcer.check_prerequisites(calls("edit")).needs_nudge
    assert enforcer.prereq_exhausted
    enforcer.record("read", {"path": "a"})
    assert not enforcer.check(calls("finish")).needs_nudge
    assert not enforcer.check_prerequisites(calls("edit")).needs_nudge
    assert enforcer.summary_hint() == "[Steps completed: read]"


def test_a_tracker_lists_pending_steps_in_order() -> None:
    tracker = StepTracker(["a", "b", "c"])

    tracker.record("c")
    tracker.record("x", {"n": 1})

    assert tracker.pending() == ("a", "b")
    assert tracker.completed_steps == ("c", "x")
    assert not tracker.is_satisfied()
    assert StepTracker([]).summary_hint() == "[No steps completed yet]"


def test_a_limit_is_exhausted_by_the_first_error_beyond_it() -> None:
    tracker = ErrorTracker(max_retries=1, max_tool_errors=1)

    told_retries = [tracker.record_retry() or tracker.retries_exhausted for _ in range(2)]
    tracker.record_result(success=False, is_soft_error=True)
    told_errors = [tracker.record_result(success=False) or tracker.tool_errors_exhausted for _ in range(2)]

    assert told_retries == told_errors == [False, True]
    tracker.reset_retries()
    tracker.record_result(success=True)
    assert not tracker.retries_exhausted
    assert not tracker.tool_errors_exhausted


def test_the_tier_of_a_nudge_is_at_most_the_last() -> None:
    guardrails = Guardrails(workflow(), Limits(max_premature=5))

    tiers = [nudge.tier for _ in range(5) if (nudge := guardrails.check(calls("finish")).nudge)]

    assert tiers == [1, 2, 3, 3, 3]
