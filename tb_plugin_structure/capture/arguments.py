"""The arguments of a kernel as JSON, complete enough to run the kernel again.

``{"args": [...], "kwargs": {...}}``; ``{"t": k}`` stands for the k-th tensor argument in the order of the column
``kernels.inputs``. Numbers, strings, booleans, None and lists are themselves. The rest is tagged:

=====================================  =======================================
``{"float": "inf" | "-inf" | "nan"}``  a float that JSON does not have
``{"complex": [real, imaginary]}``     a complex number
``{"dtype": "float32"}``               ``torch.float32``
``{"device": "cuda:0"}``               ``torch.device``
``{"layout": "strided"}``              ``torch.strided``
``{"memory_format": "channels_last"}`` ``torch.channels_last``
``{"generator": "cpu"}``               a ``torch.Generator`` (its state is not kept)
``{"object": "GraphModule"}``          anything else; such a kernel cannot be run again
=====================================  =======================================
"""

from __future__ import annotations

import json
import json.encoder
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch


def encode_arguments(args: Sequence[Any], kwargs: dict[str, Any] | None) -> str:
    """JSON of the arguments; tensors are already replaced by ``{"t": k}``."""
    whole = {"args": args, "kwargs": kwargs} if kwargs else {"args": args}
    try:
        return _encode(whole)
    except ValueError:  # inf or nan
        return _encode(_without_special_floats(whole))


def decode_arguments(text: str, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The inverse: arguments with `tensors` in the places of the marks.

    Raises:
        ValueError: When an argument was an object that is not kept.
    """
    whole = json.loads(text)
    named = {name: _decoded(value, tensors) for name, value in whole.get("kwargs", {}).items()}
    return _decoded(whole["args"], tensors), named


def _decoded(value: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, item),) = value.items()
        if key == "t":
            return tensors[item]
        if key == "float":
            return float(item)
        if key == "complex":
            return complex(*item)
        if key in ("dtype", "layout", "memory_format"):
            return getattr(torch, item)
        if key == "device":
            return torch.device(item)
        if key == "generator":
            return None
        if key == "object":
            raise ValueError(f"the kernel was given a {item}, which is not kept")
    return {key: _decoded(item, tensors) for key, item in value.items()}


def _tagged(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, torch.layout):
        return {"layout": str(value).removeprefix("torch.")}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).removeprefix("torch.")}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.Generator):
        return {"generator": str(value.device)}
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {"symbol": str(value)}
    return {"object": type(value).__name__}


def _without_special_floats(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_without_special_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_special_floats(item) for key, item in value.items()}
    return value


def _encoder() -> Callable[[Any], str]:
    """JSON without spaces. One C encoder is kept, as building it takes longer than a call's arguments do."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is not None:
        try:
            chunks = make(None, _tagged, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
            if "".join(chunks({"args": [1, None, 0.5, True, "a"]}, 0)) == '{"args":[1,null,0.5,true,"a"]}':
                return lambda value: "".join(chunks(value, 0))
        except TypeError:  # another Python's signature
            pass
    return json.JSONEncoder(allow_nan=False, default=_tagged, separators=(",", ":"), check_circular=False).encode


_encode = _encoder()
