"""A run over HTTP: the daemon drives the workflow and stores each step, this program executes the tool.

Needs a running daemon (`make run`).
"""

import json
import os
import time
from typing import Any

import httpx

ROOT = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8081/v1").removesuffix("/v1")
SUBMISSION = {
    "workflow": {
        "name": "weather",
        "tools": {
            "get_weather": {
                "description": "get the weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city", "days"],
                },
                "execute": {"by": "client"},
            }
        },
        "terminal_tool": "get_weather",
        "system_prompt_template": "You are a helper.",
    },
    "user_message": "Please get the weather with city Paris and days 3.",
    "options": {"temperature": 0},
}


def get_weather(city: str, days: int) -> str:
    return f"{days} sunny days in {city}"


def execute_calls(run: dict[str, Any]) -> list[dict[str, str]]:
    """The outputs of the calls that the run waits for."""
    return [
        {"tool_call_id": call["id"], "output": get_weather(**json.loads(call["function"]["arguments"]))}
        for call in run["required_action"]
    ]


def main() -> None:
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    with httpx.Client(base_url=f"{ROOT}/admin/v1", headers=headers, timeout=60) as client:
        run = client.post("/runs", json=SUBMISSION).raise_for_status().json()
        while run["status"] not in ("completed", "failed", "cancelled"):
            if outputs := execute_calls(run):
                client.post(f"/runs/{run['id']}/tool_outputs", json={"outputs": outputs}).raise_for_status()
            time.sleep(0.1)
            run = client.get(f"/runs/{run['id']}").raise_for_status().json()
    print(run["status"], run["result"]["result"] if run["result"] else run["error"])


if __name__ == "__main__":
    main()
