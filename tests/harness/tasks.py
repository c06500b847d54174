"""The tasks of the clients: the files in the folder, the right response of the model at each point, and a check of the
effects.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

JsonDict = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of one of the client's tools."""

    tool: str
    args: JsonDict


Move: TypeAlias = Call | str
"""What a model does: call a tool, or return text."""


class Task(ABC):
    """A task in the folder `work`, for one conversation of one client."""

    prompt: str

    def __init__(self, work: Path) -> None:
        self.work = work

    @abstractmethod
    def prepare(self) -> None:
        """Write the files of the task into the folder."""

    @abstractmethod
    def next_move(self, body: JsonDict) -> Move | None:
        """Return the right response to this request; None for one that is not part of the task, such as a request for a
        title.
        """

    def results(self, body: JsonDict) -> list[JsonDict]:
        """The results of calls in this request."""
        return [message for message in body["messages"] if message["role"] == "tool"]

    @abstractmethod
    def lacks(self, printed: str) -> str | None:
        """Return the part of the task that was not done when the client had ended; None if all of it was."""


class ReadThenWrite(Task):
    """Two tool calls and an answer: read hello.py, write its output into greeting.txt."""

    prompt = "Read hello.py here, write what it prints into greeting.txt here, and tell me when it is done."
    greeting = "hello from the file"
    answer = "greeting.txt holds the greeting."

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        self._read = False
        self._reported = False

    def prepare(self) -> None:
        (self.work / "hello.py").write_text(f'print("{self.greeting}")\n')

    def next_move(self, body: JsonDict) -> Move | None:
        calls = self._calls({tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []})
        if calls is None:
            return None
        read, write = calls
        results = self.results(body)
        if not any(self.greeting in json.dumps(result["content"]) for result in results):
            return read
        self._read = True
        if not self._written():
            return write
        self._reported = self._reported or len(results) > 1
        return self._last_move()

    def _calls(self, tools: dict[str, JsonDict]) -> tuple[Call, Call] | None:
        """Return the calls that read and write with these tools; None if there are no such tools."""
        reader, writer = (next((name for name in tools if _means(name, verb)), None) for verb in _VERBS)
        if reader is None or writer is None:
            return None
        read = Call(reader, {_path_of(tools[reader]): str(self.work / "hello.py")})
        path = _path_of(tools[writer])
        return read, Call(writer, {path: str(self.work / "greeting.txt"), "content": self.greeting})

    def _last_move(self) -> Move:
        return self.answer

    def lacks(self, printed: str) -> str | None:
        if not self._read:
            return "hello.py not read"
        if not self._written():
            return "greeting.txt not written"
        if not self._reported:
            return "result of the second call not sent"
        return None if self.answer in printed else "answer not shown"

    def _written(self) -> bool:
        file = self.work / "greeting.txt"
        return file.exists() and file.read_text().strip() == self.greeting


class ReadThenWriteByShell(ReadThenWrite):
    """The same with the only tool `bash`, which also ends the task: the client accepts no plain-text response."""

    def _calls(self, tools: dict[str, JsonDict]) -> tuple[Call, Call] | None:
        if "bash" not in tools:
            return None
        read, written = self.work / "hello.py", self.work / "greeting.txt"
        return self._bash(f"cat {read}"), self._bash(f"echo '{self.greeting}' > {written}; echo written")

    def _last_move(self) -> Move:
        return self._bash(f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{self.answer}'")

    def _bash(self, command: str) -> Call:
        return Call("bash", {"command": command})


class ReadThenPatch(ReadThenWrite):
    """The same with a shell for reading and a patch in plain text for writing, as Codex offers them."""

    def _calls(self, tools: dict[str, JsonDict]) -> tuple[Call, Call] | None:
        if not {"exec_command", "apply_patch"} <= tools.keys():
            return None
        parameter = next(iter(tools["apply_patch"]["parameters"]["properties"]))
        return Call("exec_command", {"cmd": "cat hello.py"}), Call("apply_patch", {parameter: self.patch()})

    def patch(self) -> str:
        """The patch that does the task."""
        return f"*** Begin Patch\n*** Add File: greeting.txt\n+{self.greeting}\n*** End Patch"


class ReadByShellThenWrite(ReadThenWrite):
    """The same with a shell for reading and a tool that writes files."""

    def _calls(self, tools: dict[str, JsonDict]) -> tuple[Call, Call] | None:
        if not {"shell", "write"} <= tools.keys():
            return None
        written = {"path": str(self.work / "greeting.txt"), "content": self.greeting}
        return Call("shell", {"command": f"cat {self.work / 'hello.py'}"}), Call("write", written)


class ReadThenWriteByEditor(ReadThenWrite):
    """The same with a tool that reads several files and one that edits or creates a file."""

    def _calls(self, tools: dict[str, JsonDict]) -> tuple[Call, Call] | None:
        if not {"read_files", "editor"} <= tools.keys():
            return None
        read = Call("read_files", {"files": [{"path": str(self.work / "hello.py")}]})
        return read, Call("editor", {"path": str(self.work / "greeting.txt"), "new_text": self.greeting})


class ReadThenWriteThenFinalAnswer(ReadThenWrite):
    """The same for a client that ends with its tool `final_answer`, and reports results as user messages."""

    def results(self, body: JsonDict) -> list[JsonDict]:
        return [message for message in body["messages"][2:] if message["role"] == "user"]

    def _last_move(self) -> Move:
        return Call("final_answer", {"answer": self.answer})


class ExtractTwo(Task):
    """Two extractions: the client requires the parameters of one named tool and runs nothing."""

    prompt = "Ada is thirty-six years old.\nBob has turned forty-one."
    people: ClassVar = {"Ada": 36, "Bob": 41}

    def prepare(self) -> None:
        return

    def next_move(self, body: JsonDict) -> Move | None:
        asked = json.dumps(body["messages"])
        name = next(name for name in self.people if name in asked)
        return Call("Person", {"name": name, "age": self.people[name]})

    def lacks(self, printed: str) -> str | None:
        missing = [name for name, age in self.people.items() if f"{name} is {age}" not in printed]
        return f"{' and '.join(missing)} not extracted" if missing else None


class EditFile(Task):
    """One edit, requested and returned as text: the client sends no tools."""

    prompt = "Let hello.py print a farewell."
    code = 'print("farewell")\n'

    def prepare(self) -> None:
        (self.work / "hello.py").write_text('print("hello")\n')

    def next_move(self, body: JsonDict) -> Move | None:
        return f"Here it is.\n\nhello.py\n```\n{self.code}```\n"

    def lacks(self, printed: str) -> str | None:
        return None if (self.work / "hello.py").read_text() == self.code else "hello.py not edited"


_VERBS = ("read", "write")


def _means(name: str, verb: str) -> bool:
    return name.lower() in (verb, f"{verb}_file")


def _path_of(function: JsonDict) -> str:
    """Return the tool's parameter for the path of the file, whatever its name."""
    return next(name for name in function["parameters"]["properties"] if "path" in name.lower())
