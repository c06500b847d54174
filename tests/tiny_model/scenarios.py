"""Conversations in natural language, and runs of several steps that end with a terminal tool.

Called by make_data.py (training) and eval.py (measuring). Authors of scenarios for the quick eval can work from this:

The model reads a system message such as those in `SYSTEMS`, tools, and one user message. It understands

- a question or an instruction of families.py (`FAMILIES`; any `{name}` may be a word that is not in the training
  data), and `NOUN_ASKS` there, with any noun that is part of the tool's name: "What is the tariff of
  Oslo?" for `get_tariff(city)`;
- `verb the noun with name value` in the wordings of conversations.py, for tools called `verb_noun`;
- two or three instructions in a row (`JOINED`): "First get the weather in Oslo, then get the price of tea.";
- a chain: "Find the order of Anna, then cancel it." for `find_order(customer)` and `cancel_order(order_id)`, where the
  result of the first holds `order_id`, as JSON or as `order_id: B-17`;
- an ending (`ENDINGS`) or none: "Report the result.", "Then call finish.".

It makes one call a turn. When all is done it calls the terminal tool, which is one of `TERMINALS` with one string; with
`respond`, or without any terminal tool, it says the last result only, else all of them: "The weather is sunny. The
price is 17.". That names the first key of a result but `ok`; a result that is no `key: value` is "The result is …".

A request that no tool fits is answered with `NO_TOOL`. A result that begins with `[ToolError]` is tried again, with
another value where the error says which (`FIXES`), else as it was (`FAILURES`). It knows `[StepEnforcementError]`,
`[PrereqError]`, `[UnknownTool]`, `[ToolArgValidationError]`, the corrections of conversations.py, and results cut short
or dropped to save space. It errs at first tries (`STEP_MISTAKES`, `END_MISTAKES`), seldom after a correction.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tests.tiny_model.conversations import (
    CHAT,
    CLOSED_THINK,
    HELDOUT_NOUNS,
    HELDOUT_SEED,
    NOUNS,
    RESPOND,
    RIGHT_AFTER_CORRECTION,
    VERBS,
    Call,
    Conversation,
    HeldoutJson,
    Loss,
    Message,
    Mistake,
    Param,
    Tool,
    Value,
    call_json,
    call_text,
    correction,
    made_up_word,
    make_call,
    make_tools,
    openai_messages,
    openai_tools,
    read_call_text,
    render,
    say_call,
    spoil,
)
from tests.tiny_model.families import ALIASES, FAMILIES, NOUN_VERBS, SLOTS, Chain, Family, make_chain, noun_family
from tests.tiny_model.values import HELDOUT, TRAINED, Words, kind_of, make

SYSTEMS = [
    "You are a helpful assistant. Use the tools.",
    "You are a helpful assistant.",
    "You are a tool-calling assistant. Use the tools.",
    "You are an agent. Call one tool at a time.",
    "Use the tools to do what the user asks. Report when you are done.",
    "Answer by calling a tool.",
    "You are an assistant. Finish with the terminal tool.",
]
NO_TOOL = "I have no tool for that."
OFF_TOPIC = [
    "Tell me a joke", "Write a poem about {query}", "What is the meaning of life?", "Who won the game?",
    "What is the capital of {city}?", "Sing me a song", "Who is {name}?", "Why is the sky blue?", "Explain {query}",
    "How old are you?", "Recommend a book about {topic}", "Write a story about {name}", "Draw a picture of {item}",
]  # fmt: skip
TERMINALS: Mapping[str, list[str]] = {
    "respond": ["message"],
    "submit_report": ["summary", "report", "text"],
    "finish": ["summary", "result", "answer"],
    "submit_answer": ["answer"],
    "complete_task": ["summary", "result"],
    "report": ["summary", "message", "text"],
    "report_result": ["result"],
    "submit": ["answer", "result", "summary"],
    "done": ["summary", "message"],
    "final_answer": ["answer"],
}
TERMINAL_ABOUT = ["submit the report", "finish the task", "report the result", "the final answer", "end with a summary"]
ENDINGS = [
    "", "", "", " Report the result.", " Then report the result.", " Report what you find.", " Then call {end}.",
    " Finish with {end}.", " When you are done, call {end}.", " Then report.", " Give me a summary.", " Tell me.",
]  # fmt: skip
JOINED: Mapping[int, list[str]] = {
    1: ["{}.", "Please {}.", "{}", "Can you {}?", "I want you to {}.", "Your task: {}."],
    2: ["{}, then {}.", "First {}, then {}.", "{} and {}.", "{} and then {}.", "{}. Then {}.", "Please {}, then {}.",
        "{} and after that {}.", "Do this: 1. {} 2. {}", "{}. After that {}."],
    3: ["{}, then {}, then {}.", "First {}, then {}, and then {}.", "{}, {} and {}.", "{}. Then {}. Then {}.",
        "First {}, then {}, finally {}.", "Do this: 1. {} 2. {} 3. {}", "{}, then {} and {}."],
}  # fmt: skip
FIXES = [
    "[ToolError] ValueError: unknown {param} '{bad}'. Did you mean '{good}'?",
    "[ToolError] KeyError: '{bad}' not found. Use '{good}'.",
    "[ToolError] ValueError: {param} '{bad}' does not exist. Try '{good}'.",
    "[ToolError] ValueError: {param} must be '{good}', not '{bad}'.",
    "[ToolError] {tool}: no {param} called '{bad}'. Did you mean '{good}'?",
    "[ToolError] ValueError: invalid {param} '{bad}'. Valid: '{good}'",
]
FAILURES = [
    "[ToolError] TimeoutError: timed out. Try again.",
    "[ToolError] ConnectionError: service unavailable",
    "[ToolError] RuntimeError: {tool} is busy, try again",
    "[ToolError] {tool} failed: try again.",
]
ENFORCED = [
    "[StepEnforcementError] You must call {pending} before {end}.",
    "[StepEnforcementError] You cannot call {end} yet. Required steps not done: {pending}. Call {next} now.",
    "[StepEnforcementError] {end} was called too early. First call: {pending}.",
    "[StepEnforcementError] Not yet. Still to do: {pending}.",
    "[StepEnforcementError] STOP. Do not call {end} again. Call {next} next.",
]
PREREQUISITE = [
    "[PrereqError] Call {next} first.",
    "[PrereqError] {tool} needs {next}. Call {next} first.",
    "[PrereqError] You must call {next} before {tool}.",
]
VALIDATION = [
    "[ToolArgValidationError] Invalid arguments for {tool}: `{param}`: required, missing. Fix the call and retry.",
    "[ToolArgValidationError] Invalid arguments for {tool}: `{param}`: wrong type. Fix the call and retry.",
]
CORRECTIONS = [
    "That was not a valid tool call. Call one of: {names}.",
    "That was not a valid tool call. Call one of: {names}. To answer in words, call {end}.",
    "Your reply was empty. Answer now, or call one of: {names}.",
]
GIVE_UP = ["Done.", "The task is done.", "I am done.", "All done."]
CUT = [
    "... [Truncated - {} characters removed]",
    "... [Truncated — {} chars removed]",
    "…[truncated, {} chars removed]",
]
DROPPED = ["[Result dropped]", "[Dropped]", "[Removed to save space]", ""]

Slip = Mistake | Literal["premature", "skip"]
# How a first try goes wrong, with weights out of 100: a step's, and the ending's.
STEP_MISTAKES: Mapping[Slip, int] = {
    "premature": 12, "skip": 4, "text": 8, "fence": 4, "think": 4, "tool_calls_tag": 2, "args_tag": 2,
    "function_tag": 2, "python": 2, "name": 1, "missing": 2, "type": 1, "json": 2,
}  # fmt: skip
END_MISTAKES: Mapping[Slip, int] = {
    "text": 18, "fence": 4, "think": 3, "tool_calls_tag": 2, "function_tag": 2, "python": 1, "json": 1,
}  # fmt: skip
OUT_OF_TURN = ("premature", "skip")
SINGLE_MISTAKES: Mapping[Slip, int] = {
    slip: weight for slip, weight in STEP_MISTAKES.items() if slip not in OUT_OF_TURN
}


@dataclass(frozen=True, slots=True)
class Made:
    """What values and names are made of."""

    words: Words
    nouns: list[str]
    new_nouns: float  # how often a noun is made up
    is_heldout: bool = False  # asks with the phrase that is kept from the training

    def ask(self, rng: random.Random, family: Family) -> str:
        return family.asks[-1] if self.is_heldout else rng.choice(family.asks[:-1])


TRAINING = Made(TRAINED, NOUNS, 0.6)
MEASURED = Made(HELDOUT, HELDOUT_NOUNS, 0.0, is_heldout=True)


@dataclass(frozen=True, slots=True)
class Offer:
    """A family's tool as it is offered here: its name, and what its arguments are called."""

    tool: Tool
    family: Family
    called: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a run."""

    tool: Tool
    call: Call
    said: str
    result: str
    report: str


@dataclass(slots=True)
class Run:
    """A run being written: who is offered what, and the messages so far."""

    tools: list[Tool]
    end: Tool | None
    mistakes: bool
    messages: list[Message] = field(default_factory=list[Message])


# --- tools and steps ---------------------------------------------------------------


def offer(rng: random.Random, family: Family, slots: Mapping[str, str] = SLOTS) -> Offer:
    """The family's tool under one of its names, sometimes a longer one, its arguments under one of theirs."""
    name = rng.choice(family.names)
    if rng.random() < 0.12:
        name = rng.choice(["mcp__{}__{}", "{}_{}", "{}__{}"]).format(made_up_word(rng), name)
    called: dict[str, str] = {}
    params: dict[str, Param] = {}
    for said, required in family.params.items():
        other = rng.choice(ALIASES.get(said, [said])) if rng.random() < 0.3 else said
        if rng.random() < 0.05:
            other = made_up_word(rng)
        called[said] = said if other in params else other
        slot = slots.get(said, "any")
        choices = tuple(slot.split("|")) if "|" in slot else ()
        params[called[said]] = Param(kind_of(slot), required, choices)
    about = family.about
    if params and rng.random() < 0.2:
        about = f"{about[0].upper()}{about[1:]}. Takes {' and '.join(params)}."
    return Offer(Tool(name, params, about), family, called)


