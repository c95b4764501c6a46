"""Writes the small ONNX models that C++ tests read: one file per behaviour under test.

Usage: make_test_models.py FOLDER
"""

import itertools
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32 = TensorProto.FLOAT
I64 = TensorProto.INT64
STRING = TensorProto.STRING


def value(name, dtype, dims):
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes, inputs, outputs, weights=(), opset=18, domains=()):
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializer=list(weights))
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def weight(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def conv_relu():
    """y = relu(conv(x, w)), 1x4x16x16, seeded weights."""
    w = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], "relu1"),
    ]
    io = [1, 4, 16, 16]
    return model(nodes, [value("x", F32, io)], [value("y", F32, io)], [weight("w", w)])


def add():
    """sum = a + b, product = a * b, both 2x3."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], "add1"),
        helper.make_node("Mul", ["a", "b"], ["product"], "mul1"),
    ]
    inputs = [value("a", F32, [2, 3]), value("b", F32, [2, 3])]
    return model(nodes, inputs, [value("sum", F32, [2, 3]), value("product", F32, [2, 3])])


def dynamic_batch():
    """y = 2 * x, with an open first dimension "n"."""
    nodes = [helper.make_node("Add", ["x", "x"], ["y"], "double")]
    return model(nodes, [value("x", F32, ["n", 3])], [value("y", F32, ["n", 3])])


def lying_shape():
    """Declares y as n x 3 and yields 2n x 3."""
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], "twice", axis=0)]
    return model(nodes, [value("x", F32, ["n", 3])], [value("y", F32, ["n", 3])])


def count_to():
    """y = 0, 1, ... n - 1; declares that n is 3."""
    nodes = [helper.make_node("Range", ["zero", "n", "one"], ["y"], "range1")]
    ends = [weight("zero", np.array(0, np.int64)), weight("one", np.array(1, np.int64))]
    return model(nodes, [value("n", I64, [])], [value("y", I64, [3])], ends)


def nonzero():
    """The shape of y depends on the values of x."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"], "nonzero1")]
    return model(nodes, [value("x", F32, [4])], [value("y", I64, [1, "count"])])


def undeclared():
    """y = x as rows of two; the file does not say the shape of y."""
    nodes = [helper.make_node("Reshape", ["x", "rows"], ["y"], "reshape1")]
    rows = weight("rows", np.array([-1, 2], np.int64))
    return model(nodes, [value("x", F32, ["n"])], [value("y", F32, None)], [rows])


def scalar():
    """y = sum of x, of rank 0."""
    nodes = [helper.make_node("ReduceSum", ["x"], ["y"], "sum1", keepdims=0)]
    return model(nodes, [value("x", F32, [4])], [value("y", F32, [])])


def gather():
    """y = table[i]; an index past the end fails at run time."""
    nodes = [helper.make_node("Gather", ["table", "i"], ["y"], "gather1")]
    table = weight("table", np.arange(5, dtype=np.float32))
    return model(nodes, [value("i", I64, [1])], [value("y", F32, [1])], [table])


def strings():
    """y = x with "!" behind each string."""
    nodes = [helper.make_node("StringConcat", ["x", "mark"], ["y"], "concat1")]
    mark = helper.make_tensor("mark", STRING, [1], [b"!"])
    return model(nodes, [value("x", STRING, ["n"])], [value("y", STRING, ["n"])], [mark], opset=20)


def sequence():
    """out = sequence with x inserted at its end; last = the length of out."""
    seq = helper.make_tensor_sequence_value_info
    nodes = [
        helper.make_node("SequenceInsert", ["in", "x"], ["out"], "insert"),
        helper.make_node("SequenceLength", ["out"], ["length"], "length"),
    ]
    inputs = [seq("in", F32, None), value("x", F32, [2])]
    return model(nodes, inputs, [seq("out", F32, None), value("length", I64, [])])


def optional():
    """present = whether the optional x has a value; y = x, still optional."""
    tensor = helper.make_tensor_type_proto(F32, [2])
    kind = helper.make_optional_type_proto(tensor)
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["present"], "has"),
        helper.make_node("Identity", ["x"], ["y"], "same"),
    ]
    inputs = [helper.make_value_info("x", kind)]
    outputs = [value("present", TensorProto.BOOL, []), helper.make_value_info("y", kind)]
    return model(nodes, inputs, outputs)


def bf16():
    """y = x reshaped, in bfloat16."""
    nodes = [helper.make_node("Flatten", ["x"], ["y"], "flatten1", axis=0)]
    kind = TensorProto.BFLOAT16
    return model(nodes, [value("x", kind, [2, 2])], [value("y", kind, [1, 4])], opset=13)


def empty():
    """y = x, without elements."""
    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu1")]
    return model(nodes, [value("x", F32, [0, 3])], [value("y", F32, [0, 3])])


def denormal():
    """y = x * 1e-39: a denormal unless these are flushed."""
    nodes = [helper.make_node("Mul", ["x", "tiny"], ["y"], "mul1")]
    tiny = weight("tiny", np.array([1e-39], np.float32))
    return model(nodes, [value("x", F32, [1])], [value("y", F32, [1])], [tiny])


