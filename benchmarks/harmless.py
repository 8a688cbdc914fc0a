"""Do models of torchvision and timm run bit for bit the same while they are recorded?

    python -m benchmarks.harmless                     # every family, one model each
    python -m benchmarks.harmless --only resnet       # those whose name contains it

Each model runs one training step (forward, backward) from the same random state, once plainly and once observed.
Compared are outputs, gradients, buffers and the random state afterwards. Exit code 1 when one differs or a record is
incomplete.
Needs torchvision and timm; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture import observe
from tb_plugin_structure.capture.nested import named_tensors

TORCHVISION = (
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "googlenet",
    "inception_v3",
    "maxvit_t",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "swin_t",
    "swin_v2_t",
    "vgg11_bn",
    "vit_b_32",
    "fcn_resnet50",
    "deeplabv3_mobilenet_v3_large",
    "lraspp_mobilenet_v3_large",
    "r3d_18",
    "mvit_v1_b",
)
TIMM = (
    "beit_base_patch16_224",
    "cait_xxs24_224",
    "coat_lite_tiny",
    "convmixer_768_32",
    "crossvit_tiny_240",
    "cspresnet50",
    "deit_tiny_patch16_224",
    "dla34",
    "edgenext_xx_small",
    "eva02_tiny_patch14_224",
    "ghostnet_050",
    "hrnet_w18_small",
    "levit_128s",
    "mixer_s32_224",
    "mobilevit_xxs",
    "nfnet_f0",
    "pit_ti_224",
    "poolformer_s12",
    "pvt_v2_b0",
    "repvgg_a0",
    "resmlp_12_224",
    "rexnet_100",
    "selecsls42",
    "tnt_s_patch16_224",
    "xcit_nano_12_p16_224",
)
_SIZES = {"inception_v3": (3, 299, 299), "r3d_18": (3, 4, 32, 32), "mvit_v1_b": (3, 16, 224, 224)}
_SIZES |= dict.fromkeys(("maxvit_t", "vit_b_32"), (3, 224, 224))


def models(only: str) -> Iterator[tuple[str, str, Callable[[], tuple[nn.Module, Tensor]]]]:
    """(group, name, what makes the model and its input)."""
    import timm
    import torchvision

    for name in TORCHVISION:
        if only in name:
            size = _SIZES.get(name, (3, 64, 64))
            options = (
                {"weights": None, "weights_backbone": None} if name.startswith(("fcn", "deeplab", "lraspp")) else {}
            )

            def vision(name: str = name, size: Any = size, options: Any = options) -> tuple[nn.Module, Tensor]:
                return torchvision.models.get_model(name, **({"weights": None} | options)), torch.randn(2, *size)

            yield "torchvision", name, vision
    for name in TIMM:
        if only in name and name in timm.list_models():

            def image(name: str = name) -> tuple[nn.Module, Tensor]:
                model = timm.create_model(name, pretrained=False)
                return model, torch.randn(2, *model.default_cfg["input_size"])

            yield "timm", name, image


def step(model: nn.Module, images: Tensor) -> dict[str, list[bytes]]:
    """One training step; everything that it left, as bytes."""
    torch.manual_seed(1)
    output = model(images)
    tensors = [tensor for _, tensor in named_tensors(output) if tensor.requires_grad]
    torch.stack([tensor.float().square().mean() for tensor in tensors]).sum().backward()
    return {
        "outputs": _bytes(tensor for _, tensor in named_tensors(output)),
        "gradients": _bytes(p.grad for p in model.parameters() if p.grad is not None),
        "buffers": _bytes(model.buffers()),
        "random state": _bytes([torch.get_rng_state()]),
    }


def _bytes(tensors: Any) -> list[bytes]:
    return [tensor.detach().clone().contiguous().flatten().view(torch.uint8).numpy().tobytes() for tensor in tensors]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tried = different = 0
    for group, name, make in models(options.only):
        begun = time.monotonic()
        torch.manual_seed(0)
        model, images = make()
        model.train()
        twin = copy.deepcopy(model)
        plain = step(twin, images)
        with observe({"model": model}) as region:
            observed = step(model, images)
        wrong = [what for what in plain if plain[what] != observed[what]]
        wrong += [note for note in region.structures["model"].header.notes if "incomplete" in note]
        tried, different = tried + 1, different + bool(wrong)
        kernels = region.structures["model"].kernels.rows
        verdict = "the same" if not wrong else f"DIFFERENT: {', '.join(wrong)}"
        print(f"{group:<12} {name:<32} {kernels:>6,} kernels  {time.monotonic() - begun:5.1f} s  {verdict}", flush=True)
    print(f"{tried - different} of {tried} models ran bit for bit the same while they were recorded")
    return 1 if different or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
