"""The anthropic SDK. Modes: create (with count_tokens before each request), stream, tool_runner."""

import sys

import anthropic
import tools

mode, base_url, prompt = sys.argv[1:]
client = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key="none")
AS_TOOLS = [
    {"name": tool["function"]["name"], "description": "A file.", "input_schema": tool["function"]["parameters"]}
    for tool in tools.AS_FUNCTIONS
]


def create(messages):
    counted = client.messages.count_tokens(model="scripted", messages=messages, tools=AS_TOOLS).input_tokens
    assert counted > 0
    return client.messages.create(model="scripted", max_tokens=1000, messages=messages, tools=AS_TOOLS)


def stream(messages):
    with client.messages.stream(model="scripted", max_tokens=1000, messages=messages, tools=AS_TOOLS) as events:
        for _ in events:
            pass
        return events.get_final_message()


def loop(ask):
    messages = [{"role": "user", "content": prompt}]
    for _ in range(10):
        message = ask(messages)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return message
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": tools.TOOLS[call.name](**call.input)}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    return message


def tool_runner():
    return client.beta.messages.tool_runner(
        model="scripted",
        max_tokens=1000,
        messages=[{"role": "user", "content": prompt}],
        tools=[anthropic.beta_tool(tools.read_file), anthropic.beta_tool(tools.write_file)],
        max_iterations=10,
    ).until_done()


said = tool_runner() if mode == "tool_runner" else loop({"create": create, "stream": stream}[mode])
print("".join(block.text for block in said.content if block.type == "text"))
