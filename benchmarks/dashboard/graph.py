"""The Graph diff tab beside TensorBoard's own Graphs tab and Model Explorer: one model alone, the same operators."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Error, expect

from benchmarks.dashboard.browser import LONG_TASK_MS, Motion, Opened, open_page, percentile
from benchmarks.dashboard.models import recorded
from benchmarks.dashboard.section import Lab, Report, server, tensorboard

OURS, GRAPHS, EXPLORER = "Graph diff", "TensorBoard's Graphs tab", "Model Explorer"
HEAD = ("", OURS, GRAPHS, EXPLORER)
NOT_MEASURED = "–"
SMALL, LARGE = ("GPT-2", "5,000 operators"), ("50,000 operators", "100,000 operators")
_PICTURE = 'canvas.graph[aria-busy="false"]'
_TRACKPAD = {"deltaX": 6.5, "deltaY": 7.5}
_ZOOM = {"deltaY": 3.0, "ctrlKey": True}

# Opens the node in the outline's next rows, one after the other; the time runs until the picture shows it.
_EXPAND = """
async (canvas, count) => {
  const grid = document.querySelector("[role=treegrid]");
  const key = (name) => grid.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const times = [];
  const isClosed = () => grid.querySelector('[aria-selected="true"]')?.getAttribute("aria-expanded") === "false";
  key("Home");
  for (let row = 0; row < 40 * count && times.length < count; row++) {
    key("ArrowDown");
    await window.__probe.frame();
    await window.__probe.frame();
    if (!isClosed()) continue;
    const before = canvas.dataset.open;
    const begin = performance.now();
    key("Enter");
    while (canvas.dataset.open === before || canvas.ariaBusy === "true") {
      await window.__probe.frame();
      if (performance.now() - begin > 20000) return times;
    }
    times.push(performance.now() - begin);
  }
  return times;
}
"""

# Chooses policies one after the other; the time runs until the picture of the new comparison is complete.
_COMPARE = """
async (canvas, policies) => {
  const select = [...document.querySelectorAll(".toolbar .policy select")].at(-1);
  const times = [];
  for (const policy of policies) {
    const begin = performance.now();
    await new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (canvas.ariaBusy !== "false") return;
        observer.disconnect();
        resolve();
      });
      observer.observe(canvas, { attributeFilter: ["aria-busy"] });
      select.value = policy;
      select.dispatchEvent(new Event("change", { bubbles: true }));
    });
    times.push(performance.now() - begin);
  }
  return times;
}
"""


def measure(lab: Lab) -> Iterator[Report]:
    """First picture, opening, moving, memory and size of the first load; one table a model. Then new comparisons."""
    if not lab.models:
        yield _comparing(lab)
    for name in lab.models or (SMALL if lab.quick else (*SMALL, *LARGE)):
        yield _one_model(lab, name)


def _comparing(lab: Lab) -> Report:
    """How long a pair of models is compared anew after a decision of the user."""
    import log_pairs

    folder = lab.folder / "berts"
    if not folder.is_dir():
        log_pairs.log_berts(folder / "bert")
    with tensorboard(folder) as address:
        sides = {"t": "bert:structure/BERT-base", "s": "bert:structure/DistilBERT"}
        keys = "".join(f"&p.structure_graph_diff.{key}={value}" for key, value in sides.items())
        watch = {"host": "iframe[src*=structure_graph_diff]", "picture": _PICTURE}
        opened = open_page(lab.browser, f"{address}/#structure_graph_diff{keys}", watch, inside="structure_graph_diff")
        policies = ["uniform", "last", "skip", "first", "copy"] * (1 if lab.quick else 4)
        times = opened.frame.locator("canvas.graph").evaluate(_COMPARE, policies)
        report = Report("BERT-base and DistilBERT", ("", OURS))
        report.rows = [
            ("first complete picture, beyond the page around it", f"{opened.ms('picture', 'host'):,.0f} ms"),
            ("compared anew after a decision, median", f"{percentile(times, 50):.0f} ms"),
            ("compared anew after a decision, p95", f"{percentile(times, 95):.0f} ms"),
        ]
        opened.close()
    return report


def _one_model(lab: Lab, name: str) -> Report:
    logdir = recorded(name, lab.folder)
    report = Report(f"Graph, {name}", HEAD)
    columns = []
    for tool in (_ours, _graphs, _explorer):
        columns.append(tool(lab, logdir))
        print(f"{name}, {tool.__name__.strip('_')}: {columns[-1]}", file=sys.stderr, flush=True)
    report.notes = [column.pop("note") for column in columns if "note" in column]
    lines = dict.fromkeys(line for column in columns for line in column)
    report.rows = [(line, *(column.get(line, NOT_MEASURED) for column in columns)) for line in lines]
    return report


def _ours(lab: Lab, logdir: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    with tensorboard(logdir) as address:
        state = "&p.structure_graph_diff.t=run:structure/model&p.structure_graph_diff.s=-"
        opened = open_page(
            lab.browser,
            f"{address}/#structure_graph_diff{state}",
            {"host": "iframe[src*=structure_graph_diff]", "picture": _PICTURE},
            inside="name=structure_graph_diff",
        )
        canvas = opened.frame.locator("canvas.graph")
        _first_picture(found, opened)
        code = opened.loaded_bytes("/static/", without="worker", until="picture")
        worker = opened.loaded_bytes("worker", until="picture")
        found["code until then, compressed"] = f"{code / 1000:.0f} kB and {worker / 1000:.0f} kB in a worker"
        times = canvas.evaluate(_EXPAND, 10 if lab.quick else 30)
        found["open one module, p95"] = f"{percentile(times, 95):.0f} ms" if times else NOT_MEASURED
        begin = opened.now()
        before = canvas.get_attribute("data-open")
        opened.frame.locator("body").press("Escape")
        opened.frame.locator("body").press("e")
        expect(canvas).not_to_have_attribute("data-open", before or "", timeout=180_000)
        expect(canvas).to_have_attribute("aria-busy", "false", timeout=180_000)
        _opened_all(found, opened, begin)
        begin = opened.now()
        opened.frame.locator("body").press("f")
        _moving(found, opened.motion(canvas, "wheel", _TRACKPAD), "pan")
        _moving(found, opened.motion(canvas, "wheel", _ZOOM), "zoom")
        _after(found, opened, begin)
        opened.close()
    return found


def _graphs(lab: Lab, logdir: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    with tensorboard(logdir) as address:
        shadow = "tf-graph-dashboard >>> tf-graph-board >>> tf-graph >>> tf-graph-scene >>> "
        try:
            opened = open_page(
                lab.browser,
                f"{address}/#graphs&run=graph",
                {"host": "tf-graph-dashboard", "picture": f"{shadow}g.nodes > g.node"},
                timeout_s=120,
            )
        except TimeoutError:
            return {"note": f"{GRAPHS}: no picture of this model within 120 s."}
        _first_picture(found, opened)
        scene = opened.page.locator("tf-graph-scene svg#svg")
        times = []
        for _ in range(10):
            nodes = opened.page.locator("tf-graph-scene g.node.meta:not(.expanded) > .nodeshape")
            if not nodes.count():
                break
            took = nodes.first.evaluate(
                """async (element) => {
                  const begin = performance.now();
                  element.dispatchEvent(new MouseEvent("dblclick", { bubbles: true, cancelable: true, view: window }));
                  await window.__probe.frame();
                  await window.__probe.frame();
                  return performance.now() - begin;
                }"""
            )
            times.append(took)
            if took > 20_000:
                break
        if times:
            found["open one module, p95"] = f"{percentile(times, 95):.0f} ms"
        begin = opened.now()
        _moving(found, opened.motion(scene, "drag", {}), "pan")
        _moving(found, opened.motion(scene, "wheel", {"deltaY": 3.0}), "zoom")
        _after(found, opened, begin)
        found["note"] = f"{GRAPHS} cannot open everything at once: pan, zoom and memory are those of the picture with "
        found["note"] += f"{len(times)} modules opened."
        opened.close()
    return found


def _explorer(lab: Lab, logdir: Path) -> dict[str, str]:
    if not lab.model_explorer:
        return {"note": f"{EXPLORER}: not installed (see --help)."}
    found: dict[str, str] = {}
    port, path = 8199, str((logdir / "model.json").resolve())
    command = [lab.model_explorer, "--no_open_in_browser", "--skip_health_check", "--host", "127.0.0.1"]
    data = quote(json.dumps({"models": [{"url": path}]}))
    with server([*command, "--port", str(port), path], f"http://127.0.0.1:{port}/", lab.folder / "explorer.log") as url:
        watch = {"host": "body", "picture": "webgl-renderer canvas.main", "ready": ".expand-all"}
        try:
            opened = open_page(lab.browser, f"{url}?data={data}", watch, timeout_s=120)
        except TimeoutError:
            return {"note": f"{EXPLORER}: no picture of this model within 120 s."}
        _first_picture(found, opened)
        canvas = opened.page.locator("webgl-renderer canvas.main").first
        opened.page.wait_for_timeout(2000)
        begin = opened.now()
        with contextlib.suppress(Error):
            opened.page.locator(".expand-all").last.click(timeout=5000)
            _settle(opened)
            took = opened.page.evaluate("window.__probe.answered") - begin
            if took > 0:
                found["open everything"] = f"{took:,.0f} ms"
            _long_tasks(found, opened, begin, "long tasks while opening everything")
        begin = opened.now()
        _moving(found, opened.motion(canvas, "wheel", _TRACKPAD), "pan")
        _moving(found, opened.motion(canvas, "wheel", _ZOOM), "zoom")
        _after(found, opened, begin)
        found["note"] = (
            f"{EXPLORER}: a page of its own, so its time from the navigation is the whole wait; opening ends "
        )
        found["note"] += "when its worker has answered. It draws with WebGL, here without a GPU."
        opened.close()
    return found


def _settle(opened: Opened, quiet_ms: float = 3000, limit_ms: float = 120_000) -> None:
    """Wait until no worker has answered for a while."""
    begin = opened.now()
    while opened.now() - begin < limit_ms:
        answered = opened.page.evaluate("window.__probe.answered")
        if opened.now() - max(answered, begin) > quiet_ms:
            return
        opened.page.wait_for_timeout(100)


def _first_picture(found: dict[str, str], opened: Opened) -> None:
    found["first complete picture, from the navigation"] = f"{opened.ms('picture'):,.0f} ms"
    found["… of it beyond the page around it"] = f"{opened.ms('picture', 'host'):,.0f} ms"
    _long_tasks(found, opened, opened.seen["host"], "long tasks until then")


def _opened_all(found: dict[str, str], opened: Opened, begin: float) -> None:
    found["open everything"] = f"{opened.now() - begin:,.0f} ms"
    _long_tasks(found, opened, begin, "long tasks while opening everything")


def _moving(found: dict[str, str], motion: Motion, what: str) -> None:
    found[f"{what}: script a frame, p95"] = f"{motion.script_p95:.1f} ms"
    found[f"{what}: frames dropped"] = f"{motion.dropped:.0%}"


def _after(found: dict[str, str], opened: Opened, begin: float) -> None:
    _long_tasks(found, opened, begin, "long tasks while moving")
    found["memory of the page"] = f"{opened.heap_mebibytes():.0f} MiB"


def _long_tasks(found: dict[str, str], opened: Opened, since: float, name: str) -> None:
    tasks = [task for task in opened.long_tasks(since) if task > LONG_TASK_MS]
    found[name] = f"{len(tasks)}, longest {max(tasks):.0f} ms" if tasks else "none"
