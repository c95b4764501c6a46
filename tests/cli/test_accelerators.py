"""penstock build over CPUs and a made-up accelerator, which has memory of its own that the host cannot read."""

import json
import shutil

import numpy as np
import pytest
from conftest import save, settled, value
from onnx import helper

CLAIMS_CONV = {"version": 1, "rule": {"combine": {"ops": ["Conv"]}}}
NEAR = {"copy_latency": 1e-5, "copy_bandwidth": 1e9, "name": "made-up 1"}


@pytest.fixture(autouse=True)
def costs(own_costs):
    """A database of costs of the test's own."""
    return own_costs


@pytest.fixture
def network(tmp_path):
    """x -> abs -> conv1 -> conv2 -> neg -> y: two heavy nodes between two that are not."""
    random = np.random.default_rng(0)
    weights = {f"w{i}": random.standard_normal((3, 3, 3, 3)).astype(np.float32) for i in (1, 2)}
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], "abs"),
        helper.make_node("Conv", ["a", "w1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c1", "w2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Neg", ["c2"], ["y"], "neg"),
    ]
    shape = [1, 3, 4, 4]
    return save(tmp_path, "network", nodes, [value("x", shape)], [value("y", shape)], weights)


@pytest.fixture
def build(well, network, cpu, tmp_path):
    def run(*options, devices=None, backends="synthetic_a,synthetic_b"):
        places = ("--devices", devices or f"cpu:{cpu},cuda:0", "--backends", backends, "--budget", "60s", "--json")
        return well("build", network, "-o", tmp_path / "built.penstock", *places, *options).json

    return run


def backend_of(report) -> dict[str, str]:
    return {node["name"]: node["backend"] for node in report["nodes"]}


def rate_of(report, name: str) -> float:
    return next(way["frames_per_second"] for way in report["ways"] if way["name"] == name)


CPU_SECONDS = {"Conv": 0.015, "Abs": 0.002, "Neg": 0.002}
ON_BOTH = {"abs": "synthetic_a", "conv1": "synthetic_b", "conv2": "synthetic_b", "neg": "synthetic_a"}


@pytest.mark.sweep(of=3)
def test_the_heavy_part_runs_on_the_accelerator_and_the_rest_on_cpus(
    build, well, network, cpu, synthetic_backends, tmp_path
):
    synthetic_backends(
        a={"seconds": CPU_SECONDS}, b={"seconds": {"Conv": 0.002}, "rules": CLAIMS_CONV, "accelerator": NEAR}
    )
    report = build()
    assert backend_of(report) == ON_BOTH, report["ways"]
    assert report["devices"] == [f"cpu:{cpu}", "cuda:0"]
    assert "with cuda:0" in report["chosen"]
    # 4 ms on either side, beside 34 ms on the CPU alone.
    assert rate_of(report, report["chosen"]) > 2 * rate_of(report, "synthetic_a on each device")
    package = tmp_path / "built.penstock"
    assert well("verify", package, "--model", network, "--json").json["ok"] is True
    assert "cuda:0" in well("show", package).out and "with cuda:0" in well("explain", package).out
    page = tmp_path / "why.html"
    well("explain", package, "--html", page)
    assert "cuda:0" in page.read_text()


@pytest.mark.sweep(of=6)
def test_what_the_accelerator_could_run_slowly_runs_on_cpus(build, synthetic_backends):
    synthetic_backends(
        a={"seconds": CPU_SECONDS}, b={"seconds": {"Conv": 0.002, "Abs": 0.02, "Neg": 0.02}, "accelerator": NEAR}
    )
    report = build()
    assert backend_of(report) == ON_BOTH, report["ways"]
    best = rate_of(report, report["chosen"])
    assert best > 2 * rate_of(report, "synthetic_a on each device")
    assert best > 2 * rate_of(report, "synthetic_b on cuda:0")


@pytest.mark.sweep(of=3)
def test_one_frame_is_sooner_through_on_both_sides(build, synthetic_backends):
    synthetic_backends(
        a={"seconds": CPU_SECONDS}, b={"seconds": {"Conv": 0.002}, "rules": CLAIMS_CONV, "accelerator": NEAR}
    )
    report = build("--goal", "latency")
    assert report["goal"] == "latency" and backend_of(report) == ON_BOTH, report["ways"]


@pytest.mark.sweep(of=3)
def test_copies_that_cost_more_than_they_gain_leave_the_accelerator_out(build, synthetic_backends):
    far = NEAR | {"copy_latency": 0.05}
    synthetic_backends(
        a={"seconds": CPU_SECONDS}, b={"seconds": {"Conv": 0.002}, "rules": CLAIMS_CONV, "accelerator": far}
    )
    assert set(backend_of(build()).values()) == {"synthetic_a"}


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("beside_cpus", [True, False])
def test_the_accelerator_alone_is_best(build, well, network, synthetic_backends, tmp_path, beside_cpus):
    synthetic_backends(a={"seconds": {"*": 0.01}}, b={"seconds": {"*": 0.0005}, "accelerator": NEAR})
    report = build() if beside_cpus else build(devices="cuda:0", backends="synthetic_b")
    assert report["chosen"] == "synthetic_b on cuda:0"
    assert report["devices"][-1] == "cuda:0" and len(report["devices"]) == (2 if beside_cpus else 1)
    assert {way["name"] for way in report["simple"]} >= {"onnxruntime", "penstock"}
    trials = {trial["backend"]: trial["seconds"] for trial in report["parts"][0]["trials"]}
    assert trials["synthetic_b"] > 0.0019  # Four nodes, however many frames are in progress.
    if beside_cpus:
        assert "less time than synthetic_a" in report["parts"][0]["reason"]
    assert well("verify", tmp_path / "built.penstock", "--model", network, "--json").json["ok"] is True


