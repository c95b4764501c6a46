"""What is ill-formed is refused in one sentence: which file, node or input, what was expected, what mends it."""

import numpy as np
import onnx
import pytest
from conftest import save, save_chain, value
from onnx import TensorProto, helper


def save_foreign(folder, name, domain):
    """y = Frobnicate(x), which no engine knows."""
    node = helper.make_node("Frobnicate", ["x"], ["y"], "odd", domain=domain)
    graph = helper.make_graph([node], name, [value("x", [1])], [value("y", [1])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("odd", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / f"{name}.onnx")


@pytest.fixture
def given(well, tmp_path):
    """The files that the invocations name."""
    chain = save_chain(tmp_path)
    (tmp_path / "cut.onnx").write_bytes(chain.read_bytes()[:200])
    onnx.save(
        onnx.load(chain), tmp_path / "parted.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    (tmp_path / "w.bin").unlink()
    save_foreign(tmp_path, "unknown", "")
    save_foreign(tmp_path, "foreign", "odd")
    double = [helper.make_node("Add", ["x", "x"], ["y"], "double")]
    save(tmp_path, "double", double, [value("x", ["n", 3])], [value("y", ["n", 3])])
    circle = [helper.make_node("Add", ["x", "b"], ["a"], "first"), helper.make_node("Relu", ["a"], ["b"], "second")]
    save(tmp_path, "circle", circle, [value("x", [1])], [value("b", [1])])
    dangling = [helper.make_node("Relu", ["missing"], ["y"], "last")]
    save(tmp_path, "dangling", dangling, [value("x", [1])], [value("y", [1])])
    unfit = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    save(tmp_path, "unfit", unfit, [value("x", [1, 3])], [value("y", [1, 2])], {"w": np.ones((4, 2), np.float32)})
    gather = [
        helper.make_node("Gather", ["table", "i"], ["g"], "gather"),
        helper.make_node("Relu", ["g"], ["y"], "relu"),
    ]
    ids, table = value("i", [2], TensorProto.INT64), {"table": np.arange(4, dtype=np.float32)}
    save(tmp_path, "lookup", gather, [ids], [value("y", [2])], table)
    resize = [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], "resize", mode="linear")]
    resized = [value("x", [1, 2, 4, 4]), value("sizes", [4], TensorProto.INT64)]
    save(tmp_path, "resized", resize, resized, [value("y", ["a", "b", "c", "d"])])
    pad = [helper.make_node("Pad", ["x", "size"], ["y"], "pad", mode="reflect")]
    size = value("size", [4], TensorProto.INT64)
    save(tmp_path, "padded", pad, [value("x", ["n", 1]), size], [value("y", ["a", "b"])])
    fixed = [helper.make_node("Relu", ["k"], ["y"], "relu")]
    save(tmp_path, "fixed", fixed, [], [value("y", [3])], {"k": np.arange(3, dtype=np.float32)})
    listed = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    count = [helper.make_node("SequenceLength", ["xs"], ["n"], "length")]
    graph = helper.make_graph(
        count, "listed", [helper.make_value_info("xs", listed)], [value("n", [], TensorProto.INT64)]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "listed.onnx"
    )
    np.save(tmp_path / "wrong.npy", np.zeros((1, 2, 2), np.float32))
    np.save(tmp_path / "whole.npy", np.zeros((1, 3, 4, 4), np.int64))
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 4, 4), np.float32))
    np.save(tmp_path / "far.npy", np.array([1, 99]))
    np.savez(tmp_path / "other.npz", z=np.zeros(1))
    for name in ("text.npy", "a.png", "s.wav"):
        (tmp_path / name).write_text("nothing of that kind")
    (tmp_path / "folder").mkdir()
    well("split", chain, "--cut", "relu1", "-o", "two.penstock")
    well("split", tmp_path / "lookup.onnx", "--cut", "gather", "-o", "lookup.penstock")


