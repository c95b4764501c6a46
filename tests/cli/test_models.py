"""Models as files have them: operator sets, functions, data in several files, odd orders and names, 2 GB and more."""

import os
import shutil

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper, numpy_helper

OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
HUGE = 2**31 + 4096


def save_opset(folder, version):
    """Operators that had attributes where later sets have inputs; files before IR 4 list weights as inputs."""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((4, 3, 3, 3)).astype(np.float32)}
    for name, number in (("scale", 1), ("bias", 0), ("mean", 0), ("variance", 1)):
        weights[name] = np.full(4, number, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"], "norm"),
    ]

    def add(op, source, output, since, attributes):
        """The attributes as such, or as inputs from operator set `since` on."""
        names = [] if version < since else [f"{output}_{key}" for key in attributes]
        for name, array in zip(names, attributes.values(), strict=False):
            weights[name] = np.asarray(array, np.float32 if isinstance(array, float) else np.int64)
        kept = attributes if version < since else {}
        nodes.append(helper.make_node(op, [source, *names], [output], op.lower(), **kept))

    add("Clip", "n", "k", 11, {"min": 0.0, "max": 6.0})
    if version < 10:
        nodes.append(helper.make_node("Slice", ["k"], ["s"], "slice", axes=[2], starts=[0], ends=[2]))
    else:
        add("Slice", "k", "s", 10, {"starts": [0], "ends": [2], "axes": [2]})
    add("Pad", "s", "p", 11, {"pads": [0, 0, 1, 1, 0, 0, 1, 1]})
    add("Unsqueeze", "p", "u", 13, {"axes": [0]})
    add("Squeeze", "u", "q", 13, {"axes": [0]})
    add("ReduceSum", "q", "r", 13, {"axes": [2]})
    nodes.append(helper.make_node("Softmax", ["r"], ["y"], "softmax", axis=1))
    old = version < 9
    inputs = [value("x", [1, 3, 4, 4])]
    for name, array in weights.items() if old else ():
        inputs.append(value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype)))
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "versions", inputs, [value("y", None)], tensors)
    opsets = [helper.make_opsetid("", version)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=3 if old else 8), folder / "versions.onnx")
    return folder / "versions.onnx"


