#!/usr/bin/env python3
"""Prints, for each network, two stages and two replicas of Penstock beside ONNX Runtime alone.

    bench/compare.py [--seconds 6] [--json FILE] [--neighbour] MODEL.onnx|FOLDER ...

Each figure is frames per second from `penstock bench`, which runs all sides in turn within one
process: only ratios of one row's run are to be compared. Two stages are cut where a short bench of
a few cuts near the half of the multiply-accumulates is fastest. `1 thread` is what the clean import
alone gives: one stage over one session of ONNX Runtime on the file as it is, both on one CPU.

--neighbour keeps the last CPU busy with one spinning process meanwhile.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/bin/penstock"))
SHARES = (0.35, 0.42, 0.46, 0.50, 0.54, 0.58, 0.65)  # of the cost, where cuts are tried
# Open dimensions of known networks, and integers that a random value would make meaningless.
SHAPES = {
    "silero_vad_16k_op15": {"input": "1x576", "state": "2x1x128"},
    "basic_pitch": {"serving_default_input_2:0": "1x43844x1"},
    "super_resolution_10": {"input": "1x1x224x224"},
}


def penstock(*arguments: str, cpu: int | None = None) -> dict:
    """Runs one command with --json, on one CPU if so asked; raises with its own sentence if it fails."""
    there = ["taskset", "-c", str(cpu)] if cpu is not None else []
    done = subprocess.run([*there, PENSTOCK, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def shapes_of(model: Path) -> list[str]:
    return [a for key, dims in SHAPES.get(name_of(model), {}).items() for a in ("--shape", f"{key}={dims}")]


def costs_of(nodes: list[dict]) -> list[float]:
    """A node's share of the work, good enough to find cuts worth trying."""
    return [node.get("macs", 0) + 2000 for node in nodes]


def candidate_cuts(model: Path) -> list[int]:
    nodes = penstock("show", str(model), *shapes_of(model))["nodes"]
    costs = costs_of(nodes)
    total, seen, cuts = sum(costs), 0.0, []
    for node, cost in zip(nodes, costs, strict=True):
        seen += cost
        if len(cuts) < len(SHARES) and seen >= SHARES[len(cuts)] * total:
            cuts.append(node["index"])
    return sorted({cut for cut in cuts if cut < len(nodes) - 1})


def split(model: Path, package: Path, *arguments: str) -> None:
    penstock("split", str(model), *shapes_of(model), *arguments, "-o", str(package))


def bench(package: Path, model: Path | None, seconds: float, cpu: int | None = None) -> dict:
    beside = ["--model", str(model)] if model else []
    return penstock("bench", str(package), *beside, "--seconds", str(seconds), cpu=cpu)


def rate(report: dict, name: str) -> float:
    return next(run["frames_per_second"] for run in report["runs"] if run["name"] == name)


def best_two_stages(model: Path, folder: Path) -> Path | None:
    """The fastest of the cuts tried, or None where no cut leaves two stages."""
    best, best_rate = None, 0.0
    for cut in candidate_cuts(model):
        package = folder / f"cut{cut}"
        try:
            split(model, package, "--cut", str(cut))
            found = rate(bench(package, None, 0.5), "penstock")
        except RuntimeError:
            continue  # This cut leaves an empty stage.
        if found > best_rate:
            best, best_rate = package, found
    return best


def gain_of_import(model: Path, folder: Path, seconds: float) -> float:
    first = min(os.sched_getaffinity(0))
    split(model, folder / "one", "--devices", f"cpu:{first}")
    report = bench(folder / "one", model, seconds / 2, first)
    return rate(report, "penstock") / rate(report, "onnxruntime-per-core")


def name_of(model: Path) -> str:
    return model.parent.name if model.stem == "model" else model.stem


def measure(model: Path, seconds: float) -> dict:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        split(model, folder / "replicas", "--replicas", str(len(os.sched_getaffinity(0))))
        reports = {"replicas": bench(folder / "replicas", model, seconds)}
        if stages := best_two_stages(model, folder):
            reports["stages"] = bench(stages, model, seconds)
        row = {"model": name_of(model), "one_thread": gain_of_import(model, folder, seconds)}
    for way, report in reports.items():
        default, per_core = rate(report, "onnxruntime"), rate(report, "onnxruntime-per-core")
        row[way] = {
            "penstock": rate(report, "penstock"),
            "onnxruntime": default,
            "onnxruntime-per-core": per_core,
            "over_default": rate(report, "penstock") / default,
            "over_better": rate(report, "penstock") / max(default, per_core),
        }
    ways = [row[way] for way in ("replicas", "stages") if way in row]
    row["best_over_default"] = max(way["over_default"] for way in ways)
    # The bar: time per frame <= ONNX Runtime's better way / 0.97 + 1.5 us, for the better of ours.
    row["meets_better_way"] = any(
        1 / way["penstock"] <= 1 / max(way["onnxruntime"], way["onnxruntime-per-core"]) / 0.97 + 1.5e-6 for way in ways
    )
    return row


def models_in(arguments: list[str]) -> list[Path]:
    found: list[Path] = []
    for argument in map(Path, arguments):
        found += sorted(argument.rglob("*.onnx")) if argument.is_dir() else [argument]
    return found


@contextmanager
def neighbour(wanted: bool):
    """One spinning process on the last CPU meanwhile."""
    if not wanted:
        yield
        return
    last = max(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{last}}})\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", spin])
    try:
        yield
    finally:
        process.kill()


def print_table(rows: list[dict]) -> None:
    print(f"{'network':26} {'ORT default':>12} {'ORT per core':>13} {'2 replicas':>11} {'2 stages':>9} "
          f"{'best/default':>13} {'best/better':>12} {'1 thread':>9}  bar")  # fmt: skip
    for row in rows:
        first, stages = row["replicas"], row.get("stages")
        better = max(row[way]["over_better"] for way in ("replicas", "stages") if way in row)
        shown = f"{stages['penstock']:9.1f}" if stages else f"{'-':>9}"
        print(f"{row['model']:26} {first['onnxruntime']:12.1f} {first['onnxruntime-per-core']:13.1f} "
              f"{first['penstock']:11.1f} {shown} {row['best_over_default']:13.2f} "
              f"{better:12.3f} {row['one_thread']:9.2f}  {'met' if row['meets_better_way'] else 'MISSED'}")  # fmt: skip
    mean = math.exp(sum(math.log(row["best_over_default"]) for row in rows) / len(rows))
    print(f"geometric mean of best/default: {mean:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seconds", type=float, default=6, help="measured for each row and way")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--neighbour", action="store_true", help="keep the last CPU busy meanwhile")
    options = parser.parse_args()
    rows = []
    with neighbour(options.neighbour):
        for model in models_in(options.models):
            try:
                rows.append(measure(model, options.seconds))
                print_table(rows[-1:]) if sys.stderr.isatty() else None
            except RuntimeError as error:
                print(f"{model}: {error}", file=sys.stderr)
    if rows:
        print_table(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
