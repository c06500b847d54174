"""The text of a request in the dashboard: attempts with their differences, replay, export, and the banner of alerts."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import axe_playwright_python  # pyright: ignore[reportMissingTypeStubs]
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.test_mistakes import PARIS_TEXT, RIGHT
from tests.fakes.browser import Complaints, chromium
from tests.fakes.processes import Process, daemon
from tests.fakes.says import Said
from tests.properties import sample
from tests.system.test_ledger_alerts import fill
from tests.system.test_request_contents import IN_TEXT, ask
from tests.transcripts.replies import openai_replies
from tests.transcripts.server import ScriptedServer, scripted_server

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
WRONG = Said("Let me look.", calls=(("get_weather", '{"city": "Paris", "days": "many"}'),))


@pytest.fixture(scope="module")
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture(scope="module")
def running(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    folder = tmp_path_factory.mktemp("contents")
    with ThreadPoolExecutor(1) as pool:  # Playwright has an event loop in this thread
        pool.submit(asyncio.run, fill(folder / "forge-proxy" / "runs.db")).result()
    settings = folder / "forge-proxy.yaml"
    settings.write_text("server: {admin_keys: [sk-admin], api_keys: [sk-client]}\nstore: {content: on}\n")
    words = ("--backend", "openai", "--backend-url", f"{server.url}/v1", "--config", str(settings))
    with daemon(*words, env={"XDG_STATE_HOME": str(folder)}) as process:
        yield process


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as started:
        yield started


def open_page(browser: Browser, width: int = 1280, scheme: str = "light") -> Page:
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 900}, locale="en-GB"
    )
    context.add_init_script("sessionStorage.setItem('forge-proxy-key', 'sk-admin')")
    return context.new_page()


def show(page: Page, running: Process, name: str) -> None:
    page.goto(f"{running.url}/ui/#/requests/{name}")
    expect(page.get_by_role("status")).to_have_text("Connected")


@pytest.mark.parametrize(("width", "scheme"), sample([*product((1280, 360), ("light", "dark"))], 3))
def test_attempts_replay_and_export(
    browser: Browser, running: Process, server: ScriptedServer, width: int, scheme: str
) -> None:
    name = ask(running, server, WRONG, Said(IN_TEXT))
    page = open_page(browser, width, scheme)
    complaints = Complaints(page, running.url)
    show(page, running, name)

    first = page.get_by_role("region", name="Attempt 1: bad_arguments")
    expect(first.locator("del", has_text="many")).to_be_visible()
    expect(first.get_by_text("The next attempt")).to_be_visible()
    first.get_by_text("Correction that was sent").click()
    expect(first.get_by_text("days").last).to_be_visible()
    last = page.get_by_role("region", name="Attempt 2: delivered")
    expect(last.locator("del").first).to_contain_text("<")
    expect(last.get_by_text("The client received")).to_be_visible()
    page.get_by_text("Request: 1 message, 1 tool").click()
    expect(page.get_by_text("Paris, for 3 days.", exact=True)).to_be_visible()

    server.set_script(openai_replies((Said(IN_TEXT),), stream=False))
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("heading", name="Original: retried")).to_be_visible()
    replay = page.get_by_role("heading", name="Replay: passthrough").locator("..")
    expect(replay).to_contain_text(f'"arguments": {PARIS_TEXT}')
    assert "temperature" not in server.received[0][1]

    with page.expect_download() as started:
        page.get_by_role("button", name="Export as a test case").click()
    assert "--- said\n" in Path(started.value.path()).read_text()
    expect(page.get_by_role("alert")).to_contain_text("qwen3:8b, read_file: 50.0 %")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text())
    results = page.evaluate("axe.run()")
    assert [one["id"] for one in results["violations"]] == [], results["violations"]
    assert [one for one in complaints.found if "blob:" not in one] == []
    page.context.close()


def test_a_replay_that_cannot_be_sent_shows_why(browser: Browser, running: Process, server: ScriptedServer) -> None:
    name = ask(running, server, RIGHT)
    page = open_page(browser)
    show(page, running, name)

    page.get_by_role("button", name="Export as a test case").click()

    expect(page.get_by_text("no attempt has text")).to_be_visible()
    page.context.close()


def test_text_of_others_is_shown_as_text(browser: Browser, running: Process, server: ScriptedServer) -> None:
    evil = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    name = ask(running, server, Said(evil), Said(evil))
    page = open_page(browser)
    complaints = Complaints(page, running.url)
    show(page, running, name)

    expect(page.get_by_text(evil, exact=True).first).to_be_visible()
    assert page.locator("main img").count() == 0
    assert complaints.found == []
    page.context.close()
