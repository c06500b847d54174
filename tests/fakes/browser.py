"""A headless Chromium: Debian's package `chromium`, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=60_000)  # Playwright waits for 5 s, which a busy machine exceeds


@contextmanager
def chromium() -> Generator[Browser]:
    """Run a browser; without one the test is skipped, and in CI it fails."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        why = "Chromium is not installed: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
    with sync_playwright() as playwright:
        # Without its sandbox: in containers it has no rights to make one, and it only opens pages of the tests.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Complaints:
    """What a page reported: errors of scripts, messages of the console, requests to other servers."""

    def __init__(self, page: Page, origin: str) -> None:
        self.found: list[str] = []
        page.on("pageerror", lambda error: self.found.append(str(error)))
        page.on("console", lambda message: self._add_message(message.type, message.text))
        page.on("request", lambda request: self._add_address(request.url, origin))

    def _add_message(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "401 (Unauthorized)" not in text:
            self.found.append(text)

    def _add_address(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:")):
            self.found.append(f"request to {url}")
