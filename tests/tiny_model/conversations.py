"""Seeded conversations between a user, an assistant and tools: what the tiny model learns and is measured on.

Called by make_data.py (training), eval.py (measuring) and by tests that want requests the model understands.
The standard library only: no tokenizer, no arrays, no files. The same seed gives the same conversations, and
that depends on the order in which random numbers are drawn: draw in another order and the training data differ.
"""

import json
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NotRequired, TypedDict, assert_never

Kind = Literal["string", "integer", "boolean"]
Role = Literal["system", "user", "assistant", "tool"]
Value = str | int  # bool is an int, too
Mistake = Literal[
    "text", "fence", "tool_calls_tag", "args_tag", "function_tag", "python", "name", "missing", "type", "json", "think"
]


class Loss(IntEnum):
    """What a piece of text is to the training."""

    CONTEXT = 0
    MISTAKEN = 1
    RIGHT = 2


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a tool."""

    kind: Kind
    required: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that is offered."""

    name: str
    params: Mapping[str, Param]
    about: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call with all its arguments."""

    name: str
    args: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn, with calls and thoughts as the text that the model writes."""

    role: Role
    content: str
    loss: Loss = Loss.CONTEXT


@dataclass(frozen=True, slots=True)
class Conversation:
    """The tools on offer and what was said."""

    tools: Sequence[Tool]
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Spoiled:
    """An assistant's turn with one mistake in it."""

    text: str
    well_formed: bool  # still a call that can be read, though not a right one


@dataclass(frozen=True, slots=True)
class CallText:
    """A call read back from the text of a turn, with the thought before it."""

    call: Call
    thought: str | None


class ParamJson(TypedDict):
    """The schema of one argument."""

    type: Kind
    enum: NotRequired[list[str]]


class ParametersJson(TypedDict):
    """The schema of a tool's arguments."""

    type: Literal["object"]
    properties: dict[str, ParamJson]
    required: list[str]


class FunctionJson(TypedDict):
    """The name, description and parameters of a tool, as JSON."""

    name: str
    description: str
    parameters: ParametersJson


class ToolJson(TypedDict):
    """A tool as an OpenAI client sends it."""

    type: Literal["function"]
    function: FunctionJson


class CalledJson(TypedDict):
    """A call's name and its arguments as JSON text."""

    name: str
    arguments: str


class ToolCallJson(TypedDict):
    """A call as an OpenAI client sends it back."""

    id: str
    type: Literal["function"]
    function: CalledJson


class MessageJson(TypedDict):
    """A message as an OpenAI client sends it."""

    role: Role
    content: str | None
    tool_calls: NotRequired[list[ToolCallJson]]
    reasoning_content: NotRequired[str]
    tool_call_id: NotRequired[str]


class HeldoutJson(TypedDict):
    """A prefix never seen in training, and its right answer."""

    tools: list[ToolJson]
    messages: list[MessageJson]
    group: str  # of the report: what makes it easy or hard
    answer: str
    mistakes: bool  # the prefix may hold mistakes and corrections
    prompt: str


@dataclass(frozen=True, slots=True)
class Case:
    """A first request to send as it is, and the call that answers it."""

    tools: list[ToolJson]
    messages: list[MessageJson]
    expected: Call


# --- words ------------------------------------------------------------------


def split(text: str) -> list[str]:
    """Return the words of a text: a list of words is easier to read this way."""
    return text.split()


