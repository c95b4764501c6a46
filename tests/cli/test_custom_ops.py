"""Networks with operators of the user's own."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper


@pytest.fixture(scope="session")
def library(program):
    """Where the build puts tests/custom_ops."""
    found = program.resolve().parents[1] / "lib/tests/libpenstock_test_ops.so"
    if not found.exists():
        pytest.skip(f"no {found.name} beside the program: build the tests")
    return found


@pytest.fixture
def twice(tmp_path):
    """y = -2 |x|, its second node an operator that only the library knows."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="abs"),
        helper.make_node("Twice", ["a"], ["t"], name="twice", domain="test.penstock"),
        helper.make_node("Neg", ["t"], ["y"], name="neg"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "twice", [x], [y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("test.penstock", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "twice.onnx")
    return tmp_path / "twice.onnx"


def test_a_package_carries_its_operators(well, twice, library, tmp_path):
    package = tmp_path / "p"
    well("split", twice, "--cut", "twice", "--custom-ops", library, "-o", package)
    np.save(tmp_path / "x.npy", np.array([[1, -2, 3], [0, 5, -6]], np.float32))
    well("run", package, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out")
    assert np.load(tmp_path / "out/y.npy").tolist() == [[-2, -4, -6], [0, -10, -12]]
    assert well("verify", package, "--model", twice, "--json").json["ok"] is True


def test_without_the_library_the_operator_is_named(penstock, twice, tmp_path):
    outcome = penstock("run", twice, "--frames", "1")
    assert outcome.code == 1
    assert "Twice" in outcome.error
