"""A Chromium that measures what a page does: when things appear, script a frame, dropped frames, long tasks, memory.

Every tool is measured by the same probe, which is put into the page before its own scripts run.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, CDPSession, Frame, Locator, Page, Playwright

FRAME_MS = 1000 / 60
LONG_TASK_MS = 50
SIZE = {"width": 1440, "height": 900}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Times are absolute (ms since 1970), for every frame of a page counts from another beginning.
_PROBE = """
(() => {
  const watch = %s;
  const probe = (window.__probe = { seen: {}, longTasks: [], script: 0, answered: 0 });
  const now = () => performance.timeOrigin + performance.now();
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      probe.longTasks.push([performance.timeOrigin + startTime, duration]);
  }).observe({ type: "longtask", buffered: true });
  const frame = window.requestAnimationFrame.bind(window);
  probe.frame = () => new Promise((resolve) => frame(resolve));
  window.requestAnimationFrame = (callback) =>
    frame((time) => {
      const begin = performance.now();
      try { callback(time); } finally { probe.script += performance.now() - begin; }
    });
  const listen = Worker.prototype.addEventListener;
  const Original = Worker;
  window.Worker = class extends Original {
    constructor(...given) {
      super(...given);
      listen.call(this, "message", () => { probe.answered = now(); });
    }
  };
  // "a >>> b": b within the shadow root of a.
  const find = (selector) => {
    let roots = [document];
    for (const part of selector.split(" >>> "))
      roots = roots.flatMap((root) => [...(root.shadowRoot ?? root).querySelectorAll(part)]);
    return roots.length > 0;
  };
  const look = () => {
    let open = false;
    for (const [name, selector] of Object.entries(watch)) {
      if (probe.seen[name]) continue;
      if (find(selector)) probe.seen[name] = now();
      else open = true;
    }
    if (open) frame(look);
  };
  frame(look);
})()
"""

# Sends one event a frame and waits for the frame after it, in which the page draws what the event changed.
_DRIVE = """
async (element, { kind, init, frames, back }) => {
  const { frame } = window.__probe;
  const box = element.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true,
               view: window };
  if (kind === "drag") element.dispatchEvent(new MouseEvent("mousedown", { ...at, buttons: 1 }));
  const intervals = [], scripts = [];
  let last = await frame();
  const end = last + 20000;
  for (let index = 0; index < frames && last < end; index++) {
    const sign = index < frames / 2 ? 1 : back;
    window.__probe.script = 0;
    const begin = performance.now();
    if (kind === "drag") {
      at.clientX += 6 * sign;
      at.clientY += 6 * sign;
      window.dispatchEvent(new MouseEvent("mousemove", { ...at, buttons: 1 }));
    } else {
      const turned = { ...init, deltaX: (init.deltaX ?? 0) * sign, deltaY: (init.deltaY ?? 0) * sign };
      element.dispatchEvent(new WheelEvent("wheel", { ...at, ...turned }));
    }
    const own = performance.now() - begin;
    const time = await frame();
    scripts.push(own + window.__probe.script);
    intervals.push(time - last);
    last = time;
  }
  if (kind === "drag") window.dispatchEvent(new MouseEvent("mouseup", at));
  return { intervals, scripts };
}
"""


@dataclass
class Motion:
    """What a pan or zoom cost: script and interval of every frame, in ms."""

    scripts: list[float]
    intervals: list[float]

    @property
    def script_p95(self) -> float:
        return percentile(self.scripts, 95)

    @property
    def dropped(self) -> float:
        """Share of the screen's frames in which nothing new was shown."""
        missed = sum(max(0, round(interval / FRAME_MS) - 1) for interval in self.intervals)
        return missed / (missed + len(self.intervals))


