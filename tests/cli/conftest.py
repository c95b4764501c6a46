"""The command line as users have it: the built program, small models, its exit codes and its words."""

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from built_program import find_program
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]


class Outcome:
    def __init__(self, done: subprocess.CompletedProcess):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of an error, without its beginning."""
        lines = [line for line in self.err.splitlines() if line.startswith("penstock: error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("penstock: error: ")

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}{self.err}"


@pytest.fixture(scope="session")
def program() -> Path:
    return find_program()


@pytest.fixture(autouse=True)
def _terminal_with_escapes(monkeypatch):
    """Bars are shown on no other; what starts the tests may say that it has none."""
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture(scope="session")
def peaks(program, tmp_path_factory) -> Path:
    """A database of costs that knows what the machine could do at most, and nothing else: a build would measure it."""
    file = tmp_path_factory.mktemp("peaks") / "costs.db"
    command = [str(program), "devices", "--peaks"]
    subprocess.run(command, env=os.environ | {"PENSTOCK_COSTS": str(file)}, capture_output=True, check=True)
    return file


@pytest.fixture
def own_costs(peaks, tmp_path, monkeypatch) -> Path:
    """A database of costs of the test's own, with the machine's peaks."""
    file = Path(shutil.copy(peaks, tmp_path / "costs.db"))
    monkeypatch.setenv("PENSTOCK_COSTS", str(file))
    return file


@pytest.fixture
def penstock(program, tmp_path):
    """Runs the program in a folder of the test's own."""

    def run(*arguments, env=None, timeout=300) -> Outcome:
        done = subprocess.run(
            [str(program), *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | (env or {}),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Outcome(done)

    return run


@pytest.fixture
def within_quota(program, tmp_path):
    """Runs the program in a control group that has the time of so many CPUs."""
    root = Path("/sys/fs/cgroup")
    second = (
        "cpu" in (root / "cgroup.controllers").read_text().split() if (root / "cgroup.controllers").exists() else False
    )
    group = (root if second else root / "cpu") / f"penstock-test-{os.getpid()}"
    limit = group / ("cpu.max" if second else "cpu.cfs_quota_us")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")

    def run(cpus: float, *arguments, env=None) -> Outcome:
        quota = round(cpus * 100_000)
        limit.write_text(f"{quota} 100000" if second else str(quota))
        enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
        command = [*enter, str(program), *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | (env or {}), capture_output=True, text=True,
                              timeout=300, check=False)  # fmt: skip
        outcome = Outcome(done)
        assert outcome.code == 0, outcome
        return outcome

    try:
        if not limit.exists():
            pytest.skip(f"'{limit}' is not there: the kernel limits no group's time here")
        yield run
    finally:
        end = time.monotonic() + 60
        while True:  # What the program left behind may be on its way out.
            try:
                group.rmdir()
                break
            except OSError:
                assert time.monotonic() < end, (group / "cgroup.procs").read_text()
                time.sleep(0.01)


@pytest.fixture
def well(penstock):
    """The same, for what must succeed."""

    def run(*arguments, **options) -> Outcome:
        outcome = penstock(*arguments, **options)
        assert outcome.code == 0, outcome
        return outcome

    return run


def settled(report: dict, build) -> dict:
    """The report of a build that measured no plan: `report`, or that of build() once more, where the machine's speed
    had changed between two builds. By that, what was chosen may be measured again, and by nothing else."""
    while why := report["measured_again"] or report["due_again"]:
        assert re.search(r" (% slower than|% faster than|times as fast as) (when it was|the plan) chosen", why), report
        report = build()
    assert report["measured_plans"] == 0
    return report


@pytest.fixture(scope="session")
def cpu(cpus) -> int:
    """One of its own for each worker of xdist, as far as they go: what is timed there is not disturbed."""
    return cpus[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(cpus)]


@pytest.fixture
def running(program):
    """A pipeline that streams for long: the process once its stages have started, to be interrupted."""

    @contextmanager
    def start(package, *options):
        command = [program, "run", package, "--rate", "50", "--frames", "100000", "-v", *options]
        hears_hangup = ["env", "--default-signal=HUP", *command]  # Whatever started the tests, such as nohup.
        with subprocess.Popen(hears_hangup, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                while "stages started" not in process.stderr.readline():
                    pass
                yield process
            finally:
                process.kill()  # Where the test has failed.

    return start


@pytest.fixture(scope="session")
def cpus() -> list[int]:
    """All that may be used, ascending."""
    return sorted(os.sched_getaffinity(0))


def value(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def save(folder: Path, name: str, nodes, inputs, outputs, weights=()) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in dict(weights).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file = folder / f"{name}.onnx"
    onnx.save(model, file)
    return file


def save_chain(folder: Path) -> Path:
    """x [1,3,4,4] -> conv1 -> relu1 -> conv2 -> relu2 -> y [1,2,4,4], seeded weights."""
    random = np.random.default_rng(0)
    weights = {
        "w1": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "w2": random.standard_normal((2, 4, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["y"], "relu2"),
    ]
    return save(folder, "chain", nodes, [value("x", [1, 3, 4, 4])], [value("y", [1, 2, 4, 4])], weights)


@pytest.fixture
def chain(tmp_path) -> Path:
    return save_chain(tmp_path)


@pytest.fixture
def branches(tmp_path) -> Path:
    """Convolution and normalisation, a Split, its halves joined by Concat, and a residual Add."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "scale": random.random(4).astype(np.float32),
        "bias": random.random(4).astype(np.float32),
        "mean": random.random(4).astype(np.float32),
        "variance": random.random(4).astype(np.float32) + 1,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"], "norm"),
        helper.make_node("Split", ["n"], ["left", "right"], "split", axis=1),
        helper.make_node("Relu", ["left"], ["r"], "relu"),
        helper.make_node("Sigmoid", ["right"], ["s"], "sigmoid"),
        helper.make_node("Concat", ["r", "s"], ["j"], "concat", axis=1),
        helper.make_node("Add", ["j", "c"], ["a"], "residual"),
        helper.make_node("Mul", ["a", "a"], ["y"], "square"),
    ]
    outputs = [value("y", [1, 4, 4, 4]), value("n", [1, 4, 4, 4])]
    return save(tmp_path, "branches", nodes, [value("x", [1, 3, 4, 4])], outputs, weights)


@pytest.fixture
def double(tmp_path) -> Path:
    """y = x + x over [n, 3]."""
    node = helper.make_node("Add", ["x", "x"], ["y"], "double")
    return save(tmp_path, "double", [node], [value("x", ["n", 3])], [value("y", ["n", 3])])


@pytest.fixture
def product(tmp_path) -> Path:
    """y = relu(x w) over [n, 3]."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "product"), helper.make_node("Relu", ["m"], ["y"], "relu")]
    weights = {"w": np.ones((3, 2), np.float32)}
    return save(tmp_path, "product", nodes, [value("x", ["n", 3])], [value("y", ["n", 2])], weights)


@pytest.fixture
def halved(tmp_path) -> Path:
    """y = x + s / 2, which is the next frame's s: by --state t=s."""
    nodes = [
        helper.make_node("Mul", ["s", "half"], ["h"], "half"),
        helper.make_node("Add", ["x", "h"], ["y"], "add"),
        helper.make_node("Identity", ["y"], ["t"], "copy"),
    ]
    ends = [value("x", [1, 4]), value("s", [1, 4])], [value("y", [1, 4]), value("t", [1, 4])]
    return save(tmp_path, "halved", nodes, *ends, {"half": np.full(1, 0.5, np.float32)})


@pytest.fixture
def lookup(tmp_path) -> Path:
    """y = table[i]: fails at run time for an index over 3."""
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["g"], "gather"),
        helper.make_node("Relu", ["g"], ["y"], "relu"),
    ]
    table = np.arange(4, dtype=np.float32)
    return save(tmp_path, "lookup", nodes, [value("i", [2], TensorProto.INT64)], [value("y", [2])], {"table": table})


@pytest.fixture
def lookup_of_squares(tmp_path) -> Path:
    """y = table[i * i]: fails for an index over 1, and no reader of `i` tells that."""
    nodes = [
        helper.make_node("Mul", ["i", "i"], ["s"], "square"),
        helper.make_node("Gather", ["table", "s"], ["y"], "gather"),
    ]
    table = {"table": np.arange(4, dtype=np.float32)}
    return save(tmp_path, "squares", nodes, [value("i", [2], TensorProto.INT64)], [value("y", [2])], table)


@pytest.fixture
def absolute(tmp_path) -> Path:
    """y = |x| over [1, 3, 8, 8], as pictures have it."""
    node = helper.make_node("Abs", ["x"], ["y"], "abs")
    return save(tmp_path, "absolute", [node], [value("x", [1, 3, 8, 8])], [value("y", [1, 3, 8, 8])])


@pytest.fixture
def package(well, chain, tmp_path, cpu) -> Path:
    """The chain in two stages."""
    target = tmp_path / "chain.penstock"
    well("split", chain, "--cut", "relu1", "--devices", f"cpu:{cpu}", "-o", target)
    return target


@pytest.fixture(scope="session")
def library(program):
    """Where the build puts tests/custom_ops."""
    found = program.resolve().parents[1] / "lib/tests/libpenstock_test_ops.so"
    if not found.exists():
        pytest.skip(f"no {found.name} beside the program: build the tests")
    return found


@pytest.fixture
def twice(tmp_path):
    """y = -2 |x|, its second node an operator that only the library knows."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="abs"),
        helper.make_node("Twice", ["a"], ["t"], name="twice", domain="test.penstock"),
        helper.make_node("Neg", ["t"], ["y"], name="neg"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "twice", [x], [y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("test.penstock", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "twice.onnx")
    return tmp_path / "twice.onnx"


@pytest.fixture
def synthetic_backends(program, tmp_path, monkeypatch):
    """Writes what the synthetic backends are told to do. OpenVINO is not there: builds would try its three ways, and
    start them for the comparison, for seconds each, and no test of these backends looks at them."""
    folder = program.parent.parent / "lib" / "synthetic"
    if not folder.is_dir():
        pytest.skip(f"no synthetic backends in {folder}: build them (target penstock_synthetic_backends)")
    monkeypatch.setenv("PENSTOCK_PLUGIN_PATH", str(folder))
    monkeypatch.setenv("PENSTOCK_OPENVINO", "/absent")

    def write(**backends):
        file = tmp_path / "synthetic.json"
        file.write_text(json.dumps({f"synthetic_{name}": settings for name, settings in backends.items()}))
        monkeypatch.setenv("PENSTOCK_SYNTHETIC", str(file))

    return write
