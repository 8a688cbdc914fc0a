"""Stages of a trunk, and blocks that are no chain of layers: dense connections, parallel resolutions, several kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from tb_plugin_structure import align, capture
from tb_plugin_structure.analysis.alignment.matching import Matcher
from tb_plugin_structure.analysis.alignment.named_parts import named_parts
from tb_plugin_structure.analysis.alignment.tree_building import build_tree


def _pairs(teacher: nn.Module, student: nn.Module, *inputs: Tensor) -> dict[str, list[str]]:
    with torch.no_grad():
        records = [capture(model.eval(), inputs, name=type(model).__name__) for model in (teacher, student)]
    return align(teacher=records[0], student=records[1]).module_pairs()


def _images(side: int = 16) -> Tensor:
    return torch.randn(1, 3, side, side)


class _Mixer(nn.Module):
    """A block on tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return mixed


class _Merging(nn.Module):
    """Half as many tokens."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        merged: Tensor = self.reduction(self.norm(x.unflatten(1, (-1, 2)).flatten(2)))
        return merged


class _Stage(nn.Module):
    def __init__(self, width: int, depth: int, merges: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([_Mixer(width) for _ in range(depth)])
        self.downsample = _Merging(width) if merges else None

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x if self.downsample is None else self.downsample(x)


class _Pyramid(nn.Module):
    """Stages of equal width that merge tokens at their end, all but the last, or not at all."""

    def __init__(self, width: int, depths: Sequence[int], merges: bool = True) -> None:
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.stages = nn.ModuleList(
            [_Stage(width, depth, merges and k < len(depths) - 1) for k, depth in enumerate(depths)]
        )
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for stage in self.stages:
            x = stage(x)
        logits: Tensor = self.head(x.mean(1))
        return logits


def _stages_of(pairs: dict[str, list[str]]) -> set[tuple[str, str]]:
    """(student's stage, teacher's stage) of all pairs that lie in stages."""
    numbers = [(path, other) for path, others in pairs.items() for other in others if path.startswith("stages.")]
    return {(path.split(".")[1], other.split(".")[1]) for path, other in numbers}


def test_the_last_two_stages_return_one_shape_and_are_no_stack_of_blocks() -> None:
    pairs = _pairs(_Pyramid(32, (2, 2, 8, 2)), _Pyramid(16, (2, 2, 2, 2)), torch.randn(1, 32, 4))
    assert _stages_of(pairs) == {(k, k) for k in "0123"}
    assert "stages.2.blocks.1.up" in pairs
    assert "stages.2.downsample.reduction" in pairs


def test_stages_of_unequal_depth_that_keep_the_shape_are_no_stack_of_blocks() -> None:
    pairs = _pairs(_Pyramid(32, (8, 8, 16, 4), False), _Pyramid(16, (2, 8, 2, 8), False), torch.randn(1, 8, 4))
    assert _stages_of(pairs) == {(k, k) for k in "0123"}


def test_stages_of_one_block_are_stages_where_the_teachers_have_several() -> None:
    pairs = _pairs(_Pyramid(32, (3, 2, 2)), _Pyramid(16, (1, 1, 1)), torch.randn(1, 32, 4))
    assert _stages_of(pairs) == {(k, k) for k in "012"}


class _Dense(nn.Module):
    """Widens what it takes by `growth` channels."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.narrow, self.spread = nn.Conv2d(width, 2 * growth, 1), nn.Conv2d(2 * growth, growth, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.spread(functional.relu(self.narrow(x)))], 1)


class _DenseNet(nn.Module):
    def __init__(self, growth: int, depths: Sequence[int]) -> None:
        super().__init__()
        width = 2 * growth
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.features = nn.Sequential()
        for stage, depth in enumerate(depths):
            for k in range(depth):
                self.features.add_module(f"stage{stage}_{k}", _Dense(width, growth))
                width += growth
            self.features.add_module(f"pool{stage}", nn.AvgPool2d(2))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(self.stem(x)).mean((2, 3)))
        return logits


