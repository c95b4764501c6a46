"""Who takes the frames of a pipeline: one way at a time, so that none takes another's."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from penstock import _core
from penstock.collector import Collector
from penstock.errors import Cancelled, FailedPrecondition

Result = TypeVar("Result")


class Turns:
    """Any thread may ask; what is refused is refused before anything is pushed or popped."""

    def __init__(self, core: _core.Pipeline) -> None:
        self._core = core
        self._lock = threading.RLock()  # The garbage collector may come, and close a stream, in between.
        self._calls: set[int] = set()  # Threads in push(), pop() or run().
        self._alone: int | None = None  # The one in run().
        self._stream: weakref.ref[Any] | None = None
        self._collector: Collector | None = None
        self._entered: set[object] = set()  # Calls of the collector.
        self._process = os.getpid()

    def call(self, what: str, *, alone: bool = False) -> _Call:
        """`with` it around a push() or pop(); `alone`, as for run(), where no other frame is on its way."""
        return _Call(self, what, alone)

    def begin_call(self, what: str, alone: bool) -> None:
        self.check(what)
        with self._lock:
            self._refuse_taken(what)
            if alone:
                self._refuse_waiting(what)
                self._alone = threading.get_ident()
            self._calls.add(threading.get_ident())

    def end_call(self) -> None:
        if self._alone == threading.get_ident():
            self._alone = None
        self._calls.discard(threading.get_ident())

    def begin_stream(self, stream: object) -> None:
        """Until end_stream(), or the garbage collector's end of `stream`."""
        self.check("stream")
        with self._lock:
            self._refuse_taken("stream")
            self._refuse_waiting("stream")
            self._stream = weakref.ref(stream)

    def end_stream(self) -> None:
        self._stream = None

    def collect(self, what: str, call: Callable[[Collector], Result]) -> Result:
        """What `call` gives, which is one submit() or try_submit() of the collector."""
        self.check(what)
        this = object()
        try:
            return call(self._enter_collector(what, this))
        finally:
            self._entered.discard(this)  # In one step, so that no exception of a signal's handler comes before it.
            if (collector := self._collector) is not None:
                collector.left()

    def _enter_collector(self, what: str, call: object) -> Collector:
        with self._lock:
            if self._collector is None or not self._collector.busy:
                self._refuse_taken(what)
                self._refuse_waiting(what)
            if self._collector is None:
                self._collector = Collector(self._core, self._entered)
            self._collector.enter(call, what)
            return self._collector

    def leave(self, stream: object) -> None:
        """Nobody wants the frames that the collector was given with `stream`."""
        if self._collector is not None and os.getpid() == self._process and not sys.is_finalizing():
            self._collector.leave(stream)

    def end(self) -> None:
        """Stops the collector. The pipeline is cancelled before."""
        collector, self._collector = self._collector, None
        if collector is not None and os.getpid() == self._process:
            collector.stop()

    @contextlib.contextmanager
    def between_frames(self, what: str) -> Iterator[None]:
        """`with` it around what is refused while frames are in flight: says who takes them, if not any pop(). An error
        of a stream that names none is of something else, as of a replace()."""
        try:
            yield
        except FailedPrecondition as error:
            of_frames = what == "reset_states" or any(place["kind"] == "stream" for place in error.places)
            if of_frames and self._core.in_flight:
                try:
                    with self._lock:
                        self._refuse_taken(what)
                except FailedPrecondition as told:
                    raise told from None
            raise

    def check(self, what: str) -> None:
        """Refuses where the pipeline is closed, or another process's. Takes no lock: a forked child may not."""
        self._core.check_process()
        if self._core.ended:
            raise Cancelled(f"{what}: the pipeline is closed")

    def _refuse_taken(self, what: str) -> None:
        if self._alone not in (None, threading.get_ident()):
            raise FailedPrecondition(f"{what}: another thread is in run(); wait for it")
        if self._stream is not None and self._stream() is not None:
            raise FailedPrecondition(f"{what}: a stream takes the frames of this pipeline; finish or close() it first")
        if self._collector is not None and self._collector.busy:
            way = self._collector.way
            wait = "their futures" if way == "submit" else "its results, or, where it was left, until in_flight is 0"
            raise FailedPrecondition(f"{what}: frames of {way}() are in flight; wait for {wait}")

    def _refuse_waiting(self, what: str) -> None:
        if self._calls - {threading.get_ident()}:  # Ctrl-C may have left its own.
            raise FailedPrecondition(f"{what}: another thread is in push(), pop() or run(); wait for it")
        if waiting := self._core.in_flight:
            raise FailedPrecondition(
                f"{what}: expected no pushed frames in flight, found {waiting}; "
                "pop them, or wait for their callbacks, first"
            )


class _Call:
    """No generator: Ctrl-C may come at any step of one, and would leave the call open."""

    def __init__(self, turns: Turns, what: str, alone: bool) -> None:
        self._turns = turns
        self._asked = (what, alone)

    def __enter__(self) -> None:
        self._turns.begin_call(*self._asked)

    def __exit__(self, *_error: object) -> None:
        self._turns.end_call()
