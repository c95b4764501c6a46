"""penstock build and explain: the whole loop on small networks, with backends that misbehave on purpose."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from conftest import save, save_chain, settled, value
from onnx import TensorProto, helper, parser

FIELDS = {"model", "goal", "devices", "chosen", "ways", "simple", "parts", "nodes", "notes", "period_seconds"}


@pytest.fixture(autouse=True)
def costs(own_costs):
    """A database of costs of the test's own."""
    return own_costs


@pytest.fixture(scope="module")
def simple_ways(program, peaks, tmp_path_factory, cpu) -> Path:
    """A database that knows the machine's peaks and the simple ways of the chain that are left without OpenVINO, which
    each build of it measures first, and nothing else."""
    folder = tmp_path_factory.mktemp("simple_ways")
    file = Path(shutil.copy(peaks, folder / "costs.db"))
    for devices in (f"cpu:{cpu}", "all"):
        command = [program, "build", save_chain(folder), "-o", folder / "never", "--devices", devices, "-v"]
        environment = os.environ | {"PENSTOCK_COSTS": str(file), "PENSTOCK_OPENVINO": "/absent"}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert any("trying onnxruntime" in line for line in process.stderr)
            process.kill()
    return file


@pytest.fixture
def synthetic(synthetic_backends, simple_ways, costs):
    """Gives the synthetic backends their costs and faults."""
    shutil.copy(simple_ways, costs)
    return synthetic_backends


@pytest.fixture
def build(well, tmp_path):
    def run(model, *options, package="built.penstock", budget="12s"):
        target = tmp_path / package
        return well("build", model, "-o", target, "--budget", budget, "--json", *options).json

    return run


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("folder", "only a package is replaced"),
        ("file", "only a package is replaced"),
        ("absent/p", "No such file or directory"),
        ("/proc/p", "No such file or directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(penstock, chain, tmp_path, package, told):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/precious").write_text("data")
    (tmp_path / "file").write_text("data")
    outcome = penstock("build", chain, "-o", package, "--budget", "1s", "-v")
    assert outcome.code == 1
    assert told in outcome.error
    assert "importing" not in outcome.err


class Built(NamedTuple):
    """What a build made, for several tests to look at: they change a copy."""

    report: dict
    package: Path
    costs: Path


