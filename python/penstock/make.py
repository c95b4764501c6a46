"""Making pipelines."""

from __future__ import annotations

import atexit
import importlib.util
import json
import numbers
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np

from penstock import _core
from penstock.checks import (
    backend_options_text,
    counted,
    flag,
    listed,
    mapping,
    number,
    path_text,
    plain_text,
    unexpected,
)
from penstock.collector import stop_all
from penstock.errors import InvalidArgument, PenstockWarning
from penstock.judge import declarations, functions_of, given_frames
from penstock.pipeline import Pipeline
from penstock.show import BuildReport, told
from penstock.types import Backends, Batch, Constant, Devices, Model, OnError, Path, Policy, Shape, State

if TYPE_CHECKING:
    from penstock.app import Function

STATES = "{'cache_out': 'cache_in', 'h_out': ('h_in', 'first.npy')}"

atexit.register(stop_all)  # Called last to first: pipelines are cancelled before.
atexit.register(_core.shut_down_all)  # Threads end while the interpreter still stands.


def _name_engines() -> None:
    """The engines that this interpreter would import, wherever they are, for the library to find."""
    places = []
    for package, folder in (("onnxruntime", "capi"), ("openvino", "libs")):
        spec = importlib.util.find_spec(package)
        for place in (spec and spec.submodule_search_locations) or []:
            places.append(os.path.join(place, folder))
    named = os.environ.get("PENSTOCK_ENGINE_PATH", "").split(":")
    os.environ["PENSTOCK_ENGINE_PATH"] = ":".join(filter(None, [*named, *(p for p in places if p not in named)]))


_name_engines()


def split(
    model: Model,
    cuts: Sequence[str | int] = (),
    replicas: int = 1,
    devices: str | Sequence[str] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    *,
    constants: Mapping[str, Constant] | None = None,
    pins: Mapping[str, str] | None = None,
    standby: str | Sequence[str] | None = None,
    annotations: bool = False,
    backend: str = "onnxruntime",
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    custom_ops: Sequence[Path] = (),
    parameters: Sequence[str] = (),
    as_is: bool = False,
    pinned: bool | None = None,
    batch: Batch | Mapping[str, Batch] | None = None,
    lanes: int | Mapping[str, int] | None = None,
    states: Mapping[str, State] | None = None,
    policy: Policy | None = None,
    capacity: int | None = None,
    in_flight: int | None = None,
    max_age_ms: float | None = None,
    max_run_ms: float | None = None,
    max_left_behind: int | None = None,
    on_error: OnError | None = None,
    streams: int | None = None,
    evict: bool = False,
    trace: bool = False,
    output: Path | None = None,
) -> Pipeline:
    """Splits a model into stages and starts them as a pipeline.

    model: a path, the bytes of a model, or an ``onnx.ModelProto``.
    cuts: each ends a stage after a node, named by its name, by a tensor that it makes, or by its index
        in ``penstock show``. N cuts give N + 1 stages; without, the whole network is one stage.
    replicas: of every stage.
    devices: ``"cpu:0,cpu:1"`` or ``["cpu:0-1", "cpu:2+3"]``, dealt to the stages in turn, replica by
        replica; without, each CPU that this process may use.
    shapes: fixes or bounds open dimensions of inputs: ``{"x": (1, 3, 224, 224), "ids": "1x1..512"}``.
    constants: inputs that never change, with their values: ``{"sr": 16000, "ids": [1, 2], "mask": array}``;
        what hangs on them alone is folded, and frames go without them.
    pins: node to device; nodes of one device are a stage. Not with cuts.
    standby: devices that take over the frames of stages on other machines that are lost.
    annotations: stages from the model's own ``pipeline_stage`` annotations. Not with cuts or pins.
    backend, custom_ops: who runs the stages, and libraries of operators for it.
    backend_options: by backend, settings of its own: ``{"onnxruntime": {"graph_optimization_level": 1}}``; where
        devices are of other machines, those of the way there too, ``{"remote": {"token_file": FILE}}``.
    parameters: constants that stay replaceable, see ``Pipeline.set_parameters``.
    as_is: nothing of the model is folded, merged or removed.
    pinned: whether stages stay on their CPUs (the default), or may move among their device's.
    batch: most frames in one call of each stage, ``8``, or ``"8:2.5"`` where the first waits 2.5 ms for
        more; ``"auto"`` or ``"auto:16"``: as many as measuring says, up to 8 or 16; or by stage,
        ``{"stage0": 8}``, where ``""`` stands for the others.
    lanes: calls in flight of each instance of a stage that computes elsewhere: on an accelerator, say; without,
        or 0, as many as its backend recommends; or by stage, ``{"stage0": 4}``, where ``""`` stands for the
        others.
    states: outputs that are inputs of the next frame, ``{"cache_out": "cache_in"}``; the first frame reads zeros,
        or the file of ``{"cache_out": ("cache_in", "first.npy")}``.
    policy: what happens when the input is full: ``"block"`` (default), ``"drop_oldest"``,
        ``"drop_newest"``, ``"latest"`` or ``"error"``.
    capacity, in_flight: slots of every edge, and most frames on their way at once.
    max_age_ms: a frame's deadline since its push.
    max_run_ms: a stage's call that takes longer hangs: its frame and those behind it come out as
        errors that name it, and the pipeline ends.
    max_left_behind: so many calls that hang each stage instance leaves behind (0): their frames alone fail,
        and with one more its frames are unavailable. With 0 a call that hangs ends the pipeline.
    on_error: ``"deliver"`` (default): an error is its frame's alone; ``"stop"``: the frames
        before it finish, those behind it are cancelled, but for what a call computes already, and the
        pipeline takes no more.
    streams, evict: streams with states of their own at a time (1), see ``Pipeline.stream_of``; whether one
        more takes the place of that used last longest ago, instead of being refused.
    trace: keep the times of every frame, see ``Pipeline.trace``.
    output: also write the package here (a folder, or a file ending in ``.zip``).

    Raises NotFound (a file, node, tensor, device or backend), InvalidArgument, DataLoss (not a model),
    Unavailable (no engine).
    """
    options = _split_options(locals())
    return _start(_core.split, _model_of(model), options)


