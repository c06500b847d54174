"""Several models of which one at a time is loaded: faults with the fake server, load with a real llama.cpp."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from forge_proxy.backends.llama_server.programs import TINY_MODEL
from tests.fakes.llama_server import Fake
from tests.fakes.processes import Process, command, daemon, until
from tests.system.asking import PATH, ask, error, events, text

CLIENTS, EACH = 8, 4


@contextmanager
def catalog(folder: Path, models: dict[str, Any], backend: dict[str, Any]) -> Generator[Process]:
    """A daemon with these models, once the first is loaded."""
    file = folder / "models.yaml"
    file.write_text(json.dumps({"models": models, "backend": backend, "server": {"first_event_seconds": 0.1}}))
    with daemon("--config", str(file)) as proxy:
        proxy.wait_for("ready")
        yield proxy


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@contextmanager
def over(fake: Fake, **models: Any) -> Generator[Process]:
    """`says` and `slow`, which the fake server knows (`slow` waits for its release), and these."""
    entries = {name: {"gguf": str(fake.model), **entry} for name, entry in {"says": {}, "slow": {}, **models}.items()}
    backend = {"llama_server": {"binary": str(fake.path), "slots": 1}}
    with catalog(fake.folder, entries, backend) as proxy:
        yield proxy


def loads(fake: Fake) -> list[str]:
    """Return the loaded models, in order."""
    return [start["flags"][start["flags"].index("--alias") + 1] for start in fake.starts]


def waiting(proxy: Process) -> int:
    return httpx.get(f"{proxy.url}/admin/v1/status").json()["queue"]["waiting"]


def test_many_clients_of_two_models_on_a_real_server_are_all_answered(tmp_path: Path) -> None:
    models: dict[str, Any] = {}
    for name in ("left", "right"):
        shutil.copy(TINY_MODEL, tmp_path / f"{name}.gguf")
        models[name] = {"gguf": str(tmp_path / f"{name}.gguf"), "aliases": [name.upper()], "context": 512}
    models["right"]["context"] = 1024
    backend = {"kind": "embedded", "llama_server": {"swap_after_seconds": 1}}

    def talk(number: int) -> list[str]:
        said: list[str] = []
        with httpx.Client(base_url=proxy.url, timeout=120, headers={"authorization": f"Bearer {number}"}) as client:
            for turn in range(EACH):
                name = ("left", "RIGHT")[(number + turn // 2) % 2]
                body = {**ask(name, max_tokens=20, stream=turn % 2 == 0), "temperature": 0}
                body["messages"] = [{"role": "user", "content": "hello"}]
                answer = client.post(PATH, json=body)
                assert answer.status_code == 200, answer.text
                if body["stream"]:
                    data = events(answer.text.splitlines())
                    assert data[-1] == "[DONE]"
                    said.append(text(data))
                else:
                    assert answer.json()["model"] == name
                    said.append(answer.json()["choices"][0]["message"]["content"])
        return said

    with catalog(tmp_path, models, backend) as proxy, ThreadPoolExecutor(CLIENTS) as pool:
        talks = list(pool.map(talk, range(CLIENTS)))
        listed = httpx.get(f"{proxy.url}/v1/models").json()["data"]
        connected = command("connect", "env", "--model", "RIGHT", "--url", proxy.url)
        swaps = proxy.printed.count('"event":"model swapped"')
        failed = proxy.printed.count('"event":"failed"')

    assert [len(said) for said in talks] == [EACH] * CLIENTS
    assert len({one for said in talks for one in said}) == 1
    assert {model["id"]: model["context_length"] for model in listed} == {"left": 512, "right": 1024}
    assert [model["aliases"] for model in listed] == [["LEFT"], ["RIGHT"]]
    assert "OPENAI_MODEL=RIGHT" in connected.out, connected.err
    assert "FORGE_CONTEXT_WINDOW=1024" in connected.out
    assert failed == 0
    assert 1 <= swaps < CLIENTS * EACH / 2


def test_a_client_that_disconnects_while_waiting_for_a_swap_loads_no_model(fake: Fake) -> None:
    with over(fake) as proxy, ThreadPoolExecutor(2) as pool:
        asked = pool.submit(httpx.post, proxy.url + PATH, json=ask("slow"), timeout=30)
        until(lambda: fake.asked("slow") == 1, "the other model is loaded and asked")
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(proxy.url + PATH, json=ask("says"), timeout=1)
        with httpx.stream("POST", proxy.url + PATH, json=ask("says", stream=True), timeout=30):
            pass  # its headers arrive while it waits, and it disconnects
        proxy.wait_for("abandoned")
        until(lambda: waiting(proxy) == 0, "nobody waits")
        fake.go()
        answer = asked.result(30)
        after = loads(fake)
        back = httpx.post(proxy.url + PATH, json=ask("says"), timeout=30)

    assert (answer.status_code, back.status_code) == (200, 200)
    assert after == ["says", "slow"]
    assert loads(fake) == ["says", "slow", "says"]


def test_a_model_that_does_not_load_fails_its_own_requests_and_is_not_retried_at_once(fake: Fake) -> None:
    with over(fake, big={"context": 666}) as proxy:
        first = httpx.post(proxy.url + PATH, json=ask("big"), timeout=30)
        tried = loads(fake)
        second = httpx.post(proxy.url + PATH, json=ask("big", stream=True), timeout=30)
        other = httpx.post(proxy.url + PATH, json=ask("says"), timeout=30)
        used = httpx.post(f"{proxy.url}/admin/v1/backend/model", json={"model": "big"}, timeout=30)
        still = httpx.post(proxy.url + PATH, json=ask("says"), timeout=30)

    assert (first.status_code, error(first)["code"]) == (503, "model_not_loaded")
    assert "failed to allocate buffer for kv cache" in error(first)["message"]
    assert first.headers["retry-after"] == "5"
    assert (second.status_code, error(second)["code"]) == (503, "model_not_loaded")
    assert (tried, other.status_code) == (["says", "big", "says"], 200)
    assert used.status_code == 503
    assert still.status_code == 200


def test_a_server_that_dies_is_restarted_with_the_same_model(fake: Fake) -> None:
    with over(fake) as proxy, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, proxy.url + PATH, json=ask("slow"), timeout=30)
        until(lambda: fake.asked("slow") == 1, "it is asked")
        os.kill(fake.pid, signal.SIGKILL)
        until(lambda: fake.asked("slow") == 2, "it is asked anew")
        fake.go()
        answer = asked.result(30)

    assert answer.status_code == 200
    assert loads(fake) == ["says", "slow", "slow"]


def test_a_model_has_its_own_budget_and_the_others_the_common_one(fake: Fake) -> None:
    own = {"budget": {"mode": "manual", "tokens": 512}, "aliases": ["small"]}
    with over(fake, slow={"context": 4096}, **{"always-whole": own}) as proxy:
        fast = httpx.put(f"{proxy.url}/admin/v1/budget", json={"mode": "forge-fast"}, timeout=30)
        for name in ("small", "says"):
            assert httpx.post(proxy.url + PATH, json=ask(name), timeout=30).status_code == 200
        listed = httpx.get(f"{proxy.url}/v1/models").json()["data"]
        alias = httpx.get(f"{proxy.url}/v1/models/small").json()

    windows = {model["id"]: model.get("context_length") for model in listed}
    contexts = [start["flags"][start["flags"].index("-c") + 1] for start in fake.starts if "-c" in start["flags"]]
    assert fast.status_code == 200
    assert windows["always-whole"] == 512
    assert windows["slow"] == 2048
    assert "512" in contexts
    assert alias["id"] == "always-whole"


def test_the_admin_api_selects_a_model_and_stops_the_server(fake: Fake) -> None:
    with over(fake) as proxy:
        admin = f"{proxy.url}/admin/v1/backend"
        used = httpx.post(f"{admin}/model", json={"model": "slow"}, timeout=30)
        unknown = httpx.post(f"{admin}/model", json={"model": "none"}, timeout=30)
        httpx.post(f"{admin}/stop", timeout=30)
        refused = [httpx.post(proxy.url + PATH, json=ask(name), timeout=30) for name in ("says", "slow")]
        httpx.post(f"{admin}/start", timeout=30)
        again = httpx.post(proxy.url + PATH, json=ask("says"), timeout=30)

    assert used.json()["server"]["model"] == "slow"
    assert (unknown.status_code, error(unknown)["code"]) == (404, "model_not_found")
    assert [answer.status_code for answer in refused] == [503, 503]
    assert all("has been stopped" in error(answer)["message"] for answer in refused)
    assert again.status_code == 200
    assert loads(fake) == ["says", "slow", "slow", "says"]


def test_an_unknown_model_is_a_404_or_the_default(fake: Fake) -> None:
    with over(fake) as proxy:
        answer = httpx.post(proxy.url + PATH, json=ask("gpt-4o"), timeout=30)

    assert (answer.status_code, error(answer)["code"]) == (404, "model_not_found")
    assert "available: says, slow" in error(answer)["message"]
