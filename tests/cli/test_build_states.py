"""penstock build of networks whose outputs are inputs of their next frame."""

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from conftest import save, settled, value
from onnx import helper

MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", "/nonexistent"))
ONE_STATE = ("--state", "t=s")


@pytest.fixture(autouse=True)
def costs(own_costs):
    """A database of costs of the test's own."""
    return own_costs


@pytest.fixture
def build(well, tmp_path):
    def run(model, *options, budget="1s"):
        return well("build", model, "-o", tmp_path / "built.penstock", "--budget", budget, "--json", *options).json

    return run


@pytest.fixture
def keeper(tmp_path) -> Path:
    """a = 2 x, y = relu(a) + s, t = y / 2: what the next frame reads as s."""
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["a"], "double"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Add", ["r", "s"], ["y"], "add"),
        helper.make_node("Div", ["y", "two"], ["t"], "keep"),
    ]
    ends = [value("x", [64]), value("s", [64])], [value("y", [64]), value("t", [64])]
    return save(tmp_path, "keeper", nodes, *ends, {"two": np.array([2], np.float32)})


def loop_of(x: np.ndarray, state: np.ndarray) -> np.ndarray:
    made = []
    for one in x:
        made.append(np.maximum(2 * one, 0) + state)
        state = made[-1] / 2
    return np.stack(made)


def run_frames(well, tmp_path, name: str, x: np.ndarray, output: str) -> np.ndarray:
    np.savez(tmp_path / "frames.npz", **{f"{i:05}/{name}": one for i, one in enumerate(x)})
    well("run", "built.penstock", "--inputs", "frames.npz", "--output", "results.npz", "--json")
    found = np.load(tmp_path / "results.npz")
    keys = sorted(key for key in found.files if key.endswith(f"/{output}"))
    assert len(keys) == len(x)
    return np.stack([found[key] for key in keys])


@pytest.mark.sweep(of=3)
def test_the_package_hands_the_state_on(build, keeper, well, tmp_path, cpus):
    start = np.full(64, 8, np.float32)
    np.save(tmp_path / "start.npy", start)
    report = build(keeper, "--state", f"t=s:{tmp_path / 'start.npy'}", "--backends", "onnxruntime")
    x = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32)
    np.testing.assert_allclose(run_frames(well, tmp_path, "x", x, "y"), loop_of(x, start), rtol=1e-5, atol=1e-6)
    verified = well("verify", "built.penstock", "--frames", "50", "--json").json
    assert verified["ok"] is True
    assert str(keeper) in verified["reference"]  # The network in sequence, not the package itself.
    assert any("'t' of each frame is 's' of the next" in note for note in report["notes"])
    bench = well("bench", "built.penstock", "--seconds", "0.5", "--json").json
    assert {"penstock", "onnxruntime"} <= {run["name"] for run in bench["runs"]}
    if len(cpus) > 1:
        ways = {way["name"]: way["failure"] for way in report["simple"]}
        assert "cannot hand a state from each to the next" in ways["onnxruntime-per-core"]
        assert ways["onnxruntime"] == ""


@pytest.mark.sweep(of=3)
def test_streams_are_settled_in_the_package(build, keeper, well, penstock, tmp_path, cpu):
    options = (*ONE_STATE, "--streams", "3:evict", "--devices", f"cpu:{cpu}", "--backends", "onnxruntime")
    build(keeper, *options)
    built = tmp_path / "built.penstock"
    assert json.loads((built / "plan.json").read_text())["streams"] == {"most": 3, "evict": True}
    x = np.random.default_rng(2).standard_normal((3, 9, 64)).astype(np.float32)
    files = []
    for name, frames in zip("abc", x, strict=True):
        (tmp_path / name).mkdir()
        for i, one in enumerate(frames):
            np.save(tmp_path / name / f"{i}.npy", one)
        files += ["--input", f"x={name}"]
    lines = well("run", built, "--streams", "3", *files, "--output", "-").out.splitlines()
    assert len(lines) == 27
    for stream, frames in enumerate(x):
        found = [line["outputs"]["y"] for line in map(json.loads, lines) if line.get("stream", 0) == stream]
        np.testing.assert_allclose(np.array(found), loop_of(frames, np.zeros(64)), rtol=1e-5, atol=1e-6)
    build(keeper, *options[:2], *options[4:])  # What was measured is known; the streams are no part of it.
    assert "streams" not in json.loads((built / "plan.json").read_text())
    refused = penstock("build", keeper, *ONE_STATE, "--streams", "0", "-o", "never")
    assert "--streams: expected N or N:evict, N from 1 to 2147483647, found '0'" in refused.error
    assert not (tmp_path / "never").exists()


@pytest.mark.sweep(of=3)
def test_what_writes_a_state_has_one_instance(build, keeper, well, cpus, synthetic_backends, tmp_path):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    # The relu is worth a device of its own, and takes half of it all. A call on both CPUs, which could go to where the
    # machine is less busy, is slower than on one.
    synthetic_backends(a={"seconds": {"Relu": 0.004, "*": 0.001}, "speedup": -0.5})
    devices = f"cpu:{cpus[0]},cpu:{cpus[1]}"
    report = build(keeper, *ONE_STATE, "--devices", devices, "--backends", "synthetic_a", budget="200s")
    assert not [way for way in report["ways"] if "replica" in way["failure"]], report["ways"]
    assert " stages, plan " in report["chosen"], report["ways"]
    stages = well("show", "built.penstock", "--json").json["stages"]
    writers = [stage for stage in stages if {"add", "keep"} & set(stage["nodes"])]
    assert [len(stage["devices"]) for stage in writers] == [1]
    assert len(stages) > 1
    assert {"add", "keep"} <= set(writers[0]["nodes"])  # One loop, that no cut divides.


@pytest.mark.sweep(of=3)
def test_ones_own_frames_are_a_sequence(build, keeper, well, cpu, tmp_path):
    x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    np.savez(tmp_path / "own.npz", **{f"{i}/x": one for i, one in enumerate(x)})
    options = (*ONE_STATE, "--devices", f"cpu:{cpu}", "--backends", "onnxruntime", "--inputs", tmp_path / "own.npz")
    assert build(keeper, *options)["measured_plans"] > 0
    settled(build(keeper, *options), lambda: build(keeper, *options))
    np.save(tmp_path / "one.npy", np.ones(64, np.float32))
    other = build(keeper, "--state", f"t=s:{tmp_path / 'one.npy'}", *options[2:])
    assert other["measured_plans"] > 0  # It begins otherwise: another question.
    np.testing.assert_allclose(run_frames(well, tmp_path, "x", x, "y"), loop_of(x, np.ones(64)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--state", "tt=s"], "state 'tt' -> 's': no output 'tt'; did you mean 't' or 'y'?"),
        (["--state", "t=state"], "state 't' -> 'state': no input 'state'; the inputs are 'x', 's'"),
        (["--state", "t=s", "--state", "t=x"], "state 't' -> 'x': output 't' is the state of input 's' already"),
        (["--state", "t=s", "--state", "y=s"], "state 'y' -> 's': 's' reads 't' already; an input reads one state"),
        (["--state", "t=s", "--constant", "s=0"], "state 't' -> 's': input 's' is bound to a constant"),
        (["--state", "t=s:none.npy"], "state 't' -> 's': initial value 'none.npy' cannot be copied: No such file"),
        (["--state", "t=s:wide.npy"], "state 't' -> 's': initial value: expected f32[64], found f32[65], in 'wide"),
        (["--state", "t=s:0.5"], "state 't' -> 's:0.5': expected a file of the first value (.npy) behind 's:', found"),
        (["--state", "s=t"], "state 's' -> 't': the ends are swapped: expected OUT=IN, found an input and"),
        (["--state", "t"], "--state: expected OUT=IN or OUT=IN:FILE.npy, found 't'"),
    ],
)
def test_states_that_cannot_be_are_refused(penstock, keeper, tmp_path, options, told):
    np.save(tmp_path / "wide.npy", np.zeros(65, np.float32))
    options = [option.replace("s=0", "s=[" + ",".join(["0"] * 64) + "]") for option in options]
    error = penstock("build", keeper, "-o", "never", *options).error
    assert error.startswith(told), error
    assert "--state" in error or ".npy" not in error, error
    assert not (tmp_path / "never").exists()


def test_ends_of_unlike_types_are_refused(penstock, tmp_path):
    nodes = [helper.make_node("Concat", ["x", "s"], ["t"], "join", axis=0), helper.make_node("Relu", ["x"], ["y"])]
    model = save(tmp_path, "growing", nodes, [value("x", [2]), value("s", [2])], [value("y", [2]), value("t", [4])])
    error = penstock("build", model, "-o", "never", *ONE_STATE).error
    assert "state 't' -> 's': writes f32[4], reads f32[2]" in error


