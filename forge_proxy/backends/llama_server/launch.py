"""Build the command line and environment of a managed llama.cpp server. Pure.

The flags are those of llama-server; a llamafile and the embedded llama.cpp (`embedded_child.py`) accept the same
flags, with the exceptions below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from forge_proxy.wire.sse import MAX_RESPONSE

ProgramKind: TypeAlias = Literal["llama-server", "llamafile", "embedded"]
CacheType: TypeAlias = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
CACHE_TYPES: tuple[str, ...] = get_args(CacheType)

_SETTINGS = "backend.llama_server"
_RESERVED_FLAGS: dict[str, tuple[str, ...]] = {
    "set backend.gguf": (
        "-m", "--model", "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-dr", "--docker-repo",
        "--models-dir", "--models-preset", "--models-max", "--models-autoload", "--no-models-autoload",
    ),
    f"set {_SETTINGS}.context": ("-c", "--ctx-size"),
    f"set {_SETTINGS}.slots": ("-np", "--parallel"),
    f"set {_SETTINGS}.gpu_layers": ("-ngl", "--gpu-layers", "--n-gpu-layers"),
    f"set {_SETTINGS}.threads": ("-t", "--threads"),
    f"set {_SETTINGS}.cache_type_k": ("-ctk", "--cache-type-k"),
    f"set {_SETTINGS}.cache_type_v": ("-ctv", "--cache-type-v"),
    f"set {_SETTINGS}.port": ("--port",),
    f"set {_SETTINGS}.idle_unload_seconds": ("--sleep-idle-seconds",),
    "the server listens on 127.0.0.1, for forge-proxy alone": ("--host", "--reuse-port", "--api-prefix"),
    "a new key is made for each start": ("--api-key", "--api-key-file"),
    "forge-proxy talks to it in plain HTTP on this machine": ("--ssl-key-file", "--ssl-cert-file"),
    "the model is served under the name of its file": ("-a", "--alias"),
    "tools need the model's own template": ("--jinja", "--no-jinja"),
    "its errors are explained by its log": ("--log-disable",),
    "forge-proxy starts it as a server": ("--server", "--nobrowser", "--cli", "--chat"),
}  # fmt: skip
_INSTEAD_OF_FLAG = {flag: instead for instead, flags in _RESERVED_FLAGS.items() for flag in flags}
_FIRST_WITHOUT_BROWSER = (0, 10)
"""The first llamafile that opens no browser and rejects `--nobrowser`; otherwise it is a current llama-server."""


class FlagRefused(ValueError):
    """An extra flag that forge-proxy sets itself. The message names the flag and the setting to use."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server program. `command` is its command line before the flags; `version` is set for llamafiles."""

    kind: ProgramKind
    command: tuple[str, ...]
    version: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """The configuration of a server to start. Equal specs describe the same server; None means llama.cpp's default.

    `context` is per slot, in tokens. Port 0 picks a free port. Raises `FlagRefused`.
    """

    program: ServerProgram
    model: Path
    alias: str
    context: int | None = None
    slots: int | None = None
    gpu_layers: int | None = None
    threads: int | None = None
    cache_type_k: CacheType | None = None
    cache_type_v: CacheType | None = None
    port: int = 0
    extra: tuple[str, ...] = ()
    max_response: int = field(default=MAX_RESPONSE, compare=False)
    """Bytes of one response that may be buffered."""

    def __post_init__(self) -> None:
        reject_managed_flags(self.extra)


def reject_managed_flags(extra: Sequence[str]) -> None:
    """Raise `FlagRefused` for a flag that forge-proxy sets itself."""
    for word in extra:
        # llama.cpp treats underscores as dashes in long flags.
        flag = word.replace("_", "-") if word.startswith("--") else word
        if instead := _INSTEAD_OF_FLAG.get(flag.partition("=")[0]):
            raise FlagRefused(f"{word.partition('=')[0]} is set by forge-proxy: {instead}")


def build_command(spec: LaunchSpec, port: int) -> tuple[str, ...]:
    """Return the whole command line, with the actual port."""
    # llama.cpp divides `-c` between the slots.
    context = None if spec.context is None else spec.context * (spec.slots or 1)
    valued: dict[str, object] = {
        "--model": spec.model,
        "--alias": spec.alias,
        "--host": "127.0.0.1",
        "--port": port,
        "-c": context,
        "--parallel": spec.slots,
        "-ngl": spec.gpu_layers,
        "--threads": spec.threads,
        "--cache-type-k": spec.cache_type_k,
        "--cache-type-v": spec.cache_type_v,
    }
    words = [word for flag, value in valued.items() if value is not None for word in (flag, str(value))]
    return (*spec.program.command, *_mode(spec.program), *words, *spec.extra)


def build_environment(inherited: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the server's environment: the daemon's without `FORGE_PROXY_*` (which may be secrets), plus the API key.

    The key is not a flag because every user of the machine can read those. A llamafile before 0.10 ignores it and
    requires none.
    """
    kept = {name: value for name, value in inherited.items() if not name.upper().startswith("FORGE_PROXY_")}
    return {**kept, "LLAMA_API_KEY": key}


def _mode(program: ServerProgram) -> tuple[str, ...]:
    if program.kind != "llamafile":
        return ("--jinja",)
    if program.version and program.version < _FIRST_WITHOUT_BROWSER:  # --jinja is unknown too
        return ("--server", "--nobrowser")
    return ("--server", "--jinja")
