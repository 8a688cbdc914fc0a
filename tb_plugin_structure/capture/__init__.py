"""Record what PyTorch models execute: `capture` one pass, or `observe` a region of your own code."""

from tb_plugin_structure.capture.errors import CaptureFailed
from tb_plugin_structure.capture.macs import register_macs
from tb_plugin_structure.capture.region import Region, capture, observe

__all__ = ["CaptureFailed", "Region", "capture", "observe", "register_macs"]
