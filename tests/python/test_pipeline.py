"""The pipeline from Python: one frame, many frames, memory, errors."""

import asyncio
import contextlib
import copy
import gc
import json
import pickle
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from line import expected, frame

import penstock


@pytest.fixture
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_run_gives_what_onnxruntime_gives(model: Path, pipeline: penstock.Pipeline) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    feed = {"x": np.arange(4, dtype=np.float32).reshape(1, 4)}
    for names in (None, ["z"]):
        ours, theirs = pipeline.run(names, feed), session.run(names, feed)
        assert len(ours) == len(theirs) == 1
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_ports_are_described_as_onnxruntime_does(model: Path, pipeline: penstock.Pipeline) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    for ours, theirs in (
        (pipeline.get_inputs(), session.get_inputs()),
        (pipeline.get_outputs(), session.get_outputs()),
    ):
        assert [(p.name, p.type, p.shape) for p in ours] == [(p.name, p.type, p.shape) for p in theirs]


@pytest.mark.parametrize(
    "feed", [{"x": frame(3)}, [frame(3)], (frame(3),), frame(3)], ids=["dict", "list", "tuple", "array"]
)
def test_inputs_go_by_name_by_position_or_alone(pipeline: penstock.Pipeline, feed: object) -> None:
    np.testing.assert_array_equal(pipeline.run(None, feed)[0], expected(3))


def test_outputs_are_a_list_of_names(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.InvalidArgument, match=r"expected a list of names or None, found 'z'; write \['z'\]"):
        pipeline.run("z", frame(1))


def test_a_pipeline_has_no_copies(pipeline: penstock.Pipeline) -> None:
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"can be neither copied nor pickled; save\(\) it"):
            make(pipeline)
    np.testing.assert_array_equal(pipeline(frame(1))[0], expected(1))


def test_calling_it_is_running_it(pipeline: penstock.Pipeline) -> None:
    np.testing.assert_array_equal(pipeline(frame(1))[0], expected(1))
    np.testing.assert_array_equal(pipeline(x=frame(2))[0], expected(2))


def test_a_model_may_be_bytes_or_a_proto(model: Path) -> None:
    import onnx

    for given in (model.read_bytes(), onnx.load(model), str(model)):
        with penstock.split(given) as running:
            np.testing.assert_array_equal(running(frame(5))[0], expected(5))


def test_a_package_is_saved_and_loaded(model: Path, tmp_path: Path) -> None:
    with penstock.split(model, cuts=["increment"], output=tmp_path / "a.zip") as running:
        running.save(tmp_path / "b")
        running.save(tmp_path / "c.zip")
    for name in ("a.zip", "b", "c.zip"):
        with penstock.load(tmp_path / name) as loaded:
            assert len(loaded.plan["stages"]) == 2
            np.testing.assert_array_equal(loaded(frame(5))[0], expected(5))


@pytest.mark.parametrize(("batch", "frames", "wait"), [(3, 3, 0), ("3:0.5", 3, 500), ({"": 4, "stage0": 3}, 3, 0)])
def test_a_batch_gives_what_single_frames_give(model: Path, tmp_path: Path, batch: Any, frames: int, wait: int) -> None:
    with penstock.split(model, batch=batch, replicas=1, output=tmp_path / "p") as running:
        for number, result in enumerate(running.stream(frame(i) for i in range(500))):
            assert result.number == number
            np.testing.assert_array_equal(result["z"], expected(number))
        (counted,) = running.stats()["stages"]
    assert len(counted["calls"]) == frames
    assert sum(held * calls for held, calls in enumerate(counted["calls"], 1)) == 500
    (stage,) = json.loads((tmp_path / "p/plan.json").read_text())["stages"]
    assert stage["batch"] == {"frames": frames, "wait_us": wait}
    assert [one["frames"] for one in stage["partitions"][0]["batched"]] == [2, 3]


def test_frames_wait_for_one_another_up_to_the_batch(model: Path) -> None:
    with penstock.split(model, batch="3:600000", replicas=1, in_flight=6) as running:
        futures = [running.submit(frame(i)) for i in range(6)]
        for i, future in enumerate(futures):
            np.testing.assert_array_equal(future.result()["z"], expected(i))
        (stage,) = running.stats()["stages"]
    assert stage["calls"] == [0, 0, 2]


def test_one_frame_alone_waits_for_no_others(model: Path) -> None:
    with penstock.split(model, batch="3:600000", replicas=1, in_flight=6) as running:
        for i in range(2):
            np.testing.assert_array_equal(running.run(["z"], frame(i))[0], expected(i))
        (stage,) = running.stats()["stages"]
    assert stage["calls"] == [2, 0, 0]


@pytest.mark.parametrize("threaded", [False, True])
def test_the_last_frames_of_a_source_wait_for_no_others(model: Path, threaded: bool) -> None:
    with penstock.split(model, batch="3:600000", replicas=1, in_flight=6) as running:
        results = list(running.stream((frame(i) for i in range(4)), threaded=threaded))
        assert [result.number for result in results] == [0, 1, 2, 3]


@pytest.mark.parametrize("threaded", [False, True])
def test_frames_before_the_failure_of_a_source_wait_for_no_others(model: Path, threaded: bool) -> None:
    def failing() -> Iterator[Any]:
        yield frame(0)
        raise OSError("gone")

    with penstock.split(model, batch="3:600000", replicas=1, in_flight=6) as running:
        stream = running.stream(failing(), threaded=threaded)
        assert next(stream).number == 0
        with pytest.raises(OSError, match="gone"):
            next(stream)


