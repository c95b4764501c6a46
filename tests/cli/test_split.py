"""penstock split."""

import json
import socket

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import helper


def stages_of(outcome):
    return [stage["nodes"] for stage in outcome.json["stages"]]


@pytest.mark.parametrize("cut", ["relu1", "r1", "1"])
def test_a_cut_is_a_node_a_tensor_or_an_index(well, chain, tmp_path, cut):
    outcome = well("split", chain, "--cut", cut, "-o", tmp_path / "p", "--json")
    assert stages_of(outcome) == [["conv1", "relu1"], ["conv2", "relu2"]]


def test_n_cuts_give_n_plus_1_stages(well, chain, tmp_path):
    outcome = well("split", chain, "--cut", "2", "--cut", "0", "-o", tmp_path / "p", "--json")
    assert stages_of(outcome) == [["conv1"], ["relu1", "conv2"], ["relu2"]]


def test_the_package_may_be_a_zip(well, chain, tmp_path, cpu):
    target = tmp_path / "p.penstock.zip"
    well("split", chain, "--cut", "1", "--devices", f"cpu:{cpu}", "-o", target)
    assert target.is_file()
    assert well("run", target, "--frames", "3", "--json").json["ok"] == 3


def modes(path):
    files = [path, *path.rglob("*")]
    return {oct(file.stat().st_mode & 0o777) for file in files if file.is_file() and file.name != "plan.json"}


