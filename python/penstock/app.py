"""Applications: several networks and Python functions in one pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock import _core
from penstock.checks import flag, listed, mapping, name_text, path_text, settings_text
from penstock.errors import InvalidArgument
from penstock.judge import declarations, functions_of
from penstock.make import _device_text, _run_options, _shape_texts, _split_options, _start
from penstock.pipeline import Pipeline
from penstock.ready import Ready
from penstock.types import Batch, Constant, OnError, Path, Policy, PortType, Shape

_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
    "bool": "bool",
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


class Drop:
    """What a function returns for a frame that is not worth going on with: ``Drop("no face")``."""

    def __init__(self, reason: str = "by the function") -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"penstock.Drop({self.reason!r})"


DROP = Drop()


@dataclass(frozen=True)
class Function:
    """A Python callable with its declaration, for :meth:`App.read` and :func:`penstock.load`.

    call: takes the inputs as arrays, in order, and returns the outputs: one value, a tuple in order or
        a dict by name. Inputs are read-only and the pipeline's own memory: ``copy()`` what is to be
        kept. None or ``penstock.DROP`` drops the frame; an exception becomes the frame's error.
    inputs, outputs: name to type, as text (``"u8[h<=1080,w<=1920,3]"``) or as dtype and shape
        (``("float32", (1, "n<=8", 4))``). Open dimensions of outputs need a bound.
    stateful: sees the frames in order, one at a time; else it may have replicas.
    """

    name: str
    call: Callable[..., Any]
    inputs: Mapping[str, PortType]
    outputs: Mapping[str, PortType]
    stateful: bool = False

    def _declaration(self) -> dict[str, Any]:
        if not callable(self.call):
            raise InvalidArgument(f"function '{self.name}': expected a callable, found {type(self.call).__name__}")
        return {
            "name": name_text("function", self.name, "classify"),
            "call": self.call,
            "inputs": self._typed(self.inputs),
            "outputs": self._typed(self.outputs),
            "stateful": flag(f"function '{self.name}': stateful", self.stateful),
            "drop": Drop,
        }

    def _typed(self, ports: Mapping[str, PortType]) -> list[tuple[str, str]]:
        what = f"function '{self.name}'"
        return [(name_text(what, port, "image"), _type_text(f"{what}: '{port}'", type)) for port, type in ports.items()]


@dataclass
class _Node:
    what: dict[str, Any]
    sources: list[tuple[str, str]] = field(default_factory=list)


def _served(
    place: str,
    model: str,
    *,
    devices: str | Sequence[str] | None,
    standby: str | Sequence[str] | None,
    idempotent: bool,
    lanes: int,
    shapes: Mapping[str, Shape] | None,
    options: Mapping[str, object] | None,
) -> dict[str, Any]:
    """A server's model as the library takes it."""
    return {
        "kind": "served",
        "model": name_text(f"{place}: model", model),
        "devices": _device_text(devices),
        "standby": _device_text(standby),
        "idempotent": flag(f"{place}: idempotent", idempotent),
        "lanes": lanes,
        "shapes": _shape_texts(shapes),
        "options": settings_text(f"{place}: options", options),
    }


