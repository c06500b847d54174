"""Recognizes tools with which a client's agent ends its task and hands over the answer: terminal tools.

A client with such a tool expects a call in every response, so `open_turn` does not offer it the `respond` tool. A tool
that is wrongly classified as terminal costs the client `respond`; in doubt a tool is therefore not terminal. A tool
that ends a conversation without carrying an answer (`hang_up`) is not terminal: its client expects text.

Sources of the names and descriptions, as of November 2026:

- `attempt_completion`: Cline, Roo Code
- `final_answer`: smolagents 1.26, BeeAI 0.1.85
- `StructuredOutput`: Claude Code, opencode
- `set_model_response`, `finish_task`: Google ADK 2.13
- `complete_task`: Gemini CLI 0.61 (subagents)
- `finish`: OpenHands SDK
- `submit`: SWE-agent, Inspect 0.3.285
- `done`: browser-use 0.13
- `send_message`: Letta
- tools named after a class: Strands 1.62, by their description

Output tools of pydantic-ai 2.68 (`final_result`) and LangChain 1.5 (named after a class) are not terminal: both send
`tool_choice: required` unless the program accepts text as well. mini-swe-agent 2.4 ends with a shell command, AutoGen
0.7 and CrewAI 1.15 with text or with tools that the user names; for those there are the setting
`guardrails.terminal_tools` and `client_history`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import is_list, is_object

Reason = Literal["name", "description", "configuration", "evidence"]


@fast_dataclass
class TerminalTool:
    """A tool that ends the client's task, and how it was recognized."""

    name: str
    reason: Reason


_DISTINCTIVE = frozenset(
    {
        "attempt_completion",
        "final_answer",
        "structuredoutput",
        "structured_output",
        "set_model_response",
    }
)
"""Names that suffice unless a required parameter names a thing (`question_id`) and the description does not agree."""
_COMMON = frozenset({"complete_task", "done", "finish", "finish_task", "submit", "task_complete", "task_completed"})
"""Names that other tools have as well: the parameters and the description must agree."""
_ANSWERS = frozenset({"answer", "final_answer", "output", "response", "result", "results", "solution"})
"""Parameters that carry an answer, whatever the tool is called."""
_TEXTS = _ANSWERS | {"conclusion", "content", "data", "findings", "message", "report", "summary", "text"}
"""Parameters that carry an answer if the name of the tool suggests it."""
_FLAGS = frozenset({"status", "success", "task_completed"})
_THING = re.compile(
    r"(?:\A|_)(?:id|ids|uuid|key|index|number|name|title|path|url|to|recipient|email|task|todo|job|order|ticket|form"
    r"|cart|items?|amount|quantity)\Z|[a-z]I[dD]s?\Z"
)
"""Parameters that name what the tool works on, such as `todo_id`: it ends that thing, not the client's task."""

_LONGEST_DESCRIPTION = 1000
"""Characters of a description that are examined with each request; some agents describe a tool in 10,000."""
_SIGNATURE = re.compile(
    r"return your final response in the requested structured format"  # Claude Code, opencode
    r"|set your final response using the required output schema"  # Google ADK
    r"|only be invoked as the last and final tool",  # Strands
    re.IGNORECASE,
)
"""Descriptions of structured output tools, whose names and parameters the user chooses."""
_FINAL_ANSWER = re.compile(
    r"\byour final (?:answer|response|result|output|solution|findings)\b"
    r"|\bfinal (?:answer|response|result|output|solution)"
    r" (?:to|for) the (?:user|caller|given|original|question|problem|task)\b",
    re.IGNORECASE,
)
_ENDS_TASK = re.compile(
    r"\b(?:end|finish|complet|conclud|terminat)(?:e|es|ed|s|ing)? (?:the |this |your |its )?(?:current |delegated )?"
    r"(?:task|conversation|run)\b|\b(?:completion|end) of (?:the|this) (?:current )?(?:task|conversation|run)\b"
    r"|\bsubmit an answer for evaluation\b",
    re.IGNORECASE,
)
_WHEN_DONE = re.compile(
    r"\b(?:when|once|after) (?:you(?:'re| are| have)?|the task is|all work is) (?:done|finished|complete)"
    r"|\bsubmits the current file\b",  # SWE-agent
    re.IGNORECASE,
)
_PYDANTIC_AI = re.compile(r"final response which ends this conversation", re.IGNORECASE)
_LETTA = re.compile(r"\bsends a message to the human user\b", re.IGNORECASE)


