"""A `backend.url` with http in place of https, or the reverse, is reported in one line."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from forge_proxy.backends.scheme import find_other_scheme
from tests.fakes.processes import closed_port, command

CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Self-signed for 127.0.0.1, with its key. It protects nothing."""


@contextmanager
def server(*, tls: bool, wish: bytes = b"") -> Generator[str]:
    """`HOST:PORT` of a model server. One with TLS answers plain HTTP with a 400 and its `wish`, if it has one."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"data": [{"id": "the-model"}]}'
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    class Listener(ThreadingHTTPServer):
        def get_request(self) -> tuple[socket.socket, object]:
            connection, peer = super().get_request()
            if not tls:
                return connection, peer
            if wish and connection.recv(1, socket.MSG_PEEK) != b"\x16":  # not the beginning of a handshake
                connection.recv(65536)
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" + wish)
                connection.close()
                raise ConnectionError
            return context.wrap_socket(connection, server_side=True), peer

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with Listener(("127.0.0.1", 0), Server) as listening:
        serving = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            serving.join()


@contextmanager
def waits_for_a_line() -> Generator[str]:
    """`HOST:PORT` of a server like a llama-server: it never reacts to a TLS handshake, which contains no line break."""

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):  # it is closed
            while True:
                threading.Thread(target=answer, args=[listening.accept()[0]], daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, suppress(OSError):
            if any(line.startswith(b"GET ") for line in lines):
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening], daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_server_that_does_not_react_to_a_tls_handshake_is_asked_in_http() -> None:
    with waits_for_a_line() as address:
        ended = command("check", "--port", "0", "--backend-url", f"https://{address}")

    assert f"the server there speaks http; use http://{address}" in ended.out


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("words", [("check",), ("serve",)])
@pytest.mark.parametrize("kind", [(), ("--backend", "openai"), ("--backend", "ollama")])
def test_the_other_scheme_is_named_in_one_line(words: tuple[str, ...], kind: tuple[str, ...], tls: bool) -> None:
    with server(tls=tls) as address:
        wrong, right = ("http", "https") if tls else ("https", "http")
        ended = command(*words, "--port", "0", "--backend-url", f"{wrong}://{address}/v1", *kind)

    said = f"backend.url {wrong}://{address}/v1: the server there speaks {right}; use {right}://{address}/v1"
    assert ended.code != 0
    assert said in (ended.out if words == ("check",) else ended.err)
    assert "Traceback" not in ended.err


def test_a_server_that_answers_http_with_its_wish_for_https_is_no_openai_server() -> None:
    """As those written in Go, and nginx, do."""
    with server(tls=True, wish=b"Client sent an HTTP request to an HTTPS server.\n") as address:
        ended = command("check", "--port", "0", "--backend-url", f"http://{address}")

    assert f"speaks https; use https://{address}" in ended.out


def test_an_untrusted_certificate_is_reported_and_can_be_trusted() -> None:
    with server(tls=True) as address:
        url = f"https://{address}"
        refused = command("check", "--port", "0", "--backend-url", url)
        trusted = command("check", "--port", "0", "--backend-url", url, env={"SSL_CERT_FILE": str(CERTIFICATE)})

    assert "its certificate is not trusted: self-signed certificate; SSL_CERT_FILE names" in refused.out
    assert "_ssl.c" not in refused.out
    assert (trusted.code, "the-model" in trusted.out) == (0, True)


async def test_no_other_scheme_is_suggested_if_the_scheme_is_right_or_nothing_responds() -> None:
    with server(tls=True) as tls, server(tls=False) as plain, closed_port() as port:
        found = [
            await find_other_scheme(url) for url in (f"https://{tls}", f"http://{plain}", f"http://127.0.0.1:{port}")
        ]

    assert found == [None, None, None]
