"""A tool call with the openai SDK. Needs a running daemon (`make run`)."""

import json
import os

from openai import OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8081/v1")
GET_WEATHER: ChatCompletionFunctionToolParam = {
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


def get_weather(city: str, days: int) -> str:
    return json.dumps({"city": city, "days": days, "forecast": "sunny"})


def main() -> None:
    client = OpenAI(base_url=BASE_URL, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    messages: list[ChatCompletionMessageParam] = [
        {"role": "user", "content": "Please get the weather with city Paris and days 3."}
    ]
    response = client.chat.completions.create(model="tiny-tools", messages=messages, tools=[GET_WEATHER], temperature=0)
    for call in response.choices[0].message.tool_calls or ():
        if call.type == "function":
            arguments = json.loads(call.function.arguments)  # the daemon has checked them against the schema
            print(call.function.name, get_weather(**arguments))


if __name__ == "__main__":
    main()
