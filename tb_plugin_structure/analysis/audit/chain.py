"""Builds the steps from a student's feature to its teacher's; how one form becomes another is in ``routes.py``."""

from __future__ import annotations

from dataclasses import dataclass

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.forms import (
    FEATURES,
    describe,
    form,
    is_padding,
    same_but_batch,
    same_meaning,
    same_positions,
    share_meaning,
    spatial_class,
    width_name,
)
from tb_plugin_structure.analysis.audit.projections import BatchNorm, CastTo, Conv1x1, LayerNorm, Linear, MoveTo, ReLU
from tb_plugin_structure.analysis.audit.steps import (
    Permute,
    Pool,
    Resize,
    SelectElement,
    Squeeze,
    Step,
    Truncate,
    Unsqueeze,
)


@dataclass(frozen=True)
class Options:
    """How adapters are made.

    Attributes:
        bias: Whether Linear adapters have a bias; None: as the student's own Linear modules do.
        norm: Add a normalisation (and a ReLU where the teacher's feature comes after one) behind each projection.
        text: The token sequences are text: different lengths mean different tokens, not another resolution.
    """

    bias: bool | None = None
    norm: bool = False
    text: bool = False


class Refusal(Exception):
    """No honest adapter exists; the message says why."""


class Chain:
    """Builds the steps; `student` and `teacher` are the two features, names of unknown dimensions shared."""

    def __init__(self, teacher: Feature, student: Feature, options: Options) -> None:
        self.teacher, self.student = share_meaning(teacher, student)
        self.options = options
        self.classes: list[str] = []
        self.steps: list[Step] = []
        self.note = ""

    def add(self, step: Step) -> None:
        self.steps.append(step)

    def mismatch(self, name: str) -> None:
        if name not in self.classes:
            self.classes.append(name)

    def build(self) -> None:
        teacher, student = self.teacher, self.student
        self._elements()
        meets = same_but_batch(student.shape, teacher) and self._meaning_agrees()
        if not meets:
            if teacher.is_floating != student.is_floating or not teacher.is_floating:
                self.mismatch("dtype" if teacher.dtype != student.dtype else "shape")
                raise Refusal(f"{student.dtype} and {teacher.dtype} values are not features that can be projected")
            try:
                self._shapes()
            except Refusal:
                self._check_features()
                raise
        if not self.classes:
            self.steps.clear()  # picking an element is how a hook is read, not an adapter
        self._dtype_and_device()

    def _check_features(self) -> None:
        """Refuses, which is the better reason, where one of the two is no feature at all."""
        for side, feature in (("teacher", self.teacher), ("student", self.student)):
            if feature.is_constant:
                self.mismatch("constant")
                raise Refusal(
                    f"the {side}'s value does not depend on the input (a table of positions, a mask, a weight): there "
                    "is no feature to distill"
                )

    def _elements(self) -> None:
        if self.student.element:
            self.add(SelectElement(self.student.element))
        if bool(self.student.element) != bool(self.teacher.element):
            self.note = (
                f"the {'student' if self.student.element else 'teacher'} returns several values; element "
                f"{(self.student.element or self.teacher.element)!r} is compared"
            )
            if self.student.element:
                self.mismatch("element")

    def _meaning_agrees(self) -> bool:
        pairs = zip(self.teacher.names, self.student.names, strict=True)
        return all(same_meaning(a, b) for a, b in pairs)

    def _shapes(self) -> None:
        source, target = form(self.student), form(self.teacher)
        if self._single_dimensions(source, target):
            return
        if not source or not target:
            if not self._project_alike():
                self._unclear()
            return
        if source != target:
            self.mismatch("rank" if len(self.student.shape) != len(self.teacher.shape) else "meaning")
        method = getattr(self, f"_{source}_to_{target}", None)
        if method is None:
            raise Refusal(NO_ROUTE.get((source, target), f"a {source} has no counterpart in a {target}"))
        method()

    def _single_dimensions(self, source: str, target: str) -> bool:
        """Both sides hold one value, or one feature, an example once dimensions of size 1 are left out: [B, 1] and [B],
        one pooled token and a pooled map. What two maps or two sequences are is not decided by their size."""
        if source == target and source:
            return False
        t, s = self.teacher, self.student
        ones = [
            tuple(
                axis
                for axis, d in enumerate(side.dimensions)
                if d.size == 1 and not d.special and not d.name.startswith(dim.BATCH) and d.name not in FEATURES[:2]
            )
            for side in (s, t)
        ]
        mine, theirs = (
            [d for axis, d in enumerate(side.dimensions) if axis not in gone]
            for side, gone in zip((s, t), ones, strict=True)
        )
        alike = len(mine) == len(theirs) and [d.name for d in mine[:1]] == [d.name for d in theirs[:1]] == [dim.BATCH]
        if not any(ones) or not alike or len(mine) > 2:
            return False
        if len(mine) == 2 and not {mine[1].name, theirs[1].name} <= set(FEATURES[:2]):
            return False
        if {source, target} == {"map", "vector"} or source == target == "map":
            return False  # pooled maps have a route of their own
        self.mismatch("size 1" if len(mine) == 1 else "rank")
        if ones[0]:
            self.add(Squeeze(ones[0]))
        if len(mine) == 2:
            self._project_last(mine[1].size, theirs[1].size)
        if ones[1]:
            self.add(Unsqueeze(ones[1]))
        return True

    def _project_alike(self) -> bool:
        """Dimensions that mean the same on both sides and differ in the last one only, a feature, whatever the others
        are: windows of an image, rows of a flattened batch."""
        teacher, student = self.teacher, self.student
        if not student.names or student.names[:-1] != teacher.names[:-1] or student.names[-1] not in FEATURES[:2]:
            return False
        rest = list(zip(student.dimensions[:-1], teacher.dimensions[:-1], strict=True))
        if dim.UNKNOWN in student.names or not all(same_positions(a, b) for a, b in rest):
            return False
        self._project_last(student.shape[-1], teacher.shape[-1])
        return True

    def _unclear(self) -> None:
        self.mismatch("rank" if len(self.student.shape) != len(self.teacher.shape) else "shape")
        for side, feature in (("teacher", self.teacher), ("student", self.student)):
            if feature.names[:1] == (dim.SINGLE,):
                raise Refusal(f"the {side}'s value is the same for every example of the batch ({describe(feature)})")
            if any("·" in name and name.startswith(dim.BATCH) for name in feature.names):
                raise Refusal(
                    f"the {side}'s batch is folded into another dimension ({describe(feature)}); hook the module "
                    "before the reshape"
                )
            if any(name == dim.SELECTED for name in feature.names):
                raise Refusal(
                    f"the {side}'s rows are chosen by the data ({describe(feature)}); hook the module around the choice"
                )
        folded = [
            next(
                (d for d in side.dimensions if "·" in d.name and {*dim.SPATIAL, dim.LENGTH} & set(d.name.split("·"))),
                None,
            )
            for side in (self.student, self.teacher)
        ]
        if folded[0] is not None and folded[1] is not None:
            if dim.CHANNELS in folded[0].name.split("·") or len(self.student.shape) == 2:
                raise Refusal(
                    f"maps that were flattened ({describe(self.student)} against {describe(self.teacher)}); hook the "
                    "module before the flatten, where positions can be compared"
                )
            self.mismatch("positions")
            raise Refusal(
                f"{folded[0].size:,} positions in the student, {folded[1].size:,} in the teacher: other levels, "
                "anchors or resolutions; compare the levels that both have before they are joined"
            )
        raise Refusal(
            f"the meaning of the dimensions is not clear ({describe(self.student)} against {describe(self.teacher)}), "
            "and a projection between dimensions of different meaning would train on noise"
        )

    def _permute_to(self, canonical: tuple[str, ...], meaning: str) -> None:
        order = tuple(self.student.axis(name) for name in canonical)
        if order != tuple(range(len(order))):
            self.add(Permute(order, meaning))

    def _resize(self, source: tuple[int, ...], target: tuple[int, ...]) -> None:
        if source == target:
            return
        self.mismatch(spatial_class(source, target))
        if all(size == 1 for size in source):
            raise Refusal(NO_ROUTE["vector", "map"])
        if all(a >= b for a, b in zip(source, target, strict=True)):
            self.add(Pool(target))
        else:
            self.add(Resize(target))

    def _project_channels(self, channels: int, wanted: int, spatial: int) -> None:
        if channels == wanted:
            return
        self.mismatch("channels")
        self.add(Conv1x1(channels, wanted, spatial))
        if self.options.norm:
            self.add(BatchNorm(wanted, spatial))
            self._activation()

    def _project_last(self, features: int, wanted: int) -> None:
        if features == wanted:
            return
        self.mismatch("channels" if dim.CHANNELS in (width_name(self.student), width_name(self.teacher)) else "hidden")
        self._linear(features, wanted)

    def _linear(self, features: int, wanted: int, bias: bool = True) -> None:
        self.add(Linear(features, wanted, bias and self.options.bias is not False))
        if self.options.norm:
            self.add(LayerNorm(wanted))
            self._activation()

    def _activation(self) -> None:
        if self.teacher.after_activation == "ReLU":
            self.add(ReLU())

    def _outputs_agree(self) -> None:
        """Predictions are compared with predictions: a feature is never projected onto classes."""
        outputs = (dim.CLASSES, dim.VOCABULARY)
        width, target = width_name(self.student), width_name(self.teacher)
        if (width in outputs or target in outputs) and width != target:
            self.mismatch("classes" if dim.CLASSES in (width, target) else "vocabulary")
            raise Refusal(f"{width} on the student's side and {target} on the teacher's mean different things")

    def _vocabulary(self, student: int, teacher: int, name: str) -> None:
        if student == teacher:
            return
        self.mismatch(name)
        if name == dim.CLASSES:
            raise Refusal(
                f"{student} classes against {teacher}: indices have no correspondence; map the classes by name, or "
                "distill features instead of logits"
            )
        if is_padding(student, teacher):
            if student > teacher:
                self.mismatch("padded vocabulary")
                self.add(Truncate(teacher))
                self.note = f"entries {teacher}..{student - 1} look like padding; check that the tokenizers are equal"
                return
            raise Refusal(
                f"the teacher's entries {student}..{teacher - 1} look like padding: if the tokenizers are equal, cut "
                f"them off in the loss (teacher[..., :{student}]); the student has nothing to set against them"
            )
        raise Refusal(f"vocabularies of {student} and {teacher}: different tokenizers give one id two meanings")

    def _dtype_and_device(self) -> None:
        teacher, student = self.teacher, self.student
        if teacher.dtype != student.dtype and teacher.dtype and student.dtype:
            self.mismatch("dtype")
            if teacher.is_floating != student.is_floating:
                raise Refusal(f"{student.dtype} and {teacher.dtype} values mean different things")
            self.add(CastTo(teacher.dtype))
        if teacher.device != student.device and not {"meta", ""} & {teacher.device, student.device}:
            self.mismatch("device")
            self.add(MoveTo(teacher.device))


NO_ROUTE = {
    ("vector", "map"): "a pooled vector has no positions: compare it with the teacher's pooled feature instead",
    ("vector", "sequence"): "a pooled vector has no positions: compare it with the teacher's pooled output instead",
    ("vector", "signal"): "a pooled vector has no positions: compare it with the teacher's pooled feature instead",
    ("attention", "sequence"): "attention probabilities are no features; compare the attention's output",
    ("sequence", "attention"): "features are no attention probabilities; compare attention with attention",
    ("map", "attention"): "a map of features is no attention; compare spatial attention maps (AT) instead",
}
