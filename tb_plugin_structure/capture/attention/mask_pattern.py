"""The form of a mask, from which keys each row sees: causal, a sliding window, padding."""

from __future__ import annotations

import numpy as np
import torch

from tb_plugin_structure.records.table import Array


class MaskPattern:
    """The form of the visible keys of the first head: how many before and after its own position a row sees."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._known = True
        self._masked = False
        self._left: int | None = 0
        self._right: int | None = 0
        self._last_key = -1

    def add(self, visible: torch.Tensor | None, own: Array) -> None:
        if not self._known:
            return
        if visible is None or bool(visible.all()):
            return
        self._masked = True
        table = visible.cpu().numpy()
        seen = table.any(1)
        first = table.argmax(1)
        last = self._keys - 1 - table[:, ::-1].argmax(1)
        if not (table.sum(1)[seen] == (last - first + 1)[seen]).all():
            self._known = False  # gaps: not a band
            return
        own, first, last = own[seen], first[seen], last[seen]
        if not len(own):
            return
        self._last_key = max(self._last_key, int(last.max()))
        inner = first > 0
        lefts = np.unique((own - first)[inner])
        inner = last < self._last_key
        rights = np.unique((last - own)[inner])
        if len(lefts) > 1 or len(rights) > 1:
            self._known = False
            return
        self._left = self._join(self._left, lefts)
        self._right = self._join(self._right, rights)
        self._known = self._left is not None and self._right is not None

    @staticmethod
    def _join(before: int | None, found: Array) -> int | None:
        """Sides are counted from 1 so that 0 means "no limit seen"."""
        if not len(found):
            return before
        side = int(found[0]) + 1
        return side if before in (0, side) else None

    def words(self, all_rows: bool) -> str:
        if not self._masked or not self._known or not all_rows:
            return ""
        if self._left and self._right == 1:
            return f"sliding window of {self._left}, causal"
        if self._right == 1:
            return "causal"
        if self._left and self._right:
            return f"sliding window of {self._left - 1} before and {self._right - 1} after"
        if not self._left and not self._right:
            return "key padding"
        return ""
