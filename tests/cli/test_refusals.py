"""What is ill-formed is refused in one sentence: which file, node or input, what was expected, what mends it."""

import os
import subprocess
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from conftest import save, save_chain, value
from onnx import TensorProto, helper
from PIL import Image


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
    cast = [helper.make_node("Cast", ["x"], ["y"], "cast", to=TensorProto.INT4)]
    narrow = save(tmp_path, "narrow", cast, [value("x", [3])], [value("y", [3], TensorProto.INT4)])
    relu = [helper.make_node("Relu", ["x"], ["y"], "relu")]
    newer = save(tmp_path, "newer", relu, [value("x", [3])], [value("y", [3])])
    for file, opset, ir in ((narrow, 21, 10), (newer, 99, 10)):
        model = onnx.load(file)
        model.opset_import[0].version, model.ir_version = opset, ir
        onnx.save(model, file)
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
    graph = helper.make_graph(
        [helper.make_node("SequenceInsert", ["mem", "x"], ["kept"], "insert")],
        "keeping",
        [value("x", [2]), helper.make_value_info("mem", listed)],
        [helper.make_value_info("kept", listed)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "keeping.onnx"
    )
    words = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    row = helper.make_node("DictVectorizer", ["words"], ["y"], "row", "", "ai.onnx.ml", string_vocabulary=["a", "b"])
    graph = helper.make_graph([row], "mapped", [helper.make_value_info("words", words)], [value("y", [1, 2])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "mapped.onnx")
    np.save(tmp_path / "wrong.npy", np.zeros((1, 2, 2), np.float32))
    np.save(tmp_path / "whole.npy", np.zeros((1, 3, 4, 4), np.int64))
    np.save(tmp_path / "flat.npy", np.zeros(48, np.float32))
    np.save(tmp_path / "counts.npy", np.zeros(48, np.int64))
    np.save(tmp_path / "few.npy", np.zeros(3, np.int64))
    np.save(tmp_path / "last.npy", np.zeros((4, 4, 3), np.float32))
    (tmp_path / "empty.png").touch()
    Image.new("RGB", (4, 4)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:50])
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 4, 4), np.float32))
    np.save(tmp_path / "far.npy", np.array([1, 99]))
    np.savez(tmp_path / "other.npz", z=np.zeros(1))
    for name in ("text.npy", "a.png", "s.wav", "a.mp3", "a.mp4"):
        (tmp_path / name).write_text("nothing of that kind")
    (tmp_path / "folder").mkdir()
    (tmp_path / "beyond").mkdir()
    for name in ("one", "two"):
        np.save(tmp_path / "beyond" / f"{name}.npy", np.array([1, 99]))
    well("split", chain, "--cut", "relu1", "-o", "two.penstock")
    well("split", tmp_path / "lookup.onnx", "--cut", "gather", "-o", "lookup.penstock")


class Refusal(NamedTuple):
    """The parts that a sentence must have, as they stand in it."""

    place: str  # A node, an input, a file, a tensor or an option.
    expected: str
    found: str
    mends: str  # An option, a command or a deed.
    reads: str = ""  # Where the place is a node: the input or the tensor that it reads.