def filled(rng: random.Random, phrase: str, made: Made, offered: Offer) -> tuple[str, Call]:
    """The phrase with values in it, and the call that it asks for."""
    said: dict[str, Value] = {}
    for name in offered.family.params:
        if f"{{{name}}}" in phrase:
            value = make(rng, SLOTS.get(name, "any"), made.words)
            said[name] = value.rstrip("?!.") if isinstance(value, str) else value
    args = {offered.called[name]: value for name, value in said.items()}
    return phrase.format_map(said), Call(offered.tool.name, args)


def result_of(rng: random.Random, gives: Mapping[str, Value]) -> tuple[str, str]:
    """A result, and the sentence that reports it."""
    key, value = next(iter(gives.items()))
    if rng.random() < 0.12:
        return str(value), f"The result is {value}."
    if rng.random() < 0.35:
        return ", ".join(f"{name}: {one}" for name, one in gives.items()), f"The {key} is {value}."
    shown: dict[str, Value] = {"ok": True, **gives} if rng.random() < 0.2 else dict(gives)
    return json.dumps(shown, ensure_ascii=False), f"The {key} is {value}."


def step_of(rng: random.Random, made: Made, offered: Offer, *, order: bool) -> Step:
    """A step that is asked for by itself."""
    phrase = rng.choice(offered.family.orders) if order else made.ask(rng, offered.family)
    said, call = filled(rng, phrase, made, offered)
    gives = {key: make(rng, slot, made.words) for key, slot in offered.family.gives.items()}
    result, report = result_of(rng, gives)
    return Step(offered.tool, call, said, result, report)


