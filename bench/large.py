#!/usr/bin/env python3
"""Prints what building and running a model of gigabytes takes: memory, disk and time, beside an engine alone.

    bench/large.py [--gigabytes 1] [--budget 120] [--limit 2.4] [--engines onnxruntime,openvino] [--json FILE] FOLDER
    bench/large.py --nodes 100000 [--budget 120] [--json FILE] FOLDER

The model is made in FOLDER and removed with all that was built: a chain of MatMul, Add, Relu and a residual Add, with
seeded random weights in a file beside it; or, with --nodes, small operators in as many nodes. `penstock build` and
`penstock run` are started with their temporary files in FOLDER, in a control group of --limit gigabytes where given.

memory  the most that all processes of a command held by themselves at once, sampled: what files' pages are mapped is
        not in it, as the machine may take these back at any time; `mapped` is that, shared pages counted once for each.
disk    the most that the command's files took beside the model, each inode once.
Both are divided by the weights. The engine alone is one session of the whole model that runs frames: `memory` of build
is at most 1.1 times the largest engine's + 0.2 of the weights, its disk at most 1.2 of the weights.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/bin/penstock"))
WIDTH = 4096  # Of a layer: 64 MiB of weights.
SAMPLE_SECONDS = 0.05
GROUPS = Path("/sys/fs/cgroup")

ENGINES = {
    "onnxruntime": """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {threads}
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
for _ in range(3):
    session.run(None, {{"x": numpy.ones((1, {width}), numpy.float32)}})
""",
    "openvino": """
import sys, numpy, openvino
core = openvino.Core()
model = core.compile_model(sys.argv[1], "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
for _ in range(3):
    model({{"x": numpy.ones((1, {width}), numpy.float32)}})
""",
}


def external(name: str, dims: list[int], file: str, offset: int, length: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": file, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def write_chain(folder: Path, gigabytes: float) -> tuple[Path, int]:
    """The model, and the bytes of its weights."""
    layers = max(2, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    random = np.random.default_rng(7)
    nodes, weights, before, offset = [], [], "x", 0
    with (folder / "large.data").open("wb") as data:
        for i in range(layers):
            # Of this size a layer keeps the size of what passes through it.
            matrix = random.random((WIDTH, WIDTH), np.float32)
            matrix -= 0.5
            matrix *= 1 / WIDTH**0.5
            bias = random.random(WIDTH, np.float32)
            for name, values in ((f"w{i}", matrix), (f"b{i}", bias)):
                data.write(values.tobytes())
                weights.append(external(name, list(values.shape), "large.data", offset, values.nbytes))
                offset += values.nbytes
            nodes += [
                helper.make_node("MatMul", [before, f"w{i}"], [f"m{i}"], f"matmul{i}"),
                helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"], f"add{i}"),
                helper.make_node("Relu", [f"a{i}"], [f"r{i}"], f"relu{i}"),
                helper.make_node("Add", [before, f"r{i}"], [f"y{i}"], f"residual{i}"),
            ]
            before = f"y{i}"
    return save(folder, "large", nodes, weights, WIDTH, before), offset


def write_nodes(folder: Path, count: int) -> tuple[Path, int]:
    """Blocks of small operators, each with a residual: `count` nodes in all."""
    width = 16
    random = np.random.default_rng(7)
    nodes, weights, before = [], [], "x"
    for i in range(count // 4):
        values = random.standard_normal((width, width)).astype(np.float32) / width
        weights.append(onnx.numpy_helper.from_array(values, f"w{i}"))
        nodes += [
            helper.make_node("MatMul", [before, f"w{i}"], [f"m{i}"], f"matmul{i}"),
            helper.make_node("Tanh", [f"m{i}"], [f"t{i}"], f"tanh{i}"),
            helper.make_node("Mul", [f"t{i}", before], [f"p{i}"], f"product{i}"),
            helper.make_node("Add", [before, f"p{i}"], [f"y{i}"], f"residual{i}"),
        ]
        before = f"y{i}"
    return save(folder, "nodes", nodes, weights, width, before), sum(4 * width * width for _ in weights)


def save(folder: Path, name: str, nodes: list, weights: list, width: int, output: str) -> Path:
    """A network from x to `output`, each of `width` numbers."""
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, width]) for end in ("x", output)]
    graph = helper.make_graph(nodes, name, ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    return folder / "large.onnx"


def family(pid: int) -> list[int]:
    """The process and all that it has started."""
    pids = [pid]
    for parent in pids:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids += [int(child) for child in children.read_text().split()]
    return pids


def resident(pid: int) -> tuple[int, int]:
    """Bytes of memory of its own, and of files' pages that are mapped."""
    own = mapped = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in ("RssAnon", "RssShmem"):
                own += 1024 * int(value.split()[0])
            elif key == "RssFile":
                mapped += 1024 * int(value.split()[0])
    return own, mapped


def bytes_on_disk(folder: Path, without: set[int]) -> int:
    found: dict[int, int] = {}
    for place, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(place, file))
                found[status.st_ino] = 512 * status.st_blocks
    return sum(size for inode, size in found.items() if inode not in without)


