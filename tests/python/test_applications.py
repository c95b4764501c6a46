"""Applications: Python functions and networks as one pipeline."""

import asyncio
import gc
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line import expected
from onnx import ModelProto

import penstock

ROOT = Path(__file__).resolve().parents[2]
VALUE = "f32[1]"
START = """
import faulthandler, gc, os, sys, threading, time, weakref
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)
x = np.zeros(1, np.float32)
def of_one(call, **options):
    app = penstock.App()
    app.input("x")
    app.function("f", call, {"x": "f32[1]"}, {"y": "f32[1]"}, **options)
    app.connect("x", "f.x")
    app.output("y", "f.y")
    return app.start()
"""


def value(number: float) -> np.ndarray:
    return np.array([number], np.float32)


def of_one(call: Callable[..., Any], inputs: str = VALUE, outputs: str = VALUE, **options: Any) -> penstock.App:
    """y = call(x)"""
    app = penstock.App("one")
    app.input("x")
    app.function("f", call, {"x": inputs}, {"y": outputs}, **options)
    app.connect("x", "f.x")
    app.output("y", "f.y")
    return app


def of_two_lists(a: str, b: str, ports: tuple[str, str], each: list[str]) -> penstock.App:
    """A node that reads the application's inputs a and b."""
    app = penstock.App("lists")
    app.input("a", a)
    app.input("b", b)
    inputs = {"left": ports[0], "right": ports[1]}
    app.function("both", lambda left, right: left.sum() + right.sum(), inputs, {"sum": "f32[]"}, each=each)
    app.connect("a", "both.left")
    app.connect("b", "both.right")
    app.output("sum", "both.sum")
    return app


LISTS: list[tuple[tuple[str, str], list[str], str, str]] = [
    (("f32[n<=8]", "f32[n<=8]"), [], "'n'", "expected one size of 'n', found 3 in input 'left' and 4 in input 'right'"),
    (("f32[]", "f32[]"), ["left", "right"], "items", "'a' holds 3 items, 'b' holds 4: expected as many"),
]


@pytest.mark.parametrize(("ports", "each", "what", "told"), LISTS, ids=["symbol", "each"])
def test_lists_of_unlike_lengths_under_one_name_are_refused(
    ports: tuple[str, str], each: list[str], what: str, told: str
) -> None:
    with of_two_lists("f32[n<=8]", "f32[m<=8]", ports, each).start() as pipeline:
        a, b = np.ones(3, np.float32), np.ones(4, np.float32)
        pipeline(a, a)
        with pytest.raises(penstock.InvalidArgument, match=rf"^stage 'both': frame 1: .*{re.escape(told)}"):
            pipeline(a, b)
        pipeline(b, b)
    expected = f"node 'both': expected as many {what} in 'right' as in 'left', found 4 from 'b' and 3 from 'a'"
    with pytest.raises(penstock.InvalidArgument, match=re.escape(expected)):
        of_two_lists("f32[3]", "f32[4]", ports, each).start()


def test_outputs_of_unlike_lengths_under_one_name_are_refused() -> None:
    ports = {"boxes": "f32[n<=8,4]", "scores": "f32[n<=8]"}
    app = penstock.App("found")
    app.input("x")
    app.function("find", lambda x: (np.zeros((3, 4), np.float32), x), {"x": "f32[m<=8]"}, ports, reads="x")
    app.output("boxes", "find.boxes")
    app.output("scores", "find.scores")
    with app.start() as pipeline:
        pipeline(np.ones(3, np.float32))
        told = "expected one size of 'n', found 3 in output 'boxes' and 4 in output 'scores'"
        with pytest.raises(penstock.InvalidArgument, match=told):
            pipeline(np.ones(4, np.float32))


def test_a_function_behind_a_network_and_before_one(model: Path) -> None:
    app = penstock.App("line")
    app.input("number", "i64[1]")
    app.function("before", lambda number: np.full((1, 4), number[0], np.float32), {"n": "i64[1]"}, {"x": "f32[1,4]"})
    app.network("line", model, cuts=["increment"])
    app.function("after", lambda z: z.sum(keepdims=True), {"z": ("float32", (1, 4))}, {"sum": (np.float32, (1, 1))})
    app.connect("number", "before.n")
    app.connect("before.x", "line.x")
    app.connect("line.z", "after.z")
    app.output("sum", "after.sum")
    with app.start() as pipeline:
        sums = [float(result["sum"][0, 0]) for result in pipeline.stream(np.array([i]) for i in range(50))]
        assert [stage["backend"] for stage in pipeline.stats()["stages"]][0] == "function"
    assert sums == [float(expected(i).sum()) for i in range(50)]


def test_ten_thousand_frames_of_which_each_tenth_fails() -> None:
    def call(x: np.ndarray) -> np.ndarray:
        if x[0] % 10 == 3:
            raise ValueError(f"no {x[0]:.0f} today")
        return x + 1

    with of_one(call).start() as pipeline:
        results = list(pipeline.stream((value(i) for i in range(10_000)), errors="yield"))
        stats = pipeline.stats()
    assert (stats["pushed"], stats["popped"], stats["ok"], stats["errors"]) == (10_000, 10_000, 9_000, 1_000)
    assert [result.number for result in results] == list(range(10_000))
    for i, result in enumerate(results):
        if i % 10 != 3:
            assert result["y"][0] == i + 1
            continue
        assert isinstance(result.error, penstock.Unknown)
        text = str(result.error)
        assert f"function 'f': ValueError: no {i} today\nTraceback (most recent call last):" in text
        assert "in call\n" in text
        assert result.error.frame == i


