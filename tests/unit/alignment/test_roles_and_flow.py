"""Parts are matched by what they are and where their data comes from, on recorded models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from tb_plugin_structure import Alignment, align, capture


def aligned(teacher: nn.Module, student: nn.Module, *inputs: Tensor) -> Alignment:
    torch.manual_seed(0)
    records = [capture(model.eval(), inputs, name=name) for model, name in ((teacher, "teacher"), (student, "student"))]
    return align(teacher=records[0], student=records[1])


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))).relu()


class Tower(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem, self.fc = nn.Conv2d(3, width, 3, 2, 1), nn.Linear(width, 8)
        self.body = nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


class TwoTowers(nn.Module):
    """Two images, each through a tower; `shared` uses one tower for both, `right_first` says which runs first."""

    def __init__(self, width: int, depth: int, *, shared: bool = False, right_first: bool = False) -> None:
        super().__init__()
        self.left = Tower(width, depth)
        self.right = self.left if shared else Tower(width, depth)
        self.head, self.right_first = nn.Linear(16, 2), right_first

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        if self.right_first:
            right, left = self.right(b), self.left(a)
        else:
            left, right = self.left(a), self.right(b)
        return self.head(torch.cat([left, right], 1))


IMAGES = torch.zeros(1, 3, 16, 16), torch.ones(1, 3, 16, 16)


def test_towers_that_run_in_another_order_are_paired_by_name() -> None:
    pairs = aligned(TwoTowers(16, 4), TwoTowers(8, 2, right_first=True), *IMAGES).module_pairs()
    for side in ("left", "right"):
        assert pairs[f"{side}.stem"] == [f"{side}.stem"]
        assert pairs[f"{side}.fc"] == [f"{side}.fc"]
        assert [pairs[f"{side}.body.{k}.conv2"] for k in (0, 1)] == [
            [f"{side}.body.0.conv2"],
            [f"{side}.body.3.conv2"],
        ]
    assert pairs["head"] == ["head"]


def test_a_shared_tower_is_paired_with_both_of_two_towers() -> None:
    pairs = aligned(TwoTowers(16, 3), TwoTowers(8, 3, shared=True), *IMAGES).module_pairs()
    assert pairs["left.stem"] == ["left.stem", "right.stem"]
    assert pairs["left.body.1.conv1"] == ["left.body.1.conv1", "right.body.1.conv1"]
    assert pairs["left.fc"] == ["left.fc", "right.fc"]


class Mixed(nn.Module):
    """Four parallel branches; `names` of the attributes, `order` in which they run (a branch left out does not)."""

    def __init__(self, width: int, names: Sequence[str], order: Sequence[int]) -> None:
        super().__init__()
        quarter = width // 4
        self.names, self.order = names, order

        def reduced(*layers: nn.Module) -> nn.Module:
            return nn.Sequential(nn.Conv2d(width, quarter, 1), nn.BatchNorm2d(quarter), nn.ReLU(), *layers)

        def three() -> nn.Module:
            return nn.Conv2d(quarter, quarter, 3, padding=1)

        branches = (
            nn.Conv2d(width, quarter if len(order) == 4 else 2 * quarter, 1),
            reduced(three()),
            reduced(three(), nn.ReLU(), three()),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(width, quarter, 1)),
        )
        for k in sorted(order):
            setattr(self, names[k], branches[k])

    def forward(self, x: Tensor) -> Tensor:
        made = {k: getattr(self, self.names[k])(x) for k in self.order}
        return torch.cat([made[k] for k in sorted(made)], 1)


class MixedNetwork(nn.Module):
    def __init__(self, width: int, depth: int, names: Sequence[str], order: Sequence[int]) -> None:
        super().__init__()
        self.stem, self.fc = nn.Conv2d(3, width, 3, 2, 1), nn.Linear(width, 5)
        self.mixed = nn.ModuleList(Mixed(width, names, order) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.mixed:
            x = block(x)
        return self.fc(x.mean((2, 3)))


BRANCHES = ("one", "three", "fives", "pool")


def test_branches_in_another_order_under_opaque_names_keep_their_layers() -> None:
    teacher = MixedNetwork(32, 6, BRANCHES, (0, 1, 2, 3))
    pairs = aligned(teacher, MixedNetwork(16, 3, ("a", "b", "c", "d"), (2, 0, 3, 1)), IMAGES[0]).module_pairs()
    for own, other in ((0, 0), (1, 2), (2, 5)):
        assert pairs[f"mixed.{own}.a"] == [f"mixed.{other}.one"]
        assert pairs[f"mixed.{own}.b.3"] == [f"mixed.{other}.three.3"]
        assert pairs[f"mixed.{own}.c.3"] == [f"mixed.{other}.fives.3"]
        assert pairs[f"mixed.{own}.c.5"] == [f"mixed.{other}.fives.5"]
        assert pairs[f"mixed.{own}.d.1"] == [f"mixed.{other}.pool.1"]


def test_a_dropped_branch_leaves_the_others_paired() -> None:
    teacher = MixedNetwork(32, 2, BRANCHES, (0, 1, 2, 3))
    pairs = aligned(teacher, MixedNetwork(32, 2, BRANCHES, (3, 1, 0)), IMAGES[0]).module_pairs()
    for block in ("mixed.0", "mixed.1"):
        for layer in ("one", "three.0", "three.3", "pool.1"):
            assert pairs[f"{block}.{layer}"] == [f"{block}.{layer}"]


class ConvAct(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(width, width, 3, padding=1), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.conv(x))


class Head(nn.Module):
    """A head that runs on every level; its convolutions are blocks of a list, or stand flat with norms between."""

    def __init__(self, width: int, *, flat: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += (
                [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU()] if flat else [ConvAct(width)]
            )
        self.tower, self.logits, self.boxes = nn.Sequential(*layers), nn.Conv2d(width, 5, 3), nn.Conv2d(width, 4, 3)

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        return [torch.cat([self.logits(y), self.boxes(y)], 1) for y in map(self.tower, levels)]


class Stage(nn.Sequential):
    def __init__(self, given: int, width: int, depth: int) -> None:
        super().__init__(nn.Conv2d(given, width, 3, 2, 1), *(Block(width) for _ in range(depth)))


class Backbone(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**k for k in range(3)]
        self.stages = nn.ModuleList(Stage(*pair, depth) for pair in zip([3, *widths], widths, strict=False))

    def forward(self, x: Tensor) -> list[Tensor]:
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        return levels


class Detector(nn.Module):
    def __init__(self, width: int, depth: int, *, flat: bool) -> None:
        super().__init__()
        self.backbone, self.head = Backbone(width, depth), Head(16, flat=flat)
        self.lateral = nn.ModuleList(nn.Conv2d(width * 2**k, 16, 1) for k in range(3))

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.head([layer(level) for layer, level in zip(self.lateral, self.backbone(x), strict=True)])


def test_a_detector_head_is_paired_with_the_head_however_it_is_built() -> None:
    alignment = aligned(Detector(16, 4, flat=True), Detector(8, 2, flat=False), torch.zeros(1, 3, 64, 64))
    pairs = alignment.module_pairs()
    assert pairs["head"] == ["head"]
    assert pairs["head.logits"] == ["head.logits"]
    assert pairs["head.boxes"] == ["head.boxes"]
    assert [pairs[f"head.tower.{k}.conv"] for k in range(3)] == [[f"head.tower.{3 * k}"] for k in range(3)]
    assert [pairs[f"lateral.{k}"] for k in range(3)] == [[f"lateral.{k}"] for k in range(3)]
    ends = [pairs[f"backbone.stages.{k}.2.conv2"] for k in range(3)]
    assert ends == [[f"backbone.stages.{k}.4.conv2"] for k in range(3)]


class SplitAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(nn.functional.scaled_dot_product_attention(self.q_proj(x), self.k_proj(x), self.v_proj(x)))


class Layer(nn.Module):
    def __init__(self, width: int, *, fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True) if fused else SplitAttention(width)
        self.fc1, self.fc2, self.fused = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), fused

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + (self.attn(y, y, y, need_weights=False)[0] if self.fused else self.attn(y))
        return x + self.fc2(self.fc1(self.norm2(x)).relu())


class Encoder(nn.Module):
    def __init__(self, depth: int, *, fused: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(Layer(16, fused=fused) for _ in range(depth))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def test_attention_in_one_call_is_paired_with_attention_in_four_projections() -> None:
    ids = torch.zeros(1, 6, dtype=torch.long)
    for teacher_fused in (True, False):
        teacher, student = Encoder(12, fused=teacher_fused), Encoder(3, fused=not teacher_fused)
        pairs = aligned(teacher, student, ids).module_pairs()
        assert [pairs[f"layers.{k}.attn"] for k in range(3)] == [
            ["layers.0.attn"],
            ["layers.6.attn"],
            ["layers.11.attn"],
        ]
        assert pairs["layers.1.fc2"] == ["layers.6.fc2"]


class Adapted(nn.Module):
    """A low-rank adapter beside its base layer."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.up(self.down(x))


