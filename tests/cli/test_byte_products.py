"""Products of bytes are whole on every processor: sums that sixteen bits would cut off, in forms that files have."""

import numpy as np
import pytest
from conftest import save, value
from onnx import TensorProto, helper

ENGINES = ["onnxruntime", "openvino"]
RANDOM = np.random.default_rng(0)
X = RANDOM.integers(200, 256, (2, 4, 64)).astype(np.uint8)  # Two frames.
W = RANDOM.integers(100, 128, (64, 16)).astype(np.int8)
V = RANDOM.integers(-128, -100, (64, 16)).astype(np.int8)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(" "), [output], **attributes)


def product(w, zero=0, x_zero=0):
    return (X.astype(np.int64) - x_zero) @ (w.astype(np.int64) - zero)


def nodes_without_names():
    nodes = [node("MatMulInteger", "x w  zw", "y"), node("MatMulInteger", "x v x_zero zv", "z")]
    weights = {"w": W, "v": V, "zw": np.int8(3), "zv": np.arange(16, dtype=np.int8), "x_zero": np.uint8(9)}
    return nodes, weights, {"y": product(W, 3), "z": product(V, np.arange(16), 9)}


def no_zero_points():
    return [node("MatMulInteger", "x w", "y")], {"w": W}, {"y": product(W)}


def weights_that_other_nodes_read():
    nodes = [node("MatMulInteger", "x w", "y"), node("Identity", "w", "i"), node("MatMulInteger", "x i", "z")]
    return nodes, {"w": W}, {"y": product(W), "z": product(W)}


def weights_that_are_computed():
    nodes = [node("Gather", "w order", "g"), node("MatMulInteger", "x g", "y")]
    return nodes, {"w": W, "order": np.arange(64)[::-1].copy()}, {"y": product(W[::-1])}


def weights_that_branches_read():
    def branch(w):
        output = value("inner", [4, 16], TensorProto.INT32)
        return helper.make_graph([node("MatMulInteger", f"x {w}", "inner")], w, [], [output])

    nodes = [
        node("Cast", "x", "wide", to=TensorProto.INT32),
        node("ReduceMax", "wide", "most", keepdims=0),
        node("Greater", "most none", "c"),
        node("If", "c", "y", then_branch=branch("w"), else_branch=branch("v")),
    ]
    return nodes, {"w": W, "v": V, "none": np.int32(0)}, {"y": product(W)}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "form",
    [
        nodes_without_names,
        no_zero_points,
        weights_that_other_nodes_read,
        weights_that_are_computed,
        weights_that_branches_read,
    ],
)
def test_sums_are_whole(well, tmp_path, form, engine):
    nodes, weights, expected = form()
    outputs = [value(name, [4, 16], TensorProto.INT32) for name in expected]
    model = save(tmp_path, "net", nodes, [value("x", [4, 64], TensorProto.UINT8)], outputs, weights)
    before = model.read_bytes()
    np.savez(tmp_path / "frames.npz", **{f"{i}/x": frame for i, frame in enumerate(X)})
    well("split", model, "--backend", engine, "-o", "p.penstock")
    well("run", "p.penstock", "--inputs", "frames.npz", "--output", "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        for name, frames in expected.items():
            for i, frame in enumerate(frames):
                np.testing.assert_array_equal(found[f"{i:06}/{name}"], frame)
    assert well("verify", "p.penstock", "--inputs", "frames.npz", "--json").json["verdict"] == "right"
    assert model.read_bytes() == before


def signed_data():
    """Bytes of which both are signed, by one operator."""
    weights = {"w": W, "s": np.float32(0.01), "ys": np.float32(10), "zero": np.int8(0)}
    nodes = [
        node("QuantizeLinear", "x s zero", "q"),
        node("QLinearMatMul", "q s zero w s zero ys zero", "qy"),
        node("DequantizeLinear", "qy ys zero", "y"),
    ]
    return nodes, weights


def shared_weights():
    """Two products of one weight, each between floats."""
    weights = {"w": W[:, :16], "s": np.float32(0.01), "ys": np.float32(2), "x_zero": np.uint8(128), "zero": np.int8(0)}
    nodes = [node("DequantizeLinear", "w s zero", "dw")]
    for i in "ab":
        nodes += [
            node("QuantizeLinear", "x s x_zero", f"q{i}"),
            node("DequantizeLinear", f"q{i} s x_zero", f"d{i}"),
            node("MatMul", f"d{i} dw", f"m{i}"),
            node("QuantizeLinear", f"m{i} ys x_zero", f"r{i}"),
            node("DequantizeLinear", f"r{i} ys x_zero", f"e{i}"),
        ]
    return [*nodes, node("Add", "ea eb", "y")], weights


def weights_that_a_branch_dequantises():
    """Between floats, in a nested graph: ONNX Runtime makes constants of the main graph alone unsigned."""
    inner = [
        node("DequantizeLinear", "w s zero", "dw"),
        node("QuantizeLinear", "x s x_zero", "q"),
        node("DequantizeLinear", "q s x_zero", "d"),
        node("MatMul", "d dw", "m"),
        node("QuantizeLinear", "m ys x_zero", "r"),
        node("DequantizeLinear", "r ys x_zero", "e"),
    ]

    def branch(name):
        return helper.make_graph(inner, name, [], [value("e", [4, 16])])

    nodes = [
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total none", "c"),
        node("If", "c", "y", then_branch=branch("a"), else_branch=branch("b")),
    ]
    weights = {"w": W, "s": np.float32(0.01), "ys": np.float32(0.2), "x_zero": np.uint8(0), "zero": np.int8(0)}
    return nodes, weights | {"none": np.float32(0)}


@pytest.mark.parametrize("form", [signed_data, shared_weights, weights_that_a_branch_dequantises])
def test_onnx_runtime_takes_what_it_takes_alone(well, tmp_path, form):
    nodes, weights = form()
    model = save(tmp_path, "net", nodes, [value("x", [4, 64])], [value("y", [4, 16])], weights)
    well("split", model, "--backend", "onnxruntime", "-o", "p.penstock")
    assert well("verify", "p.penstock", "--json").json["verdict"] == "right"