@dataclass
class Opened:
    """A page, its probe, and the frame in which the measured tool lives."""

    page: Page
    frame: Frame
    session: CDPSession
    started: float
    seen: dict[str, float] = field(default_factory=dict)

    def ms(self, name: str, since: str = "") -> float:
        """Time at which something appeared, from the navigation or from another thing."""
        return self.seen[name] - (self.seen[since] if since else self.started)

    def now(self) -> float:
        return float(self.page.evaluate("performance.timeOrigin + performance.now()"))

    def long_tasks(self, since: float) -> list[float]:
        """Durations of the tasks of more than 50 ms on the page's main thread that began after `since`."""
        tasks = self.page.evaluate("window.__probe.longTasks")
        return [duration for begin, duration in tasks if begin >= since]

    def heap_mebibytes(self) -> float:
        """Memory of scripts and buffers of the page and its frames, after collecting garbage; workers are not in it."""
        self.session.send("HeapProfiler.collectGarbage")
        usage = self.session.send("Runtime.getHeapUsage")
        held = ("usedSize", "embedderHeapUsedSize", "backingStorageSize")
        return sum(float(usage.get(name, 0)) for name in held) / 2**20

    def motion(self, element: Locator, kind: str, init: dict[str, Any], frames: int = 120, back: int = -1) -> Motion:
        """`kind` is "wheel" (with `init` of the event) or "drag"; halfway it turns round (`back` 1: it goes on)."""
        given = {"kind": kind, "init": init, "frames": frames, "back": back}
        made = element.evaluate(_DRIVE, given)
        return Motion(made["scripts"], made["intervals"])

    def loaded_bytes(self, part: str, without: str = "", until: str = "") -> int:
        """Bytes, compressed as they came, of the files whose address has `part` and not `without`.

        With `until`, only of files that had arrived when that appeared: what the first picture needs.
        """
        files = self.frame.evaluate(
            "performance.getEntriesByType('resource').map((entry) => "
            "[entry.name, entry.encodedBodySize, performance.timeOrigin + entry.responseEnd])"
        )
        limit = self.seen[until] if until else float("inf")
        return sum(
            size for name, size, time in files if part in name and time <= limit and not (without and without in name)
        )

    def close(self) -> None:
        self.page.context.close()


def launch(playwright: Playwright, webgl: bool = False) -> Browser:
    """The system's Chromium. Raises ``SystemExit`` naming the fix when there is none.

    `webgl` lets the processor stand in for a graphics card, which some tools do not draw without. Everything else on
    the page is drawn that way too then, and more slowly.
    """
    path = next((found for found in map(shutil.which, _BROWSERS) if found), None)
    if path is None:
        raise SystemExit("no Chromium on PATH; `make chromium` installs the system's package")
    return playwright.chromium.launch(
        executable_path=path, args=[*_ARGUMENTS, *(["--enable-unsafe-swiftshader"] * webgl)]
    )


def open_page(browser: Browser, url: str, watch: dict[str, str], *, inside: str = "", timeout_s: float = 180) -> Opened:
    """Open a page, with an empty cache, and wait until all things to `watch` have appeared.

    Args:
        browser: Chromium.
        url: Address of the page.
        watch: Name -> CSS selector; ">>>" enters a shadow root. Looked for in the page and in embedded frames.
        inside: Part of the address of the embedded frame that the tool lives in; "": the page itself.
        timeout_s: Seconds to wait; ``TimeoutError`` names what did not appear.
    """
    context = browser.new_context(viewport=SIZE, device_scale_factor=1, reduced_motion="reduce")
    context.add_init_script(_PROBE % json.dumps(watch))
    page = context.new_page()
    page.goto(url, wait_until="commit")
    started = float(page.evaluate("performance.timeOrigin"))
    seen: dict[str, float] = {}
    frame = page.main_frame
    for _ in range(int(timeout_s * 20)):
        for candidate in page.frames:
            try:
                found = candidate.evaluate("window.__probe ? window.__probe.seen : {}")
            except Exception:  # the frame is being replaced
                continue
            for name, time in found.items():
                seen.setdefault(name, time)
            if inside and inside in candidate.url:
                frame = candidate
        if set(seen) == set(watch):
            return Opened(page, frame, context.new_cdp_session(page), started, seen)
        page.wait_for_timeout(50)
    context.close()
    raise TimeoutError(f"{url}: {sorted(set(watch) - set(seen))} did not appear in {timeout_s:.0f} s")


def percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
