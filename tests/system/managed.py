"""A daemon that manages a fake llama-server program."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from tests.fakes.llama_server import Fake
from tests.fakes.processes import Process, daemon


@contextmanager
def over(fake: Fake, *options: str, env: Mapping[str, str] | None = None, ready: bool = True) -> Generator[Process]:
    """Run the daemon over that program; `ready`, or while it starts it."""
    words = ["--gguf", str(fake.model), "--llama-server", str(fake.path), *options]
    with daemon(*words, env=env) as proxy:
        if ready:
            proxy.wait_for("ready")
        yield proxy
