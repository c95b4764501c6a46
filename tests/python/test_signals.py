"""Waits that the handler of a signal ends with an exception: what they waited for is neither lost nor done."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from penstock.collector import Collector
from penstock.types import Submitted

import penstock


class Late(Exception):
    pass


def late(*_: object) -> None:
    raise Late


def frame_of(number: int) -> np.ndarray:
    return np.full(1, number, np.float32)


class Signaller:
    """A pipeline whose function, at one frame, waits until it is told that somebody waits, sends the signal and
    returns at once: the signal and what is waited for come together."""

    def __init__(self, at: int) -> None:
        self.waits = threading.Event()
        app = penstock.App("signals")
        app.input("x", "f32[1]")

        def body(x: np.ndarray) -> np.ndarray:
            if x[0] == at:
                self.waits.wait(60)
                time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGUSR1)
            return x

        app.function("body", body, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x")
        app.output("y", "body.y")
        self.app = app

    def interrupted(self, wait: Callable[[], object]) -> bool:
        try:
            self.waits.set()
            wait()
        except BaseException as error:
            if not isinstance(error, (Late, KeyboardInterrupt, SystemExit)):
                raise
            return True
        return False


@pytest.fixture(params=[Late, KeyboardInterrupt, SystemExit], ids=lambda kind: kind.__name__)
def handler(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    def handle(*_: object) -> None:
        raise request.param

    before = signal.signal(signal.SIGUSR1, handle)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_frame_that_an_interrupted_pop_waited_for_comes_next(
    handler: type[BaseException], timeout: float | None
) -> None:
    signaller = Signaller(at=1)
    with signaller.app.start() as pipeline:
        for i in range(4):
            pipeline.push(frame_of(i), tag=i)
        got: list[object] = []

        def pop_all() -> None:
            while len(got) < 4:
                frame = pipeline.pop(timeout)
                assert frame is not None
                got.append(frame.tag)

        assert signaller.interrupted(pop_all)
        assert pipeline.in_flight == 4 - len(got)
        pipeline.close()
        while (frame := pipeline.pop()) is not None:
            got.append(frame.tag)
        assert got == [0, 1, 2, 3]
        assert pipeline.stats()["popped"] == 4


@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_goes_on_behind_the_exception_of_a_handler(threaded: bool) -> None:
    before = signal.signal(signal.SIGUSR1, late)
    signaller = Signaller(at=1)
    try:
        with signaller.app.start() as pipeline:
            stream = pipeline.stream(range(6), feed=frame_of, threaded=threaded)
            got: list[int] = []
            assert signaller.interrupted(lambda: got.extend(frame.tag for frame in stream))
            got.extend(frame.tag for frame in stream)
            assert got == [0, 1, 2, 3, 4, 5]
            assert pipeline.in_flight == 0
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_ends_where_a_frame_was_lost_on_its_way(threaded: bool) -> None:
    """As by an exception between the end of pop() and the note of it."""
    with Signaller(at=-1).app.start() as pipeline:
        stream = pipeline.stream(range(6), feed=frame_of, threaded=threaded)
        got = [next(stream).tag]
        lost = pipeline._core.pop(60)
        assert lost is not None
        got.extend(frame.tag for frame in stream)
        assert sorted([*got, lost.tag]) == [0, 1, 2, 3, 4, 5]


def test_a_push_that_is_interrupted_pushes_nothing(handler: type[BaseException]) -> None:
    signaller = Signaller(at=0)
    came: list[object] = []
    with signaller.app.start(capacity=1) as pipeline:
        pushed = 0
        while pipeline.try_push(frame_of(pushed), tag=pushed, done=lambda frame: came.append(frame.tag)) is not None:
            pushed += 1
        assert signaller.interrupted(
            lambda: pipeline.push(frame_of(9), tag="interrupted", done=lambda frame: came.append(frame.tag))
        )
        pipeline.drain()
        assert pipeline.stats()["pushed"] == pushed
    assert came == list(range(pushed))


@pytest.mark.parametrize("in_order", [True, False])
def test_others_may_go_on_behind_an_interrupted_submit(handler: type[BaseException], in_order: bool) -> None:
    signaller = Signaller(at=0)
    with signaller.app.start(capacity=1) as pipeline:
        futures: list[Submitted] = []

        def submit_all() -> None:
            while True:
                futures.append(pipeline.submit(frame_of(len(futures)), in_order=in_order))

        assert signaller.interrupted(submit_all)
        for number, future in enumerate(futures):
            assert future.result(60)["y"][0] == number
        pipeline.drain()
        assert pipeline.stats()["pushed"] == len(futures)
        assert pipeline.run(None, frame_of(5)) == [5]
        assert [frame["y"][0] for frame in pipeline.stream([frame_of(6)])] == [6]


def test_a_submit_that_is_interrupted_before_its_push_leaves_the_pipeline_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Signaller(at=-1).app.start() as pipeline:
        with monkeypatch.context() as patched:
            patched.setattr(Collector, "submit", late)
            with pytest.raises(Late):
                pipeline.submit(frame_of(1))
        assert pipeline.run(None, frame_of(2)) == [2]


def test_frames_that_interrupted_submits_left_behind_make_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    signaller = Signaller(at=0)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with signaller.app.start(capacity=1) as pipeline:
            with monkeypatch.context() as patched:
                patched.setattr(Collector, "_expect", late)
                with pytest.raises(penstock.DeadlineExceeded):
                    for i in range(100):
                        with pytest.raises(Late):
                            pipeline.submit(frame_of(i), timeout=0)
            threading.Timer(0.05, signaller.waits.set).start()
            assert [pipeline.submit(frame_of(i)).result(60)["y"] for i in (5, 6, 7)] == [5, 6, 7]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_frame_that_an_interrupted_submit_left_behind_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an exception between the end of the push and the note of it."""
    with Signaller(at=-1).app.start() as pipeline:
        before = pipeline.submit(frame_of(1))
        with monkeypatch.context() as patched:
            patched.setattr(Collector, "_expect", late)
            with pytest.raises(Late):
                pipeline.submit(frame_of(2))
        assert before.result(60)["y"] == [1]
        end = time.monotonic() + 60
        while True:
            try:
                assert pipeline.run(None, frame_of(3)) == [3]
                break
            except penstock.FailedPrecondition as error:
                assert "frames of submit() are in flight" in str(error)
                assert time.monotonic() < end
        assert pipeline.submit(frame_of(4)).result(60)["y"] == [4]