@pytest.mark.parametrize("kept", ["w.bin", "kept.onnx"])
def test_what_others_may_not_read_they_may_not_read_in_a_package(well, chain, tmp_path, kept):
    model = tmp_path / "kept.onnx"
    onnx.save(onnx.load(chain), model, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").chmod(0o644)
    model.chmod(0o644)
    well("split", model, "--cut", "1", "-o", tmp_path / "open")
    assert modes(tmp_path / "open") == {"0o644"}
    (tmp_path / kept).chmod(0o600)
    well("split", model, "--cut", "1", "--annotate", tmp_path / "annotated.onnx", "-o", tmp_path / "p")
    well("split", model, "--cut", "1", "-o", tmp_path / "p.zip")
    well("build", model, "--backends", "onnxruntime", "--budget", "3s", "-o", tmp_path / "built")
    for made in ("p", "annotated.onnx", "p.zip", "built/stages"):
        assert modes(tmp_path / made) == {"0o600"}, made


MADE_UP = {"HWLOC_SYNTHETIC": "core:4096 pu:1"}


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize(
    ("options", "devices"),
    [
        (("--cut", "1", "--devices", "cpu:4000-4001,cpu:4095"), ["cpu:4000-4001", "cpu:4095"]),
        (("--pin", "conv1=cpu:4000"), ["cpu:4000"]),
    ],
)
def test_devices_may_be_those_of_a_made_up_machine(well, chain, tmp_path, options, devices):
    stages = well("split", chain, *options, "-o", tmp_path / "p", "--json", env=MADE_UP).json["stages"]
    assert [stage["devices"] for stage in stages] == [[device] for device in devices]


@pytest.mark.parametrize("option", ["--devices", "--standby", "--pin"])
def test_a_device_that_a_made_up_machine_lacks_is_refused(penstock, chain, tmp_path, option):
    device = "conv1=cpu:4096" if option == "--pin" else "cpu:4096"
    refused = penstock("split", chain, option, device, "-o", tmp_path / "p", env=MADE_UP)
    assert "CPU 4096 is not among those this process may use: 0-4095" in refused.error


def test_pins_give_nodes_to_devices(well, chain, tmp_path, cpu):
    outcome = well("split", chain, "--pin", f"conv1=cpu:{cpu}", "-o", tmp_path / "p", "--json")
    assert outcome.json["stages"][0]["devices"] == [f"cpu:{cpu}"]


def test_replicas_and_devices_are_dealt_in_turn(well, chain, tmp_path, cpu):
    outcome = well("split", chain, "--replicas", "2", "--devices", f"cpu:{cpu}", "-o", tmp_path / "p", "--json")
    assert outcome.json["stages"][0]["devices"] == [f"cpu:{cpu}"] * 2


def test_annotations_in_the_file_give_the_stages(well, chain, tmp_path):
    annotated = tmp_path / "annotated.onnx"
    well("split", chain, "--cut", "0", "--annotate", annotated)
    outcome = well("split", annotated, "--annotations", "-o", tmp_path / "p", "--json")
    assert stages_of(outcome) == [["conv1"], ["relu1", "conv2", "relu2"]]


def test_layers_give_the_stages_of_a_file_without_pipeline_stages(well, chain, tmp_path):
    model = onnx.load(chain)
    model.ir_version = 10
    for node, text in zip(model.graph.node, ["enc", "enc", "enc", "dec"], strict=True):
        node.metadata_props.add(key="layer_ann", value=text)
    onnx.save(model, chain)
    outcome = well("split", chain, "--annotations", "-o", tmp_path / "p", "--json")
    assert stages_of(outcome) == [["conv1", "relu1", "conv2"], ["relu2"]]


def test_an_annotated_model_is_a_model_of_ir_11_that_runs(well, chain, tmp_path):
    annotated = tmp_path / "annotated.onnx"
    well("split", chain, "--cut", "relu1", "--annotate", annotated)
    model = onnx.load(annotated)
    onnx.checker.check_model(model)
    assert model.ir_version == 11
    assert [(c.name, c.num_devices) for c in model.configuration] == [("penstock", 2)]
    assert [n.device_configurations[0].pipeline_stage for n in model.graph.node] == [0, 0, 1, 1]
    layers = [{p.key: p.value for p in node.metadata_props}["layer_ann"] for node in model.graph.node]
    assert layers == ["stage0", "stage0", "stage1", "stage1"]
    assert well("run", annotated, "--frames", "2", "--json").json["ok"] == 2


def test_annotations_that_are_not_used_are_a_warning(well, chain, tmp_path):
    annotated = tmp_path / "annotated.onnx"
    well("split", chain, "--cut", "relu1", "--annotate", annotated)
    assert "--annotations" in well("split", annotated, "-o", tmp_path / "p").err
    assert well("split", annotated, "--cut", "0", "-o", tmp_path / "p").err == ""


def test_options_of_a_package_are_told_where_none_is_written(well, chain, tmp_path):
    annotate = ("split", chain, "--cut", "relu1", "--annotate", tmp_path / "a.onnx")
    told = well(*annotate, "--batch", "4", "--lanes", "2").err
    assert f"--lanes, --batch: of a package only, and none is written, but '{tmp_path}/a.onnx' alone" in told
    assert "expected -o PACKAGE too" in told
    assert well(*annotate).err == ""
    assert "of a package only" not in well(*annotate, "--batch", "4", "-o", tmp_path / "p").err


def test_lanes_that_a_backend_does_not_have_are_told_at_the_start(well, chain, tmp_path):
    package = tmp_path / "p"
    assert "up to 4 calls in flight" in well("split", chain, "--lanes", "4", "-o", package).out
    outcome = well("run", package, "--frames", "3", "--json")
    assert [stage["lanes"] for stage in outcome.json["stages"]] == [1]
    assert (
        "stage 'stage0': may have 4 calls in flight (lanes), and has 1: backend 'onnxruntime' computes on the stage's "
        "own thread; several replicas compute side by side"
    ) in outcome.err


def test_calls_that_would_be_left_behind_after_no_time_are_told(well, chain, tmp_path):
    package, limit = tmp_path / "p", ["--max-left-behind", "2"]
    said = "stages 'stage0', 'stage1': a call that hangs may be left behind (max_left_behind), and never is"
    assert said in well("split", chain, "--cut", "1", *limit, "-o", package).err
    assert well("run", package, "--frames", "3").err.count(said) == 1
    assert "left behind" not in well("run", package, "--frames", "3", "--max-run", "60000").err


def test_denormals_are_flushed_on_request(well, chain, tmp_path):
    for options, flushed in [([], False), (["--flush-denormals"], True)]:
        outcome = well("split", chain, "--cut", "1", "-o", tmp_path / "p", "--json", *options)
        assert [stage["flush_denormals"] for stage in outcome.json["stages"]] == [flushed] * 2


def test_a_stream_is_settled_in_the_package(well, chain, tmp_path):
    for target in [tmp_path / "p", tmp_path / "p.penstock.zip"]:
        well("split", chain, "--cut", "1", "--policy", "latest", "--max-age", "50", "--on-error", "stop", "-o", target)
        plan = well("show", target, "--json").json
        assert [edge["policy"] for edge in plan["edges"]] == ["latest", "block", "block"]
        assert plan["max_age_us"] == 50000
        assert plan["on_error"] == "stop"


def test_a_batch_that_its_models_never_fill_is_told(well, chain, tmp_path):
    package = tmp_path / "p"
    well("split", chain, "--batch", "4", "-o", package)
    plan = json.loads((package / "plan.json").read_text())
    plan["stages"][0]["batch"]["frames"] = 8
    (package / "plan.json").write_text(json.dumps(plan))
    told = well("run", package, "--frames", "9").err
    assert "stage 'stage0': takes up to 8 frames in a call (batch), and never gets more than 4" in told
    assert "as its models take no more" in told


def test_a_batch_that_its_edges_never_fill_is_told(well, chain, tmp_path):
    narrow = ["--batch", "4", "--capacity", "2"]
    told = well("split", chain, "--cut", "1", *narrow, "-o", tmp_path / "p").err
    for stage in ["stage0", "stage1"]:
        assert f"stage '{stage}': takes up to 4 frames in a call (batch), and never gets more than 2" in told
    assert "holds no more (capacity 2); expected a capacity of 4 or more, or a batch of 2" in told
    for again in [("run", tmp_path / "p", "--frames", "9"), ("run", chain, "--frames", "9", *narrow)]:
        assert "and never gets more than 2" in well(*again).err
    assert "in a call" not in well("run", tmp_path / "p", "--frames", "9", "--capacity", "4").err
    assert "in a call" not in well("run", chain, "--frames", "9", "--batch", "4").err


def test_a_capacity_beside_the_latest_frame_is_told(well, chain, tmp_path):
    latest = ["--policy", "latest", "--capacity", "4"]
    said = "--capacity: the edge of 'x' keeps one frame, as its policy is 'latest'; the other edges have 4 slots"
    assert said in well("split", chain, "--cut", "1", *latest, "-o", tmp_path / "p").err
    outcome = well("run", chain, "--frames", "9", *latest, "--json")
    assert said in outcome.err
    assert [edge["capacity"] for edge in outcome.json["edges"]] == [1, 4]
    assert "--capacity" not in well("run", chain, "--frames", "9", "--policy", "latest", "--capacity", "1").err


def test_streams_are_settled_in_the_package(well, penstock, chain, tmp_path):
    package = tmp_path / "p"
    assert well("split", chain, "-o", package, "--json").json["streams"] == {"most": 1, "evict": False}
    for text, evict, what in [("8", False, "is refused"), ("8:evict", True, "takes the place of that used last")]:
        well("split", chain, "--streams", text, "-o", package)
        assert well("show", package, "--json").json["streams"] == {"most": 8, "evict": evict}
        assert f"streams  8 at most; one more {what}" in well("show", package).out
        assert well("run", package, "--frames", "3", "--json").json["ok"] == 3
    for text in ["0", "-1", "8:", "evict", "8:evicts", "2147483648", "1.5", "8 "]:
        refused = penstock("split", chain, "--streams", text, "-o", package)
        assert refused.code == 2
        assert f"--streams: expected N or N:evict, N from 1 to 2147483647, found '{text}'" in refused.error


def test_a_capacity_fixes_the_memory(well, chain, tmp_path):
    outcome = well("split", chain, "--cut", "1", "--capacity", "8", "-o", tmp_path / "p", "--json")
    assert {edge["capacity"] for edge in outcome.json["edges"]} == {8}
    held = 2 * 4 * 4 * 4  # One result may be held while the edge's slots go on.
    assert outcome.json["memory_bytes"] == 8 * (3 * 4 * 4 * 4 + 4 * 4 * 4 * 4 + 2 * 4 * 4 * 4) + held


def test_a_parameter_stays_replaceable(well, chain, tmp_path):
    outcome = well("split", chain, "--cut", "1", "--parameter", "w2", "-o", tmp_path / "p", "--json")
    assert outcome.json["stages"][1]["parameters"] == ["w2"]


def test_a_package_is_replaced_and_anything_else_is_not(penstock, well, chain, tmp_path):
    target = tmp_path / "p"
    well("split", chain, "--cut", "1", "-o", target)
    well("split", chain, "--cut", "2", "-o", target)
    assert well("show", target, "--json").json["stages"][0]["nodes"] == ["conv1", "relu1", "conv2"]
    other = tmp_path / "precious"
    other.mkdir()
    (other / "file").write_text("keep me")
    outcome = penstock("split", chain, "-o", other)
    assert outcome.code == 1
    assert str(other) in outcome.error
    assert (other / "file").read_text() == "keep me"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cut", "relu9"], ["'relu9'", "relu"]),
        (["--cut", "99"], ["99", "expected a node index from 0 to 3"]),
        (["--cut", "-1"], ["-1", "expected a node index from 0 to 3"]),
        (["--cut", "relu2"], ["relu2"]),
        (["--cut", "1", "--cut", "relu1"], ["relu1"]),
        (["--devices", "cpu:9999"], ["cpu:9999"]),
        (["--replicas", "600", "--cut", "relu1"], ["1200 replicas in all", "1024"]),
        (["--backend", "acme"], ["'acme'", "onnxruntime"]),
        (["--backend-option", "acme:x=1"], ["'acme'", "'onnxruntime'"]),
        (["--backend-option", "onnxruntime:foo=bar"], ["'onnxruntime:foo'", "session."]),
        (["--backend-option", "onnxruntime:graph_optimization_level=7"], ["'7'", "99 (all)"]),
        (["--backend-option", "onnxruntime:intra_op_num_threads=4"], ["each CPU of its device", "--devices"]),
        (["--parameter", "w9"], ["'w9'"]),
        (["--custom-ops", "absent.so"], ["absent.so"]),
        (["--annotations"], ["pipeline_stage"]),
    ],
)
def test_what_is_wrong_is_named(penstock, chain, tmp_path, arguments, words):
    target = tmp_path / "p"
    outcome = penstock("split", chain, *arguments, "-o", target)
    assert outcome.code == 1, outcome
    for word in words:
        assert word in outcome.error
    assert not target.exists()


