"""Computing beside the user's pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """What runs in here is seen by no mode of the user (a FLOP counter, a default device) and records no gradient."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield
