"""Functions, states and applications at the command line."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import onnxruntime
import pytest
import yaml
from conftest import ROOT, save, value
from onnx import TensorProto, helper
from PIL import Image

SCHEMA = json.loads((ROOT / "docs/app.schema.json").read_text())
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", ""))


@pytest.fixture(scope="session")
def library(program):
    """Where the build puts examples/function."""
    found = program.resolve().parents[1] / "lib/tests/libpenstock_test_functions.so"
    if not found.exists():
        pytest.skip(f"no {found.name} beside the program: build the tests")
    return found


def rows(count: int) -> np.ndarray:
    """Frames of 4 numbers, none all zero; the first number says how many items it has."""
    frames = np.arange(4 * count, dtype=np.float32).reshape(count, 4) % 13
    frames[:, 0] = np.arange(count) % 9
    frames[:, 1] += 1
    return frames


@pytest.fixture
def stream(penstock, tmp_path):
    """Runs frames of one or more inputs, one after the other, and returns the outputs by name."""

    def run(source, frames: dict[str, np.ndarray], *options, code=0):
        count = len(next(iter(frames.values())))
        folder = tmp_path / "frames"
        shutil.rmtree(folder, ignore_errors=True)
        arguments = []
        for name, values in frames.items():
            for i, one in enumerate(values):
                file = folder / f"{i}-{name}.npy"
                file.parent.mkdir(exist_ok=True)
                np.save(file, one)
                arguments += ["--input", f"{name}={file}"]
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        done = penstock("run", source, *arguments, "--output", out, "--json", *options)
        assert done.code == code, done
        if str(source).endswith(".yaml"):  # What runs is valid.
            jsonschema.validate(json.loads(Path(source).read_text()), SCHEMA)
        found = [{p.stem: np.load(p) for p in (out / f"{i:06}").glob("*.npy")} for i in range(count)]
        return found, done

    return run


def write(folder: Path, app: dict) -> Path:
    file = folder / "app.yaml"
    file.write_text(json.dumps({"penstock_app": 1} | app, indent=1))  # JSON is YAML.
    return file


@pytest.fixture
def plus(tmp_path) -> Path:
    """y = x + 1 over [4]; its ports have the names of the functions'."""
    node = helper.make_node("Add", ["x", "one"], ["y"], "plus")
    weights = {"one": np.ones(4, np.float32)}
    return save(tmp_path, "plus", [node], [value("x", [4])], [value("y", [4])], weights)


@pytest.fixture
def app(tmp_path, library, plus) -> dict:
    """scale by 3, then x + 1 twice by two copies of one network."""
    return {
        "inputs": {"image": "f32[4]"},
        "nodes": {
            "last": {"network": "plus.onnx", "inputs": {"x": "first.y"}, "replicas": 2},
            "scale": {
                "function": str(library),
                "name": "scale",
                "inputs": {"x": "image"},
                "options": {"factor": 3},
            },
            "first": {"network": "plus.onnx", "inputs": {"x": "scale.y"}},
        },
        "outputs": {"result": "last.y", "scaled": "scale.y"},
    }


def test_a_network_of_an_application_takes_several_frames_in_one_call(well, plus, tmp_path):
    node = {"network": "plus.onnx", "inputs": {"x": "image"}, "batch": {"frames": 3, "wait_ms": 0.5}}
    file = write(tmp_path, {"inputs": {"image": None}, "nodes": {"net": node}, "outputs": {"y": "net.y"}})
    (stage,) = well("split", file, "-o", tmp_path / "p", "--json").json["stages"]
    assert stage["batch"] == {"frames": 3, "wait_us": 500}
    assert stage["models"] == ["stages/net/0.onnx", "stages/net/0.b2.onnx", "stages/net/0.b3.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "p/stages/net/0.b3.onnx", providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {"x": np.arange(12, dtype=np.float32)})
    assert np.array_equal(made, np.arange(12) + 1)


def test_a_batch_and_its_wait_are_one_text_in_an_application_as_at_the_command_line(well, plus, tmp_path):
    node = {"network": "plus.onnx", "inputs": {"x": "image"}, "batch": "3:0.5"}
    file = write(tmp_path, {"inputs": {"image": None}, "nodes": {"net": node}, "outputs": {"y": "net.y"}})
    (stage,) = well("split", file, "-o", tmp_path / "p", "--json").json["stages"]
    assert stage["batch"] == {"frames": 3, "wait_us": 500}


def test_the_stages_of_an_applications_network_have_batches_of_their_own(well, penstock, chain, tmp_path):
    node = {"network": "chain.onnx", "cuts": ["relu1"], "inputs": {"x": "x"}}
    node["batch"] = {"stage1": {"frames": 4, "wait_ms": 1}}
    app = {"inputs": {"x": None}, "nodes": {"net": node}, "outputs": {"y": "net.y"}}
    first, second = well("split", write(tmp_path, app), "-o", tmp_path / "p", "--json").json["stages"]
    assert first["batch"] == {"frames": 1, "wait_us": 0}
    assert second["batch"] == {"frames": 4, "wait_us": 1000}
    node["batch"] = {"stage7": 4}
    said = penstock("split", write(tmp_path, app), "-o", tmp_path / "p").error
    assert "'stage7'" in said


def test_frames_of_one_open_shape_share_a_call_of_an_applications_network(stream, tmp_path):
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "mix", axis=0)]
    save(tmp_path, "open", nodes, [value("x", ["n", "s"])], [value("y", ["n", "s"])])
    node = {"network": "open.onnx", "inputs": {"x": "rows"}, "batch": {"frames": 3, "wait_ms": 600000}, "replicas": 1}
    inputs = {"rows": "f32[n<=4,s<=9]"}
    file = write(tmp_path, {"inputs": inputs, "nodes": {"net": node}, "outputs": {"y": "net.y"}})
    random = np.random.default_rng(1)
    frames = [random.random(shape, np.float32) for shape in 3 * [(2, 4)] + 3 * [(3, 7)] + [(1, 5), (1, 6), (1, 5)]]
    found, done = stream(file, {"rows": frames}, "--in-flight", "9")
    for x, outputs in zip(frames, found, strict=True):
        np.testing.assert_allclose(outputs["y"], np.exp(x) / np.exp(x).sum(axis=0), rtol=1e-5)
    (stage,) = done.json["stages"]
    assert stage["calls"] == [3, 0, 2]


def test_a_batch_of_a_network_is_chosen_by_measurement(well, plus, tmp_path):
    node = {"network": "plus.onnx", "inputs": {"x": "image"}, "batch": "auto:4"}
    file = write(tmp_path, {"inputs": {"image": None}, "nodes": {"net": node}, "outputs": {"y": "net.y"}})
    (stage,) = well("split", file, "-o", tmp_path / "p", "--json").json["stages"]
    # Which number it is, the machine says; the models go with it.
    frames = stage.get("batch", {"frames": 1})["frames"]
    assert frames in (1, 2, 4)
    batched = [f"stages/net/0.b{n}.onnx" for n in (2, 4) if n <= frames]
    assert stage["models"] == ["stages/net/0.onnx", *batched]


def test_a_wrong_batch_of_a_network_is_told_with_its_line(penstock, plus, tmp_path):
    node = {"network": "plus.onnx", "inputs": {"x": "image"}, "batch": "auto:1"}
    file = write(tmp_path, {"inputs": {"image": None}, "nodes": {"net": node}, "outputs": {"y": "net.y"}})
    said = penstock("split", file, "-o", tmp_path / "p").error
    expected = "expected frames from 1 to 1024, '8:2.5', 'auto', 'auto:16' or a mapping with frames and wait_ms"
    assert f"nodes.net.batch: {expected}, found 'auto:1'" in said


