"""From evidence to a probability that a pair is right."""

from __future__ import annotations

from math import exp

from tb_plugin_structure.analysis.alignment.links import Link


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + exp(-value))


def confidence(link: Link, parent: float, interchangeable: bool) -> float:
    """Confidence in [0, 1] of one pair.

    Args:
        link: The pair, with its score and the best score either side had elsewhere.
        parent: Confidence of the pair it lies in; a pair is no surer than what it lies in.
        interchangeable: Whether equal blocks were told apart by a policy alone.
    """
    if link.how in ("pin", "root"):
        return 1.0
    if link.how == "weights":
        own = 0.99
    elif link.how == "stage":
        own = 0.7
    elif link.how == "policy":
        own = 0.55 if interchangeable else sigmoid(8.0 * (link.score - 0.5))
    elif link.how == "nesting":
        own = sigmoid(6.0 * (link.score - 0.3))
    else:
        margin = max(0.0, link.score - link.rival)
        own = sigmoid(6.0 * (link.score - 0.35) + 4.0 * margin)
        if link.how == "moved":
            own *= 0.85
    return own * parent
