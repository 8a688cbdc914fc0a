"""A real Chromium in front of a real TensorBoard."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, FrameLocator, Page, expect

TABS = {
    "graph_diff": "structure_graph_diff",
    "shape_audit": "structure_shape_audit",
    "attention": "structure_attention",
}

AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    found = next((path for path in map(shutil.which, _BROWSERS) if path), None)
    if found is None:
        pytest.fail("no Chromium on this machine; `make test` installs the system's package")
    return {
        "executable_path": found,
        "headless": True,
        "args": [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--font-render-hinting=none",
            "--force-color-profile=srgb",
        ],
    }


@pytest.fixture(scope="session")
def browser_context_args() -> dict[str, Any]:
    return {"viewport": {"width": 1280, "height": 900}}


class Tab:
    """One of our tabs in a page of TensorBoard."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        self.name = name
        self.frame: FrameLocator = page.frame_locator(f'iframe[src*="name={TABS[name]}"]')

    def expect_text(self, text: str, timeout: float = 30_000) -> None:
        expect(self.frame.locator("body")).to_contain_text(text, timeout=timeout)

    def barriers(self) -> list[tuple[str, str]]:
        """What axe finds that is serious for somebody: (rule, the first element's source)."""
        if not AXE.is_file():
            pytest.fail("axe-core is not installed; run `npm ci` in frontend/")
        mark = f"name={TABS[self.name]}"
        frame = next(frame for frame in self.page.frames if mark in frame.url)
        frame.evaluate(AXE.read_text())
        found = frame.evaluate("axe.run(document).then(result => result.violations)")
        return [(item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in ("serious", "critical")]

    def text(self) -> str:
        return self.frame.locator("body").inner_text()


@pytest.fixture
def open_tab(page: Page) -> Iterator[Callable[..., Tab]]:
    """`open_tab(server_url, "graph_diff", "key=value&...")`; any console error in the page fails the test."""
    errors: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        # TensorBoard itself asks for a favicon, for fonts that a machine without network does not get, and for others
        # at /font-roboto, which is not there under a path prefix.
        url = message.location.get("url", "")
        own = any(part in message.text + url for part in ("favicon", "fonts.g", "/font-roboto/"))
        if message.type == "error" and not own:
            errors.append(f"{message.text} ({url})")

    page.on("console", on_console)
    page.on("pageerror", lambda error: errors.append(str(error)))

    def open_(url: str, name: str, state: str = "") -> Tab:
        tab = TABS[name]
        keys = "".join(f"&p.{tab}.{pair}" for pair in state.split("&") if pair)
        page.goto(f"{url}/#{tab}{keys}")
        return Tab(page, name)

    yield open_
    assert errors == []