@pytest.fixture(scope="module")
def build_once(program, tmp_path_factory):
    """Builds with a database of its own, or with a copy of what another build knew."""

    def run(model, *options, after: Built | None = None) -> Built:
        folder = tmp_path_factory.mktemp("built")
        package, costs = folder / "built.penstock", folder / "costs.db"
        if after:
            shutil.copy(after.costs, costs)
        command = [program, "build", model, "-o", package, "--costs", costs, "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Built(json.loads(done.stdout), package, costs)

    return run


@pytest.fixture(scope="module")
def plain(build_once, tmp_path_factory) -> Built:
    """The chain by onnxruntime alone."""
    model = save_chain(tmp_path_factory.mktemp("chain"))
    return build_once(model, "--backends", "onnxruntime", "--budget", "3s")


@pytest.fixture(scope="module")
def short(build_once, make_model) -> Built:
    """A network whose search the budget cuts off."""
    return build_once(make_model("resnet_tiny"), "--budget", "3s")


@pytest.fixture(scope="module")
def longer(build_once, make_model, short) -> Built:
    """The same with more time."""
    return build_once(make_model("resnet_tiny"), "--budget", "24s", after=short)


@pytest.fixture
def resnet(make_model):
    return make_model("resnet_tiny")


def backend_of(report) -> dict[str, str]:
    return {node["name"]: node["backend"] for node in report["nodes"]}


def test_a_model_becomes_a_package_that_says_why(plain, well, chain, tmp_path):
    report, package, _ = plain
    assert set(report) >= FIELDS
    assert {way["name"] for way in report["simple"]} >= {"onnxruntime", "onnxruntime-per-core", "penstock"}
    assert report["chosen"] in {way["name"] for way in report["ways"]}
    assert set(backend_of(report).values()) == {"onnxruntime"}
    assert well("verify", package, "--model", chain, "--json").json["ok"] is True
    explained = well("explain", package, "--json").json
    assert {key: explained[key] for key in FIELDS} == {key: report[key] for key in FIELDS}
    assert f"chosen: {report['chosen']}" in well("explain", package).out
    said = well("explain", package, "--html", tmp_path / "why.html").out
    assert said == f"written to '{tmp_path / 'why.html'}': open it in a browser\n"
    page = (tmp_path / "why.html").read_text()
    assert page.startswith("<!doctype html>") and page.count("</script>") == 2
    data = page.split('<script type="application/json" id="report">')[1].split("</script>")[0]
    assert json.loads(data) == explained
    assert explained["trace"]["seconds"] > 0  # A real one, of the winner's workers.
    assert any(lane["spans"] for lane in explained["trace"]["lanes"])


def test_a_report_says_how_far_the_plan_is_from_the_limit(plain, well):
    _, package, _ = plain
    report = well("explain", package, "--json").json
    limit = report["limit"]
    macs = 4 * 4 * 4 * 3 * 3 * 3 + 2 * 4 * 4 * 4 * 3 * 3
    assert limit["flops"] == 2 * macs + 4 * 4 * 4 + 2 * 4 * 4  # Two convolutions, two rectifiers.
    assert limit["seconds"] > 0 and limit["workers"] >= 1
    assert report["fraction_of_limit"] == pytest.approx(limit["seconds"] / report["period_seconds"])
    part = report["parts"][0]
    assert part["bound"] in ("computing", "moving") and part["limit_seconds"] > 0
    assert part["seconds"] == pytest.approx(sum(report["nodes"][i]["seconds"] for i in part["nodes"]))
    text = well("explain", package).out
    assert "of what the devices together could do" in text and "\n  5.856 kFLOP of fp32 at " in text
    assert "operators Conv (2)" in text and "engine onnxruntime" in text and "waiting and handing over" in text
    shown = well("show", package, "--costs").out
    assert "of the limit" in shown and "conv1" in shown
    costs = well("show", package, "--costs", "--json").json["costs"]
    assert [node["limit_seconds"] for node in costs["nodes"]] == [node["limit_seconds"] for node in report["nodes"]]


def test_of_a_network_without_work_there_is_no_limit_to_be_far_from(build, well, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 0.001}})
    model = tmp_path / "none.onnx"
    text = "(float[0,3] x) => (float[0,3] y) { y = Relu(x) }"
    onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + text), model)
    build(model, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a", package="none", budget="1s")
    told = well("explain", tmp_path / "none").out
    assert "how far from the limit: not known: no operation and no byte of a frame is counted\n" in told


@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("budget", ["24s", "3s"])  # The short one cuts the search off.
def test_a_second_build_measures_nothing_and_is_the_same(request, build, resnet, costs, tmp_path, budget):
    first = request.getfixturevalue({"24s": "longer", "3s": "short"}[budget])
    assert first.report["measured_parts"] + first.report["measured_plans"] > 0
    shutil.copy(first.costs, costs)
    before, second = tmp_path / "before", tmp_path / "second"
    shutil.copytree(first.package, second)

    def build_second() -> dict:
        shutil.rmtree(before, ignore_errors=True)
        second.rename(before)
        return build(resnet, package=second.name, budget=budget)

    assert settled(build_second(), build_second)["measured_parts"] == 0
    for file in ("plan.json", "build.json"):
        assert (before / file).read_bytes() == (second / file).read_bytes(), file


def test_what_is_known_of_a_copied_model_bears_the_name_of_the_copy(plain, chain, costs, well, tmp_path):
    shutil.copy(plain.costs, costs)
    copy = tmp_path / "elsewhere" / "copied.onnx"
    copy.parent.mkdir()
    shutil.copy(chain, copy)

    def build() -> dict:
        options = ("--backends", "onnxruntime", "--budget", "3s", "--json")
        return well("build", copy, "-o", tmp_path / "second", *options).json

    report = settled(build(), build)
    assert report["measured_parts"] == 0 and report["model"] == "copied.onnx"
    kept = {file: (tmp_path / "second" / file).read_text() for file in ("plan.json", "build.json")}
    assert json.loads(kept["build.json"])["model"] == "copied.onnx"
    assert all(chain.name not in text for text in kept.values())
    assert "copied.onnx" in well("explain", tmp_path / "second").out


@pytest.mark.sweep(of=3)
def test_a_refreshed_build_measures_all_again(plain, chain, costs, well, tmp_path):
    shutil.copy(plain.costs, costs)
    options = ("--backends", "onnxruntime", "--budget", "3s", "--json")
    again = well("build", chain, "-o", tmp_path / "again", *options, "--refresh").json
    assert again["measured_parts"] > 0 and again["measured_plans"] > 0 and again["age_seconds"] == 0


@pytest.mark.sweep(of=6)
def test_what_was_chosen_is_measured_again_where_it_is_not_what_it_was(build, chain, cpu, synthetic):
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a")
    synthetic(a={"seconds": {"*": 2e-4}})
    assert build(chain, *options, budget="3s")["measured_again"] == ""
    synthetic(a={"seconds": {"*": 1e-2}})
    again = build(chain, *options, package="again.penstock", budget="3s")
    if again["due_again"]:  # The budget left no time for it.
        assert (again["measured_again"], again["measured_plans"]) == ("", 0)
        again = build(chain, *options, package="next.penstock", budget="3s")
    assert "slower than when it was chosen" in again["measured_again"] and again["measured_plans"] > 0
    assert again["period_seconds"] >= 4e-2  # Four nodes: what is predicted is what is so now.


def damage_the_last_part(costs: Path) -> None:
    """In a file that is too large for all its pages to be read when it is opened: the page on which the next part is to
    be written."""
    page, last = 4096, 179
    with sqlite3.connect(costs) as database:
        for i in range(last + 1):
            database.execute(
                "INSERT INTO parts (model, structure, inputs, precision, backend, engine, device, threads, condition,"
                " options, name, seconds, low, high, runs, measured_at)"
                " VALUES (?, ?, '', 'f32', 'acme', '1', 'd', 1, 'alone', '', ?, 1, 1, 1, 1, 1)",
                (f"filler{i}", f"like{i}", "n" * 100_000),
            )
    database.close()
    content = bytearray(costs.read_bytes())
    (place,) = (
        at
        for at in range(0, len(content), page)
        if f"filler{last}like{last}".encode() in content[at : at + page] and b"n" * 100 in content[at : at + page]
    )
    content[place : place + page] = b"x" * page
    costs.write_bytes(content)


def damage_the_index_of_parts(costs: Path) -> None:
    """In a file that is too large for all its pages to be read when it is opened: what is read to find a part."""
    damage_the_last_part(costs)
    with sqlite3.connect(costs) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'parts'"
        roots = [root for (root,) in database.execute(query)]
    database.close()
    with costs.open("r+b") as content:
        for root in roots:
            content.seek((root - 1) * 4096)
            content.write(b"x" * 4096)


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("damage", [damage_the_last_part, damage_the_index_of_parts])
def test_damage_of_a_large_database_is_told_once_and_the_build_goes_on(
    penstock, chain, cpu, synthetic, costs, tmp_path, damage
):
    synthetic(a={"seconds": {"*": 2e-4}})
    damage(costs)
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--budget", "3s")
    outcome = penstock("build", chain, "-o", tmp_path / "built.penstock", *options)
    assert outcome.code == 0, outcome
    told = [line for line in outcome.err.splitlines() if "not a cost database, or damaged" in line]
    assert len(told) == 1 and told[0].endswith("; what is measured now will be measured again"), outcome.err


def test_with_more_time_the_search_goes_on(short, longer):
    first, second = short.report, longer.report
    assert len(second["ways"]) >= len(first["ways"]) and second["measured_parts"] + second["measured_plans"] > 0


def test_a_setting_of_a_backend_that_is_not_there_is_refused(penstock, chain, tmp_path):
    outcome = penstock("build", chain, "-o", tmp_path / "p", "--backend-option", "abacus:beads=10")
    assert outcome.code == 1 and "abacus" in outcome.error and "onnxruntime" in outcome.error


@pytest.mark.sweep(of=3)
def test_the_faster_backend_of_each_part_is_chosen(build, well, chain, cpu, synthetic, tmp_path):
    synthetic(
        a={"seconds": {"Conv": 0.004, "Relu": 0.0004}},
        b={"seconds": {"Conv": 0.0003, "Relu": 0.003}},  # Less in all: no two plans are near each other.
    )
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b", budget="300s")
    assert backend_of(report) == {
        "conv1": "synthetic_b",
        "relu1": "synthetic_a",
        "conv2": "synthetic_b",
        "relu2": "synthetic_a",
    }
    assert all("less time than" in part["reason"] for part in report["parts"])
    names = [way["name"] for way in report["ways"]]
    assert len(set(names)) == len(names)
    assert re.fullmatch(r"synthetic_b\+synthetic_a in 4 parts on each device, cover \d+", report["chosen"]), names
    assert well("verify", tmp_path / "built.penstock", "--model", chain, "--json").json["ok"] is True


def batches_of(well, package):
    stages = well("show", package, "--json").json["stages"]
    return [stage["batch"]["frames"] for stage in stages]


def test_calls_of_several_frames_are_used_where_they_are_faster(build, well, chain, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 1e-3}})  # Of a call, however many frames it has.
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--batch", "4")
    report = build(chain, *options, budget="300s")
    assert report["chosen"] == "synthetic_a on each device, up to 4 frames in a call"
    (alone,) = (way for way in report["ways"] if way["name"] == "synthetic_a on each device")
    assert alone["failure"] == ""
    package = tmp_path / "built.penstock"
    assert batches_of(well, package) == [4]
    assert well("verify", package, "--model", chain, "--json").json["ok"] is True
    # No bound of calls of one frame is one of these; nor is their time foretold, which hangs on how many come.
    assert report["lower_bound_seconds"] == 0
    again = build(chain, *options, package="again.penstock", budget="300s")
    assert (again["measured_plans"], again["chosen"]) == (0, report["chosen"])
    assert batches_of(well, tmp_path / "again.penstock") == [4]
    # What was chosen for calls of several frames is not the answer where none may have them.
    single = build(chain, *options[:-2], package="alone.penstock", budget="300s")
    assert batches_of(well, tmp_path / "alone.penstock") == [1]
    # A frame's share of a call, not the whole call.
    assert sum(node["seconds"] for node in report["nodes"]) < sum(node["seconds"] for node in single["nodes"])