class App:
    """Networks and functions, connected by names, that become one pipeline.

        app = penstock.App("classify")
        app.input("image")
        app.network("network", "model.onnx", reads={"image": "image"})
        app.function("best", np.argmax, {"scores": "f32[1,10]"}, {"label": "i64[]"}, reads="network.scores")
        app.output("label", "best.label")
        with app.start() as pipeline:
            print(pipeline(images[0]))

    Everything is checked in :meth:`start`, before anything runs. ``docs/composition.md`` tells the rest.
    """

    def __init__(self, name: str = "app") -> None:
        self._name = name
        self._yaml = ""
        self._inputs: list[tuple[str, str]] = []
        self._outputs: list[tuple[str, str]] = []
        self._nodes: dict[str, _Node] = {}
        self._states: list[dict[str, str]] = []
        self._functions: list[Function] = []

    @staticmethod
    def read(path: Path, functions: Sequence[Function] = ()) -> App:
        """An application from YAML, to which nothing can be added; ``functions`` are those that it names
        and that no library holds."""
        app = App()
        app._yaml = path_text("path", path)
        app._functions = functions_of(functions)
        return app

    def input(self, name: str, type: PortType | None = None) -> None:
        """An input of the application; its type is else that of the first port which reads it."""
        self._check_own()
        name = name_text("input", name, "image")
        self._inputs.append((name, "" if type is None else _type_text(f"input '{name}'", type)))

    def output(self, name: str, source: str) -> None:
        """An output of the application: what ``"node.port"`` is."""
        self._check_own()
        self._outputs.append((name_text("output", name, "label"), name_text(f"output '{name}'", source)))

    def network(
        self,
        name: str,
        model: Path,
        *,
        cuts: Sequence[str | int] = (),
        replicas: int = 1,
        devices: str | Sequence[str] | None = None,
        shapes: Mapping[str, Shape] | None = None,
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
        each: Sequence[str] = (),
        max_run_ms: float | None = None,
        max_left_behind: int | None = None,
        reads: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a model file as a node; its ports are the model's inputs and outputs.

        model: or a package of one network, such as :func:`penstock.build` makes; all but ``each``,
            ``max_run_ms`` and ``max_left_behind`` is then settled.
        each: ports whose sources hold items; the network runs once for each item.
        max_run_ms: the most that a call of its stages may take, all items of a frame together.
        max_left_behind: calls beyond that which each instance of them leaves behind, and goes on.
        reads: port to source, as :meth:`connect` would say one by one.
        The rest is as for :func:`penstock.split`.
        """
        stream = dict.fromkeys(
            ("policy", "capacity", "in_flight", "max_age_ms", "on_error", "streams", "output", "states")
        ) | {"evict": False, "trace": False}
        split = _split_options(stream | locals())
        split["model"] = path_text(f"node '{name}': model", model)
        what = {"kind": "network", "split": split, "max_left_behind": max_left_behind}
        self._add(name, what, each, max_run_ms, _sources(name, reads, []))

    def function(
        self,
        name: str,
        call: Callable[..., Any] | None = None,
        inputs: Mapping[str, PortType] | None = None,
        outputs: Mapping[str, PortType] | None = None,
        *,
        stateful: bool = False,
        library: Path | None = None,
        library_name: str = "",
        options: Mapping[str, object] | None = None,
        replicas: int = 1,
        devices: str | Sequence[str] | None = None,
        each: Sequence[str] = (),
        max_run_ms: float | None = None,
        max_left_behind: int | None = None,
        reads: Mapping[str, str] | Sequence[str] | None = None,
    ) -> None:
        """Adds a Python callable as a node, a ready-made function, or a function of a C library.

        call, inputs, outputs, stateful: see :class:`Function`. An output with an open first dimension
            takes a list of items too. A ready-made function (``penstock.ready.letterbox(size=640)``) is
            given alone: it declares its ports itself, and no Python runs for it.
        library, library_name, options: a library (``penstock_function.h``), which declares the ports
            itself; which of its functions, where it holds several; and the function's settings, which a
            callable has not: ``functools.partial`` gives it values.
        reads: as for :meth:`network`, or the sources alone, in the order of ``inputs``.
        replicas, devices, each, max_run_ms, max_left_behind: as for :meth:`network`.
        """
        self._check_own()
        if (call is None) == (library is None):
            raise InvalidArgument(f"function '{name}': expected either a callable or a library")
        inputs, outputs = (
            mapping(f"function '{name}': {side}", given, "{'x': 'f32[1,4]'}")
            for side, given in (("inputs", inputs), ("outputs", outputs))
        )
        settings = settings_text(f"function '{name}': options", options)
        if isinstance(call, Ready):
            if inputs or outputs or stateful or settings:
                raise InvalidArgument(
                    f"function '{name}': {call!r} declares its ports and has its settings; give it alone"
                )
            function, inputs, settings, call = f"ready/{call.name}", call.inputs, call.settings, None
        else:
            function = library_name if call is None else name
        declared = None if call is None else Function(name, call, inputs, outputs, stateful)
        what = {
            "kind": "function",
            "function": function,
            "library": "" if library is None else path_text(f"function '{name}': library", library),
            "options": settings,
            "replicas": replicas,
            "devices": _device_text(devices),
            "max_left_behind": max_left_behind,
        }
        self._add(name, what, each, max_run_ms, _sources(name, reads, list(inputs)))
        if declared is not None:
            self._functions.append(declared)

    def served(
        self,
        name: str,
        model: str,
        *,
        devices: str | Sequence[str] | None = None,
        standby: str | Sequence[str] | None = None,
        idempotent: bool = False,
        lanes: int = 0,
        shapes: Mapping[str, Shape] | None = None,
        options: Mapping[str, object] | None = None,
        each: Sequence[str] = (),
        max_run_ms: float | None = None,
        max_left_behind: int | None = None,
        reads: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a model that a server of the Open Inference Protocol has; its ports are what the server says.

        model: ``"oip://host:port/name"`` or ``"oip://host:port/name:version"``.
        devices, standby: servers (``"oip://host:port"``) that have it too: replicas, and those that take over
            the frames of one that is lost.
        idempotent: a frame may be run again by another server.
        lanes: calls in flight at each server; 0: as many as is usual.
        shapes: of inputs and outputs whose sizes the server leaves open.
        options: of the backend ``remote`` (docs/remote.md).
        each, max_run_ms, max_left_behind, reads: as for :meth:`network`.
        """
        what = _served(
            f"node '{name}'",
            model,
            devices=devices,
            standby=standby,
            idempotent=idempotent,
            lanes=lanes,
            shapes=shapes,
            options=options,
        )
        what["max_left_behind"] = max_left_behind
        self._add(name, what, each, max_run_ms, _sources(name, reads, []))

    def connect(self, source: str, *ports: str) -> None:
        """Lets ``"node.port"`` ports read an input of the application, or another node's ``"node.port"``."""
        self._check_own()
        name_text("connect", source)
        ends = [(text, *name_text("connect", text).partition(".")) for text in ports]
        for text, name, dot, _ in ends:  # All before the first: what is refused leaves nothing behind.
            if not dot or name not in self._nodes:
                known = ", ".join(f"'{known}'" for known in self._nodes) or "none yet"
                raise InvalidArgument(
                    f"connect: no port '{text}'; expected 'node.port', the nodes being {known}",
                )
        for _, name, _, port in ends:
            self._nodes[name].sources.append((port, source))

    def state(self, source: str, port: str, initial: Path | None = None) -> None:
        """What ``source`` is for one frame, ``port`` reads at the next.

        initial: an .npy of what the first frame reads; without, zeros.
        """
        self._check_own()
        file = "" if initial is None else path_text("initial", initial)
        self._states.append({"from": name_text("state", source), "to": name_text("state", port), "initial": file})

    def start(
        self,
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
        output: Path | None = None,
    ) -> Pipeline:
        """Checks the application and starts it; the options are those of :func:`penstock.split`.

        native_code: False refuses libraries, of functions or of custom operators, before any is opened.

        Raises NotFound (a model, port or source), InvalidArgument (types that do not agree, a port
        without a source, a cycle without a state).
        """
        description = {
            "name": self._name,
            "yaml": self._yaml,
            "inputs": self._inputs,
            "outputs": self._outputs,
            "nodes": [node.what | {"inputs": node.sources} for node in self._nodes.values()],
            "states": self._states,
            "functions": declarations(self._functions),
            "served": [],
        }
        options = _run_options(locals())
        options["output"] = "" if output is None else path_text("output", output)
        return _start(_core.app, description, options, list(self._functions))

    def __repr__(self) -> str:
        if self._yaml:
            return f"<penstock.App of '{self._yaml}'>"
        sides = ([name for name, _ in self._inputs], list(self._nodes), [name for name, _ in self._outputs])
        return f"<penstock.App '{self._name}': {' -> '.join(', '.join(side) or '(none)' for side in sides)}>"

    def _check_own(self) -> None:
        if self._yaml:
            raise InvalidArgument(f"'{self._yaml}': is read as it is; expected all in the file, or all in Python")

    def _add(
        self, name: str, what: dict[str, Any], each: Sequence[str], max_run_ms: float | None, reads: dict[str, str]
    ) -> None:
        self._check_own()
        if name_text("node", name, "classify") in self._nodes:
            raise InvalidArgument(f"node '{name}': is there twice")
        what |= {"name": name, "each": listed("each", each), "max_run_ms": max_run_ms}
        self._nodes[name] = _Node(what, list(reads.items()))


def _sources(name: str, reads: Mapping[str, str] | Sequence[str] | None, ports: list[str]) -> dict[str, str]:
    """Port to source; `ports` are those that a list of sources goes by."""
    what = f"node '{name}': reads"
    if reads is None or isinstance(reads, Mapping):
        return {name_text(what, port): name_text(what, source) for port, source in (reads or {}).items()}
    sources = [name_text(what, source) for source in listed("reads", reads)]
    if len(sources) == len(ports):
        return dict(zip(ports, sources, strict=True))
    expected = f"{len(ports)} sources, of " + ", ".join(f"'{port}'" for port in ports) if ports else "{port: source}"
    raise InvalidArgument(f"{what}: expected {expected}, found {sources}")


def _type_text(what: str, port: PortType) -> str:
    """ "f32[1,n<=8]" of ("float32", (1, "n<=8")); `what` has this type."""
    if isinstance(port, str):
        return port
    try:
        dtype, shape = port
        name = str(np.dtype(dtype)) if not isinstance(dtype, str) else dtype
        return f"{_DTYPES.get(name, name)}[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"{what}: expected a type such as 'f32[1,3,224,224]' or ('float32', (1, 3, 224, 224)), found {port!r}"
        ) from None
