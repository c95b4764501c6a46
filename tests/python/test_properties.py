"""Properties over shapes, dtypes, layouts and policies, drawn by hypothesis."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import penstock

DTYPES = [
    "float32",
    "float64",
    "float16",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "bool",
]
EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def pass_through(tmp_path_factory: pytest.TempPathFactory):
    """A pipeline for a dtype and rank that gives its input back, computed: shapes are open."""
    folder = tmp_path_factory.mktemp("identity")

    @cache
    def pipeline(dtype: str, rank: int) -> penstock.Pipeline:
        from onnx import helper, save

        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        dims = [f"d{i}" for i in range(rank)]
        graph = helper.make_graph(
            [
                helper.make_node("Unsqueeze", ["x", "axis"], ["wide"], name="a"),
                helper.make_node("Squeeze", ["wide", "axis"], ["y"], name="b"),
            ],
            "pass",
            [helper.make_tensor_value_info("x", kind, dims)],
            [helper.make_tensor_value_info("y", kind, dims)],
            [helper.make_tensor("axis", 7, [1], [0])],
        )
        file = folder / f"{dtype}{rank}.onnx"
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
        shapes = {"x": "x".join(["1..6"] * rank)} if rank else None
        return penstock.split(file, shapes=shapes)

    return pipeline


@EXAMPLES
@given(data=st.data())
def test_any_array_comes_back_as_it_went_in(pass_through, data) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=6))
    array = data.draw(hnp.arrays(dtype, shape))
    result = pass_through(dtype, len(shape))(array)[0]
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array)


@EXAMPLES
@given(data=st.data())
def test_an_array_of_another_dtype_rank_or_layout_is_refused(pass_through, data) -> None:
    pipeline = pass_through("float32", 2)
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=8))
    array = np.zeros(shape, dtype)[tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)]
    fits = dtype == "float32" and array.ndim == 2 and array.flags.c_contiguous and max(array.shape) <= 6
    if fits:
        np.testing.assert_array_equal(pipeline(array)[0], array)
    else:
        with pytest.raises(penstock.InvalidArgument, match="^input 'x': expected "):
            pipeline(array)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    policy=st.sampled_from(["block", "drop_oldest", "drop_newest", "latest", "error"]),
    capacity=st.integers(1, 5),
    replicas=st.integers(1, 2),
    count=st.integers(0, 60),
    threaded=st.booleans(),
)
def test_every_frame_comes_out_once_and_in_order(
    model: Path, policy: str, capacity: int, replicas: int, count: int, threaded: bool
) -> None:
    with penstock.split(model, cuts=["increment"], replicas=replicas, policy=policy, capacity=capacity) as pipeline:
        items = [np.full((1, 4), i, np.float32) for i in range(count)]
        results = list(pipeline.stream(items, errors="yield", dropped="yield", threaded=threaded))
        assert [result.number for result in results] == list(range(count))
        for i, result in enumerate(results):
            if result.ok:
                assert result["z"][0, 0] == (2 * i + 1) ** 2
            else:
                assert result.outcome == "dropped" and policy not in ("block", "error")
                assert isinstance(result.error, penstock.Aborted)
        stats = pipeline.stats()
        assert stats["ok"] + stats["drops"] == stats["popped"] == count


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn"])
def test_ml_dtypes_go_through(pass_through, kind: str) -> None:
    import ml_dtypes

    array = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, kind))
    try:
        pipeline = pass_through(kind, 2)
    except penstock.PenstockError as error:
        pytest.skip(f"the engine has no kernel: {error}")
    result = pipeline(array)[0]
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result.view("uint8"), array.view("uint8"))


def test_strings_go_through(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["y"], name="t")],
        "strings",
        [value("x", TensorProto.STRING, [2, 3])],
        [value("y", TensorProto.STRING, [3, 2])],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    texts = np.array([["a", "béta", ""], ["d", "e", "f"]], dtype=object)
    with penstock.split(tmp_path / "m.onnx") as pipeline:
        for given in (texts, texts.astype(str), texts.tolist()):
            feed = {"x": given}
            np.testing.assert_array_equal(pipeline.run(None, feed)[0], texts.T)
        with pytest.raises(penstock.InvalidArgument, match="expected strings, found int among them"):
            pipeline.run(None, {"x": np.array([[1, 2, 3]] * 2, dtype=object)})
