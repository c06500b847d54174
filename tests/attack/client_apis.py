"""Attacks through the APIs of clients: Responses, Messages, Ollama's, and what they store."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

from tests.api.client_apis import CLIENT_APIS, ClientApi, Turn
from tests.attack.attack import Attack
from tests.attack.target import TOOL, Answer, JsonDict, Target, head, statuses, together, wait_until
from tests.fakes.processes import Process, program

_APIS = tuple(api for api in CLIENT_APIS if api.name != "chat completions")
_RESPONSES = "/v1/responses"
_MESSAGES = "/v1/messages"
_TOOLS = {TOOL["function"]["name"]: TOOL["function"]["parameters"]}
_ODD_VALUES: tuple[object, ...] = (
    None, True, -1, 2**64, 1e300, "", "\r\nSet-Cookie: x=1", "\ud800", "\u0000", [], {}, [[]], [None], [{}], {"": {}},
    {"type": "\r\nSet-Cookie: x=1"}, [{"type": "\r\nSet-Cookie: x=1"}], {"type": None, "id": 7},
)  # fmt: skip
_FIELDS = {
    _RESPONSES: (
        "background", "conversation", "include", "input", "instructions", "max_output_tokens", "metadata", "model",
        "parallel_tool_calls", "previous_response_id", "prompt", "reasoning", "store", "stream", "stream_options",
        "temperature", "text", "tool_choice", "tools", "top_logprobs", "truncation", "user",
    ),
    _MESSAGES: (
        "cache_control", "container", "context_management", "max_tokens", "messages", "metadata", "model",
        "output_config", "output_format", "service_tier", "stop_sequences", "stream", "system", "temperature",
        "thinking", "thread", "tool_choice", "tools", "top_k",
    ),
    "/api/chat": ("format", "keep_alive", "logprobs", "messages", "model", "options", "stream", "think", "tools"),
}  # fmt: skip
_PARTS: dict[str, Callable[[object], JsonDict]] = {
    _RESPONSES: lambda part: {"input": [part]},
    _MESSAGES: lambda part: {"messages": [{"role": "user", "content": [part]}]},
    "/api/chat": lambda part: {"messages": [part]},
}
"""How a request of each API contains one item, content block or message."""
_KEYS = {
    "FORGE_PROXY_SERVER__API_KEYS": "sk-client,sk-other",
    "FORGE_PROXY_SERVER__ADMIN_KEYS": "sk-admin",
    "FORGE_PROXY_STORE__RESPONSES": "always",
}
_OWNER, _OTHER = "Authorization: Bearer sk-client", "Authorization: Bearer sk-other"
_SECRET = "the owner's secret"
_STORING = {"FORGE_PROXY_STORE__RESPONSES": "always"}


def _request(api: ClientApi, model: str = "says", *, stream: bool = False, text: str = "count") -> JsonDict:
    return {**api.request((Turn("user", text),), _TOOLS, stream=stream), "model": model}


def _expect(answer: Answer, what: str, *allowed: int) -> None:
    shown = answer.body[:160].decode("utf-8", "replace")
    assert answer.status in allowed, f"{what}: answered with {answer.status}, expected {allowed}: {shown}"
    assert "set-cookie" not in answer.headers, f"{what}: a value was written into the response's head"
    assert b"inside forge-proxy" not in answer.body, f"{what}: an error inside the daemon"


def _odd_fields(target: Target) -> None:
    """Each field of each API with values of every wrong type; the answer is regular, or says what is wrong."""
    for api in _APIS:
        cases = [(name, value) for name in _FIELDS[api.path] for value in _ODD_VALUES]

        def send(case: tuple[str, object], api: ClientApi = api) -> None:
            name, value = case
            body = json.dumps({**_request(api), name: value}).encode()
            # The scripted server fails without the name of a model.
            allowed = (200, 400, 404, 500) if name == "model" else (200, 400, 404)
            _expect(target.post(body, path=api.path), f"{api.path} {name}={value!r:.60}", *allowed)

        _raise_first(together(len(cases), lambda number, cases=cases, send=send: send(cases[number])))


def _raise_first(results: Iterable[object]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise result


def _odd_parts(target: Target) -> None:
    """Items, blocks and messages of every type that the APIs know, each without the fields that it needs."""
    types = (
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
        "item_reference", "additional_tools", "tool_search_output", "local_shell_call", "local_shell_call_output",
        "apply_patch_call_output", "input_image", "input_file", "text", "image", "document", "search_result",
        "thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use", "tool_reference", "compaction",
        "\r\nSet-Cookie: x=1", "x" * 100_000,
    )  # fmt: skip
    for api in _APIS:
        for kind in types:
            for extra in ({}, {"role": "user"}, {"id": "x", "call_id": [], "content": {}, "tools": [None], "input": 5}):
                body = {**_request(api), **_PARTS[api.path]({"type": kind, **extra})}
                _expect(target.post(body, path=api.path), f"{api.path} {kind[:30]!r} {extra}", 200, 400)


def _deep_json(target: Target) -> None:
    deep = "[" * 10_000 + "]" * 10_000
    for api in _APIS:
        whole = json.dumps(_request(api))
        for levels in (deep, "[" * 300 + "]" * 300, "[" * 900 + "]" * 900):
            for name in _FIELDS[api.path]:
                raw = f'{whole[:-1]}, "{name}": {levels}}}'.encode()
                _expect(target.post(raw, path=api.path), f"{api.path} {name}: {len(levels)} levels", 200, 400, 404)
            for inside in ("content", "input", "arguments", "output", "source", "tools", "images"):
                part = f'{{"type": "tool_use", "role": "user", "name": "a", "{inside}": {levels}}}'
                fields = json.dumps({**_request(api), **_PARTS[api.path]("PART")}).replace('"PART"', part)
                _expect(target.post(fields.encode(), path=api.path), f"{api.path} {inside}", 200, 400)
        for raw in (b"", b"null", b"[]", b'"x"', b"\xff\xfe", b"{" * 100_000, whole[:-5].encode(), b"\0" * 100):
            _expect(target.post(raw, path=api.path), f"{api.path} {raw[:10]!r}", 400)


def _unusual_unicode(target: Target) -> None:
    """Text that terminals, logs and line-based formats stumble over comes through, or is refused with a reason."""
    texts = ("\u2028\u2029\u0085", "\u202e\u2066evil\u2069", "\ufeff\ufffe", "e" + "\u0301" * 100_000, "👩‍👩‍👧" * 5_000,
             "\u0000\u0007\u001b[2J", "data: [DONE]\n\ndata: {}\n\n", '"}\n{"done":true}\n')  # fmt: skip
    for api in _APIS:
        for text in texts:
            for stream in (False, True):
                answer = target.post(_request(api, stream=stream, text=text), path=api.path)
                _expect(answer, f"{api.path} {text[:5]!r}", 200)
                assert "one two three" in api.read(answer.body.decode(), stream=stream).text, "another answer"


def _bombs(target: Target) -> None:
    """Opaque fields that a client returns, made by somebody else: reasoning that decompresses to 2 GB, and garbage."""
    packed = zlib.compress(b'{"reasoning": "' + b" " * 200_000_000 + b'"}', 9)
    bomb = base64.b64encode(packed).decode()
    signatures = (
        f"forge-proxy.1.z.{bomb}", "forge-proxy.1.z.!!", "forge-proxy.1.z." + "A" * 1_000_000, "forge-proxy.1.",
        "forge-proxy.9.z.", "\ud800",
    )  # fmt: skip
    block = [{"type": "thinking", "thinking": "", "signature": one} for one in signatures]
    item = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": one} for one in signatures]

    def send(number: int) -> None:
        message = {"role": "assistant", "content": [block[number % len(block)], {"type": "text", "text": "x"}]}
        user = {"role": "user", "content": "count"}
        body = {"model": "says", "max_tokens": 100, "messages": [user, message, user]}
        _expect(target.post(body, path=_MESSAGES), f"a signature, {number}", 200, 400)
        body = {"model": "says", "input": [user, item[number % len(item)], user]}
        _expect(target.post(body, path=_RESPONSES), f"encrypted_content, {number}", 200, 400)

    _raise_first(together(24, send))


def _costly_grammars(target: Target) -> None:
    """Grammars of custom tools that explode when they are compiled or matched."""
    doubling = "start: a0\n" + "".join(f"a{n}: a{n + 1} a{n + 1}\n" for n in range(24)) + 'a24: "x"'
    grammars = (
        ("lark", doubling), ("lark", "start: start start | start?\n"), ("lark", "start: (((((A*)*)*)*)*)*\nA: /a/"),
        ("lark", 'start: "' + "a" * 500_000 + '"'), ("lark", "start: " + "(" * 5_000 + '"a"' + ")" * 5_000),
        ("regex", "(a+)+$"), ("regex", "(a{1,1000}){1,1000}"), ("regex", "[" * 10_000), ("lark", "\x00" * 1000),
        ("regex", "(?=(a+))" * 1000),
    )  # fmt: skip

    def send(number: int) -> None:
        syntax, definition = grammars[number % len(grammars)]
        form = {"type": "grammar", "syntax": syntax, "definition": definition}
        tool = {"type": "custom", "name": "get_weather", "format": form}
        body = {"model": "calls-the-last", "input": "x", "tools": [tool], "stream": number % 2 == 0}
        _expect(target.post(body, path=_RESPONSES), f"{syntax} {definition[:20]!r}", 200, 400, 502)

    _raise_first(together(40, send))


def _large(path: str, body: bytes, count: int, target: Target) -> None:
    answers = together(count, lambda _: target.post(body, path=path), clients=count)
    assert set(statuses(answers)) <= {"200", "400", "413", "503"}, f"{path}: {statuses(answers)}"


def _large_bodies(target: Target) -> None:
    """A conversation of 60 MB in each API."""
    for api in _APIS:
        _large(api.path, json.dumps(_request(api, text="A" * 60_000_000)).encode(), 17, target)


def _many_parts(target: Target) -> None:
    """As many items, blocks or messages as the limit of values allows, and far more."""
    one = {"type": "message", "role": "user", "content": "x"}
    for api in _APIS:
        for count in (50_000, 1_000_000):
            part = {"type": "text", "text": "x"} if api.path == _MESSAGES else one
            whole = json.dumps({**_request(api), **_PARTS[api.path]("PART")})
            body = whole.replace('"PART"', ",".join([json.dumps(part)] * count)).encode()
            _large(api.path, body, 8, target)


def _adversary() -> AbstractContextManager[Process]:
    return program("tests.attack.adversary_server")


def _survives(model: str, target: Target) -> None:
    """A hostile model server behind each API, streamed and whole."""
    bodies = [(api.path, _request(api, model, stream=stream)) for api in _APIS for stream in (False, True)]
    came = together(len(bodies), lambda number: target.post(bodies[number][1], path=bodies[number][0]))
    for answer in (one for one in came if isinstance(one, Answer)):
        assert answer.status not in range(400, 500), f"blames the client: {answer.status} {answer.body[:120]!r}"
        _expect(answer, model, 200, 500, 502, 503, 504)


def _never_reading(target: Target) -> None:
    """Clients that never read: endless streams and large responses of each API. They are disconnected."""
    kinds = [
        _as_bytes(api, _request(api, model, stream=stream))
        for api in _APIS
        for model, stream in (("loops", True), ("says-much", True), ("says-much", False))
    ]
    with ExitStack() as stack:
        for number in range(90):
            stack.enter_context(target.connected()).sendall(kinds[number % len(kinds)])
        wait_until(lambda: '"slow reader aborted"' in target.proxy.printed, "a slow reader is aborted", 120)
        wait_until(lambda: _is_idle(target), "nobody is served and the account of memory is empty", 120)


def _as_bytes(api: ClientApi, body: JsonDict) -> bytes:
    raw = json.dumps(body).encode()
    return head("POST", api.path, "Content-Type: application/json", f"Content-Length: {len(raw)}") + raw


def _is_idle(target: Target) -> bool:
    status = target.status()
    return status["queue"]["running"] == 0 and status["memory"]["used_mb"] == 0


def _leaving_clients(target: Target) -> None:
    """2,000 requests whose client disconnects after some bytes. The slots are free and the memory is released."""
    kinds = [
        _as_bytes(api, _request(api, model, stream=stream))
        for api in _APIS
        for model in ("says", "hangs", "stalls", "loops")
        for stream in (True, False)
    ]

    def leave(number: int) -> None:
        data = kinds[number % len(kinds)]
        with target.connected(5) as connection:
            connection.sendall(data[: 1 + number % len(data)] if number % 4 == 0 else data)
            if number % 3 == 0:
                connection.settimeout(0.02)
                connection.recv(100)

    together(2000, leave, clients=32)
    wait_until(lambda: _is_idle(target), "the slots of clients that left are free", 60)
    target.is_well()


def _foreign_responses(target: Target) -> None:
    """Another key guesses or knows the ids of what is stored: it gets the answer for an id that never existed."""
    later = target.post({"model": "says", "input": _SECRET, "background": True}, _OWNER, path=_RESPONSES)
    job = json.loads(later.body)["id"]
    for method, suffix in (("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel"), ("DELETE", "")):
        answer = target.send(head(method, f"{_RESPONSES}/{job}{suffix}", _OTHER, "Content-Length: 0"))
        _expect(answer, f"{method} another's response in the background", 404)
    made = target.post({"model": "says", "input": _SECRET, "store": True}, _OWNER, path=_RESPONSES)
    stored = json.loads(made.body)
    named = json.loads(target.post({"items": [_item(_SECRET)]}, _OWNER, path="/v1/conversations").body)["id"]
    response, item = stored["id"], stored["output"][0]["id"]
    never = f"resp_{'0' * 32}"
    for path in ("", "/input_items", "/cancel"):
        method = "POST" if path == "/cancel" else "GET"
        mine, foreign, none = (
            target.send(head(method, f"{_RESPONSES}/{one}{path}", key, "Content-Length: 0"))
            for one, key in ((response, _OWNER), (response, _OTHER), (never, _OTHER))
        )
        assert mine.status in (200, 400), f"{path}: its owner gets {mine.status}"
        assert foreign.body.replace(response.encode(), never.encode()) == none.body, f"{path}: another answer"
        assert (foreign.status, none.status) == (404, 404), f"{path}: answered with {foreign.status}"
    _expect(target.send(head("GET", f"/v1/conversations/{named}/items", _OTHER)), "another's conversation", 404)
    for body in (
        {"previous_response_id": response},
        {"input": [{"type": "item_reference", "id": item}, _item("x")]},
        {"conversation": named},
    ):
        answer = target.post({"model": "says", "input": "x", **body}, _OTHER, path=_RESPONSES)
        assert _SECRET.encode() not in answer.body, f"{body}: the secret is in the answer"
        assert answer.status in (200, 400, 404), f"{body}: answered with {answer.status}"
    begun = target.send(head("GET", f"/v1/conversations/{named}/items", _OTHER))  # its own one of this name
    assert _SECRET.encode() not in begun.body, "another's conversation is listed"
    _expect(target.send(head("DELETE", f"{_RESPONSES}/{response}", _OTHER)), "deletes another's response", 404)
    _expect(target.send(head("GET", f"{_RESPONSES}/{response}", _OWNER)), "its owner", 200)


def _item(text: str) -> JsonDict:
    return {"type": "message", "role": "user", "content": text}


def _odd_ids(target: Target) -> None:
    """Ids that are paths, patterns of SQL, heads of HTTP, or far too long."""
    odd = ("%", "_" * 37, "resp_%25", "..%2f..%2fetc%2fpasswd", "'%20OR%201=1--", "%00", "x" * 8000, "%0d%0aX:%20y",
           "%ff%fe", "resp_%F0%9F%92%A3", ";", "%2e%2e")  # fmt: skip
    for one in odd:
        for path in (f"{_RESPONSES}/{one}", f"{_RESPONSES}/{one}/input_items?limit=9", f"/v1/conversations/{one}"):
            _expect(target.send(head("GET", path, _OWNER)), path[:60], 400, 404, 405, 431)
    for query in (
        "limit=-1",
        "limit=1e9",
        "limit=",
        "after=%00",
        "order=sideways",
        "limit=100&limit=1",
        "after=" + "x" * 9000,
    ):
        answer = target.send(head("GET", f"{_RESPONSES}/resp_1/input_items?{query}", _OWNER))
        _expect(answer, query[:30], 400, 404, 431)
    for value in ("%", "'; DROP TABLE responses;--", "\u0000", "\ud800", "x" * 1_000_000, ["a"], {"id": None}, 7):
        for name in ("previous_response_id", "conversation"):
            body = json.dumps({"model": "says", "input": "x", name: value}).encode()
            _expect(target.post(body, _OWNER, path=_RESPONSES), f"{name}={value!r:.40}", 200, 400, 404)


def _stored_flood(target: Target) -> None:
    """Responses of 100 kB that are all stored, by eight clients, and a chain of 300 that each continues the last."""
    large = {"model": "says", "input": "x" * 100_000, "store": True}
    answers = together(400, lambda _: target.post(large, path=_RESPONSES))
    assert set(statuses(answers)) <= {"200", "429", "503"}, f"400 stored responses: {statuses(answers)}"
    previous: str | None = None
    for number in range(300):
        body = {"model": "says", "input": "y" * 1000, "store": True, "previous_response_id": previous}
        answer = target.post(body, path=_RESPONSES)
        assert answer.status == 200, f"response {number} of a chain: {answer.status} {answer.message}"
        previous = json.loads(answer.body)["id"]
    _expect(target.send(head("GET", f"{_RESPONSES}/{previous}/input_items?limit=100")), "the items of a chain", 200)


def _long_chain(target: Target) -> None:
    """A conversation that grows by 4 MB a turn: it is refused with the limit, never held in memory many times."""
    previous: str | None = None
    came: list[int] = []
    for _ in range(7):
        body = {"model": "says", "input": "x" * 4_000_000, "store": True, "previous_response_id": previous}
        answer = target.post(body, path=_RESPONSES)
        came.append(answer.status)
        if answer.status == 200:
            previous = json.loads(answer.body)["id"]
    assert came == [200] * 5 + [400] * 2, f"answered with {came}"
    body = {"model": "says", "input": "x", "previous_response_id": previous}
    answers = together(16, lambda _: target.post(body, path=_RESPONSES))
    assert set(statuses(answers)) <= {"200", "400", "503"}, f"16 at a time continue it: {statuses(answers)}"


def _conversation_flood(target: Target) -> None:
    """One conversation to which eight clients add at a time, and many that are created."""
    named = json.loads(target.post({}, path="/v1/conversations").body)["id"]
    items = {"items": [_item("z" * 10_000)] * 20}
    answers = together(100, lambda _: target.post(items, path=f"/v1/conversations/{named}/items"))
    assert set(statuses(answers)) <= {"200", "400", "503"}, f"additions: {statuses(answers)}"
    answers = together(300, lambda _: target.post({"metadata": {"a": "b"}}, path="/v1/conversations"))
    assert set(statuses(answers)) <= {"200", "503"}, f"creations: {statuses(answers)}"
    too_many = {"items": [_item("z")] * 100_000}
    _expect(target.post(too_many, path=f"/v1/conversations/{named}/items"), "100,000 items", 400, 413)


def _background_flood(target: Target) -> None:
    """100 responses in the background of a model that never ends, which clients follow, cancel and delete at random."""
    body = {"input": "x" * 10_000, "background": True}
    made = together(100, lambda number: target.post({**body, "model": ("says", "hangs")[number % 2]}, path=_RESPONSES))
    assert set(statuses(made)) <= {"200", "429", "503"}, f"100 submissions: {statuses(made)}"
    ids = [json.loads(one.body)["id"] for one in made if isinstance(one, Answer) and one.status == 200]

    def meddle(number: int) -> None:
        path = f"{_RESPONSES}/{ids[number % len(ids)]}"
        for method, suffix in (
            ("GET", ""),
            ("GET", "?stream=true"),
            ("POST", "/cancel"),
            ("DELETE", ""),
            ("POST", "/cancel"),
        ):
            answer = target.send(head(method, path + suffix, "Content-Length: 0"))
            _expect(answer, f"{method} {suffix}", 200, 400, 404, 409)

    _raise_first(together(2 * len(ids), meddle))
    wait_until(lambda: _is_idle(target), "every response is over", 60)


def _keys_of_each_api(target: Target) -> None:
    """No key, a wrong one, and a client's key for what changes models or belongs to administrators."""
    for api in _APIS:
        body = _request(api)
        for headers in (
            (),
            ("X-Api-Key: wrong",),
            ("Authorization: Bearer wrong",),
            ("Authorization: Basic sk-client",),
        ):
            _expect(target.post(body, *headers, path=api.path), f"{api.path} {headers}", 401)
        for headers in ((_OWNER,), ("X-Api-Key: sk-client",)):
            _expect(target.post(body, *headers, path=api.path), f"{api.path} {headers}", 200)
    for path in ("/api/pull", "/api/delete", "/api/create", "/api/push", "/api/copy"):
        method = "DELETE" if path == "/api/delete" else "POST"
        answer = target.send(head(method, path, _OWNER, "Content-Length: 2", "Content-Type: application/json") + b"{}")
        _expect(answer, f"{path} with a client's key", 401, 403)
    for path in ("/api/tags", "/api/ps", "/api/show", "/v1/conversations", f"{_MESSAGES}/count_tokens"):
        _expect(target.post({"model": "says"}, path=path), f"{path} without a key", 401, 405)


