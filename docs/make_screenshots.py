"""Takes the pictures in docs/images, from TensorBoards on what `make demo` and `examples/log_pairs.py` recorded.

    python docs/make_screenshots.py              # or: make screenshots
    python docs/make_screenshots.py --only graph_llama --width 1920

Each tab is shown in a pair that suits it, and the Graph diff in well-known pairs of all families and with a model of
50,000 operators, light and dark (`*-dark.png`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import quote

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
THEMES = {"": "light", "-dark": "dark"}

GRAPH = "structure_graph_diff"


class Picture(NamedTuple):
    """A tab, the two sides it shows ("-": one model alone), what was recorded for it, and more of its address."""

    tab: str
    teacher: str
    student: str
    recorded: str = "demo"
    more: str = ""


PICTURES = {
    "graph_diff": Picture(GRAPH, "bert:structure/BERT-base", "bert:structure/DistilBERT"),
    "shape_audit": Picture("structure_shape_audit", "resnet:structure/ResNet-50", "resnet:structure/ResNet-18"),
    "attention": Picture("structure_attention", "digits:overview/teacher", "digits:overview/student"),
    "graph_resnet": Picture(GRAPH, "resnet:structure/ResNet-50", "resnet:structure/ResNet-18", "pairs"),
    "graph_bert": Picture(
        GRAPH, "bert:structure/BERT-base", "bert:structure/DistilBERT", "pairs", "&at=S:transformer.layer.1.attention"
    ),
    "graph_vit": Picture(GRAPH, "vit:structure/ViT-Base", "vit:structure/DeiT-Tiny", "pairs"),
    "graph_llama": Picture(GRAPH, "llama:structure/Llama-70B", "llama:structure/Llama-8B", "pairs"),
    "graph_whisper": Picture(GRAPH, "whisper:structure/Whisper-large", "whisper:structure/Distil-Whisper", "pairs"),
    "graph_50000": Picture(GRAPH, "run:structure/model", "-", "50,000 operators", "&open=all"),
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


def recorded(name: str, demo: ModuleType, demo_logdir: Path) -> Path:
    """The log directory of a picture; what is not there yet is recorded."""
    if name == "demo":
        if not (demo_logdir / "digits").is_dir():
            demo.record(demo_logdir)
        return demo_logdir
    if name == "pairs":
        folder = CACHE / "pairs"
        for run, log in importlib.import_module("log_pairs").PAIRS.items():
            if not (folder / run).is_dir():
                log(folder / run)
        return folder
    sys.path.insert(0, str(ROOT))
    return Path(importlib.import_module("benchmarks.dashboard.models").recorded(name, CACHE / "benchmarks"))


def take(browser: Browser, address: str, picture: Picture, theme: str, width: int, target: Path) -> None:
    """Open one tab on one pair and photograph the whole window once it has come to rest."""
    tab = picture.tab
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, device_scale_factor=1, reduced_motion="reduce")
    # How TensorBoard remembers its theme.
    settings = json.dumps(json.dumps({"theme": theme}))
    context.add_init_script(f"localStorage.setItem('_tb_global_settings', {settings})")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    state = f"t={quote(picture.teacher, safe=':/')}&s={quote(picture.student, safe=':/')}{picture.more}"
    page.goto(f"{address}/#{tab}" + "".join(f"&p.{tab}.{pair}" for pair in state.split("&")))
    frame = page.frame_locator(f'iframe[src*="name={tab}"]')
    expect(frame.locator("body")).to_contain_text(picture.teacher.rpartition("/")[2], timeout=60_000)
    if tab == GRAPH:
        expect(frame.locator("canvas.graph")).to_have_attribute("aria-busy", "false", timeout=120_000)
    expect(frame.locator(".state.loading")).to_have_count(0, timeout=60_000)
    page.wait_for_timeout(1500)  # layout workers and thumbnails end without a sign in the document
    page.screenshot(path=target, animations="disabled")
    context.close()
    if problems:
        raise SystemExit(f"errors in the page of {tab}: {problems}")
    print(f"wrote {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", type=Path, default=ROOT / "runs" / "demo", help="of the demo")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument(
        "--only", nargs="+", choices=list(PICTURES), default=list(PICTURES), help="these pictures alone"
    )
    parser.add_argument("--width", type=int, default=1440, help="of the window")
    arguments = parser.parse_args()
    demo = import_demo()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb"],
        )
        chosen = {name: PICTURES[name] for name in arguments.only}
        for source in dict.fromkeys(picture.recorded for picture in chosen.values()):
            logdir = recorded(source, demo, arguments.logdir)
            with demo.tensorboard(logdir, 6006) as (address, _):
                for name, picture in chosen.items():
                    if picture.recorded != source:
                        continue
                    for suffix, theme in THEMES.items():
                        target = arguments.out / f"{name}{suffix}.png"
                        take(browser, address, picture, theme, arguments.width, target)
        browser.close()


if __name__ == "__main__":
    main()
