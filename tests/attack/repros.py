"""The faults that the security review found as bounded repros, each of which runs against a daemon of any commit."""

from __future__ import annotations

import json
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from tests.attack.checkout import Checkout, MeasuredTarget, Outcome, measure
from tests.attack.target import CHAT, TOOL, JsonDict, ask, head, statuses, together
from tests.attack.texts import NAMES, PATTERNS
from tests.fakes.far_side import far_side
from tests.fakes.processes import ROOT, Process, program
from tests.system.runs import FINISHED, submit, wait_until

_SECRET = "hunter2hunter2"
_TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
adversary = partial(program, "tests.attack.adversary_server")


@dataclass(frozen=True)
class Repro:
    """One fault. `fault` is its number in the list, with a letter if it has several repros."""

    fault: str
    what: str
    run: Callable[[Checkout], Outcome]


@contextmanager
def folder() -> Generator[Path]:
    """A temporary folder for one repro."""
    with tempfile.TemporaryDirectory(prefix="forge-attack-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _posts(count: int, body: Callable[[int], object], target: MeasuredTarget) -> str:
    """Send this many requests, eight at a time. Return how often each status came."""
    came = statuses(together(count, lambda number: target.post(body(number), seconds=60)))
    return ", ".join(f"{status} ×{times}" if times > 1 else status for status, times in sorted(came.items()))


def _tool(name: str, parameters: object) -> JsonDict:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _many_choices(checkout: Checkout) -> Outcome:
    return checkout.measure(partial(_posts, 1, lambda _: ask("says", tools=[TOOL], n=10**6)))


def _long_names(checkout: Checkout) -> Outcome:
    def body(number: int) -> JsonDict:
        return ask("says", tools=[_tool(f"t{number}" + chr(97 + number % 26) * 5000, {"type": "object"})])

    return checkout.measure(partial(_posts, 40, body))


def _overlapping_schema(checkout: Checkout) -> Outcome:
    twice = {f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(16)}
    levels = {**twice, "d16": {"type": "string"}}
    parameters = {"type": "object", "properties": {"city": {"$ref": "#/$defs/d0"}}, "$defs": levels}
    arguments = '{"city": {"no": "string"}}'
    body = ask("calls-with", tools=[_tool("get_weather", parameters)], user=arguments)
    return checkout.measure(partial(_posts, 8, lambda _: body), adversary)


def _wrong_items(checkout: Checkout) -> Outcome:
    parameters = {"type": "object", "properties": {"city": {"type": "array", "items": {"type": "integer"}}}}
    arguments = json.dumps({"city": ["x"] * 150_000})
    body = ask("calls-with", tools=[_tool("get_weather", parameters)], user=arguments)
    return checkout.measure(partial(_posts, 1, lambda _: body), adversary)


def weak_validator(checkout: Checkout) -> Outcome:
    """A daemon with jsonschema-rs 0.40: the outcome of a call whose arguments break their schema."""
    with adversary() as server, ExitStack() as stack:
        try:
            proxy = stack.enter_context(checkout.daemon("--backend", "openai", "--backend-url", server.url))
        except AssertionError as exc:
            return Outcome(f"does not start: {str(exc).splitlines()[-1].strip()[:140]}")
        body = ask("calls-with", tools=[TOOL], user='{"city": 5}')
        answer = httpx.post(proxy.url + CHAT, json=body, timeout=30)
        return Outcome(f"{answer.status_code}, x-forge-outcome: {answer.headers.get('x-forge-outcome', 'none')}")


def _tiny_headers(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        with ExitStack() as stack:
            for _ in range(64):
                connection = stack.enter_context(target.connected(10))
                with suppress(OSError):
                    connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * 200_000)
            time.sleep(1)
        return "64 connections"

    return checkout.measure(act)


def _slow_heads(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        with ExitStack() as stack:
            connections: list[socket.socket] = []
            for _ in range(300):
                with suppress(OSError):
                    connections.append(stack.enter_context(target.connected(2)))
                    connections[-1].sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            time.sleep(13)
            waiting = sum(not _is_closed(connection) for connection in connections)
        return f"{waiting} of {len(connections)} heads still waited for after 13 s"

    return checkout.measure(act, limits={resource.RLIMIT_NOFILE: 256})


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        connection.recv(65536)
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def _log_probabilities(checkout: Checkout) -> Outcome:
    body = ask("log-probabilities", tools=[TOOL], stream=True, logprobs=True)
    return checkout.measure(partial(_posts, 1, lambda _: body), adversary)


def _text(pattern: str, size: int, count: int, checkout: Checkout) -> Outcome:
    assert pattern in dict(PATTERNS), pattern
    body = ask("text-pattern", user=f"{pattern}/{size}", tools=_TOOLS, stream=True)
    return checkout.measure(partial(_posts, count, lambda _: body), adversary)


def _backend(model: str, checkout: Checkout, **fields: object) -> Outcome:
    body = ask(model, tools=[TOOL], **fields)
    return checkout.measure(partial(_posts, 1, lambda _: body), adversary)


def _deep(model: str, checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        texts = [
            f"{levels}: {target.post(ask(model, tools=[TOOL], seed=levels)).status}" for levels in (230, 260, 500, 900)
        ]
        return ", ".join(texts) + (", traceback" if "Traceback" in target.proxy.printed else "")

    return checkout.measure(act, adversary)


def with_programs(checkout: Checkout, act: Callable[[MeasuredTarget], str]) -> Outcome:
    """Runs with a hostile and a healthy MCP program."""
    programs = {"hostile": "hostile_mcp_server", "healthy": "mcp_server"}
    servers = {
        name: {"command": sys.executable, "args": [f"{ROOT}/tests/fakes/{module}.py", "stdio"]}
        for name, module in programs.items()
    }
    mcp = {"servers": servers, "timeout_seconds": 3, "connect_seconds": 10}
    with far_side() as side, folder() as place:
        env = {
            "FORGE_PROXY_STORE__URL": f"sqlite+aiosqlite:///{place}/runs.db",
            "FORGE_PROXY_TOOLS__MCP": json.dumps(mcp),
        }
        with checkout.daemon("--backend-url", side.url, env=env) as proxy:
            return measure(act, MeasuredTarget(proxy, proxy))


def run_with_program(proxy: Process, server: str, tool: str) -> JsonDict:
    """A run that calls a tool of a program and then ends."""
    tools = {
        tool: {"execute": {"by": "mcp", "server": server}},
        "finish": {"parameters": {"type": "object"}, "execute": {"by": "arguments"}},
    }
    workflow = {"name": "w", "tools": tools, "terminal_tool": "finish", "system_prompt_template": "Do it."}
    run = submit(proxy, {"workflow": workflow, "user_message": "Go.", "max_tool_errors": 0})
    return wait_until(proxy, run["id"], *FINISHED)


def _hanging_program(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        ended = [run_with_program(target.proxy, "hostile", tool)["status"] for tool in ("hang", "pid")]
        return f"the run whose tool hangs: {ended[0]}, the next run with the same program: {ended[1]}"

    return with_programs(checkout, act)


def _flooding_program(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        flood = threading.Thread(target=partial(_try, target.proxy, "hostile", "endless_notifications"))
        flood.start()
        time.sleep(1)
        began = time.monotonic()
        status = _try(target.proxy, "healthy", "count")
        took = time.monotonic() - began
        flood.join(20)
        return f"a run with a healthy program beside it: {status} after {took:.1f} s"

    return with_programs(checkout, act)


def _try(proxy: Process, server: str, tool: str) -> str:
    try:
        return str(run_with_program(proxy, server, tool)["status"])
    except (httpx.HTTPError, AssertionError) as exc:
        return type(exc).__name__


def _large_bodies(checkout: Checkout) -> Outcome:
    body = json.dumps({**ask("says"), "filler": "A" * 40_000_000}).encode()

    def act(target: MeasuredTarget) -> str:
        came = statuses(together(40, lambda _: target.post(body), clients=40))
        return ", ".join(f"{status} ×{times}" for status, times in sorted(came.items()))

    return checkout.measure(act)


def _dense_body(checkout: Checkout) -> Outcome:
    dense = b'{"model": "says", "messages": [{"role": "user", "content": "x"}], "x": [' + b"[]," * 20_000_000 + b"0]}"
    return checkout.measure(partial(_posts, 1, lambda _: dense))


def _many_tools(checkout: Checkout) -> Outcome:
    tools = [_tool(f"tool_{number}", {"type": "object"}) for number in range(100_000)]
    body = json.dumps(ask("says", tools=tools)).encode()
    return checkout.measure(partial(_posts, 1, lambda _: body))


def _upgrades(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        with target.connected(20) as connection:
            connection.sendall(head("GET", "/healthz", "Upgrade: h2c", "Connection: Upgrade") * 500)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        printed = target.proxy.printed
        return f"{len(printed) // 1000} kB of log" + (", RecursionError" if "RecursionError" in printed else "")

    return checkout.measure(act)


def _secrets(checkout: Checkout) -> Outcome:
    shown: list[str] = []
    with adversary() as server, folder() as place:
        url = server.url.replace("http://", f"http://user:{_SECRET}@")
        with checkout.daemon(env={"FORGE_PROXY_BACKEND__KIND": "openai", "FORGE_PROXY_BACKEND__URL": url}) as proxy:
            httpx.post(proxy.url + CHAT, json=ask("odd-status", seed=500), timeout=30)
        shown += ["backend.url"] if _SECRET in proxy.printed else []
        file = place / "config.yaml"
        file.write_text(f"server:\n  api_keys: [{_SECRET}\n")
        ended = checkout.command("config", "check", "--config", str(file))
        shown += ["YAML syntax error"] if _SECRET in ended.out + ended.err else []
        store = {"FORGE_PROXY_STORE__URL": f"postgres://user:{_SECRET}@127.0.0.1/x"}
        ended = checkout.command("config", "check", env=store)
        shown += ["store.url"] if _SECRET in ended.out + ended.err else []
    return Outcome(f"shown by {', '.join(shown)}" if shown else "shown nowhere")


REPROS = [
    Repro("1", "`n: 1000000` with a tool", _many_choices),
    Repro("2", "40 requests, each with a tool name of 5 kB", _long_names),
    Repro("3a", "`anyOf` overlapping on 16 levels, wrong arguments, 8 requests", _overlapping_schema),
    Repro("3b", "150,000 wrong items in one call", _wrong_items),
    Repro("5a", "64 connections, each with 1 MB of tiny headers", _tiny_headers),
    Repro("5b", "300 slow heads against 256 descriptors", _slow_heads),
    Repro("6", "a guarded stream of 20,000 tokens with log probabilities", _log_probabilities),
    Repro("7a", "190 kB of special openers, 8 clients", partial(_text, "special openers", 190_000, 8)),
    Repro("7b", "190 kB of thought closers, 8 clients", partial(_text, "thought closers", 190_000, 8)),
    Repro("7c", "190 kB of DSML openers, 8 clients", partial(_text, "DSML openers", 190_000, 8)),
    Repro("7d", "1 MB of special openers", partial(_text, "special openers", 1_000_000, 1)),
    Repro("8a", "`data:` lines without an empty line for 10 s", partial(_backend, "endless-data-lines", stream=True)),
    Repro("8b", "a whole response without end for 10 s", partial(_backend, "endless-body")),
    Repro("8c", "arguments without end for 10 s", partial(_backend, "endless-arguments", stream=True)),
    Repro("8d", "guarded text without end for 10 s", partial(_backend, "endless-varied-text", stream=True)),
    Repro("9a", "responses 230 to 900 levels deep", partial(_deep, "deep-response")),
    Repro("9b", "arguments 230 to 900 levels deep", partial(_deep, "deep-arguments")),
    Repro("10a", "an MCP program that hangs in a call", _hanging_program),
    Repro("10b", "an MCP program that floods", _flooding_program),
    Repro("11a", "40 bodies of 40 MB at once", _large_bodies),
    Repro("11b", "a body of 60 MB of `[],`", _dense_body),
    Repro("11c", "a request with 100,000 tools", _many_tools),
    Repro("12", "500 pipelined `Upgrade` requests", _upgrades),
    Repro("13", "passwords in `backend.url`, a broken file and `store.url`", _secrets),
]
