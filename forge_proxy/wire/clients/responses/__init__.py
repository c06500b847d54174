"""OpenAI's Responses API (`/v1/responses`) for clients: items in, items and events out.

A request becomes a chat completion: `input_items.py` and `content.py` convert the conversation, `tools.py` the tools,
and `options.py` everything else. `encoder.py` converts the response; streamed and whole take the same path.
"""
