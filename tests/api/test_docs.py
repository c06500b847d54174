"""The description of the API: complete, correct, readable without a key, and a page without scripts."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import httpx
import pytest
import pytest_asyncio

from forge_proxy import __version__
from tests.api.admin.world import world

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a daemon without keys; no test changes its state."""
    async with world() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keyed() -> AsyncGenerator[httpx.AsyncClient]:
    """A client without a key of a daemon that has one; no test changes its state."""
    async with world(server={"api_keys": ["sk-user"]}) as made:
        yield made


async def test_every_route_has_a_description_and_responses(keyed: httpx.AsyncClient) -> None:
    described = (await keyed.get("/openapi.json")).json()

    paths = described["paths"]
    assert {"/v1/chat/completions", "/v1/models/{id}", "/health", "/admin/v1/budget", "/admin/v1/reload"} <= set(paths)
    operations = [operation for path in paths.values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        assert "200" in operation["responses"]
        assert "422" not in operation["responses"]


async def test_each_route_names_the_errors_it_ends_with(keyed: httpx.AsyncClient) -> None:
    paths = (await keyed.get("/openapi.json")).json()["paths"]

    def of(method: str, path: str) -> dict[str, str]:
        return {status: answer["description"] for status, answer in paths[path][method]["responses"].items()}

    assert "tool_choice" not in of("get", "/v1/models")["502"]
    for code in ("tool_choice_unsatisfied", "tool_call_invalid", "empty_answer"):
        assert code in of("post", "/v1/chat/completions")["502"]
    assert "model_not_loaded" in of("post", "/v1/chat/completions")["503"]
    assert "503" in of("post", "/admin/v1/backend/model")
    assert "502" in of("post", "/admin/v1/reload")
    for path, operations in paths.items():
        assert all(("413" in of(method, path)) == ("requestBody" in one) for method, one in operations.items())


async def test_the_errors_of_runs_are_described(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]

    submitted = paths["/admin/v1/runs"]["post"]["responses"]
    assert "Idempotency-Key" in submitted["409"]["description"]
    assert "tool" in submitted["502"]["description"]
    assert "409" in paths["/admin/v1/runs/{run_id}"]["get"]["responses"]


async def test_every_reference_in_the_description_exists(client: httpx.AsyncClient) -> None:
    answer = await client.get("/openapi.json")

    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))
    assert wanted <= set(answer.json()["components"]["schemas"])


async def test_the_page_has_no_script_and_loads_nothing(keyed: httpx.AsyncClient) -> None:
    page = await keyed.get("/docs")

    assert page.status_code == 200
    assert "<script" not in page.text
    assert not re.search(r'(src|href)="(?!/openapi\.json|#|data:,)', page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "PUT /admin/v1/budget" in page.text


async def test_the_page_has_a_table_of_contents_with_each_route_and_object(keyed: httpx.AsyncClient) -> None:
    described, page = (await keyed.get("/openapi.json")).json(), (await keyed.get("/docs")).text

    operations = [operation for path in described["paths"].values() for operation in path.values()]
    for name in [*(operation["operationId"] for operation in operations), *described["components"]["schemas"]]:
        assert f'href="#{name}"' in page
        assert page.count(f'id="{name}"') == 1


@pytest.mark.parametrize("accept", ["text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "*/*", "application/json"])
async def test_the_root_describes_the_daemon_without_a_key(keyed: httpx.AsyncClient, accept: str) -> None:
    home = await keyed.get("/", headers={"accept": accept})

    assert (home.status_code, home.headers["vary"]) == (200, "Accept")
    assert __version__ in home.text
    assert "/v1/chat/completions" in home.text
    assert "sk-user" not in home.text
    assert "scripted" not in home.text  # the model
    if "html" in accept:
        assert home.text.startswith("<!doctype html>")
        assert "default-src 'none'" in home.headers["content-security-policy"]
    else:
        assert home.json()["status"] == "ok"
        assert set(home.json()) == {"name", "version", "status", "links"}


async def test_each_link_of_the_root_can_be_opened_in_a_browser(client: httpx.AsyncClient) -> None:
    home = await client.get("/", headers={"accept": "text/html"})
    links = re.findall(r'<a href="([^"]+)"', home.text)
    opened = {link: (await client.get(link)).status_code for link in links}

    assert set(opened.values()) == {200}
    assert {"/docs", "/v1/models", "/health"} <= set(opened)


async def test_the_page_has_the_address_it_was_requested_from_and_renders_code(client: httpx.AsyncClient) -> None:
    page = await client.get("http://localhost:9000/docs")

    assert "curl http://localhost:9000/v1/models" in page.text
    assert "127.0.0.1:8081" not in page.text
    assert "<code>x-forge-guardrails</code>" in page.text
    assert "`" not in page.text


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_page_fits_small_screens_and_has_browsers_request_no_icon(client: httpx.AsyncClient, path: str) -> None:
    page = await client.get(path, headers={"accept": "text/html"})

    assert '<meta name="viewport"' in page.text
    assert '<link rel="icon" href="data:,">' in page.text
    assert "img-src data:" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/v1/chat/completion", "did you mean /v1/chat/completions?"),
        ("/v1/response", "did you mean /v1/responses?"),
        ("/v1/model", "did you mean /v1/models?"),
        ("/admin/v1/state", "did you mean /admin/v1/status?"),
        ("/nowhere", "GET / lists the routes"),
        (f"/{'x' * 9000}", "GET / lists the routes"),
    ],
)
async def test_an_unknown_route_names_the_nearest(client: httpx.AsyncClient, path: str, near: str) -> None:
    answer = await client.post(path)

    assert answer.status_code == 404
    assert near in answer.json()["error"]["message"]
    assert len(answer.text) < 500
