"""Sequences and optionals as inputs, from Python."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import penstock

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])


def save(file: Path, nodes: list, inputs: list, outputs: list) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), file)
    return file


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    """y = relu(s[i]), n = len(s)."""
    nodes = [
        helper.make_node("SequenceAt", ["s", "i"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("SequenceLength", ["s"], ["n"]),
    ]
    inputs = [
        helper.make_value_info("s", helper.make_sequence_type_proto(FLOATS)),
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
    ]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("n", TensorProto.INT64, []),
    ]
    return save(tmp_path / "chosen.onnx", nodes, inputs, outputs)


@pytest.fixture
def perhaps(tmp_path: Path) -> Path:
    """there: whether the optional holds anything."""
    optional = helper.make_value_info("o", helper.make_optional_type_proto(FLOATS))
    there = helper.make_tensor_value_info("there", TensorProto.BOOL, [])
    return save(
        tmp_path / "perhaps.onnx", [helper.make_node("OptionalHasElement", ["o"], ["there"])], [optional], [there]
    )


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_sequence_is_a_list_of_arrays(chosen: Path, kind: type) -> None:
    with penstock.split(chosen) as pipeline:
        assert pipeline.get_inputs()[0].type == "sequence(f32[2])"
        for index, values in (0, [[1, -2]]), (1, [[1, 2], [-3, 4]]):
            items = kind(np.array(item, np.float32) for item in values)
            y, n = pipeline.run(None, {"s": items, "i": np.array(index)})
            np.testing.assert_array_equal(y, np.maximum(items[index], 0))
            assert n == len(values)


def test_an_optional_is_a_value_or_none(perhaps: Path) -> None:
    with penstock.split(perhaps) as pipeline:
        assert not pipeline.run(None, {"o": None})[0]
        assert pipeline.run(None, {"o": np.zeros(2, np.float32)})[0]


def test_random_frames_have_sequences(chosen: Path, tmp_path: Path) -> None:
    """The index is 0 or 1, and so inside."""
    with penstock.split(chosen, cuts=["a"]) as pipeline:
        pipeline.save(tmp_path / "chosen.penstock")
    assert penstock.verify(tmp_path / "chosen.penstock")["ok"]


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (np.zeros((2, 2), np.float32), "input 's': expected a list of arrays of f32[2], found ndarray"),
        ([np.zeros(2, np.float32), np.zeros(2)], "input 's': item 1: expected f32[2], found f64[2]"),
        ([np.zeros(3, np.float32)], "input 's': item 0: expected f32[2], found f32[3]"),
        ([None], "input 's': item 0: expected an array (numpy, DLPack or a buffer) of f32[2], found NoneType"),
    ],
    ids=["array", "type", "shape", "none"],
)
def test_what_is_no_such_sequence_is_told_with_its_item(chosen: Path, items: object, told: str) -> None:
    with penstock.split(chosen) as pipeline, pytest.raises(penstock.InvalidArgument) as refused:
        pipeline.run(None, {"s": items, "i": np.array(0)})
    assert told in str(refused.value)
