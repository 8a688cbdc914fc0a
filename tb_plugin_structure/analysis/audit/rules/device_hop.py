"""Values are copied from one device to another within the pass."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule


@rule(
    "device-hop",
    severity="warning",
    explanation="A copy between devices waits for both and is repeated in every step.",
    fix="Keep the tensor, often a constant or a mask, on the model's device: register it as a buffer.",
)
def device_hop(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        structure = side.structure
        devices = structure.tensors.column_texts("device")
        if len(set(devices)) < 2:
            continue
        for kernel, name in enumerate(side.names.kernel_names):
            inputs = structure.kernels.values("inputs", kernel).tolist()
            outputs = structure.kernels.values("outputs", kernel).tolist()
            if name not in ("_to_copy", "copy") or not inputs or not outputs:
                continue
            source, target = devices[inputs[-1]], devices[outputs[0]]
            if source != target and "meta" not in (source, target):
                path = side.path_of_kernel(kernel)
                where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
                yield side.found(f"{where} copies {structure.shape(outputs[0])} from {source} to {target}", path)
