"""The thread behind futures: takes frames out of a pipeline and gives each to its own."""

from __future__ import annotations

import sys
import threading
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.errors import Cancelled, PenstockError

if TYPE_CHECKING:
    from penstock.pipeline import Pipeline


_ALL: weakref.WeakSet[Collector] = weakref.WeakSet()


def stop_all() -> None:
    """For the end of the process, while the interpreter still stands. The pipelines are cancelled before."""
    for collector in list(_ALL):
        collector.stop()


class Collector:
    """Knows the library's pipeline but not the Python object around it, which may be collected while
    nothing is in flight. A frame in flight keeps it."""

    def __init__(self, core: _core.Pipeline) -> None:
        self._core = core
        self._changed = threading.Condition()
        self._users = 0  # Entered: about to push, or waiting for their frame.
        self._pending: dict[int, tuple[Future[_core.Frame], bool, Pipeline]] = {}  # By the frame's number.
        self._stopped = False
        self._thread = threading.Thread(target=self._collect, name="penstock-collector", daemon=True)
        self._thread.start()
        _ALL.add(self)

    @property
    def busy(self) -> bool:
        return self._users > 0

    def enter(self) -> None:
        """Before each submit() or try_submit(), which leaves in its turn, or when its frame has come out."""
        with self._changed:
            self._users += 1

    def submit(self, keep: Pipeline, feed: Any, timeout: float | None, tag: Any) -> Future[_core.Frame]:
        future: Future[_core.Frame] = Future()
        try:
            self._expect(self._core.push(feed, timeout, tag), future, False, keep)
        except BaseException:
            self._leave()
            raise
        return future

    def try_submit(self, keep: Pipeline, feed: Any, tag: Any) -> Future[_core.Frame] | None:
        """None where there is no room. The result is the frame however it ended."""
        future: Future[_core.Frame] = Future()
        number = None
        try:
            number = self._core.try_push(feed, tag)
            if number is not None:
                self._expect(number, future, True, keep)
        finally:
            if number is None:
                self._leave()
        return None if number is None else future

    def stop(self) -> None:
        """Ends the thread. The pipeline is cancelled before."""
        if sys.is_finalizing():
            return  # Python has ended the thread, and nobody may wait for it.
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify()

    def _expect(self, number: int, future: Future[_core.Frame], whole: bool, keep: Pipeline) -> None:
        future.set_running_or_notify_cancel()
        with self._changed:
            stopped = self._stopped
            if stopped:
                self._users -= 1
            else:
                self._pending[number] = (future, whole, keep)
                self._changed.notify()
        if stopped:
            future.set_exception(Cancelled("the pipeline is closed"))

    def _collect(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._stopped:
                    self._changed.wait()
                if not self._pending:
                    return
            self._settle_next()

    def _settle_next(self) -> None:
        try:
            frame = self._core.pop(None)
        except PenstockError as failure:
            self._settle_all(failure.with_traceback(None))  # That would hold this frame, its own holder.
            return
        if frame is None:
            self._settle_all(Cancelled("the pipeline is closed"))
            return
        with self._changed:
            # Its submit() may be between the push and the note of it.
            while frame.number not in self._pending and self._users > len(self._pending) and not self._stopped:
                self._changed.wait()
            taken = self._pending.pop(frame.number, None)
            self._users -= taken is not None  # First: who waits for the future may call run() next.
        if taken is None:
            return  # Ctrl-C came between the two.
        future, whole, _keep = taken
        if whole or frame.error is None:
            future.set_result(frame)
        else:
            future.set_exception(frame.error)

    def _settle_all(self, error: PenstockError) -> None:
        with self._changed:
            settled = list(self._pending.values())
            self._pending.clear()
            self._users -= len(settled)
        for future, _whole, _keep in settled:
            future.set_exception(error)
