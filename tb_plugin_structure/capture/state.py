"""Buffers and random state as they were before a pass."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

MOST_TOGETHER = 4096
"""Elements of a tensor that is copied together with others."""

_ORDINARY = (Tensor, nn.Buffer, nn.Parameter)


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
    registered = _registered(model)
    kept = _Contents([buffer for _, _, buffer in registered])
    random_state = RandomState(model)
    try:
        yield
    finally:
        random_state.restore()
        for module, name, buffer in registered:
            # TorchScript's view of buffers is no dictionary, and hands out the tensors that it holds.
            known = isinstance(module, torch.jit.ScriptModule) or module._buffers.get(name) is buffer
            if not known and not isinstance(buffer, UninitializedTensorMixin):
                module._buffers[name] = buffer
        kept.restore()


def _registered(model: nn.Module) -> list[tuple[nn.Module, str, Tensor]]:
    """(module, name, buffer) of all buffers."""
    found: list[tuple[nn.Module, str, Tensor]] = []
    seen: set[int] = set()
    stack = [model]
    while stack:
        module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if module._buffers:
            for name, buffer in module._buffers.items():
                if isinstance(buffer, Tensor):
                    found.append((module, name, buffer))
        if module._modules:
            stack.extend([child for child in module._modules.values() if child is not None])
    return found


class _Contents:
    """What some tensors hold. Small ones are kept and compared together: a model may have hundreds of them."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._together: list[tuple[list[Tensor], list[torch.Size], Tensor]] = []
        """Tensors of one device and dtype, their shapes, their contents back to back."""
        self._copies: list[tuple[Tensor, Tensor]] = []
        groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        with torch.no_grad():
            for tensor in tensors:
                if tensor.is_meta or isinstance(tensor, UninitializedTensorMixin):
                    continue
                if type(tensor) in _ORDINARY and tensor.layout is torch.strided and tensor.numel() <= MOST_TOGETHER:
                    groups.setdefault((tensor.device, tensor.dtype), []).append(tensor)
                else:
                    self._copies.append((tensor, tensor.clone()))
            for group in groups.values():
                try:
                    self._together.append((group, [tensor.shape for tensor in group], _joined(group)))
                except (RuntimeError, NotImplementedError):
                    self._copies += [(tensor, tensor.clone()) for tensor in group]

    def restore(self) -> None:
        """Put back what changed. What did not is not written, so that its version counter stays."""
        with torch.no_grad():
            for group, shapes, before in self._together:
                if not _unchanged(group, shapes, before):
                    parts = before.split([shape.numel() for shape in shapes])
                    for tensor, shape, part in zip(group, shapes, parts, strict=True):
                        _put_back(tensor, part.view(shape))
            for tensor, copy in self._copies:
                _put_back(tensor, copy)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor if tensor.dim() == 1 else tensor.reshape(-1) for tensor in tensors])


def _unchanged(tensors: Sequence[Tensor], shapes: Sequence[torch.Size], before: Tensor) -> bool:
    try:
        if any(tensor.shape != shape for tensor, shape in zip(tensors, shapes, strict=True)):
            return False
        return torch.equal(_joined(tensors), before)
    except (RuntimeError, NotImplementedError):
        return False


def _put_back(tensor: Tensor, copy: Tensor) -> None:
    if not _same(tensor, copy):
        if tensor.shape != copy.shape:  # an observer of ranges grows when it first sees a channel
            tensor.resize_as_(copy)
        tensor.copy_(copy)


def _same(left: Tensor, right: Tensor) -> bool:
    """Bit for bit."""
    try:
        return left.shape == right.shape and torch.equal(left, right)
    except (RuntimeError, NotImplementedError):
        return False
