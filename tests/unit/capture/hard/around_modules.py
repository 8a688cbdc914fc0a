"""Modules with something around them: hooks, parametrizations, adapters, compilers, threads; as small as they get."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from tests.unit.capture.hard.registry import Case, Two, hard, x


@hard
def hooks_that_change_values() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU())
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model[1].register_forward_hook(lambda module, args, output: output + args[0])
    model[2].register_forward_hook(lambda module, args, kwargs, output: (output, output * 2), with_kwargs=True)
    model[0].register_full_backward_hook(lambda module, before, after: None)
    return model, x(), {}


@hard
def parametrized_layers() -> Case:
    class Symmetric(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.triu() + weight.triu(1).T

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            parametrize.register_parametrization(self.a, "weight", Symmetric())
            parametrizations.weight_norm(self.b)
            self.c = parametrizations.orthogonal(nn.Linear(4, 4))
            self.d = parametrizations.spectral_norm(nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            with parametrize.cached():
                x = self.a(self.a(x))
            return self.d(self.c(self.b(x)))

    return Model().train(), x(), {}


@hard
def low_rank_adapters() -> Case:
    class Adapter(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base_layer = base.requires_grad_(False)
            self.lora_A = nn.ModuleDict({"default": nn.Linear(4, 2, bias=False)})
            self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 4, bias=False)})
            self.active = ["default"]

        def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            result = self.base_layer(x, *args, **kwargs)
            for name in self.active:
                result = result + self.lora_B[name](self.lora_A[name](x)) * 0.5
            return result

    return nn.Sequential(Adapter(nn.Linear(4, 4)), nn.ReLU(), Adapter(nn.Linear(4, 4))), x(), {}


@hard
def lazy_layers() -> Case:
    model = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    model(torch.randn(3, 4))
    return model.train(), x(), {}


@hard
def compiled_part_and_scripted_part() -> Case:
    @torch.jit.script
    def gelu_like(value: Tensor) -> Tensor:
        return value * torch.sigmoid(1.702 * value)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.compiled = torch.compile(nn.Linear(4, 4), backend="eager")
            self.scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))

        def forward(self, x: Tensor) -> Tensor:
            return self.scripted(self.compiled(gelu_like(self.a(x))))

    return Model().requires_grad_(False), x(), {}


@hard
def scripted_model() -> Case:
    return torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.1)).train()), x(), {}


@hard
def quantisation_aware_training() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).train()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")  # its observers grow their buffers
    return torch.ao.quantization.prepare_qat(model), x(), {}


@hard
def exported_and_traced_modules() -> Case:
    import torch.fx

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.exported = torch.export.export(plain, (torch.randn(3, 4),)).module()
            self.symbolic = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))

        def forward(self, x: Tensor) -> Tensor:
            return self.symbolic(self.exported(x))

    return Model(), x(), {}


@hard
def modules_made_while_running() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            if not hasattr(self, "late"):
                self.late = nn.Linear(4, 4)
            unregistered = [nn.Softmax(-1)]
            return unregistered[0](self.late(self.a(x)))

    return Model(), x(), {}


@hard
def other_threads() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with ThreadPoolExecutor(1) as pool:
                elsewhere = pool.submit(lambda: (self.b(x.detach()).detach(), threading.get_ident())).result()
            return self.a(x) + elsewhere[0]

    return Model(), x(), {}


@hard
def encoder_on_its_fast_path_with_padding() -> Case:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    model = nn.TransformerEncoder(layer, 2).eval().requires_grad_(False)
    return model, (torch.randn(2, 3, 4),), {"src_key_padding_mask": mask}


@hard
def two_hundred_layers_deep() -> Case:
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(200):
        model = nn.Sequential(model)
    return model, x(), {}


@hard
def two_thousand_layers() -> Case:
    return nn.Sequential(*[nn.Identity() if k % 10 else nn.Linear(4, 4) for k in range(2000)]), x(), {}
