"""Runs in a real daemon: with the embedded model, over HTTP and by commands, stored in SQLite and PostgreSQL."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.fakes.far_side import FarSide, far_side
from tests.fakes.postgres import Postgres, postgres
from tests.fakes.processes import Ended, Process, closed_port, command, daemon, until
from tests.system.runs import RUNS, JsonDict, Place, events, kill, look, submission, submit, wait_until

WEATHER: JsonDict = {
    "workflow": {
        "name": "weather",
        "tools": {
            "get_weather": {
                "description": "get the weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city", "days"],
                },
            }
        },
        "terminal_tool": "get_weather",
        "system_prompt_template": "You are a helper.",
    },
    "user_message": "Please get the weather with city Paris and days 3.",
    "options": {"temperature": 0},
    "metadata": {"mine": [1]},
}


@pytest.fixture
def side() -> Generator[FarSide]:
    with far_side() as side:
        yield side


@pytest.fixture
def place(side: FarSide, tmp_path: Path) -> Place:
    return Place(side, tmp_path)


@pytest.fixture(scope="module")
def database() -> Generator[Postgres]:
    with postgres() as server:
        yield server


def post_output(proxy: Process, run: JsonDict, output: object) -> httpx.Response:
    (call,) = run["required_action"]
    body = {"outputs": [{"tool_call_id": call["id"], "output": output}]}
    return httpx.post(f"{proxy.url}{RUNS}/{run['id']}/tool_outputs", json=body, timeout=20)


def test_the_embedded_model_calls_a_tool_of_the_client(tmp_path: Path) -> None:
    with daemon("--backend", "embedded", env={"XDG_STATE_HOME": str(tmp_path)}) as proxy:
        run = submit(proxy, WEATHER)
        waiting = wait_until(proxy, run["id"], "requires_action", "failed")
        answer = post_output(proxy, waiting, {"sun": True})
        done = wait_until(proxy, run["id"], "completed", "failed")
        told = events(proxy, run["id"])

    assert run["metadata"] == {"mine": [1]}
    assert json.loads(waiting["required_action"][0]["function"]["arguments"]) == {"city": "Paris", "days": 3}
    assert (answer.status_code, answer.json()["required_action"]) == (200, [])
    assert done["result"]["result"] == {"sun": True}
    statuses = [event["data"]["status"] for event in told if event["type"] == "status"]
    assert statuses == ["queued", "running", "requires_action", "queued", "running", "completed"]
    assert (tmp_path / "forge-proxy" / "runs.db").exists()


def test_a_cut_stream_is_resumed_after_its_last_event(side: FarSide, place: Place) -> None:
    with place.daemon() as proxy:
        side.hold("t2")
        run = submit(proxy, submission(side, "t1", "t2", "finish"))
        side.wait_for_called("t2")
        first = events(proxy, run["id"], most=4)
        side.let_go("t2")
        rest = events(proxy, run["id"], after=4)
        again = events(proxy, run["id"])

    assert [event["id"] for event in first + rest] == list(range(1, len(again) + 1))
    assert first + rest == again
    assert again[-1]["data"] == {"status": "completed"}


def test_events_arrive_during_the_run_and_the_connection_is_kept_alive(side: FarSide, place: Place) -> None:
    side.hold("look")
    with place.daemon(env={"FORGE_PROXY_SERVER__KEEPALIVE_SECONDS": "0.1"}) as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        with httpx.stream("GET", f"{proxy.url}{RUNS}/{run['id']}/events", timeout=20) as answer:
            lines = answer.iter_lines()
            started = next(line for line in lines if line.startswith("event: tool_started"))
            silent = next(line for line in lines if line.startswith(": ping"))
            side.let_go("look")
            rest = [line for line in lines if line.startswith("data: ")]

    assert started
    assert silent
    assert json.loads(rest[-1].removeprefix("data: ")) == {"status": "completed"}


def test_cancelling_a_run_ends_the_generation(side: FarSide, place: Place) -> None:
    side.hold("model")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_asked(1)
        first = httpx.post(f"{proxy.url}{RUNS}/{run['id']}/cancel", timeout=20)
        done = wait_until(proxy, run["id"], "cancelled")
        again = httpx.post(f"{proxy.url}{RUNS}/{run['id']}/cancel", timeout=20)
        told = events(proxy, run["id"])
        queue = httpx.get(f"{proxy.url}/admin/v1/status").json()["queue"]

    assert (first.status_code, again.status_code) == (200, 200)
    assert [message["role"] for message in done["messages"]] == ["system", "user"]
    assert told[-1]["data"] == {"status": "cancelled"}
    assert queue["running"] == 0


def test_stopping_the_daemon_waits_for_no_run_and_no_watcher(side: FarSide, place: Place) -> None:
    side.hold("look")
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        with httpx.stream("GET", f"{proxy.url}{RUNS}/{run['id']}/events", timeout=20) as watching:
            lines = watching.iter_lines()
            next(line for line in lines if line)  # its events are being sent
            told_at = time.monotonic()
            proxy.send_signal(signal.SIGTERM)
            code = proxy.wait()
            took = time.monotonic() - told_at
            rest = [*lines]
    side.let_go("look")
    with place.daemon() as proxy:
        done = wait_until(proxy, run["id"], "completed", "failed")

    assert (code, done["status"]) == (0, "completed")
    assert took < 15, "it has 20 seconds for answers, and there were none"
    assert rest[-1] == "", "the stream ends after a whole event"
    assert "Traceback" not in proxy.printed


def test_a_second_daemon_serves_but_has_no_runs_until_the_first_has_ended(side: FarSide, place: Place) -> None:
    side.hold("look")
    with place.daemon() as first:
        run = submit(first, submission(side, "look", "finish"))
        side.wait_for_called("look")
        with place.daemon() as second:
            refused = httpx.get(f"{second.url}{RUNS}/{run['id']}", timeout=20)
            answered = httpx.get(f"{second.url}/admin/v1/status", timeout=20)
            second.wait_for("run store unavailable")
            kill(first)
            side.let_go("look")
            until(lambda: httpx.get(second.url + RUNS, timeout=20).status_code == 200, "the second one has it")
            done = wait_until(second, run["id"], "completed", "failed")

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
    assert "store.url" in refused.json()["error"]["message"]
    assert answered.status_code == 200
    assert done["status"] == "completed"


def test_a_run_waits_for_a_model_server_that_is_down(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with closed_port() as port:
            away = FarSide(url=f"http://127.0.0.1:{port}")
            proxy = stack.enter_context(Place(away, tmp_path).daemon())
            run = submit(proxy, submission(away, "finish"))
            waiting = events(proxy, run["id"], most=5)[-1]
        stack.enter_context(far_side(port))
        done = wait_until(proxy, run["id"], "completed", "failed")

    assert (waiting["type"], waiting["data"]) == ("waiting", {"error": "BackendUnreachable", "seconds": 1})
    assert done["status"] == "completed"


def test_a_run_in_postgres_survives_a_killed_daemon(side: FarSide, tmp_path: Path, database: Postgres) -> None:
    side.hold("t2")
    place = Place(side, tmp_path, database.url)
    with place.daemon() as proxy:
        run = submit(proxy, submission(side, "t1", "t2", "finish"))
        side.wait_for_called("t2")
        kill(proxy)
    side.let_go("t2")
    with place.daemon() as proxy:
        done = wait_until(proxy, run["id"], "completed", "failed")
        seen = events(proxy, run["id"])

    assert done["status"] == "completed"
    assert [event["id"] for event in seen] == list(range(1, done["last_event"] + 1))
    assert (len(side.keys("t1")), len(side.keys("t2")), len(set(side.keys("t2")))) == (1, 2, 1)


def test_a_run_continues_when_its_postgres_is_up_again(side: FarSide, tmp_path: Path, database: Postgres) -> None:
    side.hold("t1")
    with Place(side, tmp_path, database.url).daemon() as proxy:
        run = submit(proxy, submission(side, "t1", "finish"))
        side.wait_for_called("t1")
        database.stop()
        side.let_go("t1")
        until(lambda: httpx.get(f"{proxy.url}{RUNS}", timeout=20).status_code == 503, "it is missed")
        database.start()
        done = wait_until(proxy, run["id"], "completed", "failed")

    assert done["status"] == "completed"
    assert len(side.keys("t1")) == 1


class TestCommands:
    """`forge-proxy runs`, one daemon for all."""

    @pytest.fixture(scope="class")
    @classmethod
    def side(cls) -> Generator[FarSide]:
        with far_side() as side:
            yield side

    @pytest.fixture(scope="class")
    @classmethod
    def proxy(cls, side: FarSide, tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
        with Place(side, tmp_path_factory.mktemp("commands")).daemon() as proxy:
            yield proxy

    def ask(self, proxy: Process, *words: str, stdin: JsonDict | None = None) -> Ended:
        text = None if stdin is None else json.dumps(stdin).encode()
        return command("runs", *words, env={"FORGE_PROXY_URL": proxy.url}, stdin=text)

    def test_a_run_is_submitted_and_watched_to_its_end(self, side: FarSide, proxy: Process, tmp_path: Path) -> None:
        file = tmp_path / "run.json"
        file.write_text(json.dumps(submission(side, "look", "finish")))

        watched = self.ask(proxy, "submit", str(file), "--watch")
        listed = self.ask(proxy, "list", "--status", "completed")
        as_json = self.ask(proxy, "watch", watched.out.split()[0], "--json")

        run_id, *lines, result = watched.out.splitlines()
        assert (watched.code, result) == (0, "finish was done")
        assert lines[-1].split()[1:] == ["status", "completed"]
        assert listed.out.split()[:2] == [run_id, "completed"]
        assert [json.loads(line)["id"] for line in as_json.out.splitlines()] == list(range(1, len(lines) + 1))

    def test_the_same_key_submits_once(self, side: FarSide, proxy: Process) -> None:
        body = submission(side, "finish")

        first, second = (self.ask(proxy, "submit", "-", "--idempotency-key", "k", stdin=body) for _ in range(2))
        other = self.ask(proxy, "submit", "-", "--idempotency-key", "k", stdin={**body, "user_message": "Stop."})

        assert first.out == second.out
        assert (other.code, other.err) == (1, "forge-proxy: this Idempotency-Key was used for another submission\n")

    def test_watching_a_cancelled_run_ends_with_exit_code_1(self, side: FarSide, proxy: Process) -> None:
        submitted = self.ask(proxy, "submit", "-", stdin=submission(side, "ask", "finish", by_caller=("ask",)))
        wait_until(proxy, submitted.out.strip(), "requires_action")
        cancelled = self.ask(proxy, "cancel", submitted.out.strip())
        watched = self.ask(proxy, "watch", submitted.out.strip())
        unknown = self.ask(proxy, "watch", "run_0")

        assert cancelled.out == "cancelled\n"
        assert "requires_action\n      ask(" in watched.out
        assert (watched.code, watched.err) == (1, "forge-proxy: the run is cancelled\n")
        assert (unknown.code, unknown.err) == (1, "forge-proxy: no run 'run_0' here\n")

    def test_watch_prints_that_the_run_waits_for_the_client(
        self, side: FarSide, proxy: Process, tmp_path: Path
    ) -> None:
        file = tmp_path / "run.json"
        file.write_text(json.dumps(submission(side, "ask", "finish", by_caller=("ask",))))
        words = ("runs", "submit", str(file), "--watch")
        watching = Process("forge_proxy", *words, env={"FORGE_PROXY_URL": proxy.url}, forked=True)
        until(lambda: "the run waits" in watching.printed, "it is told")
        run = look(proxy, next(line for line in watching.printed.splitlines() if line.startswith("run_")))
        posted = post_output(proxy, run, "out")

        (call,) = run["required_action"]
        route = f"POST {proxy.url}{RUNS}/{run['id']}/tool_outputs"
        send = f"'forge-proxy runs outputs {run['id']} CALL=VALUE …'"
        told = f"forge-proxy: the run waits for the outputs of ask [{call['id']}]; send them with {send} or {route}"
        assert (posted.status_code, watching.wait()) == (200, 0)
        assert watching.printed.splitlines().count(told) == 1

    def test_a_run_is_shown_given_its_output_and_deleted(self, side: FarSide, proxy: Process) -> None:
        body = submission(side, "ask", "finish", by_caller=("ask",))
        run_id = self.ask(proxy, "submit", "-", stdin=body).out.strip()
        (call,) = wait_until(proxy, run_id, "requires_action")["required_action"]
        waiting = self.ask(proxy, "show", run_id)
        early = self.ask(proxy, "delete", run_id)
        unknown = self.ask(proxy, "outputs", run_id, "call_of_nobody=1")
        sent = self.ask(proxy, "outputs", run_id, f'{call["id"]}={{"n": 1}}', "--json")
        wait_until(proxy, run_id, "completed")
        shown, as_json = self.ask(proxy, "show", run_id), self.ask(proxy, "show", run_id, "--json")
        deleted, gone = self.ask(proxy, "delete", run_id), self.ask(proxy, "show", run_id)

        assert f'waits for   ask({{"n": 1}}) [{call["id"]}]' in waiting.out
        assert (early.code, unknown.code) == (1, 1)
        assert "outputs[0].tool_call_id: no call 'call_of_nobody'" in unknown.err
        assert json.loads(sent.out)["id"] == run_id
        rows = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
        assert (rows["status"], rows["done"], rows["pending"], rows["result"]) == (
            "completed", "ask, finish", "none", "finish was done",
        )  # fmt: skip
        told = next(one for one in json.loads(as_json.out)["messages"] if one.get("tool_call_id") == call["id"])
        assert told["content"] == '{"n":1}'
        assert (deleted.out, gone.err) == (f"deleted {run_id}\n", f"forge-proxy: no run '{run_id}' here\n")

    def test_outputs_are_read_from_a_file_and_can_report_a_failed_tool(self, side: FarSide, proxy: Process) -> None:
        body = submission(side, "ask", "finish", by_caller=("ask",))
        run_id = self.ask(proxy, "submit", "-", stdin=body).out.strip()
        (call,) = wait_until(proxy, run_id, "requires_action")["required_action"]
        failed = self.ask(proxy, "outputs", run_id, "--error", f"{call['id']}=no such file")
        until(lambda: look(proxy, run_id)["required_action"] not in ([], [call]), "it is called again")
        (again,) = look(proxy, run_id)["required_action"]
        outputs = {"outputs": [{"tool_call_id": again["id"], "output": "fine"}]}
        done = self.ask(proxy, "outputs", run_id, "--file", "-", stdin=outputs)

        assert (failed.code, done.code) == (0, 0)
        assert "no such file" in json.dumps(wait_until(proxy, run_id, "completed")["messages"])

    def test_the_invalid_field_of_a_submission_is_named(self, side: FarSide, proxy: Process, tmp_path: Path) -> None:
        missing = self.ask(proxy, "submit", str(tmp_path / "nowhere.json"))
        wrong = self.ask(proxy, "submit", "-", stdin={**submission(side, "finish"), "max_iterations": 0})

        assert missing.err.endswith("nowhere.json: No such file or directory\n")
        assert wrong.err.startswith("forge-proxy: max_iterations: ")

    def test_watching_continues_after_a_restart(self, side: FarSide, place: Place) -> None:
        """Start the daemon again on the same port."""
        side.hold("look")
        with place.daemon() as proxy:
            run = submit(proxy, submission(side, "look", "finish"))
            side.wait_for_called("look")
            words = ("runs", "watch", run["id"])
            watching = Process("forge_proxy", *words, env={"FORGE_PROXY_URL": proxy.url}, forked=True)
            until(lambda: "tool_started" in watching.printed, "it watches")
            kill(proxy)
        side.let_go("look")
        with place.daemon("--port", proxy.url.rpartition(":")[2]) as proxy:
            code = watching.wait()
            last = look(proxy, run["id"])["last_event"]

        assert code == 0
        assert [line.split()[0] for line in watching.printed.splitlines()[:-1]] == [str(i + 1) for i in range(last)]