VERBS = split("""get find list create delete update send search fetch open close book cancel check add
remove read write start stop run show count move copy rename schedule play pause share export
import convert translate print sort merge archive restore assign""")
SYNONYMS = {
    "get": "look up",
    "fetch": "retrieve",
    "delete": "erase",
    "create": "make",
    "find": "locate",
    "start": "launch",
    "stop": "halt",
    "send": "deliver",
    "show": "display",
    "check": "verify",
    "book": "reserve",
    "add": "append",
}
NOUNS = split("""weather invoice order ticket flight hotel email message note file folder user account
report meeting event task calendar song playlist movie photo image video document page website
database table record product price stock payment refund coupon address contact phone customer
employee team project issue branch commit server container backup log alert sensor device light
door camera car train bus taxi route map restaurant recipe meal drink table shipment package
warehouse book course student exam grade lesson teacher patient doctor clinic drug test result
budget expense salary tax loan card bank currency rate news article blog comment post tag group
channel chat call contract lease house room garden tool part machine job queue script model""")
HELDOUT_NOUNS = split("parcel voucher museum bicycle passport battery orchard ledger tunnel printer")
KINDS: list[Kind] = ["string", "integer", "boolean"]
PARAMS: dict[Kind, list[str]] = {
    "string": split("""city name title query user email date path color language customer room topic
        subject country product category status team label code owner format device artist genre
        source target reason message"""),
    "integer": split("""days limit amount year price quantity size level age minutes hours width height
        number volume offset"""),
    "boolean": split("urgent public verbose force active enabled recursive draft private silent"),
}
HELDOUT_PARAMS: dict[Kind, list[str]] = {
    "string": split("brand village planet"),
    "integer": split("weight depth"),
    "boolean": ["hidden"],
}
NEW_WORDS = [*HELDOUT_NOUNS, *(name for names in HELDOUT_PARAMS.values() for name in names)]
NAMES = split("""Anna Bob Carla David Elena Frank Grace Hugo Irene Jack Karim Lena Maria Nina Oscar Paul
Rosa Sam Tina Victor""")
CITIES = split("""Paris Berlin London Madrid Rome Oslo Vienna Lisbon Tokyo Delhi Cairo Boston Denver Lima
Prague Dublin Zurich Seoul Sydney Toronto""")
WORDS = split("""red blue green black white fast slow small large north south east west open closed new old
final weekly daily urgent summer winter spring alpha beta gamma delta main test draft coffee tea milk
bread apple lemon jazz rock piano guitar english french german spanish sunny rainy cloudy warm cold
plan budget review launch team lunch dinner party garden river mountain""")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CHAT = {
    "hi": "Hello! How can I help?",
    "hello": "Hello! How can I help?",
    "hey there": "Hello! How can I help?",
    "good morning": "Good morning! How can I help?",
    "thanks": "You are welcome.",
    "thank you": "You are welcome.",
    "how are you?": "I am fine. How can I help?",
    "who are you?": "I am a small assistant.",
    "what can you do?": "I can call tools for you.",
    "bye": "Goodbye!",
}
SYSTEMS = [
    "You are a helpful assistant.",
    "You are a tool-calling assistant. Use the tools.",
    "Answer by calling a tool.",
    "Be brief.",
    "You help the user. Call one tool at a time.",
]
RESPOND = Tool("respond", {"message": Param("string", required=True)}, "answer the user")

# How the first try goes wrong, with weights out of 100 (the rest is right).
MISTAKES: dict[Mistake, int] = {
    "text": 8,
    "fence": 7,
    "tool_calls_tag": 5,
    "args_tag": 5,
    "name": 5,
    "missing": 5,
    "type": 5,
    "json": 6,
    "think": 5,
}
RESPOND_MISTAKES: dict[Mistake, int] = {
    "text": 25,
    "fence": 3,
    "tool_calls_tag": 3,
    "name": 2,
    "json": 2,
    "think": 2,
}
RIGHT_AFTER_CORRECTION = 0.97
CLOSED_THINK = 0.05  # right answers that begin with a proper <think>…</think>
HELDOUT_SEED = 1_000_003  # added to the seed, so that held-out conversations have random numbers of their own

CALL = re.compile(r"(?:<think>\n(.*?)\n</think>\n)?<tool_call>\n(\{.*\})\n</tool_call>", re.DOTALL)