def test_the_stages_of_an_applications_network_have_lanes(well, chain, tmp_path):
    node = {"network": "chain.onnx", "cuts": ["relu1"], "inputs": {"x": "x"}, "lanes": 3}
    app = {"inputs": {"x": None}, "nodes": {"net": node}, "outputs": {"y": "net.y"}}
    stages = well("split", write(tmp_path, app), "-o", tmp_path / "p", "--json").json["stages"]
    assert [stage["lanes"] for stage in stages] == [3, 3]
    node["lanes"] = {"stage1": 4}
    stages = well("split", write(tmp_path, app), "-o", tmp_path / "p", "--json").json["stages"]
    assert [stage["lanes"] for stage in stages] == [0, 4]


def test_lanes_of_all_stages_leave_out_those_that_write_a_state(well, penstock, tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Add", ["r", "before"], ["after"], "sum"),
    ]
    summed = save(tmp_path, "summed", nodes, [value("x", [4]), value("before", [4])], [value("after", [4])])
    node = {"network": summed.name, "cuts": ["first"], "inputs": {"x": "x"}}
    app = {"inputs": {"x": None}, "nodes": {"net": node | {"lanes": 4}}, "outputs": {"y": "net.after"}}
    app["states"] = [{"from": "net.after", "to": "net.before"}]
    done = well("split", write(tmp_path, app), "-o", tmp_path / "p", "--json")
    assert [stage["lanes"] for stage in done.json["stages"]] == [4, 0]
    said = "node 'net': lanes 4: stage 'net/1' keeps 1 call in flight: it writes 'y', a state that the next frame reads"
    assert done.err.count("keeps 1 call in flight") == 1 and said in done.err
    app["nodes"]["net"]["lanes"] = {"stage0": 4}
    assert "keeps 1 call" not in well("split", write(tmp_path, app), "-o", tmp_path / "p").err
    app["nodes"]["net"]["lanes"] = {"stage1": 4}
    said = penstock("split", write(tmp_path, app), "-o", tmp_path / "p").error
    lines = (tmp_path / "app.yaml").read_text().splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if '"net": {' in text]
    assert f"app.yaml:{line}: plan: stage 'net/1': expected 1 lane, found 4: it writes" in said


def test_the_plan_says_how_many_calls_of_a_node_may_be_left_behind(well, app, tmp_path):
    app["nodes"]["scale"] |= {"max_run_ms": 1000, "max_left_behind": 3}
    app["nodes"]["last"]["max_left_behind"] = 1
    well("split", write(tmp_path, app), "-o", tmp_path / "p")
    stages = json.loads((tmp_path / "p/plan.json").read_text())["stages"]
    assert {s["name"]: s.get("max_left_behind", 0) for s in stages} == {"scale": 3, "first": 0, "last": 1}
    never = "stage 'last': a call that hangs may be left behind (max_left_behind), and never is"
    assert never in well("split", tmp_path / "app.yaml", "-o", tmp_path / "p").err


def test_functions_and_networks_run_as_one_pipeline(stream, app, tmp_path):
    x = rows(20)
    found, done = stream(write(tmp_path, app), {"image": x})
    for i in range(20):
        assert np.array_equal(found[i]["result"], 3 * x[i] + 2)
        assert np.array_equal(found[i]["scaled"], 3 * x[i])
    assert [s["name"] for s in done.json["stages"]] == ["scale", "first", "last"]
    assert done.json["stages"][0]["backend"] == "function"
    assert done.json["stages"][0]["copies"] == done.json["stages"][0]["allocations"] == 0


def test_its_package_is_relocatable_and_lists_the_library(well, penstock, stream, app, tmp_path):
    well("split", write(tmp_path, app), "-o", "app.penstock")
    moved = tmp_path / "elsewhere" / "moved.penstock"
    moved.parent.mkdir()
    shutil.move(tmp_path / "app.penstock", moved)
    (tmp_path / "plus.onnx").unlink()
    plan = json.loads((moved / "plan.json").read_text())
    library = "functions/libpenstock_test_functions.so"
    assert plan["files"][library]
    assert plan["penstock_plan"] == 2
    x = rows(5)
    found, _ = stream(moved, {"image": x})
    assert np.array_equal(found[4]["result"], 3 * x[4] + 2)

    for command in ["run", "bench", "verify", "show"]:
        refused = penstock(command, moved, "--no-native-code")
        assert refused.code == 1
        assert refused.error.endswith(
            f"stage 'scale': function library '{library}': native code is not allowed here; "
            "if you trust it, leave out --no-native-code, "
            "and for what a server is sent give --allow-native-code"
        )
    with open(moved / library, "ab") as file:
        file.write(b"x")
    assert library in penstock("run", moved).error


def frames_of(folder: Path, frames: np.ndarray) -> list:
    """The options that name them."""
    arguments = []
    for i, one in enumerate(frames):
        np.save(folder / f"{i}.npy", one)
        arguments += ["--input", f"image={folder / f'{i}.npy'}"]
    return arguments


def test_an_applications_package_is_compared_with_itself_one_frame_at_a_time(well, penstock, app, tmp_path):
    well("split", write(tmp_path, app), "-o", "app.penstock")
    x = rows(9)
    x[3] = 0
    report = well("verify", "app.penstock", *frames_of(tmp_path, x), "--frames", "50", "--json").json
    assert (report["ok"], report["frames"], report["dropped"]) == (True, 50, 6)
    assert report["reference"] == (
        "the package's own stages, networks in ONNX Runtime, not optimised, one frame at a time, as it holds functions"
    )
    assert [output["values"] for output in report["outputs"]] == [44 * 4] * 2
    x[5, 2] = -1
    outcome = penstock("verify", "app.penstock", *frames_of(tmp_path, x))
    assert outcome.code == 1
    assert outcome.error == (
        "stage 'scale': frame 5: function 'scale': negative; "
        "the reference fails too: the frame's values of input 'image' or the model are at fault; "
        "check the frames (--input)"
    )
    assert penstock("verify", "app.penstock", "--model", "plus.onnx").error == (
        "--model: package 'app.penstock' is compared with itself, one frame at a time, as it holds functions; "
        "leave the option out"
    )


@pytest.mark.parametrize(("faults", "code"), [([], 0), ([{"do": "wrong", "on": "*", "by": 1}], 1)])
def test_an_applications_networks_are_compared_with_onnx_runtime(
    well, penstock, app, synthetic_backends, tmp_path, faults, code
):
    """Not with their own engine, whose faults would then pass."""
    synthetic_backends(a={"faults": faults})
    app["nodes"]["first"]["backend"] = "synthetic_a"
    well("split", write(tmp_path, app), "-o", "app.penstock")
    given = frames_of(tmp_path, rows(9) * np.float32(1.1))
    for options in [[], ["--backend-option", "synthetic_a:any=1"]]:
        outcome = penstock("verify", "app.penstock", *given, *options, "--json")
        result, scaled = outcome.json["outputs"]
        assert (outcome.code, result["verdict"], scaled["verdict"]) == (code, ["right", "wrong"][code], "right"), (
            outcome
        )
        assert result["floor"] > 1e-30  # Measured.


