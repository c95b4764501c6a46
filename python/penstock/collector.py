"""The thread behind futures: takes frames out of a pipeline and gives each to its own."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.errors import Cancelled, DeadlineExceeded, FailedPrecondition, PenstockError
from penstock.threads import start_thread
from penstock.types import Submitted

if TYPE_CHECKING:
    from penstock.pipeline import Pipeline


_PATIENCE = 0.1  # Seconds between two looks at whether there is room.
_SOON = 0.01  # Seconds until a frame that has no future may have come.
_ALL: weakref.WeakSet[Collector] = weakref.WeakSet()


def stop_all() -> None:
    """For the end of the process, while the interpreter still stands. The pipelines are cancelled before."""
    for collector in list(_ALL):
        collector.stop()


def _settle(future: Submitted, frame: _core.Frame, error: Exception | None) -> None:
    try:
        if error is None:
            future.set_result(frame)
        else:
            future.set_exception(error)
    except MemoryError as failure:
        if not future.done():
            future.set_exception(failure.with_traceback(None))


def _wait_check(gives: Callable[[], bool]) -> Callable[[Submitted], None]:
    """Refuses to wait for a future where `gives` says that this thread would give it."""

    def check(future: Submitted) -> None:
        if gives():
            raise FailedPrecondition(
                f"frame {future.number} is not done, and a callback of its pipeline waits for it on the thread that "
                "would give it: it would wait for itself; wait on another thread, or use add_done_callback()"
            )

    return check


class Collector:
    """Knows the library's pipeline but not the Python object around it, which may be collected while
    nothing is in flight. A frame in flight keeps it."""

    def __init__(self, core: _core.Pipeline, entered: set[object]) -> None:
        """`entered`: submit() and try_submit() calls; who calls takes itself out, and then calls left()."""
        self._core = core
        # Taken in one step, as a Condition is not: an exception of a signal's handler does not leave it taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._entered = entered  # They push, or are about to.
        self.way = ""  # The last of them.
        self._pending: dict[int, tuple[Submitted, object, Pipeline]] = {}  # By the frame's number.
        self._unordered: set[Submitted] = set()  # Whose frames the library gives, and the thread does not take out.
        self._interrupted = False  # A submit(), perhaps between its push and the note of it.
        self._callback_waits = False  # For room.
        self._taken_out: deque[_core.Frame] = deque()  # While a callback waited for room.
        self._left: set[object] = set()  # Streams whose frames nobody wants.
        self._stopped = False
        self._thread = thread = start_thread("collector", self._collect)
        library = weakref.ref(core)  # Futures may be kept for long, and a pipeline not for them.
        self._check_wait = _wait_check(lambda: threading.current_thread() is thread)
        self._check_unordered_wait = _wait_check(lambda: (found := library()) is not None and found.calls_back_here)
        _ALL.add(self)

    @property
    def busy(self) -> bool:
        if self._interrupted:
            self.left()
        return bool(self._entered or self._pending or self._unordered) or self._interrupted

    def enter(self, call: object, way: str) -> None:
        """Before each submit() or try_submit(); `way` is what the user called."""
        with self._lock:
            self._entered.add(call)
            self.way = way

    def left(self) -> None:
        """After each."""
        with self._lock:
            self._look_for_orphans()
            self._changed.notify_all()

    def submit(self, keep: Pipeline, feed: Any, timeout: float | None, how: dict[str, Any]) -> Submitted:
        """`how`: the frame's tag, stream, deadline, priority and in_order, as the library's push() takes them."""
        patience = math.inf if timeout is None else timeout
        within = threading.current_thread() is self._thread
        push = self._push_within_callback if within else self._push_behind_callbacks
        if not how["in_order"]:
            return self._submit_unordered(lambda done: push(feed, patience, how | {"done": done}), keep)
        future = self._submit(lambda: push(feed, patience, how), None, keep)
        assert future is not None
        return future

    def try_submit(self, keep: Pipeline, key: object, feed: Any, tag: Any, number: int) -> Submitted | None:
        """None where there is no room. The result is the frame however it ended. `key`: of leave(); `number`: of
        the pipeline's stream."""
        return self._submit(
            lambda: None if self._callbacks_first else self._core.try_push(feed, tag, stream=number), key, keep
        )

    def leave(self, stream: object) -> None:
        """Nobody wants the frames of `stream` any more."""
        with self._lock:
            owners = {owner for _, owner, _ in self._pending.values()}
            self._left.add(stream)
            self._left &= owners
            if (
                owners and owners <= self._left and not self._entered and not self._unordered
            ):  # Else it would be others' frames too.
                self._core.give_up()

    def stop(self) -> None:
        """Ends the thread. The pipeline is cancelled before."""
        if sys.is_finalizing():
            return  # Python has ended the thread, and nobody may wait for it.
        with self._lock:
            self._stopped = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def _callbacks_first(self) -> bool:
        """Whether others may not push: they would take the room that a callback makes for itself, and it would
        take out more and more."""
        return self._callback_waits or bool(self._taken_out)

    def _push_within_callback(self, feed: Any, timeout: float, how: dict[str, Any]) -> int:
        """push() by a future's callback, on the thread that makes room by taking frames out."""
        until = time.monotonic() + timeout
        try:
            while (number := self._core.try_push(feed, **how)) is None:
                self._callback_waits = True
                left = until - time.monotonic()
                if left <= 0:
                    return self._push(feed, 0, timeout, how)
                self._take_out(min(left, _PATIENCE))
            return number
        finally:
            self._callback_waits = False  # left() wakes those who wait for it.

    def _take_out(self, timeout: float) -> None:
        with contextlib.suppress(DeadlineExceeded):
            frame = self._core.pop(timeout)
            if frame is not None:
                self._taken_out.append(frame)  # First: take() may be refused memory.
                frame.take()

    def _push_behind_callbacks(self, feed: Any, timeout: float, how: dict[str, Any]) -> int:
        """push() by any other thread."""
        if not self._callbacks_first:
            return self._core.push(feed, timeout, **how)
        until = time.monotonic() + timeout
        with self._lock:
            if not self._changed.wait_for(
                lambda: self._stopped or not self._callbacks_first, min(timeout, threading.TIMEOUT_MAX)
            ):
                raise DeadlineExceeded(f"push: no room within {1000 * timeout:g} ms: callbacks that submit come first")
        return self._push(feed, max(until - time.monotonic(), 0), timeout, how)

    def _push(self, feed: Any, left: float, timeout: float, how: dict[str, Any]) -> int:
        """push() at the end of a wait. The error tells of the whole."""
        return self._core.push(feed, left, told=timeout, **how)

    def _submit(self, push: Callable[[], int | None], stream: object, keep: Pipeline) -> Submitted | None:
        try:
            number = push()
            return None if number is None else self._expect(number, stream, keep)
        except PenstockError:
            raise
        except BaseException:  # Of a signal's handler.
            self._interrupted = True
            raise

    def _look_for_orphans(self) -> None:
        """Whether a frame may be in flight whose submit() was interrupted before its future was made."""
        if self._interrupted and not self._entered and not self._pending and not self._unordered:
            self._interrupted = self._core.in_flight > 0

    def _submit_unordered(self, push: Callable[[Callable[[_core.Frame], None]], int], keep: Pipeline) -> Submitted:
        future = Submitted()
        future._check_wait = self._check_unordered_wait

        def done(frame: _core.Frame, _keep: Pipeline = keep) -> None:
            future.number = frame.number  # Before those who wait look.
            with self._lock:
                self._unordered.discard(future)
            _settle(future, frame, frame.error)

        try:
            with self._lock:
                self._unordered.add(future)
            future.number = push(done)
        except BaseException:
            self._unordered.discard(future)
            raise
        return future

    def _expect(self, number: int, stream: object, keep: Pipeline) -> Submitted:
        future = Submitted()
        future.number = number
        future._check_wait = self._check_wait
        with self._lock:
            if not self._stopped:
                self._pending[number] = (future, stream, keep)
                self._changed.notify_all()
                return future
        future.set_exception(Cancelled("the pipeline is closed"))
        return future

    def _collect(self) -> None:
        while True:
            try:
                if not self._await_pending():
                    return
                self._settle_next()
            except MemoryError as failure:  # A thread that ended here would leave all futures waiting.
                self._settle_all(failure.with_traceback(None))

    def _await_pending(self) -> bool:
        """False: none will be."""
        with self._lock:
            while not self._pending and not self._taken_out and not self._stopped:
                if self._interrupted:
                    self._take_orphan()
                else:
                    self._changed.wait()
            return bool(self._pending or self._taken_out)

    def _take_orphan(self) -> None:
        with contextlib.suppress(PenstockError):  # It is closed.
            frame = self._core.try_pop()
            if frame is not None:
                self._taken_out.append(frame)
                return
        self._look_for_orphans()
        if self._interrupted:
            self._changed.wait(_SOON)

    def _await_future(self, frame: _core.Frame) -> None:
        """Its submit() may be between the push and the note of it. One that was interrupted there leaves none."""
        before = set(self._entered)  # Who enters later pushes a later frame.
        while frame.number not in self._pending and not before.isdisjoint(self._entered) and not self._stopped:
            if not self._changed.wait(_SOON):
                frame.take()  # They may wait for its room.

    def _settle_next(self) -> None:
        try:
            frame = self._taken_out.popleft() if self._taken_out else self._core.pop(None)
        except PenstockError as failure:
            self._settle_all(failure.with_traceback(None))  # That would hold this frame, its own holder.
            return
        if frame is None:
            self._settle_all(Cancelled("the pipeline is closed"))
            return
        with self._lock:
            self._changed.notify_all()  # This may have been the last that was taken out.
            self._await_future(frame)
            taken = self._pending.pop(frame.number, None)  # First: who waits for the future may call run() next.
            self._look_for_orphans()
        if taken is None:
            return  # Its submit() was interrupted.
        future, stream, _keep = taken
        _settle(future, frame, frame.error if stream is None else None)

    def _settle_all(self, error: PenstockError | MemoryError) -> None:
        with self._lock:
            settled = list(self._pending.values())
            self._pending.clear()
        for future, _stream, _keep in settled:
            future.set_exception(error)
