"""The remaining tasks when a final answer arrives, by the user's words, the offered tools and the results so far."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.early_end import find_unfinished
from tests.fakes.scripted import JsonDict

TOOLS: dict[str, dict[str, str]] = {
    "office": {
        "get_weather": "Get the weather of a city",
        "send_email": "Send an email",
        "search_web": "Search the web",
        "calculator": "Evaluate an arithmetic expression",
        "create_event": "Create a calendar event",
    },
    "coding": {
        "bash": "Executes a given bash command in a persistent shell session",
        "read": "Reads a file from the local filesystem",
        "write": "Writes a file to the local filesystem",
        "edit": "Performs exact string replacements in files",
        "glob": "Fast file pattern matching",
        "grep": "Search file contents with regular expressions",
        "task": "Launch a new agent",
        "webfetch": "Fetches content from a URL",
        "todowrite": "Create and manage a structured task list",
    },
    "shop": {
        "get_order": "Look up an order",
        "refundOrder": "Refund an order",
        "get_customer": "Look up a customer",
        "send_message": "Send a message to a customer",
        "cancel_order": "Cancel an order",
    },
}
ASKS_FOR_NOTHING = {
    "office": (
        "Hi!",
        "Hello, how are you?",
        "Good morning",
        "What is 2+2?",
        "thanks, that's all",
        "Thank you! The weather was great.",
        "Thank you for the weather.",
        "Many thanks for the weather!",
        "Thanks a lot for your email.",
        "Good, the event is done.",
        "Nice! That event was fun.",
        "I love this weather.",
        "My email is bob@example.com.",
        "What can you do?",
        "Which tools do you have?",
        "Which of your tools is the best?",
        "Why is the sky blue?",
        "Explain how email works.",
        "Can you explain what a web search is?",
        "Tell me a joke about the weather.",
        "Describe the weather on Mars.",
        "Who wrote Hamlet?",
        "What is the capital of France?",
        "What is a calculator?",
        "Translate 'good morning' to German.",
        "Do not send the email yet.",
        "Answer without using the calculator: what is 3*3?",
        "If it rains tomorrow, send an email to Bob.",
        "When the report is done, email it.",
        "Summarize your last answer.",
        "Give me three ideas for a birthday party.",
        "Rewrite your answer in two sentences.",
        "Count to ten.",
        "Say hello.",
        "Repeat that, please.",
        "Please continue.",
        'Reply with "check the weather" and nothing else.',
        "```\nsend_email()\n```",
        "> Check the weather\nI did that.",
        "Bye!",
        "Wie ist das Wetter in Oslo?",
        "",
    ),
    "coding": (
        "Write a poem about the sea.",
        "Write a haiku.",
        "List three fruits.",
        "How do I send an email in Python?",
        "What does grep do?",
        "How does glob matching work?",
        "What's the difference between read and write?",
        "What do you think about bash?",
        "Is there a way to edit a commit?",
    ),
    "shop": (
        "ok",
        "yes",
        "no, stop",
        "You are great!",
        "Are you a bot?",
        "Who are you?",
        "What is an order?",
        "Should I refund the order?",
        "Tell me about refunds.",
        "I was told that my order is late.",
    ),
}
ASKS_FOR = (
    ("office", "What is the weather in Oslo?", ("get_weather",)),
    ("office", "How is the weather in Oslo?", ("get_weather",)),
    ("office", "Weather in Oslo", ("get_weather",)),
    ("office", "Thanks. Check the weather in Oslo.", ("get_weather",)),
    ("office", "Good, and what is the weather in Oslo?", ("get_weather",)),
    ("office", "Good, the weather in Oslo?", ("get_weather",)),
    ("office", "Hi! Please get the weather with city Paris and days 3.", ("get_weather",)),
    ("office", "Please email Bob that I am late.", ("send_email",)),
    ("office", "I'd like you to send emails to all of them", ("send_email",)),
    ("office", "Can you search the web for llamas?", ("search_web",)),
    ("office", "Use the calculator to add 3 and 4", ("calculator",)),
    ("office", "Calculate 3*4.", ("calculator",)),
    ("office", "I need an event on Monday", ("create_event",)),
    ("office", "Check the weather in Oslo, then send an email to Bob.", ("get_weather", "send_email")),
    ("office", "1. Check the weather.\n2. Email it to Bob.", ("get_weather", "send_email")),
    ("office", "What is the weather in Oslo? Don't send an email.", ("get_weather",)),
    ("office", "Check the weather and email Bob if it rains.", ("get_weather", "send_email")),
    ("office", "Check the weather and, if it rains, email Bob.", ("get_weather",)),
    ("coding", "Read the file notes.txt.", ("read",)),
    ("coding", "Could you grep for TODO?", ("grep",)),
    ("shop", "Refund order 42.", ("refundOrder",)),
    ("shop", "Cancel order 7, then message the customer.", ("cancel_order", "send_message")),
    ("shop", "Look up the customer of order 3", ("get_customer",)),
)


def unfinished(family: str, text: Any, *more: JsonDict) -> tuple[str, ...] | None:
    """The tools still to call, empty for any; None if nothing is to do. `finish` is a terminal tool."""
    tools = [ToolSpec(name, True, description) for name, description in TOOLS[family].items()]
    tools.append(ToolSpec("finish_order", True, "Finish the task"))
    found = find_unfinished([{"role": "user", "content": text}, *more], tools, ["finish_order"])
    return None if found is None else found.pending


def answered(name: str, result: str, arguments: str = "{}") -> list[JsonDict]:
    """A call with its result."""
    call = {"id": f"c-{name}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c-{name}", "content": result},
    ]


@pytest.mark.parametrize(
    ("family", "text"), [(name, text) for name, texts in ASKS_FOR_NOTHING.items() for text in texts]
)
def test_a_message_that_asks_for_no_tool_may_be_answered_at_once(family: str, text: str) -> None:
    assert unfinished(family, text) is None


@pytest.mark.parametrize(("family", "text", "tools"), ASKS_FOR)
def test_the_tools_that_the_words_point_at_are_to_be_called(family: str, text: str, tools: tuple[str, ...]) -> None:
    pending = unfinished(family, text)

    assert pending is not None
    assert sorted(pending) == sorted(tools)


def test_tools_that_were_called_with_success_are_done() -> None:
    text = "Check the weather in Oslo, then send an email to Bob."
    weather, failed = answered("get_weather", "sunny"), answered("send_email", "Error: no such address")

    assert unfinished("office", text, *weather) == ("send_email",)
    assert unfinished("office", text, *weather, *failed) == ("send_email",)
    assert unfinished("office", text, *weather, *answered("functions.send_email", "sent")) is None


def test_a_word_that_several_tools_share_asks_for_any_of_them() -> None:
    assert unfinished("shop", "Show order 7.") == ()
    assert unfinished("shop", "Orders, please", *answered("get_customer", "Bob")) is None


def test_without_a_usable_result_an_answer_is_too_early_whatever_the_words() -> None:
    assert unfinished("office", "Do it.") is None
    assert unfinished("office", "Do it.", *answered("search_web", "Error: timeout")) == ()
    assert unfinished("office", "Do it.", *answered("search_web", "Error: timeout"), *answered("bash", "ok")) is None


def test_only_what_followed_the_users_last_message_counts() -> None:
    before = answered("get_weather", "sunny")
    again = {"role": "user", "content": [{"type": "text", "text": "And the weather in Bergen?"}]}

    assert unfinished("office", "What is the weather in Oslo?", *before, again) == ("get_weather",)


def test_a_reminder_of_the_agent_is_no_message_of_the_user() -> None:
    reminder = {"role": "user", "content": "<system-reminder>Send an email.</system-reminder>"}

    assert unfinished("office", "What is the weather?", *answered("get_weather", "sunny"), reminder) is None


def test_a_user_who_refused_a_call_gets_an_answer() -> None:
    refused = answered("send_email", "The user doesn't want to proceed with this tool use.")

    assert unfinished("office", "Send an email to Bob.", *refused) is None


def test_a_terminal_tool_is_never_to_be_called_first() -> None:
    assert unfinished("shop", "Finish it.") is None


def test_what_is_pasted_into_a_long_message_is_not_read() -> None:
    pasted = "The weather was fine.\nCheck the weather.\n" * 200

    assert unfinished("office", f"Hi!\n{'x ' * 1500}\n{pasted}\n{'y ' * 500}") is None


def test_among_hundreds_of_tools_none_is_looked_for() -> None:
    message = {"role": "user", "content": "What is the weather in Oslo?"}
    others = [ToolSpec.from_json_schema(f"tool_{number}", "", {}) for number in range(300)]
    weather = ToolSpec.from_json_schema("get_weather", "", {})

    assert find_unfinished([message], [weather, *others[:200]], ()) is not None
    assert find_unfinished([message], [weather, *others], ()) is None
