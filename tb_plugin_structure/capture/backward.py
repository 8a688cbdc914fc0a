"""A backward pass after a recorded forward pass, for its gradients alone: nothing is accumulated and nothing kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from tb_plugin_structure.capture.gradient_cuts import describe_cuts
from tb_plugin_structure.capture.gradients import GradientFlow
from tb_plugin_structure.capture.nested import named_tensors
from tb_plugin_structure.records.structure import Structure

Backward = bool | Callable[[Any], Tensor] | None
"""What :func:`capture` takes: a function of the model's output that gives a scalar, or True."""


def check_backward(backward: Backward) -> None:
    """Raises TypeError when `backward` is neither a bool, None nor callable."""
    if backward is not None and not isinstance(backward, bool) and not callable(backward):
        raise TypeError(
            f"backward is {type(backward).__name__}, expected True, or a function that takes the model's output and "
            "returns a scalar tensor, e.g. lambda output: output.mean()"
        )


def measure_gradients(
    flow: GradientFlow,
    structure: Structure,
    output: Any,
    backward: bool | Callable[[Any], Tensor],
    *,
    inputs: Sequence[Tensor] = (),
    keep_graph: bool = False,
) -> None:
    """Set ``structure.gradients``, and add notes to its header about what did not get a gradient, and why.

    The gradients come from ``torch.autograd.grad``: no ``.grad`` is written, and nothing that hangs on the accumulation
    of gradients (the reducer of DistributedDataParallel, post-accumulate hooks) runs.

    Args:
        flow: Of the one model that ran; its ``outputs`` were watched during the pass.
        structure: The record of its pass.
        output: What the pass returned.
        backward: A function of `output` that gives a scalar tensor; True for the sum of squares of all outputs that
            require a gradient.
        inputs: Tensors that the pass was given; the way of a gradient is followed to those that require one, too.
        keep_graph: Whether the inputs of the pass come from a graph that somebody else still needs.

    Raises:
        TypeError, ValueError: When the function does not return a scalar tensor. What it raises itself is passed on.
    """
    notes = structure.header.notes
    if not torch.is_grad_enabled():
        notes.append("Gradients were not measured: the pass was recorded with gradients turned off (no_grad).")
        return
    outputs = _differentiable(output)
    loss = _sum_of_squares(outputs) if backward is True else _loss(backward, output)
    trained = flow.trained_parameters(0)
    wanted = [*(tensor for _, tensor in trained), *(tensor for tensor in inputs if tensor.requires_grad)]
    found: Sequence[Tensor | None] = [None] * len(trained)
    if not wanted:
        notes.append("No gradient was computed: no parameter requires one.")
    elif loss is None or not loss.requires_grad:
        of_what = "no output of the model requires one" if not outputs else "the loss does not depend on the output"
        notes.append(f"No gradient was computed: {of_what}.")
    else:
        try:
            found = torch.autograd.grad(loss, wanted, retain_graph=keep_graph, allow_unused=True)[: len(trained)]
        except Exception as error:
            notes.append(f"Gradients were not measured: {_refusal(error)}")
            return
    gradients = {path: gradient for (path, _), gradient in zip(trained, found, strict=True) if gradient is not None}
    flow.receive(0, gradients)
    if any(gradient.is_meta or isinstance(gradient, FakeTensor) for gradient in gradients.values()):
        notes.append("Gradients have no norm: the pass ran on tensors without values. Where they arrive is known.")
    structure.gradients = flow.measurement(0, structure.header.structure_hash)
    missed = [path for path, _ in trained if path not in gradients]
    norms = structure.gradients.quantity("gradient_norm", subject=1) if structure.gradients is not None else {}
    dark = [structure.module_paths[row] for row, (_, reached) in flow.outputs.of_model(0).items() if not reached]
    notes.extend(
        describe_cuts(structure, missed, outputs=dark, zero=[path for path, norm in norms.items() if norm == 0])
    )


def _differentiable(output: Any) -> list[Tensor]:
    """Tensors of an output that require a gradient, each once."""
    return list({id(tensor): tensor for _, tensor in named_tensors(output) if tensor.requires_grad}.values())


def _sum_of_squares(outputs: Sequence[Tensor]) -> Tensor | None:
    """Not the plain sum: that of a softmax is constant, and every gradient would vanish."""
    with torch.enable_grad():
        total: Tensor | None = None
        for output in outputs:
            values = output
            if output.is_sparse:
                values = output.coalesce().values()
            elif output.is_nested:
                values = torch.cat([part.reshape(-1) for part in output.unbind()])
            if values.dtype in (torch.float16, torch.bfloat16):
                values = values.float()
            square = (values.abs() if values.is_complex() else values).square().sum()
            total = square if total is None else total + square.to(total.device)
        return total


def _loss(backward: Any, output: Any) -> Tensor:
    with torch.enable_grad():
        loss = backward(output)
    if not isinstance(loss, Tensor):
        raise TypeError(f"the function given as backward returned {type(loss).__name__}, expected a scalar tensor")
    if loss.numel() != 1:
        raise ValueError(
            f"the function given as backward returned a tensor of shape {list(loss.shape)}, expected a scalar: "
            "reduce it, e.g. with .mean()"
        )
    return loss


def _refusal(error: Exception) -> str:
    """One sentence about why autograd gave no gradients."""
    text = str(error).strip().split("\n")[0]
    if "use_reentrant" in str(error):
        return (
            "reentrant checkpointing works with .backward() alone. Use checkpoint(..., use_reentrant=False), or "
            "record your own step with record_step."
        )
    return f"the backward pass raised {type(error).__name__}: {text}"
