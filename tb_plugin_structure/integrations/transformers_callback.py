"""The monitor as a callback of transformers' ``Trainer``.

>>> trainer = Trainer(model=student, ..., callbacks=[TransformersMonitor("runs/kd", every=100)])
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from tb_plugin_structure.integrations.monitor import StructureMonitor
from tb_plugin_structure.writer import StructureWriter

if TYPE_CHECKING:
    _Callback: Any = object
else:

    def _callback() -> type:
        from transformers import TrainerCallback

        return TrainerCallback

    _Callback = _callback()


_HYPERPARAMETERS = (
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "optim", "max_grad_norm", "seed"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps"),
    *("label_smoothing_factor", "fp16", "bf16", "gradient_checkpointing"),
)
"""Arguments of a training that shape it; not where it writes, nor what it is called."""


class TransformersMonitor(_Callback):  # type: ignore[misc]
    """Logs and records during ``Trainer.train()``.

    Each recorded step is the trainer's own: forward, loss and backward pass of one training step.

    Args:
        target: A log directory, a SummaryWriter, or a :class:`StructureWriter`. The writer is closed when training
            ends, unless it was given.
        models: Further models to observe, e.g. ``{"teacher": teacher}``; the trainer's own is ``name``.
        name: Name of the trainer's model.
        options: As in :class:`StructureMonitor`.

    When training ends, those of the trainer's arguments that shape it are a row in the HParams tab, with the last
    numbers that the trainer logged.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Any,
        *,
        models: Mapping[str, nn.Module] | None = None,
        name: str = "model",
        **options: Any,
    ) -> None:
        self._target = target
        self._others = dict(models or {})
        self._name = name
        self._options = options
        self._owned: StructureWriter | None = None
        self._monitor: StructureMonitor | None = None
        self._region: Any = None
        self._metrics: dict[str, float] = {}

    @property
    def monitor(self) -> StructureMonitor | None:
        """The monitor, for quantities of your own (``measure``); None before and after training."""
        return self._monitor

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **unused: Any
    ) -> None:
        """Look at the model and the optimizer that the trainer made."""
        writer = self._target
        if not isinstance(writer, StructureWriter):
            writer = self._owned = StructureWriter(self._target)
        self._monitor = StructureMonitor(
            writer,
            {**self._others, self._name: model},
            optimizer=getattr(optimizer, "optimizer", optimizer),  # accelerate wraps it
            first_step=state.global_step,
            **self._options,
        )

    def on_step_begin(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
        """Begin a recorded step, when one is due."""
        if self._monitor is not None:
            self._monitor.global_step = state.global_step
            self._open()

    def on_substep_end(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
        """Under gradient accumulation the first forward and backward pass is the one recorded."""
        self._close()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
        """The backward pass is over."""
        self._close()

    def on_step_end(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
        """Log; the trainer has counted the step already."""
        self._close()
        if self._monitor is not None:
            self._monitor.step()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **unused: Any) -> None:
        """The trainer's own numbers (loss, evaluation metrics) beside ours."""
        if self._monitor is not None:
            numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, (int, float))}
            self._monitor.add_scalars(numbers, state.global_step)
            self._metrics |= numbers

    def on_train_end(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
        """Write the row of hyperparameters, let go of the optimizer, close the writer that this callback made."""
        self._close()
        if self._monitor is not None:
            values = {name: getattr(args, name) for name in _HYPERPARAMETERS if getattr(args, name, None) is not None}
            self._monitor.add_hyperparameters(values, self._metrics)
            self._monitor.close()
            self._monitor = None
        if self._owned is not None:
            self._owned.close()
            self._owned = None

    def _open(self) -> None:
        assert self._monitor is not None
        self._region = self._monitor.observe()
        self._region.__enter__()

    def _close(self) -> None:
        region, self._region = self._region, None
        if region is not None:
            region.__exit__(None, None, None)
