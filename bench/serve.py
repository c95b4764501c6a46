#!/usr/bin/env python3
"""Prints what clients get of `penstock serve`, beside the pipeline in their own process and other servers.

    bench/serve.py [--clients 1,4,16,64] [--seconds 4] [--rounds 3] [--others PYTHON ...] [--json FILE] MODEL.onnx ...

Each network is split into one replica a CPU over ONNX Runtime; `serve` and the pipeline in the client's process
run the same package. bench/serve_bench is the client of all: each of its clients has one request in progress, over a
connection of its own, on the same CPUs as the server. The sides take turns, --rounds times; printed are medians of
frames a second, and of the rounds' ratios. `beside` is the ratio to the pipeline in process where that has only the CPU
time that the clients of `serve` left, as they run on the same CPUs. `p99/p50` is at a steady 70 % of what 16 clients
reached.

--others names Pythons whose environments have another server, which serves the file as it is with one session of ONNX
Runtime for each CPU: `mlserver`, or `nvidia-pytriton` (Triton, with a Python model: its wheel has no other backend for
the CPU). MLServer computes in its one process, as the workers of 1.7.1 end at their start here. A server that does not
start is said, and left out.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from compare import name_of, split

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
from local_hosts import free_port  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("PENSTOCK_BIN", ROOT / "build/release/bin/penstock")).parent
CPUS = len(os.sched_getaffinity(0))
STARTS_WITHIN = 60  # Seconds.

MLSERVER_RUNTIME = """
import numpy as np, onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse, MetadataTensor
TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(int32)": "INT32", "tensor(uint8)": "UINT8"}
class Runtime(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        dims = lambda t: [d if isinstance(d, int) else -1 for d in t.shape]
        about = lambda t: MetadataTensor(name=t.name, datatype=TYPES[t.type], shape=dims(t))
        self.inputs = [about(t) for t in self.session.get_inputs()]
        self.outputs = [about(t) for t in self.session.get_outputs()]
        return True
    async def predict(self, payload):
        inputs = {i.name: NumpyCodec.decode_input(i) for i in payload.inputs}
        made = self.session.run(None, inputs)
        outputs = [NumpyCodec.encode_output(t.name, a) for t, a in zip(self.session.get_outputs(), made)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""

TRITON = """
import signal, sys, numpy as np, onnxruntime
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
path, port, cpus = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
def make():
    session = onnxruntime.InferenceSession(path, options)
    names = [t.name for t in session.get_outputs()]
    def infer(requests):
        return [dict(zip(names, session.run(None, dict(request.data)))) for request in requests]
    return session, infer
made = [make() for _ in range(cpus)]
dims = lambda t: tuple(d if isinstance(d, int) else -1 for d in t.shape)
about = lambda t: Tensor(name=t.name, dtype=TYPES[t.type], shape=dims(t))
session = made[0][0]
config = TritonConfig(http_port=port + 1, grpc_port=port, metrics_port=port + 2, log_verbose=0)
with Triton(config=config) as triton:
    triton.bind(model_name="m", infer_func=[infer for _, infer in made],
                inputs=[about(t) for t in session.get_inputs()],
                outputs=[about(t) for t in session.get_outputs()], config=ModelConfig(batching=False))
    triton.run()
    signal.sigwait({signal.SIGTERM})
"""


@contextmanager
def process(*command: str, folder: Path):
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()


@contextmanager
def penstock_server(package: Path, folder: Path):
    port = free_port()
    with process(str(BIN / "penstock"), "serve", f"m={package}", "--listen", f"127.0.0.1:{port}", folder=folder) as one:
        yield one, f"127.0.0.1:{port}"


@contextmanager
def mlserver(python: str, model: Path, folder: Path):
    port = free_port()
    (folder / "runtime.py").write_text(MLSERVER_RUNTIME)
    settings = {"host": "127.0.0.1", "http_port": free_port(), "grpc_port": port, "metrics_port": free_port()}
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0, "debug": False}))
    about = {"name": "m", "implementation": "runtime.Runtime", "parameters": {"uri": str(model)}}
    (folder / "model-settings.json").write_text(json.dumps(about))
    with process(str(Path(python).parent / "mlserver"), "start", ".", folder=folder) as one:
        yield one, f"127.0.0.1:{port}"


@contextmanager
def triton(python: str, model: Path, folder: Path):
    port = free_port()
    (folder / "serve.py").write_text(TRITON)
    with process(python, "serve.py", str(model), str(port), str(CPUS), folder=folder) as one:
        yield one, f"127.0.0.1:{port}"


def servers_of(python: str) -> list:
    """What starts the servers that the environment has."""
    modules = {"mlserver": mlserver, "pytriton": triton}
    has = {name: subprocess.run([python, "-c", f"import {name}"], capture_output=True) for name in modules}
    return [begin for name, begin in modules.items() if has[name].returncode == 0]


