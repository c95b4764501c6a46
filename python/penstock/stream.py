"""Streams: iterators over a pipeline's results that keep it full from a source."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock import _core
from penstock.checks import called
from penstock.errors import Cancelled, DeadlineExceeded, InvalidArgument, ResourceExhausted
from penstock.threads import start_thread
from penstock.types import plain

if TYPE_CHECKING:
    from penstock.pipeline import Pipeline

Item = TypeVar("Item")

_PATIENCE = 0.1  # Seconds between two looks at whether a thread is still wanted.
_MOST_ERRORS = 16  # Of a source, that wait to be looked at.
_STOPS = (StopIteration, StopAsyncIteration)  # Out of `feed` they would end the loop over the results in silence.


def is_live(source: object) -> bool:
    """Whether its next item takes its time, by what it says of itself."""
    return bool(getattr(source, "live", False))


def _goes_on(source: object) -> bool:
    """Whether it has more behind an error, by what it says of itself: of a generator an error is the end."""
    return bool(getattr(source, "goes_on", False))


class _Delivery:
    """What becomes of a frame that came out: given, raised or skipped."""

    def __init__(self, errors: str, dropped: str) -> None:
        if errors not in ("raise", "yield"):
            raise InvalidArgument(f"errors: expected 'raise' or 'yield', found {errors!r}")
        if dropped not in ("skip", "yield"):
            raise InvalidArgument(f"dropped: expected 'skip' or 'yield', found {dropped!r}")
        self._raises = errors == "raise"
        self._skips = dropped == "skip"

    def wanted(self, frame: _core.Frame) -> bool:
        if frame.ok:
            return True
        if frame.outcome == "dropped":
            return not self._skips
        if self._raises or frame.outcome == "cancelled":
            assert frame.error is not None
            raise frame.error
        return True


class Stream(Generic[Item]):
    """The results of ``Pipeline.stream``, in order. An iterator and a context manager. Ctrl-C closes it; what the
    handler of another signal raises does not, and the next ``next()`` goes on.

    Several threads may iterate over it: they take turns, and each result goes to one of them.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Iterable[Item],
        feed: Callable[[Item], Any] | None,
        errors: str,
        dropped: str,
        threaded: bool | None,
        number: int,
    ) -> None:
        """`number`: of the pipeline's stream that the frames are of."""
        self._delivery = _Delivery(errors, dropped)
        called("feed", feed, "what makes a frame of an item, such as np.load")
        self._core = pipeline._core
        self._pipeline: Pipeline | None = None
        self._process = os.getpid()
        self._steps = threading.RLock()  # Held in next() and close(); Ctrl-C closes within next().
        live = is_live(source) if threaded is None else threaded
        items = iter(source)
        pipeline._turns.begin_stream(self)
        feeder = _ThreadFeeder if live else _Feeder
        self._feeder: _Feeder = feeder(self._core, items, feed, number)
        self._pipeline = pipeline

    def __iter__(self) -> Stream[Item]:
        return self

    def __next__(self) -> _core.Frame:
        self._core.check_process()  # Before the lock, which a thread of the parent may have.
        with self._steps:
            try:
                return self._next()
            except KeyboardInterrupt:
                self.close()  # Between two steps: what was asked for and what came may not agree any more.
                raise

    def _next(self) -> _core.Frame:
        while True:
            if self._pipeline is None:
                raise StopIteration
            error = self._feeder.next_error()
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # It would hold this frame, its own holder, and with it the pipeline.
            frame = self._feeder.next_frame()
            if frame is None:
                if self._feeder.at_end:
                    self.close()
                    raise StopIteration
                continue
            if self._delivery.wanted(frame):
                return frame

    def close(self) -> None:
        """Ends the stream. Frames of it that are in flight are not computed any further, and thrown away. Another
        thread that is in its source or in ``feed`` is waited for."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None or sys.is_finalizing() or os.getpid() != self._process:
            return  # Other threads are no more, and perhaps had a lock.
        with self._steps:
            self._feeder.stop()
            self._core.give_up_in_flight()
            pipeline._turns.end_stream()

    def __enter__(self) -> Stream[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_pipeline"):
            self.close()


class _Feeder:
    """Pushes items between two results, in the thread that asks for these."""

    _kept: type[BaseException] = Exception  # What a source raises in a frame's place.

    def __init__(
        self, core: _core.Pipeline, source: Iterator[Any], feed: Callable[[Any], Any] | None, number: int
    ) -> None:
        self._core = core
        self._number = number  # Of the pipeline's stream.
        self._source = source
        self._feed = feed
        self._stopped = False  # Perhaps by the source or by `feed`, in the middle of a step.
        self._exhausted = False
        self._waiting: tuple[Any, Any] | None = None  # Frame and tag for which there was no room.
        # In the order of the source: a frame that was pushed (None), or what failed in its place.
        self._order: deque[BaseException | None] = deque()

    @property
    def at_end(self) -> bool:
        return self._exhausted and not self._order and self._waiting is None

    def next_error(self) -> BaseException | None:
        """What stands next where no frame does."""
        if self._order and self._order[0] is not None:
            return self._order.popleft()
        return None

    def _fail(self, error: BaseException) -> None:
        """Puts what failed in a frame's place."""
        self._order.append(error)

    def next_frame(self) -> _core.Frame | None:
        """The next frame; None where something else is to be looked at first."""
        pushed = self._push_one()
        if self._stopped:
            return None  # What comes out now is of whoever is next.
        if pushed:
            frame = self._core.try_pop() if self._order and self._order[0] is None else None
        else:
            frame = self._pop() if self._order else None
        if frame is not None:
            self._order.popleft()
        return frame

    def _pop(self) -> _core.Frame | None:
        """None: there is none yet, and another thread may have closed the stream."""
        try:
            frame = self._core.pop(_PATIENCE)
        except BaseException as error:
            if self._order and self._order[0] is None and not self._core.in_flight:
                self._order.popleft()  # A handler of a signal raised as the frame was on its way here.
            if isinstance(error, DeadlineExceeded):
                return None
            raise
        if frame is None:
            raise Cancelled("the pipeline is closed")
        return frame

    def stop(self) -> None:
        self._stopped = self._exhausted = True
        self._waiting = None
        self._source = iter(())  # Ends what iter() made of the source; an iterator of the user's goes on.

    def _push_one(self) -> bool:
        """False: nothing more to push, or no room."""
        if self._waiting is None and not self._take():
            return False
        if self._waiting is None:
            return True  # An error took its place.
        try:
            pushed = self._core.try_push(*self._waiting, stream=self._number)
        except Exception as error:
            if _is_full(error):
                return False
            self._fail(error)
            self._waiting = None
            if isinstance(error, Cancelled):
                self._exhausted = True
            return True
        if pushed is None:
            return False
        self._waiting = None
        self._order.append(None)
        return True

    def _take(self) -> bool:
        """Takes the next item of the source. False: there is none."""
        if self._exhausted:
            return False
        try:
            item = next(self._source)
        except StopIteration:
            self._exhausted = True
            self._core.hurry_in_flight()  # No batch has more to wait for.
            return False
        except self._kept as error:  # Comes out behind the frames before it.
            self._fail(error)
            if not (_goes_on(self._source) and isinstance(error, Exception)):
                self._exhausted = True
                self._core.hurry_in_flight()
            return True
        try:
            taken = (plain(item), None) if self._feed is None else (plain(self._feed(item)), item)
        except _STOPS as error:
            self._fail(_raised_by_feed(error))
        except self._kept as error:
            self._fail(error)
        else:
            if self._stopped:  # By the source or by `feed`.
                return False
            self._waiting = taken
        return True