def test_an_adapted_layer_at_the_end_of_a_block_is_paired_with_its_base() -> None:
    student = Encoder(6, fused=False)
    for layer in student.layers:
        layer.fc1, layer.fc2 = Adapted(layer.fc1), Adapted(layer.fc2)
    pairs = aligned(Encoder(6, fused=False), student, torch.zeros(1, 6, dtype=torch.long)).module_pairs()
    for k in range(6):
        for name in ("fc1", "fc2"):
            assert pairs[f"layers.{k}.{name}"] == [f"layers.{k}.{name}"]
            assert pairs[f"layers.{k}.{name}.base_layer"] == [f"layers.{k}.{name}"]
            assert f"layers.{k}.{name}.down" not in pairs
            assert f"layers.{k}.{name}.up" not in pairs


class _Encoder(nn.Module):
    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.encoder(self.embedding(tokens))
        return output


def test_a_frozen_teacher_that_runs_whole_layers_in_one_kernel_is_paired_with_a_training_student() -> None:
    tokens = torch.randint(50, (2, 7))
    teacher, student = _Encoder(6, 64).eval(), _Encoder(3, 32).train()
    with torch.no_grad():
        whole = capture(teacher, (tokens,))
    assert whole.module_row["encoder.layers.0.self_attn"] not in whole.calls_of_module
    pairs = align(teacher=whole, student=capture(student, (tokens,))).module_pairs()
    assert [pairs[f"encoder.layers.{block}"] for block in range(3)] == [
        ["encoder.layers.0"],
        ["encoder.layers.2"],
        ["encoder.layers.5"],
    ]


