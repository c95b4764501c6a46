"""Frames through a pipeline, and a strict count: load.py PACKAGE RESULTS [--rate FRAMES_A_SECOND] [--deadline S].

Frames go in at the rate from one thread and come out in another; each holds its number, so that answers are known.
It ends when its standard input does. First it says "ready RATE": --rate, or 60 % of the most that it did for a second.
RESULTS gets a line of JSON: counts, times of frames by the system's steady clock, sentences of errors.
"""

import argparse
import collections
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 1024  # Values of a frame: 4 KiB.
WARM_S = 2.0
SHARE = 0.6  # Of the most that it can do.


def write_model(file: Path) -> Path:
    """y = (2 * x + 1) * 3, in three nodes."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH]) for name in "xy"]
    numbers = {"two": 2, "one": 1, "three": 3}
    weights = [numpy_helper.from_array(np.full(WIDTH, value, np.float32), name) for name, value in numbers.items()]
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["twice"]),
        helper.make_node("Add", ["twice", "one"], ["more"]),
        helper.make_node("Mul", ["more", "three"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "chaos", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def value_of(number: int) -> float:
    return float(number % 100_000)  # Exact, and so is what becomes of it.


class Load:
    """One run. `pipeline` is one that nobody else uses; frames have `deadline` seconds each."""

    def __init__(self, pipeline: Any, deadline: float) -> None:
        self.pipeline = pipeline
        self.deadline = deadline
        self.pushed = 0
        self.next = 0  # The number of the frame that has to come out now.
        self.ends = threading.Event()
        self.done: list[float] = []  # When frames that are right came out.
        self.failed: list[float] = []
        self.counts: collections.Counter[str] = collections.Counter()
        self.errors: collections.Counter[str] = collections.Counter()
        self.longest_ms = 0.0
        self.taker = threading.Thread(target=self._take)
        self.taker.start()

    def push(self) -> None:
        x = np.full(WIDTH, value_of(self.pushed), np.float32)
        number = self.pipeline.push({"x": x}, 60, self.pushed, deadline=self.deadline)
        self.counts["not in order"] += number != self.pushed
        self.pushed += 1

    def _take(self) -> None:
        while (frame := self.pipeline.pop(None)) is not None:
            self._count(frame)
            del frame

    def _count(self, frame: Any) -> None:
        now = time.monotonic()
        if frame.number != self.next or frame.tag != self.next:
            self.counts["lost" if frame.number > self.next else "doubled"] += abs(frame.number - self.next)
            self.next = max(self.next, frame.number)
        self.next += 1
        self.longest_ms = max(self.longest_ms, frame.latency_us / 1e3)
        if frame.ok:
            right = bool((frame["y"] == (2 * value_of(frame.number) + 1) * 3).all())
            self.counts["right" if right else "silent"] += 1  # Wrong, and nobody said so.
            self.done.append(now)
            return
        error = frame.error
        kind = type(error).__name__
        self.counts[kind] += 1
        self.errors[f"{kind}: {error}"[:300]] += 1
        self.failed.append(now)

    def warm(self) -> float:
        """Frames a second at most."""
        end = time.monotonic() + WARM_S
        while time.monotonic() < end:
            self.push()
        since = end - WARM_S / 2
        return sum(when > since for when in self.done) / (WARM_S / 2)

    def run(self, rate: float) -> None:
        due = time.monotonic()
        while not self.ends.is_set():
            late = time.monotonic() - due
            if late > 0.05:
                due += late  # What could not be pushed in time is not made up for.
            elif late < 0:
                self.ends.wait(-late)
            self.push()
            due += 1 / rate

    def finish(self, rate: float) -> dict[str, Any]:
        self.pipeline.close()
        self.taker.join()
        self.counts["lost"] += self.pushed - self.next
        return {
            "rate": rate,
            "pushed": self.pushed,
            "came_out": self.next,
            "longest_ms": self.longest_ms,
            "counts": {name: count for name, count in self.counts.items() if count},
            "errors": dict(self.errors.most_common(5)),
            "done": [round(when, 4) for when in self.done],
            "failed": [round(when, 4) for when in self.failed],
        }


def run(pipeline: Any, results: Path, rate: float | None, deadline: float) -> None:
    load = Load(pipeline, deadline)
    most = load.warm()
    rate = rate or max(1.0, SHARE * most)
    print(f"ready {rate}", flush=True)

    def wait_for_the_end() -> None:
        sys.stdin.read()
        load.ends.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    load.run(rate)
    results.write_text(json.dumps(load.finish(rate)))


def main() -> None:
    import penstock

    parser = argparse.ArgumentParser()
    parser.add_argument("package", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--deadline", type=float, default=10, help="of each frame, in seconds")
    options = parser.parse_args()
    with penstock.load(options.package) as pipeline:
        run(pipeline, options.results, options.rate, options.deadline)


if __name__ == "__main__":
    main()