def test_none_and_drop_drop_the_frame() -> None:
    def call(x: np.ndarray) -> Any:
        return {0: x, 1: None, 2: penstock.DROP, 3: penstock.Drop("nobody there")}[int(x[0]) % 4]

    with of_one(call).start() as pipeline:
        results = list(pipeline.stream((value(i) for i in range(8)), errors="yield", dropped="yield"))
        assert pipeline.stats()["drops"] == sum(stage["drops"] for stage in pipeline.stats()["stages"]) == 6
    assert [result.outcome for result in results] == ["ok", "dropped", "dropped", "dropped"] * 2
    assert "nobody there" in str(results[3].error)
    assert "returned None" in str(results[1].error)


def test_a_stateful_function_sees_the_frames_in_order() -> None:
    seen: list[int] = []

    def call(x: np.ndarray) -> np.ndarray:
        seen.append(int(x[0]))
        return value(len(seen))

    with of_one(call, stateful=True).start() as pipeline:
        counts = [int(result["y"][0]) for result in pipeline.stream(value(i) for i in range(300))]
    assert seen == list(range(300))
    assert counts == list(range(1, 301))
    with pytest.raises(penstock.InvalidArgument, match="stateful and sees the frames in order"):
        of_one(call, stateful=True, replicas=2).start()


def test_replicas_keep_the_order() -> None:
    with of_one(lambda x: x * 2, replicas=3).start() as pipeline:
        assert [result["y"][0] for result in pipeline.stream(value(i) for i in range(300))] == [
            2 * i for i in range(300)
        ]


def test_items_are_scattered_and_gathered_in_order() -> None:
    bound = 16
    counts = [0, 1, 7, bound, 3, 0, bound, 2] * 10

    def scatter(x: np.ndarray) -> list[np.ndarray]:
        return [np.array([x[0], i], np.float32) for i in range(counts[int(x[0])])]

    app = penstock.App("items")
    app.input("x")
    app.function("scatter", scatter, {"x": VALUE}, {"items": f"f32[n<={bound},2]"})
    app.function("double", lambda item: item * 2, {"item": "f32[2]"}, {"twice": "f32[2]"}, each=["item"])
    app.function("gather", np.copy, {"items": f"f32[n<={bound},2]"}, {"all": f"f32[m<={bound},2]"})
    app.connect("x", "scatter.x")
    app.connect("scatter.items", "double.item")
    app.connect("double.twice", "gather.items")
    app.output("all", "gather.all")
    with app.start() as pipeline:
        for number, result in enumerate(pipeline.stream(value(i) for i in range(len(counts)))):
            wanted = [[2 * number, 2 * i] for i in range(counts[number])]
            assert result["all"].tolist() == wanted
            assert result["all"].shape == (counts[number], 2)


def hanging_network(folder: Path) -> Path:
    """2 ** n over a loop of n rounds: zero is quick, 2 ** 62 never ends."""
    from onnx import TensorProto, helper, save

    value, constant = helper.make_tensor_value_info, helper.make_tensor
    inner = [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("a", TensorProto.FLOAT, [1])]
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Add", ["a", "a"], ["b"])],
        "body",
        inner,
        [value("go", TensorProto.BOOL, []), value("b", TensorProto.FLOAT, [1])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "yes", "one"], ["y"], name="loop", body=body)],
        "loop",
        [value("n", TensorProto.INT64, [])],
        [value("y", TensorProto.FLOAT, [1])],
        [constant("one", TensorProto.FLOAT, [1], [1]), constant("yes", TensorProto.BOOL, [], [True])],
    )
    file = folder / "loop.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


@pytest.mark.parametrize("stage", ["network", "function", "split"])
def test_a_call_that_hangs_is_named_with_its_frame(run_script: Callable[..., str], tmp_path: Path, stage: str) -> None:
    text = """
if sys.argv[2] == "split":
    p = penstock.split(sys.argv[1], max_run_ms=2000)
else:
    app = penstock.App()
    app.input("n")
    if sys.argv[2] == "network":
        app.network("net", sys.argv[1], max_run_ms=2000)
    else:
        def call(n):
            if n > 9: time.sleep(1e6)
            return np.array([2.0 ** n], np.float32)
        app.function("net", call, {"n": "i64[]"}, {"y": "f32[1]"}, max_run_ms=2000)
    app.connect("n", "net.n")
    app.output("y", "net.y")
    p = app.start()
for n in (1, 2, 2**62, 3, 3): p.push(np.array(n))
frames = [p.pop() for _ in range(5)]
assert [frame["y"][0] for frame in frames[:2]] == [2, 4]
hung, behind = frames[2].error, frames[4].error
assert isinstance(hung, penstock.DeadlineExceeded) and isinstance(behind, penstock.DeadlineExceeded)
name = "stage0" if sys.argv[2] == "split" else "net"
assert str(hung).startswith(f"stage '{name}': frame 2: the call hangs: it has run for "), hung
assert str(behind) == f"frame 4: behind a call that hangs: {hung}", behind
assert (behind.frame, behind.stage, behind.reason) == (4, name, hung.reason)
try:
    p.push(np.array(1))
except penstock.Cancelled as error:
    print(error)
"""
    out = run_script(START + text, hanging_network(tmp_path), stage)
    assert out.startswith("the pipeline stopped at a call that hangs: stage '") and "': frame 2: the call hangs" in out


def test_more_items_than_the_bound_fail_the_frame() -> None:
    with of_one(lambda x: [x] * int(x[0]), VALUE, "f32[n<=4,1]").start() as pipeline:
        with pytest.raises(penstock.OutOfRange, match="output 'y': expected at most 4 items, found 5"):
            pipeline(value(5))
        assert pipeline(value(4))[0].shape == (4, 1)


