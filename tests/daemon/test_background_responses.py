"""Responses with `background: true`, with the openai package against a daemon over real connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from forge_proxy import ProxyServer, Settings
from tests.fakes.says import Said
from tests.transcripts.replies import openai_replies
from tests.transcripts.server import Reply, ScriptedServer, scripted_server

MINE, YOURS = "key-of-mine", "key-of-yours"
SECONDS = 60
HELLO = Said("Hello from afar.", reasoning="Hm.")


@contextmanager
def daemon(server: ScriptedServer, folder: Path, **store: Any) -> Generator[tuple[openai.OpenAI, openai.OpenAI]]:
    """Yield two clients, with different keys, of a daemon in front of the server."""
    settings = Settings.model_validate(
        {
            "store": {"url": f"sqlite+aiosqlite:///{folder}/runs.db", **store},
            "server": {"api_keys": [MINE, YOURS]},
            "jobs": {"idle_seconds": 0},
        }
    )
    with (
        ProxyServer(settings, url=f"{server.url}/v1", backend="openai", port=0) as proxy,
        openai.OpenAI(base_url=proxy.url, api_key=MINE, max_retries=0, timeout=SECONDS) as mine,
        openai.OpenAI(base_url=proxy.url, api_key=YOURS, max_retries=0, timeout=SECONDS) as yours,
    ):
        yield mine, yours


@pytest.fixture(autouse=True)
def _own_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def say(server: ScriptedServer, *said: Said) -> None:
    server.set_script(openai_replies(said, stream=True))


def submit(client: openai.OpenAI, **fields: Any) -> Any:
    """The response, or its events with `stream`."""
    create: Any = client.responses.create
    return create(**{"model": "scripted", "input": "Hi", "background": True, **fields})


def until_ended(client: openai.OpenAI, response_id: str) -> Response:
    end = time.monotonic() + SECONDS
    while (response := client.responses.retrieve(response_id)).status in ("queued", "in_progress"):
        assert time.monotonic() < end, "it does not end"
        time.sleep(0.02)
    return response


class HeldServer:
    """A model server that answers only when it may."""

    def __init__(self, server: ScriptedServer) -> None:
        self.may_answer = threading.Event()
        self.is_asked = threading.Event()
        reply = server.next_reply

        def hold(path: str, body: Any) -> Reply:
            self.is_asked.set()
            assert self.may_answer.wait(SECONDS)
            return reply(path, body)

        server.next_reply = hold


def test_a_response_is_answered_later_and_continued(server: ScriptedServer, tmp_path: Path) -> None:
    held = HeldServer(server)
    with daemon(server, tmp_path) as (mine, _):
        say(server, HELLO, Said("Again."))

        begun = submit(mine, instructions="Be brief.", metadata={"a": "b"})
        assert held.is_asked.wait(SECONDS)
        running = mine.responses.retrieve(begun.id)
        held.may_answer.set()
        ended = until_ended(mine, begun.id)

        assert (begun.status, begun.background, begun.output, begun.metadata) == ("queued", True, [], {"a": "b"})
        assert running.status == "in_progress"
        assert (ended.status, ended.background, ended.output_text) == ("completed", True, "Hello from afar.")
        assert ended.instructions == "Be brief."
        assert [item.type for item in mine.responses.input_items.list(begun.id)] == ["message"]
        following = mine.responses.create(model="scripted", input="And?", previous_response_id=begun.id)
        assert following.output_text == "Again."
        assert [message["role"] for message in server.received[-1][1]["messages"]] == ["user", "assistant", "user"]
        mine.responses.delete(begun.id)
        with pytest.raises(openai.NotFoundError):
            mine.responses.retrieve(begun.id)


def test_a_stream_is_resumed_after_any_of_its_events(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(server, tmp_path) as (mine, _):
        say(server, HELLO)
        with submit(mine, stream=True) as stream:
            first = [event for event, _ in zip(stream, range(2), strict=False)]
        response_id = first[0].response.id
        ended = until_ended(mine, response_id)

        every: list[Any] = list(mine.responses.retrieve(response_id, stream=True))
        numbers = [event.sequence_number for event in every]
        assert numbers == list(range(len(every)))
        assert [event.type for event in every[:3]] == ["response.created", "response.queued", "response.in_progress"]
        assert [event.to_dict() for event in every[:2]] == [event.to_dict() for event in first]
        assert every[-1].type == "response.completed"
        assert every[-1].response.to_dict() == ended.to_dict()
        text = "".join(event.delta for event in every if event.type == "response.output_text.delta")
        assert text == "Hello from afar."
        for after in (0, 4, len(every) - 2, len(every) - 1):
            rest = list(mine.responses.retrieve(response_id, stream=True, starting_after=after))
            assert [event.to_dict() for event in rest] == [event.to_dict() for event in every[after + 1 :]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_of_which_no_text_was_stored_is_answered_by_the_next_daemon(
    server: ScriptedServer, tmp_path: Path, *, stream: bool
) -> None:
    held = HeldServer(server)
    say(server, HELLO, HELLO)
    with daemon(server, tmp_path) as (mine, _):
        begun = submit(mine, stream=stream)
        response_id = next(iter(begun)).response.id if stream else begun.id
        assert held.is_asked.wait(SECONDS)
    held.may_answer.set()

    with daemon(server, tmp_path) as (mine, _):
        ended = until_ended(mine, response_id)

    assert (ended.status, ended.output_text) == ("completed", "Hello from afar.")


def test_a_running_response_is_cancelled(server: ScriptedServer, tmp_path: Path) -> None:
    held = HeldServer(server)
    with daemon(server, tmp_path) as (mine, _):
        say(server, HELLO)
        begun = submit(mine)
        assert held.is_asked.wait(SECONDS)

        cancelled = mine.responses.cancel(begun.id)
        again = mine.responses.cancel(begun.id)
        held.may_answer.set()

        assert (cancelled.status, cancelled.output, again.status) == ("cancelled", [], "cancelled")
        assert mine.responses.retrieve(begun.id).status == "cancelled"


def test_cancelling_a_complete_response_returns_it(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(server, tmp_path) as (mine, _):
        say(server, HELLO)
        ended = until_ended(mine, submit(mine).id)

        assert mine.responses.cancel(ended.id).to_dict() == ended.to_dict()


def test_a_failed_response_has_the_reason(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(server, tmp_path) as (mine, _):
        error = b'{"error": {"message": "no such adapter", "type": "invalid_request_error"}}'
        server.set_script([Reply(error, status=400)] * 9)
        begun = submit(mine, stream=True)
        events = list(begun)
        failed = until_ended(mine, events[0].response.id)

        assert (failed.status, failed.output) == ("failed", [])
        assert failed.error is not None
        assert "no such adapter" in failed.error.message
        assert [event.type for event in events] == ["response.created", "response.queued", "response.failed"]
        assert [event.sequence_number for event in events] == [0, 1, 2]


def test_another_key_finds_nothing(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(server, tmp_path) as (mine, yours):
        say(server, HELLO)
        ended = until_ended(mine, submit(mine).id)

        for act in (yours.responses.retrieve, yours.responses.cancel, yours.responses.delete):
            with pytest.raises(openai.NotFoundError):
                act(ended.id)
        assert mine.responses.retrieve(ended.id).status == "completed"


def test_what_is_not_stored_cannot_be_answered_later(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(server, tmp_path) as (mine, _):
        with pytest.raises(openai.BadRequestError, match="store: "):
            submit(mine, store=False)
        with pytest.raises(openai.BadRequestError, match="max_output_tokens"):
            submit(mine, max_output_tokens=-1)
    with daemon(server, tmp_path, responses="never") as (mine, _), pytest.raises(openai.BadRequestError, match="never"):
        submit(mine)
    assert server.received == []


def test_a_response_that_was_not_streamed_has_no_events(server: ScriptedServer, tmp_path: Path) -> None:
    with daemon(server, tmp_path) as (mine, _):
        say(server, HELLO)
        ended = until_ended(mine, submit(mine).id)

        with pytest.raises(openai.BadRequestError, match="stream"):
            mine.responses.retrieve(ended.id, stream=True)
        with pytest.raises(openai.BadRequestError, match="starting_after"):
            mine.responses.retrieve(ended.id, stream=True, starting_after=-3)


def test_a_daemon_that_is_started_again_answers_what_was_waiting(server: ScriptedServer, tmp_path: Path) -> None:
    held = HeldServer(server)
    say(server, HELLO, HELLO)
    with daemon(server, tmp_path) as (mine, _):
        begun = submit(mine)
        assert held.is_asked.wait(SECONDS)
    held.may_answer.set()
    say(server, HELLO, HELLO)

    with daemon(server, tmp_path) as (mine, _):
        assert until_ended(mine, begun.id).output_text == "Hello from afar."