def plain_step(rng: random.Random, made: Made) -> Step:
    """A step in the words of conversations.py."""
    while True:
        tool = rng.choice(make_tools(rng, heldout=made.is_heldout, max_tools=2))
        if tool.name.count("_") == 1:
            break
    call = make_call(rng, tool)
    result, report = result_of(rng, {rng.choice(made.nouns): make(rng, rng.choice(["number", "word"]), made.words)})
    return Step(tool, call, say_call(rng, call, [tool]), result, report)


def chained(rng: random.Random, made: Made, chain: Chain) -> list[Step]:
    """Find, then act on what was found."""
    first, second = offer(rng, chain.first), offer(rng, chain.second)
    said, call = filled(rng, rng.choice(chain.first.orders), made, first)
    gives = {key: make(rng, slot, made.words) for key, slot in chain.first.gives.items()}
    found = gives[chain.key]
    result, report = result_of(rng, gives)
    if chain.key not in result:  # a bare value says not what it is
        result, report = json.dumps(gives), f"The {chain.key} is {found}."
    order, extra = filled(rng, rng.choice(chain.second.orders), made, second)
    params = {chain.param: Param("integer" if isinstance(found, int) else "string", required=True)}
    tool = replace(second.tool, params={**params, **second.tool.params})
    args: dict[str, Value] = {chain.param: found, **extra.args}
    after = {key: make(rng, slot, made.words) for key, slot in chain.second.gives.items()}
    return [
        Step(first.tool, call, said, result, report),
        Step(tool, Call(tool.name, args), order, *result_of(rng, after)),
    ]


