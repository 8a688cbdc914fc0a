"""How long an alignment takes, how it grows, and what simpler rules cost and find.

    python benchmarks/alignment.py            # sizes, growth, rules, calibration: the tables of docs/alignment.md
    python benchmarks/alignment.py --quick    # a tenth of the size

Times are CPU seconds of this process for `align` and for the wire message with its operator pairs; the record is in
memory. Each size is aligned in a fresh process, so that the peak of memory is its own; the peak includes Python, numpy
and both records, which were there before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from alignment_graphs import Module, branching, deep, flat, irregular, language_model, record, reduced, wide

from tb_plugin_structure.analysis.alignment import align

Pair = tuple[Module, Module]


def tree(size: int) -> Pair:
    teacher = irregular(size, 1)
    return teacher, reduced(teacher, size // 2, 2)


def fine_tree(size: int) -> Pair:
    """As many modules to the operators as real records have."""
    teacher = irregular(size, 1, of_a_module=(1, 6))
    return teacher, reduced(teacher, size // 2, 2)


def flat_graph(size: int) -> Pair:
    teacher = flat(size, 1)
    return teacher, reduced(teacher, size // 2, 2)


def branching_graph(size: int) -> Pair:
    teacher = branching(size, 1)
    return teacher, reduced(teacher, size // 2, 2)


def wide_graph(size: int) -> Pair:
    teacher = wide(size, 1)
    return teacher, reduced(teacher, size // 2, 2)


def deep_graph(size: int) -> Pair:
    teacher = deep(size, 1)
    return teacher, reduced(teacher, size // 2, 2)


def decoder(_: int) -> Pair:
    return language_model(80, 64), language_model(32, 32)


def experts(_: int) -> Pair:
    return language_model(4, 64, 256), language_model(2, 32, 256)


CASES: dict[str, tuple[str, Callable[[int], Pair]]] = {
    "tree": ("irregular tree of modules", tree),
    "fine_tree": ("irregular tree, small modules", fine_tree),
    "flat": ("irregular, one flat module", flat_graph),
    "branching": ("irregular, random names", branching_graph),
    "wide": ("irregular, all modules side by side", wide_graph),
    "deep": ("irregular, 1,000 levels deep", deep_graph),
    "decoder": ("decoder, 80 against 32 layers", decoder),
    "experts": ("256 experts, 4 against 2 layers", experts),
}
GROWING = ("tree", "fine_tree", "flat", "branching", "wide", "deep")


def measure(case: str, size: int) -> dict[str, float]:
    """CPU seconds of `align` and of the wire message, sizes, and the peak of memory, of this process."""
    made_t, made_s = CASES[case][1](size)
    teacher, student = record(made_t, "teacher"), record(made_s, "student")
    del made_t, made_s
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    alignment = align(teacher=teacher, student=student)
    middle = time.process_time()
    alignment.to_proto().SerializeToString()
    end = time.process_time()
    pairs = alignment.operator_pairs
    return {
        "calls_t": teacher.module_calls.rows,
        "calls_s": student.module_calls.rows,
        "operators_t": teacher.operators.rows,
        "operators_s": student.operators.rows,
        "align": middle - begin,
        "message": end - middle,
        "paired": int(np.sum((np.array(pairs.teacher) >= 0) & (np.array(pairs.student) >= 0))),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "before_mb": before / 1024,
    }


def measured(case: str, size: int, repeats: int) -> dict[str, float]:
    """The fastest of several fresh processes."""
    found = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--one", case, "--size", str(size)]
        found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return min(found, key=lambda entry: entry["align"] + entry["message"])


def sizes_and_growth(scale: int, repeats: int) -> None:
    print("| graph | module calls T / S | operators T / S | align s | message s | total s | paired | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    largest: dict[str, float] = {}
    for case, (title, _) in CASES.items():
        found = measured(case, 100_000 // scale, repeats)
        largest[case] = found["align"] + found["message"]
        print(
            f"| {title} | {found['calls_t']:,} / {found['calls_s']:,} | {found['operators_t']:,} / "
            f"{found['operators_s']:,} | {found['align']:.2f} | {found['message']:.2f} | {largest[case]:.2f} | "
            f"{found['paired']:,} | {found['peak_mb']:.0f} |",
            flush=True,
        )
    print(f"\nn log n grows as n^{_slope(lambda n: n * np.log(n), scale):.2f} over these sizes.")
    for case in GROWING:
        times = [
            largest[case] if size == 100_000 // scale else sum(measured(case, size, repeats)[key] for key in _TIMES)
            for size in _sizes(scale)
        ]
        slope = float(np.polyfit(np.log(_sizes(scale)), np.log(np.maximum(times, 1e-3)), 1)[0])
        last = float(np.log(times[-1] / times[-3]) / np.log(10))
        shown = ", ".join(f"{value:.3f}" for value in times)
        print(
            f"{CASES[case][0]}: {shown} s at {', '.join(f'{size:,}' for size in _sizes(scale))} operators; "
            f"growth n^{slope:.2f}, over the last factor of ten n^{last:.2f}",
            flush=True,
        )


_TIMES = ("align", "message")


def _sizes(scale: int) -> list[int]:
    return [size // scale for size in (1_000, 3_000, 10_000, 30_000, 100_000)]


def _slope(function: Callable[[float], float], scale: int) -> float:
    sizes = _sizes(scale)
    return float(np.polyfit(np.log(sizes), np.log([function(size) for size in sizes]), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each figure; the fastest counts")
    parser.add_argument("--only", choices=("sizes", "rules", "calibration"), help="one part")
    parser.add_argument("--one", choices=tuple(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=100_000, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.setrecursionlimit(20_000)  # the generators of deep graphs call themselves; the alignment does not
    if options.one:
        print(json.dumps(measure(options.one, options.size)))
        return
    if options.only in (None, "sizes"):
        sizes_and_growth(10 if options.quick else 1, options.repeats)
    # What follows needs torch, which would count as memory of the sizes.
    if options.only in (None, "rules"):
        from alignment_rules import compare_rules

        compare_rules(10 if options.quick else 1)
    if options.only in (None, "calibration"):
        from alignment_calibration import calibrate

        calibrate(2 if options.quick else 20)


if __name__ == "__main__":
    main()