class UNet(nn.Module):
    """Down `depth` times, doubling the width, and up again past the skips."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.stem = self.part(3, width)
        self.down = nn.ModuleList(self.part(a, b) for a, b in pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.fuse = nn.ModuleList(self.part(2 * a, a) for a in widths[:-1])

    @staticmethod
    def part(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        x, skips = self.stem(x), []
        for down in self.down:
            skips.append(x)
            x = down(nn.functional.max_pool2d(x, 2))
        for up, fuse, skip in reversed(list(zip(self.up, self.fuse, skips, strict=True))):
            x = fuse(torch.cat([up(x), skip], 1))
        return x


def test_activations_stay_with_the_layers_of_their_block() -> None:
    """The deepest level of the teacher has no counterpart; its activation stands where the student's last one does."""
    pairs = aligned(UNet(8, 3), UNet(4, 2), torch.randn(1, 3, 16, 16)).module_pairs()
    for path in ("down.0", "down.0.2", "down.1", "down.1.0", "down.1.1", "down.1.2", "up.0", "up.1", "fuse.0.2"):
        assert pairs[path] == [path]


def test_the_edit_script_says_what_is_configured_otherwise_and_tells_alike_layers_together() -> None:
    class Network(nn.Module):
        def __init__(self, width: int, depth: int, kernel: int, bias: bool) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 1), nn.ReLU()
            )
            self.mix = nn.Conv2d(width, 8, kernel, padding=kernel // 2)
            self.read = nn.LSTM(8, 16, depth, batch_first=True)
            self.head = nn.Linear(16, 2, bias=bias)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.read(self.mix(self.stem(x)).flatten(2).transpose(1, 2))[0])

    alignment = aligned(Network(12, 3, 3, True), Network(6, 1, 5, False), torch.randn(1, 3, 6, 6))
    assert {edit.text for edit in alignment.edits} == {
        "stem: output 12×4×4 → 6×4×4 (5 layers)",
        "mix: kernel_size (3, 3) → (5, 5), padding (1, 1) → (2, 2)",
        "read: num_layers 3 → 1",
        "head: without bias",
    }
    assert alignment.summary().startswith("The student has the teacher's layers, 3 configured otherwise; ")


class Router(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, width))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight).softmax(-1)


class Experts(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width))
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width))
        self.act_fn = nn.SiLU()

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        each = self.act_fn(torch.einsum("btc,ecd->betd", x, self.up)) @ self.down
        return torch.einsum("betc,bte->btc", each, weights)


class Mixture(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.experts = Router(width, 4), Experts(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.experts(x, self.gate(x))


class Gated(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.act_fn, self.down_proj = nn.SiLU(), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, width: int, network: type[nn.Module]) -> None:
        super().__init__()
        self.mix, self.norm, self.mlp = nn.Linear(width, width), nn.LayerNorm(width), network(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(self.mix(x)))


class Decoder(nn.Module):
    def __init__(self, width: int, network: type[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.layers = nn.Sequential(*(DecoderLayer(width, network) for _ in range(3)))

    def forward(self, ids: Tensor) -> Tensor:
        return self.layers(self.embed(ids))


def test_a_mixture_of_experts_stands_where_the_dense_network_does() -> None:
    """The two are a pair by their place; the router that chooses experts is no projection that is called a gate."""
    alignment = aligned(Decoder(16, Mixture), Decoder(12, Gated), torch.arange(6)[None])
    pairs = alignment.module_pairs()
    assert pairs["layers.1.mlp"] == ["layers.1.mlp"]
    assert "layers.1.mlp.gate_proj" not in pairs or pairs["layers.1.mlp.gate_proj"] != ["layers.1.mlp.gate"]
