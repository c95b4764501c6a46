"""connect: a server's model as a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock import _core
from penstock.app import _served
from penstock.checks import name_text
from penstock.make import _run_options, _start
from penstock.pipeline import Pipeline
from penstock.types import OnError, Policy, Shape


def connect(
    address: str,
    model: str = "",
    *,
    version: str = "",
    replicas: str | Sequence[str] = (),
    standby: str | Sequence[str] = (),
    idempotent: bool = False,
    lanes: int = 0,
    shapes: Mapping[str, Shape] | None = None,
    options: Mapping[str, object] | None = None,
    policy: Policy | None = None,
    capacity: int | None = None,
    in_flight: int | None = None,
    max_age_ms: float | None = None,
    on_error: OnError | None = None,
    trace: bool = False,
) -> Pipeline:
    """A model that a server of the Open Inference Protocol has, as a pipeline: frames go there and back.

    The server is ``penstock serve``, Triton, MLServer, KServe or another one that speaks it over gRPC. Its model is
    asked for its inputs and outputs, which are the pipeline's. Several frames are on their way at a time.

    address: ``"host:port"``, or ``"unix:PATH"`` for a socket's file of this machine.
    model: its name there; without, the only model that the server has.
    version: of the model; without, the one that the server takes.
    replicas: addresses of other servers that have the model too: the one that is idle takes the next frame.
    standby: those that take over the frames of a server that is lost.
    idempotent: a frame that was sent to a server that was lost may be run again by another one.
    lanes: calls in flight at each server; 0: as many as is usual.
    shapes: of inputs and outputs whose sizes the server leaves open.
    options: how the server is reached: ``tls``, ``root_file``, ``certificate_file``, ``key_file``, ``token_file``,
        ``patience_ms`` (docs/remote.md).
    The others are those of :func:`penstock.split`.

    Raises Unavailable (no server is there), NotFound (it has no such model), InvalidArgument (it has several, and
    none is named), FailedPrecondition (it keeps states from request to request, or is decoupled). A frame that the server refuses, or
    that was lost with it, raises at its turn.
    """
    served = _served(
        "connect",
        f"oip://{name_text('address', address)}/{model}" + (f":{version}" if version else ""),
        devices=_servers([address, *_listed(replicas)]),
        standby=_servers(_listed(standby)),
        idempotent=idempotent,
        lanes=lanes,
        shapes=shapes,
        options=options,
    )
    given = {"pinned": None, "max_run_ms": None, "max_left_behind": None, "streams": None, "evict": False}
    started = _run_options({**locals(), **given, "backend_options": {"remote": options} if options else None})
    started["output"] = ""
    return _start(_core.app, {"yaml": "", "functions": [], "served": [served]}, started)


def _listed(addresses: str | Sequence[str]) -> list[str]:
    return [addresses] if isinstance(addresses, str) else list(addresses)


def _servers(addresses: Sequence[str]) -> list[str]:
    return [f"oip://{name_text('address', address)}" for address in addresses]
