"""One tensor is registered under several names."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule


@rule(
    "tied-weights",
    severity="info",
    explanation="Tied parameters are counted once here; sums over parts of the model count them in each part.",
    fix="Nothing, unless the tie is not meant.",
)
def tied_weights(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        parameters = side.structure.parameters
        for row in range(parameters.rows):
            aliases = parameters.texts("aliases", row)
            if aliases and not parameters["is_buffer"][row]:
                path = parameters.text("path", row)
                yield side.found(f"{path} is also {', '.join(aliases)}", path.rpartition(".")[0])
