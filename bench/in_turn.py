#!/usr/bin/env python3
"""Runs hand_over_bench of two builds in turn and compares what each costs.

    bench/in_turn.py OURS THEIRS [--rounds N] [--only NAME ...]

OURS and THEIRS are the two programs, such as build/release/bin/hand_over_bench of this tree and of
an earlier commit built beside it. Each round runs one benchmark of both, one after the other, who
goes first by turns. Printed is the ratio ours/theirs of the cost (below 1: ours is cheaper): its
median over the rounds, the interval that holds that median in 95 of 100 cases (order statistics),
the quartiles, and whether the interval reaches down to the bar. Ends with 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from dataclasses import dataclass


@dataclass
class Figure:
    """What one benchmark measures: `cost` makes of its counters what should be small."""

    filter: str
    bar: float
    counter: str
    of_rate: bool = False  # The counter grows as things get better.

    def cost(self, program: str) -> float:
        command = [program, f"--benchmark_filter={self.filter}", "--benchmark_format=json"]
        # A bar of its own that it misses makes the program end with 1: here only ratios count.
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        benchmarks = json.loads(done.stdout)["benchmarks"]
        if len(benchmarks) != 1:
            sys.exit(f"{program}: expected one benchmark by {self.filter}, found {len(benchmarks)}")
        value = benchmarks[0][self.counter]
        return 1 / value if self.of_rate else value


FIGURES = {
    "saturated": Figure("bm_saturated", 1.03, "penstock_ns"),
    "two_stages": Figure("bm_two_stages/us:15/", 1.03, "penstock_share", of_rate=True),
    "wake_0": Figure("bm_wake/gap_ms:0/", 1.03, "penstock_us"),
    "wake_1": Figure("bm_wake/gap_ms:1/", 1.03, "penstock_us"),
    "wake_5": Figure("bm_wake/gap_ms:5/", 1.03, "penstock_us"),
    "idle": Figure("bm_idle", 1.03, "cpu_percent"),
}


def interval(values: list[float]) -> tuple[float, float]:
    """The order statistics between which the median lies in 95 of 100 cases."""
    values = sorted(values)
    n = len(values)
    below, rank = 0.0, 0
    while rank < n // 2:
        below += math.comb(n, rank) / 2**n
        if below > 0.025:
            break
        rank += 1
    rank = max(rank, 1)
    return values[rank - 1], values[n - rank]


def compare(name: str, ours: str, theirs: str, rounds: int) -> bool:
    figure = FIGURES[name]
    costs: dict[str, list[float]] = {ours: [], theirs: []}
    for turn in range(rounds):
        for program in (ours, theirs) if turn % 2 == 0 else (theirs, ours):
            costs[program].append(figure.cost(program))
    ratios = [a / b for a, b in zip(costs[ours], costs[theirs], strict=True)]
    low, high = interval(ratios)
    first, median, third = statistics.quantiles(ratios, n=4)
    met = low <= figure.bar
    print(
        f"{name}: {figure.counter} {statistics.median(costs[ours]):.4g} and "
        f"{statistics.median(costs[theirs]):.4g} (costs), ratio {median:.3f}, "
        f"interval {low:.3f} to {high:.3f}, quartiles {first:.3f} and {third:.3f}, "
        f"{rounds} rounds; bar {figure.bar}: {'met' if met else 'MISSED'}",
        flush=True,
    )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("--rounds", type=int, default=20, help="at least 2 (default: 20)")
    parser.add_argument("--only", nargs="*", choices=FIGURES, default=list(FIGURES))
    given = parser.parse_args()
    met = [compare(name, given.ours, given.theirs, given.rounds) for name in given.only]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
