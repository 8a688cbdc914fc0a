"""Labels of positions: given as a list, by an encoding, or by a tokenizer from the numbers that the model looked up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

_MOST_NUMBERS = 1 << 18


class _LookUp(NamedTuple):
    """Numbers that an embedding was asked for: [batch, positions]."""

    module_path: str
    table_rows: int
    numbers: torch.Tensor


class TokenLabels:
    """Finds the labels of a sequence by its length.

    Args:
        tokens: A list of strings; an encoding (an object with ``tokens()``, as fast tokenizers give); a tokenizer (an
            object with ``convert_ids_to_tokens``, or a function from numbers to strings); or module prefix -> one of
            these; None for none.
        redact: Applied to every label.
    """

    def __init__(self, tokens: Any, redact: Callable[[str], str] | None) -> None:
        self._tokens = tokens
        self._redact = redact
        self._look_ups: list[_LookUp] = []
        self._streams: dict[tuple[str, int, int], list[torch.Tensor]] = {}

    @property
    def wants_numbers(self) -> bool:
        """Whether a tokenizer has to name what the model looks up."""
        return any(_names_numbers(tokens) is not None for _, tokens in self._of_prefixes())

    def looked_up(self, module_path: str, table_rows: int, numbers: torch.Tensor) -> None:
        """An embedding with `table_rows` entries was asked for numbers, [batch, positions] or [positions]."""
        if numbers.dim() not in (1, 2) or numbers.is_floating_point() or not 0 < numbers.numel() <= _MOST_NUMBERS:
            return
        held = numbers.detach().to("cpu", torch.int64, copy=True)
        held = held if held.dim() == 2 else held.unsqueeze(0)
        counting = torch.arange(held.shape[1]) + held[:, :1]
        if held.shape[1] > 1 and torch.equal(held, counting):
            return  # positions, not tokens
        self._look_ups.append(_LookUp(module_path, table_rows, held))
        # With a cache, each step looks up the next token alone: all of them are one sequence.
        stream = self._streams.setdefault((module_path, table_rows, len(held)), [])
        stream.append(held)
        if sum(part.shape[1] for part in stream) > _MOST_NUMBERS:
            stream.clear()

    def of(self, length: int, module_path: str, example: int) -> list[str] | None:
        """Labels of `length` positions that a module attends over; None when there are none of that number."""
        for _, tokens in sorted(self._of_prefixes(), key=lambda item: not module_path.startswith(item[0])):
            labels = self._labels(tokens, length, module_path, example)
            if labels is not None and len(labels) == length:
                return [_printable(self._redact(str(label)) if self._redact else str(label)) for label in labels]
        return None

    def _of_prefixes(self) -> list[tuple[str, Any]]:
        tokens = self._tokens
        if tokens is None:
            return []
        # An encoding is a mapping, too.
        if isinstance(tokens, Mapping) and not callable(getattr(tokens, "tokens", None)):
            return list(tokens.items())
        return [("", tokens)]

    def _labels(self, tokens: Any, length: int, module_path: str, example: int) -> Sequence[Any] | None:
        name = _names_numbers(tokens)
        if name is not None:
            numbers = self._numbers(length, module_path, example)
            return None if numbers is None else name(numbers)
        if callable(getattr(tokens, "tokens", None)):
            try:
                return list(tokens.tokens(example))
            except (TypeError, IndexError):
                return list(tokens.tokens())
        own = getattr(tokens, "tokens", None)  # of the `tokenizers` package an attribute
        return own if isinstance(own, list) else tokens

    def _numbers(self, length: int, module_path: str, example: int) -> list[int] | None:
        """What was looked up for a sequence of this length: in the largest table, nearest to the module."""
        joined = [
            _LookUp(path, rows, torch.cat(parts, 1))
            for (path, rows, _), parts in self._streams.items()
            if len(parts) > 1 and sum(part.shape[1] for part in parts) == length
        ]
        fitting = [found for found in [*self._look_ups, *joined] if found.numbers.shape[1] == length]
        most = max((found.table_rows for found in fitting), default=0)
        fitting = [found for found in fitting if found.table_rows == most]
        if not fitting:
            return None
        near = max(_shared(found.module_path, module_path) for found in fitting)
        fitting = [found for found in fitting if _shared(found.module_path, module_path) == near]
        chosen = {tuple(found.numbers[min(example, len(found.numbers) - 1)].tolist()) for found in fitting}
        return list(chosen.pop()) if len(chosen) == 1 else None  # two sequences of one length: better no label


def _names_numbers(tokens: Any) -> Callable[[list[int]], Sequence[Any]] | None:
    """The function of a tokenizer that names numbers; None when `tokens` is none."""
    named = getattr(tokens, "convert_ids_to_tokens", None)
    if callable(named):
        return named  # type: ignore[no-any-return]
    one = getattr(tokens, "id_to_token", None)  # of the `tokenizers` package
    if callable(one):
        return lambda numbers: [one(number) for number in numbers]
    return tokens if callable(tokens) and not hasattr(tokens, "tokens") else None


def _shared(first: str, second: str) -> int:
    """How many leading parts two module paths have in common."""
    parts = zip(first.split("."), second.split("."), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], parts))


def _printable(label: str) -> str:
    """Labels are UTF-8 in the record: a lone surrogate cannot be written."""
    return label.encode("utf-8", "replace").decode("utf-8")
