"""The record of a run: one line of the results file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.jsontypes import Json
from forge_proxy.evals.ablation import Surface
from forge_proxy.evals.clients import ClientKind

Strategy: TypeAlias = Literal["tiered", "sliding", "none"]


class EvalConfiguration(BaseModel):
    """The parameters of a series of runs. Series with equal parameters are the same series."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    backend: str
    """The backend's kind, such as `embedded`."""
    mode: str = "auto"
    """How tools are presented to the model: `native`, `prompt` or `auto`."""
    surface: Surface = "runner"
    ablation: str = "reforged"
    client: ClientKind = "scenario"
    """The kind of client on the proxy surface."""
    stream: bool = False
    think: bool | None = None
    """Whether the model produces reasoning; None for the model's default."""
    tool_choice: Literal["auto", "any"] = "auto"
    """`any`: each request requires a tool call."""
    temperature: float | None = None
    seed: int = 0
    """Seed of run 0; run n uses seed + n."""
    max_tokens: int | None = None
    strategy: Strategy = "tiered"
    budget_tokens: int | None = None
    """Overrides the scenarios' budgets; None keeps them."""
    context: int | None = None
    """The context window in tokens that the model server was started with (`--ctx`)."""

    @property
    def label(self) -> str:
        """A short description of model and options. `labels_of` adds fields if two descriptions are equal."""
        return self.build_label(())

    def build_label(self, fields: Iterable[str]) -> str:
        """The label, with the values of some fields of `_OPTIONAL_PARTS` that are set."""
        think = {True: "thinking", False: "not thinking", None: ""}[self.think]
        mode = self.mode if self.mode != "auto" else ""
        choice = "any" if self.tool_choice == "any" else ""
        stream = "streamed" if self.stream else ""
        client = f"{self.client} client" if self.client != "scenario" else ""
        values = [(_OPTIONAL_PARTS[name], getattr(self, name)) for name in fields]
        more = [template.format(value) for template, value in values if value is not None]
        beside = [part for part in (mode, think, choice, stream, client, *more) if part]
        # The name comes from a model server: a line break in it would break tables.
        name = "".join(letter if letter.isprintable() else "�" for letter in self.model)
        return f"{name} ({', '.join(beside)})" if beside else name

    @property
    def key(self) -> str:
        """A 10-character hash of the configuration. Fields with default values do not change it, so that records remain
        valid when fields are added.
        """
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:10]


_OPTIONAL_PARTS: Mapping[str, str] = {
    "backend": "on {}",
    "temperature": "temperature {:g}",
    "seed": "seed {}",
    "max_tokens": "{} tokens a response",
    "strategy": "compaction {}",
    "budget_tokens": "budget {}",
    "context": "context {}",
}
"""Formats of the fields that a label omits by default."""


def label_configurations(configs: Iterable[EvalConfiguration]) -> Mapping[str, str]:
    """Return labels by configuration key. Equal labels get all fields in which the configurations differ."""
    alike: dict[str, list[EvalConfiguration]] = {}
    for config in configs:
        alike.setdefault(config.label, []).append(config)
    labels: dict[str, str] = {}
    for group in alike.values():
        fields = [name for name in _OPTIONAL_PARTS if len({getattr(config, name) for config in group}) > 1]
        labels |= {config.key: config.build_label(fields) for config in group}
    return labels


RunKey: TypeAlias = tuple[str, str, int]
"""Configuration key, scenario and run number, which identify a record."""


class RunRecord(BaseModel):
    """One run. `iterations` counts the model's responses; tokens are None if the model server does not report usage."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    config: EvalConfiguration
    scenario: str
    tags: tuple[str, ...] = ()
    run: int
    planned: int
    """The planned number of runs in the series when this run was executed."""
    seed: int
    completeness: bool
    """Whether the run called its terminal tool."""
    accuracy: bool | None
    """Whether the arguments of that call were correct; None if there was no such call."""
    wrong: str | None = None
    error: str | None = None
    """The error that ended a run without a terminal call."""
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
    """The version of forge-proxy."""
    terminal: str | None = None
    args: dict[str, Json] = Field(default_factory=dict)
    """Arguments of the terminal call."""

    @property
    def key(self) -> RunKey:
        """The key that identifies the run."""
        return self.config.key, self.scenario, self.run

    @property
    def is_correct(self) -> bool:
        """Whether the run called its terminal tool with correct arguments."""
        return self.completeness and bool(self.accuracy)

    @property
    def wasted(self) -> int:
        """Number of responses beyond the ideal."""
        return max(0, self.iterations - self.ideal)