NO_ENGINE = {"PENSTOCK_ONNXRUNTIME": "/nope"}


def test_without_an_engine_cuts_go_by_name_only(penstock, well, chain, tmp_path):
    assert "no engine" in well("show", chain, env=NO_ENGINE).err
    assert well("show", chain, "--as-is", env=NO_ENGINE).err == ""
    outcome = penstock("split", chain, "--cut", "1", "-o", tmp_path / "p", env=NO_ENGINE)
    assert outcome.code == 1
    assert "'1'" in outcome.error
    assert "index" in outcome.error
    assert not (tmp_path / "p").exists()
    outcome = well("split", chain, "--cut", "relu1", "-o", tmp_path / "p", env=NO_ENGINE)
    assert "names and indices of nodes may differ" in outcome.err


def test_a_device_that_nothing_here_runs_is_a_warning(well, chain, tmp_path):
    outcome = well("split", chain, "--devices", "cuda:0", "-o", tmp_path / "p")
    assert "no backend that is present runs cuda:0" in outcome.err
    with socket.socket() as silent, socket.create_server(("127.0.0.1", 0)) as listening:
        silent.bind(("127.0.0.1", 0))  # And listens not: who connects is refused.
        there, gone = (f"127.0.0.1:{each.getsockname()[1]}" for each in (listening, silent))
        outcome = well("split", chain, "--devices", f"{gone}/cpu:0", "--standby", "cpu:0", "-o", tmp_path / "p")
        assert f"nothing answers at {gone}: a worker or server has to listen there" in outcome.err
        assert well("split", chain, "--devices", f"{there}/cpu:0", "-o", tmp_path / "p").err == ""


