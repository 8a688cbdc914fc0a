"""Writes structures, recorded steps and attention into event files.

>>> with StructureWriter("runs/kd") as writer:
...     writer.add_structure("teacher", teacher, (images,))
...     for step, (images, labels) in enumerate(loader):
...         with writer.record_step({"teacher": teacher, "student": student}, step=step, every=500):
...             loss = kd_loss(teacher(images), student(images), labels)
...             loss.backward()
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from tb_plugin_structure.capture import AttentionOptions, CaptureFailed, capture, observe
from tb_plugin_structure.capture.attention import (
    AttentionBudget,
    AttentionCapture,
    compare_captures,
    farthest_heads,
)
from tb_plugin_structure.capture.gradient_history import GradientHistory
from tb_plugin_structure.record_log import RecordLog
from tb_plugin_structure.records import names
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.plan import Pins, StackPolicies, build_plan
from tb_plugin_structure.records.quantities import Quantity
from tb_plugin_structure.records.structure import Structure

_SUBJECTS = ("module", "parameter")


class StructureWriter:
    """Records models into a TensorBoard log directory.

    Args:
        target: A log directory, or a ``torch.utils.tensorboard.SummaryWriter`` whose event file is then shared. A
            directory that already holds event files is left alone and the sub-run ``structure`` of it is used.
        ranks: "zero": in a distributed run only rank 0 writes. "all": every rank writes its own variant ("rank1", ...),
            below a log directory into the run of that name (``runs/kd/rank1``; two processes cannot share an event
            file). ``tb-structure diff`` and the Graph diff compare them. The process group must exist beforehand.
        attention_bytes_per_snapshot: Budget of one step's attention of one model, in bytes.
        attention_bytes_per_run: Budget of all attention that this writer writes, in bytes.
        enabled: False makes every method do nothing.
        progress: Show recordings of more than two seconds on standard error. None: where that is a terminal, unless the
            environment variable ``TB_STRUCTURE_PROGRESS`` is 0 (off) or 1 (on).

    Raises:
        OSError: When the log directory cannot be written.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | Any,
        *,
        ranks: str = "zero",
        attention_bytes_per_snapshot: int = 8 << 20,
        attention_bytes_per_run: int = 256 << 20,
        enabled: bool = True,
        progress: bool | None = None,
    ) -> None:
        if ranks not in ("zero", "all"):
            raise ValueError(f"ranks is {ranks!r}, expected 'zero' or 'all'")
        self._shows_progress = progress
        self._rank, self._world_size = _rank_and_world_size()
        self._enabled = enabled and (self._rank == 0 or ranks == "all")
        self._variant = f"rank{self._rank}" if ranks == "all" and self._world_size > 1 else ""
        self._log = RecordLog(target if self._enabled else None, self._variant)
        self._farthest: dict[str, list[int]] = {}
        self._gradients = GradientHistory()
        self._budget = AttentionBudget(snapshot_bytes=attention_bytes_per_snapshot, run_bytes=attention_bytes_per_run)

    @property
    def logdir(self) -> str:
        """The directory that the events go to; empty when this writer is disabled."""
        return self._log.logdir

    @property
    def enabled(self) -> bool:
        """Whether this writer writes: not on ranks other than 0 unless asked, nor when it is turned off."""
        return self._enabled

    # ---- what a user records

    def add_structure(
        self,
        name: str,
        model: nn.Module | ExportedProgram,
        args: Sequence[Any] | torch.Tensor = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        config: Any = None,
        variant: str = "",
        step: int | None = None,
        **options: Any,
    ) -> Structure | None:
        """Run one forward pass of `model` and write what it executed.

        Args:
            name: Name of the model in the tabs, e.g. "teacher".
            model: The model, as it is: its mode, device, hooks and gradients stay untouched. An ``ExportedProgram`` is
                read and not run.
            args: Positional inputs of the forward pass; a single tensor stands for one input.
            kwargs: Keyword inputs.
            config: The model's configuration (an object with ``to_dict`` or any dict), kept and compared.
            variant: A further structure of the same model, e.g. "eval" or "rank1".
            step: Training step; when left out, 0, or the step after the last one written under this name. A structure
                that is equal to the last one written is not written again.
            options: As in :func:`tb_plugin_structure.capture`, e.g. ``fake=True``, or ``backward=True`` to write
                gradient norms beside the structure.

        Returns:
            The record, or None when this writer is disabled.

        Raises:
            CaptureFailed: When the forward pass raised. The record up to the failing operator is written
                all the same, and is the error's ``structure``.
        """
        if not self._enabled:
            return None
        if isinstance(args, torch.Tensor):
            args = (args,)
        variant = self._full_variant(variant)
        if step is None:
            step = self._log.next_step(names.structure_tag(name, variant))
        try:
            structure = capture(
                model,
                tuple(args),
                dict(kwargs or {}),
                name=name,
                variant=variant,
                config=_plain_config(config),
                **{"progress": self._shows_progress, **options},
            )
        except CaptureFailed as error:
            if error.structure is not None:
                self._log.add_structure(error.structure, step)
                self.flush()
            raise
        self._log.add_structure(structure, step)
        if structure.gradients is not None:
            self._write_measurement(name, structure.gradients, step, variant)
        self.flush()
        return structure

    @contextlib.contextmanager
    def record_step(
        self,
        models: Mapping[str, nn.Module],
        *,
        step: int,
        optimizer: torch.optim.Optimizer | None = None,
        every: int = 1,
        structure: bool = True,
        attention: AttentionOptions | bool = True,
        tokens: Mapping[str, Any] | None = None,
        region: str = "step",
        variant: str = "",
        pin: bool = False,
        **options: Any,
    ) -> Iterator[Any]:
        """Observe your own training step: forward passes of several models, the loss, the backward pass.

        Nothing is run a second time and nothing is changed. On steps that are not multiples of `every` the region
        does nothing at all.

        Args:
            models: Name -> model, e.g. ``{"teacher": teacher, "student": student}``.
            step: Training step.
            optimizer: Looked at for what it trains (a teacher's parameters in it are a finding of the audit).
            every: Record each step that is a multiple of this.
            structure: Write structures, when they changed, and what ran between the models.
            attention: Record attention maps; options, or True for the defaults.
            tokens: Model name -> labels of its positions (a list of strings).
            region: Name under which what ran between the models is written.
            variant: Name for these passes, e.g. "eval": the structures stand beside those of other variants of the same
                models, and ``tb-structure diff`` says what differs.
            pin: Record this step whatever `every` says, and its attention from the share of the budget that is kept
                for pinned steps.
            options: As in :func:`tb_plugin_structure.observe`.

        Yields:
            The observation, or None on steps that are not recorded.
        """
        is_recorded = self._enabled and every >= 1 and (step % every == 0 or pin)
        kept = {}
        if self._enabled and optimizer is not None:
            with self._log.harmless("looking at gradients"):
                kept = self._gradients.begin(optimizer, step, is_recorded=is_recorded)
        if not is_recorded:
            yield None
            return
        if pin:
            self._budget.pin(step)
        wanted = self._attention_options(attention, step)
        observed = observe(
            models,
            attention=wanted,
            tokens=tokens,
            optimizer=optimizer,
            variant=self._full_variant(variant),
            structures=structure,
            **{"progress": self._shows_progress, **options},
        )
        observed.expect_kept(kept)
        started = False
        with self._log.harmless("recording a step"):
            observed.__enter__()
            started = True
        try:
            yield observed if started else None
        finally:
            # Also when the step raised: what ran until then is what one wants to see.
            if started:
                with self._log.harmless("recording a step"):
                    observed.__exit__(*sys.exc_info())
                    self._write_observation(observed, step, region, structure, self._full_variant(variant))

    @contextlib.contextmanager
    def record_attention(
        self,
        models: Mapping[str, nn.Module],
        *,
        step: int,
        every: int = 1,
        tokens: Mapping[str, Any] | None = None,
        options: AttentionOptions | None = None,
    ) -> Iterator[Any]:
        """:meth:`record_step` with attention alone."""
        with self.record_step(
            models, step=step, every=every, structure=False, attention=options or True, tokens=tokens
        ) as observation:
            yield observation

    def add_measurement(
        self,
        model: str,
        quantity: str | Quantity,
        values: Mapping[str, float],
        *,
        step: int,
        of: str = "module",
        variant: str = "",
    ) -> None:
        """Write a quantity of your own for modules or parameters of a model at a step.

        The Graph diff and the Shape audit can then be coloured by it.

        >>> writer.add_measurement("student", Quantity("cka", "similarity to the teacher"), {"layer1": 0.93}, step=step)

        Args:
            model: Name of the model, as in :meth:`add_structure`.
            quantity: Its name, or a :class:`~tb_plugin_structure.Quantity` that says more: unit, scale, meaning.
            values: Path -> value; paths as the model's ``named_modules()`` or ``named_parameters()`` give them.
            step: Training step; those of one quantity must ascend.
            of: "module" or "parameter": what the paths name.
            variant: As in :meth:`add_structure`.

        Raises:
            ValueError: When `of` is neither of the two, or a later step of this quantity was written already.
        """
        if of not in _SUBJECTS:
            raise ValueError(f"of is {of!r}, expected 'module' or 'parameter'")
        about = quantity if isinstance(quantity, Quantity) else Quantity(quantity)
        columns = {about.name: [float(value) for value in values.values()]}
        subjects = [_SUBJECTS.index(of)] * len(values)
        self.add_measurements(model, list(values), subjects, columns, [about], step=step, variant=variant)

    def add_measurements(
        self,
        model: str,
        paths: Sequence[str],
        subjects: Sequence[int],
        columns: Mapping[str, Sequence[float]],
        about: Sequence[Quantity] = (),
        *,
        step: int,
        variant: str = "",
        series: str = "",
    ) -> None:
        """Write several quantities at once: a row for each path, a column for each quantity.

        Args:
            model: Name of the model.
            paths: Module and parameter paths.
            subjects: For each of them 0 for a module, 1 for a parameter.
            columns: Quantity -> a value for each path; NaN for none.
            about: Descriptions of quantities that are not among the known ones.
            step: Training step; those of one series must ascend.
            variant: As in :meth:`add_structure`.
            series: What is written together, with steps of its own; "": the name of the first quantity.
        """
        if not self._enabled:
            return
        variant = self._full_variant(variant)
        structure_hash = self._log.structure_hash(names.structure_tag(model, variant))
        measurement = Measurement.build(model, structure_hash, paths, subjects, columns, about)
        tag = names.measurement_tag(model, variant, series or next(iter(columns)))
        self._log.add(names.MEASUREMENT_PLUGIN, tag, measurement.encode(), step)

    def add_plan(
        self,
        teacher: str,
        student: str,
        *,
        pins: Pins | None = None,
        policy: str = "",
        stack_policies: StackPolicies | None = None,
        step: int = 0,
    ) -> None:
        """Write which student parts are meant to learn from which teacher parts; the tabs then start from it.

        Args:
            teacher: Name of the teacher's structure.
            student: Name of the student's structure.
            pins: Student path -> teacher path, several teacher paths, or None for "no counterpart".
            policy: Policy for stacks of equal blocks.
            stack_policies: Policies of single stacks, by the student's stack path: names, or lists of block numbers.
            step: Training step from which the plan holds.
        """
        plan = build_plan(teacher, student, pins=pins, policy=policy, stack_policies=stack_policies)
        self._log.add(names.PLAN_PLUGIN, names.plan_tag(teacher, student), [plan.SerializeToString()], step)
        self.flush()

    def add_summary(self, summary: Any, step: int) -> None:
        """Write TensorBoard's own summaries (scalars, histograms) beside the records, into the same file.

        Args:
            summary: A ``Summary`` message, e.g. of ``torch.utils.tensorboard.summary.scalar``; None writes nothing.
            step: Training step.
        """
        self._log.add_summary(summary, step)

    def flush(self) -> None:
        """Put everything written so far on disk."""
        self._log.flush()

    def close(self) -> None:
        """Flush and close. A shared SummaryWriter stays open."""
        self._log.close()

    def __enter__(self) -> StructureWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- writing

    def _attention_options(self, attention: AttentionOptions | bool, step: int) -> AttentionOptions | None:
        if attention is False or not self._budget.wants(step):
            return None
        options = AttentionOptions() if attention is True else attention
        # Full resolution of long sequences is taken while the models run: of heads that were far apart the last time.
        return replace(options, farthest=self._farthest) if options.watch is None and self._farthest else options

    def _full_variant(self, variant: str) -> str:
        """The user's name for the variant and, when every rank writes, the rank: "eval-rank1"."""
        return "-".join(filter(None, [variant, self._variant]))

    def _write_observation(self, observed: Any, step: int, region: str, structure: bool, variant: str) -> None:
        if structure:
            for recorded in observed.structures.values():
                self._log.add_structure(recorded, step, quiet=True)
            between = observed.outside
            if between is not None and (between.operators.rows or between.header.HasField("error")):
                outside = f"{region}/{variant}" if variant else region
                self._log.add_structure(between, step, tag=names.outside_tag(outside), quiet=True)
            for model, measurement in observed.measurements.items():
                self._write_measurement(model, measurement, step, variant)
        captures = list(observed.attention.values())
        for first, second in combinations(captures, 2):
            compare_captures(first, second)
            self._farthest = {**self._farthest, **farthest_heads(first, second)}
        for model, attention in observed.attention.items():
            for example in attention.examples or [None]:
                self._write_attention(model, attention, example, step)

    def _write_measurement(self, model: str, measurement: Measurement, step: int, variant: str) -> None:
        tag = names.measurement_tag(model, variant)
        self._log.add(names.MEASUREMENT_PLUGIN, tag, measurement.encode(), step, quiet=True)

    def _write_attention(self, model: str, attention: AttentionCapture, example: int | None, step: int) -> None:
        overview, details = self._budget.admit(step, attention, example)
        if overview is None:
            return
        tag = names.attention_overview_tag(model, overview.header.example)
        self._log.add(names.ATTENTION_OVERVIEW_PLUGIN, tag, overview.encode(), step, quiet=True)
        for path, blobs in details.items():
            self._log.add(
                names.ATTENTION_DETAIL_PLUGIN, names.attention_detail_tag(model, path), blobs, step, quiet=True
            )


def _rank_and_world_size() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _plain_config(config: Any) -> Any:
    to_dict = getattr(config, "to_dict", None)
    return to_dict() if callable(to_dict) else config