def test_calls_of_several_frames_that_gain_nothing_are_not_used(build, well, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 1e-3}})
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "mix", axis=0)]
    model = save(tmp_path, "mixed", nodes, [value("x", [4])], [value("y", [4])])
    report = build(model, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--batch", "auto", budget="300s")
    assert batches_of(well, tmp_path / "built.penstock") == [1]
    (note,) = (note for note in report["notes"] if "calls of several frames" in note)
    assert "stage0: node 'mix': Softmax cannot take several frames in one call" in note


def test_calls_of_several_frames_are_checked_and_timed_on_the_frames_that_are_given(build, well, tmp_path, cpu):
    """Random ones are not what the network takes."""
    nodes = [helper.make_node("Gather", ["table", "i"], ["r"], "look", axis=0), helper.make_node("Relu", ["r"], ["y"])]
    weights = {"table": np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)}
    nodes.insert(0, helper.make_node("Sub", ["j", "ten"], ["i"], "less"))
    weights["ten"] = np.array([10], np.int64)
    inputs, outputs = [value("j", [4], TensorProto.INT64)], [value("y", [4, 3])]
    model = save(tmp_path, "looked_up", nodes, inputs, outputs, weights)
    (tmp_path / "frames").mkdir()
    for i in range(4):
        np.save(tmp_path / "frames" / f"{i}.npy", (np.arange(4) + i) % 5 + 10)
    own = f"j={tmp_path / 'frames'}"
    report = build(model, "--devices", f"cpu:{cpu}", "--input", own, "--batch", "4", budget="60s")
    assert not any("random values" in note or "out of range" in note for note in report["notes"])
    assert any("frames in a call" in way["name"] and not way["failure"] for way in report["ways"])
    outcome = well("verify", tmp_path / "built.penstock", "--input", own, "--json")
    assert outcome.json["ok"] is True


def test_a_wrong_last_row_of_a_call_is_refused(build, well, chain, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 1e-3}, "faults": [{"do": "last_row", "on": "*"}]})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--batch", "4", budget="300s")
    batched = [way for way in report["ways"] if "frames in a call" in way["name"]]
    assert len(batched) == 2 and all("wrong output" in way["failure"] for way in batched)
    assert batches_of(well, tmp_path / "built.penstock") == [1]


@pytest.mark.parametrize(("wrong", "above", "right"), [(4, 100, 2), (8, 200, 4)])
def test_where_large_calls_are_wrong_smaller_ones_are_tried(
    build, well, chain, cpu, synthetic, tmp_path, wrong, above, right
):
    """Of the larger calls the output has more elements than that, of the smaller ones it has not."""
    synthetic(a={"seconds": {"*": 1e-3}, "faults": [{"do": "last_row", "on": "*", "above": above}]})
    places = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a")
    report = build(chain, *places, "--batch", str(wrong), budget="300s")
    (large,) = (way for way in report["ways"] if f"{wrong} frames in a call" in way["name"])
    assert "wrong output" in large["failure"]
    assert report["chosen"] == f"synthetic_a on each device, up to {right} frames in a call"
    assert batches_of(well, tmp_path / "built.penstock") == [right]


def test_calls_of_several_frames_are_left_out_where_there_is_no_time(build, well, chain, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 1e-3}})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--batch", "1024", budget="5s")
    assert batches_of(well, tmp_path / "built.penstock") == [1]
    assert any("too short for" in note and "calls of several frames" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--batch", "stage0=4"], "expected one number, N, auto or auto:N, without a stage or a wait"),
        (["--batch", "4:2.5"], "without a stage or a wait"),
        (["--batch", "4", "--goal", "latency"], "each waits for all; expected the goal throughput, found latency"),
        (["--batch", "4", "--state", "y=x"], "frames of one stream with states come one after the other"),
    ],
)
def test_calls_of_several_frames_that_cannot_be_are_refused(penstock, chain, tmp_path, options, told):
    outcome = penstock("build", chain, *options, "-o", tmp_path / "p")
    assert outcome.code == 1 and outcome.error.startswith("--batch: ") and told in outcome.error


@pytest.mark.parametrize("batch", ["0", "many", "auto:1", "2000"])
def test_what_is_no_number_of_frames_is_told_by_the_forms_of_build(penstock, chain, tmp_path, batch):
    outcome = penstock("build", chain, "--batch", batch, "-o", tmp_path / "p")
    assert outcome.code == 2 and f"batch '{batch}': expected N, auto or auto:N, such as" in outcome.error
    assert "STAGE" not in outcome.error and "MILLISECONDS" not in outcome.error


def test_calls_of_several_frames_are_not_for_a_build_over_hosts(penstock, chain, tmp_path):
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text("penstock_hosts: 1\nhosts:\n  a:\n    address: localhost:1\n")
    outcome = penstock("build", chain, "--hosts", hosts, "--batch", "4", "-o", tmp_path / "p")
    assert outcome.code == 1
    assert "calls of several frames: a build over hosts has no use for them" in outcome.error


@pytest.mark.sweep(of=3)
def test_a_latency_has_no_bound_of_the_period(build, well, chain, cpus, synthetic, tmp_path):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs: on one, the bound is one of both")
    synthetic(a={"seconds": {"*": 1e-3}})
    devices = ("--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a")
    report = build(chain, *devices, "--goal", "latency", budget="3s")
    assert report["goal"] == "latency" and report["latency_seconds"] > 0
    assert report["lower_bound_seconds"] == report["gap"] == 0
    package = tmp_path / "built.penstock"
    assert json.loads((package / "plan.json").read_text())["prediction"]["lower_bound_seconds"] == 0
    text = well("explain", package).out
    assert "from push to pop, measured" in text and "no plan with" not in text


@pytest.mark.sweep(of=3)
def test_the_bound_is_the_parts_time_over_the_devices(build, chain, cpus, synthetic):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic(a={"seconds": {"*": 1e-3}})
    devices = ("--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a")
    report = build(chain, *devices, budget="3s")
    if report["lower_bound_seconds"] == 0:  # Devices of two kinds, or a plan that was faster than its parts.
        assert report["gap"] == 0
    else:  # Four nodes of at least 1 ms, on two devices.
        assert 2e-3 <= report["lower_bound_seconds"] <= report["period_seconds"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda report: report["nodes"][1].update(inputs=[2147483647]),
            "build.json: nodes[1].inputs: expected an integer from 0 to below 1, found 2147483647",
        ),
        (
            lambda report: report["nodes"][1].update(seconds=None),
            "build.json: nodes[1].seconds: expected a number, found null",
        ),
    ],
)
def test_a_report_that_is_damaged_is_refused(plain, penstock, tmp_path, change, told):
    package = shutil.copytree(plain.package, tmp_path / "built.penstock")
    report, plan = (json.loads((package / file).read_text()) for file in ("build.json", "plan.json"))
    change(report)
    (package / "build.json").write_text(json.dumps(report))
    plan["files"]["build.json"] = hashlib.sha256((package / "build.json").read_bytes()).hexdigest()
    (package / "plan.json").write_text(json.dumps(plan))
    refused = penstock("explain", package, "--html", tmp_path / "why.html")
    assert refused.code == 1
    assert told in refused.error
    assert told in penstock("show", package, "--costs").error


