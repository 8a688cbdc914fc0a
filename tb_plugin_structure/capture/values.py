"""Tensor values: which value a tensor holds now, what made it, and which other values reach it through its storage.

A *value* is a row of the table of tensors. A tensor has one value when a kernel returns it and a new one after each
write in place. Tensors are known by identity and held weakly: a strong reference would keep memory alive and make
autograd copy what it otherwise keeps.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import BackwardCFunction

from tb_plugin_structure.capture.sharding import Spread, distributed_tensor_class, spread_of

KERNEL, INPUT, PARAMETER, BUFFER, CONSTANT, EXTERNAL = range(6)
"""Positions in ``records.schema.ORIGINS``."""

UNKNOWN_SIZE = -1
"""Stands for a dimension that has no number, e.g. the ragged one of a jagged tensor."""

_STRIDED = torch.strided
_ORDINARY = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


class TensorReference(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that knows the tensor's current value."""

    __slots__ = ("row",)
    row: int


class HeldTensor:
    """The same for models that swap tensors (``torch.utils.swap_tensors``), which torch refuses for those that somebody
    holds weakly: memory lives until the region ends."""

    __slots__ = ("row", "tensor")
    row: int

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __call__(self) -> Tensor:
        return self.tensor


class Meta(NamedTuple):
    """What a tensor looks like. `strides` is empty where the layout has none."""

    shape: Any
    strides: Any
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    offset: int


class Source(NamedTuple):
    """Where a value comes from that no observed kernel made."""

    origin: int
    model: str
    name: str


def unusual_meta(tensor: Tensor) -> Meta:
    """The outline of a tensor without strides: sparse, nested, or one whose sizes are not all numbers."""
    layout = tensor.layout
    try:
        return Meta(tensor.shape, (), tensor.dtype, tensor.device, layout, 0)
    except (RuntimeError, NotImplementedError):  # strided nested tensors have no shape
        return Meta((UNKNOWN_SIZE,) * tensor.dim(), (), tensor.dtype, tensor.device, layout, 0)


class Registered(NamedTuple):
    """A tensor that was known before anything ran.

    `reference` holds the row that was made for it beforehand, None where its outline is only known when it is read.
    """

    tensor: Tensor
    source: Source
    reference: TensorReference | HeldTensor | None
    address: int


