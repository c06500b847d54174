"""The openai package's Responses client against a daemon that stores responses, over real connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from forge_proxy import ProxyServer, Settings
from tests.fakes.says import Said
from tests.transcripts.replies import openai_replies
from tests.transcripts.server import ScriptedServer, scripted_server

JsonDict = dict[str, Any]
MINE, YOURS = "key-of-mine", "key-of-yours"
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = Said(calls=(("get_weather", '{"city": "Paris"}'),))


@pytest.fixture(autouse=True)
def _own_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")


@contextmanager
def daemon(folder: Path, **store: Any) -> Generator[tuple[ScriptedServer, openai.OpenAI, openai.OpenAI]]:
    """A scripted model server, and clients of a daemon before it with two keys."""
    settings = Settings.model_validate(
        {
            "store": {"url": f"sqlite+aiosqlite:///{folder}/runs.db", **store},
            "server": {"api_keys": [MINE, YOURS]},
            "guardrails": {"text_responses": "accept"},
        }
    )
    with (
        scripted_server() as server,
        ProxyServer(settings, url=f"{server.url}/v1", backend="openai", port=0) as proxy,
        openai.OpenAI(base_url=proxy.url, api_key=MINE, max_retries=0, timeout=60) as mine,
        openai.OpenAI(base_url=proxy.url, api_key=YOURS, max_retries=0, timeout=60) as yours,
    ):
        yield server, mine, yours


def say(server: ScriptedServer, *said: Said, stream: bool = False) -> None:
    server.set_script(openai_replies(said, stream=stream))


def asked(server: ScriptedServer) -> Sequence[JsonDict]:
    """The messages of the last request to the model server."""
    return server.received[-1][1]["messages"]


def test_a_response_is_created_retrieved_listed_continued_and_deleted(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        say(server, CALL)
        first = mine.responses.create(model="scripted", input="The weather in Paris?", tools=[WEATHER], store=True)
        (call,) = first.output
        assert call.type == "function_call"

        say(server, Said("It is sunny.", reasoning="Hm."))
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        second = mine.responses.create(model="scripted", input=[result], tools=[WEATHER], previous_response_id=first.id)

        assert [message["role"] for message in asked(server)] == ["user", "assistant", "tool"]
        assert asked(server)[1]["tool_calls"][0]["function"]["name"] == "get_weather"
        assert second.output_text == "It is sunny."
        assert mine.responses.retrieve(second.id).to_dict() == second.to_dict()
        listed = list(mine.responses.input_items.list(second.id, order="asc", limit=2))
        assert [item.type for item in listed] == ["message", "function_call", "function_call_output"]
        newest = mine.responses.input_items.list(second.id, limit=1)
        assert (newest.data[0].type, newest.has_more) == ("function_call_output", True)

        mine.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            mine.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError) as gone:
            mine.responses.create(model="scripted", input="And?", previous_response_id=second.id)
        assert gone.value.code == "previous_response_not_found"
        with pytest.raises(openai.BadRequestError):
            mine.responses.cancel(second.id)


def test_a_streamed_response_is_stored_before_it_is_complete(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        say(server, Said("It is sunny.", reasoning="Hm."), stream=True)
        with mine.responses.stream(model="scripted", input="The weather?", store=True) as stream:
            for event in stream:
                if event.type == "response.completed":
                    assert mine.responses.retrieve(event.response.id).output_text == "It is sunny."
            final = stream.get_final_response()

        assert (final.output_text, final.to_dict()["store"]) == ("It is sunny.", True)


def test_tools_and_schemas_are_parsed_by_the_package(tmp_path: Path) -> None:
    class Weather(BaseModel):
        city: str
        days: int

    with daemon(tmp_path) as (server, mine, _):
        say(server, Said('{"city": "Paris", "days": 3}'))
        parsed = mine.responses.parse(model="scripted", input="The weather?", text_format=Weather)

        assert parsed.output_parsed == Weather(city="Paris", days=3)
        assert server.received[-1][1]["response_format"]["json_schema"]["schema"]["required"] == ["city", "days"]

        say(server, CALL, stream=True)
        with mine.responses.stream(model="scripted", input="The weather?", tools=[WEATHER]) as stream:
            (item,) = stream.get_final_response().output
        assert (item.type, getattr(item, "arguments", "")) == ("function_call", '{"city": "Paris"}')


def test_only_the_key_that_made_a_response_can_read_it(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, yours):
        say(server, Said("Secret."))
        made = mine.responses.create(model="scripted", input="Hi", store=True)

        with pytest.raises(openai.NotFoundError):
            yours.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            yours.responses.input_items.list(made.id)
        with pytest.raises(openai.NotFoundError):
            yours.responses.delete(made.id)
        with pytest.raises(openai.BadRequestError):
            yours.responses.create(model="scripted", input="And?", previous_response_id=made.id)
        reference: Any = {"type": "item_reference", "id": made.output[0].id}
        with pytest.raises(openai.BadRequestError):
            yours.responses.create(model="scripted", input=[reference])
        assert mine.responses.retrieve(made.id).output_text == "Secret."


def test_a_response_is_only_stored_if_the_request_uses_it(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        say(server, Said("Hello."))
        made = mine.responses.create(model="scripted", input="Hi")

        assert made.to_dict()["store"] is False
        with pytest.raises(openai.NotFoundError):
            mine.responses.retrieve(made.id)


@pytest.mark.parametrize(("setting", "asked_for", "is_stored"), [("always", None, True), ("always", False, False),
                                                                 ("never", True, False)])  # fmt: skip
def test_the_operator_decides_what_is_stored(
    tmp_path: Path, setting: str, asked_for: bool | None, is_stored: bool
) -> None:
    with daemon(tmp_path, responses=setting, requests=False) as (server, mine, _):
        say(server, Said("Hello."))
        store: Any = openai.omit if asked_for is None else asked_for
        response = mine.responses.with_raw_response.create(model="scripted", input="Hi", store=store)

        assert response.parse().to_dict()["store"] is is_stored
        assert ("x-forge-interventions" in response.headers) is (setting == "never")
    assert (tmp_path / "runs.db").exists() is is_stored


def test_a_conversation_is_continued_by_its_id(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        for text in ("One.", "Two."):
            say(server, Said(text))
            made = mine.responses.create(model="scripted", input=f"Say {text}", conversation="conv_1")

        assert made.conversation is not None
        assert made.conversation.id == "conv_1"
        assert [message["content"] for message in asked(server)] == ["Say One.", "One.", "Say Two."]


def test_a_reference_stands_for_its_item(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        say(server, Said("One."))
        made = mine.responses.create(model="scripted", input="Say one.", store=True)
        items: Any = [{"type": "item_reference", "id": made.output[0].id}, {"role": "user", "content": "Again."}]
        say(server, Said("One."))
        mine.responses.create(model="scripted", input=items)

        assert [message["content"] for message in asked(server)] == ["One.", "Again."]


def test_a_stored_response_survives_a_restart(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        say(server, Said("Hello."))
        made = mine.responses.create(model="scripted", input="Hi", store=True)
    with daemon(tmp_path) as (_, mine, _):
        assert mine.responses.retrieve(made.id).output_text == "Hello."


def test_a_response_that_cannot_be_stored_is_delivered_and_reports_it(tmp_path: Path) -> None:
    with daemon(tmp_path) as (server, mine, _):
        say(server, Said("One."))
        mine.responses.create(model="scripted", input="Hi", store=True)
        with sqlite3.connect(tmp_path / "runs.db") as raw:
            raw.execute("DROP TABLE response_items")
        raw.close()

        say(server, Said("Two."))
        made = mine.responses.create(model="scripted", input="Hi", store=True)

        assert (made.output_text, made.to_dict()["store"]) == ("Two.", False)


def test_the_tokens_of_a_prompt_are_counted(tmp_path: Path) -> None:
    with daemon(tmp_path) as (_, mine, _):
        counted = mine.responses.input_tokens.count(model="scripted", input="How many tokens are these?")

        assert counted.object == "response.input_tokens"
        assert counted.input_tokens > 3
