"""Inputs that are bound to a value for good, from Python."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import penstock


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    """y = -relu(x) where rate is 16000, else |x|; times gain."""
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])

    def branch(name: str, *ops: str) -> Any:
        names = ["x", *(f"{name}{i}" for i in range(len(ops)))]
        nodes = [helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(ops)]
        output = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [2])
        return helper.make_graph(nodes, name, [], [output])

    nodes = [
        helper.make_node("Equal", ["rate", "known"], ["is_known"]),
        helper.make_node(
            "If", ["is_known"], ["t"], then_branch=branch("fast", "Relu", "Neg"), else_branch=branch("slow", "Abs")
        ),
        helper.make_node("Mul", ["t", "gain"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("gain", TensorProto.FLOAT, [2]),
    ]
    known = numpy_helper.from_array(np.array(16000, np.int64), "known")
    model = helper.make_model(
        helper.make_graph(nodes, "rated", inputs, [y], [known]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "rated.onnx")
    return tmp_path / "rated.onnx"


X = np.array([-1, 2], np.float32)


@pytest.mark.parametrize("gain", [0.5, [0.5, 0.5], np.full(2, 0.5, np.float32), np.ones(4, np.float32)[::2] / 2])
def test_values_lists_and_arrays(rated: Path, gain: Any) -> None:
    with penstock.split(rated, constants={"rate": np.int64(16000), "gain": gain}) as pipeline:
        assert [port.name for port in pipeline.get_inputs()] == ["x"]
        np.testing.assert_array_equal(pipeline.run(None, X)[0], [0, -1])


@pytest.mark.sweep(of=3)
def test_build_warns_of_what_random_frames_decide(rated: Path, tmp_path: Path) -> None:
    options: Any = {"budget": 1, "backends": ["onnxruntime"], "costs": tmp_path / "costs.db"}
    with (
        pytest.warns(penstock.PenstockWarning, match="input 'rate' decides which part of the network runs"),
        penstock.build(rated, tmp_path / "any.penstock", **options) as pipeline,
    ):
        assert [port.name for port in pipeline.get_inputs()] == ["rate", "x", "gain"]


def test_an_array_may_hold_what_no_text_says_and_a_file_too(rated: Path, tmp_path: Path) -> None:
    gain = np.array([-np.inf, 1], np.float32)
    np.save(tmp_path / "gain.npy", gain)
    for value in (gain, tmp_path / "gain.npy", os.fspath(tmp_path / "gain.npy")):
        with penstock.split(rated, constants={"rate": 8000, "gain": value}) as pipeline:
            np.testing.assert_array_equal(pipeline.run(None, {"x": X})[0], [-np.inf, 2])


def test_it_is_cut_like_any_other(rated: Path) -> None:
    with penstock.split(rated, cuts=["0", "1"], constants={"rate": 16000}) as pipeline:
        assert [stage["name"] for stage in pipeline.plan["stages"]] == ["stage0", "stage1", "stage2"]
        feed = {"x": X, "gain": np.ones(2, np.float32)}
        np.testing.assert_array_equal(pipeline.run(None, feed)[0], [0, -2])


def test_who_sends_the_value_is_served_and_no_other(rated: Path) -> None:
    with penstock.split(rated, constants={"rate": 16000, "gain": [1, 2]}) as pipeline:
        sent = {"rate": np.array(16000, np.int64), "x": X, "gain": np.array([1, 2], np.float32)}
        np.testing.assert_array_equal(pipeline.run(None, sent)[0], [0, -4])
        pipeline.push(sent)
        pipeline.pop()
        with pytest.raises(penstock.InvalidArgument, match=r"'rate': bound .* expected 16000, found 8000"):
            pipeline.push(sent | {"rate": np.array(8000, np.int64)})
        with pytest.raises(penstock.InvalidArgument, match=r"'gain': bound .* expected \[1, 2\], found \[1, 3\]"):
            pipeline.run(None, sent | {"gain": np.array([1, 3], np.float32)})
        with pytest.raises(penstock.InvalidArgument, match="'rate': expected i64"):
            pipeline.push(sent | {"rate": np.array(16000, np.int32)})
        with pytest.raises(penstock.InvalidArgument, match="no input 'speed'"):
            pipeline.push(sent | {"speed": X})


def test_a_saved_package_remembers(rated: Path, tmp_path: Path) -> None:
    package = tmp_path / "rated.penstock"
    penstock.split(rated, constants={"rate": 16000, "gain": 1}, output=package).shut_down()
    with penstock.load(package) as pipeline:
        pipeline.run(None, {"x": X, "rate": np.array(16000, np.int64)})
        with pytest.raises(penstock.InvalidArgument, match="found 1"):
            pipeline.run(None, {"x": X, "rate": np.array(1, np.int64)})


@pytest.mark.sweep(of=3)
def test_a_built_network_takes_them(rated: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"budget": 1.0, "most_parts": 0, "costs": tmp_path / "costs.db"}
    with penstock.build(rated, constants={"rate": 16000, "gain": 1}, **options) as pipeline:
        np.testing.assert_array_equal(pipeline.run(None, {"x": X, "rate": np.array(16000, np.int64)})[0], [0, -2])


def test_planned_and_composed_networks_take_them(rated: Path) -> None:
    with penstock.plan(rated, devices="cpu:0", constants={"rate": 16000, "gain": 1}) as pipeline:
        np.testing.assert_array_equal(pipeline.run(None, X)[0], [0, -2])
    app = penstock.App("rated")
    app.input("x")
    app.network("net", rated, constants={"rate": 8000, "gain": 1}, reads={"x": "x"})
    app.output("y", "net.y")
    with app.start() as pipeline:
        np.testing.assert_array_equal(pipeline.run(None, X)[0], [1, 2])


@pytest.mark.sweep(of=3)
def test_who_builds_with_a_bound_value_is_served_and_no_other(rated: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"budget": 1.0, "most_parts": 0, "costs": tmp_path / "costs.db"}
    options["constants"] = {"rate": 16000, "gain": 1}
    frames = [{"x": X, "rate": np.array(16000, np.int64)}]
    with penstock.build(rated, tmp_path / "p.penstock", frames=frames, **options):
        pass
    assert penstock.verify(tmp_path / "p.penstock", frames=frames)["frames"] == 1
    frames[0]["rate"] = np.array(8000, np.int64)
    with pytest.raises(penstock.InvalidArgument, match="frame 0: input 'rate': .*expected 16000, found 8000"):
        penstock.build(rated, frames=frames, **options)
    with pytest.raises(penstock.InvalidArgument, match="frame 0: input 'rate': .*expected 16000, found 8000"):
        penstock.verify(tmp_path / "p.penstock", frames=frames)


TEXTS = ["é", 'a"b', "back\\slash", "", " x, [y] "]


@pytest.mark.parametrize("texts", [TEXTS, np.array(TEXTS), np.array(TEXTS, object), [[text] for text in TEXTS]])
def test_texts_are_bound_as_they_are(tmp_path: Path, texts: Any) -> None:
    """z = a text of the input stands behind each that is bound."""
    shape = [len(TEXTS), *np.shape(texts)[1:]]
    ports = [helper.make_tensor_value_info(name, TensorProto.STRING, shape) for name in ("x", "known", "z")]
    node = helper.make_node("StringConcat", ["x", "known"], ["z"])
    graph = helper.make_graph([node], "texts", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with penstock.split(model, constants={"known": texts}) as pipeline:
        joined = pipeline.run(None, np.full(shape, "<", object))[0]
    assert list(joined.ravel()) == ["<" + text for text in TEXTS]


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"speed": 1}, "constants: the model has no input 'speed'; its inputs are 'rate', 'x', 'gain'"),
        ({"rate": 0.5}, "constants: input 'rate': expected an integer, as the input is i64, found '0.5'"),
        ({"rate": np.array(16000, np.int32)}, "input 'rate': expected i64[], found i32[]"),
        ({"gain": [1, 2, 3]}, "expected f32[2], found 3 values of shape [3]"),
        ({"gain": float("nan")}, "expected a finite number"),
        ({"rate": {1, 2}}, "constants['rate']: expected a value, a list of values or an array"),
        ({"gain": np.array([1j, 2])}, "input 'gain': expected f32[2], found c128[2]"),
        ({"gain": np.array([object(), 2])}, "expected strings, found object among them"),
        ([("rate", 1)], "constants: expected"),
        ({"rate": None}, "['rate']: expected a value, a list of values or an array, such as 16000, found NoneType"),
        ({"gain": [1, None]}, "constants['gain']: expected a value, a list of values or an array"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(rated: Path, constants: Any, said: str) -> None:
    with pytest.raises(penstock.PenstockError) as caught:
        penstock.split(rated, constants=constants)
    assert said in str(caught.value)
