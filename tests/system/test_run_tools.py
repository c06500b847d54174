"""A run in a real daemon with tools of an MCP server, which ends with the daemon."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.far_side import far_side
from tests.fakes.processes import children, has_ended, until
from tests.system.runs import RUNS, Place, kill, submit, wait_until

ENDS: dict[str, Any] = {"parameters": {"type": "object"}, "execute": {"by": "arguments"}}


def workflow(**execute: Any) -> dict[str, Any]:
    tools = {"count": {"execute": {"by": "mcp", **execute}}, "finish": ENDS}
    declared = {"name": "w", "tools": tools, "terminal_tool": "finish", "system_prompt_template": "Do it."}
    return {"workflow": declared, "user_message": "Go."}


def test_a_run_calls_a_tool_of_an_mcp_server_that_ends_with_the_daemon(tmp_path: Path) -> None:
    server = {
        "command": sys.executable,
        "args": ["-m", "tests.fakes.mcp_server", "stubborn"],
        "env": {"PYTHONPATH": os.pathsep.join(sys.path)},
    }
    env = {"FORGE_PROXY_TOOLS__MCP": json.dumps({"servers": {"here": server}})}
    with far_side() as side, Place(side, tmp_path).daemon(env=env) as proxy:
        run = submit(proxy, workflow(server="here"))
        done = wait_until(proxy, run["id"], "completed", "failed")
        wrong = httpx.post(proxy.url + RUNS, json=workflow(server="here", tool="nothing"), timeout=20)
        started = children(proxy.pid, pool=False)

        kill(proxy)

        until(lambda: all(has_ended(pid) for pid in started), "the server ends with the daemon")

    assert (done["status"], done["error"]) == ("completed", None)
    assert [message["content"] for message in done["messages"] if message["role"] == "tool"][:1] == ["counted 1"]
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"] == "workflow.tools.count.execute.tool"
    assert "the server has no tool 'nothing'; it has: weather, greet, count" in wrong.json()["error"]["message"]
    assert started != []
