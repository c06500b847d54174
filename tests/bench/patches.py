"""`make patches`: the results of patches whose framing or content is damaged, as the table of docs/guardrails.md.

Each of 48 well-formed patches is damaged in each way, and the call with it is judged like a model's response.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.guardrails import Accept, GuardPolicy, Retry, judge, open_turn
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply
from tests.core.tool_grammars.grammars import APPLY_PATCH

Result: TypeAlias = Literal["as written", "repaired", "retried", "wrong"]
"""`repaired`: to the patch before the damage. `wrong`: to any other text."""
RESULTS: tuple[Result, ...] = ("as written", "repaired", "retried", "wrong")
COUNT = 48
BEGIN, END = "*** Begin Patch\n", "*** End Patch\n"
_LINES = (
    "import os", "", "def greet(name: str) -> str:", '    """Return a greeting."""', "    return f'Hello, {name}'", "",
    "class Patch:", "    text = '*** Begin Patch'", "\tindented = True", "# ```", "{", '  "a": [1, 2],', "}", "EOF",
    "*** End Patch", "+ 1", "- item", "x = 1  # ünïcode", "trailing  ",
)  # fmt: skip
"""Lines of files; some look like markers or fences."""
_PATHS = ("src/app.py", "README.md", "a b.txt", "docs/größe.md", "*.cfg", "Makefile")


def make_patches() -> list[str]:
    """Return well-formed patches: additions, deletions, moves, updates with several places, ends of files."""
    return [_make_patch(random.Random(seed), seed) for seed in range(COUNT)]


def _make_patch(rng: random.Random, seed: int) -> str:
    kinds = [("update", "add", "delete", "move")[seed % 4], *rng.choices(("update", "add", "delete"), k=seed % 3)]
    return BEGIN + "".join(_make_change(rng, kind) for kind in kinds) + END


def _make_change(rng: random.Random, kind: str) -> str:
    path = rng.choice(_PATHS)
    match kind:
        case "add":
            return f"*** Add File: {path}\n" + "".join(
                f"+{line}\n" for line in rng.choices(_LINES, k=rng.randint(1, 9))
            )
        case "delete":
            return f"*** Delete File: {path}\n"
        case _:
            moved = f"*** Move to: {rng.choice(_PATHS)}\n" if kind == "move" else ""
            places = "".join(_make_place(rng) for _ in range(rng.randint(1, 3)))
            return f"*** Update File: {path}\n{moved}{places}" + rng.choice(["", "", "*** End of File\n"])


def _make_place(rng: random.Random) -> str:
    begin = rng.choice(["@@\n", "@@ def greet(name: str) -> str:\n", "@@ class Patch:\n"])
    before, after = rng.choices(_LINES, k=rng.randint(0, 3)), rng.choices(_LINES, k=rng.randint(0, 2))
    removed, added = rng.choices(_LINES, k=rng.randint(0, 3)), rng.choices(_LINES, k=rng.randint(1, 4))
    parts = [(" ", before), ("-", removed), ("+", added), (" ", after)]
    return begin + "".join(f"{prefix}{line}\n" for prefix, lines in parts for line in lines)


def as_arguments(text: str) -> str:
    """Return the arguments of a call with this text."""
    return json.dumps({"input": text}, ensure_ascii=False)


@dataclass(frozen=True)
class Damage:
    """One way to damage a patch: returns the arguments of the call."""

    name: str
    apply: Callable[[str, random.Random], str]
    is_framing: bool = False
    finish: str = "tool_calls"


def _framing(name: str, change: Callable[[str], str]) -> Damage:
    return Damage(name, lambda patch, _: as_arguments(change(patch)), is_framing=True)


def _content(name: str, change: Callable[[str, random.Random], str]) -> Damage:
    return Damage(name, lambda patch, rng: as_arguments(change(patch, rng)))


def _without_ends(patch: str) -> str:
    return patch.removeprefix(BEGIN).removesuffix(END)


def _indented(patch: str) -> str:
    return "".join(f"    {line}\n" for line in patch.split("\n")[:-1])


def _change_line(patch: str, rng: random.Random, prefixes: str, change: Callable[[str], str]) -> str:
    """Return the patch with one changed line, chosen from those that begin with one of the prefixes."""
    lines = patch.split("\n")
    chosen = [number for number, line in enumerate(lines) if line[:1] in prefixes and line and number]
    if chosen:
        number = rng.choice(chosen)
        lines[number] = change(lines[number])
    return "\n".join(lines) if chosen else patch.replace(END, "?\n" + END)


def _as_damaged_fence(patch: str) -> str:
    return f"```\n{patch.removesuffix(END)}```".replace("\n", "\r\n")


def _with_wrong_prefix(line: str) -> str:
    return f">{line[1:]}"


def _without_first(line: str) -> str:
    return line[1:]


def _cut_in_line(patch: str, rng: random.Random) -> str:
    """Return the beginning of a patch that ends inside a line."""
    places = [at for at in range(len(BEGIN) + 1, len(patch) - len(END)) if patch[at - 1] != "\n"]
    return patch[: rng.choice(places)]


def _cut_after_line(patch: str, rng: random.Random) -> str:
    ends = [at + 1 for at in range(len(BEGIN), len(patch) - len(END)) if patch[at] == "\n"]
    return patch[: rng.choice(ends)]


def _as_unified_diff(patch: str, rng: random.Random) -> str:
    return patch.replace("*** Update File: ", "--- a/").replace("*** Add File: ", "+++ b/").replace("*** Delete", "---")


DAMAGES = (
    Damage("none", lambda patch, _: as_arguments(patch)),
    _framing("no newline at the end", lambda patch: patch[:-1]),
    _framing("code fence", lambda patch: f"```\n{patch}```"),
    _framing("code fence with a language, never closed", lambda patch: f"```diff\n{patch}"),
    _framing("JSON in the text", lambda patch: json.dumps({"patch": patch})),
    _framing('`["apply_patch", "…"]`', lambda patch: json.dumps(["apply_patch", patch])),
    Damage("the patch as the arguments", lambda patch, _: patch, is_framing=True),
    Damage("JSON string as the arguments", lambda patch, _: json.dumps(patch), is_framing=True),
    Damage("another parameter", lambda patch, _: json.dumps({"diff": patch}), is_framing=True),
    _framing("heredoc", lambda patch: f"apply_patch <<'PATCH'\n{patch}PATCH\n"),
    _framing("heredoc in a shell command", lambda patch: json.dumps(["bash", "-lc", f"apply_patch <<'X'\n{patch}X"])),
    _framing("no `*** Begin Patch`", lambda patch: patch.removeprefix(BEGIN)),
    _framing("no `*** End Patch`", lambda patch: patch.removesuffix(END)),
    _framing("neither of them", _without_ends),
    _framing("`*** Begin Patch` twice", lambda patch: BEGIN + patch),
    _framing("`*** End Patch` twice", lambda patch: patch + END),
    _framing("CRLF", lambda patch: patch.replace("\n", "\r\n")),
    _framing("blank lines around it", lambda patch: f"\n\n{patch}\n \n"),
    _framing("indentation", _indented),
    _framing("sentences around it", lambda patch: f"Here is the patch:\n\n{patch}\nDone."),
    _framing("fence, CRLF, no `*** End Patch`", _as_damaged_fence),
    _content("ends inside a line", _cut_in_line),
    Damage("cut inside the JSON", lambda patch, rng: as_arguments(_cut_in_line(patch, rng))[:-2]),
    Damage("cut after a line, inside the JSON", lambda patch, rng: as_arguments(_cut_after_line(patch, rng))[:-2]),
    Damage(
        "cut after a line at the token limit", lambda patch, rng: as_arguments(_cut_after_line(patch, rng))[:-2],
        finish="length",
    ),
    _content("an added line without `+`", lambda patch, rng: _change_line(patch, rng, "+", _without_first)),
    _content("an unchanged line without its space", lambda patch, rng: _change_line(patch, rng, " ", _without_first)),
    _content("a line with a wrong prefix", lambda patch, rng: _change_line(patch, rng, "+- ", _with_wrong_prefix)),
    _content("an empty line without its space", lambda patch, rng: patch.replace(END, "\n" + END)),
    _content("a misspelt marker", lambda patch, rng: _change_line(patch, rng, "*", lambda line: "***" + line[4:])),
    _content("`@` for `@@`, or a line of text", lambda patch, rng: _change_line(patch, rng, "@", _without_first)),
    _content("numbered lines", lambda patch, rng: _change_line(patch, rng, "+- ", lambda line: f"12 {line}")),
    _content("a unified diff", _as_unified_diff),
    _content("two patches", lambda patch, rng: patch + patch),
    _content("nothing to change", lambda patch, rng: BEGIN + END),
    _content("a sentence in place of the patch", lambda patch, rng: "I have changed the file as you asked."),
)  # fmt: skip


def judge_call(patch: str, arguments: str, finish: str) -> Result:
    """Return the result of a response with this call."""
    turn = open_turn(ChatRequest({}, tools=(APPLY_PATCH,)), GuardPolicy(), request_id="r", nudge_text=True)
    assert turn is not None
    verdict = judge(turn, Reply(calls=(ToolCall("apply_patch", arguments, "c1"),), finish=finish))
    match verdict:
        case Accept(answer) if answer.calls:
            (call,) = answer.calls
            if call.arguments == arguments:
                return "as written"
            text = (call.args() or {}).get("input")
            # Whether the last line ends with a newline makes no difference to a patch.
            is_same = isinstance(text, str) and text.removesuffix("\n") == patch.removesuffix("\n")
            return "repaired" if is_same else "wrong"
        case Retry():
            return "retried"
        case _:
            return "wrong"


def measure(damages: Sequence[Damage] = DAMAGES) -> dict[str, Counter[Result]]:
    """Return the results of each damage by its name."""
    patches = make_patches()
    return {
        damage.name: Counter(
            judge_call(patch, damage.apply(patch, random.Random(number)), damage.finish)
            for number, patch in enumerate(patches)
        )
        for damage in damages
    }


def write_table(results: dict[str, Counter[Result]]) -> str:
    """Return the results as a Markdown table; a count of zero is an empty cell."""
    lines = ["| damage | as written | repaired | retried | wrong |", "|---|---|---|---|---|"]
    for name, counts in results.items():
        lines.append(f"| {name} | " + " | ".join(str(counts[one] or "") for one in RESULTS) + " |")
    total = sum(results.values(), Counter[Result]())
    lines.append(f"| **all {total.total()}** | " + " | ".join(f"**{total[one]}**" for one in RESULTS) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(write_table(measure()))
