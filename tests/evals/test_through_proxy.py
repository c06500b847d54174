"""Runs of the eval harness over HTTP, against the whole application with a scripted model server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.server import HttpServer, address, listen
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendBroke, BackendError, BackendUnreachable
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.evals.ablation import PRESETS, Ablation
from forge_proxy.evals.proxy_harness import ProxyHarness
from forge_proxy.evals.record import RunRecord
from forge_proxy.evals.scenario import Scenario
from forge_proxy.evals.scenarios import ALL
from forge_proxy.evals.single_run import PlannedRun, execute_run
from tests.evals.records import configuration
from tests.evals.scenes import TWO_STEPS, WORDS
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock

BOOK = Said(calls=(("book_hotel", '{"city": "Rome", "days": 5}'),))
SEND = Said(calls=(("send_email", '{"email": "bob@acme.com", "subject": "lunch"}'),), ids="more_")
AS_TEXT = Said(text='```json\n{"name": "book_hotel", "arguments": {"city": "Rome", "days": 5}}\n```')
HELLO = Said(text="Hello!")
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@asynccontextmanager
async def stage_over(http: ScriptedHttp) -> AsyncGenerator[ProxyHarness]:
    policy = GuardPolicy(text_responses="nudge")
    backend = OpenAICompatible("http://scripted", http)
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, guardrails=policy))
    config = ServerConfig(host="127.0.0.1", port=0)
    listener = listen(config)
    app = create_app(engine, backend, config)
    server = HttpServer(app, config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stage = ProxyHarness(address(*listener.getsockname()[:2]))
    try:
        yield stage
    finally:
        await stage.close()
        server.should_exit = True
        await serving
        listener.close()


async def play(
    script: Sequence[Said | Exception], preset: str, *, scenario: Scenario = TWO_STEPS, stream: bool = False
) -> tuple[RunRecord, ScriptedHttp]:
    http = ScriptedHttp(script)
    config = configuration(preset, surface="proxy", stream=stream, temperature=0.7)
    async with stage_over(http) as stage:
        run = await execute_run(PlannedRun(config, PRESETS[preset], scenario, run=2, planned=1), stage)
    return run, http


@both
async def test_a_run_goes_to_its_terminal_tool(stream: bool) -> None:
    run, http = await play([BOOK, SEND], "reforged", stream=stream)

    assert run.is_correct
    assert (run.iterations, run.retry_nudges, run.input_tokens, run.output_tokens) == (2, 0, 20, 10)
    assert (http.asked[0]["seed"], http.asked[0]["temperature"]) == (2, 0.7)
    result = http.asked[1]["messages"][-1]
    assert (result["role"], json.loads(result["content"])) == ("tool", {"hotel": "Rome", "price": 85})


@both
@pytest.mark.parametrize(
    ("script", "preset", "ends"),
    [
        ([AS_TEXT, SEND], "reforged", "right"),
        ([AS_TEXT, SEND], "bare", "TextAnswer"),
        ([AS_TEXT, BOOK, SEND], "no_rescue", "right"),  # it is retried
        ([HELLO, BOOK, SEND], "reforged", "right"),
        ([HELLO, BOOK, SEND], "no_nudge", "TextAnswer"),
        ([SEND], "reforged", "right"),  # a proxy knows of no steps
    ],
)
async def test_without_a_guardrail_the_mistake_that_it_prevents_ends_the_run(
    script: Sequence[Said], preset: str, ends: str, stream: bool
) -> None:
    run, _ = await play(script, preset, stream=stream)

    assert ("right" if run.is_correct else run.error) == ends
    assert run.iterations == (len(script) if ends == "right" else 1)


@pytest.mark.parametrize(("preset", "offers"), [("reforged", True), ("no_respond", False), ("bare", False)])
async def test_plain_text_ends_a_run_that_expects_plain_text(preset: str, offers: bool) -> None:
    run, http = await play([HELLO, HELLO], preset, scenario=WORDS)

    assert (run.is_correct, run.terminal, run.args) == (True, "respond", {"message": "Hello!"})
    tools = [tool["function"]["name"] for tool in http.asked[0]["tools"]]
    assert tools == ["get_weather", *(["respond"] if offers else [])]  # the daemon's tool, not the scenario's


async def test_an_error_in_place_of_an_answer_ends_the_run() -> None:
    run, _ = await play([Said(status=500, body={"error": {"message": "no template"}})], "bare")

    assert (run.completeness, run.error, run.detail) == (False, "HTTP 500", "no template")


@pytest.mark.parametrize(
    "gone",
    [BackendUnreachable("http://scripted", "refused"), Said(status=429, body={"error": {"message": "slow down"}})],
    ids=["gone", "busy"],
)
async def test_a_model_server_that_is_gone_or_busy_is_no_result(gone: Said | Exception) -> None:
    with pytest.raises(BackendError):
        await play([gone], "reforged")


async def test_a_response_that_breaks_off_is_retried() -> None:
    run, http = await play([BackendBroke("http://scripted", "cut"), BOOK, SEND], "bare")

    assert (run.is_correct, run.iterations, len(http.asked)) == (True, 2, 3)


async def test_a_proxy_that_is_not_there_is_no_result() -> None:
    stage = ProxyHarness("http://127.0.0.1:9/v1")
    job = PlannedRun(configuration(surface="proxy"), PRESETS["reforged"], TWO_STEPS, run=0, planned=1)

    with pytest.raises(BackendUnreachable):
        await execute_run(job, stage)

    await stage.close()


@pytest.mark.long
async def test_every_scenario_is_solved_by_a_model_that_makes_no_mistake() -> None:
    script = [Said(calls=((call.tool, call.arguments),)) for one in ALL for call in one.build(0).ideal]
    wrong: dict[str, str | None] = {}

    async with stage_over(ScriptedHttp(script)) as stage:
        for scenario in ALL:
            config = configuration(surface="proxy")
            run = await execute_run(PlannedRun(config, PRESETS["reforged"], scenario, run=0, planned=1), stage)
            if not run.is_correct or run.iterations != run.ideal:
                wrong[scenario.name] = run.wrong or run.error

    assert wrong == {}


async def test_a_preset_with_settings_has_a_daemon_of_its_own() -> None:
    preset = Ablation("one_retry", "further retries", settings={"max_retries": 0})
    config = configuration("one_retry", surface="proxy", temperature=0.7)
    async with stage_over(ScriptedHttp([])) as other, stage_over(ScriptedHttp([BOOK, SEND])) as own:
        harness = ProxyHarness(other.url, presets={"one_retry": own.url})
        run = await execute_run(PlannedRun(config, preset, TWO_STEPS, run=2, planned=1), harness)
        await harness.close()

    assert run.is_correct
    assert preset.apply_settings(GuardPolicy()) == GuardPolicy(max_retries=0)


async def test_an_engine_with_other_guardrails_shares_the_slots_and_nothing_learned() -> None:
    engine = Engine(EngineConfig(OpenAICompatible("http://scripted", ScriptedHttp([])), StillClock(), lambda _: None))

    other = engine.with_guardrails(GuardPolicy(max_retries=0))

    assert (engine.policies.guardrails.max_retries, other.policies.guardrails.max_retries) == (3, 0)
    assert other.queue is engine.queue
    assert other.learned is not engine.learned
