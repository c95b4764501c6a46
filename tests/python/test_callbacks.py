"""Frames that are given to callbacks instead of coming out by pop()."""

import gc
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock


def value(number: float) -> np.ndarray:
    return np.full(1, number, np.float32)


def of_one(call: Callable[..., Any], replicas: int = 1, **options: Any) -> penstock.Pipeline:
    """y = call(x)"""
    app = penstock.App("one")
    app.input("x", "f32[1]")
    app.function("f", call, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x", replicas=replicas)
    app.output("y", "f.y")
    return app.start(**options)


def test_each_is_called_with_its_frame_and_pop_passes_over_it() -> None:
    given: queue.SimpleQueue[tuple[int, penstock.Frame]] = queue.SimpleQueue()
    with of_one(lambda x: 2 * x) as pipeline:
        for i in range(100):
            pipeline.push(value(i), tag=f"tag {i}", done=lambda frame: given.put((threading.get_ident(), frame)))
            if i % 10 == 0:
                number = pipeline.push(value(-i))
                popped = pipeline.pop()
                assert popped is not None and (popped.number, popped["y"][0]) == (number, -2 * i)
        got = [given.get(timeout=60) for _ in range(100)]
        assert pipeline.in_flight == 0
        pipeline.close()
        assert pipeline.pop() is None
    assert len({thread for thread, _ in got} - {threading.get_ident()}) == 1
    # They were kept, by far more than there are slots.
    assert [(frame.tag, frame["y"][0]) for _, frame in got] == [(f"tag {i}", 2 * i) for i in range(100)]


def test_no_order_is_kept_where_none_is_asked_for_but_within_a_stream() -> None:
    given: queue.SimpleQueue[penstock.Frame] = queue.SimpleQueue()
    reached, opened = threading.Event(), threading.Event()

    def call(x: np.ndarray) -> np.ndarray:
        if x[0] == 0:
            reached.set()
            assert opened.wait(60)
        return np.copy(x)

    with of_one(call, replicas=2, streams=3) as pipeline:
        first = pipeline.stream_of(7)
        first.push(value(0), tag=0, done=given.put, in_order=False)
        assert reached.wait(60)
        assert first.try_push(value(1), tag=1, done=given.put, in_order=False) is not None
        for stream in (8, 0):
            pipeline.push(value(2), tag=stream, stream=stream, done=given.put, in_order=False)
            assert given.get(timeout=60).tag == stream
        assert pipeline.in_flight == 2
        opened.set()
        assert [given.get(timeout=60).tag for _ in range(2)] == [0, 1]
        assert pipeline.in_flight == 0


def test_futures_are_done_in_no_order_where_none_is_asked_for() -> None:
    reached, opened = threading.Event(), threading.Event()

    def call(x: np.ndarray) -> np.ndarray:
        if x[0] == 0:
            reached.set()
            assert opened.wait(60)
        return np.copy(x)

    with of_one(call, replicas=2, streams=3) as pipeline:
        slow = pipeline.submit(value(0), in_order=False)
        assert reached.wait(60)
        futures = [pipeline.stream_of(7).submit(value(i), tag=i, in_order=False) for i in (1, 2)]
        assert [future.result(timeout=60).tag for future in futures] == [1, 2]
        late = pipeline.submit(value(3), stream=7, deadline=0, in_order=False)
        assert isinstance(late.exception(timeout=60), penstock.DeadlineExceeded)
        with pytest.raises(penstock.FailedPrecondition, match=r"frames of submit\(\) are in flight"):
            pipeline.run(None, value(4))
        assert not slow.done()
        opened.set()
        assert slow.result(timeout=60)["y"][0] == 0
        assert [future.number for future in (slow, *futures, late)] == [0, 1, 2, 3]
        assert pipeline(value(5))[0][0] == 5
        ended = pipeline.submit(value(6), in_order=False)
    assert ended.done()


class Asked:
    """A callback that submits another frame, and asks its future for a result that is not there yet."""

    def __init__(self, in_order: bool) -> None:
        self.pipeline: penstock.Pipeline | None = None
        self._in_order = in_order
        self._told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __call__(self, given: Any) -> None:
        try:
            assert self.pipeline is not None
            other = self.pipeline.submit(value(1), in_order=self._in_order)
            for wait in (other.result, other.exception):
                for timeout in (5, None):
                    with pytest.raises(penstock.FailedPrecondition, match=f"^frame {other.number} is not done, and "):
                        wait(timeout)
            with pytest.raises(TimeoutError):
                other.result(timeout=0)
            if isinstance(given, Future):
                assert given.result().ok  # It is done.
            self._told.put(other)
        except BaseException as error:
            self._told.put(error)

    def other(self) -> Any:
        told = self._told.get(timeout=60)
        if isinstance(told, BaseException):
            raise told
        return told


def gated(opened: threading.Event) -> Callable[[np.ndarray], np.ndarray]:
    def call(x: np.ndarray) -> np.ndarray:
        assert opened.wait(60)
        return np.copy(x)

    return call


@pytest.mark.parametrize("in_order", [True, False])
def test_a_futures_callback_may_not_wait_for_a_frame_that_its_own_thread_would_give(in_order: bool) -> None:
    attached = threading.Event()
    elsewhere: list[float] = []
    asked = Asked(in_order)
    with of_one(np.copy) as another, of_one(gated(attached)) as pipeline:
        asked.pipeline = pipeline
        first = pipeline.submit(value(0), in_order=in_order)
        first.add_done_callback(asked)
        first.add_done_callback(
            lambda _: elsewhere.append(another.submit(value(2), in_order=in_order).result(60)["y"][0])
        )
        attached.set()
        assert asked.other().result(60)["y"][0] == 1
    assert elsewhere == [2]


def test_the_callback_of_a_push_may_wait_for_what_another_thread_gives() -> None:
    pushed = threading.Event()
    asked = Asked(in_order=False)
    given: queue.SimpleQueue[float] = queue.SimpleQueue()
    with of_one(gated(pushed)) as pipeline:
        asked.pipeline = pipeline
        pipeline.push(value(0), done=asked)
        pushed.set()
        assert asked.other().result(60)["y"][0] == 1
        pushed.clear()
        pipeline.push(value(0), done=lambda _: given.put(pipeline.submit(value(2)).result(60)["y"][0]))
        pushed.set()
        assert given.get(timeout=60) == 2


def test_a_frame_that_was_submitted_is_cancelled_by_its_futures_number() -> None:
    reached, opened = threading.Event(), threading.Event()

    def call(x: np.ndarray) -> np.ndarray:
        reached.set()
        assert opened.wait(60)
        return np.copy(x)

    with of_one(call) as pipeline:
        first = pipeline.submit(value(0))
        assert reached.wait(60)
        futures = [pipeline.submit(value(1), in_order=in_order) for in_order in (True, False)]
        assert [pipeline.cancel_frame(future.number) for future in futures] == [True, True]
        opened.set()
        assert first.result(timeout=60)["y"][0] == 0
        for future in futures:
            assert isinstance(future.exception(timeout=60), penstock.Cancelled)


def test_what_one_raises_is_reported_and_the_others_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    given: queue.SimpleQueue[penstock.Frame] = queue.SimpleQueue()
    kept: list[penstock.Frame] = []

    def fail(frame: penstock.Frame) -> None:
        kept.append(frame)
        raise ValueError("of the user's")

    def leave(_frame: penstock.Frame) -> None:
        sys.exit(3)

    with of_one(lambda x: 2 * x) as pipeline:
        for i, done in enumerate([fail, leave, given.put]):
            pipeline.push(value(i), done=done)
        assert given.get(timeout=60)["y"][0] == 4
        assert pipeline(value(50))[0][0] == 100
    assert [report.exc_type for report in reported] == [ValueError, SystemExit]
    assert "the callback of frame 0 of a penstock.Pipeline" in (reported[0].err_msg or "") + str(reported[0].object)
    assert kept[0]["y"][0] == 0


def test_frames_that_failed_are_given_too() -> None:
    def call(x: np.ndarray) -> np.ndarray | penstock.Drop:
        if x[0] == 1:
            raise ValueError("bad frame")
        return penstock.Drop("unwanted") if x[0] == 2 else np.copy(x)

    given: queue.SimpleQueue[penstock.Frame] = queue.SimpleQueue()
    with of_one(call) as pipeline:
        for i in range(3):
            pipeline.push(value(i), done=given.put)
        pipeline.push(value(3), deadline=0, done=given.put)
        assert pipeline.try_push(value(3), deadline=0, priority="high", done=given.put) == 4
        frames = [given.get(timeout=60) for _ in range(5)]
    assert [frame.outcome for frame in frames] == ["ok", "error", "dropped", "error", "error"]
    assert "bad frame" in str(frames[1].error)
    assert isinstance(frames[4].error, penstock.DeadlineExceeded)


def test_they_are_called_before_the_pipeline_ends() -> None:
    reached, opened = threading.Event(), threading.Event()

    def call(x: np.ndarray) -> np.ndarray:
        reached.set()
        assert opened.wait(60)
        return np.copy(x)

    outcomes: list[str] = []
    pipeline = of_one(call)
    for _ in range(3):
        pipeline.push(value(0), done=lambda frame: outcomes.append(frame.outcome))
    assert reached.wait(60)
    pipeline.cancel()
    opened.set()
    pipeline.shut_down()
    assert len(outcomes) == 3  # The first was in progress.
    assert outcomes[1:] == ["cancelled"] * 2


def test_one_may_push_and_end_the_pipeline() -> None:
    ended = threading.Event()

    def again(frame: penstock.Frame) -> None:
        if frame["y"][0] < 50:
            assert pipeline.try_push(frame["y"] + 1, done=again) is not None
        else:
            pipeline.shut_down()
            ended.set()

    pipeline = of_one(np.copy)
    pipeline.push(value(0), done=again)
    assert ended.wait(60)
    assert not pipeline.alive


def test_one_may_replace_the_plan_but_not_wait_for_itself(model: Path, tmp_path: Path) -> None:
    package = tmp_path / "line.penstock"
    with penstock.split(model, output=package) as pipeline:
        replaced: queue.SimpleQueue[list[Exception | None]] = queue.SimpleQueue()

        def replace() -> Exception | None:
            try:
                pipeline.replace(package)
            except penstock.FailedPrecondition as error:
                return error
            return None

        pipeline.push(np.zeros((1, 4), np.float32), done=lambda frame: replaced.put([replace(), replace()]))
        first, second = replaced.get(timeout=60)
        assert first is None
        assert str(second).startswith("replace: a callback of a frame calls it")
        assert replace() is None


def test_they_are_let_go() -> None:
    class Watched:
        def __call__(self, _frame: penstock.Frame) -> None:
            called.set()

    called = threading.Event()
    with of_one(np.copy) as pipeline:
        done, tag = Watched(), Watched()
        gone = [weakref.ref(done), weakref.ref(tag)]
        pipeline.push(value(0), tag=tag, done=done)
        assert called.wait(60)
        with pytest.raises(penstock.InvalidArgument):
            pipeline.push(np.zeros(2, np.float32), tag=tag, done=done)  # Refused: it is not called.
        pipeline.close()
        with pytest.raises(penstock.Cancelled):
            pipeline.push(value(0), tag=tag, done=done)
        assert pipeline.in_flight == 0
        del done, tag
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_run_and_streams_wait_for_callbacks() -> None:
    reached, opened = threading.Event(), threading.Event()

    def call(x: np.ndarray) -> np.ndarray:
        reached.set()
        assert opened.wait(60)
        return np.copy(x)

    called = threading.Event()
    with of_one(call) as pipeline:
        pipeline.push(value(0), done=lambda _: called.set())
        assert reached.wait(60)
        for refused in (lambda: pipeline(value(1)), lambda: pipeline.stream([value(1)]).__next__()):
            with pytest.raises(
                penstock.FailedPrecondition,
                match="expected no pushed frames in flight, found 1; pop them, or wait for their callbacks",
            ):
                refused()
        opened.set()
        assert called.wait(60)
        assert pipeline(value(1))[0][0] == 1


def test_the_end_of_the_process_calls_them(run_script: Callable[..., str]) -> None:
    script = """
import numpy as np, penstock
app = penstock.App("one")
app.input("x", "f32[1]")
app.function("f", np.copy, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x")
app.output("y", "f.y")
pipeline = app.start()
for i in range(3):
    pipeline.push(np.full(1, i, np.float32), done=lambda frame: print(frame.number, flush=True))
"""
    assert run_script(script).split() == ["0", "1", "2"]


@pytest.mark.parametrize("way", ["push", "try_push", "of a stream"])
@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"priority": np.array(["high", "high"])}, "priority: expected 'normal' or 'high', found ndarray"),
        ({"priority": 1}, "priority: expected 'normal' or 'high', found int 1"),
        ({"priority": "High"}, "priority: expected 'normal' or 'high', found str 'High'"),
        ({"deadline": 10**400}, "deadline: expected a number of seconds or None, such as 0.5, found int 1000"),
        ({"deadline": 10**5000}, "deadline: expected a number of seconds or None, such as 0.5, found int <int"),
        ({"deadline": -1}, "deadline: expected 0 or more seconds from now, or None, found int -1"),
        ({"deadline": float("nan")}, "deadline: expected a number of seconds or None, such as 0.5, found float nan"),
        ({"deadline": "soon"}, "deadline: expected a number of seconds or None, such as 0.5, found str 'soon'"),
        ({"deadline": np.zeros(2)}, "deadline: expected a number of seconds or None, such as 0.5, found ndarray"),
        ({"done": 3}, "done: expected None or what is called with the frame, .*, found int 3"),
        ({"in_order": "no"}, "in_order: expected True or False, found str 'no'"),
        ({"stream": 10**5000}, r"stream: expected a number from 0 to 2\*\*64 - 1, found int"),
    ],
)
def test_odd_options_are_told_in_one_sentence(way: str, option: dict[str, Any], expected: str) -> None:
    with of_one(np.copy) as pipeline:
        if way == "of a stream" and "stream" in option:
            with pytest.raises(penstock.InvalidArgument, match=expected):
                pipeline.stream_of(option["stream"])
            return
        push: Any = pipeline.stream_of(0).push if way == "of a stream" else getattr(pipeline, way)
        with pytest.raises(penstock.InvalidArgument, match=expected) as told:
            push(value(0), **option)
        assert "\n" not in str(told.value)
        assert pipeline.in_flight == 0


@pytest.mark.parametrize("deadline", [float("inf"), 1e300, 10**30])
def test_a_deadline_that_never_comes_is_later_than_max_age(deadline: float) -> None:
    with of_one(np.copy, max_age_ms=0.001) as pipeline:
        pipeline.push(value(1), deadline=deadline)
        popped = pipeline.pop()
        assert popped is not None and popped.ok
