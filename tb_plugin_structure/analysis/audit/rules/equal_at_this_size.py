"""Two shapes are equal for the recorded input only."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.compare import MATCH
from tb_plugin_structure.analysis.audit.feature import BATCH, Feature
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.records.dimensions import predict


@rule(
    "equal-at-this-size",
    severity="warning",
    explanation=(
        "The two shapes agree for the recorded input and differ for others: a loss that runs today raises, or "
        "broadcasts, at another resolution or length."
    ),
    fix="Resize one side in the loss (interpolate to the other's size), or train at this size only.",
)
def equal_at_this_size(context: Context) -> Iterator[Finding]:
    structures = context.teacher.structure, context.student.structure
    inputs = [{each.name: each.size for each in structure.header.symbolic.dimensions} for structure in structures]
    if not inputs[0] or inputs[0] != inputs[1]:
        return  # not recorded, or for other inputs
    free = {each.name for each in structures[0].header.symbolic.dimensions if each.expression == each.name}
    free &= {each.name for each in structures[1].header.symbolic.dimensions if each.expression == each.name}
    trials = [s for s in _other_sizes(inputs[0], free) if not any(each.violated_conditions(s) for each in structures)]
    for index, row in enumerate(context.rows):
        t, s = row.teacher, row.student
        if row.verdict != MATCH or t is None or s is None or len(t.symbols) != len(s.symbols) or t.symbols == s.symbols:
            continue
        for sizes in trials:
            shapes = [_shape(feature, sizes) for feature in (t, s)]
            if shapes[0] != shapes[1]:
                given = ", ".join(f"{name} = {size}" for name, size in sizes.items() if size != inputs[0][name])
                yield Finding(
                    f"{t.path or 'the teacher'} and {s.path or 'the student'} both give {list(t.shape)}; for {given} "
                    f"they would give {shapes[0]} and {shapes[1]}",
                    module_path=s.path,
                    row=index,
                )
                return  # once: the symbolic columns say the rest


def _other_sizes(sizes: dict[str, int], free: set[str]) -> Iterator[dict[str, int]]:
    """The sizes that neither model fixes: twice as large, half as large again, and a little larger."""
    for numerator, denominator, more in ((2, 1, 0), (3, 2, 0), (1, 1, 1)):
        yield {n: numerator * size // denominator + more if n in free else size for n, size in sizes.items()}


def _shape(feature: Feature, sizes: dict[str, int]) -> list[int]:
    """The batch left out: it is never compared."""
    pairs = zip(feature.symbols, feature.names, strict=True)
    return [predict(symbol, sizes) for symbol, name in pairs if name != BATCH]