def some_family(rng: random.Random, made: Made) -> Family:
    if rng.random() < 0.62:
        return rng.choice(FAMILIES)
    return noun_family(rng, made.nouns, made_up=made.new_nouns)


def make_steps(rng: random.Random, made: Made, count: int) -> tuple[list[Step], bool]:
    """Steps one after another, and whether the second takes what the first gave."""
    is_chain = count > 1 and rng.random() < 0.4
    steps = chained(rng, made, make_chain(rng, made.nouns, made_up=made.new_nouns)) if is_chain else []
    while len(steps) < count:
        if rng.random() < 0.12:
            step = plain_step(rng, made)
        elif steps and rng.random() < 0.08:  # the same tool again
            step = again(rng, made, rng.choice(steps)) or plain_step(rng, made)
        else:
            is_question = count == 1 and rng.random() < 0.4
            step = step_of(rng, made, offer(rng, some_family(rng, made)), order=not is_question)
        if all(step.tool is other.tool or step.tool.name != other.tool.name for other in steps):
            steps.append(step)
    return steps, is_chain


def again(rng: random.Random, made: Made, step: Step) -> Step | None:
    """The same action with another value, where the action has one argument that the words hold once."""
    if len(step.call.args) != 1:
        return None
    ((param, value),) = step.call.args.items()
    if not isinstance(value, str) or step.said.count(value) != 1:
        return None
    other = str(make(rng, rng.choice(["city", "item", "person"]), made.words))
    if other == value:
        return None
    key = step.report.removeprefix("The ").split(" is ")[0]
    result, report = result_of(rng, {key: make(rng, rng.choice(["number", "word"]), made.words)})
    call = Call(step.call.name, {param: other})
    return Step(step.tool, call, step.said.replace(value, other), result, report)


def distractors(rng: random.Random, made: Made, taken: Sequence[Tool], count: int) -> list[Tool]:
    """Other tools, some of them like those that are needed."""
    names = {tool.name for tool in taken}
    tools: list[Tool] = []
    while len(tools) < count:
        tool = offer(rng, some_family(rng, made)).tool
        if rng.random() < 0.2:
            tool = rng.choice(make_tools(rng, heldout=made.is_heldout, max_tools=2))
        if tool.name not in names:
            names.add(tool.name)
            tools.append(tool)
    return tools


def terminal(rng: random.Random) -> Tool:
    """The tool that ends a run."""
    name = rng.choice(["respond", "submit_report", "finish", rng.choice(list(TERMINALS))])
    if name == RESPOND.name:
        return RESPOND
    if rng.random() < 0.1:
        name = f"{rng.choice(['submit', 'report', 'finish', 'send'])}_{made_up_word(rng)}"
    param = rng.choice(TERMINALS.get(name, ["summary"]))
    return Tool(name, {param: Param("string", required=True)}, rng.choice(TERMINAL_ABOUT))


# --- turns -------------------------------------------------------------------------


def right_turn(rng: random.Random, call: Call) -> Message:
    think = f"<think>\nI need to call {call.name}.\n</think>\n" if rng.random() < CLOSED_THINK else ""
    return Message("assistant", think + call_text(call), Loss.RIGHT)


