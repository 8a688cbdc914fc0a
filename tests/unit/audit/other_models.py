"""Small models of further kinds: volumes, signals, graphs, grouped queries, tags from recurrent layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from .small_models import Made


class Volume(nn.Module):
    """Blocks of 3-D convolutions, each of which halves depth, height and width."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *[
                nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.BatchNorm3d(b), nn.ReLU(), nn.MaxPool3d(2))
                for a, b in pairwise((3, *widths))
            ]
        )
        self.head = nn.Linear(widths[-1], 5)

    def forward(self, video: Tensor) -> Any:
        return self.head(self.blocks(video).mean((2, 3, 4)))


class Temporal(nn.Module):
    """Blocks of strided 1-D convolutions, pooled at the end."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *[
                nn.Sequential(nn.Conv1d(a, b, 3, stride=2, padding=1), nn.BatchNorm1d(b), nn.ReLU())
                for a, b in pairwise((8, *widths))
            ]
        )
        self.pool, self.head = nn.AdaptiveAvgPool1d(1), nn.Linear(widths[-1], 4)

    def forward(self, signal: Tensor) -> Any:
        return self.head(self.pool(self.blocks(signal)).flatten(1))


class GraphLayer(nn.Module):
    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        return torch.relu(adjacency @ self.linear(nodes))


class GraphNetwork(nn.Module):
    """Graph convolutions over a dense adjacency matrix."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GraphLayer(a, b) for a, b in pairwise((16, *widths)))
        self.head = nn.Linear(widths[-1], 5)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Any:
        for layer in self.layers:
            nodes = layer(nodes, adjacency)
        return self.head(nodes)


class Tagger(nn.Module):
    """A tag for each token, from an LSTM in both directions or a GRU that takes tokens first."""

    def __init__(self, width: int, recurrent: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(99, width)
        self.batch_first = recurrent == "LSTM"
        self.recurrent: nn.Module = (
            nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
            if self.batch_first
            else nn.GRU(width, 2 * width)
        )
        self.head = nn.Linear(2 * width, 7)

    def forward(self, input_ids: Tensor) -> Any:
        x = self.embed(input_ids)
        x = self.recurrent(x)[0] if self.batch_first else self.recurrent(x.transpose(0, 1))[0].transpose(0, 1)
        return self.head(x)


def _video(batch: int) -> dict[str, Any]:
    return {"video": torch.randn(batch, 3, 8, 16, 16)}


def _signal(batch: int) -> dict[str, Any]:
    return {"signal": torch.randn(batch, 8, 64)}


def _graph(batch: int) -> dict[str, Any]:
    return {"nodes": torch.randn(batch, 10, 16), "adjacency": torch.softmax(torch.randn(batch, 10, 10), -1)}


def _ids(batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(5, 90, (batch, 12))}


def _language(width: int, layers: int, heads: int) -> nn.Module:
    """Queries and keys are normalised as [batch, tokens, heads, head_dim]."""
    config = transformers.Qwen3Config(
        vocab_size=99, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=2,
        head_dim=8, intermediate_size=2 * width, attn_implementation="eager",
    )  # fmt: skip
    return transformers.Qwen3ForCausalLM(config)


def other_models() -> dict[str, Made]:
    """All of them, in evaluation mode, weights from the current random state."""
    made: dict[str, Made] = {
        "volume": (Volume(16, 32, 64), _video),
        "volume_small": (Volume(8, 16), _video),
        "temporal": (Temporal(32, 64, 128), _signal),
        "temporal_small": (Temporal(16, 32), _signal),
        "graph": (GraphNetwork(64, 64, 64), _graph),
        "graph_small": (GraphNetwork(24, 24), _graph),
        "tagger": (Tagger(24, "LSTM"), _ids),
        "tagger_gru": (Tagger(12, "GRU"), _ids),
        "qwen": (_language(32, 4, 4), _ids),
        "qwen_small": (_language(24, 2, 2), _ids),
    }
    for model, _ in made.values():
        model.eval()
    return made
