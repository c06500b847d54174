"""Secrets in every place that can hold one: none may show up in a log, a message, a page or a file of the daemon."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.attack.attack import Drill
from tests.attack.target import CHAT, TOOL, ask, own_folder
from tests.fakes.far_side import far_side
from tests.fakes.processes import command, daemon, model_server
from tests.system.runs import FINISHED, RUNS, submission

SECRET = "hunter2hunter2hunter2"
_PAGES = (
    "/", "/docs", "/openapi.json", "/health", "/healthz", "/readyz", "/v1/models", "/admin/v1/status",
    "/admin/v1/settings", "/admin/v1/models", "/admin/v1/backend", "/admin/v1/backend/logs", "/admin/v1/guardrails",
    "/admin/v1/budget", "/admin/v1/sampling", "/admin/v1/runs", "/nowhere",
)  # fmt: skip


def check(shown: str, where: str) -> None:
    """Raises `AssertionError` if a text shows a secret."""
    assert SECRET not in shown, f"{where} shows a secret: {shown[max(0, shown.index(SECRET) - 60) :][:150]}"


def everywhere(folder: Path, url: str) -> dict[str, str]:
    """Settings of a daemon that works, with a secret in each that takes one."""
    keys = folder / "keys"
    keys.write_text(f"{SECRET}-from-a-file\n")
    callbacks = {"allow": ["http://127.0.0.1:1"], "secret": f"{SECRET}-callbacks"}
    mcp = {
        "servers": {
            "program": {"command": "false", "env": {"TOKEN": f"{SECRET}-env"}},
            "remote": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": f"Bearer {SECRET}-header"}},
        }
    }
    return {
        "FORGE_PROXY_SERVER__API_KEYS": f"{SECRET}-client,open-sesame",
        "FORGE_PROXY_SERVER__API_KEYS_FILE": str(keys),
        "FORGE_PROXY_SERVER__ADMIN_KEYS": f"{SECRET}-admin,open-admin",
        "FORGE_PROXY_BACKEND__KIND": "openai",
        "FORGE_PROXY_BACKEND__API_KEY": f"{SECRET}-backend",
        "FORGE_PROXY_BACKEND__URL": url.replace("http://", f"http://user:{SECRET}-url@"),
        "FORGE_PROXY_STORE__URL": f"sqlite+aiosqlite:///{folder}/state/runs.db",
        "FORGE_PROXY_TOOLS__CALLBACKS": json.dumps(callbacks),
        "FORGE_PROXY_TOOLS__MCP": json.dumps(mcp),
        "XDG_STATE_HOME": str(folder / "state"),
    }


def _running_daemon() -> None:
    with model_server() as server, own_folder() as folder:
        settings = everywhere(folder, server.url)
        del settings["FORGE_PROXY_BACKEND__API_KEY"]  # with a user in the URL it is refused, which is tried below
        with daemon(env=settings) as proxy:
            client = {"Authorization": f"Bearer {SECRET}-client"}
            admin = {"Authorization": f"Bearer {SECRET}-admin"}
            for page in _PAGES:
                for headers in (
                    {},
                    client,
                    admin,
                    {"X-Api-Key": SECRET},
                    {"Authorization": f"Bearer {SECRET}-wrong"},
                ):
                    check(httpx.get(proxy.url + page, headers=headers, timeout=20).text, page)
            for model in ("says", "fails", "fails-in-html", "babbles", "overflows", "closes", "nowhere", SECRET[:4]):
                answer = httpx.post(proxy.url + CHAT, headers=client, json=ask(model, tools=[TOOL]), timeout=60)
                check(answer.text + str(answer.headers), model)
            proxy.send_signal(signal.SIGHUP)
            check(httpx.get(proxy.url + "/healthz", timeout=20).text, "after a reload")
        check(proxy.printed, "the log")


def _prompts() -> None:
    """No log line contains a prompt or a response, also after errors."""
    with model_server() as server, daemon("--backend-url", server.url) as proxy:
        messages = [{"role": "user", "content": f"prompt {SECRET}"}]
        for model in ("says", "fails", "babbles", "calls-brokenly", "errs-midway", "overflows", "loops-once", "dies"):
            for stream in (True, False):
                body = {**ask(model, tools=[TOOL], stream=stream), "messages": messages}
                try:
                    httpx.post(proxy.url + CHAT, json=body, timeout=60)
                except httpx.HTTPError:
                    continue
        httpx.post(proxy.url + CHAT, content=json.dumps(messages)[:-5], timeout=20)
    check(proxy.printed, "the log")


_REFUSED: tuple[Mapping[str, str], ...] = (
    {"FORGE_PROXY_SERVER__API_KEYS": f'"{SECRET}" x'},
    {"FORGE_PROXY_SERVER__API_KEYS": f"[{SECRET}"},
    {"FORGE_PROXY_SERVER__API_KEY": SECRET},
    {"FORGE_PROXY_SERVER__PORT": SECRET, "FORGE_PROXY_SERVER__ADMIN_KEYS": f"{SECRET},é"},
    {"FORGE_PROXY_BACKEND__URL": f"http://user:{SECRET}@127.0.0.1:1", "FORGE_PROXY_BACKEND__API_KEY": SECRET},
    {"FORGE_PROXY_BACKEND__URL": f"htp://user:{SECRET}@127.0.0.1:1"},
    {"FORGE_PROXY_BACKEND__URL": f"http://user:{SECRET}@127.0.0.1:99999"},
    {"FORGE_PROXY_BACKEND__API_KEY": f"{SECRET}\n"},
    {"FORGE_PROXY_STORE__URL": f"postgresql+asyncpg://user:{SECRET}@127.0.0.1:1/x"},
    {"FORGE_PROXY_STORE__URL": f"postgres://user:{SECRET}@127.0.0.1/x"},
    {"FORGE_PROXY_STORE__URL": f"postgresql+asyncpg://user:{SECRET}@127.0.0.1"},
    {"FORGE_PROXY_TOOLS__CALLBACKS": json.dumps({"allow": ["http://a.example"], "secret": SECRET[:5], "x": SECRET})},
    {"FORGE_PROXY_TOOLS__CALLBACKS": f'{{"secret": "{SECRET}"'},
    {"FORGE_PROXY_TOOLS__MCP": json.dumps({"servers": {"a": {"url": f"http://u:{SECRET}@127.0.0.1/mcp"}}})},
    {
        "FORGE_PROXY_TOOLS__MCP": json.dumps(
            {"servers": {"a": {"url": "http://127.0.0.1/", "headers": {"A": f"{SECRET}\n"}}}}
        )
    },
)


def _refused_settings() -> None:
    for env in _REFUSED:
        for words in (("config", "check"), ("config", "show"), ("check", "--port", "0")):
            ended = command(*words, env=env)
            shown = (ended.out + ended.err).replace(f"PORT: {SECRET}", "")
            if "FORGE_PROXY_SERVER__PORT" in env:  # a port is no secret, and quoted
                shown = shown.replace(f"got '{SECRET}'", "")
            check(shown, f"{' '.join(words)} with {', '.join(env)}")
            assert "Traceback" not in shown, f"{' '.join(words)} with {', '.join(env)}: a traceback"


def _broken_files() -> None:
    with own_folder() as folder:
        for number, text in enumerate(
            (
                f"server:\n  api_keys: [{SECRET}\nbackend: {{\n",
                f"server:\n  api_keys:\n  - {SECRET}\n - x\n",
                f"backend:\n\tapi_key: {SECRET}\n",
                f"backend: {{api_key: {SECRET}, url: 5}}\n",
                f"server: {{api_keys: {{a: {SECRET}}}}}\n",
                f"backend: {{api_key: *{SECRET}}}\n",
                f"store: {{url: 'postgres://u:{SECRET}@h/x'}}\n",
                f"tools: {{callbacks: {{secret: [{SECRET}]}}}}\n",
                f"{SECRET}\n",
            )
        ):
            file = folder / f"{number}.yaml"
            file.write_text(text)
            for words in (("config", "check"), ("config", "show"), ("serve", "--port", "0")):
                ended = command(*words, "--config", str(file))
                check(ended.out + ended.err, f"{' '.join(words)} of a broken file ({number})")


def _file_modes() -> None:
    """With the laxest umask nobody else can read what the daemon writes."""
    with far_side() as side, own_folder() as folder:
        folder.chmod(0o755)
        before = os.umask(0)
        try:
            env = {"XDG_STATE_HOME": str(folder / "state")}
            with daemon("--backend-url", side.url, "--backend", "openai", env=env) as proxy:
                body = submission(side, "look", "finish")
                for tool in body["workflow"]["tools"].values():
                    tool["execute"] = {"by": "arguments"}
                body["workflow"]["tools"]["look"]["execute"] = {"by": "client"}
                response = httpx.post(proxy.url + RUNS, json=body, timeout=30)
                assert response.status_code == 200, response.text
                assert response.json()["status"] not in FINISHED
        finally:
            os.umask(before)
        written = [path for path in folder.rglob("*") if path.is_file()]
        assert written, "nothing was written"
        check_modes(folder, written)


def check_modes(folder: Path, written: list[Path]) -> None:
    """Raises `AssertionError` if others can reach and read one of the files below a folder."""
    for path in written:
        reachable = all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents if folder in parent.parents)
        assert not (reachable and path.stat().st_mode & 0o077), f"{path.name} has mode {path.stat().st_mode & 0o777:o}"


ATTACKS = [
    Drill("a daemon with a secret in each setting", "secrets", _running_daemon),
    Drill("prompts in the log", "secrets", _prompts),
    Drill("settings that are refused", "secrets", _refused_settings),
    Drill("configuration files that are broken", "secrets", _broken_files),
    Drill("modes of written files with umask 0", "secrets", _file_modes),
]