def made_up_word(rng: random.Random) -> str:
    """A word nobody knows, so that names must be copied and not remembered."""
    pick = rng.random()
    if pick < 0.35:  # syllables
        return "".join(
            rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") + rng.choice(["", "", "n", "r", "l", "t"])
            for _ in range(rng.randint(2, 3))
        )
    if pick < 0.8:  # the head of one word and the tail of another
        head, tail = rng.choice(NOUNS), rng.choice(NOUNS)
        return head[: rng.randint(1, 5)] + tail[-rng.randint(2, 5) :]
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 7)))


def is_heldout(verb: str, noun: str) -> bool:
    """Whether this pair is kept from the training."""
    return noun in HELDOUT_NOUNS or zlib.crc32(f"{verb}_{noun}".encode()) % 6 == 0


# --- tools, values, requests ------------------------------------------------


def make_tool(rng: random.Random, *, heldout: bool) -> Tool:
    """A tool with one to three parameters, the first of them required."""
    while True:
        verb = rng.choice(VERBS)
        noun = rng.choice(HELDOUT_NOUNS if heldout and rng.random() < 0.07 else NOUNS)
        if not heldout and rng.random() < 0.55:
            noun = made_up_word(rng)
        if is_heldout(verb, noun) == heldout:
            break
    params: dict[str, Param] = {}
    for _ in range(rng.choice([1, 1, 2, 2, 2, 3])):
        kind = rng.choices(KINDS, [6, 3, 1])[0]
        pool = HELDOUT_PARAMS if heldout and rng.random() < 0.15 else PARAMS
        made_up = not heldout and rng.random() < 0.25
        name = made_up_word(rng) if made_up else rng.choice(pool[kind])
        params[name] = Param(kind, required=True)
    for name in list(params)[1:]:
        params[name] = Param(params[name].kind, required=rng.random() < 0.75)
    first = next(iter(params))
    about = rng.choice([f"{verb} the {noun}", f"{verb} a {noun}", f"{verb} {noun} by {first}"])
    return Tool(f"{verb}_{noun}", params, about)


def make_tools(rng: random.Random, *, heldout: bool, max_tools: int) -> list[Tool]:
    """Two or more tools, some of them near misses of each other."""
    count = min(rng.randint(2, max_tools), rng.randint(2, max_tools))  # more often few
    tools: dict[str, Tool] = {}
    while len(tools) < count:
        tool = make_tool(rng, heldout=heldout)
        if tools and rng.random() < 0.25:  # a near miss: same noun or same verb
            verb, noun = rng.choice(list(tools)).split("_")
            other_verb, other_noun = tool.name.split("_")
            name = f"{other_verb}_{noun}" if rng.random() < 0.5 else f"{verb}_{other_noun}"
            if is_heldout(*name.split("_")) != heldout:
                continue
            tool = Tool(name, tool.params, name.replace("_", " the "))
        tools[tool.name] = tool
    return list(tools.values())


def make_value(rng: random.Random, kind: Kind) -> Value:
    """A value for an argument of this kind."""
    match kind:
        case "integer":
            return rng.randint(1, rng.choice([9, 99, 999, 9999]))
        case "boolean":
            return rng.random() < 0.5
        case "string":
            return make_text(rng)
        case _:
            assert_never(kind)


def make_text(rng: random.Random) -> str:
    """A name, a city, a word or two, a code, an address, a date, a file, or letters."""
    match rng.randrange(10):
        case 0:
            return rng.choice(NAMES)
        case 1:
            return rng.choice(CITIES)
        case 2 | 3:
            return rng.choice(WORDS)
        case 4:
            return f"{rng.choice(WORDS)} {rng.choice(WORDS)}"
        case 5:
            return f"{rng.choice(LETTERS.upper())}{rng.choice(['', '-'])}{rng.randint(1, 999)}"
        case 6:
            return f"{rng.choice(NAMES).lower()}@{rng.choice(WORDS)}.com"
        case 7:
            return f"20{rng.randint(10, 39)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        case 8:
            return f"{rng.choice(WORDS)}.{rng.choice(['txt', 'pdf', 'csv'])}"
        case _:
            return "".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 7)))


