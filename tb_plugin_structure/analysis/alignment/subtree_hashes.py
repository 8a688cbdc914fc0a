"""Hashes of all subtrees of a tree in a few passes over arrays, whatever its depth."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.records.table import Array

_PRIMES = (2147483647, 2147483629)
_BASES = (1103515245, 1402024253)
_MIX = np.uint64(0x9E3779B97F4A7C15)


def tokens(*columns: Array) -> Array:
    """A pseudo-random number for each row of equally long columns of whole numbers; equal rows get equal numbers."""
    value = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        value = (value ^ column.astype(np.uint64)) * _MIX
        value = (value ^ (value >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(32)
    return value


class SubtreeHashes:
    """Hashes of the subtrees of one tree whose nodes are in pre-order.

    The numbers of children in pre-order say what a tree looks like, so that two subtrees are equal when their nodes
    (and numbers of children) are, one by one: a subtree's hash is that of a segment. Segments are hashed as Rabin and
    Karp do it, by a polynomial in a fixed base, modulo two primes; any segment's value is a difference of running sums.
    Two different subtrees of n nodes collide with a probability of at most (n / 2^31)^2.
    """

    def __init__(self, size: Array, children: Array) -> None:
        self._begin = np.arange(len(size), dtype=np.int64)
        self._end = self._begin + size
        self._children = children
        self._powers = [_powers(base, prime, len(size)) for base, prime in zip(_BASES, _PRIMES, strict=True)]
        inverses = [pow(base, -1, prime) for base, prime in zip(_BASES, _PRIMES, strict=True)]
        self._inverses = [_powers(base, prime, len(size)) for base, prime in zip(inverses, _PRIMES, strict=True)]

    def of(self, nodes: Array, edges: Array | None = None) -> Array:
        """One number for each subtree.

        Args:
            nodes: A number for what each node is.
            edges: A number for how each node hangs below its parent; it counts for the subtrees around the node, not
                for its own.
        """
        own = tokens(nodes, self._children)
        above = tokens(edges) if edges is not None else None
        result = np.zeros(len(nodes), np.int64)
        for prime, powers, inverses in zip(_PRIMES, self._powers, self._inverses, strict=True):
            value = (own % np.uint64(prime)).astype(np.int64)
            edge = (above % np.uint64(prime)).astype(np.int64) if above is not None else 0
            running = np.concatenate([[0], np.cumsum((value + edge) % prime * powers % prime)])
            found = (running[self._end] - running[self._begin]) % prime * inverses % prime
            result = (result << 31) | ((found - edge) % prime)
        return result


def _powers(base: int, prime: int, count: int) -> Array:
    """base^0 to base^(count - 1) modulo a prime below 2^31."""
    powers = np.ones(max(count, 1), np.int64)
    done = 1
    while done < count:
        more = min(done, count - done)
        powers[done : done + more] = powers[:more] * pow(base, done, prime) % prime
        done += more
    return powers[:count]
