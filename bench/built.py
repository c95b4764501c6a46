#!/usr/bin/env python3
"""Builds each network by measurement, and prints what was built beside the simple ways.

    bench/built.py [--budget 60s] [--seconds 8] [--json FILE] [--neighbour] [--fresh] [--batches] MODEL.onnx|FOLDER ...

The package is built first; then, in a new process, `penstock bench` runs it in turn with ONNX Runtime's
default, one session a core, OpenVINO's latency and throughput hints, and one OpenVINO model of one thread a
core, all f32 on the file as it is: only ratios of one row are to be compared. `error` is how far the built
plan's predicted period was off.

A second table tells what each step gives over the ones before it (bench/steps.py), so that the choice of an
engine is not taken for partitioning: another engine in one session, one a core, the clean import by the same
engines, Penstock's own backends (oneDNN), the file as it is by them, several backends in a stage, several
stages. Its last columns hold each engine on the clean import to itself on the file as it is, one a core.

The bar: time per frame <= that of the best simple way / 0.97 + 1.5 us.
--neighbour keeps the last CPU busy with one spinning process, while building and while measuring.
--fresh begins with an empty database of costs.
--batches also builds each with several frames in one call where that is faster (`penstock build --batch auto`).
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from compare import bench, models_in, name_of, neighbour, penstock, rate, shapes_of
from steps import STEPS, gains_of, imports_of

WAYS = ("onnxruntime", "onnxruntime-per-core", "openvino-latency", "openvino-throughput", "openvino-per-core")


def batched_rate(model: Path, budget: str, folder: Path, seconds: float, simple: dict[str, float]) -> float:
    """Of what `build` makes where a call may take several frames, as if it had run beside `simple`."""
    package = folder / "batched"
    penstock("build", str(model), *shapes_of(model), "--budget", budget, "--batch", "auto", "-o", str(package))
    report = bench(package, model, seconds)
    return rate(report, "penstock") / rate(report, "onnxruntime") * simple["onnxruntime"]


def measure(model: Path, budget: str, seconds: float, batches: bool) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "built.penstock"
        begin = time.monotonic()
        built = penstock("build", str(model), *shapes_of(model), "--budget", budget, "-o", str(package))
        spent = time.monotonic() - begin
        report = bench(package, model, seconds)
        ours = rate(report, "penstock")
        ways = {run["name"]: run["frames_per_second"] for run in report["runs"] if run["name"] in WAYS}
        batched = batched_rate(model, budget, Path(folder), seconds, ways) if batches else 0
    best = max(ways.values())
    return {
        "model": name_of(model),
        "chosen": built["chosen"],
        "penstock": ours,
        "ways": ways,
        "over_best": ours / best,
        "over_default": ours / ways["onnxruntime"],
        "meets": 1 / ours <= 1 / best / 0.97 + 1.5e-6,
        "prediction_error": built["period_seconds"] * ours - 1,
        "steps": gains_of(built, ways, ours, batched),
        "imports": imports_of(built, ways, ours),
        "build_seconds": spent,
        "measured_parts": built["measured_parts"],
        "measured_plans": built["measured_plans"],
    }


def print_rows(rows: list[dict]) -> None:
    for row in rows:
        ways = "".join(f"{row['ways'].get(way, math.nan):>11.1f}" for way in WAYS)
        print(f"{row['model']:24}{ways}{row['penstock']:>11.1f}{row['over_best']:>9.3f}{row['over_default']:>9.2f}"
              f"{row['prediction_error'] * 100:>8.1f} %{row['build_seconds']:>7.0f} s  "
              f"{'met' if row['meets'] else 'MISSED':7} {row['chosen']}", flush=True)  # fmt: skip


def print_steps(rows: list[dict]) -> None:
    print(
        f"\n{'x the ways before':24}"
        + "".join(f"{step:>18}" for step in STEPS)
        + f"{'ORT import':>14}{'OV import':>14}"
    )
    for row in rows:
        gains = "".join(f"{row['steps'][step]:>18.3f}" for step in STEPS)
        imports = "".join(f"{row['imports'].get(engine, math.nan):>14.3f}" for engine in ("onnxruntime", "openvino"))
        print(f"{row['model']:24}{gains}{imports}")
    means = "".join(f"{geometric_mean(row['steps'][step] for row in rows):>18.3f}" for step in STEPS)
    print(f"{'geometric means':24}{means}")


def geometric_mean(values) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--seconds", type=float, default=8, help="of each row's comparison")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--neighbour", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--batches", action="store_true")
    options = parser.parse_args()
    rows = []
    print(f"{'network':24}{'ORT':>11}{'ORT/core':>11}{'OV lat':>11}{'OV thr':>11}{'OV/core':>11}{'penstock':>11}"
          f"{'/best':>9}{'/ORT':>9}{'error':>10}{'build':>9}  bar     chosen")  # fmt: skip
    with neighbour(options.neighbour), tempfile.TemporaryDirectory() as folder:
        if options.fresh:
            os.environ["PENSTOCK_COSTS"] = str(Path(folder) / "costs.db")
        for model in models_in(options.models):
            try:
                rows.append(measure(model, options.budget, options.seconds, options.batches))
                print_rows(rows[-1:])
            except RuntimeError as error:
                print(f"{model}: {error}", file=sys.stderr)
    if rows:
        print_steps(rows)
        errors = sorted(abs(row["prediction_error"]) * 100 for row in rows)
        print(f"geometric means: {geometric_mean(row['over_best'] for row in rows):.3f} of the best simple way, "
              f"{geometric_mean(row['over_default'] for row in rows):.2f} of ONNX Runtime's default; "
              f"prediction off by {statistics.median(errors):.1f} % (median), {errors[-1]:.1f} % (worst)")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
