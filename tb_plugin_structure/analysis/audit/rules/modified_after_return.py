"""A module's output changes in place after the module returned it."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.stages import BLOCK, STAGE
from tb_plugin_structure.analysis.audit.wording import counted
from tb_plugin_structure.analysis.external_values import made_by_models, model_row


def _is_stage_or_block(side: Side, call: int) -> bool:
    module, level = int(side.structure.module_calls["module"][call]), side.stages.of_call(call)[1]
    return level == STAGE or (level == BLOCK and module in side.stages.elements)


def _feature_changes(side: Side, call: int) -> bool:
    """Whether another value is written into the output that one would hook, such as the sum of the next residual block.
    An activation in place leaves it a feature; a state that the module hands on beside it is none."""
    structure = side.structure
    tensor, end = side.feature(call).tensor, int(structure.module_calls["operator_end"][call])
    if tensor < 0 or end >= structure.operators.rows:
        return False
    begin = int(structure.operators["kernel_begin"][end])
    tensors = structure.tensors
    later = (tensors["storage"] == tensors["storage"][tensor]) & (tensors["producer"].astype("int64") >= begin)
    writers = {int(kernel) for kernel in tensors["producer"][later]}
    return any(
        structure.kernels.text("name", kernel).split(".")[1].endswith("_") and len(side.names.inputs[kernel]) > 1
        for kernel in writers
    )


def _memory_used(context: Context, side: Side) -> set[int] | None:
    """Storages of the model's values that the loss of the recorded step read, a hooked feature's among them; None where
    that is not known."""
    outside = context.outside
    if outside is None:
        return None
    models = {each.role: each.structure for each in context.sides}
    made = [tensor for tensor, role in made_by_models(outside, models).items() if role == side.role]
    rows = [model_row(outside, tensor, side.structure) for tensor in made]
    return None if not rows or min(rows) < 0 else {int(side.structure.tensors["storage"][row]) for row in rows}


@rule(
    "modified-after-return",
    severity="info",
    explanation=(
        "What a hook on this module keeps is not what the module returned: a later in-place operator (often "
        "ReLU(inplace=True)) writes into it, so a pre-activation feature is in truth rectified."
    ),
    fix="Hook the later module, clone the output in the hook, or make the operator not in place.",
)
def modified_after_return(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        structure = side.structure
        changed = [
            call for call in range(structure.module_calls.rows) if structure.module_calls["modified_after_return"][call]
        ]
        # The end of a stage or block is what people hook; a batch norm before a ReLU is everyday.
        outer = [
            call
            for call in changed
            if structure.call_children[call] and _is_stage_or_block(side, call) and _feature_changes(side, call)
        ]
        used = _memory_used(context, side)
        if used is not None:
            outer = [call for call in outer if int(structure.tensors["storage"][side.feature(call).tensor]) in used]
        hooked = {path for hooking, path in context.hooked if hooking is side}
        meant = [call for call in changed if structure.call_path(call) in hooked]
        if meant:
            path = structure.call_path(meant[0])
            yield side.found(
                f"what a hook on {path} is given changes in place before the loss reads it", path, severity="warning"
            )
        if changed:
            first = (outer or changed)[0]
            paths = counted(len({structure.call_path(call) for call in changed}), "module")
            yield side.found(
                f"the outputs of {paths} change in place after they return, e.g. {structure.call_path(first)}",
                structure.call_path(first),
                severity="warning" if outer else "",
            )
