"""The `models` section of the configuration: several models behind one daemon, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from forge_proxy.backends.config import BackendChoiceError, BackendConfig
from forge_proxy.backends.llama_server.launch import CacheType, LaunchSpec, ServerProgram, reject_managed_flags
from forge_proxy.backends.llama_server.model_file import model_fault
from forge_proxy.backends.llama_server.programs import launch_spec
from forge_proxy.core.budget import BudgetPolicy
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.sampling import Value

_LLAMA_CPP_FIELDS = ("slots", "gpu_layers", "threads", "cache_type_k", "cache_type_v")


def _check_extra(extra: list[str]) -> list[str]:
    reject_managed_flags(extra)
    return extra


class ModelEntry(BaseModel):
    """A model. Fields that are not set have the values of `backend.llama_server` or `backend.ollama`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gguf: Path | None = Field(default=None, description="The model file, for a managed llama.cpp server.")
    ollama: str | None = Field(default=None, min_length=1, description="Ollama's name of the model, instead of a file.")
    aliases: list[str] = Field(default_factory=list, description="Other names that requests may use.")
    budget: BudgetPolicy | None = Field(
        default=None, description="The model's own budget, instead of the section `budget`."
    )
    sampling: dict[Value, float | int] = Field(
        default_factory=dict, description="Sampling values for fields that a request does not set."
    )
    context: int | None = Field(
        default=None, ge=256, description="Context of each slot in tokens; num_ctx of an Ollama model."
    )
    slots: int | None = Field(default=None, ge=1, le=64, description="Number of requests processed in parallel.")
    gpu_layers: int | None = Field(default=None, ge=-1, description="Layers on the GPU.")
    threads: int | None = Field(default=None, ge=1, description="CPU threads.")
    cache_type_k: CacheType | None = Field(default=None, description="Data type of the keys in the KV cache.")
    cache_type_v: CacheType | None = Field(default=None, description="Data type of the values in the KV cache.")
    extra: Annotated[list[str], AfterValidator(_check_extra)] = Field(
        default_factory=list, description="More llama-server flags, after those of backend.llama_server."
    )

    @model_validator(mode="after")
    def _is_one_thing(self) -> ModelEntry:
        if (self.gguf is None) == (self.ollama is None):
            raise ValueError("expected either gguf (a model file) or ollama (the name of a model)")
        if self.ollama is not None:
            wrong = [name for name in _LLAMA_CPP_FIELDS if getattr(self, name) is not None] + ["extra"] * bool(
                self.extra
            )
            if wrong:
                raise ValueError(f"{wrong[0]} is only for a gguf: Ollama decides it itself")
        return self


def _check_names(models: dict[str, ModelEntry]) -> dict[str, ModelEntry]:
    if "" in models:
        raise ValueError("a model needs a name")
    if len({entry.ollama is None for entry in models.values()}) > 1:
        raise ValueError("either all models have a gguf or all have an ollama: one backend serves them")
    owners = dict.fromkeys(models, "a model's name")
    for name, entry in models.items():
        for alias in entry.aliases:
            if alias in owners:
                raise ValueError(f"the alias {alias!r} of {name} is already {owners[alias]}")
            owners[alias] = f"an alias of {name}"
    return models


ModelEntries: TypeAlias = Annotated[dict[str, ModelEntry], AfterValidator(_check_names)]


def catalog_of(models: Mapping[str, ModelEntry], default: str | None) -> Catalog | None:
    """Return the catalog of names; None without models. Raises `BackendChoiceError` for an unknown default."""
    if not models:
        return None
    aliases = {alias: name for name, entry in models.items() for alias in entry.aliases}
    catalog = Catalog(tuple(models), aliases)
    known = None if default is None else catalog.resolve(default)
    if default is not None and known is None:
        raise BackendChoiceError(f"backend.model {default!r} is not a configured model; available: {', '.join(models)}")
    return Catalog(catalog.names, aliases, known)


def refuse_wrong_models(config: BackendConfig, models: Mapping[str, ModelEntry]) -> None:
    """Raise `BackendChoiceError` if the models do not match the backend, or a file is not a model."""
    if not models:
        return
    files = {name: entry.gguf for name, entry in models.items() if entry.gguf is not None}
    if config.gguf is not None:
        raise BackendChoiceError("backend.gguf (--gguf) and models exclude each other: list the file among the models")
    if files and config.url is not None:
        raise BackendChoiceError("backend.url names a running server, which has its models already; remove models")
    if files and config.kind not in (None, "llama-server", "llamafile", "embedded"):
        raise BackendChoiceError(f"models with a gguf are for a server that forge-proxy starts, not for {config.kind}")
    if not files and config.kind not in (None, "ollama"):
        raise BackendChoiceError(f"models of an Ollama are not for the backend {config.kind}")
    for name, file in files.items():
        if fault := model_fault(file):
            raise BackendChoiceError(f"models.{name}.gguf: {fault}")
    catalog_of(models, config.model)


def launch_specs(
    config: BackendConfig, program: ServerProgram, models: Mapping[str, ModelEntry]
) -> dict[str, LaunchSpec]:
    """Return the launch specification of each model file. Raises `BackendChoiceError`."""
    specs: dict[str, LaunchSpec] = {}
    for name, entry in models.items():
        if entry.gguf is None:
            continue
        own = {key: getattr(entry, key) for key in ("context", *_LLAMA_CPP_FIELDS) if getattr(entry, key) is not None}
        llama_server = config.llama_server.model_copy(
            update={**own, "extra": [*config.llama_server.extra, *entry.extra]}
        )
        specs[name] = launch_spec(
            config.model_copy(update={"llama_server": llama_server}), program, entry.gguf, alias=name
        )
    return specs
