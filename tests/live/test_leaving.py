"""A client that disconnects in mid-stream releases the model at once."""

from __future__ import annotations

import openai

from tests.fakes.processes import Process
from tests.live.weather import ASK_PARIS, MODEL, TOOLS, says

SLOTS = 2


def test_a_disconnected_client_frees_the_model_for_the_next(client: openai.OpenAI, proxy: Process) -> None:
    for number in range(2 * SLOTS):
        with client.chat.completions.create(
            model=MODEL, messages=says("hi"), stream=True, max_tokens=1900,
            extra_body={"ignore_eos": True}, extra_headers={"x-request-id": f"leaver-{number}"},
        ) as stream:  # fmt: skip
            next(iter(stream))
    for number in range(2 * SLOTS):
        proxy.wait_for("abandoned", request_id=f"leaver-{number}")

    answer = client.chat.completions.create(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0)

    assert answer.choices[0].message.tool_calls
    assert "Traceback" not in proxy.printed
