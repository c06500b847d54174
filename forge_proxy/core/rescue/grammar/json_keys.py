"""Keys of the JSON objects that models and servers write for tool calls."""

from __future__ import annotations

NAME_KEYS = (
    "name", "tool", "tool_name", "function_name", "function", "toolName", "functionName", "tool_call_name", "action",
)  # fmt: skip
ARGUMENT_KEYS = (
    "arguments", "args", "parameters", "input", "params", "tool_args", "tool_input", "tool_arguments",
    "tool_parameters", "function_arguments", "action_input", "kwargs",
)  # fmt: skip
ENVELOPE_KEYS = ("function", "function_call", "tool_call", "tool")
LIST_KEYS = ("tool_calls", "function_calls", "calls")
METADATA_KEYS = frozenset({*NAME_KEYS, "id", "type", "index", "call_id", "tool_call_id"})
"""Keys beside the arguments that carry no information for the tool."""
COMMENTARY_KEYS = frozenset(
    {"thought", "thoughts", "thinking", "reasoning", "explanation", "content", "role", "description"}
)
"""Keys with commentary from the model, dropped silently; dropping any other key is reported as a repair."""
RESULT_KEYS = frozenset({"result", "results", "output", "response", "error"})
"""Keys that occur beside the arguments only in a record of an executed call."""
