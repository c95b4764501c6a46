"""Pipeline: a running network."""

from __future__ import annotations

import html
import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypeVar

from penstock import _core
from penstock.checks import called, counted, flag, listed, mapping, name_text, path_text, seconds, unexpected, whole
from penstock.errors import InvalidArgument, PenstockWarning
from penstock.judge import verify
from penstock.show import Plan, table
from penstock.stream import AsyncStream, Stream
from penstock.turns import Turns
from penstock.types import Array, Feed, Path, Stats, Submitted, plain
from penstock.watching import Watching, watch

if TYPE_CHECKING:
    from penstock.app import Function

Item = TypeVar("Item")

_ORT_NAMES = {"float32": "float", "float64": "double", "object": "string"}


@dataclass(frozen=True)
class TensorInfo:
    """An input or output, with the names that ``onnxruntime.NodeArg`` has."""

    name: str
    type: str
    """As ONNX Runtime has it: ``"tensor(float)"``."""
    shape: list[int | str | None] | None
    """An open dimension is its name or None; None as a whole where the rank is not known."""
    dtype: str
    """numpy's name of it: ``"float32"``."""

    @staticmethod
    def _of(name: str, text: str, dtype: str, shape: list[int | str | None] | None) -> TensorInfo:
        kind = f"tensor({_ORT_NAMES.get(dtype, dtype)})" if dtype else text
        return TensorInfo(name, kind, shape, dtype)


def _how(
    tag: Any, stream: int, deadline: float | None, priority: str, done: Any = None, in_order: bool = True
) -> dict[str, Any]:
    """What a frame is pushed with, as the library takes it."""
    if not isinstance(priority, str) or priority not in ("normal", "high"):
        raise unexpected("priority", "'normal' or 'high'", priority)
    called("done", done, "what is called with the frame, such as queue.put")
    left = seconds("deadline", deadline)
    if left is not None and left < 0:
        raise unexpected("deadline", "0 or more seconds from now, or None", deadline)
    return {
        "tag": tag,
        "stream": counted("stream", stream, 7),
        "deadline": None if left is None else time.monotonic() + left,
        "high": priority == "high",
        "done": done,
        "in_order": flag("in_order", in_order),
    }


