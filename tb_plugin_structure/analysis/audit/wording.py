"""Counts in sentences for people."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "batch norm layer"), counted(1200, "parameter")
    ('1 batch norm layer', '1,200 parameters')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def operator_text(name: str) -> str:
    """An operator's name for sentences: a lone sign would look like a dash, or like nothing.

    >>> operator_text("-"), operator_text("mse_loss")
    ('minus', 'mse_loss')
    """
    return "minus" if name == "-" else name