def test_random_numbers_of_a_network_are_named_behind_another(penstock, well, app, tmp_path):
    """Though both networks call their tensors x and y."""
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"], "noise"), helper.make_node("Add", ["x", "r"], ["y"])]
    save(tmp_path, "noisy", nodes, [value("x", [4])], [value("y", [4])])
    nodes = {name: app["nodes"][name] for name in ("scale", "first")}
    nodes["noisy"] = {"network": "noisy.onnx", "inputs": {"x": "image"}}
    nodes["squared"] = {"network": "plus.onnx", "inputs": {"x": "noisy.y"}}
    outputs = {"random": "squared.y", "sure": "first.y"}
    file = write(tmp_path, {"inputs": {"image": "f32[4]"}, "nodes": nodes, "outputs": outputs})
    well("split", file, "-o", "app.penstock")
    outcome = penstock("verify", "app.penstock", *frames_of(tmp_path, rows(9)), "--json")
    random, sure = outcome.json["outputs"]
    assert (outcome.code, random["verdict"], sure["verdict"]) == (3, "inconclusive", "right"), outcome
    assert "depends on node 'noise' (RandomNormalLike), which draws random numbers" in random["reason"]


def test_states_are_compared_frame_by_frame(well, tmp_path, library):
    count = {"function": str(library), "name": "count", "inputs": {"x": "x"}}
    app = {"inputs": {"x": "f32[4]"}, "nodes": {"count": count}, "outputs": {"n": "count.number"}}
    well("split", write(tmp_path, app), "-o", "app.penstock")
    assert well("verify", "app.penstock", "--frames", "300", "--json").json["ok"] is True  # Both count from 1.


def test_an_application_is_measured_beside_itself_one_frame_at_a_time(well, penstock, app, tmp_path):
    file = write(tmp_path, app)
    x = frames_of(tmp_path, rows(3))
    report = well("bench", file, *x, "--seconds", "0.5", "--json").json
    assert [(run["name"], run["in_flight"] == 1) for run in report["runs"]] == [
        ("penstock", False),
        ("one-at-a-time", True),
    ]
    assert all(run["frames_per_second"] > 0 for run in report["runs"])
    assert report["missing"] == ["the engines alone: they cannot run what it does, as it holds functions"]
    refused = penstock("bench", file, "--model", "plus.onnx").error
    assert refused.startswith("--model: no engine alone runs what") and refused.endswith("; leave the option out")
    assert penstock("bench", file, "--seed", "1").error.endswith(
        "function 'scale': negative; the inputs were random: give frames that come out (--input)"
    )


# Each command that takes an application, without native code.
WITHOUT = [["run"], ["bench"], ["show"], ["split", "-o", "app.penstock"]]


@pytest.mark.parametrize("command", WITHOUT, ids=lambda command: command[0])
def test_native_code_is_refused_before_it_is_opened(penstock, app, tmp_path, command):
    app["nodes"]["scale"]["function"] = "no_library.so"
    (tmp_path / "no_library.so").touch()
    refused = penstock(*command, write(tmp_path, app), "--no-native-code")
    assert refused.code == 1
    assert re.fullmatch(
        r"app.yaml:\d+: node 'scale': function library 'no_library.so': native code is not allowed here; "
        r"if you trust it, leave out --no-native-code, and for what a server is sent give --allow-native-code",
        refused.error.replace(f"{tmp_path}/", ""),
    )
    assert not (tmp_path / "app.penstock").exists()


@pytest.mark.parametrize("command", WITHOUT, ids=lambda command: command[0])
def test_libraries_of_operators_are_refused_too(well, penstock, app, tmp_path, plus, command):
    (tmp_path / "ops.so").touch()
    node = {"network": "plus.onnx", "custom_ops": ["ops.so"], "inputs": {"x": "image"}}
    app |= {"nodes": {"only": node}, "outputs": {"y": "only.y"}}
    refused = "node 'only': custom-operator library '"
    assert refused in penstock(*command, write(tmp_path, app), "--no-native-code").error

    well("split", plus, "-o", "plus.penstock")
    plan = json.loads((tmp_path / "plus.penstock/plan.json").read_text())
    plan["custom_ops"] = ["ops.so"]
    plan["files"]["ops.so"] = hashlib.sha256(b"").hexdigest()
    (tmp_path / "plus.penstock/plan.json").write_text(json.dumps(plan))
    shutil.move(tmp_path / "ops.so", tmp_path / "plus.penstock")
    app["nodes"]["only"] = {"network": "plus.penstock", "inputs": {"x": "image"}}
    assert refused in penstock(*command, write(tmp_path, app), "--no-native-code").error


def test_what_holds_no_native_code_passes_without(well, app, tmp_path):
    nodes = {"only": {"network": "plus.onnx", "inputs": {"x": "image"}}}
    file = write(tmp_path, app | {"nodes": nodes, "outputs": {"y": "only.y"}})
    for command in WITHOUT[0], WITHOUT[2], WITHOUT[3]:
        well(*command, file, "--no-native-code")
    well("verify", "app.penstock", "--no-native-code")


def test_a_library_of_another_version_is_refused(penstock, app, library, tmp_path):
    app["nodes"]["scale"]["function"] = str(library.with_name("libpenstock_test_functions_of_version_9.so"))
    assert "built for version 9 of the function interface, this Penstock has version 1" in (
        penstock("run", write(tmp_path, app)).error
    )


def test_drops_and_failures_come_out_in_place(stream, app, tmp_path):
    x = rows(10)
    x[3] = 0
    x[6, 2] = -1
    found, done = stream(write(tmp_path, app), {"image": x}, code=1)
    assert [i for i in range(10) if not found[i]] == [3, 6]
    report = done.json
    assert (report["ok"], report["errors"], report["drops"]) == (8, 1, 1)
    assert report["failures"] == [
        {
            "code": "unknown",
            "message": "stage 'scale': frame 6: function 'scale': negative",
            "reason": "negative",
            "places": [
                {"kind": "stage", "name": "scale"},
                {"kind": "frame", "number": 6},
                {"kind": "function", "name": "scale"},
            ],
        }
    ]
    assert report["stages"][0]["drops"] == 1


def test_items_are_scattered_to_a_network_and_gathered(stream, library, plus, tmp_path):
    node = {"function": str(library)}
    app = {
        "inputs": {"x": None},
        "nodes": {
            "find": node | {"name": "scatter", "inputs": {"x": "x"}},
            "net": {"network": "plus.onnx", "inputs": {"x": "find.items"}, "each": ["x"], "replicas": 2},
            "join": node | {"name": "sum", "inputs": {"items": "net.y"}},
        },
        "outputs": {"total": "join.y", "parts": "net.y"},
    }
    app["inputs"]["x"] = "f32[4]"
    x = rows(27)  # 0 to 8 items, 8 being the bound.
    found, _ = stream(write(tmp_path, app), {"x": x})
    for i in range(27):
        items = x[i] + np.arange(int(x[i, 0]), dtype=np.float32).reshape(-1, 1) + 1
        assert np.array_equal(found[i]["parts"], items.reshape(-1, 4))
        assert np.array_equal(found[i]["total"], items.reshape(-1, 4).sum(axis=0))


@pytest.mark.sweep(of=3)
def test_a_node_may_be_a_package_that_was_measured(well, penstock, stream, plus, app, tmp_path):
    well("build", plus, "-o", "best.penstock", "--budget", "1s", env={"PENSTOCK_COSTS": str(tmp_path / "costs.db")})
    well("split", plus, "-o", "plus.penstock.zip")
    app["nodes"]["first"]["network"] = "best.penstock"
    app["nodes"]["last"] = {"network": "plus.penstock.zip", "inputs": {"x": "first.y"}, "max_run_ms": 60000}
    x = rows(20)
    found, done = stream(write(tmp_path, app), {"image": x})
    for i in range(20):
        np.testing.assert_allclose(found[i]["result"], 3 * x[i] + 2, rtol=1e-6)
    built = json.loads((tmp_path / "best.penstock/plan.json").read_text())["stages"]
    backends = [partition["backend"] for stage in built for partition in stage["partitions"]]
    assert [s["backend"] for s in done.json["stages"]][1 : 1 + len(built)] == backends

    app["nodes"]["last"]["replicas"] = 2
    assert "plus.penstock.zip': how it is split, where and by what it runs was settled when it was made" in (
        penstock("run", write(tmp_path, app)).error
    )
    del app["nodes"]["last"]["replicas"]
    well("split", write(tmp_path, app), "-o", "app.penstock")
    app["nodes"]["last"]["network"] = "app.penstock"
    assert (
        "expected one network, as 'penstock split', 'plan' and 'build' write it from a model, found that it holds"
        in (penstock("run", write(tmp_path, app)).error)
    )