@pytest.mark.sweep(of=6)
@pytest.mark.skipif(not (MODELS / "dtln_1").is_dir(), reason="PENSTOCK_TEST_MODELS names no networks")
@pytest.mark.parametrize("model", ["dtln_1", "gtcrn_simple"])
def test_a_thousand_frames_of_a_streaming_network_equal_the_loop(build, well, tmp_path, model):
    file = MODELS / model / "model.onnx"
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(file, plain, providers=["CPUExecutionProvider"])
    inputs, outputs = reference.get_inputs(), reference.get_outputs()
    states = {o.name: i.name for o, i in zip(outputs[1:], inputs[1:], strict=True)}
    build(file, *[part for out, into in states.items() for part in ("--state", f"{out}={into}")])
    x = np.random.default_rng(0).standard_normal((1000, *inputs[0].shape)).astype(np.float32)
    made = run_frames(well, tmp_path, inputs[0].name, x, outputs[0].name)
    state = {i.name: np.zeros(i.shape, np.float32) for i in inputs[1:]}
    for i in range(len(x)):
        expected, *written = reference.run(None, {inputs[0].name: x[i]} | state)
        state = dict(zip(states.values(), written, strict=True))
        allowed = 1e-3 * np.abs(expected) + 1e-5 * np.abs(expected).max()  # The judge's, without its floor.
        assert np.all(np.abs(made[i] - expected) <= allowed), i


@pytest.fixture
def cached(tmp_path) -> Path:
    """y = the mean of all x so far, by a cache that grows by a row with every frame."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], "append", axis=0),
        helper.make_node("ReduceMean", ["present"], ["mean"], "mean", axes=[0], keepdims=1),
        helper.make_node("Relu", ["mean"], ["y"], "relu"),
    ]
    ends = [value("x", [1, 8]), value("past", ["p", 8])], [value("y", [1, 8]), value("present", ["q", 8])]
    return save(tmp_path, "cached", nodes, *ends)


@pytest.mark.sweep(of=3)
def test_a_cache_may_grow_with_every_frame(build, cached, well, penstock, tmp_path, cpus):
    refused = penstock("split", cached, "--state", "present=past", "-o", "by_hand.penstock")
    assert "--state present=past:FILE.npy" in refused.error
    np.save(tmp_path / "none.npy", np.empty((0, 8), np.float32))
    state = ("--state", f"present=past:{tmp_path / 'none.npy'}")
    build(cached, *state, "--backends", "onnxruntime")
    x = np.random.default_rng(0).standard_normal((30, 1, 8)).astype(np.float32)
    means = np.maximum(np.cumsum(x, axis=0) / np.arange(1, 31, dtype=np.float32)[:, None, None], 0)
    np.testing.assert_allclose(run_frames(well, tmp_path, "x", x, "y"), means, rtol=1e-5, atol=1e-6)
    well("split", cached, *state, "--cut", "mean", "--devices", "cpu:0,cpu:0", "-o", "by_hand.penstock")
    assert well("verify", "by_hand.penstock", "--frames", "30", "--json").json["ok"] is True


@pytest.fixture
def masked(tmp_path) -> Path:
    """As a decoder's cache: the mask that each frame brings is as long as the cache then is."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], "append", axis=0),
        helper.make_node("Add", ["present", "mask"], ["sum"], "add"),
        helper.make_node("ReduceMean", ["sum"], ["y"], "mean", axes=[0], keepdims=1),
    ]
    inputs = [value("x", ["n", 8]), value("mask", ["q", 1]), value("past", ["p", 8])]
    return save(tmp_path, "masked", nodes, inputs, [value("y", [1, 8]), value("present", ["q", 8])])


@pytest.mark.sweep(of=3)
def test_a_sequence_that_is_begun_again_begins_with_the_first_states(build, masked, well, tmp_path, cpu):
    random, rows, frames = np.random.default_rng(0), 0, {}
    for i in range(12):
        x = random.standard_normal((1 if i else 3, 8), np.float32)
        rows += len(x)
        frames |= {f"{i:02}/x": x, f"{i:02}/mask": random.standard_normal((rows, 1), np.float32)}
    np.savez(tmp_path / "own.npz", **frames)
    np.save(tmp_path / "none.npy", np.empty((0, 8), np.float32))
    own = ("--inputs", tmp_path / "own.npz")
    state = ("--state", f"present=past:{tmp_path / 'none.npy'}")
    report = build(masked, *state, *own, "--devices", f"cpu:{cpu}", "--backends", "onnxruntime", budget="2s")
    assert not [way["failure"] for way in report["ways"] if way["failure"]]
    bench = well("bench", "built.penstock", *own, "--check", "--seconds", "1", "--json").json
    assert bench["check"]["verdict"] == "right"
    assert len(bench["runs"]) > 1
    again = well("verify", "built.penstock", *own, "--frames", "30", "--json").json
    assert (again["verdict"], again["frames"]) == ("right", 30)
