"""Takes the pictures in docs/images, from a TensorBoard on what `make demo` recorded.

    python docs/make_screenshots.py              # or: make screenshots

Each tab is shown in a pair that suits it, light and dark (`*-dark.png`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SIZE = {"width": 1440, "height": 900}
THEMES = {"": "light", "-dark": "dark"}

PICTURES = {
    "graph_diff": ("structure_graph_diff", "bert:structure/BERT-base", "bert:structure/DistilBERT"),
    "shape_audit": ("structure_shape_audit", "resnet:structure/ResNet-50", "resnet:structure/ResNet-18"),
    "attention": ("structure_attention", "digits:overview/teacher", "digits:overview/student"),
}


def import_demo() -> ModuleType:
    """examples/demo.py, which records what is shown and starts TensorBoard."""
    sys.path.insert(0, str(ROOT / "examples"))
    return importlib.import_module("demo")


def find_browser() -> str:
    """Path of the system's Chromium. Raises ``SystemExit`` naming the fix when there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    raise SystemExit("no Chromium on PATH; `make chromium` installs the system's package")


def take(browser: Browser, address: str, tab: str, sides: tuple[str, str], theme: str, target: Path) -> None:
    """Open one tab on one pair and photograph the whole window once it has come to rest."""
    context = browser.new_context(viewport=SIZE, device_scale_factor=1, reduced_motion="reduce")
    # How TensorBoard remembers its theme.
    settings = json.dumps(json.dumps({"theme": theme}))
    context.add_init_script(f"localStorage.setItem('_tb_global_settings', {settings})")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    keys = "".join(f"&p.{tab}.{key}={quote(value, safe=':/')}" for key, value in zip("ts", sides, strict=True))
    page.goto(f"{address}/#{tab}{keys}")
    frame = page.frame_locator(f'iframe[src*="name={tab}"]')
    teacher = sides[0].rpartition("/")[2]
    expect(frame.locator("body")).to_contain_text(teacher, timeout=60_000)
    expect(frame.locator(".state.loading")).to_have_count(0, timeout=60_000)
    page.wait_for_timeout(1500)  # layout workers and thumbnails end without a sign in the document
    page.screenshot(path=target, animations="disabled")
    context.close()
    if problems:
        raise SystemExit(f"errors in the page of {tab}: {problems}")
    print(f"wrote {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", type=Path, default=ROOT / "runs" / "demo", help="recorded when it is not there")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--only", choices=list(PICTURES), help="take this picture alone")
    arguments = parser.parse_args()
    demo = import_demo()
    if not (arguments.logdir / "digits").is_dir():
        demo.record(arguments.logdir)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with demo.tensorboard(arguments.logdir, 6006) as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb"],
        )
        for name in [arguments.only] if arguments.only else PICTURES:
            tab, teacher, student = PICTURES[name]
            for suffix, theme in THEMES.items():
                take(browser, address, tab, (teacher, student), theme, arguments.out / f"{name}{suffix}.png")
        browser.close()


if __name__ == "__main__":
    main()
