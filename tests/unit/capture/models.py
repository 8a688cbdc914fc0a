"""Models the tests record: small, written here, or made from a configuration of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    """Two convolutions with a residual connection, a loop and a dictionary at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.block = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 4)
        self.unused = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = F.relu(self.norm(self.stem(x)))
        x = x + self.block(x)
        for _ in range(3):
            x = x * 0.5
        return {"features": x, "logits": self.head(x.mean((2, 3)))}


def tiny_transformer(kind: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A model of a family with random weights, and inputs for it."""
    import transformers as t

    torch.manual_seed(0)
    ids = torch.randint(3, 90, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    small = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
    pixels = torch.randn(2, 3, 16, 16)
    if kind == "bert":
        return t.BertModel(t.BertConfig(vocab_size=99, **small)).eval(), (), {"input_ids": ids, "attention_mask": mask}
    if kind == "distilbert":
        config = t.DistilBertConfig(vocab_size=99, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
        return t.DistilBertModel(config).eval(), (), {"input_ids": ids, "attention_mask": mask}
    if kind == "gpt2":
        config = t.GPT2Config(vocab_size=99, n_embd=16, n_layer=2, n_head=2)
        return t.GPT2LMHeadModel(config).eval(), (ids,), {}
    if kind == "t5":
        config = t.T5Config(vocab_size=99, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        return t.T5Model(config).eval(), (), {"input_ids": ids, "decoder_input_ids": ids[:, :4]}
    if kind == "vit":
        return t.ViTModel(t.ViTConfig(image_size=16, patch_size=4, **small)).eval(), (pixels,), {}
    if kind == "clip":
        config = t.CLIPConfig(
            text_config={"vocab_size": 99, "max_position_embeddings": 20, **small},
            vision_config={"image_size": 16, "patch_size": 4, **small},
            projection_dim=8,
        )
        return t.CLIPModel(config).eval(), (), {"input_ids": ids, "pixel_values": pixels, "attention_mask": mask}
    if kind == "whisper":
        config = t.WhisperConfig(
            vocab_size=99,
            d_model=16,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_mel_bins=8,
            max_source_positions=10,
            max_target_positions=20,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
        features = torch.randn(2, 8, 20)
        return t.WhisperModel(config).eval(), (), {"input_features": features, "decoder_input_ids": ids}
    raise ValueError(kind)


TRANSFORMERS = ("bert", "distilbert", "gpt2", "t5", "vit", "clip", "whisper")
