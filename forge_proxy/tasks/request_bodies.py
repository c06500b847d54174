"""The bodies of the requests of a call. They are the same in both modes: a line of a batch has the body of a request.

In the mode `sync` the daemon streams the response, to notice that the model server is silent. `stream` is therefore no
part of a body, but added when it is sent (`to_streamed_request`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_object, write
from forge_proxy.core.tasks.models import AssembledContext, CallMethod
from forge_proxy.core.tasks.prompt.assemble import estimate_tokens
from forge_proxy.tasks.config import TierConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request

RESPONSE_TOOL = "llm_response"
"""The name of the schema of a response, and of the tool whose call is the response."""
_SCHEMA_NOTE = "\n\nRespond with one JSON value, and nothing else, that is valid under this JSON Schema:\n\n"
_STREAMED: JsonObject = {"stream": True, "stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class ResponseCorrection:
    """A response that was invalid, and why. `room` is how many characters both may have; None for any number."""

    response: str
    reason: str
    room: int | None = None

    @property
    def messages(self) -> tuple[JsonObject, JsonObject]:
        """The messages that ask for a valid response. If they do not fit, the response is quoted in part."""
        text = f"The response is invalid: {self.reason}. Respond again, completely, in the required form."
        quoted = self.response
        if self.room is not None:
            quoted = quoted[: max(0, self.room - len(text))]
        # An empty message of the assistant keeps the roles alternating, which some chat templates require.
        return {"role": "assistant", "content": quoted}, {"role": "user", "content": text}


def add_schema_note(context: AssembledContext, schema: JsonObject) -> AssembledContext:
    """Return a prompt that requests a value of this schema, for model servers that cannot be limited to one."""
    prompt = context.user_prompt + _SCHEMA_NOTE + write(schema)
    return replace(context, user_prompt=prompt, tokens=estimate_tokens(context.system_prompt + prompt))


def build_body(
    model: str | None,
    context: AssembledContext,
    tier: TierConfig,
    limit: int,
    correction: ResponseCorrection | None = None,
) -> dict[str, Json]:  # fmt: skip
    """Return the body of a request with this prompt. `limit` is in tokens."""
    messages: list[Json] = [
        {"role": "system", "content": context.system_prompt},
        {"role": "user", "content": context.user_prompt},
    ]
    if correction is not None:
        messages += correction.messages
    body: dict[str, Json] = {"messages": messages, "max_tokens": limit, **tier.sampling}
    if tier.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": tier.thinking}
    if model is not None:
        body["model"] = model
    return body


def limit_to_schema(body: JsonObject, method: CallMethod, schema: JsonObject) -> JsonObject:
    """Return the body with what limits its response to the schema. With the method `prompt`, the prompt requests it."""
    if method == "response_format":
        form: JsonObject = {
            "type": "json_schema",
            "json_schema": {"name": RESPONSE_TOOL, "strict": True, "schema": schema},
        }
        return {**body, "response_format": form}
    if method == "tool":
        parameters = schema if is_object(schema) and schema.get("type") == "object" else {"type": "object", **schema}
        text = "Respond with the requested value."
        function: JsonObject = {"name": RESPONSE_TOOL, "description": text, "parameters": parameters}
        choice: JsonObject = {"type": "function", "function": {"name": RESPONSE_TOOL}}
        return {**body, "tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return body


def to_streamed_request(body: JsonObject) -> ChatRequest:
    """Return the request with this body whose response is streamed."""
    return replace(decode_request({**body, **_STREAMED}), is_converted=True)
