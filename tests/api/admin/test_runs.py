"""Runs over HTTP: validation of submissions, idempotent requests, and the state that the API shows."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from sse_starlette.sse import AppStatus

from tests.api.admin.world import ADMIN, JsonDict, error, world
from tests.fakes.says import Said
from tests.folding import folded

RUNS = f"{ADMIN}/runs"
LOOK, BOTH, FINISH = (
    Said(calls=(("look", '{"n": 1}'),)),
    Said(calls=(("look", '{"n": 1}'), ("look", '{"n": 2}'))),
    Said(calls=(("finish", '{"n": 3}'),), ids="end_"),
)
NUMBER: JsonDict = {"type": "object", "properties": {"n": {"type": "integer"}}}


def run(**fields: Any) -> JsonDict:
    """Return a submission: the client executes `look`; `finish` ends the run with its arguments."""
    finish = {"parameters": NUMBER, "execute": {"by": "arguments"}}
    tools: JsonDict = {"look": {"parameters": NUMBER}, "finish": finish}
    workflow = {"name": "w", "tools": tools, "terminal_tool": "finish", "system_prompt_template": "Help {who}."}
    return {"workflow": workflow, "user_message": "Go.", "prompt_vars": {"who": "Ann"}, **fields}


async def watched(client: httpx.AsyncClient, run_id: str) -> JsonDict:
    """Return the run after its event stream has ended."""
    await client.get(f"{RUNS}/{run_id}/events")
    return (await client.get(f"{RUNS}/{run_id}")).json()


async def waiting(client: httpx.AsyncClient, body: JsonDict) -> JsonDict:
    """Submit a run and return it once it waits for outputs of the client."""
    run_id = (await client.post(RUNS, json=body)).json()["id"]
    for _ in range(2000):
        found = (await client.get(f"{RUNS}/{run_id}")).json()
        if found["status"] == "requires_action":
            return found
        assert found["status"] in ("queued", "running"), found
    raise AssertionError("it never waits")


async def post(client: httpx.AsyncClient, found: JsonDict, *outputs: JsonDict) -> httpx.Response:
    """Post outputs; `tool_call_id` is the index of the call."""
    calls = [call["id"] for call in found["required_action"]]
    said = [{**one, "tool_call_id": calls[one["tool_call_id"]]} for one in outputs]
    return await client.post(f"{RUNS}/{found['id']}/tool_outputs", json={"outputs": said})


async def test_a_url_for_notifications_must_be_listed() -> None:
    callbacks = {"allow": ["http://listed.example.com"], "secret": "a secret of the tests"}
    async with world(FINISH, tools={"callbacks": callbacks}) as client:
        other = await client.post(RUNS, json=run(notify_url="http://other.example.com/hook"))
        listed = await client.post(RUNS, json=run(notify_url="http://listed.example.com/hook"))

    assert error(other) == (400, None, "notify_url")
    assert listed.status_code == 200


async def test_a_submitted_run_completes_with_its_result() -> None:
    async with world(LOOK, FINISH) as client:
        found = await waiting(client, run(metadata={"a": None}))
        posted = await post(client, found, {"tool_call_id": 0, "output": {"sun": True}})
        done = await watched(client, found["id"])

    assert posted.status_code == 200
    assert done["result"] == {"kind": "result", "tool": "finish", "arguments": {"n": 3}, "result": {"n": 3}}
    assert (done["status"], done["iteration"], done["metadata"]) == ("completed", 2, {"a": None})
    assert [message["type"] for message in done["messages"]] == [
        "system_prompt", "user_input", "tool_call", "tool_result", "tool_call", "tool_result",
    ]  # fmt: skip
    assert done["messages"][0]["content"] == "Help Ann."
    assert done["messages"][3]["content"] == '{"sun":true}'


@pytest.mark.parametrize(
    ("outcome", "told", "completed"),
    [
        ({"output": "text"}, "text", ["look"]),
        ({"output": None}, "null", ["look"]),
        ({"error": "out of order"}, "[ToolError] out of order", []),
        ({"unresolved": "no such city"}, "no such city", []),
    ],
)
async def test_output_error_and_unresolved_are_distinguished(
    outcome: JsonDict, told: str, completed: list[str]
) -> None:
    async with world(LOOK, FINISH) as client:
        found = await waiting(client, run())
        posted = (await post(client, found, {"tool_call_id": 0, **outcome})).json()

    assert posted["messages"][-1]["content"] == told
    assert posted["completed_steps"] == completed


async def test_outputs_may_be_posted_one_by_one_in_any_order_and_repeatedly() -> None:
    async with world(BOTH, FINISH) as client:
        found = await waiting(client, run())
        second = await post(client, found, {"tool_call_id": 1, "output": "b"})
        again = await post(client, found, {"tool_call_id": 1, "output": "b"})
        first = await post(client, found, {"tool_call_id": 0, "output": "a"}, {"tool_call_id": 1, "output": "b"})
        done = await watched(client, found["id"])
        late = await post(client, found, {"tool_call_id": 0, "output": "a"})

    assert [len(answer.json()["required_action"]) for answer in (second, again)] == [1, 1]
    assert second.json()["last_event"] == again.json()["last_event"]
    assert (first.status_code, late.status_code) == (200, 200)
    assert [message["content"] for message in done["messages"] if message["type"] == "tool_result"][:2] == ["a", "b"]


async def test_an_invalid_output_changes_nothing() -> None:
    async with world(BOTH, FINISH) as client:
        found = await waiting(client, run())
        await post(client, found, {"tool_call_id": 0, "output": "a"})
        path, (first, second) = f"{RUNS}/{found['id']}/tool_outputs", [call["id"] for call in found["required_action"]]

        async def said(*outputs: JsonDict) -> tuple[int, str | None, str | None]:
            return error(await client.post(path, json={"outputs": [*outputs]}))

        other = await said({"tool_call_id": second, "output": "b"}, {"tool_call_id": first, "output": "x"})
        unknown = await said({"tool_call_id": second, "output": "b"}, {"tool_call_id": "nothing", "output": "b"})
        twice = await said({"tool_call_id": second, "output": "b"}, {"tool_call_id": second, "output": "b"})
        neither = await said({"tool_call_id": second})
        both = await said({"tool_call_id": second, "output": 1, "error": "x"})
        now = (await client.get(f"{RUNS}/{found['id']}")).json()

    assert other == (409, "run_conflict", None)
    assert unknown == twice == (400, None, "outputs[1].tool_call_id")
    assert neither == both == (400, None, "outputs[0]")
    assert [call["id"] for call in now["required_action"]] == [second]


async def test_a_failed_run_has_the_error() -> None:
    async with world(says=[Said(text="I cannot.")] * 9) as client:
        submitted = (await client.post(RUNS, json=run(max_retries_per_step=1))).json()
        failed = await watched(client, submitted["id"])

    assert (failed["status"], failed["error"]["type"]) == ("failed", "ToolCallError")
    assert (failed["error"]["fields"]["attempts"], failed["error"]["fields"]["raw_response"]) == (2, "I cannot.")


async def test_the_iteration_limit_reports_the_pending_steps() -> None:
    body = run(max_iterations=1)
    body["workflow"]["required_steps"] = ["look"]
    async with world(says=[FINISH] * 3) as client:
        submitted = (await client.post(RUNS, json=body)).json()
        failed = await watched(client, submitted["id"])

    assert failed["error"]["fields"] == {"iterations": 1, "completed_steps": [], "pending_steps": ["look"]}
    assert failed["pending_steps"] == ["look"]


async def test_a_history_is_compacted_if_the_submission_has_a_context() -> None:
    long = "x" * 4000
    body = run(context={"strategy": "tiered", "budget": 1500, "threshold": 0.1, "keep_recent": 1})
    async with world(LOOK, Said(calls=(("look", '{"n": 2}'),), ids="b"), FINISH) as client:
        found = await waiting(client, body)
        await post(client, found, {"tool_call_id": 0, "output": long})
        for _ in range(2000):
            found = (await client.get(f"{RUNS}/{found['id']}")).json()
            if found["required_action"]:
                break
        await post(client, found, {"tool_call_id": 0, "output": "short"})
        done = await watched(client, found["id"])
        told = (await client.get(f"{RUNS}/{found['id']}/events")).text

    assert "event: compacted" in told
    assert long in told
    assert (done["status"], long in json.dumps(done["messages"])) == ("completed", False)


async def test_a_run_cancelled_while_it_waits_can_be_continued_by_another() -> None:
    async with world(LOOK, FINISH) as client:
        found = await waiting(client, run())
        cancelled = (await client.post(f"{RUNS}/{found['id']}/cancel")).json()
        body = run(initial_messages=cancelled["messages"])
        del body["user_message"]
        other = (await client.post(RUNS, json=body)).json()
        done = await watched(client, other["id"])
        refused = await client.post(f"{RUNS}/{other['id']}/cancel")

    assert cancelled["status"] == "cancelled"
    assert cancelled["messages"][-1]["content"] == "[Cancelled] look was not run."
    assert done["result"]["result"] == {"n": 3}
    assert error(refused) == (409, "run_conflict", None)


async def test_completed_steps_are_not_repeated_by_a_run_that_continues_another() -> None:
    async with world(LOOK, FINISH, FINISH, LOOK, FINISH) as client:
        asked = run()
        asked["workflow"]["required_steps"] = ["look"]
        first = await waiting(client, asked)
        await post(client, first, {"tool_call_id": 0, "output": "seen"})
        stopped = await watched(client, first["id"])
        body = {**asked, "initial_messages": stopped["messages"], "user_message": None}
        goes_on = (await client.post(RUNS, json={**body, "steps": stopped["steps"]})).json()
        done = await watched(client, goes_on["id"])
        begins_anew = await waiting(client, body)

    assert stopped["steps"][0] == {"tool": "look", "arguments": {"n": 1}}
    assert (done["status"], done["completed_steps"]) == ("completed", ["look", "finish"])
    assert begins_anew["completed_steps"] == []


async def test_runs_are_listed_page_by_page_and_by_status() -> None:
    async with world(*[FINISH] * 5) as client:
        made = [(await client.post(RUNS, json=run())).json()["id"] for _ in range(5)]
        for run_id in made:
            await watched(client, run_id)
        pages: list[list[str]] = []
        query: JsonDict = {"limit": 2, "status": "completed"}
        while "before" not in query or query["before"]:
            page = (await client.get(RUNS, params=query)).json()
            pages.append([one["id"] for one in page["data"]])
            query["before"] = page["next"]
        none = (await client.get(RUNS, params={"status": "failed"})).json()

    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(run_id for page in pages for run_id in page) == sorted(made)
    assert none == {"data": [], "next": None}


@folded
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("?before=zzz", "before"),
        ("?cursor=run_1", "cursor"),
        ("?limit=1&after=2", "after"),
        ("/x/events?from=1", "from"),
    ],
)
async def test_an_invalid_query_parameter_is_rejected(client: httpx.AsyncClient, path: str, field: str) -> None:
    answer = await client.get(f"{RUNS}{path}")

    assert error(answer) == (400, None, field)


async def test_a_page_can_begin_after_a_deleted_run() -> None:
    async with world(FINISH, FINISH) as client:
        made = [(await client.post(RUNS, json=run())).json()["id"] for _ in range(2)]
        for run_id in made:
            await watched(client, run_id)
        older, newer = sorted(made)
        await client.delete(f"{RUNS}/{newer}")
        page = (await client.get(RUNS, params={"before": newer})).json()

    assert [one["id"] for one in page["data"]] == [older]


async def test_a_run_is_deleted_once_it_has_ended() -> None:
    async with world(LOOK) as client:
        found = await waiting(client, run())
        early = await client.delete(f"{RUNS}/{found['id']}")
        await client.post(f"{RUNS}/{found['id']}/cancel")
        deleted = (await client.delete(f"{RUNS}/{found['id']}")).json()
        gone = [
            await client.request(method, f"{RUNS}/{found['id']}{path}")
            for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("DELETE", ""))
        ]

    assert error(early) == (409, "run_conflict", None)
    assert deleted == {"id": found["id"], "deleted": True}
    assert [error(answer) for answer in gone] == [(404, "run_not_found", None)] * 4


async def test_the_same_submission_with_the_same_key_is_one_run() -> None:
    async with world(LOOK) as client:
        key = {"Idempotency-Key": "mine"}
        first, again = [(await client.post(RUNS, json=run(), headers=key)).json()["id"] for _ in range(2)]
        other = await client.post(RUNS, json=run(max_iterations=3), headers=key)

    assert first == again
    assert error(other) == (409, "run_conflict", None)


async def test_the_event_stream_can_be_resumed_after_any_event() -> None:
    async with world(FINISH) as client:
        submitted = (await client.post(RUNS, json=run())).json()
        path = f"{RUNS}/{submitted['id']}/events"
        whole = await client.get(path)
        ids = [int(line.removeprefix("id: ")) for line in whole.text.splitlines() if line.startswith("id: ")]
        by_header = [await client.get(path, headers={"Last-Event-ID": str(after)}) for after in ids]
        by_query = await client.get(path, params={"after": 2})
        wrong = [await client.get(path, headers={"Last-Event-ID": said}) for said in ("x", "", str(2**31), "9" * 5000)]

    assert whole.headers["content-type"].startswith("text/event-stream")
    assert whole.headers["x-request-id"]
    assert ids == list(range(1, len(ids) + 1))
    rests = [answer.text for answer in by_header]
    assert all(whole.text.endswith(rest) for rest in rests)
    assert rests[-1] == ""
    assert by_query.text == rests[1]
    assert {error(answer) for answer in wrong} == {(400, None, "Last-Event-ID")}


async def test_an_event_stream_continues_after_another_uvicorn_server_of_the_process_has_exited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    async with world(FINISH) as client:
        submitted = (await client.post(RUNS, json=run())).json()
        done = await watched(client, submitted["id"])

    assert done["status"] == "completed"


def _with(**workflow: Any) -> JsonDict:
    made = run()
    return {**made, "workflow": {**made["workflow"], **workflow}}


def _tool(**fields: Any) -> JsonDict:
    return _with(tools={"finish": {"parameters": NUMBER, **fields}}, terminal_tool="finish")


_NO_TEXT = "expected a string"


@folded
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            _tool(execute={"by": "carrier"}),
            "workflow.tools.finish.execute.by: expected one of client, arguments, http, mcp",
        ),
        (_tool(execute={"by": "mcp", "server": {"url": 5}}), f"workflow.tools.finish.execute.server.url: {_NO_TEXT}"),
        (_with(terminal_tool=5), f"workflow.terminal_tool: {_NO_TEXT}, or: expected a list"),
        (_tool(prerequisites=[{}]), "workflow.tools.finish.prerequisites.0.tool: required, but missing"),
        (
            _tool(prerequisites=[{"tool": 5}]),
            "workflow.tools.finish.prerequisites.0.tool: expected a string",
        ),
    ],
)
async def test_error_messages_name_fields_of_the_submission_never_internal_types(
    client: httpx.AsyncClient, body: JsonDict, said: str
) -> None:
    answer = await client.post(RUNS, json=body)

    assert (answer.status_code, answer.json()["error"]["message"]) == (400, said)


CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@folded
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "workflow"),
        ({**run(), "surplus": 1}, "surplus"),
        (run(user_message=None), "user_message"),
        (run(prompt_vars={}), "prompt_vars.who"),
        (run(max_iterations=0), "max_iterations"),
        (run(options={"stream": False}), "options.stream"),
        (run(options={"max_tokens": "many"}), "options.max_tokens"),
        (run(options={"temperature": "hot"}), "options.temperature"),
        (run(options={"top_p": True}), "options.top_p"),
        (run(options={"top_k": 1.5}), "options.top_k"),
        (run(options={"seed": 2**64}), "options.seed"),
        (run(options={"stop": ["a", 5]}), "options.stop"),
        (run(options={"logprobs": 1}), "options.logprobs"),
        (run(options={"reasoning_effort": 1}), "options.reasoning_effort"),
        (run(options={"response_format": "json"}), "options.response_format"),
        (run(options={"logit_bias": [[1, -(2**63) - 1]]}), "options.logit_bias"),
        (run(context={"budget": 255}), "context.budget"),
        (run(model="a\x00b"), "model"),
        (_with(tools={}), "workflow.tools"),
        (_with(terminal_tool="nothing"), "workflow.terminal_tool"),
        (_with(required_steps=["look", "nothing"]), "workflow.required_steps[1]"),
        (_with(name="a\nb"), "workflow.name"),
        (_tool(prerequisites=["x"]), "workflow.tools.finish.prerequisites[0]"),
        (_tool(parameters={"type": "array"}), "workflow.tools.finish.parameters.type"),
        (_tool(parameters={"properties": 7}), "workflow.tools.finish.parameters"),
        (_tool(parameters=None), "workflow.tools.finish.parameters"),
        (_tool(parameters=None, execute={"by": "arguments"}), "workflow.tools.finish.parameters"),
        (_tool(parameters=None, execute={"by": "http", "url": "http://a.example"}), "workflow.tools.finish.parameters"),
        (_tool(execute={}), "workflow.tools.finish.execute.by"),
        (_tool(execute={"by": "magic"}), "workflow.tools.finish.execute.by"),
        (_tool(execute={"by": "client", "url": "x"}), "workflow.tools.finish.execute.url"),
        (_tool(execute={"by": "http"}), "workflow.tools.finish.execute.url"),
        (_tool(execute={"by": "http", "url": "https://tools.example.com/x"}), "workflow.tools.finish.execute.url"),
        (_tool(execute={"by": "mcp", "server": "unknown"}), "workflow.tools.finish.execute.server"),
        (run(initial_messages=[{"role": "user"}]), "user_message"),
        (run(user_message=None, initial_messages=[]), "initial_messages"),
        (run(steps=[{"tool": "look"}, {"tool": "lok"}]), "steps[1].tool"),
        (run(user_message=None, initial_messages=[{"role": "user", "surplus": 1}]), "initial_messages.0.surplus"),
    ],
)
async def test_an_invalid_submission_is_rejected_with_the_field(
    client: httpx.AsyncClient, body: JsonDict, field: str
) -> None:
    body = {name: value for name, value in body.items() if value is not None or name != "user_message"}
    answer = await client.post(RUNS, json=body)
    listed = (await client.get(RUNS)).json()

    assert error(answer)[::2] == (400, field), answer.text
    assert listed["data"] == []


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": None, "top_p": 1, "top_k": 40.0, "seed": -1, "stop": "a", "max_tokens": -1},
        {"temperature": -7, "stop": ["a"], "logit_bias": {"1": 5}, "response_format": {"type": "text"}, "theirs": "x"},
    ],
)
async def test_unknown_options_are_left_to_the_model_server(options: JsonDict) -> None:
    async with world(FINISH) as client:
        submitted = (await client.post(RUNS, json=run(options=options))).json()
        done = await watched(client, submitted["id"])

    assert done["status"] == "completed"


@folded
@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([{"role": "tool", "tool_call_id": "c"}], "initial_messages[0].tool_call_id"),
        ([{"role": "user", "tool_calls": [CALL]}], "initial_messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [CALL]}], "initial_messages"),
        (
            [{"role": "assistant", "tool_calls": [CALL, CALL]}, {"role": "tool", "tool_call_id": "c"}],
            "initial_messages[0].tool_calls",
        ),
        ([{"role": "assistant", "tool_calls": [CALL]}, {"role": "user"}], "initial_messages[1]"),
    ],
)
async def test_an_inconsistent_history_is_rejected_with_the_field(
    client: httpx.AsyncClient, messages: list[JsonDict], field: str
) -> None:
    body = run(initial_messages=messages)
    del body["user_message"]
    answer = await client.post(RUNS, json=body)

    assert error(answer) == (400, None, field)


async def test_a_missing_body_is_a_400() -> None:
    async with world() as client:
        answer = await client.post(RUNS)

    assert error(answer) == (400, None, "body")


async def test_a_body_with_another_content_type_is_a_400_that_names_the_right_one() -> None:
    async with world() as client:
        answer = await client.post(RUNS, content=json.dumps(run()), headers={"Content-Type": "text/plain"})

    assert error(answer) == (400, None, "body")
    assert "Content-Type: application/json" in answer.json()["error"]["message"]


async def test_json_that_cannot_be_stored_is_rejected() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    async with world() as client:
        nested = await client.post(RUNS, json=run(metadata={"a": deep}))
        half = await client.post(
            RUNS, content=json.dumps(run(user_message="\ud800")), headers={"content-type": "application/json"}
        )

    assert (nested.status_code, half.status_code) == (400, 400)


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


async def test_json_nested_too_deeply_to_be_parsed_again_is_rejected_with_the_field() -> None:
    """It can be written to 255 levels and read to 200, so a run could be stored and then be lost."""
    fields = {"metadata": {"a": _nested(210)}, "options": {"a": _nested(210)}}
    async with world(LOOK, FINISH) as client:
        submitted = [await client.post(RUNS, json=run(**{name: value})) for name, value in fields.items()]
        found = await waiting(client, run(metadata={"a": _nested(99)}))
        posted = [
            await post(client, found, {"tool_call_id": 0, "output": _nested(levels)}) for levels in (210, 300, 100)
        ]
        done = await watched(client, found["id"])

    assert [error(answer) for answer in submitted] == [(400, None, name) for name in fields]
    assert [error(answer) for answer in posted[:2]] == [(400, None, "outputs.0.output")] * 2
    assert (posted[2].status_code, done["status"]) == (200, "completed")


async def test_arguments_nested_too_deeply_are_an_error_of_the_call() -> None:
    deep = Said(calls=(("finish", f'{{"a": {json.dumps(_nested(150))}}}'),))
    async with world(deep, FINISH) as client:
        submitted = (await client.post(RUNS, json=run())).json()
        done = await watched(client, submitted["id"])

    assert done["messages"][3]["content"] == "[ToolError] the arguments are nested deeper than 100 levels"
    assert (done["status"], done["result"]["result"]) == ("completed", {"n": 3})


async def test_nan_and_other_non_json_is_rejected() -> None:
    headers = {"content-type": "application/json"}
    words = ("NaN", "-Infinity", "1e999", '"\\x"', "\xff")
    async with world(LOOK) as client:
        found = await waiting(client, run())
        path, call = f"{RUNS}/{found['id']}", found["required_action"][0]["id"]
        bodies = {
            f"{path}/tool_outputs": {"outputs": [{"tool_call_id": call, "output": {"a": 1}}]},
            RUNS: run(metadata={"a": 1}),
        }
        answers = {
            (url, word): await client.post(
                url,
                content=json.dumps(body).replace('{"a": 1}', f'{{"a": {word}}}').encode("latin-1"),
                headers=headers,
            )
            for url, body in bodies.items()
            for word in words
        }
        now = (await client.get(path)).json()

    assert {case: error(answer) for case, answer in answers.items()} == dict.fromkeys(answers, (400, None, "body"))
    assert now["status"] == "requires_action"


async def test_a_store_that_cannot_be_opened_is_a_503_and_all_other_routes_work() -> None:
    async with world(FINISH, store={"url": "sqlite+aiosqlite:////proc/nowhere/runs.db"}) as client:
        refused = await client.post(RUNS, json=run())
        fine = await client.get(f"{ADMIN}/guardrails")

    assert error(refused) == (503, "store_unavailable", None)
    assert "store.url" in refused.json()["error"]["message"]
    assert fine.status_code == 200


async def test_the_password_of_a_database_is_not_shown() -> None:
    async with world(store={"url": "postgresql+asyncpg://someone:hunter2@db/runs"}) as client:
        shown = await client.get(f"{ADMIN}/config")

    assert shown.json()["store"]["url"] == "postgresql+asyncpg://db/runs"
    assert "hunter2" not in shown.text
