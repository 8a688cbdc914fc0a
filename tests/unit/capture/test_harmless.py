"""Recording leaves no trace: outputs, gradients, buffers, random states, flags and hooks are bit for bit as without."""

from __future__ import annotations

import copy
import gc
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from tb_plugin_structure.capture import CaptureFailed, capture, observe
from tb_plugin_structure.capture.nested import named_tensors
from tests.unit.capture.models import TRANSFORMERS, ConvNet, tiny_transformer
from tests.unit.capture.test_replay import CASES


def contents(value: Any) -> list[bytes]:
    plain = [tensor.detach() for _, tensor in named_tensors(value)]
    plain = [tensor if tensor.layout is torch.strided else tensor.to_dense() for tensor in plain]
    return [tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() for tensor in plain]


def gradients(model: nn.Module) -> dict[str, bytes]:
    return {name: contents(p.grad)[0] for name, p in model.named_parameters() if p.grad is not None}


def hooks_of(model: nn.Module) -> list[Any]:
    return [
        (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), m.training) for m in model.modules()
    ] + [p._backward_hooks for p in model.parameters()]


def global_hooks() -> tuple[int, ...]:
    from torch.optim import optimizer

    return (
        len(torch_module._global_forward_hooks),
        len(torch_module._global_forward_pre_hooks),
        len(optimizer._global_optimizer_pre_hooks),
        len(optimizer._global_optimizer_post_hooks),
        _len_torch_dispatch_stack(),
    )


LAYERS: dict[str, Any] = {
    "lstm": lambda: (nn.LSTM(4, 4, 2, dropout=0.2), (torch.randn(3, 2, 4),)),
    "gru": lambda: (nn.GRU(4, 4), (torch.randn(3, 2, 4),)),
    "group_norm": lambda: (nn.GroupNorm(2, 4), (torch.randn(2, 4, 3),)),
    "instance_norm": lambda: (nn.InstanceNorm1d(4, track_running_stats=True), (torch.randn(2, 4, 3),)),
    "batch_norm": lambda: (nn.BatchNorm2d(3), (torch.randn(2, 3, 4, 4),)),
    "embedding_bag": lambda: (nn.EmbeddingBag(9, 4), (torch.randint(0, 9, (2, 3)),)),
    "conv_transpose": lambda: (nn.ConvTranspose2d(2, 3, 3), (torch.randn(1, 2, 4, 4),)),
    "bilinear": lambda: (nn.Bilinear(3, 3, 2), (torch.randn(2, 3), torch.randn(2, 3))),
    "multi_head_attention": lambda: (nn.MultiheadAttention(4, 2, 0.1), (torch.randn(3, 1, 4),) * 3),
    "transformer": lambda: (nn.Transformer(8, 2, 1, 1, 16), (torch.randn(3, 1, 8), torch.randn(2, 1, 8))),
    "encoder_fast_path": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval().requires_grad_(False),
        (torch.randn(2, 3, 8),),
    ),
    "rrelu": lambda: (nn.RReLU(), (torch.randn(4, 4),)),
    "spectral_norm": lambda: (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), (torch.randn(2, 4),)),
    "weight_norm": lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), (torch.randn(2, 4),)),
    "alpha_dropout": lambda: (nn.AlphaDropout(), (torch.randn(4, 4),)),
    "prelu": lambda: (nn.PReLU(), (torch.randn(4, 4),)),
    "embedding": lambda: (nn.Embedding(9, 4, max_norm=1.0), (torch.randint(0, 9, (2, 3)),)),
    "max_unpool": lambda: (nn.AdaptiveMaxPool2d(2), (torch.randn(1, 2, 5, 5),)),
}


def all_models() -> dict[str, Any]:
    made: dict[str, Any] = {f"layer {name}": (lambda make=make: (*make(), {})) for name, make in LAYERS.items()}
    made |= {f"trap {name}": make for name, make in CASES.items() if name not in TRANSFORMERS}
    made |= {f"transformers {kind}": (lambda kind=kind: tiny_transformer(kind)) for kind in TRANSFORMERS}
    return made


MODELS = all_models()


def interrupted(layer: nn.Module) -> None:
    layer(torch.randn(1, 2))
    raise KeyboardInterrupt


