"""Multiply-accumulates of kernels: formulas by kernel name, extensible by a user.

The convention is that of ``torch.utils.flop_counter.FlopCounterMode`` (which counts two FLOPs a multiply-accumulate):
matrix products, convolutions and attention count, everything elementwise does not. A kernel that may multiply but
has no formula is *unknown* (NaN), never zero.

>>> @register_macs("mylib::fused_linear")
... def fused_linear(inputs, outputs, arguments):
...     return prod(inputs[0]) * outputs[0][-1]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Shape = Sequence[int]
Formula = Callable[[Sequence[Shape], Sequence[Shape], Sequence[Any]], float]
"""(shapes of the tensor arguments, shapes of the results, all positional arguments) -> multiply-accumulates.
In the arguments, tensors are ``{"t": k}``, the k-th tensor argument."""

_FORMULAS: dict[str, Formula] = {}

_MAY_MULTIPLY = (
    "mm",
    "matmul",
    "conv",
    "linear",
    "attention",
    "lstm",
    "gru",
    "rnn",
    "bilinear",
    "einsum",
    "dot",
    "mv",
    "addr",
    "ger",
    "outer",
    "cdist",
    "pdist",
    "transformer",
    "fft_",
    "cross_correlation",
    "correlation",
    "tensordot",
    "chain_matmul",
    "kron",
)
_NEVER_MULTIPLY = ("upsample", "grid_sampler", "interpolate", "bilinear2d", "fft_shift", "dropout", "comm", "summ")
_SILENT_NAMESPACES = ("prim", "profiler", "prims", "inductor", "debugprims", "c10d", "_c10d_functional", "fsdp")


def register_macs(name: str) -> Callable[[Formula], Formula]:
    """Give a kernel its formula. `name` is "namespace::operator", e.g. "mylib::fused_linear"; all overloads share it.

    The function receives the shapes of the tensor arguments, the shapes of the results and the positional arguments
    (tensors as ``{"t": k}``), and returns multiply-accumulates. It replaces an earlier formula of that name.
    """

    def register(formula: Formula) -> Formula:
        _FORMULAS[name.replace(".", "::", 1)] = formula
        return formula

    return register


def macs_of(packet: str, inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    """Multiply-accumulates of one kernel, e.g. ``packet="aten::mm"``; NaN when unknown."""
    formula = _FORMULAS.get(packet)
    if formula is None:
        return math.nan if may_multiply(packet) else 0.0
    try:
        return float(formula(inputs, outputs, arguments))
    except (IndexError, TypeError, ValueError, KeyError):
        return math.nan


def has_formula(packet: str) -> bool:
    return packet in _FORMULAS


@cache
def may_multiply(packet: str) -> bool:
    """Whether a kernel without a formula could hold matrix products or convolutions."""
    namespace, _, name = packet.partition("::")
    if namespace in _SILENT_NAMESPACES:
        return False
    if namespace != "aten":
        return True  # somebody's own operator: nobody knows
    return any(part in name for part in _MAY_MULTIPLY) and not any(part in name for part in _NEVER_MULTIPLY)


def _prod(sizes: Sequence[int]) -> int:
    return math.prod(sizes)


@register_macs("aten::mm")
def _mm(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    (m, k), (_, n) = inputs[0], inputs[1]
    return m * k * n


@register_macs("aten::addmm")
def _addmm(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    (m, k), (_, n) = inputs[1], inputs[2]
    return m * k * n


_FORMULAS["aten::_addmm_activation"] = _addmm
_FORMULAS["aten::addmm_"] = _addmm


@register_macs("aten::bmm")
def _bmm(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    (b, m, k), (_, _, n) = inputs[0], inputs[1]
    return b * m * k * n


@register_macs("aten::baddbmm")
def _baddbmm(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    (b, m, k), (_, _, n) = inputs[1], inputs[2]
    return b * m * k * n


_FORMULAS["aten::baddbmm_"] = _baddbmm


@register_macs("aten::mv")
def _mv(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    return _prod(inputs[0])


@register_macs("aten::addmv")
def _addmv(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    return _prod(inputs[1])


@register_macs("aten::dot")
def _dot(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    return _prod(inputs[0])


_FORMULAS["aten::vdot"] = _dot


@register_macs("aten::linear")
def _linear(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    return _prod(inputs[0]) * (inputs[1][0] if len(inputs[1]) == 2 else 1)


@register_macs("aten::matmul")
def _matmul(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    return _prod(outputs[0]) * inputs[0][-1]


@register_macs("aten::convolution")
def _convolution(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    # aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    transposed = bool(arguments[6])
    x, weight, out = inputs[0], inputs[1], outputs[0]
    # Each position (of the output, for a transposed convolution of the input) meets the whole kernel once.
    positions = _prod(x[2:]) if transposed else _prod(out[2:])
    return x[0] * positions * _prod(weight)


for _name in ("_convolution", "cudnn_convolution", "mkldnn_convolution", "convolution_overrideable"):
    _FORMULAS[f"aten::{_name}"] = lambda inputs, outputs, arguments: (
        inputs[0][0] * _prod(outputs[0][2:]) * _prod(inputs[1])
    )


def _stored_convolution(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    # aten::conv2d(input, weight, ...) as stored programs have it; a single image has no batch dimension.
    x, weight, out = inputs[0], inputs[1], outputs[0]
    return (x[0] if len(x) == len(weight) else 1) * _prod(out[2 - len(weight) :]) * _prod(weight)


def _stored_transposed(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    return _stored_convolution(inputs, [inputs[0]], arguments)


for _dimensions in (1, 2, 3):
    _FORMULAS[f"aten::conv{_dimensions}d"] = _stored_convolution
    _FORMULAS[f"aten::conv_transpose{_dimensions}d"] = _stored_transposed


def _attention(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    query, key, value = inputs[0], inputs[1], inputs[2]
    rows = _prod(query[:-2])
    scores = rows * query[-2] * key[-2] * query[-1]
    return scores + rows * query[-2] * key[-2] * value[-1]


for _name in (
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_fused_attention_overrideable",
):
    _FORMULAS[f"aten::{_name}"] = _attention


@register_macs("aten::_transformer_encoder_layer_fwd")
def _encoder_layer(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    # Tensor arguments: src, qkv_weight, qkv_bias, proj_weight, proj_bias, norms (4), ffn_weight_1, ffn_bias_1, ...
    tokens, width = _prod(inputs[0][:-1]), inputs[0][-1]
    length = inputs[0][-2]
    return tokens * (4 * width * width + 2 * width * inputs[9][0] + 2 * length * width)


@register_macs("aten::_native_multi_head_attention")
def _native_mha(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    # Tensor arguments: query, key, value, qkv_weight, qkv_bias, proj_weight, proj_bias
    tokens, width = _prod(inputs[0][:-1]), inputs[0][-1]
    return tokens * (4 * width * width + 2 * inputs[1][-2] * width)


@register_macs("aten::mkldnn_rnn_layer")
def _rnn_layer(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Sequence[Any]) -> float:
    # Tensor arguments: input [time, batch, features], weight_ih, weight_hh, ...; each step multiplies both once.
    return inputs[0][0] * inputs[0][1] * (_prod(inputs[1]) + _prod(inputs[2]))
