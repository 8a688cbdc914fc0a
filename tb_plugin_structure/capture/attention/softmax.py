"""Follows scores to a softmax, and its result to the product with the values.

Attention that no fused kernel computes is: a product of two activations (the scores), anything elementwise on it
(scale, mask, bias, soft cap), a normalisation over one axis, anything elementwise again (cast, dropout), and a product
that sums over that axis. Storages carry tags along this way; nothing is kept alive by them.

The first step is what tells attention from a router or a classifier, whose scores come from a learned weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.attention.carried import (
    after_operator,
    offset_in_cat,
    padding_before,
    without_ellipsis,
)
from tb_plugin_structure.capture.attention.storage_tags import (
    NOISE,
    WEIGHT,
    Candidate,
    Tag,
    TagTable,
    key_axis,
    queries_of_product,
    row_axis,
    rows_and_keys_last,
    storage_key,
)

_PRODUCTS = {
    # operator -> position of the left operand, position of the right one
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::mv": (0, 1),
    "aten::matmul": (0, 1),
    "aten::addmm": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::addbmm": (1, 2),
    "aten::linear": (0, 1),
}
_SOFTMAXES = {"aten::_softmax", "aten::_safe_softmax", "aten::softmax"}
_CONVOLUTIONS = {"aten::convolution", "aten::_convolution", "aten::conv2d"}
_COPIES = {"aten::_to_copy", "aten::to", "aten::clone", "aten::contiguous"}

_NOISE = {"aten::bernoulli", "aten::bernoulli_", "aten::rand", "aten::rand_like", "aten::uniform_"}


class SoftmaxFollower:
    """Tags storages kernel by kernel.

    Args:
        weights: The parameters of the observed models.
        found: Called at a softmax with ``(candidate, probabilities, scores or None, kernel name)``; both tensors have
            the key axis last and cut to the keys. Sets ``candidate.record`` when it takes the softmax.
        used: Called once, with a candidate and the call, when a product read it.
        unnormalized: Called with a call, and the least and the largest row sum, when scores reach the values without
            being normalised.
    """

    def __init__(
        self,
        weights: Iterable[torch.Tensor],
        found: Callable[[Candidate, torch.Tensor, torch.Tensor | None, str], None],
        used: Callable[[Candidate, Any], None],
        unnormalized: Callable[[Any, float, float], None],
    ) -> None:
        self._found, self._used, self._unnormalized = found, used, unnormalized
        self._weights = {id(weight): weight for weight in weights}
        self._tags = TagTable(self._weights.values())

    def saw_weight(self, weight: torch.nn.Parameter) -> None:
        """A parameter was read, perhaps of a module that is no part of the observed models."""
        if id(weight) not in self._weights:
            self._tags.put_foreign_weight(weight)

    def after_kernel(self, name: str, args: Sequence[Any], result: Any, call: Any) -> None:
        """Look at one finished kernel; `name` is "namespace::operator"."""
        for value in args:
            if type(value) is torch.nn.Parameter:
                self.saw_weight(value)
        if name in _PRODUCTS:
            left, right = _PRODUCTS[name]
            if len(args) > right:
                # linear(x, w) sums over the last axis of both.
                axis = -1 if name == "aten::linear" or args[right].dim() == 1 else -2
                self._product(args[left], args[right], axis, result, call)
        elif name == "aten::einsum":
            if len(args) > 1 and len(args[1]) == 2:
                self._einsum(args[0], args[1][0], args[1][1], result, call)
        elif name in _SOFTMAXES:
            with aside():
                self._softmax(args[0], int(args[1]), result, name, call)
        elif name in _CONVOLUTIONS:
            self._convolution(args[0], result, call)
        elif name in _NOISE:
            if self._tags and isinstance(result, torch.Tensor):
                self._tags.put(result, NOISE)
        elif self._tags or name in _COPIES:
            self._elementwise(name, args, result)

    # ---- kernels

    def _softmax(self, scores: torch.Tensor, dim: int, result: torch.Tensor, name: str, call: Any) -> None:
        if scores.dim() < 2 or result.shape != scores.shape:
            return
        dim %= scores.dim()
        tag = self._tags.get(scores)
        scored = tag is not None and tag.kind == "scores"
        size = scores.shape[dim]
        start, keys = 0, size
        if scored and tag is not None and tag.size and 0 < tag.keys < size and key_axis(tag, scores) == dim:
            start, keys = tag.start, tag.keys
        candidate = Candidate(scored, tag.width if tag is not None else 0, size - keys, call)
        candidate.product_rows = queries_of_product(tag, scores, dim) if tag is not None else 0
        order = rows_and_keys_last(tag, scores, dim)
        self._found(
            candidate,
            result.permute(order).narrow(-1, start, keys),
            scores.permute(order).narrow(-1, start, keys),
            name.replace("::", ".") + ".default" if name != "aten::softmax" else "aten.softmax.int",
        )
        self._tags.put(
            result,
            Tag(
                "probabilities",
                int(result.storage_offset()),
                result.stride(dim),
                size,
                start,
                keys,
                shape=tuple(result.shape),
                candidate=candidate,
            ),
        )

    def _product(self, left: torch.Tensor, right: torch.Tensor, axis: int, result: Any, call: Any) -> None:
        left_tag, right_tag = self._tags.get(left), self._tags.get(right)
        self._consume(left, left_tag, left.dim() - 1, right_tag, call)
        self._consume(right, right_tag, right.dim() + axis, left_tag, call)
        if left_tag is None and right_tag is None and left.dim() > 1 and right.dim() > 1 and result.dim() > 1:
            self._put_scores(result, left.shape[-1])
        elif left_tag is WEIGHT or right_tag is WEIGHT:
            for operand, tag in ((left, left_tag), (right, right_tag)):
                if tag is not None and operand.numel() == result.numel():
                    self._mixed_heads(result, tag, call)
        else:
            for tag, other in ((left_tag, right_tag), (right_tag, left_tag)):
                if tag is None or tag.candidate is None or tag.candidate.scored:
                    continue
                if tag.kind == "probabilities":
                    self._tags.put(result, Tag("context", candidate=tag.candidate))
                elif tag.kind == "context" and other is None and tag.candidate.state == "whole":
                    # softmax(k)ᵀ v is multiplied with queries: the softmax ran over positions, but in linear attention
                    tag.candidate.state = "factor"
                    self._used(tag.candidate, call)

    def _convolution(self, maps: torch.Tensor, result: torch.Tensor, call: Any) -> None:
        """Talking heads as a convolution whose channels are the heads."""
        tag = self._tags.get(maps) if self._tags else None
        if tag is not None and maps.shape == result.shape:
            self._mixed_heads(result, tag, call)

    def _mixed_heads(self, result: torch.Tensor, tag: Tag, call: Any) -> None:
        """Talking heads: scores, or probabilities, of all heads are mixed by a learned matrix."""
        if tag.kind == "scores":
            self._tags.put(result, replace(tag, size=0, offset=int(result.storage_offset()), shape=()))
        elif tag.kind == "probabilities" and tag.candidate is not None and not tag.candidate.state:
            tag.candidate.state = "mixed"
            self._used(tag.candidate, call)

    def _put_scores(self, result: torch.Tensor, width: int, row_axis: int | None = -2, key_axis: int = -1) -> None:
        """A product of two activations; without a row axis each of its rows has keys of its own."""
        keys = result.shape[key_axis]
        self._tags.put(
            result,
            Tag(
                "scores",
                int(result.storage_offset()),
                result.stride(key_axis),
                keys,
                0,
                keys,
                width,
                1 if row_axis is None else result.stride(row_axis),
                0 if row_axis is None else result.shape[row_axis],
                tuple(result.shape),
                product_rows=1 if row_axis is None else result.shape[row_axis],
            ),
        )

    def _einsum(self, equation: str, left: torch.Tensor, right: torch.Tensor, result: Any, call: Any) -> None:
        """Only seen in inference mode, where einsum is one kernel."""
        inputs, _, output = equation.replace(" ", "").partition("->")
        terms = inputs.split(",")
        if len(terms) != 2:
            return
        if "..." in inputs:
            terms, output = without_ellipsis(terms, output, (left.dim(), right.dim()))
        left_tag, right_tag = self._tags.get(left), self._tags.get(right)
        summed = [letter for letter in terms[0] if letter in terms[1] and letter not in output]
        if len(summed) == 1:
            self._consume(left, left_tag, terms[0].index(summed[0]), right_tag, call)
            self._consume(right, right_tag, terms[1].index(summed[0]), left_tag, call)
            rows = [letter for letter in terms[0] if letter in output and letter not in terms[1]]
            keys = [letter for letter in terms[1] if letter in output and letter not in terms[0]]
            if left_tag is None and right_tag is None and len(rows) <= 1 and len(keys) == 1:
                width = left.shape[terms[0].index(summed[0])]
                row_axis = output.index(rows[0]) if rows else None
                self._put_scores(result, width, row_axis, output.index(keys[0]))

    def _consume(self, operand: torch.Tensor, tag: Tag | None, axis: int, other: Tag | None, call: Any) -> None:
        """An operand of a product; `axis` is the one that is summed over."""
        if tag is None or tag.kind not in ("scores", "probabilities") or axis < 0:
            return
        length = operand.shape[axis]
        over_keys = length == tag.size == 1 or (
            length > 1 and operand.stride(axis) == tag.stride and tag.size >= length
        )
        if not over_keys:
            return
        if tag.kind == "probabilities":
            candidate = tag.candidate
            assert candidate is not None
            if candidate.state:
                if candidate.state == "whole" and length < tag.keys:
                    candidate.state = "pieces"
                    self._used(candidate, call)
                return
            if other is not None and other.kind == "probabilities":
                candidate.state = "factor"
            elif other is not None and other.kind == "weight":
                candidate.state = "weight"
            elif not candidate.scored and other is not None and other.kind in ("scores", "context"):
                candidate.state = "factor"
            elif length not in (tag.size, tag.keys):
                candidate.state = "pieces"
            elif tag.combined or tag.altered:
                kernel = "a normalised combination of softmaxes" if tag.combined else "normalised again after a softmax"
                with aside():
                    absorbed = self._normalized(operand, axis, tag, call, kernel)
                candidate.state = "absorbed" if absorbed else "combined" if tag.combined else "altered"
            else:
                candidate.state = "whole"
            self._used(candidate, call)
            for further in tag.combined:
                further.state = candidate.state
                self._used(further, call)
        elif tag.kind == "scores" and length == tag.size and (other is None or other.kind != "weight"):
            with aside():
                self._normalized_by_hand(operand, axis, tag, call)

    def _normalized_by_hand(self, operand: torch.Tensor, axis: int, tag: Tag, call: Any) -> None:
        """Scores that reach the values without a softmax: exp(s) / sum, log_softmax().exp(), sparsemax, …"""
        if not self._normalized(operand, axis, tag, call, "normalised without a softmax kernel"):
            values = operand.detach().movedim(axis, -1)
            if not values.is_meta and values.is_floating_point() and values.numel():
                sums = _some_rows(values).sum(-1)
                self._unnormalized(call, float(sums.min()), float(sums.max()))

    def _normalized(self, operand: torch.Tensor, axis: int, tag: Tag, call: Any, kernel: str) -> bool:
        """Take what multiplies the values itself for probabilities, when its rows are."""
        values = operand.detach().movedim(axis, -1)
        if values.is_meta or not values.is_floating_point() or not values.numel():
            return False
        sample = _some_rows(values)
        sums = sample.sum(-1)
        least = -2e-2 if tag.exponential == "divided" else 1 - 2e-2  # exp(s) / (1 + sum): a sink without a column
        if bool((sample < 0).any()) or not bool((sums.ge(least) & sums.le(1 + 2e-2)).all()):
            return False
        if _numel(tag.shape) == values.numel() and tag.shape and tag.shape[-1] == values.shape[-1]:
            values = values.reshape(tag.shape)
        scored = tag.candidate is None or tag.candidate.scored
        candidate = Candidate(scored, tag.width, 0, call, state="whole", product_rows=tag.product_rows)
        candidate.lacking = float(1 - sums.min())
        self._found(candidate, values, None, kernel)
        self._used(candidate, call)
        return True

    def _elementwise(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Carry a tag from an operand to the result of an operator that keeps or widens the shape."""
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        output = outputs[0] if outputs else None
        if not isinstance(output, torch.Tensor):
            return
        source: torch.Tensor | None = None
        tag: Tag | None = None
        combined: list[Candidate] = []
        noisy, parts = False, 0
        for value in _tensors(args):
            found = self._tags.get(value)
            if found is None or found.kind in ("weight", "noise"):
                if found is WEIGHT and name in _COPIES and output.numel() == value.numel():
                    self._tags.put_weight_copy(output, value)
                noisy = noisy or found is NOISE
                continue
            if output.numel() < value.numel():
                continue
            parts += 1
            if tag is not None and found.candidate is not None and tag.candidate not in (None, found.candidate):
                combined.append(found.candidate)
            # Scores win over nothing; probabilities win over scores (dropout masks carry no tag).
            if tag is None or (found.kind == "probabilities" and tag.kind != "probabilities"):
                source, tag = value, found
        if source is None or tag is None:
            if noisy and storage_key(output) is not None:
                self._tags.put(output, NOISE)  # numbers compared with a rate, scaled by it
            return
        tag = after_operator(name, tag, source, args, noisy)
        if storage_key(output) == storage_key(source):
            # A view, or written in place: the rest of the storage's tag still holds.
            self._tags.put(output, tag)
            return
        axis = key_axis(tag, source)
        moved = replace(
            tag,
            offset=int(output.storage_offset()),
            size=0,
            row_size=0,
            shape=tuple(output.shape),
            combined=(*tag.combined, *combined),
        )
        row = row_axis(tag, source, axis)
        row = None if row is None else row - source.dim() + output.dim()
        if row is not None and 0 <= row < output.dim() and output.shape[row] == tag.row_size:
            moved = replace(moved, row_stride=output.stride(row), row_size=tag.row_size)
        if axis is not None:
            out_axis = axis - source.dim() + output.dim()
            if name == "aten::cat" and parts > 1 and output.shape[axis] > source.shape[axis]:
                # Scores of several products share one softmax: all of them are of keys.
                size = output.shape[axis]
                moved = replace(moved, stride=output.stride(axis), size=size, start=0, keys=size)
            elif name in ("aten::cat", "aten::constant_pad_nd", "aten::pad") and output.dim() == source.dim():
                begin = (
                    offset_in_cat(args, source, axis) if name == "aten::cat" else padding_before(args[1], source, axis)
                )
                moved = replace(
                    moved,
                    stride=output.stride(axis),
                    size=output.shape[axis],
                    start=tag.start + begin,
                    keys=tag.keys or source.shape[axis],
                )
            elif 0 <= out_axis < output.dim() and output.shape[out_axis] == source.shape[axis]:
                cut = source.shape[axis] < tag.size
                moved = replace(
                    moved,
                    stride=output.stride(out_axis),
                    size=output.shape[out_axis],
                    start=0 if cut else tag.start,
                    keys=output.shape[out_axis] if cut else tag.keys,
                )
        if axis is None and tag.kind == "probabilities":
            return
        self._tags.put(output, moved)


def _some_rows(values: torch.Tensor) -> torch.Tensor:
    """The first 256 rows in float32: enough to see whether they are probabilities."""
    return values.reshape(-1, values.shape[-1])[:256].float()


def _tensors(args: Iterable[Any]) -> Iterable[torch.Tensor]:
    for value in args:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            for inner in value:
                if isinstance(inner, torch.Tensor):
                    yield inner


def _numel(shape: Sequence[int]) -> int:
    number = 1
    for size in shape:
        number *= size
    return number
