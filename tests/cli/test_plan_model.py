"""penstock plan MODEL: from a model to a package."""

import json
import re

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper


def test_a_model_becomes_a_package_that_runs(well, chain, cpus, tmp_path):
    package = tmp_path / "p"
    planned = well("plan", chain, "-o", package, "--json").json
    assert planned["proved"] is True
    assert planned["lower_bound"] <= planned["period"] <= planned["baselines"]["single_device"]
    assert [device["name"] for device in planned["devices"]] == [f"cpu:{cpu}" for cpu in cpus]
    nodes = [node for device in planned["devices"] for segment in device["segments"] for node in segment]
    assert sorted(nodes) == [0, 1, 2, 3]
    report = well("verify", package, "--model", chain, "--json").json
    assert (report["ok"], report["frames"]) == (True, 20)


def test_times_have_their_unit_and_no_split_is_the_users(penstock, well, chain, tmp_path):
    text = well("plan", chain, "--what-if", "--pareto", "--svg", tmp_path / "plan.svg").out
    time = r"[\d.]+ (ns|us|ms|s)"
    for line in ("period     ", "latency    ", "  single_device  ", "cpu:\\S+ +", "  one more CPU: "):
        assert re.search(rf"^{line}{time}", text, re.MULTILINE), (line, text)
    assert re.search(rf"^ *{time} +proved +{time} +1  ", text, re.MULTILINE)  # Of --pareto.
    assert re.search(
        rf">period {time}, latency {time}, lower bound of the period {time}<", (tmp_path / "plan.svg").read_text()
    )
    assert "latency of at most 1e-09 s" in penstock("plan", chain, "--latency-cap", "1e-9").error
    assert "user" not in text  # Only --split gives one.


MADE_UP = {"HWLOC_SYNTHETIC": "core:4 pu:2"}  # Of more CPUs than most machines that run tests have for one process.


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--devices", "cpu:0-3,cpu:4-5"), ["cpu:0-3", "cpu:4-5"]),
        (("--devices", "all"), [f"cpu:{number}" for number in range(8)]),
        (("--pin", "conv1=cpu:7"), [f"cpu:{number}" for number in range(8)]),
    ],
    ids=("named", "all", "pinned"),
)
def test_named_devices_may_be_all_of_a_made_up_machine(well, chain, options, names):
    planned = well("plan", chain, *options, "--json", env=MADE_UP).json
    assert [device["name"] for device in planned["devices"]] == names


def test_a_device_that_a_made_up_machine_lacks_is_told_with_those_it_has(penstock, chain):
    outcome = penstock("plan", chain, "--devices", "cpu:8", env=MADE_UP)
    assert outcome.code == 1 and "CPU 8 is not among those this process may use: 0-7" in outcome.error
    outcome = penstock("plan", chain, "--pin", "conv1=cpu:8", env=MADE_UP)
    assert outcome.code == 1
    assert outcome.error.startswith("pin: there is no device 'cpu:8'; expected one of cpu:0, cpu:1,")