SHAPE = Refusal("input 'x'", "expected f32[1,3,4,4]", "found f32[1,2,2]", "give values of that type and shape")
OUTSIDE = Refusal("node 'gather' (Gather)", "within the inclusive range [-4,3]", "idx=99", "--input", "of input 'i'")
NO_CPU = Refusal("device 'cpu:4095'", "those this process may use: ", "CPU 4095 is not", "'penstock devices' lists")
NO_BACKEND = Refusal("backend 'none'", "onnxruntime", "there is none of that name", "PENSTOCK_PLUGIN_PATH")
NO_FILE = Refusal("input 'x'", "file 'none.npy'", "No such file", "check the path")
UNKNOWN = Refusal("node 'odd' (Frobnicate)", "a registered function/op", "odd:Frobnicate", "--custom-ops", "'x' f32[1]")
OTHER_MODEL = Refusal("input 'i'", "expected the model that the package", "none of the package's", "--model")
NO_MODEL = Refusal("file 'text.npy'", "an ONNX model", "it is text", "give the model's own file (.onnx)")
NO_STATE = Refusal("state 'kept' -> 'mem'", "only tensors", "found sequence(f32[2])", "keep one tensor")
MAP = Refusal("input 'words'", "random values", "a map or a sparse tensor", "begin the network behind the node")
REFUSALS = {
    "show cut.onnx": Refusal("file 'cut.onnx'", "ONNX model", "truncated", "export or copy it again"),
    "show parted.onnx": Refusal("tensor 'w1'", "in the model's folder", "'w.bin' is not", "put it beside the model"),
    "show unknown.onnx": Refusal("node 'odd'", "Op registered", "(Frobnicate)", "repair the model", "it reads 'x'"),
    "show dangling.onnx": Refusal(
        "node 'last' (Relu)", "neither an input", "which no node makes", "repair the model", "reads 'missing'"
    ),
    "show circle.onnx": Refusal(
        "node 'first' (Add)", "no circles", "wait for each other", "repair the model", "reads 'b' of node 'second'"
    ),
    "run newer.onnx": Refusal("newer.onnx'", "knows none above", "operator set 99", "onnx.version_converter"),
    "run narrow.onnx --output q.npz": Refusal("output 'y'", "NumPy has no type", "i4[3]", "give a folder", "--output"),
    "show chain.onnx --shape z=1x3": Refusal("input 'z'", "inputs are 'x'", "no input 'z'", "--shape"),
    "show chain.onnx --shape x=1x3": Refusal("input 'x'", "expected 4 dimensions", "found 2", "give as many"),
    "show chain.onnx --shape x=1x3x4x5": Refusal("input 'x', dimension 3", "expected [4]", "found [5]", "--shape"),
    "show chain.onnx --constant z=1": Refusal("input 'z'", "inputs are 'x'", "no input 'z'", "--constant"),
    "show double.onnx --constant x=hello": Refusal("input 'x'", "sizes of f32[n,3]", "one value", "(--shape)"),
    "show lookup.onnx --constant i=[1.5,2]": Refusal("input 'i'", "expected an integer", "found '1.5'", "--constant"),
    "show lookup.onnx --constant i=none.npy": NO_FILE._replace(place="input 'i'"),
    "show chain.onnx --parameter w9": Refusal("initialiser 'w9'", "it has 'w1', 'w2'", "no initialiser", "--parameter"),
    "split chain.onnx --cut relu9 -o q": Refusal(
        "cut 'relu9'", "'relu1'", "no node or tensor", "'penstock show' lists"
    ),
    "split chain.onnx --cut 99 -o q": Refusal("cut", "a node index from 0 to 3", "'99'", "'penstock show' lists"),
    "split chain.onnx --cut relu2 -o q": Refusal(
        "node 'relu2'", "for the last stage", "nothing is left", "cut earlier"
    ),
    "split chain.onnx --pin relu1=cpu:4095 -o q": NO_CPU._replace(place="--pin relu1=cpu:4095"),
    "split chain.onnx --devices cpu:4095 -o q": NO_CPU,
    "split chain.onnx --backend none -o q": NO_BACKEND,
    "split chain.onnx --state y=x -o q": Refusal(
        "state 'y' -> 'x'", "expected one type and shape", "writes f32[1,2,4,4], reads f32[1,3,4,4]", "(--state)"
    ),
    "split chain.onnx --state z=x -o q": Refusal("'z' -> 'x'", "'y'", "no output 'z'", "did you mean"),
    "split padded.onnx --batch 4 -o q": Refusal(
        "node 'pad'", "take several frames", "differs from frame to frame", "(STAGE=1)", "'size'"
    ),
    "split chain.onnx --custom-ops none.so -o q": Refusal("'none.so'", "file", "no such file", "check the path"),
    "split chain.onnx -o chain.onnx": Refusal(
        "chain.onnx'", "only a package is replaced", "exists and is not a package", "choose another name or remove it"
    ),
    "run unfit.onnx": Refusal(
        "node 'product' (MatMul)", "dimensions for matrix", "'w' f32[4,2]", "another backend", "reads 'x' f32[1,3]"
    ),
    "run foreign.onnx": UNKNOWN,
    "run padded.onnx --frames 1 --integer-limit 9": Refusal(
        "node 'pad' (Pad)", "axis length >= 2", "open dimensions taken as 1 in 'x'", "--constant", "integers in 'size'"
    ),
    "run chain.onnx --input x=none.npy": NO_FILE,
    "run chain.onnx --input z=x.npy": Refusal("input 'z'", "inputs are 'x'", "no input 'z'", "--input"),
    "run chain.onnx --input x=wrong.npy": SHAPE,
    "run chain.onnx --input x=whole.npy": SHAPE._replace(found="found i64[1,3,4,4]", mends="with .astype('float32')"),
    "run chain.onnx --input x=flat.npy": SHAPE._replace(found="found f32[48]", mends=".reshape(1, 3, 4, 4)"),
    "run chain.onnx --input x=counts.npy": SHAPE._replace(
        found="found i64[48]", mends=".astype('float32'); .reshape(1, 3, 4, 4) gives it that shape; save it so"
    ),
    "run chain.onnx --input x=few.npy": SHAPE._replace(
        found="found i64[3]", mends=".astype('float32'), give it 4 dimensions and save it again"
    ),
    "run chain.onnx --input x=last.npy": SHAPE._replace(found="f32[4,4,3]", mends="x.transpose(2, 0, 1)).reshape(1, 3"),
    "run chain.onnx --input x=*.npy": Refusal("input 'x'", "file '*.npy'", "no such file", "give the folder '.'"),
    "run chain.onnx --input x=pictures/*.png": Refusal(
        "input 'x'", "file 'pictures/*.png'", "no such file", "give the folder 'pictures'"
    ),
    "run chain.onnx --input x=empty.png": Refusal("input 'x'", "picture 'empty.png'", "is empty", "copy or save"),
    "run chain.onnx --input x=cut.png": Refusal("input 'x'", "expected a PNG", "it ends too early", "save it again"),
    "run chain.onnx --input x=text.npy": Refusal("input 'x'", ".npy file", "does not begin as one", "save the array"),
    "run chain.onnx --input x=a.png": Refusal("input 'x'", "expected a PNG", "unknown image type", "save it again"),
    "run chain.onnx --input x=s.wav": Refusal(
        "input 'x'", "expected a WAV", "does not begin as a WAV", "save it again"
    ),
    "run chain.onnx --input x=a.mp3": Refusal("input 'x'", "expected a name ending in", "'a.mp3'", "ffmpeg -i a.mp3 "),
    "run chain.onnx --input x=a.mp4": Refusal("input 'x'", "expected a name ending in", "'a.mp4'", "--input NAME=-"),
    "run chain.onnx --input x=b.png": Refusal("input 'x'", "file 'b.png'", "no such file", "did you mean 'a.png'"),
    "run chain.onnx --input x=away/b.png": Refusal("input 'x'", "'away/b.png'", "no such file", "check the path"),
    "run chain.onnx --hop 2 --input x=x.npy": Refusal("--hop", "expected --input NAME=FILE.wav", "none", "for a sound"),
    "run chain.onnx --output away/y.npz": Refusal("--output", "'away/y.npz'", "No such file", "make the folder 'away'"),
    "run chain.onnx --output away/y.jsonl": Refusal("file", "'away/y.jsonl'", "No such file", "make the folder 'away'"),
    "split chain.onnx -o away/q": Refusal("'away/q'", "cannot be made", "No such file", "make the folder '"),
    "run two.penstock --state y=x": Refusal("--state", "settled when", "a package", "'penstock split'"),
    "run chain.onnx --input x=folder": Refusal("input 'x'", "files ending in .npy", "found none", "give a file"),
    "run chain.onnx --inputs other.npz": Refusal("array 'z'", "inputs are 'x'", "is no input", "name the arrays so"),
    "run chain.onnx --inputs folder": Refusal("'folder'", "expected <name>.npy", "no file of an input", "of 'x'"),
    "run lookup.onnx --input i=far.npy": OUTSIDE,
    "run two.penstock --constant x=1": Refusal("--constant", "give the model", "a package is made", "'penstock split'"),
    "bench chain.onnx --input x=wrong.npy": SHAPE,
    "bench two.penstock --model lookup.onnx --seconds 0.2": Refusal(
        "--model 'lookup.onnx'", "not the model that package 'two.penstock'", "which was", "--model"
    ),
    "bench lookup.onnx --input i=far.npy --seconds 0.2": OUTSIDE,
    "verify two.penstock --model lookup.onnx": OTHER_MODEL,
    "verify two.penstock --model none.onnx": Refusal("file", "'none.onnx'", "no such file", "check the path"),
    "verify two.penstock --model text.npy": NO_MODEL,
    "verify two.penstock --model cut.onnx": NO_MODEL._replace(
        place="file 'cut.onnx'", found="truncated", mends="export or copy it again"
    ),
    "verify two.penstock --model folder": Refusal("file 'folder'", "expected a file", "found a folder", "'folder'"),
    "bench two.penstock --model text.npy --seconds 0.2": NO_MODEL,
    "verify lookup.penstock --input i=far.npy": OUTSIDE,
    "verify tow.penstock": Refusal("'tow.penstock'", "'penstock split'", "no such folder or zip", "did you mean"),
    "verify chain.onnx": Refusal("'chain.onnx'", "expected a package", "found another file", "'penstock split' makes"),
    "build chain.onnx --backends none -o b": NO_BACKEND,
    "build chain.onnx --devices cpu:4095 -o b": NO_CPU,
    "build chain.onnx --input x=wrong.npy -o b": SHAPE,
    "build lookup.onnx --input i=far.npy --budget 1s -o b": OUTSIDE,
    "build foreign.onnx --budget 1s -o b": UNKNOWN,
    "plan chain.onnx --devices cpu:4095": NO_CPU,
    "plan chain.onnx --svg none/a.svg": Refusal("--svg", "'none/a.svg'", "No such file", "cannot be written"),
    "plan chain.onnx --memory 1": Refusal("group 'conv1'", "needs 432 bytes", "has (1)", "(--memory)"),
    "plan chain.onnx --split none.json": Refusal("file", "'none.json'", "cannot be read", "check the path"),
    "build fixed.onnx --budget 1s -o b": Refusal(
        "'fixed.onnx'", "to build", "outputs are constants or inputs", "'penstock split' writes it"
    ),
    "run mapped.onnx": MAP,
    "build listed.onnx --budget 1s -o b": Refusal(
        "input 'xs'", "expected a tensor", "a sequence, an optional or a map", "penstock split"
    ),
    "run resized.onnx --frames 1": Refusal(
        "node 'resize' (Resize)", "should be greater than 0", "were random", "--constant", "integers in 'sizes'"
    ),
    "plan chain.onnx --state z=x": Refusal(
        "state 'z' -> 'x'", "the network's outputs are 'y'", "no output 'z'", "(--state OUTPUT=INPUT)"
    ),
    "plan chain.onnx --state y=z": Refusal(
        "state 'y' -> 'z'", "the network's inputs are 'x'", "no input 'z'", "(--state OUTPUT=INPUT)"
    ),
    "plan chain.onnx --state y=x": Refusal(
        "state 'y' -> 'x'", "expected one type and shape", "writes f32[1,2,4,4], reads f32[1,3,4,4]", "(--state)"
    ),
    "plan double.onnx --state y=x --replicas": Refusal(
        "states", "expected devices by name", "replicas of a network", "(--devices)"
    ),
    "split keeping.onnx --state kept=mem -o q": NO_STATE,
    "split keeping.onnx --state kept=mem:flat.npy -o q": NO_STATE,
    "run keeping.onnx --state kept=mem:flat.npy": NO_STATE,
    "plan keeping.onnx --state kept=mem:flat.npy": NO_STATE,
    "build keeping.onnx --state kept=mem:flat.npy --budget 1s -o b": NO_STATE,
    "build lookup.onnx --input i=beyond --budget 1s -o b": OUTSIDE,
    "serve chain.onnx --constant z=1": Refusal("input 'z'", "inputs are 'x'", "no input 'z'", "--constant"),
    "serve chain.onnx --constant x=none.npy": NO_FILE,
    "serve chain.onnx --state z=x": Refusal("'z' -> 'x'", "'y'", "no output 'z'", "did you mean"),
    "serve chain.onnx --state y=x": Refusal(
        "state 'y' -> 'x'", "expected one type and shape", "writes f32[1,2,4,4], reads f32[1,3,4,4]", "(--state)"
    ),
    "serve a=chain.onnx b=chain.onnx --constant x=1": Refusal(
        "--constant", "expected MODEL:NAME=", "found 'x=1'", "a:x=1"
    ),
    "serve two.penstock --constant x=1": Refusal(
        "'two.penstock'", "for a model (.onnx)", "found a package", "'penstock split'"
    ),
    "serve two.penstock --state y=x": Refusal(
        "'two.penstock'", "for a model (.onnx)", "found a package", "'penstock split'"
    ),
    "serve =chain.onnx": Refusal(
        "'=chain.onnx'", "expected [NAME[:VERSION]=]PATH", "found '=chain.onnx'", "or the path alone"
    ),
    "serve a/b=chain.onnx": Refusal("'a/b=chain.onnx'", "expected a model's name", "found 'a/b'", "without '/'"),
    "plan two.penstock": Refusal("'two.penstock'", "expected a model", "found a folder", "packages are for"),
}
USAGE = {  # Values without the form that their option has, whatever the files hold.
    "show chain.onnx --shape x=axb": Refusal("--shape", "expected NAME=SIZE", "'x=axb'", "such as x=1x3"),
    "show chain.onnx --constant x": Refusal("--constant", "expected NAME=VALUE", "'x'", "such as 16000"),
    "split chain.onnx --pin relu1=gpu -o q": Refusal("device 'gpu'", "write cpu:0", "unknown kind", "--pin relu1=gpu"),
    "run chain.onnx --input x": Refusal("--input", "expected NAME=FILE", "found 'x'", "write --input x=x"),
    "build chain.onnx --budget soon -o b": Refusal("--budget", "expected a time", "found 'soon'", "such as 60s"),
    "plan chain.onnx --state y": Refusal("--state", "expected OUT=IN", "found 'y'", "OUT=IN:FILE.npy"),
    "serve chain.onnx --constant x": Refusal("--constant", "expected NAME=VALUE", "'x'", "such as 16000"),
    "run chain.onnx --input =x.npy": Refusal("--input", "expected NAME=FILE", "found '=x.npy'", "the inputs are 'x'"),
    "bench chain.onnx --input x=": Refusal("--input", "expected NAME=FILE", "found 'x='", "the inputs are 'x'"),
    "build chain.onnx --input x.npy -o b": Refusal("--input", "expected NAME=FILE", "'x.npy'", "write --input x=x.npy"),
    "verify two.penstock --input x.npy": Refusal("--input", "expected NAME=FILE", "'x.npy'", "write --input x=x.npy"),
    "run two.penstock --metrics here": Refusal("--metrics", "HOST:PORT", "found 'here'", "such as 127.0.0.1:8001"),
    "bench two.penstock --metrics 8001": Refusal("--metrics", "HOST:PORT", "found '8001'", "write 127.0.0.1:8001"),
    "run two.penstock --page here:70000": Refusal("--page", "HOST:PORT", "its port '70000'", "from 0 to 65535"),
    "run two.penstock --backend-option fast": Refusal(
        "--backend-option", "expected BACKEND:KEY=VALUE", "found 'fast'", "such as onnxruntime:"
    ),
    "plan chain.onnx --pin relu1": Refusal("--pin", "expected NODE=DEVICE", "found 'relu1'", "such as conv1=cpu:0"),
    "serve chain.onnx --state y": Refusal("--state", "expected OUT=IN", "found 'y'", "OUT=IN:FILE.npy"),
    "serve chain.onnx --backend-option fast": Refusal(
        "--backend-option", "expected BACKEND:KEY=VALUE", "found 'fast'", "such as onnxruntime:"
    ),
}


