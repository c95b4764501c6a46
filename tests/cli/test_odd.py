"""Odd networks that ONNX Runtime runs: the program computes the same, whole and cut, or refuses in a sentence."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

F32 = TensorProto.FLOAT
FRAME = np.arange(4, dtype=np.float32).reshape(1, 4)


def value(name, dims=(1, 4), dtype=F32):
    return helper.make_tensor_value_info(name, dtype, dims)


def numbers(name, *values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype), name)


def sparse(name, *values):
    """Every second number of four."""
    return helper.make_sparse_tensor(numbers(name, *values), numbers(f"{name}_at", 0, 2, dtype=np.int64), [4])


def constant(*values):
    return helper.make_node("Constant", [], ["w"], "constant", value=numbers("w", *values))


def in_form(**value):
    return helper.make_node("Constant", [], ["w"], "constant", **value)


def cast(*constants):
    """y = -x + w, for a `w` that is not of f32."""
    to_floats = helper.make_node("Cast", ["w"], ["f"], "cast", to=F32)
    return [NEGATE, *constants, to_floats, helper.make_node("Add", ["n", "f"], ["y"], "add")]


def save(folder, nodes, constants=(), sparse_constants=(), inputs=None, opsets=(("", 17),)):
    """Reads x [1, 4] and makes y of the same shape."""
    graph = helper.make_graph(
        nodes, "odd", inputs or [value("x")], [value("y")], constants, sparse_initializer=sparse_constants
    )
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "odd.onnx")
    return folder / "odd.onnx"


@pytest.fixture
def computes_the_same(well, tmp_path):
    """Runs a network in ONNX Runtime and here, whole and cut behind its first node."""

    def check(file, frame, cut=True):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        expected = dict(zip(names, session.run(None, frame), strict=True))
        np.savez(tmp_path / "frame.npz", **frame)
        targets = [file]
        if cut:
            well("split", file, "--cut", "#0", "-o", tmp_path / "cut.penstock")
            targets.append(tmp_path / "cut.penstock")
        for target in targets:
            well("run", target, "--inputs", "frame.npz", "-o", "out.npz")
            with np.load(tmp_path / "out.npz") as made:
                for name, array in expected.items():
                    np.testing.assert_allclose(made[name], array, rtol=1e-5, err_msg=f"{target}: {name}")

    return check


NEGATE = helper.make_node("Neg", ["x"], ["n"], "negate")
ADD = helper.make_node("Add", ["n", "w"], ["y"], "add")
W, OTHER = numbers("w", 1, 2, 3, 4), numbers("w", 10, 20, 30, 40)
DOUBLES = {
    "two initialisers": ([NEGATE, ADD], [W, OTHER], []),
    "a dense and a sparse initialiser": ([NEGATE, ADD], [W], [sparse("w", 7, 8)]),
    "an initialiser and a Constant": ([NEGATE, constant(5, 6, 7, 8), ADD], [W], []),
    "a Constant and a sparse initialiser": ([NEGATE, constant(5, 6, 7, 8), ADD], [], [sparse("w", 7, 8)]),
    "two Constants": ([NEGATE, constant(5, 6, 7, 8), constant(9, 9, 9, 9), ADD], [], []),
    "an initialiser and a Constant of floats": ([NEGATE, in_form(value_floats=[5.0, 6, 7, 8]), ADD], [W], []),
    "Constants of two forms": ([NEGATE, constant(5, 6, 7, 8), in_form(value_floats=[9.0, 8, 7, 6]), ADD], [], []),
    "a sparse Constant": ([NEGATE, constant(5, 6, 7, 8), in_form(sparse_value=sparse("v", 7, 8)), ADD], [], []),
    "Constants of one float": ([NEGATE, in_form(value_float=2.0), in_form(value_float=3.0), ADD], [], []),
    "Constants of integers": (cast(in_form(value_ints=[1, 2, 3, 4]), in_form(value_ints=[5, 6, 7, 8])), [], []),
    "Constants of one integer": (cast(in_form(value_int=1), in_form(value_int=2)), [], []),
    "Constants of texts": (cast(in_form(value_strings=list("1234")), in_form(value_strings=list("5678"))), [], []),
    "Constants of one text": (cast(in_form(value_string="1"), in_form(value_string="2")), [], []),
}


@pytest.mark.parametrize("what", DOUBLES)
def test_of_constants_of_one_name_it_takes_that_of_onnx_runtime(computes_the_same, tmp_path, what):
    computes_the_same(save(tmp_path, *DOUBLES[what]), {"x": FRAME})


def test_it_takes_onnx_runtimes_domains_without_operator_set(computes_the_same, tmp_path):
    nodes = [
        helper.make_node("Gelu", ["x"], ["g"], "gelu", domain="com.microsoft"),
        helper.make_node("Scaler", ["g"], ["y"], "scaler", domain="ai.onnx.ml", offset=[1.0], scale=[2.0]),
    ]
    computes_the_same(save(tmp_path, nodes), {"x": FRAME})


def test_it_takes_onnx_runtimes_operators_without_onnxs_operator_set(computes_the_same, tmp_path):
    nodes = [
        helper.make_node("Gelu", ["x"], ["g"], "gelu", domain="com.microsoft"),
        helper.make_node("SimplifiedLayerNormalization", ["g", "w"], ["y"], "normalise", axis=-1),
    ]
    computes_the_same(save(tmp_path, nodes, [W], opsets=[("com.microsoft", 1)]), {"x": FRAME})


RECURRENT = {"LSTM": 4, "GRU": 3}  # Operators, and their gates.


def recurrent(folder, op, dims, within=None):
    """-x of `dims` goes into the node: in the main graph, or `within` a branch (If: taken where the sum of x is below
    0.5, If over: where it is not), or a Loop or Scan of as many steps as only a run tells, or behind a Reshape."""
    gates, large = RECURRENT[op], 16  # `r` is over the 1024 bytes from which on weights stand in a file of their own.
    weights = [
        numpy_helper.from_array(np.ones((1, gates * large, 2), np.float32), "w"),
        numpy_helper.from_array(np.ones((1, gates * large, large), np.float32), "r"),
        numpy_helper.from_array(np.array(0.5, np.float32), "half"),
        numbers("axis", 1, dtype=np.int64),
        numbers("swapped", 2, -1, 2, dtype=np.int64),
        numpy_helper.from_array(np.array(2), "twice"),
        numpy_helper.from_array(np.array(0), "none"),
        numpy_helper.from_array(np.array(1), "one"),
    ]

    def node(reads, makes):
        return helper.make_node(op, [reads, "w", "r"], [makes], "recurrent", hidden_size=large)

    def body(nodes, inputs, outputs):
        return helper.make_graph(nodes, "body", inputs, [value(name, None, of) for name, of in outputs])

    choice = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Less", ["half", "sum"] if within == "If over" else ["sum", "half"], ["c"]),
    ]
    if within in ("If", "If over"):
        branches = {
            "then_branch": body([node("n", "i")], [], [("i", F32)]),
            "else_branch": body([helper.make_node("Unsqueeze", ["n", "axis"], ["o"])], [], [("o", F32)]),
        }
        nodes = [*choice, helper.make_node("If", ["c"], ["y"], "choice", **branches)]
    elif within == "Loop":
        kept = helper.make_node("Identity", ["g"], ["g_out"])
        counted = [value("k", (), TensorProto.INT64), value("g", (), TensorProto.BOOL)]
        inner = body([kept, node("n", "i")], counted, [("g_out", TensorProto.BOOL), ("i", F32)])
        nodes = [*choice, helper.make_node("Loop", ["twice", "c"], ["y"], "loop", body=inner)]
    elif within == "Scan":
        integers = [value("s", (), TensorProto.INT64)]
        inner = body([node("n", "i"), helper.make_node("Neg", ["s"], ["t"])], integers,
                     [("i", F32), ("t", TensorProto.INT64)])  # fmt: skip
        nodes = [
            *choice,
            helper.make_node("Cast", ["c"], ["more"], to=TensorProto.INT64),
            helper.make_node("Add", ["one", "more"], ["count"]),
            helper.make_node("Range", ["none", "count", "one"], ["steps"]),
            helper.make_node("Scan", ["steps"], ["y", "z"], "scan", body=inner, num_scan_inputs=1),
        ]
    elif within == "Reshape":
        nodes = [helper.make_node("Reshape", ["n", "swapped"], ["s"], "reshape"), node("s", "y")]
    else:
        nodes = [node("n", "y")]
    graph = helper.make_graph([NEGATE, *nodes], "recurrent", [value("x", dims)], [value("y", None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "recurrent.onnx")
    return folder / "recurrent.onnx"


@pytest.mark.parametrize("dims", [("steps", "n", 2), (None, None, 2), (2, 0, 2)])
@pytest.mark.parametrize("op", RECURRENT)
def test_a_batch_of_no_sequences_is_refused_by_name(penstock, tmp_path, op, dims):
    """ONNX Runtime ends the process there."""
    np.savez(tmp_path / "frame.npz", x=np.zeros((2, 0, 2), np.float32))
    refused = penstock("run", recurrent(tmp_path, op, dims), "--inputs", "frame.npz", "-o", "out.npz")
    assert refused.code == 1, refused
    assert f"node 'recurrent' ({op}): ONNX Runtime ends the process on a batch without sequences" in refused.err
    assert "'n' f32[2,0,2]" in refused.err or "found f32[2,0,2]" in refused.err


@pytest.mark.parametrize("within", ["If", "Loop", "Scan", "Reshape"])
@pytest.mark.parametrize("op", RECURRENT)
def test_so_it_is_where_only_the_run_tells(computes_the_same, penstock, well, tmp_path, op, within):
    file = recurrent(tmp_path, op, ("steps", "n", 2), within)
    computes_the_same(file, {"x": np.full((3, 4, 2), -1, np.float32)})
    np.savez(tmp_path / "empty.npz", x=np.zeros((2, 0, 2), np.float32))
    for target in [file, "cut.penstock"]:
        refused = penstock("run", target, "--inputs", "empty.npz", "-o", "out.npz")
        assert refused.code == 1, refused
        assert f"node 'recurrent' ({op}): ONNX Runtime ends the process on a batch without sequences" in refused.err
        assert "leave such frames out" in refused.err


def test_a_frame_that_is_refused_there_runs_once(penstock, well, tmp_path):
    """Counted by random numbers, of which each run draws one."""
    model = onnx.load(recurrent(tmp_path, "LSTM", ("steps", "n", 2), "Reshape"))
    (reshape,) = [node for node in model.graph.node if node.op_type == "Reshape"]
    reshape.input[0] = "shifted"
    model.graph.node.insert(0, helper.make_node("RandomUniform", [], ["drawn"], "draw", seed=1.0, shape=[1]))
    model.graph.node.insert(2, helper.make_node("Add", ["n", "drawn"], ["shifted"], "shift"))
    model.graph.output.append(value("drawn", (1,)))
    onnx.save(model, tmp_path / "counted.onnx")
    good, empty = np.ones((3, 4, 2), np.float32), np.zeros((2, 0, 2), np.float32)
    np.savez(tmp_path / "good.npz", **{"0/x": good, "1/x": good})
    np.savez(tmp_path / "refused.npz", **{"0/x": empty, "1/x": good})
    well("split", "counted.onnx", "-o", "counted.penstock")  # One instance, which draws all numbers.
    well("run", "counted.penstock", "--inputs", "good.npz", "-o", "good_out.npz")
    refused = penstock("run", "counted.penstock", "--inputs", "refused.npz", "-o", "refused_out.npz")
    assert refused.code == 1 and "ends the process on a batch without sequences" in refused.err, refused
    with np.load(tmp_path / "good_out.npz") as expected, np.load(tmp_path / "refused_out.npz") as made:
        np.testing.assert_array_equal(made["000001/drawn"], expected["000001/drawn"])


def test_shapes_that_a_loops_body_tells_are_not_believed(computes_the_same, penstock, tmp_path):
    """Of a batch that it says is 3, the process ended where it was 0."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["g"], ["g_out"]),
            helper.make_node("Neg", ["s"], ["next"]),
            helper.make_node("LSTM", ["next", "w", "r"], ["i"], "recurrent", hidden_size=3),
        ],
        "body",
        [value("k", (), TensorProto.INT64), value("g", (), TensorProto.BOOL), value("s", (2, 3, 2))],
        [value("g_out", (), TensorProto.BOOL), value("next", (2, 3, 2)), value("i", (2, 1, 3, 3))],
    )
    nodes = [NEGATE, helper.make_node("Loop", ["count", "", "n"], ["last", "y"], "loop", body=body)]
    weights = [
        numpy_helper.from_array(np.ones((1, 12, 2), np.float32), "w"),
        numpy_helper.from_array(np.ones((1, 12, 3), np.float32), "r"),
    ]
    ends = [value("x", ("t", "b", 2)), value("count", (), TensorProto.INT64)], [value("y", None)]
    model = helper.make_model(
        helper.make_graph(nodes, "told", *ends, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, tmp_path / "told.onnx")
    frame = {"x": np.ones((4, 2, 2), np.float32), "count": np.array(2)}
    computes_the_same(tmp_path / "told.onnx", frame)
    np.savez(tmp_path / "empty.npz", x=np.zeros((2, 0, 2), np.float32), count=np.array(2))
    refused = penstock("run", "told.onnx", "--inputs", "empty.npz", "-o", "out.npz")
    assert refused.code == 1, refused
    assert "node 'recurrent' (LSTM): ONNX Runtime ends the process on a batch without sequences" in refused.err


def test_so_it_is_of_onnx_runtimes_own_quantised_one(penstock, tmp_path):
    weights = [
        numpy_helper.from_array(np.ones((1, 2, 12), np.int8), "w"),
        numpy_helper.from_array(np.ones((1, 3, 12), np.int8), "r"),
        numbers("scale", 1),
        numbers("zero", 0, dtype=np.int8),
    ]
    reads = ["n", "w", "r", "", "", "", "", "", "scale", "zero", "scale", "zero"]
    node = helper.make_node("DynamicQuantizeLSTM", reads, ["y"], "recurrent", domain="com.microsoft", hidden_size=3)
    graph = helper.make_graph([NEGATE, node], "recurrent", [value("x", ("steps", "n", 2))], [value("y", None)], weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "quantised.onnx")
    np.savez(tmp_path / "frame.npz", x=np.zeros((2, 0, 2), np.float32))
    refused = penstock("run", "quantised.onnx", "--inputs", "frame.npz", "-o", "out.npz")
    assert refused.code == 1, refused
    assert "node 'recurrent' (DynamicQuantizeLSTM): ONNX Runtime ends the process on a batch" in refused.err


def test_a_branch_may_keep_a_batch_of_no_sequences_off(computes_the_same, tmp_path):
    file = recurrent(tmp_path, "LSTM", ("steps", "n", 2), "If over")
    computes_the_same(file, {"x": np.zeros((2, 0, 2), np.float32)})


def test_a_batch_of_sequences_runs(computes_the_same, tmp_path):
    file = recurrent(tmp_path, "GRU", ("steps", "n", 2))
    computes_the_same(file, {"x": np.ones((2, 3, 2), np.float32)})


def test_an_operator_set_that_is_too_new_asks_for_no_library(penstock, tmp_path):
    file = save(tmp_path, [NEGATE, ADD], [W], opsets=[("", 99)])
    cut, built = ["split", file, "--cut", "#0", "-o", "s"], ["build", file, "--budget", "1s", "-o", "p"]
    for command in (["run", file], built, cut):
        said = penstock(*command).err
        assert "knows none above" in said
        assert "--custom-ops" not in said


def test_no_trace_takes_the_place_of_a_folder(penstock, tmp_path):
    """Told before the frames run, not after the last."""
    (tmp_path / "trace").mkdir()
    refused = penstock("run", save(tmp_path, [NEGATE, ADD], [W]), "--trace", "trace", "--frames", "1")
    assert refused.error == "--trace 'trace': cannot be written: it is a folder; give a file's name"
    assert refused.out == ""


def test_a_network_without_inputs_says_so(penstock, tmp_path):
    np.savez(tmp_path / "frame.npz", x=FRAME)
    nodes = [helper.make_node("Constant", [], ["n"], value=numbers("n", 1, 2, 3, 4)), ADD]
    file = save(tmp_path, nodes, [numbers("x", 1), W], inputs=[value("x", [1])])
    assert "array 'x': the network has no inputs" in penstock("run", file, "--inputs", "frame.npz").error


def test_verify_says_what_frames_without_elements_leave_open(penstock, well, tmp_path):
    nodes = [NEGATE, helper.make_node("ReduceSum", ["n"], ["y"], "sum", keepdims=0)]
    graph = helper.make_graph(nodes, "odd", [value("x", (0, 4))], [value("y", ())])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "empty.onnx")
    well("split", tmp_path / "empty.onnx", "--cut", "negate", "-o", "empty.penstock")
    verdict = penstock("verify", "empty.penstock")
    assert verdict.code == 3
    assert "output 'y': the inputs hold no elements, so that no frame differs from another one" in verdict.err


@pytest.mark.parametrize("target", ["out.npz", "out", "out.jsonl"])
def test_an_output_that_stands_twice_is_written_once(well, tmp_path, target):
    outputs = [value("y"), value("w", (4,)), value("y"), value("w", (4,))]
    graph = helper.make_graph([NEGATE, ADD], "odd", [value("x")], outputs, [W])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "frame.npz", x=FRAME)
    well("run", "m.onnx", "--inputs", "frame.npz", "-o", target)
    if target == "out.npz":
        with np.load(tmp_path / target) as made:
            assert sorted(made.files) == ["w", "y"]
            np.testing.assert_array_equal(made["y"], numpy_helper.to_array(W) - FRAME)