def save_wide_product(folder):
    """A network of one node, 4,096 multiply-accumulates."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    weights = {"w": np.ones((64, 64), np.float32)}
    return save(folder, "product", [node], [value("x", [1, 64])], [value("y", [1, 64])], weights)


def cpus_in(planned: dict) -> int:
    """How many CPUs the stages' devices have."""
    names = [name.removeprefix("cpu:") for stage in planned["stages"] for name in stage["devices"]]
    ends = [part.split("-") for name in names for part in name.split("+")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def test_devices_are_chosen(well, tmp_path, cpus):
    file = save_wide_product(tmp_path)
    planned = well("plan", file, "--figures", "macs=1e6,bytes=1e15,node=1e-9", "--json").json
    count = len(cpus)
    assert planned["grouping"] == f"1 device of {count} CPU{'s' if count > 1 else ''}"
    assert cpus_in(planned) == count  # One node: no other way takes all CPUs.
    assert "devices, chosen: " in well("plan", file).out
    assert "grouping" not in well("plan", file, "--devices", f"cpu:{cpus[0]}", "--json").json


def test_what_hides_the_cost_of_nodes_is_told(well, tmp_path):
    """--shape is for open inputs alone: it tells nothing of texts, nor of operators that nobody knows."""
    upper = [helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER")]
    words = [value(name, [3], TensorProto.STRING) for name in "xy"]
    told = well("plan", save(tmp_path, "words", upper, words[:1], words[1:])).err
    assert "1 of texts, sequences or optional values, whose size no shape tells" in told and "--shape" not in told
    odd = [helper.make_node("Frobnicate", ["x"], ["y"], domain="odd")]
    file = save(tmp_path, "odd", odd, [value("x", [3])], [value("y", None)])
    model = onnx.load(file)
    model.opset_import.append(helper.make_opsetid("odd", 1))
    onnx.save(model, file)
    told = well("plan", file).err
    assert "1 whose size only the values decide, or whose operator" in told and "--shape" not in told
    double = [helper.make_node("Add", ["x", "x"], ["y"])]
    told = well("plan", save(tmp_path, "open", double, [value("x", ["n", 3])], [value("y", ["n", 3])])).err
    assert "1 behind inputs of open shapes (bind them with --shape: 'x')" in told


def test_devices_are_within_the_quota_of_the_control_group(within_quota, tmp_path):
    file = save_wide_product(tmp_path)
    planned = within_quota(1, "plan", file, "--figures", "macs=1e6,bytes=1e15,node=1e-9", "--json").json
    assert cpus_in(planned) == 1
    half = within_quota(0.5, "plan", file, "--figures", "macs=1e6,bytes=1e15,node=1e-9", "--json").json
    assert half["period"] == pytest.approx(2 * planned["period"])


def test_replicas_are_planned_where_they_are_allowed(well, chain, cpus, tmp_path):
    planned = well("plan", chain, "--replicas", "-o", tmp_path / "p", "--json").json
    assert planned["period"] <= planned["baselines"]["replicate_all"] * (1 + 1e-9)
    assert well("verify", tmp_path / "p", "--model", chain, "--json").json["ok"] is True
    if len(cpus) > 1:
        (stage,) = well("show", tmp_path / "p", "--json").json["stages"]
        assert stage["replicas"] == len(cpus)


def test_segments_on_one_device_run_in_turn(well, chain, cpu, tmp_path):
    well("plan", chain, "--devices", f"cpu:{cpu}", "--segments-per-device", "2", "-o", tmp_path / "p")
    assert well("verify", tmp_path / "p", "--model", chain, "--json").json["ok"] is True


def test_a_pin_is_kept(well, chain, cpus):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    planned = well("plan", chain, "--pin", f"conv1=cpu:{cpus[1]}", "--json").json
    of = {device["name"]: device["segments"] for device in planned["devices"]}
    assert any(0 in segment for segment in of[f"cpu:{cpus[1]}"])


def test_a_given_split_names_nodes_by_their_indices(well, penstock, chain, cpus, tmp_path):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"fpgas": [{"nodes": [0]}, {"nodes": [1, 2, 3]}]}))
    devices = f"cpu:{cpus[0]},cpu:{cpus[1]}"
    planned = well("plan", chain, "--devices", devices, "--split", split, "--json").json
    assert planned["period"] <= planned["baselines"]["user"]
    split.write_text(json.dumps({"fpgas": [{"nodes": [0]}, {"nodes": [1, 2, 9]}]}))
    assert "split.json': the split: there is no node 9" in penstock("plan", chain, "--split", split).error


def test_the_text_says_that_costs_are_not_measured(well, chain):
    text = well("plan", chain).out
    assert "analytic model, not measured" in text
    assert "proved" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "argument 'model' is missing: expected a model (.onnx), or a planning problem by --workload, as in"),
        (["--cpus", "1"], 1, "--cpus: goes with --workload only"),
        (["--devices", "gpu:0"], 2, "--devices"),
        (["--devices", "cpu:4000"], 1, "cpu:4000"),
        (["--devices", "cpu:0,cpu:0"], 1, "cpu:0"),
        (["--figures", "speed=3"], 1, "found 'speed=3'"),
        (["--memory", "1"], 1, "needs 432 bytes"),
        (["--pin", "nowhere=cpu:0"], 1, "nowhere"),
        (["--pin", "0=cpu:0", "--pin", "0=cpu:1"], 1, "pinned to 'cpu:0' and to 'cpu:1'"),
        (["--backend", "acme", "-o", "p"], 1, "'acme'"),
    ],
)
def test_bad_options_are_named(penstock, chain, arguments, code, message):
    outcome = penstock("plan", *([chain] if arguments else []), *arguments)
    assert outcome.code == code
    assert message in outcome.err


def test_a_network_without_nodes_has_nothing_to_plan(penstock, tmp_path):
    file = save(tmp_path, "empty", [], [value("x", [1, 4])], [value("x", [1, 4])], {})
    for devices in ([], ["--devices", "cpu:0"]):
        refused = penstock("plan", file, *devices, "-o", "p")
        assert refused.code == 1
        assert "nothing is left to plan" in refused.err
        assert "'penstock split' writes it" in refused.err


