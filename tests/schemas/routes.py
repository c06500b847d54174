"""The description, and asking the application it is of."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias, cast

import httpx
import requests
import schemathesis

from tests.api.admin.world import Managed, world
from tests.fakes.says import Said

MadeUp: TypeAlias = schemathesis.Case[Any]
_FIRST = Said(text="Hello.")
_SAID = (_FIRST, Said(calls=(("get_weather", '{"city": "Oslo"}'),)), Said(text="<tool_call>{"))


class Endless(tuple[Said, ...]):
    """A script without an end."""

    def __getitem__(self, at: Any) -> Any:
        return _SAID[at % len(_SAID)]


class Application:
    """One application in its own event loop, called as `schemathesis` calls it: without waiting for anything real."""

    def __init__(self, *, managed: bool) -> None:
        self._runner = asyncio.Runner()
        self._world = world(control=Managed() if managed else None, says=Endless([_FIRST]))
        self._client = self._runner.run(self._world.__aenter__())
        self.description: dict[str, Any] = self._runner.run(self._client.get("/openapi.json")).json()

    def close(self) -> None:
        """End it."""
        self._runner.run(self._world.__aexit__(None, None, None))
        self._runner.close()

    def ask(self, case: MadeUp) -> httpx.Response:
        """Send one made-up request, as schemathesis writes it."""
        written = case.as_transport_kwargs(base_url=str(self._client.base_url).rstrip("/"))
        known = {key: written.get(key) for key in ("method", "url", "headers", "params", "json", "data", "cookies")}
        ready = requests.Request(**known).prepare()
        given = {name: value for name, value in ready.headers.items() if name.lower() not in ("host", "cookie")}
        headers, body = cast("dict[str, str]", given), cast("bytes | str | None", ready.body)
        return self._runner.run(self._client.request(str(ready.method), str(ready.url), headers=headers, content=body))
