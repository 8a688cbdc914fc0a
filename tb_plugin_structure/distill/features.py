"""Features of a model while it runs: forward hooks at module paths, which call and which element of the output."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tb_plugin_structure.distill.adapters import element_of

_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


class Point(NamedTuple):
    """Where to read: a module path ("" for the model), an element of its output, and which call of a forward pass."""

    path: str
    element: str = ""
    call: int = 0


class FeatureRecorder:
    """Keeps the outputs of chosen modules during forward passes.

    >>> with FeatureRecorder(model, [Point("layer1"), Point("encoder", "last_hidden_state")]) as features:
    ...     model(images)
    ...     features[Point("layer1")].shape

    Hooks are set when the context is entered and taken off when it is left. A new forward pass of the model replaces
    what the one before left. Wrappers (``DistributedDataParallel``, ``torch.compile``) are looked through.

    Raises:
        KeyError: When the model has no module at a path; the message names the nearest ones.
    """

    def __init__(self, model: nn.Module, points: Iterable[Point], *, detach: bool = False) -> None:
        self.model = unwrapped(model)
        self.points = list(dict.fromkeys(points))
        self.detach = detach
        self._modules = {point.path: module_at(self.model, point.path) for point in self.points}
        self._values: dict[Point, Tensor] = {}
        self._calls: dict[str, int] = {}
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> FeatureRecorder:
        self._handles.append(self.model.register_forward_pre_hook(self._begin))
        for path, module in self._modules.items():
            self._handles.append(module.register_forward_hook(self._hook(path)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._values.clear()

    def _begin(self, module: nn.Module, inputs: Any) -> None:
        self._values.clear()
        self._calls.clear()

    def _hook(self, path: str) -> Any:
        wanted = [point for point in self.points if point.path == path]

        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            call = self._calls.get(path, 0)
            self._calls[path] = call + 1
            for point in wanted:
                if point.call == call:
                    value = element_of(output, point.element)
                    self._values[point] = value.detach() if self.detach else value

        return hook

    def __getitem__(self, point: Point) -> Tensor:
        """The recorded feature. Raises LookupError when its module did not run in the last forward pass."""
        try:
            return self._values[point]
        except KeyError:
            calls = self._calls.get(point.path, 0)
            raise LookupError(
                f"{point.path or 'the model'!r} was called {calls} times in the last forward pass, so there is no call "
                f"{point.call}; run the model inside the plan's context, and check that this module is used"
            ) from None


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside wrappers that hold exactly one module under a known name."""
    while True:
        inner = next((model._modules[name] for name in _WRAPPED if list(model._modules) == [name]), None)
        if inner is None or not type(model).__module__.startswith("torch."):
            return model
        model = inner


def module_at(model: nn.Module, path: str) -> nn.Module:
    """The module at a path. Raises KeyError with the nearest paths when there is none."""
    try:
        return model.get_submodule(path)
    except AttributeError:
        paths = [name for name, _ in model.named_modules()]
        near = difflib.get_close_matches(path, paths, 3)
        raise KeyError(f"{type(model).__name__} has no module {path!r}; nearest: {', '.join(near) or 'none'}") from None
