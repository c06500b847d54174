"""How a model server wants a request written, where it does not take it as its caller wrote it.

A value: the engine learns it from what a server refuses, and `wire` writes requests by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias, assert_never

from forge_proxy.core.jsontypes import JsonObject, no_fields

Reasoning: TypeAlias = Literal["as-sent", "none", "keep-last", "all"]
"""What becomes of the thoughts in a history: left as they are, dropped, kept since the last user message, kept. Those
kept stand under both names that servers read, `reasoning_content` and `reasoning`.
"""


ToolMode: TypeAlias = Literal["native", "prompt", "auto"]
"""Where the tools are told: in the request, or in the prompt, which is for servers and chat templates that know none.
`auto` is native until a server says that it takes no tools.
"""


class UnsupportedFeature(StrEnum):
    """What a server said that it cannot take."""

    NO_DEVELOPER = "no role developer"
    SYSTEM_FIRST = "system message first"
    NO_SYSTEM = "no system message"
    ALTERNATION = "roles alternate"
    CHOICE_IN_WORDS = "tool_choice in words"
    NO_TOOLS = "no tools"
    USER_LAST = "a user message last"
    FREE_CHOICE = "tool_choice auto"
    NO_SAMPLING = "no sampling"
    PLAIN_SCHEMAS = "plain tool schemas"
    """The tools, or the grammar it made of them."""
    UNCLEAR = "unclear"
    """Its template failed, and it does not say at what; often at a schema that the template's author did not expect."""

    @property
    def is_of_tools(self) -> bool:
        """Whether it may be met by simpler tools."""
        return self in (UnsupportedFeature.PLAIN_SCHEMAS, UnsupportedFeature.UNCLEAR)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is written differently. The default changes nothing."""

    reasoning: Reasoning = "as-sent"
    tools: ToolMode = "auto"
    developer: bool = True
    """Whether there is a role `developer`; else it is `system`."""
    system: Literal["anywhere", "first", "never"] = "anywhere"
    """Where system messages may stand; elsewhere they become user messages."""
    alternating: bool = False
    """Whether neighbours of one role have to be one message."""
    prefill: bool = True
    """Whether it goes on with an answer that the conversation ends with."""
    choice_in_words: bool = False
    """Whether `tool_choice` is a word and never an object. Which tool an object names is then ours to see to."""
    forced_choice: bool = True
    """Whether a call can be demanded by `tool_choice`. Where it cannot, that one comes is ours to see to."""
    sampling: bool = True
    """Whether it takes a temperature and the like; models of late choose for themselves."""
    llama_cpp: bool = False
    """Whether it is a llama-server, which understands fields of its own."""
    defaults: JsonObject = field(default_factory=no_fields)
    """Fields that go with each request whose caller says nothing of them."""
    thinks: bool | None = None
    """Whether the model of a llama-server is told to think or not to, where the caller says nothing of it."""
    plain_schemas: bool = False
    """Whether tools are sent with `core.projection.plain` schemas."""

    @property
    def changes(self) -> tuple[str, ...]:
        """What is written differently from how a caller sent it, in words."""
        changes = {
            "developer as system": not self.developer,
            "system messages first": self.system == "first",
            "system as user": self.system == "never",
            "neighbours of one role merged": self.alternating,
            "a user message last": not self.prefill,
            "tools in the prompt": self.tools == "prompt",
            "tool_choice in words": self.choice_in_words,
            "no tool_choice": not self.forced_choice,
            "no temperature": not self.sampling,
            "plain tool schemas": self.plain_schemas,
        }
        return tuple(words for words, holds in changes.items() if holds)

    def meeting(self, need: UnsupportedFeature) -> Dialect:
        """The dialect that meets one more need; itself, where it does already."""
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