def test_shapes_may_be_open_up_to_a_bound() -> None:
    with of_one(lambda x: x[::2], "f32[n<=8]", "f32[m<=8]").start() as pipeline:
        assert pipeline(np.arange(7, dtype=np.float32))[0].tolist() == [0, 2, 4, 6]
        with pytest.raises(penstock.InvalidArgument, match="input 'x': expected f32"):
            pipeline(np.zeros(9, np.float32))


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (np.zeros(1), r"function 'f': output 'y': expected f32\[1\], found f64\[1\]; convert it with .astype"),
        (np.zeros(2, np.float32), r"function 'f': output 'y': expected f32\[1\], found f32\[2\]"),
        ("text", "function 'f': output 'y': expected an array .* found str"),
        ((1, 2), r"function 'f': expected 1 output \('y'\), found 2"),
        ({"z": value(0)}, "function 'f': output 'y' is missing; the outputs are 'y'"),
        ({"y": value(0), "z": value(0)}, r"function 'f': expected the outputs 'y', found .*\['y', 'z'\]"),
        ([value(0)], "function 'f': output 'y': expected an array .* found a list"),
    ],
)
def test_what_is_returned_is_checked(returned: Any, sentence: str) -> None:
    with of_one(lambda x: returned if x[0] else x).start() as pipeline:
        with pytest.raises(penstock.PenstockError, match=sentence):
            pipeline(value(1))
        assert pipeline(value(0))[0].tolist() == [0]


def test_inputs_are_read_only_and_not_kept() -> None:
    kept: list[np.ndarray] = []

    def call(x: np.ndarray) -> np.ndarray:
        if x[0] == 1:
            x[0] = 5
        if x[0] == 2:
            kept.append(x[:1])
        return np.copy(x)

    with of_one(call).start() as pipeline:
        with pytest.raises(penstock.Unknown, match="read-only"):
            pipeline(value(1))
        with pytest.raises(penstock.FailedPrecondition, match=r"function 'f': kept its input 'x' .* keep x.copy\(\)"):
            pipeline(value(2))
        kept.clear()
        assert pipeline(value(3))[0].tolist() == [3]


def test_an_input_that_is_kept_by_a_call_that_drops_its_frame_is_refused() -> None:
    kept: list[np.ndarray] = []

    def keep(x: np.ndarray) -> Any:
        kept.append(x)
        return penstock.DROP

    with of_one(keep).start() as pipeline, pytest.raises(penstock.FailedPrecondition, match="kept its input 'x'"):
        pipeline(value(0))


@pytest.mark.parametrize("what", ["input", "exception"])
def test_an_input_that_is_kept_by_a_call_that_fails_is_refused(what: str) -> None:
    kept: list[Any] = []

    def keep(x: np.ndarray) -> Any:
        if x[0] == 0:
            return np.copy(x)
        error = ValueError("no")
        kept.append(x if what == "input" else error)
        raise error

    with of_one(keep).start() as pipeline:
        with pytest.raises(penstock.FailedPrecondition) as raised:
            pipeline(value(1))
        assert re.search(r"function 'f': kept its input 'x' .*; the call failed: ValueError: no\n", str(raised.value))
        kept.clear()
        assert pipeline(value(0))[0].tolist() == [0]


def test_a_call_that_fails_may_leave_a_cycle_of_its_names() -> None:
    def call(x: np.ndarray) -> np.ndarray:
        error = ValueError("no")
        error.cycle = error, x  # type: ignore[attr-defined]
        gc.collect()  # What is there by now counts as old.
        raise error

    with of_one(call).start() as pipeline, pytest.raises(penstock.Unknown, match="function 'f': ValueError: no\n"):
        pipeline(value(1))


def test_the_copy_of_what_a_function_returns_is_counted() -> None:
    app = of_one(lambda x: penstock.DROP if x[0] == 1 else x + 1)
    app.function("two", lambda y: (y, y), {"y": VALUE}, {"a": VALUE, "b": VALUE}, reads="f.y")
    app.output("a", "two.a")
    app.output("b", "two.b")
    with app.start() as pipeline:
        for frame in pipeline.stream(value(i) for i in range(10)):
            assert frame["a"] == frame["b"]
        stages = pipeline.stats()["stages"]
    assert [(stage["name"], stage["copies"]) for stage in stages] == [("f", 9), ("two", 18)]


def test_options_of_a_callable_are_refused(tmp_path: Path) -> None:
    told = "function 'f': takes no options, found 'gain'; leave it out, or give the function its value where"
    with pytest.raises(penstock.InvalidArgument, match=told):
        of_one(abs, options={"gain": 2}).start()
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\ninputs: {x: any}\n"
        "nodes: {n: {function: f, inputs: {x: x}, options: {gain: 2}}}\noutputs: {y: n.y}\n"
    )
    with pytest.raises(penstock.InvalidArgument, match=told):
        penstock.App.read(tmp_path / "app.yaml", [penstock.Function("f", abs, {"x": VALUE}, {"y": VALUE})]).start()


def test_a_function_that_was_refused_is_not_taken_for_the_next_of_its_name() -> None:
    app = penstock.App("one")
    app.input("x")
    with pytest.raises(penstock.InvalidArgument):
        app.function("f", lambda x: x + 1, {"x": VALUE}, {"y": VALUE}, reads=["x", "x"])
    app.function("f", lambda x: x + 100, {"x": VALUE}, {"y": VALUE}, reads="x")
    app.output("y", "f.y")
    with app.start() as pipeline:
        assert pipeline.run(None, np.zeros(1, np.float32))[0] == [100]


