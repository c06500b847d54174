"""Attacks of clients: access, the parsing of HTTP, and request bodies."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial

from tests.attack.attack import Attack
from tests.attack.target import (
    CHAT,
    TOOL,
    Answer,
    JsonDict,
    Target,
    ask,
    head,
    read_answer,
    statuses,
    together,
)

KEYS = {"FORGE_PROXY_SERVER__API_KEYS": "sk-client", "FORGE_PROXY_SERVER__ADMIN_KEYS": "sk-admin"}
_CLIENT, _ADMIN = "Authorization: Bearer sk-client", "Authorization: Bearer sk-admin"


def _expect(answer: Answer, *allowed: int) -> None:
    shown = answer.body[:120].decode("utf-8", "replace")
    assert answer.status in allowed, f"answered with {answer.status}, expected {allowed}: {shown}"


def _foreign_pages(target: Target) -> None:
    body = json.dumps(ask("says")).encode()
    length = f"Content-Length: {len(body)}"
    for headers in (
        ("Host: evil.example",),
        ("Host: 127.0.0.1.evil.example",),
        ("Host: localhost@evil.example",),
        ("Origin: http://evil.example",),
        ("Origin: http://127.0.0.1.evil.example",),
        ("Origin: null",),
        ("Origin: http://localhost", "Origin: http://evil.example"),
        ("Origin: http://evil.example", "Origin: http://localhost"),
        ("Host: localhost", "Host: evil.example"),
        ("Host: evil.example", "Host: localhost"),
    ):
        _expect(target.send(head("POST", CHAT, length, *headers) + body), 400, 403)


def _without_host(target: Target) -> None:
    _expect(target.send(b"GET /v1/models HTTP/1.1\r\n\r\n"), 400)
    _expect(target.send(b"GET /v1/models HTTP/1.0\r\n\r\n"), 200)


def _wrong_keys(target: Target) -> None:
    for headers in (
        (),
        ("Authorization:",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer ",),
        ("Authorization: sk-client",),
        ("Authorization: Basic sk-client",),
        ("Authorization: Bearer sk-clienté",),
        ("Authorization: Bearer sk-client sk-client",),
        ("Authorization: Bearer SK-CLIENT",),
        ("X-Api-Key:",),
        ("X-Api-Key: wrong", "Authorization: Bearer wrong"),
        ("Cookie: key=sk-client",),
        ("Authorization: Bearer " + "x" * 100_000,),
    ):
        _expect(target.get("/v1/models", *headers), 400, 401)
    _expect(target.get("/v1/models?key=sk-client&api_key=sk-client"), 401)
    _expect(target.get("/v1/models", _CLIENT), 200)


def _admin_with_client_keys(target: Target) -> None:
    for method, path in (("GET", "/admin/v1/status"), ("PUT", "/admin/v1/budget"), ("POST", "/admin/v1/backend/stop")):
        _expect(target.send(head(method, path, _CLIENT, "Content-Length: 0")), 401)
    _expect(target.get("/admin/v1/status", _ADMIN), 200)
    _expect(target.get("/v1/models", _ADMIN), 401)


_DISGUISES = (
    "//admin/v1/status", "/admin//v1/status", "/./admin/v1/status", "/v1/../admin/v1/status", "/%61dmin/v1/status",
    "/admin%2fv1%2fstatus", "/ADMIN/v1/status", "/Admin/V1/Status", "/admin/v1/status/", "/admin/v1/status;x",
    "/docs/../admin/v1/status", "/health/../admin/v1/status", "/admin/v1/status%00", "/admin/v1/%2e%2e/v1/status",
    "/healthz%2f..%2fadmin%2fv1%2fstatus", "http://localhost/admin/v1/status", "/admin/v1/status?x=/healthz",
    "/%2561dmin/v1/status", "/admin\\v1\\status", "/healthz#/admin/v1/status",
)  # fmt: skip


def _disguised_paths(target: Target) -> None:
    for path in _DISGUISES:
        for headers in ((), (_CLIENT,)):
            answer = target.send(head("GET", path, *headers))
            assert b'"queue"' not in answer.body, f"{path} shows the status to {headers or 'nobody'}"
            if answer.body != b'{"status":"ok"}':  # that of /healthz, which needs no key
                _expect(answer, 400, 401, 403, 404, 405)
    for path in ("//v1/models", "/V1/models", "/v1/models/../models", "/v1/./models"):
        answer = target.send(head("GET", path))
        _expect(answer, 400, 401, 404)


def _odd_http(target: Target) -> None:
    body = json.dumps(ask("says")).encode()
    length = f"Content-Length: {len(body)}"
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    cases: Sequence[tuple[str, bytes, tuple[int, ...]]] = (
        ("HTTP/1.0", head("POST", CHAT, length, version="1.0") + body, (200,)),
        ("chunked with a length", head("POST", CHAT, length, "Transfer-Encoding: chunked") + chunked, (400,)),
        ("two lengths", head("POST", CHAT, length, "Content-Length: 5") + body, (400,)),
        ("a negative length", head("POST", CHAT, "Content-Length: -5") + body, (400,)),
        ("an endless length", head("POST", CHAT, "Content-Length: " + "9" * 40) + body, (400, 413)),
        ("unknown transfer coding", head("POST", CHAT, "Transfer-Encoding: gzip") + chunked, (400, 411, 501)),
        ("a folded header", head("POST", CHAT, length, "X-Long: a\r\n b") + body, (200, 400)),
        ("NUL in a header", head("GET", "/v1/models", "X-Odd: a\0b"), (400,)),
        ("CR in a header", head("GET", "/v1/models", "X-Odd: a\rb"), (400,)),
        ("a space before the colon", head("GET", "/v1/models", "X-Odd : a"), (400,)),
        ("no colon", head("GET", "/v1/models", "X-Odd"), (400,)),
        ("TRACE", head("TRACE", "/v1/models"), (404, 405)),
        ("CONNECT", head("CONNECT", "example.org:443"), (400, 404, 405)),
        ("an unknown method", head("BREW", "/v1/models"), (400, 404, 405)),
        ("bare LF", b"GET /v1/models HTTP/1.1\nHost: localhost\n\n", (200, 400)),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 505)),
        ("HTTP/3.7", b"GET /v1/models HTTP/3.7\r\nHost: localhost\r\n\r\n", (400, 505)),
        ("TLS to a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, (400,)),
    )
    for name, data, allowed in cases:
        try:
            answer = target.send(data)
        except ConnectionError:
            continue  # closed without an answer: safe
        assert answer.status in allowed, f"{name}: answered with {answer.status}, expected {allowed}"
        assert "traceback" not in answer.body.decode("utf-8", "replace").lower(), name


def _smuggled(target: Target) -> None:
    """A second request hidden in the body of the first must not be answered."""
    hidden = head("GET", "/v1/models")
    for data in (
        head("POST", CHAT, f"Content-Length: {len(hidden) + 5}", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + hidden,
        head("POST", CHAT, "Content-Length: 0", f"Content-Length: {len(hidden)}") + hidden,
        head("POST", CHAT, "Transfer-Encoding : chunked", "Content-Length: 0") + hidden,
        head("GET", "/healthz", "X: a\r\nContent-Length: 0\n\n") + b"",
    ):
        with target.connected(5) as connection:
            connection.sendall(data)
            try:
                first = read_answer(connection)
            except OSError:
                continue
            if first.status < 400:
                continue  # it was parsed as declared
            try:
                second = read_answer(connection)
            except OSError:
                continue
            assert second.status != 200, "a request inside the body of a refused one was answered"


def _reflected(target: Target) -> None:
    tool = {"type": "function", "function": {"name": "a\r\nSet-Cookie: x=1", "parameters": {"type": "object"}}}
    for body in (
        ask("says\r\nSet-Cookie: x=1"),
        ask("says", tools=[tool]),
        ask("✓ unicode\u0000"),
        {**ask("says"), "user": "\r\n\r\nHTTP/1.1 200 OK"},
    ):
        answer = target.post(body, "X-Request-Id: a\tb")
        assert "set-cookie" not in answer.headers, "a name was written into the response's head"
        assert "inside forge-proxy" not in answer.message, f"answered with {answer.status}: {answer.message}"


def _upgrades(target: Target) -> None:
    body = json.dumps(ask("says")).encode()
    h2c = ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    _expect(target.send(head("POST", CHAT, f"Content-Length: {len(body)}", *h2c) + body), 200)
    key = ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
    _expect(
        target.send(head("GET", "/v1/models", "Upgrade: websocket", "Connection: Upgrade", *key)), 200, 400, 404, 426
    )


def _pipelined_upgrades(target: Target) -> None:
    one = head("GET", "/healthz", "Upgrade: h2c", "Connection: Upgrade")

    def send(_: int) -> None:
        with target.connected(20) as connection:
            connection.sendall(one * 500)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    together(8, send)
    assert "RecursionError" not in target.proxy.printed, "it recursed"
    target.is_well()


def _expectations(target: Target) -> None:
    with target.connected(10) as connection:
        connection.sendall(head("POST", CHAT, "Content-Length: 999999999", "Expect: 100-continue"))
        _expect(read_answer(connection), 413)
    with target.connected(10) as connection:
        connection.sendall(head("GET", "/healthz", "Expect: 200-ok", "Connection: close"))
        _expect(read_answer(connection), 200, 417)


def _slow_heads(count: int, target: Target) -> None:
    """Connections whose head never ends are closed. An honest client is admitted meanwhile."""
    with ExitStack() as stack:
        open_now: list[socket.socket] = []
        for _ in range(count):
            try:
                connection = stack.enter_context(target.connected(30))
                connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            except OSError:
                continue
            open_now.append(connection)
        end = time.monotonic() + 13
        while time.monotonic() < end:
            for connection in open_now:
                with suppress(OSError):
                    connection.sendall(b"a")
            time.sleep(1)
        closed = sum(_is_over(connection) for connection in open_now)
        assert closed == len(open_now), (
            f"{len(open_now) - closed} of {len(open_now)} slow heads are still open after 13 s"
        )
    target.is_well()


def _is_over(connection: socket.socket) -> bool:
    """Whether the daemon has answered or closed."""
    connection.settimeout(0.2)
    try:
        return bool(connection.recv(65536)) or True
    except TimeoutError:
        return False
    except OSError:
        return True


def _many_headers(target: Target) -> None:
    lines = [f"a{number}: b" for number in range(20_000)]
    answers = together(8, lambda _: target.send(head("GET", "/v1/models", *lines)))
    assert all(isinstance(one, Answer) and one.status == 431 for one in answers), f"answered: {statuses(answers)}"

    def dribble(_: int) -> None:
        with target.connected(20) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + b"a:b\r\n" * 200_000)

    together(16, dribble)


def _compressed(target: Target) -> None:
    bomb = gzip.compress(b" " * 200_000_000)
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
        answer = target.post(bomb, f"Content-Encoding: {encoding}")
        _expect(answer, 400, 415)


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def _odd_json(target: Target) -> None:
    prefix = '{"model": "says", "messages": [{"role": "user", "content": "x"}], '
    for name, tail in (
        ("deep", f'"x": {_nested(10_000)}}}'),
        (
            "deep tools",
            f'"tools": [{{"type": "function", "function": {{"name": "a", "parameters": {{"x": {_nested(2000)}}}}}}}]}}',
        ),
        ("deep for writing", f'"x": {_nested(500)}}}'),
        ("a huge number", f'"seed": {"9" * 5000}}}'),
        ("a huge exponent", '"temperature": 1e99999}'),
        ("NaN", '"temperature": NaN}'),
        ("Infinity", '"temperature": Infinity}'),
        ("a lone surrogate", '"user": "\\ud800"}'),
        ("NUL", '"user": "\\u0000"}'),
        ("twice the same key", '"model": "says", "model": "says"}'),
        ("a comma too many", '"x": 1,}'),
        ("two values", '"x": 1} {}'),
        ("not closed", '"x": [1, 2'),
    ):
        answer = target.post((prefix + tail).encode())
        assert answer.status in (200, 400, 413), f"{name}: answered with {answer.status} {answer.message[:100]}"
    for raw in (b"", b"null", b"[]", b'"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"{" * 100_000, b"\0" * 1000):
        _expect(target.post(raw), 400)


def _many_choices(target: Target) -> None:
    for n in (129, 10**6, 10**9, 2**63, 2**64, -1, 0):
        _expect(target.post(ask("says", tools=[TOOL], n=n)), 400)
    answers = together(16, lambda _: target.post(ask("says", tools=[TOOL], n=128)))
    assert statuses(answers) == {"200": 16}, f"n = 128: {statuses(answers)}"


def _tool(name: str, parameters: object) -> JsonDict:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _long_tool_names(target: Target) -> None:
    for length in (40_000, 1_000_000):
        _expect(target.post(ask("says", tools=[_tool("n" * length, {})])), 200, 400)
    names = [[_tool(f"{number}_{letter}" + letter * 250, {}) for letter in "abcdefgh"] for number in range(40)]
    answers = together(40, lambda number: target.post(ask("says", tools=names[number])))
    assert statuses(answers) == {"200": 40}, f"names of 250 characters: {statuses(answers)}"


def _many_tools(target: Target) -> None:
    body = json.dumps(ask("says", tools=[_tool(f"tool_{number}", {"type": "object"}) for number in range(30_000)]))
    answers = together(8, lambda _: target.post(body.encode()))
    assert set(statuses(answers)) <= {"200", "400", "413"}, f"30,000 tools: {statuses(answers)}"


def _heavy_schemas(target: Target) -> None:
    pattern = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^(a+)+$"}}}
    overlapping: JsonDict = {"d0": {"type": "string"}}
    for level in range(1, 17):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        overlapping[f"d{level}"] = {"anyOf": [{"properties": {"a": below}}, {"properties": {"a": below, "b": below}}]}
    schemas: dict[str, object] = {
        "a million values": {"type": "object", "properties": {"city": {"enum": list(range(1_000_000))}}},
        "a cycle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "itself": {"$ref": "#"},
        "a remote reference": {"$ref": "http://127.0.0.1:1/schema.json"},
        "a file": {"$ref": "file:///etc/passwd"},
        "a catastrophic pattern": pattern,
        "overlapping anyOf": {"$defs": overlapping, "$ref": "#/$defs/d16"},
        "deep allOf": _deep_all_of(200),
        "a wrong keyword": {"type": "nonsense", "properties": 5},
        "a huge minimum": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 10**300}}},
    }
    for name, schema in schemas.items():
        body = ask("calls-the-last", tools=[_tool("get_weather", schema), _tool("other", {})])
        answers = together(8, partial(_post_raw, target, json.dumps(body).encode()))
        assert set(statuses(answers)) <= {"200", "400", "413", "502"}, f"{name}: {statuses(answers)}"


def _deep_all_of(levels: int) -> JsonDict:
    schema: JsonDict = {"type": "object"}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return schema


def _post_raw(target: Target, body: bytes, _: int) -> Answer:
    return target.post(body)


def _large_bodies(target: Target) -> None:
    filler = "A" * 60_000_000
    body = json.dumps({**ask("says"), "filler": filler}).encode()
    answers = together(50, partial(_post_raw, target, body), clients=50)
    assert set(statuses(answers)) <= {"200", "413", "503"}, f"bodies of 60 MB: {statuses(answers)}"


def _dense_bodies(target: Target) -> None:
    dense = b'{"model": "says", "messages": [{"role": "user", "content": "x"}], "x": [' + b"[]," * 20_000_000 + b"0]}"
    answers = together(8, partial(_post_raw, target, dense))
    assert set(statuses(answers)) <= {"200", "400", "413", "503"}, f"60 MB of `[],`: {statuses(answers)}"


def _idle_bodies(target: Target) -> None:
    """Bodies that stop after a byte do not keep a connection open."""
    with ExitStack() as stack:
        waiting = [stack.enter_context(target.connected(60)) for _ in range(50)]
        for connection in waiting:
            connection.sendall(head("POST", CHAT, "Content-Length: 1000") + b"{")
        time.sleep(34)
        closed = sum(_is_over(connection) for connection in waiting)
    assert closed == len(waiting), f"{len(waiting) - closed} idle bodies are still waited for after 34 s"


ATTACKS = [
    Attack("web pages of other origins, rebound names", "front door", _foreign_pages),
    Attack("requests without Host", "front door", _without_host),
    Attack("wrong, empty, doubled and misplaced keys", "front door", _wrong_keys, settings=KEYS),
    Attack("admin routes with a client's key", "front door", _admin_with_client_keys, settings=KEYS),
    Attack("disguised paths to protected routes", "front door", _disguised_paths, settings=KEYS),
    Attack("malformed and unusual HTTP", "front door", _odd_http),
    Attack("requests hidden in bodies", "front door", _smuggled),
    Attack("names reflected in response heads", "front door", _reflected),
    Attack("upgrades to HTTP/2 and WebSocket", "front door", _upgrades),
    Attack("500 pipelined upgrades, 8 clients", "front door", _pipelined_upgrades),
    Attack("Expect: 100-continue with too large a body", "front door", _expectations),
    Attack("20,000 and more headers", "front door", _many_headers),
    Attack("compressed bodies, bombs among them", "front door", _compressed),
    Attack("odd JSON: depth 10,000, NaN, surrogates, huge numbers", "front door", _odd_json),
    Attack("n up to 2^64 with tools", "front door", _many_choices),
    Attack("tool names up to 1 MB", "front door", _long_tool_names),
    Attack("30,000 tools, 8 clients", "front door", _many_tools),
    Attack("heavy, cyclic, remote and catastrophic schemas, 8 clients", "front door", _heavy_schemas),
    Attack("60 MB of `[],`, 8 clients", "front door", _dense_bodies, max_growth_mb=2500),
    Attack("50 bodies of 60 MB at once", "front door", _large_bodies, max_growth_mb=2500),
    Attack("50 bodies that stop coming", "front door", _idle_bodies),
    Attack("1,000 slow heads", "front door", partial(_slow_heads, 1000)),
    Attack("300 slow heads against 256 descriptors", "front door", partial(_slow_heads, 300), descriptors=256),
]
