"""The state of one guarded request: tools, failed attempts, remaining retries. Immutable; `judge` returns the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from forge_proxy.core.chat import ChatRequest, ToolChoice, ToolSpec
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.guardrails.answer_grounding import UngroundedAnswer, find_ungrounded_answer, has_results
from forge_proxy.core.guardrails.early_end import Unfinished, find_unfinished
from forge_proxy.core.guardrails.heuristics import NO_HEURISTICS, ActiveHeuristics, Heuristic
from forge_proxy.core.guardrails.policy import GuardPolicy
from forge_proxy.core.guardrails.respond import respond_tool
from forge_proxy.core.guardrails.terminal_tools import TerminalTool, find_terminal_tools
from forge_proxy.core.jsontypes import JsonObject, is_list, is_object
from forge_proxy.core.messages import Message, ToolCall
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm
from forge_proxy.core.tool_names import resolve_name


class Fault(StrEnum):
    """The fault of an attempt."""

    TEXT_ONLY = "text"
    """Plain text although a call was possible."""
    NO_CALL = "no_call"
    """No call although `tool_choice` requires one."""
    EMPTY = "empty"
    """Neither text nor a call."""
    UNKNOWN_TOOL = "unknown_tool"
    NOT_ALLOWED = "not_allowed"
    """An offered tool that `tool_choice` excludes."""
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments do not satisfy the tool's schema."""
    GRAMMAR = "grammar"
    """The text of a tool with a grammar does not match it."""
    UNGROUNDED = "ungrounded"
    """Arguments whose values appear nowhere in the conversation."""
    MALFORMED = "malformed"
    """A call was begun and cannot be parsed."""
    NO_ROOM = "no_room"
    """The failed responses and corrections do not fit into the context window next to the client's messages."""
    CUT = "cut"
    """The response reached a token limit inside a call."""
    UNREADABLE = "unreadable"
    """The model server could not parse the model's call and returned an error."""
    LOOP = "loop"
    """The response only repeated itself and was stopped."""
    REPEATED_CALL = "repeated_call"
    """A call that was already answered since the user's last message."""
    EARLY_END = "early_end"
    """A final answer before the tools that the user asked for were called."""
    UNGROUNDED_ANSWER = "ungrounded_answer"
    """A final answer that does not agree with the results of tools."""


MAX_GROUNDING_RETRIES = 2
"""Retries of a final answer that does not agree with the results. Source: docs/decisions/0042-grounded-answers.md."""
INVALID_CALL = frozenset(
    {
        Fault.UNKNOWN_TOOL,
        Fault.NOT_ALLOWED,
        Fault.BAD_ARGUMENTS,
        Fault.GRAMMAR,
        Fault.MALFORMED,
        Fault.UNREADABLE,
    }
)
"""The faults of a response whose call cannot be delivered."""


class Outcome(StrEnum):
    """The result of the guardrails, the value of the header `x-forge-outcome`. Each value includes those before it."""

    PASSTHROUGH = "passthrough"
    CLEAN = "clean"
    RESCUED = "rescued"
    REPAIRED = "repaired"
    RETRIED = "retried"
    EXHAUSTED = "exhausted"

    @staticmethod
    def select_furthest(outcomes: Iterable[Outcome]) -> Outcome:
        """Return the furthest of `outcomes`, which summarizes all of them."""
        order = list(Outcome)
        return max(outcomes, key=order.index)