def test_a_state_feeds_the_next_frame() -> None:
    app = penstock.App("sum")
    app.input("x")
    app.function("add", lambda x, last: x + last, {"x": VALUE, "last": VALUE}, {"sum": VALUE})
    app.connect("x", "add.x")
    app.state("add.sum", "add.last")
    app.output("sum", "add.sum")
    with app.start() as pipeline:
        assert [result["sum"][0] for result in pipeline.stream(value(i) for i in range(6))] == [0, 1, 3, 6, 10, 15]
        assert pipeline(value(1))[0][0] == 16
        pipeline.reset_states()
        assert [result["sum"][0] for result in pipeline.stream([value(5), value(6)])] == [5, 11]
        pipeline.push(value(1))
        with pytest.raises(
            penstock.FailedPrecondition, match="reset_states: expected no frames in flight, found 1; pop them first"
        ):
            pipeline.reset_states()
        pipeline.pop()
        with pipeline.stream(value(i) for i in range(100)) as left:
            next(left)
        pipeline.reset_states()
        assert pipeline(value(7))[0][0] == 7


def test_an_error_names_the_stream_of_its_frame() -> None:
    def fails(x: np.ndarray) -> np.ndarray:
        raise ValueError("bad")

    with of_one(fails).start(streams=2) as pipeline:
        for stream, outer in ((7, [{"kind": "stream", "number": 7}]), (0, [])):
            pipeline.push(value(1), stream=stream)
            error = pipeline.pop(None).error
            assert error is not None
            assert [place for place in error.places if place["kind"] == "stream"] == outer
            assert str(error).startswith("stream 7: stage 'f': frame 0: " if stream else "stage 'f': frame 1: ")


def test_streams_have_states_of_their_own() -> None:
    app = penstock.App("sum")
    app.input("x")
    ports = {"x": "f32[1]", "held": "f32[1]"}
    app.function("sum", lambda x, held: x + held, ports, {"sum": "f32[1]"}, reads={"x": "x"})
    app.state("sum.sum", "sum.held")
    app.output("sum", "sum.sum")
    with app.start(streams=3) as pipeline:
        calls = [pipeline.stream_of(number) for number in (0, 2**64 - 1, 7)]
        for round in range(1, 4):
            for i, call in enumerate(calls):
                assert call(value(i + 1))[0][0] == (i + 1) * round
        assert pipeline(value(1))[0][0] == 4  # Stream 0.
        assert pipeline.plan["streams"] == {"most": 3, "evict": False}

        calls[2].push(value(3), tag="call")
        for change in (
            calls[2].reset,
            calls[2].end,
            calls[2].save,
            lambda: calls[2].restore({"sum.held.last": value(1)}),
        ):
            with pytest.raises(
                penstock.FailedPrecondition,
                match=r"^stream_of\(n\)\..*: stream 7: expected no frames in flight, found 1",
            ):
                change()
        saved = calls[1].save()
        assert {name: list(array) for name, array in saved.items()} == {"sum.held.last": [6]}
        calls[1].reset()
        frame = pipeline.pop()
        assert (frame.stream, frame.tag, frame["sum"][0]) == (7, "call", 12)
        assert calls[1].submit(value(2)).result()["sum"][0] == 2
        assert saved["sum.held.last"][0] == 6
        calls[1].restore(saved)
        assert calls[1].run(["sum"], {"x": value(2)})[0][0] == 8

        other = pipeline.stream_of(8)
        with pytest.raises(penstock.ResourceExhausted, match="push: stream 8: it is not known, and the plan allows 3"):
            other.try_push(value(1))
        with pytest.raises(penstock.NotFound, match=r"stream_of\(n\)\.save\(\): stream 8: it is not known"):
            other.save()
        calls[1].end()
        assert other(value(1))[0][0] == 1
        assert (pipeline.stats()["streams"], pipeline.stats()["streams_evicted"]) == (3, 0)
        pipeline.reset_states()
        assert [call(value(5))[0][0] for call in (calls[0], calls[2], other)] == [5, 5, 5]
        for states, told in [
            ({"last": value(1)}, r"no state 'last'; the states are 'sum\.held\.last'"),
            ({}, r"state 'sum\.held\.last' is missing"),
            ({"sum.held.last": np.zeros(2, np.float32)}, r"state 'sum\.held\.last': expected f32\[1\]"),
        ]:
            with pytest.raises(penstock.InvalidArgument, match=told):
                other.restore(states)
        for number in (-1, 2**64, "a", 1.5, None):
            with pytest.raises(penstock.InvalidArgument, match="stream: expected a"):
                pipeline.stream_of(number)
    with app.start(streams=2, evict=True) as pipeline:
        assert [pipeline.stream_of(i)(value(1))[0][0] for i in (1, 1, 2, 1)] == [1, 2, 1, 1]
        assert pipeline.stats()["streams_evicted"] == 2
    for streams in (0, -1, 2**31):
        with pytest.raises(penstock.InvalidArgument, match="streams: expected 1 to 2147483647, found"):
            app.start(streams=streams)
    with pytest.raises(penstock.InvalidArgument, match="evict: expected streams beside it, .* streams=8, found none"):
        app.start(evict=True)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("streams", 1, 2**31 - 1), ("capacity", 1, 10**6), ("in_flight", 1, 10**6), ("max_left_behind", 0, 1024)],
)
def test_a_number_of_any_length_is_told_its_range(name: str, least: int, most: int) -> None:
    app = held_sum()
    for number, shown in ((10**30, r"1e\+30"), (-(10**30), r"-1e\+30"), (10**400, "a number of 1329 bits")):
        with pytest.raises(penstock.InvalidArgument, match=f"^{name}: expected {least} to {most}, found {shown}$"):
            app.start(**{name: number})


