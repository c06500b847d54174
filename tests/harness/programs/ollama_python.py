"""The ollama package, which derives the tools from functions. Modes: whole, stream."""

import sys

import ollama
import tools

mode, base_url, prompt = sys.argv[1:]
client = ollama.Client(host=base_url.removesuffix("/v1"))
assert "scripted" in [model.model.partition(":")[0] for model in client.list().models]
messages = [{"role": "user", "content": prompt}]


def whole():
    return client.chat("scripted", messages, tools=list(tools.TOOLS.values())).message


def stream():
    text, calls = "", []
    for part in client.chat("scripted", messages, tools=list(tools.TOOLS.values()), stream=True):
        text += part.message.content or ""
        calls += part.message.tool_calls or []
    return ollama.Message(role="assistant", content=text, tool_calls=calls or None)


for _ in range(10):
    message = {"whole": whole, "stream": stream}[mode]()
    messages.append(message)
    if not message.tool_calls:
        print(message.content)
        break
    for call in message.tool_calls:
        result = tools.TOOLS[call.function.name](**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