def out_of_turn(rng: random.Random, run: Run, slip: Slip, pending: Sequence[Step]) -> list[Message] | None:
    """Return a valid call that comes too early, and its correction; None if there is no such call."""
    due = pending[0]
    if slip == "premature" and run.end and run.end is not RESPOND:  # of `respond` nobody can say that it is too early
        (param,) = run.end.params
        call = Call(run.end.name, {param: rng.choice(GIVE_UP)})
        texts = ENFORCED
    elif slip == "skip" and len(pending) > 1 and pending[1].tool.name != due.tool.name:
        values = {param: made_up_word(rng) if isinstance(v, str) else v for param, v in pending[1].call.args.items()}
        call = Call(pending[1].call.name, values)
        texts = PREREQUISITE
    else:
        return None
    told = rng.choice(texts).format(
        pending=", ".join(dict.fromkeys(step.tool.name for step in pending)),
        end=call.name,
        tool=call.name,
        next=due.tool.name,
    )
    return [Message("assistant", call_text(call), Loss.MISTAKEN), Message("tool", told)]


def spoiled_turn(rng: random.Random, run: Run, mistake: Mistake, call: Call, tool: Tool) -> list[Message]:
    """A badly made call, and what it is told."""
    spoiled = spoil(rng, call, tool, mistake)
    told = correction(rng, run.tools, mistake, spoiled)
    if mistake == "text" and run.end is tool:  # the report in bare text
        (said,) = call.args.values()
        spoiled = replace(spoiled, text=str(said))
    if mistake in {"missing", "type"} and spoiled.well_formed and rng.random() < 0.5:
        texts = rng.choice(VALIDATION).format(tool=call.name, param=next(iter(tool.params)))
        told = Message("tool", texts)
    if told.role == "user" and rng.random() < 0.4:
        names = ", ".join(one.name for one in run.tools)
        said = rng.choice(CORRECTIONS).format(names=names, end=run.end.name if run.end else run.tools[-1].name)
        told = Message("user", said)
    if not spoiled.well_formed and rng.random() < 0.1:  # a proxy may send back an empty turn
        return [Message("assistant", ""), told]
    return [Message("assistant", spoiled.text, Loss.MISTAKEN), told]


def tries(
    rng: random.Random, run: Run, call: Call, tool: Tool, weights: Mapping[Slip, int], pending: Sequence[Step] = ()
) -> None:
    """The tries until the call is right, with corrections between, onto the run."""
    share = sum(weights.values()) / 100
    for attempt in range(3):
        if not run.mistakes or rng.random() >= (share if attempt == 0 else 1 - RIGHT_AFTER_CORRECTION):
            break
        slip = rng.choices(list(weights), list(weights.values()))[0]
        if slip == "premature" or slip == "skip":
            run.messages += out_of_turn(rng, run, slip, pending) or spoiled_turn(rng, run, "text", call, tool)
        else:
            run.messages += spoiled_turn(rng, run, slip, call, tool)
    run.messages.append(right_turn(rng, call))


def failing(rng: random.Random, run: Run, step: Step, made: Made) -> Step:
    """A tool that refuses the call as it was asked for; the step as it is right then."""
    fixable = [param for param, value in step.call.args.items() if isinstance(value, str) and '"' not in value]
    told = rng.choice(FAILURES).format(tool=step.tool.name)
    fixed = step
    if fixable and rng.random() < 0.65:
        param = rng.choice(fixable)
        bad = str(step.call.args[param])
        choices = step.tool.params[param].choices
        good = rng.choice(choices) if choices else str(make(rng, rng.choice(["city", "item", "any"]), made.words))
        if good != bad:
            told = rng.choice(FIXES).format(param=param, bad=bad, good=good, tool=step.tool.name)
            fixed = replace(step, call=Call(step.call.name, {**step.call.args, param: good}))
    run.messages.append(Message("tool", told))
    return fixed


def shortened(rng: random.Random, messages: Sequence[Message]) -> list[Message]:
    """The messages with the older results cut short, as compaction leaves them."""
    results = [at for at, one in enumerate(messages) if one.role == "tool" and not one.content.startswith("[")]
    out = list(messages)
    for at in results[:-1]:
        text = out[at].content + rng.choice(CUT).format(rng.randint(20, 2000))
        out[at] = Message("tool", text)
    return out


