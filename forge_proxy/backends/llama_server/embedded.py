"""The embedded llama.cpp: starts the child process, waits until the model is loaded, talks to it, stops it.

One task owns the process. Restarting after a crash is not done yet: a child that died is reported as down.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from importlib.util import find_spec
from pathlib import Path

from forge_proxy.backends.config import EmbeddedConfig
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.errors import BackendFault
from forge_proxy.core.health import Health
from forge_proxy.core.stream import Chunk

TINY_MODEL = Path(__file__).parent / "models" / "tiny-tools-q8_0.gguf"
"""The test model that comes with the package: 0.85 M parameters, 2,048 tokens of context (tests/tiny_model)."""
_TINY_CONTEXT = 2048
_LOG_LINES = 200
_STOP_SECONDS = 5.0


class EmbeddedUnavailable(BackendFault):
    """The embedded llama.cpp cannot be started; the message says why and what to do."""

    def __init__(self, why: str) -> None:
        super().__init__(why, url="embedded")


class EmbeddedLlama:
    """A `Backend` whose server is a child process. Use `start` once, and `stop` at the end."""

    def __init__(self, gguf: Path, config: EmbeddedConfig, http: HttpClient) -> None:
        self.gguf = gguf
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self.url = "embedded"
        self._config = config
        self._http = http
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._server: OpenAICompatible | None = None
        self._started = asyncio.Event()
        """Loading has ended, well or not."""

    @property
    def alias(self) -> str:
        """The name under which the model is served."""
        return "tiny-tools" if self.gguf == TINY_MODEL else self.gguf.stem

    async def start(self) -> None:
        """Start the child and wait until the model is loaded. Raises `EmbeddedUnavailable`."""
        if find_spec("xllamacpp") is None:
            raise EmbeddedUnavailable("the embedded llama.cpp is not installed: pip install 'forge-proxy[embedded]'")
        if not self.gguf.is_file():
            raise EmbeddedUnavailable(f"no model file at {self.gguf}")
        key = secrets.token_urlsafe(24)
        try:
            self.url = await self._spawn(key)
            self._server = OpenAICompatible(self.url, self._http, api_key=key, health_path="/health")
        finally:
            self._started.set()

    async def stop(self) -> None:
        """End the child: closing its stdin asks it to, killing it makes sure."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`."""
        return self._running().stream(call)

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`. Waits for the model to be loaded, and so do requests, which ask this first."""
        await self._started.wait()
        return await self._running().models()

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`. As many as it is started with, so this need not wait for the model."""
        return self._config.slots

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`."""
        return await self._running().context_window(model)

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`."""
        return await self._running().count_tokens(call)

    async def health(self) -> Health:
        """See `engine.ports.Backend`."""
        if not self._started.is_set():
            return Health("loading", "the model is being loaded")
        if self._process is None or self._server is None:
            return Health("down", "the model could not be loaded")
        if self._process.returncode is not None:
            return Health("down", self._end())
        return await self._server.health()

    def _running(self) -> OpenAICompatible:
        if self._server is None or self._process is None:
            raise EmbeddedUnavailable("the embedded llama.cpp has not been started")
        if self._process.returncode is not None:
            raise EmbeddedUnavailable(self._end())
        return self._server

    async def _spawn(self, key: str) -> str:
        tiny = self.gguf == TINY_MODEL
        said = {
            "gguf": str(self.gguf),
            "alias": self.alias,
            "slots": self._config.slots,
            "context": self._config.context or (_TINY_CONTEXT if tiny else 0),
            # With so little to compute, threads that wait for each other cost more than they bring.
            "threads": self._config.threads or (1 if tiny else None),
            "gpu_layers": self._config.gpu_layers,
            "port": 0,
            "key": key,
        }
        pipe = asyncio.subprocess.PIPE
        # A session of its own: Ctrl-C in the terminal is for us, and the child ends after the last answer has left.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "forge_proxy.backends.llama_server.embedded_child",
            stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
        )  # fmt: skip
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None  # noqa: S101  # they are pipes, as asked for above
        assert stdout is not None  # noqa: S101
        assert stderr is not None  # noqa: S101
        self._reading = asyncio.create_task(self._keep_log(stderr))
        stdin.write(json.dumps(said).encode() + b"\n")
        try:
            async with asyncio.timeout(self._config.start_seconds):
                line = await stdout.readline()
        except TimeoutError as exc:
            await self.stop()
            raise EmbeddedUnavailable(f"{self.gguf} was not loaded within {self._config.start_seconds:g} s") from exc
        if not line:
            await self._process.wait()
            await self._reading
            faults = self._faults()
            raise EmbeddedUnavailable(f"llama.cpp could not load {self.gguf}: {faults[0] if faults else self._end()}")
        return str(json.loads(line)["address"])

    async def _keep_log(self, stderr: asyncio.StreamReader) -> None:
        """Keep the last lines of what llama.cpp says; read on until it ends, or it would block on a full pipe."""
        while True:
            try:
                line = await stderr.readline()
            except ValueError:  # a line longer than the reader's limit
                continue
            if not line:
                return
            self.log.append(line.decode("utf-8", "replace").rstrip())

    def _end(self) -> str:
        code = (self._process.returncode if self._process else None) or 0
        if code == -signal.SIGKILL:  # by somebody else, so its log does not tell why
            return "the embedded llama.cpp was killed by SIGKILL (out of memory?); restart forge-proxy"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        faults = self._faults()
        return f"the embedded llama.cpp {how}{f': {faults[-1]}' if faults else ''}; restart forge-proxy"

    def _faults(self) -> list[str]:
        """What llama.cpp called an error, oldest first: the first is the cause, those after it are its callers'."""
        own = [line.split(" E ", 1)[1].strip() for line in self.log if " E " in line]
        return own or [line.strip() for line in self.log if "rror" in line or "ASSERT" in line]
