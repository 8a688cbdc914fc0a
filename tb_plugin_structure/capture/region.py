"""Entry points: `observe` a region of the user's own code, or `capture` one pass of one model."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from tb_plugin_structure.capture.assembly import Assembly, holds_nothing_alive
from tb_plugin_structure.capture.attention import AttentionCapture, AttentionListener, AttentionOptions
from tb_plugin_structure.capture.backward import Backward, check_backward, measure_gradients
from tb_plugin_structure.capture.collection import without_collection
from tb_plugin_structure.capture.dispatch import OUTSIDE
from tb_plugin_structure.capture.errors import CaptureFailed
from tb_plugin_structure.capture.failures import explain
from tb_plugin_structure.capture.gradient_history import Kept
from tb_plugin_structure.capture.gradients import GradientFlow
from tb_plugin_structure.capture.importers import structure_of_program
from tb_plugin_structure.capture.input_order import InputOrder
from tb_plugin_structure.capture.listening import ListeningObserver
from tb_plugin_structure.capture.memory import measure_memory
from tb_plugin_structure.capture.modules import without_local_wrappers
from tb_plugin_structure.capture.nested import named_arguments
from tb_plugin_structure.capture.observer import ObservedModel, Observer
from tb_plugin_structure.capture.other_parameters import held_by, name_other_parameters
from tb_plugin_structure.capture.repetition import Repetition
from tb_plugin_structure.capture.state import preserved_state
from tb_plugin_structure.capture.static_tables import StaticTables
from tb_plugin_structure.capture.step_failure import step_error
from tb_plugin_structure.capture.symbolic import add_symbolic_dimensions
from tb_plugin_structure.capture.symbolic_inputs import Symbolic, symbolic_inputs
from tb_plugin_structure.capture.timing import measure_times, passes_asked_for, reads_values
from tb_plugin_structure.capture.weightless import fake_model
from tb_plugin_structure.progress import Progress, switched
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure

_SOURCES = ("location", "text", "none")


class Region:
    """What :func:`observe` yields. Filled when the region ends.

    Attributes:
        structures: Model name -> what it executed; models that were not called are absent.
        outside: What ran between the models, e.g. the loss; None when nothing did.
        measurements: Model name -> gradient norms and flags of this step.
        attention: Model name -> attention of this step, when it was asked for.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        *,
        variant: str = "",
        source: str = "location",
        configs: Mapping[str, Any] | None = None,
        listeners: Sequence[Any] = (),
        gradients: bool = True,
        attention: AttentionOptions | None = None,
        tokens: Mapping[str, Any] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        structures: bool = True,
        progress: bool | None = None,
    ) -> None:
        if source not in _SOURCES:
            raise ValueError(f"source is {source!r}, expected one of {', '.join(map(repr, _SOURCES))}")
        for name, model in models.items():
            if not isinstance(model, nn.Module):
                raise TypeError(f"{name!r} is {type(model).__name__}, expected a torch.nn.Module")
        self.structures: dict[str, Structure] = {}
        self.outside: Structure | None = None
        self.measurements: dict[str, Measurement] = {}
        self.attention: dict[str, AttentionCapture] = {}
        self._attention = None if attention is None else AttentionListener(models, attention, tokens)
        self._variant = variant
        self._source = source
        self._configs = dict(configs or {})
        self._observed = [ObservedModel(name, model) for name, model in models.items()]
        if self._attention is not None:
            listeners = [*listeners, self._attention]
        self._records_structures = structures
        self._observer = (Observer if structures else ListeningObserver)(self._observed, listeners)
        self._optimizer = optimizer
        inputs = InputOrder(self._observed, self._observer)
        self._gradients = (
            GradientFlow(self._observed, optimizer, inputs, self._observer.stepped)
            if gradients and structures
            else None
        )
        kernels = self._observer.kernels
        self._progress = Progress(
            f"Recording {', '.join(models)}",
            count=lambda: len(kernels),
            unit="kernels",
            shown=progress,
        )
        self._notes_for: dict[str, str] = {}
        self._strict = False
        self._may_defer = False
        self._exits = contextlib.ExitStack()

    def expect_kept(self, kept: Kept) -> None:
        """Say which gradients the optimizer has stepped with already, before the region begins."""
        if self._gradients is not None:
            self._gradients.kept = kept

    def __enter__(self) -> Region:
        with contextlib.ExitStack() as stack:
            # What torch.compile made runs as the Python it was made from: compiled code shows no operators.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            if self._gradients is not None:
                stack.callback(self._gradients.stop)
                self._gradients.start()
            self._observer.start()
            stack.callback(self._observer.stop)
            if self._attention is not None:
                stack.callback(self._attention.close)
                self._attention.open()
            self._exits = stack.pop_all()
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._finish(error)
        finally:
            self._progress.__exit__(None, None, None)

    def _finish(self, error: BaseException | None) -> None:
        with without_collection():
            self._put_together(error)

    def _put_together(self, error: BaseException | None) -> None:
        self._exits.close()
        if self._attention is not None:
            self.attention = self._attention.captures
        if not self._records_structures:
            fault = self._observer.fault
            for capture in self.attention.values() if fault is not None else ():
                capture.notes.append(f"incomplete: recording stopped on {type(fault).__name__}: {fault}")
            return
        try:
            self._assemble(error)
        except Exception as fault:
            if self._strict and error is None:
                raise
            # A fault of ours must neither end a training step nor hide what ended it.
            warnings.warn(
                f"tb_plugin_structure: the recorded step could not be put together ({type(fault).__name__}: {fault}); "
                "please report it",
                stacklevel=2,
            )
        finally:
            for model in self._observed:
                model.table.held.clear()
            self._observer.stepped.clear()
            self._observer.values.release()  # a weak reference that stayed would keep tensors from being swapped

    def _assemble(self, error: BaseException | None) -> None:
        observer = self._observer
        given = [self._optimizer] if self._optimizer is not None else []
        name_other_parameters(observer.values, held_by([*given, *observer.stepped]))
        if self._may_defer and holds_nothing_alive(observer):
            self._defer()
            return
        assembly = Assembly(observer, self._source)
        called = {call.model for call in observer.calls}
        for index, model in enumerate(self._observed):
            if index in called:
                self.structures[model.name] = assembly.structure(
                    index,
                    StaticTables(model),
                    variant=self._variant,
                    config=self._configs.get(model.name),
                    notes=self._notes(model),
                )
        if self._gradients is not None:
            for index, model in enumerate(self._observed):
                structure = self.structures.get(model.name)
                measured = self._gradients.measurement(index, structure.header.structure_hash if structure else "")
                if measured is not None:
                    self.measurements[model.name] = measured
        failed = step_error(observer, error, assembly.maker)
        if OUTSIDE in assembly.owner or failed is not None:
            self.outside = assembly.structure(-1, None, variant="", config=None, notes=())
            if failed is not None:
                self.outside.header.error.CopyFrom(failed)

    def _defer(self) -> None:
        """Copy what may change out of the model now, and put the record together when somebody looks at it."""
        observer, source, variant = self._observer, self._source, self._variant
        for index, model in enumerate(self._observed):
            if not observer.calls:
                continue
            static, notes, config = StaticTables(model), self._notes(model), self._configs.get(model.name)

            def build(
                index: int = index, static: StaticTables = static, notes: Sequence[str] = notes, config: Any = config
            ) -> Structure:
                with without_collection():
                    built = Assembly(observer, source).structure(
                        index, static, variant=variant, config=config, notes=notes
                    )
                    observer.forget()
                    return built

            self.structures[model.name] = Structure.deferred(build)
        observer.release()

    def _notes(self, model: ObservedModel) -> list[str]:
        notes = [self._notes_for[model.name]] if model.name in self._notes_for else []
        fault = self._observer.fault
        if fault is not None:
            notes.append(f"The record is incomplete: recording stopped on {type(fault).__name__}: {fault}")
        for entry in model.table.entries:
            module = entry.module()
            if isinstance(module, torch.jit.ScriptModule):
                notes.append(f"{entry.path or 'the model'} is TorchScript: calls of modules inside it are not seen")
                break
        return notes


