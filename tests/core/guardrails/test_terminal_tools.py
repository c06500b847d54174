"""Which tools end a client's task: by name, description, configuration and evidence; and which only look like it."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.terminal_tools import TerminalTool, find_terminal_tools
from forge_proxy.core.jsontypes import JsonObject


def spec(name: str, description: str = "", *required: str, optional: tuple[str, ...] = ()) -> ToolSpec:
    """A tool with parameters of these names."""
    properties: JsonObject = {key: {"type": "string"} for key in (*required, *optional)}
    return ToolSpec(name, {"type": "object", "properties": properties, "required": [*required]}, description)


PYDANTIC_AI = "The final response which ends this conversation"
STRANDS = (
    "IMPORTANT: This StructuredOutputTool should only be invoked as the last and final tool before returning the"
    " completed result to the caller. <description>A person.</description>"
)
OPENHANDS = """Signals the completion of the current task or conversation.

Use this tool when:
- You have successfully completed the user's requested task"""
ADK = "Signal that this agent has completed its delegated task. Call this when you have finished your delegated task."
ADK_SCHEMA = "Set your final response using the required output schema.\n\nUse this tool to provide it."
CLINE = "After each tool use ... Once you can confirm that the task is complete, use this tool to present the result."
GEMINI = "Call this tool to submit your final findings and complete the task. This is the ONLY way to finish."
OPENCODE = "Use this tool to return your final response in the requested structured format."

TERMINAL = {
    "cline": (spec("attempt_completion", CLINE, "result", optional=("command", "task_progress")), "name"),
    "smolagents": (spec("final_answer", "Provides a final answer to the given problem.", "answer"), "name"),
    "beeai": (spec("final_answer", "Sends the final answer to the user", "response"), "name"),
    "opencode": (spec("StructuredOutput", OPENCODE, "title", "items"), "name"),
    "google adk, schema": (spec("set_model_response", ADK_SCHEMA, "name"), "name"),
    "google adk, task": (spec("finish_task", ADK, "result"), "description"),
    "gemini cli": (spec("complete_task", GEMINI, "result"), "description"),
    "openhands": (spec("finish", OPENHANDS, "message"), "description"),
    "swe-agent": (spec("submit", "submits the current file", optional=("target_file",)), "description"),
    "inspect": (spec("submit", "Submit an answer for evaluation.", "answer"), "description"),
    "browser-use": (spec("done", "Complete task. Only report actions.", "text", "success"), "description"),
    "browser-use, structured": (spec("done", "Complete task with structured output.", "data"), "description"),
    "letta": (spec("send_message", "Sends a message to the human user.", "message"), "description"),
    "strands": (spec("PersonInfo", STRANDS, "name", "age"), "description"),
    "a user's own": (spec("report_back", "Call this to give your final answer.", "answer"), "description"),
    "without a description": (spec("finish", "", "summary"), "name"),
    "without parameters": (spec("done", "Call this once you are done."), "description"),
}  # fmt: skip


@pytest.mark.parametrize("client", TERMINAL)
def test_a_tool_that_ends_the_task_is_recognized(client: str) -> None:
    tool, reason = TERMINAL[client]

    assert [(one.name, one.reason) for one in find_terminal_tools([spec("read_file"), tool])] == [(tool.name, reason)]


OTHER = {
    "an order": spec("submit_order", "Submit the order.", "items"),
    "a form": spec("submit", "Submit the form on the current page."),
    "a form with fields": spec("submit", "Submits a form and completes the task.", "form_id", "fields"),
    "a quiz": spec("submit", "Submit an answer to the quiz question.", "answer"),
    "a job": spec("finish_job", "Finish a job.", "job_id"),
    "a checkout": spec("finish", "Finish the checkout.", "message"),
    "an order to finish": spec("finish", "Completes the task.", "order"),
    "a mail": spec("send_message", "Send a message.", "to", "body"),
    "a chat message": spec("send_message", "Send a message to the channel.", "message"),
    "a to-do": spec("done", "Mark a to-do as done.", "todo_id"),
    "a to-do by its number": spec("done", "Complete task by its number.", "index"),
    "a to-do without parameters": spec("done", "Marks the current to-do as done."),
    "a task of a backlog": spec("task_complete", "Complete a task and move it to the archive.", "id"),
    "a timer": spec("complete_task", "Completes the current task and stops the timer."),
    "the answer of a quiz": spec("final_answer", "Stores what a student answered.", "questionId", "answer"),
    "the result of a match": spec("get_final_result", "Returns the final result of a match.", "match_id"),
    "a result without a match": spec("get_final_result", "Returns your final result.", "player"),
    "a translation": spec("translate", "Provides the final result in French.", "text"),
    "the end of a call": spec("hang_up", "Ends the conversation with the caller.", "reason"),
    "the end of a shell": spec("exit", "Exit the shell."),
    "a reminder of the final answer": spec("notes", "Keep notes for your final answer.", "note"),
    "no description": spec("submit"),
    "no description, other parameters": spec("finish", "", "level"),
    "any arguments": ToolSpec("done", True, "Marks it."),
    "a malformed schema": ToolSpec("finish", {"required": "answer", "properties": []}, "Finish."),
}


@pytest.mark.parametrize("tool", OTHER.values(), ids=OTHER)
def test_a_tool_that_only_looks_like_it_is_not_recognized(tool: ToolSpec) -> None:
    assert find_terminal_tools([tool]) == ()


def test_a_pattern_of_the_configuration_makes_a_tool_terminal() -> None:
    tools = [spec("submit_report"), spec("submit_draft"), spec("read_file")]

    assert find_terminal_tools(tools, ["submit_r*"]) == (TerminalTool("submit_report", "configuration"),)


@pytest.mark.parametrize("patterns", [["!final_answer"], ["!*"], ["*", "!final_*"], ["!final_*", "final_answer"]])
def test_a_pattern_with_an_exclamation_mark_has_precedence_over_everything(patterns: list[str]) -> None:
    tool = TERMINAL["smolagents"][0]

    assert find_terminal_tools([tool], patterns, unanswered=["final_answer"]) == ()


@pytest.mark.parametrize("name", ["final_result", "final_result_Person", "return_person"])
def test_an_output_tool_of_pydantic_ai_is_not_terminal_because_the_program_accepts_text_as_well(name: str) -> None:
    """It would require a call otherwise."""
    tool = spec(name, f"A person. {PYDANTIC_AI}", "answer")

    assert find_terminal_tools([tool], unanswered=[name]) == ()
    assert find_terminal_tools([tool], [name]) == (TerminalTool(name, "configuration"),)


def test_a_tool_whose_calls_are_never_answered_is_terminal() -> None:
    tools = [spec("read_file"), spec("deliver", "Deliver it.", "goods")]

    assert find_terminal_tools(tools, unanswered=["deliver"]) == (TerminalTool("deliver", "evidence"),)