def test_a_source_may_end_after_its_pipeline(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    ends = threading.Event()

    def waiting() -> Iterator[Any]:
        yield frame(0)
        ends.wait()

    before = set(threading.enumerate())
    with penstock.split(model) as running:
        next(running.stream(waiting(), threaded=True))
        (feeder,) = set(threading.enumerate()) - before
    ends.set()
    feeder.join()
    assert not hooked


def test_the_last_frames_of_an_asynchronous_source_wait_for_no_others(model: Path) -> None:
    async def run() -> list[int]:
        with penstock.split(model, batch="3:600000", replicas=1, in_flight=6) as running:
            return [result.number async for result in running.astream(frame(i) for i in range(4))]

    assert asyncio.run(run()) == [0, 1, 2, 3]


def test_a_cancelled_frame_waits_for_no_others(model: Path) -> None:
    with penstock.split(model, batch="3:600000", replicas=1, in_flight=6) as running:
        number = running.push(frame(0))
        assert running.cancel_frame(number)
        assert running.pop().outcome == "cancelled"


def open_network(folder: Path, first: int | str) -> Path:
    """Splits each row in two halves, sums each, and counts its own sizes on the way, as exporters write it."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "zero", "two"], ["outer"]),
        helper.make_node("Concat", ["outer", "halves"], ["apart"], axis=0),
        helper.make_node("Reshape", ["x", "apart"], ["parts"]),
        helper.make_node("ReduceSum", ["parts", "last"], ["sums"], keepdims=0),
        helper.make_node("Softmax", ["sums"], ["y"], axis=1),
    ]
    lists = {"zero": [0], "two": [2], "halves": [2, 3], "last": [-1]}
    graph = helper.make_graph(
        nodes,
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, "s", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [first, "s", 2])],
        [numpy_helper.from_array(np.array(items, np.int64), name) for name, items in lists.items()],
    )
    path = folder / "open.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return path


@pytest.mark.parametrize(("first", "rows"), [(1, 1), ("n", 1), ("n", 3)])
@pytest.mark.parametrize("bound", ["1..9", "?"])
@pytest.mark.parametrize(
    ("lengths", "calls"), [([4, 4, 4, 7, 7, 7, 5, 6, 5], [3, 0, 2]), ([4, 7, 7, 5, 4, 4, 7, 7, 7], [2, 2, 1])]
)
def test_frames_of_one_open_shape_share_a_call(
    tmp_path: Path, first: int | str, rows: int, bound: str, lengths: list[int], calls: list[int]
) -> None:
    import onnxruntime

    model = open_network(tmp_path, first)
    session = onnxruntime.InferenceSession(model)
    random = np.random.default_rng(1)
    frames = [random.random((rows, length, 6), np.float32) for length in lengths]
    shapes = {"x": f"{first if first == 1 else '1..4'}x{bound}x6"}
    with penstock.split(model, batch="3:600000", shapes=shapes, replicas=1, in_flight=9) as running:
        futures = [running.submit(x) for x in frames]
        running.close()
        for x, future in zip(frames, futures, strict=True):
            np.testing.assert_allclose(future.result()["y"], session.run(None, {"x": x})[0], rtol=1e-5)
        (stage,) = running.stats()["stages"]
    assert stage["calls"] == calls


def test_a_call_that_lacks_frames_of_open_shapes_counts_right(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Shape", ["x"], ["count"], end=1),
        helper.make_node("Cast", ["count"], ["rows"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "rows"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "counts", ports[:1], ports[1:])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with penstock.split(network, batch="4:600000", shapes={"x": "1..4x2"}, replicas=1, in_flight=4) as running:
        frames = [np.full((4, 2), i, np.float32) for i in range(3)]
        for x in frames:
            running.push(x)
        running.close()
        for x in frames:
            np.testing.assert_array_equal(running.pop()["y"], 4 * x)
        (stage,) = running.stats()["stages"]
    assert stage["calls"] == [0, 0, 1, 0]


@pytest.mark.filterwarnings("ignore:.* calls in flight")  # Of engines here a stage has one.
def test_lanes_are_those_of_every_stage(model: Path) -> None:
    with penstock.split(model, ["increment"], lanes=3) as running:
        assert [stage["lanes"] for stage in running.plan["stages"]] == [3, 3]
    for lanes in (-1, 1025):
        with pytest.raises(
            penstock.InvalidArgument, match=f"lanes '{lanes}': expected N or STAGE=N, .* from 0 to 1024"
        ):
            penstock.split(model, lanes=lanes)
    with pytest.raises(penstock.InvalidArgument, match="lanes: expected a number of calls, or .*, found str 'many'"):
        penstock.split(model, lanes="many")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.* calls in flight")  # Of engines here a stage has one.
def test_lanes_are_said_by_the_stage(model: Path) -> None:
    with penstock.split(model, ["increment"], lanes={"stage1": 3, "": 2}) as running:
        assert [stage["lanes"] for stage in running.plan["stages"]] == [2, 3]
    with pytest.raises(penstock.NotFound, match="lanes: no stage 'nowhere'; the stages are stage0, stage1"):
        penstock.split(model, ["increment"], lanes={"nowhere": 3})


def test_options_that_cannot_do_what_they_say_are_told(model: Path) -> None:
    with pytest.warns(UserWarning, match="^capacity: the edge of 'x' keeps one frame, as its policy is 'latest'"):
        penstock.split(model, policy="latest", capacity=4).close()
    with pytest.warns(UserWarning, match="^stage 'stage0': takes up to 4 frames in a call .* never gets more than 2"):
        penstock.split(model, batch=4, capacity=2).close()
    with pytest.warns(UserWarning, match="^stage 'stage0': a call that hangs may be .* expected max_run_ms too, or"):
        penstock.split(model, max_left_behind=2).close()
    with pytest.warns(UserWarning, match=r"^stage 'stage0': may have 4 calls in flight \(lanes\), and has 1: backend "):
        penstock.split(model, lanes=4).close()


@pytest.mark.parametrize("option", ["streams", "capacity", "in_flight", "max_age_ms"])
def test_true_is_no_number(model: Path, option: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=rf"^{option}: expected a (whole )?number, found True \(bool\)"):
        penstock.split(model, **{option: True})  # type: ignore[arg-type]


def test_what_a_plan_cannot_have_of_a_stage_has_the_stage_as_its_place(model: Path) -> None:
    with pytest.raises(penstock.InvalidArgument, match="^plan: stage 'stage0': ") as refused:
        penstock.split(model, ["increment"], batch={"stage0": "1:2"})
    assert refused.value.stage == "stage0"


def test_what_cannot_take_several_frames_of_open_shapes_is_refused_by_its_node(tmp_path: Path) -> None:
    import onnx

    network = onnx.load(open_network(tmp_path, "n"))
    network.graph.node[-1].CopyFrom(onnx.helper.make_node("RandomNormalLike", ["sums"], ["y"]))
    with pytest.raises(
        penstock.FailedPrecondition, match=r"node '\w+': RandomNormalLike cannot take several frames in one call: "
    ):
        penstock.split(network, batch=4)


@pytest.mark.parametrize("batch", [True, 2.5, [8], {"stage0": None}])
def test_a_batch_of_another_type_is_refused(model: Path, batch: Any) -> None:
    with pytest.raises(penstock.InvalidArgument, match=r"^batch: expected a number of frames, '8:2.5', 'auto' or "):
        penstock.split(model, batch=batch)


def test_the_planner_finds_a_split(model: Path) -> None:
    with penstock.plan(model, devices=["cpu:0"]) as running:
        assert running.plan["prediction"]["period_seconds"] > 0
        np.testing.assert_array_equal(running(frame(5))[0], expected(5))


def test_stream_gives_results_in_order(pipeline: penstock.Pipeline) -> None:
    results = list(pipeline.stream(frame(i) for i in range(2000)))
    assert [result.number for result in results] == list(range(2000))
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result["z"], expected(i))


def test_the_item_is_the_tag_of_what_feed_makes_of_it(pipeline: penstock.Pipeline) -> None:
    for result in pipeline.stream(["1", "2", "3"], feed=lambda text: frame(float(text))):
        np.testing.assert_array_equal(result[0], expected(float(result.tag)))


@pytest.mark.parametrize("threaded", [False, True])
def test_an_error_is_raised_at_its_frame_and_the_stream_goes_on(pipeline: penstock.Pipeline, threaded: bool) -> None:
    items = [frame(0), frame(1), np.zeros((1, 5), np.float32), frame(3), frame(4)]
    stream = pipeline.stream(items, threaded=threaded)
    assert [next(stream)["z"][0, 0] for _ in range(2)] == [1, 9]
    with pytest.raises(ValueError, match=r"input 'x': expected f32\[1,4\], found f32\[1,5\]"):
        next(stream)
    assert [result["z"][0, 0] for result in stream] == [49, 81]


@pytest.mark.parametrize("threaded", [False, True])
def test_what_the_source_raises_comes_behind_the_frames_before_it(pipeline: penstock.Pipeline, threaded: bool) -> None:
    def source():
        yield frame(1)
        yield frame(2)
        raise OSError("the camera is gone")

    stream = pipeline.stream(source(), threaded=threaded)
    assert [next(stream)["z"][0, 0] for _ in range(2)] == [9, 25]
    with pytest.raises(OSError, match="the camera is gone"):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_that_raised_leaves_nothing_behind(
    pipeline: penstock.Pipeline, threaded: bool, without_collection: None
) -> None:
    def gone():
        yield frame(1)
        raise OSError("the camera is gone")

    def first_error(source) -> str:
        try:
            for _ in pipeline.stream(source, threaded=threaded):
                pass
        except (OSError, ValueError) as error:
            return str(error)
        return ""

    assert "expected f32[1,4]" in first_error([frame(0), np.zeros((1, 5), np.float32)])
    np.testing.assert_array_equal(pipeline(frame(7))[0], expected(7))
    assert first_error(gone()) == "the camera is gone"
    np.testing.assert_array_equal(pipeline(frame(8))[0], expected(8))


def test_a_stream_that_is_left_leaves_nothing_behind(pipeline: penstock.Pipeline) -> None:
    for result in pipeline.stream(frame(i) for i in range(10_000)):
        if result.number == 20:
            break
    np.testing.assert_array_equal(pipeline(frame(7))[0], expected(7))
    assert [result["z"][0, 0] for result in pipeline.stream([frame(1)])] == [9]


@pytest.mark.parametrize("threaded", [False, True])
def test_a_result_that_is_held_does_not_stop_who_comes_after_a_stream(model: Path, threaded: bool) -> None:
    with penstock.split(model, capacity=2) as pipeline:
        stream = pipeline.stream((frame(i) for i in range(10**9)), threaded=threaded)
        held = [next(stream) for _ in range(10)][-1]
        stream.close()
        assert np.array_equal(pipeline.run(None, frame(3))[0], expected(3))
        assert np.array_equal(held["z"], expected(9))


@pytest.mark.parametrize("stop", [StopIteration, StopAsyncIteration])
@pytest.mark.parametrize("way", ["stream", "threaded", "astream"])
def test_a_stop_of_feed_does_not_end_the_stream_in_silence(
    pipeline: penstock.Pipeline, way: str, stop: type[Exception]
) -> None:
    def feed(item: int) -> np.ndarray:
        if item == 2:
            raise stop
        return frame(item)

    async def asynchronous() -> None:
        stream = pipeline.astream(range(4), feed)
        assert [(await anext(stream)).tag for _ in range(2)] == [0, 1]
        with pytest.raises(RuntimeError, match=f"feed raised {stop.__name__}") as raised:
            await anext(stream)
        assert isinstance(raised.value.__cause__, stop)
        assert [result.tag async for result in stream] == [3]

    if way == "astream":
        return asyncio.run(asynchronous())
    stream = pipeline.stream(range(4), feed, threaded=way == "threaded")
    assert [next(stream).tag for _ in range(2)] == [0, 1]
    with pytest.raises(RuntimeError, match=f"feed raised {stop.__name__}") as raised:
        next(stream)
    assert isinstance(raised.value.__cause__, stop)
    assert [result.tag for result in stream] == [3]


def of_one(call: Callable[..., Any], **options: Any) -> penstock.Pipeline:
    """y = call(x)"""
    app = penstock.App("one")
    app.input("x", "f32[1]")
    app.function("f", call, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x")
    app.output("y", "f.y")
    return app.start(**options)


@pytest.mark.parametrize("way", ["stream", "threaded", "astream"])
def test_streams_wait_where_the_pipeline_is_full_also_by_the_policy_error(way: str) -> None:
    def slow(x: np.ndarray) -> np.ndarray:
        time.sleep(0.005)
        return np.copy(x)

    async def asynchronous() -> list[float]:
        return [result["y"][0] async for result in pipeline.astream(frames)]

    frames = [np.full(1, i, np.float32) for i in range(20)]
    with of_one(slow, capacity=1, policy="error") as pipeline:
        if way == "astream":
            came = asyncio.run(asynchronous())
        else:
            came = [result["y"][0] for result in pipeline.stream(frames, threaded=way == "threaded")]
        assert came == list(range(20))
        with pytest.raises(penstock.ResourceExhausted) as refused:
            while True:
                pipeline.push(frames[0])
        assert {"kind": "input", "name": "x"} in refused.value.places


@pytest.mark.parametrize("threaded", [False, True])
def test_threads_share_the_results_of_a_stream(
    pipeline: penstock.Pipeline, threaded: bool, often_switched: None
) -> None:
    stream = pipeline.stream(range(400), frame, threaded=threaded)
    found: list[penstock.Frame] = []
    in_threads(4, lambda _: found.extend(stream))
    assert sorted(result.tag for result in found) == list(range(400))
    for result in found:
        np.testing.assert_array_equal(result["z"], expected(result.tag))


def test_tasks_share_the_results_of_a_stream(pipeline: penstock.Pipeline) -> None:
    async def work() -> list[int]:
        stream = pipeline.astream(range(400), frame)

        async def consume() -> list[int]:
            return [result.tag async for result in stream]

        return sum(await asyncio.gather(*[consume() for _ in range(4)]), [])

    assert sorted(asyncio.run(work())) == list(range(400))


class Gate:
    """A call that counts its frames, and holds one until it is opened."""

    def __init__(self, held: int) -> None:
        self.seen: list[int] = []
        self.reached, self.opened = threading.Event(), threading.Event()
        self._held = held

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(int(x[0]))
        if x[0] == self._held:
            self.reached.set()
            assert self.opened.wait(60)
        return np.copy(x)


def test_stream_keeps_several_frames_in_flight() -> None:
    gate = Gate(0)  # The first frame waits for the second.

    def source() -> Iterator[np.ndarray]:
        for i in range(20):
            if pipeline.in_flight > 1:
                gate.opened.set()
            yield np.full(1, i, np.float32)

    with of_one(gate) as pipeline:
        assert [result["y"][0] for result in pipeline.stream(source())] == list(range(20))


@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_that_is_closed_ends_for_a_thread_that_waits_for_a_result(threaded: bool) -> None:
    gate = Gate(2)
    with of_one(gate) as pipeline, ThreadPoolExecutor(1) as pool:
        stream = pipeline.stream((np.full(1, i, np.float32) for i in range(9)), threaded=threaded)
        taken = pool.submit(list, stream)
        assert gate.reached.wait(60)
        stream.close()
        assert len(taken.result(60)) <= 2
        gate.opened.set()


@pytest.mark.parametrize("way", ["stream", "astream", "astream, not closed"])
def test_what_is_in_flight_when_a_stream_is_left_is_not_computed(way: str) -> None:
    gate = Gate(1)

    def source() -> Iterator[np.ndarray]:
        for i in range(10**9):
            if pipeline.in_flight > 5:  # So many wait behind the one that is held.
                assert gate.reached.wait(60)
            yield np.full(1, i, np.float32)

    async def asynchronous() -> None:
        stream = pipeline.astream(source())
        async for _ in stream:
            break
        while pipeline.in_flight < 5:
            await asyncio.wait([asyncio.ensure_future(anext(stream))], timeout=0.001)
        assert gate.reached.wait(60)
        if way == "astream":
            await stream.aclose()

    with of_one(gate) as pipeline:
        if way == "stream":
            stream = pipeline.stream(source(), threaded=True)
            next(stream)
            while pipeline.in_flight < 5:
                time.sleep(0.001)
            assert gate.reached.wait(60)
            stream.close()
        else:
            asyncio.run(asynchronous())
            gc.collect()
            with pytest.raises(penstock.FailedPrecondition, match=r"run: frames of astream\(\) are in flight; wait"):
                pipeline(np.ones(1, np.float32))
        gate.opened.set()
        while pipeline.in_flight:
            time.sleep(0.001)
        assert pipeline(np.full(1, 7, np.float32))[0] == 7
    assert gate.seen == [0, 1, 7]


async def begun(
    pipeline: penstock.Pipeline, values: list[int], errors: Any = "raise"
) -> tuple[penstock.AsyncStream[Any], asyncio.Task[list[int]]]:
    """A stream whose items are in flight, and a task that waits for the first result."""
    ended = asyncio.Event()

    async def source() -> AsyncIterator[np.ndarray]:
        for value in values:
            yield np.full(1, value, np.float32)
        ended.set()

    async def consume() -> list[int]:
        return [int(result["y"][0]) async for result in stream]

    stream = pipeline.astream(source(), errors=errors)
    waiting = asyncio.ensure_future(consume())
    await ended.wait()
    for _ in range(10):  # What follows from the end of the source.
        await asyncio.sleep(0)
    assert not waiting.done()
    return stream, waiting


@pytest.mark.parametrize("errors", ["raise", "yield"])
def test_streams_that_are_closed_end_for_tasks_that_wait_for_a_result(errors: str) -> None:
    gate = Gate(0)

    async def work() -> None:
        streams, waiting = zip(*[await begun(pipeline, values, errors) for values in ([0, 1], [2, 3])], strict=True)
        assert gate.reached.wait(60)
        for stream in streams:
            await stream.aclose()
        assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [[], []]

    with of_one(gate) as pipeline:
        try:
            asyncio.run(work())
        finally:
            gate.opened.set()
        while pipeline.in_flight:
            time.sleep(0.001)
        assert pipeline(np.full(1, 7, np.float32))[0] == 7
    assert gate.seen == [0, 7]  # All others were given up, though the two were left one after the other.


def test_a_stream_that_is_left_gives_up_nobody_elses_frames() -> None:
    gate = Gate(0)

    async def work() -> None:
        left, _ = await begun(pipeline, [0, 1])
        _, waiting = await begun(pipeline, [2, 3])
        await left.aclose()
        gate.opened.set()
        assert await asyncio.wait_for(waiting, 60) == [2, 3]

    with of_one(gate) as pipeline:
        try:
            asyncio.run(work())
        finally:
            gate.opened.set()


def test_a_stream_that_has_ended_gives_up_nobody_elses_frames() -> None:
    gate = Gate(1)

    async def consume(stream: penstock.AsyncStream[Any]) -> int:
        return len([result async for result in stream])

    with of_one(gate) as pipeline:
        stream = pipeline.astream([np.zeros(1, np.float32)] * 3)
        assert asyncio.run(consume(stream)) == 3
        for i in (1, 2):
            pipeline.push(np.full(1, i, np.float32))
        del stream
        gc.collect()
        gate.opened.set()
        assert [pipeline.pop(60).outcome for _ in range(2)] == ["ok", "ok"]


def test_nobody_else_takes_the_frame_of_a_run() -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        entered.set()
        leave.wait()
        return x + 1

    with of_one(wait) as pipeline, ThreadPoolExecutor(1) as pool:
        ran = pool.submit(pipeline.run, None, np.ones(1, np.float32))
        entered.wait()
        for call in (lambda: pipeline.push(np.ones(1, np.float32)), lambda: pipeline.pop(0)):
            with pytest.raises(penstock.FailedPrecondition, match=r"another thread is in run\(\)"):
                call()
        leave.set()
        assert ran.result()[0] == [2]


def test_a_threaded_stream_gives_a_result_before_the_next_item_is_there(pipeline: penstock.Pipeline) -> None:
    more = threading.Event()

    def source():
        yield frame(1)
        assert more.wait(60)
        yield frame(2)

    stream = pipeline.stream(source(), threaded=True)
    assert next(stream)["z"][0, 0] == 9
    more.set()
    assert next(stream)["z"][0, 0] == 25


def test_frames_of_one_way_are_not_taken_by_another(pipeline: penstock.Pipeline) -> None:
    stream = pipeline.stream(frame(i) for i in range(5))
    with pytest.raises(penstock.FailedPrecondition, match="a stream takes the frames"):
        pipeline.pop()
    stream.close()
    pipeline.push(frame(1))
    with pytest.raises(penstock.FailedPrecondition, match="expected no pushed frames in flight, found 1;"):
        pipeline.run(None, frame(1))
    with pytest.raises(penstock.FailedPrecondition, match="in flight"):
        pipeline.submit(frame(1))
    assert pipeline.pop().ok


def test_results_of_one_are_frames_of_another(model: Path, pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    from onnx import compose, load, save

    renamed = compose.add_prefix(load(model), "second_")
    renamed.graph.input[0].name = renamed.graph.node[0].input[0] = "z"
    save(renamed, tmp_path / "second.onnx")
    with penstock.split(tmp_path / "second.onnx") as second:
        results = list(second.stream(pipeline.stream(frame(i) for i in range(100))))
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result["second_z"], (2 * expected(i) + 1) ** 2)


def test_nothing_is_pushed_after_a_threaded_stream_is_closed(pipeline: penstock.Pipeline) -> None:
    for i in range(50):
        stream = pipeline.stream((frame(0) for _ in range(10**9)), threaded=True)
        next(stream)
        stream.close()
        np.testing.assert_array_equal(pipeline(frame(i))[0], expected(i))


def test_push_and_pop_carry_numbers_and_tags(pipeline: penstock.Pipeline) -> None:
    tags = [object(), None, "three"]
    assert [pipeline.push(frame(i), tag=tag) for i, tag in enumerate(tags)] == [0, 1, 2]
    results = [pipeline.pop() for _ in tags]
    assert [result.number for result in results] == [0, 1, 2]
    assert [result.tag for result in results] == tags
    assert results[0].latency_us > 0
    assert pipeline.try_pop() is None


def test_try_push_says_none_when_it_is_full(model: Path) -> None:
    with penstock.split(model, capacity=2) as running:
        pushed = 0
        while running.try_push(frame(0)) is not None:
            pushed += 1
        assert pushed == running.in_flight == running.in_flight_limit
        with pytest.raises(TimeoutError, match="no room within 120 ms"):
            running.push(frame(0), timeout=0.12)


def test_a_timeout_is_told_as_it_was_given(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.DeadlineExceeded, match="no frame came out within 130 ms: 0 are in flight"):
        pipeline.pop(timeout=0.13)
    with pytest.raises(ValueError, match="timeout: expected 0 or more seconds or None, found -1"):
        pipeline.pop(timeout=-1)


def test_a_closed_pipeline_gives_what_is_left_then_none(pipeline: penstock.Pipeline) -> None:
    pipeline.push(frame(1))
    pipeline.close()
    with pytest.raises(penstock.Cancelled, match="the pipeline is closed"):
        pipeline.push(frame(2))
    assert pipeline.pop().ok
    assert pipeline.pop() is None


def test_what_is_shut_down_says_so_first(pipeline: penstock.Pipeline) -> None:
    stream = pipeline.stream(frame(i) for i in range(9))
    next(stream)
    pipeline.shut_down()
    calls = [
        lambda: pipeline.push(frame(1)),
        pipeline.pop,
        lambda: pipeline.submit(frame(1)),
        lambda: pipeline(frame(1)),
    ]
    for call in calls:
        with pytest.raises(penstock.Cancelled, match="the pipeline is closed"):
            call()


def test_cancelled_frames_come_out_as_cancelled(pipeline: penstock.Pipeline) -> None:
    for i in range(10):
        pipeline.push(frame(i))
    pipeline.cancel()
    results = [pipeline.pop() for _ in range(10)]
    assert {result.outcome for result in results} <= {"ok", "cancelled"}
    failed = [result for result in results if not result.ok]
    for result in failed:
        assert isinstance(result.error, penstock.Cancelled)
        assert result.error.frame == result.number
        with pytest.raises(penstock.Cancelled):
            result["z"]


def test_futures_have_the_frames_of_their_inputs(pipeline: penstock.Pipeline) -> None:
    futures = [pipeline.submit(frame(i), tag=i) for i in range(500)]
    for i, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(timeout=60)["z"], expected(i))
        assert future.result().tag == i
    np.testing.assert_array_equal(pipeline(frame(9))[0], expected(9))


def test_a_users_own_words_stay_as_they_are(model: Path) -> None:
    with pytest.raises(penstock.NotFound, match="runs--shape224/m.onnx"):
        penstock.split("runs--shape224/m.onnx")


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Starts them at the same moment; raises what one of them raised."""
    together = threading.Barrier(count)

    def begin(i: int) -> None:
        together.wait()
        work(i)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(begin, i) for i in range(count)]:
            done.result()


