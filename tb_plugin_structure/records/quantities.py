"""What can be measured on a module or parameter at a step, and how its values are meant.

Each measurement record carries these descriptions of its columns, so that no reader needs this list; a user's own
quantities stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tb_plugin_structure.v1 import measurement_pb2

Array = npt.NDArray[Any]

SCALES: Final = ("linear", "log", "signed", "category")
"""Names of scales; their position + 1 is the number in a record."""

SUMS: Final = ("", "plain", "squares", "maximum", "mean")
"""How values of parts become that of the whole; the position is the number in a record. "": they do not."""


@dataclass(frozen=True)
class Quantity:
    """One column of a measurement.

    Args:
        name: Name of the column.
        meaning: What it is, in one sentence.
        unit: "bytes", "ns", ...; "" for a pure number.
        scale: A name of :data:`SCALES`: on which values are told apart best.
        sum: A name of :data:`SUMS`.
        categories: Of the scale "category": value k stands for ``categories[k]``, in all records of a model.
        label: For people; "": the name with spaces.
    """

    name: str
    meaning: str = ""
    unit: str = ""
    scale: str = "linear"
    sum: str = ""
    categories: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(f"scale is {self.scale!r}, expected one of {', '.join(map(repr, SCALES))}")
        if self.sum not in SUMS:
            raise ValueError(f"sum is {self.sum!r}, expected one of {', '.join(map(repr, SUMS))}")
        if (self.scale == "category") != bool(self.categories):
            raise ValueError("categories are given exactly with the scale 'category'")

    def to_proto(self, values: Array | None = None) -> measurement_pb2.Quantity:
        """The description in a record; `values` are those of modules, for its range."""
        message = measurement_pb2.Quantity(
            name=self.name,
            label=self.label or self.name.replace("_", " "),
            unit=self.unit,
            scale=SCALES.index(self.scale) + 1,  # type: ignore[arg-type]
            sum=SUMS.index(self.sum),  # type: ignore[arg-type]
            categories=self.categories,
            meaning=self.meaning,
        )
        finite = values[np.isfinite(values)] if values is not None else np.empty(0)
        message.modules = int((~np.isnan(values)).sum()) if values is not None else 0
        if len(finite):
            message.minimum, message.maximum = float(finite.min()), float(finite.max())
            positive = finite[finite > 0]
            message.least_positive = float(positive.min()) if len(positive) else 0.0
        return message


NO_YES: Final = ("no", "yes")

DTYPES: Final = (
    "mixed",
    *("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *("int8", "uint8", "int16", "int32", "int64", "bool", "other"),
)
"""Of the quantity "dtype". New ones come at the end."""

KNOWN: Final = (
    Quantity(
        "gradient_norm",
        "L2 norm of the gradients of all parameters at or below; infinite when one holds a value that is not finite",
        scale="log",
        sum="squares",
    ),
    Quantity(
        "gradient_reached", "whether a gradient reached the parameter", scale="category", categories=("no", "yes")
    ),
    Quantity("requires_grad", "whether the parameter is trained", scale="category", categories=NO_YES),
    Quantity("in_optimizer", "whether the optimizer holds the parameter", scale="category", categories=NO_YES),
    Quantity(
        "output_gradient_norm", "L2 norm of the gradients of all outputs and calls of the module", "", "log", "squares"
    ),
    Quantity(
        "output_gradient_reached",
        "whether a gradient reached an output of the module",
        scale="category",
        categories=NO_YES,
    ),
    Quantity(
        "stale_gradient",
        "whether the gradient was added to one that the optimizer had stepped with",
        scale="category",
        categories=NO_YES,
    ),
    Quantity("lost_gradient", "whether the gradient was gone when the optimizer stepped", "", "category", "", NO_YES),
    Quantity(
        "input_order",
        "whether the models of the step were given the same examples in the same order",
        scale="category",
        categories=("same order", "another order", "other examples"),
    ),
    Quantity("weight_norm", "L2 norm of all floating-point parameters at or below", scale="log", sum="squares"),
    Quantity("weight_std", "standard deviation of all elements of the parameters at or below", scale="log"),
    Quantity(
        "update_ratio",
        "norm of what the optimizer's step changed at or below, divided by the norm of what was there",
        scale="log",
        sum="mean",
    ),
    Quantity("running_mean", "mean over channels of a batch norm's running means", scale="signed", sum="mean"),
    Quantity("running_variance", "mean over channels of a batch norm's running variances", scale="log", sum="mean"),
    Quantity("activation_mean", "mean of the module's outputs", scale="signed", sum="mean"),
    Quantity(
        "activation_std",
        "standard deviation of the module's outputs; infinite when one is not finite",
        scale="log",
        sum="mean",
    ),
    Quantity("zero_fraction", "share of the module's outputs that are exactly 0", sum="mean"),
    Quantity(
        "dead_fraction",
        "share of output channels (of features, in sequences) that are 0 for the whole batch",
        sum="mean",
    ),
    Quantity("output_bytes", "bytes of what the module returned, all calls", "bytes", "log", "plain"),
    Quantity(
        "allocated_bytes",
        "bytes that were allocated on the CUDA device within the module's forward pass and still are at its end",
        "bytes",
        "signed",
        "plain",
    ),
    Quantity(
        "forward_ns",
        "time of the module's forward pass, all calls, in the user's own step",
        "ns",
        "log",
        "plain",
        label="forward time",
    ),
    Quantity(
        "trained",
        "whether the parameters at or below are trained",
        scale="category",
        categories=("frozen", "trained", "partly"),
    ),
    Quantity("dtype", "element type of the parameters at or below", scale="category", categories=DTYPES),
    Quantity("mode", "mode of the module", scale="category", categories=("evaluation", "training")),
)
"""The quantities of :func:`~tb_plugin_structure.observe` and of the monitor."""

_BY_NAME = {quantity.name: quantity for quantity in KNOWN}


def described(
    columns: Mapping[str, Sequence[float] | Array], subjects: Sequence[int] | Array, given: Iterable[Quantity] = ()
) -> list[measurement_pb2.Quantity]:
    """A description of each column, in order: the one given, else the known one, else a plain number."""
    by_name = _BY_NAME | {quantity.name: quantity for quantity in given}
    of_modules = np.asarray(subjects) == 0
    return [
        by_name.get(name, Quantity(name)).to_proto(np.asarray(values, np.float64)[of_modules])
        for name, values in columns.items()
    ]
