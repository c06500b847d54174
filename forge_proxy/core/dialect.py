"""The request format that a model server accepts, if it does not accept the client's.

A value: the engine learns it from the requests that a server rejects, and `wire` encodes requests by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias, assert_never

from forge_proxy.core.jsontypes import JsonObject, no_fields

Reasoning: TypeAlias = Literal["as-sent", "none", "keep-last", "all"]
"""How the reasoning in a history is handled: forwarded as sent, dropped, kept since the last user message, or kept.
Kept reasoning is sent in both fields that servers read, `reasoning_content` and `reasoning`.
"""


ToolMode: TypeAlias = Literal["native", "prompt", "auto"]
"""Where tools are described: in the request, or in the prompt, for servers and chat templates without tool support.
`auto` is native until the server reports that it does not support tools.
"""


class UnsupportedFeature(StrEnum):
    """A feature that a server reports as unsupported."""

    NO_DEVELOPER = "no role developer"
    SYSTEM_FIRST = "system message first"
    NO_SYSTEM = "no system message"
    ALTERNATION = "roles alternate"
    CHOICE_IN_WORDS = "tool_choice as text"
    NO_TOOLS = "no tools"
    USER_LAST = "a user message last"
    FREE_CHOICE = "tool_choice auto"
    NO_SAMPLING = "no sampling"
    PLAIN_SCHEMAS = "plain tool schemas"
    """The server rejects the tools or the grammar that it generates from them."""
    UNCLEAR = "unclear"
    """The chat template failed without a reason, often because of a schema that its author did not expect."""

    @property
    def is_about_tools(self) -> bool:
        """Whether simpler tool schemas may solve it."""
        return self in (UnsupportedFeature.PLAIN_SCHEMAS, UnsupportedFeature.UNCLEAR)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The changes to a request's format. The default changes nothing."""

    reasoning: Reasoning = "as-sent"
    tools: ToolMode = "auto"
    developer: bool = True
    """Whether the role `developer` is supported; otherwise `system` is sent."""
    system: Literal["anywhere", "first", "never"] = "anywhere"
    """Where system messages are allowed; elsewhere they are sent as user messages."""
    alternating: bool = False
    """Whether adjacent messages of one role must be merged."""
    prefill: bool = True
    """Whether the server continues an assistant message at the end of the conversation."""
    choice_in_words: bool = False
    """Whether `tool_choice` must be a string rather than an object. The guardrails then enforce the named tool."""
    forced_choice: bool = True
    """Whether `tool_choice` may require a call. If not, the guardrails enforce it."""
    sampling: bool = True
    """Whether sampling parameters such as the temperature are supported; some recent models reject them."""
    llama_cpp: bool = False
    """Whether the server is a llama-server, which supports additional fields."""
    defaults: JsonObject = field(default_factory=no_fields)
    """Fields added to each request in which the client does not set them."""
    thinks: bool | None = None
    """Whether to enable or disable reasoning on a llama-server if the client does not; None leaves it to the server."""
    plain_schemas: bool = False
    """Whether tools are sent with simplified schemas, see `core.simplify_schema`."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Descriptions of the differences from the client's request."""
        changes = {
            "developer as system": not self.developer,
            "system messages first": self.system == "first",
            "system as user": self.system == "never",
            "consecutive messages of one role merged": self.alternating,
            "a user message last": not self.prefill,
            "tools in the prompt": self.tools == "prompt",
            "tool_choice as text": self.choice_in_words,
            "no tool_choice": not self.forced_choice,
            "no temperature": not self.sampling,
            "plain tool schemas": self.plain_schemas,
        }
        return tuple(words for words, holds in changes.items() if holds)

    def avoid(self, need: UnsupportedFeature) -> Dialect:
        """Return the dialect that avoids one more unsupported feature; unchanged if it already does."""
        first = "first" if self.system == "anywhere" else self.system
        match need:
            case UnsupportedFeature.NO_DEVELOPER:
                return replace(self, developer=False)
            case UnsupportedFeature.SYSTEM_FIRST:
                return replace(self, system=first)
            case UnsupportedFeature.NO_SYSTEM:
                return replace(self, system="never")
            case (
                UnsupportedFeature.ALTERNATION
            ):  # such templates count a system message in between as a break of the order
                return replace(self, alternating=True, system=first)
            case UnsupportedFeature.CHOICE_IN_WORDS:
                return replace(self, choice_in_words=True)
            case UnsupportedFeature.USER_LAST:
                return replace(self, prefill=False)
            case UnsupportedFeature.NO_TOOLS:
                return replace(self, tools="prompt") if self.tools == "auto" else self
            case UnsupportedFeature.FREE_CHOICE:
                return replace(self, forced_choice=False)
            case UnsupportedFeature.NO_SAMPLING:
                return replace(self, sampling=False)
            case UnsupportedFeature.PLAIN_SCHEMAS | UnsupportedFeature.UNCLEAR:
                return replace(self, plain_schemas=True)
            case _:
                assert_never(need)


AS_SENT = Dialect()
