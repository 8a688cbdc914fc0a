"""Keeps the volume of attention in an event file bounded: per snapshot, and per run.

All attention of a run sits in the memory of the TensorBoard server, and event files only grow. So the writer decides
before it writes:

- a snapshot takes at most `snapshot_bytes` (overview first, then full matrices as far as they fit);
- a run takes at most `run_bytes`; each time a twelfth of its common part is used, the interval between written steps
  doubles: a phase covers as many steps as all before it, so that a run of unknown length is covered to its end
  (with 30 snapshots a phase, 120,000 recorded steps);
- the last fifth of a run's budget belongs to steps that were pinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tb_plugin_structure.records.attention import AttentionOverview

if TYPE_CHECKING:
    from tb_plugin_structure.capture.attention.result import AttentionCapture

Admitted = tuple[AttentionOverview | None, dict[str, list[bytes]]]

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
            return self.used_bytes < self.run_bytes
        if not self._offered or self._offered[-1] != step:
            self._offered.append(step)
        wanted = (len(self._offered) - 1) % self.interval == 0 and self.used_bytes < self._common
        if not wanted:
            self._skipped += 1
        return wanted

    def admit(self, step: int, capture: AttentionCapture, example: int | None = None) -> Admitted:
        """The overview and the details of a snapshot that fit, what did not being named in the overview's notes.

        Returns:
            ``(None, {})`` when nothing fits.
        """
        limit = min(self.snapshot_bytes, (self.run_bytes if step in self.pinned else self._common) - self.used_bytes)
        overview = capture.overview(example)
        size = _size(overview.encode())
        if size > limit:
            self._skipped += 1
            return None, {}
        left = limit - size
        details: dict[str, list[bytes]] = {}
        # Full matrices have no example in their tag: those of the first example are written.
        first = example is None or example == capture.examples[0]
        offered = capture.details(example) if first else {}
        dropped: list[str] = []
        for path, blobs in offered.items():
            if _size(blobs) <= left:
                details[path] = blobs
                left -= _size(blobs)
            else:
                dropped.append(path)
        notes = []
        if dropped:
            notes.append(
                f"full matrices of {len(dropped)} modules were not written, to stay within "
                f"{self.snapshot_bytes:,} bytes a step and {self.run_bytes:,} bytes a run: {_listed(dropped)}"
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
