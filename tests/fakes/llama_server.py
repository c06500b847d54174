"""A fake `llama-server` program: it accepts the flags of the real one and fails in every way that a test needs.

`Fake` puts it into a folder as an executable. The file `script` beside it has one behavior for each start, the last one
for all further starts; each start is a JSON line in the file `starts`. Its models are those of
`tests.fakes.model_server`, whose output is kept in the file `asked`; `POST /go` releases the waiting ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.model_server import application

if TYPE_CHECKING:
    from forge_proxy.backends.llama_server.launch import LaunchSpec

ROOT = Path(__file__).parents[2]
_WINDOW = 4096
"""Context window of a slot, unless flags set another."""
_PROGRAM = """#!{python}
import sys
from pathlib import Path
folder = Path(__file__).parent
if sys.argv[1:] == ["--version"]:  # without the imports, which take most of the time of a start
    sys.stdout.write((folder / "version").read_text())
    sys.exit()
sys.modules["ssl"] = None  # as in a Python without it: what aiohttp loads for TLS takes a quarter of a start
sys.path.insert(0, {root!r})
from tests.fakes.llama_server import main
main(folder, sys.argv[1:])
"""


class Fake:
    """The program in a folder, and the records of its starts."""

    def __init__(self, folder: Path, name: str = "llama-server", version: str = "version: 1234 (abcdef)") -> None:
        self.folder = folder
        self.path = folder / name
        self.path.write_text(_PROGRAM.format(python=sys.executable, root=str(ROOT)))
        self.path.chmod(0o755)
        self.model = folder / "model.gguf"
        self.model.write_bytes(b"GGUF and nothing else")
        (folder / "asked").touch()
        (folder / "version").write_text(version)
        self.behaves("well")

    def asked(self, model: str) -> int:
        """How many requests that model has received."""
        said = [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]
        return sum(line["event"] == "asked" and line["model"] == model for line in said)

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return self.starts[-1]["pid"]

    def go(self) -> None:
        """Release the models of its last start that wait."""
        import httpx  # local import: the program does not need a client

        flags = self.starts[-1]["flags"]
        httpx.post(f"http://127.0.0.1:{flags[flags.index('--port') + 1]}/go")

    def behind(self, script: str) -> None:
        """Start it through a shell script from now on, in which `$REAL` is the program."""
        real = self.path.rename(self.path.with_name("real.py"))
        self.path.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
        self.path.chmod(0o755)

    def spec(self, **fields: Any) -> LaunchSpec:
        """Serve with its model."""
        from forge_proxy.backends.llama_server.launch import LaunchSpec, ServerProgram  # local import: as above

        return LaunchSpec(ServerProgram("llama-server", (str(self.path),)), self.model, "model", **fields)

    def behaves(self, *words: str) -> None:
        """Set the behavior of its next starts, one name for each."""
        (self.folder / "script").write_text("\n".join(words))
        (self.folder / "starts").write_text("")

    def forget(self) -> None:
        """Start normally from now on, and forget all recorded starts and requests."""
        self.behaves("well")
        (self.folder / "asked").write_text("")

    @property
    def starts(self) -> list[dict[str, Any]]:
        """The records of the starts since `behaves`: `flags`, `pid`, `key`."""
        return [json.loads(line) for line in (self.folder / "starts").read_text().splitlines()]


def main(folder: Path, words: Sequence[str]) -> None:
    """Start as the script says."""
    starts = folder / "starts"
    script = (folder / "script").read_text().splitlines()
    begun = len(starts.read_text().splitlines())
    behaviour = script[min(begun, len(script) - 1)]
    with starts.open("a") as file:
        said = {"flags": list(words), "pid": os.getpid(), "key": os.environ.get("LLAMA_API_KEY")}
        file.write(json.dumps(said) + "\n")
    sys.stdout = (folder / "asked").open("a")
    asyncio.run(_serve(_flags(words), behaviour, folder))


async def _serve(flags: argparse.Namespace, behaviour: str, folder: Path) -> None:
    match behaviour:
        case "crashes":
            _say("E srv    load_model: failed to load model: out of memory")
            sys.exit(1)
        case "aborts":
            os.kill(os.getpid(), signal.SIGABRT)
        case "cannot bind":
            _say(f"E srv          start: couldn't bind HTTP server socket, hostname: {flags.host}, port: {flags.port}")
            sys.exit(1)
        case "has a child":
            child = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
            (folder / "child").write_text(str(child.pid))
        case "is deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case _:
            pass
    if flags.c == 666:
        _say("E llama_kv_cache: failed to allocate buffer for kv cache")
        sys.exit(1)
    loaded = asyncio.Event()
    if not behaviour.startswith(("hangs", "loads")):
        loaded.set()
    await _listen(flags, loaded)
    _say("I srv    load_model: loading model")
    if behaviour == "loads slowly":
        for layer in range(12):
            _say(f"I llama_model_loader: layer {layer}")
            await asyncio.sleep(0.25)
        loaded.set()
    if behaviour == "loads when told":
        while not (folder / "loaded").exists():
            await asyncio.sleep(0.02)
            _say("I llama_model_loader: one more layer")
        loaded.set()
    await asyncio.Event().wait()


async def _listen(flags: argparse.Namespace, loaded: asyncio.Event) -> None:
    slots = flags.parallel or 4
    app = application(slots, flags.c // slots if flags.c and flags.parallel else flags.c or _WINDOW)

    @web.middleware
    async def guard(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
        if not loaded.is_set():
            error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
            return web.json_response({"error": error}, status=503)
        key = request.headers.get("Authorization")
        if request.path not in ("/health", "/go", "/window") and key != f"Bearer {os.environ['LLAMA_API_KEY']}":
            return web.json_response({"error": {"message": "Invalid API Key"}}, status=401)
        return await handler(request)

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    app.middlewares.append(guard)
    app.add_routes([web.get("/health", health)])
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, flags.host, flags.port).start()


def _flags(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("llama-server")
    for flag in ("--model", "--alias", "--host", "-ngl", "--threads", "--cache-type-k", "--cache-type-v", "--temp"):
        parser.add_argument(flag)
    for flag in ("--port", "-c", "--parallel"):
        parser.add_argument(flag, type=int)
    for flag in ("--jinja", "--server", "--nobrowser"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args(words)


def _say(line: str) -> None:
    sys.stderr.write(f"0.00.001 {line}\n")
    sys.stderr.flush()
