"""Every client API over every backend adapter: the same response, whatever the API and the model server."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import httpx
import pytest

from forge_proxy.api.app import create_app
from forge_proxy.api.config import ServerConfig
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.api.client_apis import CHAT_COMPLETIONS_API, CLIENT_APIS, ApiResponse, ClientApi, Turn
from tests.contracts.adapters import ADAPTERS, Adapter, Dialect
from tests.contracts.recordings import Recording
from tests.fakes.literal import EVENTS, JSON
from tests.fakes.scripted import JsonDict, StillClock

USER = Turn("user", "What is the weather?")
TOOLS: dict[str, JsonDict] = {"get_weather": {"type": "object"}}
NO_TOOLS: dict[str, JsonDict] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each adapter with each answer of its servers."""
    cases = [dialect.as_case(said, name=said.name) for dialect in ADAPTERS for said in dialect.recordings]
    metafunc.parametrize(("dialect", "said"), cases, indirect=["dialect"], scope="module")


@pytest.fixture(scope="module")
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


@pytest.fixture(scope="module")
def adapter(dialect: Dialect) -> Generator[Adapter]:
    with dialect.run() as running:
        yield running


def ask(
    adapter: Adapter, sent: Sequence[bytes], kind: str, api: ClientApi, tools: dict[str, JsonDict], *, stream: bool
) -> ApiResponse:
    """What a client of the API receives if the model server sends this to each request."""
    adapter.http.says(sent, kind)
    policy = GuardPolicy(text_responses="accept", on_early_end="accept")
    engine = Engine(EngineConfig(adapter.backend, StillClock(), lambda _: None, guardrails=policy))
    transport = httpx.ASGITransport(create_app(engine, adapter.backend, ServerConfig()))

    async def asked() -> str:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.post(api.path, json=api.request((USER,), tools, stream=stream))
        assert response.status_code == 200, response.text
        return response.text

    return api.read(adapter.runner.run(asked()), stream=stream)


CASES = [
    *((api, NO_TOOLS) for api in CLIENT_APIS if api is not CHAT_COMPLETIONS_API),  # which passes a stream on as it is
    *((api, TOOLS) for api in CLIENT_APIS),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("api", "tools"), CASES, ids=[f"{api.name}, {'guarded' if tools else 'unguarded'}" for api, tools in CASES]
)
def test_each_api_gives_the_response_of_chat_completions(
    adapter: Adapter, said: Recording, api: ClientApi, tools: dict[str, JsonDict]
) -> None:
    expected = ask(adapter, [said.whole], JSON, CHAT_COMPLETIONS_API, tools, stream=False)

    whole = ask(adapter, [said.whole], JSON, api, tools, stream=False)
    streamed = ask(adapter, [said.streamed], EVENTS, api, tools, stream=True)
    in_pieces = [said.streamed[at : at + 1] for at in range(len(said.streamed))]
    cut = ask(adapter, in_pieces, EVENTS, api, tools, stream=True)

    assert whole == expected
    assert streamed == expected
    assert cut == expected
