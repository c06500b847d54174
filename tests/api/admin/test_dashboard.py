"""The files of the dashboard: they need no key, and the page may run no script but its own."""

from __future__ import annotations

import re

import pytest

from forge_proxy.api.dashboard import DASHBOARD_PATHS, FILES
from tests.api.admin.world import world


async def test_the_page_loads_only_files_that_are_served() -> None:
    async with world() as client:
        page = await client.get("/ui")
        loaded = set(re.findall(r'(?:src|href)="(/ui/[^"]+)"', page.text))
        for path in sorted(DASHBOARD_PATHS):
            answer = await client.get(path)
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self';" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"

    assert loaded == {"/ui/style.css", "/ui/app.js"}
    imported = {name for text in FILES.values() for name in re.findall(r'from "\./([^"]+)"', text.decode())}
    assert imported | {"app.js", "index.html", "style.css"} == set(FILES)


@pytest.mark.parametrize("path", ["/ui/unknown.js", "/ui/../auth.py", "/ui/%2e%2e/auth.py", "/ui/__init__.py"])
async def test_no_other_file_is_served(path: str) -> None:
    async with world() as client:
        assert (await client.get(path)).status_code == 404
