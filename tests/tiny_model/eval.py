"""Measure a GGUF file in llama.cpp's server: its first tries and its corrected ones.

    python -m tests.tiny_model.eval [--words plain] [--model FILE.gguf] [--count 200] [--server llama-server]

Without --server it runs the server of the package xllamacpp in this process. On held-out requests, "formal" as
conversations.py says them or "plain" as scenarios.py does, it counts the valid and the right calls on the first
try and after up to three tries with a correction in between: once with `tools` in the request ("native"), once
with the tools told in the system message and the call read from the text ("prompt"). Before that it checks that
the file's chat template makes the text of the training.
Nothing of forge_proxy takes part: this is what the model does by itself.
"""
# ruff: noqa: T201  a command line prints

import argparse
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never, cast

from tests.tiny_model.conversations import (
    Call,
    HeldoutJson,
    MessageJson,
    ParamJson,
    ToolCallJson,
    ToolJson,
    Value,
    heldout_cases,
    read_call_text,
)
from tests.tiny_model.scenarios import heldout_turns

SHIPPED = "forge_proxy/backends/llama_server/models/tiny-tools-q8_0.gguf"
TYPES = {"string": str, "integer": int, "boolean": bool}
Mode = Literal["native", "prompt"]
MODES: tuple[Mode, ...] = ("native", "prompt")
Sampling = Mapping[str, float]
SAMPLINGS: tuple[Sampling, ...] = (
    {"temperature": 0},
    {"temperature": 0.8},
    {"temperature": 1.0},
    {"temperature": 1.0, "top_k": 0, "top_p": 1, "min_p": 0},
)
TRIES = 3
MAX_TOKENS = 160
CONTEXT = 2048
START_SECONDS = 60


# --- the server ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """The server answered with an HTTP error."""

    status: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, and what it took."""

    message: MessageJson
    finish: str
    tokens: int
    ms: float


def post(address: str, path: str, body: Mapping[str, object]) -> dict[str, object] | Refused:
    """The reply's JSON."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        error.close()
        return Refused(error.code)


