"""A model that repeats itself without end, through a real daemon, as the openai SDK sees it."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from forge_proxy.core.guardrails.cut import LOOP_NOTICE
from tests.fakes.processes import Process, until
from tests.system.asking import PATH, TOOL, ask

ROUND = "round "


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("model", "text"), [("loops", ROUND * 2), ("loops-in-thought", LOOP_NOTICE)])
def test_a_looping_generation_is_stopped_twice_and_then_reported_as_cut(
    server: Process, proxy: Process, model: str, text: str | None, stream: bool
) -> None:
    user = f"{model} {stream}"
    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="none", max_retries=0, timeout=20)
    told = {"event": "left", "model": model, "user": user}

    fields = ask(model, user=user, tools=[TOOL])
    if stream:
        with client.chat.completions.create(**fields, stream=True) as chunks:
            deltas = [choice for chunk in chunks for choice in chunk.choices]
        said = "".join(delta.delta.content or "" for delta in deltas) or None
        finish = deltas[-1].finish_reason
    else:
        (choice,) = client.chat.completions.create(**fields).choices
        said, finish = choice.message.content, choice.finish_reason

    assert (said, finish) == (text, "length")
    until(lambda: server.printed.count(json.dumps(told)) == 2, "both generations are stopped")


def test_the_log_reports_the_loop_without_its_text(proxy: Process, client: httpx.Client) -> None:
    answer = client.post(PATH, content=json.dumps(ask("loops", tools=[TOOL])))

    assert answer.headers["x-forge-outcome"] == "exhausted"
    assert answer.headers["x-forge-interventions"] == (
        "loop in text: 6 characters again and again from 0 to 2048; "
        "estimated the usage, which the model server did not report"
    )
    proxy.wait_for("loop", attempt=2, part="text", period=6, start=0, end=2048, cut=True)
    assert ROUND * 2 not in proxy.printed
