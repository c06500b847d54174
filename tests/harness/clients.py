"""Real agent harnesses from npm, each told to use a base URL: how they are installed, configured and started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

INSTALLED = Path(__file__).parents[2] / ".harness"
PROMPT = "List the files here and tell me what hello.py does"


@dataclass(frozen=True)
class Harness:
    """A harness: its npm package, the command inside it, and how it is made to use `base_url` in the folder `home`."""

    name: str
    package: str
    command: str
    configure: Callable[[Path, str], list[str]]


@dataclass(frozen=True)
class Ran:
    """What a harness printed and how it ended."""

    code: int
    printed: str


def _opencode(home: Path, base_url: str) -> list[str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "forge",
        "options": {"baseURL": f"{base_url}/v1", "apiKey": "none"},
        "models": {"mistaken": {"name": "mistaken", "limit": {"context": 131072, "output": 8192}}},
    }
    settings = {"autoupdate": False, "share": "disabled", "model": "forge/mistaken", "small_model": "forge/mistaken"}
    config = {**settings, "permission": {"*": "allow"}, "provider": {"forge": provider}}
    (home / "work" / "opencode.json").write_text(json.dumps(config))
    return ["run", "-m", "forge/mistaken", PROMPT]


def _pi(home: Path, base_url: str) -> list[str]:
    model = {"id": "mistaken", "name": "mistaken", "reasoning": False, "input": ["text"], "contextWindow": 131072}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    models = [{**model, "maxTokens": 8192, "cost": cost}]
    provider = {"baseUrl": f"{base_url}/v1", "api": "openai-completions", "apiKey": "none", "models": models}
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"forge": provider}}))
    return ["--offline", "--provider", "forge", "--model", "mistaken", "-p", PROMPT]


HARNESSES = (
    Harness("opencode", "opencode-ai", "opencode", _opencode),
    Harness("pi", "@mariozechner/pi-coding-agent", "pi", _pi),
)


def install(harness: Harness) -> Path:
    """The harness's command, installed under .harness/ unless it is there already."""
    folder = INSTALLED / harness.package.replace("/", "_")
    command = folder / "node_modules" / ".bin" / harness.command
    if not command.exists():
        if shutil.which("npm") is None:
            raise SystemExit("make harness needs Node.js 20 or newer with npm")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", harness.package], cwd=folder, check=True)
    return command


def run(harness: Harness, command: Path, home: Path, base_url: str) -> Ran:
    """Let the harness do its task once, in a folder of its own with nothing of ours in its environment."""
    work = home / "work"
    work.mkdir(parents=True)
    (work / "hello.py").write_text('print("hello from the file")\n')
    arguments = harness.configure(home, base_url)
    quiet = {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "OTEL_SDK_DISABLED": "true", "CI": "1", "NO_COLOR": "1"}
    opencode = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")}
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        **quiet,
        **opencode,
    }
    try:
        done = subprocess.run(
            [command, *arguments],
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(-1, "no end within 90 s")
    return Ran(done.returncode, done.stdout + done.stderr)