def test_a_state_feeds_the_next_frame(stream, tmp_path):
    nodes = [
        helper.make_node("Mul", ["s", "half"], ["h"], "halve"),
        helper.make_node("Add", ["x", "h"], ["t"], "add"),
        helper.make_node("Identity", ["t"], ["y"], "copy"),
    ]
    weights = {"half": np.full(4, 0.5, np.float32)}
    ports = [value("x", [4]), value("s", [4])], [value("y", [4]), value("t", [4])]
    save(tmp_path, "decay", nodes, *ports, weights)
    np.save(tmp_path / "start.npy", np.full(4, 8, np.float32))
    x = rows(30)
    app = {
        "inputs": {"x": "f32[4]"},
        "nodes": {"decay": {"network": "decay.onnx", "inputs": {"x": "x"}, "cuts": ["halve"]}},
        "states": [{"from": "decay.t", "to": "decay.s", "initial": "start.npy"}],
        "outputs": {"y": "decay.y"},
    }
    for source, options, first in [
        (write(tmp_path, app), [], 8),
        ("decay.onnx", ["--state", "t=s"], 0),
        ("decay.onnx", ["--state", "t=s:start.npy"], 8),
    ]:
        found, _ = stream(source, {"x": x}, *options)
        state = np.full(4, first, np.float32)
        for i in range(30):
            state = x[i] + np.float32(0.5) * state
            assert np.array_equal(found[i]["y"], state), (source, options, i)


@pytest.mark.parametrize("first", [{}, {"initial": "row.npy"}])
def test_a_sequence_is_no_state(penstock, tmp_path, first):
    listed = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    insert = helper.make_node("SequenceInsert", ["mem", "x"], ["kept"], "insert")
    length = helper.make_node("SequenceLength", ["kept"], ["n"], "length")
    ports = [value("x", [2]), helper.make_value_info("mem", listed)]
    outputs = [value("n", [], TensorProto.INT64), helper.make_value_info("kept", listed)]
    save(tmp_path, "keeping", [insert, length], ports, outputs)
    np.save(tmp_path / "row.npy", np.zeros(2, np.float32))
    app = {
        "inputs": {"x": "f32[2]"},
        "nodes": {"net": {"network": "keeping.onnx", "inputs": {"x": "x"}}},
        "states": [{"from": "net.kept", "to": "net.mem"} | first],
        "outputs": {"n": "net.n"},
    }
    error = penstock("split", write(tmp_path, app), "-o", tmp_path / "p").error
    assert "state 'net.kept' -> 'net.mem': expected a tensor, found sequence(f32[2]): only tensors" in error


def test_a_package_keeps_its_states_in_an_application(well, stream, tmp_path):
    """Names as TensorFlow has them: t:0 = x + s:0 / 2."""
    nodes = [
        helper.make_node("Mul", ["s:0", "half"], ["h"], "halve"),
        helper.make_node("Add", ["x", "h"], ["t:0"], "add"),
        helper.make_node("Neg", ["t:0"], ["y"], "negate"),
    ]
    ports = [value("x", [4]), value("s:0", [4])], [value("y", [4]), value("t:0", [4])]
    save(tmp_path, "decay", nodes, *ports, {"half": np.full(4, 0.5, np.float32)})
    np.save(tmp_path / "start.npy", np.full(4, 8, np.float32))
    well("split", "decay.onnx", "--state", "t:0=s:0:start.npy", "--cut", "halve", "-o", "decay.penstock")
    (tmp_path / "start.npy").unlink()
    np.save(tmp_path / "two.npy", np.full(4, 2, np.float32))
    app = {
        "inputs": {"x": "f32[4]"},
        "nodes": {"decay": {"network": "decay.penstock", "inputs": {"x": "x"}}},
        "outputs": {"y": "decay.y"},
    }
    x = rows(30)
    for states, first in [([], 8), ([{"from": "decay.t:0", "to": "decay.s:0", "initial": "two.npy"}], 2)]:
        found, _ = stream(write(tmp_path, app | {"states": states}), {"x": x})
        state = np.full(4, first, np.float32)
        for i in range(30):
            state = x[i] + np.float32(0.5) * state
            assert np.array_equal(found[i]["y"], -state), (states, i)


def test_each_input_is_a_stream_of_its_own(well, penstock, tmp_path):
    nodes = [helper.make_node("Add", ["x", "s"], ["t"], "add"), helper.make_node("Identity", ["t"], ["y"], "copy")]
    model = save(tmp_path, "sum", nodes, [value("x", [4]), value("s", [4])], [value("y", [4]), value("t", [4])])
    for name, frames in [("a", 3), ("b", 1), ("c", 5)]:
        (tmp_path / name).mkdir()
        for i in range(frames):
            np.save(tmp_path / name / f"{i}.npy", np.full(4, ord(name) + i, np.float32))
    files = [part for name in "abc" for part in ("--input", f"x={name}")]
    lines = [
        json.loads(line)
        for line in well("run", model, "--state", "t=s", "--streams", "3", *files, "--output", "-").out.splitlines()
    ]
    sums: dict[int, float] = {}
    steps: dict[int, int] = {}
    for number, line in enumerate(lines):
        stream = line.get("stream", 0)
        sums[stream] = sums.get(stream, 0) + ord("abc"[stream]) + steps.setdefault(stream, 0)
        steps[stream] += 1
        assert line == {"frame": number} | ({"stream": stream} if stream else {}) | {
            "files": {"x": f"{steps[stream] - 1}.npy"},
            "outputs": {"y": [sums[stream]] * 4},
        }
    assert [line.get("stream", 0) for line in lines] == [0, 1, 2, 0, 2, 0, 2, 2, 2]
    repeated = well("run", model, "--state", "t=s", *files, "--output", "-").out.splitlines()
    assert len(repeated) == 9  # Without --streams one behind the other.
    assert not any("stream" in json.loads(line) for line in repeated)
    random = well("run", model, "--state", "t=s", "--streams", "3", "--frames", "7", "--output", "-").out.splitlines()
    assert [json.loads(line).get("stream", 0) for line in random] == [0, 1, 2, 0, 1, 2, 0]
    refused = penstock("run", model, "--state", "t=s", "--streams", "2", *files)
    assert "3 files of an input are as many streams: expected at most 2; give --streams 3" in refused.error


