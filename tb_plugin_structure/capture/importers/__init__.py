"""Structures from programs that PyTorch stored: nothing runs, the graph is read as it stands."""

from tb_plugin_structure.capture.importers.exported_program import structure_of_program
from tb_plugin_structure.capture.importers.torchscript import structure_of_script

__all__ = ["structure_of_program", "structure_of_script"]
