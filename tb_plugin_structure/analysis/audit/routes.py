"""How a student's feature of one form (map, sequence, signal, vector, attention, heads) becomes one of another."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.chain import NO_ROUTE, Chain, Refusal
from tb_plugin_structure.analysis.audit.feature import Dimension
from tb_plugin_structure.analysis.audit.forms import dimension_of, grids_of, square_grid, width_name
from tb_plugin_structure.analysis.audit.projections import Linear
from tb_plugin_structure.analysis.audit.steps import (
    DropTokens,
    Flatten,
    MapToTokens,
    MeanHeads,
    MeanTokens,
    Permute,
    Pool,
    PrependMean,
    RepeatHeads,
    Resize,
    ResizeGrid,
    SelectToken,
    Step,
    TokensToMap,
    Unflatten,
)
from tb_plugin_structure.analysis.audit.wording import counted


def _behind(count: int, owner: str) -> str:
    """Why tokens behind a grid are no target."""
    return (
        f"{counted(count, 'token')} of {owner} behind the image's grid, such as detection tokens: compare what stands "
        f"before them (x[:, :-{count}])"
    )


class Routes(Chain):
    """One method a route, named ``_<student's form>_to_<teacher's form>``."""

    def _map_to_map(self) -> None:
        student, teacher = self.student, self.teacher
        width = width_name(student)
        sizes = {name: student.size(name) for name in student.names}
        goal = {name: teacher.size(name) for name in teacher.names}
        spatial = tuple(name for name in dim.SPATIAL if name in student.names)
        if spatial != tuple(name for name in dim.SPATIAL if name in teacher.names):
            self.mismatch("rank")
            raise Refusal("one side has a depth dimension that the other has not")
        source_size = tuple(sizes[name] for name in spatial)
        target_size = tuple(goal[name] for name in spatial)
        channels, wanted = sizes[width], goal[width_name(teacher)]
        canonical = (dim.BATCH, width, *spatial)
        if all(size == 1 for size in source_size + target_size) and student.axis(width) == teacher.axis(
            width_name(teacher)
        ):
            self._pooled_vector(channels, wanted, len(spatial))
            return
        same_layout = student.axis(width) == teacher.axis(width_name(teacher))
        if not same_layout:
            self.mismatch("layout")
        if same_layout and source_size == target_size and student.axis(width) == len(student.shape) - 1:
            self._project_last(channels, wanted)
            return
        self._permute_to(canonical, "NHWC to NCHW" if len(spatial) == 2 else "channels first")
        self._resize(source_size, target_size)
        self._project_channels(channels, wanted, len(spatial))
        if teacher.axis(width_name(teacher)) != 1:
            order = (0, *range(2, 2 + len(spatial)), 1)
            self.add(Permute(order, "NCHW to NHWC" if len(spatial) == 2 else "channels last"))

    def _pooled_vector(self, channels: int, wanted: int, ones: int) -> None:
        """Maps of 1x1 on both sides are vectors with two dimensions to spare."""
        if channels != wanted:
            self.mismatch("channels")
            self.add(Flatten())
            self._linear(channels, wanted, bias=False)  # as the 1x1 convolution that it is
            self.add(Unflatten(ones))

    def _sequence_to_sequence(self) -> None:
        student, teacher = self.student, self.teacher
        self._outputs_agree()
        width, target_width = width_name(student), width_name(teacher)
        if student.names.index(dim.BATCH) != teacher.names.index(dim.BATCH) or student.axis(width) != teacher.axis(
            target_width
        ):
            self.mismatch("layout")
        self._permute_to((dim.BATCH, dim.TOKENS, width), f"{student.layout or 'other'} to BLC")
        self._tokens(dimension_of(student, dim.TOKENS), dimension_of(teacher, dim.TOKENS))
        if width in (dim.VOCABULARY, dim.CLASSES) and target_width == width:
            self._vocabulary(student.size(width), teacher.size(width), width)
        else:
            self._project_last(student.size(width), teacher.size(target_width))
        order = tuple((dim.BATCH, dim.TOKENS, target_width).index(name) for name in teacher.names)
        if order != (0, 1, 2):
            self.add(Permute(order, f"BLC to {teacher.layout or 'other'}"))

    def _drop_trailing(self, student: Dimension, teacher: Dimension) -> int:
        """Drop what the student has behind the grid and the teacher has not; the number that both have."""
        extra = student.trailing - teacher.trailing
        if extra > 0:
            self.mismatch("special tokens")
            self.add(DropTokens(extra, student.size - extra))
        elif extra < 0:
            self.mismatch("special tokens")
            raise Refusal(_behind(-extra, "the teacher"))
        return teacher.trailing

    def _tokens(self, student: Dimension, teacher: Dimension) -> None:
        """Special tokens and length of a [batch, tokens, hidden] sequence."""
        grid_student, grid_teacher = grids_of(student, teacher)
        alike = grid_student == grid_teacher or not (grid_student and grid_teacher)
        if alike and (student.size, student.trailing) == (teacher.size, teacher.trailing):
            return
        if grid_student and grid_teacher:
            trailing = self._drop_trailing(student, teacher)
            special = student.size - grid_student[0] * grid_student[1] - student.trailing
            wanted = teacher.size - grid_teacher[0] * grid_teacher[1] - teacher.trailing
            if special > wanted:
                self.mismatch("special tokens")
                self.add(DropTokens(special - wanted, start=wanted))
                special = wanted
            if grid_student != grid_teacher:
                self.mismatch("tokens")
                if trailing:
                    raise Refusal(_behind(trailing, "both models"))
                self.add(ResizeGrid(special, grid_student, grid_teacher))
            if special < wanted:
                self.mismatch("special tokens")
                missing = wanted - special
                self.add(PrependMean(missing, special))
                self.note = (
                    f"the student has no counterpart of {missing} of the teacher's special tokens: its mean token "
                    f"stands in; comparing the grids alone (teacher[:, {wanted}:]) is the alternative"
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
        width, target_width = width_name(student), width_name(teacher)
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
        width, target_width = width_name(student), width_name(teacher)
        self.mismatch("layout")
        self._permute_to((dim.BATCH, width, dim.LENGTH), "NLC to NCL")
        self._resize((student.size(dim.LENGTH),), (teacher.size(dim.TOKENS),))
        self.add(Permute((0, 2, 1), "NCL to BLC"))
        self._project_last(student.size(width), teacher.size(target_width))
        self._leave_blc(target_width)

    def _sequence_to_signal(self) -> None:
        student, teacher = self.student, self.teacher
        width, target_width = width_name(student), width_name(teacher)
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
        width, target_width = width_name(student), width_name(teacher)
        tokens = dimension_of(teacher, dim.TOKENS)
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
        if tokens.trailing:
            raise Refusal(_behind(tokens.trailing, "the teacher"))
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
        width, target_width = width_name(student), width_name(teacher)
        tokens = dimension_of(student, dim.TOKENS)
        grid = tokens.grid or square_grid(tokens.size)
        if dim.DEPTH in teacher.names or grid is None or self.options.text:
            raise Refusal(f"the student's {tokens.size} tokens are not the grid of an image, so they form no map")
        self._permute_to((dim.BATCH, dim.TOKENS, width), f"{student.layout or 'other'} to BLC")
        special = tokens.size - grid[0] * grid[1] - tokens.trailing
        if tokens.trailing:
            self.mismatch("special tokens")
            self.add(DropTokens(tokens.trailing, tokens.size - tokens.trailing))
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
        width = width_name(self.student)
        spatial = tuple(name for name in dim.SPATIAL if name in self.student.names)
        self._permute_to((dim.BATCH, width, *spatial), "NHWC to NCHW")
        if any(self.student.size(name) != 1 for name in spatial):
            self.add(Pool((1,) * len(spatial)))
        self.add(Flatten())
        self._project_last(self.student.size(width), self.teacher.size(width_name(self.teacher)))

    def _vector_to_map(self) -> None:
        spatial = [name for name in dim.SPATIAL if name in self.teacher.names]
        if any(self.teacher.size(name) != 1 for name in spatial):
            raise Refusal(NO_ROUTE["vector", "map"])
        width = width_name(self.teacher)
        self._linear_if_needed(self.student.size(width_name(self.student)), self.teacher.size(width))
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
        width = width_name(student)
        tokens = dimension_of(student, dim.TOKENS)
        self._permute_to((dim.BATCH, dim.TOKENS, width), f"{student.layout or 'other'} to BLC")
        self.add(SelectToken(0) if tokens.special else MeanTokens())
        self._project_last(student.size(width), self.teacher.size(width_name(self.teacher)))

    def _signal_to_vector(self) -> None:
        width = width_name(self.student)
        self._permute_to((dim.BATCH, width, dim.LENGTH), "NLC to NCL")
        self.add(Pool((1,)))
        self.add(Flatten())
        self._project_last(self.student.size(width), self.teacher.size(width_name(self.teacher)))

    def _vector_to_vector(self) -> None:
        self._outputs_agree()
        width, target = width_name(self.student), width_name(self.teacher)
        if width in (dim.CLASSES, dim.VOCABULARY):
            self._vocabulary(self.student.size(width), self.teacher.size(target), width)
        else:
            self._project_last(self.student.size(width), self.teacher.size(target))

    def _attention_to_attention(self) -> None:
        self._same_order("BHLL")
        self._heads(self.student.size(dim.HEADS), self.teacher.size(dim.HEADS))
        for name in (dim.TOKENS, dim.KEYS):
            mine, theirs = dimension_of(self.student, name), dimension_of(self.teacher, name)
            if mine.size == theirs.size:
                continue
            drop, behind = mine.special - theirs.special, mine.trailing - theirs.trailing
            if min(drop, behind) >= 0 and mine.size - drop - behind == theirs.size:
                self.mismatch("special tokens")
                axis = (self.student.axis(name),)
                if behind:
                    self.add(DropTokens(behind, mine.size - behind, axis))
                if drop:
                    self.add(DropTokens(drop, theirs.special, axis))
            else:
                self.mismatch("tokens")
                raise Refusal(
                    f"attention over {mine.size} and {theirs.size} tokens: resizing would not keep rows that sum to 1"
                )

    def _heads_to_heads(self) -> None:
        """Features per head, [batch, heads, tokens, head_dim] or, as queries and keys are normalised in newer language
        models, [batch, tokens, heads, head_dim]."""
        canonical = (dim.BATCH, dim.HEADS, dim.TOKENS, dim.HEAD_DIM)
        if self.student.names != self.teacher.names:
            self.mismatch("layout")
        heads = self.student.size(dim.HEADS) != self.teacher.size(dim.HEADS)
        moved = heads or self.student.names != self.teacher.names
        if moved:
            self._permute_to(canonical, f"{self.student.layout or 'other'} to BHLD")
        self._heads(self.student.size(dim.HEADS), self.teacher.size(dim.HEADS))
        mine, theirs = dimension_of(self.student, dim.TOKENS), dimension_of(self.teacher, dim.TOKENS)
        if mine.size != theirs.size:
            self.mismatch("tokens")
            raise Refusal(f"{mine.size} and {theirs.size} tokens within heads; compare the output of the attention")
        size, wanted = self.student.size(dim.HEAD_DIM), self.teacher.size(dim.HEAD_DIM)
        if size != wanted:
            self.mismatch("head_dim")
            self.add(Linear(size, wanted, self.options.bias is not False))
        order = tuple(canonical.index(name) for name in self.teacher.names)
        if moved and order != (0, 1, 2, 3):
            self.add(Permute(order, f"BHLD to {self.teacher.layout or 'other'}"))

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
