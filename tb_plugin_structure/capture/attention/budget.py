"""Keeps the volume of attention in an event file bounded: per snapshot, and per run.

All attention of a run sits in the memory of the TensorBoard server, and event files only grow. So the writer decides
before it writes:

- a snapshot takes at most `snapshot_bytes`: the overview first, coarser where it does not fit, then full resolution of
  named heads, of the first head of every attention, of the second …, as far as they fit;
- a run takes at most `run_bytes`; each time a twelfth of its common part is used, the interval between written steps
  doubles: a phase covers as many steps as all before it, so that a run of unknown length is covered to its end
  (with 30 snapshots a phase, 120,000 recorded steps);
- the last fifth of a run's budget belongs to steps that were pinned. A pinned step always has an overview, the
  coarsest one when nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tb_plugin_structure.capture.attention.kept import KeptHead, stored_bytes
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.overview_planes import OVERVIEW_CELLS
from tb_plugin_structure.records.attention import AttentionOverview

if TYPE_CHECKING:
    from tb_plugin_structure.capture.attention.result import AttentionCapture

Admitted = tuple[AttentionOverview | None, dict[str, list[bytes]]]

_COARSER = (32, 16, 8)
"""Cells a side of overviews that are written where finer ones do not fit."""

_RESERVED = 0.2
_PHASES = 12


class AttentionBudget:
    """Asked by the writer before each step and each snapshot.

    Args:
        snapshot_bytes: Most bytes of one model at one step.
        run_bytes: Most bytes of all attention this writer writes.
        pinned: Steps that are written whatever the interval; they may use the reserved fifth.
    """

    def __init__(
        self, *, snapshot_bytes: int = 8 << 20, run_bytes: int = 256 << 20, pinned: Iterable[int] = ()
    ) -> None:
        if snapshot_bytes < 0 or run_bytes < 0:
            raise ValueError("attention budgets are numbers of bytes and must not be negative")
        self.snapshot_bytes, self.run_bytes = snapshot_bytes, run_bytes
        self.pinned = set(pinned)
        self.used_bytes = 0
        self.interval = 1
        self._common = round(run_bytes * (1 - _RESERVED))
        self._phase = 0
        self._offered: list[int] = []
        self._skipped = 0
        self._snapshot_notes: list[str] = []

    def pin(self, step: int) -> None:
        """Write this step even when the interval would skip it."""
        self.pinned.add(step)

    def wants(self, step: int) -> bool:
        """Whether attention of `step` should be captured at all. Ask once a step, in order."""
        if step in self.pinned:
            return True
        if not self._offered or self._offered[-1] != step:
            self._offered.append(step)
        wanted = (len(self._offered) - 1) % self.interval == 0 and self.used_bytes < self._common
        if not wanted:
            self._skipped += 1
        return wanted

    def admit(self, step: int, capture: AttentionCapture, example: int | None = None) -> Admitted:
        """The overview and the details of a snapshot that fit, what did not being named in the overview's notes.

        Returns:
            ``(None, {})`` when nothing fits and the step is not pinned.
        """
        pinned = step in self.pinned
        left = (self.run_bytes if pinned else self._common) - self.used_bytes
        limit = min(self.snapshot_bytes, left)
        notes: list[str] = []
        overview, size = self._overview(capture, example, limit, notes)
        if size > limit and not pinned:
            self._skipped += 1
            return None, {}
        left = limit - size
        # Full resolution has no example in its tag: that of the first example is written.
        first = example is None or example == capture.examples[0]
        offered = capture.kept_heads(example) if first else []
        chosen: list[tuple[AttentionMap, KeptHead]] = []
        taken: dict[AttentionMap, list[KeptHead]] = {}
        dropped: list[tuple[AttentionMap, KeptHead]] = []
        for made, kept in offered:
            before = taken.get(made, [])
            # Heads of a group share their keys, so that only the difference counts.
            extra = stored_bytes([*before, kept]) - stored_bytes(before) + (0 if before else 128)
            if extra <= left:
                taken[made] = [*before, kept]
                chosen.append((made, kept))
                left -= extra
            else:
                dropped.append((made, kept))
        details = capture.details(example, chosen) if chosen else {}
        if dropped:
            notes.append(
                f"full resolution of {len(dropped):,} of {len(offered):,} heads was not written, to stay within "
                f"{self.snapshot_bytes:,} bytes a step and {self.run_bytes:,} bytes a run: "
                + _listed(list(dict.fromkeys(made.module_path for made, _ in dropped)))
            )
        if self._skipped:
            notes.append(
                f"{self._skipped} recorded steps before this one have no attention: {self.used_bytes:,} of "
                f"{self.run_bytes:,} bytes were used and every {self.interval}. step is written"
            )
        if notes:
            overview = with_notes(overview, notes)
        self._spend(_size(overview.encode()) + sum(_size(blobs) for blobs in details.values()))
        return overview, details

    def _overview(
        self, capture: AttentionCapture, example: int | None, limit: int, notes: list[str]
    ) -> tuple[AttentionOverview, int]:
        """The overview with the most cells that fits; the coarsest when none does."""
        overview = capture.overview(example)
        size = _size(overview.encode())
        for cells in _COARSER:
            if size <= limit:
                break
            overview = capture.overview(example, cells=cells)
            size = _size(overview.encode())
            notes[:] = [
                f"overviews of longer sequences have {cells} x {cells} cells instead of {OVERVIEW_CELLS} x "
                f"{OVERVIEW_CELLS}, to stay within {self.snapshot_bytes:,} bytes a step and {self.run_bytes:,} a run"
            ]
        return overview, size

    def _spend(self, size: int) -> None:
        self.used_bytes += size
        phase = min(_PHASES, self.used_bytes * _PHASES // max(1, self._common))
        if phase > self._phase:
            self._phase = phase
            self.interval = 2**phase
            self._offered = self._offered[-1:]  # counting starts again at the step just written


def with_notes(overview: AttentionOverview, notes: Iterable[str]) -> AttentionOverview:
    """The same record with further notes."""
    header = type(overview.header)()
    header.CopyFrom(overview.header)
    header.notes.extend(notes)
    return AttentionOverview.decode([header.SerializeToString(deterministic=True), *overview.encode()[1:]])


def _size(blobs: Iterable[bytes]) -> int:
    return sum(map(len, blobs))


def _listed(paths: list[str]) -> str:
    shown = ", ".join(path or "the model" for path in paths[:4])
    return shown + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
