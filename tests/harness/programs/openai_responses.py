"""The openai SDK with the Responses API. Modes: create, stream, parse, stored (each request has only the new input)."""

import json
import sys

import openai
from pydantic import BaseModel
from tools import AS_FUNCTIONS, TOOLS

mode, base_url, prompt = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none")
AS_TOOLS = [{"type": "function", **tool["function"], "strict": False} for tool in AS_FUNCTIONS]


class ReadFile(BaseModel):
    path: str


class WriteFile(BaseModel):
    path: str
    content: str


PARSED = [
    {"type": "function", **openai.pydantic_function_tool(model, name=name)["function"]}
    for name, model in (("read_file", ReadFile), ("write_file", WriteFile))
]


def create(**asked):
    return client.responses.create(model="scripted", tools=AS_TOOLS, **asked)


def stream(**asked):
    with client.responses.stream(model="scripted", tools=AS_TOOLS, **asked) as events:
        kinds = [event.type for event in events]
        assert kinds[0] == "response.created", kinds
        assert kinds[-1] == "response.completed", kinds
        return events.get_final_response()


def parse(**asked):
    response = client.responses.parse(model="scripted", tools=PARSED, **asked)
    calls = [item for item in response.output if item.type == "function_call"]
    assert all(json.loads(call.arguments) == dict(call.parsed_arguments) for call in calls)
    return response


def run(call):
    result = TOOLS[call.name](**json.loads(call.arguments))
    return {"type": "function_call_output", "call_id": call.call_id, "output": result}


ask = {"create": create, "stream": stream, "parse": parse, "stored": create}[mode]
history = [{"role": "user", "content": prompt}]
new, previous = history, None
for _ in range(10):
    if mode == "stored":
        response = ask(input=new, previous_response_id=previous, store=True)
    else:
        response = ask(input=history, store=False)
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    new = [run(call) for call in calls]
    previous = response.id
    history += [item.model_dump(exclude={"parsed_arguments"}, exclude_none=True) for item in response.output] + new

if mode == "stored":
    again = client.responses.retrieve(response.id)
    assert again.output == response.output
    items = client.responses.input_items.list(response.id, order="asc").data
    assert [item.type for item in items][:1] == ["message"], items
    assert [item.type for item in items].count("function_call_output") >= 1, items
    client.responses.delete(response.id)
    response = again
print(response.output_text)
