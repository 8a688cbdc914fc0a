"""The TensorBoard plugins: one a tab, all with the same routes below their own address."""

from __future__ import annotations

from tensorboard.plugins import base_plugin

from tb_plugin_structure.dashboards import (
    list_records,
    serve_analysis,
    serve_attention,
    serve_compared,
    serve_divergence,
    serve_measurements,
    serve_parts,
    serve_rollout,
    serve_variants,
    static_files,
)
from tb_plugin_structure.dashboards.http import WsgiApp, route
from tb_plugin_structure.dashboards.store import store_of
from tb_plugin_structure.records import names

_COMPUTATION = ("GET", "HEAD", "POST")


class _Dashboard(base_plugin.TBPlugin):  # type: ignore[misc]
    """One tab. `data_plugins` are those whose data make it active."""

    plugin_name: str
    tab_name: str
    entry: str
    data_plugins: tuple[str, ...]

    def __init__(self, context: base_plugin.TBContext) -> None:
        super().__init__(context)
        self._data_provider = context.data_provider
        self._multiplexer = getattr(context, "multiplexer", None)

    def get_plugin_apps(self) -> dict[str, WsgiApp]:
        store = store_of(self._data_provider, self._multiplexer)
        return {
            "/api/records": route(list_records.handler(store)),
            "/api/structure": route(serve_parts.handler(store, names.STRUCTURE_PLUGIN)),
            "/api/measurement": route(serve_parts.handler(store, names.MEASUREMENT_PLUGIN)),
            "/api/measurements": route(serve_measurements.listing_handler(store)),
            "/api/measurements/values": route(serve_measurements.values_handler(store)),
            "/api/alignment": route(serve_analysis.alignment_handler(store), _COMPUTATION),
            "/api/audit": route(serve_analysis.audit_handler(store), _COMPUTATION),
            "/api/compared": route(serve_compared.compared_handler(store)),
            "/api/variants": route(serve_variants.variants_handler(store)),
            "/api/attention/overview": route(serve_parts.handler(store, names.ATTENTION_OVERVIEW_PLUGIN)),
            "/api/attention/detail": route(serve_attention.detail_handler(store)),
            "/api/attention/window": route(serve_attention.window_handler(store)),
            "/api/attention/stored": route(serve_attention.stored_handler(store)),
            "/api/attention/comparison": route(serve_attention.comparison_handler(store)),
            "/api/attention/rollout": route(serve_rollout.rollout_handler(store)),
            "/api/attention/divergence": route(serve_divergence.divergence_handler(store)),
            "/static/*": route(static_files.handler(static_files.read_static())),
        }

    def is_active(self) -> bool:
        """False: TensorBoard asks only when none of `data_plugin_names` has data."""
        return False

    def data_plugin_names(self) -> tuple[str, ...]:
        return self.data_plugins

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(es_module_path=f"/static/{self.entry}.js", tab_name=self.tab_name)


class GraphDiffPlugin(_Dashboard):
    plugin_name = names.GRAPH_DIFF_TAB
    tab_name = "Graph diff"
    entry = "graph_diff"
    data_plugins = (names.STRUCTURE_PLUGIN, names.ADD_GRAPH_PLUGIN)


class ShapeAuditPlugin(_Dashboard):
    plugin_name = names.SHAPE_AUDIT_TAB
    tab_name = "Shape audit"
    entry = "shape_audit"
    data_plugins = (names.STRUCTURE_PLUGIN,)


class AttentionPlugin(_Dashboard):
    plugin_name = names.ATTENTION_TAB
    tab_name = "Attention"
    entry = "attention"
    data_plugins = (names.ATTENTION_OVERVIEW_PLUGIN,)


PLUGINS = {plugin.plugin_name: plugin for plugin in (GraphDiffPlugin, ShapeAuditPlugin, AttentionPlugin)}
