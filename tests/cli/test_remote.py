"""Commands name the server that answers at an address if it is not a daemon."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.app import app
from tests.fakes.llama_cpp import llama_cpp
from tests.fakes.processes import command, ollama_server


@contextmanager
def some_server() -> Generator[str]:
    """A server that has nothing."""

    class Server(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_status_at_a_llama_server_names_it() -> None:
    with llama_cpp("its-own") as url:
        ended = command("status", "--url", url)

    assert ended.code == 1
    assert ended.err.startswith(f"forge-proxy: the server at {url} is a llama-server, not a forge-proxy; set the")


def test_status_at_an_ollama_names_it() -> None:
    with ollama_server("qwen3:8b") as ollama:
        ended = command("status", "--url", f"{ollama.url}/v1")

    assert ended.code == 1
    assert ended.err.startswith(f"forge-proxy: the server at {ollama.url} is an Ollama, not a forge-proxy; set the")


def test_an_unreachable_daemon_is_reported_without_error_numbers() -> None:
    with some_server() as url:
        of_http = command("status", "--url", url.replace("http:", "https:"))
    nobody = command("status", "--url", url)
    without_scheme = command("status", "--url", url.removeprefix("http://"))

    assert "(the server there does not speak https); start one with `forge-proxy serve`" in of_http.err
    assert "(connection refused); start one with `forge-proxy serve`" in nobody.err
    assert "(expected a URL such as http://127.0.0.1:8081); start one" in without_scheme.err


@pytest.mark.parametrize("words", [("status",), ("runs", "watch", "run_1"), ("budget", "set", "backend")])
def test_any_other_server_is_reported_as_not_a_daemon(words: tuple[str, ...]) -> None:
    with some_server() as url:
        ended = command(*words, "--url", url)

    assert ended.code == 1
    assert ended.err.startswith(f"forge-proxy: the server at {url} is another server, not a forge-proxy")


@pytest.mark.parametrize(
    ("words", "nearest"),
    [("conect", "connect"), ("runs sumbit", "submit"), ("eval comapre", "compare"), ("backend restrat", "restart")],
)
def test_an_unknown_command_suggests_the_nearest(words: str, nearest: str) -> None:
    done = CliRunner().invoke(app, words.split())

    assert done.exit_code == 2
    assert f"Did you mean '{nearest}'" in done.stderr