class Values:
    """All values of a region, in the order in which they came about. Columns, one entry a row."""

    def __init__(self, *, swapped: bool = False) -> None:
        self._refer: type[TensorReference] | type[HeldTensor] = HeldTensor if swapped else TensorReference
        self.metas: list[Any] = []
        """A :class:`Meta` for each row, as a plain tuple; equal ones are one object."""
        self.producers: list[int] = []
        self.storages: list[int] = []
        self.requires_grad = bytearray()
        self.sources: dict[int, Source] = {}
        self.previous: dict[int, int] = {}
        """Row made by an in-place write -> the row that the same tensor had before."""
        self.references: dict[int, TensorReference | HeldTensor] = {}
        self.writes: dict[int, list[int]] = {}
        """Storage -> rows that writes in place made, in order."""
        self.linked: dict[int, list[int]] = {}
        """Row of a value that no kernel made -> rows it was made from (shared memory, autograd)."""
        self.symbolic: list[int] = []
        """Rows whose sizes may be symbols."""
        self.custom_nodes: dict[int, list[int]] = {}
        """Row that a custom ``autograd.Function`` returned -> numbers of the autograd nodes before it."""
        self.custom_inputs: dict[int, list[int]] = {}
        """The same for leaves of the autograd graph, by row."""
        self._registered: dict[int, Registered] = {}
        self._byte_ranges: dict[int, tuple[int, int]] = {}
        """id of a meta -> what it covers."""
        self._by_address: dict[int, TensorReference | HeldTensor] = {}
        self.spreads: dict[int, Spread] = {}
        """Row of a value that is spread over processes -> how."""
        self.add = _adder(self)
        """``add(tensor, producer, storage)``: a new value of a tensor, and its row. `storage` is the number of a known
        storage (the row of its first value), or -1 for memory not seen before."""

    # ---- what is known before anything runs

    def register_all(self, tensors: Iterable[tuple[Tensor, Source]]) -> None:
        """Parameters, buffers and inputs. The first registration of a tensor counts.

        An ordinary tensor gets its row now, where the work is done for all of them in a row, and not between two
        kernels, where it takes several times as long.
        """
        registered, references, by_address = self._registered, self.references, self._by_address
        add, sources = self.add, self.sources
        for tensor, source in tensors:
            key = id(tensor)
            if key in registered:
                continue
            reference, address = None, 0
            if type(tensor) in _ORDINARY and tensor.layout is _STRIDED and self.known(tensor) < 0:
                address = tensor.data_ptr()
                if address in by_address:
                    self._new(tensor, source)
                else:
                    sources[add(tensor, -1, -1)] = source
                reference = references.pop(key)
            registered[key] = Registered(tensor, source, reference, address)

    def register(self, tensor: Tensor, source: Source) -> None:
        """One tensor, as :meth:`register_all` does."""
        self.register_all([(tensor, source)])

    def release(self) -> None:
        """Let go of the tensors that are held and of the references to the others; the columns stay."""
        self._registered.clear()
        self.references.clear()
        self._by_address.clear()

    # ---- rows

    def row(self, tensor: Tensor) -> int:
        """The current value of a tensor, a new row when it is met for the first time."""
        reference = self.references.get(id(tensor))
        if reference is None or reference() is not tensor:
            return self.unknown(tensor)
        return reference.row

    def known(self, tensor: Tensor) -> int:
        """The current value, -1 when the tensor was never met."""
        reference = self.references.get(id(tensor))
        return -1 if reference is None or reference() is not tensor else reference.row

    def external(self, tensor: Tensor, source: Source) -> int:
        """The value of a tensor that enters a model as an argument: a row with `source` unless it is known already."""
        row = self.known(tensor)
        if row < 0:
            row = self.unknown(tensor, source)
        return row

    def constant(self, tensor: Tensor) -> int:
        """A tensor that was just lifted into the dispatcher: from Python numbers, or from a numpy array."""
        try:
            lent = tensor.layout is torch.strided and not tensor.untyped_storage().resizable()
        except (RuntimeError, NotImplementedError):
            lent = False
        if lent:
            return self.unknown(tensor)  # numpy's memory may be another tensor's
        row = self.add(tensor, -1, -1)
        self.sources[row] = Source(CONSTANT, "", "")
        return row

    def unknown(self, tensor: Tensor, source: Source | None = None) -> int:
        """A tensor that no observed kernel returned: a parameter, an input, a constant, or an alias of something."""
        registered = self._registered.get(id(tensor))
        if registered is not None and registered.tensor is tensor:
            _, source, reference, address = registered
            if reference is not None:
                if self._is_as_registered(tensor, address, reference.row):
                    self.references[id(tensor)] = reference
                    return reference.row
                # It was given other memory (``weight.data = ...``), and what it had may be handed out again.
                if self._by_address.get(address) is reference:
                    del self._by_address[address]
        if source is None:
            alias = self._alias(tensor)
            if alias >= 0 and self._same_outline(tensor, alias):
                # The same value under another Python object (a subclass, a Parameter, numpy and back).
                reference = self._refer(tensor)
                reference.row = alias
                self.references[id(tensor)] = reference
                return alias
        row = self._new(tensor, source or Source(CONSTANT, "", ""))
        if tensor.requires_grad:
            self.reached_by_gradient(row, tensor)
        return row

    def forget(self, tensor: Tensor) -> None:
        """A registered tensor was written by kernels that are not recorded: who reads it next reads another value."""
        registered = self._registered.get(id(tensor))
        if registered is None or registered.tensor is not tensor:
            return
        reference = self.references.pop(id(tensor), None) or registered.reference
        self._registered[id(tensor)] = registered._replace(reference=None, address=0)
        address = address_of(tensor)
        if reference is not None and self._by_address.get(address) is reference:
            del self._by_address[address]

    def look_again(self, tensor: Tensor) -> None:
        """See whether a tensor was given other memory (``tensor.data = other``): it holds the value that lies there.

        While a tensor lives, whatever else lies at its address shares its storage.
        """
        reference = self.references.get(id(tensor))
        if reference is None or reference() is not tensor:
            return
        address = address_of(tensor)
        there = self._by_address.get(address) if address else None
        if not address or there is reference:
            return
        row = reference.row
        if there is not None and self.storages[there.row] == self.storages[row] and self._same_outline(tensor, row):
            return
        registered = self._registered.get(id(tensor))
        now = self._refer(tensor)
        if registered is not None and registered.reference is not None and registered.address == address:
            now.row = registered.reference.row  # it has its first memory again
        elif there is not None and self._same_outline(tensor, there.row):
            now.row = there.row
        else:
            self._new(tensor, registered.source if registered is not None else Source(CONSTANT, "", ""))
            return
        self.references[id(tensor)] = now
        self._by_address[address] = now

    def _new(self, tensor: Tensor, source: Source) -> int:
        """A row of a value that no kernel made, linked to the one that lies in the same memory."""
        alias = self._alias(tensor)
        row = self.add(tensor, -1, self.storages[alias] if alias >= 0 else -1)
        self.sources[row] = source
        if alias >= 0:
            self.linked[row] = [alias]
        return row

    def reached_by_gradient(self, row: int, tensor: Tensor) -> None:
        """Note that a value requires a gradient."""
        self.requires_grad[row] = 1
        node = tensor.grad_fn
        if isinstance(node, BackwardCFunction):
            self.made_by_custom_function(row, node)

    def made_by_custom_function(self, row: int, node: Any) -> None:
        """Note what autograd says a custom ``autograd.Function`` made a value from.

        It may compute with numpy or another library, where no kernel shows. Nodes are kept by number; holding them
        would keep the graph alive.
        """
        before: list[int] = []
        for previous, _ in node.next_functions:
            variable = getattr(previous, "variable", None)
            if variable is not None:
                self.custom_inputs.setdefault(row, []).append(self.row(variable))
            elif previous is not None:
                before.append(previous._sequence_nr())
        self.custom_nodes[row] = before

    def _is_as_registered(self, tensor: Tensor, address: int, row: int) -> bool:
        try:
            return tensor.data_ptr() == address and bool(tensor.shape == self.metas[row][0])
        except (RuntimeError, NotImplementedError):  # it has become a kind of tensor without memory or a single shape
            return False

    def _same_outline(self, tensor: Tensor, row: int) -> bool:
        meta = self.metas[row]
        return tensor.dtype is meta[2] and tensor.shape == meta[0] and tensor.stride() == meta[1]

    def _alias(self, tensor: Tensor) -> int:
        """Row of a value that lies in the same memory, -1 when there is none.

        Happens where memory changes hands outside the dispatcher: ``x.data``, ``nn.Parameter(x)``, numpy and back.
        """
        address = address_of(tensor)
        reference = self._by_address.get(address) if address else None
        if reference is None:
            return -1
        if reference() is None and not tensor.untyped_storage().resizable():
            # The tensor that lay here is gone, and this memory is not torch's own: the address was used again.
            return -1
        return reference.row

    def in_same_storage(self, tensor: Tensor) -> int:
        """Row of a tensor that is still held and shares a tensor's memory; -1 when none is known."""
        address = address_of(tensor)
        for start in (address, tensor.untyped_storage().data_ptr()) if address else ():
            reference = self._by_address.get(start)
            if reference is not None and reference() is not None and reference() is not tensor:
                return reference.row
        return -1

    def storage_of_result(self, tensor: Tensor, arguments: Sequence[int]) -> int:
        """Storage that a result shares with an argument, or with a tensor that is still held; -1 for memory of its own.

        Where the tensor that lay at this address is gone and is no argument, the allocator has handed it out again.
        """
        address = address_of(tensor)
        reference = self._by_address.get(address) if address else None
        if reference is None:
            return -1
        storage = self.storages[reference.row]
        if reference() is None and all(self.storages[row] != storage for row in arguments):
            return -1
        return storage

    # ---- memory

    def wrote(self, row: int) -> None:
        """A kernel wrote `row`'s memory in place."""
        self.writes.setdefault(self.storages[row], []).append(row)

    def through_storage(self, row: int) -> list[int]:
        """Later writes that overlap a value's memory: what a reader of `row` really sees."""
        writes = self.writes.get(self.storages[row])
        if writes is None or writes[-1] <= row:
            return []
        low, high = self._byte_range(row)
        found: list[int] = []
        for other in writes:
            if other > row:
                begin, end = self._byte_range(other)
                if begin < high and low < end:
                    found.append(other)
        return found

    def _byte_range(self, row: int) -> tuple[int, int]:
        """First byte and one past the last byte of a value within its storage; the whole storage if not strided."""
        meta = self.metas[row]
        known = self._byte_ranges.get(id(meta))
        if known is None:
            known = self._byte_ranges[id(meta)] = _bytes_of(Meta(*meta))
        return known