def ask(address: str, body: Mapping[str, object]) -> Answer | Refused:
    """One chat completion."""
    reply = post(address, "/v1/chat/completions", body)
    if isinstance(reply, Refused):
        return reply
    [choice] = cast("list[dict[str, object]]", reply["choices"])
    timings = cast("dict[str, float]", reply["timings"])
    message = cast("MessageJson", choice["message"])
    return Answer(message, str(choice["finish_reason"]), int(timings["predicted_n"]), timings["predicted_ms"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server_in_process(model: Path, threads: int) -> Generator[str]:
    """The address of xllamacpp's server; it ends when nothing holds it any more."""
    import xllamacpp  # here, so that --server does without the package

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel, params.use_jinja = CONTEXT, 1, True
    params.cpuparams.n_threads = threads
    params.port = free_port()
    params.verbosity = -1  # else a dozen lines a request
    server = xllamacpp.Server(params)
    yield server.listening_address


@contextmanager
def server_process(binary: str, model: Path, threads: int) -> Generator[str]:
    """The address of a llama-server of our own."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    sizes = ["-c", str(CONTEXT), "-np", "1", "-t", str(threads)]
    process = subprocess.Popen(
        [binary, "-m", str(model), "--jinja", *sizes, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_healthy(address, process)
        yield address
    finally:
        process.terminate()
        process.wait()


def wait_until_healthy(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address + "/health"):
                return
        except OSError as exc:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the server did not start") from exc
            time.sleep(0.01)


# --- judging one answer ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a call is not valid, and what the model is told about it."""

    kind: Literal["bad name", "bad arguments"]
    told: str


def find_problem(call: Call, tools: Sequence[ToolJson]) -> Problem | None:
    """What is wrong with the call, if anything."""
    name, args = call.name, call.args
    tool = next((tool["function"] for tool in tools if tool["function"]["name"] == name), None)
    if tool is None:
        return Problem("bad name", f"[UnknownTool] {name}. Call one of: {names_of(tools)}.")
    properties, required = tool["parameters"]["properties"], tool["parameters"]["required"]
    missing = set(required) - set(args)
    if missing or any(arg not in properties or not fits(value, properties[arg]) for arg, value in args.items()):
        return Problem("bad arguments", f"[ToolError] Invalid arguments for {name}. Fix the call and retry.")
    return None


def fits(value: Value, schema: ParamJson) -> bool:
    return type(value) is TYPES[schema["type"]] and ("enum" not in schema or value in schema["enum"])


def names_of(tools: Sequence[ToolJson]) -> str:
    return ", ".join(tool["function"]["name"] for tool in tools)


def tools_text(tools: Sequence[ToolJson]) -> str:
    """The tools as the chat template tells them, for prompt mode."""
    lines = ["Tools:"]
    for function in (tool["function"] for tool in tools):
        required = function["parameters"]["required"]
        args = ",".join(
            f'"{name}":"{"|".join(schema.get("enum", [])) or schema["type"]}{"" if name in required else "?"}"'
            for name, schema in function["parameters"]["properties"].items()
        )
        lines.append(f'{{"name":"{function["name"]}","args":{{{args}}},"about":"{function["description"]}"}}')
    return "\n".join(lines)


def as_prompt_mode(messages: Sequence[MessageJson], tools: Sequence[ToolJson]) -> list[MessageJson]:
    """The same conversation with the tools in the system message and calls as text."""
    system = tools_text(tools)
    out: list[MessageJson] = []
    for message in messages:
        match message:
            case {"role": "system", "content": content}:
                system = f"{content}\n{system}"
            case {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}:
                call = json.dumps({"name": name, "arguments": json.loads(arguments)})
                out.append({"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"})
            case _:
                out.append(message)
    return [{"role": "system", "content": system}, *out]


def read_call(message: MessageJson) -> Call | None:
    """The call in `tool_calls` or, failing that, in the text."""
    try:
        if calls := message.get("tool_calls"):
            function = calls[0]["function"]
            return Call(function["name"], json.loads(function["arguments"]))
        made = read_call_text((message.get("content") or "").strip())
    except (TypeError, KeyError, ValueError):
        return None
    return made.call if made else None


def kind_of(message: MessageJson) -> str:
    """What an answer without a call looks like."""
    text = message.get("content") or ""
    marks = {
        "```": "fence",
        "[TOOL_CALLS]": "[TOOL_CALLS]",
        "[ARGS]": "[ARGS]",
        "<tool_call>": "broken JSON",
    }
    for mark, kind in marks.items():
        if mark in text:
            return kind
    if message.get("reasoning_content") and not text:
        return "unclosed think"
    return "text" if text else "empty"


# --- measuring ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer to one case; `fault` is None for a valid call."""

    fault: str | None
    right_tool: bool = False
    right: bool = False
    tokens: int = 0
    ms: float = 0.0


HITS: Mapping[str, Callable[[Attempt], bool]] = {
    "valid": lambda attempt: attempt.fault is None,
    "right tool": lambda attempt: attempt.right_tool,
    "right": lambda attempt: attempt.right,
}


def wanted_call(case: HeldoutJson) -> Call:
    made = read_call_text(case["answer"])
    if made is None:
        raise ValueError("this case is not answered by a call")
    return made.call


def judge(answer: Answer | Refused, case: HeldoutJson) -> tuple[Attempt, MessageJson]:
    """How good the answer is, and what to say to it."""
    told: MessageJson = {
        "role": "user",
        "content": f"That was not a valid tool call. Call one of: {names_of(case['tools'])}.",
    }
    if isinstance(answer, Refused):
        return Attempt(f"HTTP {answer.status}"), told
    call = read_call(answer.message)
    if call is None:
        return Attempt(kind_of(answer.message), tokens=answer.tokens, ms=answer.ms), told
    if problem := find_problem(call, case["tools"]):
        told = {"role": "tool", "tool_call_id": "x", "content": problem.told}
        return Attempt(problem.kind, tokens=answer.tokens, ms=answer.ms), told
    wanted = wanted_call(case)
    return Attempt(None, call.name == wanted.name, call == wanted, answer.tokens, answer.ms), told


def shown_again(answer: Answer | Refused) -> list[MessageJson]:
    """The assistant's turn as the next request repeats it, unless there is nothing to repeat."""
    if isinstance(answer, Refused):
        return []
    content: str = answer.message.get("content") or ""
    calls: list[ToolCallJson] = answer.message.get("tool_calls") or []
    if calls:
        return [{"role": "assistant", "content": content, "tool_calls": calls}]
    return [{"role": "assistant", "content": content}] if content else []


def attempts_at(address: str, case: HeldoutJson, mode: Mode, sampling: Sampling, first_seed: int) -> list[Attempt]:
    """Up to three tries, the last of them valid or the third."""
    match mode:
        case "native":
            body: dict[str, object] = {"max_tokens": MAX_TOKENS, **sampling, "tools": case["tools"]}
            messages = case["messages"]
        case "prompt":
            body = {"max_tokens": MAX_TOKENS, **sampling}
            messages = as_prompt_mode(case["messages"], case["tools"])
        case _:
            assert_never(mode)
    attempts: list[Attempt] = []
    for number in range(TRIES):
        answer = ask(address, {**body, "messages": messages, "seed": first_seed + number})
        attempt, told = judge(answer, case)
        attempts.append(attempt)
        if attempt.fault is None:
            break
        messages = [*messages, *shown_again(answer), told]
    return attempts


def share(hits: Sequence[bool]) -> str:
    return f"{sum(hits) / max(1, len(hits)):.1%}"


def measure(address: str, cases: Sequence[HeldoutJson], mode: Mode, sampling: Sampling) -> None:
    """Print the shares of valid and right calls, by the number of tries."""
    made = [attempts_at(address, case, mode, sampling, 1000 * number + 1) for number, case in enumerate(cases)]
    every = [attempt for attempts in made for attempt in attempts]
    print(f"{mode:7} {json.dumps(sampling)}")
    for what, hit in HITS.items():
        shares = [share([any(map(hit, attempts[:n])) for attempts in made]) for n in range(1, TRIES + 1)]
        print(f"   {what} by the first, second, third try: {', '.join(shares)}")
    for group in sorted({case["group"] for case in cases}):
        some = [a[0] for a, case in zip(made, cases, strict=True) if case["group"] == group]
        right_tool, right = share([one.right_tool for one in some]), share([one.right for one in some])
        print(f"   first try, {group} ({len(some)}): right tool {right_tool}, right {right}")
    faults = Counter(attempts[0].fault for attempts in made if attempts[0].fault)
    speed = sum(attempt.tokens for attempt in every) / max(1, sum(attempt.ms for attempt in every)) * 1000
    print(f"   first tries not valid: {dict(faults.most_common())}; {speed:.0f} tokens/s")


def measure_required(address: str, cases: Sequence[HeldoutJson]) -> None:
    """Print what `tool_choice: "required"` brings at temperature 1."""
    kinds: Counter[str] = Counter()
    for number, case in enumerate(cases):
        body = {"messages": case["messages"], "tools": case["tools"], "tool_choice": "required"}
        answer = ask(address, {**body, "temperature": 1.0, "seed": number, "max_tokens": MAX_TOKENS})
        if isinstance(answer, Refused):
            kinds[f"HTTP {answer.status}"] += 1
        else:
            kind = "tool call" if answer.message.get("tool_calls") else kind_of(answer.message)
            kinds[f"{kind} ({answer.finish})"] += 1
    print(f"tool_choice required, {len(cases)} first tries: {dict(kinds.most_common())}")


def check_template(address: str, cases: Sequence[HeldoutJson]) -> None:
    """Print for how many conversations the server's template makes the text that the training used."""
    same = 0
    for case in cases:
        reply = post(address, "/apply-template", {"messages": case["messages"], "tools": case["tools"]})
        same += not isinstance(reply, Refused) and reply.get("prompt") == case["prompt"]
    print(f"template agrees on {same} of {len(cases)} conversations")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="a llama-server program, instead of xllamacpp")
    parser.add_argument("--model", type=Path, default=Path(__file__).parents[2] / SHIPPED)
    parser.add_argument("--words", choices=["formal", "plain"], default="formal", help="which held-out set")
    parser.add_argument("--heldout", type=int, default=400, help="size of the held-out set")
    parser.add_argument("--seed", type=int, default=0, help="of the held-out set")
    parser.add_argument("--count", type=int, default=200, help="first tries to measure, at most")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    model: Path = args.model
    cases = list({"formal": heldout_cases, "plain": heldout_turns}[args.words](args.heldout, args.seed))
    calls = [case for case in cases if not case["mistakes"] and case["answer"].startswith("<tool_call>")]
    calls = calls[: args.count]
    begin = time.monotonic()
    with (
        server_process(args.server, model, args.threads) if args.server else server_in_process(model, args.threads)
    ) as address:
        print(f"{model.name}: {model.stat().st_size} bytes, ready in {time.monotonic() - begin:.2f} s")
        check_template(address, cases[:200])
        print(f"{len(calls)} held-out first tries")
        for sampling in SAMPLINGS:
            for mode in MODES:
                measure(address, calls, mode, sampling)
        measure_required(address, calls[:100])


if __name__ == "__main__":
    main()
