"""Labels of positions: lists, encodings, tokenizers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tb_plugin_structure.capture import AttentionOptions, observe
from tests.unit.attention.capturing import Function

WORDS = ["[PAD]", "the", "cat", "sat", "on", "mat"]


class Tokenizer:
    """The one method that is asked for, as transformers' tokenizers have it."""

    def convert_ids_to_tokens(self, numbers: list[int]) -> list[str]:
        return [WORDS[number] for number in numbers]


def model() -> Function:
    tokens, positions, types = nn.Embedding(6, 8), nn.Embedding(64, 8), nn.Embedding(2, 8)

    def forward(numbers: torch.Tensor) -> torch.Tensor:
        x = tokens(numbers) + positions(torch.arange(numbers.shape[1])[None]) + types(torch.zeros_like(numbers))
        q = x.unsqueeze(1)
        return nn.functional.scaled_dot_product_attention(q, q, q)

    return Function(forward, tokens=tokens, positions=positions, types=types)


NAMED = {"model": Tokenizer()}
NUMBERS = torch.tensor([[1, 2, 3, 4, 1, 5], [1, 5, 3, 0, 0, 0]])


def labels(tokens: Any, example: int = 0, **options: Any) -> list[list[str]]:
    chosen = AttentionOptions(example=[0, 1], **options)
    with torch.no_grad(), observe({"model": model()}, attention=chosen, tokens={"model": tokens}) as region:
        next(iter(region._observed)).table.model(NUMBERS)
    return [list(axis.tokens) for axis in region.attention["model"].overview(example).header.axes]


@pytest.mark.parametrize("tokens", [Tokenizer(), Tokenizer().convert_ids_to_tokens])
def test_a_tokenizer_names_what_the_embedding_looked_up_for_each_example(tokens: Any) -> None:
    assert labels(tokens) == [["the", "cat", "sat", "on", "the", "mat"]]
    assert labels(tokens, 1) == [["the", "mat", "sat", "[PAD]", "[PAD]", "[PAD]"]]


def test_labels_of_a_tokenizer_are_redacted() -> None:
    assert labels(Tokenizer(), redact=lambda label: label[0]) == [["t", "c", "s", "o", "t", "m"]]


def test_an_encoding_of_a_fast_tokenizer_labels_each_example() -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[PAD]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]")
    encoding = fast(["the cat sat on the mat", "the mat sat"], padding=True)
    assert labels(encoding, 1) == [["the", "mat", "sat", "[PAD]", "[PAD]", "[PAD]"]]
    assert labels(fast) == [["the", "cat", "sat", "on", "the", "mat"]]
    assert labels(inner) == [["the", "cat", "sat", "on", "the", "mat"]]


def test_a_decoding_loop_is_labelled_with_all_of_its_tokens() -> None:
    found = model()
    embedding = found.tokens

    def step(numbers: torch.Tensor, cache: list[torch.Tensor]) -> torch.Tensor:
        q = embedding(numbers).unsqueeze(1)
        cache.append(q)
        k = torch.cat(cache, 2)
        return nn.functional.scaled_dot_product_attention(q, k, k)

    loop = Function(step, tokens=embedding)
    cache: list[torch.Tensor] = []
    with (
        torch.no_grad(),
        observe({"model": loop}, attention=AttentionOptions(), tokens={"model": Tokenizer()}) as region,
    ):
        loop(NUMBERS[:, :3], cache)
        for at in range(3, 6):
            loop(NUMBERS[:, at : at + 1], cache)
    last = region.attention["model"].overview().header.axes[-1]
    assert list(last.tokens) == ["the", "cat", "sat", "on", "the", "mat"]


def test_two_sequences_of_one_length_get_no_label_rather_than_a_wrong_one() -> None:
    found = model()

    def twice(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        q, k = found.tokens(first).unsqueeze(1), found.tokens(second).unsqueeze(1)
        return nn.functional.scaled_dot_product_attention(q, k, k)

    both = Function(twice, tokens=found.tokens)
    with (
        torch.no_grad(),
        observe({"model": both}, attention=AttentionOptions(), tokens={"model": Tokenizer()}) as region,
    ):
        both(NUMBERS[:1], NUMBERS[1:])
    assert [list(axis.tokens) for axis in region.attention["model"].overview().header.axes] == [[]]
