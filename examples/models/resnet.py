"""Residual networks for images (He et al., "Deep Residual Learning for Image Recognition", 2015, table 1).

Modules carry the names that people know from pretrained checkpoints (`layer1.0.conv1`, `downsample.0`, `fc`), and
parameters are as many: 11,689,512 in ResNet-18, 25,557,032 in ResNet-50.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


def convolution(channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size at stride 1; without bias, since BatchNorm follows."""
    return nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=kernel // 2, bias=False)


def shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Sequential | None:
    """What brings a block's input to the shape of its output; None when they agree already."""
    if stride == 1 and channels_in == channels_out:
        return None
    return nn.Sequential(convolution(channels_in, channels_out, 1, stride), nn.BatchNorm2d(channels_out))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions (ResNet-18, ResNet-34): [N, C, H, W] -> [N, width, H / stride, W / stride]."""

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(channels_in, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(channels_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3, 1x1 to four times the width: [N, C, H, W] -> [N, 4 width, H / stride, W / stride].

    The stride sits in the 3x3 convolution.
    """

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(channels_in, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = convolution(width, width * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(channels_in, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """[N, 3, H, W] -> logits [N, classes].

    `depths` holds the number of blocks in each of the four stages, whose widths are 64, 128, 256 and 512.
    """

    def __init__(self, block: type[BasicBlock | Bottleneck], depths: Sequence[int], classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = convolution(3, 64, 7, stride=2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = 64
        for number, depth in enumerate(depths, start=1):
            width = 32 * 2**number
            blocks: list[nn.Module] = []
            for position in range(depth):
                stride = 2 if number > 1 and position == 0 else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.expansion
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18() -> ResNet:
    return ResNet(BasicBlock, (2, 2, 2, 2))


def resnet50() -> ResNet:
    return ResNet(Bottleneck, (3, 4, 6, 3))
