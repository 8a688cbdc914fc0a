"""What a section of the benchmark gets and gives. A section measures one tab; add one as a file and name it in
``__main__.py``."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
SECONDS_TO_START = 120.0


@dataclass
class Report:
    """A table of results; the first column names what was measured."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", f"| {' | '.join(self.head)} |"]
        lines.append(f"| --- |{' ---: |' * (len(self.head) - 1)}")
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes), ""])


@dataclass
class Lab:
    """What sections share: a browser, a folder in which recorded models are kept, and what the user chose."""

    browser: Browser
    folder: Path
    quick: bool = False
    #: Models to measure; empty: those of the section.
    models: Sequence[str] = ()
    #: The command of Model Explorer; "" when it is not installed.
    model_explorer: str = ""


Section = Callable[[Lab], Iterable[Report]]


@contextlib.contextmanager
def tensorboard(logdir: Path, first_port: int = 6106) -> Iterator[str]:
    """The address of a TensorBoard on `logdir`, which ends with the block."""
    import demo

    with demo.tensorboard(logdir, first_port) as (address, _):
        yield address


@contextlib.contextmanager
def server(command: Sequence[str], url: str, log: Path) -> Iterator[str]:
    """Run another tool's server until the block ends; yields `url` once it answers."""
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + SECONDS_TO_START
            while time.monotonic() < deadline and process.poll() is None:
                with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
                    break
                time.sleep(0.3)
            else:
                raise RuntimeError(f"{command[0]} did not start; it says:\n{log.read_text()}")
            yield url
        finally:
            process.terminate()
            process.wait()
