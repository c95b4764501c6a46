"""penstock show."""

import onnx
import pytest
from conftest import save, value
from onnx import helper


def test_a_model_is_listed_node_by_node(well, chain):
    shown = well("show", chain, "--json").json
    assert [node["name"] for node in shown["nodes"]] == ["conv1", "relu1", "conv2", "relu2"]
    conv = shown["nodes"][0]
    assert conv["index"] == 0
    assert conv["op"] == "Conv"
    assert conv["inputs"] == ["x", "w1"]
    assert conv["outputs"] == ["c1"]
    assert conv["shapes"] == ["f32[1,4,4,4]"]
    assert conv["weight_bytes"] == 4 * 3 * 3 * 3 * 4
    assert conv["macs"] == 4 * 4 * 4 * 3 * 3 * 3
    assert conv["pipeline_stage"] is None
    assert shown["inputs"] == [{"name": "x", "type": "f32[1,3,4,4]", "dtype": "f32", "shape": [1, 3, 4, 4]}]
    assert [output["name"] for output in shown["outputs"]] == ["y"]


def test_the_text_has_a_line_for_each_node(well, chain):
    text = well("show", chain).out
    for name in ["conv1", "relu1", "conv2", "relu2"]:
        assert name in text


def test_costs_are_what_each_node_needs_at_least(well, chain, tmp_path):
    own = {"PENSTOCK_COSTS": str(tmp_path / "costs.db")}
    text = well("show", chain, "--costs", env=own).out
    assert "at least, on cpu:" in text and "million operations" in text
    costs = well("show", chain, "--costs", "--json", env=own).json["costs"]
    conv, relu = costs["nodes"][:2]
    assert conv["flops"] == 2 * 4 * 4 * 4 * 3 * 3 * 3 and relu["flops"] == 4 * 4 * 4
    assert conv["bytes"] == (3 * 4 * 4 + 4 * 3 * 3 * 3 + 4 * 4 * 4) * 4
    assert costs["all"]["limit_seconds"] > 0


def test_a_shape_binds_open_dimensions(well, double):
    assert well("show", double, "--json").json["inputs"][0]["shape"] == ["n", 3]
    assert well("show", double, "--shape", "x=5x3", "--json").json["outputs"][0]["shape"] == [5, 3]
    bounded = well("show", double, "--shape", "x=1..8x3", "--json").json["inputs"][0]["shape"]
    assert bounded[0].endswith("<=8")


def test_a_package_is_shown_as_its_plan(well, package, cpu):
    shown = well("show", package, "--json").json
    assert [stage["name"] for stage in shown["stages"]] == ["stage0", "stage1"]
    assert shown["stages"][0]["devices"] == [f"cpu:{cpu}"]
    assert shown["stages"][0]["nodes"] == ["conv1", "relu1"]
    assert [edge["name"] for edge in shown["edges"]] == ["input -> stage0", "stage0 -> stage1", "stage1 -> output"]
    assert shown["edges"][1]["bytes_per_frame"] == 4 * 4 * 4 * 4
    assert "stage0 -> stage1" in well("show", package).out


@pytest.mark.parametrize("policy", ["block", "drop_oldest", "latest"])
def test_a_package_shows_the_memory_that_run_will_take(well, chain, tmp_path, policy):
    package = tmp_path / "package"
    well("split", chain, "--cut", "1", "--policy", policy, "-o", package)
    shown = well("show", package, "--json").json["memory_bytes"]
    assert shown == well("run", package, "--json").json["memory_bytes"] > 0
    assert "memory of the edges: at most" in well("show", package).out


def test_annotations_are_shown(well, chain, tmp_path):
    annotated = tmp_path / "annotated.onnx"
    well("split", chain, "--cut", "relu1", "--annotate", annotated)
    onnx.load(annotated)
    stages = [node["pipeline_stage"] for node in well("show", annotated, "--json").json["nodes"]]
    assert stages == [0, 0, 1, 1]


def test_wrong_files_are_refused_in_a_sentence(penstock, tmp_path, chain):
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    text = tmp_path / "text.onnx"
    text.write_text("this is no model, it is a text")
    truncated = tmp_path / "truncated.onnx"
    truncated.write_bytes(chain.read_bytes()[:-100])
    for file in [empty, text, truncated, tmp_path / "absent.onnx", tmp_path]:
        outcome = penstock("show", file)
        assert outcome.code == 1, outcome
        assert str(file) in outcome.error


def test_an_unknown_input_in_a_shape_is_refused(penstock, double):
    outcome = penstock("show", double, "--shape", "z=1x3")
    assert outcome.code == 1
    assert "'z'" in outcome.error


def test_a_malformed_shape_is_refused(penstock, double):
    outcome = penstock("show", double, "--shape", "x=1xtwo")
    assert outcome.code == 2
    assert "1xtwo" in outcome.error


def test_macs_that_open_shapes_hide_are_unknown(well, product):
    assert [node["macs"] for node in well("show", product, "--json").json["nodes"]] == [None, 0]
    assert well("show", product).out.splitlines()[-2].endswith(" ?")
    assert [node["macs"] for node in well("show", product, "--shape", "x=4x3", "--json").json["nodes"]] == [24, 0]


def test_a_package_tells_its_origin(well, package, chain):
    origin = well("show", package, "--json").json["origin"]
    assert origin["model_file"] == str(chain)
    assert len(origin["model_sha256"]) == 64


def test_control_characters_in_names_are_printed_as_escapes(penstock, well, tmp_path):
    """A terminal would obey them, and a line break tears a table; JSON has the names as they are."""
    nodes = [
        helper.make_node("Relu", ["in\nput"], ["a\x1b[2J"], "line\nbreak"),
        helper.make_node("Neg", ["a\x1b[2J"], ["y\r\x07"], "red\x1b[31m"),
    ]
    file = save(tmp_path, "odd", nodes, [value("in\nput", ["ba\ntch", 3])], [value("y\r\x07", ["ba\ntch", 3])])
    shown = well("show", file, "--json").json
    assert [node["name"] for node in shown["nodes"]] == ["line\nbreak", "red\x1b[31m"]
    assert shown["inputs"][0]["name"] == "in\nput"
    told = [well("show", file), well("plan", file), well("split", file, "--cut", 0, "-o", tmp_path / "p")]
    told += [well("show", tmp_path / "p"), well("verify", tmp_path / "p"), well("run", file, "--frames", "2")]
    told.append(penstock("split", file, "--cut", "red\x1b[31m", "-o", tmp_path / "q"))
    for outcome in told:
        text = outcome.out + outcome.err
        assert not set(text) & {chr(code) for code in range(32) if code != 10}, outcome
        assert "\nput" not in text and "\nbreak" not in text and "\ntch" not in text, outcome
    assert "input  in\\nput  f32[ba\\ntch,3]\n" in told[0].out
    assert "line\\nbreak" in told[0].out and "red\\x1b[31m" in told[-1].err
