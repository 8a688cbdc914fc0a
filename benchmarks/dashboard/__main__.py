"""How fast the tabs are in a real browser (Chromium), beside other tools on the same models, all in one run.

    python -m benchmarks.dashboard                        # all sections
    python -m benchmarks.dashboard --sections graph --quick
    python -m benchmarks.dashboard --model-explorer .cache/model-explorer/bin/model-explorer

Figures of one run compare; figures of different machines do not. Model Explorer is best installed apart:

    python -m venv .cache/model-explorer && .cache/model-explorer/bin/pip install ai-edge-model-explorer
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.dashboard import attention, graph, table
from benchmarks.dashboard.browser import launch
from benchmarks.dashboard.section import ROOT, Lab, Section

SECTIONS: dict[str, Section] = {"graph": graph.measure, "table": table.measure, "attention": attention.measure}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "benchmarks", help="recorded models are kept")
    parser.add_argument("--quick", action="store_true", help="small models only")
    parser.add_argument("--models", nargs="+", default=[], help="these only, of the section's models")
    parser.add_argument("--model-explorer", default=shutil.which("model-explorer") or "", help="its command")
    parser.add_argument("--markdown", type=Path, help="write the tables there as well")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tables: list[str] = []
    with sync_playwright() as playwright:
        for name in arguments.sections:
            # Model Explorer draws with WebGL; tools side by side share one browser.
            browser = launch(playwright, webgl=name == "graph" and bool(arguments.model_explorer))
            if not tables:
                print(f"Chromium {browser.version}, {os.cpu_count()} CPU cores, software rendering", flush=True)
            lab = Lab(browser, arguments.folder, arguments.quick, arguments.models, arguments.model_explorer)
            for report in SECTIONS[name](lab):
                tables.append(report.markdown())
                print(f"\n{tables[-1]}", flush=True)
            browser.close()
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(tables))


if __name__ == "__main__":
    main()