@pytest.fixture
def often_switched() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_several_threads_may_run(pipeline: penstock.Pipeline, often_switched: None) -> None:
    def work(thread: int) -> None:
        for i in range(1000 * thread, 1000 * thread + 100):
            np.testing.assert_array_equal(pipeline.run(None, frame(i))[0], expected(i))

    in_threads(4, work)


def test_several_threads_may_submit(model: Path, often_switched: None) -> None:
    for _ in range(10):  # The first frames of all are the ones that meet.
        with penstock.split(model) as pipeline:

            def work(thread: int, pipeline: penstock.Pipeline = pipeline) -> None:
                numbers = range(1000 * thread, 1000 * thread + 20)
                futures = [pipeline.submit(frame(i)) for i in numbers]
                for i, future in zip(numbers, futures, strict=True):
                    np.testing.assert_array_equal(future.result(timeout=60)["z"], expected(i))

            in_threads(4, work)


def test_submit_and_others_do_not_take_each_others_frames(pipeline: penstock.Pipeline, often_switched: None) -> None:
    refused: list[str] = []

    def work(thread: int) -> None:
        for i in range(1000 * thread, 1000 * thread + 200):
            try:
                if thread % 2:
                    np.testing.assert_array_equal(pipeline.submit(frame(i)).result(timeout=60)["z"], expected(i))
                else:
                    np.testing.assert_array_equal(pipeline.run(None, frame(i))[0], expected(i))
            except penstock.FailedPrecondition as error:
                refused.append(str(error))

    in_threads(4, work)
    assert len(refused) < 800 and pipeline.in_flight == 0


