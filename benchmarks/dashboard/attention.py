"""The Attention tab on many heads: first picture, pointing at heads, changing the step; BertViz beside it.

BertViz is best installed apart; name its Python in ``BERTVIZ_PYTHON``:

    python -m venv --system-site-packages .cache/bertviz && .cache/bertviz/bin/pip install --no-deps bertviz
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.dashboard.browser import open_page, percentile
from benchmarks.dashboard.section import Lab, Report, tensorboard
from tb_plugin_structure import event_file
from tb_plugin_structure.capture.attention.result import encode_planes
from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.v1 import attention_pb2

STEPS = 6
# Layers, heads and positions of the teacher; the student has half as many layers and heads.
_SIZES = {"12 x 12 x 512": (12, 12, 512), "32 x 32 x 4096": (32, 32, 4096)}

# Stamps the time of every picture that is put on a canvas.
_STAMP = """() => {
  const put = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (...given) {
    put.apply(this, given);
    window.__drawn = performance.now();
  };
}"""

_HOVER = """async (sheet) => {
  const box = sheet.getBoundingClientRect();
  const took = [];
  for (let move = 0; move < 200; move++) {
    const at = { clientX: box.left + 40 + ((move * 37) % (box.width - 50)),
                 clientY: box.top + 4 + ((move * 23) % (Math.min(box.height, 500) - 8)), bubbles: true };
    const begin = performance.now();
    sheet.dispatchEvent(new PointerEvent("pointermove", at));
    await Promise.resolve();
    took.push(performance.now() - begin);
    await window.__probe.frame();
  }
  return took;
}"""

_STEP = """async (index) => {
  const input = document.querySelector(".step-bar input");
  const begin = performance.now();
  window.__drawn = 0;
  input.value = String(index);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  while (!(window.__drawn > begin) && performance.now() - begin < 20000) await window.__probe.frame();
  return window.__drawn - begin;
}"""

_BERTVIZ = """
import json, sys, time, torch
from bertviz import model_view
layers, heads, positions = map(int, sys.argv[1:])
maps = tuple(torch.randn(1, heads, positions, positions).softmax(-1) for _ in range(layers))
begin = time.perf_counter()
page = model_view(maps, [f"t{i}" for i in range(positions)], html_action="return").data
print(json.dumps([time.perf_counter() - begin, len(page)]))
"""


def measure(lab: Lab) -> Iterator[Report]:
    """A table a size, then BertViz on what it can build."""
    for name in lab.models or list(_SIZES)[: 1 if lab.quick else None]:
        yield _tab(lab, name)
    python = os.environ.get("BERTVIZ_PYTHON", "")
    if python:
        yield _bertviz(python)


def _tab(lab: Lab, name: str) -> Report:
    layers, heads, positions = _SIZES[name]
    report = Report(f"Attention tab, {name} beside {layers // 2} x {heads // 2}", ("", "measured", "goal"))
    logdir = lab.folder / f"attention {name}"
    if not logdir.exists():
        _write(logdir, layers, heads, positions)
    with tensorboard(logdir) as address:
        watch = {"picture": ".sheet canvas[style*=height]"}
        opened = open_page(lab.browser, f"{address}/#structure_attention", watch, inside="structure_attention")
        frame = opened.frame
        begun = float(frame.evaluate("performance.timeOrigin"))
        report.rows.append(
            ("first picture, from the tab's own start", f"{opened.seen['picture'] - begun:.0f} ms", "1 s")
        )
        whole = opened.seen["picture"] - opened.started
        report.rows.append(("first picture, with TensorBoard's own start", f"{whole:.0f} ms", ""))
        frame.get_by_text("the student looks").first.wait_for(timeout=180_000)
        frame.evaluate(_STAMP)
        hover = frame.locator(".sheet").first.evaluate(_HOVER)
        report.rows.append(("pointing at a head (median)", f"{median(hover):.1f} ms", "16 ms"))
        report.rows.append(("pointing at a head (p95)", f"{percentile(hover, 95):.1f} ms", "16 ms"))
        first = [frame.evaluate(_STEP, index) for index in range(STEPS - 1)]
        again = [frame.evaluate(_STEP, index) for index in range(STEPS - 2, -1, -1)][1:]
        report.rows.append(("changing the step, first time (median)", f"{median(first):.0f} ms", ""))
        report.rows.append(("changing the step, seen before (median)", f"{median(again):.0f} ms", "100 ms"))
        report.rows.append(("memory of the page", f"{opened.heap_mebibytes():.0f} MiB", ""))
        opened.close()
    return report


def _write(folder: Path, layers: int, heads: int, positions: int) -> None:
    """Overviews of random causal maps, as they are stored; full maps of this size would take an hour to compute."""
    run = event_file.OwnEventFile(folder)
    generator = np.random.default_rng(0)
    for step in range(STEPS):
        for model, (depth, width) in {"teacher": (layers, heads), "student": (layers // 2, heads // 2)}.items():
            header = attention_pb2.AttentionOverviewHeader(model=model)
            header.axes.add(kind="text", length=positions, tokens=[f"token{at}" for at in range(positions)])
            rows = depth * width
            planes = np.tril(generator.random((rows, 64, 64), np.float32) ** 8 + 1e-4)
            planes /= planes.sum(-1, keepdims=True)
            codes, scales = encode_planes(planes)
            for layer in range(depth):
                header.layers.add(
                    module_path=f"layers.{layer}.attention",
                    heads=width,
                    key_heads=width,
                    query_length=positions,
                    key_length=positions,
                    relation="self",
                    mask="causal",
                    first_head_row=layer * width,
                    overview_rows=64,
                    overview_columns=64,
                    overview_offset=layer * width * 4096,
                )
            share = generator.random(rows, np.float32)
            columns = {
                "layer": np.repeat(np.arange(depth), width),
                "head": np.tile(np.arange(width), depth),
                **dict.fromkeys(("entropy", "normalized_entropy", "distance", "sink_mass", "diagonal_mass"), share),
                **dict.fromkeys(("previous_mass", "maximum", "top1_mass", "row_sum_error"), share),
                "masked_rows": np.zeros(rows, np.uint32),
                "maximum_scale": scales,
                "mass_scale": scales,
            }
            overview = AttentionOverview.build(header, columns, codes, codes)
            run.add_event(
                event_file.record_event(
                    names.ATTENTION_OVERVIEW_PLUGIN, names.attention_overview_tag(model), overview.encode(), step
                )
            )
    run.close()


def _bertviz(python: str) -> Report:
    report = Report(
        "BertViz, model view: what has to be built and loaded", ("layers x heads x positions", "build", "page")
    )
    for size in ((12, 12, 64), (12, 12, 128)):
        try:
            made = subprocess.run(
                [python, "-c", _BERTVIZ, *map(str, size)], capture_output=True, text=True, timeout=300, check=True
            )
            seconds, length = json.loads(made.stdout.splitlines()[-1])
            report.rows.append((" x ".join(map(str, size)), f"{seconds:.1f} s", f"{length / 1e6:.0f} MB"))
        except (subprocess.SubprocessError, ValueError) as error:
            report.rows.append((" x ".join(map(str, size)), "failed", str(error)[:80]))
    report.notes.append("Its page grows with the square of the positions: 12 x 12 x 512 would be 1,700 MB.")
    return report
