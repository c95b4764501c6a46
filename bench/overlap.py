#!/usr/bin/env python3
"""Prints how well three calls overlap: decode and resize, a network, post-processing.

    bench/overlap.py [--seconds 2] [--rounds 5] [--json FILE] [MODEL.onnx]

Decoding and post-processing are Python functions that let the GIL go (numpy), on one CPU; the network
is on another, with one thread. Decoding repeats a step until both CPUs have the same to do. Three ways take
turns, `rounds` times, and the medians are printed:

    loop      the three calls one after the other, in one thread, the network by ONNX Runtime
    stage     the stage that binds, alone: a pipeline of the network, or of the two functions
    pipeline  all three as stages of one penstock.App

`of the bottleneck` is the pipeline's rate over the slower of the stages' own, `over the loop` its rate over
the loop's. Left out: reading files; the picture is in memory. Without a model, one of convolutions is made.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "build/release/lib/python"))

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402

import penstock  # noqa: E402

SIZE = 480  # Of the picture, in pixels.
OF_BOTTLENECK, OVER_LOOP = 0.95, 1.8  # What must hold.


def write_network(file: Path, channels: int = 24, layers: int = 4) -> Path:
    """Convolutions over [1,3,96,96]: some milliseconds a frame."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "image"
    for layer in range(layers):
        shape = (channels, 3 if layer == 0 else channels, 3, 3)
        weight = (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("Conv", [last, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [last := f"r{layer}"]))
    nodes.append(helper.make_node("ReduceMean", [last], ["features"], axes=[2, 3], keepdims=0))
    ports = [("image", [1, 3, 96, 96]), ("features", [1, channels])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports]
    graph = helper.make_graph(nodes, "overlap", infos[:1], infos[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


class Work:
    """The two functions; `repeats` scales decoding."""

    def __init__(self, shape: list[int], features: int) -> None:
        self.repeats = 1
        self._shape = shape
        self._mixing = np.random.default_rng(1).standard_normal((features, 256)).astype(np.float32)

    def decode(self, picture: np.ndarray) -> np.ndarray:
        height, width = self._shape[2:]
        values = picture.astype(np.float32)
        for _ in range(self.repeats):
            np.multiply(values, values, out=values)
            np.sqrt(values, out=values)
        rows = np.arange(height) * SIZE // height
        columns = np.arange(width) * SIZE // width
        small = values[rows][:, columns].transpose(2, 0, 1)[None]
        return np.ascontiguousarray(small) / np.float32(255)

    def post(self, features: np.ndarray) -> np.ndarray:
        return np.tanh(features.reshape(1, -1) @ self._mixing)


def rate_of(work: Callable[[int], object], seconds: float) -> float:
    """Frames per second."""
    count = 4
    while True:
        start = time.perf_counter()
        work(count)
        spent = time.perf_counter() - start
        if spent >= seconds:
            return count / spent
        count = max(count * 2, int(count * 1.1 * seconds / max(spent, 1e-6))) if spent < seconds / 4 else count * 2


def share_of(cpu: int) -> float:
    """How much of a CPU other processes leave."""
    shares = []

    def spin() -> None:
        os.sched_setaffinity(0, {cpu})
        start, busy = time.perf_counter(), time.thread_time()
        while time.perf_counter() - start < 0.3:
            pass
        shares.append((time.thread_time() - busy) / (time.perf_counter() - start))

    thread = threading.Thread(target=spin)
    thread.start()
    thread.join()
    return shares[0]


def streaming(pipeline: penstock.Pipeline, item: object) -> Callable[[int], None]:
    def work(count: int) -> None:
        for frame in pipeline.stream(item for _ in range(count)):
            if not frame.ok:
                raise frame.error

    return work


def balance(work: Work, functions: Callable[[int], None], network: Callable[[int], None], seconds: float) -> None:
    """Lets the functions take as long as the network, each as a stage on its own CPU."""
    work.repeats = 8
    for _ in range(4):
        work.repeats = max(1, round(work.repeats * rate_of(functions, seconds) / rate_of(network, seconds)))


def build_app(
    work: Work, model: Path | None, names: tuple[str, str], types: tuple[str, str, str], cpus: list[int]
) -> Any:
    """All three; without a model, the two functions alone, on their CPU."""
    image, features, result = types
    app = penstock.App("overlap")
    app.input("picture")
    app.function("decode", work.decode, {"picture": f"u8[{SIZE},{SIZE},3]"}, {"image": image}, devices=f"cpu:{cpus[0]}")
    app.connect("picture", "decode.picture")
    app.function("post", work.post, {"features": features}, {"result": result}, devices=f"cpu:{cpus[0]}")
    app.output("result", "post.result")
    if model is None:
        app.function("join", lambda image: still, {"image": image}, {"features": features}, devices=f"cpu:{cpus[0]}")
        still = np.zeros([int(size) for size in features[4:-1].split(",")], np.float32)
        app.connect("decode.image", "join.image")
        app.connect("join.features", "post.features")
        return app
    app.network("network", model, devices=f"cpu:{cpus[1]}")
    app.connect("decode.image", f"network.{names[0]}")
    app.connect(f"network.{names[1]}", "post.features")
    return app


def measure(model: Path, seconds: float, rounds: int) -> dict[str, float]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    image, features = session.get_inputs()[0], session.get_outputs()[0]
    work = Work(image.shape, int(np.prod(features.shape)))
    picture = np.random.default_rng(2).integers(0, 255, (SIZE, SIZE, 3), np.uint8)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("expected two CPUs or more, found one: nothing can overlap")

    def network(value: np.ndarray) -> np.ndarray:
        return session.run(None, {image.name: value})[0]

    value = work.decode(picture)

    def loop(count: int) -> None:
        for _ in range(count):
            work.post(network(work.decode(picture)))

    shapes = [",".join(map(str, shape)) for shape in (image.shape, features.shape)]
    types = (f"f32[{shapes[0]}]", f"f32[{shapes[1]}]", "f32[1,256]")
    names = (image.name, features.name)
    with (
        build_app(work, model, names, types, cpus).start() as pipeline,
        build_app(work, None, names, types, cpus).start() as functions,
        penstock.split(model, devices=f"cpu:{cpus[1]}") as alone,
    ):
        ways = {
            "loop": loop,
            "network": streaming(alone, value),
            "functions": streaming(functions, picture),
            "pipeline": streaming(pipeline, picture),
        }
        balance(work, ways["functions"], ways["network"], seconds / 2)
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                rates[name].append(rate_of(way, seconds))
    found = {name: statistics.median(values) for name, values in rates.items()}
    found["cpu_share"] = min(share_of(cpu) for cpu in cpus[:2])
    found["of_bottleneck"] = found["pipeline"] / min(found["network"], found["functions"])
    found["over_loop"] = found["pipeline"] / found["loop"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=2, help="for each way in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or write_network(Path(folder) / "overlap.onnx")
        found = measure(model, arguments.seconds, arguments.rounds)
    for name in ("loop", "network", "functions", "pipeline"):
        print(f"{name:10} {found[name]:10.1f} frames/s")
    print(f"pipeline is {found['of_bottleneck']:.3f} of the bottleneck (wanted: {OF_BOTTLENECK} or more),")
    print(f"            {found['over_loop']:.2f} x over the loop (wanted: {OVER_LOOP} or more)")
    if found["cpu_share"] < 0.95:
        print(f"other processes leave only {found['cpu_share']:.0%} of a CPU: repeat it on an idle machine")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