def observe(
    models: Mapping[str, nn.Module],
    *,
    attention: AttentionOptions | None = None,
    tokens: Mapping[str, Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    variant: str = "",
    source: str = "location",
    configs: Mapping[str, Any] | None = None,
    listeners: Sequence[Any] = (),
    gradients: bool = True,
    structures: bool = True,
    progress: bool | None = None,
) -> Region:
    """Observe what models execute in a region of your own code. Nothing is run and nothing is changed.

    >>> with observe({"teacher": teacher, "student": student}) as region:
    ...     loss = kd_loss(teacher(images), student(images))
    ...     loss.backward()
    >>> region.structures["student"], region.outside

    Args:
        models: Name -> model. Wrappers such as DistributedDataParallel are seen through.
        attention: An :class:`AttentionOptions` to record attention maps as well.
        tokens: Model name -> labels of its positions.
        optimizer: Looked at for what it trains.
        variant: Name of the variant these passes show.
        source: "location" keeps 'file:line' of each operator (never absolute), "text" the line too, "none" neither.
        configs: Model name -> its configuration, kept with the record.
        listeners: Objects with ``before_kernel(func, args, kwargs, call)`` and
            ``after_kernel(func, args, kwargs, result, call)``; `call` has ``model`` (name), ``module_path``,
            ``ordinal`` (k-th call of that module in this region) and ``module``.
        gradients: Measure the gradient norm of each parameter when a backward pass runs within the region.
        structures: False for attention and `listeners` alone: no structure and no gradient is recorded, at a fraction
            of the cost.
        progress: Show on standard error how many kernels ran, once the region takes longer than two seconds. None:
            where that is a terminal, unless the environment variable ``TB_STRUCTURE_PROGRESS`` is 0 (off) or 1 (on).
    """
    return Region(
        models,
        variant=variant,
        source=source,
        configs=configs,
        listeners=listeners,
        gradients=gradients,
        attention=attention,
        tokens=tokens,
        optimizer=optimizer,
        structures=structures,
        progress=progress,
    )


def _program(program: ExportedProgram, name: str, variant: str, source: str, *, runs: bool) -> Structure:
    if runs:
        raise TypeError("an ExportedProgram is read, not run: fake and backward need a module, e.g. program.module()")
    if source not in _SOURCES:
        raise ValueError(f"source is {source!r}, expected one of {', '.join(map(repr, _SOURCES))}")
    return structure_of_program(program, name, variant=variant, source=source)


def capture(
    model: nn.Module | ExportedProgram,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "model",
    variant: str = "",
    config: Any = None,
    source: str = "location",
    restore_state: bool = True,
    fake: bool = False,
    backward: Backward = None,
    symbolic: Symbolic = False,
    time: int | bool = False,
    memory: bool = False,
    progress: bool | None = None,
) -> Structure:
    """Run one forward pass of `model` as it is and return what it executed.

    The model's mode, gradients, hooks and outputs stay as they are. Wrappers (DistributedDataParallel, torch.compile)
    are taken off for the pass.

    Args:
        model: The model, in the mode in which it should be shown. An ``ExportedProgram`` is read and not run: its graph
            says what it executes, and `args` are not looked at.
        args: Positional inputs; a single tensor stands for one input.
        kwargs: Keyword inputs.
        name: Name of the model in the record.
        variant: Name of the variant, e.g. "eval".
        config: The model's configuration: an object that JSON can hold.
        source: As in :func:`observe`.
        restore_state: Put buffers (e.g. batch statistics) and random states back to what they were before the pass.
        fake: Run on tensors without values: no weights are read and nothing is computed. A model whose forward looks at
            values (``if mask.all()``, ``.item()``, numpy) cannot be recorded this way and the error names the line.
        backward: Also measure where gradients arrive: a function of the model's output that returns a scalar tensor, or
            True for the sum of squares of all outputs that require a gradient. The result is ``gradients`` of the
            structure, with the quantities that :func:`observe` measures. No ``.grad`` is written; the backward pass is
            not part of the record. Parameters that no gradient reaches are in ``header.notes``, with the operator that
            cuts the way.
        symbolic: Also give each dimension as an expression of the input dimensions, from a further pass that computes
            nothing. True gives customary names (``B``, ``C``, ``H``, ``W``; ``B``, ``L``); a mapping such as
            ``{"images": ("B", 3, "H", "W")}`` says which dimensions are free and how they are called. What the model
            fixes, and conditions under which the expressions hold, are in ``header.symbolic``; see
            :meth:`~tb_plugin_structure.records.structure.Structure.symbolic_shape`.
        time: Also measure times: the number of further, warm passes whose median counts, True for 5. Fills the columns
            ``duration_ns`` of module calls and operators, by CUDA events for a model on one CUDA device and by the
            wall clock elsewhere; each is run twice, once for modules and once for kernels.
        memory: Also count memory in one further pass: ``peak_bytes`` of module calls, and ``saved_bytes`` of operators,
            which autograd keeps until the backward pass. Works with ``fake=True`` too.
        progress: As in :func:`observe`.

    Raises:
        CaptureFailed: When the forward pass raised; its ``structure`` reaches up to the failing operator.
        TypeError: When `model` is no module, or `backward` is neither a bool nor a function that returns a tensor.
        ValueError: When what `backward` returns is no scalar, or `symbolic` does not fit the inputs.
    """
    check_backward(backward)
    if isinstance(model, ExportedProgram):
        return _program(model, name, variant, source, runs=bool(fake or backward))
    if not isinstance(model, nn.Module):
        raise TypeError(f"capture() got {type(model).__name__}, expected a torch.nn.Module")
    positional = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    named = dict(kwargs or {})
    inner = without_local_wrappers(model)
    given = positional, named
    dimensions = symbolic_inputs(symbolic, inner, *given) if symbolic else None
    passes = passes_asked_for(time)
    if passes and (fake or not reads_values(*given, inner)):
        raise ValueError("time= needs a pass that computes: neither fake=True nor tensors on the meta device")
    repetition = Repetition(inner, *given, fake=fake) if passes or memory else None
    with contextlib.ExitStack() as stack:
        stack.enter_context(switched(progress))
        if fake:
            positional, named = stack.enter_context(fake_model(inner, positional, named))
        if restore_state:
            stack.enter_context(preserved_state(inner))
        region = Region({name: model}, variant=variant, source=source, configs={name: config}, gradients=False)
        region._strict = True
        region._may_defer = not backward
        region._observer.expect(0, positional, named)
        if fake:
            region._notes_for[name] = "recorded on fake tensors: no weights were read and nothing was computed"
        failure: Exception | None = None
        output: Any = None
        flow = GradientFlow(region._observed, None) if backward else None
        if flow is not None:
            stack.callback(flow.outputs.stop)
            flow.outputs.start()
        with region:
            try:
                output = inner(*positional, **named)
                if not backward:
                    output = None  # the outputs of a large model need not live until its record is put together
            except Exception as error:
                failure = error
        structure = region.structures.get(name)
        if flow is not None and backward and failure is None and structure is not None:
            entered = [tensor for _, tensor in named_arguments(positional, named)]
            elsewhere = any(tensor.grad_fn is not None for tensor in entered)
            measure_gradients(flow, structure, output, backward, inputs=entered, keep_graph=elsewhere)
    if failure is not None:
        recorded = structure.header.error if structure is not None else None
        raise CaptureFailed(explain(name, inner, positional, named, failure, recorded), structure) from failure
    if structure is None:
        raise CaptureFailed(f"{name!r} ({type(inner).__name__}) ran without calling its forward; nothing was recorded")
    if repetition is not None:
        with switched(progress):
            _measure_cost(structure, inner, repetition, passes, memory)
    if dimensions is not None:
        with preserved_state(inner), Progress(f"Following the sizes of {name}", shown=progress):
            add_symbolic_dimensions(structure, inner, *given, dimensions)
    return structure


def _measure_cost(structure: Structure, model: nn.Module, repetition: Repetition, passes: int, memory: bool) -> None:
    """Times and memory from further passes; one that cannot be repeated, or fails, costs these figures alone."""
    repetition.check()
    if repetition.refusal:
        structure.header.notes.append(f"Times and memory were not measured: {repetition.refusal}.")
        return
    for wanted, what in ((passes, "Times"), (memory, "Memory")):
        try:
            if wanted and what == "Times":
                measure_times(structure, repetition, passes, model)
            elif wanted:
                with Progress(f"Counting the memory of {structure.name}"):
                    measure_memory(structure, repetition, model)
        except Exception as error:
            text = (str(error).splitlines() or [""])[0][:200]
            structure.header.notes.append(f"{what} could not be measured: {type(error).__name__}: {text}")
