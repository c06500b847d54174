"""Ablation presets that switch off single guardrails. The difference from `reforged` is that guardrail's effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import GuardPolicy, Switches
from forge_proxy.core.jsontypes import JsonObject, no_fields
from forge_proxy.core.workflow.definition import Workflow

Surface: TypeAlias = Literal["runner", "proxy"]
"""The measured loop: the built-in agent loop, or an external client's loop through the proxy."""
SURFACES: tuple[Surface, ...] = get_args(Surface)
_BOTH = frozenset(SURFACES)
_RUNNER: frozenset[Surface] = frozenset({"runner"})
_PROXY: frozenset[Surface] = frozenset({"proxy"})


@dataclass(frozen=True, slots=True)
class Ablation:
    """The enabled guardrails. `description` names what is off; `surfaces` are the affected surfaces."""

    name: str
    description: str
    rescue: bool = True
    validates: bool = True
    """Whether calls are validated and repaired before they reach a tool."""
    loops: bool = True
    repeats: bool = True
    """Whether a call that was already answered is retried."""
    early_end: bool = True
    """Whether a final answer before the tools that the user asked for were called is retried."""
    max_retries: int = 3
    steps: bool = True
    """Whether required steps and prerequisites are enforced."""
    max_tool_errors: int = 2
    compaction: bool = True
    respond: bool = True
    settings: JsonObject = field(default_factory=no_fields)
    """Settings of `guardrails` for what the header cannot switch off; on the proxy surface only."""
    surfaces: frozenset[Surface] = _BOTH

    @property
    def switches(self) -> Switches:
        """The guardrails of a single response."""
        switches = {
            "respond": self.respond,
            "rescue": self.rescue,
            "validate": self.validates,
            "retry": self.max_retries > 0,
            "loops": self.loops,
            "repeats": self.repeats,
            "early_end": self.early_end,
        }
        return Switches.model_validate(switches)

    @property
    def header(self) -> str:
        """The value of the header `x-forge-guardrails`."""
        on = [name for name, is_on in self.switches.model_dump(by_alias=True).items() if is_on]
        return ",".join(on) or "off"

    def apply_settings(self, policy: GuardPolicy) -> GuardPolicy:
        """Return the policy of the daemon that serves this preset."""
        return GuardPolicy.model_validate({**policy.model_dump(by_alias=True), **self.settings})

    def apply_to(self, workflow: Workflow) -> Workflow:
        """Return the workflow, without steps and prerequisites if they are off."""
        if self.steps:
            return workflow
        tools = {name: replace(tool, prerequisites=()) for name, tool in workflow.tools.items()}
        return replace(workflow, tools=tools, required_steps=())


_ALL = (
    Ablation("reforged", "nothing"),
    Ablation(
        "bare",
        "all of it: the first answer without a call ends the run, calls reach the tools as they were written, and the "
        "first tool that fails ends it too",
        rescue=False,
        validates=False,
        loops=False,
        repeats=False,
        early_end=False,
        max_retries=0,
        steps=False,
        max_tool_errors=0,
        compaction=False,
        respond=False,
    ),
    Ablation("no_rescue", "recovery of calls written as text", rescue=False),
    Ablation("no_nudge", "retries of responses without a valid call", max_retries=0),
    Ablation("no_steps", "enforcement of required steps and prerequisites", steps=False, surfaces=_RUNNER),
    Ablation(
        "no_recovery", "recovery from tool errors: the first one ends the run", max_tool_errors=0, surfaces=_RUNNER
    ),
    Ablation("no_compact", "compaction: a history over the budget ends the run", compaction=False, surfaces=_RUNNER),
    Ablation("no_respond", "the `respond` tool", respond=False, surfaces=_PROXY),
    Ablation(
        "v02",
        "what 0.2.0 did not have",
        repeats=False,
        early_end=False,
        settings={
            "terminal_tools": ["!*"],
            "constrain_retries": "never",
            "retry_temperature": "unset",
            "answer_grounding": "off",
        },
        surfaces=_PROXY,
    ),
    Ablation(
        "no_terminal_tools",
        "recognition of terminal tools",
        settings={"terminal_tools": ["!*"]},
        surfaces=_PROXY,
    ),
    Ablation("no_repeats", "retries of repeated calls", repeats=False, surfaces=_PROXY),
    Ablation("no_early_end", "retries of early ends", early_end=False, surfaces=_PROXY),
    Ablation("no_constrain", "constrained retries", settings={"constrain_retries": "never"}, surfaces=_PROXY),
    Ablation(
        "no_answer_grounding",
        "comparison of final answers with the results of tools",
        settings={"answer_grounding": "off"},
        surfaces=_PROXY,
    ),
    Ablation("always_constrain", "unconstrained retries", settings={"constrain_retries": "always"}, surfaces=_PROXY),
)
PRESETS: Mapping[str, Ablation] = {one.name: one for one in _ALL}


def select_presets(names: Iterable[str], surfaces: Sequence[Surface]) -> Sequence[tuple[Surface, Ablation]]:
    """Return the named presets with each surface that they affect; `all` selects all presets.

    Raises `InvalidRequest` for an unknown name, or for a preset that affects none of the surfaces.
    """
    found: list[tuple[Surface, Ablation]] = []
    for name in names:
        if name != "all" and name not in PRESETS:
            raise InvalidRequest("ablation", f"no preset {name!r}; available: all, {', '.join(PRESETS)}")
        meant = _ALL if name == "all" else (PRESETS[name],)
        cells: list[tuple[Surface, Ablation]] = [
            (surface, one) for surface in surfaces for one in meant if surface in one.surfaces
        ]
        if not cells:
            other = ", ".join(PRESETS[name].surfaces)
            raise InvalidRequest(
                "ablation", f"{name} changes nothing on the surface {', '.join(surfaces)}: it is for {other}"
            )
        found += [cell for cell in cells if cell not in found]
    return found


def select_surfaces(names: Iterable[str]) -> Sequence[Surface]:
    """Return the named surfaces. Raises `InvalidRequest` for an unknown name."""
    found: list[Surface] = []
    for name in names:
        match name:
            case "runner" | "proxy":
                found.append(name)
            case _:
                raise InvalidRequest("surface", f"no surface {name!r}; available: {', '.join(SURFACES)}")
    return found