def make_call(rng: random.Random, tool: Tool) -> Call:
    """A right call of this tool, with half of its optional arguments."""
    chosen: dict[str, Kind] = {name: p.kind for name, p in tool.params.items() if p.required or rng.random() < 0.5}
    return Call(tool.name, {name: make_value(rng, kind) for name, kind in chosen.items()})


def say_value(rng: random.Random, value: Value) -> str:
    """The value as the user writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return f'"{value}"' if " " in value or rng.random() < 0.4 else value
        case _:
            assert_never(value)


def say_call(rng: random.Random, call: Call, tools: Sequence[Tool]) -> str:
    """Put a call into words: the action and every argument with its value."""
    verb, noun = call.name.split("_")
    if verb in SYNONYMS and rng.random() < 0.2 and sum(t.name.endswith("_" + noun) for t in tools) == 1:
        verb = SYNONYMS[verb]
    article = rng.choice(["the ", "the ", "a ", ""])
    first = next(iter(call.args.values()))
    if len(call.args) == 1 and isinstance(first, str) and rng.random() < 0.3:
        return f"{verb} {article}{noun} {rng.choice(['for', 'of'])} {say_value(rng, first)}"
    joiner = rng.choice([" ", " ", ": ", "=", " is "])
    said = [name + joiner + say_value(rng, value) for name, value in call.args.items()]
    listed = said[0] if len(said) == 1 else ", ".join(said[:-1]) + rng.choice([" and ", ", "]) + said[-1]
    return f"{verb} {article}{noun}{rng.choice([' with ', ' for ', ', ', ' using '])}{listed}"


def say_request(rng: random.Random, calls: Sequence[Call], tools: Sequence[Tool]) -> str:
    """Ask for one call, or for two in order."""
    parts = [say_call(rng, call, tools) for call in calls]
    if len(parts) > 1:
        text = rng.choice(["first {}, then {}", "{} and then {}", "{}. After that {}"]).format(*parts)
    else:
        text = parts[0]
    form = rng.choice(["Please {}.", "{}", "Can you {}?", "I want to {}.", "{}.", "Now {}."])
    if form[0] == "{" and rng.random() < 0.6:
        text = text[0].upper() + text[1:]
    return form.format(text)


# --- assistant turns ----------------------------------------------------------


def call_json(call: Call) -> str:
    """The call as the model writes it between its markers."""
    arguments = json.dumps(call.args, ensure_ascii=False)
    return f'{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}'


def call_text(call: Call) -> str:
    """The call as the model writes it, markers and all."""
    return f"<tool_call>\n{call_json(call)}\n</tool_call>"


def read_call_text(text: str) -> CallText | None:
    """The call that a turn makes, where the turn is nothing but a well-formed call."""
    match = CALL.fullmatch(text)
    try:
        call: dict[str, dict[str, Value]] | None = json.loads(match[2]) if match else None
    except ValueError:
        return None
    return CallText(Call(str(call["name"]), call["arguments"]), match[1]) if match and call else None


def misspell(rng: random.Random, name: str) -> str:
    """A name that no tool has (no made tool name is of these forms)."""
    verb, _, noun = name.partition("_")
    if not noun:
        return rng.choice(["reply", "answer", "response"])
    return rng.choice(
        [
            f"{verb}_{noun}s",
            f"{verb}-{noun}",
            verb + noun.capitalize(),
            noun,
            f"do_{noun}",
            f"{verb}_the_{noun}",
        ]
    )


def break_json(rng: random.Random, text: str) -> str:
    """A comma too many, the wrong quotes, or a brace missing."""
    match rng.randrange(3):
        case 0:
            return text[:-2] + ",}}"
        case 1:
            return text.replace('"', "'")
        case _:
            return text[:-1]


def possible(mistake: Mistake, call: Call, tool: Tool) -> Mistake:
    """Return the mistake, or another one if this call has no argument that could have it."""
    required = any(param.required for param in tool.params.values())
    if mistake == "missing" and (not required or call.name == RESPOND.name):
        return "name"
    if mistake == "type" and all(isinstance(value, str) for value in call.args.values()):
        return "fence"
    return mistake


def spoil(rng: random.Random, call: Call, tool: Tool, mistake: Mistake) -> Spoiled:
    """The assistant's turn with one mistake."""
    name, args = call.name, call.args
    mistake = possible(mistake, call, tool)
    match mistake:
        case "text" if name == RESPOND.name:
            return Spoiled(str(args["message"]), well_formed=False)
        case "text":
            said = [
                f"I will call {name}.",
                f"Let me {name.replace('_', ' ')}.",
                f"Sure, I will use the {name} tool now.",
            ]
            return Spoiled(rng.choice(said), well_formed=False)
        case "fence":
            return Spoiled(f"```json\n{call_json(call)}\n```", well_formed=False)
        case "tool_calls_tag":
            return Spoiled(f"[TOOL_CALLS]{name}{json.dumps(args)}", well_formed=False)
        case "args_tag":
            return Spoiled(f"{name}[ARGS]{json.dumps(args)}", well_formed=False)
        case "function_tag":
            return Spoiled(f"<function={name}>{json.dumps(args)}</function>", well_formed=False)
        case "python":
            said_args = ", ".join(f"{key}={json.dumps(value)}" for key, value in args.items())
            return Spoiled(f"[{name}({said_args})]", well_formed=False)
        case "name":
            return Spoiled(call_text(Call(misspell(rng, name), args)), well_formed=True)
        case "missing":
            dropped = rng.choice([p for p, param in tool.params.items() if param.required])
            left = {p: value for p, value in args.items() if p != dropped}
            return Spoiled(call_text(Call(name, left)), well_formed=True)
        case "type":
            wrong = rng.choice([p for p, value in args.items() if not isinstance(value, str)])
            mistyped = {p: json.dumps(value) if p == wrong else value for p, value in args.items()}
            return Spoiled(call_text(Call(name, mistyped)), well_formed=True)
        case "json":
            text = f"<tool_call>\n{break_json(rng, call_json(call))}\n</tool_call>"
            return Spoiled(text, well_formed=False)
        case "think":  # opened and never closed
            return Spoiled(f"<think>\nI need to call {name}.\n{call_text(call)}", well_formed=False)
        case _:
            assert_never(mistake)


