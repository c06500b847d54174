"""Where one request stands: what is offered, what was tried, what is left. A value; `judge` makes the next one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.fast_dataclass import record
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.respond import respond_tool
from forge_proxy.core.jsontypes import JsonObject, is_list, is_object
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.tool_names import resolve_name


class Fault(StrEnum):
    """What is wrong with an attempt."""

    TEXT = "text"
    """Bare text where a call was possible."""
    NO_CALL = "no_call"
    """No call where `tool_choice` demands one."""
    EMPTY = "empty"
    """Neither text nor call."""
    UNKNOWN_TOOL = "unknown_tool"
    NOT_ALLOWED = "not_allowed"
    """A real tool that `tool_choice` excludes."""
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments do not satisfy the tool's schema."""
    MALFORMED = "malformed"
    """A call was begun and cannot be read."""
    NO_ROOM = "no_room"
    """The failed answers and corrections do not fit into the window beside what the caller sent."""
    CUT = "cut"
    """The answer ended at a token limit in the middle of a call."""
    UNREADABLE = "unreadable"
    """The model server could not read the model's call and answered with an error."""
    LOOP = "loop"
    """The answer only repeated itself and was stopped."""


class Outcome(StrEnum):
    """What the guardrails had to do, as in the header `x-forge-outcome`; each includes the ones before it."""

    PASSTHROUGH = "passthrough"
    CLEAN = "clean"
    RESCUED = "rescued"
    REPAIRED = "repaired"
    RETRIED = "retried"
    EXHAUSTED = "exhausted"

    @staticmethod
    def furthest(outcomes: Iterable[Outcome]) -> Outcome:
        """The one that went furthest: it stands for all of them."""
        order = list(Outcome)
        return max(outcomes, key=order.index)


@record
class Turn:
    """One guarded request between two attempts. Serialisable: only plain values inside."""

    request_id: str
    id_seed: str
    """What the ids of calls are derived from that the model gave none: another one for each turn of a conversation."""
    used_ids: tuple[str, ...]
    """The ids of the calls in the conversation so far: no new call may have one of them."""
    tools: tuple[ToolSpec, ...]
    choice: ToolChoice
    parallel: bool
    limit: int | None
    respond: ToolSpec | None
    policy: GuardPolicy
    retries_left: int
    text_nudges_left: int
    cut_retries_left: int = 1
    opens_thoughts: bool = False
    """Whether this model's text may begin with thoughts that its chat template opens: then text waits for their end."""
    held: bool = False
    """Whether asking alone will not bring the call that is demanded: the model ran on, or called what it may not."""
    attempt: int = 1
    faults: tuple[Fault, ...] = ()
    added: tuple[Message, ...] = ()
    first_text: str | None = None
    """The bare text that was asked again: it is the answer if nothing better comes."""
    messages: tuple[JsonObject, ...] = ()
    """The conversation as the client sent it: a retry of plain text must not only repeat calls that have a result."""
    last_calls: tuple[ToolCall, ...] = ()
    """The latest calls that failed: handed out, marked as exhausted, if after them nothing comes at all."""

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, ours included."""
        offered = (*self.tools, self.respond) if self.respond else self.tools
        return next((tool for tool in offered if tool.name == name), None)

    def is_respond(self, name: str) -> bool:
        """Whether a name is that of our own tool, in any spelling that resolves to it: `functions.respond`."""
        return self.respond is not None and resolve_name(name, self.known_names) == self.respond.name

    @property
    def known_names(self) -> tuple[str, ...]:
        """All offered tools, ours included, whether or not `choice` allows them."""
        names = tuple(tool.name for tool in self.tools)
        return (*names, self.respond.name) if self.respond else names

    @property
    def names(self) -> tuple[str, ...]:
        """What the model may call by the caller's will, our own tool not included."""
        return tuple(tool.name for tool in self.tools if self.choice.allows(tool.name))

    @property
    def callable_names(self) -> tuple[str, ...]:
        """What the model may call, our own tool last."""
        return (*self.names, self.respond.name) if self.respond else self.names

    @property
    def demands_call(self) -> bool:
        """Whether text is no answer at all."""
        return self.choice.mode == "required"

    @property
    def text_waits(self) -> bool:
        """Whether text cannot leave as it comes: it may be asked again, or turn out to be thought."""
        return self.text_may_be_asked_again or self.opens_thoughts

    @property
    def held_to(self) -> tuple[ToolSpec, ...]:
        """The tools of which the backend is to be held to a call, where one is demanded: at last at the last retry."""
        last = self.attempt > 1 and self.retries_left == 0
        if not self.demands_call or not (self.held or last):
            return ()
        return tuple(tool for tool in self.tools if self.choice.allows(tool.name))

    @property
    def text_may_be_asked_again(self) -> bool:
        """Whether text has to wait for the verdict; otherwise it may leave as it comes."""
        if self.demands_call or self.first_text is not None:
            return True
        return self.retries_left > 0 and self.text_nudges_left > 0


def open_turn(
    request: ChatRequest, policy: GuardPolicy, *, request_id: str, nudge_text: bool, opens_thoughts: bool = False
) -> Turn | None:
    """The turn a request begins with; None when there is nothing to guard and it passes through.

    `nudge_text` is what the text policy says for this model now, `opens_thoughts` whether its chat template begins
    thoughts for it. Several choices (`n` > 1) are never asked again.
    """
    switches = policy.enabled
    if not request.tools or request.tool_choice.mode == "none" or not switches.any:
        return None
    retries = policy.max_retries if switches.retry and request.choices == 1 else 0
    may_talk = request.tool_choice.mode == "auto"
    return Turn(
        request_id=request_id,
        # A caller may send the same request id with each turn, but never as many messages.
        id_seed=f"{request_id}/{len(request.messages)}",
        used_ids=tuple(_call_ids(request)),
        tools=request.tools,
        choice=request.tool_choice,
        parallel=request.parallel,
        limit=request.limit,
        respond=respond_tool(tool.name for tool in request.tools) if switches.respond and may_talk else None,
        policy=policy,
        retries_left=retries,
        text_nudges_left=policy.max_text_nudges if nudge_text else 0,
        cut_retries_left=min(1, retries),
        messages=request.messages,
        opens_thoughts=opens_thoughts,
    )


def _call_ids(request: ChatRequest) -> Iterable[str]:
    for message in request.messages:
        calls = message.get("tool_calls")
        for call in calls if is_list(calls) else ():
            if is_object(call) and isinstance(identity := call.get("id"), str):
                yield identity