def plan(
    model: Model,
    devices: str | Sequence[str] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    *,
    constants: Mapping[str, Constant] | None = None,
    may_replicate: bool = False,
    segments_per_device: int = 1,
    goal: Literal["throughput", "latency"] = "throughput",
    latency_cap: float | None = None,
    deadline: float = 10,
    pins: Mapping[str, str] | None = None,
    backend: str = "onnxruntime",
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    custom_ops: Sequence[Path] = (),
    parameters: Sequence[str] = (),
    as_is: bool = False,
    pinned: bool | None = None,
    batch: Batch | Mapping[str, Batch] | None = None,
    states: Mapping[str, State] | None = None,
    policy: Policy | None = None,
    capacity: int | None = None,
    in_flight: int | None = None,
    max_age_ms: float | None = None,
    max_run_ms: float | None = None,
    max_left_behind: int | None = None,
    on_error: OnError | None = None,
    streams: int | None = None,
    evict: bool = False,
    trace: bool = False,
    output: Path | None = None,
) -> Pipeline:
    """Finds the split with the least period (or latency) by an analytic model, and starts it.

    devices: only these; without, the best that this process's CPUs can be, each of one or of several, within the
        quota of its control group (with pins: each CPU).
    may_replicate: stages may run on several devices in turn.
    segments_per_device: stages that a device may run; 1: a device is one stage.
    goal, latency_cap: what is least, and the most seconds that one frame may take.
    deadline: seconds to search, at most.
    states: as for :func:`split`; what a state ties together stays in one stage, which has no replicas (with
        ``may_replicate`` that needs ``devices``).
    The rest is as for :func:`split`. ``Pipeline.plan["prediction"]`` has what was foretold, with the
    proved lower bound.
    """
    options = _split_options(
        locals() | {"cuts": (), "replicas": 1, "annotations": False},
        may_replicate=flag("may_replicate", may_replicate),
        segments_per_device=segments_per_device,
        goal=goal,
        latency_cap=latency_cap,
        deadline=number("deadline", deadline, "a number of seconds, such as 10"),
    )
    return _start(_core.plan, _model_of(model), options)


