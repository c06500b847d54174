"""The kinds of client on the proxy surface: each ends a task in its own way, on the same tasks."""

from __future__ import annotations

import pytest

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.evals.ablation import PRESETS
from forge_proxy.evals.clients import CLIENTS, MAX_REPROMPTS, ClientKind, adapt_scenario, select_clients
from forge_proxy.evals.record import EvalConfiguration, RunRecord, label_configurations
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.scenarios import ALL, select_scenarios
from forge_proxy.evals.series import plan_runs
from forge_proxy.evals.single_run import PlannedRun, execute_run
from tests.evals.records import configuration
from tests.evals.test_through_proxy import HELLO, stage_over
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp

KINDS: tuple[ClientKind, ...] = ("text", "terminal", "reprompting", "required")
(LOOKUP,) = select_scenarios(["quick_two_step"])
(ACTION,) = select_scenarios(["quick_formal_choice"])


def planned(client: ClientKind, scenario: Scenario) -> PlannedRun:
    config = configuration("bare", surface="proxy", client=client)
    return PlannedRun(config, PRESETS["bare"], scenario, run=0, planned=1)


def script_of(job: PlannedRun) -> list[Said]:
    """The responses of a model without mistakes."""
    ideal = job.build().ideal
    said = [Said(calls=((call.tool, call.arguments),)) for call in ideal]
    if job.config.client == "text":
        said[-1] = Said(text=str((ideal[-1].args() or {})["message"]))
    return said


async def play(job: PlannedRun, script: list[Said]) -> tuple[RunRecord, ScriptedHttp]:
    http = ScriptedHttp(script)
    async with stage_over(http) as harness:
        return await execute_run(job, harness), http


def offered(request: JsonObject) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]  # pyright: ignore


@pytest.mark.long
@pytest.mark.parametrize("client", KINDS)
async def test_every_quick_scenario_is_solved_by_a_model_without_mistakes(client: ClientKind) -> None:
    jobs = [planned(client, scenario) for scenario in ALL if scenario.quick]
    wrong: dict[str, str | None] = {}

    async with stage_over(ScriptedHttp([said for job in jobs for said in script_of(job)])) as harness:
        for job in jobs:
            run = await execute_run(job, harness)
            if not run.is_correct or run.iterations != run.ideal:
                wrong[job.scenario.name] = run.wrong or run.error

    assert wrong == {}


@pytest.mark.parametrize(
    ("client", "error", "requests"),
    [("text", None, 1), ("terminal", "TextAnswer", 1), ("required", "TextAnswer", 1),
     ("reprompting", "TextAnswer", 1 + MAX_REPROMPTS)],
)  # fmt: skip
async def test_plain_text_ends_a_run_in_the_way_of_the_client(
    client: ClientKind, error: str | None, requests: int
) -> None:
    run, http = await play(planned(client, LOOKUP), [HELLO] * requests)

    assert (run.error, run.is_correct, len(http.asked)) == (error, False, requests)


async def test_a_reprompting_client_names_its_terminal_tool_and_goes_on() -> None:
    job = planned("reprompting", LOOKUP)

    run, http = await play(job, [HELLO, *script_of(job)])

    assert run.is_correct
    assert http.asked[1]["messages"][-2:] == [
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": http.asked[1]["messages"][-1]["content"]},
    ]
    assert offered(http.asked[0])[-1] in http.asked[1]["messages"][-1]["content"]


@pytest.mark.parametrize(("client", "choice"), [("text", None), ("terminal", None), ("required", "required")])
async def test_a_client_offers_its_own_end_only(client: ClientKind, choice: str | None) -> None:
    job = planned(client, LOOKUP)

    _, http = await play(job, script_of(job))

    assert http.asked[0].get("tool_choice") == choice
    assert len(offered(http.asked[0])) == (1 if client == "text" else 2)
    assert "get_weather" in offered(http.asked[0])


async def test_an_action_that_ends_a_scenario_is_executed_before_the_clients_end() -> None:
    job = planned("terminal", ACTION)
    right = script_of(job)
    wrong = Said(calls=(("book_hotel", '{"city": "Atlantis", "days": 3}'),))

    assert (await play(job, right))[0].is_correct
    assert (await play(job, [wrong, right[1]]))[0].wrong is not None
    assert "was never called" in ((await play(job, right[1:]))[0].wrong or "")


def test_terminal_tools_have_the_names_that_agents_use_and_are_the_same_in_each_configuration() -> None:
    names = [
        [next(iter(adapt_scenario(LOOKUP.build(0), kind, f"a {seed}").workflow.terminal_tools)) for seed in range(40)]
        for kind in ("terminal", "required")
    ]

    assert names[0] == names[1]
    assert set(names[0]) == {"attempt_completion", "final_answer", "submit", "finish", "complete_task"}


def test_the_client_is_part_of_the_configuration_and_old_records_keep_their_key() -> None:
    old = EvalConfiguration.model_validate({"model": "tiny", "backend": "embedded", "surface": "proxy"})
    configs = [configuration(surface="proxy", client=client) for client in CLIENTS]

    assert old.key == configs[0].key
    assert len({config.key for config in configs}) == len(set(label_configurations(configs).values())) == len(CLIENTS)


def test_the_runner_has_no_clients() -> None:
    cells = [(surface, PRESETS["bare"]) for surface in ("runner", "proxy")]
    jobs = plan_runs(configuration(), cells, [LOOKUP], 1, ("text", "terminal"))  # pyright: ignore

    assert [(job.config.surface, job.config.client) for job in jobs] == [
        ("runner", "scenario"), ("proxy", "text"), ("proxy", "terminal"),
    ]  # fmt: skip


def test_an_unknown_client_is_named_in_the_error() -> None:
    assert select_clients(()) == ("scenario",)
    assert select_clients(("terminal", "text")) == ("text", "terminal")
    with pytest.raises(InvalidRequest, match="no kind of client 'cline'; available: scenario, text"):
        select_clients(("cline",))
