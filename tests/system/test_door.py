"""Authentication and request limits of a real daemon over real sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.fakes.processes import Process, closed_port, command, daemon
from tests.system.asking import PATH, ask, error

KEYS = ("sk-alice", "sk-bob")
BODY = json.dumps(ask("says")).encode()
LIMITS = {"FORGE_PROXY_SERVER__MAX_BODY_MB": "1", "FORGE_PROXY_SERVER__MAX_HEADER_KB": "100"}
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def limited(server: Process) -> Generator[Process]:
    with daemon("--backend-url", server.url, env=LIMITS) as process:
        yield process


@contextmanager
def connected(proxy: Process) -> Generator[socket.socket]:
    """A connection on which nothing was sent yet."""
    parts = urlsplit(proxy.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as connection:
        yield connection


def post(*headers: str) -> bytes:
    """The head of a chat completion."""
    return "\r\n".join([f"POST {PATH} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return the next response on a connection."""
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def chunked(pieces: Sequence[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_an_sdk_is_served_with_a_key_and_rejected_without(server: Process, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEYS[1]}\n")
    env = {"FORGE_PROXY_SERVER__API_KEYS": KEYS[0], "FORGE_PROXY_SERVER__API_KEYS_FILE": str(file)}
    with daemon("--backend-url", server.url, env={**env, "FORGE_PROXY_BACKEND__API_KEY": "sk-backend"}) as proxy:
        for key in KEYS:
            with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=key, max_retries=0) as client:
                client.chat.completions.create(
                    model="says",
                    messages=[{"role": "user", "content": "count"}],
                    user=f"has {key}",
                    extra_headers={"x-api-key": key},
                )
        with (
            openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-wrong", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError) as refused,
        ):
            client.chat.completions.create(model="says", messages=[{"role": "user", "content": "count"}])

    assert refused.value.code == "invalid_api_key"
    assert "API key" in proxy.wait_for("refused", path="/v1/chat/completions", level="warning")["error"]
    for key in KEYS:  # the backend receives its own key and never the client's
        assert server.wait_for("asked", user=f"has {key}")["keys"] == ["Bearer sk-backend"]
    assert "sk-" not in proxy.printed


@pytest.mark.parametrize(("word", "host", "code"), [("serve", "0.0.0.0", 2), ("serve", "::", 2), ("check", "::", 1)])
def test_a_public_address_without_keys_is_rejected_naming_the_settings(word: str, host: str, code: int) -> None:
    with closed_port() as closed:
        ended = command(word, "--backend-url", f"http://127.0.0.1:{closed}", "--host", host, "--port", "0")

    assert ended.code == code
    said = ended.err + ended.out
    assert f"server.host {host}" in said
    for setting in ("server.api_keys", "server.api_keys_file", "server.allow_public_without_keys"):
        assert setting in said


@pytest.mark.parametrize(
    "env", [{"FORGE_PROXY_SERVER__API_KEYS": "sk-1,sk-2"}, {"FORGE_PROXY_SERVER__ALLOW_PUBLIC_WITHOUT_KEYS": "true"}]
)
def test_a_public_address_needs_keys_or_an_explicit_setting(server: Process, env: dict[str, str]) -> None:
    with daemon("--backend-url", server.url, "--host", "0.0.0.0", env=env) as proxy:
        port = urlsplit(proxy.url).port
        answered = httpx.get(f"http://127.0.0.1:{port}/v1/models", headers={"x-api-key": "sk-2"})

    assert answered.status_code == 200
    assert ("anyone who can reach the daemon" in proxy.printed) is ("FORGE_PROXY_SERVER__API_KEYS" not in env)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"FORGE_PROXY_SERVER__API_KEYS": '["hunter2"]'}, "server.api_keys.0: a key is made of visible ASCII"),
        ({"FORGE_PROXY_SERVER__API_KEY": "hunter2"}, "did you mean FORGE_PROXY_SERVER__API_KEYS?"),
        ({"FORGE_PROXY_SERVER__API_KEYS_FILE": "nowhere"}, "server.api_keys_file nowhere: No such file"),
        ({"FORGE_PROXY_SERVER__ALLOWED_ORIGINS": "*"}, "server.allowed_origins.0: expected an origin such as"),
    ],
)
def test_an_invalid_server_setting_is_named_and_no_key_is_shown(env: dict[str, str], said: str) -> None:
    ended = command("serve", "--backend", "embedded", "--port", "0", env=env)

    assert ended.code == 2
    assert said in ended.err
    assert "hunter2" not in ended.err


def test_a_web_page_of_another_origin_is_refused(client: httpx.Client) -> None:
    foreign = {"Origin": "http://evil.example"}
    preflight = {**foreign, "Access-Control-Request-Method": "POST"}

    for response in (
        client.post(PATH, content=BODY, headers={**foreign, "Content-Type": "text/plain"}),  # needs no preflight
        client.options(PATH, headers=preflight),
        client.get("/v1/models", headers={"Host": "evil.example"}),  # a name that was rebound
    ):
        assert response.status_code == 403
        assert error(response)["code"] in ("origin_not_allowed", "host_not_allowed")
        assert "access-control-allow-origin" not in response.headers


