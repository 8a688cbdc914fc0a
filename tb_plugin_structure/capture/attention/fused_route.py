"""Attention that one kernel computes: recomputed from the kernel's arguments, or read off it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from tb_plugin_structure.capture.attention import encoder_layers, flex, maps, probe
from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.attention.call import Call, dtype_of, has_values
from tb_plugin_structure.capture.attention.kernels import FusedArguments, bind, mask_words, reader_of
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.model_attention import ModelAttention
from tb_plugin_structure.capture.attention.options import AttentionOptions
from tb_plugin_structure.capture.attention.rearranged import FoldedBatch, PackedHeads
from tb_plugin_structure.capture.attention.reasons import NESTED, NO_VALUES
from tb_plugin_structure.capture.attention.sources import MatrixSource, QueryKeySource, Source

Handler = Callable[..., None]


class FusedRoute:
    """Handlers of fused kernels, called with ``(func, name, args, kwargs, call)``."""

    def __init__(self, models: Mapping[str, ModelAttention], options: AttentionOptions) -> None:
        self._models = models
        self._options = options

    def handler(self, func: Any, name: str) -> Handler | None:
        """What is to be called before an operator runs; None when it is no known attention."""
        if getattr(func, "_schema", None) is None:
            return self._flex_operator if name == "flex_attention" else None
        if reader_of(name) is not None:
            return self._known_kernel
        return self._layer if name in (encoder_layers.ENCODER_LAYER, encoder_layers.MULTI_HEAD) else None

    def record(self, arguments: FusedArguments, call: Any, kernel: str, route: Any) -> None:
        """Recompute and summarise the attention of a kernel with these arguments."""
        model = self._models[call.model]
        if arguments.query.is_nested or arguments.key.is_nested:
            self._record_nested(arguments, call, kernel, route)
            return
        if not has_values(arguments.query) or not has_values(arguments.key):
            model.reason(call.module_path, NO_VALUES)
            return
        source: Source = QueryKeySource(arguments)
        heads = model.facts.heads(call.module_path)
        groups = model.facts.groups(call.module_path)
        if heads is not None and groups > 1 and source.heads * groups == heads and source.queries % groups == 0:
            source = PackedHeads(source, groups)
        elif heads is not None and source.batch == 1 and source.heads > heads and source.heads % heads == 0:
            source = FoldedBatch(source, heads)
        made = model.new_map(source, call, kernel, route, dtype_of(arguments.query), mask_words(arguments))
        if made is not None:
            made.exactness = (
                "float32 recomputation from query and key"
                if made.dtype == "float32"
                else f"float32 recomputation of a {made.dtype} kernel from its query and key"
            )
            made.kept = True
            model.summarize_all(made, source)

    def _record_nested(self, arguments: FusedArguments, call: Any, kernel: str, route: Any) -> None:
        """Sequences of a nested batch have lengths of their own: the first wanted example is recorded."""
        model = self._models[call.model]
        batch = int(arguments.query.size(0))
        example = next(iter(self._options.examples(batch)), None)
        if example is None or arguments.mask is not None:
            model.reason(call.module_path, NESTED)
            return
        query, key = (
            (tensor.unbind()[example] if tensor.is_nested else tensor[example]).unsqueeze(0)
            for tensor in (arguments.query, arguments.key)
        )
        source = QueryKeySource(replace(arguments, query=query, key=key))
        made = model.new_map(source, call, kernel, route, dtype_of(query), mask_words(arguments))
        if made is not None:
            made.exactness = f"float32 recomputation from query and key; example {example} of a nested batch of {batch}"
            made.kept = True
            model.summarize(made, source, example, 0)
            model.stack_probabilities(made)

    def _known_kernel(self, func: Any, name: str, args: Any, kwargs: Any, call: Any) -> None:
        reader = reader_of(name)
        assert reader is not None
        self.record(reader(bind(func, args, kwargs)), call, str(func), maps.FUSED_KERNEL)

    def _flex_operator(self, func: Any, name: str, args: Any, kwargs: Any, call: Any) -> None:
        self.record(flex.of_operator(args), call, "flex_attention", maps.FUSED_KERNEL)

    def _layer(self, func: Any, name: str, args: Any, kwargs: Any, call: Any) -> None:
        arguments = bind(func, args, kwargs)
        inner = getattr(call.module, "self_attn", None)
        if name == encoder_layers.ENCODER_LAYER and isinstance(inner, nn.Module):
            # The same place as in training mode, when the layer calls its attention.
            call = Call(call.model, f"{call.module_path}.self_attn".lstrip("."), call.ordinal, inner)
        model = self._models[call.model]
        query: torch.Tensor = arguments["src" if "src" in arguments else "query"]
        if not query.is_nested and not has_values(query):
            model.reason(call.module_path, NO_VALUES)
            return
        shared: AttentionMap | None = None
        for example in self._options.examples(int(query.size(0))):
            one = encoder_layers.fused_layer(name, arguments, example)
            if one is None:
                continue
            source = QueryKeySource(one)
            if shared is None:
                shared = model.new_map(
                    source, call, str(func), maps.FUSED_KERNEL, dtype_of(query), mask_words(one), key_heads=source.heads
                )
                if shared is None:
                    return
                shared.exactness = "float32 recomputation from the input and the weights of a fused layer"
                if query.is_nested:
                    shared.exactness += "; this path does not compute queries of padding, they are shown as masked"
                shared.kept = True
            model.summarize(shared, source, example, 0)
        model.stack_probabilities(shared)

    def unknown_kernel(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        """A foreign operator that takes query, key and value has run."""
        model = self._models[call.model]
        words = f"kernel {name} takes query, key and value but is not known; describe it with attention_kernel"
        arguments = bind(func, args, kwargs)
        if not self._options.probe or any(not has_values(value) for value in _tensors(arguments.values())):
            model.reason(call.module_path, words)
            return
        if call.module is not None and call.module.training:
            model.reason(call.module_path, f"{words} (it is read off with one-hot values in eval mode only)")
            return
        with aside():
            found = probe.read_off(func, arguments, result)
        if found is None:
            model.reason(call.module_path, f"{words} (one-hot values did not give back what it returned)")
            return
        source = MatrixSource(found[0])
        dtype = dtype_of(next(_tensors(arguments.values())))
        made = model.new_map(source, call, str(func), maps.PROBE, dtype, "unknown")
        if made is not None:
            made.exactness = (
                "read off the kernel with one-hot values; with the real values it gives the kernel's result"
            )
            made.kept = True
            with aside():
                model.summarize_all(made, source)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
