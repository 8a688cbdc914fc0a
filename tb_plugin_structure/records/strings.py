"""The string pool of a record: every distinct string once; columns hold indices."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tb_plugin_structure.v1 import columns_pb2


class StringPool:
    """Interns strings while a record is written, and reads them back. Index 0 is the empty string."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._index: dict[str, int] = {"": 0}
        self._strings: list[str] = [""]
        for string in strings:
            self.intern(string)

    def intern(self, string: str) -> int:
        """The index of `string`, which is added when new."""
        index = self._index.get(string)
        return self._add(string) if index is None else index

    def intern_all(self, strings: Iterable[str]) -> list[int]:
        """The indices of many strings, most of which occur several times."""
        values = list(strings)
        known = self._index
        for string in dict.fromkeys(values):
            if string not in known:
                self._add(string)
        return list(map(known.__getitem__, values))

    def _add(self, string: str) -> int:
        index = self._index[string] = len(self._strings)
        if not string.isascii():
            # Lone surrogates (hostile tokens, file names) are replaced: a record is always valid UTF-8.
            string = string.encode("utf-8", "replace").decode()
        self._strings.append(string)
        return index

    def __len__(self) -> int:
        return len(self._strings)

    def __getitem__(self, index: int) -> str:
        return self._strings[index]

    def texts(self, indices: list[int]) -> list[str]:
        """Many strings at once."""
        return list(map(self._strings.__getitem__, indices))

    def to_proto(self) -> columns_pb2.StringPool:
        encoded = [string.encode() for string in self._strings]
        offsets = np.zeros(len(encoded) + 1, "<u4")
        np.cumsum([len(item) for item in encoded], out=offsets[1:])
        return columns_pb2.StringPool(utf8=b"".join(encoded), offsets=offsets.tobytes())


class Strings:
    """Reads a stored pool; strings are decoded when asked for, and kept."""

    def __init__(self, proto: columns_pb2.StringPool) -> None:
        self._utf8 = proto.utf8
        self._offsets: npt.NDArray[np.uint32] = np.frombuffer(proto.offsets[: len(proto.offsets) // 4 * 4], "<u4")
        offsets = self._offsets.astype(np.int64)
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] > len(self._utf8) or (np.diff(offsets) < 0).any():
            raise ValueError("the record's string pool is damaged: its offsets do not fit its text")
        self._decoded: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def texts(self, indices: list[int]) -> list[str]:
        """Many strings at once."""
        known = {index: self[index] for index in set(indices)}
        return list(map(known.__getitem__, indices))

    def __getitem__(self, index: int) -> str:
        index = int(index)
        string = self._decoded.get(index)
        if string is None:
            if not 0 <= index < len(self):
                raise IndexError(f"string {index} of a pool of {len(self)}")
            string = self._utf8[self._offsets[index] : self._offsets[index + 1]].decode("utf-8", "replace")
            self._decoded[index] = string
        return string
