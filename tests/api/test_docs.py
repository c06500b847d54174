"""The description of the API: whole, true, readable without a key, and a page that runs nothing."""

from __future__ import annotations

import re

from tests.api.admin.world import world


async def test_every_route_is_described_with_words_and_answers() -> None:
    async with world(server={"api_keys": ["sk-user"]}) as client:
        described = (await client.get("/openapi.json")).json()

    paths = described["paths"]
    assert {"/v1/chat/completions", "/v1/models/{id}", "/health", "/admin/v1/budget", "/admin/v1/reload"} <= set(paths)
    operations = [operation for path in paths.values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        assert "200" in operation["responses"]
        assert "422" not in operation["responses"]


async def test_each_route_names_the_errors_it_ends_with() -> None:
    async with world(server={"api_keys": ["sk-user"]}) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]

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


async def test_the_errors_of_runs_say_what_they_are_about() -> None:
    async with world() as client:
        paths = (await client.get("/openapi.json")).json()["paths"]

    submitted = paths["/admin/v1/runs"]["post"]["responses"]
    assert "Idempotency-Key" in submitted["409"]["description"]
    assert "tool" in submitted["502"]["description"]
    assert "409" in paths["/admin/v1/runs/{run_id}"]["get"]["responses"]


async def test_what_a_description_points_to_is_there() -> None:
    async with world() as client:
        answer = await client.get("/openapi.json")

    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))
    assert wanted <= set(answer.json()["components"]["schemas"])


async def test_the_page_runs_nothing_and_takes_nothing_from_elsewhere() -> None:
    async with world(server={"api_keys": ["sk-user"]}) as client:
        page = await client.get("/docs")

    assert page.status_code == 200
    assert "<script" not in page.text
    assert not re.search(r'(src|href)="(?!/openapi\.json)', page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "PUT /admin/v1/budget" in page.text
