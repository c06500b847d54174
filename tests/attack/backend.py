"""Attacks of a model server, or of the model in it."""

from __future__ import annotations

import json
import math
import time
from contextlib import AbstractContextManager
from functools import partial

from tests.attack.attack import Attack
from tests.attack.target import TOOL, Answer, JsonDict, Target, ask, statuses, together
from tests.attack.texts import NAMES, PATTERNS
from tests.fakes.processes import Process, program

_MAX_EXPONENT = 1.3
"""How the time for a text may grow with its length. Linear is 1; the rest is noise of a small machine."""
_LEAST_SECONDS = 0.1
"""Less CPU time counts as this: it is the noise of a small machine. A million characters may then take 1.5 s."""
_TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
_SLACK_MB = 700.0
"""What eight attempts of at most 64 MB each may hold at a time, and what reading them takes."""


def _adversary() -> AbstractContextManager[Process]:
    return program("tests.attack.adversary_server")


def _all_ways(target: Target, model: str, clients: int = 8, seconds: float = 60, **fields: object) -> list[Answer]:
    """Send requests streamed and whole, guarded and passed through, several at a time. Return the responses."""
    bodies = [
        ask(model, stream=stream, **({"tools": [TOOL]} if guarded else {}), **fields)
        for stream in (False, True)
        for guarded in (True, False)
    ]
    came = together(clients, lambda number: target.post(bodies[number % 4], seconds=seconds), clients)
    return [one for one in came if isinstance(one, Answer)]


def _check(answers: list[Answer]) -> None:
    """Check that no response blames the client or the daemon for a fault of the model server."""
    for answer in answers:
        assert answer.status not in range(400, 500), f"blames the client: {answer.status} {answer.message[:120]}"
        assert "inside forge-proxy" not in answer.message, "an error inside the daemon"


def _survives(model: str, target: Target) -> None:
    """Check that the daemon limits the response and answers other requests."""
    _check(_all_ways(target, model))


def _with_seeds(model: str, seeds: tuple[int, ...], target: Target) -> None:
    for seed in seeds:
        answers = _all_ways(target, model, clients=4, seed=seed)
        assert len(answers) == 4 or model == "closes-after-each-byte", f"{seed}: {4 - len(answers)} got no response"
        _check(answers)


def _slow_server(target: Target) -> None:
    _check(_all_ways(target, "a-byte-a-second"))


def _keeps_headers_to_itself(target: Target) -> None:
    for answer in _all_ways(target, "sets-headers", clients=4):
        assert "set-cookie" not in answer.headers, "a cookie was passed on"
        assert "upgrade" not in answer.headers, "a hop-by-hop header was passed on"
        assert answer.headers.get("x-forge-outcome") != "forged", "a header of ours was forged"


def _does_not_follow(target: Target) -> None:
    for answer in _all_ways(target, "redirects", clients=4):
        assert answer.status == 502, f"a redirect is answered with {answer.status}"
        assert b"hunter2" not in answer.body, "the message shows the password in the redirect"
    assert "hunter2" not in target.proxy.printed, "the log shows the password in the redirect"


def _stops_at_the_end(target: Target) -> None:
    for answer in _all_ways(target, "trails", clients=4):
        assert b"and more" not in answer.body, "text after the end was passed on"
        assert b"garbage" not in answer.body, "garbage after the end was passed on"


def _calls_of_unoffered_tools(model: str, target: Target) -> None:
    for answer in _all_ways(target, model, clients=4):
        events = [line.removeprefix(b"data: ") for line in answer.body.splitlines() if b"choices" in line]
        for raw in events or [answer.body]:
            for choice in json.loads(raw).get("choices", []):
                said = choice.get("message") or choice.get("delta") or {}
                for call in said.get("tool_calls") or []:
                    assert call["function"].get("name") != "rm_rf", "a call of a tool that was not offered"


def _costly_schemas(target: Target) -> None:
    """The model breaks schemas that are costly to check: many alternatives, patterns that explode, long lists."""
    twice = {f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(24)}
    cases: tuple[tuple[str, JsonDict, object], ...] = (
        ("alternatives that multiply", {"$ref": "#/$defs/d0"}, 5),
        ("a pattern that explodes", {"type": "string", "pattern": "^(a+)+$"}, "a" * 60 + "!"),
        ("150,000 wrong items", {"type": "array", "items": {"type": "integer"}}, ["x"] * 150_000),
        ("a million values", {"enum": list(range(1_000_000))}, "x"),
        ("a schema of itself", {"$ref": "#/properties/city"}, 5),
    )
    for name, schema, value in cases:
        defs = {**twice, "d24": {"type": "string"}}
        tool = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": schema}, "$defs": defs}}
        body = ask("calls-with", tools=[{"type": "function", "function": tool}], user=json.dumps({"city": value}))
        came = statuses(together(8, partial(_post, target, json.dumps(body).encode())))
        assert set(came) <= {"200", "400", "413", "502"}, f"{name}: {came}"