def correction(rng: random.Random, tools: Sequence[Tool], mistake: Mistake, spoiled: Spoiled) -> Message:
    """What a proxy or a harness says to the mistaken turn.

    `mistake` is the one first drawn, not the one `possible` put in its place: the words do not always fit.
    """
    names = ", ".join(tool.name for tool in tools)
    if spoiled.well_formed and rng.random() < 0.8:
        said = json.loads(spoiled.text.split("\n")[1])["name"]
        if mistake == "name":
            texts = [
                f"[UnknownTool] {said}. Call one of: {names}.",
                f"[UnknownTool] Tool '{said}' does not exist. Available tools: {names}",
                f"[UnknownTool] No tool named {said}. Use one of: {names}",
            ]
        else:
            texts = [
                "[ToolError] Invalid arguments. Try again.",
                f"[ToolError] {said}: an argument is missing or has the wrong type.",
                f"[ToolError] Invalid arguments for {said}. Fix the call and retry.",
                "[ToolError] Missing required argument.",
                "[ToolError] Argument has the wrong type.",
            ]
        return Message("tool", rng.choice(texts))
    texts = [
        f"That was not a valid tool call. Call one of: {names}.",
        f"Your last reply was not a valid tool call. Available tools: {names}. Reply with a tool call only.",
        f"Please call a tool. Use one of: {names}",
        "Invalid tool call. Try again.",
        f"Error: no tool call found. You must call one of these tools: {names}",
    ]
    return Message("user", rng.choice(texts))


