"""A scripted model for tasks, also as a server: `python -m tests.fakes.task_model SCRIPT.yaml --port N`.

It recognises what a request is for (plan, generate, resolve_conflicts, edits, correction, other) by its prompt, and
answers with the first rule of the script that fits and is not used up, in the form that the prompt requests.

    responses:
      - when: {operation: generate, step: totals}   # all conditions have to hold; none: any request
        respond: {explanation: "…", files: [{path: a.py, content: "…"}], edits: []}
        fault: unmatched       # spoils the response: see FAULTS
        times: 1               # how often the rule is used; without it, always

`GET /requests` returns what was requested, and each request is printed as a JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from forge_proxy.core.tasks.operations import OPERATIONS
from tests.fakes.says import Said

JsonDict = dict[str, Any]
_TOOL = "llm_response"


def _wrong_path(value: JsonDict) -> None:
    for part in (*value["files"], *value["edits"]):
        part["path"] = f"outside/{part['path']}"


def _search(text: str) -> Callable[[JsonDict], None]:
    def spoil(value: JsonDict) -> None:
        for edits in value["edits"]:
            edits["edits"][0]["search"] = text

    return spoil


def _elide(value: JsonDict) -> None:
    for edits in value["edits"]:
        edits["edits"][0]["replace"] += "\n# ... rest of the code unchanged\n"
    for file in value["files"]:
        file["content"] += "\n# ... rest of the code unchanged\n"


def _empty(value: JsonDict) -> None:
    value["files"], value["edits"] = [], []


VALUE_FAULTS: dict[str, Callable[[JsonDict], None]] = {
    "wrong_path": _wrong_path,
    "unmatched": _search("qwx zvk jjy 000 ==== ~~~~\n^^^^ wwww ;;;;"),
    "ambiguous": _search("="),
    "elided": _elide,
    "empty": _empty,
}
FAULTS = (*VALUE_FAULTS, "truncated", "bad_json", "slow", "silent", "error_500")
SLOW_SECONDS = 1.0


@dataclass(frozen=True)
class TaskRequest:
    """A request as it was recognised."""

    body: JsonDict
    operation: str
    step: str | None
    form: str
    is_retry: bool
    """Whether the prompt contains errors of an earlier attempt."""

    @classmethod
    def read(cls, body: JsonDict) -> TaskRequest:
        """Recognise a request."""
        messages = body.get("messages") or []
        system = next((str(one["content"]) for one in messages if one["role"] == "system"), "")
        user = next((str(one["content"]) for one in messages if one["role"] == "user"), "")
        operation = _operation_of(system, messages)
        found = re.search(r"This call is for `([^`]+)`", system)
        form = "blocks" if "one block for each file" in system else "json"
        is_retry = "## Previous errors" in system
        return (
            cls(body, operation, found[1] if found else None, form, is_retry)
            if user
            else cls(body, "other", None, form, False)
        )

    def fits(self, conditions: JsonDict) -> bool:
        """Whether all conditions of a rule hold."""
        return all(getattr(self, name) == value for name, value in conditions.items())


def _operation_of(system: str, messages: list[JsonDict]) -> str:
    if "## Output requirements" not in system:
        return "other"
    if len(messages) > 2:
        return "correction"
    if "These edits of your response could not be applied" in system:
        return "edits"
    for operation in OPERATIONS.values():
        if operation.role and operation.role in system:
            return operation.name
    return "generate"


@dataclass
class TaskModel:
    """Answers requests by a script."""

    rules: list[JsonDict]
    requests: list[TaskRequest] = field(default_factory=list[TaskRequest])
    used: dict[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of(cls, *rules: JsonDict) -> TaskModel:
        """Return a model with these rules."""
        return cls([*rules])

    def choose(self, body: JsonDict) -> tuple[TaskRequest, JsonDict | None]:
        """Record a request, and return the rule that answers it."""
        request = TaskRequest.read(body)
        self.requests.append(request)
        for number, rule in enumerate(self.rules):
            used = self.used.get(number, 0)
            if request.fits(rule.get("when", {})) and used < rule.get("times", sys.maxsize):
                if request.operation == "other" and rule.get("when", {}).get("operation") != "other":
                    continue
                self.used[number] = used + 1
                return request, rule
        return request, None

    def answer(self, body: JsonDict) -> Said:
        """Return the response to a request, for models in the process of a test."""
        request, rule = self.choose(body)
        if rule is None:
            return Said("Hello.") if request.operation == "other" else Said(status=400, body=_no_rule(request))
        return render(request, rule)

    def made(self, operation: str) -> list[TaskRequest]:
        """Return the requests for an operation."""
        return [request for request in self.requests if request.operation == operation]


def _no_rule(request: TaskRequest) -> JsonDict:
    message = f"the script has no response for {request.operation} {request.step or ''}".strip()
    return {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}


def render(request: TaskRequest, rule: JsonDict) -> Said:
    """Return the response of a rule, spoiled by its fault."""
    fault = rule.get("fault")
    if fault == "error_500":
        return Said(status=500, body={"error": {"code": 500, "message": "scripted", "type": "server_error"}})
    text = rule.get("text")
    if text is None:
        value = deepcopy(rule["respond"])
        if "steps" not in value:
            value = {"explanation": "Done as described.", "files": [], "edits": [], **value}
        if fault in VALUE_FAULTS:
            VALUE_FAULTS[fault](value)
        text = _as_blocks(value) if request.form == "blocks" and "steps" not in value else json.dumps(value)
    if fault == "bad_json":
        text = text[: -len(text) // 4] if request.form == "json" else text.replace("```", "``")
    finish = None
    if fault == "truncated":
        text, finish = text[: len(text) // 2], "length"
    if request.body.get("tools") and fault != "truncated":
        return Said(calls=((_TOOL, text),), finish=finish, piece=40)
    return Said(text, reasoning=rule.get("reasoning"), finish=finish, piece=40)


def _as_blocks(value: JsonDict) -> str:
    files = [f"### file {file['path']}\n{_fenced(file['content'])}" for file in value["files"]]
    parts = [value["explanation"], *files]
    for edits in value["edits"]:
        blocks = [_fenced(one["search"], "search") + _fenced(one["replace"], "replace") for one in edits["edits"]]
        parts.append(f"### edit {edits['path']}\n{''.join(blocks)}")
    return "\n\n".join(parts)


def _fenced(text: str, label: str = "") -> str:
    end = "" if text.endswith("\n") or not text else "\n"
    return f"``````{label}\n{text}{end}``````\n"


def application(model: TaskModel) -> web.Application:
    """Create the server."""

    async def chat(request: web.Request) -> web.StreamResponse:
        body: JsonDict = json.loads(await request.read())
        known, rule = model.choose(body)
        _say(event="asked", operation=known.operation, step=known.step, form=known.form, retry=known.is_retry)
        if rule is None:
            if known.operation != "other":
                return web.json_response(_no_rule(known), status=400)
            rule = {"text": "Hello."}
        if rule.get("fault") == "silent":
            await asyncio.Event().wait()
        if rule.get("fault") == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        said = render(known, rule)
        if said.status != 200:
            return web.json_response(said.body, status=said.status)
        if not body.get("stream"):
            return web.Response(body=said.as_whole(), content_type="application/json")
        return web.Response(body=said.as_stream(), content_type="text/event-stream")

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "scripted", "max_model_len": 32768}]})

    async def requests(_: web.Request) -> web.Response:
        return web.json_response([
            {"operation": one.operation, "step": one.step, "form": one.form, "retry": one.is_retry, "body": one.body}
            for one in model.requests
        ])  # fmt: skip

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/requests", requests)
    return app


def _say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def _serve(model: TaskModel, port: int) -> None:
    runner = web.AppRunner(application(model))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    address = runner.addresses[0]
    _say(event="listening", url=f"http://127.0.0.1:{address[1]}")
    await asyncio.Event().wait()


def main() -> None:
    """Run the server until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("--port", type=int, default=0)
    chosen = parser.parse_args()
    script = yaml.safe_load(chosen.script.read_text())
    asyncio.run(_serve(TaskModel(script["responses"]), chosen.port))


if __name__ == "__main__":
    main()
