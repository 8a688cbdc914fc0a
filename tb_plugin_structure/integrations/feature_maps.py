"""Watches a pass of the user's for pictures: what goes into a model, and what some of its modules give.

Hooks are there only while a step is looked at. What they compute is seen by no other mode (not by the recorder, whose
record would else hold it), and only a picture is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.integrations import pictures
from tb_plugin_structure.integrations.statistics import wrapping_names

MODULES = 8
"""Modules of a model whose feature maps are shown, evenly spaced in the order they are defined."""

KERNELS = 4
"""Convolutions of a model whose kernels are shown, likewise; the first is always one of them."""


def convolutions(model: nn.Module) -> dict[str, nn.Conv2d]:
    """Path -> convolution with kernels that have an extent."""
    found = {path: module for path, module in model.named_modules() if isinstance(module, nn.Conv2d)}
    wide = {path: one for path, one in found.items() if max(one.kernel_size) > 1 and not one.weight.is_meta}
    return _spaced(wide, KERNELS)


def watched_modules(model: nn.Module, depth: int) -> dict[str, nn.Module]:
    """Path -> module whose outputs are feature maps: convolutions, and what contains some, at `depth` names."""
    found = {}
    depth += wrapping_names(model)
    for path, module in model.named_modules():
        names = path.count(".") + 1
        at_depth = names == depth or (names < depth and not list(module.children()))
        if path and at_depth and any(isinstance(part, nn.Conv2d) for part in module.modules()):
            found[path] = module
    return _spaced(found, MODULES)


def _spaced(found: dict[str, Any], count: int) -> dict[str, Any]:
    if len(found) <= count:
        return found
    paths = list(found)
    return {path: found[path] for path in (paths[round(k * (len(paths) - 1) / (count - 1))] for k in range(count))}


def of_kernels(name: str, model: nn.Module) -> dict[str, pictures.Picture]:
    """Tag -> picture of a model's convolution kernels."""
    with torch.no_grad():
        weights = {path: _local(module.weight) for path, module in convolutions(model).items()}
        return {f"kernels/{name}/{path}": pictures.of_kernels(weight) for path, weight in weights.items()}


@contextlib.contextmanager
def watch(
    models: Mapping[str, nn.Module], *, samples: int, channels: int, depth: int, failed: Callable[[Exception], None]
) -> Iterator[dict[str, pictures.Picture]]:
    """Tag -> picture, filled by the first forward pass of each model in the block.

    Args:
        models: Name -> model.
        samples: Examples of the batch that are shown.
        channels: Channels of a feature map that are shown beside its maximum.
        depth: Number of names in the paths of the modules that are shown.
        failed: Told about an exception in here; the user's pass goes on.
    """
    found: dict[str, pictures.Picture] = {}
    handles: list[Any] = []

    def put(tag: str, tensor: Any, make: Callable[[Tensor], pictures.Picture]) -> None:
        if tag in found or not isinstance(tensor, Tensor) or tensor.dim() != 4 or tensor.is_meta:
            return
        if tensor.is_floating_point() and min(tensor.shape) > 0 and max(tensor.shape[2:]) > 1:
            try:
                with aside():
                    found[tag] = make(_local(tensor))
            except Exception as error:
                failed(error)

    def inputs_of(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for value in (*args, *kwargs.values()):
                if isinstance(value, Tensor) and value.dim() == 4 and value.shape[1] in (1, 3):
                    put(f"inputs/{name}", value, lambda images: pictures.of_inputs(images, samples))

        return hook

    def outputs_of(tag: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            put(f"{tag}/maximum", output, lambda maps: pictures.of_maximum(maps, samples))
            put(f"{tag}/channels", output, lambda maps: pictures.of_channels(maps, samples, channels))

        return hook

    try:
        for name, model in models.items():
            if any(isinstance(module, torch._dynamo.OptimizedModule) for module in model.modules()):
                continue  # a hook would make torch compile it again
            handles.append(model.register_forward_pre_hook(inputs_of(name), with_kwargs=True))
            for path, module in watched_modules(model, depth).items():
                handles.append(module.register_forward_hook(outputs_of(f"feature_maps/{name}/{path}")))
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _local(tensor: Tensor) -> Tensor:
    """This rank's part of a distributed tensor."""
    to_local = getattr(tensor, "to_local", None)
    local: Tensor = to_local() if callable(to_local) else tensor
    return local
