"""Each preset switches its guardrail off, shown with a model that makes the corresponding mistake."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from forge_proxy.core.backend_errors import BackendBroke, BackendUnreachable
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.evals.ablation import PRESETS, select_presets, select_surfaces
from forge_proxy.evals.record import EvalConfiguration, RunRecord
from forge_proxy.evals.runner_harness import RunnerHarness
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.single_run import PlannedRun, execute_run
from forge_proxy.workflows.sdk.client import LLMResponse
from tests.evals.records import configuration
from tests.evals.scenes import TWO_STEPS, spec
from tests.fakes.said_client import SaidClient, calls, text

BOOK, SEND = calls("book_hotel", city="Rome", days=5), calls("send_email", email="bob@acme.com", subject="lunch")
AS_TEXT = text('```json\n{"name": "book_hotel", "arguments": {"city": "Rome", "days": 5}}\n```')
UNKNOWN = calls("book_motel_now", where="Rome")
TYPED_WRONG = calls("book_hotel", city="Rome", days="five")
NOT_JSON = [ToolCall("book_hotel", '{"city": Rome}')]


def job(scenario: Scenario, preset: str, config: EvalConfiguration | None = None) -> PlannedRun:
    return PlannedRun(config or configuration(preset), PRESETS[preset], scenario, run=3, planned=1)


async def play(
    script: Sequence[LLMResponse | Exception], preset: str, scenario: Scenario = TWO_STEPS, window: int | None = None
) -> RunRecord:
    return await execute_run(job(scenario, preset), RunnerHarness(SaidClient(script), window=window))


RIGHT = "right"


@pytest.mark.parametrize(
    ("said", "preset", "ends"),
    [
        ([BOOK, SEND], "bare", RIGHT),
        ([AS_TEXT, SEND], "reforged", RIGHT),
        ([AS_TEXT, BOOK, SEND], "no_rescue", RIGHT),  # it is retried
        ([AS_TEXT, BOOK, SEND], "bare", "ToolCallError"),
        ([text("Hm."), BOOK, SEND], "reforged", RIGHT),
        ([text("Hm."), BOOK, SEND], "no_nudge", "ToolCallError"),
        ([AS_TEXT, SEND], "no_nudge", RIGHT),
        ([UNKNOWN, BOOK, SEND], "reforged", RIGHT),
        ([UNKNOWN, BOOK, SEND], "no_nudge", "ToolCallError"),
        ([UNKNOWN, BOOK, SEND], "bare", "ToolExecutionError"),  # it reaches no tool, which is an error of one
        ([NOT_JSON, BOOK, SEND], "bare", "ToolExecutionError"),
        ([TYPED_WRONG, BOOK, SEND], "reforged", RIGHT),
        ([TYPED_WRONG, SEND], "no_nudge", "ToolCallError"),
        ([TYPED_WRONG, SEND], "bare", RIGHT),  # the tool does not mind
        ([SEND, BOOK, SEND], "reforged", RIGHT),
        ([SEND], "bare", RIGHT),  # no rule requires that a hotel is booked
        ([SEND], "no_steps", RIGHT),
    ],
)
async def test_without_a_guardrail_the_mistake_that_it_prevents_ends_the_run(
    said: Sequence[LLMResponse], preset: str, ends: str
) -> None:
    run = await play(said, preset)

    assert (RIGHT if run.is_correct else run.error) == ends
    assert run.iterations == (len(said) if ends == RIGHT else 1)


def _failing(_: int) -> ScenarioState:
    """A tool that fails the first time."""
    failures = [ValueError("not now")]

    def look() -> str:
        if failures:
            raise failures.pop()
        return "found"

    tools = {"look": ToolDef(spec("look", "looks"), look), "finish": ToolDef(spec("finish", "ends"), lambda: "done")}
    workflow = Workflow("failing", "", tools, ["look"], "finish", "You look.")
    return ScenarioState("Look.", workflow, lambda _, __: None)


FAILING = Scenario("failing", "", frozenset(), 2, _failing)


async def test_without_recovery_the_first_tool_that_fails_ends_the_run() -> None:
    script = [calls("look"), calls("look"), calls("finish")]

    whole = await play(script, "reforged", FAILING)
    without = await play(script, "no_recovery", FAILING)

    assert (whole.is_correct, whole.tool_errors, whole.iterations, whole.wasted) == (True, 1, 3, 1)
    assert (without.error, without.tool_errors, without.iterations) == ("ToolExecutionError", 1, 1)


def _page(page: int) -> str:
    return f"{page}: " + "word " * 300


def _long(_: int) -> ScenarioState:
    """Results of which few fit."""
    schema: JsonObject = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    tools = {
        "read": ToolDef(ToolSpec.from_json_schema("read", "reads", schema), _page),
        "finish": ToolDef(spec("finish", "ends"), lambda: "done"),
    }
    return ScenarioState("Read.", Workflow("long", "", tools, [], "finish", "You read."), lambda _, __: None)


LONG = Scenario("long", "", frozenset(), 6, _long, budget_tokens=1300)


async def test_without_compaction_a_history_that_is_over_its_budget_ends_the_run() -> None:
    script = [*(calls("read", page=page) for page in range(5)), calls("finish")]

    whole = await play(script, "reforged", LONG)
    without = await play(script, "no_compact", LONG)

    assert whole.is_correct
    assert whole.compactions
    assert (without.error, without.compactions) == ("ContextBudgetExceeded", ())


async def test_the_counts_of_a_run_are_kept() -> None:
    script = [text("Hm."), SEND, calls("book_hotel"), BOOK, SEND]

    run = await play(script, "reforged")

    assert (run.retry_nudges, run.step_nudges, run.iterations, run.ideal) == (2, 1, 5, 2)
    assert (run.terminal, run.args) == ("send_email", {"email": "bob@acme.com", "subject": "lunch"})
    assert (run.seed, run.run, run.tags) == (3, 3, ("plumbing", "stateful"))


async def test_a_wrong_terminal_call_is_recorded_with_its_fault() -> None:
    run = await play([BOOK, calls("send_email", email="eve@x.org", subject="lunch")], "reforged")

    assert (run.completeness, run.accuracy, run.is_correct, run.wrong) == (True, False, False, "sent to eve@x.org")


async def test_a_model_server_that_is_gone_is_no_result() -> None:
    with pytest.raises(BackendUnreachable):
        await play([BackendUnreachable("http://x", "refused")], "reforged")


async def test_an_answer_that_breaks_off_is_no_result_unless_it_does_so_again() -> None:
    broke, gone = BackendBroke("http://x", "cut"), BackendUnreachable("http://x", "refused")

    once = await play([broke, BOOK, SEND], "reforged")
    again = await play([BOOK, *[broke] * 3, BOOK, broke], "reforged")  # a lost response is retried twice
    with pytest.raises(BackendUnreachable):
        await play([broke, gone], "reforged")

    assert (once.is_correct, once.iterations) == (True, 2)
    assert (again.error, again.iterations) == ("BackendBroke", 1)  # of the second time


PROXY_ONLY = {
    "no_respond", "v02", "no_terminal_tools", "no_repeats", "no_early_end", "no_constrain", "always_constrain",
    "no_answer_grounding",
}  # fmt: skip


def test_a_preset_is_run_where_it_changes_anything() -> None:
    cells = select_presets(["all"], ["runner", "proxy"])

    of = {surface: {one.name for where, one in cells if where == surface} for surface in ("runner", "proxy")}
    assert of["runner"] == {"reforged", "bare", "no_rescue", "no_nudge", "no_steps", "no_recovery", "no_compact"}
    assert of["proxy"] == {"reforged", "bare", "no_rescue", "no_nudge"} | PROXY_ONLY


@pytest.mark.parametrize(
    ("names", "surfaces", "told"),
    [
        (["no_recue"], ["runner"], "ablation: no preset 'no_recue'; available: all, reforged"),
        (["no_steps"], ["proxy"], "no_steps changes nothing on the surface proxy: it is for runner"),
        (["bare"], ["phone"], "surface: no surface 'phone'; available: runner, proxy"),
    ],
)
def test_an_unknown_preset_is_rejected(names: list[str], surfaces: list[str], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        select_presets(names, select_surfaces(surfaces))


@pytest.mark.parametrize(
    ("preset", "header"),
    [
        ("reforged", "respond,rescue,validate,retry,loops,repeats,early_end"),
        ("bare", "off"),
        ("no_nudge", "respond,rescue,validate,loops,repeats,early_end"),
        ("no_respond", "rescue,validate,retry,loops,repeats,early_end"),
    ],
)
def test_the_header_selects_the_guardrails_of_the_proxy(preset: str, header: str) -> None:
    assert PRESETS[preset].header == header