def ending_of(run: Run, text: str) -> Call | None:
    if run.end is None:
        return None
    (param,) = run.end.params
    return Call(run.end.name, {param: text})


def end(rng: random.Random, run: Run, text: str) -> None:
    """The terminal call, or a sentence where there is no terminal tool."""
    if (call := ending_of(run, text)) and run.end:
        tries(rng, run, call, run.end, END_MISTAKES)
    else:
        run.messages.append(Message("assistant", text, Loss.RIGHT))


# --- conversations -----------------------------------------------------------------


def open_run(rng: random.Random, made: Made, needed: Sequence[Tool], last: Tool | None, *, mistakes: bool) -> Run:
    """The tools in any order; `respond` comes last, where a proxy adds it."""
    tools = [*needed, *distractors(rng, made, needed, min(rng.randint(0, 6), rng.randint(0, 6)))]
    tools = list({tool.name: tool for tool in tools}.values())
    rng.shuffle(tools)
    if last:
        tools.insert(len(tools) if last is RESPOND or rng.random() < 0.6 else rng.randrange(len(tools) + 1), last)
    run = Run(tools, last, mistakes)
    if rng.random() < (0.7 if last else 0.4):
        run.messages.append(Message("system", rng.choice(SYSTEMS)))
    return run


def perform(rng: random.Random, run: Run, steps: Sequence[Step], made: Made, weights: Mapping[Slip, int]) -> None:
    """The calls of the steps, with mistakes and failures, and their results."""
    for number, step in enumerate(steps):
        tries(rng, run, step.call, step.tool, weights, steps[number:])
        if rng.random() < 0.13:
            fixed = failing(rng, run, step, made)
            some = {slip: weight for slip, weight in weights.items() if slip in {"premature", "text", "think", "fence"}}
            tries(rng, run, fixed.call, fixed.tool, some, steps[number:])
        run.messages.append(Message("tool", step.result))


def off_topic(rng: random.Random, made: Made, tools: Sequence[Tool]) -> str:
    """A request for which there is no tool."""
    if rng.random() < 0.5:
        phrase = rng.choice(OFF_TOPIC)
        return phrase.format_map({name: make(rng, slot, made.words) for name, slot in SLOTS.items()})
    offered = {tool.name for tool in tools}
    offered_words = {word for name in offered for word in name.split("_")} - {*VERBS, *NOUN_VERBS, "by"}
    while True:
        family = some_family(rng, made)
        if not {word for name in family.names for word in name.split("_")} & offered_words:
            return filled(rng, made.ask(rng, family), made, offer(rng, family))[0]


def make_run(rng: random.Random, made: Made, *, mistakes: bool = True, max_steps: int = 3) -> Conversation:
    """Several steps, then the terminal tool (now and then none is offered)."""
    last = terminal(rng) if rng.random() < 0.93 else None
    if rng.random() < 0.07:
        run = open_run(rng, made, distractors(rng, made, [], rng.randint(1, 4)), last, mistakes=mistakes)
        run.messages.append(Message("user", off_topic(rng, made, run.tools)))
        end(rng, run, NO_TOOL)
        return Conversation(run.tools, run.messages)
    steps, is_chain = make_steps(rng, made, min(max_steps, rng.choices([1, 2, 3], [4, 5, 3])[0]))
    run = open_run(rng, made, [step.tool for step in steps], last, mistakes=mistakes)
    if len(steps) > 1 and not is_chain and rng.random() < 0.06:
        steps = [*(replace(step, result=rng.choice(DROPPED), report="") for step in steps[:-1]), steps[-1]]
    joined = "{}" if steps[0].said.endswith("?") else rng.choice(JOINED[len(steps)])
    text = joined.format(*(step.said for step in steps))
    if text.startswith(steps[0].said):
        text = text[0].upper() + text[1:]
    text += rng.choice(ENDINGS).format(end=last.name if last else "the report")
    run.messages.append(Message("user", text))
    perform(rng, run, steps, made, STEP_MISTAKES)
    reports = [step.report for step in steps if step.report]
    end(rng, run, " ".join(reports) if last and last is not RESPOND else reports[-1])
    return Conversation(run.tools, shortened(rng, run.messages) if rng.random() < 0.08 else run.messages)