def test_stages_that_share_a_cpu_are_one_warning(well, chain, tmp_path, cpu):
    outcome = well("split", chain, "--cut", "0", "--cut", "1", "--devices", f"cpu:{cpu}", "-o", tmp_path / "p")
    assert outcome.err.count("warning") == 1
    assert f"take turns on cpu {cpu}" in outcome.err
    assert well("split", chain, "--devices", f"cpu:{cpu}", "-o", tmp_path / "p").err == ""


def test_devices_that_no_stage_gets_are_one_warning(well, chain, tmp_path, cpu):
    given = ["--devices", f"cpu:{cpu},cuda:0,cuda:1", "-o", tmp_path / "p"]
    told = well("split", chain, *given).err
    assert told.count("warning") == 1
    assert "--devices: cuda:0, cuda:1 are not used, as the stages and their replicas take 1 device alone" in told
    assert (
        "cuda:1 is not used, as the stages and their replicas take 2" in well("split", chain, "--cut", "1", *given).err
    )
    assert "not used" not in well("split", chain, "--replicas", "3", *given).err
    assert "not used" not in well("split", chain, "--devices", "all", "-o", tmp_path / "p").err


def test_nothing_is_written_into_another_package(penstock, package, chain):
    for place in ["stages/sub.penstock", "new.penstock.zip"]:
        outcome = penstock("split", chain, "-o", package / place)
        assert outcome.code == 1
        assert f"inside the package '{package}'" in outcome.error


