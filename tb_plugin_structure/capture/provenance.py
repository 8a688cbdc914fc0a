"""Where and how a pass was recorded; never a user, a host or an absolute path."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata

import torch
from torch import nn

from tb_plugin_structure.v1 import structure_pb2


@cache
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _own_version() -> str:
    package = sys.modules.get("tb_plugin_structure")
    return str(getattr(package, "__version__", "")) or "0"


def autocast_dtype(device_types: Iterable[str]) -> str:
    """dtype of the autocast region that is active for one of the device types; '' when none is."""
    for device_type in device_types:
        try:
            if torch.is_autocast_enabled(device_type):
                return str(torch.get_autocast_dtype(device_type)).removeprefix("torch.")
        except (RuntimeError, TypeError):
            continue
    return ""


def grad_mode() -> str:
    """'grad', 'no_grad' or 'inference', as set where this is called."""
    if torch.is_inference_mode_enabled():
        return "inference"
    return "grad" if torch.is_grad_enabled() else "no_grad"


def describe(
    model: nn.Module,
    devices: Iterable[torch.device],
    *,
    training: bool,
    grad: str,
    autocast: str,
    wrappers: Iterable[str],
) -> structure_pb2.Provenance:
    """The provenance message of one model."""
    versions = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "tb_plugin_structure": _own_version(),
    }
    package = type(model).__module__.partition(".")[0]
    if package in ("transformers", "timm", "torchvision", "lightning", "diffusers") and _version(package):
        versions[package] = _version(package)
    rank, world_size = 0, 1
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
    return structure_pb2.Provenance(
        versions=versions,
        training=training,
        grad_mode=grad,
        autocast=autocast,
        device=",".join(sorted({str(device) for device in devices})),
        rank=rank,
        world_size=world_size,
        wrappers=list(wrappers),
    )
