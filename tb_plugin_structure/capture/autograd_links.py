"""Edges that the dispatcher does not see: memory that changed hands, and custom functions that compute elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin_structure.capture.observer import Observer


def link_autograd(observer: Observer) -> None:
    """Extend ``also_reads`` of the kernels that read a value which something else than a kernel made from others.

    For the result of a custom ``autograd.Function`` this is what autograd says it was made from, unless kernels
    already lead from there to it.
    """
    values = observer.values
    linked = values.linked
    for row, nodes in values.custom_nodes.items():
        candidates = [*_made_by_nodes(observer, nodes), *values.custom_inputs.get(row, ())]
        sources = [source for source in candidates if not _reaches(observer, source, row)]
        if sources:
            linked.setdefault(row, []).extend(sources)
    if not linked:
        return
    for kernel, entry in enumerate(observer.kernels):
        rows = entry[3]
        extra = [source for row in rows if row in linked for source in linked[row]]
        if extra:
            known = observer.also_reads.get(kernel, [])
            observer.also_reads[kernel] = sorted(set(known).union(extra).difference(rows))


def _made_by_nodes(observer: Observer, nodes: Sequence[int]) -> list[int]:
    """Values that kernels made on behalf of autograd nodes.

    A node is numbered right before its kernel runs, so the kernel sees the next number. Kernels of a custom function
    all see the same one; the last of them made its result.
    """
    found: list[int] = []
    for node in nodes:
        kernels = [kernel for kernel, entry in enumerate(observer.kernels) if entry[6] == node + 1]
        for kernel in kernels[:1]:
            made = [row for row in observer.kernel_outputs[kernel] if observer.values.producers[row] == kernel]
            found += made[:1]
    return found


def _reaches(observer: Observer, source: int, row: int) -> bool:
    """Whether kernels already lead from one value to another."""
    values = observer.values
    todo, seen = [row], {row}
    while todo:
        current = todo.pop()
        if current == source:
            return True
        kernel = values.producers[current]
        before = [*observer.kernels[kernel][3], *observer.also_reads.get(kernel, ())] if kernel >= 0 else []
        for other in (*before, *values.linked.get(current, ())):
            if other not in seen and other >= source:
                seen.add(other)
                todo.append(other)
    return False
