"""Presets that switch single guardrails off: the difference to `reforged` is what that guardrail is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.guardrails import Switches
from forge_proxy.core.workflow.definition import Workflow

Surface: TypeAlias = Literal["runner", "proxy"]
"""What is measured: our own loop, or a harness' loop before the proxy."""
SURFACES: tuple[Surface, ...] = get_args(Surface)
_BOTH = frozenset(SURFACES)
_RUNNER: frozenset[Surface] = frozenset({"runner"})
_PROXY: frozenset[Surface] = frozenset({"proxy"})


@dataclass(frozen=True, slots=True)
class Ablation:
    """Which guardrails are left. `description` says what is off; `surfaces` are those where that changes anything."""

    name: str
    description: str
    rescue: bool = True
    validates: bool = True
    """Whether calls are checked and mended before they reach a tool."""
    loops: bool = True
    max_retries: int = 3
    steps: bool = True
    """Whether required steps and prerequisites are insisted on."""
    max_tool_errors: int = 2
    compaction: bool = True
    respond: bool = True
    surfaces: frozenset[Surface] = _BOTH

    @property
    def switches(self) -> Switches:
        """The guardrails of a single answer."""
        said = {
            "respond": self.respond,
            "rescue": self.rescue,
            "validate": self.validates,
            "retry": self.max_retries > 0,
            "loops": self.loops,
        }
        return Switches.model_validate(said)

    @property
    def header(self) -> str:
        """The value of `x-forge-guardrails` that says so."""
        on = [name for name, is_on in self.switches.model_dump(by_alias=True).items() if is_on]
        return ",".join(on) or "off"

    def applied(self, workflow: Workflow) -> Workflow:
        """The workflow as the runner is given it."""
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
)
PRESETS: Mapping[str, Ablation] = {one.name: one for one in _ALL}


def chosen_presets(names: Iterable[str], surfaces: Sequence[Surface]) -> Sequence[tuple[Surface, Ablation]]:
    """The presets of these names, on each surface on which they change anything; `all` are all of them.

    Raises `InvalidRequest` for a name that is none, or that changes nothing on any of the surfaces.
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


def chosen_surfaces(names: Iterable[str]) -> Sequence[Surface]:
    """The surfaces of these names. Raises `InvalidRequest` for one that is none."""
    found: list[Surface] = []
    for name in names:
        match name:
            case "runner" | "proxy":
                found.append(name)
            case _:
                raise InvalidRequest("surface", f"no surface {name!r}; available: {', '.join(SURFACES)}")
    return found