@pytest.fixture
def two_stages(well, tmp_path):
    """The model in two stages, cut in its middle: verified, as whole and as package of the same values."""

    def check(model, *options):
        nodes = well("show", model, "--json").json["nodes"]
        well("split", model, "--cut", max(0, len(nodes) // 2 - 1), "-o", "p.penstock")
        report = well("verify", "p.penstock", "--model", model, "--json", *options).json
        assert (report["ok"], report["problems"]) == (True, [])
        results = []
        for what in (model, "p.penstock"):
            well("run", what, "--frames", "1", "--output", "out.npz", *options)
            with np.load(tmp_path / "out.npz") as out:
                results.append({name: out[name] for name in out.files})
        whole, parted = results
        assert all(np.allclose(whole[name], parted[name], 1e-4, 1e-5) for name in whole | parted)
        return [node["name"] for node in nodes]

    return check


@pytest.mark.sweep(of=4)
@pytest.mark.parametrize("version", OPSETS)
def test_operator_sets_are_those_that_the_engine_takes(penstock, two_stages, tmp_path, version):
    model = save_opset(tmp_path, version)
    tried = penstock("run", model, "--frames", "1")
    if tried.code == 0:
        two_stages(model)
        return
    assert version > 25
    assert f"the model names operator set {version}, and" in tried.error
    assert "another version of the engine" in tried.error


def test_functions_may_nest_have_attributes_and_stand_in_branches(two_stages, tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        functions (float[1,4] x, bool c) => (float[1,4] y) {
            a = own.twice <by = 2.0> (x)
            b = own.outer (a)
            y = If (c) <then_branch = t () => (float[1,4] p) { p = own.twice <by = 3.0> (b) },
                        else_branch = e () => (float[1,4] q) { q = own.outer (b) }>
        }
        <domain: "own", opset_import: ["" : 17, "own" : 1]>
        outer (v) => (w) { h = own.twice <by = 0.5> (v)  w = Tanh (h) }
        <domain: "own", opset_import: ["" : 17]>
        twice <by> (v) => (w) { k = Constant <value_float : float = @by> ()  w = Mul (v, k) }""")
    onnx.save(model, tmp_path / "functions.onnx")
    assert len(two_stages(tmp_path / "functions.onnx")) == 4


def test_data_may_lie_in_several_files_and_folders(two_stages, tmp_path):
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((32, 32)).astype(np.float32) for name in ("one", "two", "three")}
    nodes = [
        helper.make_node("MatMul", ["x", "one"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "two"], ["b"], "second"),
        helper.make_node("MatMul", ["b", "three"], ["y"], "third"),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "several", [value("x", [1, 32])], [value("y", [1, 32])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "more").mkdir()
    for tensor, place in zip(model.graph.initializer, ("one.bin", "more/two.bin", "more/three.bin"), strict=True):
        onnx.external_data_helper.set_external_data(tensor, place)
    onnx.save(model, tmp_path / "several.onnx")
    assert two_stages(tmp_path / "several.onnx") == ["first", "second", "third"]


def test_nodes_may_stand_before_what_they_read(two_stages, tmp_path):
    then = [helper.make_node("Relu", ["i"], ["p"], "late"), helper.make_node("Neg", ["b"], ["i"], "early")]
    other = [helper.make_node("Tanh", ["a"], ["q"], "other")]
    branches = {
        "then_branch": helper.make_graph(then, "then", [], [value("p", [1, 4])]),
        "else_branch": helper.make_graph(other, "else", [], [value("q", [1, 4])]),
    }
    nodes = [
        helper.make_node("If", ["c"], ["y"], "choice", **branches),
        helper.make_node("Tanh", ["a"], ["b"], "second"),
        helper.make_node("Neg", ["x"], ["a"], "first"),
    ]
    inputs = [value("x", [1, 4]), value("c", [], TensorProto.BOOL)]
    model = save(tmp_path, "unsorted", nodes, inputs, [value("y", [1, 4])])
    assert two_stages(model) == ["first", "second", "choice"]


def test_nodes_that_share_a_name_get_one_each(two_stages, well, tmp_path):
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], "same"),
        helper.make_node("Tanh", ["a"], ["b"], "same"),
        helper.make_node("Abs", ["b"], ["k"], "same"),
        helper.make_node("Sqrt", ["k"], ["l"]),
        helper.make_node("Neg", ["l"], ["y"], "Sqrt_3"),
    ]
    model = save(tmp_path, "shared", nodes, [value("x", [1, 4])], [value("y", [1, 4])])
    names = two_stages(model)
    assert len(set(names)) == len(names) == 5
    assert {"same", "Sqrt_3"} < set(names)
    well("bench", "p.penstock", "--model", model, "--seconds", "0.2")


@pytest.mark.sweep(of=4)
def test_weights_of_more_than_2_gb_are_read_where_they_lie(well, tmp_path):
    """A table of which only the last bytes are written; the package holds a copy."""
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory < 3 * HUGE or shutil.disk_usage(tmp_path).free < 5 * HUGE:
        pytest.skip(f"needs {3 * HUGE >> 30} GB of memory and {5 * HUGE >> 30} GB of disk")
    with open(tmp_path / "table.bin", "wb") as file:
        file.truncate(HUGE)
        file.seek(HUGE - 4)
        file.write(bytes([1, 4, 9, 16]))
    table = TensorProto(name="table", data_type=TensorProto.UINT8, dims=[HUGE], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "table.bin"), ("offset", "0"), ("length", str(HUGE))):
        table.external_data.add(key=key, value=text)
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["g"], "gather"),
        helper.make_node("Cast", ["g"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["f"], ["y"], "root"),
    ]
    ids = value("i", [4], TensorProto.INT64)
    graph = helper.make_graph(nodes, "huge", [ids], [value("y", [4])], [table])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "huge.onnx"
    )
    np.save(tmp_path / "i.npy", np.array([0, HUGE - 4, HUGE - 2, HUGE - 1]))
    assert len(well("show", "huge.onnx", "--json").json["nodes"]) == 3
    try:
        well("split", "huge.onnx", "--cut", "gather", "-o", "p.penstock")
        well("run", "p.penstock", "--input", "i=i.npy", "--output", "out.npz")
        with np.load(tmp_path / "out.npz") as out:
            assert out["y"].tolist() == [0, 1, 3, 4]
        assert well("verify", "p.penstock", "--frames", "2", "--input", "i=i.npy", "--json").json["ok"]
    finally:
        shutil.rmtree(tmp_path / "p.penstock", ignore_errors=True)