def test_a_plan_json_of_somebody_else_makes_no_package(penstock, well, chain, tmp_path):
    (tmp_path / "plan.json").write_text('{"period": 0}')
    well("split", chain, "-o", tmp_path / "p")
    other = tmp_path / "precious"
    other.mkdir()
    (other / "plan.json").write_text('{"period": 0}')
    assert penstock("split", chain, "-o", other).code == 1
    assert (other / "plan.json").exists()


def test_a_folder_that_cannot_be_made_is_named(penstock, chain):
    for arguments in [[], ["--max-age", "5"]]:
        outcome = penstock("split", chain, *arguments, "-o", "/proc/x.penstock")
        assert outcome.code == 1
        assert "'/proc/x.penstock' cannot be made" in outcome.error


def test_a_wrong_parameter_shows_the_right_ones(penstock, chain):
    outcome = penstock("split", chain, "--parameter", "w9", "-o", "p")
    assert "it has 'w1', 'w2'" in outcome.error


def test_what_is_done_is_told_on_demand(well, chain, tmp_path):
    told = well("split", chain, "--cut", "1", "-o", tmp_path / "p", "-v").err
    for word in ["imported", "4 nodes in the file", "stage0: 2 nodes on cpu:", "libonnxruntime"]:
        assert word in told


def test_a_batch_has_a_model_for_2_4_and_so_many_frames(well, chain, tmp_path):
    outcome = well(
        "split", chain, "--cut", "1", "--batch", "6:2.5", "--batch", "stage1=1", "-o", tmp_path / "p", "--json"
    )
    first, second = outcome.json["stages"]
    assert first["batch"] == {"frames": 6, "wait_us": 2500}
    assert first["models"] == ["stages/0.onnx", "stages/0.b2.onnx", "stages/0.b4.onnx", "stages/0.b6.onnx"]
    assert second["batch"] == {"frames": 1, "wait_us": 0}
    wide = onnx.load(tmp_path / "p" / "stages/0.b6.onnx").graph.input[0].type.tensor_type.shape
    assert wide.dim[0].dim_value == 6


