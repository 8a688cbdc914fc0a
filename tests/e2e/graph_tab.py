"""What the tests of the Graph diff look at: its outline, its picture, its address."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

from playwright.sync_api import Locator, expect

from tests.e2e.conftest import Tab

OpenTab = Callable[..., Tab]


def outline(tab: Tab) -> Locator:
    grid = tab.frame.get_by_role("treegrid")
    grid.wait_for(timeout=30_000)
    return grid


def picture(tab: Tab) -> Locator:
    """The canvas, once it shows all that is open."""
    canvas = tab.frame.locator("canvas.graph")
    expect(canvas).to_have_attribute("aria-busy", "false", timeout=30_000)
    return canvas


def details(tab: Tab) -> Locator:
    return tab.frame.get_by_role("complementary")


def selected(tab: Tab) -> Locator:
    return tab.frame.locator('[role=row][aria-selected="true"]')


def address(tab: Tab) -> str:
    return unquote(tab.page.evaluate("location.hash"))


def painted(canvas: Locator, colour: tuple[int, int, int]) -> int:
    """Pixels of a colour, give or take what blending rounds."""
    return int(
        canvas.evaluate(
            """(canvas, [r, g, b]) => {
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              let count = 0;
              for (let at = 0; at < data.length; at += 4)
                if (Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 6) count++;
              return count;
            }""",
            list(colour),
        )
    )