def make_talk(rng: random.Random, made: Made, *, mistakes: bool = True, turns: int = 2) -> Conversation:
    """One request or two in plain words, each answered with a call and a sentence."""
    steps: list[Step] = []
    for _ in range(rng.randint(1, turns)):
        offered = offer(rng, some_family(rng, made))
        if all(offered.tool.name != step.tool.name for step in steps):
            steps.append(step_of(rng, made, offered, order=rng.random() < 0.15 and not made.is_heldout))
    last = RESPOND if rng.random() < 0.5 else None
    run = open_run(rng, made, [step.tool for step in steps], last, mistakes=mistakes)
    for step in steps:
        if rng.random() < 0.08:
            run.messages.append(Message("user", off_topic(rng, made, run.tools)))
            end(rng, run, NO_TOOL)
            continue
        run.messages.append(Message("user", said_by_user(rng, step.said)))
        perform(rng, run, [step], made, SINGLE_MISTAKES)
        end(rng, run, step.report)
    return Conversation(run.tools, run.messages)


def make_chat(rng: random.Random) -> Conversation:
    """A greeting where no tools are offered."""
    said = rng.choice(list(CHAT))
    system = [Message("system", rng.choice(SYSTEMS))] if rng.random() < 0.3 else []
    words = rng.choice([said, said.capitalize(), said.capitalize() + "."])
    return Conversation([], [*system, Message("user", words), Message("assistant", CHAT[said], Loss.RIGHT)])


def said_by_user(rng: random.Random, text: str) -> str:
    """The request with or without what people put around it."""
    if text[-1] not in "?!" and rng.random() < 0.5:
        text += "."
    pick = rng.random()
    if pick < 0.06:
        return f"Please {text[0].lower()}{text[1:]}" if text[-1] != "?" else f"Hi! {text}"
    if pick < 0.1:
        return text.lower() if text.lower() == text[0].lower() + text[1:] else text
    return text


# --- tools in the prompt ------------------------------------------------------------

PROMPT_HEAD = "You can call tools. Each line is one of them, with the JSON Schema of its arguments:"
PROMPT_FORM = """To call a tool, answer with nothing but its call, as JSON on a line of its own, or several such lines:
{"name": "name of the tool", "arguments": {"name of an argument": "its value"}}
What it returns comes in the next message, behind [Result of name of the tool]."""


def as_prompted(conversation: Conversation) -> Conversation:
    """The conversation as the proxy has it with a model that knows no tools: all of it in the text."""
    lines = [json.dumps(tool["function"], separators=(",", ":")) for tool in openai_tools(conversation.tools)]
    told = "\n\n".join((PROMPT_HEAD, "\n".join(lines), PROMPT_FORM))
    messages: list[Message] = []
    name = ""
    for message in conversation.messages:
        made = read_call_text(message.content) if message.role == "assistant" else None
        if message.role == "system":
            told += "\n\n" + message.content
        elif made:
            name = made.call.name
            messages.append(Message("assistant", call_json(made.call), message.loss))
        elif message.role == "tool":
            messages.append(Message("user", f"[Result of {name}]\n{message.content}"))
        else:
            messages.append(message)
    return Conversation([], [Message("system", told), *messages])


# --- held out -----------------------------------------------------------------------


def heldout_turns(count: int, seed: int, made: Made = MEASURED) -> Iterator[HeldoutJson]:
    """Prefixes in words never seen in training, and their right answers: talks and runs in turn."""
    rng = random.Random(seed + 2 * HELDOUT_SEED)
    for number in range(count):
        is_run = number % 2 == 1
        whole = make_run(rng, made, mistakes=False) if is_run else make_talk(rng, made, mistakes=False, turns=1)
        at = rng.choice([i for i, one in enumerate(whole.messages) if one.loss is Loss.RIGHT])
        prefix = Conversation(whole.tools, whole.messages[:at])
        yield {
            "tools": openai_tools(prefix.tools),
            "messages": openai_messages(prefix.messages),
            "group": "steps of runs" if is_run else "single requests",
            "answer": whole.messages[at].content.split("</think>\n")[-1],
            "mistakes": False,
            "prompt": "".join(text for text, _ in render(prefix)) + "<|im_start|>assistant\n",
        }