def test_what_an_open_stream_holds_back_is_told_by_who_takes_its_frames() -> None:
    with held_sum().start(streams=2, in_flight=4) as pipeline:
        one = pipeline.stream_of(1)
        with one.stream(value(i) for i in range(100)) as results:
            next(results)
            while not pipeline.in_flight:  # The first may have come out before the second was pushed.
                next(results)
            calls = {
                "stream_of(n).reset()": one.reset,
                "stream_of(n).save()": one.save,
                "stream_of(n).end()": one.end,
                "stream_of(n).restore()": lambda: one.restore({"sum.held.last": value(0)}),
                "reset_states": pipeline.reset_states,
            }
            for what, call in calls.items():
                with pytest.raises(penstock.FailedPrecondition) as refused:
                    call()
                told = f"{what}: a stream takes the frames of this pipeline; finish or close() it first"
                assert str(refused.value) == told
            pipeline.stream_of(0).reset()  # None of its frames is in flight.
        one.reset()
        pipeline.push(value(1), stream=1)
        with pytest.raises(penstock.FailedPrecondition, match="expected no frames in flight, found 1; pop them first"):
            one.reset()


def test_each_of_several_streams_has_a_replica_for_its_state(tmp_path: Path) -> None:
    app = penstock.App("sum")
    app.input("x")
    ports = {"x": VALUE, "held": VALUE}
    app.function("sum", lambda x, held: x + held, ports, {"sum": VALUE}, replicas=2, reads={"x": "x"})
    app.state("sum.sum", "sum.held")
    app.output("sum", "sum.sum")
    for output in (None, tmp_path / "sum.penstock"):
        with app.start(streams=3, output=output) as pipeline:
            assert len(pipeline.plan["stages"][0]["devices"]) == 2
            for frame in range(30):
                pipeline.push(value(frame), stream=frame % 3)
                if frame % 6 == 5:  # Two of each stream are on their way at once.
                    for popped in (pipeline.pop() for _ in range(6)):
                        assert popped["sum"][0] == sum(range(popped.number % 3, popped.number + 1, 3))
    with pytest.raises(penstock.InvalidArgument, match="expected one replica, found 2; leave 'replicas' out there, or"):
        app.start()


def held_sum() -> penstock.App:
    app = penstock.App("sum")
    app.input("x")
    ports = {"x": "f32[1]", "held": "f32[1]"}
    app.function("sum", lambda x, held: x + held, ports, {"sum": "f32[1]"}, reads={"x": "x"})
    app.state("sum.sum", "sum.held")
    app.output("sum", "sum.sum")
    return app


@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_is_iterated_over_with_states_of_its_own(threaded: bool) -> None:
    with held_sum().start(streams=2) as pipeline:
        call = pipeline.stream_of(7)
        for first in (0, 10):
            with call.stream([3, 4, 3], value, threaded=threaded) as frames:
                assert [(frame.stream, frame.tag, frame["sum"][0]) for frame in frames] == [
                    (7, 3, first + 3),
                    (7, 4, first + 7),
                    (7, 3, first + 10),
                ]
        assert pipeline(value(1))[0][0] == 1  # Stream 0.
        with pytest.raises(penstock.ResourceExhausted, match="stream 8: it is not known, and the plan allows 2"):
            next(pipeline.stream_of(8).stream([value(1)], threaded=threaded))
    with held_sum().start(streams=2, policy="error", capacity=1) as pipeline:  # Here a full edge is waited for.
        frames = pipeline.stream_of(7).stream(range(20), value, threaded=threaded)
        assert [frame["sum"][0] for frame in frames] == list(np.cumsum(range(20)))


def test_streams_are_iterated_over_at_once_by_tasks() -> None:
    async def total(call: penstock.StreamOf, step: int) -> list[float]:
        return [frame["sum"][0] async for frame in call.astream([step] * 4, value)]

    async def totals(pipeline: penstock.Pipeline) -> list[list[float]]:
        return await asyncio.gather(*(total(pipeline.stream_of(number), number) for number in (1, 2, 3)))

    with held_sum().start(streams=4) as pipeline:
        assert asyncio.run(totals(pipeline)) == [[step * i for i in range(1, 5)] for step in (1, 2, 3)]
        with pytest.raises(penstock.ResourceExhausted, match="stream 9: it is not known"):
            asyncio.run(total(pipeline.stream_of(9), 1))


def test_drain_says_that_results_are_to_be_popped() -> None:
    with held_sum().start(policy="drop_oldest", capacity=2) as pipeline:
        for i in range(50):
            pipeline.push(value(i))
        with pytest.raises(penstock.FailedPrecondition, match="the results fill the output edge"):
            pipeline.drain()


def test_a_frame_of_a_stream_may_have_a_deadline_and_a_priority() -> None:
    app = penstock.App("double")
    app.input("x")
    app.function("double", lambda x: 2 * x, {"x": "f32[1]"}, {"twice": "f32[1]"}, reads={"x": "x"})
    app.output("twice", "double.twice")
    with app.start(streams=2) as pipeline:
        call = pipeline.stream_of(7)
        call.push(value(1), tag="late", deadline=0, priority="high")
        pipeline.push(value(2), tag="late too", stream=7, deadline=0)
        call.push(value(3), tag="in time", deadline=60, priority="high")
        frames = [pipeline.pop() for _ in range(3)]
        assert [(frame.stream, frame.tag, frame.outcome) for frame in frames if frame is not None] == [
            (7, "late", "error"),
            (7, "late too", "error"),
            (7, "in time", "ok"),
        ]
        for submit in (call.submit, lambda *what, **how: pipeline.submit(*what, stream=7, **how)):
            with pytest.raises(penstock.DeadlineExceeded, match="its deadline had passed before its push"):
                submit(value(4), deadline=0).result(60)
            done = submit(value(5), deadline=60, priority="high").result(60)
            assert (done.stream, done["twice"][0]) == (7, 10)
        for give in (call.push, call.submit):
            with pytest.raises(penstock.InvalidArgument, match="priority: expected 'normal' or 'high'"):
                give(value(6), priority="low")
        assert pipeline.in_flight == 0