def build(
    model: Model,
    output: Path | None = None,
    devices: str | Sequence[str] | None = None,
    goal: Literal["throughput", "latency"] = "throughput",
    budget: float = 60.0,
    backends: Sequence[str] | None = None,
    *,
    hosts: Path | None = None,
    standby: bool = False,
    shapes: Mapping[str, Shape] | None = None,
    constants: Mapping[str, Constant] | None = None,
    states: Mapping[str, State] | None = None,
    batch: int | str | None = None,
    frames: Iterable[Any] | None = None,
    functions: Sequence[Function] = (),
    seed: int = 0,
    integer_limit: int = 2,
    tolerance: float | None = None,
    most_parts: int | None = None,
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    custom_ops: Sequence[Path] = (),
    parameters: Sequence[str] = (),
    as_is: bool = False,
    rules: Path | None = None,
    costs: Path | None = None,
    refresh: bool = False,
    progress: Callable[[str, float], object] | bool | None = None,
    policy: Policy | None = None,
    capacity: int | None = None,
    in_flight: int | None = None,
    max_age_ms: float | None = None,
    max_run_ms: float | None = None,
    max_left_behind: int | None = None,
    on_error: OnError | None = None,
    streams: int | None = None,
    evict: bool = False,
    trace: bool = False,
) -> Pipeline:
    """Measures which backend runs which part best, and starts the fastest pipeline that it found.

    model: as for :func:`split`; or an application's file (``app.yaml``), whose networks, functions and devices
        are tuned together.
    output: the package to write, with its reasons (:func:`explain`); without, a temporary one.
    devices: only these; without, groups of CPUs are chosen by measurement (an application: each CPU).
    goal: what counts, frames per second or the latency of one frame at a time.
    budget: seconds to spend; the simple ways that you would have tried are measured in any case.
    backends: those that may be chosen; without, all there are.
    hosts: a file of machines that run ``penstock worker`` (``docs/hosts.md``), instead of devices of this one: costs
        and links are measured there, and plans run there (an application's networks). Its files of connections are
        used; to load the package again, name them in ``backend_options={"remote": ...}``.
    standby: with ``hosts``, each stage gets a device of another host that takes over its frames.
    most_parts: parts to measure, whole networks and the simple ways besides; without, what the budget allows.
    states: as for :func:`split`; what writes one has one instance, and frames are a sequence.
    batch: frames that one call of a stage may take, where measuring says that this is faster: ``8``, or ``"auto"``
        (8). Without, each takes one. For throughput only; an application says so at its networks.
    frames: what is measured and compared with, by input, ``[{"x": array}, ...]``, or of an only input the arrays, as
        of ``penstock.io.wav`` where it is [samples] (of [1,samples]: ``[block[None] for block in wav(...)]``); inputs
        that a frame leaves out are random, and so is all without frames.
    functions: the Python callables that an application's file names; they are timed and placed like its networks.
        :func:`load` needs them again.
    seed, integer_limit: of random frames; integers of 16 bits and more stay under the limit.
    tolerance: relative error allowed (1e-3); where it is given, lower precisions are tried too.
    rules: a JSON file, by backend: what it may be tried on, instead of what it says itself.
    costs: the database of what was measured; without, that of the program.
    refresh: what is in it is measured again.
    progress: told what is being done, and the share of the budget that is spent; True shows a bar, in a notebook
        or a terminal (needs tqdm).
    Ctrl-C ends it. The rest is as for :func:`split`.
    """
    given = functions_of(functions)
    options = _split_options(
        {key: value for key, value in locals().items() if key != "backend_options"}
        | dict.fromkeys(("pins", "backend_options", "pinned", "standby"))
        | {"cuts": (), "annotations": False, "replicas": 1, "backend": "onnxruntime"},
        goal=goal,
        budget=budget,
        backends=listed("backends", backends or ()),
        frames=[] if frames is None else given_frames(frames),
        functions=declarations(given),
        seed=counted("seed", seed, 7),
        integer_limit=counted("integer_limit", integer_limit, 2),
        refresh=flag("refresh", refresh),
        hosts="" if hosts is None else path_text("hosts", hosts),
        host_standby=flag("standby", standby),
        tolerance=tolerance,
        most_parts=most_parts,
        settings=backend_options_text(backend_options),
        rules="" if rules is None else path_text("rules", rules),
        costs="" if costs is None else path_text("costs", costs),
    )
    source = os.fspath(model) if _is_application(model) else _model_of(model)
    with told(progress) as tell:
        options["progress"] = tell
        if isinstance(source, str):
            return _start(_core.build, source, options, given)
        with tempfile.TemporaryDirectory() as folder:  # The simple ways run a file.
            file = os.path.join(folder, "model.onnx")
            with open(file, "wb") as out:
                out.write(source)
            return _start(_core.build, file, options, given)