def find_terminal_tools(
    tools: Sequence[ToolSpec], patterns: Sequence[str] = (), unanswered: Collection[str] = ()
) -> tuple[TerminalTool, ...]:
    """Return the terminal tools among `tools`.

    `patterns` is the setting `guardrails.terminal_tools`: glob patterns of names, or of names that are not terminal if
    they begin with `!`, which have precedence. `unanswered` are the tools whose calls the client never answers.
    """
    return tuple(
        TerminalTool(tool.name, reason)
        for tool in tools
        if (reason := _find_reason(tool, patterns, unanswered)) is not None
    )


def _find_reason(tool: ToolSpec, patterns: Sequence[str], unanswered: Collection[str]) -> Reason | None:
    if patterns:
        if any(pattern[0] == "!" and fnmatchcase(tool.name, pattern[1:]) for pattern in patterns):
            return None
        if any(fnmatchcase(tool.name, pattern) for pattern in patterns):
            return "configuration"
    reason = _recognize(tool) or ("evidence" if tool.name in unanswered else None)
    is_optional = reason is not None and (tool.name.startswith("final_result") or _matches(tool, _PYDANTIC_AI))
    return None if is_optional else reason


def _recognize(tool: ToolSpec) -> Reason | None:
    name = tool.name.lower().replace("-", "_")
    if name in _DISTINCTIVE:
        says_so = any(_matches(tool, pattern) for pattern in (_SIGNATURE, _FINAL_ANSWER, _ENDS_TASK))
        return "name" if says_so or not _names_thing(tool) else None
    if name in _COMMON:
        return _judge_common(tool)
    if name == "send_message":
        is_letta = _matches(tool, _LETTA) and "message" in _required(tool) and not _names_thing(tool)
        return "description" if is_letta else None
    if "final" not in tool.description[:_LONGEST_DESCRIPTION]:
        return None
    carries_answer = _required(tool) != [] and all(key in _ANSWERS or key in _FLAGS for key in _required(tool))
    is_terminal = _matches(tool, _SIGNATURE) or (carries_answer and _matches(tool, _FINAL_ANSWER))
    return "description" if is_terminal else None


def _judge_common(tool: ToolSpec) -> Reason | None:
    """Judge a tool whose name other tools have as well, such as `finish`."""
    if _names_thing(tool):
        return None
    required = _required(tool)
    if not tool.description.strip():
        return "name" if required and all(key in _TEXTS or key in _FLAGS for key in required) else None
    if any(key in _TEXTS for key in _parameters(tool)):
        says_so = any(_matches(tool, pattern) for pattern in (_FINAL_ANSWER, _ENDS_TASK, _WHEN_DONE))
    else:
        says_so = _matches(tool, _WHEN_DONE) or _matches(tool, _FINAL_ANSWER)
    return "description" if says_so else None


def _matches(tool: ToolSpec, pattern: re.Pattern[str]) -> bool:
    return pattern.search(tool.description, 0, _LONGEST_DESCRIPTION) is not None


def _names_thing(tool: ToolSpec) -> bool:
    return any(_THING.search(key) for key in _required(tool))


def _required(tool: ToolSpec) -> list[str]:
    required = tool.parameters.get("required") if is_object(tool.parameters) else None
    return [key for key in required if isinstance(key, str)] if is_list(required) else []


def _parameters(tool: ToolSpec) -> Iterator[str]:
    properties = tool.parameters.get("properties") if is_object(tool.parameters) else None
    return iter(properties if is_object(properties) else ())