def test_blocks_with_dense_connections_are_a_stack_though_each_is_wider_than_the_one_before() -> None:
    pairs = _pairs(_DenseNet(8, (4, 12, 6)), _DenseNet(4, (3, 4, 3)), _images())
    blocks = {path: others for path, others in pairs.items() if path.startswith("features.stage")}
    assert len(blocks) == 10 * 3
    for path, (other,) in blocks.items():
        assert re.sub(r"_\d+", "", path) == re.sub(r"_\d+", "", other)
    assert pairs["features.stage1_0"] == ["features.stage1_0"]
    assert pairs["features.stage1_3"] == ["features.stage1_11"]


class _Listed(nn.Module):
    """Reads the list of all that was returned before."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, growth, 1), nn.Conv2d(growth, growth, 3, padding=1)

    def forward(self, features: list[Tensor]) -> Tensor:
        grown: Tensor = self.second(functional.relu(self.first(torch.cat(features, 1))))
        return grown


class _ListedNet(nn.Module):
    def __init__(self, growth: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, growth, 3, padding=1)
        for k in range(depth):
            self.add_module(f"dense{k}", _Listed((k + 1) * growth, growth))
        self.depth = depth
        self.head = nn.Linear(growth, 3)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.stem(x)]
        for k in range(self.depth):
            features.append(self.get_submodule(f"dense{k}")(features))
        logits: Tensor = self.head(features[-1].mean((2, 3)))
        return logits


def test_blocks_that_read_all_that_came_before_do_not_run_side_by_side() -> None:
    pairs = _pairs(_ListedNet(8, 9), _ListedNet(4, 3), _images())
    assert [pairs[f"dense{k}.second"] for k in range(3)] == [["dense0.second"], ["dense4.second"], ["dense8.second"]]


def _residual(width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))


class _Exchange(nn.Module):
    """Blocks at two resolutions side by side, which then exchange."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.high = nn.ModuleList([_residual(width) for _ in range(depth)])
        self.low = nn.ModuleList([_residual(2 * width) for _ in range(depth)])
        self.down, self.up = nn.Conv2d(width, 2 * width, 3, 2, 1), nn.Conv2d(2 * width, width, 1)

    def forward(self, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
        for block in self.high:
            high = high + block(high)
        for block in self.low:
            low = low + block(low)
        return high + functional.interpolate(self.up(low), scale_factor=2), low + self.down(high)


class _Resolutions(nn.Module):
    def __init__(self, width: int, depth: int, modules: Sequence[int]) -> None:
        super().__init__()
        self.stem, self.lower = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.first, self.second = (nn.ModuleList([_Exchange(width, depth) for _ in range(count)]) for count in modules)
        self.between = nn.Conv2d(width, width, 1)
        self.head = nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.stem(x)
        low = self.lower(high)
        for module in self.first:
            high, low = module(high, low)
        high = self.between(high)
        for module in self.second:
            high, low = module(high, low)
        logits: Tensor = self.head(high)
        return logits


def test_one_module_of_parallel_resolutions_stands_for_several() -> None:
    pairs = _pairs(_Resolutions(16, 4, (1, 3)), _Resolutions(8, 2, (1, 1)), _images())
    for path, others in pairs.items():
        stage = path.split(".")[0]
        assert {other.split(".")[0] for other in others} == {stage}
        if path.count(".") > 1:
            assert {other.split(".")[2] for other in others} == {path.split(".")[2]}
    assert pairs["second.0.low.1.2"] == ["second.2.low.3.2"]


class _Shortcut(nn.Module):
    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, out, 3, stride, 1), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out)
        plain = width == out and stride == 1
        self.shortcut = None if plain else nn.Sequential(nn.Conv2d(width, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(out + (x if self.shortcut is None else self.shortcut(x)))


class _Trunk(nn.Module):
    def __init__(self, width: int, depths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        for stage, depth in enumerate(depths, 1):
            blocks = [_Shortcut(width, 2 * width, 2), *[_Shortcut(2 * width, 2 * width, 1) for _ in range(depth - 1)]]
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
            width *= 2
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for name, layer in self.named_children():
            x = layer(x) if name.startswith("layer") else x
        logits: Tensor = self.head(x.mean((2, 3)))
        return logits


def test_a_stage_of_one_block_ends_where_the_teachers_does_and_has_the_shortcut_of_its_begin() -> None:
    pairs = _pairs(_Trunk(16, (3, 4, 3)), _Trunk(8, (1, 1, 1)), _images(32))
    assert pairs["layer2"] == ["layer2"]
    assert pairs["layer2.0.bn2"] == ["layer2.3.bn2"]
    assert pairs["layer2.0.shortcut.0"] == ["layer2.0.shortcut.0"]
    assert pairs["layer2.0.shortcut.1"] == ["layer2.0.shortcut.1"]


def test_numbered_stages_divide_both_models_where_both_have_the_same_numbers() -> None:
    def stages(depths_t: Sequence[int], depths_s: Sequence[int]) -> list[tuple[str, str]]:
        trunks = _Trunk(16, depths_t), _Trunk(8, depths_s)
        teacher, student = (build_tree(capture(trunk.eval(), (_images(32),), name="trunk")) for trunk in trunks)
        matcher = Matcher(teacher, student)
        parts = named_parts(matcher.teacher, matcher.student, 0, 0)
        return [(teacher.path[part_t], student.path[part_s]) for part_t, part_s in parts]

    assert stages((2, 9, 2), (6, 2, 1)) == [(f"layer{k}", f"layer{k}") for k in (1, 2, 3)]
    assert stages((2, 9, 2, 2), (6, 2, 1)) == []


class _Tokens(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.act, self.proj = nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.proj(self.act(self.qkv(x)))
        return mixed


class _Channels(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.down(self.act(self.up(x)))
        return mixed


class _Added(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.inner(x)
        return added


def test_blocks_with_the_same_layers_are_told_apart_by_the_classes_that_both_models_have() -> None:
    def network(width: int, depth: int) -> nn.Module:
        blocks = [_Added(_Channels(width) if k % 2 else _Tokens(width)) for k in range(depth)]
        return nn.Sequential(nn.Linear(4, width), nn.Sequential(*blocks), nn.Linear(width, 3))

    pairs = _pairs(network(32, 8), network(16, 4), torch.randn(1, 6, 4))
    assert {int(path.split(".")[1]) % 2 for path in pairs if path.endswith("qkv")} == {0}
    for path, (other,) in pairs.items():
        if path.startswith("1."):
            assert int(path.split(".")[1]) % 2 == int(other.split(".")[1]) % 2


class _DenseBlock(nn.Module):
    """Named like a layer and with a gain of its own, but a block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.depthwise, self.mix = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = x + self.mix(functional.relu(self.depthwise(x))) * self.gain[:, None, None]
        return mixed


def test_a_block_with_a_gain_is_no_linear_layer_whatever_its_name() -> None:
    tree = build_tree(capture(nn.Sequential(_DenseBlock(8)).eval(), (torch.randn(1, 8, 6, 6),), name="dense"))
    assert [tree.kind[tree.path.index(path)] for path in ("0", "0.depthwise")] == ["block", "convolution"]


class _Overparametrised(nn.Module):
    """Parallel convolutions that are summed up; only some blocks have more than one."""

    def __init__(self, width: int, branches: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(branches)])
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor = self.norm(x + sum(branch(x) for branch in self.branches))
        return functional.relu(summed)


def test_blocks_with_fewer_branches_than_others_of_their_class_belong_to_the_stack() -> None:
    def network(width: int, branches: Sequence[int]) -> nn.Module:
        blocks = [_Overparametrised(width, count) for count in branches]
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.Sequential(*blocks), nn.Conv2d(width, 3, 1))

    pairs = _pairs(network(16, (1, 2, 1, 1, 1, 1)), network(8, (3, 3, 3)), _images())
    assert [pairs[f"1.{k}"] for k in range(3)] == [["1.0"], ["1.2"], ["1.5"]]
    assert [pairs[f"1.{k}.norm"] for k in range(3)] == [["1.0.norm"], ["1.2.norm"], ["1.5.norm"]]
