"""The openai SDK in the loop of its documentation: request, run the calls, repeat. Modes: whole, stream, helper."""

import json
import sys

import openai
from pydantic import BaseModel
from tools import AS_FUNCTIONS, TOOLS

mode, base_url, prompt = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none")


class ReadFile(BaseModel):
    path: str


class WriteFile(BaseModel):
    path: str
    content: str


PARSED = [
    openai.pydantic_function_tool(ReadFile, name="read_file"),
    openai.pydantic_function_tool(WriteFile, name="write_file"),
]


def whole(messages):
    return client.chat.completions.create(model="scripted", messages=messages, tools=AS_FUNCTIONS).choices[0].message


def stream(messages):
    text, calls = "", {}
    chunks = client.chat.completions.create(
        model="scripted", messages=messages, tools=AS_FUNCTIONS, stream=True, stream_options={"include_usage": True}
    )
    for chunk in chunks:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        text += delta.content or ""
        for piece in delta.tool_calls or []:
            call = calls.setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "arguments": ""})
            call["arguments"] += piece.function.arguments or ""
    made = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in calls.values()
    ]
    said = {"role": "assistant", "content": text or None, **({"tool_calls": made} if made else {})}
    return openai.types.chat.ChatCompletionMessage.model_validate(said)


def helper(messages):
    with client.chat.completions.stream(model="scripted", messages=messages, tools=PARSED) as events:
        for _ in events:
            pass
        return events.get_final_completion().choices[0].message


ask = {"whole": whole, "stream": stream, "helper": helper}[mode]
messages = [{"role": "user", "content": prompt}]
for _ in range(10):
    message = ask(messages)
    messages.append(message)
    if not message.tool_calls:
        print(message.content)
        break
    for call in message.tool_calls:
        result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
