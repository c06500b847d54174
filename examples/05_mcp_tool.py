"""A tool of an MCP server, and a run that uses it. The daemon runs inside this program, on the embedded test model.

The daemon starts the MCP server when a run first needs it: this file again, with the argument `server`.
"""

import sys
import tempfile
import time
from pathlib import Path

import httpx
from mcp.server.mcpserver import MCPServer

from forge_proxy import ProxyServer
from forge_proxy.settings import build_settings

server = MCPServer("weather", log_level="WARNING")


@server.tool(structured_output=False)  # the result is plain text
def get_weather(city: str, days: int) -> str:
    """get the weather"""
    return f"{days} sunny days in {city}"


SUBMISSION = {
    "workflow": {
        "name": "weather",
        "tools": {
            "get_weather": {"execute": {"by": "mcp", "server": "weather"}}
        },  # description and schema: the server's
        "terminal_tool": "get_weather",
        "system_prompt_template": "You are a helper.",
    },
    "user_message": "Please get the weather with city Paris and days 3.",
    "options": {"temperature": 0},
}


def main() -> None:
    program = {"command": sys.executable, "args": [str(Path(__file__).resolve()), "server"]}
    with tempfile.TemporaryDirectory() as folder:
        store = {"url": f"sqlite+aiosqlite:///{folder}/runs.db"}
        settings = build_settings({"tools": {"mcp": {"servers": {"weather": program}}}, "store": store})
        with ProxyServer(settings, backend="embedded", port=0) as proxy:
            runs = f"{proxy.url.removesuffix('/v1')}/admin/v1/runs"
            run = httpx.post(runs, json=SUBMISSION, timeout=60).raise_for_status().json()
            while run["status"] not in ("completed", "failed", "cancelled"):
                time.sleep(0.1)
                run = httpx.get(f"{runs}/{run['id']}").raise_for_status().json()
    print(run["status"], run["result"]["result"] if run["result"] else run["error"])


if __name__ == "__main__":
    if sys.argv[1:] == ["server"]:
        server.run()
    else:
        main()
