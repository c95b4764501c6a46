#!/usr/bin/env python3
"""Prints how near two balanced stages come to what their slower stage can do by itself.

    bench/balance.py [--seconds 3] [--rounds 5] [--json FILE] MODEL.onnx ...

A stage's own rate is that of a pipeline of this stage alone on its core, measured while the other
stage runs likewise on the other core; the bound is the slower of the two. Pipeline and bound are
measured in turn, `rounds` times: the medians' ratio is printed. The cut is the one whose slower
stage is fastest among a few near the half of the multiply-accumulates.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import PENSTOCK, candidate_cuts, penstock, rate, split

IN_FLIGHT = "8"  # Of every pipeline alike; few, so that rounds of slow networks end soon.


def start_bench(package: Path, seconds: float) -> subprocess.Popen:
    command = [PENSTOCK, "bench", str(package), "--seconds", str(seconds), "--in-flight", IN_FLIGHT, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def own_rates(stages: list[Path], seconds: float) -> list[float]:
    """Frames per second of each stage while the others run on their own cores."""
    rates = []
    for run in [start_bench(stage, seconds) for stage in stages]:
        out, err = run.communicate()
        if run.returncode != 0:
            raise RuntimeError(err.strip())
        rates.append(rate(json.loads(out), "penstock"))
    return rates


def split_apart(model: Path, cut: int, cpus: list[int], folder: Path) -> tuple[Path, list[Path]]:
    """A package of two stages, and one of each stage alone on the same core."""
    package = folder / f"cut{cut}"
    split(model, package, "--cut", str(cut), "--devices", ",".join(f"cpu:{cpu}" for cpu in cpus))
    alone = []
    for i, cpu in enumerate(cpus):
        alone.append(folder / f"cut{cut}-stage{i}")
        penstock("split", str(package / f"stages/{i}.onnx"), "--devices", f"cpu:{cpu}", "-o", str(alone[-1]))
    return package, alone


def measure(model: Path, seconds: float, rounds: int) -> dict:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as name:
        tried = [split_apart(model, cut, cpus, Path(name)) for cut in candidate_cuts(model)]
        package, stages = max(tried, key=lambda pair: min(own_rates(pair[1], 0.5)))
        pipeline, own = [], []
        for _ in range(rounds):
            pipeline += own_rates([package], seconds)
            own.append(own_rates(stages, seconds))
    slower = statistics.median(min(rates) for rates in own)
    return {
        "model": model.stem,
        "pipeline": statistics.median(pipeline),
        "stages": [statistics.median(rates) for rates in zip(*own, strict=True)],
        "slower": slower,
        "share": statistics.median(pipeline) / slower,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the rows there too")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("balance.py: needs two CPUs, one is allowed", file=sys.stderr)
        return 1
    rows = [measure(model, options.seconds, options.rounds) for model in options.models]
    print(f"{'network':20} {'stage 0 alone':>14} {'stage 1 alone':>14} {'pipeline':>10} {'of the slower':>14}")
    for row in rows:
        print(f"{row['model']:20} {row['stages'][0]:14.1f} {row['stages'][1]:14.1f} "
              f"{row['pipeline']:10.1f} {row['share']:14.3f}")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