_SURVIVED = (
    "endless-text", "endless-arguments", "endless-reasoning", "endless-comments", "endless-line", "huge-event",
    "byte-by-byte", "invalid-utf8", "huge-usage", "log-probabilities", "closes-after-each-byte",
)  # fmt: skip


def _of(name: str, run: Callable[[Target], None], **fields: object) -> Attack:
    return Attack(name, "client APIs", run, **fields)  # pyright: ignore[reportArgumentType]


ATTACKS = [
    _of("every field with values of every wrong type", _odd_fields),
    _of("items, blocks and messages without their fields", _odd_parts),
    _of("JSON that is broken or up to 10,000 levels deep", _deep_json),
    _of("unusual Unicode, and text that imitates events", _unusual_unicode),
    _of("signatures and encrypted reasoning that are bombs", _bombs),
    _of("grammars that explode, 8 clients", _costly_grammars),
    _of("51 conversations of 60 MB, 17 at once", _large_bodies, max_growth_mb=2500),
    _of("1,000,000 items, blocks and messages, 8 clients", _many_parts, max_growth_mb=2500),
    _of("wrong keys, and client keys for models", _keys_of_each_api, settings=_KEYS),
    _of("stored responses of another key", _foreign_responses, settings=_KEYS),
    _of("ids that are paths, SQL or heads", _odd_ids, settings=_KEYS),
    _of("700 stored responses, a chain of 300", _stored_flood, settings=_STORING),
    _of("a chain that grows by 4 MB a turn", _long_chain, settings=_STORING, max_growth_mb=700),
    _of("conversations that many clients fill", _conversation_flood, settings=_STORING),
    _of("100 responses in the background", _background_flood, settings=_STORING),
    _of("2,000 aborted requests", _leaving_clients),
    # The end of a Responses stream repeats its text four times: 20 MB for a response of 4 MB.
    _of(
        "90 readers that never read",
        _never_reading,
        settings={"FORGE_PROXY_SERVER__SEND_TIMEOUT_SECONDS": "5", "FORGE_PROXY_SERVER__MEMORY_MB": "200"},
        max_growth_mb=700,
    ),
    *(
        _of(
            f"backend: {name}",
            partial(_survives, name),
            server=_adversary,
            settings={"FORGE_PROXY_BACKEND__MAX_RESPONSE_MB": "16"},
            max_growth_mb=700,
        )
        for name in _SURVIVED
    ),
]