def test_a_refused_connection_leaves_nothing_behind() -> None:
    app = of_one(lambda x: x + 1)
    with pytest.raises(penstock.InvalidArgument, match=r"connect: no port 'g\.x'"):
        app.connect("x", "f.y", "g.x")  # Had 'f.y' stayed, the start would be refused.
    with app.start() as pipeline:
        assert pipeline.run(None, value(1))[0][0] == 2


def test_mistakes_are_named_before_anything_runs() -> None:
    app = of_one(lambda x: x)
    with pytest.raises(penstock.InvalidArgument, match=r"connect: no port 'g.x'; .* the nodes being 'f'"):
        app.connect("x", "g.x")
    with pytest.raises(penstock.InvalidArgument, match="node 'f': is there twice"):
        app.function("f", print)
    app.connect("x", "f.z")
    with pytest.raises(penstock.NotFound, match="node 'f': input 'z': the node has no such input; there are: 'x'"):
        app.start()
    with pytest.raises(penstock.InvalidArgument, match="function 'f': inputs: 'x': expected a type such as"):
        of_one(print, "float").start()
    with pytest.raises(penstock.InvalidArgument, match=r"expected a type such as 'f32\[1,3,224,224\]' or .* found 4"):
        of_one(print, 4).start()  # type: ignore[arg-type]
    with pytest.raises(penstock.InvalidArgument, match=r"max_run_ms: expected a number, found 'long' \(str\)"):
        of_one(print, max_run_ms="long").start()
    with pytest.raises(penstock.InvalidArgument, match="function 'f': expected a callable, found int"):
        of_one(3).start()  # type: ignore[arg-type]
    with pytest.raises(penstock.InvalidArgument, match="'y': expected a type of known rank with a bound"):
        of_one(print, VALUE, "f32[n]").start()


@pytest.mark.parametrize(
    ("add", "told"),
    [
        (lambda app: app.network("n", b"\x08" * 10**6), r"^node 'n': model: expected a path, .*, found bytes .{,110}$"),
        (lambda app: app.network("n", ModelProto()), "node 'n': model: expected a path, .*, found ModelProto"),
        (lambda app: app.network(3, "model.onnx"), "node: expected a name, such as 'classify', found int 3"),
        (lambda app: app.network("n", "m.onnx", reads={"x": 3}), "node 'n': reads: expected a name, .*, found int 3"),
        (lambda app: app.function("g", library=3), "function 'g': library: expected a path, .*, found int 3"),
        (
            lambda app: app.function("g", abs, options=[1]),
            r"function 'g': options: expected a dict, .*, found list \[1\]",
        ),
        (lambda app: app.function("g", abs, reads=[3]), "node 'g': reads: expected a name, .*, found int 3"),
        (
            lambda app: app.function("g", abs, {3: VALUE}) or app.start(),
            "function 'g': expected a name, such as 'image', found int 3",
        ),
        (lambda app: app.input(3), "input: expected a name, such as 'image', found int 3"),
        (lambda app: app.output("y", 3), "output 'y': expected a name, such as 'node.port', found int 3"),
        (lambda app: app.output(3, "f.y"), "output: expected a name, such as 'label', found int 3"),
        (lambda app: app.connect(3, "f.x"), "connect: expected a name, such as 'node.port', found int 3"),
        (lambda app: app.connect("x", 3), "connect: expected a name, such as 'node.port', found int 3"),
        (lambda app: app.state("f.y", 3), "state: expected a name, such as 'node.port', found int 3"),
        (lambda app: app.state("f.y", "f.x", initial=3), "initial: expected a path, .*, found int 3"),
        (lambda app: app.start(output=3), "output: expected a path, .*, found int 3"),
    ],
)
def test_an_argument_of_another_type_is_refused(add: Callable[[penstock.App], object], told: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=told):
        add(of_one(abs))


def test_an_application_shows_itself() -> None:
    assert repr(of_one(abs)) == "<penstock.App 'one': x -> f -> y>"
    assert repr(penstock.App()) == "<penstock.App 'app': (none) -> (none) -> (none)>"
    assert repr(penstock.App.read("some.yaml")) == "<penstock.App of 'some.yaml'>"


def test_an_application_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    sentence = r"app.yaml': expected a (model|package), found an application; penstock.App.read\(.*\).start\(\) runs it"
    for make in (penstock.split, penstock.plan, penstock.load):
        with pytest.raises(penstock.InvalidArgument, match=sentence):
            make(file)
    for make in (penstock.split, penstock.plan, penstock.build):
        with pytest.raises(penstock.InvalidArgument, match=r"': expected a model, found a folder; penstock.load\(\)"):
            make(tmp_path)
    app = penstock.App()
    app.input("x")
    app.network("inner", file)
    app.connect("x", "inner.x")
    app.output("y", "inner.y")
    with pytest.raises(
        penstock.InvalidArgument, match="node 'inner': '.*': expected a model or a package of one network"
    ):
        app.start()


def test_functions_are_a_list_of_declarations(tmp_path: Path) -> None:
    for functions in ({"half": abs}, [abs], abs):
        found = type(abs if isinstance(functions, list) else functions).__name__
        for read in (penstock.App.read, lambda file, functions: penstock.load(file, functions=functions)):
            with pytest.raises(
                penstock.InvalidArgument, match=f"expected a list of penstock.Function.*, found {found}"
            ):
                read(tmp_path / "app", functions)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_line_of_the_documents_compiles_a_library_of_functions(tmp_path: Path) -> None:
    page = (ROOT / "docs/functions.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^```sh\n(cc .*)\n```$", page, re.MULTILINE)
    shutil.copy(ROOT / "examples/function/example.c", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin/python").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", line], cwd=tmp_path, env=environment, check=True)

    app = penstock.App("scaled")
    app.input("x")
    app.function("scale", library=tmp_path / "libexample.so", library_name="scale", options={"factor": 3})
    app.connect("x", "scale.x")
    app.output("y", "scale.y")
    with app.start() as pipeline:
        np.testing.assert_array_equal(pipeline(np.array([1, 2, 3, 4], np.float32))[0], [3, 6, 9, 12])


