"""Secrets in places that are rarely checked: crash traces, process lists, wrong fields of a request, written files."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.attack.attack import Drill
from tests.attack.secrets import SECRET, check, check_modes, everywhere
from tests.attack.target import CHAT, TOOL, Target, ask, head, own_folder
from tests.fakes.processes import Process, children, command, daemon, model_server

_CRASHES = {
    "a request": "aiohttp.ClientSession._request",
    "the start": "uvicorn.Server.startup",
}
"""Failing parts, by the function that is replaced by one that raises."""
_SITECUSTOMIZE = """
import importlib
module, name, method = {place!r}.split(".")
found = getattr(importlib.import_module(module), name)
before = getattr(found, method)
async def fail(self, *args, **kwargs):
    if "GET" not in args:
        raise RuntimeError("this is a bug")
    return await before(self, *args, **kwargs)
setattr(found, method, fail)
"""


def _crash_traces() -> None:
    """Bugs in the daemon while it answers and at its start, and a process that is aborted: no trace shows a secret."""
    for what, place in _CRASHES.items():
        with model_server() as server, own_folder() as folder:
            (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE.format(place=place))
            env = {**_working(folder, server.url), "PYTHONPATH": str(folder), "PYTHONFAULTHANDLER": "1"}
            proxy = Process("forge_proxy", "serve", "--port", "0", env=env)
            try:
                if what == "a request":
                    proxy.url = str(proxy.wait_for("listening")["url"]).removesuffix("/v1")
                    for key in (f"{SECRET}-client", f"{SECRET}-wrong"):
                        headers = {"Authorization": f"Bearer {key}"}
                        answer = httpx.post(
                            proxy.url + CHAT, headers=headers, json=ask("says", tools=[TOOL]), timeout=60
                        )
                        check(answer.text + str(answer.headers), "the response after a bug")
                    proxy.send_signal(signal.SIGABRT)
                proxy.wait()
            finally:
                proxy.stop()
            assert "this is a bug" in proxy.printed, f"{what} did not fail"
            check(proxy.printed, f"the trace of a bug in {what}")


def _working(folder: Path, url: str) -> dict[str, str]:
    """Settings of a daemon that starts, with a secret in each that takes one."""
    settings = everywhere(folder, url)
    del settings["FORGE_PROXY_BACKEND__API_KEY"]  # with a user in the URL it is refused
    return settings


def _commands() -> None:
    """`config show`, `config check` and `check` of settings that work."""
    with model_server() as server, own_folder() as folder:
        env = _working(folder, server.url)
        for words in (("config", "show"), ("config", "check"), ("check", "--port", "0")):
            ended = command(*words, env=env)
            assert "Traceback" not in ended.err, f"{' '.join(words)}: a traceback"
            check(ended.out + ended.err, " ".join(words))


def _keys_in_wrong_places() -> None:
    """A key in the wrong place of a request is in no log line, and in no response to another client."""
    with (
        model_server() as server,
        daemon("--backend-url", server.url, env={"FORGE_PROXY_SERVER__API_KEYS": SECRET}) as proxy,
    ):
        target = Target(proxy, server)
        host = urlsplit(proxy.url).netloc
        for line in (
            f"Authorization: {SECRET}", f"Authorization: Basic {SECRET}", f"Authorization: Bearer {SECRET} {SECRET}",
            f"Authorization: Bearer {SECRET}x", f"X-Api-Key: {SECRET}x", f"Api-Key: {SECRET}",
            f"X-Goog-Api-Key: {SECRET}", f"Proxy-Authorization: Bearer {SECRET}", f"Cookie: key={SECRET}",
            f"X-Request-Id: {SECRET} {SECRET}", f"Referer: http://x/?key={SECRET}",
        ):  # fmt: skip
            for path in ("/v1/models", "/nowhere", "/admin/v1/status"):
                check(target.get(path, line).body.decode(), f"the response to {line.partition(':')[0]}")
        for path in (
            f"/v1/models?key={SECRET}",
            f"/nowhere?api_key={SECRET}",
            f"http://user:{SECRET}@{host}/v1/models",
        ):
            target.get(path)
            target.get(path, f"Authorization: Bearer {SECRET}")
        key = f"Authorization: Bearer {SECRET}"
        for fields in ({"api_key": SECRET}, {"user": SECRET}, {"metadata": {"key": SECRET}}, {"temperature": SECRET}):
            target.post(ask("says", **fields), key)
        target.send(head("POST", CHAT, key, "Content-Length: 3") + b"{x}")
        target.send(f"GET / {SECRET}\r\n\r\n".encode())
    check(proxy.printed, "the log")


def _process_list() -> None:
    """The command lines of the daemon and its children, the embedded model server among them, hold no key."""
    env = {"FORGE_PROXY_SERVER__API_KEYS": SECRET, "FORGE_PROXY_SERVER__ADMIN_KEYS": f"{SECRET}-admin"}
    with daemon("--backend", "embedded", env=env) as proxy:
        family = [proxy.pid, *children(proxy.pid)]
        family += [below for child in family[1:] for below in children(child)]
        variables = [Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") for pid in family]
        keys = {line.partition("=")[2] for lines in variables for line in lines if line.startswith("LLAMA_API_KEY=")}
        assert keys, "the model server has no key"
        for pid in family:
            words = Path(f"/proc/{pid}/cmdline").read_text()
            assert not [key for key in (*keys, SECRET) if key in words], f"the command line of {pid} holds a key"
        assert not [key for key in keys if key in proxy.printed], "the log holds the key of the model server"


@contextmanager
def _umask(mask: int) -> Generator[None]:
    """Set the umask of this process, which child processes inherit, until the end of the block."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _modes_while_it_runs() -> None:
    """With the most permissive umask nobody else can read what a running daemon and `connect --write` have written."""
    with own_folder() as folder:
        folder.chmod(0o755)
        env = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
        with _umask(0), daemon("--backend", "embedded", env=env) as proxy:
            httpx.get(f"{proxy.url}/admin/v1/runs", timeout=30).raise_for_status()
            written = [path for path in (folder / "state").rglob("*") if path.is_file()]
            assert written, "nothing was written"
            check_modes(folder, written)
            words = ("connect", "opencode", "--write", "--key", SECRET, "--url", proxy.url)
            ended = command(*words, env=env)
        with_key = [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert with_key, f"connect wrote no key: {(ended.out + ended.err)[-300:]}"
        check_modes(folder, with_key)


ATTACKS = [
    Drill("crash traces", "secrets", _crash_traces),
    Drill("commands that show settings", "secrets", _commands),
    Drill("keys in wrong places of requests", "secrets", _keys_in_wrong_places),
    Drill("process list", "secrets", _process_list),
    Drill("modes of files of a running daemon with umask 0", "secrets", _modes_while_it_runs),
]
