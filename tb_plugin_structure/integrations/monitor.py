"""A monitor for training loops: what one otherwise logs by hand, and now and then a recorded step.

>>> monitor = StructureMonitor(writer, {"teacher": teacher, "student": student}, optimizer=optimizer, every=100)
>>> for images, labels in loader:
...     with monitor.observe():                     # structures, gradient flow, attention: every 1,000 steps
...         loss = kd_loss(teacher(images), student(images), labels)
...         loss.backward()
...     optimizer.step()
...     optimizer.zero_grad()
...     monitor.step(loss)                          # scalars: every 100 steps; histograms: every 1,000
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture import AttentionOptions
from tb_plugin_structure.capture.wrapped_optimizers import stepping_optimizer
from tb_plugin_structure.integrations import feature_maps, memory, scalar_tags, statistics, summaries
from tb_plugin_structure.integrations.module_outputs import ModuleOutputs
from tb_plugin_structure.integrations.path_measurements import (
    StepValues,
    WeightMoments,
    batch_norms,
    measurements_of,
)
from tb_plugin_structure.records.quantities import Quantity
from tb_plugin_structure.writer import StructureWriter

_SERIES = "monitor"
_THINNED_AFTER = 128
"""After so many measurements their interval doubles, and again after as many more: a long run stays readable."""


class StructureMonitor:
    """Logs training health with TensorBoard's own summaries, and records steps with a :class:`StructureWriter`.

    On steps that are due it logs: the loss; norms of gradients, of each module and of all; how far an optimizer step
    moves the weights relative to their size (about 1e-3 is common); the standard deviation of weights; learning
    rates; batch statistics; memory in use; the same and more for each module, by which the tabs can be coloured; and
    more rarely histograms of weights and gradients. On all other steps it counts, and does nothing else.

    Args:
        writer: Where everything is written.
        models: Name -> model. A model without a parameter that is trained shows in recorded steps only.
        optimizer: Its step is where gradients are looked at, so that ``zero_grad`` may come before :meth:`step`.
            Without one, ``.grad`` is read when :meth:`step` is called. accelerate's may be given as it is.
        every: Log scalars on each step that is a multiple of this.
        histograms_every: Likewise histograms; None: ten times `every`; 0: never.
        record_every: Likewise a recorded step within :meth:`observe`; None: ten times `every`; 0: never.
        pictures_every: Likewise pictures of models with 2d convolutions: kernels, and within :meth:`observe` input
            samples and feature maps; None: ten times `every`; 0: never.
        measurements_every: Likewise what the Graph diff and the Shape audit can be coloured by, for each module and
            parameter; None: as `every`; 0: never. After 128 records the interval doubles, and so on.
        picture_samples: Examples of the batch in a picture.
        picture_channels: Channels of a feature map that are shown beside its maximum over channels.
        attention: Record attention in recorded steps; options, or True for the defaults.
        depth: Module paths are cut to this many names, and what is below counts as one: 2 gives ``layer1.0``. Names of
            what merely wraps the model (DDP's ``module``, PEFT's ``base_model.model``) do not count.
        first_step: Number of the first step; that of the checkpoint when training is resumed.
        enabled: False turns everything off.

    A fault of the monitor never ends a training: it warns once and goes on.
    """

    def __init__(
        self,
        writer: StructureWriter,
        models: Mapping[str, nn.Module],
        *,
        optimizer: torch.optim.Optimizer | None = None,
        every: int = 100,
        histograms_every: int | None = None,
        record_every: int | None = None,
        pictures_every: int | None = None,
        measurements_every: int | None = None,
        picture_samples: int = 2,
        picture_channels: int = 8,
        attention: AttentionOptions | bool = True,
        depth: int = 2,
        first_step: int = 0,
        enabled: bool = True,
    ) -> None:
        if every < 1:
            raise ValueError(f"every is {every}, expected 1 or more; enabled=False turns the monitor off")
        self._writer = writer
        self._models = dict(models)
        self._optimizer = optimizer
        self._every = every
        self._histograms_every = 10 * every if histograms_every is None else histograms_every
        self._record_every = 10 * every if record_every is None else record_every
        self._pictures_every = 10 * every if pictures_every is None else pictures_every
        self._measurements_every = every if measurements_every is None else measurements_every
        self._measurements_written = 0
        self._picture_samples = picture_samples
        self._picture_channels = picture_channels
        self._attention = attention
        self._depth = depth
        self._step = first_step
        self._enabled = enabled and writer.enabled
        self._pending: dict[str, float] = {}
        self._rates: dict[str, float] = {}
        self._histograms: dict[str, statistics.Histogram] = {}
        self._looked_at = -1
        self._observed = -1
        """The step that was last observed."""
        self._before: list[Tensor] = []
        self._values = StepValues()
        self._weight_moments = WeightMoments()
        self._outputs: ModuleOutputs | None = None
        self._warned = False
        self._handles: list[Any] = []
        stepping = stepping_optimizer(optimizer)
        if self._enabled and stepping is not None:
            self._handles.append(stepping.register_step_pre_hook(self._before_optimizer_step))
            self._handles.append(stepping.register_step_post_hook(self._after_optimizer_step))

    @property
    def global_step(self) -> int:
        """The step that is being made."""
        return self._step

    @global_step.setter
    def global_step(self, step: int) -> None:
        self._step = step

    # ---- what a loop calls

    @contextlib.contextmanager
    def observe(self) -> Iterator[Any]:
        """Around forward and backward pass: a recorded step, pictures, and what modules return, when they are due; else
        nothing. Of several passes before :meth:`step`, as with accumulated gradients, the first one is recorded."""
        is_first, self._observed = self._observed != self._step, self._step
        with contextlib.ExitStack() as stack:
            if self._enabled and self._measures:
                stack.enter_context(self._outputs_watched())
            if self._enabled and is_first and _due(self._step, self._pictures_every):
                stack.enter_context(self._watched())
            observation = None
            if self._enabled and is_first and self._record_every:
                observation = stack.enter_context(
                    self._writer.record_step(
                        self._models,
                        step=self._step,
                        optimizer=self._optimizer,
                        every=self._record_every,
                        attention=self._attention,
                    )
                )
            yield observation

    def step(self, loss: Tensor | float | None = None, **values: float) -> None:
        """At the end of a training step, after the optimizer's.

        Args:
            loss: Logged as ``monitor/loss``; a tensor is fetched on due steps only.
            values: Further scalars, logged as ``monitor/<name>``.
        """
        if self._enabled:
            with self._harmless():
                self._log(loss, values)
        self._step += 1

    def add_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Numbers of a trainer's own, logged as ``monitor/<name>`` whether the step is due or not."""
        if self._enabled:
            with self._harmless():
                named = {f"monitor/{name}": float(value) for name, value in values.items()}
                self._writer.add_summary(summaries.scalars(named), step)

    def measure(
        self,
        quantity: str | Quantity,
        values: Mapping[str, float] | Callable[[], Mapping[str, float]],
        *,
        model: str = "",
        of: str = "module",
    ) -> None:
        """A quantity of your own for modules or parameters, by which the tabs can then be coloured.

        >>> monitor.measure("cka", lambda: {path: cka(features[path]) for path in features}, model="student")

        Args:
            quantity: Its name, or a :class:`~tb_plugin_structure.Quantity` that says more.
            values: Path -> value, or a function that returns them: it is called on steps that are multiples of `every`
                only, and on no others is anything written.
            model: Name of the model; may be left out when there is one.
            of: "module" or "parameter".

        Raises:
            ValueError: When there is no such model, or `of` is neither of the two.
        """
        if not model and len(self._models) == 1:
            (model,) = self._models
        if model not in self._models:
            raise ValueError(f"there is no model {model!r}; the monitor knows {', '.join(map(repr, self._models))}")
        if of not in ("module", "parameter"):
            raise ValueError(f"of is {of!r}, expected 'module' or 'parameter'")
        if self._enabled and _due(self._step, self._every):
            with self._harmless():
                found = values() if callable(values) else values
                self._writer.add_measurement(model, quantity, found, step=self._step, of=of)

    def add_hyperparameters(self, values: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> None:
        """A row in TensorBoard's HParams tab; call it once, at the end when there are `metrics`."""
        if self._enabled:
            with self._harmless():
                for message in summaries.hyperparameters(values, metrics or {}):
                    self._writer.add_summary(message, self._step)

    def close(self) -> None:
        """Stop looking at the optimizer. The writer stays open."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._before.clear()

    def __enter__(self) -> StructureMonitor:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Pictures of the pass within, written when it is over."""
        step = self._step
        with feature_maps.watch(
            self._models,
            samples=self._picture_samples,
            channels=self._picture_channels,
            depth=self._depth,
            failed=self._warn,
        ) as found:
            yield
        with self._harmless():
            self._writer.add_summary(summaries.images(found), step)

    @property
    def _measures(self) -> bool:
        """Whether measurements are due at this step."""
        return _due(self._step, self._measurements_every << self._measurements_written // _THINNED_AFTER)

    @contextlib.contextmanager
    def _outputs_watched(self) -> Iterator[None]:
        """What modules return in the pass within. A recorded step is slowed down: its times would mean nothing."""
        outputs = None
        with self._harmless():
            timed = not _due(self._step, self._record_every)
            outputs = ModuleOutputs(self._models, timed=timed, failed=self._warn)
            outputs.start()
        try:
            yield
        finally:
            if outputs is not None:
                outputs.stop()
            self._outputs = outputs

    # ---- the optimizer's step

    def _before_optimizer_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if _due(self._step, self._every):
            with self._harmless():
                # Those of this step: a scheduler may have moved on when `step` is called.
                self._rates = scalar_tags.learning_rates(self._optimizer)
                # With a closure (Lightning, LBFGS) the backward pass is yet to run, within the optimizer's step.
                if not any(map(callable, (*args[1:], *kwargs.values()))):
                    self._look_at_gradients()
                self._before = [parameter.detach().clone() for _, parameter in self._trained()]

    def _after_optimizer_step(self, *unused: Any) -> None:
        before, self._before = self._before, []
        if before:
            with self._harmless():
                if self._looked_at != self._step:
                    self._look_at_gradients()
                self._look_at_updates(before)

    def _look_at_gradients(self) -> None:
        self._looked_at = self._step
        with torch.no_grad():
            for name, model in self._models.items():
                found = {path: p.grad for path, p in model.named_parameters() if p.grad is not None}
                if not found:
                    continue
                norms = dict(zip(found, statistics.norms(list(found.values())), strict=True))
                named = dict(model.named_parameters())
                self._values.gradients |= {id(named[path]): norm for path, norm in norms.items()}
                self._pending |= scalar_tags.gradient_norms(name, norms, self._depth_of(model))
                if _due(self._step, self._histograms_every):
                    self._add_histograms(f"gradients/{name}", found)

    def _look_at_updates(self, before: list[Tensor]) -> None:
        """Norm of what the optimizer's step changed ÷ norm of what was there, by module."""
        with torch.no_grad():
            trained = self._trained()
            changes = statistics.norms([parameter - old for (_, parameter), old in zip(trained, before, strict=True)])
            sizes = statistics.norms(before)
        keys = [id(parameter) for _, parameter in trained]
        self._values.changes = dict(zip(keys, changes, strict=True))
        self._values.sizes = dict(zip(keys, sizes, strict=True))
        for name, model in self._models.items():
            prefix = f"{name}\0"
            paths = [path for path, _ in trained]
            change = {p[len(prefix) :]: v for p, v in zip(paths, changes, strict=True) if p.startswith(prefix)}
            size = {p[len(prefix) :]: v for p, v in zip(paths, sizes, strict=True) if p.startswith(prefix)}
            self._pending |= scalar_tags.update_ratios(name, change, size, self._depth_of(model))

    def _depth_of(self, model: nn.Module) -> int:
        return self._depth + statistics.wrapping_names(model)

    def _trained(self) -> list[tuple[str, nn.Parameter]]:
        """("model name NUL path", parameter) of what the optimizer trains."""
        assert self._optimizer is not None
        trained = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
        return [
            (f"{name}\0{path}", parameter)
            for name, model in self._models.items()
            for path, parameter in model.named_parameters()
            if id(parameter) in trained
        ]

    # ---- logging

    def _log(self, loss: Tensor | float | None, values: Mapping[str, float]) -> None:
        if not _due(self._step, self._every):
            return
        if self._looked_at != self._step:
            self._look_at_gradients()
        found, self._pending = self._pending, {}
        learned, self._values = self._values, StepValues()
        outputs, self._outputs = self._outputs, None
        if loss is not None:
            found["monitor/loss"] = float(loss.detach().float().mean()) if isinstance(loss, Tensor) else float(loss)
        found |= {f"monitor/{name}": float(value) for name, value in values.items()}
        rates, self._rates = self._rates, {}
        found |= (rates or scalar_tags.learning_rates(self._optimizer)) | memory.in_use()
        with torch.no_grad():
            learned.batch_norms = batch_norms(self._models.values())
            parameters = [p for model in self._models.values() for p in model.parameters()]
            learned.weights = self._weight_moments.of(
                parameters if self._measures else [p for p in parameters if p.requires_grad]
            )
            for name, model in self._models.items():
                trained = scalar_tags.trained_weights(model)
                if _due(self._step, self._histograms_every):
                    self._add_histograms(f"weights/{name}", trained)
                found |= scalar_tags.weight_stds(name, trained, learned)
                found |= scalar_tags.batch_statistics(name, model, learned)
        self._writer.add_summary(summaries.scalars(found), self._step)
        if _due(self._step, self._pictures_every):
            for name, model in self._models.items():
                self._writer.add_summary(summaries.images(feature_maps.of_kernels(name, model)), self._step)
        histograms, self._histograms = self._histograms, {}
        if histograms:
            self._writer.add_summary(summaries.histograms(histograms), self._step)
        if self._measures:
            self._write_measurements(learned, outputs)
        self._writer.flush()

    def _write_measurements(self, values: StepValues, outputs: ModuleOutputs | None) -> None:
        for name, model in self._models.items():
            measured = measurements_of(model, values, outputs.of_model(name) if outputs is not None else {})
            if measured.columns:
                self._writer.add_measurements(name, *measured, step=self._step, series=_SERIES)
        self._measurements_written += 1

    def _add_histograms(self, prefix: str, tensors: Mapping[str, Tensor]) -> None:
        for path, tensor in tensors.items():
            made = statistics.histogram(tensor)
            if made is not None:
                self._histograms[f"{prefix}/{path}"] = made

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            text = f"tb_plugin_structure: monitoring failed ({type(error).__name__}: {error}); training goes on"
            warnings.warn(text, stacklevel=4)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
