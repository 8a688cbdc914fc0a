"""Attentions are paired as the modules around them are."""

from __future__ import annotations

from tb_plugin_structure.analysis.attention.configured import configured_layer_pairs
from tb_plugin_structure.v1 import attention_pb2


def layers(*paths: str, relation: str = "self") -> list[attention_pb2.AttentionLayer]:
    return [attention_pb2.AttentionLayer(module_path=path, relation=relation) for path in paths]


def test_attentions_at_paired_modules_belong_together() -> None:
    teacher = layers(*(f"encoder.layer.{block}.attention.self" for block in range(4)))
    student = layers("transformer.layer.0.attention", "transformer.layer.1.attention")
    pairs = {
        "transformer.layer.0.attention": ["encoder.layer.0.attention"],
        "transformer.layer.1.attention": ["encoder.layer.2.attention"],
    }
    assert configured_layer_pairs(pairs, teacher, student) == [(0, 0), (2, 1)]


def test_an_enclosing_block_decides_where_the_attention_itself_has_no_pair() -> None:
    teacher = layers("blocks.0.attn", "blocks.1.attn")
    student = layers("h.0.mix.core")
    assert configured_layer_pairs({"h.0": ["blocks.1"], "": [""]}, teacher, student) == [(1, 0)]


def test_several_attentions_of_one_block_keep_their_order() -> None:
    teacher = layers("decoder.3.first", "decoder.3.second")
    student = layers("decoder.0.first", "decoder.0.second")
    assert configured_layer_pairs({"decoder.0": ["decoder.3"]}, teacher, student) == [(0, 0), (1, 1)]


def test_cross_attention_never_meets_self_attention() -> None:
    teacher = layers("block.self") + layers("block.cross", relation="cross")
    student = layers("block.cross", relation="cross")
    assert configured_layer_pairs({"block": ["block"]}, teacher, student) == [(1, 0)]


def test_the_model_as_a_whole_pairs_nothing() -> None:
    assert configured_layer_pairs({"": [""]}, layers("a"), layers("b")) == []