def save_recurrent(folder):
    """Four layers, of which the second and the third are a loop that a state closes, h_out to h_in."""
    weight = {"w": np.eye(64, dtype=np.float32) / 2}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Add", ["a", "h_in"], ["b"], "join"),
        helper.make_node("MatMul", ["b", "w"], ["h_out"], "leave"),
        helper.make_node("MatMul", ["h_out", "w"], ["y"], "last"),
    ]
    inputs = [value("x", [8, 64]), value("h_in", [8, 64])]
    return save(folder, "recurrent", nodes, inputs, [value("y", [8, 64]), value("h_out", [8, 64])], weight)


def test_a_plan_has_states_and_keeps_their_loop_in_one_stage(well, tmp_path, cpus):
    file, package = save_recurrent(tmp_path), tmp_path / "p"
    on = ["--devices", ",".join(f"cpu:{cpu}" for cpu in cpus[:2])]
    planned = well("plan", file, "--state", "h_out=h_in", *on, "-o", package, "--json").json
    loops = [stage["nodes"] for stage in planned["stages"] if {1, 2} & set(stage["nodes"])]
    assert len(loops) == 1 and {1, 2} <= set(loops[0])
    plan = json.loads((package / "plan.json").read_text())
    assert [(state["from"], state["to"]) for state in plan["states"]] == [("h_out", "h_in")]
    assert [tensor["name"] for tensor in plan["inputs"]] == ["x"]
    assert well("verify", package, "--model", file, "--json").json["ok"] is True


def test_a_plan_has_streams(well, penstock, tmp_path, cpu):
    file, package = save_recurrent(tmp_path), tmp_path / "p"
    asked = ["plan", file, "--state", "h_out=h_in", "--devices", f"cpu:{cpu}"]
    well(*asked, "--streams", "2", "-o", package)
    assert json.loads((package / "plan.json").read_text())["streams"] == {"most": 2, "evict": False}
    x = np.random.default_rng(0).random((2, 4, 8, 64)).astype(np.float32)
    files = []
    for name, frames in zip("ab", x, strict=True):
        (tmp_path / name).mkdir()
        for i, one in enumerate(frames):
            np.save(tmp_path / name / f"{i}.npy", one)
        files += ["--input", f"x={name}"]
    shared = well("run", package, "--streams", "2", *files, "--output", "-").out.splitlines()
    for stream, name in enumerate("ab"):
        ours = [line["outputs"] for line in map(json.loads, shared) if line.get("stream", 0) == stream]
        alone = well("run", package, "--input", f"x={name}", "--output", "-").out.splitlines()
        assert ours == [json.loads(line)["outputs"] for line in alone]
    for refused in (penstock(*asked, "--streams", "0"), penstock(*asked, "--streams", "0", "-o", tmp_path / "never")):
        assert refused.code == 2 and "--streams: expected N or N:evict" in refused.error
    assert not (tmp_path / "never").exists()


def test_what_writes_a_state_has_no_replicas(well, penstock, tmp_path, cpus):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    file, package = save_recurrent(tmp_path), tmp_path / "p"
    asked = ["plan", file, "--state", "h_out=h_in", "--replicas"]
    planned = well(*asked, "--devices", f"cpu:{cpus[0]},cpu:{cpus[1]}", "-o", package, "--json").json
    (loop,) = [stage for stage in planned["stages"] if 2 in stage["nodes"]]
    assert len(loop["devices"]) == 1
    assert well("verify", package, "--model", file, "--json").json["ok"] is True
    refused = penstock(*asked)
    assert refused.code == 1 and "expected devices by name" in refused.error and "(--devices)" in refused.error


@pytest.mark.parametrize(
    ("state", "code", "sentence"),
    [
        ("z=h_in", 1, "state 'z' -> 'h_in': no output 'z'; the network's outputs are 'y', 'h_out'"),
        ("h_out=z", 1, "state 'h_out' -> 'z': no input 'z'; the network's inputs are 'x', 'h_in'"),
        ("h_in=h_out", 1, "state 'h_in' -> 'h_out': the ends are swapped: expected OUT=IN, found an input and"),
        ("h_out=h_in:1", 1, "state 'h_out' -> 'h_in:1': expected a file of the first value (.npy) behind 'h_in:'"),
        ("h_out", 2, "--state: expected OUT=IN or OUT=IN:FILE.npy, found 'h_out'"),
    ],
)
def test_a_state_that_is_none_is_refused_though_nothing_is_written(penstock, tmp_path, state, code, sentence):
    refused = penstock("plan", save_recurrent(tmp_path), "--state", state)
    assert refused.code == code and sentence in refused.error
    assert "Traceback" not in refused.err
