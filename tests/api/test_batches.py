"""`/v1/batches` with the real `openai` SDK: every status, every wrong request, restarts and lost model servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest

from forge_proxy.core.backend_errors import BackendUnreachable
from tests.fakes.batch_daemon import ENDPOINT, BatchModel, batch_daemon, echo, to_line, until
from tests.fakes.says import Said


def lines(count: int, prefix: str = "p") -> bytes:
    return b"".join(to_line(f"{prefix}{number}") for number in range(count))


async def test_s_batch_the_sdk_gets_each_response_once_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    model = BatchModel(echo)
    async with batch_daemon(tmp_path, model) as daemon:
        batch = await daemon.submit(lines(60), metadata={"for": "test"})
        assert (batch.object, batch.status, batch.endpoint) == ("batch", "validating", ENDPOINT)
        assert batch.expires_at == batch.created_at + 24 * 3600
        batch = await daemon.wait(batch.id)

        assert (batch.status, batch.error_file_id, batch.metadata) == ("completed", None, {"for": "test"})
        counts = batch.request_counts
        assert counts is not None
        assert (counts.total, counts.completed, counts.failed) == (60, 60, 0)
        assert batch.usage is not None
        assert (batch.usage.input_tokens, batch.usage.output_tokens, batch.usage.total_tokens) == (600, 300, 900)
        assert batch.model == "scripted"
        assert batch.completed_at is not None
        found = await daemon.lines(batch.output_file_id)
        assert [line["custom_id"] for line in found] == [f"p{number}" for number in range(60)]
        assert {line["error"] for line in found} == {None}
        first = found[0]["response"]
        assert (first["status_code"], first["body"]["choices"][0]["message"]["content"]) == (200, "echo p0")
        assert len({line["id"] for line in found}) == 60
        assert sorted(model.asked) == sorted(f"p{number}" for number in range(60))
        output = await daemon.sdk().files.retrieve(batch.output_file_id or "")
        assert (output.purpose, output.filename) == ("batch_output", f"{batch.id}_output.jsonl")
        assert daemon.reports == []


async def test_s_batch_the_output_expires_as_the_batch_says(tmp_path: Path) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        batch = await daemon.submit(lines(1), output_expires_after={"anchor": "created_at", "seconds": 7200})
        batch = await daemon.wait(batch.id)
        output = await daemon.sdk().files.retrieve(batch.output_file_id or "")

        assert output.expires_at == output.created_at + 7200


async def test_s_batch_each_client_sees_only_its_own_batches(tmp_path: Path) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        batch = await daemon.submit(lines(1))
        other = daemon.sdk("two")

        assert [one.id async for one in other.batches.list()] == []
        for operation in (other.batches.retrieve, other.batches.cancel):
            with pytest.raises(openai.NotFoundError, match="no batch"):
                await operation(batch.id)
        with pytest.raises(openai.BadRequestError, match="input_file_id: no file"):
            await other.batches.create(
                input_file_id=batch.input_file_id, endpoint="/v1/responses", completion_window="24h"
            )


async def test_s_batch_batches_are_listed_newest_first(tmp_path: Path) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        made = [(await daemon.submit(lines(1))).id for _ in range(3)]

        assert [one.id async for one in daemon.sdk().batches.list(limit=2)] == made[::-1]


FAULTS: list[tuple[bytes, str, str | None]] = [
    (b"{not json}\n", "invalid_json_line", None),
    (b"[1]\n", "invalid_json_line", None),
    (to_line("a").replace(b'"custom_id"', b'"id"'), "missing_custom_id", "custom_id"),
    (to_line("a").replace(b'"a"', b"7", 1), "invalid_custom_id", "custom_id"),
    (to_line("ok"), "duplicate_custom_id", "custom_id"),
    (to_line("a", url="/v1/embeddings"), "mismatched_endpoint", "url"),
    (to_line("a", method="GET"), "invalid_method", "method"),
    (to_line("a", body=[]), "invalid_body", "body"),
    (to_line("a", body={"stream": True}), "stream_not_supported", "body.stream"),
    (to_line("a", "x" * 1_100_000), "body_too_large", "body"),
    (to_line("a", "x" * 3_000_000), "body_too_large", "body"),
]


@pytest.mark.parametrize(("line", "code", "param"), FAULTS)
async def test_s_batch_a_malformed_line_fails_the_batch_with_its_number(
    tmp_path: Path, line: bytes, code: str, param: str | None
) -> None:
    model = BatchModel(echo)
    async with batch_daemon(tmp_path, model) as daemon:
        batch = await daemon.submit(to_line("ok") + b"\n" + line + to_line("fine"))
        batch = await daemon.wait(batch.id)

        assert batch.status == "failed"
        assert batch.failed_at is not None
        errors = batch.errors
        assert errors is not None
        assert [(one.code, one.line, one.param) for one in errors.data or ()] == [(code, 3, param)]
        assert (batch.output_file_id, batch.error_file_id, model.asked) == (None, None, [])


async def test_s_batch_all_lines_are_checked_and_the_first_hundred_faults_reported(tmp_path: Path) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        batch = await daemon.wait((await daemon.submit(b"{}\n" * 150)).id)
        assert batch.errors is not None
        assert [one.line for one in batch.errors.data or ()] == [*range(1, 101)]
        empty = await daemon.wait((await daemon.submit(b"\n\n")).id)
        assert empty.errors is not None
        assert [one.code for one in empty.errors.data or ()] == ["empty_file"]
        many = await daemon.wait((await daemon.submit(lines(50_002))).id)
        assert many.errors is not None
        assert [(one.code, one.line) for one in many.errors.data or ()] == [("too_many_lines", 50_001)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input_file_id": 7}, "input_file_id: expected the id of a file"),
        ({"input_file_id": "file-none"}, "input_file_id: no file"),
        ({"endpoint": "/v1/audio/speech"}, "endpoint: expected one of"),
        ({"endpoint": None}, "endpoint: expected one of"),
        ({"completion_window": "30m"}, "completion_window: expected 24h, or another time from 1h to 7d"),
        ({"completion_window": "8d"}, "completion_window: expected"),
        ({"completion_window": 24}, "completion_window: expected"),
        ({"metadata": {"a": 1}}, "metadata.a: expected a string"),
        ({"output_expires_after": {"anchor": "now", "seconds": 3600}}, "output_expires_after.anchor"),
        ({"output_expires_after": "1h"}, "output_expires_after: expected an object"),
        ({"notify_url": 5}, "notify_url: expected a URL"),
        ({"notify_url": "http://x/" + "a" * 2000}, "notify_url: expected a URL of at most 2000 characters"),
        ({"notify_url": "http://unlisted.example"}, "notify_url"),
    ],
)
async def test_s_batch_a_wrong_batch_names_the_field(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        file = await daemon.sdk().files.create(file=("a", lines(1)), purpose="batch")
        body = {"input_file_id": file.id, "endpoint": ENDPOINT, "completion_window": "1h", **fields}
        found = await daemon.client.post("/v1/batches", json=body, headers={"authorization": "Bearer one"})

        assert found.status_code == 400
        assert found.json()["error"]["message"].startswith(message)


async def test_s_batch_a_file_for_another_purpose_is_no_input(tmp_path: Path) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        file = await daemon.sdk().files.create(file=("a", lines(1)), purpose="user_data")
        with pytest.raises(openai.BadRequestError, match="expected a file with purpose batch; it has user_data"):
            await daemon.sdk().batches.create(input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h")


async def test_s_batch_a_rejected_request_is_a_line_of_the_error_file(tmp_path: Path) -> None:
    async def answer(prompt: str) -> Said:
        return Said(status=400, body={"error": {"message": "no"}}) if prompt == "bad" else Said(prompt)

    model = BatchModel(answer)
    async with batch_daemon(tmp_path, model) as daemon:
        content = to_line("good") + to_line("bad") + to_line("empty", body={"messages": []})
        batch = await daemon.wait((await daemon.submit(content)).id)

        assert batch.status == "completed"
        assert batch.request_counts is not None
        assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 2)
        assert [line["custom_id"] for line in await daemon.lines(batch.output_file_id)] == ["good"]
        errors = await daemon.lines(batch.error_file_id)
        assert [(line["custom_id"], line["response"]["status_code"]) for line in errors] == [
            ("bad", 400),
            ("empty", 400),
        ]
        assert "messages" in errors[1]["response"]["body"]["error"]["message"]
        assert model.asked.count("bad") == 1


async def test_s_batch_a_failed_line_is_sent_again_at_most_three_times(tmp_path: Path, no_waits: None) -> None:
    model = BatchModel(echo)

    async def answer(prompt: str) -> Said:
        is_first = model.asked.count(prompt) == 1
        return Said(status=500, body={"error": {"message": "oom"}}) if prompt == "never" or is_first else Said(prompt)

    model.answer = answer
    async with batch_daemon(tmp_path, model) as daemon:
        batch = await daemon.wait((await daemon.submit(to_line("once") + to_line("never"))).id)

        assert [line["custom_id"] for line in await daemon.lines(batch.output_file_id)] == ["once"]
        (failed,) = await daemon.lines(batch.error_file_id)
        assert (failed["custom_id"], failed["response"]["status_code"]) == ("never", 500)
        assert (model.asked.count("once"), model.asked.count("never")) == (2, 3)


async def test_s_batch_a_batch_waits_while_the_model_server_is_unavailable(tmp_path: Path, no_waits: None) -> None:
    model = BatchModel(echo)

    async def answer(prompt: str) -> Said:
        if len(model.asked) < 20:
            raise BackendUnreachable("http://scripted", "connection refused")
        return Said(prompt)

    model.answer = answer
    async with batch_daemon(tmp_path, model) as daemon:
        batch = await daemon.wait((await daemon.submit(lines(3))).id)

        assert (batch.status, batch.error_file_id) == ("completed", None)
        assert len(model.asked) > 20


async def test_s_batch_unfinished_lines_expire_and_finished_ones_are_delivered(tmp_path: Path, no_waits: None) -> None:
    model = BatchModel(echo)
    is_last = asyncio.Event()

    async def answer(prompt: str) -> Said:
        if prompt != "p0":
            is_last.set()
            raise BackendUnreachable("http://scripted", "connection refused")
        return Said(prompt)

    model.answer = answer
    async with batch_daemon(tmp_path, model, slots=1) as daemon:
        batch = await daemon.submit(lines(3), window="1h")
        await is_last.wait()
        await daemon.until_completed(batch.id, 1)
        daemon.clock.ahead = 3601
        batch = await daemon.wait(batch.id)

        assert (batch.status, batch.expired_at is not None) == ("expired", True)
        assert [line["custom_id"] for line in await daemon.lines(batch.output_file_id)] == ["p0"]
        errors = await daemon.lines(batch.error_file_id)
        assert [(line["custom_id"], line["response"], line["error"]["code"]) for line in errors] == [
            ("p1", None, "batch_expired"), ("p2", None, "batch_expired"),
        ]  # fmt: skip


async def test_s_batch_cancelling_lets_lines_in_flight_finish(tmp_path: Path) -> None:
    may_answer = asyncio.Event()

    async def answer(prompt: str) -> Said:
        await may_answer.wait()
        return Said(prompt)

    model = BatchModel(answer)
    async with batch_daemon(tmp_path, model, slots=2) as daemon:
        batch = await daemon.submit(lines(60))
        await until(lambda: model.running == 2)
        ai = daemon.sdk()
        cancelling = await ai.batches.cancel(batch.id)
        assert (cancelling.status, cancelling.cancelling_at is not None) == ("cancelling", True)
        with pytest.raises(openai.ConflictError, match="reads the file"):
            await ai.files.delete(batch.input_file_id)
        may_answer.set()
        batch = await daemon.wait(batch.id)

        assert batch.status == "cancelled"
        assert batch.cancelled_at is not None
        done = await daemon.lines(batch.output_file_id)
        missing = await daemon.lines(batch.error_file_id)
        assert len(done) >= 2
        assert len(done) == len(model.asked)
        assert len(done) + len(missing) == 60
        assert {line["error"]["code"] for line in missing} == {"batch_cancelled"}
        with pytest.raises(openai.ConflictError, match="nothing to cancel"):
            await ai.batches.cancel(batch.id)
        assert (await ai.files.delete(batch.input_file_id)).deleted


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, "choices"),
        ("/v1/responses", {"input": "hi"}, "output"),
        ("/v1/messages", {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}, "content"),
        ("/api/chat", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}, "message"),
        ("/v1/embeddings", {"input": "hi"}, "choices"),
        ("/v1/responses/input_tokens", {"input": "hi"}, "input_tokens"),
    ],
)
async def test_s_batch_each_route_with_whole_responses_is_an_endpoint(
    tmp_path: Path, endpoint: str, body: dict[str, Any], expected: str
) -> None:
    async with batch_daemon(tmp_path, BatchModel(echo)) as daemon:
        batch = await daemon.wait((await daemon.submit(to_line("a", url=endpoint, body=body), endpoint)).id)
        errors = await daemon.lines(batch.error_file_id)
        assert errors == []
        (line,) = await daemon.lines(batch.output_file_id)
        assert expected in line["response"]["body"]


async def test_s_batch_the_guardrails_apply_to_lines(tmp_path: Path) -> None:
    async def answer(prompt: str) -> Said:
        return Said('<tool_call>{"name": "get_weather", "arguments": {"days": "3"}}</tool_call>')

    parameters = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    async with batch_daemon(tmp_path, BatchModel(answer)) as daemon:
        batch = await daemon.wait((await daemon.submit(to_line("a", body=body))).id)
        (line,) = await daemon.lines(batch.output_file_id)
        (call,) = line["response"]["body"]["choices"][0]["message"]["tool_calls"]

        assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("get_weather", {"days": 3})


async def test_s_batch_a_batch_continues_in_the_next_daemon_and_resends_only_lines_in_flight(tmp_path: Path) -> None:
    answered: list[str] = []

    async def answer(prompt: str) -> Said:
        if len(answered) >= 30:
            await asyncio.Event().wait()
        answered.append(prompt)
        return Said(f"echo {prompt}")

    model = BatchModel(answer)
    async with batch_daemon(tmp_path, model) as daemon:
        batch = await daemon.submit(lines(80))
        await daemon.until_completed(batch.id, 30)
    in_flight = set(model.asked) - set(answered)
    assert 0 < len(in_flight) <= 5

    again = BatchModel(echo)
    async with batch_daemon(tmp_path, again) as daemon:
        batch = await daemon.wait(batch.id)
        assert batch.status == "completed"
        found = await daemon.lines(batch.output_file_id)
        assert [line["custom_id"] for line in found] == [f"p{number}" for number in range(80)]
        assert {line["response"]["body"]["choices"][0]["message"]["content"] for line in found} == {
            f"echo p{number}" for number in range(80)
        }
        assert set(again.asked) & set(model.asked) == in_flight
        assert len(again.asked) == 50


async def test_s_batch_a_few_lines_use_all_slots(tmp_path: Path) -> None:
    model = BatchModel(echo)
    is_full = asyncio.Event()

    async def answer(prompt: str) -> Said:
        if model.running == 4:
            is_full.set()
        await is_full.wait()
        return Said(prompt)

    model.answer = answer
    async with batch_daemon(tmp_path, model, slots=4) as daemon:
        batch = await daemon.wait((await daemon.submit(lines(20))).id)

        assert (batch.status, model.most) == ("completed", 4)


async def test_s_batch_the_first_line_of_a_long_prefix_goes_alone(tmp_path: Path) -> None:
    system = {"role": "system", "content": "You are a careful assistant. " * 100}
    content = b"".join(
        to_line(f"p{number}", [system, {"role": "user", "content": f"p{number}"}]) for number in range(30)
    )
    may_answer = asyncio.Event()

    async def answer(prompt: str) -> Said:
        await may_answer.wait()
        return Said(prompt)

    model = BatchModel(answer)
    async with batch_daemon(tmp_path, model) as daemon:
        batch = await daemon.submit(content)
        await until(lambda: bool(model.asked))
        await asyncio.sleep(0.05)  # others would come in a moment
        assert model.running == 1
        may_answer.set()
        batch = await daemon.wait(batch.id)

        assert len(await daemon.lines(batch.output_file_id)) == 30


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge_proxy.batches.shard_handler._WAIT_SECONDS", (0.001,))


class Notifications:
    """`NotificationSender` that keeps what it was given."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any, str]] = []

    async def send(self, url: str, body: bytes, key: str) -> None:
        self.sent.append((url, json.loads(body), key))


@pytest.mark.parametrize(("content", "status"), [(lines(3), "completed"), (b"{}\n", "failed")])
async def test_s_batch_the_client_is_notified_when_its_batch_has_ended(
    tmp_path: Path, content: bytes, status: str
) -> None:
    notifications, url = Notifications(), "http://client.example/batches"
    settings = {"tools": {"callbacks": {"allow": ["http://client.example"], "secret": "s" * 32}}}
    async with batch_daemon(tmp_path, BatchModel(echo), settings=settings, sender=notifications) as daemon:
        with pytest.raises(openai.BadRequestError, match="notify_url"):
            await daemon.submit(lines(1), extra_body={"notify_url": "http://other.example/"})
        batch = await daemon.submit(content, extra_body={"notify_url": url})
        await daemon.wait(batch.id)
        await until(lambda: bool(notifications.sent))

    ((called, body, key),) = notifications.sent
    assert (called, body["job"]["id"], body["job"]["status"]) == (url, batch.id, status)
    assert key.startswith(f"{batch.id}:")