def test_native_code_may_be_refused(tmp_path: Path) -> None:
    app = penstock.App("native")
    app.input("x")
    app.function("f", library=tmp_path / "never_opened.so")
    app.connect("x", "f.x")
    app.output("y", "f.y")
    with pytest.raises(penstock.PermissionDenied, match="node 'f': function library '.*': native code is not allowed"):
        app.start(native_code=False)
    with of_one(lambda x: x).start(native_code=False, output=tmp_path / "app.penstock") as pipeline:  # Python is not.
        assert pipeline(value(1))[0][0] == 1
    plan = json.loads((tmp_path / "app.penstock/plan.json").read_text())
    plan["custom_ops"] = ["never_opened.so"]
    plan.setdefault("files", {})["never_opened.so"] = hashlib.sha256(b"").hexdigest()
    (tmp_path / "app.penstock/never_opened.so").touch()
    (tmp_path / "app.penstock/plan.json").write_text(json.dumps(plan))
    with pytest.raises(penstock.PermissionDenied, match="'never_opened.so': native code .* native_code=False"):
        penstock.load(tmp_path / "app.penstock", native_code=False)


def test_a_file_of_an_application_names_a_module(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(
        "import penstock\n"
        "def half(x):\n"
        "    if x[0] < 0:\n"
        "        raise ValueError('negative')\n"
        "    return x / 2\n"
        "halved = penstock.Function('half', half, {'x': 'f32[1]'}, {'y': 'f32[1]'})\n"
    )
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\nfunctions: functions.py\ninputs: {x: 'f32[1]'}\n"
        "nodes: {half: {function: half, inputs: {x: x}}}\noutputs: {y: half.y}\n"
    )
    app = penstock.App.read(tmp_path / "app.yaml")
    with app.start(output=tmp_path / "app.penstock") as pipeline:
        assert pipeline(value(6))[0] == [3]
        with pytest.raises(penstock.Unknown, match=r"ValueError: negative \(functions.py, line 4 in half\)$"):
            pipeline(-value(6))
    with penstock.load(tmp_path / "app.penstock") as pipeline:
        assert pipeline(value(8))[0] == [4]
    with pytest.raises(penstock.PermissionDenied, match="functions.py': native code is not allowed"):
        app.start(native_code=False)


@pytest.mark.filterwarnings("ignore:.* calls in flight")  # Of engines here a stage has one.
def test_lanes_and_calls_left_behind_are_said_of_a_node(model: Path) -> None:
    app = penstock.App("line")
    app.input("x")
    app.network("line", model, cuts=["increment"], lanes=3, max_run_ms=60000, max_left_behind=2, reads={"x": "x"})
    app.function(
        "copy", np.copy, {"z": "f32[1,4]"}, {"y": "f32[1,4]"}, max_run_ms=60000, max_left_behind=1, reads="line.z"
    )
    app.output("y", "copy.y")
    with app.start() as pipeline:
        assert [(stage.get("lanes", 0), stage["max_left_behind"]) for stage in pipeline.plan["stages"]] == [
            (3, 2),
            (3, 2),
            (0, 1),
        ]
    for wrong in (-1, 1025):
        refused = penstock.App("line")
        refused.function("copy", np.copy, {"x": "f32[4]"}, {"y": "f32[4]"}, max_left_behind=wrong)
        with pytest.raises(penstock.InvalidArgument, match=f"max_left_behind: expected 0 to 1024, found {wrong}"):
            refused.start()


def test_a_node_may_say_what_it_reads(model: Path) -> None:
    app = penstock.App("line")
    app.input("x")
    app.network("line", model, reads={"x": "x"})
    two = {"z": "f32[1,4]", "x": "f32[1,4]"}
    app.function("less", lambda z, x: z - x, two, {"y": "f32[1,4]"}, reads=["line.z", "x"])
    app.function("half", lambda y: y / 2, {"y": "f32[1,4]"}, {"h": "f32[1,4]"}, reads="less.y")
    app.output("h", "half.h")
    with app.start() as pipeline:
        assert np.array_equal(pipeline(np.full((1, 4), 3, np.float32))[0], (expected(3) - 3) / 2)
    with pytest.raises(
        penstock.InvalidArgument, match=r"node 'f': reads: expected 2 sources, of 'z', 'x', found \['a'\]"
    ):
        app.function("f", np.add, two, {"y": "f32[1,4]"}, reads="a")
    with pytest.raises(penstock.InvalidArgument, match=r"node 'n': reads: expected \{port: source\}, found \['x'\]"):
        app.network("n", model, reads=["x"])  # type: ignore[arg-type]


def test_an_input_that_nothing_reads_is_refused() -> None:
    app = of_one(lambda x: x)
    app.input("mask", VALUE)
    with pytest.raises(penstock.InvalidArgument, match="input 'mask': nothing reads it; connect it to a node's input"):
        app.start()


