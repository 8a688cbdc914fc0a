"""The table of the Shape audit with 100,000 rows: mounting, scrolling, sorting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.dashboard.browser import open_page
from benchmarks.dashboard.models import recorded
from benchmarks.dashboard.section import Lab, Report, tensorboard

_MODELS = ("100,000 operators",)
_QUICK = ("5,000 operators",)

# The time until the rows are in the document and laid out; what the browser paints afterwards is not the table's.
_SORT = """async ([column, times]) => {
  const grid = document.querySelector('.grid');
  const button = () => grid.querySelector(`button[data-column="${column}"]`);
  const took = [];
  for (let time = 0; time < times; time++) {
    await new Promise(done => setTimeout(done, 300));
    const begin = performance.now();
    button().click();
    grid.querySelector('.grid-body').getBoundingClientRect();
    await new Promise(done => requestAnimationFrame(done));
    took.push(performance.now() - begin);
  }
  return took;
}"""

_SCROLL = """async ([steps, pixels]) => {
  const grid = document.querySelector('.grid');
  const frames = [];
  const work = [];
  let last = performance.now();
  for (let step = 0; step < steps; step++) {
    const begin = performance.now();
    grid.scrollTop += pixels;
    grid.dispatchEvent(new Event('scroll'));
    grid.querySelector('.grid-body').getBoundingClientRect();
    work.push(performance.now() - begin);
    await new Promise(done => requestAnimationFrame(done));
    frames.push(performance.now() - last);
    last = performance.now();
  }
  const p95 = values => values.sort((a, b) => a - b)[Math.floor(values.length * 0.95)];
  return { frames: p95(frames.slice(1)), work: p95(work), shown: grid.querySelectorAll('.grid-row').length };
}"""


def measure(lab: Lab) -> Iterator[Report]:
    """One table a model: its operators, all of them rows."""
    for name in lab.models or (_QUICK if lab.quick else _MODELS):
        yield _table(lab, name)


def _table(lab: Lab, name: str) -> Report:
    report = Report(f"Table of {name}", ("", "measured", "goal"))
    logdir = recorded(name, lab.folder)
    with tensorboard(logdir) as address:
        url = f"{address}/#structure_shape_audit&p.structure_shape_audit.s=-"
        opened = open_page(lab.browser, url, {"rows": ".grid-body .grid-row"}, inside="structure_shape_audit")
        frame = opened.frame
        mount = frame.evaluate("performance.getEntriesByName('table mount').map(entry => entry.duration)")
        count = frame.locator(".row-count").inner_text()
        report.rows.append(("rows", count, ""))
        report.rows.append(("mount", _ms(mount[-1:]), "100 ms"))
        at_once = frame.evaluate(_SORT, ["module", 1])
        time.sleep(4)  # a person looks at the table before they sort it again
        for column, label in (("operator", "text, few values"), ("inputs", "text, shapes"), ("macs", "numbers")):
            report.rows.append((f"sort by {column} ({label})", _ms(frame.evaluate(_SORT, [column, 1])), "150 ms"))
        report.rows.append(("sort by module, reversed", _ms(frame.evaluate(_SORT, ["module", 2])), "150 ms"))
        report.rows.append(("sort by module, clicked as soon as rows are there", _ms(at_once), "150 ms"))
        for way, pixels in (("a notch of the wheel", 120), ("a whole page", 28 * 37)):
            scrolled: dict[str, Any] = frame.evaluate(_SCROLL, [120, pixels])
            report.rows.append((f"scroll by {way} a frame (p95)", f"{scrolled['frames']:.0f} ms", "32 ms"))
            report.rows.append(("of that, own work and layout (p95)", f"{scrolled['work']:.1f} ms", ""))
        report.notes.append(f"{scrolled['shown']} rows are in the document at a time.")
        opened.close()
    return report


def _ms(values: list[float]) -> str:
    return f"{median(values):.0f} ms" if values else "not measured"