@pytest.mark.sweep(of=6)
def test_one_slow_node_goes_elsewhere_alone(build, cpu, synthetic, tmp_path):
    operators = ["Relu"] * 20 + ["Abs"] + ["Relu"] * 19
    values = ["x", *(f"v{i}" for i in range(39)), "y"]
    nodes = [
        helper.make_node(operator, values[i : i + 1], values[i + 1 : i + 2], f"{operator}{i}")
        for i, operator in enumerate(operators)
    ]
    model = save(tmp_path, "forty", nodes, [value("x", [1, 64])], [value("y", [1, 64])])
    synthetic(a={"seconds": {"Relu": 2e-4, "Abs": 8e-3}}, b={"seconds": {"*": 8e-4}})
    report = build(model, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b", budget="300s")
    assert [name for name, backend in backend_of(report).items() if backend == "synthetic_b"] == ["Abs20"]


@pytest.mark.sweep(of=3)
def test_the_file_as_it_is_is_chosen_where_it_is_faster(build, well, cpu, synthetic, tmp_path):
    def branch(name, operators):
        values = ["x", *(f"{name}{i}" for i in range(len(operators)))]
        nodes = [helper.make_node(op, values[i : i + 1], values[i + 1 : i + 2]) for i, op in enumerate(operators)]
        return helper.make_graph(nodes, name, [], [value(values[-1], [1, 64])])

    always = helper.make_node("Constant", [], ["always"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))
    branches = {"then_branch": branch("some", ["Relu"] * 4), "else_branch": branch("other", ["Abs"])}
    choice = helper.make_node("If", ["always"], ["y"], "choice", **branches)
    model = save(tmp_path, "choice", [always, choice], [value("x", [1, 64])], [value("y", [1, 64])])
    synthetic(a={"seconds": {"Relu": 1e-3, "If": 1e-4}})  # The clean import is the branch's four nodes.
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a")
    report = build(model, *options, budget="3s")
    assert report["chosen"] == "synthetic_a on each device, the file as it is"
    assert {node["op"] for node in report["nodes"]} == {"Constant", "If"}
    assert "clean import" in report["parts"][0]["reason"]
    assert well("verify", tmp_path / "built.penstock", "--json").json["ok"] is True
    before, again = tmp_path / "before", tmp_path / "built.penstock"

    def build_again() -> dict:
        shutil.rmtree(before, ignore_errors=True)
        again.rename(before)
        return build(model, *options, budget="3s")

    settled(build_again(), build_again)
    for file in ("plan.json", "build.json"):
        assert (before / file).read_bytes() == (again / file).read_bytes()


def test_what_crashes_on_the_file_as_it_is_leaves_the_clean_import(build, cpu, synthetic, tmp_path):
    nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Relu", ["same"], ["y"], "relu")]
    model = save(tmp_path, "same", nodes, [value("x", [1, 64])], [value("y", [1, 64])])
    synthetic(a={"seconds": {"*": 1e-3}, "faults": [{"do": "crash", "on": "Identity", "when": "compile"}]})
    report = build(model, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a", budget="3s")
    assert report["chosen"] == "synthetic_a on each device"
    assert any("the file as it is" in note and "crash" in note for note in report["notes"]), report["notes"]


@pytest.mark.sweep(of=3)
def test_a_crash_of_a_stage_leaves_the_other_plans(build, well, chain, cpus, synthetic):
    """No part that the search times has two nodes but the stages of a pipeline."""
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic(a={"seconds": {"*": 1e-3}, "faults": [{"do": "crash", "nodes": 2}]})
    report = build(chain, "--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a", budget="200s")
    assert report["chosen"].startswith("synthetic_a on")
    assert any("Conv+Relu" in note and "crash" in note for note in report["notes"]), report["notes"]
    links = well("costs", "list", "--json").json["links"]  # What the stages were planned with.
    assert [link["latency_seconds"] > 0 for link in links] == [True]


CRASHES_ON = """#!{python}
import os, signal, socket, subprocess, sys
parent, ours = socket.socket(fileno=0), socket.socketpair()
real = subprocess.Popen([{real!r}, *sys.argv[1:]], stdin=ours[1])
ours[1].close()
jobs, reports = parent.makefile("rwb", buffering=0), ours[0].makefile("rwb", buffering=0)
jobs.write(reports.readline())
for job in jobs:
    if {word!r} in job.decode():
        real.kill()
        os.kill(os.getpid(), signal.SIGSEGV)
    reports.write(job)
    while b"alive" in (report := reports.readline()):
        jobs.write(report)
    jobs.write(report)
"""


@pytest.fixture
def crash_on(program, tmp_path, monkeypatch):
    """Lets the measuring process die of each job that has the word in it."""
    real = program.parent / "penstock-measure"
    if not real.exists():
        real = program.parent.parent / "libexec/penstock/penstock-measure"

    def write(word):
        crashing = tmp_path / "penstock-measure"
        crashing.write_text(CRASHES_ON.format(python=sys.executable, real=str(real), word=word))
        crashing.chmod(0o755)
        monkeypatch.setenv("PENSTOCK_MEASURE", str(crashing))

    return write


@pytest.mark.sweep(of=3)
def test_a_simple_way_that_crashes_is_left_out(build, chain, cpus, crash_on):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs: on one, a session a core is the default")
    crash_on("onnxruntime-per-core")
    report = build(chain, "--backends", "onnxruntime", budget="3s")
    failures = {way["name"]: way["failure"] for way in report["simple"]}
    assert "killed by SIGSEGV" in failures["onnxruntime-per-core"]
    assert not failures["onnxruntime"]


def test_a_reference_that_crashes_ends_the_build_with_a_sentence(penstock, chain, crash_on, tmp_path):
    crash_on("as it is, reference")
    refused = penstock("build", chain, "-o", tmp_path / "built.penstock", "--budget", "3s")
    assert refused.code == 1
    assert "reference (onnxruntime without optimisation): crash: killed by SIGSEGV" in refused.error


@pytest.mark.sweep(of=3)
def test_an_optimised_reference_that_crashes_is_not_asked(build, chain, crash_on):
    crash_on('as it is, onnxruntime"')
    report = build(chain, "--backends", "onnxruntime", budget="3s")
    failures = {way["name"]: way["failure"] for way in report["simple"]}
    assert "killed by SIGSEGV" in failures["onnxruntime"]


@pytest.mark.sweep(of=3)
def test_a_plan_that_fails_late_is_left_out(build, chain, cpu, synthetic):
    fault = {"do": "refuse", "on": "Relu", "when": "run", "after": 40}
    synthetic(a={"seconds": {"*": 1e-3}, "faults": [fault]}, b={"seconds": {"*": 3e-3}})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b", budget="6s")
    assert report["chosen"].startswith("synthetic_b")
    told = [way["failure"] for way in report["ways"]] + report["notes"]  # Wherever it came to so many runs.
    assert any("Relu" in failure for failure in told), told


@pytest.mark.sweep(of=3)
def test_a_verdict_holds_for_its_tolerance_only(build, chain, cpu, synthetic):
    synthetic(
        a={"seconds": {"*": 1e-3}, "faults": [{"do": "wrong", "on": "*", "by": 0.02}]}, b={"seconds": {"*": 4e-3}}
    )
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    loose = build(chain, *options, "--tolerance", "0.5", package="loose", budget="3s")
    assert set(backend_of(loose).values()) == {"synthetic_a"}
    strict = build(chain, *options, package="strict", budget="3s")
    assert set(backend_of(strict).values()) == {"synthetic_b"}
    again = build(chain, *options, "--tolerance", "0.6", package="again", budget="3s")
    assert set(backend_of(again).values()) == {"synthetic_a"}


@pytest.mark.sweep(of=6)
def test_what_is_forgotten_is_tried_again(build, well, chain, cpu, synthetic):
    broken = {"seconds": {"*": 5e-4}, "faults": [{"do": "refuse", "on": "Relu"}]}
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    synthetic(a=broken, b={"seconds": {"*": 2e-3}})
    assert "synthetic_b" in backend_of(build(chain, *options, package="broken", budget="60s")).values()
    well("costs", "forget", "--failed")
    synthetic(a={"seconds": {"*": 5e-4}}, b={"seconds": {"*": 2e-3}})
    mended = build(chain, *options, package="mended", budget="60s")
    assert set(backend_of(mended).values()) == {"synthetic_a"}


@pytest.mark.sweep(of=3)
def test_one_backend_in_parts_where_it_may_not_take_the_whole(build, chain, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 1e-4}}, b={"seconds": {"*": 1e-3}})
    rules = tmp_path / "rules.json"
    one = {"only_valid": {"combine": {"all": True}}, "max_nodes": 1}
    rules.write_text(json.dumps({"synthetic_a": {"version": 1, "rule": one}}))
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b", "--rules", rules)
    report = build(chain, *options, budget="200s")
    assert set(backend_of(report).values()) == {"synthetic_a"}
    assert all(len(part["nodes"]) == 1 for part in report["parts"]), report["parts"]


