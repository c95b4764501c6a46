"""The thread behind futures: takes frames out of a pipeline and gives each to its own."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
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
        self._pushes = threading.Lock()  # Futures stand in the order of their frames.
        self._changed = threading.Condition()
        self._pending: deque[tuple[Future[_core.Frame], bool, Pipeline]] = deque()
        self._stopped = False
        self._thread = threading.Thread(target=self._collect, name="penstock-collector", daemon=True)
        self._thread.start()
        _ALL.add(self)

    @property
    def busy(self) -> bool:
        return bool(self._pending)

    def submit(self, keep: Pipeline, feed: Any, timeout: float | None, tag: Any) -> Future[_core.Frame]:
        with self._pushes:
            self._core.push(feed, timeout, tag)
            return self._expect(keep, whole=False)

    def try_submit(self, keep: Pipeline, feed: Any, tag: Any) -> Future[_core.Frame] | None:
        """None where there is no room. The result is the frame however it ended."""
        with self._pushes:
            pushed = self._core.try_push(feed, tag)
            return None if pushed is None else self._expect(keep, whole=True)

    def stop(self) -> None:
        """Ends the thread. The pipeline is cancelled before."""
        if sys.is_finalizing():
            return  # Python has ended the thread, and nobody may wait for it.
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _expect(self, keep: Pipeline, *, whole: bool) -> Future[_core.Frame]:
        future: Future[_core.Frame] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            self._pending.append((future, whole, keep))
            self._changed.notify()
        return future

    def _collect(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._stopped:
                    self._changed.wait()
                if not self._pending:
                    return
            self._settle_next()

    def _settle_next(self) -> None:
        error: PenstockError | None = None
        frame: _core.Frame | None = None
        try:
            frame = self._core.pop(None)
            error = Cancelled("the pipeline is closed") if frame is None else frame.error
        except PenstockError as failure:
            error = failure.with_traceback(None)  # That would hold this frame, its own holder.
        future, whole, _keep = self._pending[0]
        self._pending.popleft()  # First: who waits for the future may call run() next.
        if frame is not None and (whole or error is None):
            future.set_result(frame)
        else:
            future.set_exception(error)
