"""`forge-proxy eval batch`: many models one after the other, by names that stand for one or several of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from forge_proxy import daemon
from forge_proxy.cli.evals.run import thinking
from forge_proxy.cli.evals.run_all import EvaluatedModel
from forge_proxy.core.errors import ForgeError
from forge_proxy.core.validation import describe_fault
from forge_proxy.engine.events import Event
from forge_proxy.settings import SettingsError, load

CLAUDE = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
"""The newest of each size that Anthropic's own SDK lists (anthropic.types.Model)."""
_GGUF = ("llamaserver", "llamaserver-native", "llamaserver-prompt", "llamafile")
BUILT_IN = ("all", "ollama", *_GGUF, "anthropic", "anthropic-any", *CLAUDE, *(f"{size}-any" for size in CLAUDE))


class NamedConfiguration(BaseModel):
    """A configuration with a name of one's own. `backend` is as in the settings of the daemon."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: dict[str, Any]
    think: bool | None = None
    tool_choice: Literal["auto", "any"] = "auto"


class BatchFile(BaseModel):
    """A file of such configurations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evals: dict[str, NamedConfiguration]


def read_batch(file: Path | None) -> Mapping[str, NamedConfiguration]:
    """The configurations of a file, if there is one, by name. Raises `SettingsError`."""
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


def subjects_of(
    names: Sequence[str], own: Mapping[str, NamedConfiguration], models: Path | None
) -> Sequence[EvaluatedModel]:
    """What the names stand for, each model once. `models` is a folder with GGUF files. Raises `SettingsError`."""
    found: list[EvaluatedModel] = []
    for name in names:
        if name not in own and name not in BUILT_IN:
            raise SettingsError(f"no configuration {name!r}; available: {', '.join((*own, *BUILT_IN))}")
        for subject in _named(name, own[name]) if name in own else _built_in(name, models):
            if not any(_same(subject, other) for other in found):
                found.append(subject)
    return found


def _same(one: EvaluatedModel, other: EvaluatedModel) -> bool:
    return (one.settings.backend, one.think, one.any_tool) == (other.settings.backend, other.think, other.any_tool)


def _named(name: str, one: NamedConfiguration) -> Iterator[EvaluatedModel]:
    try:
        settings = load(None, {"backend": one.backend})
    except SettingsError as error:
        raise SettingsError(f"evals.{name}: {error}") from error
    yield EvaluatedModel(thinking(settings, one.think), one.think, one.tool_choice == "any")


def _built_in(name: str, models: Path | None) -> Iterator[EvaluatedModel]:
    """What a name of ours stands for; `all` is whatever of it there is."""
    match name:
        case "all":
            for each in ("ollama", "llamaserver", "anthropic"):
                try:
                    yield from _built_in(each, models)
                except ForgeError as error:
                    print(f"left out: {each}: {error}")
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
    """Every model that the Ollama on this machine has."""
    settings = load(None, {"backend": {"kind": "ollama"}})

    async def list_models() -> list[str]:
        async with daemon.assemble(settings, _unheard) as parts:
            return sorted(card.id for card in await parts.backend.models())

    for model in asyncio.run(list_models()):
        yield EvaluatedModel(load(None, {"backend": {"kind": "ollama", "model": model}}))


def _of_files(name: str, models: Path | None) -> Iterator[EvaluatedModel]:
    """Every model file in the folder, served by a server of ours, as many ways as the name says."""
    if models is None:
        raise SettingsError(f"{name} is for model files: name the folder that they are in with --models")
    files = [file for file in sorted(models.glob("**/*.gguf")) if _is_a_model(file)]
    if not files:
        raise SettingsError(f"there is no .gguf file in {models}")
    named = {file.stem: file for file in files}
    if twice := [file for file in files if named[file.stem] != file]:
        pair = f"{twice[0]} and {named[twice[0].stem]}"
        raise SettingsError(f"{pair} have one name, and would be taken for one model: rename one of them")
    modes = {"llamaserver": ("native", "prompt"), "llamafile": ("native",)}.get(name, (name.rpartition("-")[2],))
    kind = {"kind": "llamafile"} if name == "llamafile" else {}
    for file in files:
        for mode in modes:
            yield EvaluatedModel(load(None, {"backend": {**kind, "gguf": str(file), "tools": mode}}))


def _is_a_model(file: Path) -> bool:
    """Not the eyes of one, nor a part of one but the first, which stands for all."""
    return not file.name.startswith("mmproj") and ("-of-" not in file.stem or "-00001-of-" in file.stem)


def _unheard(_: Event) -> None:
    """Ignore engine events."""
