"""What TensorBoard's entry points name: one loader a tab.

TensorBoard does not guard the import of this module, nor `fix_flags`: an exception in either ends TensorBoard for
every user of the machine. So nothing is imported here but TensorBoard's own base class, and nothing raises.
"""

from __future__ import annotations

import logging
from typing import Any

from tensorboard.plugins import base_plugin

logger = logging.getLogger("tb_plugin_structure")

# As in records/names.py, which is not imported here: it belongs to a package that may fail to load.
_DATA_PLUGINS = (
    "structure_record",
    "structure_measurement",
    "structure_attention_overview",
    "structure_attention_detail",
    "structure_plan",
)


class _Loader(base_plugin.TBLoader):  # type: ignore[misc]
    tab: str

    def fix_flags(self, flags: Any) -> None:
        """Keep every record that the writer wrote: the writer keeps the volume down, not the reader.

        Without this TensorBoard keeps a random ten steps of each tag. A value the user gave wins.
        """
        kept = getattr(flags, "samples_per_plugin", None)
        if isinstance(kept, dict):
            for plugin in _DATA_PLUGINS:
                kept.setdefault(plugin, 0)

    def load(self, context: Any) -> Any:
        """The plugin, or None when it cannot run here (TensorBoard then goes on without the tab)."""
        try:
            if self.tab in (getattr(context, "plugin_name_to_instance", None) or {}):
                return None  # installed twice (a stale egg-info): a second plugin of one name would end TensorBoard
            from tb_plugin_structure.dashboards import plugin

            return plugin.PLUGINS[self.tab](context)
        except Exception:
            logger.warning("The tab %r is not available; TensorBoard goes on without it.", self.tab, exc_info=True)
            return None


class GraphDiffLoader(_Loader):
    tab = "structure_graph_diff"

    def define_flags(self, parser: Any) -> None:
        """One flag for all three tabs."""
        try:
            group = parser.add_argument_group("tensorboard-plugin-structure")
            group.add_argument(
                "--structure_fast_checksum",
                action="store_true",
                help="Check event files with numpy or google-crc32c instead of byte by byte in Python, "
                "for all plugins. Loads large logs many times faster where TensorBoard's data server is not used.",
            )
        except Exception:
            logger.warning("The flag --structure_fast_checksum is not available.", exc_info=True)

    def fix_flags(self, flags: Any) -> None:
        super().fix_flags(flags)
        if getattr(flags, "structure_fast_checksum", False):
            try:
                from tb_plugin_structure.checksum import speed_up_reading

                speed_up_reading()
            except Exception:
                logger.warning("Event files are read with TensorBoard's own checksum.", exc_info=True)


class ShapeAuditLoader(_Loader):
    tab = "structure_shape_audit"


class AttentionLoader(_Loader):
    tab = "structure_attention"
