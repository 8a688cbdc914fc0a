"""Gives reference checks of attention capture the public API: ``capture(model, run)`` returns records with ``.probs``.

`run` calls the model once. A record's ``probs`` is a float32 tensor [batch, heads, queries, keys].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tb_plugin_structure import AttentionOptions, observe
from tb_plugin_structure.v1 import attention_pb2


@dataclass(eq=False)
class Record:
    """One attention, whole batch."""

    probs: torch.Tensor
    kind: str
    module: str
    note: str


def capture(model: torch.nn.Module, run: Callable[[], Any]) -> list[Record]:
    """Run once under observation and return every attention that was seen."""
    options = AttentionOptions(example="all", query_rows="all", keep_maps=True)
    with torch.no_grad(), observe({"model": model}, attention=options) as region:
        run()
    captured = region.attention["model"]
    for path, reason in captured.not_captured.items():
        print(f"    not captured: {path or 'the model'}: {reason}")
    records = []
    for made in captured.maps:
        route = attention_pb2.AttentionRoute.Name(made.route).removeprefix("ATTENTION_ROUTE_").lower()
        if made.probabilities is not None:
            note = f"{made.relation}; {made.exactness}"
            records.append(Record(torch.from_numpy(made.probabilities), route, made.module_path, note))
    return records
