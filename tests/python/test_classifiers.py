"""A classifier as scikit-learn's exporter writes it: labels, and for each row a map from label to probability."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import penstock


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    ml, labels = "ai.onnx.ml", ["no", "yes"]
    nodes = [
        helper.make_node("Sub", ["x", "x0"], ["shifted"]),
        helper.make_node(
            "LinearClassifier",
            ["shifted"],
            ["label", "p"],
            domain=ml,
            coefficients=[1.0, 2.0, -1.0, -2.0],
            intercepts=[0.0, 0.5],
            classlabels_strings=labels,
            post_transform="SOFTMAX",
        ),
        helper.make_node("ZipMap", ["p"], ["maps"], domain=ml, classlabels_strings=labels),
    ]
    entry = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]),
        helper.make_value_info("maps", helper.make_sequence_type_proto(entry)),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])]
    shift = helper.make_tensor("x0", TensorProto.FLOAT, [2], [0.25, 0.5])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ml, 3)]
    graph = helper.make_graph(nodes, "classifier", inputs, outputs, [shift])
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "classifier.onnx")
    return tmp_path / "classifier.onnx"


def test_maps_are_their_keys_and_values(classifier: Path, tmp_path: Path):
    x = np.array([[1, 2], [-1, 0], [0.25, 0.3]], np.float32)
    with penstock.split(classifier, cuts=["shifted"], output=tmp_path / "package") as pipeline:
        labels, maps = pipeline.run(None, {"x": x})
    assert list(labels) == ["no", "yes", "yes"]
    for (keys, values), label in zip(maps, labels, strict=True):
        assert list(keys) == ["no", "yes"]
        assert np.isclose(values.sum(), 1)
        assert keys[values.argmax()] == label


def test_maps_are_judged(classifier: Path, tmp_path: Path):
    with penstock.split(classifier, cuts=["shifted"], output=tmp_path / "package"):
        pass
    x = np.random.default_rng(0).standard_normal((8, 5, 2)).astype(np.float32)
    verdict = penstock.verify(tmp_path / "package", model=classifier, frames=[{"x": rows} for rows in x])
    assert verdict["verdict"] == "right", verdict
