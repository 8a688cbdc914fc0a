"""What ``print(structure)`` and ``structure.to_text()`` show."""

from __future__ import annotations

import difflib

import pytest
import torch
from torch import Tensor, nn

from tb_plugin_structure import capture
from tb_plugin_structure.capture import CaptureFailed
from tb_plugin_structure.records.structure import Structure


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.fc(x)


class Net(nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        output: Tensor = self.head(x)
        return output


TREE = """\
module                          output  parameters  MACs
net  Net                        5×2             68   280
  blocks.0 … blocks.2  Block ×3  5×4             20    80
    fc  Linear                  5×4             20    80
  head  Linear                  5×2              8    40

68 parameters (68 trainable), 272 bytes; buffers 0 bytes
280 MACs
520 bytes of activations; 7 operators"""

TEXT = """\
model Net, training
input 0: float32[5, 4]
parameter blocks.0.fc.weight: float32[4×4]
parameter blocks.0.fc.bias: float32[4]
parameter head.weight: float32[2×4]
call (model): Net()
  call blocks.0: Block()
    call blocks.0.fc: Linear(in_features=4, out_features=4)
      linear: blocks.0.fc.weight, blocks.0.fc.bias, 0 -> float32[5×4]
    +: 0, blocks.0.fc -> float32[5×4]
  call head: Linear(in_features=4, out_features=2)
    linear: head.weight, blocks.0 -> float32[5×2]
"""


def recorded(blocks: int, **options: object) -> Structure:
    return capture(Net(blocks), (torch.ones(5, 4),), name="net", **options)  # type: ignore[arg-type]


def test_the_tree_folds_blocks_that_are_alike() -> None:
    lines = [" ".join(line.split()) for line in str(recorded(3)).splitlines()]
    assert lines == [" ".join(line.split()) for line in TREE.splitlines()]


def test_the_tree_shows_sizes_as_expressions() -> None:
    assert "B×2" in str(recorded(1, symbolic={"x": ("B", 4)}))


def test_a_pass_that_failed_is_shown_up_to_where_it_failed() -> None:
    with pytest.raises(CaptureFailed) as raised:
        capture(Net(), (torch.ones(5, 3),))
    assert raised.value.structure is not None
    assert "stopped by RuntimeError: mat1 and mat2" in str(raised.value.structure)
    assert "stopped by RuntimeError\n" in raised.value.structure.to_text()


def test_the_text_is_canonical() -> None:
    assert recorded(1).to_text() == TEXT
    assert Structure.decode(recorded(1).encode()).to_text() == TEXT


def test_a_further_block_changes_its_own_lines_and_those_of_its_reader() -> None:
    changed = [
        line
        for line in difflib.unified_diff(
            recorded(2).to_text().splitlines(), recorded(3).to_text().splitlines(), n=0, lineterm=""
        )
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert [line for line in changed if "blocks.2" not in line] == [
        "-    linear: head.weight, blocks.1 -> float32[5×2]"
    ]