def client(*arguments: object) -> dict:
    command = [str(BIN / "serve_bench"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    told = json.loads(done.stdout)
    if told["errors"]:
        raise RuntimeError(f"{told['errors']} requests failed: {done.stderr.strip()}")
    return told


def wait_until_ready(one: subprocess.Popen, address: str, folder: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            return void(client("grpc", address, "m", 1, 0.5))
        except RuntimeError as error:
            if one.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"it does not start: {(folder / 'log').read_text()[-400:]} {error}") from None
            time.sleep(0.3)


def void(_: object) -> None:
    return None


class Side:
    """A way to serve the model: its rates by the number of clients."""

    def __init__(self, name: str, begin) -> None:
        self.name, self.begin = name, begin
        self.rates: dict[int, list[float]] = {}
        self.p99: dict[int, list[float]] = {}
        self.cpus: dict[int, list[float]] = {}  # That the clients kept busy.

    def measure(self, counts: list[int], seconds: float) -> None:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            with self.begin(folder) as (one, address):
                wait_until_ready(one, address, folder)
                try:
                    for count in counts:
                        self.note(count, client("grpc", address, "m", count, seconds))
                except RuntimeError as error:
                    log = (folder / "log").read_text()[-2000:]
                    raise RuntimeError(f"{self.name} ({one.poll()}): {error}\n{log}") from None

    def note(self, count: int, told: dict) -> None:
        self.rates.setdefault(count, []).append(told["frames_per_second"])
        self.p99.setdefault(count, []).append(told["p99_ms"])
        self.cpus.setdefault(count, []).append(told["cpus"])


def median_ratio(mine: list[float], others: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(mine, others, strict=True))


def steadiness(package: Path, rate: float, seconds: float) -> dict:
    with tempfile.TemporaryDirectory() as text, penstock_server(package, Path(text)) as (one, address):
        wait_until_ready(one, address, Path(text))
        return client("grpc", address, "m", 64, max(seconds, 8), 0.7 * rate)


def measure(model: Path, arguments: argparse.Namespace) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "m.penstock"
        split(model, package, "--replicas", str(CPUS))
        sides = [Side("serve", lambda f: penstock_server(package, f))]
        local = Side("in process", None)
        for python in arguments.others:
            kinds = servers_of(python)
            if not kinds:
                print(f"{python}: has neither mlserver nor pytriton; left out", file=sys.stderr)
            for kind in kinds:
                sides.append(Side(kind.__name__, lambda f, kind=kind, python=python: kind(python, model.resolve(), f)))
        for _ in range(arguments.rounds):
            for count in arguments.clients:
                local.note(count, client("local", package, count, arguments.seconds))
            for side in list(sides):
                try:
                    side.measure(arguments.clients, arguments.seconds)
                except RuntimeError as error:
                    if side.name == "serve":
                        raise
                    print(f"{side.name}: {error}; left out", file=sys.stderr)
                    sides.remove(side)
        busiest = 16 if 16 in arguments.clients else arguments.clients[-1]
        steady = steadiness(package, statistics.median(sides[0].rates[busiest]), arguments.seconds)
    return {
        "model": name_of(model),
        "sides": {s.name: vars(s) | {"begin": None} for s in [local, *sides]},
        "steady": steady,
    }


def beside_clients(serve: dict, local: dict, count: int) -> float:
    """serve over the pipeline in process, had that the CPUs that serve's clients left."""
    left = [1 - cpus / CPUS for cpus in serve["cpus"][count]]
    return median_ratio(
        serve["rates"][count], [rate * share for rate, share in zip(local["rates"][count], left, strict=True)]
    )


def print_model(told: dict, counts: list[int]) -> None:
    serve = told["sides"]["serve"]
    steady = told["steady"]["p99_ms"] / told["steady"]["p50_ms"]
    print(f"{told['model']}: p99/p50 at 70 % load: {steady:.2f}")
    local = told["sides"]["in process"]
    print("clients   beside" + "".join(f"{name:>12}{'serve/it':>10}{'p99 ms':>9}" for name in told["sides"]))
    for count in counts:
        cells = f"{beside_clients(serve, local, count):>8.3f}"
        for side in told["sides"].values():
            rate, p99 = statistics.median(side["rates"][count]), statistics.median(side["p99"][count])
            cells += f"{rate:>12.1f}{median_ratio(serve['rates'][count], side['rates'][count]):>10.3f}{p99:>9.2f}"
        print(f"{count:>7} {cells}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--others", nargs="*", default=[], metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    all_told = []
    for model in arguments.models:
        all_told.append(measure(model, arguments))
        print_model(all_told[-1], arguments.clients)
    if arguments.json:
        arguments.json.write_text(json.dumps(all_told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
