"""The monitor as a Lightning callback.

>>> trainer = Trainer(callbacks=[LightningMonitor("runs/kd", {"teacher": "teacher", "student": "student"})])
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from tb_plugin_structure.integrations.monitor import StructureMonitor
from tb_plugin_structure.writer import StructureWriter

if TYPE_CHECKING:
    _Callback: Any = object
else:

    def _callback() -> type:
        """Lightning under the name it is installed by: the two packages hold the same classes, but not one class."""
        try:
            from lightning.pytorch import Callback
        except ImportError:
            from pytorch_lightning import Callback
        return Callback

    _Callback = _callback()


class LightningMonitor(_Callback):  # type: ignore[misc]
    """Logs and records during ``Trainer.fit()``.

    Args:
        target: A log directory, a SummaryWriter, or a :class:`StructureWriter`. The writer is closed when training
            ends, unless it was given.
        models: Name -> attribute of the LightningModule ("student", "net.backbone") or a module; None: the whole
            LightningModule as "model".
        options: As in :class:`StructureMonitor`. With several optimizers the first one is looked at.

    When training ends, what ``save_hyperparameters()`` keeps and the optimizer's settings are a row in the HParams tab,
    with the metrics that the module logged.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Any,
        models: Mapping[str, str | nn.Module] | None = None,
        **options: Any,
    ) -> None:
        self._target = target
        self._models = models
        self._options = options
        self._owned: StructureWriter | None = None
        self._monitor: StructureMonitor | None = None
        self._region: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Look at the models and the optimizer that Lightning made."""
        writer = self._target
        if not isinstance(writer, StructureWriter):
            writer = self._owned = StructureWriter(self._target)
        named = {"model": ""} if self._models is None else dict(self._models)
        models = {
            name: pl_module.get_submodule(model) if isinstance(model, str) else model for name, model in named.items()
        }
        self._monitor = StructureMonitor(
            writer,
            models,
            optimizer=trainer.optimizers[0] if trainer.optimizers else None,
            first_step=trainer.global_step,
            **self._options,
        )

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Begin a recorded step, when one is due."""
        if self._monitor is not None:
            self._monitor.global_step = trainer.global_step
            self._region = self._monitor.observe()
            self._region.__enter__()

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """The backward pass is over."""
        self._close()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Log; under gradient accumulation, the last batch of a step counts."""
        self._close()
        if self._monitor is not None and trainer.global_step > self._monitor.global_step:
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            self._monitor.step(loss if isinstance(loss, Tensor) else None)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the row of hyperparameters, let go of the optimizer, close the writer that this callback made."""
        if self._monitor is not None:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            self._monitor.add_hyperparameters(_hyperparameters(trainer, pl_module), metrics)
        self._finish()

    @property
    def monitor(self) -> StructureMonitor | None:
        """The monitor, for quantities of your own (``measure``); None before and after training."""
        return self._monitor

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """A step that raised is written as far as it came."""
        self._finish()

    def _close(self) -> None:
        region, self._region = self._region, None
        if region is not None:
            region.__exit__(None, None, None)

    def _finish(self) -> None:
        self._close()
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        if self._owned is not None:
            self._owned.close()
            self._owned = None


def _hyperparameters(trainer: Any, pl_module: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for optimizer in trainer.optimizers[:1]:
        found["optimizer"] = type(optimizer).__name__
        found |= {
            name: value
            for name, value in optimizer.defaults.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
    return found | dict(getattr(pl_module, "hparams", {}))
