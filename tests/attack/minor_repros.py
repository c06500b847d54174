"""The minor faults that the security review found (14) as bounded repros."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import time
from pathlib import Path

import httpx

from tests.attack.checkout import Checkout, MeasuredTarget, Outcome
from tests.attack.repros import Repro, adversary, folder, run_with_program, with_programs
from tests.attack.target import CHAT, TOOL, Answer, ask, head, statuses, together
from tests.fakes.far_side import far_side
from tests.fakes.postgres import postgres
from tests.fakes.processes import free_port, has_ended, model_server, until
from tests.system.runs import FINISHED, RUNS, submission, submit, wait_until


def _odd_statuses(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        texts: list[str] = []
        for status in (101, 204, 301, 302, 307, 600, 999):
            try:
                answer = target.post(ask("odd-status", seed=status), seconds=10)
                texts.append(f"{status}: {answer.status} {answer.message.partition(':')[0][:40]}".strip())
            except OSError:
                texts.append(f"{status}: no response")
        return "; ".join(texts)

    return checkout.measure(act, adversary)


def _user_and_key(checkout: Checkout) -> Outcome:
    with model_server() as server:
        env = {
            "FORGE_PROXY_BACKEND__KIND": "openai",
            "FORGE_PROXY_BACKEND__URL": server.url.replace("http://", "http://user:password@"),
            "FORGE_PROXY_BACKEND__API_KEY": "key",
        }
        try:
            with checkout.daemon(env=env) as proxy:
                answer = httpx.post(proxy.url + CHAT, json=ask("says"), timeout=10)
                return Outcome(f"starts; a request: {answer.status_code}")
        except AssertionError:
            return Outcome("refuses to start")


def _huge_usage(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        status = target.post(ask("huge-usage", tools=[TOOL], seed=2**63)).status
        time.sleep(1)  # the log is written by a thread
        lines = [line for line in target.proxy.printed.splitlines() if '"answered"' in line]
        return f"{status}, {'logged' if any('huge-usage' in line for line in lines) else 'not logged'}"

    return checkout.measure(act, adversary)


def _heads(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        body = json.dumps(ask("says")).encode()
        origins = ("Origin: http://evil.example", "Origin: http://localhost", f"Content-Length: {len(body)}")
        without_host = target.send(b"GET /v1/models HTTP/1.1\r\n\r\n").status
        return f"no Host: {without_host}, two Origins: {target.send(head('POST', CHAT, *origins) + body).status}"

    return checkout.measure(act)


def _odd_run_id(checkout: Checkout) -> Outcome:
    with far_side() as side, postgres() as database:
        env = {"FORGE_PROXY_STORE__URL": database.url}
        with checkout.daemon("--backend-url", side.url, env=env) as proxy:
            return Outcome(str(httpx.get(f"{proxy.url}{RUNS}/run_%00", timeout=20).status_code))


def _little_memory(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        size = int(Path(f"/proc/{target.proxy.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        most = size + 200_000_000
        resource.prlimit(target.proxy.pid, resource.RLIMIT_AS, (most, most))
        body = json.dumps({**ask("says"), "filler": "x" * 40_000_000}).encode()
        answers = together(4, lambda _: target.post(body))
        after = target.post(ask("says", tools=[TOOL])).status
        return f"{', '.join(statuses(answers))}; a small request afterwards: {after}"

    return checkout.measure(act, env={"FORGE_PROXY_SERVER__MAX_BODY_MB": "64"})


def _deleted_database(checkout: Checkout) -> Outcome:
    with far_side() as side, folder() as place:
        env = {"FORGE_PROXY_STORE__URL": f"sqlite+aiosqlite:///{place}/runs.db"}
        with checkout.daemon("--backend-url", side.url, env=env) as proxy:
            body = submission(side, "look", "finish")
            for tool in body["workflow"]["tools"].values():
                tool["execute"] = {"by": "arguments"}
            wait_until(proxy, submit(proxy, body)["id"], *FINISHED)
            for file in place.glob("runs.db*"):
                file.unlink()
            answer = httpx.post(proxy.url + RUNS, json=body, timeout=20)
            where = "on disk" if (place / "runs.db").exists() else "no file"
            return Outcome(f"a run is answered with {answer.status_code}, {where}")


def _daemonized(checkout: Checkout) -> Outcome:
    pids: list[int] = []

    def act(target: MeasuredTarget) -> str:
        run = run_with_program(target.proxy, "hostile", "daemonize")
        results = [one["content"] for one in run["messages"] if one["role"] == "tool"]
        pids.append(int(results[0]))
        return "the process of a child"

    outcome = with_programs(checkout, act)
    try:
        until(lambda: has_ended(pids[0]), "it ends")
    except AssertionError:
        os.kill(pids[0], 9)
        return outcome._replace(text="runs on after the daemon")
    return outcome._replace(text="ends with the daemon")


def _unread_log(checkout: Checkout) -> Outcome:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with model_server() as server, os.fdopen(reading), os.fdopen(writing, "w") as unread:
        port = free_port()
        words = ("serve", "--port", str(port), "--backend", "openai", "--backend-url", server.url)
        proxy = checkout.process(*words, stderr=unread)
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _is_up(url), "it listens")
            with httpx.Client(base_url=url, timeout=5) as client:
                for turn in range(600):
                    try:
                        client.post(CHAT, json=ask("says")).raise_for_status()
                    except httpx.HTTPError:
                        return Outcome(f"blocked after {turn} requests")
            return Outcome("600 of 600 answered")
        finally:
            proxy.send_signal(signal.SIGKILL)
            proxy.wait()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(url + "/healthz", timeout=5).is_success
    except httpx.TransportError:
        return False


def _many_streams(checkout: Checkout) -> Outcome:
    def act(target: MeasuredTarget) -> str:
        body = ask("text-pattern", user="lines of text/20000", stream=True, tools=[TOOL])
        came = together(500, lambda _: target.post(body, seconds=60), clients=500)
        whole = sum(isinstance(one, Answer) and b"[DONE]" in one.body for one in came)
        return f"{whole} of 500 answered" + ("" if whole == 500 else f" ({statuses(came)})")

    return checkout.measure(act, adversary, {"FORGE_PROXY_BACKEND__QUEUE_LIMIT": "1000"})


MINOR_REPROS = [
    Repro("14a", "status 101, 204, 301, 302, 307, 600, 999 of the model server", _odd_statuses),
    Repro("14b", "`backend.url` with a user and `backend.api_key`", _user_and_key),
    Repro("14c", "integers of more than 64 bits in usage", _huge_usage),
    Repro("14d", "HTTP/1.1 without Host; a foreign Origin before a local one", _heads),
    Repro("14e", "`runs/run_%00` on PostgreSQL", _odd_run_id),
    Repro("14f", "bodies of 40 MB with 200 MB of memory left", _little_memory),
    Repro("14g", "the database deleted under the daemon", _deleted_database),
    Repro("14h", "a process that an MCP program has daemonized", _daemonized),
    Repro("14i", "a log pipe that nobody reads", _unread_log),
    Repro("14j", "500 guarded streams of 20 kB at once", _many_streams),
]
