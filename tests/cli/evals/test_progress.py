"""What `eval run` prints while the runs are being executed."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from forge_proxy.backends.config import BackendConfig
from forge_proxy.cli.evals.run_all import EvalPlan, EvaluatedModel, run_models
from forge_proxy.evals.ablation import PRESETS
from forge_proxy.evals.scenarios import select_scenarios
from forge_proxy.settings import Settings


async def respond(request: web.Request) -> web.Response:
    if request.method == "GET":
        return web.json_response({"data": [{"id": "m", "max_model_len": 4096}]})
    message = {"role": "assistant", "content": "I do not know."}
    return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


async def test_each_finished_run_is_reported_if_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    plan = EvalPlan([("runner", PRESETS["bare"])], select_scenarios(["basic_2step"], ()), runs=2)

    async with TestServer(app) as server:
        url = str(server.make_url("/v1"))
        settings = Settings.model_construct(backend=BackendConfig(kind="openai", url=url))
        results = await run_models([EvaluatedModel(settings)], plan, None)

    printed = capsys.readouterr()
    assert len(results.records) == 2
    assert printed.out == ""
    assert [line.split(":")[0] for line in printed.err.splitlines()] == [
        "1/2 runner bare basic_2step #0",
        "2/2 runner bare basic_2step #1",
    ]