def _post(target: Target, body: bytes, _: int) -> Answer:
    return target.post(body)


def _costly_text(name: str, target: Target) -> None:
    """Check that the time for a text that imitates markup grows linearly with its length."""
    seconds: dict[int, float] = {}
    for size in (125_000, 1_000_000):
        body = ask("text-pattern", user=f"{name}/{size}", tools=_TOOLS, stream=True)
        began = target.cpu_seconds()
        answer = target.post(body, seconds=120)
        seconds[size] = max(target.cpu_seconds() - began, _LEAST_SECONDS)
        assert answer.status in (200, 502), f"{size} characters: answered with {answer.status}"
    exponent = math.log(seconds[1_000_000] / seconds[125_000]) / math.log(8)
    assert exponent < _MAX_EXPONENT, (
        f"{seconds[125_000]:.2f} s of CPU for 125,000 characters, {seconds[1_000_000]:.2f} s for a million: "
        f"exponent {exponent:.2f}"
    )


def _costly_texts_at_once(target: Target) -> None:
    names = [name for name, _ in PATTERNS][:: max(1, len(PATTERNS) // 24)]

    def post(number: int) -> Answer:
        user = f"{names[number % len(names)]}/190000"
        return target.post(ask("text-pattern", user=user, tools=_TOOLS, stream=number % 2 == 0), seconds=120)

    began = time.monotonic()
    answers = together(len(names), post)
    assert set(statuses(answers)) <= {"200", "502", "503"}, f"answered: {statuses(answers)}"
    assert time.monotonic() - began < 90, f"{len(names)} texts took {time.monotonic() - began:.0f} s"


_ENDLESS = (
    "endless-text", "endless-varied-text", "endless-arguments", "endless-reasoning", "endless-line",
    "endless-data-lines", "endless-comments", "endless-body", "endless-error", "endless-head",
)  # fmt: skip
_ONCE = (
    "huge-event", "byte-by-byte", "gzip-bomb", "gzip-bomb-in-error", "invalid-utf8", "informs-first",
    "huge-usage", "log-probabilities",
)  # fmt: skip
_BOUND = {"FORGE_PROXY_BACKEND__MAX_RESPONSE_MB": "16"}


def _of(name: str, run: object, **fields: object) -> Attack:
    return Attack(name, "backend", run, server=_adversary, **fields)  # pyright: ignore[reportArgumentType]


ATTACKS = [
    *(
        _of(f"{name}, 8 clients", partial(_survives, name), max_growth_mb=_SLACK_MB, settings=_BOUND)
        for name in _ENDLESS
    ),
    *(_of(f"{name}, 8 clients", partial(_survives, name), max_growth_mb=_SLACK_MB) for name in _ONCE),
    _of("a byte a second", _slow_server),
    _of(
        "connection closed after each of the first bytes",
        partial(_with_seeds, "closes-after-each-byte", (*range(1, 200, 7),)),
    ),
    _of("status 100 to 999", partial(_with_seeds, "odd-status", (101, 199, 204, 205, 299, 300, 304, 307, 600, 999))),
    _of("call index 10^9, 2^70 and negative", partial(_with_seeds, "huge-index", (10**9, 2**70, -1, -(10**9)))),
    _of("choice index 10^9, 2^70 and negative", partial(_with_seeds, "huge-choice", (10**9, 2**70, -1))),
    _of("responses nested up to 10,000 deep", partial(_with_seeds, "deep-response", (200, 260, 900, 1100, 10_000))),
    _of("arguments nested up to 10,000 deep", partial(_with_seeds, "deep-arguments", (200, 260, 900, 1100, 10_000))),
    _of("redirects to other hosts", _does_not_follow),
    _of("cookies, hop-by-hop and forged headers", _keeps_headers_to_itself),
    _of("bytes after [DONE]", _stops_at_the_end),
    _of("text that imitates our corrections", partial(_calls_of_unoffered_tools, "imitates-corrections")),
    _of("calls of tools that were not offered", partial(_calls_of_unoffered_tools, "calls-unoffered")),
    _of("arguments that are costly to check, 8 clients", _costly_schemas),
    *(_of(f"text up to 1 MB: {name}", partial(_costly_text, name)) for name, _ in PATTERNS),
    _of("costly texts of 190 kB, 8 clients", _costly_texts_at_once),
]
