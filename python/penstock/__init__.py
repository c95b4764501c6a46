"""Penstock: an ONNX network as a pipeline of stages over the CPUs you have.

    import numpy as np
    import penstock

    images = np.zeros((100, 1, 3, 32, 32), np.float32)
    with penstock.split("model.onnx", cuts=["relu"]) as pipeline:
        for frame in pipeline.stream(images):
            print(frame["scores"].argmax())

Pipelines come from :func:`split` (a model and where to cut it), :func:`plan` (the cuts are found),
:func:`build` (all is measured), :func:`load` (a package) and :class:`App` (several networks and
functions), and :func:`connect` (a server's model). ``docs/python.md`` tells the rest.
"""

from collections.abc import Mapping as _Mapping

from penstock import errors, io, ready
from penstock._core import Frame
from penstock._core import version as __version__
from penstock.app import DROP, App, Drop, Function
from penstock.connecting import connect
from penstock.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PenstockError,
    PenstockWarning,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from penstock.judge import verify
from penstock.make import backends, build, cmake_dir, devices, explain, include_dir, load, plan, split
from penstock.pipeline import Pipeline, StreamOf, TensorInfo
from penstock.serving import Serving, serve
from penstock.stream import AsyncStream, Stream
from penstock.tuning import Tuner
from penstock.watching import Watching

_Mapping.register(Frame)

__all__ = [
    "DROP",
    "Aborted",
    "AlreadyExists",
    "App",
    "AsyncStream",
    "Cancelled",
    "DataLoss",
    "DeadlineExceeded",
    "Drop",
    "FailedPrecondition",
    "Frame",
    "Function",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "PenstockError",
    "PenstockWarning",
    "PermissionDenied",
    "Pipeline",
    "ResourceExhausted",
    "Serving",
    "Stream",
    "StreamOf",
    "TensorInfo",
    "Tuner",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Watching",
    "__version__",
    "backends",
    "build",
    "cmake_dir",
    "connect",
    "devices",
    "errors",
    "explain",
    "include_dir",
    "io",
    "load",
    "plan",
    "ready",
    "serve",
    "split",
    "verify",
]
