"""Broken patches of Codex: the text that small models put around a patch, and an invalid line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from tests.fakes.says import Said
from tests.harness.fault import Ask, Fault, first_call, right
from tests.harness.tasks import Call

_END = "\n*** End Patch"


def _without_end(patch: str) -> str:
    return patch.removesuffix(_END)


def _in_fence(patch: str) -> str:
    return f"```diff\n{patch}\n```"


def _in_heredoc(patch: str) -> str:
    return f"apply_patch <<'EOF'\n{patch}\nEOF"


def _in_json(patch: str) -> str:
    return json.dumps({"input": patch})


def _wrong_prefix(patch: str) -> str:
    return patch.replace("\n+", "\n> ")


def _broken(name: str, sentence: str, change: Callable[[str], str]) -> Fault:
    def say(call: Call, _: Ask) -> Said | None:
        if call.tool != "apply_patch":
            return None
        return right(replace(call, args={key: change(patch) for key, patch in call.args.items()}))

    return Fault(name, sentence, first_call(say), must_be_done=True, only_for=("codex",))


FAULTS = (
    _broken("patch without end", "the line `*** End Patch` is missing", _without_end),
    _broken("patch in a fence", "a code fence around the patch", _in_fence),
    _broken("patch in a heredoc", "the shell command that would apply the patch", _in_heredoc),
    _broken("patch in JSON", "a JSON object around the patch", _in_json),
    _broken("patch with a wrong prefix", "a line of the new file begins with `>` instead of `+`", _wrong_prefix),
)