def train_step(model: nn.Module, args: Any, kwargs: Any) -> tuple[list[bytes], dict[str, bytes]]:
    output = model(*args, **kwargs)
    tensors = [t for _, t in named_tensors(output) if t.requires_grad and t.grad_fn is not None]
    if tensors:
        try:
            torch.stack([t.float().square().sum() for t in tensors]).sum().backward()
        except RuntimeError as error:  # a model that writes over what its own backward pass needs
            return contents(output), {"error": str(error).encode()}
    return contents(output), gradients(model)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_gradients_buffers_and_random_state_are_those_of_a_plain_run(name: str) -> None:
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]()
    twin = copy.deepcopy(model)
    twin_args, twin_kwargs = copy.deepcopy((args, kwargs))
    before = hooks_of(model), global_hooks()

    torch.manual_seed(1)
    plain = train_step(twin, twin_args, twin_kwargs)
    plain_state = torch.get_rng_state()
    torch.manual_seed(1)
    with observe({"model": model}) as region:
        observed = train_step(model, args, kwargs)
    assert observed == plain
    assert torch.equal(torch.get_rng_state(), plain_state)
    assert contents(dict(model.named_buffers())) == contents(dict(twin.named_buffers()))
    assert (hooks_of(model), global_hooks()) == before
    assert region.structures["model"].kernels.rows > 0


def test_there_are_at_least_forty_models() -> None:
    assert len(MODELS) >= 40


def test_capture_restores_buffers_and_random_states() -> None:
    model = nn.Sequential(ConvNet().train().stem, nn.BatchNorm2d(8), nn.Dropout()).train()
    buffers = contents(dict(model.named_buffers()))
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    versions = [buffer._version for buffer in model.eval().buffers()]
    capture(model, (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),))
    assert [buffer._version for buffer in model.buffers()] == versions
    model.train()
    capture(model, (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),))
    assert contents(dict(model.named_buffers())) == buffers
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]
    capture(model, (torch.randn(2, 3, 8, 8),), restore_state=False)
    assert contents(dict(model.named_buffers())) != buffers


def test_nothing_stays_registered_after_an_error() -> None:
    before = global_hooks()
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 2))
    for _ in range(2):
        with pytest.raises(CaptureFailed):
            capture(model, (torch.randn(1, 2),))
    with pytest.raises(KeyboardInterrupt), observe({"m": model}):
        interrupted(model[0])
    assert global_hooks() == before
    assert all(count == 0 for hooks in hooks_of(model)[:3] for count in hooks[:3])


def test_models_on_other_threads_are_not_recorded() -> None:
    mine, other = nn.Linear(4, 4), nn.Linear(4, 4)
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(10)
        other(torch.randn(2, 4))
        mine(torch.randn(2, 4))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    x = torch.randn(2, 4)
    with observe({"mine": mine, "other": other}) as region:
        mine(x)
        go.set()
        assert done.wait(10)
    thread.join()
    assert set(region.structures) == {"mine"}
    assert region.structures["mine"].module_calls.rows == 1
    assert region.outside is None


def test_recording_keeps_no_tensor_alive() -> None:
    kept: list[weakref.ref[Tensor]] = []

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            hidden = x * 2
            kept.append(weakref.ref(hidden))
            return hidden.detach() + 1

    with observe({"m": Model()}) as region:
        region._observed[0].table.model(torch.randn(3))
        assert kept[0]() is None
    model = Model()
    reference = weakref.ref(model)
    capture(model, (torch.randn(3),))
    del model
    gc.collect()
    assert reference() is None


def test_autocast_and_inference_mode_are_as_the_user_set_them() -> None:
    model = nn.Linear(4, 4)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        structure = capture(model, (torch.randn(2, 4),))
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")
    assert structure.header.provenance.grad_mode == "inference"
    assert structure.header.provenance.autocast == "bfloat16"
    assert structure.tensors.text("dtype", int(structure.module_calls.values("outputs", 0)[0])) == "bfloat16"


def test_weights_can_still_be_resized() -> None:
    """As FSDP does; memory that numpy has looked at refuses."""
    model = nn.Linear(8, 8)
    capture(model, (torch.randn(2, 8),))
    assert all(parameter.untyped_storage().resizable() for parameter in model.parameters())
