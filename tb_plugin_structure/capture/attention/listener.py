"""Listens to the kernels of a recorded region and keeps what they say about attention.

The listener sees every kernel before and after it runs. It replaces nothing: not an argument, not a result, not a
module; a failure in here is written down as a reason and the user's pass goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from tb_plugin_structure.capture.attention import explicit, interface, maps, probe
from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.attention.call import Call, dtype_of, has_values
from tb_plugin_structure.capture.attention.fused_route import FusedRoute
from tb_plugin_structure.capture.attention.kernels import FusedArguments, attention_kernel, mask_words
from tb_plugin_structure.capture.attention.model_attention import ModelAttention
from tb_plugin_structure.capture.attention.options import AttentionOptions
from tb_plugin_structure.capture.attention.result import AttentionCapture
from tb_plugin_structure.capture.attention.softmax_route import SoftmaxRoute
from tb_plugin_structure.capture.attention.sources import MatrixSource, QueryKeySource, Source
from tb_plugin_structure.capture.kernels import VIEW, facts_of
from tb_plugin_structure.capture.sharding import distributed_tensor_class, local_parts

__all__ = ["AttentionListener", "attention_kernel"]

_in_backward = torch._C._current_graph_task_id
_VIEW = "view"
_CONVOLUTIONS = ("aten::convolution", "aten::conv2d", "aten::conv1d", "aten::_convolution")


_Handlers = tuple[Callable[..., None] | None, Callable[..., None] | None, str, Any]
"""What to call before and after an operator, its name, and the operator itself: ids are of what is alive."""


class AttentionListener:
    """Attach to an observer; read :attr:`captures` after :meth:`close`.

    Args:
        models: Name -> model, as given to ``observe``.
        options: What to record.
        tokens: Model name -> labels of its positions.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        options: AttentionOptions | None = None,
        tokens: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options or AttentionOptions()
        self.captures: dict[str, AttentionCapture] = {}
        self._models = {
            name: ModelAttention(name, model, self.options, (tokens or {}).get(name)) for name, model in models.items()
        }
        self._fused = FusedRoute(self._models, self.options)
        self._softmax = SoftmaxRoute(self._models, self.options)
        self._handlers: dict[int, _Handlers] = {}
        self._call: Any = None
        self._model: ModelAttention | None = None
        self._interface = interface.InterfaceListener(self) if self.options.interface else None
        self._distributed = distributed_tensor_class()

    # ---- region

    def open(self) -> None:
        """Begin to listen to what is not a kernel: ``log_attention`` and transformers' attention interface."""
        explicit.opened(self)
        if self._interface is not None:
            self._interface.open([model.facts for model in self._models.values()])

    def close(self) -> None:
        """Stop listening and put together what was captured."""
        explicit.closed(self)
        if self._interface is not None:
            self._interface.close()
        for name, model in self._models.items():
            self.captures[name] = model.finish()
        self._call = self._model = None

    # ---- kernels

    def before_kernel(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], call: Any) -> None:
        """A kernel is about to run in `call` (``model``, ``module_path``, ``ordinal``, ``module``)."""
        if call is not self._call:
            model = self._models.get(call.model) if call is not None else None
            if model is None:
                return
            self._call, self._model = call, model
            model.ran.add(call.module_path)
        handler, _, name, _ = self._handlers.get(id(func)) or self._handler(func)
        if handler is not None and _in_backward() == -1:
            try:
                with aside():
                    # Heads that lie on other ranks are not asked for: only one rank may be recording.
                    handler(func, name, local_parts(args), local_parts(kwargs), call)
            except Exception as error:
                self._failed(call, error)

    def after_kernel(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, call: Any) -> None:
        """The kernel has run and gave `result`."""
        _, handler, name, _ = self._handlers.get(id(func)) or self._handler(func)
        if handler is None or call is None or call.model not in self._models or _in_backward() != -1:
            return
        try:
            if self._distributed is not None and name != _VIEW and _has(self._distributed, args):
                args, kwargs, result = local_parts(args), local_parts(kwargs), local_parts(result)
            handler(func, name, args, kwargs, result, call)
        except Exception as error:
            self._failed(call, error)

    def _failed(self, call: Any, error: Exception) -> None:
        """A failure in here must not end the user's pass: it becomes a reason."""
        words = f"reading it failed ({type(error).__name__}: {str(error)[:160]})"
        self._models[call.model].reason(call.module_path, words)

    def _handler(self, func: Any) -> _Handlers:
        schema = getattr(func, "_schema", None)
        name = schema.name if schema is not None else str(getattr(func, "__name__", func))
        before = self._fused.handler(func, name)
        after: Callable[..., None] | None = self._softmax.after_kernel
        if before is not None or schema is None:
            after = None
        elif _is_view(func):
            after, name = self._softmax.after_view, _VIEW
        elif name in _CONVOLUTIONS:
            after = self._convolution
        elif name == "aten::embedding":
            after = self._embedding
        elif probe.takes_query_key_value(func):
            after = self._fused.unknown_kernel
        known = self._handlers[id(func)] = (before, after, name, func)
        return known

    def _convolution(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        if isinstance(result, torch.Tensor) and isinstance(args[0], torch.Tensor):
            self._models[call.model].axes.after_convolution(args[0], result)
            self._softmax.after_kernel(func, name, args, kwargs, result, call)

    def _embedding(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        labels = self._models[call.model].axes.labels
        if labels.wants_numbers and has_values(args[1]):
            with aside():
                labels.looked_up(call.module_path, int(args[0].shape[0]), args[1])

    # ---- other ways in

    def interface_call(self, module: nn.Module, arguments: FusedArguments, kernel: str) -> None:
        """transformers' interface computed an attention of which no kernel was seen."""
        for name, model in self._models.items():
            path = model.facts.path_of(module)
            if path is not None:
                ordinal = model.ordinals[path, -1]
                model.ordinals[path, -1] += 1
                call = Call(name, path, ordinal, module)
                try:
                    with aside():
                        self._fused.record(arguments, call, kernel, maps.INTERFACE)
                except Exception as error:
                    self._failed(call, error)
                return

    def maps_of(self, module: nn.Module) -> int:
        """How many attentions were captured so far in the model that `module` is part of."""
        for model in self._models.values():
            if model.facts.path_of(module) is not None:
                return len(model.maps)
        return 0

    def explicit(
        self,
        name: str,
        probabilities: torch.Tensor | None,
        query: torch.Tensor | None,
        key: torch.Tensor | None,
        mask: torch.Tensor | None,
        causal: bool,
        scale: float | None,
    ) -> None:
        """``log_attention`` was called."""
        model = self._model or next(iter(self._models.values()), None)
        if model is None or _in_backward() != -1:
            return
        here = self._call if self._call is not None else Call(model.name, "", 0, None)
        call = Call(model.name, f"{here.module_path}.{name}".lstrip("."), here.ordinal, here.module)
        try:
            with aside():
                self._record_explicit(model, here.module_path, call, probabilities, query, key, mask, causal, scale)
        except Exception as error:
            self._failed(call, error)

    def _record_explicit(
        self,
        model: ModelAttention,
        path: str,
        call: Any,
        probabilities: torch.Tensor | None,
        query: torch.Tensor | None,
        key: torch.Tensor | None,
        mask: torch.Tensor | None,
        causal: bool,
        scale: float | None,
    ) -> None:
        if probabilities is not None:
            shaped, _ = model.per_head(probabilities.detach(), None, path)
            source: Source = MatrixSource(shaped)
            dtype, words = dtype_of(probabilities), "unknown"
        else:
            assert query is not None
            assert key is not None
            fused = FusedArguments(query, key, mask=mask, causal="top_left" if causal else "", scale=scale)
            source, dtype, words = QueryKeySource(fused), dtype_of(query), mask_words(fused)
        made = model.new_map(source, call, "log_attention", maps.EXPLICIT, dtype, words)
        if made is not None:
            made.exactness = "as given" if probabilities is not None else "float32 from the given query and key"
            made.kept = True
            model.summarize_all(made, source)


@cache
def _is_view(func: Any) -> bool:
    """Whether an operator gives its argument's memory back and writes nothing: tags of storages hold on."""
    facts = facts_of(func)
    return facts.memory == VIEW and not facts.written_positions and not facts.written_names


def _has(kind: type, values: Sequence[Any]) -> bool:
    """Whether a tensor of this class is among the arguments, or in a list of them."""
    return any(
        isinstance(value, kind) or (isinstance(value, (list, tuple)) and any(isinstance(item, kind) for item in value))
        for value in values
    )