def test_a_submit_waits_no_longer_than_it_may() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(x: np.ndarray) -> np.ndarray:
        entered.set()
        leave.wait(60)
        return x

    one = np.ones(1, np.float32)
    with of_one(hold, capacity=1, in_flight=1) as pipeline, ThreadPoolExecutor(2) as pool:
        first = pipeline.submit(one)
        assert entered.wait(60)
        patient = pool.submit(pipeline.submit, one, 30)  # Waits for room while the other gives up.
        with pytest.raises(penstock.DeadlineExceeded):
            pipeline.submit(one, timeout=0.05)
        assert not leave.is_set() and not first.done()
        leave.set()
        assert first.result(30).ok and patient.result(30).result(30).ok


@pytest.mark.parametrize("in_flight", [1, 2, 8])
def test_a_callback_may_submit(model: Path, in_flight: int) -> None:
    finished: list[int] = []
    all_finished = threading.Event()

    def done(future: Future[penstock.Frame]) -> None:
        result = future.result()
        np.testing.assert_array_equal(result["z"], expected(result.tag))
        finished.append(result.tag)
        if result.tag < 30:
            for child in (1, 2, 3):  # More than there is room for.
                tag = 3 * result.tag + child
                pipeline.submit(frame(tag), timeout=None, tag=tag).add_done_callback(done)
        if len(finished) == 91:
            all_finished.set()

    with penstock.split(model, cuts=["increment"], capacity=1, in_flight=in_flight) as pipeline:
        pipeline.submit(frame(0), tag=0).add_done_callback(done)
        assert all_finished.wait(60)
    assert finished == list(range(91))