def test_lanes_are_those_of_every_stage(well, penstock, chain, tmp_path):
    stages = well("split", chain, "--cut", "1", "--lanes", "3", "-o", tmp_path / "p", "--json").json["stages"]
    assert [stage["lanes"] for stage in stages] == [3, 3]


def test_lanes_are_said_by_the_stage(well, penstock, chain, tmp_path):
    def lanes(*options):
        outcome = well("split", chain, "--cut", "0", "--cut", "1", *options, "-o", tmp_path / "p", "--json")
        assert "--lanes" not in outcome.err
        return [stage["lanes"] for stage in outcome.json["stages"]]

    assert lanes("--lanes", "stage1=4") == [0, 4, 0]
    assert lanes("--lanes", "2", "--lanes", "stage1=4", "--lanes", "stage2=0") == [2, 4, 0]
    expected = "expected N or STAGE=N, such as 4 or stage1=4, N from 0 to 1024"
    for wrong, said in [
        ("nowhere=4", "lanes: no stage 'nowhere'; the stages are stage0"),
        ("1025", f"lanes '1025': {expected}"),
        ("stage0=", f"lanes 'stage0=': {expected}"),
        ("=4", f"lanes '=4': {expected}"),
    ]:
        assert said in penstock("split", chain, "--lanes", wrong, "-o", tmp_path / "p").error
    twice = penstock("split", chain, "--lanes", "2", "--lanes", "3", "-o", tmp_path / "p")
    assert "lanes '3': its stages have lanes already" in twice.error


def test_stages_that_have_one_call_in_flight_are_left_out_of_lanes_by_name(well, penstock, tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Add", ["r", "before"], ["after"], "sum"),
    ]
    model = save(
        tmp_path, "summed", nodes, [value("x", [4]), value("before", [4])], [value("r", [4]), value("after", [4])]
    )
    split = ["split", model, "--cut", "first", "--state", "after=before", "-o", tmp_path / "p"]
    outcome = well(*split, "--lanes", "4", "--json")
    assert [stage["lanes"] for stage in outcome.json["stages"]] == [4, 0]
    said = "--lanes 4: stage 'stage1' keeps 1 call in flight: it writes 'after', a state that the next frame reads"
    assert said in outcome.err
    assert "--lanes" not in well(*split, "--lanes", "stage0=4").err
    refused = penstock(*split, "--lanes", "stage1=4").error
    assert "stage 'stage1': expected 1 lane, found 4: it writes 'after', a state that the next frame reads" in refused


def test_a_first_value_that_the_state_cannot_have_is_refused(penstock, tmp_path):
    nodes = [helper.make_node("Add", ["x", "before"], ["after"], "sum")]
    model = save(tmp_path, "summed", nodes, [value("x", [4]), value("before", [4])], [value("after", [4])])
    np.save(tmp_path / "other.npy", np.zeros((3, 9), np.int64))
    (tmp_path / "text.npy").write_text("no numbers")
    for file in ("other.npy", "text.npy"):
        outcome = penstock("split", model, "--state", f"after=before:{file}", "-o", tmp_path / "p")
        assert outcome.code == 1
        assert "state 'after' -> 'before': initial value" in outcome.error
        assert file in outcome.error
        assert not (tmp_path / "p").exists()


def test_a_stream_with_states_is_settled_in_the_package(well, tmp_path):
    nodes = [
        helper.make_node("Add", ["x", "before"], ["after"], "sum"),
        helper.make_node("Relu", ["after"], ["y"], "out"),
    ]
    ends = [value("y", [4]), value("after", [4])]
    model = save(tmp_path, "summed", nodes, [value("x", [4]), value("before", [4])], ends)
    options = ["--state", "after=before", "--policy", "drop_oldest", "--capacity", "5", "-o", tmp_path / "p", "--json"]
    edges = well("split", model, *options).json["edges"]
    assert [(edge["policy"], edge["capacity"]) for edge in edges] == [("drop_oldest", 5), ("block", 5)]


