#!/usr/bin/env python3
"""Prints what each backend alone takes for the whole network on one thread, beside the others in one process.

    bench/alone.py [--cpu 1] [--seconds 12] [--backends onednn,onnxruntime,openvino] MODEL.onnx|FOLDER ...

After the clean import, so that the engines alone differ. The backends take turns in rounds of about 2 ms or a frame;
a backend's time is its fastest round, and its ratio that time over the first backend's. In brackets the same ratio of
the lower quartiles: on a machine that others use too, what lies between the two is what they cost. A backend that does
not take the network says why.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from compare import models_in, name_of, penstock, shapes_of
from mixing import load, machine, random_feed, seconds_of

ROUND_SECONDS = 0.002


def packages_of(model: Path, backends: list[str], cpu: int, folder: Path) -> dict[str, Path]:
    packages = {}
    for backend in backends:
        try:
            penstock(
                "split", str(model), *shapes_of(model), "--devices", f"cpu:{cpu}", "--backend", backend,
                "-o", str(folder / backend),
            )  # fmt: skip
            packages[backend] = folder / backend
        except RuntimeError as error:
            print(f"{name_of(model)}: {backend}: {error}", file=sys.stderr)
    return packages


def race(packages: dict[str, Path], seconds: float) -> dict[str, list[float]]:
    """Seconds of a frame in each round, sorted."""
    pipelines = {}
    for name, package in packages.items():
        try:
            pipelines[name] = load(package)
        except Exception as error:  # Of the engine, with its own sentence.
            print(f"{package}: {error}", file=sys.stderr)
    times: dict[str, list[float]] = {name: [] for name in pipelines}
    if not pipelines:
        return times
    feed = random_feed(next(iter(pipelines.values())))
    counts = {
        name: max(1, round(ROUND_SECONDS / min(seconds_of(pipeline, feed, 1) for _ in range(5))))
        for name, pipeline in pipelines.items()
    }
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, pipeline in pipelines.items():
            times[name].append(seconds_of(pipeline, feed, counts[name]))
    for pipeline in pipelines.values():
        pipeline.shut_down()
    return {name: sorted(found) for name, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=12, help="of each network's comparison")
    parser.add_argument("--backends", default="onednn,onnxruntime,openvino")
    options = parser.parse_args()
    print(machine())
    for model in models_in(options.models):
        with tempfile.TemporaryDirectory() as folder:
            packages = packages_of(model, options.backends.split(","), options.cpu, Path(folder))
            times = race(packages, options.seconds)
        cells = []
        for found in times.values():
            first = next(iter(times.values()))
            low, high = found[0] / first[0], found[len(found) // 4] / first[len(first) // 4]
            cells.append(f"{found[0] * 1e3:9.3f} ms {low:5.2f} ({high:4.2f})")
        print(
            f"{name_of(model):26}" + "  ".join(f"{name} {cell}" for name, cell in zip(times, cells, strict=True)),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
