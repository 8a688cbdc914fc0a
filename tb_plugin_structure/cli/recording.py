"""``tb-structure capture``: make a model with a user's function, run one pass, keep the record."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from tb_plugin_structure.records.structure import Structure


class CaptureError(ValueError):
    """The model could not be made or run; the message says why."""


def record(options: argparse.Namespace) -> Structure:
    """Make the model, run it, and write an event file when a log directory was given.

    Raises:
        CaptureError: When the factory, an input or the forward pass fails.
    """
    import torch

    from tb_plugin_structure.capture import CaptureFailed, capture
    from tb_plugin_structure.writer import StructureWriter

    device = torch.device("meta" if options.meta else "cpu")
    with device:
        model = _model(options.factory)
        positional, named = _inputs(options.input, device)
    model.train(options.train)
    try:
        with torch.no_grad() if options.meta else torch.enable_grad():
            further: dict[str, Any] = {"variant": options.variant, "symbolic": options.symbolic}
            further |= {"time": options.time, "memory": options.memory}
            if not options.logdir:
                return capture(model, positional, named, name=options.name, **further)
            with StructureWriter(options.logdir) as writer:
                structure = writer.add_structure(options.name, model, positional, named, **further)
    except CaptureFailed as error:
        # The message speaks to a caller in Python; here inputs are options.
        text = str(error).replace(
            "Pass positional inputs as args=(...) and keyword inputs as kwargs={...}",
            "Give each input as --input SIZES, or --input NAME=SIZES[:DTYPE] for a keyword",
        )
        raise CaptureError(text) from error
    except ValueError as error:  # what is asked for does not fit the model or its inputs
        raise CaptureError(f"{options.factory!r} cannot be recorded so: {error}") from error
    except OSError as error:
        raise CaptureError(f"the log directory {options.logdir!r} cannot be written: {error}") from error
    assert structure is not None  # the writer is enabled unless it is told otherwise
    return structure


def _model(factory: str) -> Any:
    from torch import nn

    module_name, colon, function = factory.partition(":")
    if not colon:
        raise CaptureError(f"{factory!r}: expected MODULE:FUNCTION, e.g. my_models:resnet18")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # like `python -m`: modules beside the user are found
    try:
        value: Any = importlib.import_module(module_name)
        for name in function.split("."):
            value = getattr(value, name)
        model = value() if not isinstance(value, nn.Module) else value
    except Exception as error:
        raise CaptureError(f"{factory!r} gave no model: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise CaptureError(f"{factory!r} returned {type(model).__name__}, expected a torch.nn.Module")
    return model


def _inputs(descriptions: list[str], device: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """'[NAME=]SIZES[:DTYPE]' as tensors: standard normal, zeros for integers."""
    import torch

    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in descriptions:
        name, equals, rest = text.rpartition("=")
        sizes, _, dtype_name = rest.partition(":")
        dtype = getattr(torch, dtype_name or "float32", None)
        if not isinstance(dtype, torch.dtype):
            raise CaptureError(f"--input {text!r}: there is no dtype {dtype_name!r}")
        try:
            shape = [int(size) for size in sizes.split(",")]
        except ValueError:
            raise CaptureError(f"--input {text!r}: expected sizes such as 1,3,224,224") from None
        make = torch.randn if dtype.is_floating_point else torch.zeros
        tensor = make(shape, dtype=dtype, device=device)
        if equals:
            named[name] = tensor
        else:
            positional.append(tensor)
    return tuple(positional), named
