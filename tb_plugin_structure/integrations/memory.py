"""Memory in use, as scalars: of the current CUDA device, and of the process."""

from __future__ import annotations

import os

import torch

_STATM = "/proc/self/statm"


def in_use() -> dict[str, float]:
    """Tag -> bytes. What the process holds is known on Linux only."""
    found = {}
    try:
        with open(_STATM, encoding="ascii") as file:
            found["memory/process_bytes"] = float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["memory/allocated_bytes"] = float(torch.cuda.memory_allocated())
        found["memory/peak_allocated_bytes"] = float(torch.cuda.max_memory_allocated())
        found["memory/reserved_bytes"] = float(torch.cuda.memory_reserved())
    return found