def test_a_callback_waits_no_longer_for_room_than_it_may() -> None:
    attached, filled, opened = threading.Event(), threading.Event(), threading.Event()
    told: list[str] = []

    def call(x: np.ndarray) -> np.ndarray:
        assert (opened if x[0] else attached).wait(60)
        return np.copy(x)

    def done(future: Future[penstock.Frame]) -> None:
        assert filled.wait(60)
        try:
            pipeline.submit(np.ones(1, np.float32), timeout=0.01)
        except penstock.DeadlineExceeded as error:
            told.append(str(error))
        opened.set()

    with of_one(call, in_flight=2) as pipeline:
        first = pipeline.submit(np.zeros(1, np.float32))
        first.add_done_callback(done)
        attached.set()
        # The first one is out, and held by its callback: these two take all the room.
        others = [pipeline.submit(np.ones(1, np.float32)) for _ in range(2)]
        filled.set()
        assert all(other.result(60).ok for other in others)
    assert [sentence[: sentence.rindex(":")] for sentence in told] == ["push: no room within 10 ms"]


@pytest.mark.parametrize("producers", [1, 3])
def test_a_callback_goes_before_other_threads(producers: int) -> None:
    count = 60
    attached = [threading.Event() for _ in range(producers * count)]
    followed: list[tuple[int, Future[penstock.Frame]]] = []

    def call(x: np.ndarray) -> np.ndarray:
        assert x[0] < 0 or attached[int(x[0])].wait(60)  # So that the callback is not the producer's own.
        return np.copy(x)

    def done(future: Future[penstock.Frame]) -> None:
        followed.append((future.result().number, pipeline.submit(np.full(1, -1, np.float32), timeout=None)))

    def produce(thread: int) -> None:
        for i in range(thread * count, (thread + 1) * count):
            pipeline.submit(np.full(1, i, np.float32), timeout=None).add_done_callback(done)
            attached[i].set()

    with of_one(call, in_flight=2) as pipeline:
        in_threads(producers, produce)
        while len(followed) < producers * count:
            time.sleep(0.001)
        ahead = [future.result(60).number - number for number, future in followed]
    assert max(ahead) <= 2 + producers + 1  # What is in flight, and who was pushing already.


def test_who_lets_a_callback_go_first_waits_no_longer_than_it_may() -> None:
    attached, filled, opened = threading.Event(), threading.Event(), threading.Event()
    followed: list[Future[penstock.Frame]] = []
    told = ""

    def call(x: np.ndarray) -> np.ndarray:
        assert (opened if x[0] else attached).wait(60)
        return np.copy(x)

    def done(_: Future[penstock.Frame]) -> None:
        assert filled.wait(60)
        followed.append(pipeline.submit(np.ones(1, np.float32), timeout=None))

    with of_one(call, in_flight=1) as pipeline:
        pipeline.submit(np.zeros(1, np.float32)).add_done_callback(done)
        attached.set()
        second = pipeline.submit(np.ones(1, np.float32))
        filled.set()
        while "callbacks that submit come first" not in told:  # Till then the callback may not have come so far.
            with pytest.raises(penstock.DeadlineExceeded, match=r"^push: .* 10 ms\b") as raised:
                pipeline.submit(np.ones(1, np.float32), timeout=0.01)
            told = str(raised.value)
        opened.set()
        assert second.result(60).ok
        assert pipeline.submit(np.ones(1, np.float32)).result(60).number == 3
        assert followed[0].result(60).number == 2


def test_submits_behind_a_stream_that_was_closed(pipeline: penstock.Pipeline, often_switched: None) -> None:
    for _ in range(20):
        stream = pipeline.stream(frame(i) for i in range(1000))
        next(stream)
        stream.close()  # With the pipeline full of its frames.

        def work(thread: int) -> None:
            futures = [pipeline.submit(frame(1000 * thread + i)) for i in range(20)]
            for i, future in enumerate(futures):
                np.testing.assert_array_equal(future.result(timeout=60)["z"], expected(1000 * thread + i))

        in_threads(3, work)


def test_async_for(pipeline: penstock.Pipeline) -> None:
    async def of_async_source() -> list[float]:
        async def source():
            for i in range(300):
                if i % 100 == 0:
                    await asyncio.sleep(0.001)
                yield frame(i)

        return [result["z"][0, 0] async for result in pipeline.astream(source())]

    async def of_list() -> list[float]:
        return [result["z"][0, 0] async for result in pipeline.astream(frame(i) for i in range(300))]

    wanted = [(2 * i + 1) ** 2 for i in range(300)]
    assert asyncio.run(of_async_source()) == wanted
    assert asyncio.run(of_list()) == wanted


def test_a_result_waited_for_in_vain_comes_the_next_time(pipeline: penstock.Pipeline) -> None:
    async def results() -> list[int]:
        stream, numbers = pipeline.astream(frame(i) for i in range(50)), []
        while len(numbers) < 50:
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                numbers.append((await waiting).number)
                continue
            numbers.append((await anext(stream)).number)
        return numbers

    assert asyncio.run(results()) == list(range(50))


def test_a_live_source_leaves_the_event_loop_alone(pipeline: penstock.Pipeline) -> None:
    async def consume() -> None:
        ticked = threading.Event()

        def items() -> Iterator[dict[str, np.ndarray]]:
            for i in range(3):
                ticked.clear()
                asked.call_soon_threadsafe(ticked.set)
                assert ticked.wait(60)  # By the loop, which goes on while this waits.
                yield frame(i)

        asked = asyncio.get_running_loop()
        found = [result["z"][0, 0] async for result in pipeline.astream(penstock.io.pace(items(), 1000))]
        assert found == [1, 9, 25]

    asyncio.run(consume())


@pytest.mark.parametrize("how", ["threaded", "latest", "async"])
def test_what_ends_a_source_in_a_thread_is_raised(pipeline: penstock.Pipeline, how: str) -> None:
    def source() -> Iterator[dict[str, np.ndarray]]:
        yield frame(0)
        raise SystemExit(5)

    async def consume() -> None:
        async for _ in pipeline.astream(penstock.io.pace(source(), 1000)):
            pass

    with pytest.raises(SystemExit):
        if how == "async":
            asyncio.run(consume())
        else:
            list(pipeline.stream(source() if how == "threaded" else penstock.io.latest(source()), threaded=True))