def test_a_shape_that_does_not_fit_speaks_of_no_model() -> None:
    with of_one(lambda x: np.zeros(2, np.float32)).start() as pipeline:
        for x in (np.zeros(3, np.float32), value(1)):  # What goes in, and what a function gives.
            with pytest.raises(
                penstock.InvalidArgument, match=r"expected f32\[1\], found f32\[.\]; resize it"
            ) as raised:
                pipeline(x)
            assert "model" not in str(raised.value).partition("Traceback")[0]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda x: 1.5, r"output 'y': expected an array .* of f32\[1\], found float; numpy.asarray\(x, 'float32'\)"),
        (lambda x: np.ma.masked_array(x, [True]), "output 'y': expected an array without a mask, found a MaskedArray"),
        (lambda x: np.ma.masked_array([1, 2], [0, 1], np.float32)[::2], "expected an array without a mask"),
    ],
)
def test_what_a_function_gives_that_is_no_plain_array(call: Callable[..., Any], told: str) -> None:
    with of_one(call).start() as pipeline, pytest.raises(penstock.InvalidArgument, match=told):
        pipeline(value(1))


def test_an_application_from_yaml_and_its_package(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\ninputs: {x: any}\nnodes: {f: {function: twice, inputs: {x: x}}}\noutputs: {y: f.y}\n"
    )
    twice = penstock.Function("twice", lambda x: x * 2, {"x": VALUE}, {"y": VALUE})
    with penstock.App.read(tmp_path / "app.yaml", [twice]).start(output=tmp_path / "app.penstock") as pipeline:
        assert pipeline(value(4))[0][0] == 8
    with penstock.load(tmp_path / "app.penstock", functions=[twice]) as pipeline:
        assert pipeline(value(5))[0][0] == 10
    with pytest.raises(penstock.NotFound, match="no function 'twice'"):
        penstock.load(tmp_path / "app.penstock")
    with pytest.raises(penstock.InvalidArgument, match="function 'twice': is there twice; expected functions of diff"):
        penstock.load(tmp_path / "app.penstock", functions=[twice, twice])
    far = (tmp_path / "app.yaml").read_text().replace("function: twice", "function: twice, devices: cuda:0")
    (tmp_path / "far.yaml").write_text(far)
    with pytest.raises(penstock.PenstockError, match="far.yaml:3: stage 'f': device 'cuda:0': backend 'function'"):
        penstock.App.read(tmp_path / "far.yaml", [twice]).start()
    app = penstock.App.read(tmp_path / "app.yaml", [twice])
    for add in (
        lambda: app.input("z"),
        lambda: app.output("z", "f.y"),
        lambda: app.network("net", "none.onnx"),
        lambda: app.function("g", abs),
        lambda: app.connect("x", "f.x"),
        lambda: app.state("f.y", "f.x"),
    ):
        with pytest.raises(penstock.InvalidArgument, match=r"app\.yaml': is read as it is"):
            add()


@pytest.mark.parametrize(
    "body",
    [
        "p = of_one(lambda x: x + 1); [p.try_push(x) for _ in range(9)]",
        "p = of_one(lambda x: time.sleep(0.2) or x); [p.try_push(x) for _ in range(9)]",
        "p = of_one(lambda x: time.sleep(1e6), max_run_ms=50); p.push(x); time.sleep(0.3)",
        "p = of_one(lambda x: [0 for _ in iter(int, 1)], max_run_ms=50); p.push(x); time.sleep(0.3)",
        "s = of_one(abs).stream(x for _ in iter(int, 1)); threading.Thread(target=list, args=[s], daemon=True).start()",
        "import builtins; builtins.kept = of_one(lambda x: kept and x); kept.push(x)",
    ],
    ids=["idle", "slow", "hangs", "hangs in Python", "streams", "global"],
)
def test_the_process_ends_with_functions_running(run_script: Callable[..., str], body: str) -> None:
    run_script(START + body)


def test_a_pipeline_that_its_function_refers_to_is_collected(run_script: Callable[..., str]) -> None:
    text = """
def make():
    box = []
    def call(x):
        return x + len(box)
    box.append(of_one(call))
    for _ in range(3): box[0].push(x)
    return weakref.ref(box[0])
for _ in range(10):
    ref = make()
    gc.collect()
    assert ref() is None
deadline = time.monotonic() + 60
while len(os.listdir("/proc/self/task")) > 9 and time.monotonic() < deadline: time.sleep(0.01)
print("threads", len(os.listdir("/proc/self/task")))
"""
    assert int(run_script(START + text).split("threads ")[1]) < 10


def test_a_function_may_let_its_own_pipeline_go(run_script: Callable[..., str]) -> None:
    text = """
box = []
gone = threading.Event()
def call(x):
    box.clear()
    gone.set()
    return x
box.append(of_one(call))
box[0].push(x)
assert gone.wait(60)
print("let go")
"""
    assert "let go" in run_script(START + text)


def test_a_forked_child_does_not_wait_for_the_parents_run(run_script: Callable[..., str]) -> None:
    run_script(
        START
        + """
entered, leave = threading.Event(), threading.Event()
def wait(x):
    entered.set()
    leave.wait()
    return x + 1
pipeline = of_one(wait)
thread = threading.Thread(target=pipeline.run, args=(None, x))
thread.start()
entered.wait()
child = os.fork()
if child == 0:
    try:
        pipeline.run(None, x)
    except penstock.FailedPrecondition as error:
        os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
leave.set()
thread.join()
"""
    )


def test_a_forked_child_ends(run_script: Callable[..., str]) -> None:
    text = """
p = of_one(lambda x: x + 1)
assert p(x)[0][0] == 1
faulthandler.cancel_dump_traceback_later()
child = os.fork()
if child == 0:
    try:
        p(x)
    except penstock.FailedPrecondition:
        assert of_one(lambda x: x + 2)(x)[0][0] == 2
        sys.exit(7)
    os._exit(1)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), p(x)[0][0])
"""
    assert "child 7 1.0" in run_script(START + text)
