"""The torch side of the audit: adapters as modules, and a plan that ties hooks, adapters and a loss together."""

from tb_plugin_structure.distill.adapters import FeatureAdapter as FeatureAdapter
from tb_plugin_structure.distill.adapters import build_adapter as build_adapter
from tb_plugin_structure.distill.adapters import build_adapters as build_adapters
from tb_plugin_structure.distill.features import FeatureRecorder as FeatureRecorder
from tb_plugin_structure.distill.plan import DistillationPlan as DistillationPlan

__all__ = ["DistillationPlan", "FeatureAdapter", "FeatureRecorder", "build_adapter", "build_adapters"]
