"""An Ollama as a program: `python -m tests.fakes.ollama_server MODEL`. Its one model does not reason.

It keeps the window that the model was last loaded with, and prints as JSON lines where it listens and the chats it
receives. If tools are offered, it calls the first one with every argument `Anna`, and after a result `respond`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

from aiohttp import web

JsonDict = dict[str, Any]
_USUAL_WINDOW = 4096


@dataclass
class Model:
    """The one model; `window` is that of the loaded one."""

    name: str
    window: int | None = None

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.13.0"})

    async def tags(self, _: web.Request) -> web.Response:
        return web.json_response({"models": [{"model": self.name, "digest": "1"}]})

    async def loaded(self, _: web.Request) -> web.Response:
        models = [{"model": self.name, "context_length": self.window}] if self.window else []
        return web.json_response({"models": models})

    async def show(self, _: web.Request) -> web.Response:
        info = {"general.architecture": "llama", "llama.context_length": 131072}
        return web.json_response({"capabilities": ["completion", "tools"], "model_info": info})

    async def chat(self, request: web.Request) -> web.Response:
        asked: JsonDict = await request.json()
        _say({"event": "asked", **{key: asked.get(key) for key in ("model", "options", "think", "messages")}})
        if asked.get("think"):
            return web.json_response({"error": f'"{self.name}" does not support thinking'}, status=400)
        self.window = (asked.get("options") or {}).get("num_ctx", _USUAL_WINDOW)
        if not asked["messages"]:
            return web.json_response({"done": True, "done_reason": "load", "message": {"role": "assistant"}})
        counts = {"prompt_eval_count": 12, "eval_count": 5}
        return web.json_response({"model": self.name, "message": _answer(asked), "done": True, **counts})


def _answer(asked: JsonDict) -> JsonDict:
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in asked.get("tools") or []}
    if not tools:
        return {"role": "assistant", "content": "Hello."}
    name = "respond" if asked["messages"][-1]["role"] == "tool" and "respond" in tools else next(iter(tools))
    arguments = dict.fromkeys(tools[name].get("properties", {}), "Anna")
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def _say(line: JsonDict) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201  # that is how it says it


async def _serve(name: str) -> None:
    model, app = Model(name), web.Application()
    app.add_routes(
        [
            web.get("/api/version", model.version),
            web.get("/api/tags", model.tags),
            web.get("/api/ps", model.loaded),
            web.post("/api/show", model.show),
            web.post("/api/chat", model.chat),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    _say({"event": "listening", "url": f"http://127.0.0.1:{runner.addresses[0][1]}"})
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
