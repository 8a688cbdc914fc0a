"""Listens to the kernels of a recorded region and keeps what they say about attention.

The listener sees every kernel before and after it runs. It replaces nothing: not an argument, not a result, not a
module; a failure in here is written down as a reason and the user's pass goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tb_plugin_structure.capture.attention import encoder_layers, explicit, flex, interface, maps, probe
from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.attention.kernels import (
    FusedArguments,
    attention_kernel,
    bind,
    mask_words,
    reader_of,
)
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.model_attention import ModelAttention
from tb_plugin_structure.capture.attention.options import AttentionOptions, matches
from tb_plugin_structure.capture.attention.rearranged import FoldedBatch, PackedHeads
from tb_plugin_structure.capture.attention.reasons import FACTOR, NO_PRODUCT, NO_VALUES, NOT_WHOLE, UNNORMALIZED
from tb_plugin_structure.capture.attention.result import AttentionCapture
from tb_plugin_structure.capture.attention.softmax import SoftmaxFollower
from tb_plugin_structure.capture.attention.sources import MatrixSource, QueryKeySource, Source
from tb_plugin_structure.capture.attention.storage_tags import Candidate
from tb_plugin_structure.capture.sharding import local_parts

__all__ = ["AttentionListener", "attention_kernel"]

_in_backward = torch._C._current_graph_task_id
_CONVOLUTIONS = ("aten::convolution", "aten::conv2d", "aten::conv1d", "aten::_convolution")


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
        self._follower = SoftmaxFollower(
            [weight for model in self._models.values() for weight in model.facts.weights],
            self._softmax_found,
            self._softmax_used,
            self._unnormalized,
        )
        self._handlers: dict[Any, tuple[Callable[..., None] | None, Callable[..., None] | None, str]] = {}
        self._call: Any = None
        self._model: ModelAttention | None = None
        self._interface = interface.InterfaceListener(self) if self.options.interface else None

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
        model = self._enter(call)
        if model is None:
            return
        handler, _, name = self._handler(func)
        if handler is not None:
            try:
                with aside():
                    # Heads that lie on other ranks are not asked for: only one rank may be recording.
                    handler(func, name, local_parts(args), local_parts(kwargs), call)
            except Exception as error:
                self._failed(call, error)

    def after_kernel(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, call: Any) -> None:
        """The kernel has run and gave `result`."""
        model = self._enter(call)
        if model is None:
            return
        _, handler, name = self._handler(func)
        if handler is not None:
            try:
                handler(func, name, local_parts(args), local_parts(kwargs), local_parts(result), call)
            except Exception as error:
                self._failed(call, error)

    def _enter(self, call: Any) -> ModelAttention | None:
        model = self._models.get(call.model) if call is not None else None
        if model is None or _in_backward() != -1:
            return None
        self._call, self._model = call, model
        model.ran.add(call.module_path)
        return model

    def _failed(self, call: Any, error: Exception) -> None:
        """A failure in here must not end the user's pass: it becomes a reason."""
        self._reason(call, f"reading it failed ({type(error).__name__}: {str(error)[:160]})")

    def _handler(self, func: Any) -> tuple[Callable[..., None] | None, Callable[..., None] | None, str]:
        known = self._handlers.get(func)
        if known is not None:
            return known
        schema = getattr(func, "_schema", None)
        name = schema.name if schema is not None else str(getattr(func, "__name__", func))
        before: Callable[..., None] | None = None
        after: Callable[..., None] | None = self._any_kernel
        if schema is not None and reader_of(name) is not None:
            before, after = self._fused_kernel, None
        elif name in (encoder_layers.ENCODER_LAYER, encoder_layers.MULTI_HEAD):
            before, after = self._fused_layer, None
        elif schema is None:
            before, after = (self._flex_operator if name == "flex_attention" else None), None
        elif name in _CONVOLUTIONS:
            after = self._convolution
        elif probe.takes_query_key_value(func):
            after = self._unknown_kernel
        known = self._handlers[func] = (before, after, name)
        return known

    # ---- one handler per kind of kernel

    def _fused_kernel(self, func: Any, name: str, args: Any, kwargs: Any, call: Any) -> None:
        reader = reader_of(name)
        assert reader is not None
        arguments = reader(bind(func, args, kwargs))
        self._fused(arguments, call, str(func), maps.FUSED_KERNEL)

    def _flex_operator(self, func: Any, name: str, args: Any, kwargs: Any, call: Any) -> None:
        self._fused(flex.of_operator(args), call, "flex_attention", maps.FUSED_KERNEL)

    def _fused_layer(self, func: Any, name: str, args: Any, kwargs: Any, call: Any) -> None:
        arguments = bind(func, args, kwargs)
        inner = getattr(call.module, "self_attn", None)
        if name == encoder_layers.ENCODER_LAYER and isinstance(inner, nn.Module):
            # The same place as in training mode, when the layer calls its attention.
            call = _Call(call.model, f"{call.module_path}.self_attn".lstrip("."), call.ordinal, inner)
        query: torch.Tensor = arguments["src" if "src" in arguments else "query"]
        if not query.is_nested and not _has_values(query):
            self._reason(call, NO_VALUES)
            return
        shared: AttentionMap | None = None
        for example in self.options.examples(int(query.size(0))):
            one = encoder_layers.fused_layer(name, arguments, example)
            if one is None:
                continue
            source = QueryKeySource(one)
            if shared is None:
                shared = self._models[call.model].new_map(
                    source, call, str(func), maps.FUSED_KERNEL, _dtype(query), mask_words(one), key_heads=source.heads
                )
                if shared is None:
                    return
                shared.exactness = "float32 recomputation from the input and the weights of a fused layer"
                if query.is_nested:
                    shared.exactness += "; this path does not compute queries of padding, they are shown as masked"
                shared.kept = True
            self._models[call.model].summarize(shared, source, example, 0)
        self._models[call.model].stack_probabilities(shared)

    def _unknown_kernel(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        words = f"kernel {name} takes query, key and value but is not known; describe it with attention_kernel"
        arguments = bind(func, args, kwargs)
        module = call.module
        if not self.options.probe or any(not _has_values(value) for value in _tensors(arguments.values())):
            self._reason(call, words)
            return
        if module is not None and module.training:
            self._reason(call, f"{words} (it is read off with one-hot values in eval mode only)")
            return
        with aside():
            found = probe.read_off(func, arguments, result)
        if found is None:
            self._reason(call, f"{words} (one-hot values did not give back what it returned)")
            return
        made = self._models[call.model].new_map(
            MatrixSource(found[0]), call, str(func), maps.PROBE, _dtype(next(_tensors(arguments.values()))), "unknown"
        )
        if made is not None:
            made.exactness = (
                "read off the kernel with one-hot values; with the real values it gives the kernel's result"
            )
            made.kept = True
            with aside():
                self._models[call.model].summarize_all(made, MatrixSource(found[0]))

    def _convolution(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        if isinstance(result, torch.Tensor) and isinstance(args[0], torch.Tensor):
            self._models[call.model].axes.after_convolution(args[0], result)

    def _any_kernel(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        self._follower.after_kernel(name, args, result, call)

    # ---- softmax

    def _softmax_found(
        self, candidate: Candidate, probabilities: torch.Tensor, scores: torch.Tensor | None, kernel: str
    ) -> None:
        call = candidate.call
        model = self._models[call.model]
        path = call.module_path
        wanted = candidate.scored or model.facts.looks_like_attention(path) or matches(path, self.options.accept)
        if not wanted or not probabilities.numel():
            return
        if not _has_values(probabilities):
            self._reason(call, NO_VALUES)
            return
        shaped, scores = model.per_head(probabilities, scores, path)
        source = MatrixSource(shaped, scores, model.facts.heads(path, keys=True), candidate.width)
        made = self._models[call.model].new_map(
            source, call, kernel, maps.SOFTMAX_MATMUL, _dtype(probabilities), "unknown" if scores is None else ""
        )
        if made is None:
            return
        made.exactness = "exact: the model's own probabilities, before dropout"
        if candidate.extra:
            made.exactness += f"; {candidate.extra} learned sink not shown, so rows sum to less than 1"
        if not candidate.scored and not matches(path, self.options.accept):
            made.exactness += "; the scores are no product of queries and keys, taken for attention by its name"
        if candidate.scored and model.is_channel_attention(path, made, candidate.width):
            made.relation = "channel"
        candidate.record = made
        blocks = probabilities.shape[-4] if probabilities.dim() > 4 and probabilities.shape[-3] == made.heads else 1
        model.summarize_all(made, source, blocks)

    def _softmax_used(self, candidate: Candidate, call: Any) -> None:
        made = candidate.record
        model = self._models[candidate.call.model]
        where = (candidate.call.module_path, candidate.call.ordinal)
        accepted = matches(call.module_path, self.options.accept) or matches(where[0], self.options.accept)
        if candidate.state == "weight" or (made is None and candidate.state == "whole"):
            if accepted and made is not None:
                made.kept = True
            else:
                self._reason(call, NO_PRODUCT)
        elif candidate.state in ("pieces", "factor"):
            words = FACTOR if candidate.state == "factor" else NOT_WHOLE.format(keys=_last(made, candidate))
            model.withdrawn[where] = model.withdrawn[call.module_path, call.ordinal] = words
        elif candidate.state == "absorbed":
            if made is not None:
                model.maps.remove(made)
        elif made is not None:
            made.kept = True
            if candidate.state == "mixed":
                made.exactness += "; the model mixes the heads after this (talking heads)"
            elif candidate.state == "combined":
                made.exactness += "; the model combines it with another softmax before the values are read"

    def _unnormalized(self, call: Any, least: float, largest: float) -> None:
        self._reason(call, UNNORMALIZED.format(least=least, largest=largest))

    # ---- other ways in

    def interface_call(self, module: nn.Module, arguments: FusedArguments, kernel: str) -> None:
        """transformers' interface computed an attention of which no kernel was seen."""
        for name, model in self._models.items():
            path = model.facts.path_of(module)
            if path is not None:
                ordinal = model.ordinals[path, -1]
                model.ordinals[path, -1] += 1
                call = _Call(name, path, ordinal, module)
                try:
                    with aside():
                        self._fused(arguments, call, kernel, maps.INTERFACE)
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
        here = self._call if self._call is not None else _Call(model.name, "", 0, None)
        call = _Call(model.name, f"{here.module_path}.{name}".lstrip("."), here.ordinal, here.module)
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
            dtype, words = _dtype(probabilities), "unknown"
        else:
            assert query is not None
            assert key is not None
            fused = FusedArguments(query, key, mask=mask, causal="top_left" if causal else "", scale=scale)
            source, dtype, words = QueryKeySource(fused), _dtype(query), mask_words(fused)
        made = self._models[call.model].new_map(source, call, "log_attention", maps.EXPLICIT, dtype, words)
        if made is not None:
            made.exactness = "as given" if probabilities is not None else "float32 from the given query and key"
            made.kept = True
            model.summarize_all(made, source)

    # ---- recording

    def _fused(self, arguments: FusedArguments, call: Any, kernel: str, route: Any) -> None:
        if not _has_values(arguments.query) or not _has_values(arguments.key):
            self._reason(call, NO_VALUES)
            return
        model = self._models[call.model]
        source: Source = QueryKeySource(arguments)
        heads = model.facts.heads(call.module_path)
        groups = model.facts.groups(call.module_path)
        if heads is not None and groups > 1 and source.heads * groups == heads and source.queries % groups == 0:
            source = PackedHeads(source, groups)
        elif heads is not None and source.batch == 1 and source.heads > heads and source.heads % heads == 0:
            source = FoldedBatch(source, heads)
        made = self._models[call.model].new_map(
            source, call, kernel, route, _dtype(arguments.query), mask_words(arguments)
        )
        if made is not None:
            made.exactness = (
                "float32 recomputation from query and key"
                if made.dtype == "float32"
                else f"float32 recomputation of a {made.dtype} kernel from its query and key"
            )
            made.kept = True
            self._models[call.model].summarize_all(made, source)

    # ---- reasons

    def _reason(self, call: Any, words: str) -> None:
        model = self._models.get(call.model)
        if model is not None:
            model.reason(call.module_path, words)


class _Call:
    """Stands for a module call when no kernel tells of it."""

    def __init__(self, model: str, module_path: str, ordinal: int, module: nn.Module | None) -> None:
        self.model, self.module_path, self.ordinal, self.module = model, module_path, ordinal, module


def _has_values(tensor: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, torch.Tensor) and not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _last(made: AttentionMap | None, candidate: Candidate) -> str:
    return str(made.key_length) if made is not None else "some"
