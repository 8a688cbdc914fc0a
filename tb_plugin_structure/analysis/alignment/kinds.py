"""What a module does, independent of the library that wrote it: a small ontology of kinds.

A kind is found from the class name, then from the parameters, then from the operators that the module ran, so that a
quantised, parametrised or home-made module lands where its original would.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

SUBSTANCE: Final[dict[str, float]] = {
    "linear": 1.0,
    "convolution": 1.0,
    "transposed_convolution": 1.0,
    "embedding": 1.0,
    "attention": 1.0,
    "recurrent": 1.0,
    "block": 1.0,
    "norm": 0.6,
    "pool": 0.5,
    "upsample": 0.5,
    "loss": 0.5,
    "other": 0.5,
    "router": 0.5,
    "position": 0.4,
    "activation": 0.4,
    "softmax": 0.3,
    "scale": 0.25,
    "shape": 0.15,
    "dropout": 0.12,
    "identity": 0.08,
}
"""Kind -> how much a leaf of it counts when structures are compared: 1 for what holds most weights, near 0 for what
leaves its input unchanged."""

WEIGHTED: Final = frozenset(kind for kind, weight in SUBSTANCE.items() if weight == 1.0)
"""Kinds that make a composite a *block* when it has two or more of them."""

TRANSPARENT: Final = frozenset(("identity", "dropout"))
"""Kinds that pass their input through at evaluation."""

_RELATED: Final[dict[frozenset[str], float]] = {
    frozenset(("linear", "convolution")): 0.5,
    frozenset(("convolution", "transposed_convolution")): 0.5,
    frozenset(("transposed_convolution", "upsample")): 0.4,
    frozenset(("dropout", "identity")): 0.6,
    frozenset(("pool", "convolution")): 0.2,
    frozenset(("embedding", "position")): 0.4,
    frozenset(("attention", "block")): 0.5,
    frozenset(("other", "block")): 0.5,
}

# (pattern over the lower-case class name, kind); the first that matches wins.
_CLASS_PATTERNS: Final = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"^(identity|placeholder|noop)", "identity"),
        (r"drop(out|path|block)|stochasticdepth", "dropout"),
        (r"loss$", "loss"),
        (r"rotary|sinusoid|position(al)?enc|alibi", "position"),
        (r"(?<!weight)(?<!spectral)norm", "norm"),
        (r"upsampl|interpolat|resize", "upsample"),
        (r"pixel(un)?shuffle|channelshuffle|flatten|rearrange|permute|transpose2d|reshape|squeeze|^view", "shape"),
        (r"conv(olution)?_?transpose|transposedconv|deconv", "transposed_convolution"),
        (r"conv", "convolution"),
        (r"embedding", "embedding"),
        (r"pool", "pool"),
        (r"softmax|sparsemax", "softmax"),
        (r"lstm|gru|rnn", "recurrent"),
        (r"linear|dense|gemm|matmul", "linear"),
        (r"attention|attn", "attention"),
        (r"layerscale|^scale", "scale"),
        (r"router", "router"),  # chooses experts; a dense layer named "gate" is none
        (
            r"relu|gelu|silu|swish|sigmoid|tanh|mish|elu|glu$|activation|hardswish|softplus|softsign|hardshrink",
            "activation",
        ),
    )
)

# Operator names (as in records.schema.OPERATORS) that name a kind when the class does not.
_OPERATOR_PATTERNS: Final = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"scaled_dot_product|multi_head_attention", "attention"),
        (r"conv_transpose", "transposed_convolution"),
        (r"^_?conv(olution)?", "convolution"),
        (r"^embedding", "embedding"),
        (r"^(lstm|gru|rnn)", "recurrent"),
        (r"^(linear|addmm|mm|matmul|bmm|@|einsum)", "linear"),
        (r"norm", "norm"),
        (r"pool", "pool"),
        (r"interpolate|upsample", "upsample"),
        (r"softmax", "softmax"),
        (r"relu|gelu|silu|sigmoid|tanh|mish|elu|hardswish|softplus", "activation"),
        (r"dropout", "dropout"),
        (r"^(flatten|reshape|view|permute|transpose|squeeze|unsqueeze|pixel_shuffle)", "shape"),
    )
)


@lru_cache(maxsize=16384)
def class_kind(class_name: str, class_module: str = "") -> str:
    """The kind that a class name states; "" when it states none."""
    name = class_name.lower()
    if name == "conv1d" and class_module and "conv" not in class_module:
        return "linear"  # a linear layer with a transposed weight, named so in GPT-2
    return next((kind for pattern, kind in _CLASS_PATTERNS if pattern.search(name)), "")


OPERATOR_KINDS: Final = tuple(kind for _, kind in _OPERATOR_PATTERNS)
"""Kinds that operators state, the most telling first."""


@lru_cache(maxsize=16384)
def operator_rank(name: str) -> int:
    """The place in :data:`OPERATOR_KINDS` of what an operator states; their number when it states nothing."""
    ranks = (rank for rank, (pattern, _) in enumerate(_OPERATOR_PATTERNS) if pattern.search(name))
    return next(ranks, len(OPERATOR_KINDS))


def kind_similarity(first: str, second: str) -> float:
    """1 for equal kinds, 0 for kinds that are never paired on their own."""
    if first == second:
        return 1.0
    return _RELATED.get(frozenset((first, second)), 0.0)
