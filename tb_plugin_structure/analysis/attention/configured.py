"""Which attentions of two models are meant for each other, told by an alignment of the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tb_plugin_structure.v1 import attention_pb2


def configured_layer_pairs(
    module_pairs: Mapping[str, Sequence[str]],
    teacher: Sequence[attention_pb2.AttentionLayer],
    student: Sequence[attention_pb2.AttentionLayer],
) -> list[tuple[int, int]]:
    """(teacher layer, student layer) pairs in the student's order; a student layer without a counterpart is absent.

    A student's attention belongs to the teacher's attention at the paired module. Where that module itself has no
    pair, the nearest enclosing one that has decides, and the k-th attention inside meets the k-th of the other side.

    Args:
        module_pairs: Student path -> teacher paths, as ``Alignment.module_pairs`` gives them.
        teacher: Layers of the teacher's overview.
        student: Layers of the student's overview.
    """
    pairs: list[tuple[int, int]] = []
    for s, layer in enumerate(student):
        path: str | None = layer.module_path
        while path is not None:
            inside = _within(student, path, layer.relation)
            for teacher_path in module_pairs.get(path, ()):
                candidates = _within(teacher, teacher_path, layer.relation)
                if candidates:
                    pairs.append((candidates[min(inside.index(s), len(candidates) - 1)], s))
                    break
            else:
                path = _parent(path)
                continue
            break
    return pairs


def _within(layers: Sequence[attention_pb2.AttentionLayer], path: str, relation: str) -> list[int]:
    """Attentions of one relation ("self" or "cross") that ran at or below a module."""
    below = f"{path}." if path else ""
    return [
        position
        for position, layer in enumerate(layers)
        if layer.relation == relation and (layer.module_path == path or layer.module_path.startswith(below))
    ]


def _parent(path: str) -> str | None:
    """The enclosing module; None above the outermost named one: the model as a whole pairs nothing in particular."""
    head, _, _ = path.rpartition(".")
    return head or None
