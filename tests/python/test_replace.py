"""Another package takes the frames of a running pipeline."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from line import expected, write_model
from line import frame as feed

import penstock


@pytest.fixture
def other(model: Path, tmp_path: Path) -> Path:
    """The same network as one stage."""
    penstock.split(model, output=tmp_path / "other.penstock").shut_down()
    return tmp_path / "other.penstock"


def test_it_takes_the_frames_pushed_from_then_on(pipeline: penstock.Pipeline, other: Path) -> None:
    held = []
    for number in range(3):
        assert pipeline.push(feed(number), tag=number) == number
        if number == 0:
            assert len(pipeline.plan["stages"]) == 2
            pipeline.replace(other)
            assert len(pipeline.plan["stages"]) == 1
    for number in range(3):
        frame = pipeline.pop()
        assert frame is not None
        assert (frame.number, frame.tag) == (number, number)
        held.append(frame)
    for number, frame in enumerate(held):
        np.testing.assert_array_equal(frame[0], expected(number))
    assert pipeline.stats()["pushed"] == 3
    assert pipeline.stats()["plans"] == [{"label": "at the start", "frames": 1}, {"label": str(other), "frames": 2}]
    assert len(pipeline.stats()["stages"]) == 1
    np.testing.assert_array_equal(pipeline(feed(1))[0], expected(1))


def test_a_package_whose_files_are_gone_is_not_saved_and_says_so(other: Path, tmp_path: Path) -> None:
    with penstock.load(other) as pipeline:
        shutil.rmtree(other)
        expected = r"package '.*other\.penstock': its file 'stages/0\.onnx' is no longer there"
        with pytest.raises(penstock.NotFound, match=expected):
            pipeline.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_stream_goes_on_while_another_thread_replaces(pipeline: penstock.Pipeline, other: Path) -> None:
    done = threading.Event()

    def replace() -> None:
        for _ in range(5):
            pipeline.replace(other)
        done.set()

    def frames():
        number = 0
        while not done.is_set() or number < 100:
            yield feed(number % 100)
            number += 1

    thread = threading.Thread(target=replace)
    thread.start()
    count = 0
    for count, frame in enumerate(pipeline.stream(frames()), 1):
        np.testing.assert_array_equal(frame[0], expected((count - 1) % 100))
    thread.join()
    assert done.is_set()
    assert pipeline.stats()["pushed"] == pipeline.stats()["ok"] == count


def test_a_stateful_function_sees_the_new_frames_behind_the_old_ones(tmp_path: Path) -> None:
    reached, opened = threading.Event(), threading.Event()
    seen: list[float] = []

    def hold(x: np.ndarray) -> np.ndarray:
        if x[0] == 0:
            reached.set()
            assert opened.wait(60)
        return np.copy(x)

    def count(x: np.ndarray) -> np.ndarray:
        seen.append(float(x[0]))
        return np.full(1, len(seen), np.float32)

    app = penstock.App("counts")
    app.input("x", "f32[1]")
    app.function("hold", hold, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x")
    app.function("count", count, {"x": "f32[1]"}, {"n": "f32[1]"}, reads={"x": "hold.y"}, stateful=True)
    app.output("n", "count.n")
    with app.start(output=tmp_path / "app.penstock") as pipeline:
        pipeline.push(np.zeros(1, np.float32))
        assert reached.wait(60)
        replacer = threading.Thread(target=pipeline.replace, args=[tmp_path / "app.penstock"])
        replacer.start()
        refused = ""
        while "replace() waits for frames" not in refused and replacer.is_alive():  # It must not end before.
            with pytest.raises(penstock.FailedPrecondition) as raised:
                pipeline.stream_of(0).reset()
            refused = str(raised.value)
        waits = replacer.is_alive()
        opened.set()
        replacer.join()
        assert waits
        pipeline.push(np.ones(1, np.float32))
        counts = [frame["n"][0] for frame in (pipeline.pop(), pipeline.pop()) if frame is not None]
    assert (seen, counts) == ([0, 1], [1, 2])


def test_an_idle_stream_says_that_a_replace_holds_it_back(tmp_path: Path) -> None:
    reached, opened = threading.Event(), threading.Event()

    def hold(x: np.ndarray, last: np.ndarray) -> np.ndarray:
        reached.set()
        assert opened.wait(60)
        return x + last

    app = penstock.App("held")
    app.input("x", "f32[1]")
    app.function("sum", hold, {"x": "f32[1]", "last": "f32[1]"}, {"y": "f32[1]"}, reads={"x": "x"})
    app.state("sum.y", "sum.last")
    app.output("y", "sum.y")
    one = np.ones(1, np.float32)
    with app.start(streams=3, output=tmp_path / "app.penstock") as pipeline:
        held = pipeline.submit(one)
        assert reached.wait(60)
        replacer = threading.Thread(target=pipeline.replace, args=[tmp_path / "app.penstock"])
        replacer.start()
        idle = pipeline.stream_of(2)
        try:
            refused: list[str] = []
            while not refused and replacer.is_alive():
                try:
                    idle.reset()
                except penstock.FailedPrecondition as error:
                    refused.append(str(error))
            told = "replace() waits for frames to end; call it after that"
            assert refused == [f"stream_of(n).reset(): {told}"]
            for what, call in {"save": idle.save, "end": idle.end, "restore": lambda: idle.restore({})}.items():
                with pytest.raises(penstock.FailedPrecondition) as raised:
                    call()
                assert str(raised.value) == f"stream_of(n).{what}(): {told}"
        finally:
            opened.set()
            replacer.join()
        assert held.result(timeout=60)["y"][0] == 1


def test_what_does_not_fit_changes_nothing(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    with pytest.raises(penstock.NotFound):
        pipeline.replace(tmp_path / "absent.penstock")
    (tmp_path / "wide").mkdir()
    import onnx

    wider = onnx.load(write_model(tmp_path / "wide" / "line.onnx"))
    for info in [*wider.graph.input, *wider.graph.output]:
        info.type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(wider, tmp_path / "wider.onnx")
    penstock.split(tmp_path / "wider.onnx", output=tmp_path / "wider.penstock").shut_down()
    with pytest.raises(penstock.InvalidArgument, match="replace: input 'x': expected f32"):
        pipeline.replace(tmp_path / "wider.penstock")
    assert len(pipeline.plan["stages"]) == 2
    np.testing.assert_array_equal(pipeline(feed(1))[0], expected(1))


def test_what_was_shut_down_refuses_it(pipeline: penstock.Pipeline, other: Path) -> None:
    pipeline.shut_down()
    with pytest.raises(penstock.Cancelled, match="the pipeline is closed"):
        pipeline.replace(other)
