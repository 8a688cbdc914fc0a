"""Tiny, randomly initialised models of transformers, by family."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

_TEXT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "d_model": 32,
    "d_ff": 37,
    "d_kv": 8,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "num_layers": 2,
    "num_heads": 4,
    "dim": 32,
    "hidden_dim": 37,
    "n_layers": 2,
    "n_heads": 4,
    "embedding_size": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "head_dim": 8,
}
_IMAGE = {
    "image_size": 32,
    "patch_size": 8,
    "num_channels": 3,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
}
_ENCODERS = (
    "bert",
    "roberta",
    "electra",
    "albert",
    "distilbert",
    "mpnet",
    "deberta-v2",
    "ernie",
    "camembert",
    "squeezebert",
)
_DECODERS = ("gpt2", "gpt_neox", "opt", "llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "stablelm", "olmo")
_ENCODER_DECODERS = ("t5", "bart", "marian", "pegasus", "mbart")
_VISION = ("vit", "deit", "dinov2", "beit", "vit_mae", "ijepa")

FAMILIES = (*_ENCODERS, *_DECODERS, *_ENCODER_DECODERS, *_VISION)


def tiny_model(family: str, seed: int = 0) -> tuple[nn.Module, dict[str, Any]]:
    """(model in eval mode, keyword inputs) of a family of transformers."""
    import transformers

    torch.manual_seed(seed)
    plain = transformers.AutoConfig.for_model(family)
    wanted = _IMAGE if family in _VISION else _TEXT
    # Only what the family's configuration knows: every family names its widths in its own way.
    known = {key: value for key, value in wanted.items() if hasattr(plain, key)}
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(plain, key, None)
        if isinstance(value, int) and value >= 99:
            known[key] = 1
    config = transformers.AutoConfig.for_model(family, **known)
    model = transformers.AutoModel.from_config(config).eval()
    if family in _VISION:
        return model, {"pixel_values": torch.randn(1, 3, 32, 32)}
    ids = torch.randint(5, 90, (1, 12))
    inputs: dict[str, Any] = {"input_ids": ids}
    if family in _ENCODER_DECODERS:
        inputs["decoder_input_ids"] = ids[:, :6]
    return model, inputs


def random_tiny_model(seed: int) -> tuple[str, nn.Module, dict[str, Any]]:
    """A family chosen by `seed`: (family, model in eval mode, keyword inputs)."""
    family = random.Random(seed).choice(FAMILIES)
    return (family, *tiny_model(family, seed))