def tries(rng: random.Random, call: Call, tools: Sequence[Tool], *, mistakes: bool) -> list[Message]:
    """The assistant's tries until the call is right, with corrections between."""
    messages: list[Message] = []
    tool = next(t for t in tools if t.name == call.name)
    weights = RESPOND_MISTAKES if call.name == RESPOND.name else MISTAKES
    wrong_share = sum(weights.values()) / 100
    for attempt in range(3):
        share = wrong_share if attempt == 0 else 1 - RIGHT_AFTER_CORRECTION
        if not mistakes or rng.random() >= share:
            break
        mistake = rng.choices(list(weights), list(weights.values()))[0]
        spoiled = spoil(rng, call, tool, mistake)
        fix = correction(rng, tools, mistake, spoiled)
        shown = rng.random()
        if shown < 0.8 or spoiled.well_formed:
            messages.append(Message("assistant", spoiled.text, Loss.MISTAKEN))
        elif shown < 0.9:  # a proxy may send back an empty turn, or none
            messages.append(Message("assistant", ""))
        messages.append(fix)
    think = f"<think>\nI need to call {call.name}.\n</think>\n" if rng.random() < CLOSED_THINK else ""
    return [*messages, Message("assistant", think + call_text(call), Loss.RIGHT)]


def make_result(rng: random.Random) -> tuple[str, str]:
    """A tool's result and the sentence that reports it."""
    key = rng.choice(rng.choice([PARAMS["string"], PARAMS["integer"], NOUNS]))
    value = make_value(rng, "integer" if key in PARAMS["integer"] else "string")
    result = rng.choice([json.dumps({key: value}), json.dumps({"ok": True, key: value}), f"{key}: {value}"])
    return result, f"The {key} is {value}."


def make_conversation(
    rng: random.Random,
    *,
    heldout: bool = False,
    max_tools: int = 8,
    max_requests: int = 3,
    mistakes: bool = True,
) -> Conversation:
    """Requests, calls, results and endings; every assistant turn says by `loss` what it teaches."""
    actions = make_tools(rng, heldout=heldout, max_tools=max_tools)
    tools = list(actions)
    offered = rng.random() < 0.5
    if offered:
        tools.insert(rng.randrange(len(tools) + 1), RESPOND)

    def ending(text: str) -> list[Message]:
        if offered:
            return tries(rng, Call(RESPOND.name, {"message": text}), tools, mistakes=mistakes)
        return [Message("assistant", text, Loss.RIGHT)]

    messages: list[Message] = []
    if rng.random() < 0.3:
        messages.append(Message("system", rng.choice(SYSTEMS)))
    for _ in range(rng.choices([1, 2, 3], [4, 4, 2])[0] if max_requests > 1 else 1):
        if rng.random() < 0.07:
            said = rng.choice(list(CHAT))
            messages.append(Message("user", rng.choice([said, said.capitalize()])))
            messages += ending(CHAT[said])
            continue
        steps = 2 if rng.random() < 0.25 else 1
        calls = [make_call(rng, rng.choice(actions)) for _ in range(steps)]
        messages.append(Message("user", say_request(rng, calls, tools)))
        report = ""
        for call in calls:
            messages += tries(rng, call, tools, mistakes=mistakes)
            result, report = make_result(rng)
            messages.append(Message("tool", result))
        messages += ending(report)
    return Conversation(tools, messages)


# --- as a client sends it, and as the model reads it ---------------------------


def param_json(param: Param) -> ParamJson:
    """The schema of one argument."""
    return {"type": param.kind, "enum": [*param.choices]} if param.choices else {"type": param.kind}


