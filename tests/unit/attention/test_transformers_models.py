"""transformers models against their own ``output_attentions`` from eager code, on eager and on fused kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.attention.capturing import captured

transformers = pytest.importorskip("transformers")

TEXT: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
GROUPED = {**TEXT, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}


def tokens(length: int = 11, padded: int = 3) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(2, length, dtype=torch.long)
    if padded:
        mask[1, -padded:] = 0
    return {"input_ids": torch.randint(3, 61, (2, length), generator=generator), "attention_mask": mask}


def images() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))}


def pairs() -> dict[str, torch.Tensor]:
    return {**tokens(), "decoder_input_ids": tokens(7, 0)["input_ids"]}


FAMILIES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "Bert": ("BertModel", tokens, TEXT),
    "GPT2": ("GPT2Model", tokens, {"vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}),
    "Llama": ("LlamaModel", tokens, GROUPED),
    "T5": (
        "T5Model",
        pairs,
        {"vocab_size": 61, "d_model": 32, "d_ff": 37, "d_kv": 8, "num_layers": 1, "num_heads": 4, "pad_token_id": 0,
         "decoder_start_token_id": 0},
    ),
    "ViT": (
        "ViTModel",
        images,
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
         "image_size": 32, "patch_size": 8},
    ),
    "DebertaV2": (
        "DebertaV2Model",
        tokens,
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "XLNet": ("XLNetModel", tokens, {"vocab_size": 61, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 37}),
    "GptOss": (
        "GptOssModel",
        tokens,
        {**GROUPED, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4,
         "intermediate_size": 40},
    ),
}  # fmt: skip


def build(family: str, implementation: str | None = None) -> tuple[Any, dict[str, torch.Tensor]]:
    """A tiny model with wide weights: near-uniform maps would hide mistakes."""
    model_class, inputs, settings = FAMILIES[family]
    config = getattr(transformers, f"{family}Config")(**settings)
    if implementation is not None:
        config._attn_implementation = implementation
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(config).eval()
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            parameter.data.normal_(0, 0.35, generator=generator)
    return model, inputs()


def own_attentions(model: Any, inputs: dict[str, torch.Tensor]) -> list[np.ndarray]:
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    names = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")
    found = [np.asarray(tensor) for name in names for tensor in (output.get(name) or ())]
    assert found, "the family gives no attentions to compare with"
    return found


def real_rows(maps: np.ndarray, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    """Without padded queries: what a model does there differs between kernels and means nothing."""
    mask = inputs.get("attention_mask")
    if mask is None or maps.shape[2] != mask.shape[1]:
        return maps
    return maps.transpose(0, 2, 1, 3)[mask.bool().numpy()]


@pytest.mark.parametrize("family", FAMILIES)
def test_eager_attention_is_exact(family: str) -> None:
    model, inputs = build(family, "eager")
    expected = own_attentions(model, inputs)
    got = captured(model, **inputs)
    assert got.not_captured == {}
    assert len(got.maps) == len(expected)
    for truth in expected:
        nearest = min(
            np.abs(real_rows(made.probabilities, inputs) - real_rows(truth, inputs)).max()
            for made in got.maps
            if made.probabilities.shape == truth.shape
        )
        assert nearest == 0.0


@pytest.mark.parametrize("family", ["Bert", "GPT2", "Llama", "T5", "ViT"])
def test_fused_kernels_give_the_same_maps(family: str) -> None:
    eager, inputs = build(family, "eager")
    expected = own_attentions(eager, inputs)
    model, _ = build(family, "sdpa")
    got = captured(model, **inputs)
    assert len(got.maps) == len(expected)
    assert all("scaled_dot_product" in made.kernel for made in got.maps)
    for truth in expected:
        nearest = min(
            np.abs(real_rows(made.probabilities, inputs) - real_rows(truth, inputs)).max()
            for made in got.maps
            if made.probabilities.shape == truth.shape
        )
        assert nearest < 2e-5


def test_packed_heads_of_a_cached_decoding_step_are_unpacked() -> None:
    eager, _ = build("Llama", "eager")
    model, _ = build("Llama", "sdpa")
    inputs = tokens(8, 0)
    inputs["attention_mask"][1, :3] = 0
    expected = [truth[:, :, -1:] for truth in own_attentions(eager, inputs)]
    with torch.no_grad():
        cache = model(
            input_ids=inputs["input_ids"][:, :-1], attention_mask=inputs["attention_mask"][:, :-1], use_cache=True
        ).past_key_values
    got = captured(
        model, input_ids=inputs["input_ids"][:, -1:], attention_mask=inputs["attention_mask"], past_key_values=cache
    )
    for made, truth in zip(got.maps, expected, strict=True):
        assert (made.shape, made.key_heads, made.relation) == ((4, 1, 8), 2, "self")
        np.testing.assert_allclose(made.probabilities, truth, atol=2e-5)


def test_a_decoding_loop_is_joined_by_position_and_equals_one_pass() -> None:
    model, _ = build("Llama", "sdpa")
    ids = tokens(9, 0)["input_ids"][:1]
    options = {"example": 0, "keep_maps": False}
    whole = captured(model, input_ids=ids, options=options)

    class Loop(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor) -> None:
            cache = self.model(input_ids=ids[:, :5], use_cache=True).past_key_values
            for position in range(5, ids.shape[1]):
                self.model(input_ids=ids[:, position : position + 1], past_key_values=cache)

    joined = captured(Loop(), ids, options=options)
    assert [made.module_path for made in joined.maps] == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    for one, other in zip(joined.maps, whole.maps, strict=True):
        assert one.shape == other.shape == (4, 9, 9)
        assert one.exactness.endswith("; 5 calls of a decoding loop, joined by position")
        np.testing.assert_allclose(one.summaries[0].matrix, other.summaries[0].matrix, atol=1e-3)
        np.testing.assert_allclose(one.summaries[0].maximum, other.summaries[0].maximum, atol=1e-3)
        for name, values in other.summaries[0].statistics.items():
            np.testing.assert_allclose(one.summaries[0].statistics[name], values, atol=1e-5, err_msg=name)


def test_windows_of_an_image_model_are_laid_over_the_image() -> None:
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2], num_heads=[2], window_size=4
    )
    model = transformers.SwinModel(config).eval()
    got = captured(model, **images(), options={"example": 1, "keep_maps": False})
    plain, shifted = got.maps
    assert plain.exactness.endswith("16 windows of 4 x 4, laid over the image")
    assert shifted.exactness.endswith("16 windows of 4 x 4, shifted by 2, laid over the image")
    # The first window of the second image is in its upper left corner; a query there sees nothing else.
    windows = captured(model, **images()).maps[0].probabilities
    assert windows is not None
    (_, matrix), *_ = [(made, summary) for made in got.maps[:1] for summary in made.summaries.values()]
    assert matrix.matrix is not None
    corner = [16 * y + x for y in range(4) for x in range(4)]
    np.testing.assert_allclose(matrix.matrix[:, corner][:, :, corner], windows[16], atol=2.5e-4)
    assert matrix.matrix[:, corner].sum() == pytest.approx(32, abs=0.05)
    (axis,) = got.overview().header.axes
    assert (axis.kind, axis.grid_height, axis.grid_width) == ("image", 16, 16)


def test_structured_attention_says_why_there_is_no_map() -> None:
    config = transformers.LongformerConfig(**{**TEXT, "attention_window": 4})
    model = transformers.LongformerModel(config).eval()
    got = captured(model, **tokens(16, 0))
    assert got.maps == []
    assert list(got.not_captured) == ["encoder.layer.0.attention.self", "encoder.layer.1.attention.self"]
    assert "banded, block-sparse" in got.not_captured["encoder.layer.0.attention.self"]


def test_models_without_attention_say_so() -> None:
    config = transformers.FNetConfig(**{name: value for name, value in TEXT.items() if "heads" not in name})
    got = captured(transformers.FNetModel(config).eval(), input_ids=tokens()["input_ids"])
    assert (got.maps, got.not_captured) == ([], {})
    assert got.overview().header.notes[0].startswith("this model has no attention that was seen")
