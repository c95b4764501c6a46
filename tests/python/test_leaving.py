"""Streams that are left: by their own source or `feed`, by break, an exception or a cancelled task."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line import frame

import penstock


@pytest.mark.parametrize("where", ["source", "feed"])
@pytest.mark.parametrize("threaded", [False, True])
def test_a_stream_may_be_closed_from_within(pipeline: penstock.Pipeline, where: str, threaded: bool) -> None:
    made, closed = threading.Event(), threading.Event()

    def close() -> None:
        assert made.wait(60)
        stream.close()
        closed.set()

    def source() -> Iterator[int]:
        yield 0
        if where == "source":
            close()
        yield 1

    def feed(i: int) -> np.ndarray:
        if where == "feed" and i == 1:
            close()
        return frame(i)

    stream = pipeline.stream(source(), feed, threaded=threaded)
    made.set()
    assert [result.number for result in stream] in ([], [0])
    assert closed.wait(60)
    assert pipeline.in_flight == 0
    assert len(pipeline(frame(3))) == len(pipeline.get_outputs())
    assert len(list(pipeline.stream([frame(4)]))) == 1


async def leave_by_break(pipeline: penstock.Pipeline) -> None:
    async for _ in pipeline.astream(frame(i) for i in range(1000)):
        break


async def leave_by_exception(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(ZeroDivisionError):
        async for result in pipeline.astream(frame(i) for i in range(1000)):
            result.number / 0


async def leave_by_cancel(pipeline: penstock.Pipeline) -> None:
    first = asyncio.Event()

    async def work() -> None:
        async for _ in pipeline.astream(frame(i) for i in range(10**9)):
            first.set()

    task = asyncio.ensure_future(work())
    await first.wait()
    task.cancel()
    await asyncio.wait([task])


async def leave_failed_items(pipeline: penstock.Pipeline) -> None:
    stream = pipeline.astream([frame(1), *[np.zeros(3, np.float32)] * 5])
    await anext(stream)


@pytest.mark.parametrize("leave", [leave_by_break, leave_by_exception, leave_by_cancel, leave_failed_items])
def test_asyncio_has_nothing_to_say_of_a_stream_that_is_left(
    model: Path, leave: Callable[[penstock.Pipeline], Awaitable[None]]
) -> None:
    said: list[Any] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        with penstock.split(model, cuts=["increment"]) as pipeline:
            await leave(pipeline)
        for _ in range(100):  # What the end of the pipeline calls.
            await asyncio.sleep(0)
        gc.collect()

    for _ in range(5):  # How many frames are in flight then, the machine says.
        asyncio.run(run())
    gc.collect()
    assert said == []


def test_an_asynchronous_stream_is_closed_by_its_block(pipeline: penstock.Pipeline) -> None:
    async def source() -> AsyncIterator[np.ndarray]:
        for i in range(1000):
            yield frame(i)

    async def run() -> list[int]:
        async with pipeline.astream(source()) as stream:
            found = [(await anext(stream)).number for _ in range(3)]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        while pipeline.in_flight:
            await asyncio.sleep(0)
        return found

    assert asyncio.run(run()) == [0, 1, 2]
    assert len(pipeline(frame(3))) == len(pipeline.get_outputs())
