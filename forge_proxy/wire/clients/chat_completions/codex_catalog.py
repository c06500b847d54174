"""Encodes the model catalog that Codex requests with `/v1/models?client_version=…`.

With a catalog Codex knows the context window, compacts in time, and offers `apply_patch` as a tool with a grammar. It
ignores a catalog in which any required field of any model is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

INSTRUCTIONS = """\
You are Codex, a coding agent. You work in the user's workspace through tools, until the task is done.

- Read the files that concern the task before you change anything, and search with `rg` if it is installed.
- Follow the instructions in AGENTS.md files: each applies to its folder and the folders below it.
- Make the smallest change that solves the cause of the problem, in the style of the code around it.
- Never revert changes that you did not make, and never commit unless the user asks for it.
- Run the tests or the program after a change. Report honestly what you ran and what failed.
- End with a short answer: what you changed, in which files, and what is left to do.

Change files with `apply_patch`. Its input is the patch as plain text, without quotes, fence or JSON around it:

*** Begin Patch
*** Update File: src/app.py
@@ def greet():
     name = "world"
-    print("Hi")
+    print(f"Hello, {name}")
*** Add File: notes.txt
+Each line of a new file begins with a plus sign.
*** Delete File: old.txt
*** End Patch

Each line of an update begins with a space (unchanged), `-` (removed) or `+` (added), followed by the line itself.
Quote about three unchanged lines before and after a change, exactly as they are in the file. Begin each separate
place with a line `@@`, if need be with the function or class that contains it. `*** Move to: new/path.py` after the
line `*** Update File: …` renames the file. Paths are relative.
"""
"""The system prompt of a catalog's models: Codex requires one, and sends it in place of its own."""
_TOOL_OUTPUT_BYTES = 10_000
"""The bytes of a tool's output that Codex keeps, as for models that it does not know."""


def encode_codex_catalog(cards: Sequence[ModelCard]) -> list[Json]:
    """Return an entry for each name of each model; aliases are not listed in Codex's model picker."""
    entries: list[Json] = []
    for priority, card in enumerate(cards):
        entries.append(_encode(card, card.id, priority, "list"))
        aliases = card.details.get("aliases")
        names = [one for one in aliases if isinstance(one, str) and one != card.id] if is_list(aliases) else []
        entries += [_encode(card, name, priority, "hide") for name in names]
    return entries


def _encode(card: ModelCard, name: str, priority: int, visibility: str) -> JsonObject:
    entry: dict[str, Json] = {
        "slug": name,
        "display_name": name,
        "description": None,
        "supported_reasoning_levels": [],
        "shell_type": "default",
        "visibility": visibility,
        "supported_in_api": True,
        "priority": priority,
        "upgrade": None,
        "base_instructions": INSTRUCTIONS,
        "supports_reasoning_summaries": False,
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform",
        "truncation_policy": {"mode": "bytes", "limit": _TOOL_OUTPUT_BYTES},
        "supports_parallel_tool_calls": True,
        "experimental_supported_tools": [],
    }
    if card.window is not None:
        entry |= {"context_window": card.window, "max_context_window": card.window}
    modalities = _input_modalities(card.details)
    return {**entry, "input_modalities": [*modalities]} if modalities else entry


def _input_modalities(details: JsonObject) -> tuple[str, ...]:
    """Return the modalities of a model; empty if its server does not report them, which allows images."""
    known = details.get("capabilities")
    if is_object(architecture := details.get("architecture")):
        known = architecture.get("input_modalities", known)
    if not is_list(known):
        return ()
    return ("text", "image") if {"multimodal", "vision", "image"} & {*map(str, known)} else ("text",)
