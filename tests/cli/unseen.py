"""Networks that nothing was tuned for: nested control flow, saturated and integer outputs, states, odd names.

Each function saves one network, and returns it with frames as they come in use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, I32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
FRAMES = 5


class Unseen(NamedTuple):
    file: Path
    frames: list[dict[str, np.ndarray]]
    options: tuple[str, ...] = ()
    random_is_saturated: bool = False  # Then a judge cannot tell frames apart, or its reference jumps.


NETWORKS: dict[str, Callable[[Path], Unseen]] = {}


def network(make):
    NETWORKS[make.__name__] = make
    return make


def value(name, dims=None, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, dims)


def op(kind, inputs, outputs, **attributes):
    """`inputs` and `outputs` are names with blanks between; the node has the first output's name."""
    made = outputs.split()
    return helper.make_node(kind, inputs.split(), made, f"make_{made[0]}", **attributes)


def body(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", inputs, outputs)


def weights_of(seed: int, *shape: int, scale: float = 1) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return (drawn * scale / np.sqrt(max(1, shape[0]))).astype(np.float32)


def save(folder: Path, nodes, inputs, outputs, weights, opset: int = 17, domains: tuple[str, ...] = ()) -> Path:
    """`weights` are arrays by name, or tensors of types that numpy lacks; `domains` of operators beside ONNX's."""
    tensors = [
        array if isinstance(array, TensorProto) else numpy_helper.from_array(np.asarray(array), key)
        for key, array in weights.items()
    ]
    graph = helper.make_graph(nodes, "unseen", inputs, outputs, tensors)
    ir_version = 8 if opset == 17 else 10
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    onnx.save(model, folder / "unseen.onnx")
    return folder / "unseen.onnx"


def drawn(*shape: int, count: int = FRAMES, name: str = "x", **others: Callable[[int], np.ndarray]):
    """Frames of normal values; `others` makes what else is in frame i."""
    random = np.random.default_rng(7)
    return [
        {name: random.standard_normal(shape).astype(np.float32)} | {key: make(i) for key, make in others.items()}
        for i in range(count)
    ]


@network
def branches_in_branches(folder: Path) -> Unseen:
    """A mode chooses a branch, in which the values of the frame choose another; both read values from outside."""
    left = body([op("MatMul", "h w1", "l0"), op("Relu", "l0", "l")], [], [value("l")])
    right = body([op("MatMul", "h w2", "r0"), op("Tanh", "r0", "r")], [], [value("r")])
    inner = [
        op("ReduceMean", "h", "mean", keepdims=0),
        op("Greater", "mean zero", "positive"),
        op("If", "positive", "chosen", then_branch=left, else_branch=right),
        op("Add", "chosen h", "added"),
    ]
    outer = body(inner, [], [value("added")]), body([op("Neg", "h", "negated")], [], [value("negated")])
    nodes = [
        op("MatMul", "x w0", "h"),
        op("Equal", "mode one", "is_one"),
        op("If", "is_one", "k", then_branch=outer[0], else_branch=outer[1]),
        op("MatMul", "k w3", "logits"),
        op("Sigmoid", "logits", "y"),
    ]
    weights = {f"w{i}": weights_of(i, 16, 16) for i in range(3)}
    weights |= {"w3": weights_of(3, 16, 4), "zero": np.float32(0), "one": np.int64(1)}
    file = save(folder, nodes, [value("x", [1, 16]), value("mode", [], I64)], [value("y", [1, 4])], weights)
    return Unseen(file, drawn(1, 16, mode=lambda i: np.array(i % 2)))


@network
def as_many_turns_as_asked(folder: Path) -> Unseen:
    turn = [
        op("MatMul", "before wl", "mixed"),
        op("Tanh", "mixed", "after"),
        op("ReduceSum", "after", "sum", keepdims=0),
        op("Identity", "go_on", "goes_on"),
    ]
    ends = [value("i", [], I64), value("go_on", [], BOOL), value("before", [1, 8])]
    loop = body(turn, ends, [value("goes_on", [], BOOL), value("after", [1, 8]), value("sum", [])])
    nodes = [
        op("MatMul", "x w0", "h"),
        op("Loop", "n yes h", "last sums", body=loop),
        op("MatMul", "last w1", "y"),
        op("Exp", "sums", "grown"),
    ]
    weights = {"w0": weights_of(0, 8, 8), "wl": weights_of(1, 8, 8), "w1": weights_of(2, 8, 3), "yes": np.bool_(True)}
    outputs = [value("y", [1, 3]), value("grown", ["n"])]
    file = save(folder, nodes, [value("x", [1, 8]), value("n", [], I64)], outputs, weights)
    return Unseen(file, drawn(1, 8, n=lambda i: np.array(i + 1)))


@network
def boxes_of_nearly_one_score(folder: Path) -> Unseen:
    """Scores near 1 differ in their last bits: what is picked, and in which order, rounding decides."""
    nodes = [
        op("Conv", "x wc", "c", strides=[4, 4]),
        op("Relu", "c", "h"),
        op("Conv", "h wb", "b0"),
        op("Reshape", "b0 four_rows", "b1"),
        op("Transpose", "b1", "b2", perm=[0, 2, 1]),
        op("Sigmoid", "b2", "boxes"),
        op("Conv", "h ws", "s0"),
        op("Reshape", "s0 two_rows", "s1"),
        op("Sigmoid", "s1", "scores"),
        op("NonMaxSuppression", "boxes scores most overlap least", "chosen"),
        op("Slice", "chosen two three one", "places0"),
        op("Squeeze", "places0 one", "places"),
        op("Squeeze", "boxes zero", "flat"),
        op("Gather", "flat places", "picked"),
    ]
    weights = {
        "wc": weights_of(0, 8, 3, 4, 4, scale=1),
        "wb": weights_of(1, 4, 8, 1, 1, scale=4),
        "ws": weights_of(2, 2, 8, 1, 1, scale=4),
        "four_rows": np.array([1, 4, -1]),
        "two_rows": np.array([1, 2, -1]),
        "most": np.array([10]),
        "overlap": np.array([0.3], np.float32),
        "least": np.array([0.4], np.float32),
        **{name: np.array([number]) for number, name in enumerate(("zero", "one", "two", "three"))},
    }
    outputs = [value("picked", ["k", 4]), value("chosen", ["k", 3], I64)]
    file = save(folder, nodes, [value("x", [1, 3, 32, 32])], outputs, weights)
    random = np.random.default_rng(5)
    frames = [{"x": random.random((1, 3, 32, 32), np.float32)} for _ in range(FRAMES)]
    return Unseen(file, frames, random_is_saturated=True)


@network
def lists_of_tensors(folder: Path) -> Unseen:
    nodes = [
        op("MatMul", "x w0", "h"),
        op("SplitToSequence", "h two", "parts", axis=1),
        op("SequenceAt", "parts one", "a"),
        op("Tanh", "a", "t"),
        op("SequenceInsert", "parts t", "more"),
        op("ConcatFromSequence", "more", "joined", axis=1),
        op("MatMul", "joined w1", "y"),
    ]
    weights = {"w0": weights_of(0, 8, 8), "w1": weights_of(1, 10, 3), "two": np.int64(2), "one": np.int64(1)}
    return Unseen(save(folder, nodes, [value("x", [1, 8])], [value("y", [1, 3])], weights), drawn(1, 8))


@network
def lists_of_one_length(folder: Path) -> Unseen:
    """How many tensors there are is told, which no frame changes."""
    nodes = [
        op("SplitToSequence", "x sizes", "parts", axis=0),
        op("SequenceAt", "parts i", "one"),
        op("SequenceInsert", "parts one", "more"),
        op("SequenceLength", "more", "count"),
        op("ConcatFromSequence", "more", "joined", axis=1),
        op("MatMul", "joined w", "y"),
        op("Optional", "one", "maybe"),
        op("OptionalHasElement", "maybe", "is_there"),
    ]
    weights = {"sizes": np.array([1, 1, 1, 1]), "w": weights_of(0, 30, 4)}
    inputs = [value("x", [4, 6]), value("i", [], I64)]
    outputs = [value("y", [1, 4]), value("count", [], I64), value("is_there", [], BOOL)]
    file = save(folder, nodes, inputs, outputs, weights)
    return Unseen(file, drawn(4, 6, i=lambda number: np.array(number % 4)))


@network
def what_may_be_missing(folder: Path) -> Unseen:
    nodes = [
        op("MatMul", "x w0", "h"),
        op("Optional", "h", "maybe"),
        op("OptionalHasElement", "maybe", "there"),
        op("OptionalGetElement", "maybe", "got"),
        op("Where", "there got x", "either"),
        op("Relu", "either", "y"),
    ]
    file = save(folder, nodes, [value("x", [1, 8])], [value("y", [1, 8])], {"w0": weights_of(0, 8, 8)})
    return Unseen(file, drawn(1, 8))


@network
def ids_and_a_mask(folder: Path) -> Unseen:
    """A layer of attention over as many tokens as there come."""
    nodes = [
        op("Gather", "words input_ids", "e0"),
        op("Gather", "kinds token_type_ids", "e1"),
        op("Shape", "input_ids", "sizes"),
        op("Gather", "sizes one", "length"),
        op("Range", "zero length one", "places"),
        op("Gather", "positions places", "e2"),
        op("Add", "e0 e1", "e3"),
        op("Add", "e3 e2", "e"),
        op("LayerNormalization", "e ones zeros", "n"),
        op("MatMul", "n wq", "q"),
        op("MatMul", "n wk", "k0"),
        op("MatMul", "n wv", "v"),
        op("Transpose", "k0", "k", perm=[0, 2, 1]),
        op("MatMul", "q k", "s0"),
        op("Cast", "attention_mask", "m0", to=F32),
        op("Sub", "onef m0", "m1"),
        op("Mul", "m1 far", "m2"),
        op("Unsqueeze", "m2 axis", "m"),
        op("Add", "s0 m", "s"),
        op("Softmax", "s", "p", axis=-1),
        op("MatMul", "p v", "c"),
        op("Add", "c n", "hidden"),
        op("Gather", "hidden zero", "first", axis=1),
        op("MatMul", "first wc", "logits"),
    ]
    weights = {name: weights_of(i, 16, 16) for i, name in enumerate(("wq", "wk", "wv"))}
    weights |= {"words": weights_of(3, 100, 16, scale=10), "kinds": weights_of(4, 2, 16)}
    weights |= {"positions": weights_of(5, 32, 16, scale=5), "wc": weights_of(6, 16, 2)}
    weights |= {"ones": np.ones(16, np.float32), "zeros": np.zeros(16, np.float32), "axis": np.array([1])}
    weights |= {"zero": np.int64(0), "one": np.int64(1), "onef": np.float32(1), "far": np.float32(-1e4)}
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [value(name, ["batch", "length"], I64) for name in names]
    outputs = [value("logits", ["batch", 2]), value("hidden", ["batch", "length", 16])]
    random, frames = np.random.default_rng(8), []
    for length in (4, 7, 12, 5, 9):
        mask = (np.arange(length) < length - 2).astype(np.int64)[None]
        frames.append(dict(zip(names, (random.integers(0, 100, (1, length)), mask, 0 * mask), strict=True)))
    return Unseen(save(folder, nodes, inputs, outputs, weights), frames)


@network
def only_integers_come_out(folder: Path) -> Unseen:
    nodes = [
        op("MatMul", "x w0", "h"),
        op("Relu", "h", "r"),
        op("MatMul", "r w1", "logits"),
        op("ArgMax", "logits", "best", axis=1, keepdims=0),
        op("TopK", "logits three", "values first"),
    ]
    weights = {"w0": weights_of(0, 32, 64), "w1": weights_of(1, 64, 20), "three": np.array([3])}
    outputs = [value("best", ["b"], I64), value("first", ["b", 3], I64)]
    return Unseen(save(folder, nodes, [value("x", ["b", 32])], outputs, weights), drawn(4, 32))


@network
def eight_bits(folder: Path) -> Unseen:
    random = np.random.default_rng(0)

    def bytes_of(*shape: int) -> np.ndarray:
        return random.integers(-127, 127, shape).astype(np.int8)

    nodes = [
        op("QuantizeLinear", "x sx middle", "q"),
        op("QLinearConv", "q sx middle w sw none sy middle", "c", pads=[1] * 4),
        op("DequantizeLinear", "c sy middle", "d"),
        op("Relu", "d", "r"),
        op("DynamicQuantizeLinear", "r", "q2 s2 z2"),
        op("ConvInteger", "q2 w2 z2", "i"),
        op("Cast", "i", "f", to=F32),
        op("Mul", "f s2", "m"),
        op("GlobalAveragePool", "m", "g"),
        op("Flatten", "g", "l"),
        op("QuantizeLinear", "l so middle", "y"),
    ]
    scales = {name: np.float32(scale) for name, scale in (("sx", 0.01), ("sw", 0.01), ("sy", 0.05), ("so", 0.5))}
    weights = scales | {"w": bytes_of(8, 3, 3, 3), "w2": bytes_of(6, 8, 1, 1)}
    weights |= {"middle": np.uint8(128), "none": np.int8(0)}
    outputs = [value("y", [1, 6], TensorProto.UINT8), value("c", [1, 8, 12, 12], TensorProto.UINT8)]
    file = save(folder, nodes, [value("x", [1, 3, 12, 12])], outputs, weights)
    return Unseen(file, drawn(1, 3, 12, 12))


@network
def weights_of_four_bits(folder: Path) -> Unseen:
    nodes, weights, last = [], {}, "x"
    for i in range(2):
        drawn_bits = np.random.default_rng(i).integers(-8, 8, 64 * 64)
        weights[f"q{i}"] = helper.make_tensor(f"q{i}", TensorProto.INT4, [64, 64], drawn_bits.tolist())
        weights[f"s{i}"] = np.abs(weights_of(i, 4, 64, scale=0.05)) + np.float32(0.01)
        nodes += [
            op("DequantizeLinear", f"q{i} s{i}", f"w{i}", axis=0, block_size=16),
            op("MatMul", f"{last} w{i}", f"p{i}"),
            op("Tanh", f"p{i}", f"t{i}" if i == 0 else "y"),
        ]
        last = f"t{i}"
    file = save(folder, nodes, [value("x", [1, "s", 64])], [value("y", [1, "s", 64])], weights, opset=21)
    return Unseen(file, drawn(1, 3, 64))


@network
def four_bits_between_two_nodes(folder: Path) -> Unseen:
    nodes = [
        op("MatMul", "x w", "m"),
        op("QuantizeLinear", "m step middle", "q"),
        op("DequantizeLinear", "q step middle", "d"),
        op("Tanh", "d", "y"),
    ]
    weights = {"w": weights_of(0, 16, 8), "step": np.float32(0.3)}
    weights |= {"middle": helper.make_tensor("middle", TensorProto.UINT4, [], [8])}
    return Unseen(save(folder, nodes, [value("x", [2, 16])], [value("y", [2, 8])], weights, opset=21), drawn(2, 16))


@network
def texts_and_numbers_of_one_row_each(folder: Path) -> Unseen:
    """Of texts too the frames say how many there are: both are joined."""
    nodes = [
        op("LabelEncoder", "city", "number", domain="ai.onnx.ml", classes_strings=["oslo", "rome"]),
        op("Cast", "number", "known", to=F32),
        op("FeatureVectorizer", "x known", "rows", domain="ai.onnx.ml", inputdimensions=[3, 1]),
        op("MatMul", "rows w", "y"),
    ]
    inputs = [value("x", ["n", 3]), value("city", ["n", 1], TensorProto.STRING)]
    weights = {"w": weights_of(0, 4, 2)}
    file = save(folder, nodes, inputs, [value("y", ["n", 2])], weights, domains=("ai.onnx.ml",))
    cities = np.array([["rome"], ["bern"], ["oslo"]])
    return Unseen(file, drawn(3, 3, city=lambda i: np.roll(cities, i, axis=0)))


@network
def keys_and_values_of_the_past(folder: Path) -> Unseen:
    """A step of a decoder: its places are rows of a short table, its mask is as long as past and step."""
    nodes = [
        op("Shape", "past_k", "past", start=2, end=3),
        op("Squeeze", "past", "first"),
        op("Shape", "mask", "all", start=1, end=2),
        op("Squeeze", "all", "last"),
        op("Range", "first last one", "places"),
        op("Gather", "table places", "rows"),
        op("Add", "x rows", "h"),
        *(op("MatMul", f"h w_{kind}", f"{kind}1") for kind in "qkv"),
        *(op("Unsqueeze", f"{kind}1 at", f"{kind}2") for kind in "qkv"),
        op("Concat", "past_k k2", "k", axis=2),
        op("Concat", "past_v v2", "v", axis=2),
        op("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        op("MatMul", "q2 kt", "scores"),
        op("Unsqueeze", "mask both", "wide"),
        op("Where", "wide scores never", "masked"),
        op("Softmax", "masked", "shares", axis=-1),
        op("MatMul", "shares v", "read"),
        op("Squeeze", "read at", "y"),
    ]
    weights = {f"w_{kind}": weights_of(ord(kind), 8, 8, scale=2) for kind in "qkv"} | {
        "table": weights_of(4, 24, 8, scale=4),
        "one": np.array(1),
        "at": np.array([1]),
        "both": np.array([1, 2]),
        "never": np.float32(-1e4),
    }
    inputs = [value("x", ["b", "s", 8]), value("mask", ["b", "p + s"], TensorProto.BOOL)]
    inputs += [value(f"past_{kind}", ["b", 1, "p", 8]) for kind in "kv"]
    outputs = [value("y", ["b", "s", 8]), value("k", ["b", 1, "t", 8]), value("v", ["b", 1, "t", 8])]
    draw = np.random.default_rng(5)
    frames = [
        {
            "x": draw.standard_normal((1, step, 8)).astype(np.float32),
            "mask": np.ones((1, past + step), bool),
            **{f"past_{kind}": draw.standard_normal((1, 1, past, 8)).astype(np.float32) for kind in "kv"},
        }
        for past, step in [(0, 4), (4, 1), (5, 1), (6, 3)]
    ]
    return Unseen(save(folder, nodes, inputs, outputs, weights), frames)


@network
def saturated_sure_and_unsure(folder: Path) -> Unseen:
    """A mask that is 0 nearly everywhere, and a class of which the network is as good as sure."""
    nodes = [
        op("Conv", "x w0", "c", pads=[1] * 4),
        op("Relu", "c", "r"),
        op("Conv", "r w1 low", "l", pads=[1] * 4),
        op("Sigmoid", "l", "mask"),
        op("GlobalAveragePool", "r", "g"),
        op("Flatten", "g", "f"),
        op("MatMul", "f w2", "logits"),
        op("Mul", "logits many", "sharp"),
        op("Softmax", "sharp", "class"),
    ]
    weights = {"w0": weights_of(0, 8, 3, 3, 3), "w1": weights_of(1, 1, 8, 3, 3), "w2": weights_of(2, 8, 5)}
    weights |= {"low": np.full(1, -30, np.float32), "many": np.float32(20)}
    outputs = [value("mask", [1, 1, 16, 16]), value("class", [1, 5])]
    file = save(folder, nodes, [value("x", [1, 3, 16, 16])], outputs, weights)
    return Unseen(file, drawn(1, 3, 16, 16), random_is_saturated=True)


@network
def a_recurrence_over_open_time(folder: Path) -> Unseen:
    cell = [
        op("MatMul", "row wx", "a"),
        op("MatMul", "h wh", "b"),
        op("Add", "a b", "c"),
        op("Tanh", "c", "next"),
        op("Identity", "next", "kept"),
    ]
    ends = [value("h", [1, 8]), value("row", [1, 4])], [value("next", [1, 8]), value("kept", [1, 8])]
    nodes = [
        op("Scan", "start x", "last all", body=body(cell, *ends), num_scan_inputs=1),
        op("ReduceMean", "all", "mean", axes=[0], keepdims=0),
        op("MatMul", "mean wo", "y"),
    ]
    weights = {"start": np.zeros((1, 8), np.float32), "wx": weights_of(0, 4, 8)}
    weights |= {"wh": weights_of(1, 8, 8), "wo": weights_of(2, 8, 2)}
    outputs = [value("y", [1, 2]), value("last", [1, 8])]
    file = save(folder, nodes, [value("x", ["t", 1, 4])], outputs, weights)
    return Unseen(file, [frame for n in (3, 5, 8, 2, 6) for frame in drawn(n, 1, 4, count=1)])


@network
def sizes_that_values_decide(folder: Path) -> Unseen:
    nodes = [
        op("MatMul", "x w0", "h"),
        op("Greater", "h zero", "above"),
        op("NonZero", "above", "found"),
        op("Transpose", "found", "places", perm=[1, 0]),
        op("GatherND", "h places", "positive"),
        op("Unique", "positive", "u i j counts", sorted=1),
        op("CumSum", "u axis", "y"),
    ]
    weights = {"w0": weights_of(0, 8, 8), "zero": np.float32(0), "axis": np.int64(0)}
    outputs = [value("y", ["k"]), value("counts", ["k"], I64), value("places", ["m", 2], I64)]
    return Unseen(save(folder, nodes, [value("x", [2, 8])], outputs, weights), drawn(2, 8))


@network
def what_passes_through(folder: Path) -> Unseen:
    """An input that is an output, one that nothing reads, a constant, a value between: nothing that touches."""
    nodes = [
        op("Relu", "x", "r"),
        op("Identity", "x", "same"),
        op("Identity", "k", "fixed"),
        op("Neg", "r", "y"),
    ]
    outputs = [value(name, [1, 6]) for name in ("y", "same", "r")] + [value("fixed", [2])]
    inputs = [value("x", [1, 6]), value("unused", [3])]
    file = save(folder, nodes, inputs, outputs, {"k": np.array([1, 2], np.float32)})
    return Unseen(file, drawn(1, 6, unused=lambda _: np.zeros(3, np.float32)))


@network
def names_of_all_kinds(folder: Path) -> Unseen:
    nodes = [
        helper.make_node("MatMul", ["in put:0", "w/0"], ["a/b:0"], "model/dense 1/MatMul"),
        helper.make_node("Relu", ["a/b:0"], ["größe"], "model/dense 1/Relu"),
        helper.make_node("Neg", ["größe"], [".."]),
        helper.make_node("MatMul", ["..", "w/0"], ["out=1,2"], "x=y"),
    ]
    file = save(folder, nodes, [value("in put:0", [1, 8])], [value("out=1,2", [1, 8])], {"w/0": weights_of(0, 8, 8)})
    return Unseen(file, drawn(1, 8, name="in put:0"))


@network
def numbers_far_from_one(folder: Path) -> Unseen:
    nodes = [
        op("MatMul", "x w0", "a"),
        op("Softmax", "a", "s"),
        op("Mul", "s small", "tiny"),
        op("Mul", "x large", "u"),
        op("MatMul", "u w0", "huge"),
    ]
    weights = {"w0": weights_of(0, 64, 64, scale=8), "small": np.float32(1e-20), "large": np.float32(1e25)}
    outputs = [value("tiny", [1, 64]), value("huge", [1, 64])]
    return Unseen(save(folder, nodes, [value("x", [1, 64])], outputs, weights), drawn(1, 64))


@network
def sums_that_cancel(folder: Path) -> Unseen:
    """A mean of 3000 goes, and what is left is scaled up: few digits of it are right in any engine."""
    nodes = [
        op("MatMul", "x w0", "a"),
        op("Add", "a far", "b"),
        op("ReduceMean", "b", "m", axes=[1]),
        op("Sub", "b m", "c"),
        op("Mul", "c c", "d"),
        op("ReduceMean", "d", "v", axes=[1]),
        op("Sqrt", "v", "s"),
        op("Div", "c s", "y"),
    ]
    weights = {"w0": weights_of(0, 256, 256), "far": np.float32(3000)}
    return Unseen(save(folder, nodes, [value("x", [1, 256])], [value("y", [1, 256])], weights), drawn(1, 256))


@network
def no_numbers(folder: Path) -> Unseen:
    nodes = [op("Log", "x", "l"), op("Sqrt", "l", "s"), op("Div", "s x", "y")]
    return Unseen(save(folder, nodes, [value("x", [1, 32])], [value("y", [1, 32])], {}), drawn(1, 32))


@network
def sound_in_whole_numbers(folder: Path) -> Unseen:
    nodes = [
        op("Cast", "pcm", "f", to=F32),
        op("Div", "f full", "x"),
        op("STFT", "x step window", "spectrum", onesided=1),
        op("Mul", "spectrum spectrum", "squares"),
        op("ReduceSum", "squares last", "power", keepdims=0),
        op("Add", "power little", "some"),
        op("Log", "some", "log"),
        op("MatMul", "log mel", "y"),
    ]
    weights = {"full": np.float32(32768), "step": np.int64(64), "window": np.hanning(128).astype(np.float32)}
    weights |= {"last": np.array([3]), "little": np.float32(1e-9), "mel": np.abs(weights_of(0, 65, 8))}
    inputs, outputs = [value("pcm", [1, 512, 1], TensorProto.INT16)], [value("y", [1, "t", 8])]
    random = np.random.default_rng(9)
    frames = [{"pcm": random.integers(-20000, 20000, (1, 512, 1)).astype(np.int16)} for _ in range(FRAMES)]
    return Unseen(save(folder, nodes, inputs, outputs, weights), frames)


@network
def states_and_a_count(folder: Path) -> Unseen:
    """The first frame goes another way than those behind it."""
    first = body([op("Identity", "f", "begun")], [], [value("begun")])
    later = body([op("Mul", "h decay", "less"), op("Add", "less f", "more")], [], [value("more")])
    nodes = [
        op("MatMul", "x w0", "e"),
        op("Relu", "e", "f"),
        op("Equal", "n zero", "is_first"),
        op("If", "is_first", "h_out", then_branch=first, else_branch=later),
        op("Add", "n one", "n_out"),
        op("MatMul", "h_out w1", "logits"),
        op("Softmax", "logits", "y"),
    ]
    weights = {"w0": weights_of(0, 8, 8), "w1": weights_of(1, 8, 4), "decay": np.float32(0.9)}
    weights |= {"zero": np.int64(0), "one": np.int64(1)}
    inputs = [value("x", [1, 8]), value("h", [1, 8]), value("n", [], I64)]
    outputs = [value("y", [1, 4]), value("h_out", [1, 8]), value("n_out", [], I64)]
    file = save(folder, nodes, inputs, outputs, weights)
    return Unseen(file, drawn(1, 8, count=8), ("--state", "h_out=h", "--state", "n_out=n"))


@network
def all_behind_a_rate(folder: Path) -> Unseen:
    """The whole network stands in a branch over an input that never changes, half of it in one more over its size."""
    deep = [op("MatMul", "x w1", "d0"), op("Relu", "d0", "d1"), op("MatMul", "d1 w2", "d")]
    flat = [op("MatMul", "x w2", "q0"), op("Tanh", "q0", "q")]
    by_size = [
        op("Size", "x", "size"),
        op("Greater", "size ten", "is_long"),
        op("If", "is_long", "o", then_branch=body(deep, [], [value("d")]), else_branch=body(flat, [], [value("q")])),
    ]
    other = [op("Pad", "x none", "p"), op("Neg", "p", "n")]
    then, otherwise = body(by_size, [], [value("o")]), body(other, [], [value("n")])
    nodes = [
        op("Equal", "sr expected", "is_expected"),
        op("If", "is_expected", "h", then_branch=then, else_branch=otherwise),
        op("Sigmoid", "h", "y"),
    ]
    weights = {"w1": weights_of(0, 16, 16), "w2": weights_of(1, 16, 16), "expected": np.int64(16000)}
    weights |= {"ten": np.int64(10), "none": np.zeros(4, np.int64)}
    file = save(folder, nodes, [value("x", [1, 16]), value("sr", [], I64)], [value("y", ["a", "b"])], weights)
    return Unseen(file, drawn(1, 16), ("--constant", "sr=16000"))


@network
def a_loop_that_gathers_what_it_finds(folder: Path) -> Unseen:
    """Each turn has a branch over the frame's values; what is kept grows from turn to turn."""
    found = [op("Squeeze", "places one", "flat"), op("Gather", "scores flat", "got")]
    turn = [
        op("Gather", "all i", "scores"),
        op("Greater", "scores least", "hit"),
        op("Cast", "hit", "hits", to=I64),
        op("ReduceMax", "hits", "most", keepdims=0),
        op("Cast", "most", "any", to=BOOL),
        op("NonZero", "hit", "found"),
        op("Transpose", "found", "places", perm=[1, 0]),
        op(
            "If",
            "any",
            "new",
            then_branch=body(found, [], [value("got", ["k"])]),
            else_branch=body([op("Identity", "nothing", "no")], [], [value("no", ["k"])]),
        ),
        op("Concat", "kept new", "grown", axis=0),
        op("Identity", "go_on", "goes_on"),
    ]
    ends = [value("i", [], I64), value("go_on", [], BOOL), value("kept", ["a"])]
    loop = body(turn, ends, [value("goes_on", [], BOOL), value("grown", ["b"])])
    nodes = [
        op("MatMul", "w0 x", "logits"),
        op("Sigmoid", "logits", "all"),
        helper.make_node("Loop", ["five", "", "start"], ["gathered"], "gather", body=loop),
        op("Mul", "gathered ten", "y"),
    ]
    weights = {"w0": weights_of(0, 5, 8, scale=2), "five": np.int64(5), "start": np.zeros(1, np.float32)}
    weights |= {"least": np.float32(0.8), "nothing": np.array([-1], np.float32), "one": np.array([1])}
    weights |= {"ten": np.float32(10)}
    return Unseen(save(folder, nodes, [value("x", [8, 12])], [value("y", ["k"])], weights), drawn(8, 12))


@network
def a_cache_whose_length_is_told(folder: Path) -> Unseen:
    """As ONNX Runtime's own tools export decoders: one integer says how long the cache is with this frame's tokens."""
    domain, heads, size, width = "com.microsoft", 2, 8, 16

    def project(made: str, weight: str):
        return op("MatMul", f"x {weight}", made)

    attend = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "past_k", "past_v", "last", "total"],
        ["mixed", "next_k", "next_v"],
        "attend",
        domain=domain,
        num_heads=heads,
        kv_num_heads=heads,
    )
    nodes = [project("q", "wq"), project("k", "wk"), project("v", "wv"), attend, op("MatMul", "mixed wo", "y")]
    cache = [1, heads, "past", size]
    inputs = [value("x", [1, "tokens", width]), value("past_k", cache), value("past_v", cache)]
    inputs += [value("last", [1], I32), value("total", [], I32)]
    outputs = [value("y", [1, "tokens", width])]
    outputs += [value(name, [1, heads, "all", size]) for name in ("next_k", "next_v")]
    weights = {name: weights_of(i, width, width) for i, name in enumerate(("wq", "wk", "wv", "wo"))}
    random, frames = np.random.default_rng(5), []
    for tokens, past in ((4, 0), (1, 4), (1, 5)):
        frame = {"x": random.standard_normal((1, tokens, width)).astype(np.float32)}
        for name in ("past_k", "past_v"):
            frame[name] = random.standard_normal((1, heads, past, size)).astype(np.float32)
        frame |= {"last": np.array([past + tokens - 1], np.int32), "total": np.array(past + tokens, np.int32)}
        frames.append(frame)
    return Unseen(save(folder, nodes, inputs, outputs, weights, domains=(domain,)), frames)
