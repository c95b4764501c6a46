"""Pushes that wait longer than the binding looks for signals (50 ms) keep their place."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def waits(thread: threading.Thread) -> int:
    """How often it has slept."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


@pytest.fixture
def interpreter_kept() -> Iterator[None]:
    """A thread that wants the interpreter sleeps once until it is given up, not once in 5 ms."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


def test_who_waits_to_push_goes_on_in_order_and_high_ones_first(interpreter_kept: None) -> None:
    opened = threading.Event()

    def hold(x: np.ndarray, last: np.ndarray) -> np.ndarray:
        opened.wait(60)
        return x + last

    order: list[str] = []
    with waiting(hold).start(capacity=1) as pipeline:
        while pipeline.try_push(ONE, done=lambda _: None) is not None:
            pass

        def push(name: str, started: threading.Event) -> None:
            started.set()
            pipeline.push(ONE, priority=name.rstrip("0123456789"), done=lambda _: order.append(name), timeout=60)

        pushers = []
        for name in ("normal0", "normal1", "normal2", "high0", "high1"):
            started = threading.Event()
            pushers.append(threading.Thread(target=push, args=(name, started)))
            pushers[-1].start()
            started.wait()
            before = waits(pushers[-1])
            while waits(pushers[-1]) < before + 5:  # It waits, and has looked for signals some times.
                time.sleep(0.01)
        opened.set()
        for pusher in pushers:
            pusher.join()
        pipeline.drain()
    # The first of them has the turn already when the high ones come.
    assert order == ["normal0", "high0", "high1", "normal1", "normal2"]


def test_results_that_come_out_and_are_held_stop_no_push_that_waits_already(interpreter_kept: None) -> None:
    with waiting(lambda x, last: x + last).start(capacity=4) as pipeline:
        assert pipeline.in_flight_limit == 4
        for _ in range(4):
            pipeline.push(ONE, timeout=60)
        held = [pipeline.pop(timeout=60) for _ in range(3)]
        for _ in range(3):
            pipeline.push(ONE, done=lambda _: None, timeout=60)
        with ThreadPoolExecutor(1) as pool:
            thread = pool.submit(threading.current_thread).result()
            before = waits(thread)
            pushed = pool.submit(pipeline.push, ONE, done=lambda _: None, timeout=20)
            while waits(thread) < before + 5:  # It waits for the slot of the one that is not popped yet.
                time.sleep(0.01)
            held.append(pipeline.pop(timeout=60))
            assert pushed.result() == 7
        pipeline.drain()
        assert [frame["sum"][0] for frame in held if frame] == [1, 2, 3, 4]


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_a_result_that_is_held_stops_no_push_of_a_callback(capacity: int) -> None:
    pushed: list[int] = []
    refused: list[penstock.PenstockError] = []

    def push_another(_: object = None) -> None:
        try:
            if len(pushed) < 20:
                pushed.append(pipeline.push(ONE, done=push_another, timeout=20))
        except penstock.PenstockError as error:
            refused.append(error)

    with waiting(lambda x, last: x + last).start(capacity=capacity) as pipeline:
        pipeline.push(ONE)
        held = pipeline.pop()
        for _ in range(capacity):
            push_another()
        for _ in range(20):  # In each at least one callback returns.
            pipeline.drain()
        assert len(pushed) >= 20 and not refused
        assert held and held["sum"][0] == 1


def test_a_result_that_comes_out_and_is_held_stops_no_push_of_a_callback(interpreter_kept: None) -> None:
    pushed: list[int] = []
    threads: list[threading.Thread] = []

    def push_more(_: object) -> None:
        threads.append(threading.current_thread())
        for _ in range(5):
            pushed.append(pipeline.push(ONE, timeout=20))

    with waiting(lambda x, last: x + last).start(capacity=4) as pipeline:
        pipeline.push(ONE, done=push_more)
        while len(pushed) < 4:  # The last of them has the room of the callback's own frame.
            time.sleep(0.01)
        before = waits(threads[0])
        while waits(threads[0]) < before + 5:  # It waits for the slot of the first one that it pushed.
            time.sleep(0.01)
        held = pipeline.pop(timeout=60)
        pipeline.drain()
        assert pushed == [1, 2, 3, 4, 5]
        assert held and held["sum"][0] == 2


HELD = """
import sys, threading
import numpy as np
import penstock

opened = threading.Event()

def hold(x, last):
    opened.wait()
    return x + last

app = penstock.App("held")
app.input("x", "f32[1]")
app.function("body", hold, {"x": "f32[1]", "last": "f32[1]"}, {"sum": "f32[1]"}, reads={"x": "x"})
app.state("body.sum", "body.last")
app.output("sum", "body.sum")
one = np.ones(1, np.float32)
with app.start(streams=3, capacity=1) as pipeline:
    while pipeline.try_push(one, done=lambda _: None) is not None:
        pass
    pusher = threading.Thread(target=lambda: pipeline.push(one, done=lambda _: None))
    pusher.start()
    threading.Timer(0.5, opened.set).start()
    stream = pipeline.stream_of(2)
    try:
        {"save": stream.save, "reset": stream.reset, "end": stream.end, "all": pipeline.reset_states,
         "restore": lambda: stream.restore({"body.sum": one})}[sys.argv[1]]()
    except penstock.PenstockError as error:
        print(error)
    pusher.join()
print("done")
"""


@pytest.mark.parametrize("what", ["save", "restore", "reset", "end", "all"])
def test_who_asks_for_states_lets_others_run_while_a_push_waits(what: str) -> None:
    """In a process of its own: it stood still for good, Ctrl-C included."""
    ran = subprocess.run([sys.executable, "-c", HELD, what], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("done\n")


def test_who_drains_waits_for_no_frames_that_come_later() -> None:
    """Each takes longer than the binding looks for signals, and another one is always in flight behind it."""
    most = 600
    pushed = 0

    def body(x: np.ndarray, last: np.ndarray) -> np.ndarray:
        time.sleep(0.1)
        return x + last

    def push_another(_: object = None) -> None:
        nonlocal pushed
        if pushed < most:
            pushed += 1
            pipeline.push(ONE, done=push_another)

    with waiting(body).start(capacity=4) as pipeline:
        for _ in range(3):
            push_another()
        pipeline.drain()
        assert pushed < most
        pushed = most


def test_frames_in_a_seat_that_is_waited_for_wait_for_no_others(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    names = ("x", "last", "sum", "out")
    x, last, total, out = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in names)
    nodes = [helper.make_node("Add", ["x", "last"], ["sum"]), helper.make_node("Neg", ["sum"], ["out"])]
    graph = helper.make_graph(nodes, "sums", [x, last], [out, total])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "sums.onnx")
    came: list[int] = []
    with penstock.split(
        tmp_path / "sums.onnx", states={"sum": "last"}, streams=2, evict=True, batch="2:600000"
    ) as pipeline:
        for stream in (1, 2, 3):
            pipeline.push(ONE[None], stream=stream, done=lambda frame: came.append(frame.stream))
    assert sorted(came) == [1, 2, 3]
