"""Buffers and random state as they were before a pass."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]


@contextlib.contextmanager
def preserved_state(model: nn.Module) -> Iterator[None]:
    """Put buffers and random states back at the end, whatever happened.

    Kept: the contents of all registered buffers and which tensor each name holds; the random states of torch (CPU,
    and the CUDA devices that the model's tensors are on), of Python's ``random`` and of numpy. Plain Python attributes
    that a forward pass changes are not known to be state and are left.
    """
    registered = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if isinstance(buffer, Tensor)
    ]
    contents = _contents(buffer for _, _, buffer in registered)
    cuda = sorted({t.device.index for t in [*model.parameters(), *model.buffers()] if t.device.type == "cuda"})
    torch_state = torch.get_rng_state()
    cuda_states = [(device, torch.cuda.get_rng_state(device)) for device in cuda]
    python_state = random.getstate()
    numpy_random = getattr(sys.modules.get("numpy"), "random", None)
    numpy_state = numpy_random.get_state() if numpy_random is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        for device, state in cuda_states:
            torch.cuda.set_rng_state(state, device)
        random.setstate(python_state)
        if numpy_random is not None:
            numpy_random.set_state(numpy_state)
        for module, name, buffer in registered:
            if module._buffers.get(name) is not buffer and not _lazy(buffer):
                module._buffers[name] = buffer
        for group in contents:
            group.restore()


class _Contents:
    """A copy of the contents of tensors of one type on one device: one large copy, as models have hundreds of them."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.shapes = [tensor.shape for tensor in tensors]
        self.copy = self._now()

    def _now(self) -> Tensor:
        with torch.no_grad():
            return torch.cat([tensor.reshape(-1) for tensor in self.tensors])

    def restore(self) -> None:
        """A tensor that did not change is not written, so that its version counter stays."""
        if _same(self._now(), self.copy):
            return
        copies = self.copy.split([shape.numel() for shape in self.shapes])
        with torch.no_grad():
            for tensor, shape, copy in zip(self.tensors, self.shapes, copies, strict=True):
                if tensor.shape != shape:
                    tensor.resize_(shape)
                if not _same(tensor, copy.reshape(shape)):
                    tensor.copy_(copy.reshape(shape))


class _UnusualContents:
    """The same for one tensor that cannot be laid out in a row: sparse, quantised, nested, a subclass."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        with torch.no_grad():
            self.copy = tensor.clone()

    def restore(self) -> None:
        if not _same(self.tensor, self.copy):
            with torch.no_grad():
                self.tensor.copy_(self.copy)


def _contents(buffers: Iterable[Tensor]) -> list[_Contents | _UnusualContents]:
    """Copies of all buffers that have contents."""
    groups: dict[tuple[torch.dtype, torch.device], dict[int, Tensor]] = {}
    unusual: dict[int, Tensor] = {}
    for buffer in buffers:
        if buffer.is_meta or _lazy(buffer):
            continue
        usual = type(buffer) in (Tensor, nn.Buffer) and buffer.layout is torch.strided and not buffer.is_quantized
        group = groups.setdefault((buffer.dtype, buffer.device), {}) if usual and not buffer.is_nested else unusual
        group[id(buffer)] = buffer
    return [
        *(_Contents(list(group.values())) for group in groups.values()),
        *(_UnusualContents(tensor) for tensor in unusual.values()),
    ]


def _lazy(tensor: Tensor) -> bool:
    return isinstance(tensor, UninitializedTensorMixin)


def _same(left: Tensor, right: Tensor) -> bool:
    """Bit for bit; a buffer that did not change is not written, so that its version counter stays."""
    try:
        return left.shape == right.shape and torch.equal(left, right)
    except (RuntimeError, NotImplementedError):
        return False