# The invocation, and what its sentence must hold: file, node or input; what was expected; what to do.
SHAPE = ["input 'x'", "expected f32[1,3,4,4]", "found f32[1,2,2]", "one frame's"]
OUTSIDE = ["node 'gather' (Gather)", "idx=99", "[-4,3]"]
NO_CPU = ["device 'cpu:4095'", "'penstock devices' lists"]
REFUSALS = {
    "show cut.onnx": ["file 'cut.onnx'", "truncated", "export or copy it again"],
    "show parted.onnx": ["tensor 'w1'", "'w.bin'", "put it beside the model"],
    "show unknown.onnx": ["node 'odd' (Frobnicate)", "repair the model"],
    "show dangling.onnx": ["'missing'", "last", "repair the model"],
    "show circle.onnx": ["'b'", "first", "repair the model"],
    "show chain.onnx --shape z=1x3": ["--shape", "no input 'z'", "inputs are 'x'"],
    "show chain.onnx --shape x=1x3": ["--shape", "input 'x'", "expected 4 dimensions", "found 2", "give as many"],
    "show chain.onnx --shape x=1x3x4x5": ["--shape", "input 'x'", "dimension 3", "expected [4]", "found [5]"],
    "show chain.onnx --shape x=axb": ["--shape 'x=axb'", "expected NAME=SIZE", "such as"],
    "show chain.onnx --constant x": ["--constant 'x'", "expected NAME=VALUE", "such as"],
    "show chain.onnx --constant z=1": ["--constant", "no input 'z'", "inputs are 'x'"],
    "show double.onnx --constant x=hello": ["--constant", "input 'x'", "f32[n,3]", "fix the shape"],
    "show lookup.onnx --constant i=[1.5,2]": ["--constant", "input 'i'", "expected an integer", "'1.5'"],
    "show lookup.onnx --constant i=none.npy": ["--constant", "input 'i'", "file 'none.npy'", "check the path"],
    "show chain.onnx --parameter w9": ["--parameter", "'w9'", "'w1', 'w2'"],
    "split chain.onnx --cut relu9 -o q": ["cut 'relu9'", "did you mean 'relu1'", "'penstock show' lists"],
    "split chain.onnx --cut 99 -o q": ["cut '99'", "expected a node index from 0 to 3", "'penstock show' lists"],
    "split chain.onnx --cut relu2 -o q": ["cut 'relu2'", "node 'relu2'", "cut earlier"],
    "split chain.onnx --pin relu1=gpu -o q": ["--pin", "device 'gpu'", "write cpu:0"],
    "split chain.onnx --devices cpu:4095 -o q": NO_CPU,
    "split chain.onnx --backend none -o q": ["backend 'none'", "onnxruntime", "PENSTOCK_PLUGIN_PATH"],
    "split chain.onnx --state y=x -o q": ["state 'y' -> 'x'", "f32[1,2,4,4]", "f32[1,3,4,4]", "expected one type"],
    "split chain.onnx --state z=x -o q": ["state 'z' -> 'x'", "no output 'z'", "did you mean 'y'"],
    "split double.onnx --batch 4 -o q": ["input 'x'", "node 'double'", "f32[n,3]", "--shape", "STAGE=1"],
    "split chain.onnx --custom-ops none.so -o q": ["'none.so'", "no such file", "check the path"],
    "split chain.onnx -o chain.onnx": ["chain.onnx' exists", "choose another name or remove it"],
    "run unfit.onnx": ["stage 'stage0'", "unfit.onnx", "product", "MatMul", "Incompatible dimensions"],
    "run foreign.onnx": ["foreign.onnx", "Frobnicate", "--custom-ops"],
    "run padded.onnx --frames 1 --integer-limit 9": ["node 'pad' (Pad)", "'size'", "--constant", "--shape", "--input"],
    "run chain.onnx --input x=none.npy": ["input 'x'", "file 'none.npy'", "check the path"],
    "run chain.onnx --input z=x.npy": ["--input", "no input 'z'", "inputs are 'x'"],
    "run chain.onnx --input x=wrong.npy": ["file 'wrong.npy'", *SHAPE],
    "run chain.onnx --input x=whole.npy": ["file 'whole.npy'", "input 'x'", "expected f32[1,3,4,4]", "found i64"],
    "run chain.onnx --input x=text.npy": ["input 'x'", "file 'text.npy'", "save the array again"],
    "run chain.onnx --input x=a.png": ["input 'x'", "'a.png'", "expected a PNG"],
    "run chain.onnx --input x=s.wav": ["input 'x'", "'s.wav'", "expected a WAV file"],
    "run chain.onnx --input x=folder": ["input 'x'", "'folder'", "expected files ending in .npy"],
    "run chain.onnx --input x": ["--input", "expected NAME=FILE", "found 'x'"],
    "run chain.onnx --inputs other.npz": ["'other.npz'", "array 'z'", "inputs are 'x'"],
    "run chain.onnx --inputs folder": ["'folder'", "expected <name>.npy", "'x'"],
    "run lookup.onnx --input i=far.npy": ["frame 0", *OUTSIDE, "--input"],
    "run two.penstock --constant x=1": ["--constant", "'penstock split'"],
    "bench chain.onnx --input x=wrong.npy": ["file 'wrong.npy'", *SHAPE],
    "bench two.penstock --model lookup.onnx --seconds 0.2": ["--model", "input 'i'", "expected the model"],
    "bench lookup.onnx --input i=far.npy --seconds 0.2": [*OUTSIDE, "--input"],
    "verify two.penstock --model lookup.onnx": ["--model", "input 'i'", "expected the model"],
    "verify two.penstock --model none.onnx": ["model 'none.onnx'", "no such file", "check the path"],
    "verify lookup.penstock --input i=far.npy": [*OUTSIDE, "the reference fails too", "the input or the model"],
    "verify chain.onnx": ["'chain.onnx'", "expected a package", "'penstock split' makes one"],
    "build chain.onnx --backends none -o b": ["backend 'none'", "onnxruntime", "PENSTOCK_PLUGIN_PATH"],
    "build chain.onnx --devices cpu:4095 -o b": NO_CPU,
    "build chain.onnx --input x=wrong.npy -o b": ["file 'wrong.npy'", *SHAPE],
    "build lookup.onnx --input i=far.npy --budget 1s -o b": ["reference", *OUTSIDE, "--input"],
    "build foreign.onnx --budget 1s -o b": ["reference: model 'foreign.onnx'", "Frobnicate", "--custom-ops"],
    "build chain.onnx --budget soon -o b": ["--budget", "expected a time such as 60s", "'soon'"],
    "plan chain.onnx --devices cpu:4095": NO_CPU,
    "plan chain.onnx --memory 1": ["group 'conv1'", "432 bytes", "give them more memory"],
    "plan chain.onnx --split none.json": ["'none.json'", "cannot be read", "check the path"],
    "build fixed.onnx --budget 1s -o b": ["nothing is left to build", "fixed.onnx", "'penstock split' writes it"],
    "run listed.onnx": ["input 'xs'", "a sequence, an optional or a map", "--input NAME=FILE.pb"],
    "build listed.onnx --budget 1s -o b": ["input 'xs'", "a sequence, an optional or a map", "--input NAME=FILE.pb"],
    "run resized.onnx --frames 1": ["node 'resize' (Resize)", "integers in 'sizes'", "--constant", "--input"],
    "plan two.penstock": ["'two.penstock'", "expected a model", "found a folder"],
}


@pytest.mark.parametrize("invocation", REFUSALS)
def test_a_refusal_names_where_what_and_the_way_out(penstock, given, invocation):
    outcome = penstock(*invocation.split())
    assert outcome.code == 1, outcome
    assert outcome.out == "" or "run" in invocation or "verify" in invocation
    sentence = outcome.error
    for part in REFUSALS[invocation]:
        assert part in sentence
    places = sentence.split(": ")
    assert all(before != after for before, after in zip(places, places[1:], strict=False)), "a place stands twice"
    assert "Traceback" not in outcome.err
    assert "terminate" not in outcome.err


def test_every_command_that_takes_a_network_is_tried():
    tried = {invocation.split()[0] for invocation in REFUSALS}
    assert (tried, len(REFUSALS) >= 40) == ({"show", "split", "run", "bench", "build", "verify", "plan"}, True)
