"""Buffers and random state as they were before a pass."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]


class RandomState:
    """The random states of torch (CPU, and the CUDA devices that the model's tensors are on), of Python's ``random``
    and of numpy, as they were when this was made."""

    def __init__(self, model: nn.Module) -> None:
        cuda: list[int] = []
        if torch.cuda.is_initialized():
            cuda = sorted({t.device.index for t in [*model.parameters(), *model.buffers()] if t.device.type == "cuda"})
        self._torch = torch.get_rng_state()
        self._cuda = [(device, torch.cuda.get_rng_state(device)) for device in cuda]
        self._python = random.getstate()
        self._numpy_random = getattr(sys.modules.get("numpy"), "random", None)
        self._numpy = self._numpy_random.get_state() if self._numpy_random is not None else None

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        for device, state in self._cuda:
            torch.cuda.set_rng_state(state, device)
        random.setstate(self._python)
        if self._numpy_random is not None:
            self._numpy_random.set_state(self._numpy)


@contextlib.contextmanager
def preserved_state(model: nn.Module) -> Iterator[None]:
    """Put buffers and random states back at the end, whatever happened.

    Kept: the contents of all registered buffers and which tensor each name holds; the random states of
    :class:`RandomState`. Plain Python attributes that a forward pass changes are not known to be state and are left.
    """
    registered = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if isinstance(buffer, Tensor)
    ]
    with torch.no_grad():
        copies = [None if buffer.is_meta or _lazy(buffer) else buffer.clone() for _, _, buffer in registered]
    random_state = RandomState(model)
    try:
        yield
    finally:
        random_state.restore()
        with torch.no_grad():
            for (module, name, buffer), copy in zip(registered, copies, strict=True):
                # TorchScript's view of buffers is no dictionary, and hands out the tensors that it holds.
                known = isinstance(module, torch.jit.ScriptModule) or module._buffers.get(name) is buffer
                if not known and not _lazy(buffer):
                    module._buffers[name] = buffer
                if copy is not None and not _same(buffer, copy):
                    if buffer.shape != copy.shape:  # an observer of ranges grows when it first sees a channel
                        buffer.resize_as_(copy)
                    buffer.copy_(copy)


def _lazy(tensor: Tensor) -> bool:
    return isinstance(tensor, UninitializedTensorMixin)


def _same(left: Tensor, right: Tensor) -> bool:
    """Bit for bit; a buffer that did not change is not written, so that its version counter stays."""
    try:
        return left.shape == right.shape and torch.equal(left, right)
    except (RuntimeError, NotImplementedError):
        return False