@contextlib.contextmanager
def control_group(gigabytes: float | None):
    """What a process does to be in a group of that much memory; nothing where no limit is asked for."""
    if gigabytes is None:
        yield None
        return
    second = (GROUPS / "cgroup.controllers").exists()
    group = (GROUPS if second else GROUPS / "memory") / f"penstock-large-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.max" if second else "memory.limit_in_bytes")).write_text(str(round(gigabytes * 1e9)))
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        time.sleep(0.5)  # The kernel lets go of what has ended.
        with contextlib.suppress(OSError):
            group.rmdir()


def watch(command: list[str], folder: Path, weights: int, limit: float | None, log: Path) -> dict:
    """Runs it and says what it took."""
    kept = {os.lstat(folder / name).st_ino for name in os.listdir(folder)}
    peak = {"memory": 0, "mapped": 0, "disk": 0}
    doing = ""  # At the peak of memory: what each process held, and what was told last.
    over = threading.Event()
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)

    def sample(pid: int) -> None:
        nonlocal doing
        while not over.wait(SAMPLE_SECONDS):
            each = [resident(member) for member in family(pid)]
            if sum(own for own, _ in each) > peak["memory"]:
                peak["memory"] = sum(own for own, _ in each)
                told = log.read_text(errors="replace").split("\n")[-2:]
                doing = f"{' + '.join(f'{own / 1e9:.2f}' for own, _ in each)} GB: {' '.join(told).strip()}"
            peak["mapped"] = max(peak["mapped"], sum(mapped for _, mapped in each))
            peak["disk"] = max(peak["disk"], bytes_on_disk(folder, kept))

    with control_group(limit) as enter, log.open("wb") as out:
        begin = time.monotonic()
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, preexec_fn=enter,
            env={**os.environ, "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(folder / "cache")},
        )  # fmt: skip
        watcher = threading.Thread(target=sample, args=(process.pid,))
        watcher.start()
        code = process.wait()
        over.set()
        watcher.join()
    found = {"code": code, "seconds": time.monotonic() - begin, **peak, "at_peak": doing}
    if code != 0:
        print(log.read_text(errors="replace")[-2000:], file=sys.stderr)
    print(
        f"{command[1] if command[0] == PENSTOCK else log.stem:14} {found['seconds']:8.1f} s"
        + "".join(f"  {name} {found[name] / 1e9:6.2f} GB ({found[name] / weights:5.2f})" for name in peak)
        + ("" if code == 0 else f"  exit code {code}")
        + (f"\n  most memory at {doing}" if command[:2] == [PENSTOCK, "build"] else ""),
        flush=True,
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--nodes", type=int, help="instead of large weights, so many nodes")
    parser.add_argument("--budget", type=float, default=120, help="seconds of the build")
    parser.add_argument("--limit", type=float, help="gigabytes of memory for each command")
    parser.add_argument("--engines", default="onnxruntime,openvino")
    parser.add_argument("--build", default="", help="more options of penstock build")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.folder.resolve() / f"large-{os.getpid()}"
    folder.mkdir(parents=True)
    found: dict = {}
    try:
        begin = time.monotonic()
        write = write_nodes if options.nodes else write_chain
        model, weights = write(folder, options.nodes or options.gigabytes)
        print(f"{model.name}: {weights / 1e9:.2f} GB of weights, made in {time.monotonic() - begin:.0f} s", flush=True)

        def run(name: str, command: list[str], limit: float | None = options.limit) -> None:
            found[name] = watch(command, folder, weights, limit, folder / f"{name}.log")

        width = 16 if options.nodes else WIDTH
        for engine in filter(None, options.engines.split(",")):
            program = ENGINES[engine].format(width=width, threads=len(os.sched_getaffinity(0)))
            run(engine, [sys.executable, "-c", program, str(model)], None)
        package = folder / "large.penstock"
        if options.nodes:
            run("show", [PENSTOCK, "show", str(model)])
            run("plan", [PENSTOCK, "plan", str(model)])
        run("build", [PENSTOCK, "build", str(model), "-o", str(package), "--budget", f"{options.budget}s", "-v",
                      *options.build.split()])  # fmt: skip
        print((folder / "build.log").read_text(errors="replace"))
        if package.exists():
            run("run", [PENSTOCK, "run", str(package), "--frames", "3"])
    finally:
        shutil.rmtree(folder)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
