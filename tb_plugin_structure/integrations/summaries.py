"""TensorBoard's own summaries from numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch.utils.tensorboard import summary as torch_summary

from tb_plugin_structure.integrations import pictures
from tb_plugin_structure.integrations.statistics import Histogram


def scalars(values: Mapping[str, float]) -> Any:
    """One Summary message with a scalar for each tag; values that are not known (NaN) are left out."""
    message: Any = None
    for tag, value in values.items():
        if not math.isnan(value):
            made = torch_summary.scalar(tag, value, new_style=True)
            message = made if message is None else _joined(message, made)
    return message


def histograms(values: Mapping[str, Histogram]) -> Any:
    """One Summary message with a histogram for each tag."""
    message: Any = None
    for tag, value in values.items():
        made = torch_summary.histogram_raw(
            tag,
            value.edges[0],
            value.edges[-1],
            sum(value.counts),
            value.total,
            value.total_of_squares,
            value.edges[1:],
            value.counts,
        )
        message = made if message is None else _joined(message, made)
    return message


def images(values: Mapping[str, pictures.Picture]) -> Any:
    """One Summary message with an image for each tag; None when there is none."""
    message = torch_summary.Summary()  # type: ignore[attr-defined]
    for tag, picture in values.items():
        height, width, channels = picture.shape
        encoded = torch_summary.Summary.Image(  # type: ignore[attr-defined]
            height=height, width=width, colorspace=channels, encoded_image_string=pictures.png(picture)
        )
        message.value.add(tag=tag, image=encoded)
    return message if values else None


def hyperparameters(values: Mapping[str, Any], metrics: Mapping[str, float]) -> list[Any]:
    """The messages of one row in TensorBoard's HParams tab."""
    plain = {
        name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in values.items()
    }
    return [*torch_summary.hparams(plain, dict(metrics)), *(torch_summary.scalar(*item) for item in metrics.items())]


def _joined(first: Any, second: Any) -> Any:
    first.value.extend(second.value)
    return first