def test_async_errors_come_at_their_frame(pipeline: penstock.Pipeline) -> None:
    async def work() -> None:
        stream = pipeline.astream([frame(1), np.zeros(3, np.float32), frame(2)])
        assert (await anext(stream))["z"][0, 0] == 9
        with pytest.raises(penstock.InvalidArgument):
            await anext(stream)
        assert (await anext(stream))["z"][0, 0] == 25
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(work())


# Memory


def test_streaming_copies_nothing(pipeline: penstock.Pipeline) -> None:
    for _ in pipeline.stream(frame(i) for i in range(1000)):
        pass
    stats = pipeline.stats()
    assert stats["copies"] == 0
    assert [stage["copies"] for stage in stats["stages"]] == [0, 0]
    # One slot at most for the result that the loop still holds while it takes the next: not one a frame.
    assert sum(stage["allocations"] for stage in stats["stages"]) <= 1


def test_a_result_lies_in_the_pipelines_memory_until_its_slot_is_wanted(pipeline: penstock.Pipeline) -> None:
    pipeline.push(frame(1))
    first = pipeline.pop()
    assert not first.owned
    array = first["z"]
    for i in range(2 * pipeline.in_flight_limit):
        pipeline(frame(i))
    assert first.owned
    np.testing.assert_array_equal(array, expected(1))


@pytest.mark.parametrize("held", range(1, 6))
def test_results_that_are_held_do_not_stop_frames_with_callbacks(model: Path, held: int) -> None:
    called: list[int] = []
    with penstock.split(model, cuts=["increment"], in_flight=16) as pipeline:

        def push(i: int) -> int:
            return pipeline.push(frame(i), timeout=10, done=lambda out: called.append(out.number))

        kept = [(pipeline.push(frame(i)), pipeline.pop())[1] for i in range(held)]
        assert [push(i) for i in range(160)] == list(range(held, held + 160))
        for i, out in enumerate(kept):
            np.testing.assert_array_equal(out["z"], expected(i))
    assert called == list(range(held, held + 160))


@pytest.mark.parametrize("held", range(1, 6))
def test_results_that_are_held_do_not_stop_pushes_that_do_not_wait(model: Path, held: int) -> None:
    called: list[int] = []
    with penstock.split(model, cuts=["increment"], in_flight=16) as pipeline:

        def push(i: int) -> int:
            until = time.monotonic() + 60
            while (number := pipeline.try_push(frame(i), done=lambda out: called.append(out.number))) is None:
                assert time.monotonic() < until
            return number

        kept = [(pipeline.push(frame(i)), pipeline.pop())[1] for i in range(held)]
        assert [push(i) for i in range(160)] == list(range(held, held + 160))
        for i, out in enumerate(kept):
            np.testing.assert_array_equal(out["z"], expected(i))
        pipeline.drain()
        assert called == list(range(held, held + 160))


@pytest.mark.parametrize("capacity", [1, 2, 3, None])
def test_results_may_be_held_for_ever(model: Path, capacity: int | None) -> None:
    with penstock.split(model, cuts=["increment"], capacity=capacity) as running:
        held = [running(frame(i))[0] for i in range(700)]
        held += [result["z"] for result in running.stream(frame(i) for i in range(700))]
    gc.collect()
    for i, array in enumerate(held):
        np.testing.assert_array_equal(array, expected(i % 700))


def test_take_moves_the_memory_out(pipeline: penstock.Pipeline) -> None:
    pipeline.push(frame(1))
    result = pipeline.pop()
    array = result["z"]
    assert result.take() is result
    assert result.owned
    assert result["z"] is array
    np.testing.assert_array_equal(array, expected(1))


def test_an_output_that_stages_read_too_is_copied_and_counted(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"], name="a"), helper.make_node("Neg", ["y"], ["z"], name="b")],
        "both",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2]), value("z", TensorProto.FLOAT, [2])],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    with penstock.split(tmp_path / "m.onnx", cuts=["a"]) as running:
        held = [running(np.full(2, i, np.float32)) for i in range(100)]
        for i, (y, z) in enumerate(held):
            assert (y[0], z[0]) == (-i, i)
        assert running.stats()["copies"] == 100


def test_inputs_are_let_go(pipeline: penstock.Pipeline) -> None:
    import weakref

    class Watched(np.ndarray):
        pass

    array = frame(1).view(Watched)
    gone = weakref.ref(array)
    pipeline.run(None, array)
    del array
    deadline = time.monotonic() + 60
    while gone() is not None and time.monotonic() < deadline:
        pipeline(frame(2))
    assert gone() is None


def test_dlpack_in_and_out(pipeline: penstock.Pipeline) -> None:
    class Lender:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    class Elsewhere(Lender):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    result = pipeline.run(None, Lender(frame(3)))[0]
    np.testing.assert_array_equal(np.from_dlpack(result), expected(3))
    assert np.shares_memory(np.from_dlpack(result), result)
    with pytest.raises(ValueError, match=r"found one on cuda:0; move it with .cpu\(\)"):
        pipeline.run(None, Elsewhere(frame(3)))
    with pytest.raises(ValueError, match=r"expected a C-contiguous array.*pass .contiguous\(\)"):
        pipeline.run(None, Lender(np.zeros((1, 8), np.float32)[:, ::2]))
    with pytest.raises(ValueError, match=r"found f64\[1,4\]; convert it to float32, as torch does with .to\("):
        pipeline.run(None, Lender(np.zeros((1, 4))))


def test_a_pipeline_may_be_called_with_a_dict(pipeline: penstock.Pipeline) -> None:
    np.testing.assert_array_equal(pipeline({"x": frame(3)})[0], expected(3))
    np.testing.assert_array_equal(pipeline.stream_of(0)({"x": frame(3)})[0], expected(3))


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((1, 4, 5, 3), r"numpy.ascontiguousarray\(x.transpose\(0, 3, 1, 2\)\) puts them in this one"),
        ((4, 5, 3), r"numpy.ascontiguousarray\(x.transpose\(2, 0, 1\)\).reshape\(1, 3, 4, 5\) puts them in this one"),
        ((3, 4, 5), r"; .reshape\(1, 3, 4, 5\) gives it that shape"),
        ((60,), r"; .reshape\(1, 3, 4, 5\) gives it that shape"),
        ((1, 3, 4, 6), "; resize it"),
    ],
)
def test_advice_on_a_shape_keeps_the_meaning_of_a_picture(tmp_path: Path, shape: tuple[int, ...], told: str) -> None:
    sizes = [1, 3, 4, 5]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "relu.onnx")
    with (
        penstock.split(tmp_path / "relu.onnx") as relu,
        pytest.raises(penstock.InvalidArgument, match=told),
    ):
        relu(np.zeros(shape, np.float32))


def test_what_is_no_array_is_told_what_makes_one(pipeline: penstock.Pipeline) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    with pytest.raises(penstock.InvalidArgument, match=r"found str; penstock.io.read_image\(x\) reads a picture"):
        pipeline("cat.png")
    with pytest.raises(penstock.InvalidArgument, match=r"found Image; penstock.io.prepare\(x, pipeline.get_inputs"):
        pipeline(image.new("RGB", (4, 4)))


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (np.zeros((1, 4)), r"input 'x': expected f32\[1,4\], found f64\[1,4\]; convert it with .astype\('float32'\)"),
        (np.zeros((1, 8), np.float32)[:, ::2], r"C-contiguous array, found shape \(1, 4\) with strides \(32, 8\)"),
        (np.zeros((2, 2), np.float32), r"found f32\[2,2\]; .reshape\(1, 4\) gives it that shape"),
        (np.zeros((1, 5), np.float32), r"found f32\[1,5\]; resize it"),
        (np.zeros((1, 4), ">f4"), r"found elements of format '>f'.*big-endian"),
        (np.zeros((1, 4), "M8[s]"), r"found ndarray of dtype 'datetime64\[s\]'"),
        (None, r"expected an array \(numpy, DLPack or a buffer\) of f32\[1,4\], found NoneType"),
        ([frame(0), frame(0)], r"expected 1 input \('x'\), found 2"),
        ({}, r"input 'x' is missing; the inputs are 'x'"),
        ({"X": frame(0)}, r"input 'x' is missing and 'X' is none; the inputs are 'x'"),
        ({"x": frame(0), "w": frame(0)}, r"no input 'w'; the inputs are 'x'"),
    ],
)
def test_a_wrong_input_is_refused_in_one_sentence(pipeline: penstock.Pipeline, bad: object, told: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=told) as caught:
        pipeline.run(None, bad)
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(pipeline(frame(1))[0], expected(1))


