"""The types that the package's functions take and give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from os import PathLike
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from penstock import _core

Array: TypeAlias = npt.NDArray[Any]


class DLPack(Protocol):
    """Anything that lends its memory by DLPack, such as a torch tensor on the CPU."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...


class SerialisedModel(Protocol):
    """``onnx.ModelProto``."""

    def SerializeToString(self) -> bytes: ...


ArrayLike: TypeAlias = Array | np.generic | memoryview | bytes | bytearray | DLPack
"""An array without a copy: numpy's, by the buffer protocol, or by DLPack."""

Feed: TypeAlias = Mapping[str, Any] | Sequence[Any] | ArrayLike
"""One frame's inputs: by name, in the model's order, or the only one itself."""

Path: TypeAlias = str | PathLike[str]
Model: TypeAlias = Path | bytes | SerialisedModel
Dimension: TypeAlias = int | str | None
Shape: TypeAlias = str | Sequence[Dimension]
"""``"1x3x224x224"``, ``(1, 3, 224, 224)``; ``None`` is open, ``"1..512"`` open with a bound."""

Constant: TypeAlias = bool | int | float | str | PathLike[str] | Sequence[Any] | Array | np.generic
"""An input's value: ``16000``, ``[1, 2]``, an array, or the path of an ``.npy`` file."""

Batch: TypeAlias = int | str
"""Most frames in one call, ``8``; ``"8:2.5"`` where the first waits 2.5 milliseconds for more."""

State: TypeAlias = str | tuple[str, Path]
"""The input that reads an output of the frame before; with the ``.npy`` file that the first frame reads."""

PortType: TypeAlias = str | tuple[npt.DTypeLike, Sequence[Dimension]]
"""``"u8[h<=1080,w<=1920,3]"``, or ``("uint8", ("h<=1080", "w<=1920", 3))``; ``None`` is open."""

Policy: TypeAlias = Literal["block", "drop_oldest", "drop_newest", "latest", "error"]
OnError: TypeAlias = Literal["deliver", "stop"]


def plain(feed: Any) -> Any:
    """What the library takes: mappings that are no dict, such as another pipeline's frames, as one."""
    return dict(feed) if type(feed) is not dict and isinstance(feed, Mapping) else feed


class Place(TypedDict, total=False):
    """One step on the way to what is wrong: ``{"kind": "stage", "name": "head"}``, or ``"frame"`` with a number."""

    kind: str
    """``"stage"``, ``"replica"``, ``"frame"``, ``"item"``, ``"node"``, ``"operator"``, ``"function"``, ``"input"``,
    ``"output"``, ``"tensor"``, ``"model"``, ``"package"``, ``"file"``, ``"line"``, ...; ``"text"`` where none fits."""
    name: str
    number: int


class Quantiles(TypedDict):
    """Microseconds; None before anything was measured."""

    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class Drift(TypedDict):
    """How the time of computing a frame, the median, compares with what the plan foretold."""

    predicted_us: float
    seen_us: float  #: of the last three seconds or more in which there were frames
    ratio: float  #: of what was seen over what was foretold
    beyond_noise: bool  #: by more than 10 %, in each of three seconds or more, and not because the pipeline waits


class StageStats(TypedDict):
    name: str
    device: str
    backend: str
    replicas: int
    lanes: int
    frames: int
    errors: int
    drops: int
    calls: list[int]
    surplus: int
    copies: int
    allocations: int
    queue_us: Quantiles
    compute_input_us: Quantiles
    compute_infer_us: Quantiles
    compute_output_us: Quantiles
    transfer_us: Quantiles
    drift: Drift | None  #: None: nothing was foretold, or nobody asked for a second


class EdgeStats(TypedDict):
    name: str
    tensors: list[str]
    capacity: int
    policy: str
    depth: int
    drops: int
    bytes: int | None
    memory: str
    mirrors: dict[str, int]
    backend_allocated: bool


