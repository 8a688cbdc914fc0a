"""Attention as a softmax and a product: what the follower of the softmax finds becomes maps and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tb_plugin_structure.capture.attention import maps
from tb_plugin_structure.capture.attention.call import dtype_of, has_values
from tb_plugin_structure.capture.attention.maps import AttentionMap
from tb_plugin_structure.capture.attention.model_attention import ModelAttention
from tb_plugin_structure.capture.attention.options import AttentionOptions, matches
from tb_plugin_structure.capture.attention.reasons import (
    EMPTY,
    FACTOR,
    NESTED,
    NO_PRODUCT,
    NO_VALUES,
    NOT_WHOLE,
    OWN_KEYS,
    UNNORMALIZED,
)
from tb_plugin_structure.capture.attention.softmax import SoftmaxFollower
from tb_plugin_structure.capture.attention.sources import MatrixSource
from tb_plugin_structure.capture.attention.storage_tags import Candidate


class SoftmaxRoute:
    """Follows the softmaxes of several models."""

    def __init__(self, models: Mapping[str, ModelAttention], options: AttentionOptions) -> None:
        self._models = models
        self._options = options
        self._follower = SoftmaxFollower(
            [weight for model in models.values() for weight in model.facts.weights],
            self._found,
            self._used,
            self._unnormalized,
        )

    def after_kernel(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        """Any kernel has run."""
        if isinstance(result, torch.Tensor) and result.is_nested:
            # Their kernels have no strides to follow.
            if name.endswith("softmax"):
                self._models[call.model].reason(call.module_path, NESTED)
            return
        self._follower.after_kernel(name, args, result, call)

    def after_view(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, call: Any) -> None:
        """A kernel gave a view of its argument."""
        if args and type(args[0]) is torch.nn.Parameter:
            self._follower.saw_weight(args[0])

    def _found(
        self, candidate: Candidate, probabilities: torch.Tensor, scores: torch.Tensor | None, kernel: str
    ) -> None:
        call = candidate.call
        model = self._models[call.model]
        path = call.module_path
        wanted = candidate.scored or model.facts.looks_like_attention(path) or matches(path, self._options.accept)
        if not wanted:
            return
        if not probabilities.numel():
            model.reason(path, EMPTY)
            return
        if not has_values(probabilities):
            model.reason(path, NO_VALUES)
            return
        if candidate.product_rows == 1 and probabilities.shape[-2] > 1:
            # One query in each product: the rows of the softmax are other axes of the batch.
            if probabilities.dim() == 2 or probabilities.shape[-2] == model.facts.heads(path):
                probabilities = probabilities.unsqueeze(-2)
                scores = None if scores is None else scores.unsqueeze(-2)
                if probabilities.dim() == 3:
                    probabilities = probabilities.unsqueeze(1)
                    scores = None if scores is None else scores.unsqueeze(1)
            else:
                rows, keys = probabilities.shape[-2:]
                model.reason(path, OWN_KEYS.format(rows=rows, keys=keys))
                return
        shaped, scores = model.per_head(probabilities, scores, path)
        source = MatrixSource(shaped, scores, model.facts.heads(path, keys=True), candidate.width)
        mask = "unknown" if scores is None else ""
        made = model.new_map(source, call, kernel, maps.SOFTMAX_MATMUL, dtype_of(probabilities), mask)
        if made is None:
            return
        made.exactness = "exact: the model's own probabilities, before dropout"
        if candidate.extra:
            made.exactness += f"; {candidate.extra} learned sink not shown, so rows sum to less than 1"
        if candidate.lacking > 2e-2:
            made.exactness += "; rows sum to less than 1 (their denominator has a term of no key, or a row is masked)"
        if not candidate.scored and not matches(path, self._options.accept):
            made.exactness += "; the scores are no product of queries and keys, taken for attention by its name"
        if candidate.scored and model.is_channel_attention(path, made, candidate.width):
            made.relation = "channel"
        candidate.record = made
        blocks = model.blocks(probabilities, made.heads, path)
        model.summarize_all(made, source, blocks)

    def _used(self, candidate: Candidate, call: Any) -> None:
        made = candidate.record
        model = self._models[candidate.call.model]
        where = (candidate.call.module_path, candidate.call.ordinal)
        accept = self._options.accept
        accepted = matches(call.module_path, accept) or matches(where[0], accept)
        if candidate.state == "weight" or (made is None and candidate.state == "whole" and not candidate.scored):
            if accepted and made is not None:
                made.kept = True
            else:
                self._models[call.model].reason(call.module_path, NO_PRODUCT)
        elif candidate.state in ("pieces", "factor"):
            words = FACTOR if candidate.state == "factor" else NOT_WHOLE.format(keys=_keys(made))
            model.withdrawn[where] = model.withdrawn[call.module_path, call.ordinal] = words
        elif candidate.state == "absorbed":
            if made is not None:
                model.maps.remove(made)
        elif made is not None:
            made.kept = True
            if candidate.state == "mixed":
                made.exactness += "; the model mixes the heads after this (talking heads)"
            elif candidate.state == "altered":
                made.exactness += "; the model changes it (scales, gates or masks it) before the values are read"
            elif candidate.state == "combined":
                made.exactness += "; the model combines it with another softmax before the values are read"

    def _unnormalized(self, call: Any, least: float, largest: float) -> None:
        self._models[call.model].reason(call.module_path, UNNORMALIZED.format(least=least, largest=largest))


def _keys(made: AttentionMap | None) -> str:
    return str(made.key_length) if made is not None else "some"
