"""Pictures of inputs, feature maps and kernels: what is in them, and that taking them changes nothing."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.integrations import StructureMonitor, pictures
from tests.support.read_summaries import pictures_in, structures_in


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.layer1 = nn.Sequential(nn.Conv2d(6, 5, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(5, 4, 1))
        self.head = nn.Linear(4, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer1(self.stem(images)).mean((2, 3)))


def decoded(data: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)))


def test_png_is_read_back_pixel_by_pixel_by_another_decoder() -> None:
    pytest.importorskip("PIL")
    picture = torch.randint(256, (7, 13, 3), dtype=torch.uint8)
    np.testing.assert_array_equal(decoded(pictures.png(picture)), picture.numpy())


def test_inputs_keep_their_colours_and_stand_side_by_side() -> None:
    images = torch.zeros(3, 3, 32, 32)
    images[0, 0] = 1.0  # red
    images[1, 2] = 5.0  # blue, on another scale
    picture = pictures.of_inputs(images, samples=2)
    assert picture.shape == (32, 65, 3)
    assert picture[0, 0].tolist() == [255, 0, 0]
    assert picture[0, 32].tolist() == [0, 0, 0]  # between the two
    assert picture[0, 33].tolist() == [0, 0, 255]


def test_the_maximum_is_over_channels_and_small_maps_are_enlarged() -> None:
    maps = torch.zeros(1, 2, 2, 2)
    maps[0, 0, 0, 0] = 4.0
    maps[0, 1, 1, 1] = 2.0
    picture = pictures.of_maximum(maps, samples=1)
    assert picture.shape == (24, 24, 3)
    assert [picture[y, x, 0].item() for y, x in ((0, 0), (0, 23), (23, 0), (23, 23))] == [255, 0, 0, 128]


def test_channel_slices_are_a_row_a_sample_and_evenly_spaced() -> None:
    maps = torch.arange(9.0).reshape(1, 9, 1, 1).expand(2, 9, 32, 32).clone()
    maps[:, :, 0, 0] = -1.0  # a black corner, so that each map has a range
    picture = pictures.of_channels(maps, samples=2, channels=3)
    assert picture.shape == (65, 98, 3)
    assert picture[0, 0].tolist() == [0, 0, 0]
    assert picture[1, 1].tolist() == [255, 255, 255]


def test_kernels_of_three_channels_are_shown_in_their_colours_around_grey() -> None:
    weight = torch.zeros(4, 3, 2, 2)
    weight[0, 0] = 1.0
    weight[3, 1] = -1.0
    picture = pictures.of_kernels(weight)
    assert picture.shape == (49, 49, 3)
    assert picture[0, 0].tolist() == [255, 128, 128]
    assert picture[0, 25].tolist() == [128, 128, 128]
    assert picture[48, 48].tolist() == [128, 0, 128]


def test_kernels_of_many_channels_show_the_directions_in_which_they_vary() -> None:
    # All columns lie on one line in ten dimensions: the first direction (red) is that line, the others are empty.
    line = torch.nn.functional.normalize(torch.arange(1.0, 11.0), dim=0)
    amounts = torch.tensor([[-1.0, 1.0]]).reshape(2, 1, 1, 1)
    picture = pictures.of_kernels(amounts * line.reshape(1, 10, 1, 1).expand(2, 10, 3, 3))
    assert picture[0, 0].tolist() == [0, 128, 128]
    assert picture[0, 25].tolist() == [255, 128, 128]


def train(folder: Path, *, steps: int = 3, **options: object) -> tuple[nn.Module, list[float]]:
    torch.manual_seed(0)
    teacher, student = Small().eval().requires_grad_(False), Small()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    losses = []
    with StructureWriter(folder) as writer:
        with StructureMonitor(
            writer,
            {"teacher": teacher, "student": student},
            optimizer=optimizer,
            every=1,
            **options,  # type: ignore[arg-type]
        ) as monitor:
            for _ in range(steps):
                images = torch.randn(4, 3, 32, 32)
                with monitor.observe():
                    loss = (student(images) - teacher(images)).square().mean()
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                monitor.step(loss)
                losses.append(loss.item())
    return student, losses


def test_a_monitored_training_writes_pictures_at_their_steps(tmp_path: Path) -> None:
    train(tmp_path, pictures_every=2, record_every=0)
    found = pictures_in(tmp_path)
    assert {tag: sorted(steps) for tag, steps in found.items()} == {
        f"{tag}": [0, 2]
        for name in ("teacher", "student")
        for tag in (
            f"inputs/{name}",
            f"kernels/{name}/stem",
            f"kernels/{name}/layer1.0",
            *(
                f"feature_maps/{name}/{path}/{kind}"
                for path in ("stem", "layer1.0", "layer1.2")
                for kind in ("maximum", "channels")
            ),
        )
    }
    height, width, data = found["feature_maps/student/stem/channels"][0]
    assert (height, width) == (2 * 32 + 1, 6 * 32 + 5)  # two samples, all six channels
    assert data.startswith(b"\x89PNG")


def test_pictures_change_neither_the_training_nor_the_record_of_the_same_step(tmp_path: Path) -> None:
    with_pictures, losses = train(tmp_path / "on", pictures_every=1, record_every=1)
    without, others = train(tmp_path / "off", pictures_every=0, record_every=1)
    assert losses == others
    for mine, other in zip(with_pictures.parameters(), without.parameters(), strict=True):
        assert torch.equal(mine, other)
    hashes = [
        {tag: structure.header.structure_hash for tag, structure in structures_in(tmp_path / name).items()}
        for name in ("on", "off")
    ]
    assert hashes[0] == hashes[1] != {}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in with_pictures.modules())


def test_models_without_images_give_no_pictures(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with StructureWriter(tmp_path) as writer, StructureMonitor(writer, {"m": model}, every=1) as monitor:
        with monitor.observe():
            model(torch.randn(3, 2)).sum().backward()
        monitor.step()
    assert pictures_in(tmp_path) == {}