def precisions_in(package) -> set[str]:
    plan = json.loads((package / "plan.json").read_text())
    return {part["options"].get("precision", "f32") for stage in plan["stages"] for part in stage["partitions"]}


LOWER = {"seconds": {"*": 1e-3}, "precisions": {"bf16": {"speedup": 4, "error": 1e-3}}}


@pytest.mark.sweep(of=3)
def test_precision_is_lowered_where_a_tolerance_allows_it(build, well, chain, cpu, synthetic, tmp_path):
    synthetic(a=LOWER)
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a")
    report = build(chain, *options, package="exact", budget="120s")
    assert set(backend_of(report).values()) == {"synthetic_a"}
    assert precisions_in(tmp_path / "exact") == {"f32"}
    report = build(chain, *options, "--tolerance", "0.1", package="rough", budget="120s")
    assert set(backend_of(report).values()) == {"synthetic_a:bf16"}
    assert precisions_in(tmp_path / "rough") == {"bf16"}
    assert "synthetic_a:bf16" in well("explain", tmp_path / "rough").out
    known = {row["precision"] for row in well("costs", "list", "--backend", "synthetic_a", "--json").json["parts"]}
    assert {"f32", "bf16"} <= known
    assert well("verify", tmp_path / "exact", "--model", chain, "--json").json["ok"] is True


@pytest.mark.sweep(of=3)
def test_the_report_says_what_was_allowed_and_where_it_cannot_tell(build, well, chain, cpu, tmp_path):
    options = ("--devices", f"cpu:{cpu}", "--backends", "onnxruntime")
    report = build(chain, *options, package="chain", budget="3s")
    assert [(output["name"], output["doubt"]) for output in report["outputs"]] == [("y", "")]
    assert "max|e|" in report["outputs"][0]["allowed"]
    assert "allowed in the outputs:\n  'y': " in well("explain", tmp_path / "chain").out
    nodes = [helper.make_node("Add", ["x", "far"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    ends = [value("x", [1, 8])], [value("y", [1, 8])]
    saturated = save(tmp_path, "saturated", nodes, *ends, {"far": np.float32(200)})
    report = build(saturated, *options, package="saturated", budget="3s")
    assert "less than ten times what is allowed" in report["outputs"][0]["doubt"]
    assert any(note.startswith("inconclusive: output 'y'") for note in report["notes"])


@pytest.mark.sweep(of=3)
def test_precision_that_leaves_the_tolerance_is_refused(build, chain, cpu, synthetic, tmp_path):
    synthetic(a=LOWER | {"precisions": {"bf16": {"speedup": 4, "error": 30}}})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--tolerance", "0.1", budget="120s")
    assert set(backend_of(report).values()) == {"synthetic_a"}
    assert precisions_in(tmp_path / "built.penstock") == {"f32"}
    refused = [way for way in report["ways"] if way["name"].startswith("synthetic_a:bf16")]
    assert refused and all("wrong output" in way["failure"] for way in refused), report["ways"]


@pytest.mark.sweep(of=3)
def test_rules_of_the_user_say_what_a_backend_is_tried_on(build, chain, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 1e-4}}, b={"seconds": {"Conv": 4e-3, "Relu": 1e-4}})
    rules = tmp_path / "rules.json"
    rules.write_text('{"synthetic_a": {"version": 1, "rule": {"combine": {"ops": ["Conv"]}}}}')
    report = build(
        chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b", "--rules", rules, budget="300s"
    )
    assert backend_of(report) == {
        "conv1": "synthetic_a",
        "relu1": "synthetic_b",
        "conv2": "synthetic_a",
        "relu2": "synthetic_b",
    }, report["ways"]


@pytest.mark.sweep(of=6)
def test_stages_keep_to_the_rules_of_the_user(build, chain, cpus, synthetic, tmp_path):
    """The rule yields the whole network and nothing else: whatever is cut, no stage may run."""
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic(a={"seconds": {"*": 2e-3}})
    options = ("--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a")
    rules = tmp_path / "rules.json"
    whole = {"chain": [{"ops": [name]} for name in ("Conv", "Relu", "Conv", "Relu")]}
    rules.write_text(json.dumps({"synthetic_a": {"version": 1, "rule": whole}}))
    free, ruled = (build(chain, *options, *more, budget="200s") for more in ([], ["--rules", rules]))
    staged = [any("2 stages" in way["name"] for way in report["ways"]) for report in (free, ruled)]
    assert staged == [True, False]
    assert any("the rules given do not yield it" in note for note in ruled["notes"]), ruled["notes"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "no such file"),
        ('{"abacus": {"version": 1, "rule": {"all": true}}}', "backend 'abacus': there is none"),
        (
            '{"onnxruntime": {"version": 1, "rule": {"ops": "Conv"}}}',
            "onnxruntime.rule.ops: expected a list, found 'Conv'",
        ),
    ],
)
def test_rules_that_are_none_are_refused(penstock, chain, tmp_path, text, complaint):
    rules = tmp_path / "rules.json"
    if text:
        rules.write_text(text)
    outcome = penstock("build", chain, "-o", tmp_path / "p", "--rules", rules, "--backends", "onnxruntime")
    assert outcome.code == 1
    assert f"rules '{rules}': {complaint}" in outcome.error


@pytest.mark.sweep(of=3)
def test_parts_are_measured_up_to_a_count(build, well, chain, cpu, synthetic):
    synthetic(a={"seconds": {"Conv": 1e-4, "*": 2e-3}}, b={"seconds": {"Relu": 1e-4, "*": 15e-4}})
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    none = build(chain, *options, "--most-parts", "0", budget="200s")
    assert len(set(backend_of(none).values())) == 1
    names = {part["name"] for part in well("costs", "list", "--json").json["parts"]}
    assert {name.split(",")[0] for name in names} == {"the whole network", "the file as it is"}
    some = build(chain, *options, budget="200s")  # Not what a search of fewer parts chose.
    assert set(backend_of(some).values()) == {"synthetic_a", "synthetic_b"}