def _is_full(error: Exception) -> bool:
    """Of the policy `error`, which here means to wait: its error alone names an input. Not of one stream too many, nor
    of a thread or memory that is refused."""
    return isinstance(error, ResourceExhausted) and any(place["kind"] == "input" for place in error.places)


def _raised_by_feed(error: BaseException) -> RuntimeError:
    """As of a generator (PEP 479)."""
    raised = RuntimeError(f"feed raised {type(error).__name__}")
    raised.__cause__ = error
    return raised


class _ThreadFeeder(_Feeder):
    """Pushes items in a thread of its own, as they come."""

    _kept = BaseException  # Also what would end a program, but in a thread of its own ends nothing.

    def __init__(
        self, core: _core.Pipeline, source: Iterator[Any], feed: Callable[[Any], Any] | None, number: int
    ) -> None:
        super().__init__(core, source, feed, number)
        self._ended = False
        self._held: _core.Frame | None = None  # It came out while an error took its place before it.
        self._errors = threading.Semaphore(_MOST_ERRORS)  # That may be taken before those are looked at.
        self._pushes = threading.RLock()  # Held while pushing, so that nothing is pushed after stop().
        self._thread = start_thread("feeder", self._run)

    @property
    def at_end(self) -> bool:
        return self._ended and not self._order

    def next_error(self) -> BaseException | None:
        error = super().next_error()
        if error is not None:
            self._errors.release()
        return error

    def _fail(self, error: BaseException) -> None:
        while not self._errors.acquire(timeout=_PATIENCE) and not self._stopped:
            pass  # A source whose device is gone fails as fast as it is asked.
        super()._fail(error)

    def next_frame(self) -> _core.Frame | None:
        if self._held is None:
            if self._order and self._order[0] is not None:
                return None
            if not self._order and self._ended:
                return None
            self._held = self._pop()
            if self._held is None:
                return None
            while not self._order:  # The thread is between its push and its note of it.
                threading.Event().wait(0.0001)
        if self._order[0] is not None:
            return None
        self._order.popleft()
        frame, self._held = self._held, None
        return frame

    def stop(self) -> None:
        self._stopped = True
        with self._pushes:
            pass  # Not joined: the source may wait for its next item, for as long as that takes.

    def _run(self) -> None:
        try:
            while not self._stopped and self._take():
                if self._waiting is not None:
                    self._push_waiting()
        finally:
            self._source = iter(())
            self._ended = True

    def _push_waiting(self) -> None:
        assert self._waiting is not None
        feed, tag = self._waiting
        self._waiting = None
        while not self._stopped:
            try:
                with self._pushes:
                    if self._stopped:
                        return
                    self._core.push(feed, _PATIENCE, tag, stream=self._number)
                    self._order.append(None)
                return
            except DeadlineExceeded:
                continue
            except Exception as error:
                if _is_full(error):
                    continue
                self._fail(error)
                self._stopped = isinstance(error, Cancelled)
                return


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Looks at what a future raises, which asyncio else logs where nobody asks for the result any more."""
    if not future.cancelled():
        future.exception()


class AsyncStream(Generic[Item]):
    """The results of ``Pipeline.astream``, in order. An asynchronous iterator, and a context manager for
    ``async with``. Several tasks may iterate over it, and take turns."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Iterable[Item] | AsyncIterable[Item],
        feed: Callable[[Item], Any] | None,
        errors: str,
        dropped: str,
        number: int,
    ) -> None:
        """`number`: of the pipeline's stream that the frames are of."""
        self._delivery = _Delivery(errors, dropped)
        called("feed", feed, "what makes a frame of an item, such as np.load")
        self._pipeline = pipeline
        self._number = number
        if isinstance(source, AsyncIterable):
            self._source: AsyncIterator[Item | _Failed] = aiter(source)
        else:
            self._source = (_from_thread if is_live(source) else _asynchronous)(source)
        self._feed = feed
        self._exhausted = False
        self._closed = False
        self._next: asyncio.Future[Item | _Failed] | None = None  # The source's next item, being awaited.
        self._waiting: tuple[Any, Any] | None = None  # For which there was no room.
        self._order: deque[asyncio.Future[_core.Frame]] = deque()
        self._steps = asyncio.Lock()
        self._key = object()  # Of its frames; they must not hold the stream itself.

    def __aiter__(self) -> AsyncStream[Item]:
        return self

    async def __aenter__(self) -> AsyncStream[Item]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> _core.Frame:
        async with self._steps:
            return await self._following()

    async def _following(self) -> _core.Frame:
        while True:
            await self._fill()
            if not self._order:
                if self._exhausted and self._waiting is None:
                    raise StopAsyncIteration
                await asyncio.sleep(0.001)  # Results that others hold take all the room.
                continue
            first = self._order[0]
            await asyncio.wait([first])  # Whoever is cancelled here finds the frame next time.
            if self._closed:
                raise StopAsyncIteration
            self._order.popleft()
            frame = first.result()
            if self._delivery.wanted(frame):
                return frame

    async def aclose(self) -> None:
        """Ends the stream. Frames of it that are in flight are not computed any further, unless others' are in
        flight too. A task that waits for a result of it waits no longer."""
        self._exhausted = self._closed = True
        self._waiting = None
        if self._next is not None:
            self._next.cancel()
        for due in self._order:
            if not due.get_loop().is_closed():
                due.cancel()  # Wakes who waits for it.
        self._order.clear()
        self._pipeline._turns.leave(self._key)

    def __del__(self) -> None:
        if hasattr(self, "_key"):
            self._pipeline._turns.leave(self._key)

    async def _fill(self) -> None:
        """Pushes until there is no more room or a result is ready."""
        while not (self._order and self._order[0].done()):
            if self._waiting is None and not await self._take():
                return
            if self._waiting is not None and not self._push_waiting():
                return

    def _push_waiting(self) -> bool:
        assert self._waiting is not None
        try:
            pipeline, key, waiting, number = self._pipeline, self._key, self._waiting, self._number
            future = pipeline._turns.collect(
                "astream", lambda collector: collector.try_submit(pipeline, key, *waiting, number)
            )
        except Exception as error:
            if _is_full(error):
                return False
            self._fail(error)
            self._waiting = None
            self._exhausted = self._exhausted or isinstance(error, Cancelled)
            return True
        if future is None:
            return False
        self._waiting = None
        due = asyncio.wrap_future(future)
        due.add_done_callback(_retrieve)
        self._order.append(due)
        return True

    async def _take(self) -> bool:
        """Waits for the next item or the next result. False: no item."""
        if self._exhausted:
            return False
        if self._next is None:
            self._next = asyncio.ensure_future(_next_of(self._source))
            self._next.add_done_callback(_retrieve)
        waited: list[asyncio.Future[Any]] = [self._next, *([self._order[0]] if self._order else [])]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self._exhausted or not self._next.done():
            return False  # Closed meanwhile, or the result came first.
        taken, self._next = self._next, None
        try:
            item = taken.result()
            if isinstance(item, _Failed):
                self._fail(item.error)
                return True
        except StopAsyncIteration:
            self._exhausted = True
            self._pipeline._core.hurry_in_flight()
            return False
        except Exception as error:
            self._exhausted = True
            self._pipeline._core.hurry_in_flight()
            self._fail(error)
            return True
        try:
            self._waiting = (plain(item), None) if self._feed is None else (plain(self._feed(item)), item)
        except _STOPS as error:
            self._fail(_raised_by_feed(error))
        except Exception as error:
            self._fail(error)
        return True

    def _fail(self, error: BaseException) -> None:
        """An error in a frame's place."""
        future: asyncio.Future[_core.Frame] = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        _retrieve(future)
        self._order.append(future)