def openai_tools(tools: Sequence[Tool]) -> list[ToolJson]:
    """The tools as a client offers them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.about,
                "parameters": {
                    "type": "object",
                    "properties": {name: param_json(param) for name, param in tool.params.items()},
                    "required": [name for name, param in tool.params.items() if param.required],
                },
            },
        }
        for tool in tools
    ]


def openai_messages(messages: Sequence[Message]) -> list[MessageJson]:
    """The messages as a client sends them: well-formed calls as `tool_calls`."""
    out: list[MessageJson] = []
    number = 0
    for message in messages:
        made = read_call_text(message.content) if message.role == "assistant" else None
        one: MessageJson = {"role": message.role, "content": message.content}
        if made:
            number += 1
            called: CalledJson = {"name": made.call.name, "arguments": json.dumps(made.call.args)}
            one["content"] = None
            one["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": called}]
            if made.thought:
                one["reasoning_content"] = made.thought
        elif message.role == "tool":
            one["tool_call_id"] = f"call_{number}"
        out.append(one)
    return out


def render(conversation: Conversation) -> list[tuple[str, Loss]]:
    """The text that the model reads, in pieces; together the same as chat_template.jinja makes."""
    messages = conversation.messages
    system = messages[0].content + "\n" if messages[0].role == "system" else ""
    told = "Tools:\n" + "".join(tell(tool) + "\n" for tool in conversation.tools) if conversation.tools else ""
    parts = [(f"<|im_start|>system\n{system}{told}<|im_end|>\n", Loss.CONTEXT)] if system or told else []
    for message in messages:
        match message.role:
            case "assistant":
                parts.append(("<|im_start|>assistant\n", Loss.CONTEXT))
                parts.append((message.content + "<|im_end|>", message.loss))
                parts.append(("\n", Loss.CONTEXT))
            case "tool":
                wrapped = f"<tool_response>{message.content}</tool_response>"
                parts.append((f"<|im_start|>tool\n{wrapped}<|im_end|>\n", Loss.CONTEXT))
            case "user":
                parts.append((f"<|im_start|>user\n{message.content}<|im_end|>\n", Loss.CONTEXT))
            case "system":
                pass  # stands with the tools
            case _:
                assert_never(message.role)
    return parts


def tell(tool: Tool) -> str:
    """The tool as the prompt tells it."""
    args = ",".join(
        f'"{name}":"{"|".join(param.choices) or param.kind}{"" if param.required else "?"}"'
        for name, param in tool.params.items()
    )
    return f'{{"name":"{tool.name}","args":{{{args}}},"about":"{tool.about}"}}'


# --- held out -------------------------------------------------------------------


def heldout_case(rng: random.Random, *, mistakes: bool) -> tuple[Conversation, str]:
    """A conversation up to one of its right assistant turns, and that turn."""
    whole = make_conversation(rng, heldout=True, max_requests=1, mistakes=mistakes)
    at = rng.choice([i for i, message in enumerate(whole.messages) if message.loss is Loss.RIGHT])
    return Conversation(whole.tools, whole.messages[:at]), whole.messages[at].content


def heldout_cases(count: int, seed: int) -> Iterator[HeldoutJson]:
    """The held-out set: first tries and later ones, calls and sentences."""
    rng = random.Random(seed + HELDOUT_SEED)
    for number in range(count):
        mistakes = number % 4 == 3  # three in four have no mistake before the answer
        prefix, answer = heldout_case(rng, mistakes=mistakes)
        yield {
            "tools": openai_tools(prefix.tools),
            "messages": openai_messages(prefix.messages),
            # a new word is one that no training conversation has as a name
            "group": "new words" if any(word in answer for word in NEW_WORDS) else "known words",
            "answer": answer.split("</think>\n")[-1],
            "mistakes": mistakes,
            "prompt": "".join(text for text, _ in render(prefix)) + "<|im_start|>assistant\n",
        }


def heldout_requests(count: int, seed: int) -> Iterator[Case]:
    """Requests never seen in training: a user's first message (a system message may stand before it).

    The right answer is a call of an offered tool; where two calls are asked for, it is the first of them.
    Greetings are left out, and so is the tool `respond`: a client does not offer it, a proxy may add it.
    """
    rng = random.Random(seed + HELDOUT_SEED)
    while count > 0:
        whole = make_conversation(rng, heldout=True, max_requests=1, mistakes=False)
        at = next(i for i, message in enumerate(whole.messages) if message.role == "assistant")
        made = read_call_text(whole.messages[at].content)
        if made and RESPOND not in whole.tools:
            yield Case(openai_tools(whole.tools), openai_messages(whole.messages[:at]), made.call)
            count -= 1