# The rest


def test_parameters_are_replaced_between_frames(model: Path) -> None:
    with penstock.split(model, parameters=["one"]) as running:
        assert running(frame(1))[0][0, 0] == 9
        running.set_parameters({"one": np.array([3], np.float32)})
        assert running(frame(1))[0][0, 0] == 25
        with pytest.raises(LookupError, match="no stage has a parameter 'three'; the parameters are 'one'"):
            running.set_parameters({"three": np.array([3], np.float32)})


def test_statistics_have_the_names_of_the_program(
    model: Path, pipeline: penstock.Pipeline, request: pytest.FixtureRequest
) -> None:
    program = request.getfixturevalue("penstock")
    told = program.json("bench", model, "--seconds", "0.2")
    text = str(told)
    for result in pipeline.stream([frame(0)]):
        assert result.ok
    for key in pipeline.stats()["stages"][0]:
        assert f"'{key}'" in text, key
    assert pipeline.stats()["ok"] == 1


def test_the_trace_is_written(model: Path, tmp_path: Path) -> None:
    import json

    with penstock.split(model, trace=True) as running:
        running(frame(1))
        running.trace(tmp_path / "trace.json")
        with pytest.raises(penstock.NotFound, match="'away/t.json': No such file or directory; make the folder 'away'"):
            running.trace(Path("away/t.json"))
        with pytest.raises(penstock.PermissionDenied, match=r"^trace: cannot write '.*': Is a directory$"):
            running.trace(tmp_path)
    assert json.loads((tmp_path / "trace.json").read_text())
    with penstock.split(model) as running, pytest.raises(penstock.FailedPrecondition, match="set trace=True$"):
        running.trace(tmp_path / "trace.json")


@pytest.mark.sweep(of=3)
def test_a_trace_too_long_to_be_kept_says_what_it_lost(model: Path, tmp_path: Path) -> None:
    with penstock.split(model, trace=True) as running:
        for _ in running.stream(frame(1) for _ in range(100_003)):
            pass
        with pytest.warns(penstock.PenstockWarning, match="3 spans of the earliest frames are lost"):
            running.trace(tmp_path / "trace.json")


@pytest.mark.parametrize("end", [penstock.Pipeline.close, penstock.Pipeline.cancel, penstock.Pipeline.shut_down])
def test_it_is_alive_while_it_takes_frames(
    pipeline: penstock.Pipeline, end: Callable[[penstock.Pipeline], None]
) -> None:
    assert pipeline.alive
    end(pipeline)
    assert not pipeline.alive


def test_a_closed_pipeline_still_shows_its_statistics(pipeline: penstock.Pipeline) -> None:
    pipeline.run(None, frame(1))
    pipeline.close()
    assert "(closed)" in repr(pipeline)
    assert pipeline._repr_html_().startswith("<table>")