@fast_dataclass
class Turn:
    """One guarded request between two attempts. Serializable: it holds only plain values."""

    request_id: str
    id_seed: str
    """Seed for the ids of calls to which the model gave none; differs for each turn of a conversation."""
    used_ids: tuple[str, ...]
    """The ids of the calls in the conversation so far. No new call may reuse one."""
    tools: tuple[ToolSpec, ...]
    choice: ToolChoice
    parallel: bool
    limit: int | None
    respond: ToolSpec | None
    policy: GuardPolicy
    retries_left: int
    text_nudges_left: int
    cut_retries_left: int = 1
    opens_reasoning: bool = False
    """Whether the chat template may open a reasoning block before the text. Text is buffered until it is closed."""
    constrains_decoding: bool = False
    """Whether the next retry needs constrained decoding: the model's other retries fail, or a call is required and the
    model reached its limit or called an excluded tool.
    """
    attempt: int = 1
    faults: tuple[Fault, ...] = ()
    added: tuple[Message, ...] = ()
    first_text: str | None = None
    """The plain text that was retried. It is delivered if no retry returns anything better."""
    messages: tuple[JsonObject, ...] = ()
    """The conversation as the client sent it, to detect a retry of plain text that only repeats answered calls."""
    form: LearnedForm | None = None
    """The form of the model's calls, learned from its chat template."""
    last_calls: tuple[ToolCall, ...] = ()
    """The latest failed calls. They are delivered with outcome `exhausted` if all later attempts are empty."""
    terminal: tuple[TerminalTool, ...] = ()
    """The tools that end the client's task, as far as `choice` allows them."""
    heuristics: ActiveHeuristics = NO_HEURISTICS
    valid_calls: tuple[ToolCall, ...] = ()
    """The valid calls that a heuristic retried. They are delivered if no retry returns anything better."""
    mismatched_tool: str = ""
    """The tool whose text did not match its grammar in the attempt before; empty if none."""
    narrowed: tuple[ToolSpec, ...] = ()
    """The tools to which the model server limits this attempt after a repeated call; empty for no limit."""
    is_streamed: bool = False
    """Whether the client requested a stream."""

    def tool(self, name: str) -> ToolSpec | None:
        """Return the tool called `name`, the respond tool included, or None."""
        offered = (*self.tools, self.respond) if self.respond else self.tools
        return next((tool for tool in offered if tool.name == name), None)

    def is_respond(self, name: str) -> bool:
        """Whether `name` resolves to the respond tool, in any spelling such as `functions.respond`."""
        return self.respond is not None and resolve_name(name, self.known_names) == self.respond.name

    @property
    def terminal_names(self) -> tuple[str, ...]:
        """The names of the tools whose calls end the client's task."""
        names = tuple(tool.name for tool in self.terminal)
        return (*names, self.respond.name) if self.respond else names

    def is_terminal(self, name: str) -> bool:
        """Whether a call of `name`, in any spelling, ends the client's task."""
        return bool(self.terminal_names) and resolve_name(name, self.known_names) in self.terminal_names

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names of all offered tools, the respond tool included, whether or not `choice` allows them."""
        names = tuple(tool.name for tool in self.tools)
        return (*names, self.respond.name) if self.respond else names

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the client's tools that `choice` allows, without the respond tool."""
        return tuple(tool.name for tool in self.tools if self.choice.allows(tool.name))

    @property
    def callable_names(self) -> tuple[str, ...]:
        """The names of the tools that the model may call, the respond tool last."""
        return (*self.names, self.respond.name) if self.respond else self.names

    @property
    def requires_call(self) -> bool:
        """Whether a response without a call is a fault."""
        return self.choice.mode == "required"

    @property
    def ends_with_call(self) -> bool:
        """Whether the client expects a call of a terminal tool where others expect plain text."""
        return bool(self.terminal) and self.choice.mode == "auto"

    @property
    def buffers_text(self) -> bool:
        """Whether text must be buffered: it may be retried, or turn out to be reasoning."""
        return self.may_retry_text or self.opens_reasoning

    @property
    def constrained_tools(self) -> tuple[ToolSpec, ...]:
        """The tools for constrained decoding of this attempt, the respond tool last; empty to leave the model free."""
        if self.narrowed:
            return self.narrowed
        if not (self._constrains_required_call or self._constrains_retry):
            return ()
        tools = tuple(tool for tool in self.tools if self.choice.allows(tool.name))
        return (*tools, self.respond) if self.respond else tools

    @property
    def constrained_text(self) -> ToolSpec | None:
        """The tool to whose grammar constrained decoding limits this attempt, if the model server can."""
        tool = self.tool(self.mismatched_tool) if self.mismatched_tool and self.constrained_tools else None
        return tool if tool and tool.grammar else None

    @property
    def may_be_constrained(self) -> bool:
        """Whether `constrained_tools` may have any: not for nearly all first attempts."""
        return self.attempt > 1 or self.constrains_decoding

    @property
    def retries_invalid_call(self) -> bool:
        """Whether this attempt retries a response with an invalid call."""
        faults = [fault for fault in self.faults if fault is not Fault.NO_ROOM]
        return bool(faults) and faults[-1] in INVALID_CALL

    @property
    def _is_last_retry(self) -> bool:
        return self.attempt > 1 and self.retries_left == 0

    @property
    def _constrains_required_call(self) -> bool:
        return self.requires_call and (self.constrains_decoding or self._is_last_retry)

    @property
    def _constrains_retry(self) -> bool:
        """Whether the policy constrains this retry of an invalid call.

        Constrained responses are JSON that the rescue parser reads. The model must be able to end the task: by the
        respond tool or a terminal tool, unless a call is required.
        """
        may_end = self.respond or self.terminal or self.requires_call
        if not (self.attempt > 1 and self.policy.enabled.rescue and may_end):
            return False
        match self.policy.constrain_retries:
            case "auto":
                return (self.constrains_decoding or self._is_last_retry) and self.retries_invalid_call
            case "always":
                return self.retries_invalid_call
            case "never":
                return False

    @property
    def ends_in_text(self) -> bool:
        """Whether plain text may be retried as a final answer that comes too early.

        It ends no task of a client with a terminal tool, and `text_responses: accept` streams it.
        """
        terminal = self.terminal_names
        has_terminal_tool = any(tool.name in terminal for tool in self.tools)
        return self.policy.text_responses != "accept" and not has_terminal_tool

    def find_unfinished(self, *, counted: bool = False) -> Unfinished | None:
        """Return what is still to do if a final answer would be retried as too early, None if it would be accepted.

        With `counted`, also if the heuristic is off for the model.
        """
        active = self.heuristics.counted if counted else self.heuristics.corrected
        if Heuristic.EARLY_END not in active or Fault.EARLY_END in self.faults or self.retries_left == 0:
            return None
        return find_unfinished(self.messages, self.tools, self.terminal_names)

    def find_ungrounded(self, answer: str) -> UngroundedAnswer | None:
        """Return what is wrong with a final answer if it does not agree with the results of tools."""
        setting = self.policy.answer_grounding
        if setting == "off" or not has_results(self.messages):
            return None
        return find_ungrounded_answer(answer, self.messages, only_lookups=setting == "auto")

    @property
    def may_correct_answer(self) -> bool:
        """Whether a final answer that does not agree with the results of tools is retried if nothing of it was sent."""
        is_corrected = Heuristic.ANSWER_GROUNDING in self.heuristics.corrected
        if not (is_corrected or self.policy.answer_grounding == "retry") or self.retries_left == 0:
            return False
        return self.faults.count(Fault.UNGROUNDED_ANSWER) < MAX_GROUNDING_RETRIES and has_results(self.messages)

    @property
    def buffers_answer(self) -> bool:
        """Whether a final answer is buffered until the verdict, although it could be streamed, because it may be
        retried. With `answer_grounding: auto`, no stream waits for that.
        """
        return self.may_correct_answer and not (self.is_streamed and self.policy.answer_grounding == "auto")

    @property
    def may_retry_text(self) -> bool:
        """Whether text must be buffered until the verdict because it may be retried; otherwise it is streamed."""
        if self.requires_call or self.first_text is not None:
            return True
        return self.retries_left > 0 and self.text_nudges_left > 0