@pytest.mark.sweep(of=3)
def test_no_mixing_where_it_does_not_win(build, chain, cpu, synthetic):
    synthetic(a={"seconds": {"*": 0.001}}, b={"seconds": {"*": 0.004}})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    assert set(backend_of(report).values()) == {"synthetic_a"}, report["ways"]


@pytest.mark.sweep(of=3)
def test_what_a_build_advises_where_a_simple_way_is_faster_hangs_on_what_it_recalled(well, chain, cpu, synthetic):
    synthetic(a={"seconds": {"*": 0.02}})
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--budget", "1s", "-o", "slow.penstock")
    faster = r"the simple way 'onnxruntime\S*' was [\d.]+ % faster than the chosen plan; (.*)\n"
    first = well("build", chain, *options).out
    (advice,) = re.findall(faster, first)
    several = "and several frames in one call (--batch 8) one for many frames at hand"
    assert advice == f"a longer --budget may find a better plan, {several}; else run the file that way"
    assert "--refresh" not in first
    (advice,) = re.findall(faster, well("explain", "slow.penstock").out)
    assert advice == "--refresh measures all again"


@pytest.mark.sweep(of=3)
def test_the_sizes_that_open_shapes_were_measured_at_are_told(build, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 0.001}})
    model = tmp_path / "open.onnx"
    text = "(float[N,32] x, float[1,32] c) => (float[N,32] y) { a = Relu(x) y = Add(a, c) }"
    onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + text), model)
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a")
    told = [note for note in build(model, *options, budget="1s")["notes"] if "measured at" in note]
    assert told == ["measured at x=1x32, as its shape is open; --shape says another"]
    notes = build(model, *options, "--shape", "x=4x32", budget="1s")["notes"]
    assert [note for note in notes if "measured at" in note] == []


