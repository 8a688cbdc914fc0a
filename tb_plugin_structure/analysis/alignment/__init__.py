"""Which part of the student corresponds to which part of the teacher. Needs numpy, never torch.

>>> alignment = align(teacher=teacher_structure, student=student_structure, policy="copy")
>>> alignment.module_pairs()["transformer.layer.3.attention.q_lin"]
['encoder.layer.7.attention.self.query']
"""

from tb_plugin_structure.analysis.alignment.alignment import Alignment, align
from tb_plugin_structure.analysis.alignment.mappings import FORMATS, MappingError, export_mapping, import_mapping
from tb_plugin_structure.analysis.alignment.pins import PinError
from tb_plugin_structure.analysis.alignment.policies import POLICIES, PolicyError, policy_indices

__all__ = [
    "FORMATS",
    "POLICIES",
    "Alignment",
    "MappingError",
    "PinError",
    "PolicyError",
    "align",
    "export_mapping",
    "import_mapping",
    "policy_indices",
]
