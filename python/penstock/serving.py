"""Models behind a port, and models behind other ports."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.checks import backend_options_text, flag, mapping, path_text, unexpected
from penstock.closing import Closing
from penstock.errors import Cancelled
from penstock.judge import declarations, functions_of
from penstock.make import STATES, _constant, _state

if TYPE_CHECKING:
    from penstock.app import Function
    from penstock.types import Constant, Path, State


class Serving(Closing):
    """Models that are served, until the ``with`` block or the program ends, or :meth:`close`.

    Every method may be called from any thread; requests are answered by threads of its own.
    """

    def __init__(self, core: _core.Server) -> None:
        self._core = core
        # Also at the interpreter's end, while its threads can still be joined.
        self._end = weakref.finalize(self, core.stop)

    @property
    def grpc(self) -> str:
        """Where it listens for gRPC, "HOST:PORT", with the port that was chosen."""
        return self._core.grpc

    @property
    def http(self) -> str | None:
        """The same for HTTP; None: it does not."""
        return self._core.http or None

    @property
    def models(self) -> list[str]:
        """ "NAME version VERSION" of each model that is ready; none once it is closed."""
        return self._core.models() if self._end.alive else []

    def reload(self) -> None:
        """Reads each model again, while requests go on; none is lost. Raises the first error, of a model
        which then stays as it is; `Cancelled` where the server is closed."""
        if not self._end.alive:
            raise Cancelled("the server is closed")
        self._core.reload()

    def trace(self, path: Path) -> int:
        """Writes the last requests and frames for ui.perfetto.dev. Returns how many earlier spans are lost.

        Raises FailedPrecondition where it was started without ``trace=True``.
        """
        return self._core.write_trace(path_text("path", path))

    def close(self) -> None:
        """Takes no new requests, ends those in progress (for ``patience`` seconds), closes the ports."""
        self._end()

    def __repr__(self) -> str:
        state = f"at {self.grpc}" if self._end.alive else "closed"
        return f"<penstock.Serving {', '.join(self.models)} {state}>"


def serve(
    models: Path | Iterable[Path] | Mapping[str, Path],
    *,
    listen: str = "127.0.0.1:8001",
    http: str | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    tls_client_authority: Path | None = None,
    tokens: Path | None = None,
    insecure: bool = False,
    access_log: Path | None = None,
    trace: bool = False,
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    functions: Sequence[Function] = (),
    constants: Mapping[str, Constant] | Mapping[str, Mapping[str, Constant]] | None = None,
    states: Mapping[str, State] | Mapping[str, Mapping[str, State]] | None = None,
    native_code: bool = True,
    allow_native_code: bool = False,
    patience: float = 30.0,
    max_models: int | None = None,
    max_waiting: int | None = None,
    max_message: int | None = None,
    max_inputs: int | None = None,
    max_connections: int | None = None,
    max_streams: int | None = None,
    max_sequences: int | None = None,
) -> Serving:
    """Serves models to clients of the Open Inference Protocol (Triton, KServe), in this process.

    models: packages, applications (.yaml) or models (.onnx), each a path or ``"[NAME[:VERSION]=]PATH"``; or a
        dict of paths by name, or by ``"NAME:VERSION"``.
    listen, http: HOST:PORT for gRPC and for HTTP; port 0 is any that is free, see :attr:`Serving.grpc`.
    functions: the Python callables that applications name.
    constants, states: of a model (.onnx), as for :func:`penstock.split`: inputs that never change, and outputs of
        a request that are inputs of the next one of its sequence. Of several models each a dict by name:
        ``constants={"vad": {"sr": 16000}}``.
    The others are the options of ``penstock serve``; those left out have its defaults.
    Raises what loading a model raises; Unavailable where an address is taken; PermissionDenied where plain
    text would leave this machine.
    """

    def text(name: str, path: Path | None) -> str:
        return "" if path is None else path_text(name, path)

    sources = _sources(models)
    options = {
        "models": sources,
        "constants": [
            (model, str(name), _constant(name, value))
            for model, of_model in _by_model("constants", constants, sources)
            for name, value in mapping("constants", of_model, "{'sr': 16000}").items()
        ],
        "states": [
            (model, *_state(*pair))
            for model, of_model in _by_model("states", states, sources)
            for pair in mapping("states", of_model, STATES).items()
        ],
        "listen": listen,
        "http": http or "",
        "tls_certificate": text("tls_certificate", tls_certificate),
        "tls_key": text("tls_key", tls_key),
        "tls_client_authority": text("tls_client_authority", tls_client_authority),
        "tokens": text("tokens", tokens),
        "insecure": flag("insecure", insecure),
        "access_log": text("access_log", access_log),
        "trace": flag("trace", trace),
        "backend_options": backend_options_text(backend_options),
        "functions": declarations(functions_of(functions)),
        "native_code": flag("native_code", native_code),
        "allow_native_code": flag("allow_native_code", allow_native_code),
        "patience": float(patience),
        "max_models": max_models,
        "max_waiting": max_waiting,
        "max_message": max_message,
        "max_inputs": max_inputs,
        "max_connections": max_connections,
        "max_streams": max_streams,
        "max_sequences": max_sequences,
    }
    return Serving(_core.serve(options))


def _by_model(argument: str, given: Mapping[str, Any] | None, sources: list[str]) -> list[tuple[str, Any]]:
    """Settings with the model that they are for; that of the only model is called ""."""
    of_all = mapping(argument, given, "{'model': {...}}")
    nested = [value for value in of_all.values() if isinstance(value, Mapping)]
    if not of_all or (len(sources) == 1 and not nested):
        return [("", of_all)]
    if len(nested) == len(of_all):
        return [(str(model), of_model) for model, of_model in of_all.items()]
    raise unexpected(argument, "a dict for each model, by its name, as several are served", given)


def _sources(models: Path | Iterable[Path] | Mapping[str, Path]) -> list[str]:
    if isinstance(models, Mapping):
        return [f"{name}={path_text('models', path)}" for name, path in models.items()]
    if isinstance(models, str | os.PathLike):
        return [path_text("models", models)]
    if not isinstance(models, Iterable):
        raise unexpected("models", "a path, a list of paths or a dict of paths by name", models)
    return [path_text("models", path) for path in models]