@pytest.mark.parametrize("invocation", [*REFUSALS, *USAGE])
def test_a_refusal_names_where_what_and_the_way_out(penstock, given, invocation):
    free = ["--listen", "127.0.0.1:0"] if invocation.startswith("serve ") else []  # Whatever has the port.
    outcome = penstock(*invocation.split(), *free)
    assert outcome.code == (2 if invocation in USAGE else 1), outcome
    assert outcome.out == "" or "run" in invocation or "verify" in invocation
    sentence = outcome.error
    missing = {part: text for part, text in (REFUSALS | USAGE)[invocation]._asdict().items() if text not in sentence}
    assert missing == {}, sentence
    places = sentence.split(": ")
    assert all(before != after for before, after in zip(places, places[1:], strict=False)), "a place stands twice"
    assert "Traceback" not in outcome.err
    assert "terminate" not in outcome.err


def test_what_a_node_refuses_names_what_it_reads():
    nodes = {words for words, refusal in REFUSALS.items() if refusal.place.startswith(("node", "name:"))}
    assert {words for words in nodes if not REFUSALS[words].reads} == {"split chain.onnx --cut relu2 -o q"}  # A cut.


def test_a_temporary_folder_that_is_not_there_is_named(penstock, given):
    error = penstock("run", "chain.onnx", env={"TMPDIR": "nowhere"}).error
    assert error.startswith("folder 'nowhere': no temporary folder can be made in it: ")
    assert error.endswith("; set TMPDIR to a folder that can be written")


