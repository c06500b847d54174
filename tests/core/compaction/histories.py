"""Conversations of workflows to compact: hand-written ones, and random ones with every type of message."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from forge_proxy.core.messages import Message, MessageRole, MessageType, ToolCall

_TEXTS = st.text(max_size=20) | st.integers(0, 900).map("lorem ipsum ".__mul__) | st.just("😀" * 300)
_NUDGES = (MessageType.STEP_NUDGE, MessageType.PREREQUISITE_NUDGE, MessageType.RETRY_NUDGE)


def head(*, user: str = "Audit the suppliers.") -> list[Message]:
    """The system prompt and what the user wants."""
    return [Message.of(MessageType.SYSTEM_PROMPT, "You audit."), Message.of(MessageType.USER_INPUT, user)]


def step(index: int, *results: str, thought: str = "", refused: MessageType | None = None) -> list[Message]:
    """An iteration with a call for each result; or with refusals in their place, nudges of that type."""
    calls = tuple(ToolCall("look", f'{{"step": {index}}}', f"c{index}-{number}") for number in range(len(results)))
    made = [Message.of(MessageType.REASONING, thought)] if thought else []
    made.append(Message.of(MessageType.TOOL_CALL, calls=calls))
    kind = refused or MessageType.TOOL_RESULT
    made += [Message.of(kind, text, answers=call) for call, text in zip(calls, results, strict=True)]
    return [message.at(index) for message in made]


def chatter(index: int, text: str = "I think I shall look.") -> list[Message]:
    """An iteration in which a call was wanted and text came."""
    made = [Message.of(MessageType.TEXT_RESPONSE, text), Message.of(MessageType.RETRY_NUDGE, "Call a tool.")]
    return [message.at(index) for message in made]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """Orphan-free conversations, some with several runs and with repeated ids."""
    out: list[Message] = []
    for _ in range(draw(st.integers(1, 2))):
        out += head(user=draw(_TEXTS))
        for index in range(draw(st.integers(0, 8))):
            kind = draw(st.sampled_from(["step", "step", "refused", "chatter", "mixed"]))
            if kind == "chatter":
                out += chatter(index, draw(_TEXTS))
                continue
            texts = draw(st.lists(_TEXTS, min_size=1, max_size=3))
            refused = draw(st.sampled_from(_NUDGES)) if kind == "refused" else None
            made = step(index, *texts, thought=draw(st.just("") | _TEXTS), refused=refused)
            if kind == "mixed":
                call = made[-1 - len(texts)].tool_calls[-1]
                made[-1] = Message.of(MessageType.RETRY_NUDGE, draw(_TEXTS), answers=call).at(index)
            out += made
    return tuple(out)


def orphans(messages: Sequence[Message]) -> list[str]:
    """Ids of calls without a result among the messages that follow them directly, and of results without a call."""
    found: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if message.role is MessageRole.TOOL:
            if message.tool_call_id in open_calls:
                open_calls.remove(message.tool_call_id)
            else:
                found.append(str(message.tool_call_id))
            continue
        found += open_calls
        open_calls = [call.id for call in message.tool_calls]
    return found + open_calls
