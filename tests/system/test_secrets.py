"""Secrets of a running daemon: in no log line, response, document or crash trace."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx

from tests.fakes.processes import Process, closed_port, command, daemon
from tests.system.asking import PATH, ask

SECRET = "hunter2-Zq9"


def test_secrets_of_the_settings_appear_nowhere(tmp_path: Path) -> None:
    with closed_port() as closed:
        file = tmp_path / "config.yaml"
        file.write_text(
            f"""
server: {{api_keys: [api-{SECRET}], admin_keys: [admin-{SECRET}]}}
backend: {{url: "http://user:{SECRET}@127.0.0.1:{closed}/v1"}}
store: {{url: "postgresql+asyncpg://user:{SECRET}@127.0.0.1:{closed}/runs"}}
log: {{level: debug}}
tools:
  callbacks: {{allow: ["http://127.0.0.1:{closed}"], secret: "{SECRET * 2}"}}
  mcp:
    servers:
      program: {{command: nowhere, args: [--token, {SECRET}], env: {{TOKEN: {SECRET}}}}}
      remote: {{url: "http://127.0.0.1:{closed}/mcp?token={SECRET}", headers: {{Authorization: Bearer {SECRET}}}}}
"""
        )
        with daemon("--config", str(file)) as process:
            texts = everything_from(process)
            file.write_text(f"server:\n  api_keys: [{SECRET}\n")
            process.send_signal(signal.SIGHUP)
            process.wait_for("not reloaded")
            process.stop()
            texts.append(process.printed)
        for words in (("config", "show"), ("config", "check"), ("check",)):
            ended = command(*words, "--config", str(file))
            texts += [ended.out, ended.err]

    assert [text for text in texts if SECRET in text] == []


def everything_from(process: Process) -> list[str]:
    """Return the responses of the daemon to each of its pages and to a request that fails."""
    found: list[str] = []
    for key in ("api", "admin"):
        headers = {"authorization": f"Bearer {key}-{SECRET}"}
        with httpx.Client(base_url=process.url, timeout=30, headers=headers) as client:
            pages = ["/", "/docs", "/openapi.json", "/health", "/healthz", "/readyz", "/v1/models", "/admin/v1/status"]
            pages += ["/admin/v1/config", "/admin/v1/backend", "/admin/v1/models", "/admin/v1/runs"]
            found += [client.get(page).text for page in pages]
            found.append(client.post(PATH, json=ask("says")).text)
            found.append(client.post(PATH, headers={"authorization": f"Bearer wrong-{SECRET}"}, json={}).text)
    return found
