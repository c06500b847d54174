"""What batches cost: `python -m tests.bench.batches`.

The daemon is a process of its own on SQLite, before a model server that costs next to nothing. With `--prefixes` the
embedded llama.cpp with the test model computes 200 lines in 5 groups, with and without the order by prefixes.
"""

# ruff: noqa: T201  a command line prints
from __future__ import annotations

import argparse
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil

from tests.fakes.processes import Process, daemon, free_port

_ENDPOINT = "/v1/chat/completions"
_SLOTS = 4
_ENDED = ("completed", "failed", "cancelled", "expired")


def line(number: int, body: dict[str, Any]) -> bytes:
    """Return a line of an input file."""
    entry = {"custom_id": f"line-{number}", "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(entry).encode() + b"\n"


def body(number: int, pace_ms: float = 0, words: int = 50) -> dict[str, Any]:
    """Return a request that the model server answers with two words, each after `pace_ms`."""
    prompt = f"{number} " + "the quick brown fox " * (words // 4)
    messages = [{"role": "user", "content": prompt}]
    return {"model": "talks", "max_tokens": 2, "bench_pace_ms": pace_ms, "messages": messages}


@contextmanager
def serving(folder: str, *options: str, env: dict[str, str] | None = None) -> Generator[Process]:
    """Run the daemon on a store in the folder."""
    settings = {
        "FORGE_PROXY_STORE__URL": f"sqlite+aiosqlite:///{folder}/runs.db",
        "FORGE_PROXY_BACKEND__SLOTS": str(_SLOTS),
        **(env or {}),
    }
    with daemon(*options, env=settings, forked=False) as proxy:
        yield proxy


@contextmanager
def model_server() -> Generator[str]:
    """Run the model server of the benchmarks and return its URL."""
    port = free_port()
    process = Process("tests.bench.backend", str(port))
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                httpx.get(f"{url}/v1/models")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield url
    finally:
        process.stop()


class Client:
    """A client of the daemon."""

    def __init__(self, proxy: Process) -> None:
        self._http = httpx.Client(base_url=proxy.url, timeout=300)
        self.process = psutil.Process(proxy.pid)

    def submit(self, content: bytes) -> str:
        """Upload a file and create a batch of it; return its id."""
        file = self._http.post("/v1/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", content)}).json()
        request = {"input_file_id": file["id"], "endpoint": _ENDPOINT, "completion_window": "24h"}
        return self._http.post("/v1/batches", json=request).json()["id"]

    def wait(self, batch_id: str, *statuses: str, seconds: float = 0.05) -> dict[str, Any]:
        """Return a batch once it has one of these statuses."""
        while True:
            batch = self._http.get(f"/v1/batches/{batch_id}").json()
            if batch["status"] in statuses:
                return batch
            time.sleep(seconds)

    def cancel(self, batch_id: str) -> None:
        """Cancel a batch."""
        self._http.post(f"/v1/batches/{batch_id}/cancel")

    def ask(self, request: dict[str, Any]) -> float:
        """Send a bare request and return its seconds."""
        began = time.perf_counter()
        self._http.post(_ENDPOINT, json=request).raise_for_status()
        return time.perf_counter() - began

    def cpu(self) -> float:
        """Return the CPU seconds of the daemon."""
        times = self.process.cpu_times()
        return times.user + times.system


def measure_validation(url: str, count: int) -> None:
    """Print how long a large file takes until its first line is sent, and the memory that it takes."""
    content = b"".join(line(number, body(number, 1000, 400)) for number in range(count))
    with TemporaryDirectory() as folder, serving(folder, "--backend-url", url) as proxy:
        client = Client(proxy)
        client.ask(body(0))
        idle = client.process.memory_info().rss
        batch_id = client.submit(content)
        began, peak = time.perf_counter(), idle
        while client.wait(batch_id, "validating", "in_progress", *_ENDED)["status"] == "validating":
            peak = max(peak, client.process.memory_info().rss)
        seconds = time.perf_counter() - began
        peak = max(peak, client.process.memory_info().rss)
        client.cancel(batch_id)
        client.wait(batch_id, *_ENDED)
        peak = max(peak, client.process.memory_info().rss)
        size = len(content) / 1e6
        print(f"{count} lines, {size:.0f} MB: checked in {seconds:.1f} s, {(peak - idle) / 1e6:.0f} MB above idle")