@pytest.mark.sweep(of=6)
def test_what_was_measured_there_is_known_to_the_next_build(build, well, synthetic_backends, tmp_path):
    slow = {"seconds": CPU_SECONDS}
    synthetic_backends(a=slow, b={"seconds": {"Conv": 0.002}, "rules": CLAIMS_CONV, "accelerator": NEAR})
    first = build()
    assert first["measured_parts"] > 0
    kept = well("costs", "export", tmp_path / "costs.json") and json.loads((tmp_path / "costs.json").read_text())
    devices = {part["device"] for part in kept["parts"] if part["backend"] == "synthetic_b"}
    assert len(devices) == 1 and devices.pop().endswith("/cuda:0 made-up 1")
    links = {(link["source"], link["target"]) for link in kept["links"]}
    assert links >= {("host", "cuda:0"), ("cuda:0", "host")}

    def again() -> dict:
        shutil.rmtree(tmp_path / "built.penstock")
        return build()

    assert settled(again(), again)["measured_parts"] == 0
    # Another accelerator in its place is measured anew.
    other = NEAR | {"name": "made-up 2"}
    synthetic_backends(a=slow, b={"seconds": {"Conv": 0.002}, "rules": CLAIMS_CONV, "accelerator": other})
    assert again()["measured_parts"] > 0


@pytest.mark.sweep(of=3)
def test_several_frames_in_one_call_where_the_accelerator_gains_by_it(build, synthetic_backends):
    synthetic_backends(b={"seconds": {"Conv": 0.002}, "accelerator": NEAR})
    report = build("--batch", "4", devices="cuda:0", backends="synthetic_b")
    assert report["chosen"] == "synthetic_b on cuda:0, up to 4 frames in a call"


def test_an_accelerator_that_is_not_there_is_an_error_before_anything_is_measured(
    penstock, network, cpu, costs, synthetic_backends, tmp_path
):
    def refused(devices):
        outcome = penstock("build", network, "-o", tmp_path / "p", "--devices", devices)
        assert outcome.code == 1 and not (tmp_path / "p").exists()
        return outcome.error

    synthetic_backends(a={"seconds": {"*": 1e-3}})
    assert "device 'cuda:0': no backend that may be chosen runs on it" in refused(f"cpu:{cpu},cuda:0")
    synthetic_backends(b={"accelerator": NEAR | {"absent": "no driver"}})
    error = refused(f"cpu:{cpu},cuda:0")
    assert "device 'cuda:0' is not there" in error and "synthetic_b: device 'cuda:0': no driver" in error
    synthetic_backends(b={"accelerator": NEAR, "unavailable": "no such library"})
    assert "no such library" in refused("cuda:0")
    synthetic_backends(b={"accelerator": NEAR})
    assert "device 'cuda:1' is not there" in refused("cuda:0,cuda:1")
    kept = tmp_path / "costs.json"
    assert penstock("costs", "export", kept).code == 0
    assert json.loads(kept.read_text())["parts"] == []


def test_plan_says_that_an_accelerator_has_to_be_measured(penstock, network, cpu, synthetic_backends):
    synthetic_backends(b={"accelerator": NEAR})
    outcome = penstock("plan", network, "--devices", f"cpu:{cpu},cuda:0")
    assert outcome.code == 1 and "'penstock build --devices' measures it" in outcome.error


def test_a_split_by_hand_stands_there_without_a_warning(well, network, synthetic_backends, tmp_path):
    synthetic_backends(b={"seconds": {"*": 1e-4}, "accelerator": NEAR})
    package = tmp_path / "split.penstock"
    done = well("split", network, "-o", package, "--backend", "synthetic_b", "--devices", "cuda:0")
    assert "no backend that is present" not in done.err
    assert well("verify", package, "--model", network, "--json").json["ok"] is True


def test_devices_lists_accelerators_that_are_there(well, synthetic_backends):
    synthetic_backends(b={"accelerator": NEAR | {"devices": 2}})
    listed = well("devices", "--json").json["accelerators"]
    assert [(one["device"], one["name"]) for one in listed if one["backend"] == "synthetic_b"] == [
        ("cuda:0", "made-up 1"),
        ("cuda:1", "made-up 1"),
    ]
    assert "made-up 1" in well("devices").out
    synthetic_backends(b={"accelerator": NEAR | {"absent": "no driver"}})
    assert "made-up 1" not in well("devices").out
