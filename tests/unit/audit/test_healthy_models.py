"""Models as transformers makes them have nothing wrong with them: the audit gives no finding of severity warning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as t

from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.analysis.audit.compare import MATCH
from tb_plugin_structure.capture import capture

from .pairing import pair_by_path

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {"vocab_size": 99, **SMALL}
VISION = {"image_size": 32, "patch_size": 8, **SMALL}
SPEECH = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip

FAMILIES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "bert": ("BertModel", "BertConfig", TEXT, "ids"),
    "bert_mlm": ("BertForMaskedLM", "BertConfig", TEXT, "ids"),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", TEXT, "ids"),
    "longformer": (
        "LongformerModel",
        "LongformerConfig",
        {"attention_window": 8, "pad_token_id": 0, "max_position_embeddings": 64, **TEXT},
        "ids",
    ),
    "albert": ("AlbertModel", "AlbertConfig", {"embedding_size": 16, **TEXT}, "ids"),
    "electra": ("ElectraModel", "ElectraConfig", {"embedding_size": 16, **TEXT}, "ids"),
    "deberta": (
        "DebertaV2Model",
        "DebertaV2Config",
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], **TEXT},
        "ids",
    ),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        "ids",
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0},
        "ids",
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"num_key_value_heads": 2, **TEXT}, "ids"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {"num_key_value_heads": 2, **TEXT}, "ids"),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", TEXT, "ids"),
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {"num_key_value_heads": 2, "num_local_experts": 4, **TEXT},
        "ids",
    ),
    "xlnet": ("XLNetModel", "XLNetConfig", {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4}, "ids"),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
        "both",
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", SPEECH, "both"),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 20, **SPEECH},
        "mel",
    ),
    "wav2vec2": (
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        {
            "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, **SMALL,
        },
        "wave",
    ),
    "vit": ("ViTModel", "ViTConfig", VISION, "pixels"),
    "deit": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", {"num_labels": 10, **VISION}, "pixels"),
    "beit": ("BeitModel", "BeitConfig", VISION, "pixels"),
    "dinov2": ("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", VISION, "pixels"),
    "swin": (
        "SwinModel",
        "SwinConfig",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        "pixels",
    ),
    "convnext": (
        "ConvNextModel",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 2, 1]},
        "pixels",
    ),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic"},
        "pixels",
    ),
    "segformer": (
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {"hidden_sizes": [8, 16, 16, 32], "num_attention_heads": [1, 2, 2, 4], "depths": [1, 1, 1, 1]},
        "pixels",
    ),
    "clip": (
        "CLIPModel",
        "CLIPConfig",
        {
            "text_config": {"max_position_embeddings": 20, **TEXT},
            "vision_config": VISION,
            "projection_dim": 16,
        },
        "image and text",
    ),
}  # fmt: skip


def inputs(kind: str) -> dict[str, Any]:
    ids, pixels = torch.randint(5, 90, (2, 12)), torch.randn(2, 3, 32, 32)
    return {
        "ids": {"input_ids": ids},
        "both": {"input_ids": ids, "decoder_input_ids": ids},
        "pixels": {"pixel_values": pixels},
        "image and text": {"input_ids": ids, "pixel_values": pixels},
        "mel": {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": ids},
        "wave": {"input_values": torch.randn(2, 400)},
    }[kind]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_healthy_model_has_no_warning_and_meets_itself(family: str) -> None:
    model_class, config_class, options, kind = FAMILIES[family]
    torch.manual_seed(0)
    model = getattr(t, model_class)(getattr(t, config_class)(**options)).eval().requires_grad_(False)
    structure = capture(model, (), inputs(kind), name=family)
    report = audit(pair_by_path(structure, structure))
    assert [finding for finding in report.findings if finding.severity != "info"] == []
    assert [row.student_path for row in report.rows if row.verdict != MATCH] == []
    assert "match as they are" in report.summary()