def open_turn(
    request: ChatRequest,
    policy: GuardPolicy,
    *,
    request_id: str,
    nudge_text: bool,
    opens_reasoning: bool = False,
    unanswered: Collection[str] = (),
    heuristics: ActiveHeuristics = NO_HEURISTICS,
    form: LearnedForm | None = None,
) -> Turn | None:
    """Return the first turn of a request; None if there is nothing to guard and the request passes through.

    `nudge_text` is the current decision of the text policy for this model, `opens_reasoning` whether its chat template
    opens a reasoning block, `unanswered` the tools that are terminal because the client never answers their calls,
    `heuristics` those that apply to the request, `form` the form of calls learned from the template.

    A client with a terminal tool expects a call: plain text is retried as often as an invalid call. Requests for
    several choices (`n` > 1) are never retried.
    """
    switches = policy.enabled
    if not request.tools or request.tool_choice.mode == "none" or not switches.any:
        return None
    retries = policy.max_retries if switches.retry and request.choices == 1 else 0
    allowed = tuple(tool for tool in request.tools if request.tool_choice.allows(tool.name))
    terminal = find_terminal_tools(allowed, policy.terminal_tools, unanswered)
    may_respond = request.tool_choice.mode == "auto" and not terminal
    nudges = retries if terminal and policy.max_text_nudges else policy.max_text_nudges
    return Turn(
        request_id=request_id,
        # A client may send the same request id with each turn, but never the same number of messages.
        id_seed=f"{request_id}/{len(request.messages)}",
        used_ids=tuple(_call_ids(request)),
        tools=request.tools,
        choice=request.tool_choice,
        parallel=request.parallel,
        limit=request.limit,
        respond=respond_tool(tool.name for tool in request.tools) if switches.respond and may_respond else None,
        policy=policy,
        retries_left=retries,
        text_nudges_left=nudges if nudge_text else 0,
        cut_retries_left=min(1, retries),
        messages=request.messages,
        opens_reasoning=opens_reasoning,
        terminal=terminal,
        heuristics=heuristics,
        form=form,
        is_streamed=request.stream,
    )


def _call_ids(request: ChatRequest) -> Iterable[str]:
    for message in request.messages:
        calls = message.get("tool_calls")
        for call in calls if is_list(calls) else ():
            if is_object(call) and isinstance(identity := call.get("id"), str):
                yield identity
