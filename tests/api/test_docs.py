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
