"""What is kept of a run: a line of the results file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.jsontypes import Json
from forge_proxy.evals.ablation import Surface

Strategy: TypeAlias = Literal["tiered", "sliding", "none"]


class EvalConfiguration(BaseModel):
    """All that makes one series of runs what it is. Two series with equal values are the same one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    backend: str
    """Its kind, as `embedded`."""
    mode: str = "auto"
    """How the model is told of tools: `native`, `prompt` or `auto`."""
    surface: Surface = "runner"
    ablation: str = "reforged"
    stream: bool = False
    think: bool | None = None
    """None leaves it to the model."""
    tool_choice: Literal["auto", "any"] = "auto"
    """`any`: the model server is told with each request that a call is wanted."""
    temperature: float | None = None
    seed: int = 0
    """Of run 0; each run after it has the next one."""
    max_tokens: int | None = None
    strategy: Strategy = "tiered"
    budget_tokens: int | None = None
    """In place of the scenarios' own; None leaves them theirs."""
    context: int | None = None
    """What the model server was told to give the model (`--ctx`), which histories have to fit in."""

    @property
    def label(self) -> str:
        """The model and how it is asked, in a few words. `labels_of` tells more where that leaves two alike."""
        return self.label_with(())

    def label_with(self, fields: Iterable[str]) -> str:
        """The label, with the values of some fields of `_TOLD` that are set."""
        think = {True: "thinking", False: "not thinking", None: ""}[self.think]
        mode = self.mode if self.mode != "auto" else ""
        choice = "any" if self.tool_choice == "any" else ""
        stream = "streamed" if self.stream else ""
        values = [(_TOLD[name], getattr(self, name)) for name in fields]
        more = [told.format(value) for told, value in values if value is not None]
        beside = [part for part in (mode, think, choice, stream, *more) if part]
        # A name comes from a model server: a line break in it would tear tables.
        name = "".join(letter if letter.isprintable() else "�" for letter in self.model)
        return f"{name} ({', '.join(beside)})" if beside else name

    @property
    def key(self) -> str:
        """Ten characters that are equal for equal configurations, also where one is from before a field was added."""
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:10]


_TOLD: Mapping[str, str] = {
    "backend": "on {}",
    "temperature": "temperature {:g}",
    "seed": "seed {}",
    "max_tokens": "{} tokens an answer",
    "strategy": "compaction {}",
    "budget_tokens": "budget {}",
    "context": "context {}",
}
"""How the fields are told that a label leaves out."""


def labels_of(configs: Iterable[EvalConfiguration]) -> Mapping[str, str]:
    """A label for each configuration, by its key: where several have the same, with all in which these differ."""
    alike: dict[str, list[EvalConfiguration]] = {}
    for config in configs:
        alike.setdefault(config.label, []).append(config)
    labels: dict[str, str] = {}
    for group in alike.values():
        fields = [name for name in _TOLD if len({getattr(config, name) for config in group}) > 1]
        labels |= {config.key: config.label_with(fields) for config in group}
    return labels


RunKey: TypeAlias = tuple[str, str, int]
"""Configuration, scenario and number of a run: there is one record of it."""


class RunRecord(BaseModel):
    """One run. `iterations` are the model's answers; tokens are None where the model server does not count them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    config: EvalConfiguration
    scenario: str
    tags: tuple[str, ...] = ()
    run: int
    planned: int
    """Runs that this series was to have, as it was said when this one was made."""
    seed: int
    completeness: bool
    """Whether the run came to its terminal tool."""
    accuracy: bool | None
    """Whether the arguments of that call were right; None for a run that came to none."""
    wrong: str | None = None
    error: str | None = None
    """What ended it, for a run that came to no terminal tool."""
    detail: str | None = None
    iterations: int
    ideal: int
    seconds: float
    retry_nudges: int = 0
    step_nudges: int = 0
    prerequisite_nudges: int = 0
    tool_errors: int = 0
    compactions: tuple[int, ...] = ()
    """The phase that each compaction reached."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    version: str = ""
    """Of forge-proxy."""
    terminal: str | None = None
    args: dict[str, Json] = Field(default_factory=dict)
    """The call that ended it."""

    @property
    def key(self) -> RunKey:
        """Which run it is."""
        return self.config.key, self.scenario, self.run

    @property
    def correct(self) -> bool:
        """Whether it came to its terminal tool with the right arguments."""
        return self.completeness and bool(self.accuracy)

    @property
    def wasted(self) -> int:
        """Answers beyond those that were needed."""
        return max(0, self.iterations - self.ideal)