def test_it_shows_itself(pipeline: penstock.Pipeline) -> None:
    text = repr(pipeline)
    assert "of 'line': x: float32[1, 4] -> z: float32[1, 4]" in text
    assert "stage1 on cpu:" in text
    page = pipeline._repr_html_()
    assert page.startswith("<table>") and "stage0" in page
    pipeline.shut_down()
    assert "(shut down)" in repr(pipeline)
    assert "(shut down)" in pipeline._repr_html_()


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"cuts": ["nothing"]}, penstock.NotFound, "cut 'nothing'"),
        ({"policy": "sometimes"}, penstock.InvalidArgument, "policy: expected 'block'"),
        ({"on_error": "shout"}, penstock.InvalidArgument, "on_error: expected 'deliver' or 'stop'"),
        ({"capacity": 0}, penstock.InvalidArgument, "capacity: expected 1 to"),
        ({"max_age_ms": float("nan")}, penstock.InvalidArgument, "max_age_ms: expected"),
        ({"replicas": 0}, penstock.InvalidArgument, "replicas: expected 1 or more"),
        ({"devices": "gpu"}, penstock.InvalidArgument, "devices: "),
        ({"devices": 3}, penstock.InvalidArgument, r"names of devices, such as devices=\['cpu:0', .*, found int 3"),
        ({"devices": ["cpu:0", 1]}, penstock.InvalidArgument, r"devices: expected .*, found list \['cpu:0', 1\]"),
        ({"cuts": 0.5}, penstock.InvalidArgument, "cuts: expected a list, such as .*, found float 0.5"),
        (
            {"pins": ["x"]},
            penstock.InvalidArgument,
            "pins: expected a dict, such as pins={'node': 'cpu:0'}, found",
        ),
        ({"shapes": 3}, penstock.InvalidArgument, "shapes: expected a dict"),
        ({"shapes": {"x": 3}}, penstock.InvalidArgument, r"shapes\['x'\]: expected a shape, such as .*, found int 3"),
        ({"backend_options": 3}, penstock.InvalidArgument, "backend_options: expected a dict"),
        (
            {"backend_options": {"execution_mode": "parallel"}},
            penstock.InvalidArgument,
            r"backend_options\['execution_mode'\]: expected a dict of the settings of that backend, as in .*'parallel'",
        ),
        (
            {"backend_options": {"openvino": {"NUM_STREAMS": 1}}},
            penstock.InvalidArgument,
            "backend_options: expected those of backend 'onnxruntime', which runs the stages, found some of 'openvino'",
        ),
        ({"custom_ops": 3}, penstock.InvalidArgument, "custom_ops: expected a path, such as .*, found int 3"),
        ({"output": 3}, penstock.InvalidArgument, "output: expected a path, such as .*, found int 3"),
        ({"backend": "abacus"}, penstock.NotFound, "backend 'abacus': there is none of that name; there are: "),
        ({"shapes": {"x": "wide"}}, penstock.InvalidArgument, "expected NAME=SIZExSIZE"),
    ],
)
def test_a_wrong_option_is_refused(model: Path, options: dict[str, object], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        penstock.split(model, **options)


def application_of(model: Path, **options: Any) -> penstock.App:
    app = penstock.App()
    app.input("x")
    app.network("line", model, reads={"x": "x"}, **options)
    app.output("z", "line.z")
    return app


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize(
    "make",
    [
        lambda model, package, options: penstock.split(model, backend_options=options),
        lambda model, package, options: penstock.plan(model, backend_options=options),
        lambda model, package, options: penstock.build(
            model, budget=0.1, backends=["onnxruntime"], backend_options=options
        ),
        lambda model, package, options: penstock.load(package, backend_options=options),
        lambda model, package, options: application_of(model).start(backend_options=options),
        lambda model, package, options: application_of(model, backend_options=options).start(),
    ],
    ids=["split", "plan", "build", "load", "start", "network"],
)
def test_backend_options_mean_the_same_in_every_call(
    model: Path, tmp_path: Path, make: Callable[..., penstock.Pipeline]
) -> None:
    package = tmp_path / "package"
    penstock.split(model, output=package).shut_down()
    with make(model, package, {"onnxruntime": {"graph_optimization_level": 1}}) as pipeline:
        assert pipeline(frame(1))[0][0, 0] == 9
    with pytest.raises(penstock.PenstockError, match="'onnxruntime:execution_mode': expected 'sequential' or"):
        make(model, package, {"onnxruntime": {"execution_mode": "many"}})
    with pytest.raises(penstock.NotFound, match="backend_options: backend 'abacus': .* there are: .*'?onnxruntime"):
        make(model, package, {"abacus": {"beads": 10}})
    with pytest.raises(penstock.InvalidArgument, match=r"backend_options\['beads'\]: expected a dict of the settings"):
        make(model, package, {"beads": 10})


def test_a_split_takes_options_of_the_way_to_other_machines_where_it_names_one(model: Path) -> None:
    nowhere = "127.0.0.1:1/cpu:0"
    patience = {"remote": {"patience_ms": 3}}  # Less than there may be, as who reads it says.
    for where in ({"devices": [nowhere]}, {"pins": {0: nowhere}}):
        with pytest.raises(penstock.InvalidArgument, match="option 'patience_ms': expected from 50 to .*, found"):
            penstock.split(model, backend_options=patience, **where)
    with pytest.raises(penstock.InvalidArgument, match="found some of 'remote', though no device is of another mach"):
        penstock.split(model, devices=["cpu:0"], backend_options=patience)
    with pytest.raises(penstock.InvalidArgument, match="or of 'remote', the way to other .*'openvino'"):
        penstock.split(model, devices=[nowhere], backend_options={"openvino": {"NUM_STREAMS": 1}})


def test_a_file_that_is_not_there_is_a_file_not_found(tmp_path: Path, model: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such"):
        penstock.split(tmp_path / "no-such.onnx")
    with pytest.raises(FileNotFoundError, match="no-such"):
        penstock.load(tmp_path / "no-such")
    with pytest.raises(ValueError, match=r"penstock.split\(\) takes models"):
        penstock.load(model)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda pipeline: penstock.split(None),
            "model: expected a path, the file's bytes or an onnx.ModelProto",
        ),
        (lambda pipeline: penstock.load(3), "path: expected a path, such as 'folder/file', found int 3"),
        (lambda pipeline: penstock.explain(3), "package: expected a path"),
        (lambda pipeline: pipeline.save(3), "path: expected a path"),
        (lambda pipeline: pipeline.set_parameters(3), "values: expected a dict"),
        (lambda pipeline: pipeline.run(0.5, {"x": frame(0)}), "output_names: expected a list"),
        (lambda pipeline: pipeline.push(frame(0), timeout="1"), "timeout: expected a number of seconds or None.*'1'"),
        (lambda pipeline: pipeline.submit(frame(0), timeout=True), "timeout: expected a number of seconds or None"),
        (lambda pipeline: pipeline.pop(timeout=[1]), "timeout: expected a number of seconds or None"),
        (lambda pipeline: pipeline.drain(timeout=float("nan")), "timeout: expected a number of seconds or None"),
    ],
)
def test_a_wrong_argument_is_refused(
    pipeline: penstock.Pipeline, call: Callable[[penstock.Pipeline], object], told: str
) -> None:
    with pytest.raises(penstock.InvalidArgument, match=told):
        call(pipeline)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shapes": {"x": "wide"}}, "^shapes 'x=wide': expected NAME=SIZExSIZE"),
        ({"shapes": {"w": "1x4"}}, ": shapes: the model has no input 'w'"),
        ({"parameters": ["w"]}, ": parameters: the model has no initialiser 'w'"),
    ],
)
def test_a_message_names_options_as_python_does(model: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(penstock.PenstockError, match=told) as raised:
        penstock.split(model, **options)
    assert "--" not in str(raised.value)


def test_a_mask_is_not_lost_in_silence(pipeline: penstock.Pipeline) -> None:
    masked = np.ma.masked_array(frame(1), frame(1) > 0)
    told = r"input 'x': expected an array without a mask, found a MaskedArray, .*; pass \.filled\(value\) of it"
    with pytest.raises(penstock.InvalidArgument, match=told):
        pipeline.run(None, {"x": masked})
    assert pipeline.run(None, {"x": masked.filled(1)})[0][0, 0] == 9


def test_every_code_has_a_class_of_its_own() -> None:
    codes = [cls.code for cls in penstock.PenstockError.__subclasses__()]
    assert len(codes) == len(set(codes)) == 16
    for cls in penstock.PenstockError.__subclasses__():
        places: list[penstock.types.Place] = [{"kind": "stage", "name": "a"}, {"kind": "frame", "number": 3}]
        error = penstock.errors.make_error(cls.code, "stage 'a': frame 3: what", "what", places)
        assert type(error) is cls and str(error) == "stage 'a': frame 3: what"
        assert (error.reason, error.stage, error.frame, list(error.places)) == ("what", "a", 3, places)
        copied = pickle.loads(pickle.dumps(error))
        assert (str(copied), copied.reason, copied.places) == (str(error), error.reason, error.places)
        plain = cls("what")
        assert (plain.reason, plain.stage, plain.frame, plain.places) == ("what", None, None, ())


def test_an_error_carries_its_parts(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.DeadlineExceeded) as timeout:
        pipeline.pop(timeout=0.13)
    assert timeout.value.reason == "0 are in flight"
    assert timeout.value.places == (
        {"kind": "text", "name": "pop: no frame came out"},
        {"kind": "timeout_ns", "number": 130_000_000},
    )
    with pytest.raises(penstock.InvalidArgument) as wrong:
        pipeline.push(np.zeros((1, 3), np.float32))
    assert wrong.value.places == ({"kind": "input", "name": "x"},)
    assert wrong.value.reason.startswith("expected f32[1,4], found f32[1,3]")
    assert str(wrong.value) == f"input 'x': {wrong.value.reason}"
    with pytest.raises(penstock.NotFound) as absent:
        penstock.load("absent.penstock")
    assert absent.value.places[0] == {"kind": "package", "name": "absent.penstock"}


def test_machine_and_backends_are_those_of_the_program(request: pytest.FixtureRequest) -> None:
    program = request.getfixturevalue("penstock")
    assert penstock.devices() == program.json("devices")
    assert penstock.devices(peaks=True) == program.json("devices", "--peaks")  # Measured once.
    with pytest.raises(penstock.InvalidArgument, match="peaks=True"):
        penstock.devices(refresh=True)
    names = [backend["name"] for backend in penstock.backends()["backends"]]
    assert names == [backend["name"] for backend in program.json("backends")["backends"]]


def test_a_stream_that_is_interrupted_is_closed(pipeline: penstock.Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = pipeline.stream([frame(1)] * 9)
    next(stream)

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stream._feeder, "next_frame", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert list(stream) == []
    assert len(list(pipeline.stream([frame(1)] * 3))) == 3


def test_a_frame_may_have_a_deadline_of_its_own(pipeline: penstock.Pipeline) -> None:
    numbers = [pipeline.push(frame(i), deadline=(0 if i == 1 else 60), tag=i) for i in range(3)]
    popped = [pipeline.pop() for _ in numbers]
    assert [f is not None and f.outcome for f in popped] == ["ok", "error", "ok"]
    assert isinstance(popped[1].error, penstock.DeadlineExceeded)  # type: ignore[union-attr]
    with pytest.raises(penstock.DeadlineExceeded, match="its deadline had passed before its push"):
        pipeline.submit(frame(1), deadline=0, priority="high").result(60)
    np.testing.assert_array_equal(pipeline.submit(frame(2), priority="high").result(60)[0], expected(2))


def test_what_a_frame_is_pushed_with_is_checked(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.InvalidArgument, match="priority: expected 'normal' or 'high', found str 'urgent'"):
        pipeline.push(frame(1), priority="urgent")  # type: ignore[arg-type]
    with pytest.raises(penstock.InvalidArgument, match="deadline: expected a number of seconds or None"):
        pipeline.push(frame(1), deadline="soon")  # type: ignore[arg-type]
    with pytest.raises(penstock.InvalidArgument, match="number: expected a whole number"):
        pipeline.cancel_frame("3")  # type: ignore[arg-type]
    assert pipeline.in_flight == 0


def test_a_frame_is_cancelled_by_its_number(pipeline: penstock.Pipeline) -> None:
    numbers = [pipeline.push(frame(i), tag=i) for i in range(3)]
    assert pipeline.cancel_frame(numbers[1])
    assert not pipeline.cancel_frame(numbers[1])
    for never_pushed in (numbers[2] + 1, -1, 2**64):
        assert not pipeline.cancel_frame(never_pushed)
    popped = [pipeline.pop() for _ in numbers]
    assert [f is not None and (f.tag, f.outcome) for f in popped] == [(0, "ok"), (1, "cancelled"), (2, "ok")]
    assert isinstance(popped[1].error, penstock.Cancelled)  # type: ignore[union-attr]
    assert not pipeline.cancel_frame(numbers[0])