class Submitted(Future[_core.Frame]):
    """What :meth:`Pipeline.submit` gives: a future of the frame, which is on its way.

    Any thread may call anything, but a callback must not wait for another frame of its pipeline: one thread gives
    all futures and calls their callbacks, another one does so for ``in_order=False``. :meth:`result` and
    :meth:`exception` refuse where that thread would wait for itself; ``concurrent.futures.wait()`` would, for ever.
    """

    number: int
    """The frame's."""

    _check_wait: Callable[[Submitted], None] | None = None  # Raises where this thread must not wait for it.

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> _core.Frame:
        """The frame. Waits for it up to ``timeout`` seconds; None: as long as it takes.

        Raises the frame's error; TimeoutError where it is not done in time; FailedPrecondition, at once, where it is
        not done and this is the thread that would give it, in a callback. 0 waits for nothing and may be asked there.
        """
        self._before_wait(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The frame's error, None where it has outputs. Waits and raises as :meth:`result`, but for that error."""
        self._before_wait(timeout)
        return super().exception(timeout)

    def _before_wait(self, timeout: float | None) -> None:
        if self._check_wait is not None and (timeout is None or timeout > 0) and not self.done():
            self._check_wait(self)


class PlanStats(TypedDict):
    """How many ``frames`` were pushed to a plan before another one took its place; ``label``: ``"at the start"``, or
    the path that :meth:`Pipeline.replace` was given."""

    label: str
    frames: int


class Stats(TypedDict):
    """What :meth:`Pipeline.stats` gives; the names are those of ``penstock bench --json``."""

    pushed: int
    popped: int
    ok: int
    errors: int
    drops: int
    cancelled: int
    streams: int
    streams_evicted: int
    copies: int
    memory_bytes: int | None
    plans: list[PlanStats]
    stages: list[StageStats]
    edges: list[EdgeStats]


Swap = TypedDict(
    "Swap",
    {
        "seconds": float,
        "from": str,
        "to": str,
        "gain": float,
        "back": bool,
        "refused": str,
    },
)
"""One plan that took another's place ``seconds`` after the tuner began, or could not (``refused`` says why); ``gain``:
frames a second over those before, as expected; ``back``: the swap before was none for the better."""


class TunerReport(TypedDict):
    """What :attr:`Tuner.report` gives."""

    candidates: list[str]  #: empty as long as it learns what the stages take
    running: str
    swaps: list[Swap]
    start_seconds: float  #: that starting plans took
    ended: str  #: why it does nothing any more; empty: it does


class Cpu(TypedDict):
    device: str
    number: int
    core: int
    package: int
    numa_node: int
    kind: int
    siblings: list[int]
    governor: str  #: "powersave"; empty where nothing tells
    allowed: bool


class Peak(TypedDict):
    """What a device can do at most, all its CPUs together."""

    device: str
    fp32: list[dict[str, Any]]  #: of each width of vectors: "name", "flops_per_second"
    reading: list[dict[str, Any]]  #: of each level of caches and memory: "name", "bytes", "bytes_per_second"


class Devices(TypedDict):
    """This machine, as ``penstock devices --json`` shows it."""

    cpu_model: str
    fingerprint: str
    memory_bytes: int
    cpuset: list[int]
    cpu_quota: float | None
    cpus: list[Cpu]
    caches: list[dict[str, Any]]
    numa_nodes: list[dict[str, Any]]
    accelerators: list[dict[str, str]]  #: "device", "name" and "backend" of GPUs and the like
    peaks: NotRequired[list[Peak]]  #: where they were asked for


class Backend(TypedDict):
    name: str
    available: bool
    engine_version: str
    engine_file: str
    unavailable: str
    whole_graph: bool


class Backends(TypedDict):
    """The toolchains found, as ``penstock backends --json`` shows them."""

    backends: list[Backend]
    problems: list[str]
