"""What an engine will refuse is told before it is asked, and the node is named when it did."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import penstock


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """An operator that no engine here has, behind one that all have."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Frobnicate", ["r"], ["y"], "odd", domain="acme"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    save(
        helper.make_model(
            helper.make_graph(nodes, "foreign", value[:1], value[1:]), opset_imports=opsets, ir_version=8
        ),
        tmp_path / "foreign.onnx",
    )
    return tmp_path / "foreign.onnx"


def test_values_of_a_map_are_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    words = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    graph = helper.make_graph(
        [
            helper.make_node(
                "DictVectorizer", ["words"], ["y"], "row", domain="ai.onnx.ml", string_vocabulary=["a", "b"]
            )
        ],
        "counted",
        [helper.make_value_info("words", words)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "counted.onnx")
    said = r"input 'words': it is a map or a sparse tensor, .* found dict: begin the network behind the node"
    with penstock.split(tmp_path / "counted.onnx") as pipeline, pytest.raises(penstock.Unimplemented, match=said):
        pipeline({"words": {"a": 1.0}})


@pytest.mark.parametrize("make", [penstock.split, penstock.plan])
def test_what_an_engine_will_refuse_is_foretold_and_named(make, foreign: Path):
    named = r"node 'odd' \(Frobnicate\) reads 'r' f32\[1,4\]"
    told = r"ONNX Runtime will refuse this network: .*acme:Frobnicate.*" + named
    with (
        pytest.warns(penstock.PenstockWarning, match=told) as warned,
        pytest.raises(penstock.PenstockError, match=named),
    ):
        make(foreign)
    assert Path(warned[0].filename) == Path(__file__)


def test_the_package_is_written_all_the_same(foreign: Path, tmp_path: Path):
    """It may be for another machine, whose engine has the operator."""
    with pytest.warns(penstock.PenstockWarning, match="will refuse"), pytest.raises(penstock.PenstockError):
        penstock.split(foreign, cuts=["first"], output=tmp_path / "package")
    assert (tmp_path / "package" / "plan.json").exists()


@pytest.mark.parametrize("make", [penstock.split, penstock.plan, penstock.build])
def test_a_model_that_is_not_there_is_told_in_the_programs_words(make, tmp_path: Path):
    with pytest.raises(penstock.NotFound, match=r"file '.*nope\.onnx': no such file; check the path$"):
        make(tmp_path / "nope.onnx")


@pytest.mark.parametrize("make", [penstock.split, penstock.load, penstock.verify, penstock.explain])
def test_a_misspelt_file_is_answered_with_the_nearest_of_its_folder(make, model: Path, tmp_path: Path):
    penstock.split(model, cuts=[1], output=tmp_path / "face.penstock").shut_down()
    (tmp_path / "face.onnx").write_bytes(model.read_bytes())
    kind = "onnx" if make is penstock.split else "penstock"
    with pytest.raises(penstock.NotFound, match=rf"'.*/fase.{kind}': no such .*; did you mean 'face.{kind}'"):
        make(tmp_path / f"fase.{kind}")


def test_a_number_is_an_index_where_tensors_are_named_by_numbers_too(tmp_path: Path) -> None:
    """Tensor '2' is made by node 0, '0' by node 2."""
    names = ["2", "1", "0", "3"]
    nodes = [helper.make_node("Relu", [source], [target]) for source, target in zip(["x", *names], names, strict=False)]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "3")]
    graph = helper.make_graph(nodes, "numbers", value[:1], value[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")

    def before(cut: str | int) -> list[str]:
        with penstock.split(tmp_path / "n.onnx", cuts=[cut], as_is=True) as pipeline:
            return [tensor for edge in pipeline.plan["edges"] if edge["from"] == "stage0" for tensor in edge["tensors"]]

    assert before("2") == ["2"]
    assert before(2) == before("#2") == before(np.int64(2)) == ["0"]