def test_a_batch_that_a_node_stops_is_refused_by_it(penstock, tmp_path):
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "mix", axis=0)]
    model = save(tmp_path, "mixed", nodes, [value("x", [4])], [value("y", [4])])
    outcome = penstock("split", model, "--batch", "2", "-o", tmp_path / "p")
    assert outcome.code == 1
    assert "stage 'stage0': node 'mix': Softmax cannot take several frames in one call: " in outcome.error
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("batch", ["0", "8:", "stage0=x", "=8"])
def test_a_batch_of_another_form_is_shown(penstock, chain, tmp_path, batch):
    outcome = penstock("split", chain, "--batch", batch, "-o", tmp_path / "p")
    assert outcome.code == 2
    assert f"batch '{batch}': expected N, N:MILLISECONDS, auto, auto:N or STAGE=N" in outcome.error


def test_a_stage_whose_batch_cannot_be_measured_keeps_one_frame(well, tmp_path):
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "mix", axis=0)]
    model = save(tmp_path, "mixed", nodes, [value("x", [4])], [value("y", [4])])
    outcome = well("split", model, "--replicas", "1", "--batch", "auto:4", "-o", tmp_path / "p", "--json")
    (choice,) = outcome.json["measured_batches"]
    note = choice.pop("note")
    assert choice == {"stage": "stage0", "frames": 1, "trials": []}
    assert note.startswith("node 'mix': Softmax cannot take several frames in one call: ")
    (stage,) = outcome.json["stages"]
    assert stage["batch"] == {"frames": 1, "wait_us": 0}
    assert stage["models"] == ["stages/0.onnx"]
    text = well("split", model, "--replicas", "1", "--batch", "auto:4", "-o", tmp_path / "p").out
    assert "stage0: 1 frame a call; node 'mix': Softmax cannot take several frames" in text


def test_a_batch_of_open_shapes_is_measured_too(well, tmp_path):
    # Its frames must stand along another axis, while both sizes are open.
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "mix", axis=0)]
    model = save(tmp_path, "open", nodes, [value("x", ["n", "s"])], [value("y", ["n", "s"])])
    shape = ["--shape", "x=1..4x1..9"]
    outcome = well("split", model, *shape, "--replicas", "1", "--batch", "auto:4", "-o", tmp_path / "p", "--json")
    (choice,) = outcome.json["measured_batches"]
    assert [trial["frames"] for trial in choice["trials"]] == [2, 4]
    (stage,) = outcome.json["stages"]
    assert stage["batch"]["frames"] == choice["frames"]
    assert well("run", tmp_path / "p", "--frames", "5", "--json").json["ok"] == 5


def test_a_stage_has_one_batch(penstock, chain, tmp_path):
    outcome = penstock("split", chain, "--batch", "8", "--batch", "4", "-o", tmp_path / "p")
    assert outcome.code == 1
    assert "batch '4': its stage has a batch already" in outcome.error


def test_each_of_several_streams_has_a_replica_for_its_state(well, penstock, halved, tmp_path, cpu):
    package = tmp_path / "p"
    split = ("split", halved, "--state", "t=s", "--batch", "4", "--replicas", "2", "--devices", f"cpu:{cpu}")
    (stage,) = well(*split, "--streams", "8", "-o", package, "--json").json["stages"]
    assert len(stage["devices"]) == 2
    x = np.random.default_rng(0).standard_normal((8, 20, 1, 4)).astype(np.float32)
    files = []
    for stream, frames in enumerate(x):
        (tmp_path / f"in{stream}").mkdir()
        for i, one in enumerate(frames):
            np.save(tmp_path / f"in{stream}" / f"{i:02}.npy", one)
        files += ["--input", f"x=in{stream}"]
    lines = well("run", package, "--streams", "8", *files, "--output", "-").out.splitlines()
    assert len(lines) == 160
    found = [[] for _ in x]
    for line in map(json.loads, lines):
        found[line.get("stream", 0)].append(line["outputs"]["y"])
    for frames, outputs in zip(x, found, strict=True):
        state = np.zeros((1, 4), np.float32)
        for one, y in zip(frames, outputs, strict=True):
            state = one + np.float32(0.5) * state
            np.testing.assert_allclose(np.array(y, np.float32).reshape(1, 4), state, rtol=1e-5, atol=1e-6)
    for streams in [(), ("--streams", "1"), ("--streams", "1:evict")]:
        said = (
            "state 't' -> 's': stage 'stage0' writes it: expected one replica, found 2; of several streams each would"
        )
        assert said in penstock(*split, *streams, "-o", package).error