def _adder(values: Values) -> Callable[[Tensor, int, int], int]:
    """What adds a row, with the columns in its closure: it runs for every result of every kernel."""
    add_producer, add_storage, add_meta = values.producers.append, values.storages.append, values.metas.append
    add_flag, producers, references = values.requires_grad.append, values.producers, values.references
    by_address, refer, spreads, symbolic = values._by_address, values._refer, values.spreads, values.symbolic
    distributed = distributed_tensor_class()
    one_of: dict[Any, Any] = {}
    same = one_of.setdefault

    def add(tensor: Tensor, producer: int, storage: int) -> int:
        row = len(producers)
        add_producer(producer)
        add_storage(row if storage < 0 else storage)
        add_flag(0)
        reference = refer(tensor)
        reference.row = row
        references[id(tensor)] = reference
        kind, layout = type(tensor), tensor.layout
        if distributed is not None and kind not in _ORDINARY and isinstance(tensor, distributed):
            spread = spread_of(tensor)
            if spread:
                spreads[row] = spread
        if layout is not _STRIDED:
            add_meta(unusual_meta(tensor))
            symbolic.append(row)
            return row
        try:
            meta = (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, layout, tensor.storage_offset())
            add_meta(same(meta, meta))
        except (RuntimeError, NotImplementedError, TypeError):  # it has no strides, or sizes that are symbols
            add_meta(unusual_meta(tensor))
            symbolic.append(row)
            return row
        if kind is FakeTensor:
            return row
        try:
            address = tensor.data_ptr()
        except (RuntimeError, NotImplementedError):
            return row
        if address:
            by_address[address] = reference
        return row

    return add


def _bytes_of(meta: Meta) -> tuple[int, int]:
    if not meta.strides and len(meta.shape):
        return 0, 1 << 62
    try:
        last = meta.offset
        for size, stride in zip(meta.shape, meta.strides, strict=True):
            if size == 0:
                return 0, 0
            last += (size - 1) * stride
        size = meta.dtype.itemsize
        return int(meta.offset) * size, int(last + 1) * size
    except (TypeError, ValueError, RuntimeError):
        return 0, 1 << 62


def address_of(tensor: Tensor) -> int:
    """Where a tensor's first element lies; 0 when it has no memory."""
    try:
        if tensor.layout is not torch.strided or tensor.is_meta or type(tensor) is FakeTensor:
            return 0
        return tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0
