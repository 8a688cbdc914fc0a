"""Names as evidence: the role that a path segment states, in a vocabulary shared by libraries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_OPAQUE = re.compile(r"^[a-zA-Z]?_?\d*$")

_SYNONYMS: Final[dict[str, str]] = {
    word: role
    for role, words in {
        "query": "q query wq qlin",
        "key": "k key wk klin",
        "value": "v value wv vlin",
        "qkv": "qkv wqkv wpack",
        "attention": "attention attn attentions sa mha",
        "cross": "cross xattn",
        "ffn": "ffn mlp ff feedforward feed ffwd",
        "norm": "norm ln layernorm rmsnorm batchnorm bn norms groupnorm gn",
        "projection": "proj projection lin linear dense fc c wo",
        "output": "out output o post outputs",
        "input": "input pre in before",
        "embedding": "embedding embeddings embed embeds emb wte tok",
        "position": "position positions pos positional wpe",
        "token": "word words token tokens",
        "activation": "act activation relu gelu silu nonlin nonlinearity fn",
        "head": "head classifier classification cls logits",
        "decoder": "decoder dec",
        "encoder": "encoder enc",
        "downsample": "downsample shortcut skip down",
        "gate": "gate gated",
        "up": "up intermediate expand",
        "pool": "pool pooling avgpool maxpool globalpool",
        "convolution": "conv convolution",
        "vision": "vision visual image",
        "text": "text language lm",
        "block": "block blocks layer layers h stage stages group groups features",
        "dropout": "drop dropout",
    }.items()
    for word in words.split()
}

_FILLER: Final = frozenset(
    [
        "self",
        "module",
        "model",
        "net",
        "base",
        "default",
        "orig",
        "original",
        "wrapped",
        "inner",
        "mod",
        "forward",
        "the",
    ]
)
_GENERIC: Final = frozenset(("projection", "block"))


@lru_cache(maxsize=65536)
def is_opaque(segment: str) -> bool:
    """Whether a segment says nothing: a number, or a letter with a number ("0", "m3")."""
    if segment[1:2].isalpha():
        return False  # two letters are a word
    return _OPAQUE.match(segment) is not None and _SYNONYMS.get(segment.lower()) is None


@lru_cache(maxsize=65536)
def role_words(segment: str) -> frozenset[str]:
    """The roles that one path segment states: "q_lin" -> {"query", "projection"}; numbers stay on what they number."""
    if is_opaque(segment):
        return frozenset()
    found: list[str] = []
    for word in _WORD.findall(segment):
        lower = word.lower()
        if lower.isdigit():
            if found:
                found.append("#" + lower)
        elif lower not in _FILLER:
            found.append(_SYNONYMS.get(lower, lower))
    return frozenset(found)


@lru_cache(maxsize=65536)
def says_little(segment: str) -> bool:
    """Whether a segment names no role beyond being a layer: "base_layer", "linear", "module"."""
    return role_words(segment) <= _GENERIC


def word_weight(word: str) -> int:
    """How much a role word says; whole numbers, so that sums do not depend on their order."""
    return 3 if word in _GENERIC else (5 if word.startswith("#") else 10)


@lru_cache(maxsize=65536)
def _total(words: frozenset[str]) -> int:
    return sum(map(word_weight, words))


@lru_cache(maxsize=262144)
def name_similarity(first: str, second: str) -> float:
    """0 to 1 for two path segments; 0 when either says nothing."""
    if is_opaque(first) or is_opaque(second):
        return 0.0
    if first == second:
        return 1.0
    return words_similarity(role_words(first), role_words(second))


@lru_cache(maxsize=262144)
def words_similarity(first: frozenset[str], second: frozenset[str]) -> float:
    """Weighted Jaccard similarity of two sets of role words; 0 when either is empty."""
    if not first or not second:
        return 0.0
    shared = sum(map(word_weight, first & second))
    return shared / (_total(first) + _total(second) - shared)