def test_each_of_several_streams_has_a_replica_for_its_state(well, penstock, tmp_path):
    nodes = [helper.make_node("Add", ["x", "s"], ["t"], "add"), helper.make_node("Identity", ["t"], ["y"], "copy")]
    save(tmp_path, "sum", nodes, [value("x", [4]), value("s", [4])], [value("y", [4]), value("t", [4])])
    app = {
        "inputs": {"x": "f32[4]"},
        "nodes": {"sum": {"network": "sum.onnx", "inputs": {"x": "x"}, "replicas": 2}},
        "states": [{"from": "sum.t", "to": "sum.s"}],
        "outputs": {"y": "sum.y"},
    }
    file = write(tmp_path, app | {"streams": {"most": 3}})
    jsonschema.validate(yaml.safe_load(file.read_text()), SCHEMA)
    well("split", file, "-o", tmp_path / "app.penstock")
    (stage,) = well("show", tmp_path / "app.penstock", "--json").json["stages"]
    assert len(stage["devices"]) == 2
    assert well("verify", tmp_path / "app.penstock", "--json").json["ok"] is True  # Two streams or more.
    x = np.arange(3 * 30 * 4, dtype=np.float32).reshape(3, 30, 4) % 17
    files = []
    for name, frames in zip("abc", x, strict=True):
        (tmp_path / name).mkdir()
        for i, one in enumerate(frames):
            np.save(tmp_path / name / f"{i:02}.npy", one)
        files += ["--input", f"x={name}"]
    for source in (file, tmp_path / "app.penstock"):
        steps = [0, 0, 0]
        for line in map(json.loads, well("run", source, "--streams", "3", *files, "--output", "-").out.splitlines()):
            stream = line.get("stream", 0)
            steps[stream] += 1
            assert line["outputs"]["y"] == x[stream, : steps[stream]].sum(axis=0).tolist()
        assert steps == [30, 30, 30]
    write(tmp_path, app)
    assert (
        "node 'sum' writes it: expected one replica, found 2; leave 'replicas' out there, or give several streams"
        in (penstock("split", file, "-o", tmp_path / "one.penstock").error)
    )


# Open dimensions of networks, and inputs that are neither a state nor random.
SHAPES = {"silero_vad_16k_op15": {"input": [1, 576], "state": [2, 1, 128]}}
SETTINGS = {"silero_vad_16k_op15": {"sr": np.array(16000)}}