class Pipeline:
    """A network whose stages run at the same time, each on its own CPUs.

    Frames go in by :meth:`run`, :meth:`stream`, :meth:`submit` or :meth:`push` and come out in the
    order in which they went in, each with its outputs or with its own error. One way at a time: what
    would take another's frames is refused.

    An input is read in place, without a copy, until its frame has come out: do not write into an array
    in flight (push ``array.copy()`` where it is used again). Use ``with``, or :meth:`shut_down`, to end
    the threads; the garbage collector and the end of the process do it too.
    """

    def __init__(self, core: _core.Pipeline, functions: Sequence[Function] = ()) -> None:
        """Made by :func:`penstock.split`, :func:`penstock.plan` and :func:`penstock.load`."""
        self._core = core
        self._functions = functions  # That its stages name.
        self._inputs = [TensorInfo._of(*info) for info in core.inputs()]
        self._outputs = [TensorInfo._of(*info) for info in core.outputs()]
        self._output_names = [info.name for info in self._outputs]
        self._runs = threading.Lock()
        self._turns = Turns(core)

    # What it is

    def get_inputs(self) -> list[TensorInfo]:
        """The inputs in the model's order, as ``onnxruntime.InferenceSession`` gives them."""
        return list(self._inputs)

    def get_outputs(self) -> list[TensorInfo]:
        """The outputs in the model's order."""
        return list(self._outputs)

    @property
    def plan(self) -> Plan:
        """The plan that runs, as its file ``plan.json`` has it: stages, edges, devices, prediction. Notebooks show
        a table of it."""
        return Plan(json.loads(self._core.plan_json()))

    @property
    def alive(self) -> bool:
        """Whether it takes frames. Not after :meth:`close`, :meth:`cancel` or :meth:`shut_down`, after a call
        that hung (``max_run_ms``), after the first error with ``on_error="stop"``, nor in a forked child."""
        return self._core.alive

    @property
    def in_flight(self) -> int:
        """Frames pushed that have not come out."""
        return self._core.in_flight

    @property
    def in_flight_limit(self) -> int:
        """Most frames on their way at once, those held as results with them."""
        return self._core.in_flight_limit

    @property
    def memory_bytes(self) -> int | None:
        """Most that the slots of all edges take; None where a shape has no bound."""
        return self._core.memory_bytes

    # One frame

    def run(self, output_names: Sequence[str] | None, input_feed: Feed) -> list[Array]:
        """One frame through the pipeline, as ``onnxruntime.InferenceSession.run``.

        output_names: what to give, in this order; None for all in the model's.
        Several threads may call it at once: they take turns. Raises the frame's error.
        """
        return self._run(output_names, input_feed, 0)

    def _run(self, output_names: Sequence[str] | None, input_feed: Feed, stream: int) -> list[Array]:
        indices = None if output_names is None else self._indices_of(output_names)
        self._turns.check("run")
        with self._runs, self._turns.call("run", alone=True):
            values = self._core.run(plain(input_feed), stream)
        return values if indices is None else [values[i] for i in indices]

    def __call__(self, *inputs: Any, **named: Any) -> list[Array]:
        """``pipeline(x)``, ``pipeline(x=x, y=y)`` or ``pipeline({"x": x, "y": y})``: all outputs of one frame."""
        return self.run(None, _inputs_of(inputs, named))

    # Many frames

    def stream(
        self,
        source: Iterable[Item],
        feed: Callable[[Item], Feed] | None = None,
        *,
        errors: Literal["raise", "yield"] = "raise",
        dropped: Literal["skip", "yield"] = "skip",
        threaded: bool | None = None,
    ) -> Stream[Item]:
        """Keeps the pipeline full from ``source`` and iterates over the results in order.

        source: frames (see :data:`penstock.types.Feed`), or anything that ``feed`` makes one of; the
            item is then the result's ``tag``.
        errors: what fails is raised at its turn, and the next ``next()`` goes on behind it; with
            ``"yield"`` the frame is given with its ``error``. What never became a frame (an item that is
            refused, or whose ``feed`` fails, or a file that cannot be read) is raised in any case, and the next
            ``next()`` goes on where the source does (those of :mod:`penstock.io`, and others with ``goes_on = True``).
        dropped: frames that a policy dropped are skipped, or given.
        threaded: take items in a thread, so that a result does not wait for the next item. Default:
            what the source says of itself (``live``), else not.
        """
        return Stream(self, source, feed, errors, dropped, threaded, 0)

    def astream(
        self,
        source: Iterable[Item] | AsyncIterable[Item],
        feed: Callable[[Item], Feed] | None = None,
        *,
        errors: Literal["raise", "yield"] = "raise",
        dropped: Literal["skip", "yield"] = "skip",
    ) -> AsyncStream[Item]:
        """The same for ``async for``; the source may be asynchronous too."""
        return AsyncStream(self, source, feed, errors, dropped, 0)

    def submit(
        self,
        feed: Feed,
        timeout: float | None = 60.0,
        tag: Any = None,
        *,
        stream: int = 0,
        deadline: float | None = None,
        priority: Literal["normal", "high"] = "normal",
        in_order: bool = True,
    ) -> Submitted:
        """Pushes a frame; the future's result is the :class:`Frame`, its exception the frame's error.

        Waits for room as :meth:`push` does. The frame is on its way at once: the future cannot be cancelled, but
        ``cancel_frame(future.number)`` cancels the frame. Futures are done in the order of their frames' numbers.

        in_order: False: this one as soon as the frame is done, behind those of its stream alone. Its callbacks
            are then called as ``done`` of :meth:`push` is.

        A callback (``add_done_callback``) may submit more, and must not wait for another frame: see
        :class:`penstock.types.Submitted`.
        """
        given, patience = plain(feed), seconds("timeout", timeout)
        how = _how(tag, stream, deadline, priority, None, in_order)
        return self._turns.collect("submit", lambda collector: collector.submit(self, given, patience, how))

    def push(
        self,
        feed: Feed,
        timeout: float | None = 60.0,
        tag: Any = None,
        *,
        stream: int = 0,
        deadline: float | None = None,
        priority: Literal["normal", "high"] = "normal",
        done: Callable[[_core.Frame], object] | None = None,
        in_order: bool = True,
    ) -> int:
        """Gives the pipeline one frame and returns its number.

        Waits for room up to ``timeout`` seconds (None: as long as it takes). Raises InvalidArgument (a
        name, dtype or shape), DeadlineExceeded (says what is full; nothing was pushed),
        ResourceExhausted (the policy is ``"error"``: its ``places`` name an input; the stream is one too many; or
        ``done`` may find no thread, or no memory for one), Cancelled (the pipeline is closed).

        stream: the sequence that the frame is of, see :meth:`stream_of`.
        deadline: seconds from now after which no stage begins with the frame, which is then an error
            (DeadlineExceeded); None: as ``max_age_ms`` says.
        priority: ``"high"`` goes before normal ones of other threads that wait for their turn to push.
        done: called with the :class:`Frame`, which :meth:`pop` then passes over: once, however the frame ended,
            also where the pipeline ends before. One thread of the pipeline's calls all of them: it should be
            short and not wait for other frames, as a push without room does. What it raises goes to
            ``sys.unraisablehook``, which prints it.
        in_order: with ``done``, behind those of the frames that were pushed before with ``in_order``; else as
            soon as the frame is done. Frames of one stream are in order always.
        """
        return self._push(feed, timeout, _how(tag, stream, deadline, priority, done, in_order))

    def _push(self, feed: Feed, timeout: float | None, how: dict[str, Any]) -> int:
        with self._turns.call("push"):
            return self._core.push(plain(feed), seconds("timeout", timeout), **how)

    def try_push(
        self,
        feed: Feed,
        tag: Any = None,
        *,
        stream: int = 0,
        deadline: float | None = None,
        priority: Literal["normal", "high"] = "normal",
        done: Callable[[_core.Frame], object] | None = None,
        in_order: bool = True,
    ) -> int | None:
        """:meth:`push` without waiting: None where there is no room."""
        return self._try_push(feed, _how(tag, stream, deadline, priority, done, in_order))

    def _try_push(self, feed: Feed, how: dict[str, Any]) -> int | None:
        with self._turns.call("try_push"):
            return self._core.try_push(plain(feed), **how)

    def pop(self, timeout: float | None = 60.0) -> _core.Frame | None:
        """The next frame in order, however it ended; None when all have come out of a closed pipeline.

        Raises DeadlineExceeded where none comes within ``timeout`` seconds.
        """
        with self._turns.call("pop"):
            return self._core.pop(seconds("timeout", timeout))

    def try_pop(self) -> _core.Frame | None:
        """The next frame if it is ready."""
        with self._turns.call("try_pop"):
            return self._core.try_pop()

    # While it runs

    def set_parameters(self, values: Mapping[str, Any], stage: str = "") -> None:
        """Replaces constants named by ``parameters=`` at the split, from the next frame pushed on.

        stage: only there; else wherever they are read.
        """
        named = dict(mapping("values", values, "{'scale': array}"))
        self._core.set_parameters(named, name_text("stage", stage, "stage0"))

    def stream_of(self, number: int) -> StreamOf:
        """One of several sequences of frames, each with states of its own; as many as ``streams=`` allows.

        number: from 0; stream 0 is always there, and what :meth:`run` and :meth:`push` mean by default.
        """
        return StreamOf(self, counted("stream", number, 7))

    def reset_states(self) -> None:
        """Lets the next frame of each stream read the states' initial values, so that another sequence begins.

        What functions keep of the frames before, they keep.

        Raises FailedPrecondition while frames are in flight, or :meth:`replace` waits for frames to end.
        """
        with self._turns.between_frames("reset_states"):
            self._core.reset_states()

    def replace(self, path: Path) -> None:
        """Lets the package at ``path`` take the frames pushed from now on, while frames flow in other threads.

        It is started beside what runs, with the options that this pipeline was made with, then takes its
        place between two frames: numbers and order go on, nothing is lost. The values of states go over, and
        what Python functions keep that both packages call; where one is stateful, it sees the new frames behind all
        of the old ones. So do parameters that were set: a stage gets what the old one of its name was given, or,
        where none of that name reads the parameter, the first value that any was given. What does not start, or
        has other inputs, outputs, states or parameters, is refused, and what runs goes on.

        Raises FailedPrecondition in a frame's callback (``done``) where it would wait for that callback's own end:
        while another call of it runs, and while the plan before the last one has not ended.
        """
        for text in self._core.replace(path_text("path", path)):
            warnings.warn(text, PenstockWarning, stacklevel=2)

    def stats(self) -> Stats:
        """Counts and times so far, per stage and edge; the names are those of ``penstock bench --json``."""
        return self._core.stats()

    def trace(self, path: Path) -> None:
        """Writes the times of every frame in every stage, for chrome://tracing and ui.perfetto.dev.

        Keeps the last 100000 frames of each stage instance; a PenstockWarning counts what is lost before.

        Raises FailedPrecondition where the pipeline was made without ``trace=True``.
        """
        lost = self._core.write_trace(path_text("path", path))
        if lost:
            text = f"trace '{path}': {lost} spans of the earliest frames are lost"
            warnings.warn(text, PenstockWarning, stacklevel=2)

    def serve_page(
        self,
        address: str | None = "127.0.0.1:0",
        *,
        record: Path | None = None,
        insecure: bool = False,
        tokens: Path | None = None,
    ) -> Watching:
        """Serves a page that shows what this pipeline does, until what is returned is closed: rates, latencies,
        queues, loads, errors, over time, on the drawing of the network. ``/metrics`` is there too.

        address: HOST:PORT; port 0 is any that is free, see :attr:`Watching.url`; None: only ``record``.
        record: where the page goes at the end, as a file that any browser opens; until then it is FILE.part. A device,
            a pipe and what a link leads to are written in place.
        insecure: also where other machines could read what is sent. tokens: who may look, a file of
            ``penstock token``; None: who is on this machine.
        Raises Unavailable where the address is taken, PermissionDenied where plain text would leave this machine, or
        where ``record`` cannot be written (NotFound: its folder is not there), InvalidArgument where there is neither
        ``address`` nor ``record``.
        """
        file = "" if record is None else path_text("record", record)
        page = bool(address)
        if not page and not file:
            raise InvalidArgument(f"serve_page: address={address!r}: expected HOST:PORT, or record=")
        return watch(self._core, page=page, record=file, address=address or "", insecure=insecure, tokens=tokens)

    def serve_metrics(
        self, address: str = "127.0.0.1:0", *, insecure: bool = False, tokens: Path | None = None
    ) -> Watching:
        """Serves figures for Prometheus at ``http://HOST:PORT/metrics``, until what is returned is closed.

        The arguments are those of :meth:`serve_page`.
        """
        return watch(self._core, page=False, record="", address=address, insecure=insecure, tokens=tokens)

    def save(self, path: Path) -> None:
        """Writes the package (a folder, or a file ending in ``.zip``) that :func:`penstock.load` takes."""
        self._core.save(path_text("path", path))

    def verify(
        self, model: Path | None = None, frames: Iterable[Any] | int | None = None, **options: Any
    ) -> dict[str, Any]:
        """What :func:`penstock.verify` finds of this pipeline's package, with its ``options``. The ``functions`` are
        this pipeline's.

        A second pipeline of the same plan runs beside this one for it; frames in flight here are not touched.
        """
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "verified.penstock")
            self.save(package)
            return verify(package, model, frames, **({"functions": self._functions} | options))

    # The end

    def close(self) -> None:
        """No more frames go in; those in flight finish and can be taken out."""
        self._core.close()

    def drain(self, timeout: float | None = None) -> None:
        """Waits until all that was pushed before can be taken out, and until the callbacks (``done``) of that have
        returned; a callback that calls it waits for none. No call waits for more frames to go with these. Any thread
        may call it.

        timeout: how many seconds; None: as long as it takes.

        Raises DeadlineExceeded (says how many frames are in flight, or callbacks have not returned),
        FailedPrecondition (results that nobody takes out leave no room for the frames behind them), Cancelled (it
        is shut down).
        """
        self._core.drain(seconds("timeout", timeout))

    def cancel(self) -> None:
        """Frames in flight come out as cancelled; no more go in."""
        self._core.cancel()

    def cancel_frame(self, number: int) -> bool:
        """The frame comes out as cancelled, in its place; no stage begins with it any more, but for those that
        states depend on. With another policy than ``block`` those neither: states do not see a frame that was
        cancelled before they began. False: it has come out or failed before, or was never pushed."""
        asked = whole("number", number, 3)
        return 0 <= asked < 2**64 and self._core.cancel_frame(asked)

    def shut_down(self, timeout: float | None = 5.0) -> None:
        """Cancels and ends all threads. Results that are held stay; futures get Cancelled.

        timeout: how many seconds calls in progress and callbacks (``done``) may take to end; None: as long as
            they take. A call that still runs then, or at Ctrl-C, is left behind: a PenstockWarning names its
            stage, and its thread and what that may touch stay. A callback that still runs is left behind
            likewise, named by its frame: the frames after it get their callbacks, on its thread, once it
            returns, and not at all where it never does. ``with``, the garbage collector and the end of the
            process wait for the 5 seconds.
        """
        patience = seconds("timeout", timeout)
        try:
            self._core.shut_down(patience)
        finally:
            self._turns.end()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut_down()

    def __del__(self) -> None:
        if hasattr(self, "_turns"):
            self.shut_down()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Threads have no copies: the end of one would be the end of the other."""
        raise TypeError("a pipeline can be neither copied nor pickled; save() it, and penstock.load() another")

    # For people

    def __repr__(self) -> str:
        shown = f"penstock.Pipeline of '{self.plan.get('model', '')}'"
        state = "" if self.alive else " (shut down)" if self._core.ended else " (closed)"
        ports = [
            ", ".join(f"{info.name}: {_type_text(info)}" for info in side) for side in (self._inputs, self._outputs)
        ]
        lines = [f"<{shown}{state}: {ports[0]} -> {ports[1]}"]
        for stage in self.plan["stages"]:
            backends = "+".join(dict.fromkeys(part["backend"] for part in stage["partitions"]))
            lines.append(f"  {stage['name']} on {', '.join(stage['devices'])} by {backends}")
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        """A table of the stages, for notebooks."""
        if self._core.ended:
            return f"<pre>{html.escape(repr(self))}</pre>"
        head = ["stage", "device", "backend", "frames", "errors", "drops", "queue p50", "infer p50", "infer p99"]
        rows = []
        for stage in self.stats()["stages"]:
            cells = [stage["name"], stage["device"], stage["backend"], stage["frames"], stage["errors"], stage["drops"]]
            infer = stage["compute_infer_us"]
            times = [stage["queue_us"]["p50"], infer["p50"], infer["p99"]]
            cells += ["" if time is None else f"{time:,.1f} µs" for time in times]
            rows.append(cells)
        return table(f"penstock.Pipeline of '{self.plan.get('model', '')}'", head, rows)

    def _indices_of(self, names: Sequence[str]) -> list[int]:
        if isinstance(names, str):
            raise InvalidArgument(f"output_names: expected a list of names or None, found '{names}'; write ['{names}']")
        for name in listed("output_names", names):
            if name not in self._output_names:
                known = ", ".join(f"'{known}'" for known in self._output_names)
                raise InvalidArgument(f"no output '{name}'; the outputs are {known}")
        return [self._output_names.index(name) for name in names]


class StreamOf:
    """One stream of a pipeline (:meth:`Pipeline.stream_of`): a sequence of frames with states of its own.

    It begins with its first frame. What functions keep of the frames before, they keep of all streams
    together. Frames of other streams may be in flight at any time.
    """

    def __init__(self, pipeline: Pipeline, number: int) -> None:
        """Made by :meth:`Pipeline.stream_of`."""
        self._pipeline = pipeline
        self._number = number

    @property
    def number(self) -> int:
        """As given; a frame that came out has it as its ``stream``."""
        return self._number

    def run(self, output_names: Sequence[str] | None, input_feed: Feed) -> list[Array]:
        """:meth:`Pipeline.run` of a frame of this stream."""
        return self._pipeline._run(output_names, input_feed, self._number)

    def __call__(self, *inputs: Any, **named: Any) -> list[Array]:
        """All outputs of one frame of this stream, as of a pipeline that is called."""
        return self.run(None, _inputs_of(inputs, named))

    def push(
        self,
        feed: Feed,
        timeout: float | None = 60.0,
        tag: Any = None,
        *,
        deadline: float | None = None,
        priority: Literal["normal", "high"] = "normal",
        done: Callable[[_core.Frame], object] | None = None,
        in_order: bool = True,
    ) -> int:
        """:meth:`Pipeline.push` of a frame of this stream."""
        how = _how(tag, self._number, deadline, priority, done, in_order)
        return self._pipeline._push(feed, timeout, how)

    def try_push(
        self,
        feed: Feed,
        tag: Any = None,
        *,
        deadline: float | None = None,
        priority: Literal["normal", "high"] = "normal",
        done: Callable[[_core.Frame], object] | None = None,
        in_order: bool = True,
    ) -> int | None:
        """:meth:`push` without waiting: None where there is no room."""
        how = _how(tag, self._number, deadline, priority, done, in_order)
        return self._pipeline._try_push(feed, how)

    def submit(
        self,
        feed: Feed,
        timeout: float | None = 60.0,
        tag: Any = None,
        *,
        deadline: float | None = None,
        priority: Literal["normal", "high"] = "normal",
        in_order: bool = True,
    ) -> Submitted:
        """:meth:`Pipeline.submit` of a frame of this stream."""
        return self._pipeline.submit(
            feed, timeout, tag, stream=self._number, deadline=deadline, priority=priority, in_order=in_order
        )

    def stream(
        self,
        source: Iterable[Item],
        feed: Callable[[Item], Feed] | None = None,
        *,
        errors: Literal["raise", "yield"] = "raise",
        dropped: Literal["skip", "yield"] = "skip",
        threaded: bool | None = None,
    ) -> Stream[Item]:
        """:meth:`Pipeline.stream` over frames of this stream. One at a time, over all streams of the pipeline: it
        takes all frames that come out."""
        return Stream(self._pipeline, source, feed, errors, dropped, threaded, self._number)

    def astream(
        self,
        source: Iterable[Item] | AsyncIterable[Item],
        feed: Callable[[Item], Feed] | None = None,
        *,
        errors: Literal["raise", "yield"] = "raise",
        dropped: Literal["skip", "yield"] = "skip",
    ) -> AsyncStream[Item]:
        """:meth:`Pipeline.astream` over frames of this stream. Several streams may have one each, at once."""
        return AsyncStream(self._pipeline, source, feed, errors, dropped, self._number)

    def reset(self) -> None:
        """Lets its next frame read the states' initial values.

        Raises FailedPrecondition while frames of it are in flight, or :meth:`Pipeline.replace` waits for frames to end,
        as do all that follow.
        """
        with self._pipeline._turns.between_frames("stream_of(n).reset()"):
            self._pipeline._core.reset_stream(self._number)

    def save(self) -> dict[str, Array]:
        """What its next frame reads of the states, by the names of the inputs that read them; those of an application
        are called ``node.port.last``, as "mix.last.last" after ``app.state("mix.mixed", "mix.last")``.

        Raises NotFound where it is not known: it had no frame, has ended or gave its place.
        """
        with self._pipeline._turns.between_frames("stream_of(n).save()"):
            return self._pipeline._core.save_stream(self._number)

    def restore(self, states: Mapping[str, Any]) -> None:
        """Lets its next frame read these states, by the names that :meth:`save` has. A stream that is not known begins
        with them."""
        values = dict(mapping("states", states, "{'state': array}"))
        with self._pipeline._turns.between_frames("stream_of(n).restore()"):
            self._pipeline._core.restore_stream(self._number, values)

    def end(self) -> None:
        """Forgets the stream, whose place another one may take. Stream 0 stays, and begins anew."""
        with self._pipeline._turns.between_frames("stream_of(n).end()"):
            self._pipeline._core.end_stream(self._number)

    def __repr__(self) -> str:
        return f"<stream {self._number} of {self._pipeline!r}>"


def _inputs_of(inputs: tuple[Any, ...], named: dict[str, Any]) -> Feed:
    """What a pipeline was called with, as one frame."""
    if inputs and named:
        raise InvalidArgument("expected inputs by position or by name, found both; use one of them")
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return inputs[0]
    return named or list(inputs)


def _type_text(info: TensorInfo) -> str:
    if info.shape is None:
        return info.dtype or info.type
    return f"{info.dtype or info.type}[{', '.join('?' if dim is None else str(dim) for dim in info.shape)}]"
