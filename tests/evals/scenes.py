"""Small scenarios, one of them in phrases that the tiny model has learned."""

from __future__ import annotations

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.workflow import ToolDef, Workflow
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.workflows.sdk.respond import respond_tool


def spec(name: str, about: str, **kinds: str) -> ToolSpec:
    """A tool with these arguments."""
    properties: JsonObject = {key: {"type": kind} for key, kind in kinds.items()}
    return ToolSpec.from_json_schema(name, about, {"type": "object", "properties": properties, "required": list(kinds)})


def _price(city: str, days: int) -> JsonObject:
    return {"hotel": city, "price": 17 * days}


def _sunny(city: str) -> str:
    return f"sunny in {city}"


def _two_steps(_: int) -> ScenarioState:
    """Look something up, and then report it."""
    tools = {
        "book_hotel": ToolDef(spec("book_hotel", "book the hotel", city="string", days="integer"), _price),
        "send_email": ToolDef(spec("send_email", "send a email", email="string", subject="string"), _sent),
    }
    workflow = Workflow("two_steps", "books and tells", tools, ["book_hotel"], "send_email", "You are helpful.")

    def validate(_: str, args: JsonObject) -> str | None:
        return None if args.get("email") == "bob@acme.com" else f"sent to {args.get('email')}"

    asked = "first book the hotel with city Rome and days 5, then send a email, email bob@acme.com, subject lunch"
    return ScenarioState(asked, workflow, validate)


def _sent(email: str, subject: str) -> str:
    return f"told {email} about {subject}"


def _words(_: int) -> ScenarioState:
    """Respond with text."""
    tools = {"get_weather": ToolDef(spec("get_weather", "get the weather", city="string"), _sunny)}
    tools["respond"] = respond_tool()
    workflow = Workflow("words", "answers", tools, [], "respond", "You are helpful.")

    def validate(_: str, args: JsonObject) -> str | None:
        return None if args.get("message") else "nothing was said"

    return ScenarioState("hi", workflow, validate)


TWO_STEPS = Scenario("two_steps", "Two calls.", frozenset({"plumbing", "stateful"}), 2, _two_steps, quick=True)
WORDS = Scenario("words", "An answer in words.", frozenset({"relevance"}), 1, _words, quick=True)
