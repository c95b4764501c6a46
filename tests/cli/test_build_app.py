"""penstock build of applications: networks, functions and devices tuned together."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from conftest import ROOT, save, value
from onnx import helper

SCHEMA = json.loads((ROOT / "docs/app.schema.json").read_text())


@pytest.fixture(autouse=True)
def costs(own_costs):
    """A database of costs of the test's own."""
    return own_costs


@pytest.fixture
def library(program) -> Path:
    found = program.resolve().parents[1] / "lib/tests/libpenstock_test_functions.so"
    if not found.exists():
        pytest.skip(f"no {found.name} beside the program: build the tests")
    return found


@pytest.fixture
def double(tmp_path) -> Path:
    """y = relu(2 x) over [4], in two nodes."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["m"], "mul"), helper.make_node("Relu", ["m"], ["y"], "relu")]
    return save(tmp_path, "double", nodes, [value("x", [4])], [value("y", [4])], {"two": np.array([2], np.float32)})


@pytest.fixture
def keeper(tmp_path) -> Path:
    """y = x + s, t = y / 2."""
    nodes = [helper.make_node("Add", ["x", "s"], ["y"], "add"), helper.make_node("Div", ["y", "two"], ["t"], "half")]
    ends = [value("x", [4]), value("s", [4])], [value("y", [4]), value("t", [4])]
    return save(tmp_path, "keeper", nodes, *ends, {"two": np.array([2], np.float32)})


@pytest.fixture
def app(library, double, keeper) -> dict:
    """y = 3 |image| doubled, and added to half of the frame before."""
    scale = {"function": str(library), "name": "scale", "inputs": {"x": "image"}, "options": {"factor": 3}}
    return {
        "inputs": {"image": "f32[4]"},
        "nodes": {
            "keep": {"network": keeper.name, "inputs": {"x": "net.y"}},
            "scale": scale,
            "net": {"network": double.name, "inputs": {"x": "scale.y"}, "build": {"budget": "1s"}},
        },
        "states": [{"from": "keep.t", "to": "keep.s"}],
        "outputs": {"result": "keep.y"},
    }


def write(folder: Path, app: dict) -> Path:
    document = {"penstock_app": 1} | app
    jsonschema.validate(document, SCHEMA)
    file = folder / "app.yaml"
    file.write_text(json.dumps(document, indent=1))  # JSON is YAML.
    return file


@pytest.fixture
def frames(tmp_path) -> tuple[np.ndarray, list]:
    """None is negative, which the function refuses."""
    x = np.random.default_rng(0).uniform(0.1, 1, (20, 4)).astype(np.float32)
    np.savez(tmp_path / "frames.npz", **{f"{i:03}/image": one for i, one in enumerate(x)})
    return x, ["--inputs", tmp_path / "frames.npz"]


def loop_of(x: np.ndarray) -> np.ndarray:
    made, state = [], np.zeros(4, np.float32)
    for one in x:
        made.append(6 * one + state)
        state = made[-1] / 2
    return np.stack(made)


@pytest.mark.sweep(of=6)
def test_an_application_becomes_one_package(well, penstock, app, frames, tmp_path, cpus):
    x, given = frames
    file = write(tmp_path, app)
    outcome = well("build", file, "-o", "app.penstock", "--budget", "4s", "--json", *given)
    assert re.search(r"warning: .*the network's share of the budget, [0-9.]{1,4} s, is short", outcome.err)
    report = outcome.json
    ways = {way["name"]: way["failure"] for way in report["ways"]}
    assert ways.keys() >= {"as it is written", "each network as built by itself"}
    assert set(ways.values()) == {""}, ways
    assert report["simple"][-1]["name"] == "penstock"
    best = max(report["ways"], key=lambda way: way["frames_per_second"])
    assert report["chosen"] == best["name"]
    assert {(node["name"], node["op"]) for node in report["nodes"]} >= {("scale", "function")}
    assert all(node["seconds"] > 0 for node in report["nodes"])
    plan = json.loads((tmp_path / "app.penstock/plan.json").read_text())
    foretold = {stage["name"]: stage["predicted_seconds"] for stage in plan["stages"]}
    assert foretold == {node["name"]: pytest.approx(node["seconds"]) for node in report["nodes"]}
    assert {note.split(":")[0] for note in report["notes"]} >= {"network 'net'", "network 'keep'"}
    stages = well("show", "app.penstock", "--json").json["stages"]
    assert all(len(stage["devices"]) == 1 for stage in stages if stage["name"].split("/")[0] == "keep")  # One state.
    well("run", "app.penstock", *given, "--output", "out.npz", "--json")
    found = np.load(tmp_path / "out.npz")
    made = np.stack([found[key] for key in sorted(found.files)])
    np.testing.assert_allclose(made, loop_of(x), rtol=1e-5)
    assert well("verify", "app.penstock", *given, "--json").json["ok"] is True
    networks = {one["node"]: one for one in well("explain", "app.penstock", "--json").json["networks"]}
    assert {name: one["model"] for name, one in networks.items()} == {"net": "double.onnx", "keep": "keeper.onnx"}
    assert {node["op"] for node in networks["net"]["nodes"]} == {"Mul", "Relu"}
    assert all(one["parts"] and one["simple"] and one["ways"] for one in networks.values())
    told = well("explain", "app.penstock").out
    assert "as it is written" in told and "scale" in told and report["chosen"] in told
    assert "how far from the limit: not known: no operation and no byte of a frame is counted\n" in told


@pytest.mark.sweep(of=6)
def test_no_plan_is_wrong_for_random_numbers(well, double, tmp_path):
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"], "noise"), helper.make_node("Add", ["x", "r"], ["y"])]
    save(tmp_path, "noisy", nodes, [value("x", [4])], [value("y", [4])])
    nets = {name: {"network": f"{name}.onnx", "inputs": {"x": "image"}} for name in ("noisy", "double")}
    app = {"inputs": {"image": "f32[4]"}, "nodes": nets, "outputs": {"random": "noisy.y", "sure": "double.y"}}
    report = well("build", write(tmp_path, app), "-o", "app.penstock", "--budget", "4s", "--json").json
    assert {way["failure"] for way in report["ways"]} == {""}, report
    assert any("RandomNormalLike" in note for note in report["notes"]), report["notes"]


def test_an_application_says_at_its_networks_how_many_frames_a_call_takes(penstock, app, tmp_path):
    outcome = penstock("build", write(tmp_path, app), "-o", "never", "--batch", "4")
    assert outcome.code == 1
    assert "--batch: is for a model; an application says 'batch: auto' at its networks" in outcome.error


@pytest.mark.sweep(of=3)
def test_what_the_application_says_stays(well, app, frames, tmp_path, cpu):
    app["nodes"]["net"] |= {"cuts": ["mul"], "devices": f"cpu:{cpu}"}
    del app["nodes"]["net"]["build"]
    app["nodes"]["scale"] |= {"devices": f"cpu:{cpu}"}
    report = well("build", write(tmp_path, app), "-o", "app.penstock", "--budget", "3s", "--json", *frames[1]).json
    assert not any(note.startswith("network 'net'") for note in report["notes"])
    for way in report["ways"]:
        assert f"scale on cpu:{cpu}" in way["what"] and f"net/0 on cpu:{cpu} | net/1 on cpu:{cpu}" in way["what"]


@pytest.mark.sweep(of=3)
def test_a_built_package_stands_in_an_application(well, double, frames, tmp_path, library):
    well("build", double, "-o", "net.penstock", "--budget", "1s", "--backends", "onnxruntime")
    scale = {"function": str(library), "name": "scale", "inputs": {"x": "image"}, "options": {"factor": 3}}
    nodes = {"scale": scale, "net": {"network": "net.penstock", "inputs": {"x": "scale.y"}}}
    file = write(tmp_path, {"inputs": {"image": "f32[4]"}, "nodes": nodes, "outputs": {"y": "net.y"}})
    report = well("build", file, "-o", "app.penstock", "--budget", "2s", "--json", *frames[1]).json
    assert report["notes"] == []  # Nothing was built again.
    assert [(one["node"], one["model"]) for one in report["networks"]] == [("net", "double.onnx")]
    well("run", "app.penstock", *frames[1], "--output", "out.npz")
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(np.stack([found[key] for key in sorted(found.files)]), 6 * frames[0], rtol=1e-6)


@pytest.mark.sweep(of=3)
def test_items_are_built_one_by_one(well, double, tmp_path, library):
    """scatter makes as many items as the first number says; the network runs once for each."""
    nodes = {
        "scatter": {"function": str(library), "name": "scatter", "inputs": {"x": "image"}},
        "net": {"network": double.name, "inputs": {"x": "scatter.items"}, "each": ["x"]},
        "sum": {"function": str(library), "name": "sum", "inputs": {"items": "net.y"}},
    }
    file = write(tmp_path, {"inputs": {"image": "f32[4]"}, "nodes": nodes, "outputs": {"y": "sum.y"}})
    x = np.array([[1, 2, 3, 4], [3, 1, 1, 2], [2, 0.5, 1, 1]], np.float32)
    np.savez(tmp_path / "frames.npz", **{f"{i}/image": one for i, one in enumerate(x)})
    options = ("--inputs", "frames.npz", "--json")
    report = well("build", file, "-o", "app.penstock", "--budget", "3s", *options).json
    assert any(note.startswith("network 'net'") for note in report["notes"])
    well("split", file, "-o", "plain.penstock")
    for package in ("plain", "app"):
        well("run", f"{package}.penstock", "--inputs", "frames.npz", "--output", f"{package}.npz")
    plain, tuned = np.load(tmp_path / "plain.npz"), np.load(tmp_path / "app.npz")
    assert plain.files == tuned.files and len(plain.files) == 3
    for key in plain.files:
        np.testing.assert_allclose(tuned[key], plain[key], rtol=1e-5)


def test_frames_that_a_function_refuses_are_told(penstock, well, app, tmp_path, cpu):
    for name in ("net", "keep"):  # Where they stand is said: nothing is to be built.
        app["nodes"][name] |= {"devices": f"cpu:{cpu}"}
    del app["nodes"]["net"]["build"]
    file = write(tmp_path, app)
    error = penstock("build", file, "-o", "never", "--seed", "5").error  # A value of each frame is negative.
    assert error.startswith(f"{file}:"), error
    assert "function 'scale': negative; the inputs were random: give frames that come out (--input)" in error
    assert not (tmp_path / "never").exists()
    x = np.array([[1, 1, 1, 1], [-1, 1, 1, 1], [2, 1, 1, 1]], np.float32)
    np.savez(tmp_path / "some.npz", **{f"{i}/image": one for i, one in enumerate(x)})
    report = well("build", file, "-o", "some.penstock", "--budget", "2s", "--inputs", "some.npz", "--json").json
    assert any("frames did not come out and are left out; the first: " in note for note in report["notes"])


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"build": {"budget": "soon"}}, "nodes.net.build.budget: expected a time such as 60s, 5m or 1h, found 'soon'"),
        ({"build": {}}, "nodes.net.build: budget: missing"),
        ({"build": {"time": "3s"}}, "nodes.net.build.time: unknown field; expected one of budget"),
        ({"build": {"budget": "3s"}, "cuts": ["mul"]}, "nodes.net.build: is found by measuring: leave out cuts, "),
        ({"build": {"budget": "3s"}, "network": "net.penstock"}, "was settled when it was made; leave that out here"),
    ],
)
def test_what_cannot_be_built_is_refused(penstock, well, app, double, tmp_path, node, told):
    well("split", double, "-o", "net.penstock")
    app["nodes"]["net"] = {"network": double.name, "inputs": {"x": "scale.y"}} | node
    (tmp_path / "app.yaml").write_text(json.dumps({"penstock_app": 1} | app, indent=1))
    error = penstock("build", "app.yaml", "-o", "never").error
    assert error.startswith("app.yaml:") and told in error, error
    assert not (tmp_path / "never").exists()


def test_a_network_that_no_backend_runs_is_named(penstock, app, frames, tmp_path, synthetic_backends):
    synthetic_backends(a={"faults": [{"do": "refuse", "on": "*"}]})
    options = ("--backends", "synthetic_a", "--budget", "1s", *frames[1])
    error = penstock("build", write(tmp_path, app), "-o", "never", *options).error
    assert "app.yaml:" in error and "node 'keep'" in error and "no backend runs the network" in error


@pytest.mark.parametrize(
    "options",
    [["--state", "a=b"], ["--streams", "4"], ["--shape", "image=4"], ["--constant", "a=1"], ["--as-is"]],
    ids=lambda one: one[0],
)
def test_options_of_a_model_are_refused(penstock, app, tmp_path, options):
    error = penstock("build", write(tmp_path, app), "-o", "never", *options).error
    assert "are for a model: an application says so at its nodes, in 'states' and in 'streams'" in error


@pytest.mark.sweep(of=3)
def test_plans_whose_engine_stands_once_in_a_process_run_alone(
    well, double, frames, tmp_path, cpus, synthetic_backends, library
):
    """As OpenVINO on devices of several CPUs: the network on all CPUs must not keep the other plans from running."""
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic_backends(a={"seconds": {"*": 2e-3}, "speedup": 0.8, "one_place": True})
    scale = {"function": str(library), "name": "scale", "inputs": {"x": "image"}}
    nodes = {"scale": scale, "net": {"network": double.name, "inputs": {"x": "scale.y"}}}
    file = write(tmp_path, {"inputs": {"image": "f32[4]"}, "nodes": nodes, "outputs": {"y": "net.y"}})
    options = ("--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a", "--budget", "4s", "--json")
    report = well("build", file, "-o", "app.penstock", *options, *frames[1]).json
    ways = {way["name"]: way for way in report["ways"]}
    assert f"net on cpu:{cpus[0]}-{cpus[1]}" in ways["each network as built by itself"]["what"], report["ways"]
    assert ways["planned"]["failure"] == "" and ways["planned"]["frames_per_second"] > 0, report["ways"]
