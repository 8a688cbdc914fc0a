"""Reads probabilities off an attention kernel that nobody described, with one-hot values.

attention(q, k, v) is a weighted sum of the rows of v. With a one-hot v the sum *is* the weights, whichever kernel runs
and whatever mask, bias or soft cap it applies. The result is believed only when the probabilities times the real
values give what the kernel really returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_QUERY, _KEY, _VALUE = ("query", "q", "xq"), ("key", "k", "xk"), ("value", "v", "xv")
_DROPOUT = ("dropout_p", "dropout", "p_dropout", "attn_dropout", "p")
_QUIET = ("aten", "prim", "prims", "inductor", "profiler", "torch_scatter", "quantized", "_c10d_functional", "c10d")
_MOST_CALLS = 64


def takes_query_key_value(func: Any) -> bool:
    """Whether a foreign operator's arguments are named query, key and value, and it writes nothing."""
    schema = getattr(func, "_schema", None)
    if schema is None or schema.name.partition("::")[0] in _QUIET:
        return False
    names = {argument.name for argument in schema.arguments}
    if any(argument.alias_info is not None for argument in schema.arguments):
        return False
    return all(any(name in names for name in choice) for choice in (_QUERY, _KEY, _VALUE))


def read_off(func: Any, arguments: Mapping[str, Any], result: Any) -> tuple[torch.Tensor, str] | None:
    """Probabilities [batch, heads, queries, keys] in float32 and the layout, "bhnd" or "bnhd".

    None when the kernel draws random numbers (dropout), takes other shapes, would have to run more than 64 times, or
    does not give back what it gave.
    """
    if any(arguments.get(name) for name in _DROPOUT):
        return None
    query, key, value = (
        next((arguments[name] for name in names if name in arguments), None) for names in (_QUERY, _KEY, _VALUE)
    )
    output = result[0] if isinstance(result, (tuple, list)) and result else result
    tensors = (query, key, value, output)
    if not all(isinstance(tensor, torch.Tensor) and tensor.dim() == 4 and not tensor.is_meta for tensor in tensors):
        return None
    assert isinstance(value, torch.Tensor)
    assert isinstance(query, torch.Tensor)
    value_name = next(name for name in _VALUE if name in arguments)
    for layout, axis in (("bnhd", 1), ("bhnd", 2)):
        found = _read(func, arguments, value_name, value, query, output, axis)
        if found is not None:
            return found, layout
    return None


def _read(
    func: Any,
    arguments: Mapping[str, Any],
    value_name: str,
    value: torch.Tensor,
    query: torch.Tensor,
    output: torch.Tensor,
    axis: int,
) -> torch.Tensor | None:
    keys, width = value.shape[axis], value.shape[-1]
    head_axis = 3 - axis
    if query.shape[head_axis] % max(1, value.shape[head_axis]) or output.shape[:3] != query.shape[:3]:
        return None
    if keys == 0 or -(-keys // width) > _MOST_CALLS:
        return None
    parts = []
    for begin in range(0, keys, width):
        used = min(width, keys - begin)
        table = torch.zeros(keys, width, dtype=value.dtype, device=value.device)
        table[torch.arange(begin, begin + used, device=value.device), torch.arange(used, device=value.device)] = 1
        shape = [1, keys, 1, width] if axis == 1 else [1, 1, keys, width]
        one_hot = table.view(shape).expand(value.shape).contiguous()
        got = func(**{**arguments, value_name: one_hot})
        got = got[0] if isinstance(got, (tuple, list)) else got
        parts.append(got[..., :used].float())
    probabilities = torch.cat(parts, -1)
    values = value.float()
    if axis == 1:
        probabilities, values, output = probabilities.transpose(1, 2), values.transpose(1, 2), output.transpose(1, 2)
    group = query.shape[head_axis] // max(1, value.shape[head_axis])
    expected = torch.matmul(probabilities, values.repeat_interleave(group, 1) if group > 1 else values)
    scale = max(float(output.abs().max()), 1e-6) if output.numel() else 1.0
    tolerance = (1e-4 if value.dtype in (torch.float32, torch.float64) else 3e-2) * scale
    if not torch.allclose(expected, output.float(), atol=tolerance, rtol=0.0):
        return None
    sums = probabilities.sum(-1)
    if not bool(((sums - 1).abs() < 2e-2).logical_or(sums.abs() < 1e-6).all()) or bool((probabilities < -1e-3).any()):
        return None
    return probabilities
