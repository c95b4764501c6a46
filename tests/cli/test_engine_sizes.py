"""Networks whose sizes ONNX's own inference tells otherwise than ONNX Runtime computes them: they are split at any cut,
run and built, and give what ONNX Runtime gives where it folds nothing."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")

SCALES = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 0.7, 0.7], np.float32)}
ROOM = [1, 3, 10, 10]


def resize():
    # 10 * 0.7 is 7 in float32, and less than that in float64.
    return helper.make_node("Resize", ["a", "roi", "scales"], ["s"], mode="linear")


def pool():
    return helper.make_node(
        "MaxPool", ["a"], ["s"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1
    )


def spectrum():
    return helper.make_node("STFT", ["a", "step", "window"], ["s"])


def then(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


SHAPE = [then("Shape", ["s"], "n"), then("Cast", ["n"], "m", to=TensorProto.FLOAT)]
SUM = then("ReduceSum", ["s"], "t", keepdims=0)

# Operator set, the input's shape, nodes, constants; the output is y.
NETWORKS = {
    "a Resize by 0.7": (13, ROOM, [resize(), then("Exp", ["s"], "y")], SCALES),
    "a Resize of open sizes": (13, [1, 3, "h", "w"], [resize(), then("Exp", ["s"], "y")], SCALES),
    "a Resize whose shape is read": (13, ROOM, [resize(), *SHAPE, SUM, then("Div", ["t", "m"], "y")], SCALES),
    "an Upsample by 2.3": (
        9,
        [1, 1, 10, 10],
        [then("Upsample", ["a", "scales"], "s"), then("Exp", ["s"], "y")],
        {"scales": np.array([1, 1, 2.3, 2.3], np.float32)},
    ),
    "a MaxPool rounded up": (13, [1, 3, 5, 5], [pool(), then("Exp", ["s"], "y")], {}),
    "a MaxPool whose shape is read": (13, [1, 3, 5, 5], [pool(), *SHAPE, SUM, then("Div", ["t", "m"], "y")], {}),
    "a MaxPool that is flattened by its shape": (
        13,
        [1, 3, 5, 5],
        [
            pool(),
            then("Shape", ["s"], "n"),
            then("ReduceProd", ["n"], "p", keepdims=1),
            then("Reshape", ["s", "p"], "f"),
            then("Exp", ["f"], "y"),
        ],
        {},
    ),
    "an AveragePool rounded up": (
        11,
        [1, 1, 5, 5],
        [then("AveragePool", ["a"], "s", kernel_shape=[2, 2], strides=[4, 4], ceil_mode=1), then("Exp", ["s"], "y")],
        {},
    ),
    "an LpPool with dilations": (
        22,
        [1, 1, 8, 8],
        [
            then("LpPool", ["a"], "s", kernel_shape=[2, 2], dilations=[2, 2], auto_pad="SAME_LOWER"),
            then("Exp", ["s"], "y"),
        ],
        {},
    ),
    "a ConvTranspose with output_padding": (
        18,
        [1, 1, 4, 4],
        [
            then("ConvTranspose", ["a", "w"], "s", strides=[2, 2], auto_pad="SAME_LOWER", output_padding=[1, 1]),
            then("Tanh", ["s"], "y"),
        ],
        {"w": np.linspace(-1, 1, 9, dtype=np.float32).reshape(1, 1, 3, 3)},
    ),
    "an STFT that leaves onesided out": (
        18,
        [1, 64, 1],
        [spectrum(), then("Tanh", ["s"], "y")],
        {"step": np.int64(8), "window": np.hanning(16).astype(np.float32)},
    ),
}

# Whose operators one of the other backends has.
OF_ONEDNN = ["a Resize by 0.7", "a MaxPool rounded up", "an AveragePool rounded up"]


def saved(folder: Path, name: str, declared: bool = False) -> Path:
    opset, shape, nodes, constants = NETWORKS[name]
    nodes = [then("Relu", ["x"], "a"), *nodes, then("Neg", ["y"], "z")]
    given = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sizes", [x], [z], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if declared:
        model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, folder / "network.onnx")
    return folder / "network.onnx"


def fed(folder: Path, name: str) -> np.ndarray:
    shape = [10 if isinstance(size, str) else size for size in NETWORKS[name][1]]
    x = np.random.default_rng(1).random(shape, np.float32)
    np.save(folder / "x.npy", x)
    return x


def expected(file: Path, x: np.ndarray) -> np.ndarray:
    """Without its optimisations, which fold shapes by ONNX's inference too."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(file), options).run(None, {"x": x})[0]


def check(well, folder: Path, what: Path, wanted: np.ndarray) -> None:
    out = folder / "out.npz"
    well("run", what, "--input", f"x={folder / 'x.npy'}", "--output", out)
    made = np.load(out)["z"]
    assert made.size == wanted.size, (made.shape, wanted.shape)
    np.testing.assert_allclose(made.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_at_every_cut_they_compute_the_same(well, tmp_path, name):
    file = saved(tmp_path, name)
    wanted = expected(file, fed(tmp_path, name))
    check(well, tmp_path, file, wanted)
    nodes = well("show", file, "--json").json["nodes"]
    for cut in range(len(nodes) - 1):
        package = tmp_path / "network.penstock"
        well("split", file, "--cut", cut, "-o", package)
        check(well, tmp_path, package, wanted)


@pytest.mark.parametrize("name", NETWORKS)
def test_as_is_too(well, tmp_path, name):
    file = saved(tmp_path, name, declared=True)
    package = tmp_path / "network.penstock"
    well("split", file, "--as-is", "-o", package)
    check(well, tmp_path, package, expected(file, fed(tmp_path, name)))


@pytest.mark.parametrize("name", OF_ONEDNN)
def test_another_backend_computes_the_same_sizes(well, tmp_path, name):
    if not any(b["name"] == "onednn" and b.get("available", True) for b in well("backends", "--json").json["backends"]):
        pytest.skip("the backend onednn cannot be used here")
    file = saved(tmp_path, name, declared=True)
    package = tmp_path / "network.penstock"
    well("split", file, "--backend", "onednn", "-o", package)
    check(well, tmp_path, package, expected(file, fed(tmp_path, name)))


@pytest.mark.parametrize("name", ["a Resize by 0.7", "a MaxPool whose shape is read"])
def test_they_are_verified_and_measured(well, tmp_path, name):
    file = saved(tmp_path, name, declared=True)
    package = tmp_path / "network.penstock"
    well("split", file, "--cut", 0, "-o", package)
    assert well("verify", package, "--frames", "3", "--json").json["ok"]
    well("bench", package, "--seconds", "0.2")
