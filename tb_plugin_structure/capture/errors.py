"""What a recording can fail with."""

from __future__ import annotations

from tb_plugin_structure.records.structure import Structure


class CaptureFailed(RuntimeError):
    """The forward pass raised while it was recorded. Its cause is the model's own exception.

    Attributes:
        structure: What ran up to the failing operator, with ``structure.header.error`` filled; None when nothing could
            be recorded at all.
    """

    def __init__(self, message: str, structure: Structure | None = None) -> None:
        super().__init__(message)
        self.structure = structure
