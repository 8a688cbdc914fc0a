"""What two features are, as far as comparing them goes: their form, their width, their grid."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension, Feature

FEATURES = (dim.HIDDEN, dim.CHANNELS, dim.VOCABULARY, dim.CLASSES)

_ALIKE = frozenset({dim.HIDDEN, dim.CHANNELS, dim.CLASSES, dim.VOCABULARY})


def describe(feature: Feature) -> str:
    return "[" + ", ".join(dimension.text() for dimension in feature.dimensions) + "]"


def form(feature: Feature) -> str:
    """ "map", "sequence", "signal", "vector", "attention", "heads" or "" when the meaning is not clear."""
    names = set(feature.names)
    if len(names) != len(feature.names) or dim.BATCH not in names:
        return ""
    rest = names - {dim.BATCH}
    if rest and rest - set(dim.SPATIAL) in ({dim.CHANNELS}, {dim.HIDDEN}) and rest & set(dim.SPATIAL):
        return "map" if {dim.HEIGHT, dim.WIDTH} <= rest else ""
    if rest in ({dim.CHANNELS, dim.LENGTH}, {dim.HIDDEN, dim.LENGTH}):
        return "signal"
    if rest in (
        {dim.TOKENS, dim.HIDDEN},
        {dim.TOKENS, dim.CHANNELS},
        {dim.TOKENS, dim.VOCABULARY},
        {dim.TOKENS, dim.CLASSES},
    ):
        return "sequence"
    if rest in ({dim.HIDDEN}, {dim.CHANNELS}, {dim.CLASSES}, {dim.VOCABULARY}):
        return "vector"
    if rest == {dim.HEADS, dim.TOKENS, dim.KEYS}:
        return "attention"
    if rest == {dim.HEADS, dim.TOKENS, dim.HEAD_DIM}:
        return "heads"
    return ""


def width_name(feature: Feature) -> str:
    return next((name for name in feature.names if name in FEATURES), "")


def dimension_of(feature: Feature, name: str) -> Dimension:
    return feature.dimensions[feature.axis(name)]


def same_but_batch(shape: tuple[int, ...], teacher: Feature) -> bool:
    if len(shape) != len(teacher.shape):
        return False
    batch = next((axis for axis, name in enumerate(teacher.names) if name.startswith(dim.BATCH)), -1)
    return all(a == b for axis, (a, b) in enumerate(zip(shape, teacher.shape, strict=True)) if axis != batch)


def same_meaning(teacher: str, student: str) -> bool:
    """Whether two names may stand for one thing, given that the sizes agree."""
    return teacher == student or dim.UNKNOWN in (teacher, student) or {teacher, student} <= _ALIKE


def share_meaning(teacher: Feature, student: Feature) -> tuple[Feature, Feature]:
    """Where one side's dimensions have no name, the other side's names hold for both, if the modules are of one class
    or agree in the names that both have."""
    if teacher.names[:1] == student.names[:1] == (dim.SINGLE,):  # tables of positions: one example stands for all
        teacher, student = (side.renamed((dim.BATCH, *side.names[1:])) for side in (teacher, student))
    if len(teacher.dimensions) == len(student.dimensions):
        names = list(zip(teacher.names, student.names, strict=True))
        agree = [same_meaning(a, b) for a, b in names if dim.UNKNOWN not in (a, b)]
        if teacher.class_name != student.class_name and not (agree and all(agree)):
            return teacher, student
        teacher = teacher.renamed(tuple(b if a == dim.UNKNOWN else a for a, b in names))
        student = student.renamed(tuple(a if b == dim.UNKNOWN else b for a, b in names))
    return teacher, student


def same_positions(student: Dimension, teacher: Dimension) -> bool:
    """Equal sizes, the batch and its share in a folded dimension left out."""
    if student.name == dim.BATCH:
        return True
    if not student.name.startswith(dim.BATCH):
        return student.size == teacher.size
    sizes = [[part.size for part in side.parts if part.name != dim.BATCH] for side in (student, teacher)]
    return bool(sizes[0]) and sizes[0] == sizes[1]


def spatial_class(source: tuple[int, ...], target: tuple[int, ...]) -> str:
    if all(a == 2 * b for a, b in zip(source, target, strict=True)):
        return "spatial x2"
    if all(2 * a == b for a, b in zip(source, target, strict=True)):
        return "spatial /2"
    if all(abs(a - b) <= 1 for a, b in zip(source, target, strict=True)):
        return "off by one"
    return "spatial"


def grids_of(student: Dimension, teacher: Dimension) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The grids of two token dimensions; a guess from the length only where the other side is known to be a grid."""
    mine, theirs = student.grid, teacher.grid
    if theirs is not None and mine is None:
        mine = square_grid(student.size)
    if mine is not None and theirs is None:
        theirs = square_grid(teacher.size)
    return mine, theirs


def square_grid(tokens: int) -> tuple[int, int] | None:
    """The square grid that a number of tokens holds beside 0, 1, 2, 4 or 5 special ones (class, distillation, and 4
    register tokens), or None.

    >>> square_grid(197), square_grid(198), square_grid(128)
    ((14, 14), (14, 14), None)
    """
    for special in (0, 1, 2, 5, 4):
        side = round(max(0, tokens - special) ** 0.5)
        if side > 1 and side * side + special == tokens:
            return (side, side)
    return None


def is_padding(student: int, teacher: int) -> bool:
    """Whether two vocabulary sizes differ by what padding to a multiple of 64 or 128 adds, e.g. 151936 and 152064."""
    small, large = sorted((student, teacher))
    return large % 64 == 0 and 0 < large - small <= 1024 and (large - small) / large < 0.02
