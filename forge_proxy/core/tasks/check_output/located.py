"""Reads messages with a location: `path:line:col: message` of most tools, and `path(line,col): message` of tsc."""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_proxy.core.tasks.check_output.places import relative_path
from forge_proxy.core.tasks.findings import Finding

_COLON = re.compile(
    r"^\s*(?P<path>[^\s:()][^:()\n]*?):(?P<line>\d+)(?::(?P<column>\d+))?(?::|\s+-)\s+(?P<text>\S.*)$", re.MULTILINE
)
_PARENTHESES = re.compile(
    r"^(?P<path>[^\s:()][^:()\n]*)\((?P<line>\d+),(?P<column>\d+)\): (?P<text>\S.*)$", re.MULTILINE
)
_NOTE = re.compile(r"(?:note|info|hint)\b:? ?", re.IGNORECASE)
_SEVERITY = re.compile(r"(?:fatal )?(?:error|warning)\b[: ] *", re.IGNORECASE)
_CODE_AFTER = re.compile(r"\s*[\[(](?P<code>[a-zA-Z][\w./@-]*)[\])]\s*$")
_CODE_BEFORE = re.compile(r"(?P<code>[A-Z]{1,6}\d{1,5})[: ]\s*")


def read_located_findings(check: str, output: str, roots: Sequence[str]) -> Sequence[Finding]:
    """Return the messages about files of the repository, without notes."""
    matches = sorted((*_COLON.finditer(output), *_PARENTHESES.finditer(output)), key=lambda match: match.start())
    findings: dict[Finding, None] = {}
    for match in matches:
        path = relative_path(match["path"], roots)
        if path is None or _NOTE.match(match["text"]) or "." not in path.rpartition("/")[2]:
            continue
        text, code = _split_code(_SEVERITY.sub("", match["text"], count=1).strip())
        column = int(match["column"]) if match["column"] else None
        findings[Finding(check, text, path, int(match["line"]), column, code)] = None
    return list(findings)


def _split_code(text: str) -> tuple[str, str | None]:
    if match := _CODE_BEFORE.match(text):
        return text[match.end() :], match["code"]
    if match := _CODE_AFTER.search(text):
        return text[: match.start()], match["code"]
    return text, None
