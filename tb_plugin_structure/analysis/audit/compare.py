"""Two features: can they be compared, and what does the student's need first?

The classes of mismatch and their remedies are those that distillation libraries agree on; ``docs/audit.md`` lists them.
Sizes of the batch dimension are never compared. A chain that this module returns is checked against the teacher's
shape before it leaves; what has no honest adapter is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.adapter import (
    Adapter,
    BatchNorm,
    CastTo,
    Conv1x1,
    DropTokens,
    Flatten,
    LayerNorm,
    Linear,
    MapToTokens,
    MeanHeads,
    MeanTokens,
    MoveTo,
    Permute,
    Pool,
    PrependMean,
    ReLU,
    RepeatHeads,
    Resize,
    ResizeGrid,
    SelectElement,
    SelectToken,
    ShapeError,
    Step,
    TokensToMap,
    Truncate,
    Unflatten,
)
from tb_plugin_structure.analysis.audit.feature import Dimension, Feature
from tb_plugin_structure.v1 import audit_pb2

MATCH = audit_pb2.VERDICT_MATCH
ADAPT = audit_pb2.VERDICT_ADAPT
INCOMPATIBLE = audit_pb2.VERDICT_INCOMPATIBLE
UNMATCHED = audit_pb2.VERDICT_UNMATCHED


NO_ADAPTER = Adapter()


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


@dataclass(frozen=True)
class Comparison:
    """Verdict, mismatch classes, the chain from student to teacher, and the reason where there is none."""

    verdict: audit_pb2.Verdict
    classes: tuple[str, ...] = ()
    adapter: Adapter = NO_ADAPTER
    reason: str = ""


class Refusal(Exception):
    """No honest adapter exists; the message says why."""


def compare(teacher: Feature, student: Feature, options: Options | None = None) -> Comparison:
    """Compare two features. Never raises."""
    options = options or Options()
    if teacher.tensor < 0 or student.tensor < 0:
        if teacher.tensor == student.tensor:
            return Comparison(MATCH, reason="neither module returns a tensor")
        side = "teacher" if teacher.tensor < 0 else "student"
        return Comparison(INCOMPATIBLE, ("element",), reason=f"the {side}'s module returns no tensor")
    chain = _Chain(teacher, student, options)
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
    if not _same_but_batch(made, teacher):
        return Comparison(
            INCOMPATIBLE,
            tuple(chain.classes),
            reason=f"no adapter from {_text(student)} to {_text(teacher)} is known",
        )
    return Comparison(ADAPT, tuple(chain.classes), adapter, chain.note)


def _same_but_batch(shape: tuple[int, ...], teacher: Feature) -> bool:
    if len(shape) != len(teacher.shape):
        return False
    batch = next((axis for axis, name in enumerate(teacher.names) if name.startswith(dim.BATCH)), -1)
    return all(a == b for axis, (a, b) in enumerate(zip(shape, teacher.shape, strict=True)) if axis != batch)


def _text(feature: Feature) -> str:
    return "[" + ", ".join(dimension.text() for dimension in feature.dimensions) + "]"


def _form(feature: Feature) -> str:
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


_FEATURES = (dim.HIDDEN, dim.CHANNELS, dim.VOCABULARY, dim.CLASSES)


def _width_name(feature: Feature) -> str:
    return next((name for name in feature.names if name in _FEATURES), "")


class _Chain:
    """Builds the steps; `shape` and `names` follow the student's feature through them."""

    def __init__(self, teacher: Feature, student: Feature, options: Options) -> None:
        self.teacher, self.student = _share_meaning(teacher, student)
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
        meets = _same_but_batch(student.shape, teacher) and self._meaning_agrees()
        if not meets:
            if teacher.is_floating != student.is_floating or not teacher.is_floating:
                self.mismatch("dtype" if teacher.dtype != student.dtype else "shape")
                raise Refusal(f"{student.dtype} and {teacher.dtype} values are not features that can be projected")
            self._shapes()
        if not self.classes:
            self.steps.clear()  # picking an element is how a hook is read, not an adapter
        self._dtype_and_device()

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
        return all(_same_meaning(a, b) for a, b in pairs)

    # ---- shapes, by the form of the two sides

    def _shapes(self) -> None:
        source, target = _form(self.student), _form(self.teacher)
        if not source or not target:
            if not self._project_alike():
                self._unclear()
            return
        if source != target:
            self.mismatch("rank" if len(self.student.shape) != len(self.teacher.shape) else "meaning")
        method = getattr(self, f"_{source}_to_{target}", None)
        if method is None:
            raise Refusal(_NO_ROUTE.get((source, target), f"a {source} has no counterpart in a {target}"))
        method()

    def _project_alike(self) -> bool:
        """Dimensions that mean the same on both sides and differ in the last one only, a feature, whatever the others
        are: windows of an image, rows of a flattened batch."""
        teacher, student = self.teacher, self.student
        if not student.names or student.names[:-1] != teacher.names[:-1] or student.names[-1] not in _FEATURES[:2]:
            return False
        rest = list(zip(student.dimensions[:-1], teacher.dimensions[:-1], strict=True))
        if dim.UNKNOWN in student.names or not all(_same_positions(a, b) for a, b in rest):
            return False
        self._project_last(student.shape[-1], teacher.shape[-1])
        return True

    def _unclear(self) -> None:
        self.mismatch("rank" if len(self.student.shape) != len(self.teacher.shape) else "shape")
        for side, feature in (("teacher", self.teacher), ("student", self.student)):
            if feature.names[:1] == (dim.SINGLE,):
                raise Refusal(f"the {side}'s value is the same for every example of the batch ({_text(feature)})")
            if any("·" in name and name.startswith(dim.BATCH) for name in feature.names):
                raise Refusal(
                    f"the {side}'s batch is folded into another dimension ({_text(feature)}); hook the module before "
                    "the reshape"
                )
        raise Refusal(
            f"the meaning of the dimensions is not clear ({_text(self.student)} against {_text(self.teacher)}), and "
            "a projection between dimensions of different meaning would train on noise"
        )

    def _map_to_map(self) -> None:
        student, teacher = self.student, self.teacher
        width = _width_name(student)
        sizes = {name: student.size(name) for name in student.names}
        goal = {name: teacher.size(name) for name in teacher.names}
        spatial = tuple(name for name in dim.SPATIAL if name in student.names)
        if spatial != tuple(name for name in dim.SPATIAL if name in teacher.names):
            self.mismatch("rank")
            raise Refusal("one side has a depth dimension that the other has not")
        source_size = tuple(sizes[name] for name in spatial)
        target_size = tuple(goal[name] for name in spatial)
        channels, wanted = sizes[width], goal[_width_name(teacher)]
        canonical = (dim.BATCH, width, *spatial)
        if all(size == 1 for size in source_size + target_size) and student.axis(width) == teacher.axis(
            _width_name(teacher)
        ):
            self._pooled_vector(channels, wanted, len(spatial))
            return
        same_layout = student.axis(width) == teacher.axis(_width_name(teacher))
        if not same_layout:
            self.mismatch("layout")
        if same_layout and source_size == target_size and student.axis(width) == len(student.shape) - 1:
            self._project_last(channels, wanted)
            return
        self._permute_to(canonical, "NHWC to NCHW" if len(spatial) == 2 else "channels first")
        self._resize(source_size, target_size)
        self._project_channels(channels, wanted, len(spatial))
        if teacher.axis(_width_name(teacher)) != 1:
            order = (0, *range(2, 2 + len(spatial)), 1)
            self.add(Permute(order, "NCHW to NHWC" if len(spatial) == 2 else "channels last"))

    def _permute_to(self, canonical: tuple[str, ...], meaning: str) -> None:
        order = tuple(self.student.axis(name) for name in canonical)
        if order != tuple(range(len(order))):
            self.add(Permute(order, meaning))

    def _pooled_vector(self, channels: int, wanted: int, ones: int) -> None:
        """Maps of 1x1 on both sides are vectors with two dimensions to spare."""
        if channels != wanted:
            self.mismatch("channels")
            self.add(Flatten())
            self._linear(channels, wanted)
            self.add(Unflatten(ones))

    def _resize(self, source: tuple[int, ...], target: tuple[int, ...]) -> None:
        if source == target:
            return
        self.mismatch(_spatial_class(source, target))
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
        self.mismatch(
            "channels" if dim.CHANNELS in (_width_name(self.student), _width_name(self.teacher)) else "hidden"
        )
        self._linear(features, wanted)

    def _linear(self, features: int, wanted: int) -> None:
        self.add(Linear(features, wanted, self.options.bias is not False))
        if self.options.norm:
            self.add(LayerNorm(wanted))
            self._activation()

    def _activation(self) -> None:
        if self.teacher.after_activation == "ReLU":
            self.add(ReLU())

    def _sequence_to_sequence(self) -> None:
        student, teacher = self.student, self.teacher
        self._outputs_agree()
        width, target_width = _width_name(student), _width_name(teacher)
        if student.names.index(dim.BATCH) != teacher.names.index(dim.BATCH) or student.axis(width) != teacher.axis(
            target_width
        ):
            self.mismatch("layout")
        self._permute_to((dim.BATCH, dim.TOKENS, width), f"{student.layout or 'other'} to BLC")
        self._tokens(_dimension(student, dim.TOKENS), _dimension(teacher, dim.TOKENS))
        if width in (dim.VOCABULARY, dim.CLASSES) and target_width == width:
            self._vocabulary(student.size(width), teacher.size(width), width)
        else:
            self._project_last(student.size(width), teacher.size(target_width))
        order = tuple((dim.BATCH, dim.TOKENS, target_width).index(name) for name in teacher.names)
        if order != (0, 1, 2):
            self.add(Permute(order, f"BLC to {teacher.layout or 'other'}"))

    def _tokens(self, student: Dimension, teacher: Dimension) -> None:
        """Special tokens and length of a [batch, tokens, hidden] sequence."""
        grid_student, grid_teacher = _grids(student, teacher)
        if student.size == teacher.size and (grid_student == grid_teacher or not (grid_student and grid_teacher)):
            return
        if grid_student and grid_teacher:
            special = student.size - grid_student[0] * grid_student[1]
            wanted = teacher.size - grid_teacher[0] * grid_teacher[1]
            if special > wanted:
                self.mismatch("special tokens")
                self.add(DropTokens(special - wanted, start=wanted))
                special = wanted
            if grid_student != grid_teacher:
                self.mismatch("tokens")
                self.add(ResizeGrid(special, grid_student, grid_teacher))
            if special < wanted:
                self.mismatch("special tokens")
                if special:
                    raise Refusal(
                        f"the teacher has {wanted} special tokens, the student {special}; drop them on both sides and "
                        "compare the grids"
                    )
                self.add(PrependMean(wanted))
                self.note = (
                    f"the student has no counterpart of the teacher's {wanted} special "
                    f"token{'s' if wanted > 1 else ''}: its mean token stands in; comparing the grids alone "
                    f"(teacher[:, {wanted}:]) is the alternative"
                )
            return
        self.mismatch("tokens")
        if self.options.text:
            raise Refusal(
                f"{student.size} and {teacher.size} text tokens: other tokens, not another resolution; align them by "
                "character spans, or feed both models the same tokens"
            )
        if grid_student or grid_teacher:
            raise Refusal(
                f"{student.size} tokens and {teacher.size} tokens are not both grids of an image (with special tokens)"
            )
        step: Step = Pool((teacher.size,)) if student.size > teacher.size else Resize((teacher.size,))
        self.add(Permute((0, 2, 1), "BLC to BCL"))
        self.add(step)
        self.add(Permute((0, 2, 1), "BCL to BLC"))

    def _signal_to_signal(self) -> None:
        student, teacher = self.student, self.teacher
        width, target_width = _width_name(student), _width_name(teacher)
        if student.axis(width) != teacher.axis(target_width):
            self.mismatch("layout")
        elif student.size(dim.LENGTH) == teacher.size(dim.LENGTH) and student.axis(width) == 2:
            self._project_last(student.size(width), teacher.size(target_width))
            return
        self._permute_to((dim.BATCH, width, dim.LENGTH), "NLC to NCL")
        self._resize((student.size(dim.LENGTH),), (teacher.size(dim.LENGTH),))
        self._project_channels(student.size(width), teacher.size(target_width), 1)
        if teacher.axis(target_width) == 2:
            self.add(Permute((0, 2, 1), "NCL to NLC"))

    def _signal_to_sequence(self) -> None:
        student, teacher = self.student, self.teacher
        width, target_width = _width_name(student), _width_name(teacher)
        self.mismatch("layout")
        self._permute_to((dim.BATCH, width, dim.LENGTH), "NLC to NCL")
        self._resize((student.size(dim.LENGTH),), (teacher.size(dim.TOKENS),))
        self.add(Permute((0, 2, 1), "NCL to BLC"))
        self._project_last(student.size(width), teacher.size(target_width))
        self._leave_blc(target_width)

    def _sequence_to_signal(self) -> None:
        student, teacher = self.student, self.teacher
        width, target_width = _width_name(student), _width_name(teacher)
        self.mismatch("layout")
        self._permute_to((dim.BATCH, width, dim.TOKENS), "BLC to NCL")
        self._resize((student.size(dim.TOKENS),), (teacher.size(dim.LENGTH),))
        self._project_channels(student.size(width), teacher.size(target_width), 1)
        if teacher.axis(target_width) == 2:
            self.add(Permute((0, 2, 1), "NCL to NLC"))

    def _leave_blc(self, width: str) -> None:
        order = tuple((dim.BATCH, dim.TOKENS, width).index(name) for name in self.teacher.names)
        if order != (0, 1, 2):
            self.add(Permute(order, f"BLC to {self.teacher.layout or 'other'}"))

    def _map_to_sequence(self) -> None:
        student, teacher = self.student, self.teacher
        width, target_width = _width_name(student), _width_name(teacher)
        tokens = _dimension(teacher, dim.TOKENS)
        grid = tokens.grid or square_grid(tokens.size)
        if dim.DEPTH in student.names or grid is None or self.options.text:
            raise Refusal(
                f"the teacher's {tokens.size} tokens are not the grid of an image, so the student's map has no "
                "positions to meet them at"
            )
        self._permute_to((dim.BATCH, width, dim.HEIGHT, dim.WIDTH), "NHWC to NCHW")
        self._resize((student.size(dim.HEIGHT), student.size(dim.WIDTH)), grid)
        self.add(MapToTokens())
        special = tokens.size - grid[0] * grid[1]
        if special:
            self.mismatch("special tokens")
            self.add(PrependMean(special))
            self.note = (
                f"a map has no special tokens: its mean token stands in for the teacher's {special}; comparing the "
                f"grids alone (teacher[:, {special}:]) is the alternative"
            )
        self._project_last(student.size(width), teacher.size(target_width))
        self._leave_blc(target_width)

    def _sequence_to_map(self) -> None:
        student, teacher = self.student, self.teacher
        width, target_width = _width_name(student), _width_name(teacher)
        tokens = _dimension(student, dim.TOKENS)
        grid = tokens.grid or square_grid(tokens.size)
        if dim.DEPTH in teacher.names or grid is None or self.options.text:
            raise Refusal(f"the student's {tokens.size} tokens are not the grid of an image, so they form no map")
        self._permute_to((dim.BATCH, dim.TOKENS, width), f"{student.layout or 'other'} to BLC")
        special = tokens.size - grid[0] * grid[1]
        if special:
            self.mismatch("special tokens")
            self.add(DropTokens(special))
        self.add(TokensToMap(*grid))
        self._resize(grid, (teacher.size(dim.HEIGHT), teacher.size(dim.WIDTH)))
        self._project_channels(student.size(width), teacher.size(target_width), 2)
        if teacher.axis(target_width) != 1:
            self.add(Permute((0, 2, 3, 1), "NCHW to NHWC"))

    def _map_to_vector(self) -> None:
        self._outputs_agree()
        width = _width_name(self.student)
        spatial = tuple(name for name in dim.SPATIAL if name in self.student.names)
        self._permute_to((dim.BATCH, width, *spatial), "NHWC to NCHW")
        if any(self.student.size(name) != 1 for name in spatial):
            self.add(Pool((1,) * len(spatial)))
        self.add(Flatten())
        self._project_last(self.student.size(width), self.teacher.size(_width_name(self.teacher)))

    def _vector_to_map(self) -> None:
        spatial = [name for name in dim.SPATIAL if name in self.teacher.names]
        if any(self.teacher.size(name) != 1 for name in spatial):
            raise Refusal(_NO_ROUTE["vector", "map"])
        width = _width_name(self.teacher)
        self._linear_if_needed(self.student.size(_width_name(self.student)), self.teacher.size(width))
        self.add(Unflatten(len(spatial)))
        if self.teacher.axis(width) != 1:
            self.add(Permute((0, *range(2, 2 + len(spatial)), 1), "NCHW to NHWC"))

    def _linear_if_needed(self, features: int, wanted: int) -> None:
        if features != wanted:
            self.mismatch("channels")
            self._linear(features, wanted)

    def _sequence_to_vector(self) -> None:
        self._outputs_agree()
        student = self.student
        width = _width_name(student)
        tokens = _dimension(student, dim.TOKENS)
        self._permute_to((dim.BATCH, dim.TOKENS, width), f"{student.layout or 'other'} to BLC")
        self.add(SelectToken(0) if tokens.special else MeanTokens())
        self._project_last(student.size(width), self.teacher.size(_width_name(self.teacher)))

    def _signal_to_vector(self) -> None:
        width = _width_name(self.student)
        self._permute_to((dim.BATCH, width, dim.LENGTH), "NLC to NCL")
        self.add(Pool((1,)))
        self.add(Flatten())
        self._project_last(self.student.size(width), self.teacher.size(_width_name(self.teacher)))

    def _vector_to_vector(self) -> None:
        self._outputs_agree()
        width, target = _width_name(self.student), _width_name(self.teacher)
        if width in (dim.CLASSES, dim.VOCABULARY):
            self._vocabulary(self.student.size(width), self.teacher.size(target), width)
        else:
            self._project_last(self.student.size(width), self.teacher.size(target))

    def _outputs_agree(self) -> None:
        """Predictions are compared with predictions: a feature is never projected onto classes."""
        outputs = (dim.CLASSES, dim.VOCABULARY)
        width, target = _width_name(self.student), _width_name(self.teacher)
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

    def _attention_to_attention(self) -> None:
        self._same_order("BHLL")
        self._heads(self.student.size(dim.HEADS), self.teacher.size(dim.HEADS))
        for name in (dim.TOKENS, dim.KEYS):
            mine, theirs = _dimension(self.student, name), _dimension(self.teacher, name)
            if mine.size == theirs.size:
                continue
            drop = mine.special - theirs.special
            if drop > 0 and mine.size - drop == theirs.size:
                self.mismatch("special tokens")
                self.add(DropTokens(drop, theirs.special, (self.student.axis(name),)))
            else:
                self.mismatch("tokens")
                raise Refusal(
                    f"attention over {mine.size} and {theirs.size} tokens: resizing would not keep rows that sum to 1"
                )

    def _heads_to_heads(self) -> None:
        self._same_order("BHLD")
        self._heads(self.student.size(dim.HEADS), self.teacher.size(dim.HEADS))
        mine, theirs = _dimension(self.student, dim.TOKENS), _dimension(self.teacher, dim.TOKENS)
        if mine.size != theirs.size:
            self.mismatch("tokens")
            raise Refusal(f"{mine.size} and {theirs.size} tokens within heads; compare the output of the attention")
        size, wanted = self.student.size(dim.HEAD_DIM), self.teacher.size(dim.HEAD_DIM)
        if size != wanted:
            self.mismatch("head_dim")
            self.add(Linear(size, wanted, self.options.bias is not False))

    def _same_order(self, layout: str) -> None:
        if self.student.names != self.teacher.names or self.student.names[:2] != (dim.BATCH, dim.HEADS):
            self.mismatch("layout")
            raise Refusal(f"attention is compared as {layout} only; permute both sides to it")

    def _heads(self, student: int, teacher: int) -> None:
        if student == teacher:
            return
        self.mismatch("heads")
        if teacher % student == 0:
            self.add(RepeatHeads(teacher // student))
            self.note = (
                f"each student head faces {teacher // student} teacher heads; averaging both sides over heads is the "
                "alternative"
            )
        elif student % teacher == 0:
            self.add(MeanHeads(student // teacher))
        else:
            raise Refusal(
                f"{student} and {teacher} heads do not divide: average both sides over heads, use relation heads (as "
                "MiniLMv2), or leave the attention loss out"
            )

    def _dtype_and_device(self) -> None:
        teacher, student = self.teacher, self.student
        if teacher.dtype != student.dtype and teacher.dtype:
            self.mismatch("dtype")
            if teacher.is_floating != student.is_floating:
                raise Refusal(f"{student.dtype} and {teacher.dtype} values mean different things")
            self.add(CastTo(teacher.dtype))
        if teacher.device != student.device and "meta" not in (teacher.device, student.device):
            self.mismatch("device")
            self.add(MoveTo(teacher.device))


_NO_ROUTE = {
    ("vector", "map"): "a pooled vector has no positions: compare it with the teacher's pooled feature instead",
    ("vector", "sequence"): "a pooled vector has no positions: compare it with the teacher's pooled output instead",
    ("vector", "signal"): "a pooled vector has no positions: compare it with the teacher's pooled feature instead",
    ("attention", "sequence"): "attention probabilities are no features; compare the attention's output",
    ("sequence", "attention"): "features are no attention probabilities; compare attention with attention",
    ("map", "attention"): "a map of features is no attention; compare spatial attention maps (AT) instead",
}


def _same_meaning(teacher: str, student: str) -> bool:
    return teacher == student or dim.UNKNOWN in (teacher, student) or {teacher, student} <= _ALIKE


_ALIKE = frozenset({dim.HIDDEN, dim.CHANNELS})


def _share_meaning(teacher: Feature, student: Feature) -> tuple[Feature, Feature]:
    """Where one side's dimensions have no name, the other side's names hold for both, if the modules are of one class
    or agree in the names that both have."""
    if teacher.names[:1] == student.names[:1] == (dim.SINGLE,):  # tables of positions: one example stands for all
        teacher, student = (side.renamed((dim.BATCH, *side.names[1:])) for side in (teacher, student))
    if len(teacher.dimensions) == len(student.dimensions):
        names = list(zip(teacher.names, student.names, strict=True))
        agree = [_same_meaning(a, b) for a, b in names if dim.UNKNOWN not in (a, b)]
        if teacher.class_name != student.class_name and not (agree and all(agree)):
            return teacher, student
        teacher = teacher.renamed(tuple(b if a == dim.UNKNOWN else a for a, b in names))
        student = student.renamed(tuple(a if b == dim.UNKNOWN else b for a, b in names))
    return teacher, student


def _dimension(feature: Feature, name: str) -> Dimension:
    return feature.dimensions[feature.axis(name)]


def _same_positions(student: Dimension, teacher: Dimension) -> bool:
    """Equal sizes, the batch and its share in a folded dimension left out."""
    if student.name == dim.BATCH:
        return True
    if not student.name.startswith(dim.BATCH):
        return student.size == teacher.size
    sizes = [[part.size for part in side.parts if part.name != dim.BATCH] for side in (student, teacher)]
    return bool(sizes[0]) and sizes[0] == sizes[1]


def _spatial_class(source: tuple[int, ...], target: tuple[int, ...]) -> str:
    if all(a == 2 * b for a, b in zip(source, target, strict=True)):
        return "spatial x2"
    if all(2 * a == b for a, b in zip(source, target, strict=True)):
        return "spatial /2"
    if all(abs(a - b) <= 1 for a, b in zip(source, target, strict=True)):
        return "off by one"
    return "spatial"


def _grids(student: Dimension, teacher: Dimension) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
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
