"""compose.yaml brought up for real: a stack with its own project, image and port."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
IMAGE = "forge-proxy-test"
_BUILD_SECONDS = 900.0
_SECONDS = 90.0
_OURS = ("FORGE_", "COMPOSE_")
_VARIABLES = {"MODELS", "MODEL", "CONTEXT", "SLOTS", "BACKEND_URL"}


class DockerMissing(Exception):
    """Docker is missing; the message says what to install."""


def compose_command() -> list[str]:
    """Return `docker compose`, or the older `docker-compose` if only that is installed. Raises `DockerMissing`."""
    if shutil.which("docker") is None:
        raise DockerMissing("there is no docker on PATH; this test needs a Docker engine and docker compose")
    if (engine := _run(["docker", "version", "--format", "{{.Server.Version}}"])).returncode:
        raise DockerMissing(f"docker reaches no engine: {engine.stderr.strip()}")
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and not _run([*words, "version"]).returncode:
            return words
    raise DockerMissing("there is neither docker compose nor docker-compose")


def docker(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run docker, which has to exit with this code."""
    return _checked(["docker", *words], code, _SECONDS)


def until(happened: Callable[[], bool], what: str) -> None:
    """Poll a condition, with a limit: nothing reports the state of a container."""
    end = time.monotonic() + _SECONDS
    while not happened():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


class Stack:
    """One profile of compose.yaml; without a name, what starts without options."""

    def __init__(self, profile: str | None = None, added: Mapping[str, str] | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        named = ["--profile", profile] if profile else []
        # compose finds compose.yaml in its working folder
        self._words = [*compose_command(), "-p", f"forge-test-{self.port}", *named]
        self._env = {**_environment(), "FORGE_PORT": str(self.port), "FORGE_IMAGE": IMAGE, **(added or {})}
        self.url = f"http://127.0.0.1:{self.port}"

    def compose(self, *words: str) -> str:
        """Return what compose prints on stdout. It must succeed."""
        return _checked([*self._words, *words], 0, _BUILD_SECONDS, self._env).stdout

    def up(self) -> None:
        """Build the image, start everything, and wait until it is healthy."""
        self.compose("up", "--detach", "--build")
        for service in self.services():
            until(lambda service=service: self.health(service) == "healthy", f"{service} is healthy")

    def down(self) -> None:
        self.compose("down", "--volumes", "--remove-orphans")

    def services(self) -> list[str]:
        """Return the services whose containers run."""
        return sorted(self.compose("ps", "--services", "--filter", "status=running").split())

    def container(self, service: str) -> str:
        """Return the id of a service's container, running or not."""
        return self.compose("ps", "--all", "--quiet", service).strip()

    def inspect(self, service: str) -> dict[str, Any]:
        (told,) = json.loads(docker("inspect", self.container(service)).stdout)
        return told

    def health(self, service: str) -> str:
        """Return the status of its health check: starting, healthy or unhealthy."""
        return self.inspect(service)["State"]["Health"]["Status"]

    def logged(self, service: str) -> list[str]:
        done = docker("logs", self.container(service))
        return (done.stdout + done.stderr).splitlines()

    def inside(self, service: str, *words: str, code: int = 0) -> str:
        """Return what a command prints in a service's container, run as its user."""
        return docker("exec", self.container(service), *words, code=code).stdout.strip()


@contextmanager
def running(profile: str | None = None, added: Mapping[str, str] | None = None) -> Generator[Stack]:
    """Run a stack; it is healthy at first and removed afterwards."""
    stack = Stack(profile, added)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


def _environment() -> dict[str, str]:
    """Return the environment without variables that would change the stack, but with those for building its image."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS) and name not in _VARIABLES}


def _checked(
    words: list[str], code: int, seconds: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = _run(words, seconds, env)
    assert done.returncode == code, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def _run(
    words: list[str], seconds: float = _SECONDS, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds, check=False)
