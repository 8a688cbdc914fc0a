"""Sums over module trees whose modules share parameters."""

from __future__ import annotations

import tracemalloc

from tb_plugin_structure.records.subtrees import subtree_totals


def test_a_shared_parameter_counts_once_where_its_owners_meet() -> None:
    #        0
    #      /   \
    #     1     2
    #    / \     \
    #   3   4     5       3 and 4 own parameter 0, 5 owns it as well; 2 owns parameter 1
    totals = subtree_totals([-1, 0, 0, 1, 1, 2], [[], [], [1], [0], [0], [0]], [10, 7])
    assert totals == [17, 10, 17, 10, 10, 10]


def test_a_parameter_that_one_module_owns_under_two_names_counts_once() -> None:
    assert subtree_totals([-1, 0], [[0], [0, 0]], [5]) == [5, 5]


def test_rows_need_not_be_in_the_order_of_a_walk() -> None:
    assert subtree_totals([-1, 0, 0, 2, 1, 2], [[], [], [], [0], [0], [0]], [4]) == [4, 4, 4, 4, 4, 4]


def test_a_deep_tree_takes_memory_of_its_rows_not_of_rows_times_depth() -> None:
    depth, parameters = 1_000, 20_000
    owned = [[level] for level in range(depth)] + [list(range(depth, parameters))]
    tracemalloc.start()
    totals = subtree_totals(list(range(-1, depth)), owned, [1] * parameters)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert totals[0] == parameters
    assert totals[depth] == parameters - depth
    assert peak < 5 << 20
