"""penstock.verify()."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line import frame

import penstock


@pytest.fixture
def package(model: Path, tmp_path: Path) -> Path:
    with penstock.split(model, cuts=["increment"], output=tmp_path / "line.penstock"):
        pass
    return tmp_path / "line.penstock"


def other_model(model: Path, tmp_path: Path) -> Path:
    import onnx

    other = onnx.load(model)
    for tensor in other.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * np.float32(2), tensor.name))
    onnx.save(other, tmp_path / "other.onnx")
    return tmp_path / "other.onnx"


def test_a_package_computes_what_its_model_computes(package: Path, model: Path) -> None:
    report = penstock.verify(package, model, 5)
    assert (report["ok"], report["verdict"], report["frames"]) == (True, "right", 5)
    assert str(model) in report["reference"]
    assert all(0 < output["floor"] <= output["bf16"] / 2 for output in report["outputs"])


def test_the_report_speaks_of_pythons_arguments(model: Path, tmp_path: Path) -> None:
    gone = Path(shutil.copy(model, tmp_path / "gone.onnx"))
    penstock.split(gone, cuts=["increment"], output=tmp_path / "line.penstock").shut_down()
    gone.unlink()
    tiny = [{"x": np.full((1, 4), value, np.float32)} for value in (1e-9, 2e-9)]  # Two outputs that are alike.
    report = penstock.verify(tmp_path / "line.penstock", frames=tiny)
    assert "is gone or changed since the package was made (give the whole one: model)" in report["reference"]
    assert "(frames)" in report["outputs"][0]["reason"]
    assert "--" not in json.dumps(report)


def test_another_models_outputs_are_wrong(package: Path, model: Path, tmp_path: Path) -> None:
    report = penstock.verify(package, other_model(model, tmp_path))
    assert (report["ok"], report["verdict"]) == (False, "wrong")
    assert report["problems"][0].startswith("frame 0: output ")
    assert any("not the model that the package was made from" in text for text in report["warnings"])


def test_a_running_pipeline_is_verified_beside_itself(model: Path, tmp_path: Path) -> None:
    with penstock.split(model, cuts=["increment"]) as pipeline:
        pipeline.push({"x": frame(3)})
        report = pipeline.verify(frames=4, seed=7)
        assert (report["verdict"], report["frames"]) == ("right", 4)
        assert str(model) in report["reference"]
        assert pipeline.verify(other_model(model, tmp_path))["verdict"] == "wrong"
        assert pipeline.pop() is not None
        with pytest.raises(penstock.InvalidArgument, match="frames: expected frames or how many"):
            pipeline.verify(frames=0)


def test_a_pipeline_that_drops_frames_is_verified_with_all_of_them(model: Path) -> None:
    with penstock.split(model, cuts=["increment"], policy="latest", max_age_ms=1) as pipeline:
        report = pipeline.verify(frames=40)
        assert (report["verdict"], report["frames"]) == ("right", 40)


def test_the_engines_settings_may_be_given(package: Path) -> None:
    settings = {"onnxruntime": {"graph_optimization_level": 0}}
    assert penstock.verify(package, frames=2, backend_options=settings)["verdict"] == "right"
    with pytest.raises(penstock.PenstockError, match="execution_mode"):
        penstock.verify(package, frames=2, backend_options={"onnxruntime": {"execution_mode": "many"}})


def test_frames_may_be_given(package: Path) -> None:
    values = [{"x": np.asarray(frame(number))} for number in (1, 2, 3)]
    report = penstock.verify(package, frames=values)
    assert (report["verdict"], report["frames"]) == ("right", 3)
    with pytest.raises(penstock.InvalidArgument, match="frames: frame 0: no input 'y'; the inputs are 'x'"):
        penstock.verify(package, frames=[{"y": values[0]["x"]}])
    with pytest.raises(penstock.InvalidArgument, match="frames: frame 0: expected a value of one of the inputs 'x'"):
        penstock.verify(package, frames=[{}])


def test_inputs_that_frames_leave_out_are_random(tmp_path: Path) -> None:
    """All have as many columns, which only what is given says."""
    import onnx

    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, n] x, float[1, n] y, float[1, n] z)'
        " => (float[3, n] out) { out = Concat<axis = 0>(x, y, z) }"
    )
    onnx.save(graph, tmp_path / "columns.onnx")
    penstock.split(tmp_path / "columns.onnx", output=tmp_path / "columns.penstock").shut_down()
    frames = [{"y": np.full((1, 5), number, np.float32)} for number in range(3)]
    report = penstock.verify(tmp_path / "columns.penstock", frames=frames)
    assert (report["verdict"], report["frames"]) == ("right", 3)


def test_frames_may_be_what_sources_give(package: Path, tmp_path: Path) -> None:
    arrays = [np.asarray(frame(number)) for number in range(12)]
    np.savez(tmp_path / "all.npz", **{f"{number}/x": array for number, array in enumerate(arrays)})
    sources = (np.stack(arrays), penstock.io.rows(np.concatenate(arrays)), penstock.io.arrays(tmp_path / "all.npz"))
    for source in (list(sources[0]), *sources[1:], [[array] for array in arrays]):
        report = penstock.verify(package, frames=source)
        assert (report["verdict"], report["frames"]) == ("right", 12)
    read = [given["x"] for given in penstock.io.arrays(tmp_path / "all.npz")]  # type: ignore[index]
    np.testing.assert_array_equal(read, arrays)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (np.zeros((2, 1, 4), np.float32), "frames: expected a list of frames"),
        ({"x": np.zeros((1, 4), np.float32)}, "frames: expected a list of frames"),
        ([], "frames: expected one frame or more"),
        ([{"x": frame(1)}, {"x": frame(1), "y": 3}], "frames: frame 1: no input 'y'; the inputs are 'x'"),
        ([{"x": np.zeros(3, np.float32)}], "frames: frame 0: input 'x': expected f32"),
        ([(frame(1), frame(2))], "frames: frame 0: expected a dict of the inputs 'x', found tuple"),
    ],
)
def test_frames_that_are_none_are_named(package: Path, frames: Any, said: str) -> None:
    with pytest.raises(penstock.InvalidArgument) as caught:
        penstock.verify(package, frames=frames)
    assert said in str(caught.value)


def test_frames_that_give_the_same_are_inconclusive(package: Path) -> None:
    tiny = [{"x": np.full((1, 4), value, np.float32)} for value in (1e-9, 2e-9)]
    report = penstock.verify(package, frames=tiny)
    assert (report["ok"], report["verdict"]) == (False, "inconclusive")
    assert "give frames" in report["outputs"][0]["reason"]


def test_mistakes_are_named(package: Path, tmp_path: Path) -> None:
    with pytest.raises(penstock.InvalidArgument, match="tolerance: expected a number above 0, found -1"):
        penstock.verify(package, tolerance=-1)
    with pytest.raises(penstock.InvalidArgument, match="frames: expected frames or how many"):
        penstock.verify(package, frames=0)
    with pytest.raises(penstock.InvalidArgument, match="integer_limit: expected 1 or more"):
        penstock.verify(package, integer_limit=0)
    with pytest.raises(penstock.NotFound):
        penstock.verify(tmp_path / "none")


def test_an_application_with_a_callable_is_verified(model: Path, tmp_path: Path) -> None:
    app = penstock.App("half")
    app.input("x")
    app.network("network", model, reads={"x": "x"})
    app.function("half", lambda z: z / 2, {"z": "f32[1,4]"}, {"half": "f32[1,4]"}, reads="network.z")
    app.output("half", "half.half")
    package = tmp_path / "half.penstock"
    with app.start(output=package) as pipeline:
        assert pipeline.verify(frames=3)["verdict"] == "right"
    with pytest.raises(penstock.NotFound, match=r"no function 'half'; .*; give it by functions=\[penstock\.Function"):
        penstock.verify(package)
    half = penstock.Function("half", lambda z: z / 2, {"z": "f32[1,4]"}, {"half": "f32[1,4]"})
    assert penstock.verify(package, frames=3, functions=[half])["verdict"] == "right"
    with penstock.load(package, functions=[half]) as pipeline:
        assert pipeline.verify(frames=3)["verdict"] == "right"
    with pytest.raises(penstock.InvalidArgument, match="^model: package .* is compared with itself"):
        penstock.verify(package, model, functions=[half])


def test_a_model_with_other_inputs_is_refused_by_the_options_name(package: Path, model: Path, tmp_path: Path) -> None:
    import onnx

    other = onnx.load(model)
    for node in other.graph.node:
        node.input[:] = ["photo" if name == "x" else name for name in node.input]
    other.graph.input[0].name = "photo"
    onnx.save(other, tmp_path / "photo.onnx")
    with pytest.raises(penstock.InvalidArgument, match="^model: its input 'photo' is none of the package's"):
        penstock.verify(package, tmp_path / "photo.onnx")


def test_how_many_frames_may_be_numpys(package: Path) -> None:
    report = penstock.verify(package, frames=np.int64(2), seed=np.int64(1))  # type: ignore[arg-type]
    assert (report["verdict"], report["frames"]) == ("right", 2)
    with pytest.raises(penstock.InvalidArgument, match=r"seed: expected a number from 0 to .*found int -1"):
        penstock.verify(package, seed=-1)


def verdicts(right: Any, other: Any, folder: Path, seeds: int) -> list[str]:
    """What is said of a package of the other model, on random frames of each seed."""
    import onnx

    for name, model in ("right", right), ("other", other):
        onnx.save(model, folder / f"{name}.onnx")
    package = folder / "other.penstock"
    with penstock.split(folder / "other.onnx", output=package):
        pass
    return [penstock.verify(package, folder / "right.onnx", seed=seed)["verdict"] for seed in range(seeds)]


def classes_of(more: int) -> Any:
    """The class of each of ten places, of 21, in eight bits, and so much more."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("ArgMax", ["x"], ["class"], axis=1, keepdims=0),
        helper.make_node("Cast", ["class"], ["narrow"], to=TensorProto.UINT8),
        helper.make_node("Add", ["narrow", "more"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 21, 10])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 10])]
    constants = [numpy_helper.from_array(np.array(more, np.uint8), "more")]
    graph = helper.make_graph(nodes, "classes", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_next_class_is_wrong(tmp_path: Path) -> None:
    """Eight bits are no quantised numbers there, of which a step may be rounding."""
    assert verdicts(classes_of(0), classes_of(0), tmp_path, 2) == ["right"] * 2
    assert verdicts(classes_of(0), classes_of(1), tmp_path, 2) == ["wrong"] * 2


def average_of(scale: float) -> Any:
    """Averages of a hundred steps, rounded to steps: a hundredth of them lie just between two."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "first", "zero"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["average"]),
        helper.make_node("QuantizeLinear", ["average", "step", "zero"], ["rounded"]),
        helper.make_node("DequantizeLinear", ["rounded", "step", "zero"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 10, 10])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])]
    constants = {"step": np.float32(0.03), "zero": np.uint8(128)}
    if scale != 1:
        constants["first"] = np.float32(0.03 * scale)
    else:
        nodes[1].input[1] = "step"
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "average", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_rounds_ties_the_other_way_is_right(tmp_path: Path) -> None:
    """As engines do that add in another order, where one step is of a sum and of its rounding."""
    assert verdicts(average_of(1), average_of(1 + 1e-6), tmp_path, 6) == ["right"] * 6
    assert verdicts(average_of(1), average_of(1.2), tmp_path, 2) == ["wrong"] * 2