@pytest.mark.parametrize("command", ["show foreign.onnx", "split foreign.onnx -o q"])
def test_what_an_engine_will_refuse_is_foretold(well, given, command):
    """A package may be for another machine, whose engine has the operator."""
    told = well(*command.split()).err
    assert {text for text in UNKNOWN if text not in told} == set(), told
    assert "ONNX Runtime will refuse" in told


def test_nothing_is_foretold_of_a_network_that_runs(well, given):
    assert "will refuse" not in well("show", "chain.onnx").err + well("split", "chain.onnx", "-o", "q").err


def test_every_command_that_takes_a_network_is_tried():
    tried = {invocation.split()[0] for invocation in REFUSALS}
    assert (tried, len(REFUSALS) >= 40) == ({"show", "split", "run", "bench", "build", "verify", "plan", "serve"}, True)


@pytest.mark.parametrize(
    "invocation",
    [
        ["split", "chain.onnx", "-o", ""],
        ["plan", "chain.onnx", "-o", ""],
        ["build", "chain.onnx", "-o", ""],
        ["run", "p", "--output", ""],
        ["run", "p", "--trace", ""],
        ["run", "p", "--record", ""],
        ["run", "p", "--metrics", ""],
        ["run", "p", "--inputs", ""],
        ["bench", "p", "--model", ""],
        ["verify", "p", "--model", ""],
        ["explain", "p", "--html", ""],
        ["run", "p", "--page", ""],
        ["serve", "p", "--tokens", ""],
        ["serve", "p", "--tls-client-authority", ""],
        ["serve", "p", "--http", ""],
        ["worker", "--cache", ""],
        ["top", "--token", ""],
        ["split", "chain.onnx", "--annotate", "", "-o", "q"],
    ],
)
def test_a_variable_that_is_not_set_is_no_value(penstock, well, tmp_path, invocation):
    """An empty value, as of "$OUT", would leave out in silence what the option asks for."""
    well("split", save_chain(tmp_path), "-o", "p")
    refused = penstock(*invocation)
    option = invocation[invocation.index("") - 1]
    assert refused.code == 2
    assert f"{option}" in refused.err
    assert "found ''" in refused.err


@pytest.mark.parametrize("command", ["serve", "worker", "token", "top"])
def test_a_program_without_the_library_of_serving_says_what_to_do(program, tmp_path, command):
    """As a part of a build is; where it looks for libraries is written in the program itself."""
    libraries = program.parent.parent / "lib"
    (tmp_path / "lib").mkdir()
    for library in libraries.glob("libpenstock.so*"):
        (tmp_path / "lib" / library.name).symlink_to(library)
    copy = tmp_path / "penstock"
    copy.write_bytes(program.read_bytes().replace(str(libraries).encode(), b"/" * len(str(libraries))))
    copy.chmod(0o755)
    for option in [[], ["--help"]]:
        outcome = subprocess.run(
            [copy, command, *option], env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "lib")},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert outcome.returncode == 2
        assert f"'{command}' is not in this build: its library cannot be loaded (" in outcome.stderr
        assert "build all of it (cmake --build --preset release), or install Penstock\n" in outcome.stderr
