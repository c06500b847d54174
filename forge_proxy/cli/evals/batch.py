"""`forge-proxy eval batch`: several models in turn, selected by the names of configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from forge_proxy import daemon
from forge_proxy.cli.evals.run import with_thinking
from forge_proxy.cli.evals.run_all import EvaluatedModel
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.validation import describe_fault
from forge_proxy.engine.events import Event
from forge_proxy.settings import SettingsError, load

CLAUDE = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
"""The newest model of each size that Anthropic's SDK lists (anthropic.types.Model)."""
_GGUF = ("llamaserver", "llamaserver-native", "llamaserver-prompt", "llamafile")
BUILT_IN = ("all", "ollama", *_GGUF, "anthropic", "anthropic-any", *CLAUDE, *(f"{size}-any" for size in CLAUDE))


class NamedConfiguration(BaseModel):
    """A configuration that the user names. `backend` is the section of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: dict[str, Any]
    think: bool | None = None
    tool_choice: Literal["auto", "any"] = "auto"


class BatchFile(BaseModel):
    """A file with named configurations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evals: dict[str, NamedConfiguration]


def read_batch(file: Path | None) -> Mapping[str, NamedConfiguration]:
    """Read the configurations of a file by name; none without a file. Raises `SettingsError`."""
    if file is None:
        return {}
    try:
        written: object = yaml.safe_load(file.read_text(encoding="utf-8"))
        return BatchFile.model_validate(written).evals
    except OSError as exc:
        raise SettingsError(f"{file}: {exc.strerror or exc}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{file}: not YAML: {' '.join(str(exc).split())}") from exc
    except ValidationError as exc:
        faults = [
            f"{file}: {'.'.join(map(str, error['loc'])) or 'evals'}: {describe_fault(error)}" for error in exc.errors()
        ]
        raise SettingsError("\n".join(faults)) from exc


def find_models(
    names: Sequence[str], own: Mapping[str, NamedConfiguration], models: Path | None
) -> Sequence[EvaluatedModel]:
    """Return the models of the named configurations, each once. `models` is a folder with GGUF files.

    Raises `SettingsError`.
    """
    found: list[EvaluatedModel] = []
    for name in names:
        if name not in own and name not in BUILT_IN:
            raise SettingsError(f"no configuration {name!r}; available: {', '.join((*own, *BUILT_IN))}")
        for model in _load_configuration(name, own[name]) if name in own else _load_built_in(name, models):
            if not any(_same(model, other) for other in found):
                found.append(model)
    return found


def _same(one: EvaluatedModel, other: EvaluatedModel) -> bool:
    return (one.settings.backend, one.think, one.any_tool) == (other.settings.backend, other.think, other.any_tool)


def _load_configuration(name: str, one: NamedConfiguration) -> Iterator[EvaluatedModel]:
    try:
        settings = load(None, {"backend": one.backend})
    except SettingsError as error:
        raise SettingsError(f"evals.{name}: {error}") from error
    yield EvaluatedModel(with_thinking(settings, one.think), one.think, one.tool_choice == "any")


def _load_built_in(name: str, models: Path | None) -> Iterator[EvaluatedModel]:
    """Yield the models of a built-in configuration; `all` yields those that are available."""
    match name:
        case "all":
            for each in ("ollama", "llamaserver", "anthropic"):
                try:
                    yield from _load_built_in(each, models)
                except ForgeError as error:
                    print(f"skipped: {each}: {error}")
        case "ollama":
            yield from _of_ollama()
        case "llamaserver" | "llamaserver-native" | "llamaserver-prompt" | "llamafile":
            yield from _of_files(name, models)
        case _:
            size, _, choice = name.partition("-")
            for each in CLAUDE if size == "anthropic" else (size,):
                settings = load(None, {"backend": {"kind": "anthropic", "model": CLAUDE[each]}})
                if settings.backend.api_key is None:
                    raise SettingsError("Anthropic's models need FORGE_PROXY_BACKEND__API_KEY")
                yield EvaluatedModel(settings, any_tool=choice == "any")


def _of_ollama() -> Iterator[EvaluatedModel]:
    """Yield the models of the local Ollama."""
    settings = load(None, {"backend": {"kind": "ollama"}})

    async def list_models() -> list[str]:
        async with daemon.assemble(settings, _ignore) as parts:
            return sorted(card.id for card in await parts.backend.models())

    for model in asyncio.run(list_models()):
        yield EvaluatedModel(load(None, {"backend": {"kind": "ollama", "model": model}}))


def _of_files(name: str, models: Path | None) -> Iterator[EvaluatedModel]:
    """Yield the model files of the folder for a managed server, once for each tool mode of the configuration."""
    if models is None:
        raise SettingsError(f"{name} is for model files; set their folder with --models")
    files = [file for file in sorted(models.glob("**/*.gguf")) if _is_a_model(file)]
    if not files:
        raise SettingsError(f"{models}: the folder has no .gguf file")
    named = {file.stem: file for file in files}
    if twice := [file for file in files if named[file.stem] != file]:
        pair = f"{twice[0]} and {named[twice[0].stem]}"
        raise SettingsError(f"{pair} have the same name and cannot be distinguished; rename one of them")
    modes = {"llamaserver": ("native", "prompt"), "llamafile": ("native",)}.get(name, (name.rpartition("-")[2],))
    kind = {"kind": "llamafile"} if name == "llamafile" else {}
    for file in files:
        for mode in modes:
            yield EvaluatedModel(load(None, {"backend": {**kind, "gguf": str(file), "tools": mode}}))


def _is_a_model(file: Path) -> bool:
    """Return whether a file is a model: not a projector, and of a split model only the first part."""
    return not file.name.startswith("mmproj") and ("-of-" not in file.stem or "-00001-of-" in file.stem)


def _ignore(_: Event) -> None:
    """Ignore engine events."""
