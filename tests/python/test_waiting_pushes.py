"""Pushes that wait longer than the binding looks for signals (50 ms) keep their place."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import penstock

ONE = np.ones(1, np.float32)


def waiting(body: Callable[..., object]) -> penstock.App:
    app = penstock.App("waiting")
    app.input("x", "f32[1]")
    app.function("body", body, {"x": "f32[1]", "last": "f32[1]"}, {"sum": "f32[1]"}, reads={"x": "x"})
    app.state("body.sum", "body.last")
    app.output("sum", "body.sum")
    return app


def add_slowly(x: np.ndarray, last: np.ndarray) -> np.ndarray:
    time.sleep(0.02)
    return x + last


@pytest.mark.parametrize("pushes_here", [True, False], ids=["main", "other"])
def test_a_stream_that_waits_for_a_seat_gets_it(pushes_here: bool) -> None:
    """Two streams have the seats and never cease to push; a third gets one of them all the same."""
    most = 500  # Each takes 20 ms: a stream that starves waits for all of them.
    with waiting(add_slowly).start(streams=3, evict=True, capacity=4) as pipeline:
        pushed = [0, 0]
        done = threading.Event()

        def go_on(stream: int) -> None:
            while not done.is_set() and pushed[stream - 1] < most:
                pipeline.push(ONE, stream=stream, done=lambda _: None)
                pushed[stream - 1] += 1

        pushers = [threading.Thread(target=go_on, args=(stream,)) for stream in (1, 2)]
        for pusher in pushers:
            pusher.start()
        while min(pushed) < 2:
            time.sleep(0.001)

        def come_between() -> None:
            for stream in (9, 10, 11):
                pipeline.push(ONE, stream=stream, done=lambda _: None, timeout=60)
            done.set()

        if pushes_here:
            come_between()
        else:
            third = threading.Thread(target=come_between)
            third.start()
            third.join()
        for pusher in pushers:
            pusher.join()
        assert min(pushed) < most
        assert pipeline.stats()["streams_evicted"] >= 3


def test_who_waits_to_push_goes_on_in_order_and_high_ones_first() -> None:
    opened = threading.Event()

    def hold(x: np.ndarray, last: np.ndarray) -> np.ndarray:
        opened.wait(60)
        return x + last

    order: list[str] = []
    with waiting(hold).start(capacity=1) as pipeline:
        while pipeline.try_push(ONE, done=lambda _: None) is not None:
            pass

        def push(name: str) -> None:
            pipeline.push(ONE, priority=name.rstrip("0123456789"), done=lambda _: order.append(name), timeout=60)

        pushers = []
        for name in ("normal0", "normal1", "normal2", "high0", "high1"):
            pushers.append(threading.Thread(target=push, args=(name,)))
            pushers[-1].start()
            time.sleep(0.2)  # It waits, and has looked for signals some times.
        opened.set()
        for pusher in pushers:
            pusher.join()
        pipeline.drain()
    # The first of them has the turn already when the high ones come.
    assert order == ["normal0", "high0", "high1", "normal1", "normal2"]
