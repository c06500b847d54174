"""The litellm SDK in a plain loop. Modes: whole, stream."""

import json
import sys

import litellm
from tools import AS_FUNCTIONS, TOOLS

mode, base_url, prompt = sys.argv[1:]
messages = [{"role": "user", "content": prompt}]
for _ in range(10):
    answer = litellm.completion(
        model="openai/scripted",
        api_base=base_url,
        api_key="none",
        messages=messages,
        tools=AS_FUNCTIONS,
        stream=mode == "stream",
        num_retries=2,
    )
    if mode == "stream":
        answer = litellm.stream_chunk_builder(list(answer), messages=messages)
    message = answer.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        print(message.content)
        break
    for call in message.tool_calls:
        result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
