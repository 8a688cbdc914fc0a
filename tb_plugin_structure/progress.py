"""Progress of what takes longer than a moment, on standard error: a bar of tqdm where it is installed, else one line.

A watcher looks from a thread of its own at how far the work has come, so the work pays nothing for being watched, and
what is over within ``DELAY_S`` prints nothing. Without a terminal nothing is shown unless it is asked for.

>>> with Progress("Recording teacher", count=lambda: len(kernels), unit="kernels"):
...     model(images)
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

DELAY_S = 2.0
"""What is over earlier shows nothing."""
INTERVAL_S = 0.5
"""Between two looks at how far the work has come."""
LINE_INTERVAL_S = 10.0
"""Between two lines where the output is no terminal, which cannot write over what it has shown."""
SWITCH = "TB_STRUCTURE_PROGRESS"
"""Environment variable: 0 turns progress off, 1 on without a terminal too."""

_running: list[Progress] = []
_switch: list[bool] = []
_lock = threading.Lock()


def is_shown(asked: bool | None = None) -> bool:
    """Whether progress shows: as asked, else as ``TB_STRUCTURE_PROGRESS`` says, else where there is a terminal."""
    if asked is not None:
        return asked
    if _switch:
        return _switch[-1]
    switch = os.environ.get(SWITCH, "")
    if switch:
        return switch.lower() not in ("0", "false", "no", "off")
    return _is_terminal()


@contextlib.contextmanager
def switched(shown: bool | None) -> Iterator[None]:
    """Whether progress shows within; None leaves it as it is."""
    if shown is None:
        yield
        return
    _switch.append(shown)
    try:
        yield
    finally:
        _switch.pop()


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


class Progress:
    """Shows that some work goes on, while it is entered. One inside another one shows in its place.

    Args:
        what: The work, e.g. "Recording teacher".
        count: How much is done; called from another thread.
        unit: Of what, e.g. "kernels".
        total: How much there is to do, None when nobody knows.
        shown: As in :func:`is_shown`.
    """

    def __init__(
        self,
        what: str,
        *,
        count: Callable[[], int] | None = None,
        unit: str = "",
        total: int | None = None,
        shown: bool | None = None,
    ) -> None:
        self.what = what
        self.unit = unit
        self.total = total
        self.done = 0
        self._count = count
        self._shown = is_shown(shown)
        self._is_outer = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if not self._shown:
            return self
        with _lock:
            self._is_outer = not _running
            _running.append(self)
        if self._is_outer:
            self._thread = threading.Thread(target=self._watch, name="tb-structure progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._shown:
            return
        with _lock:
            _running.remove(self)
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def steps(self, total: int) -> Iterator[int]:
        """0 to `total` - 1, each of which counts as done when the next one is asked for."""
        self.total = total
        for step in range(total):
            yield step
            self.done = step + 1

    def position(self) -> int:
        """How much is done."""
        return self._count() if self._count is not None else self.done

    def _watch(self) -> None:
        if self._over.wait(DELAY_S):
            return
        display: Any = None
        shown: Progress | None = None
        try:
            while not self._over.is_set():
                with _lock:
                    innermost = _running[-1] if _running else self
                if innermost is not shown:
                    if display is not None:
                        display.close()
                    display, shown = _display(innermost), innermost
                with contextlib.suppress(Exception):  # what is counted changes hands while it is looked at
                    display.show(innermost.position())
                self._over.wait(INTERVAL_S)
        finally:
            if display is not None:
                display.close()


def _display(progress: Progress) -> Any:
    if not _is_terminal():
        return _Lines(progress)
    try:
        from tqdm import tqdm
    except ImportError:
        return _Overwritten(progress)
    return _Bar(progress, tqdm)


class _Bar:
    def __init__(self, progress: Progress, tqdm: Any) -> None:
        unit = f" {progress.unit}" if progress.unit else "it"
        self._bar = tqdm(total=progress.total, desc=progress.what, unit=unit, leave=False, file=sys.stderr)
        self._bar.start_t -= DELAY_S

    def show(self, position: int) -> None:
        self._bar.n = position
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


class _Lines:
    """A line from time to time."""

    _end = "\n"
    _interval_s = LINE_INTERVAL_S

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._begun = time.monotonic() - DELAY_S
        self._last = -self._interval_s

    def show(self, position: int) -> None:
        now = time.monotonic()
        if now - self._last < self._interval_s:
            return
        self._last = now
        done = f"{position:,}" + (f" of {self._progress.total:,}" if self._progress.total else "")
        what = f" {self._progress.unit}" if self._progress.unit else ""
        counted = f": {done}{what}," if position or self._progress.total else ":"
        self._write(f"{self._progress.what}{counted} {now - self._begun:.0f} s")

    def _write(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Lines stay."""


class _Overwritten(_Lines):
    """One line of a terminal, written over and over and removed at the end."""

    _interval_s = 0.0

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
