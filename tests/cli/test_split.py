"""penstock split."""

import pytest


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
    target = tmp_path / "p.zip"
    well("split", chain, "--cut", "1", "--devices", f"cpu:{cpu}", "-o", target)
    assert target.is_file()
    assert well("run", target, "--frames", "3", "--json").json["ok"] == 3


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


def test_a_stream_is_settled_in_the_package(well, chain, tmp_path):
    for target in [tmp_path / "p", tmp_path / "p.zip"]:
        well("split", chain, "--cut", "1", "--policy", "latest", "--max-age", "50", "--on-error", "stop", "-o", target)
        plan = well("show", target, "--json").json
        assert [edge["policy"] for edge in plan["edges"]] == ["latest", "block", "block"]
        assert plan["max_age_us"] == 50000
        assert plan["on_error"] == "stop"


def test_a_capacity_fixes_the_memory(well, chain, tmp_path):
    outcome = well("split", chain, "--cut", "1", "--capacity", "8", "-o", tmp_path / "p", "--json")
    assert {edge["capacity"] for edge in outcome.json["edges"]} == {8}
    assert outcome.json["memory_bytes"] == 8 * (3 * 4 * 4 * 4 + 4 * 4 * 4 * 4 + 2 * 4 * 4 * 4)


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
        (["--cut", "99"], ["99"]),
        (["--cut", "relu2"], ["relu2"]),
        (["--cut", "1", "--cut", "relu1"], ["relu1"]),
        (["--devices", "cpu:9999"], ["cpu:9999"]),
        (["--devices", "gpu:0"], ["--devices", "'gpu:0'"]),
        (["--pin", "conv1"], ["NODE=DEVICE", "'conv1'"]),
        (["--pin", "conv1=gpu:0"], ["--pin", "'gpu:0'"]),
        (["--replicas", "0"], ["replicas", "0"]),
        (["--policy", "sometimes"], ["'sometimes'", "drop_oldest"]),
        (["--max-age", "-3"], ["--max-age", "-3"]),
        (["--capacity", "-1"], ["--capacity", "-1"]),
        (["--on-error", "panic"], ["'panic'", "deliver"]),
        (["--backend", "acme"], ["'acme'", "onnxruntime"]),
        (["--backend-option", "graph_optimization_level"], ["BACKEND:KEY=VALUE"]),
        (["--backend-option", "acme:x=1"], ["'acme'", "'onnxruntime'"]),
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
