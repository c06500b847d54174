"""Flags and environment of a llama.cpp server, and the flags that only forge-proxy sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forge_proxy.backends.llama_server.launch import (
    FlagRefused,
    LaunchSpec,
    ServerProgram,
    build_command,
    build_environment,
)

MODEL = Path("/models/qwen.gguf")
SERVER = ServerProgram("llama-server", ("/usr/bin/llama-server",))
PLAIN = LaunchSpec(SERVER, MODEL, "qwen")
ALWAYS = ["--model", "/models/qwen.gguf", "--alias", "qwen", "--host", "127.0.0.1", "--port", "9000"]


@pytest.mark.parametrize(
    ("spec", "flags"),
    [
        (PLAIN, []),
        (replace(PLAIN, context=4096), ["-c", "4096"]),
        (replace(PLAIN, context=4096, slots=3), ["-c", "12288", "--parallel", "3"]),
        (replace(PLAIN, slots=3), ["--parallel", "3"]),
        (replace(PLAIN, gpu_layers=0), ["-ngl", "0"]),
        (replace(PLAIN, gpu_layers=-1, threads=8), ["-ngl", "-1", "--threads", "8"]),
        (
            replace(PLAIN, cache_type_k="q8_0", cache_type_v="q4_0"),
            ["--cache-type-k", "q8_0", "--cache-type-v", "q4_0"],
        ),
        (replace(PLAIN, extra=("--temp", "0.2", "-fa", "on")), ["--temp", "0.2", "-fa", "on"]),
    ],
)
def test_flags(spec: LaunchSpec, flags: list[str]) -> None:
    assert list(build_command(spec, 9000)) == ["/usr/bin/llama-server", "--jinja", *ALWAYS, *flags]


@pytest.mark.parametrize(
    ("program", "begins"),
    [
        (ServerProgram("llamafile", ("/bin/sh", "/m/x.llamafile"), (0, 9, 3)), ["--server", "--nobrowser"]),
        (ServerProgram("llamafile", ("/bin/sh", "/m/x.llamafile"), (0, 10, 0)), ["--server", "--jinja"]),
        (ServerProgram("llamafile", ("/bin/sh", "/m/x.llamafile")), ["--server", "--jinja"]),
        (ServerProgram("embedded", ("python", "-m", "child")), ["--jinja"]),
    ],
)
def test_each_kind_of_program_is_started_its_own_way(program: ServerProgram, begins: list[str]) -> None:
    assert list(build_command(replace(PLAIN, program=program), 9000)) == [*program.command, *begins, *ALWAYS]


@pytest.mark.parametrize(
    ("flag", "instead"),
    [
        ("-m", "backend.gguf"),
        ("--hf-repo", "backend.gguf"),
        ("-c", "backend.llama_server.context"),
        ("--ctx_size", "backend.llama_server.context"),
        ("--ctx-size=4096", "backend.llama_server.context"),
        ("-np", "backend.llama_server.slots"),
        ("--n-gpu-layers", "backend.llama_server.gpu_layers"),
        ("-ctk", "backend.llama_server.cache_type_k"),
        ("--port", "backend.llama_server.port"),
        ("--host", "127.0.0.1"),
        ("--api-key", "key"),
        ("--no-jinja", "template"),
        ("--sleep-idle-seconds", "backend.llama_server.idle_unload_seconds"),
        ("--log-disable", "log"),
    ],
)
def test_an_extra_flag_that_forge_proxy_sets_itself_is_rejected_with_a_remedy(flag: str, instead: str) -> None:
    with pytest.raises(FlagRefused) as refused:
        replace(PLAIN, extra=("--temp", "0.2", flag, "1"))

    assert str(refused.value).startswith(f"{flag.partition('=')[0]} is set by forge-proxy: ")
    assert instead in str(refused.value)


def test_the_key_is_in_the_environment_and_our_own_settings_are_not() -> None:
    inherited = {"PATH": "/bin", "FORGE_PROXY_SERVER__API_KEYS": "secret", "LLAMA_API_KEY": "another"}

    assert build_environment(inherited, "k") == {"PATH": "/bin", "LLAMA_API_KEY": "k"}
    assert "k" not in build_command(PLAIN, 9000)