def explain(package: Path) -> BuildReport:
    """Why a package of :func:`build` is as it is, as ``penstock explain --json`` has it; notebooks show a table.

    Raises NotFound where the package was made otherwise.
    """
    return BuildReport(json.loads(_core.explain(path_text("package", package))))


def load(
    path: Path,
    *,
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    pinned: bool | None = None,
    policy: Policy | None = None,
    capacity: int | None = None,
    in_flight: int | None = None,
    max_age_ms: float | None = None,
    max_run_ms: float | None = None,
    max_left_behind: int | None = None,
    on_error: OnError | None = None,
    streams: int | None = None,
    evict: bool = False,
    trace: bool = False,
    native_code: bool = True,
    functions: Sequence[Function] = (),
) -> Pipeline:
    """Loads a package (a folder or zip, by ``penstock split`` or ``save()``) and starts it.

    native_code: False refuses a package that holds libraries, of functions or of custom operators.
    functions: the Python callables that its stages name.
    What is given overrides the package's own; the options are those of :func:`split`.
    Raises NotFound, DataLoss (a file is missing or has changed), FailedPrecondition (of another
    version).
    """
    options = _run_options(locals())
    given = functions_of(functions)
    options["functions"] = declarations(given)
    return _start(_core.load, _no_application(path_text("path", path), "a package"), options, given)


def devices(*, peaks: bool = False, refresh: bool = False) -> Devices:
    """What this machine is: its CPUs, caches and memory, and which CPUs this process may use.

    peaks: also what one CPU of each kind, and all together, can do at most, as ``penstock devices --peaks``
        shows it; measured once (some tenths of a second) and kept among the costs.
    refresh: the peaks are measured again.
    Raises NotFound (the program that measures is not there), Unavailable.
    """
    if refresh and not peaks:
        raise InvalidArgument("refresh: there is nothing to measure again without peaks=True")
    return _core.devices(peaks, refresh)


def include_dir() -> str:
    """The folder for a C compiler's ``-I``, where functions in C find ``penstock/function/penstock_function.h``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def cmake_dir() -> str:
    """The folder for CMake's ``-DPenstock_DIR=``: programs in C++ and C use the library of an installed wheel."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_lib", "cmake", "Penstock")


def backends() -> Backends:
    """The toolchains that can run stages: the library taken and its version, or why there is none."""
    return _core.backends()


def _start(
    make: Callable[[Any, dict[str, Any]], tuple[_core.Pipeline, list[str]]],
    source: Any,
    options: dict[str, Any],
    functions: Sequence[Function] = (),
) -> Pipeline:
    core, met = make(source, options)
    for text in met:
        warnings.warn(text, PenstockWarning, stacklevel=3)
    return Pipeline(core, functions)


def _model_of(model: Model) -> str | bytes:
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model)
    if isinstance(model, str | os.PathLike):
        if os.path.isdir(model):
            raise InvalidArgument(
                f"'{os.fspath(model)}': expected a model, found a folder; penstock.load() takes packages"
            )
        return _no_application(os.fspath(model), "a model")
    if not hasattr(model, "SerializeToString"):
        raise unexpected("model", "a path, the file's bytes or an onnx.ModelProto", model)
    return model.SerializeToString()


def _is_application(model: Model) -> TypeGuard[Path]:
    return isinstance(model, str | os.PathLike) and os.fspath(model).lower().endswith((".yaml", ".yml"))


def _no_application(path: str, expected: str) -> str:
    if _is_application(path):
        raise InvalidArgument(
            f"'{path}': expected {expected}, found an application; penstock.App.read({path!r}).start() runs it"
        )
    return path


def _run_options(given: Mapping[str, Any]) -> dict[str, Any]:
    limits = ("capacity", "in_flight", "max_age_ms", "max_run_ms", "max_left_behind", "streams")
    options = {name: given[name] for name in ("policy", "on_error", "pinned", "trace", *limits)}
    options["trace"] = flag("trace", options["trace"])
    options["evict"] = flag("evict", given["evict"])
    options["native_code"] = flag("native_code", given.get("native_code", True))
    options["backend_options"] = backend_options_text(given["backend_options"])
    return options


def _node_text(what: str, node: object) -> str:
    """A number is an index, also where a tensor has that number for its name."""
    return f"#{int(node)}" if isinstance(node, numbers.Integral) else plain_text(what, node)