def test_streams_do_not_let_a_stage_that_writes_a_state_have_lanes(well, penstock, halved, tmp_path):
    split = ("split", halved, "--state", "t=s", "--streams", "8", "--replicas", "2", "-o", tmp_path / "p")
    outcome = well(*split, "--lanes", "4", "--json")
    assert outcome.json["stages"][0]["lanes"] == 0
    assert "--lanes 4: stage 'stage0' keeps 1 call in flight: it writes 't', a state" in outcome.err
    assert "expected 1 lane, found 4: it writes 't', a state" in penstock(*split, "--lanes", "stage0=4").error


@pytest.fixture
def drawing(tmp_path):
    """Draws noise before its ReLU, and twice behind it."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"], "first"),
        helper.make_node("Add", ["x", "a"], ["b"], "add"),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("RandomUniformLike", ["c"], ["d"], "second"),
        helper.make_node("RandomUniformLike", ["d"], ["e"], "third"),
        helper.make_node("Sub", ["c", "e"], ["y"], "sub"),
    ]
    return save(tmp_path, "drawing", nodes, [value("x", [4])], [value("y", [4])])


OF_ITS_OWN = (
    " random numbers: each stage and each replica draws its own, which may be alike; expected one stage of one replica "
    "that holds all these nodes (split the model with --cut elsewhere, --replicas 1)"
)


@pytest.mark.parametrize(
    "options, told",
    [
        ([], ""),
        (["--cut", "third"], ""),
        (["--cut", "relu"], "stages 'stage0' (node 'first'), 'stage1' (node 'second' and 1 more) draw" + OF_ITS_OWN),
        (["--replicas", "2"], "stage 'stage0' of 2 replicas (node 'first' and 2 more) draws" + OF_ITS_OWN),
    ],
)
def test_where_several_draw_random_numbers_a_warning_says_so(well, drawing, tmp_path, options, told):
    for outcome in (
        well("split", drawing, *options, "-o", tmp_path / "p"),
        well("run", tmp_path / "p", "--frames", "1"),
    ):
        warned = [line for line in outcome.err.splitlines() if "random numbers" in line]
        assert [line.partition("warning: ")[2] for line in warned] == [told] * bool(told), outcome.err


@pytest.mark.parametrize("command", [["plan", "--replicas"], ["build", "--budget", "1s"]])
def test_a_plan_with_replicas_that_draw_random_numbers_says_so(well, drawing, tmp_path, cpus, command):
    devices = ",".join(f"cpu:{cpu}" for cpu in cpus[:2])
    told = well(command[0], drawing, *command[1:], "--devices", devices, "-o", tmp_path / "p").err
    stages = json.loads((tmp_path / "p/plan.json").read_text())["stages"]
    assert told.count(OF_ITS_OWN) == (len(stages) > 1 or len(stages[0]["devices"]) > 1), told


def test_an_application_whose_stages_draw_random_numbers_says_so(well, drawing, tmp_path):
    app = {
        "penstock_app": 1,
        "inputs": {"x": "f32[4]"},
        "nodes": {"net": {"network": "drawing.onnx", "inputs": {"x": "x"}, "cuts": ["relu"]}},
        "outputs": {"y": "net.y"},
    }
    (tmp_path / "app.yaml").write_text(json.dumps(app))
    told = "stages 'net/0' (node 'first'), 'net/1' (node 'second' and 1 more) draw" + OF_ITS_OWN
    for words in (["split", "app.yaml", "-o", "q"], ["run", "app.yaml", "--frames", "1"]):
        assert well(*words).err.count(told) == 1
