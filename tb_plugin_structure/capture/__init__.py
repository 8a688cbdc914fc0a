"""Record what PyTorch models execute: `capture` one pass, or `observe` a region of your own code."""

import sys
from types import ModuleType

from tb_plugin_structure.capture.attention import AttentionOptions, log_attention
from tb_plugin_structure.capture.errors import CaptureFailed
from tb_plugin_structure.capture.macs import register_macs
from tb_plugin_structure.capture.region import Region, capture, observe

__all__ = ["AttentionOptions", "CaptureFailed", "Region", "capture", "log_attention", "observe", "register_macs"]


class _CallablePackage(ModuleType):
    """``tb_plugin_structure.capture`` is the name of this package and of the function: importing the one must not hide
    the other, so the package can be called."""

    __call__ = staticmethod(capture)


sys.modules[__name__].__class__ = _CallablePackage