def _split_options(given: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return _run_options(given) | {
        "backend": given["backend"],
        "cuts": [_node_text("cuts", cut) for cut in listed("cuts", given["cuts"])],
        "pins": [
            (_node_text("pins", node), device)
            for node, device in mapping("pins", given["pins"], "{'node': 'cpu:0'}").items()
        ],
        "annotations": flag("annotations", given["annotations"]),
        "replicas": given["replicas"],
        "devices": _device_text(given["devices"]),
        "standby": _device_text(given.get("standby")),
        "shapes": _shape_texts(given["shapes"]),
        "constants": [
            (str(name), _constant(name, value))
            for name, value in mapping("constants", given["constants"], "{'sr': 16000}").items()
        ],
        "parameters": listed("parameters", given["parameters"]),
        "custom_ops": [path_text("custom_ops", path) for path in listed("custom_ops", given["custom_ops"])],
        "as_is": flag("as_is", given["as_is"]),
        "batch": _batch_texts(given["batch"]),
        "lanes": _lane_texts(given.get("lanes")),
        "states": [_state(*pair) for pair in mapping("states", given["states"], STATES).items()],
        "output": "" if given["output"] is None else path_text("output", given["output"]),
        **more,
    }


def _state(output: str, read: State) -> tuple[str, str, str]:
    """Output, input and file."""
    if isinstance(read, str):
        return str(output), read, ""
    if not isinstance(read, tuple | list) or len(read) != 2 or not isinstance(read[0], str):
        raise unexpected(f"states[{output!r}]", f"an input, or an input and a file, as in {STATES}", read)
    if hasattr(read[1], "shape"):
        raise unexpected(f"states[{output!r}]", "a file with the first value (numpy.save writes one)", read[1])
    return str(output), read[0], path_text(f"states[{output!r}]", read[1])


def _batch_texts(batch: Batch | Mapping[str, Batch] | None) -> list[str]:
    if batch is None:
        return []
    named = batch if isinstance(batch, Mapping) else {"": batch}
    for one in named.values():
        if isinstance(one, bool) or not isinstance(one, numbers.Integral | str):
            raise unexpected("batch", "a number of frames, '8:2.5', 'auto' or {'stage0': 8}", one)
    return [f"{stage}={one}" if stage else str(one) for stage, one in named.items()]


def _lane_texts(lanes: int | Mapping[str, int] | None) -> list[str]:
    if lanes is None:
        return []
    named = lanes if isinstance(lanes, Mapping) else {"": lanes}
    for one in named.values():
        if isinstance(one, bool) or not isinstance(one, numbers.Integral):
            raise unexpected("lanes", "a number of calls, or {'stage0': 4}", one)
    return [f"{stage}={one}" if stage else str(one) for stage, one in named.items()]


def _shape_texts(shapes: Mapping[str, Shape] | None) -> list[str]:
    given = mapping("shapes", shapes, "{'image': (1, 3, 224, 224)}")
    return [f"{name}={_shape_text(name, shape)}" for name, shape in given.items()]


def _device_text(devices: str | Sequence[str] | None) -> str:
    if devices is None or isinstance(devices, str):
        return devices or ""
    if not isinstance(devices, Sequence) or not all(isinstance(device, str) for device in devices):
        raise unexpected("devices", "names of devices, such as devices=['cpu:0', 'cpu:1']", devices)
    return ",".join(devices)


def _constant(name: str, value: Constant) -> str | np.ndarray[Any, Any]:
    """A text as ``--constant`` takes it, or an array."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.ndarray | np.generic):
        return np.ascontiguousarray(value) if value.ndim else np.asarray(value)
    try:
        return _literal(value)
    except (TypeError, ValueError, RecursionError):
        raise unexpected(
            f"constants[{name!r}]", "a value, a list of values or an array, such as 16000", value
        ) from None


def _literal(value: object) -> str:
    """As the library reads values from a text: lists in brackets, texts in quotes."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        raise TypeError
    return json.dumps(value)


def _shape_text(name: str, shape: Shape) -> str:
    if isinstance(shape, str):
        return shape
    if not isinstance(shape, Sequence):
        raise unexpected(f"shapes[{name!r}]", "a shape, such as (1, 3, 224, 224) or '1x3x224x224'", shape)
    return "x".join("?" if dim is None else plain_text(f"shapes[{name!r}]", dim) for dim in shape)