def long_loop():
    """y = x + n, one at a time: long enough to be cancelled."""
    add_one = helper.make_graph(
        [
            helper.make_node("Add", ["before", "one"], ["after"], "add1"),
            helper.make_node("Identity", ["go"], ["go_on"], "go1"),
        ],
        "body",
        [value("i", I64, []), value("go", TensorProto.BOOL, []), value("before", F32, [1])],
        [value("go_on", TensorProto.BOOL, []), value("after", F32, [1])],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y"], "loop1", body=add_one)]
    one = weight("one", np.ones(1, np.float32))
    return model(nodes, [value("n", I64, []), value("x", F32, [1])], [value("y", F32, [1])], [one])


def long_chain():
    """y = x times a matrix, 300 times over: long enough to be cancelled between two nodes."""
    names = ["x", *(f"t{i}" for i in range(299)), "y"]
    w = weight("w", np.full((256, 256), 1 / 256, dtype=np.float32))
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in itertools.pairwise(names)]
    io = [256, 256]
    return model(nodes, [value("x", F32, io)], [value("y", F32, io)], [w])


def open_scan():
    """h after each row of x[t,1,4] is tanh(x + h / 4): its last one, and the rows' mean."""
    w = weight("w", np.full((4, 4), 1 / 4, np.float32))
    nodes = [
        helper.make_node("MatMul", ["h", "w"], ["mixed"]),
        helper.make_node("Add", ["row", "mixed"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["next"]),
        helper.make_node("Identity", ["next"], ["kept"]),
    ]
    io = [1, 4]
    ends = [value("h", F32, io), value("row", F32, io)], [value("next", F32, io), value("kept", F32, io)]
    body = helper.make_graph(nodes, "body", *ends)
    nodes = [
        helper.make_node("Scan", ["zero", "x"], ["last", "all"], body=body, num_scan_inputs=1),
        helper.make_node("ReduceMean", ["all", "first"], ["mean"], keepdims=0),
        helper.make_node("MatMul", ["mean", "w"], ["y"]),
    ]
    weights = [w, weight("zero", np.zeros(io, np.float32)), weight("first", np.zeros(1, np.int64))]
    outputs = [value("y", F32, io), value("last", F32, io)]
    return model(nodes, [value("x", F32, ["t", 1, 4])], outputs, weights)


def unknown_operator():
    nodes = [helper.make_node("Swish", ["x"], ["y"], "swish_3", domain="acme")]
    return model(nodes, [value("x", F32, [1])], [value("y", F32, [1])], domains=["acme"])


def merged_names():
    """Outputs that an engine may compute as one tensor: copies, an input, a constant."""
    nodes = [
        helper.make_node("Identity", ["x"], ["copy"]),
        helper.make_node("Identity", ["copy"], ["same"]),
        helper.make_node("Relu", ["copy"], ["kept"]),
        helper.make_node("Dropout", ["kept"], ["also"]),
        helper.make_node("Constant", [], ["constant"], value_floats=[5.0, 6.0]),
    ]
    outputs = [value(name, F32, [2]) for name in ["same", "x", "kept", "also", "constant"]]
    return model(nodes, [value("x", F32, [2]), value("unused", F32, [1])], outputs)


def dropped_input():
    """y = x in the type of like, whose values nothing reads."""
    nodes = [helper.make_node("CastLike", ["x", "like"], ["y"])]
    i32 = TensorProto.INT32
    return model(nodes, [value("x", F32, [2]), value("like", i32, [1])], [value("y", i32, [2])], opset=19)


def plain_types():
    """Each input transposed, in every type that is a plain number."""
    names = "BOOL UINT8 INT8 UINT16 INT16 UINT32 INT32 UINT64 INT64 FLOAT16 BFLOAT16 FLOAT DOUBLE"
    nodes, inputs, outputs = [], [], []
    for name in names.split():
        kind = getattr(TensorProto, name)
        nodes.append(helper.make_node("Transpose", [name], ["t" + name]))
        inputs.append(value(name, kind, [2, 3]))
        outputs.append(value("t" + name, kind, [3, 2]))
    return model(nodes, inputs, outputs)


def thirds():
    """y = sum of 3 * x: wrong in the third digit where it is computed in bfloat16."""
    w = weight("w", np.full((64, 16), 3, dtype=np.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, [value("x", F32, [1, 64])], [value("y", F32, [1, 16])], [w])


def external():
    """y = x + w, w in a file beside the model."""
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], "add1")]
    w = weight("w", np.arange(64, dtype=np.float32))
    return model(nodes, [value("x", F32, [64])], [value("y", F32, [64])], [w])


MODELS = [
    add,
    bf16,
    conv_relu,
    count_to,
    denormal,
    dropped_input,
    dynamic_batch,
    empty,
    gather,
    long_chain,
    long_loop,
    lying_shape,
    merged_names,
    nonzero,
    open_scan,
    optional,
    plain_types,
    scalar,
    sequence,
    strings,
    thirds,
    undeclared,
    unknown_operator,
]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        onnx.save(make(), folder / f"{make.__name__}.onnx")
    (folder / "external.weights").unlink(missing_ok=True)
    onnx.save(
        external(),
        folder / "external.onnx",
        save_as_external_data=True,
        location="external.weights",
        size_threshold=0,
    )
    (folder / "junk.onnx").write_bytes(b"this is no model" * 8)


if __name__ == "__main__":
    main()
