"""--constant: inputs that have one value for good."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper

MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", ""))


def branch(name, nodes, output, shape):
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)])


@pytest.fixture
def rated(tmp_path):
    """Its whole body stands in an If over `rate`, and in another over `mode`, as voice networks have it."""
    deep = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
        helper.make_node("Relu", ["product"], ["positive"], "positive"),
        helper.make_node("Equal", ["mode", "one"], ["is_one"], "is_one"),
        helper.make_node(
            "If",
            ["is_one"],
            ["fast_out"],
            "inner",
            then_branch=branch("one", [helper.make_node("Sqrt", ["positive"], ["a"], "sqrt")], "a", ["n", 4]),
            else_branch=branch("other", [helper.make_node("Neg", ["positive"], ["b"], "neg")], "b", ["n", 4]),
        ),
    ]
    slow = [helper.make_node("Abs", ["x"], ["slow_out"], "abs")]
    nodes = [
        helper.make_node("Equal", ["rate", "known"], ["is_known"], "is_known"),
        helper.make_node(
            "If",
            ["is_known"],
            ["y"],
            "outer",
            then_branch=branch("fast", deep, "fast_out", ["n", 4]),
            else_branch=branch("slow", slow, "slow_out", ["n", 4]),
        ),
    ]
    inputs = [value("x", ["n", 4]), value("rate", [], TensorProto.INT64), value("mode", ["m"], TensorProto.INT64)]
    weights = {
        "w": np.random.default_rng(7).normal(size=(4, 4)).astype(np.float32),
        "known": np.array(16000, np.int64),
        "one": np.array([1], np.int64),
    }
    return save(tmp_path, "rated", nodes, inputs, [value("y", ["n", 4])], weights)


BOUND = ["--constant", "rate=16000", "--constant", "mode=[1]"]


def test_what_stands_in_an_if_is_split_and_verified(well, rated, tmp_path):
    shown = well("show", rated, *BOUND, "--json").json
    assert [node["op"] for node in shown["nodes"]] == ["MatMul", "Relu", "Sqrt"]
    assert [(bound["name"], bound["value"]) for bound in shown["bound_inputs"]] == [("rate", "16000"), ("mode", "1")]
    for cuts in (["0"], ["0", "1"]):
        package = tmp_path / f"{len(cuts)}.penstock"
        well("split", rated, *BOUND, *(word for cut in cuts for word in ("--cut", cut)), "-o", package)
        plan = json.loads((package / "plan.json").read_text())
        assert plan["penstock_plan"] == 2
        assert [given["name"] for given in plan["inputs"]] == ["x"]
        assert [(bound["name"], bound["value"]) for bound in plan["bound_inputs"]] == [("rate", "16000"), ("mode", "1")]
        report = well("verify", package, "--json").json
        assert report["ok"]
        assert "rated.onnx" in report["reference"]
        assert well("verify", package, "--model", rated, "--json").json["warnings"] == []


def test_another_value_is_another_network(well, rated, tmp_path):
    np.save(tmp_path / "rate.npy", np.array(8000, np.int64))
    shown = well("show", rated, "--constant", "rate=rate.npy", "--json").json
    assert [node["op"] for node in shown["nodes"]] == ["Abs"]


def test_every_command_takes_it(well, rated):
    assert well("run", rated, *BOUND, "--frames", "3", "--json").json["ok"] == 3
    well("plan", rated, *BOUND, "--devices", "cpu:0", "--shape", "x=2x4")
    rows = well("bench", rated, *BOUND, "--seconds", "0.2", "--json").json["runs"]
    assert {"penstock", "onnxruntime"} <= {row["name"] for row in rows}


@pytest.mark.sweep(of=3)
def test_a_built_package_verifies(well, rated, tmp_path):
    package = tmp_path / "built.penstock"
    well("build", rated, *BOUND, "--shape", "x=2x4", "--budget", "1s", "--most-parts", "0", "-o", package)
    assert well("verify", package, "--json").json["ok"]


@pytest.mark.sweep(of=6)
def test_build_tells_what_random_frames_decide(well, rated, tmp_path):
    options = ["--shape", "x=2x4", "--budget", "1s", "--most-parts", "0", "--backends", "onnxruntime"]
    told = well("build", rated, *options, "--shape", "mode=1", "-o", tmp_path / "any.penstock").err
    assert "input 'rate' decides which part of the network runs, and random frames give it any value" in told
    assert "bind it (--constant rate=VALUE) or give your own frames (--input)" in told
    assert "decides" not in well("build", rated, *BOUND, *options, "-o", tmp_path / "bound.penstock").err


def test_verify_tells_what_random_frames_decide(well, rated):
    well("split", rated, "--shape", "x=2x4", "-o", "any.penstock")
    assert "input 'rate' decides which part of the network runs" in well("verify", "any.penstock").err
    well("split", rated, *BOUND, "--shape", "x=2x4", "-o", "bound.penstock")
    assert "decides" not in well("verify", "bound.penstock").err


def test_who_sends_the_value_is_served_and_no_other(well, penstock, rated, tmp_path):
    well("split", rated, *BOUND, "--cut", "0", "-o", "p.penstock")
    x = np.ones((2, 4), np.float32)
    right, wrong = np.array(16000, np.int64), np.array(8000, np.int64)
    np.savez(tmp_path / "right.npz", x=x, rate=right)
    well("run", "p.penstock", "--inputs", "right.npz", "--output", "out")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "rate.npy", wrong)
    np.savez(tmp_path / "wrong.npz", x=x, rate=wrong)
    (tmp_path / "frames").mkdir()
    np.save(tmp_path / "frames/x.npy", x)
    np.save(tmp_path / "frames/rate.npy", wrong)
    for given in (
        ["--input", "x=x.npy", "--input", "rate=rate.npy"],
        ["--inputs", "wrong.npz"],
        ["--inputs", "frames"],
    ):
        for command in ("run", "verify", "bench"):
            said = penstock(command, "p.penstock", *given)
            assert said.code != 0, (command, given)
            assert "input 'rate': bound when the model was split: expected 16000, found 8000" in said.error


def test_a_large_value_is_a_file_of_the_package(well, penstock, tmp_path):
    nodes = [helper.make_node("Mul", ["x", "mask"], ["m"], "mul"), helper.make_node("Neg", ["m"], ["y"], "neg")]
    model = save(tmp_path, "masked", nodes, [value("x", [4, 8]), value("mask", [4, 8])], [value("y", [4, 8])])
    mask = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    mask[0, 0] = -np.inf
    np.save(tmp_path / "mask.npy", mask)
    well("split", model, "--constant", "mask=mask.npy", "--cut", "mul", "-o", "p.penstock")
    bound = json.loads((tmp_path / "p.penstock/plan.json").read_text())["bound_inputs"]
    assert bound == [{"name": "mask", "dtype": "f32", "shape": [4, 8], "file": "bound/0.npy", "position": 1}]
    assert np.array_equal(np.load(tmp_path / "p.penstock/bound/0.npy"), mask)
    np.save(tmp_path / "x.npy", np.ones((4, 8), np.float32))
    well("run", "p.penstock", "--input", "x=x.npy", "--input", "mask=mask.npy", "--output", "out")
    assert np.array_equal(np.load(tmp_path / "out/y.npy"), -mask)
    np.save(tmp_path / "other.npy", mask + 1)
    said = penstock("run", "p.penstock", "--input", "mask=other.npy").error
    assert "input 'mask': bound when the model was split: expected the value of f32[4,8], found another" in said
    (tmp_path / "p.penstock/bound/0.npy").unlink()
    assert "bound/0.npy" in penstock("run", "p.penstock").error


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["rate"], "--constant 'rate': expected NAME=VALUE"),
        (["speed=1"], "--constant: the model has no input 'speed'; its inputs are 'x', 'rate', 'mode'"),
        (["w=1"], "--constant: 'w' has its value in the file already, as an initializer: leave it out here and change"),
        (["rate=fast"], "--constant: input 'rate': expected an integer, as the input is i64, found 'fast'"),
        (["rate=1e4"], "expected an integer, as the input is i64, found '1e4'"),
        (["rate=[1, 2]"], "expected i64[], found 2 values of shape [2]"),
        (["mode=1"], "one value does not tell the sizes of i64[m]; give a list, or fix the shape (--shape)"),
        (["mode=many.npz"], "input 'mode': expected a value or a .npy file, found 'many.npz', an archive of several"),
        (["x=nan", "--shape", "x=1x4"], "expected a finite number, found 'nan'"),
        (["x=1e39", "--shape", "x=1x4"], "'1e39' is outside what f32 can hold"),
        (["rate=none.npy"], "none.npy"),
        (["rate=1", "--constant", "rate=2"], "--constant: input 'rate' is given twice"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(penstock, rated, given, said):
    assert said in penstock("show", rated, "--constant", *given).error


def test_a_name_may_hold_an_equals_sign(penstock, well, tmp_path):
    names = ["a=b", "a=c=d"]
    nodes = [helper.make_node("Add", ["x", names[0]], ["t"]), helper.make_node("Mul", ["t", names[1]], ["y"])]
    model = save(tmp_path, "m", nodes, [value(name, [1]) for name in ("x", *names)], [value("y", [1])])
    np.save(tmp_path / "x.npy", np.ones(1, np.float32))
    given = ["--constant", "a=b=[2]", "--constant", "a=c=d=[5]"]
    out = well("run", model, *given, "--input", "x=x.npy", "-o", "-").out
    assert json.loads(out)["outputs"]["y"] == [15]
    twice = penstock("show", model, *given, "--constant", "a=b=[3]")
    assert "input 'a=b' is given twice" in twice.error


def test_a_package_and_an_application_have_their_own(penstock, well, rated, tmp_path):
    well("split", rated, *BOUND, "-o", "p.penstock")
    assert "--constant" in penstock("run", "p.penstock", "--constant", "rate=1").error
    document = {
        "penstock_app": 1,
        "inputs": {"x": "f32[2,4]"},
        "nodes": {
            "net": {
                "network": "rated.onnx",
                "cuts": [0],
                "inputs": {"x": "x"},
                "constants": {"rate": 16000, "mode": [1]},
            }
        },
        "outputs": {"y": "net.y"},
    }
    (tmp_path / "app.yaml").write_text(json.dumps(document))
    assert well("run", "app.yaml", "--frames", "3", "--json").json["ok"] == 3
    assert "--constant" in penstock("run", "app.yaml", "--constant", "rate=1").error
    net = document["nodes"]["net"]
    for name, found, said in (
        ("rate", 0.5, "input 'rate': expected an integer"),
        ("speed", 1, "the model has no input 'speed'"),
        ("w", 1, "'w' has its value in the file"),
        ("mode", "none.npy", "mode: "),
    ):
        document["nodes"]["net"] = net | {"constants": {"rate": 16000, "mode": [1]} | {name: found}}
        (tmp_path / "app.yaml").write_text(json.dumps(document))
        error = penstock("run", "app.yaml").error
        assert f"constants{'.' if name == 'mode' else ': '}{said}" in error and "--constant" not in error, error
    document["nodes"]["net"] = net | {"shapes": {"z": "1x4"}}
    (tmp_path / "app.yaml").write_text(json.dumps(document))
    assert "': shapes: the model has no input 'z'" in penstock("run", "app.yaml").error
    document["nodes"]["net"] = net
    net["inputs"]["rate"] = "16000"
    (tmp_path / "app.yaml").write_text(json.dumps(document))
    said = penstock("run", "app.yaml").error
    assert "input 'rate': is bound to a value (constants): leave out its source '16000'" in said
    del net["constants"]
    (tmp_path / "app.yaml").write_text(json.dumps(document))
    assert "'constants: {rate: 16000}'" in penstock("run", "app.yaml").error


def test_a_package_in_an_application_settles_its_constants(penstock, well, rated, tmp_path):
    well("split", rated, *BOUND, "-o", "p.penstock")
    net = {"network": "p.penstock", "inputs": {"x": "x"}, "constants": {"rate": 16000}}
    document = {"penstock_app": 1, "inputs": {"x": "f32[2,4]"}, "nodes": {"net": net}, "outputs": {"y": "net.y"}}
    (tmp_path / "app.yaml").write_text(json.dumps(document))
    said = penstock("run", "app.yaml").error
    assert "p.penstock': what 'constants' says was settled when it was made; leave that out here" in said


def test_a_model_without_an_input_that_the_package_binds_is_told_so(penstock, well, rated, tmp_path):
    well("split", rated, *BOUND, "-o", "p.penstock")
    node = helper.make_node("Neg", ["x"], ["y"], "neg")
    save(tmp_path, "other", [node], [value("x", [2, 4])], [value("y", [2, 4])])
    said = penstock("verify", "p.penstock", "--model", "other.onnx").error
    assert "model 'other.onnx': the package binds inputs 'mode', 'rate', which this model does not have" in said
    assert "its inputs are 'x'; give the model that the package was made from (--model)" in said
    assert "--constant" not in said


def test_sizes_that_the_file_alone_claims_are_no_fault_of_the_backend(penstock, well, tmp_path):
    """The axes are an input: no operator tells the sizes of the output."""
    node = helper.make_node("ReduceMax", ["x", "axes"], ["y"], "most", keepdims=1)
    inputs = [value("x", [2, 3]), value("axes", [1], TensorProto.INT64)]
    graph = helper.make_graph([node], "claimed", inputs, [value("y", [1, 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "claimed.onnx")
    np.save(tmp_path / "axes.npy", np.array([1]))
    said = penstock("run", "claimed.onnx", "--input", "axes=axes.npy").error
    assert "output 'y': expected f32[1,3], found f32[2,1]; the model declares the first, this frame gave" in said
    assert "declare them open in the model or bind that input (--constant); where not, take another backend" in said
    well("run", "claimed.onnx", "--constant", "axes=[1]", "--frames", "1", "--output", "out")
    assert np.load(tmp_path / "out/y.npy").shape == (2, 1)


def test_a_bound_model_holds_no_more_than_it_needs(well, rated, tmp_path):
    well("split", rated, "--constant", "rate=8000", "-o", "p.penstock")
    stage = onnx.load(tmp_path / "p.penstock/stages/0.onnx")
    assert [node.op_type for node in stage.graph.node] == ["Abs"]
    assert len(stage.graph.initializer) == 0


@pytest.mark.skipif(not (MODELS / "silero_vad_16k_op15").is_dir(), reason="PENSTOCK_TEST_MODELS names no networks")
def test_a_voice_network_is_split_in_two_and_three(well, tmp_path):
    model = MODELS / "silero_vad_16k_op15/model.onnx"
    bound = ["--constant", "sr=16000", "--shape", "input=1x576", "--shape", "state=2x1x128"]
    count = len(well("show", model, *bound, "--json").json["nodes"])
    for cuts in ([count // 2], [count // 3, 2 * count // 3]):
        package = tmp_path / "voice.penstock"
        well("split", model, *bound, *(word for cut in cuts for word in ("--cut", cut)), "-o", package)
        report = well("verify", package, "--json").json
        assert report["ok"]
        assert "silero" in report["reference"]
        assert well("show", package, "--json").json["bound_inputs"][0]["value"] == "16000"


def test_an_engine_that_refuses_random_values_is_told_what_to_bind(penstock, tmp_path):
    """`size` makes a padding, which random integers get wrong."""
    nodes = [
        helper.make_node("Pad", ["x", "size"], ["p"], "pad", mode="reflect"),
        helper.make_node("Relu", ["p"], ["y"], "relu"),
    ]
    inputs = [value("x", ["n", 1]), value("size", [4], TensorProto.INT64)]
    save(tmp_path, "padded", nodes, inputs, [value("y", ["a", "b"])])
    advice = (
        "the inputs were random, integers in 'size', open dimensions taken as 1 in 'x': bind what never changes "
        "(--constant, in an application 'constants'), fix sizes (--shape, in an application 'shapes' and 'inputs')"
    )
    frames = ", or give frames that come out (--input)"
    assert penstock("split", "padded.onnx", "-o", "p.penstock").code == 0
    for command in (["run", "padded.onnx", "--integer-limit", "9"], ["verify", "p.penstock", "--integer-limit", "9"]):
        said = penstock(*command)
        assert said.code != 0
        assert advice + frames in said.err
    built = penstock("build", "padded.onnx", "--integer-limit", "9", "--budget", "1s", "-o", "b.penstock")
    assert built.code != 0
    assert advice + frames in built.error


def test_a_branch_that_is_ruled_out_keeps_nobody_from_measuring(well, tmp_path):
    """ONNX Runtime folds what the other branch pads by once the rate is known, and refuses it."""
    pad = [
        helper.make_node("Unsqueeze", ["rate", "first"], ["sizes"], "sizes"),
        helper.make_node("Pad", ["x", "sizes"], ["padded"], "pad"),
    ]
    nodes = [
        helper.make_node("Equal", ["rate", "known"], ["is_known"], "is_known"),
        helper.make_node(
            "If",
            ["is_known"],
            ["h"],
            "by_rate",
            then_branch=branch("fast", [helper.make_node("Tanh", ["x"], ["t"], "tanh")], "t", [1, 4]),
            else_branch=branch("slow", pad, "padded", ["a", "b"]),
        ),
        helper.make_node("Relu", ["h"], ["y"], "relu"),
    ]
    weights = {"known": np.int64(16000), "first": np.array([0])}
    inputs = [value("x", [1, 4]), value("rate", [], TensorProto.INT64)]
    model = save(tmp_path, "padding", nodes, inputs, [value("y", ["a", "b"])], weights)
    well("split", model, "--constant", "rate=16000", "--cut", "0", "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"
    report = well("bench", "p", "--seconds", "0.2", "--json").json
    assert report["runs"][0]["frames_per_second"] > 0
    assert any(why.startswith("onnxruntime: ") and "Pad" in why for why in report["missing"]), report["missing"]


def test_an_input_with_a_default_is_bound_too(well, tmp_path):
    """From IR 4 on an initialiser that is an input, too, is a default."""
    nodes = [helper.make_node("Mul", ["x", "gain"], ["m"], "scale"), helper.make_node("Relu", ["m"], ["y"], "relu")]
    inputs = [value("x", [2]), value("gain", [2])]
    model = save(tmp_path, "gained", nodes, inputs, [value("y", [2])], {"gain": np.float32([1, 1])})
    np.save(tmp_path / "x.npy", np.float32([3, 4]))
    well("split", model, "--constant", "gain=[2, 5]", "--cut", "scale", "-o", "p.penstock")
    for what in ("p.penstock", [model, "--constant", "gain=[2, 5]"]):
        words = what if isinstance(what, list) else [what]
        well("run", *words, "--input", "x=x.npy", "--output", "out.npz")
        with np.load(tmp_path / "out.npz") as out:
            assert out["y"].tolist() == [6, 20]
    assert "gained.onnx" in well("verify", "p.penstock", "--json").json["reference"]


@pytest.mark.sweep(of=3)
def test_numbered_files_are_those_of_the_models_inputs(penstock, well, tmp_path):
    """input_<i>.pb counts the bound inputs too, as data beside a model of ONNX do."""
    nodes = [helper.make_node("Mul", ["x", "by"], ["m"], "scale"), helper.make_node("Sub", ["m", "z"], ["y"], "less")]
    inputs = [value("x", [2]), value("by", []), value("z", [2])]
    model = save(tmp_path, "ordered", nodes, inputs, [value("y", [2])])
    folder = tmp_path / "data"
    folder.mkdir()
    for i, array in enumerate(([3, 4], 2, [1, 1])):
        tensor = onnx.numpy_helper.from_array(np.float32(array))
        (folder / f"input_{i}.pb").write_bytes(tensor.SerializeToString())
    well("split", model, "--constant", "by=2", "-o", "p.penstock")
    for what in (["p.penstock"], [model], [model, "--constant", "by=2"]):
        well("run", *what, "--inputs", folder, "--output", "out.npz")
        with np.load(tmp_path / "out.npz") as out:
            assert out["y"].tolist() == [5, 7]
    built = ["build", model, "--constant", "by=2", "--inputs", folder, "--budget", "1s", "--backends", "onnxruntime"]
    well(*built, "-o", "b.penstock")
    (folder / "input_1.pb").write_bytes(onnx.numpy_helper.from_array(np.float32(3)).SerializeToString())
    assert "'by'" in penstock("run", "p.penstock", "--inputs", folder).error


def test_a_bound_value_that_fails_is_named_beside_the_frames(penstock, well, tmp_path):
    """y = the row of a table at `id`, times x."""
    nodes = [
        helper.make_node("Gather", ["table", "id"], ["row"], "gather"),
        helper.make_node("Mul", ["x", "row"], ["y"], "mul"),
    ]
    ends = [value("x", [4]), value("id", [], TensorProto.INT64)], [value("y", [4])]
    model = save(tmp_path, "lookup", nodes, *ends, {"table": np.ones((8, 4), np.float32)})
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    random = "; the inputs were random, 'id' bound to a value: bind another value (--constant, in an application "
    given = "; the frame is made of input 'x' f32[4] (--input), 'id' bound to a value (--constant): give sizes"
    options = ["--constant", "id=50", "--budget", "1s", "--most-parts", "0", "-o", "never"]
    assert random in penstock("build", model, *options).error
    assert given in penstock("build", model, *options, "--input", "x=x.npy").error
    well("split", model, "--constant", "id=50", "--as-is", "-o", "p.penstock")
    assert random in penstock("run", "p.penstock", "--frames", "1").error
    assert given in penstock("run", "p.penstock", "--input", "x=x.npy").error
    assert random in penstock("bench", "p.penstock", "--seconds", "0.1").error
    assert random in penstock("verify", "p.penstock").err
