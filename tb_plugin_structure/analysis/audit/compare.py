"""Two features: can they be compared, and what does the student's need first?

The classes of mismatch and their remedies are those that distillation libraries agree on; ``docs/audit.md`` lists them.
Sizes of the batch dimension are never compared. A chain that this module returns is checked against the teacher's
shape before it leaves; what has no honest adapter is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from tb_plugin_structure.analysis.audit.adapter import Adapter
from tb_plugin_structure.analysis.audit.chain import Options as Options
from tb_plugin_structure.analysis.audit.chain import Refusal
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.forms import describe, same_but_batch
from tb_plugin_structure.analysis.audit.routes import Routes
from tb_plugin_structure.analysis.audit.steps import ShapeError
from tb_plugin_structure.v1 import audit_pb2

MATCH = audit_pb2.VERDICT_MATCH
ADAPT = audit_pb2.VERDICT_ADAPT
INCOMPATIBLE = audit_pb2.VERDICT_INCOMPATIBLE
UNMATCHED = audit_pb2.VERDICT_UNMATCHED

NO_ADAPTER = Adapter()


@dataclass(frozen=True)
class Comparison:
    """Verdict, mismatch classes, the chain from student to teacher, and the reason where there is none."""

    verdict: audit_pb2.Verdict
    classes: tuple[str, ...] = ()
    adapter: Adapter = NO_ADAPTER
    reason: str = ""

    @property
    def is_refused_feature(self) -> bool:
        """Whether two features cannot be compared. Tables of positions and the like are no features: nobody distills
        them, so that they differ is no obstacle."""
        return self.verdict == INCOMPATIBLE and "constant" not in self.classes


class Comparisons:
    """Compares features of two models; the layers of a model repeat the same few pairs, which are compared once."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._known: dict[object, Comparison] = {}

    def of(self, teacher: Feature, student: Feature) -> Comparison:
        """As :func:`compare`."""
        key = (_facts(teacher), _facts(student))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = compare(teacher, student, self.options)
        return found


def _facts(feature: Feature) -> tuple[object, ...]:
    """All that a comparison looks at: not where the feature stands."""
    return (
        feature.dimensions,
        feature.element,
        feature.dtype,
        feature.device,
        feature.after_activation,
        feature.class_name,
        feature.is_constant,
        feature.tensor < 0,
    )


def compare(teacher: Feature, student: Feature, options: Options | None = None) -> Comparison:
    """Compare two features. Never raises."""
    options = options or Options()
    if teacher.tensor < 0 or student.tensor < 0:
        if teacher.tensor == student.tensor:
            return Comparison(MATCH, reason="neither module returns a tensor")
        side = "teacher" if teacher.tensor < 0 else "student"
        return Comparison(INCOMPATIBLE, ("element",), reason=f"the {side}'s module returns no tensor")
    chain = Routes(teacher, student, options)
    try:
        chain.build()
    except Refusal as refusal:
        return Comparison(INCOMPATIBLE, tuple(chain.classes), reason=str(refusal))
    if not chain.classes:
        return Comparison(MATCH, reason=chain.note)
    adapter = Adapter(tuple(chain.steps))
    try:
        made = adapter.shape(student.shape)
    except ShapeError as error:
        return Comparison(INCOMPATIBLE, tuple(chain.classes), reason=f"no adapter is known: {error}")
    if not same_but_batch(made, teacher):
        return Comparison(
            INCOMPATIBLE,
            tuple(chain.classes),
            reason=f"no adapter from {describe(student)} to {describe(teacher)} is known",
        )
    return Comparison(ADAPT, tuple(chain.classes), adapter, chain.note)
