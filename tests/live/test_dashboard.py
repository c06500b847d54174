"""The dashboard in a real browser, over a daemon with a real llama.cpp."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path
from typing import Any

import axe_playwright_python  # pyright: ignore[reportMissingTypeStubs]
import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.fakes.browser import Complaints, chromium
from tests.fakes.processes import ROOT, Process, daemon, until
from tests.live.weather import ASK_PARIS, MODEL, TOOLS
from tests.properties import sample

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
ADMIN = {"authorization": "Bearer sk-admin"}
VIEWS = ("now", "requests", "requests/1", "ledger", "runs")


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    folder = tmp_path_factory.mktemp("dashboard")
    settings = folder / "forge-proxy.yaml"
    settings.write_text("server: {admin_keys: [sk-admin]}\n")
    env = {"XDG_STATE_HOME": str(folder)}
    env["FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS"] = "1"
    with daemon("--backend", "embedded", "--config", str(settings), env=env) as process:
        yield process


@pytest.fixture(scope="module")
def context(browser: Browser, running: Process) -> Generator[BrowserContext]:
    opened = browser.new_context(locale="en-GB")
    opened.add_init_script("sessionStorage.setItem('forge-proxy-key', 'sk-admin')")
    send(running)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, running: Process) -> Generator[Page]:
    opened = context.new_page()
    complaints = Complaints(opened, running.url)
    yield opened
    opened.close()
    assert complaints.found == []


def send(running: Process, tool: str = "get_weather") -> None:
    """Send a request that is answered with a call."""
    body = {"model": MODEL, "messages": ASK_PARIS, "tools": TOOLS, "temperature": 0}
    headers = {"user-agent": "aider/0.86", "x-request-id": "from-the-test"}
    assert httpx.post(f"{running.url}/v1/chat/completions", json=body, headers=headers, timeout=60).is_success


@contextmanager
def traffic(running: Process) -> Generator[None]:
    """Clients that send one request after the other, with and without tools, more of them than the model has slots."""
    long = [{"role": "user", "content": "word " * 380}]
    endless = {"max_tokens": 60, "ignore_eos": True, "cache_prompt": False, "stream": True}
    bodies = [
        {"model": MODEL, "messages": long, **endless},
        {"model": MODEL, "messages": long, "tools": TOOLS, **endless},
        {"model": MODEL, "messages": ASK_PARIS, "tools": TOOLS, "stream": True},
    ]
    is_over = threading.Event()

    def send_until_over(client: int) -> None:
        for number, body in enumerate(cycle(bodies)):
            if is_over.is_set():
                return
            headers = {"user-agent": "aider/0.86", "x-request-id": f"client-{client}-{number}"}
            httpx.post(f"{running.url}/v1/chat/completions", json=body, headers=headers, timeout=60)

    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(send_until_over, client) for client in range(4)]
        try:
            yield
        finally:
            is_over.set()
    for one in sent:
        one.result()


@contextmanager
def restart_of_a_held_server(running: Process) -> Generator[None]:
    """A restart that ends after the block: it waits for the requests that the held server processes."""
    backend = httpx.get(f"{running.url}/admin/v1/backend", headers=ADMIN).raise_for_status().json()
    os.kill(backend["server"]["pid"], signal.SIGSTOP)
    restart = f"{running.url}/admin/v1/backend/restart"
    with ThreadPoolExecutor(1) as pool:
        restarted = pool.submit(httpx.post, restart, headers=ADMIN, timeout=60)
        try:
            yield
        finally:
            os.kill(backend["server"]["pid"], signal.SIGCONT)
    restarted.result().raise_for_status()


def show(page: Page, running: Process, view: str) -> None:
    page.goto(f"{running.url}/ui/#/{view}")
    expect(page.get_by_role("status")).to_have_text("Connected")


def test_a_key_is_asked_for_and_kept_in_the_tab(browser: Browser, running: Process) -> None:
    page = browser.new_page()
    page.goto(f"{running.url}/ui")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("server.admin_keys")
    page.get_by_label("One of").fill("sk-wrong")
    page.get_by_role("button", name="Use this key").click()
    expect(dialog).to_be_visible()
    page.get_by_label("One of").fill("sk-admin")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Model server")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Model server")).to_be_visible()
    page.close()


def test_a_request_appears_and_is_shown_with_its_attempts(page: Page, running: Process) -> None:
    show(page, running, "now")
    rows = page.get_by_role("region", name="The last ten that have ended").get_by_role("row")
    expect(rows).to_have_count(2)
    send(running)

    expect(rows).to_have_count(3)
    rows.nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", name="Request 2")).to_be_visible()
    expect(page.get_by_text("from-the-test")).to_be_visible()
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()
    expect(page.get_by_role("cell", name="1", exact=True)).to_be_visible()


def test_each_phase_of_requests_under_way_is_seen(page: Page, running: Process) -> None:
    show(page, running, "now")
    page.evaluate(
        """() => {
            window.seen = new Set();
            const look = () => document.querySelectorAll(".live p").forEach((one) => seen.add(one.textContent));
            new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
        }"""
    )
    saw_all = "(patterns) => patterns.every((one) => [...seen].some((text) => RegExp(one).test(text)))"
    with traffic(running):
        running_phases = ["^queued, place 1 ", "^prefill ", "^generating ", "^buffering ", "^retrying "]
        facts = ["tokens/s", "context [0-9,]+ of 2,048"]
        page.wait_for_function(saw_all, arg=running_phases + facts, timeout=60_000)
        with restart_of_a_held_server(running):
            page.wait_for_function(saw_all, arg=["^loading"], timeout=30_000)
    events = page.get_by_role("list", name="Interventions, newest first")
    expect(events.get_by_text("retried", exact=True).first).to_be_visible()
    expect(page.get_by_text("None now.")).to_be_visible()
    link = events.get_by_role("link").first
    record = f"{running.url}/admin/v1/requests/{link.text_content()}"
    until(lambda: httpx.get(record, headers=ADMIN).is_success, "the request is stored")
    link.click()
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()


def test_a_request_under_way_is_cancelled(page: Page, running: Process) -> None:
    show(page, running, "now")
    body = {"model": MODEL, "messages": ASK_PARIS, "ignore_eos": True, "max_tokens": 100_000, "stream": True}
    with ThreadPoolExecutor(1) as pool:
        headers = {"x-request-id": "endless"}
        url = f"{running.url}/v1/chat/completions"
        sent = pool.submit(httpx.post, url, json=body, headers=headers, timeout=60)
        page.get_by_role("button", name="Cancel endless").click()
        expect(page.get_by_role("button", name="Cancel endless")).to_have_count(0)

    assert isinstance(sent.exception(30), httpx.RemoteProtocolError)
    running.wait_for("failed", request_id="endless")


def test_a_hidden_page_follows_nothing(page: Page, running: Process) -> None:
    show(page, running, "now")
    expect(page.get_by_text("None now.")).to_be_visible()
    changed = 'document.dispatchEvent(new Event("visibilitychange"))'

    with (
        page.expect_event("requestfailed", lambda request: "requests/stream" in request.url),
        page.expect_event("requestfailed", lambda request: "/events" in request.url),
    ):
        page.evaluate(f'Object.defineProperty(document, "hidden", {{ value: true, configurable: true }}); {changed}')
    with page.expect_response(lambda response: "requests/stream" in response.url):
        page.evaluate(f"delete document.hidden; {changed}")


def test_filters_are_part_of_the_address(page: Page, running: Process) -> None:
    show(page, running, "requests")
    page.get_by_label("fault").fill("grammar")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No request was found.")).to_be_visible()

    page.reload()
    expect(page.get_by_text("No request was found.")).to_be_visible()
    expect(page.get_by_label("fault")).to_have_value("grammar")
    page.get_by_label("fault").fill("")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("link", name="2026")).not_to_have_count(0)


def test_the_ledger_has_its_sentence_its_plots_and_its_rows(page: Page, running: Process) -> None:
    show(page, running, "ledger")

    expect(page.get_by_text("In the last 7 days the guardrails recovered")).to_be_visible()
    expect(page.get_by_role("img", name="Valid responses over time")).to_be_visible()
    expect(page.get_by_role("img", name="Requests by duration")).to_have_count(2)
    expect(page.get_by_role("cell", name="get_weather").first).to_be_visible()
    page.get_by_role("link", name="24 hours").click()
    expect(page.get_by_text("In the last 24 hours the guardrails recovered")).to_be_visible()


def submit_run(running: Process) -> str:
    """Submit a run that waits for the output of its client. Returns its id once it waits."""
    body: dict[str, Any] = json.loads((ROOT / "config/examples/weather-run.json").read_text())
    body["workflow"]["tools"]["get_weather"]["execute"] = {"by": "client"}
    submitted = httpx.post(f"{running.url}/admin/v1/runs", json=body, headers=ADMIN, timeout=60).raise_for_status()
    name: str = submitted.json()["id"]
    shown = f"{running.url}/admin/v1/runs/{name}"
    until(lambda: httpx.get(shown, headers=ADMIN).json()["status"] == "requires_action", "it waits for its client")
    return name


def test_a_run_is_followed_and_its_client_is_a_form(page: Page, running: Process) -> None:
    name = submit_run(running)
    show(page, running, "runs")
    page.get_by_role("link", name=name).click()
    events = page.get_by_role("list", name="Events of the run")
    expect(events.get_by_text('get_weather({"city": "Paris", "days": 3})')).to_be_visible(timeout=30_000)

    page.get_by_label(re.compile("^Output of get_weather")).fill('{"sky": "clear"}')
    page.get_by_role("button", name="Send").click()

    expect(events.get_by_text("completed", exact=True)).to_be_visible(timeout=30_000)
    expect(page.get_by_label("Result")).to_contain_text('"sky": "clear"')
    expect(page.get_by_role("button", name="Send")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_run_is_cancelled_on_its_page(page: Page, running: Process) -> None:
    show(page, running, f"runs/{submit_run(running)}")
    expect(page.get_by_role("button", name="Send")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Cancel").click()

    events = page.get_by_role("list", name="Events of the run")
    expect(events.get_by_text("cancelled", exact=True)).to_be_visible(timeout=30_000)
    expect(page.get_by_role("button", name="Send")).to_have_count(0)


def test_guardrails_and_the_budget_are_switched(page: Page, running: Process) -> None:
    show(page, running, "now")
    admin = httpx.Client(base_url=f"{running.url}/admin/v1/", headers=ADMIN)

    page.get_by_label("Cut loops").uncheck()
    expect(page.get_by_label("Cut loops")).not_to_be_checked()
    page.wait_for_function("() => document.activeElement === document.body")
    assert admin.get("guardrails").json()["enabled"]["loops"] is False
    page.get_by_label("Mode").select_option("manual")
    page.get_by_label("Tokens, for manual").fill("1024")
    page.get_by_role("button", name="Switch").click()
    expect(page.get_by_text("1,024", exact=True)).to_be_visible(timeout=30_000)
    assert admin.get("budget").json()["tokens"] == 1024
    page.get_by_label("Cut loops").check()
    expect(page.get_by_label("Cut loops")).to_be_checked()
    admin.close()


def test_the_log_of_the_model_server_is_read_when_it_is_opened(page: Page, running: Process) -> None:
    show(page, running, "now")
    page.get_by_text("Log of the model server").click()

    expect(page.locator("pre")).to_contain_text("model loaded")


def test_text_of_others_is_shown_as_text(page: Page, running: Process) -> None:
    hostile = "<img/src=x/onerror=alert(1)>"
    body = {"model": hostile, "messages": ASK_PARIS, "temperature": 0}
    assert httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=60).is_success
    show(page, running, "requests")

    expect(page.get_by_role("link").first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_the_keyboard_is_enough(page: Page, running: Process) -> None:
    show(page, running, "now")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Ledger")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_text("In the last 7 days")).to_be_visible()
    expect(page.get_by_role("link", name="Ledger")).to_have_attribute("aria-current", "page")


def check_view(page: Page, width: int) -> None:
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url
    # The page's policy forbids scripts from elsewhere, and axe is one: it is evaluated by the browser itself.
    page.evaluate(AXE.read_text())
    results = page.evaluate("axe.run()")
    assert [one["id"] for one in results["violations"]] == [], (page.url, results["violations"])


@pytest.mark.parametrize(("width", "scheme"), sample([*product([1280, 360], ["light", "dark"])], 3))
def test_every_view_is_accessible_and_fits(browser: Browser, running: Process, scheme: str, width: int) -> None:
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 800}
    )
    context.add_init_script("sessionStorage.setItem('forge-proxy-key', 'sk-admin')")
    page = context.new_page()
    complaints = Complaints(page, running.url)
    with traffic(running):
        show(page, running, "now")
        expect(page.get_by_role("button", name="Cancel").nth(1)).to_be_visible()
        check_view(page, width)
    for view in (*VIEWS[1:], f"runs/{submit_run(running)}"):
        show(page, running, view)
        check_view(page, width)
    context.close()
    assert complaints.found == []


def test_a_daemon_that_has_ended_is_reported(context: BrowserContext, tmp_path: Path) -> None:
    with daemon("--backend", "embedded", env={"XDG_STATE_HOME": str(tmp_path)}) as process:
        page = context.new_page()
        show(page, process, "now")
        process.stop()
        expect(page.get_by_role("status")).to_have_text("The daemon does not answer.", timeout=30_000)
    page.close()
