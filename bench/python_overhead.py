#!/usr/bin/env python3
"""Prints what Python costs on top of the C++ pipeline, and beside ONNX Runtime's own Python.

    bench/python_overhead.py [--seconds 10] [--json FILE] [MODEL.onnx ...]

All sides of a row take turns in batches of a few calls; printed is the time that a tenth of the batches
stay below, which other processes on the machine change little. `C++ run` is the library's own
Pipeline::run in a loop without the interpreter, `run` is `Pipeline.run(None, feed)`, `stream` and
`submit` are what a frame costs when several are in flight; `onnxruntime` is InferenceSession.run with one
thread. Microseconds for a frame; the models run on zeros. Left out: making inputs, anything done with
outputs.

The last row is a Python function as a stage, one that returns what it is given: the medians of
`compute_input`, `compute_infer` and `compute_output` together, less the bare call.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "build/release/lib/python"))

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402

import penstock  # noqa: E402

CALLS, FRAMES = 8, 64  # In a batch.
TARGET_US = 30  # Most that Pipeline.run may cost over the C++ call.
STAGE_TARGET_US = 20  # Most that a stage may cost over the call of its function.


def repeat(call: Callable[[], object]) -> Callable[[int], None]:
    def work(count: int) -> None:
        for _ in range(count):
            call()

    return work


def submitted(pipeline: penstock.Pipeline, feed: object) -> Callable[[int], None]:
    def work(count: int) -> None:
        for future in [pipeline.submit(feed) for _ in range(count)]:
            future.result()

    return work


def one_thread(model: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def measure(model: Path, seconds: float) -> dict[str, float]:
    session = one_thread(model)
    with penstock.split(model) as pipeline:
        feed = {
            info.name: np.zeros([dim if isinstance(dim, int) else 1 for dim in info.shape or []], info.dtype)
            for info in pipeline.get_inputs()
        }
        sides: dict[str, tuple[Callable[[int], object], int]] = {
            "onnxruntime": (repeat(lambda: session.run(None, feed)), CALLS),
            "C++ run": (lambda count: pipeline._core.run_repeatedly(feed, count), CALLS),
            "run": (repeat(lambda: pipeline.run(None, feed)), CALLS),
            "stream": (lambda count: sum(1 for _ in pipeline.stream(feed for _ in range(count))), FRAMES),
            "submit": (submitted(pipeline, feed), FRAMES),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(times["run"]) < 10:
            for name, (work, count) in sides.items():
                start = time.perf_counter()
                work(count)
                times[name].append((time.perf_counter() - start) / count * 1e6)
        row = {name: statistics.quantiles(values, n=10)[0] for name, values in times.items()}
        row["over C++"] = row["run"] - row["C++ run"]
        row["copies"] = pipeline.stats()["copies"] + sum(stage["copies"] for stage in pipeline.stats()["stages"])
    return row


def identity(x: np.ndarray) -> np.ndarray:
    return x


def measure_stage(seconds: float) -> dict[str, float]:
    app = penstock.App("identity")
    app.input("x")
    app.function("identity", identity, {"x": "f32[1,4]"}, {"y": "f32[1,4]"})
    app.connect("x", "identity.x")
    app.output("y", "identity.y")
    x = np.zeros((1, 4), np.float32)
    bare = []
    with app.start() as pipeline:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(bare) < 10:
            repeat(lambda: pipeline.run(None, x))(FRAMES)
            start = time.perf_counter()
            for _ in range(FRAMES):
                identity(x)
            bare.append((time.perf_counter() - start) / FRAMES * 1e6)
        stage = pipeline.stats()["stages"][0]
    phases = {name: stage[f"compute_{name}_us"]["p50"] for name in ("input", "infer", "output")}
    row = phases | {"bare call": statistics.median(bare)}
    row["over call"] = sum(phases.values()) - row["bare call"]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--seconds", type=float, default=10, help="for each model")
    parser.add_argument("--json", type=Path, help="write the rows here too")
    arguments = parser.parse_args()
    rows = {}
    head = ("onnxruntime", "C++ run", "run", "over C++", "stream", "submit")
    if arguments.models:
        print(f"{'network':26}" + "".join(f"{name:>13}" for name in head) + f"{'run/ort':>9}{'copies':>8}  bar")
    for model in arguments.models:
        name = model.parent.name if model.stem == "model" else model.stem
        row = rows[name] = measure(model, arguments.seconds)
        met = "met" if row["over C++"] <= TARGET_US else "MISSED"
        cells = "".join(f"{row[column]:13.1f}" for column in head)
        print(f"{name:26}{cells}{row['run'] / row['onnxruntime']:9.2f}{row['copies']:8.0f}  {met}", flush=True)
    row = rows["Python stage"] = measure_stage(arguments.seconds)
    cells = ", ".join(f"{name} {time:.2f}" for name, time in row.items())
    print(f"Python stage: {cells}  {'met' if row['over call'] <= STAGE_TARGET_US else 'MISSED'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