class _Failed:
    """In an item's place, where the source goes on behind it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _items_of(source: Iterable[Item]) -> Iterator[Item | _Failed]:
    items = iter(source)
    while True:
        try:
            item: Item | _Failed = next(items)
        except StopIteration:
            return
        except Exception as error:
            if not _goes_on(items):
                raise
            item = _Failed(error)
        yield item


async def _asynchronous(source: Iterable[Item]) -> AsyncIterator[Item | _Failed]:
    for item in _items_of(source):
        yield item


async def _from_thread(source: Iterable[Item]) -> AsyncIterator[Item | _Failed]:
    """Items of a source whose next one takes its time, so that the event loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    taken: asyncio.Queue[tuple[list[Item | _Failed], BaseException | None]] = asyncio.Queue()
    wanted = threading.Semaphore(0)
    stopped = False

    def give(items: list[Item | _Failed], error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(taken.put_nowait, (items, error))

    def take() -> None:
        try:
            wanted.acquire()
            for item in _items_of(source):
                if stopped:
                    return
                give([item], None)
                wanted.acquire()
            give([], None)
        except BaseException as error:
            give([], error)

    start_thread("source", take)
    try:
        while True:
            wanted.release()
            items, error = await taken.get()
            if error is not None:
                raise error
            if not items:
                return
            yield items[0]
    finally:
        stopped = True
        wanted.release()


async def _next_of(source: AsyncIterator[Item | _Failed]) -> Item | _Failed:
    return await anext(source)