def measure_cpu(url: str, count: int) -> None:
    """Print the CPU time of the daemon for each line, and for each bare request."""
    content = b"".join(line(number, body(number)) for number in range(count))
    with TemporaryDirectory() as folder, serving(folder, "--backend-url", url) as proxy:
        client = Client(proxy)
        client.wait(client.submit(content[: content.index(b"\n") + 1]), *_ENDED)
        for turn in range(2):
            began = client.cpu()
            for number in range(count):
                client.ask(body(number))
            bare = client.cpu() - began
            began = client.cpu()
            batch = client.wait(client.submit(content), *_ENDED, seconds=2.0)
            whole = client.cpu() - began
            assert batch["request_counts"]["completed"] == count
            each, lone = 1000 * whole / count, 1000 * bare / count
            print(
                f"CPU, turn {turn}: {each:.2f} ms per line, {lone:.2f} ms per bare request, {each - lone:.2f} ms more"
            )


def measure_use(url: str, count: int) -> None:
    """Print how busy the slots of a model server are whose responses take some 50 ms."""
    content = b"".join(line(number, body(number, 25)) for number in range(count))
    with TemporaryDirectory() as folder, serving(folder, "--backend-url", url) as proxy:
        client = Client(proxy)
        batch = client.wait(client.submit(content), *_ENDED)
        seconds = batch["forge"]["seconds"]
        busy = count * 0.05 / (_SLOTS * seconds)
        print(f"{count} lines of 50 ms on {_SLOTS} slots: {seconds:.1f} s, slots {100 * busy:.0f} % busy")


def measure_prefixes(count: int, groups: int) -> None:
    """Print the tokens that llama.cpp reuses, and the seconds, with and without the order by prefixes."""
    texts = [f"Document {name}. " + f"{name} is the subject of this sentence. " * 60 for name in range(groups)]
    content = b"".join(
        line(number, {
            "messages": [
                {"role": "system", "content": texts[number % groups]},
                {"role": "user", "content": f"Question {number}?"},
            ],
            "max_tokens": 8, "temperature": 0,
        })
        for number in range(count)
    )  # fmt: skip
    for is_on in ("on", "off", "on", "off"):
        env = {
            "FORGE_PROXY_BATCHES__ORDER_BY_PREFIX": is_on,
            "FORGE_PROXY_BACKEND__LLAMA_SERVER__CONTEXT": "2048",
            "FORGE_PROXY_BACKEND__LLAMA_SERVER__SLOTS": str(_SLOTS),
        }
        with TemporaryDirectory() as folder, serving(folder, "--backend", "embedded", env=env) as proxy:
            client = Client(proxy)
            batch = client.wait(client.submit(content), *_ENDED, seconds=1.0)
            usage = batch["usage"]
            cached, prompt = usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]
            seconds, counts = batch["forge"]["seconds"], batch["request_counts"]
            assert counts["completed"] == count, counts
            print(f"order {is_on}: {seconds:.1f} s, {cached} of {prompt} prompt tokens reused")


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=50_000, help="lines of the large file")
    parser.add_argument("--prefixes", action="store_true", help="only the order by prefixes, on the embedded llama.cpp")
    options = parser.parse_args()
    print(f"{psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}", Path("/proc/version").read_text()[:20])
    if options.prefixes:
        measure_prefixes(200, 5)
        return
    with model_server() as url:
        measure_validation(url, options.lines)
        measure_cpu(url, 500)
        measure_use(url, 500)


if __name__ == "__main__":
    main()
