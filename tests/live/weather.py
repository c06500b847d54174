"""Tools and requests that the tiny model understands (tests/tiny_model/README.md)."""

from __future__ import annotations

from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

MODEL = "tiny-tools"


def tool(name: str, about: str, **params: str) -> ChatCompletionFunctionToolParam:
    """A tool whose arguments are all required. Strict, because the SDK's streaming helper accepts no others."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in params.items()},
                "required": [*params],
                "additionalProperties": False,
            },
        },
    }


TOOLS = [
    tool("get_weather", "get the weather", city="string", days="integer"),
    tool("find_invoice", "find the invoice", customer="string"),
    tool("send_email", "send a email", email="string", subject="string"),
]
PARIS = {"city": "Paris", "days": 3}


def says(text: str) -> list[ChatCompletionMessageParam]:
    """The first message of a user."""
    return [{"role": "user", "content": text}]


ASK_PARIS = says("Please get the weather with city Paris and days 3.")
