"""A streamed tool call with httpx: chunks as they come, and the comment that says what the guardrails did.

Needs a running daemon (`make run`).
"""

import json
import os
from typing import Any

import httpx

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8081/v1")
REQUEST = {
    "model": "tiny-tools",
    "messages": [{"role": "user", "content": "Please get the weather with city Paris and days 3."}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "get the weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city", "days"],
                },
            },
        }
    ],
    "temperature": 0,
    "stream": True,
}


def main() -> None:
    name, arguments, finish_reason = "", "", None
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    with httpx.stream("POST", f"{BASE_URL}/chat/completions", json=REQUEST, headers=headers, timeout=120) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line.startswith(": x-forge-outcome"):  # clients that do not know this comment skip it
                print(line.removeprefix(": "))
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            chunk: dict[str, Any] = json.loads(line.removeprefix("data: "))
            for choice in chunk["choices"]:
                finish_reason = choice.get("finish_reason") or finish_reason
                for piece in choice["delta"].get("tool_calls") or ():
                    name += piece["function"].get("name") or ""
                    arguments += piece["function"].get("arguments") or ""
    print(finish_reason, name, arguments)


if __name__ == "__main__":
    main()
