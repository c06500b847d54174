"""Each fault is on the connection what its description says."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness.backend import Exchange, ScriptedModel
from tests.harness.faults import FAULTS, GROUPS
from tests.harness.faults.calls import DEEP, REPEATS
from tests.harness.mistakes import PLAIN, RIGHT
from tests.harness.server import ScriptedServer
from tests.harness.tasks import JsonDict, ReadThenPatch, ReadThenWrite
from tests.harness.test_cells import TOOLS


class Conversation:
    """A client that runs each call that it gets, valid or not."""

    def __init__(self, work: Path, fault: str, *, stream: bool) -> None:
        self.task = ReadThenWrite(work)
        self.task.prepare()
        self.model = ScriptedModel(self.task, FAULTS[fault])
        self._asked: JsonDict = {"messages": [], "tools": TOOLS, "stream": stream}

    def ask(self) -> Exchange:
        return self.model.answer({**self._asked, "messages": [*self._asked["messages"]]})

    def read(self) -> None:
        self._add("tool", (self.task.work / "hello.py").read_text())

    def write(self) -> None:
        (self.task.work / "greeting.txt").write_text(self.task.greeting)
        self._add("tool", "written")

    def _add(self, role: str, content: str) -> None:
        self._asked["messages"].append({"role": role, "content": content})


@pytest.mark.parametrize(
    "name", [fault.name for fault in FAULTS.values() if fault.name not in (RIGHT, PLAIN) and not fault.only_for]
)
def test_each_fault_is_made_in_streams_or_whole_responses(tmp_path: Path, name: str) -> None:
    talks = [Conversation(tmp_path, name, stream=stream) for stream in (True, False)]
    for talk in talks:
        talk.ask()
        talk.read()
        talk.ask()
        talk.write()
        talk.ask()
        talk.ask()

    assert sum(talk.model.made for talk in talks) > 0


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("patch without end", "*** Begin Patch\n*** Add File: greeting.txt\n+hello from the file"),
        ("patch in a fence", "```diff\n{patch}\n```"),
        ("patch in a heredoc", "apply_patch <<'EOF'\n{patch}\nEOF"),
        ("patch in JSON", '{"input": "{escaped}"}'),
        (
            "patch with a wrong prefix",
            "*** Begin Patch\n*** Add File: greeting.txt\n> hello from the file\n*** End Patch",
        ),
    ],
)
def test_a_patch_arrives_broken_once_and_right_when_asked_again(tmp_path: Path, name: str, sent: str) -> None:
    task = ReadThenPatch(tmp_path)
    patch = {"name": "apply_patch", "parameters": {"properties": {"patch": {"type": "string"}}}}
    shell = {"name": "exec_command", "parameters": {"properties": {"cmd": {"type": "string"}}}}
    tools = [{"type": "function", "function": function} for function in (shell, patch)]
    model = ScriptedModel(task, FAULTS[name])
    asked = {"messages": [{"role": "tool", "content": task.greeting}], "tools": tools}

    patches = [json.loads(model.answer(asked).said.calls[0][1])["patch"] for _ in range(2)]

    assert patches[0] == sent.replace("{patch}", patches[1]).replace("{escaped}", patches[1].replace("\n", "\\n"))
    assert patches[1].endswith("+hello from the file\n*** End Patch")


def test_no_two_faults_have_the_same_name() -> None:
    assert len(FAULTS) == sum(len(group) for group in GROUPS.values())


@pytest.mark.parametrize("name", [fault.name for fault in GROUPS["stream"] if fault.name not in ("CRLF", "one write")])
def test_a_stream_in_another_shape_still_says_the_same(tmp_path: Path, name: str) -> None:
    exchange = Conversation(tmp_path, name, stream=True).ask()
    events = [json.loads(piece[6:]) for piece in exchange.response.pieces if piece != b"data: [DONE]\n\n"]

    arguments = ""
    tool = ""
    for choice in [choice for event in events for choice in event["choices"]]:
        for call in choice["delta"].get("tool_calls") or []:
            arguments += call["function"].get("arguments", "")
            part = call["function"].get("name", "")
            tool += "" if part == tool else part

    assert ((tool, arguments),) == exchange.said.calls


def test_after_its_last_answer_a_model_repeats_its_first_call_for_ever(tmp_path: Path) -> None:
    talk = Conversation(tmp_path, "repeats when retried", stream=False)
    first = talk.ask().said.calls
    talk.read()
    talk.ask()
    talk.write()

    assert talk.ask().said.text == talk.task.answer
    assert [_calls(talk.ask()) for _ in range(3)] == [_names(first)] * 3


def test_a_loop_comes_to_its_end(tmp_path: Path) -> None:
    talk = Conversation(tmp_path, "loop", stream=False)
    talk.ask()
    talk.read()

    assert [_calls(talk.ask())[0][0] for _ in range(REPEATS + 1)] == ["read"] * REPEATS + ["write"]


def _calls(exchange: Exchange) -> list[tuple[str, JsonDict]]:
    return _names(exchange.said.calls)


def _names(calls: tuple[tuple[str, str], ...]) -> list[tuple[str, JsonDict]]:
    return [(name, json.loads(arguments)) for name, arguments in calls]


class Got:
    """The response on a connection of its own; `status` is None if there was none."""

    def __init__(self, url: str, body: JsonDict) -> None:
        self.status: int | None = None
        self.kind: str | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_cut = False
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            self.status, self.kind, self.headers = (
                response.status,
                response.getheader("Content-Type"),
                dict(response.headers),
            )
            self.body = response.read()
        except http.client.IncompleteRead as exc:
            self.body, self.is_cut = exc.partial, True
        except http.client.RemoteDisconnected:
            return
        finally:
            connection.close()


WRITTEN: Sequence[tuple[str, bool, Callable[[Got], bool]]] = (
    ("none", True, lambda got: got.kind == "text/event-stream" and got.body.endswith(b"data: [DONE]\n\n")),
    ("no content type", True, lambda got: got.kind is None and got.body.startswith(b"data: {")),
    ("no content type", False, lambda got: got.kind is None and got.body.startswith(b"{")),
    ("text/plain", True, lambda got: got.kind == "text/plain"),
    ("JSON to stream", True, lambda got: got.kind == "application/json" and got.body.startswith(b"{")),
    ("stream to whole", False, lambda got: got.kind == "text/event-stream"),
    ("no response", True, lambda got: got.status is None),
    ("cut in arguments", True, lambda got: got.is_cut and b"arguments" in got.body and b"DONE" not in got.body),
    ("cut in text", False, lambda got: got.is_cut and got.body.startswith(b"{")),
    ("error first", True, lambda got: got.status == 200 and got.body.startswith(b'data: {"error": ')),
    ("error in text", True, lambda got: got.body.count(b'data: {"error": ') == 1 and b"content" in got.body),
    ("plain error", True, lambda got: b"event: error\ndata: {" in got.body),
    ("CRLF", True, lambda got: b"}\r\n\r\ndata: [DONE]\r\n\r\n" in got.body),
    ("no DONE", True, lambda got: b"DONE" not in got.body and not got.is_cut),
    ("deep response", False, lambda got: got.body.count(b'{"a": ') == DEEP),
    ("429", False, lambda got: got.status == 429 and got.headers["Retry-After"] == "2"),
    ("502 HTML", True, lambda got: got.status == 502 and got.kind == "text/html"),
    ("204", True, lambda got: got.status == 204 and got.body == b""),
    ("302", True, lambda got: got.status == 302 and got.headers["Location"] == "/elsewhere"),
    ("999", True, lambda got: got.status == 999),
)


@pytest.mark.parametrize(("fault", "stream", "holds"), WRITTEN)
def test_what_is_written_on_the_connection(
    tmp_path: Path, fault: str, stream: bool, holds: Callable[[Got], bool]
) -> None:
    talk = Conversation(tmp_path, fault, stream=stream)
    with ScriptedServer() as server, server.serving(talk.model):
        assert holds(Got(server.url, {"messages": [], "tools": TOOLS, "stream": stream}))
