"""What was captured of one model in one region, and the records that are made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tb_plugin_structure.capture.attention.axes import AxisFinder
from tb_plugin_structure.capture.attention.kept import MATRIX, KeptHead, add_details
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.options import AttentionOptions
from tb_plugin_structure.capture.attention.overview_planes import OVERVIEW_CELLS
from tb_plugin_structure.records.attention import AttentionOverview, encode_detail, encode_matrix
from tb_plugin_structure.records.row_states import NOT_FINITE, PROBABILITIES
from tb_plugin_structure.records.schema import ATTENTION_STATISTICS
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import attention_pb2


class AttentionCapture:
    """Attentions of one model, in the order in which they ran.

    Attributes:
        model: Name of the model.
        maps: What was captured.
        not_captured: Module path -> why a layer that looks like attention gave no map.
        notes: What else a reader should know.
        distances: Example -> (other model, distances of its heads to these, resolution), of the same step.
    """

    def __init__(
        self,
        model: str,
        options: AttentionOptions,
        maps: Sequence[AttentionMap],
        not_captured: Mapping[str, str],
        notes: Sequence[str],
        axes: AxisFinder,
    ) -> None:
        self.model = model
        self.options = options
        self.maps = list(maps)
        self.not_captured = dict(not_captured)
        self.notes = list(notes)
        self.distances: dict[int, list[tuple[str, Array, str]]] = {}
        self._axes = axes

    def __repr__(self) -> str:
        return f"AttentionCapture({self.model!r}: {len(self.maps)} attentions, {len(self.not_captured)} not captured)"

    @property
    def examples(self) -> list[int]:
        """Positions in the batch that were recorded."""
        return sorted({example for made in self.maps for example in made.summaries})

    def overview(self, example: int | None = None, *, cells: int = OVERVIEW_CELLS) -> AttentionOverview:
        """Statistics and overview planes of every recorded head.

        Args:
            example: Position in the batch; None for the first that was recorded. A model without attention gives
                a record whose notes say so.
            cells: Most rows and columns of a plane: 64, or 32, 16, 8.
        """
        examples = self.examples
        chosen = examples[0] if example is None and examples else example
        header = attention_pb2.AttentionOverviewHeader(model=self.model)
        if len(examples) > 1 and chosen is not None:
            header.example = str(chosen)
        statistics: dict[str, list[Any]] = defaultdict(list)
        planes: dict[str, list[bytes]] = {"maximum": [], "mass": []}
        states: list[bytes] = []
        offset = rows = 0
        axes = _Axes(header, self._axes, chosen or 0)
        for made in self.maps:
            summary = made.summaries.get(chosen) if chosen is not None else None
            if summary is None:
                continue
            layer = _layer(header, made, axes)
            planes_here = {"maximum": summary.maximum, "mass": summary.mass}
            states_here = summary.row_states
            for _ in range((OVERVIEW_CELLS // cells).bit_length() - 1):
                planes_here = coarser(planes_here["maximum"], planes_here["mass"])
                states_here = coarser_states(states_here)
            states.append(states_here.tobytes())
            heads, layer.overview_rows, layer.overview_columns = planes_here["maximum"].shape
            layer.heads, layer.first_head_row, layer.overview_offset = heads, rows, offset
            for name, planed in planes_here.items():
                codes, scales = encode_planes(planed)
                planes[name].append(codes)
                statistics[f"{name}_scale"].extend(scales.tolist())
            statistics["layer"].extend([len(header.layers) - 1] * heads)
            statistics["head"].extend(summary.heads)
            for name, values in summary.statistics.items():
                statistics[name].extend(values.tolist())
            rows += heads
            offset += planes_here["maximum"].size
            if summary.non_finite_rows:
                header.notes.append(
                    f"{made.module_path or 'the model'}: {summary.non_finite_rows:,} rows hold NaN or infinity; they "
                    "are left out of statistics and hatched in the maps"
                )
        for path, reason in self.not_captured.items():
            header.layers.add(module_path=path, not_captured=reason)
        header.notes.extend(self.notes)
        if not header.layers:
            header.notes.append(
                "this model has no attention that was seen: no fused kernel, and no softmax of a product"
            )
        columns = {field.name: statistics.get(field.name, []) for field in ATTENTION_STATISTICS}
        distances = self.distances.get(chosen, []) if chosen is not None else []
        return AttentionOverview.build(
            header,
            columns,
            b"".join(planes["maximum"]),
            b"".join(planes["mass"]),
            distances,
            row_states=b"".join(states),
        )

    def kept_heads(self, example: int | None = None) -> list[tuple[AttentionMap, KeptHead]]:
        """Heads in full resolution, the most wanted first: named ones, then the first of each layer, the second."""
        examples = self.examples
        chosen = examples[0] if example is None and examples else example
        found: list[tuple[tuple[bool, int, int], AttentionMap, KeptHead]] = []
        for place, made in enumerate(self.maps):
            summary = made.summaries.get(chosen) if chosen is not None else None
            if summary is None:
                continue
            heads = list(summary.kept)
            if summary.matrix is not None and summary.matrix.size:
                matrices = zip(summary.matrix_heads, summary.matrix, strict=True)
                heads += [KeptHead(head, MATRIX, encode_matrix(matrix)) for head, matrix in matrices]
            wanted = self.options.watch or self.options.farthest
            named = self.options.watched_heads(made.module_path, summary.heads) if wanted else []
            for position, kept in enumerate(sorted(heads, key=lambda kept: kept.head)):
                found.append(((kept.head not in named, position, place), made, kept))
        found.sort(key=lambda entry: entry[0])
        return [(made, kept) for _, made, kept in found]

    def details(
        self, example: int | None = None, heads: Sequence[tuple[AttentionMap, KeptHead]] | None = None
    ) -> dict[str, list[bytes]]:
        """Module path -> blobs of its heads in full resolution.

        Args:
            example: Position in the batch; None for the first that was recorded.
            heads: Those of :meth:`kept_heads` to put in; None for all.
        """
        examples = self.examples
        chosen = examples[0] if example is None and examples else example
        by_map: dict[AttentionMap, list[KeptHead]] = defaultdict(list)
        for made, kept in self.kept_heads(example) if heads is None else heads:
            by_map[made].append(kept)
        records: dict[str, tuple[attention_pb2.AttentionDetailHeader, list[bytes]]] = {}
        for made in self.maps:
            if made not in by_map:
                continue
            if made.module_path not in records:
                header = attention_pb2.AttentionDetailHeader(model=self.model)
                if len(examples) > 1:
                    header.example = str(chosen)
                records[made.module_path] = header, []
            header, blobs = records[made.module_path]
            identity = {"module_path": made.module_path, "call_ordinal": made.call_ordinal, "ordinal": made.ordinal}
            members = sorted(by_map[made], key=lambda kept: kept.head)
            add_details(header, blobs, members, made.query_length, made.key_length, identity)
        return {path: encode_detail(header, blobs) for path, (header, blobs) in records.items()}


def encode_planes(planes: Array) -> tuple[bytes, Array]:
    """[heads, rows, columns] as bytes c with value scale · (c / 255)², and the scale of each head.

    The error is at most scale / 255: square-root codes spend their resolution on small probabilities.
    """
    heads = planes.shape[0]
    finite = np.nan_to_num(planes, nan=0.0, posinf=0.0, neginf=0.0).clip(0)
    scales = finite.reshape(heads, -1).max(1, initial=0.0) if heads else np.zeros(0, np.float32)
    safe = np.where(scales > 0, scales, 1.0)[:, None, None]
    codes = np.rint(np.sqrt(finite / safe) * 255).astype(np.uint8)
    return codes.tobytes(), scales.astype(np.float32)


def coarser(maximum: Array, mass: Array) -> dict[str, Array]:
    """Planes with half as many cells along axes of more than 8 cells that can be halved: the larger of two maxima, the
    sum of two columns' masses, the mean of two rows'."""
    for axis in (1, 2):
        cells = maximum.shape[axis]
        if cells > 8 and cells % 2 == 0:
            split = (*maximum.shape[:axis], cells // 2, 2, *maximum.shape[axis + 1 :])
            maximum = maximum.reshape(split).max(axis + 1)
            mass = mass.reshape(split).sum(axis + 1) if axis == 2 else mass.reshape(split).mean(axis + 1)
    return {"maximum": maximum, "mass": mass}


def coarser_states(states: Array) -> Array:
    """[heads, rows] of planes that :func:`coarser` made: of two rows NaN or infinity wins, then probabilities."""
    cells = states.shape[1]
    if cells <= 8 or cells % 2:
        return states
    pairs = states.reshape(len(states), cells // 2, 2)
    least, most = pairs.min(2), pairs.max(2)
    result: Array = np.where((most == NOT_FINITE) | (least != PROBABILITIES), most, PROBABILITIES)
    return result


class _Axes:
    """Adds each axis to the header once."""

    def __init__(self, header: attention_pb2.AttentionOverviewHeader, finder: AxisFinder, example: int) -> None:
        self._header, self._finder, self._example = header, finder, example
        self._numbers: dict[bytes, int] = {}

    def number(self, axis: attention_pb2.TokenAxis) -> int:
        key = axis.SerializeToString(deterministic=True)
        if key not in self._numbers:
            self._numbers[key] = len(self._header.axes)
            self._header.axes.append(axis)
        return self._numbers[key]

    def of(self, made: AttentionMap, length: int) -> int:
        if made.relation == "channel":
            return self.number(attention_pb2.TokenAxis(kind="channels", length=length))
        if made.grid is not None:
            return self.number(self._finder.image_axis(made.grid))
        if made.window is not None:
            height, width = made.window
            return self.number(
                attention_pb2.TokenAxis(kind="window", length=length, grid_height=height, grid_width=width)
            )
        return self.number(self._finder.axis(length, made.module_path, self._example))


def _layer(
    header: attention_pb2.AttentionOverviewHeader, made: AttentionMap, axes: _Axes
) -> attention_pb2.AttentionLayer:
    return header.layers.add(
        module_path=made.module_path,
        call_ordinal=made.call_ordinal,
        ordinal=made.ordinal,
        key_heads=made.key_heads,
        query_length=made.query_length,
        key_length=made.key_length,
        relation=made.relation,
        route=made.route,
        kernel=made.kernel,
        dtype=made.dtype,
        mask=made.mask,
        query_axis=axes.of(made, made.query_length),
        key_axis=axes.of(made, made.key_length),
        exactness=made.exactness,
    )