def test_a_client_that_waits_for_100_continue_gets_it(limited: Process) -> None:
    with connected(limited) as connection:
        connection.sendall(post(f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)

        assert answer(connection)[0] == 200


def test_a_client_that_waits_to_send_too_much_gets_the_error_instead(limited: Process) -> None:
    with connected(limited) as connection:
        connection.sendall(post(f"Content-Length: {2 * MEGABYTE}", "Expect: 100-continue"))

        assert answer(connection)[0] == 413


@pytest.mark.parametrize("pieces", [[BODY], [BODY[:1], BODY[1:20], BODY[20:]]], ids=["one", "three"])
def test_a_chunked_body_is_read(limited: Process, pieces: list[bytes]) -> None:
    with connected(limited) as connection:
        connection.sendall(post("Transfer-Encoding: chunked") + chunked(pieces))

        assert answer(connection)[0] == 200


@pytest.mark.parametrize("in_chunks", [False, True], ids=["with a length", "chunked"])
def test_a_body_that_is_too_large_is_a_413_and_the_connection_lives_on(limited: Process, in_chunks: bool) -> None:
    size = 3 * MEGABYTE
    with connected(limited) as connection:
        if in_chunks:
            connection.sendall(post("Transfer-Encoding: chunked") + chunked([b" " * 65536] * (size // 65536)))
        else:
            connection.sendall(post(f"Content-Length: {size}") + b" " * size)
        status, said = answer(connection)
        connection.sendall(post(f"Content-Length: {len(BODY)}") + BODY)
        after = answer(connection)

    assert status == 413
    assert json.loads(said)["error"]["code"] == "body_too_large"
    assert "server.max_body_mb" in json.loads(said)["error"]["message"]
    assert after[0] == 200


def test_a_body_at_the_limit_is_accepted(limited: Process) -> None:
    body = BODY + b" " * (MEGABYTE - len(BODY))
    with connected(limited) as connection:
        connection.sendall(post("Transfer-Encoding: chunked") + chunked([body]))
        assert answer(connection)[0] == 200
        connection.sendall(post(f"Content-Length: {MEGABYTE}") + body)
        assert answer(connection)[0] == 200


def test_70_kilobytes_of_headers_are_accepted(limited: Process) -> None:
    many = [f"X-Header-{number}: {'x' * 700}" for number in range(50)]
    with connected(limited) as connection:
        connection.sendall(post(*many, f"X-Long: {'y' * 35_000}", f"Content-Length: {len(BODY)}") + BODY)

        assert answer(connection)[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        post(f"X-Long: {'x' * 300_000}"),
        post(*[f"X-Header-{number}: {'x' * 3000}" for number in range(90)]),
        f"GET /{'x' * 300_000} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        post(f"X-Long: {'x' * 300_000}")[:-4],
    ],
    ids=["long header", "many headers", "long target", "unfinished"],
)
def test_headers_that_are_too_large_are_a_431(limited: Process, head: bytes) -> None:
    with connected(limited) as connection:
        connection.sendall(head)
        status, said = answer(connection)

    assert status == 431
    assert "server.max_header_kb" in json.loads(said)["error"]["message"]


def test_a_request_that_is_not_http_is_a_400_in_openai_format(limited: Process) -> None:
    with connected(limited) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # a browser that follows HSTS
        status, said = answer(connection)

    assert status == 400
    assert "not https" in json.loads(said)["error"]["message"]


def test_bytes_that_are_not_http_cut_the_response_in_progress(server: Process, limited: Process) -> None:
    body = json.dumps(ask("stalls", stream=True, user="garbled")).encode()
    with connected(limited) as connection:
        connection.sendall(post(f"Content-Length: {len(body)}") + body)
        while b'"one "' not in connection.recv(4096):
            pass
        connection.sendall(b"\x00\x00\x00\x00")

        assert connection.recv(4096) == b""
    server.wait_for("left", user="garbled")


@pytest.mark.parametrize("path", ["/v1/models", "/health"])
def test_a_head_request_gets_headers_only(limited: Process, path: str) -> None:
    parts = urlsplit(limited.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    for _ in range(2):  # and the connection can be reused
        connection.request("HEAD", path)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
        assert int(response.headers["content-length"]) > 0
    connection.close()


@pytest.mark.parametrize("split", [False, True], ids=["at once", "body later"])
@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_an_upgrade_header_is_ignored_and_the_body_is_read(limited: Process, upgrade: str, split: bool) -> None:
    head = post(
        "Connection: Upgrade, HTTP2-Settings",
        f"Upgrade: {upgrade}",
        "HTTP2-Settings: AAEAAEAA",
        f"Content-Length: {len(BODY)}",
    )
    with connected(limited) as connection:
        for _ in range(2):
            connection.sendall(head + (b"" if split else BODY))
            if split:
                connection.sendall(BODY)
            assert answer(connection)[0] == 200