@pytest.mark.sweep(of=3)
@pytest.mark.skipif(not (MODELS / "dtln_1").is_dir(), reason="PENSTOCK_TEST_MODELS names no networks")
@pytest.mark.parametrize(
    ("model", "cuts"),
    [
        ("dtln_1", 0),
        ("dtln_1", 1),
        ("gtcrn_simple", 0),
        ("gtcrn_simple", 2),
        ("silero_vad_16k_op15", 0),
        ("silero_vad_16k_op15", 1),
    ],
)
def test_a_thousand_frames_of_a_streaming_network_equal_the_loop(well, stream, tmp_path, model, cuts):
    file = MODELS / model / "model.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    reference = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    inputs, outputs = reference.get_inputs(), reference.get_outputs()
    shapes, settings = SHAPES.get(model, {}), SETTINGS.get(model, {})
    states = list(
        zip((o.name for o in outputs[1:]), (i.name for i in inputs[1:] if i.name not in settings), strict=True)
    )
    arguments = [part for out, into in states for part in ("--state", f"{out}={into}")]
    arguments += [part for name, dims in shapes.items() for part in ("--shape", f"{name}={'x'.join(map(str, dims))}")]
    shapes = {i.name: shapes.get(i.name, i.shape) for i in inputs}
    if cuts:
        names = [node["name"] for node in well("show", file, *arguments[2 * len(states) :], "--json").json["nodes"]]
        at = [len(names) * (k + 1) // (cuts + 1) for k in range(cuts)]
        arguments += [part for k in at for part in ("--cut", names[k])]
    well("split", file, *arguments, "-o", "net.penstock")
    random = np.random.default_rng(0)
    x = random.standard_normal((1000, *shapes[inputs[0].name])).astype(np.float32)
    frames = {inputs[0].name: x} | {name: np.stack([given] * 1000) for name, given in settings.items()}
    found, done = stream("net.penstock", frames)
    assert done.json["ok"] == 1000
    made = [frame[outputs[0].name] for frame in found]
    state = {into: np.zeros(shapes[into], np.float32) for _, into in states}
    for i in range(1000):
        expected = reference.run(None, {inputs[0].name: x[i]} | settings | state)
        state = {into: value for (_, into), value in zip(states, expected[1:], strict=True)}
        if cuts == 0:
            assert np.array_equal(made[i], expected[0]), i
        else:  # Cut differently, an engine fuses differently.
            np.testing.assert_allclose(made[i], expected[0], rtol=1e-3, atol=1e-4)
    if cuts:  # What runs at the same time changes nothing.
        alone, done = stream("net.penstock", frames, "--in-flight", "1")
        assert done.json["ok"] == 1000
        assert all(np.array_equal(made[i], alone[i][outputs[0].name]) for i in range(1000))


def test_what_is_wrong_is_named_with_its_line(penstock, app, tmp_path):
    def error(**changed):
        return penstock("run", write(tmp_path, app | changed)).error

    nodes = app["nodes"]
    swapped = {**nodes, "scale": nodes["scale"] | {"inputs": {"x": "last.y"}}}
    message = error(nodes=swapped)
    assert re.match(r".*app\.yaml:\d+: node ", message), message
    assert "the nodes feed each other in a cycle: last -> scale -> first -> last" in message
    assert "input 'x': expected f32[4], found u8[4] from 'image'" in error(inputs={"image": "u8[4]"})
    assert "expected f32[4], found f32[5] from 'image'" in error(inputs={"image": "f32[5]"})
    lonely = {**nodes, "last": {"network": "plus.onnx"}}
    assert "node 'last': input 'x' (f32[4]) has no source" in error(nodes=lonely)
    assert "'node.port', or bind it where it never changes ('constants: {x: VALUE}')" in error(nodes=lonely)
    assert error(outputs={"y": "last.z"}).endswith("node 'last' has no output 'z'; there are: 'y'")
    assert "nodes.last.network: no such file: " in error(nodes={**nodes, "last": {"network": "none.onnx"}})
    unnamed = {**nodes, "scale": {"function": nodes["scale"]["function"], "inputs": {"x": "image"}}}
    assert "expected 'name', which of its functions; there are: 'scale', 'count'" in error(nodes=unnamed)
    no_library = {**nodes, "scale": {"function": "./plus.onnx", "inputs": {"x": "image"}}}
    assert "'plus.onnx': expected a shared library for this machine, found: " in error(nodes=no_library)
    no_number = {**nodes, "scale": nodes["scale"] | {"options": {"factor": "much"}}}
    assert "factor: expected a number, found 'much'" in error(nodes=no_number)
    count = {"function": nodes["scale"]["function"], "name": "count", "inputs": {"x": "image"}}
    states = {"states": [{"from": "count.number", "to": "last.x"}]}
    assert "expected f32[4], which the next frame reads, found i64[1]; both ends of a state have one type" in error(
        nodes={**nodes, "count": count, "last": {"network": "plus.onnx"}}, **states
    )
    where = r".*app\.yaml:\d+: "  # And before anything starts.
    for name in ("last", "scale"):
        far = {**nodes, name: nodes[name] | {"devices": "cpu:9999"}}
        assert re.match(where + f"node '{name}': device 'cpu:9999': CPU 9999 is not among", error(nodes=far))
    twice = {**nodes, "count": count | {"replicas": 2}}
    one = "expected one replica, found 2; leave 'replicas' out"
    assert re.match(where + f"node 'count': function 'count' is stateful and .*: {one}", error(nodes=twice))
    sums = {**nodes, "last": {"network": "plus.onnx", "replicas": 2}}
    assert re.match(
        where + rf"state 'last\.y' -> 'last\.x': node 'last' writes it: {one}",
        error(nodes=sums, states=[{"from": "last.y", "to": "last.x"}]),
    )
    state = {"from": "last.y", "to": "last.x", "initial": "initial.npy"}
    for initial, told in (
        (np.zeros(5, np.float32), r"expected f32\[4\], found f32\[5\]"),
        (None, r".*initial\.npy': is not a "),
    ):
        (tmp_path / "initial.npy").write_bytes(b"none")
        if initial is not None:
            np.save(tmp_path / "initial.npy", initial)
        assert re.match(
            where + rf"state 'last\.y' -> 'last\.x': initial value: {told}",
            error(nodes={**nodes, "last": {"network": "plus.onnx"}}, states=[state]),
        )
    (tmp_path / "app.yaml").write_text("penstock_app: 1\nnodes: [}\n")
    assert penstock("run", "app.yaml").error.startswith("app.yaml:2: not YAML: ")  # As it was named.
    assert "no such file" in penstock("run", "nowhere.yaml").error
    for option, given in [("--state", "a=b"), ("--batch", "2")]:
        assert f"{option}: is for a model" in penstock("run", write(tmp_path, app), option, given).error
    assert "expected -o, --no-native-code and --json only" in (
        penstock("split", write(tmp_path, app), "--cut", "plus", "-o", "p").error
    )


FUNCTION = ["function: ./lib.so", "name: scale", "inputs: {x: x}"]
NETWORK = ["network: plus.onnx", "inputs: {x: x}"]


# The type of the input, the node's lines, and which of them is told with what.
@pytest.mark.parametrize(
    ("type", "node", "line", "told"),
    [
        (
            "f32[?,4]",
            [*NETWORK, "each:", "  - x"],
            2,
            "each: 'x': expected a bounded first dimension, all others fixed, ",
        ),
        ("f32", [*NETWORK, "each: [x]"], 2, "found f32 from 'x'; bound it where it is declared, such as f32[n<=8,4]"),
        ("f32[4]", [*NETWORK, "each: [z]"], 2, "each: 'z' is no connected input of it"),
        (
            "f32[n<=8,2,3]",
            ["network: double.onnx", "inputs: {x: x}", "each: [x]"],
            2,
            "output 'y', made for each item: expected a fixed shape, found f32[n,3]; fix the input's with 'shapes'",
        ),
        ("f32[4]", [*NETWORK, "devices: cpu:9999"], 2, "device 'cpu:9999': CPU 9999 is not among"),
        ("f32[4]", [*FUNCTION, "devices: cpu:9999"], 3, "device 'cpu:9999': CPU 9999 is not among"),
        ("f32[4]", [*NETWORK, "backend: none"], 2, "backend 'none': there is none of that name; there are: "),
        ("f32[4]", [*NETWORK, "options: {none: 1}"], 2, "backend option 'onnxruntime:none': unknown; "),
        ("f32[4]", [*NETWORK, "custom_ops: [app.yaml]"], 2, "custom-operator library 'app.yaml': "),
        ("f32[4]", [*NETWORK, "cuts: [zero]"], 2, "cut 'zero': no node or tensor of that name; "),
        (
            "f32[4]",
            ["inputs: {x: x}", "network: app.yaml"],
            1,
            "'app.yaml': expected a model or a package of one network",
        ),
        ("f32[4]", ["inputs: {x: x}", "network: lib.so"], 1, "file 'lib.so': not an ONNX model"),
        ("f32[4]", ["inputs: {x: x}", "function: ./plus.onnx"], 1, "function library 'plus.onnx': expected a shared "),
        (
            "f32[4]",
            ["inputs: {x: x}", "function: none"],
            1,
            "there are: none; the program that runs the pipeline regis",
        ),
        ("f32[4]", [*FUNCTION, "options: {function: sum}"], 3, "setting 'function' is how a plan names the function"),
        (
            "f32[4]",
            [FUNCTION[0], "name: count", "inputs: {x: x}", "replicas: 2"],
            3,
            "function 'count' is stateful and",
        ),
        (
            "f32[n<=16,3]",
            ["network: double.onnx", "inputs:", "  x: x", "shapes: {x: 1..8x3}"],
            2,
            "input 'x': expected f32[n<=8,3], found f32[n<=16,3] from 'x'; give the input the type that is expected",
        ),
    ],
    ids=lambda value: "-".join(value[-1:]) if isinstance(value, list) else None,
)
def test_what_is_wrong_with_a_node_is_told_with_its_own_line(
    penstock, library, plus, double, tmp_path, type, node, line, told
):
    shutil.copy(library, tmp_path / "lib.so")
    above = ["penstock_app: 1", "inputs:", f"  x: '{type}'", "nodes:", "  node:"]
    (tmp_path / "app.yaml").write_text("\n".join([*above, *(f"    {text}" for text in node), "outputs: {y: node.y}"]))
    for command in [["run"], ["show"], ["split", "-o", "app.penstock"]]:
        error = penstock(*command, "app.yaml").error
        assert error.startswith(f"app.yaml:{len(above) + 1 + line}: node 'node': "), error
        assert told in error
    assert not (tmp_path / "app.penstock").exists()


@pytest.mark.sweep(of=6)
def test_devices_may_be_those_of_a_made_up_machine(well, penstock, plus, tmp_path):
    app = {"inputs": {"x": "f32[4]"}, "nodes": {"one": {"network": "plus.onnx", "inputs": {"x": "x"}}}}
    app |= {"outputs": {"y": "one.y"}}
    app["nodes"]["one"] |= {"devices": "cpu:4000"}
    made_up = {"HWLOC_SYNTHETIC": "core:4096 pu:1"}
    made = well("split", write(tmp_path, app), "-o", "p", "--json", env=made_up).json
    assert made["stages"][0]["devices"] == ["cpu:4000"]
    app["nodes"]["one"] |= {"devices": "cpu:4096"}
    refused = penstock("split", write(tmp_path, app), "-o", "p", env=made_up)
    assert "CPU 4096 is not among those this process may use: 0-4095" in refused.error


def test_what_fails_at_the_start_is_told_with_its_nodes_line(penstock, app, tmp_path):
    app["nodes"]["scale"]["options"] = {"factor": "much"}
    file = write(tmp_path, app)
    line = file.read_text().splitlines().index('  "scale": {') + 1
    for command in "run", "bench":
        assert penstock(command, file).error == (
            f"{file}:{line}: stage 'scale': function 'scale': factor: expected a number, found 'much'"
        )
    del app["nodes"]["scale"]["options"]
    app["nodes"]["first"] |= {"cuts": [], "devices": "cuda:0"}
    file = write(tmp_path, app)
    line = file.read_text().splitlines().index('  "first": {') + 1
    assert penstock("run", file).error.startswith(
        f"{file}:{line}: stage 'first': device 'cuda:0': backend 'onnxruntime' does not run there; "
    )


def test_what_is_wrong_with_the_whole_is_told_with_the_file(penstock, app, tmp_path):
    for node in app["nodes"].values():
        node["replicas"] = 500
    assert penstock("split", write(tmp_path, app), "-o", "app.penstock").error == (
        f"{tmp_path}/app.yaml:1: plan: the stages have 1500 replicas in all: expected at most 1024, as each is a thread"
    )


def test_a_state_comes_from_a_node(penstock, app, tmp_path):
    app["nodes"]["last"] = {"network": "plus.onnx"}
    app["states"] = [{"from": "image", "to": "last.x"}]
    file = write(tmp_path, app)
    assert re.match(
        r".*app\.yaml:\d+: states: 'image' is an input of the application: expected a node's output, 'node\.port'; ",
        penstock("run", file).error,
    )
    document = json.loads(file.read_text())
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    document["states"][0]["from"] = "last.y"
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


def test_an_application_is_told_from_a_model(penstock, app, tmp_path):
    file = write(tmp_path, app)
    assert penstock("plan", file).error == (
        f"'{file}': expected a model, found an application; "
        "'penstock show', 'run', 'bench', 'build' and 'split' take it"
    )
    assert penstock("verify", file).error == (
        f"'{file}': expected a package (a folder or a .zip), found an application; "
        "'penstock split' makes one of a model or an application"
    )
    assert penstock("explain", file).error == (
        f"'{file}': expected a package made by 'penstock build', found an application; build it, and explain that"
    )


def test_an_application_is_shown_as_it_would_be_packed(well, penstock, app, tmp_path):
    file = write(tmp_path, app)
    well("split", file, "-o", "app.penstock")
    assert well("show", file).out == well("show", "app.penstock").out
    assert "--shape" in penstock("show", file, "--shape", "x=4").error


def test_costs_of_an_application_are_asked_of_its_networks(penstock, well, plus, app, tmp_path):
    file = write(tmp_path, app)
    refused = penstock("show", file, "--costs")
    assert refused.code == 1 and refused.out == ""
    assert refused.error.startswith(f"--costs: expected a model or a package that was built, found '{file}', an appl")
    assert f"'penstock show {plus}" in refused.error.replace("//", "/") and "'penstock build'" in refused.error
    well("show", plus, "--costs", env={"PENSTOCK_COSTS": str(tmp_path / "costs.db")})


def test_state_options_are_checked(penstock, plus):
    malformed = penstock("run", plus, "--state", "y")
    told = "--state: expected OUT=IN or OUT=IN:FILE.npy, found 'y'; see 'penstock run --help'"
    assert (malformed.code, malformed.error) == (2, told)
    assert penstock("run", plus, "--state", "y=s").error == "state 'y' -> 's': no input 's'; did you mean 'x'?"
    assert penstock("run", plus, "--state", "z=x").error == "state 'z' -> 'x': no output 'z'; did you mean 'y'?"


def test_the_schema_lists_the_fields_that_are_read(penstock, app, library, tmp_path):
    schema = json.loads((ROOT / "docs/app.schema.json").read_text())
    places = {
        "": schema["properties"],
        "states[0].": schema["properties"]["states"]["items"]["properties"],
        "nodes.first.": schema["$defs"]["network"]["properties"],
        "nodes.scale.": schema["$defs"]["function"]["properties"],
    }
    for path, fields in places.items():
        spoilt = json.loads(json.dumps(app | {"states": [{"from": "a.b", "to": "c.d"}]}))
        place = spoilt
        for part in re.findall(r"\w+", path):
            place = place[int(part) if part.isdigit() else part]
        place["no such field"] = 1
        known = penstock("run", write(tmp_path, spoilt)).error.split("expected one of ")[1].split(", ")
        assert sorted(known) == sorted(fields), path


def test_max_run_names_what_hangs_only(stream, app, tmp_path):
    found, _ = stream(write(tmp_path, app), {"image": rows(5)}, "--max-run", "60000")
    assert all(found)


def test_types_are_integers_too(stream, library, tmp_path):
    app = {
        "inputs": {"x": "f32[4]"},
        "nodes": {"count": {"function": str(library), "name": "count", "inputs": {"x": "x"}}},
        "outputs": {"n": "count.number"},
    }
    found, _ = stream(write(tmp_path, app), {"x": rows(6)})
    assert [int(frame["n"][0]) for frame in found] == [1, 2, 3, 4, 5, 6]
    assert TensorProto.INT64 == 7
    app["nodes"]["count"]["replicas"] = 2
    with pytest.raises(AssertionError, match="is stateful and sees the frames in order: expected one replica"):
        stream(write(tmp_path, app), {"x": rows(2)})


APPLY = """
#include <stdlib.h>
#include <string.h>
#include "penstock/function/penstock_function.h"

static const penstock_dim kBins[] = {{1, NULL, -1}, {1, NULL, -1}, {257, NULL, -1}};
static const penstock_port kInputs[] = {{"mask", PENSTOCK_F32, 3, kBins}, {"frame", PENSTOCK_F32, 3, kBins}};
static const penstock_port kOutput = {"frame", PENSTOCK_F32, 3, kBins};

static int32_t create(const penstock_option* options, size_t count, void** state, char* message, size_t bytes) {
  if (count != 1 || strcmp(options[0].key, "gain") != 0) return PENSTOCK_ERROR;
  *state = malloc(sizeof(float));
  *(float*)*state = strtof(options[0].value, NULL);
  return PENSTOCK_OK;
}

static int32_t run(void* state, penstock_frame* frame) {
  const float *mask = frame->inputs[0].data, *in = frame->inputs[1].data;
  for (int i = 0; i < 257; ++i) ((float*)frame->outputs[0].data)[i] = *(float*)state * mask[i] * in[i];
  return PENSTOCK_OK;
}

static const penstock_function kApply = {"apply", 0, 2, kInputs, 1, &kOutput, create, free, run};

const penstock_library* penstock_functions(void) {
  static const penstock_library library = {PENSTOCK_FUNCTION_VERSION, 1, &kApply};
  return &library;
}
"""


def build_apply(folder: Path, source: str) -> None:
    (folder / "apply.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", f"-I{ROOT / 'src'}", "apply.c", "-o", "libapply.so"]
    subprocess.run(command, cwd=folder, check=True)


def test_an_interrupt_tells_of_a_call_that_hangs_and_the_next_one_ends_it(running, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    hangs = 'fputs("inside\\n", stderr);\n  for (volatile int i = 1; i;) {}\n  for (int i'
    build_apply(tmp_path, "#include <stdio.h>\n" + APPLY.replace("for (int i", hangs))
    sources = {"mask": "frame", "frame": "frame"}
    node = {"function": "./libapply.so", "options": {"gain": 1}, "inputs": sources}
    app = {"inputs": {"frame": None}, "nodes": {"apply": node}, "outputs": {"y": "apply.frame"}}
    with running(write(tmp_path, app)) as process:
        for awaited in "inside", "in flight did not come out: a call may hang; interrupt again to end at once":
            while awaited not in (line := process.stderr.readline()):
                assert line, "it ended"
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.skipif(not (MODELS / "dtln_1").is_dir(), reason="PENSTOCK_TEST_MODELS names no networks")
def test_the_documented_application_runs(stream, tmp_path):
    page = (ROOT / "docs/composition.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "app.yaml").write_text(text)
    shutil.copy(MODELS / "dtln_1/model.onnx", tmp_path / "dtln_1.onnx")
    build_apply(tmp_path, APPLY)
    frames = np.random.default_rng(0).random((5, 1, 1, 257), np.float32)
    # Written as JSON, which is YAML too, for stream() to hold against the schema.
    (tmp_path / "app.yaml").write_text(json.dumps(yaml.safe_load(text)))
    found, _ = stream(tmp_path / "app.yaml", {"frame": frames})
    session = onnxruntime.InferenceSession(MODELS / "dtln_1/model.onnx")
    state = np.zeros((1, 2, 128, 2), np.float32)
    for one, got in zip(frames, found, strict=True):
        mask, state = session.run(["activation_2", "tf_op_layer_stack_2"], {"input_2": one, "input_3": state})
        np.testing.assert_allclose(got["enhanced"], 0.5 * mask * one, rtol=1e-3, atol=1e-6)


def documented(name: str, folder: Path) -> Path:
    """An application of the ready-made functions' page, as JSON, which is YAML too."""
    page = (ROOT / "docs/ready_functions.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    return write(folder, next(block for block in blocks if block["name"] == name))


def test_the_documented_landmarks_are_points_of_the_picture(stream, tmp_path):
    """A network that gives [1, 10] whatever it sees: the corners and the middle of its picture."""
    corners = np.array([[0, 0, 32, 0, 0, 32, 32, 32, 16, 16]], np.float32)
    weights = {"zero": np.zeros((1, 1), np.float32), "corners": corners}
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "corners"], ["points"]),
    ]
    save(tmp_path, "landmarks", nodes, [value("image", [1, 3, 32, 32])], [value("points", [1, 10])], weights)
    images = np.random.default_rng(0).integers(0, 256, (2, 90, 120, 3), np.uint8)
    boxes = [np.array([[20, 30, 60, 50], [-10, 60, 30, 80]], np.float32), np.zeros((0, 4), np.float32)]
    found, _ = stream(documented("landmarks", tmp_path), {"image": images, "boxes": boxes})
    one = np.array([[10, 10], [70, 10], [10, 70], [70, 70], [40, 40]])  # 40 wide, grown by 1.5 about 40, 40.
    np.testing.assert_allclose(found[0]["points"], np.concatenate([one, one + [-30, 30]]), atol=1e-3)
    assert (found[0]["drawn"][70, 70] == [0, 255, 0]).all()
    assert found[1]["points"].shape == (0, 2)
    np.testing.assert_array_equal(found[1]["drawn"], images[1])


def test_the_documented_windows_fit_a_network_of_one_row(stream, tmp_path):
    node = helper.make_node("ReduceMax", ["sound"], ["scores"], axes=[1])
    save(tmp_path, "words", [node], [value("sound", [1, 512])], [value("scores", [1, 1])])
    sounds = np.random.default_rng(1).normal(size=(3, 1000)).astype(np.float32)
    found, _ = stream(documented("words", tmp_path), {"samples": sounds})
    windows = np.lib.stride_tricks.sliding_window_view(sounds.ravel(), 512)[::256]
    scores = np.concatenate([frame["scores"] for frame in found])
    np.testing.assert_allclose(scores, windows.max(1)[:, None, None])


@pytest.mark.skipif(not (MODELS / "ultraface_RFB-320").is_dir(), reason="PENSTOCK_TEST_MODELS names no networks")
def test_the_documented_ssd_gives_boxes_of_the_picture(stream, tmp_path):
    shutil.copy(MODELS / "ultraface_RFB-320/model.onnx", tmp_path / "ssd.onnx")
    small = np.random.default_rng(2).integers(0, 256, (240, 320, 3), np.uint8)
    image = small.repeat(2, axis=0).repeat(3, axis=1)  # Which a linear resize gives back.
    session = onnxruntime.InferenceSession(tmp_path / "ssd.onnx")
    numbers = (small.transpose(2, 0, 1)[None] - np.float32(127)) / 128
    scores, boxes = session.run(["scores", "boxes"], {"input": numbers})
    best = np.sort(scores[0, :, 1])[::-1][:40]
    gap = int(np.argmin(np.diff(best)))  # Between these two no rounding changes who is found.
    file = documented("faces", tmp_path)
    app = json.loads(file.read_text())
    app["nodes"]["sort"]["options"] |= {"score": float(best[gap : gap + 2].mean()), "overlap": 1}
    file.write_text(json.dumps(app))
    found, _ = stream(file, {"image": [image, image]})
    np.testing.assert_allclose(found[0]["scores"], best[: gap + 1], rtol=1e-3)
    wanted = boxes[0][scores[0, :, 1] >= best[gap]] * [960, 480, 960, 480]
    wanted = wanted.clip(0, [960, 480, 960, 480])
    np.testing.assert_allclose(np.sort(found[0]["boxes"], axis=0), np.sort(wanted, axis=0), atol=0.5)


@pytest.mark.parametrize("text", ["f32[1x4]", "f32[1;4]", "f32[1 4]", "f32[*,4]", "f32[1.0,4]", "f32[,4]"])
def test_types_that_are_none_are_refused_where_they_stand(penstock, tmp_path, text):
    app = {"penstock_app": 1, "inputs": {"x": text}, "nodes": {"f": {"function": "g", "inputs": {"y": "x"}}}}
    (tmp_path / "app.yaml").write_text(json.dumps(app | {"outputs": {"z": "f.y"}}, indent=1))
    assert "app.yaml:4: inputs.x: expected a type such as f32[1,3,224,224]" in penstock("run", "app.yaml").error
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(app, SCHEMA)


def test_one_file_is_one_application(penstock, tmp_path):
    (tmp_path / "app.yaml").write_text("penstock_app: 1\nnodes: {}\n---\npenstock_app: 1\n")
    assert "app.yaml:4: expected one application in a file, found another document" in penstock("run", "app.yaml").error


def test_ready_functions_around_a_network_from_a_file_to_its_classes(stream, tmp_path, penstock):
    """The bytes of a PNG, decoded, put into a frame, normalised; a network's scores, shared out and the best told."""
    weights = {"w": np.random.default_rng(0).normal(size=(3, 10)).astype(np.float32)}
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["scores"]),
    ]
    model = save(tmp_path, "classes", nodes, [value("image", [1, 3, 32, 32])], [value("scores", [1, 10])], weights)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    app = {
        "inputs": {"file": "u8[n<=100000]"},
        "nodes": {
            "decode": {"ready": "decode", "options": {"most": [64, 64]}, "inputs": {"bytes": "file"}},
            "fit": {"ready": "letterbox", "options": {"size": [32, 32]}, "inputs": {"image": "decode.image"}},
            "numbers": {
                "ready": "normalise",
                "options": {"size": 32, "mean": mean, "std": std},
                "inputs": {"image": "fit.image"},
                "replicas": 2,
            },
            "network": {"network": model.name, "inputs": {"image": "numbers.tensor"}},
            "share": {"ready": "softmax", "options": {"shape": [1, 10]}, "inputs": {"scores": "network.scores"}},
            "best": {
                "ready": "top_k",
                "options": {"shape": [1, 10], "k": 3},
                "inputs": {"scores": "share.probabilities"},
            },
        },
        "outputs": {"scores": "best.values", "classes": "best.indices"},
    }
    pictures = np.random.default_rng(1).integers(0, 256, (5, 16, 32, 3), np.uint8)
    files = []
    for picture in pictures:
        Image.fromarray(picture).save(tmp_path / "picture.png")
        files.append(np.fromfile(tmp_path / "picture.png", np.uint8))
    found, _ = stream(write(tmp_path, app), {"file": files})

    framed = np.full((5, 32, 32, 3), 114.0)
    framed[:, 8:24] = pictures  # As wide as the frame: it is not resized.
    powers = np.exp(((framed / 255 - mean) / std).mean((1, 2)) @ weights["w"])
    shares = powers / powers.sum(1, keepdims=True)
    for outputs, share in zip(found, shares, strict=True):
        best = np.argsort(-share)[:3]
        assert outputs["classes"].tolist() == [best.tolist()]
        np.testing.assert_allclose(outputs["scores"], share[best][None], rtol=1e-4)

    # The package is a whole: it runs without the file, and where native code is refused.
    assert penstock("split", "app.yaml", "-o", "app.penstock").code == 0
    again, _ = stream(tmp_path / "app.penstock", {"file": files}, "--no-native-code")
    assert [outputs["classes"].tolist() for outputs in again] == [outputs["classes"].tolist() for outputs in found]


def test_a_ready_function_that_is_none_is_refused_with_its_place(penstock, tmp_path):
    def told(node: dict) -> str:
        app = {"inputs": {"x": None}, "nodes": {"fit": node}, "outputs": {"y": "fit.image"}}
        done = penstock("run", write(tmp_path, app), "--input", "x=x.npy")
        assert done.code != 0
        return done.error

    inputs = {"image": "x"}
    place = r"app\.yaml:\d+: node 'fit': "
    assert re.search(
        place + "no ready-made function 'leterbox'; did you mean", told({"ready": "leterbox", "inputs": inputs})
    )
    missing = told({"ready": "resize", "inputs": inputs})
    assert re.search(place + "function 'resize': setting 'size' is missing: Height and width", missing)
    wrong = told({"ready": "resize", "options": {"size": [4, 4], "how": "cubic"}, "inputs": inputs})
    assert "setting 'how': expected one of 'nearest', 'linear', 'area', found 'cubic'" in wrong