@pytest.mark.sweep(of=3)
def test_a_plan_that_is_wrong_at_other_sizes_is_not_chosen(build, well, cpu, synthetic, tmp_path):
    """At the size that is measured, one row, all is right."""
    wrong = {"do": "wrong", "on": "*", "by": 0.5, "above": 32}
    synthetic(a={"seconds": {"*": 1e-6}, "faults": [wrong]}, b={"seconds": {"*": 0.001}})
    model = tmp_path / "open.onnx"
    text = "(float[N,32] x, float[1,32] c) => (float[N,32] y) { a = Relu(x) y = Add(a, c) }"
    onnx.save(parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + text), model)
    report = build(model, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b", budget="2s")
    (failure,) = {way["failure"] for way in report["ways"] if way["failure"]}
    assert failure.startswith("wrong output: with x=2x32: frame 0: output 'y': 64 of 64 values outside"), failure
    assert set(backend_of(report).values()) == {"synthetic_b"}
    assert well("verify", tmp_path / "built.penstock", "--json").json["verdict"] == "right"


@pytest.mark.sweep(of=3)
def test_a_network_that_takes_one_size_alone_is_warned_of(penstock, cpu, synthetic, tmp_path):
    synthetic(a={"seconds": {"*": 0.001}})
    nodes = [helper.make_node("Shape", ["x"], ["size"]), helper.make_node("Sub", ["size", "less"], ["index"])]
    nodes += [helper.make_node("Gather", ["table", "index"], ["one"]), helper.make_node("Mul", ["x", "one"], ["y"])]
    weights = {"less": [1], "table": np.float32([2])}
    model = save(tmp_path, "one", nodes, [value("x", ["n"])], [value("y", ["n"])], weights)
    options = ("--devices", f"cpu:{cpu}", "--backends", "synthetic_a", "--budget", "2s")
    for _ in range(2):  # Also where the choice is known.
        outcome = penstock("build", model, "-o", tmp_path / "built.penstock", *options)
        assert outcome.code == 0, outcome
        assert outcome.err.count("frames of x=1 alone were tried") == 1, outcome.err


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("fault", ["crash", "abort", "exit", "eat_memory", "refuse"])
def test_a_backend_that_breaks_is_named_and_left_out(build, chain, cpu, synthetic, fault):
    synthetic(a={"seconds": {"*": 1e-6}, "faults": [{"do": fault, "on": "Relu"}]}, b={"seconds": {"*": 0.001}})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    backends = backend_of(report)
    assert backends["relu1"] == backends["relu2"] == "synthetic_b"
    assert any("synthetic_a" in note for note in report["notes"]), report["notes"]


@pytest.mark.sweep(of=3)
def test_a_backend_that_hangs_on_an_operator_is_named_and_left_out(build, chain, cpu, synthetic):
    synthetic(a={"seconds": {"*": 1e-6}, "faults": [{"do": "hang", "on": "Relu"}]}, b={"seconds": {"*": 0.001}})
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    backends = backend_of(report)
    assert backends["relu1"] == backends["relu2"] == "synthetic_b"
    hung = [note for note in report["notes"] if "synthetic_a" in note and "hang" in note]
    assert any("Relu" in note or "the whole network" in note for note in hung), report["notes"]
    more = "compiling did not end within 5 s|a run did not end within 5 s"
    for note in hung:
        assert re.search(rf"hang: ({more}); a larger budget \(--budget\) gives it longer, up to 60 s$", note), note


@pytest.mark.sweep(of=3)
def test_a_backend_that_hangs_on_the_whole_network_is_not_tried_on_it_with_more_threads(build, chain, cpus, synthetic):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic(a={"seconds": {"*": 1e-6}, "faults": [{"do": "hang", "on": "Relu"}]}, b={"seconds": {"*": 0.001}})
    devices = f"cpu:{cpus[0]},cpu:{cpus[1]}"
    report = build(chain, "--devices", devices, "--backends", "synthetic_a,synthetic_b")
    assert any("synthetic_a on Conv+Relu+Conv+Relu: hang: " in note for note in report["notes"]), report["notes"]
    assert not any("synthetic_a" in note and "with 2 threads" in note for note in report["notes"]), report["notes"]


@pytest.mark.sweep(of=3)
def test_wrong_numbers_are_refused_and_named(build, well, chain, cpu, synthetic, tmp_path):
    synthetic(
        a={"seconds": {"*": 1e-6}, "faults": [{"do": "wrong", "on": "conv2", "by": 0.5}]},
        b={"seconds": {"*": 0.001}},
    )
    report = build(chain, "--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b")
    assert backend_of(report)["conv2"] == "synthetic_b"
    texts = report["notes"] + [way["failure"] for way in report["ways"] if way["name"].startswith("synthetic_a")]
    assert any("wrong" in text for text in texts), texts
    assert well("verify", tmp_path / "built.penstock", "--model", chain, "--json").json["ok"] is True


@pytest.mark.sweep(of=3)
def test_a_backend_asked_for_that_is_not_there_is_named(build, chain, cpu, synthetic):
    synthetic(a={}, b={"unavailable": "for a test"})
    options = ("--devices", f"cpu:{cpu}", "--backends")
    for backends, left_out in [
        ("synthetic_a,synthetic_b", ["left out: synthetic_b: for a test"]),
        ("synthetic_a", []),  # The same search: its answer is known, and says nothing of the other's notes.
    ]:
        report = build(chain, *options, backends, budget="3s")
        assert [note for note in report["notes"] if "synthetic_b" in note] == left_out


@pytest.mark.sweep(of=3)
def test_an_engine_that_stands_once_in_a_process_runs_on_all_cpus(build, chain, cpus, synthetic):
    """As OpenVINO on devices of several CPUs: parts are timed without their like beside them, plans of both refused."""
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic(a={"seconds": {"*": 2e-3}, "speedup": 0.8, "one_place": True})
    report = build(chain, "--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a", budget="12s")
    assert report["chosen"] == "synthetic_a on all CPUs at once"
    failures = {way["name"]: way["failure"] for way in report["ways"]}
    assert "stands on other CPUs of this process" in failures["synthetic_a on each device"]
    # That is nothing against what was timed of the whole network.
    assert [trial["failure"] for part in report["parts"] for trial in part["trials"]] == [""]
    # Its figures are those of all CPUs: of four operators, each of 2 ms on one CPU.
    ((part, trial),) = [(part, trial) for part in report["parts"] for trial in part["trials"]]
    assert trial["seconds"] < 0.9 * len(report["nodes"]) * 2e-3
    assert part["seconds"] == pytest.approx(report["period_seconds"], rel=0.5)
    assert sum(node["seconds"] for node in report["nodes"]) == pytest.approx(part["seconds"])


@pytest.mark.sweep(of=3)
def test_a_network_that_does_not_fit_twice_is_a_pipeline(build, chain, cpus, synthetic):
    """There is memory for one copy and a half: neither for one on each device, nor for two plans at once."""
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    synthetic(a={"seconds": {"*": 2e-3}, "speedup": 0.1, "room": 6})
    report = build(chain, "--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "--backends", "synthetic_a", budget="60s")
    failures = {way["name"]: way["failure"] for way in report["ways"]}
    # Which of the two is faster is the machine's to say: each runs without the other, at its own moment.
    assert [failure for name, failure in failures.items() if name.startswith("synthetic_a in 2 stages")][:1] == [""]
    assert "has no memory for" in failures["synthetic_a on each device"]
    assert failures["synthetic_a on all CPUs at once"] == ""


def test_where_no_backend_runs_the_network_all_reasons_are_given(penstock, chain, synthetic, tmp_path):
    synthetic(a={"faults": [{"do": "refuse", "on": "conv1"}]})
    outcome = penstock("build", chain, "-o", tmp_path / "p", "--budget", "30s", "--backends", "synthetic_a")
    assert outcome.code == 1
    assert "synthetic_a" in outcome.error and "Conv" in outcome.error
    assert not (tmp_path / "p").exists()


@pytest.mark.sweep(of=6)
def test_killed_builds_leave_a_database_that_goes_on(program, penstock, build, resnet, costs, tmp_path):
    moments = random.Random(7)
    command = [program, "build", resnet, "-o", tmp_path / "killed", "-v", "--budget"]
    for _ in range(46):
        with subprocess.Popen([*command, "20s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(moments.uniform(0.05, 1))
            process.kill()
    build(resnet, budget="3s")  # From here on they come to what builds do last.
    for phase in ("trying", "measuring 'o", "measuring parts", "comparing with"):
        budget = "4s" if phase == "comparing with" else "20s"  # More than what is known was made with.
        with subprocess.Popen(
            [*command, budget], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert any(phase in line for line in process.stderr), phase
            time.sleep(moments.uniform(0, 0.3))
            process.kill()
    assert costs.exists()
    left = [part for part in penstock("costs", "list", "--json").json["parts"] if part["seconds"]]
    assert left
    assert build(resnet, budget="3s")["chosen"]
    # What the killed ones had measured is not measured again.
    after = penstock("costs", "list", "--json").json["parts"]
    assert [part for part in left if part not in after] == []


def test_ctrl_c_keeps_the_best_plan_until_then(program, well, chain, synthetic, cpu, tmp_path):
    synthetic(a={"seconds": {"*": 0.001}}, b={"seconds": {"*": 0.002}})
    package = tmp_path / "stopped"
    command = [program, "build", chain, "-o", package, "--budget", "600s", "-v", "--devices", f"cpu:{cpu}"]
    command += ["--backends", "synthetic_a,synthetic_b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert any("measuring parts" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped before all was measured" in output
    assert well("verify", package, "--model", chain, "--json").json["ok"] is True


def test_ctrl_c_before_any_plan_is_no_error_of_the_network(program, chain, synthetic, cpu, tmp_path):
    synthetic(a={"seconds": {"*": 0.3}})
    command = [program, "build", chain, "-o", tmp_path / "stopped", "--budget", "600s", "-v", "--devices", f"cpu:{cpu}"]
    with subprocess.Popen([*command, "--backends", "synthetic_a"], stderr=subprocess.PIPE, text=True) as process:
        assert any("trying synthetic_a" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "penstock: error: interrupted: stopped before any plan was measured" in errors
    assert not (tmp_path / "stopped").exists()


@pytest.mark.sweep(of=6)
def test_two_builds_share_the_database(program, build, well, chain, synthetic, cpu, tmp_path, costs):
    """Together they measure what one would, and not twice as much."""
    synthetic(a={"seconds": {"Conv": 1e-3, "*": 2e-3}}, b={"seconds": {"Relu": 1e-3, "*": 14e-4}})
    costs.unlink()  # They know nothing.
    options = ["--devices", f"cpu:{cpu}", "--backends", "synthetic_a,synthetic_b"]
    alone = build(chain, *options, budget="120s")["measured_parts"]
    costs.unlink()
    command = [program, "build", chain, *options, "--budget", "120s", "--json", "-o"]
    both = [
        subprocess.Popen([*command, tmp_path / name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    measured = []
    for process in both:
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        measured.append(json.loads(output)["measured_parts"])
    assert sum(measured) < 1.6 * alone, (measured, alone)
    for name in ("one", "two"):
        assert well("verify", tmp_path / name, "--model", chain, "--json").json["ok"] is True


@pytest.mark.parametrize("budget", ["0s", "fast", "-3s", "60 parsecs"])
def test_a_budget_is_a_time(penstock, chain, tmp_path, budget):
    outcome = penstock("build", chain, "-o", tmp_path / "p", f"--budget={budget}")
    told = f"--budget: expected a time such as 60s, 5m or 1h, found '{budget}'; see 'penstock build --help'"
    assert (outcome.code, outcome.error) == (2, told)


@pytest.mark.sweep(of=3)
def test_a_budget_that_is_too_short_is_told_before(program, chain, cpu, tmp_path):
    command = [program, "build", chain, "-o", tmp_path / "p", "--devices", f"cpu:{cpu}", "--budget", "1s", "-v"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        before = [line for line in iter(process.stderr.readline, "") if not process.poll()]
    told = next(i for i, line in enumerate(before) if "the budget of 1 s is short" in line)
    assert re.search(r"alone take about \d+ s", before[told])
    assert any("comparing with the simple ways" in line for line in before[told:])


@pytest.mark.sweep(of=6)
def test_a_build_uses_no_more_cpus_than_the_quota_lets_run(within_quota, chain, cpus, costs, tmp_path):
    own = {"PENSTOCK_COSTS": str(costs)}
    command = ["build", chain, "-o", tmp_path / "p", "--backends", "onnxruntime", "--budget", "3s", "--json"]
    report = within_quota(0.5, *command, env=own).json
    assert len(report["devices"]) == 1
    (note,) = [note for note in report["notes"] if "quota" in note]
    assert f"may use {len(cpus)} CPU" in note and "the time of 0.5" in note and "used 1 of them" in note
    if len(cpus) > 1:
        assert len(within_quota(1.5, *command, env=own).json["devices"]) == 2


def test_a_cpu_in_two_devices_is_refused(penstock, chain, cpu, tmp_path):
    refused = penstock("build", chain, "-o", tmp_path / "p", "--devices", f"cpu:{cpu},cpu:{cpu}")
    assert (refused.code, f"CPU {cpu} is in another device too" in refused.error) == (1, True)


def test_an_unknown_backend_is_refused(penstock, chain, tmp_path):
    outcome = penstock("build", chain, "-o", tmp_path / "p", "--backends", "abacus")
    assert outcome.code == 1 and "abacus" in outcome.error and "onnxruntime" in outcome.error


def test_a_package_that_was_not_built_has_no_explanation(penstock, package):
    outcome = penstock("explain", package)
    assert outcome.code == 1
    assert "expected build.json, which 'penstock build' writes" in outcome.error


def save_offset_lookup(folder: Path) -> Path:
    """y = table[i * i - 10000], which random integers are never in, and no reader tells what is."""
    weights = {"table": np.arange(300, dtype=np.float32), "offset": np.array([10000], np.int64)}
    nodes = [
        helper.make_node("Mul", ["i", "i"], ["square"]),
        helper.make_node("Sub", ["square", "offset"], ["at"]),
        helper.make_node("Gather", ["table", "at"], ["y"]),
    ]
    return save(folder, "lookup", nodes, [value("i", [1], TensorProto.INT64)], [value("y", [1])], weights)


@pytest.mark.sweep(of=3)
def test_frames_are_the_users_own(build, penstock, well, tmp_path, cpu):
    model = save_offset_lookup(tmp_path)
    options = ("--devices", f"cpu:{cpu}", "--backends", "onnxruntime")
    refused = penstock("build", model, "-o", tmp_path / "none", "--budget", "3s", *options)
    assert refused.code == 1
    assert "--input" in refused.error
    for name, at in (("a", 100), ("b", 101)):
        np.save(tmp_path / f"{name}.npy", np.array([at], np.int64))
    first = build(model, *options, "--input", f"i={tmp_path / 'a.npy'}", budget="3s")
    assert first["chosen"]
    again = ("--input", f"i={tmp_path / 'a.npy'}")
    settled(build(model, *options, *again, budget="3s"), lambda: build(model, *options, *again, budget="3s"))
    other = build(model, *options, "--input", f"i={tmp_path / 'b.npy'}", budget="3s")
    assert (other["measured_again"], other["measured_plans"] > 0) == ("", True)
    alone = penstock("verify", tmp_path / "built.penstock", "--input", f"i={tmp_path / 'b.npy'}", "--json")
    assert alone.code == 3  # Of one number, whose random neighbours the network refuses, nothing can be said.
    assert "all frames are the same" in alone.out
    (tmp_path / "both").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"{name}.npy").rename(tmp_path / "both" / f"{name}.npy")
    verified = well("verify", tmp_path / "built.penstock", "--input", f"i={tmp_path / 'both'}", "--json").json
    assert verified["ok"]


def save_lookup(folder, states=False):
    """y is made of rows of a table of four; with `states`, of the frame before too."""
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["row"], "gather"),
        helper.make_node("MatMul", ["row", "w"], ["y"], "product"),
    ]
    inputs, outputs = [value("i", [2], TensorProto.INT64)], [value("y", [2, 8])]
    if states:
        nodes.append(helper.make_node("Add", ["y", "before"], ["sum"], "sum"))
        inputs, outputs = [*inputs, value("before", [2, 8])], [*outputs, value("sum", [2, 8])]
    random = np.random.default_rng(1)
    weights = {name: random.random(size, np.float32) for name, size in {"table": (4, 8), "w": (8, 8)}.items()}
    return save(folder, "lookup", nodes, inputs, outputs, weights)


def save_rows(folder, rows):
    folder.mkdir()
    for number, row in enumerate(rows):
        np.save(folder / f"{number}.npy", np.array(row))
    return folder


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("state", [[], ["--state", "sum=before"]])
@pytest.mark.parametrize("bad", [1, 6])
def test_a_frame_that_the_reference_refuses_is_left_out_by_name(well, cpu, tmp_path, state, bad):
    """ONNX Runtime, which refuses one of eight frames, is in the race all the same."""
    rows = [[number % 4, (number + 1) % 4] for number in range(8)]
    rows[bad] = [1, 99]
    frames = save_rows(tmp_path / "rows", rows)
    asked = ["--backends", "onnxruntime", "--devices", f"cpu:{cpu}", "--budget", "3s", "--json", "-o", "built.penstock"]
    done = well("build", save_lookup(tmp_path, bool(state)), *state, "--input", f"i={frames}", *asked)
    (note,) = [note for note in done.json["notes"] if "left out" in note]
    assert note.startswith(f"frame {bad} ('{bad}.npy' of 'i') is left out, as the reference refuses it: node 'gather'")
    assert "idx=99" in note and note in done.err
    assert [way["failure"] for way in done.json["simple"] if way["name"] == "onnxruntime"] == [""]


def test_where_all_frames_are_refused_the_build_ends_with_the_reason(penstock, cpu, tmp_path):
    frames = save_rows(tmp_path / "rows", [[1, 99], [77, 1]])
    asked = ["--devices", f"cpu:{cpu}", "--budget", "2s", "-o", tmp_path / "built.penstock"]
    refused = penstock("build", save_lookup(tmp_path), "--input", f"i={frames}", *asked)
    assert refused.code == 1 and "node 'gather' (Gather)" in refused.error and "--input" in refused.error
    assert not (tmp_path / "built.penstock").exists()


@pytest.mark.sweep(of=3)
def test_parts_are_tried_on_values_that_the_network_takes(build, tmp_path, cpu):
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["scaled"]),
        helper.make_node("Add", ["scaled", "k"], ["moved"]),
        helper.make_node("Cast", ["moved"], ["rows"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "rows"], ["y"]),
    ]
    weights = {"k": np.float32([1000]), "table": np.arange(16, dtype=np.float32).reshape(4, 4)}
    model = save(tmp_path, "rows", nodes, [value("x", [2])], [value("y", [2, 4])], weights)
    report = build(model, "--devices", f"cpu:{cpu}", "--backends", "onnxruntime", budget="2s")
    failures = [way["failure"] for way in report["simple"] + report["ways"] if way["failure"]]
    assert failures == []


@pytest.mark.sweep(of=3)
def test_a_recent_choice_is_told_in_the_unit_that_shows_it(well, chain, tmp_path, cpu):
    command = ["build", chain, "-o", tmp_path / "p", "--budget", "1s", "--devices", f"cpu:{cpu}"]
    well(*command)
    again = well(*command).out
    assert "measured again: " in again or re.search(r"^chosen [1-9]\d* (s|min) ago", again, re.MULTILINE), again
